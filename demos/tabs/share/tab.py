"""Share: push a checkpoint to the Hub, verified, and pull one into this session."""

from collections.abc import Iterator

import gradio as gr
from huggingface_hub import constants

from ...core.events import RunEvent
from ...session.catalog import ModelCatalog
from ...session.page import LAST, LIGHT, NOW, Page, state_of, with_value
from ...session.run_files import NO_WEIGHTS
from ...session.session import Session
from ...ui import notices
from .card_preview import render_card
from .handlers import Sharing, find_folder, model_name, name_for, own_checkpoints, pull, push, stop
from .hub_login import login_button, offers_login
from .transfer import share_board

TITLE = "Share"
ASSETS = ("share.css", "share_board.js")
LOOK_FOR = (
    "the word verified: what was pushed is pulled back by a fresh process, and answers there as it does here."
)
KEPT_TOKEN = "The token stays in this field, is sent to the Hub when you push or pull, and is stored nowhere."
SIGNED = "Signed in, you push under your own name, and pull whatever your account can read."
PICKED = 6  # what `choose` gives
LINK = "Copy link, at the top, shares this view: checkpoint, repository and id, never a token."


def choose(catalog: ModelCatalog, session: Session, chosen: str | None, name: str) -> list:
    """[checkpoint, name, its error, origin, fold, card] for another checkpoint; a typed name stays."""
    choices = own_checkpoints(catalog, session)
    values = [value for _, value in choices]
    if chosen not in values:
        chosen = values[0] if values else None
    if not name or name in [name_for(session, value) for value in values]:
        name = name_for(session, chosen)
    origin = notices.NOTHING
    if chosen is not None:
        with catalog.open(session, chosen) as opened:
            origin = opened.origin
    return [gr.update(choices=choices, value=chosen), name, "", origin, gr.update(open=False), ""]


def preview(
    catalog: ModelCatalog, session: Session, sharing: Sharing, chosen: str | None, name: str
) -> Iterator[str]:
    yield notices.note("Measuring and writing the card.")
    try:
        yield render_card(find_folder(catalog, session, sharing, chosen, model_name(name)))
    except (ValueError, OSError) as error:
        yield notices.refusal(str(error))


def take_run(catalog: ModelCatalog, session: Session, run_id: str, name: str) -> list:
    """Share, pressed in Train's table: [tabs, Train's note, …as choose]; nothing without weights."""
    run = session.runs.get(run_id)
    if run is None or run.model is None:
        return [gr.skip(), notices.note(NO_WEIGHTS), *[gr.skip()] * PICKED]
    return [gr.Tabs(selected=TITLE.lower()), gr.skip(), *choose(catalog, session, run_id, name)]


def open_link(catalog: ModelCatalog, session: Session, values: dict, on: dict, origin: gr.HTML) -> dict:
    """Updates of the fields for a link; nothing is pushed. ValueError for an unknown checkpoint."""
    wanted = values["checkpoint"]
    if wanted is not None and wanted not in [value for _, value in own_checkpoints(catalog, session)]:
        raise ValueError(f"This link shows the checkpoint {wanted!r}, which this app does not have.")
    chosen, _, _, origin_line, *_ = choose(catalog, session, wanted, "")
    fields = {on["name"]: values["repository"], on["repo_id"]: values["hub_id"]}
    return {
        on["chosen"]: chosen,
        origin: origin_line,
        **{part: with_value(value) for part, value in fields.items()},
    }


def build_token() -> tuple[gr.Textbox, gr.HTML]:
    """Lay out signing in, or a token: (token, its error)."""
    can_sign_in = offers_login()
    if can_sign_in:
        login_button()
    token = gr.Textbox(
        "",
        label="Access token of the Hub",
        type="password",
        elem_id="share-token",
        visible=not can_sign_in,
        html_attributes=gr.InputHTMLAttributes(autocomplete="off", spellcheck=False),
    )
    error = notices.build_error_line("share-token-error")
    clear = gr.Button("Clear the token", size="sm", visible=not can_sign_in, elem_id="share-clear")
    gr.HTML(notices.note(SIGNED if can_sign_in else KEPT_TOKEN))
    clear.click(lambda: ["", ""], None, [token, error], **NOW)
    return token, error


def build_press(word: str, variant: str) -> tuple[gr.Button, gr.Button]:
    name, look = f"share-{word.lower()}", {"size": "md", "min_width": 0}
    with gr.Row(elem_classes="hf-share-press"):
        start = gr.Button(word, variant=variant, elem_id=name, **look)
        end = gr.Button("Stop", variant="stop", interactive=False, elem_id=f"{name}-stop", **look)
    return start, end


def build_push() -> dict:
    """Lay out what is pushed, as whom and where to, the board and the card."""
    parts = {}
    with gr.Row(elem_classes="hf-work"):
        with gr.Column(elem_classes=["hf-panel", "hf-side"], min_width=0):
            parts["chosen"] = gr.Dropdown([], label="Checkpoint", elem_id="share-checkpoint", min_width=0)
            parts["name"] = gr.Textbox("", label="Repository", elem_id="share-name", max_lines=1)
            parts["name_error"] = notices.build_error_line("share-name-error")
            parts["private"] = gr.Checkbox(
                True, label="Private", elem_id="share-private", elem_classes="switch"
            )
            parts["token"], parts["token_error"] = build_token()
            parts["push"], parts["stop_push"] = build_press("Push", "primary")
            gr.HTML(notices.note(f"The Hub here is {constants.ENDPOINT}."))
            gr.HTML(notices.note(LINK))
        with gr.Column(min_width=0):
            empty = (
                "Press Push: each step is shown here, and whether the pushed model gives the same answers."
            )
            parts["pushed"] = share_board("share-pushed", "Push to the Hub", empty)
            with gr.Column(elem_classes="hf-panel", min_width=0):
                title = "Card: README.md as it is pushed"
                with gr.Accordion(title, open=False, elem_id="share-card") as parts["fold"]:
                    parts["card"] = gr.HTML("")
    return parts


def build_pull() -> dict:
    parts = {}
    with gr.Row(elem_classes="hf-work"):
        with gr.Column(elem_classes=["hf-panel", "hf-side"], min_width=0):
            typed = {"elem_id": "share-id", "placeholder": "owner/attn-copy", "max_lines": 1}
            parts["repo_id"] = gr.Textbox("", label="Hub id", **typed)
            parts["id_error"] = notices.build_error_line("share-id-error")
            parts["pull"], parts["stop_pull"] = build_press("Pull", "secondary")
            gr.HTML(
                notices.note(
                    "Only weights, tokenizer and card are downloaded; no code of the repository runs."
                )
            )
        empty = (
            "Press Pull: the checkpoint is inspected, downloaded, verified, and offered in Try and Explore."
        )
        parts["pulled"] = share_board("share-pulled", "Pull from the Hub", empty)
    return parts


def wire_hub(page: Page, sharing: gr.State, on: dict) -> None:
    """Connect what talks to the Hub; Gradio passes a handler who is signed in, by its parameters' types."""
    catalog, session = page.catalog, page.session
    signed_profile, signed_token = gr.OAuthProfile | None, gr.OAuthToken | None
    long = {**LIGHT, "concurrency_id": "hub", "concurrency_limit": page.places}

    def start_push(
        session, sharing, chosen, name, private, typed, profile: signed_profile, signed: signed_token
    ):
        yield from push(catalog, session, sharing, chosen, name, private, typed, profile, signed)

    def start_pull(session, sharing, repo_id, typed, profile: signed_profile, signed: signed_token):
        yield from pull(session, sharing, repo_id, typed, profile, signed)

    pushed = [on[part] for part in ("pushed", "name_error", "token_error", "push", "stop_push")]
    inputs = [session, sharing, *(on[part] for part in ("chosen", "name", "private", "token"))]
    gr.on([on["push"].click, on["name"].submit, on["token"].submit], start_push, inputs, pushed, **long)
    pulled = [on[part] for part in ("pulled", "id_error", "pull", "stop_pull")]
    inputs = [session, sharing, on["repo_id"], on["token"]]
    gr.on([on["pull"].click, on["repo_id"].submit], start_pull, inputs, pulled, **long)
    on["stop_push"].click(lambda sharing: stop(sharing.push), sharing, None, **NOW)
    on["stop_pull"].click(lambda sharing: stop(sharing.pull), sharing, None, **NOW)


def build(page: Page) -> None:
    _, origin = notices.build_lead(LOOK_FOR, notices.NOTHING, "share-origin")
    on = {**build_push(), **build_pull()}
    sharing, session, catalog = state_of(Sharing()), page.session, page.catalog

    def turn(session, chosen, name):
        return choose(catalog, session, chosen, name)

    def show_card(session, sharing, chosen, name):
        yield from preview(catalog, session, sharing, chosen, name)

    chosen, name = on["chosen"], on["name"]
    picked = [chosen, name, on["name_error"], origin, on["fold"], on["card"]]
    page.tab.select(turn, [session, chosen, name], picked, **NOW)
    chosen.input(turn, [session, chosen, name], picked, **LAST)
    cleared = [on["name_error"], on["fold"], on["card"]]
    name.input(lambda: ["", gr.update(open=False), ""], None, cleared, **NOW)
    on["fold"].expand(show_card, [session, sharing, chosen, name], on["card"], **LIGHT)
    wire_hub(page, sharing, on)

    def share_run(session, name, event: RunEvent):
        return take_run(catalog, session, event.run, name)

    page.runs.share_run(share_run, [session, name], [page.tabs, page.note, *picked], **NOW)

    def restore(values, session):
        return open_link(catalog, session, values, on, origin)

    page.link_fields(
        {"checkpoint": chosen, "repository": name, "hub_id": on["repo_id"]},
        varying=("checkpoint",),
        weights="checkpoint",
        restore=restore,
        inputs=(session,),
        outputs=(origin,),
        buttons=(on["push"], on["pull"]),
    )
