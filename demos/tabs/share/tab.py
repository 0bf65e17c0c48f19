"""Share: push a checkpoint to the Hub, verified, and pull one into this session."""

from collections.abc import Iterator

import gradio as gr
from huggingface_hub import constants

from ...core.events import RunEvent
from ...session.page import LAST, LIGHT, NOW, JobView, Page, with_value
from ...session.run_files import note_without_weights
from ...session.session import Session
from ...ui import notices
from .card_preview import render_card
from .handlers import (
    PullJob,
    PushJob,
    find_folder,
    login_button,
    model_name,
    name_for,
    offers_login,
    own_checkpoints,
    press_pull,
    press_push,
    share_board,
    show_pull,
    show_push,
)

TITLE = "Share"
ASSETS = ("share.css", "share_board.js")
BEGIN: list[notices.Part] = [
    "Push, then we check: the model is downloaded again in a new process and must give the same answers."
]
KEPT_TOKEN = "Your token is sent to the Hub only when you press a button. We never store it."
SIGNED = "Signed in, you push under your own name, and pull whatever your account can read."
LINK = "Copy link, at the top, shares this view: checkpoint, repository and id, never a token."


def choose(session: Session, values: dict) -> dict:
    """Another checkpoint: its name, origin and card; a typed name stays."""
    choices, chosen, name = own_checkpoints(session), values["checkpoint"], values["repository"]
    offered = [value for _, value in choices]
    if chosen not in offered:
        chosen = offered[0] if offered else None
    if not name or name in [name_for(session, value) for value in offered]:
        name = name_for(session, chosen)
    origin = notices.NOTHING
    if chosen is not None:
        with session.catalog.open(session, chosen) as opened:
            origin = opened.origin
    picked = {"checkpoint": gr.update(choices=choices, value=chosen), "repository": name, "origin": origin}
    return picked | close_card(session)


def close_card(_: Session) -> dict:
    return {"name_error": "", "fold": gr.update(open=False), "card": ""}


def show_card(session: Session, values: dict) -> Iterator[dict]:
    yield {"card": notices.note("Measuring and writing the card.")}
    try:
        folder = find_folder(session, values["checkpoint"], model_name(values["repository"]))
        yield {"card": render_card(folder)}
    except (ValueError, OSError) as error:
        yield {"card": notices.refusal(str(error))}


def take_run(session: Session, values: dict, event: RunEvent) -> dict:
    """Share, pressed in Train's table; nothing without weights."""
    run = session.runs.get(event.run)
    if run is None or run.model is None:
        return {"note": note_without_weights(run)}
    chosen = {"checkpoint": event.run, "repository": values["repository"]}
    return {"tabs": gr.Tabs(selected=TITLE.lower()), **choose(session, chosen)}


def restore_fields(session: Session, values: dict) -> dict:
    """Updates of the fields for a link; nothing is pushed. ValueError for an unknown checkpoint."""
    wanted = values["checkpoint"]
    if wanted is not None and wanted not in [value for _, value in own_checkpoints(session)]:
        raise ValueError(f"This link shows the checkpoint {wanted!r}, which this app does not have.")
    chosen = choose(session, {"checkpoint": wanted, "repository": ""})
    typed = {name: with_value(values[name]) for name in ("repository", "hub_id")}
    return {"checkpoint": chosen["checkpoint"], "origin": chosen["origin"], **typed}


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
    parts = {}
    with gr.Row(elem_classes="hf-work"):
        with gr.Column(elem_classes=["hf-panel", "hf-side"], min_width=0):
            parts["checkpoint"] = gr.Dropdown([], label="Checkpoint", elem_id="share-checkpoint", min_width=0)
            parts["repository"] = gr.Textbox("", label="Repository", elem_id="share-name", max_lines=1)
            parts["name_error"] = notices.build_error_line("share-name-error")
            parts["private"] = gr.Checkbox(
                True, label="Private", elem_id="share-private", elem_classes="switch"
            )
            parts["token"], parts["token_error"] = build_token()
            parts["push"], parts["stop_push"] = build_press("Push", "primary")
            gr.HTML(notices.note(f"The Hub here is {constants.ENDPOINT}."))
            gr.HTML(notices.note(LINK))
        with gr.Column(min_width=0):
            empty = "Press Push. The steps and the final check appear here."
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
            parts["hub_id"] = gr.Textbox("", label="Hub id", **typed)
            parts["id_error"] = notices.build_error_line("share-id-error")
            parts["pull"], parts["stop_pull"] = build_press("Pull", "secondary")
            gr.HTML(
                notices.note(
                    "Only weights, tokenizer and card are downloaded; no code of the repository runs."
                )
            )
        empty = "Press Pull. The steps appear here; the model is then offered in Try and Explore."
        parts["pulled"] = share_board("share-pulled", "Pull from the Hub", empty)
    return parts


def wire_hub(page: Page, parts: dict) -> None:
    """Connect what talks to the Hub; Gradio passes who is signed in, by the parameters' types."""

    def pick(*names: str) -> dict:
        return {name: parts[name] for name in names}

    shown = pick("pushed", "name_error", "token_error", "push", "stop_push")
    view = JobView(kind=PushJob, show=show_push, shows=shown)
    asked_by = [parts["push"].click, parts["repository"].submit, parts["token"].submit]
    typed = pick("checkpoint", "repository", "private", "token")
    page.drive(view, asked_by, press_push, typed, parts["stop_push"].click, concurrency_id="hub")
    view = JobView(kind=PullJob, show=show_pull, shows=pick("pulled", "id_error", "pull", "stop_pull"))
    asked_by = [parts["pull"].click, parts["hub_id"].submit]
    page.drive(
        view, asked_by, press_pull, pick("hub_id", "token"), parts["stop_pull"].click, concurrency_id="hub"
    )


def build(page: Page) -> None:
    _, origin = notices.build_lead(BEGIN, notices.NOTHING, "share-origin")
    parts = {**build_push(), **build_pull(), "origin": origin}
    named = {name: parts[name] for name in ("checkpoint", "repository")}
    picked = {name: parts[name] for name in (*named, "origin", "name_error", "fold", "card")}
    page.connect(page.tab.select, choose, named, picked, **NOW)
    page.connect(parts["checkpoint"].input, choose, named, picked, **LAST)
    page.connect(parts["repository"].input, close_card, None, picked, **NOW)
    page.connect(parts["fold"].expand, show_card, named, {"card": parts["card"]}, **LIGHT)
    wire_hub(page, parts)
    beside = {"tabs": page.tabs, "note": page.note}
    for board in page.runs:
        page.connect(board.share_run, take_run, named, {**picked, **beside}, **NOW)
    page.link_fields(
        {**named, "hub_id": parts["hub_id"]},
        varying=("checkpoint",),
        weights="checkpoint",
        restore=restore_fields,
        shows={"origin": origin},
        buttons=(parts["push"], parts["pull"]),
    )
