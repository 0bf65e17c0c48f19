"""Push a checkpoint of a session to the Hub, and pull one into the session: handlers of the Share tab."""

import importlib.util
import os
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import gradio as gr
from huggingface_hub import constants

from hf_attn.hub.client import HubError, Progress, check_repo_id
from hf_attn.hub.pull import LARGEST, Pulled, pull_checkpoint
from hf_attn.hub.push import Pushed, push_checkpoint

from ...core.limits import MEGABYTE, is_space, limits_here
from ...jobs.job import FAILED, STOPPED
from ...session.catalog import KEPT_OTHERS, NONE_YET
from ...session.run_files import save_run
from ...session.session import Session
from ...ui import notices
from .card_preview import read_card
from .transfer import Transfer, describe_pull, describe_push

NEEDED = ("OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET", "OAUTH_SCOPES", "OPENID_PROVIDER_URL")  # `hf_oauth: true`
BESIDE_WEIGHTS = 20 * MEGABYTE  # of a pulled checkpoint: tokenizer, card, pictures
BYTES = 4  # of a float32 parameter
NOT_ALLOWED = (401, 403)  # what the Hub answers to a token that will not do
NOT_PULLED = "Nothing was pulled: see the line under the Hub id."
OFFERED = "It is offered in Try and Explore as {}, for this session."


class PushJob(Transfer):
    """A visitor's push."""

    failure = "The push failed"


class PullJob(Transfer):
    """A visitor's pull."""

    failure = "The pull failed"


def own_checkpoints(session: Session) -> list[tuple[str, str]]:
    """Checkpoints of this project: not those that a visitor only opened by id or path."""
    others = set(session.opened) - set(session.pulled)
    return [(label, value) for label, value in session.catalog.choices(session) if value not in others]


def name_for(session: Session, chosen: str | None) -> str:
    """The repository name that is proposed for a checkpoint."""
    run = session.runs.get(chosen)
    return f"attn-{run.task.name}" if run is not None else Path(chosen or "").name


def find_folder(session: Session, chosen: str | None, name: str) -> Path:
    """The folder of a checkpoint, a run saved once for each step and name; ValueError where there is none."""
    run = session.runs.get(chosen)
    if run is None:
        known = {str(path): path for _, path in session.catalog.folders} | session.pulled
        if chosen not in known:
            raise ValueError("Choose a checkpoint first." if own_checkpoints(session) else NONE_YET)
        return known[chosen]
    key = (run.id, run.step, name)
    if session.saved is None or session.saved[0] != key or not session.saved[1].is_dir():
        session.saved = (key, save_run(session, run, name))
    return session.saved[1]


def model_name(name: str) -> str:
    return check_repo_id(name.strip()).rpartition("/")[2]


def check_token(token: str) -> str:
    """Return the token; ValueError, before anything is sent, where no token could look so."""
    if not token.isascii() or not token.isprintable() or " " in token:
        raise ValueError(
            "This is not an access token: it has no spaces, accents or line breaks. Copy it again."
        )
    return token


def offers_login() -> bool:
    """Whether visitors can sign in: in a Space with an OAuth app, and the packages for it."""
    has_packages = all(importlib.util.find_spec(name) for name in ("authlib", "itsdangerous"))
    is_hosted = is_space() and os.environ.get("SYSTEM") == "spaces"  # elsewhere Gradio makes a user up
    return is_hosted and has_packages and all(os.environ.get(name) for name in NEEDED)


def login_button() -> gr.LoginButton | None:
    return gr.LoginButton(size="md", min_width=0, elem_id="login") if offers_login() else None


def visitor_token(
    typed: str | None, profile: gr.OAuthProfile | None = None, signed: gr.OAuthToken | None = None
) -> tuple[str, str]:
    """(user name, token) to push with, a typed token first; ValueError where there is none.

    Gradio passes the last two to a handler whose parameters have these types. A typed token has no name.
    """
    if token := (typed or "").strip():
        return "", token
    if signed is not None:
        return (profile.username if profile is not None else ""), signed.token
    way = "Sign in above, or paste" if offers_login() else "Paste"
    raise ValueError(
        f"Nobody is signed in. {way} an access token with write permission, from the Hub's settings."
    )


def press_push(
    session: Session,
    values: dict,
    profile: gr.OAuthProfile | None = None,
    signed: gr.OAuthToken | None = None,
) -> dict:
    """Start to push a checkpoint; nothing while one is pushed."""
    job, name = session.state(PushJob), values["repository"].strip()
    if job.is_busy:
        return {}
    try:
        model = model_name(name)
    except ValueError as error:
        return {"name_error": notices.field_error(str(error)), "token_error": ""}
    try:
        token = check_token(visitor_token(values["token"], profile, signed)[1])
    except ValueError as error:
        return {"name_error": "", "token_error": notices.field_error(str(error))}

    def steps(ending: threading.Event) -> Iterator[Progress | dict]:
        yield Progress("saving", f"Getting {model} ready.")
        folder = find_folder(session, values["checkpoint"], model)
        hub = {"token": token, "endpoint": session.endpoint, "sleep": ending.wait}
        for step in push_checkpoint(folder, name, private=values["private"], **hub):
            if isinstance(step, Pushed):
                yield describe_push(step, read_card(folder))
            else:
                yield replace(step, message=step.message.replace(str(folder), model))

    job.start(steps)
    return show_push(session)


def show_push(session: Session) -> dict:
    """The push as it stands; what the Hub says against the token stands under it."""
    job = session.state(PushJob)
    is_busy, refused = job.is_busy, ""
    message = {STOPPED: why_push_stopped(job), FAILED: job.message}.get(job.status, "")
    if isinstance(job.fault, HubError) and job.fault.status in NOT_ALLOWED:
        message, refused = "The Hub refused the token: see the line under it.", job.message
    return {
        "pushed": job.to_value(message),
        "name_error": "",
        "token_error": notices.field_error(refused),
        "push": gr.update(interactive=not is_busy),
        "stop_push": gr.update(interactive=is_busy),
    }


def why_push_stopped(transfer: Transfer) -> str:
    if transfer.reached("pushed"):
        return "Stopped before it was verified: what was pushed is there."
    if transfer.reached("uploading"):
        return (
            "Stopped while uploading: the repository is as it was, or has everything. Push again to be sure."
        )
    return "Stopped: nothing of the checkpoint was pushed."


def press_pull(
    session: Session,
    values: dict,
    profile: gr.OAuthProfile | None = None,
    signed: gr.OAuthToken | None = None,
) -> dict:
    """Start to pull a checkpoint into the session; nothing while one is pulled."""
    job, repo_id, limits = session.state(PullJob), (values["hub_id"] or "").strip(), limits_here()
    if job.is_busy:
        return {}
    largest = min(LARGEST, limits.download_bytes, BYTES * limits.parameters + BESIDE_WEIGHTS)

    def steps(ending: threading.Event) -> Iterator[Progress | dict]:
        token: str | bool | None = limits.own_token
        if (values["token"] or "").strip() or signed is not None:
            token = check_token(visitor_token(values["token"], profile, signed)[1])
        folder = session.new_folder(model_name(repo_id))
        hub = {"token": token, "endpoint": session.endpoint, "sleep": ending.wait}
        for step in pull_checkpoint(repo_id, folder, largest=largest, **hub):
            if isinstance(step, Pulled):
                if ending.is_set():  # the visitor was told that nothing was kept
                    return
                keep(session, step)
                url = f"{session.endpoint or constants.ENDPOINT}/{step.repo_id}"
                yield describe_pull(step, url, read_card(folder)) | {"message": OFFERED.format(step.repo_id)}
            else:
                yield step

    job.start(steps)
    return show_pull(session)


def show_pull(session: Session) -> dict:
    """The pull as it stands; why it failed stands under the id."""
    job = session.state(PullJob)
    is_busy, has_failed = job.is_busy, job.status == FAILED
    message = {STOPPED: "Stopped: nothing was kept.", FAILED: NOT_PULLED}.get(job.status, "")
    return {
        "pulled": job.to_value(message),
        "id_error": notices.field_error(job.message if has_failed else ""),
        "pull": gr.update(interactive=not is_busy),
        "stop_pull": gr.update(interactive=is_busy),
    }


def keep(session: Session, pulled: Pulled) -> None:
    """Offer a pulled checkpoint to this visitor; what it replaces, or else the oldest of many, is deleted."""
    deleted = [session.pulled.pop(pulled.repo_id, None)]
    if len(session.pulled) == KEPT_OTHERS:
        deleted.append(session.pulled.pop(next(iter(session.pulled))))
    for folder in filter(None, deleted):
        shutil.rmtree(folder, ignore_errors=True)
    session.pulled[pulled.repo_id] = pulled.path
