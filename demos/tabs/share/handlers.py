"""Push a checkpoint of a session to the Hub, and pull one into the session: handlers of the Share tab."""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import gradio as gr
from huggingface_hub import constants

from hf_attn.hub.client import HubError, Progress, check_repo_id
from hf_attn.hub.pull import LARGEST, Pulled, pull_checkpoint
from hf_attn.hub.push import Pushed, push_checkpoint

from ...core.limits import MEGABYTE, limits_here
from ...session.catalog import KEPT_OTHERS, NONE_YET, ModelCatalog
from ...session.run_files import save_run
from ...session.session import Session
from ...ui import notices
from .card_preview import read_card
from .hub_login import visitor_token
from .transfer import Transfer, describe_pull, describe_push

BESIDE_WEIGHTS = 20 * MEGABYTE  # of a pulled checkpoint: tokenizer, card, pictures
BYTES = 4  # of a float32 parameter
NOT_ALLOWED = (401, 403)  # what the Hub answers to a token that will not do
OFFERED = "It is offered in Try and Explore as {}, for this session."


@dataclass(eq=False)
class Sharing:
    """What a visitor's tab is about.

    Attributes:
        push, pull: the last of each; None before the first.
        saved: what a run was saved as (run, step, name), and the folder.
        endpoint: another Hub than HF_ENDPOINT's.
    """

    push: Transfer | None = None
    pull: Transfer | None = None
    saved: tuple[tuple, Path] | None = None
    endpoint: str | None = None


def own_checkpoints(catalog: ModelCatalog, session: Session) -> list[tuple[str, str]]:
    """Checkpoints of this project: not those that a visitor only opened by id or path."""
    others = [name for name in catalog.others.get(session, {}) if name not in session.pulled]
    return [(label, value) for label, value in catalog.choices(session) if value not in others]


def name_for(session: Session, chosen: str | None) -> str:
    """The repository name that is proposed for a checkpoint."""
    run = session.runs.get(chosen)
    return f"attn-{run.task.name}" if run is not None else Path(chosen or "").name


def find_folder(
    catalog: ModelCatalog, session: Session, sharing: Sharing, chosen: str | None, name: str
) -> Path:
    """The folder of a checkpoint, a run saved once for each step and name; ValueError where there is none."""
    run = session.runs.get(chosen)
    if run is None:
        known = {str(path): path for _, path in catalog.folders} | session.pulled
        if chosen not in known:
            raise ValueError("Choose a checkpoint first." if own_checkpoints(catalog, session) else NONE_YET)
        return known[chosen]
    key = (run.id, run.step, name)
    if sharing.saved is None or sharing.saved[0] != key or not sharing.saved[1].is_dir():
        sharing.saved = (key, save_run(session, run, name))
    return sharing.saved[1]


def model_name(name: str) -> str:
    """The repository's name without its owner."""
    return check_repo_id(name.strip()).rpartition("/")[2]


def check_token(token: str) -> str:
    """Return the token; ValueError, before anything is sent, where no token could look so."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(
            "This is not an access token: it has no spaces, accents or line breaks. Copy it again."
        )
    return token


def buttons(*, is_busy: bool) -> list[dict]:
    """[start, stop]."""
    return [gr.update(interactive=not is_busy), gr.update(interactive=is_busy)]


def push(
    catalog: ModelCatalog,
    session: Session,
    sharing: Sharing,
    chosen: str | None,
    name: str,
    private: bool,
    typed: str,
    profile: gr.OAuthProfile | None = None,
    signed: gr.OAuthToken | None = None,
) -> Iterator[list]:
    """Push a checkpoint: [board, name's error, token's error, Push, Stop], as long as it goes on."""
    idle, busy = buttons(is_busy=False), buttons(is_busy=True)
    try:
        model = model_name(name)
    except ValueError as error:
        yield [gr.skip(), notices.field_error(str(error)), "", *idle]
        return
    try:
        token = check_token(visitor_token(typed, profile, signed)[1])
    except ValueError as error:
        yield [gr.skip(), "", notices.field_error(str(error)), *idle]
        return
    transfer = sharing.push = Transfer()

    def steps() -> Iterator[Progress | dict]:
        yield Progress("saving", f"Getting {model} ready.")
        folder = find_folder(catalog, session, sharing, chosen, model)
        hub = {"token": token, "endpoint": sharing.endpoint, "sleep": transfer.sleep}
        for step in push_checkpoint(folder, name.strip(), private=private, **hub):
            if isinstance(step, Pushed):
                yield describe_push(step, read_card(folder))
            else:
                yield replace(step, message=step.message.replace(str(folder), model))

    try:
        for board in transfer.values(steps(), why_push_stopped):
            yield [board, "", "", *busy]
        yield [gr.skip(), "", "", *idle]
    except (ValueError, OSError) as error:
        is_token = isinstance(error, HubError) and error.status in NOT_ALLOWED
        board = transfer.to_value(
            "failed", "The Hub refused the token: see the line under it." if is_token else str(error)
        )
        yield [board, "", notices.field_error(str(error) if is_token else ""), *idle]


def why_push_stopped(transfer: Transfer) -> str:
    if transfer.reached("pushed"):
        return "Stopped before it was verified: what was pushed is there."
    if transfer.reached("uploading"):
        return (
            "Stopped while uploading: the repository is as it was, or has everything. Push again to be sure."
        )
    return "Stopped: nothing of the checkpoint was pushed."


def pull(
    session: Session,
    sharing: Sharing,
    repo_id: str,
    typed: str,
    profile: gr.OAuthProfile | None = None,
    signed: gr.OAuthToken | None = None,
) -> Iterator[list]:
    """Pull a checkpoint into the session: [board, id's error, Pull, Stop], as long as it goes on."""
    idle, busy, repo_id = buttons(is_busy=False), buttons(is_busy=True), (repo_id or "").strip()
    transfer = sharing.pull = Transfer()
    limits = limits_here()
    largest = min(LARGEST, limits.download_bytes, BYTES * limits.parameters + BESIDE_WEIGHTS)

    def steps() -> Iterator[Progress | dict]:
        token: str | bool | None = limits.own_token
        if (typed or "").strip() or signed is not None:
            token = check_token(visitor_token(typed, profile, signed)[1])
        folder = session.new_folder(model_name(repo_id))
        hub = {"token": token, "endpoint": sharing.endpoint, "sleep": transfer.sleep}
        for step in pull_checkpoint(repo_id, folder, largest=largest, **hub):
            if isinstance(step, Pulled):
                keep(session, step)
                url = f"{sharing.endpoint or constants.ENDPOINT}/{step.repo_id}"
                yield describe_pull(step, url, read_card(folder)) | {"message": OFFERED.format(step.repo_id)}
            else:
                yield step

    try:
        for board in transfer.values(steps(), lambda _: "Stopped: nothing was kept."):
            yield [board, "", *busy]
        yield [gr.skip(), "", *idle]
    except (ValueError, OSError) as error:
        yield [
            transfer.to_value("failed", "Nothing was pulled: see the line under the Hub id."),
            notices.field_error(str(error)),
            *idle,
        ]


def keep(session: Session, pulled: Pulled) -> None:
    """Offer a pulled checkpoint to this visitor; what it replaces, or else the oldest of many, is deleted."""
    deleted = [session.pulled.pop(pulled.repo_id, None)]
    if len(session.pulled) == KEPT_OTHERS:
        deleted.append(session.pulled.pop(next(iter(session.pulled))))
    for folder in filter(None, deleted):
        shutil.rmtree(folder, ignore_errors=True)
    session.pulled[pulled.repo_id] = pulled.path


def stop(transfer: Transfer | None) -> None:
    if transfer is not None:
        transfer.ending.set()
