"""Push a checkpoint of a session to the Hub, and pull one into it: the Share tab's jobs and handlers.

`share_board` takes a `ShareValue` of `ui/board_values.d.ts`.
"""

import contextlib
import importlib.util
import json
import math
import os
import queue
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import gradio as gr
from huggingface_hub import constants

from hf_attn.hub.client import HubError, Progress, check_repo_id, in_megabytes, join_names
from hf_attn.hub.pull import LARGEST, Pulled, pull_checkpoint
from hf_attn.hub.push import Pushed, push_checkpoint

from ...core.limits import MEGABYTE, is_space, limits_here
from ...jobs.job import FAILED, STOPPED, ReportedJob
from ...session.catalog import KEPT_OTHERS, NONE_YET
from ...session.run_files import save_run
from ...session.session import Session
from ...ui import boards, notices
from .card_preview import read_card

LOOK_EVERY = 0.2  # seconds between two looks at whether it is to stop
USE = re.compile(r"^## Use\n+```python\n(.*?)```", re.DOTALL | re.MULTILINE)
CHECKPOINT_LINE = re.compile(r"^checkpoint = .*$", re.MULTILINE)
NEEDED = ("OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET", "OAUTH_SCOPES", "OPENID_PROVIDER_URL")  # `hf_oauth: true`
BESIDE_WEIGHTS = 20 * MEGABYTE  # of a pulled checkpoint: tokenizer, card, pictures
BYTES = 4  # of a float32 parameter
NOT_ALLOWED = (401, 403)  # what the Hub answers to a token that will not do
NOT_PULLED = "Nothing was pulled: see the line under the Hub id."
OFFERED = "It is offered in Try and Explore as {}, for this session."


@dataclass(eq=False)
class Transfer(ReportedJob):
    """A push or a pull; nothing before the first."""

    # what it does; each gives its Progress, the last one what the board shows in the end
    steps: Iterator[Progress | dict] | None = None
    # what it did so far, one entry a stage, the newest last
    news: list[Progress] = field(default_factory=list)
    result: dict = field(default_factory=dict)  # of one that is done
    fault: Exception | None = None  # what failed
    # set when it is stopped: it takes no further step then
    ending: threading.Event = field(default_factory=threading.Event)

    message_seconds = 0.0
    seconds_allowed = math.inf

    def start(self, steps: Callable[[threading.Event], Iterator[Progress | dict]]) -> None:
        """Take the place of the last one; `steps` gets its `ending`, to wait for instead of sleeping."""
        self.prepare({})
        self.ending = threading.Event()
        self.steps, self.news, self.result, self.fault = steps(self.ending), [], {}, None

    def begin(self) -> None:
        self.reports = self._take_steps()

    def _take_steps(self) -> Iterator[Progress | dict | None]:
        """Yield the steps, and None now and then in between. A step may raise.

        A step may take long, so a thread takes it; one that is under way when it stops ends by itself, also
        where another transfer has begun since.
        """
        arrived: queue.SimpleQueue = queue.SimpleQueue()
        steps, ending = self.steps, self.ending

        def work() -> None:
            try:
                with contextlib.closing(steps):
                    for step in steps:
                        arrived.put((step, None))
                        if ending.is_set():
                            return
                arrived.put((None, StopIteration()))
            except Exception as error:  # raised again where it is shown or logged
                arrived.put((None, error))

        threading.Thread(target=work, daemon=True).start()
        while True:
            try:
                step, ended = arrived.get(timeout=LOOK_EVERY)
            except queue.Empty:
                yield None
                continue
            if isinstance(ended, StopIteration):
                return
            if ended is not None:
                raise ended
            yield step

    def advance(self) -> bool:
        """Take one step; none follows the result, so that it cannot be stopped any more."""
        return super().advance() and not self.result

    def take(self, report: Progress | dict | None) -> None:
        if isinstance(report, Progress):
            if self.news and self.news[-1].stage == report.stage:
                self.news.pop()
            self.news.append(report)
        elif report is not None:
            self.result = report

    def stop(self) -> None:
        self.ending.set()
        super().stop()

    def release(self) -> None:
        super().release()
        self.ending.set()

    def fail(self, error: Exception) -> None:
        self.fault = error
        if isinstance(error, ValueError | OSError):  # what the Hub or the disk refuses: nobody's bug
            self.status, self.message = FAILED, str(error)
        else:
            super().fail(error)

    def reached(self, stage: str) -> bool:
        return any(step.stage == stage for step in self.news)

    def to_value(self, message: str = "") -> str | None:
        """The board's value, with a message on how it ended."""
        if self.status is None:
            return None
        now = self.news[-1] if self.news else Progress("", "")
        steps = [{"stage": step.stage, "message": step.message} for step in self.news]
        value = {"status": self.status, "steps": steps, "message": message, "done": now.done}
        return boards.to_json({**value, "total": now.total, **self.result})


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


def model_name(name: str | None) -> str:
    return check_repo_id((name or "").strip()).rpartition("/")[2]


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


def visitor_token(typed: str | None, signed: gr.OAuthToken | None = None) -> str:
    """The token to push with, a typed one first; ValueError where there is none.

    Gradio passes the last to a handler whose parameter has this type.
    """
    if token := (typed or "").strip():
        return token
    if signed is not None:
        return signed.token
    way = "Sign in above, or paste" if offers_login() else "Paste"
    raise ValueError(
        f"Nobody is signed in. {way} an access token with write permission, from the Hub's settings."
    )


def press_push(session: Session, values: dict, signed: gr.OAuthToken | None = None) -> dict:
    """Start to push a checkpoint; nothing while one is pushed."""
    job, name = session.state(PushJob), values["repository"].strip()
    if job.is_busy:
        return {}
    try:
        model = model_name(name)
    except ValueError as error:
        return {"name_error": notices.field_error(str(error)), "token_error": ""}
    try:
        token = check_token(visitor_token(values["token"], signed))
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
        return "Stopped before the check. The pushed files are on the Hub."
    if transfer.reached("uploading"):
        return "Stopped during the upload. The Hub has all of the files or none. Push again to be sure."
    return "Stopped: nothing of the checkpoint was pushed."


def press_pull(session: Session, values: dict, signed: gr.OAuthToken | None = None) -> dict:
    """Start to pull a checkpoint into the session; nothing while one is pulled."""
    job, repo_id, limits = session.state(PullJob), (values["hub_id"] or "").strip(), limits_here()
    if job.is_busy:
        return {}
    largest = min(LARGEST, limits.download_bytes, BYTES * limits.parameters + BESIDE_WEIGHTS)

    def steps(ending: threading.Event) -> Iterator[Progress | dict]:
        token: str | bool | None = limits.own_token
        if (values["token"] or "").strip() or signed is not None:
            token = check_token(visitor_token(values["token"], signed))
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


def describe_push(pushed: Pushed, card: str) -> dict:
    audience = "only its owner (private)" if pushed.private else "everybody (public)"
    sent = f"{len(pushed.sent)} files, {in_megabytes(pushed.size)}" if pushed.sent else "nothing had changed"
    facts = {
        "seen by": audience,
        "commit": pushed.commit[:10],
        "sent": sent,
        "removed on the Hub": join_names(pushed.removed),
        "not sent": join_names(pushed.left_out),
    }
    title = "Pushed and verified" if pushed.verified else "Pushed, but not verified"
    code = load_lines(card, pushed.repo_id, is_private=pushed.private) + embed_lines()
    return {"result": describe_end(pushed, title, pushed.url, facts), "code": code}


def describe_pull(pulled: Pulled, url: str, card: str) -> dict:
    got = f"{len(pulled.files)} files, {in_megabytes(pulled.size)}"
    facts = {"commit": pulled.commit[:10], "downloaded": got, "not downloaded": join_names(pulled.left_out)}
    title = "Pulled and checked" if pulled.verified else "Pulled, but it answers differently"
    return {"result": describe_end(pulled, title, url, facts), "code": load_lines(card, pulled.repo_id)}


def describe_end(end: Pushed | Pulled, title: str, url: str, facts: dict[str, str]) -> dict:
    known = [(name, fact) for name, fact in {"repository": end.repo_id, **facts}.items() if fact]
    verified = {"verified": end.verified, "differences": end.differences}
    return {"title": title, "url": url, "facts": known, **verified}


def load_lines(card: str, repo_id: str, *, is_private: bool = False) -> list[dict]:
    """The card's own lines that load the model, with its id on the Hub; none where the card has none."""
    found = USE.search(card)
    if found is None:
        return []
    lines = CHECKPOINT_LINE.sub(lambda _: f"checkpoint = {json.dumps(repo_id)}", found[1], count=1).strip()
    login = " (private: log in first in a terminal, hf auth login)" if is_private else ""
    return [{"title": f"Load it with transformers{login}", "text": lines}]


def embed_lines() -> list[dict]:
    """The line that shows this app in another page, where a Space runs it."""
    host = os.environ.get("SPACE_HOST", "")
    if not re.fullmatch(r"[\w.-]+", host):
        return []
    address = f"https://{host}"
    line = f'<iframe src="{address}" title="hf_attn" width="100%" height="900"></iframe>'
    return [{"title": "Show this app in a page", "text": line}]


def share_board(elem_id: str, title: str, empty: str) -> gr.HTML:
    template = f'<div class="hf-share hf-board" data-title="{title}" data-empty="{empty}"></div>'
    return boards.build_board("share_board", "hf-share", elem_id, template=template)
