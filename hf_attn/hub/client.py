"""Calls to the Hub: names of repos, retries, and a sentence for every refusal.

A token is only passed on: no report, error or file here holds one.
"""

import contextlib
import email.utils
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from httpx2 import ConnectError, TimeoutException, TransportError
from huggingface_hub import HfApi, get_token
from huggingface_hub.errors import (
    DisabledRepoError,
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from huggingface_hub.utils import validate_repo_id

from hf_attn.utils.text import quote

ATTEMPTS = 4
FIRST_WAIT, LONGEST_WAIT = 1.0, 60.0  # seconds
TEMPORARY = (408, 425, 429, 500, 502, 503, 504)  # statuses that may pass
TOKENS = "https://huggingface.co/settings/tokens"
MOST_NAMED = 6  # files, in a sentence
NO_ANSWER = (HfHubHTTPError, TransportError, OfflineModeIsEnabled)  # the Hub refused, or was not reached
Answer = TypeVar("Answer")
Sleep = Callable[[float], Any]


class HubError(OSError):
    """The Hub refused, or could not be reached. The message is for a person.

    Attributes:
        status: HTTP status of the answer; None without an answer.
    """

    def __init__(self, message: str, status: int | None = None):
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class Progress:
    """How far a push or a pull has come.

    Attributes:
        stage: one word: checking, connecting, comparing, uploading, downloading, waiting, …
        message: a sentence.
        done, total: bytes, or 0 where nothing is counted.
    """

    stage: str
    message: str
    done: int = 0
    total: int = 0


class Compared:
    """A result that names in `differences` what the model answers otherwise than before."""

    differences: tuple[str, ...]

    @property
    def verified(self) -> bool:
        """Whether the model answers as it did before."""
        return not self.differences


def check_repo_id(repo_id: str) -> str:
    """Return the id, if a repo can have it; else ValueError says how ids are written."""
    try:
        validate_repo_id(repo_id)
    except HFValidationError as error:
        problem = f"A repo cannot be called {quote(repo_id)}" if repo_id else "The repo's name is empty"
        raise ValueError(
            f"{problem}: write OWNER/NAME, or NAME for one of your own, in letters and digits, with single "
            "'-', '_' or '.' between them."
        ) from error
    return repo_id


def check_revision(revision: str | None) -> None:
    """Refuse a name that no branch, tag or commit can have."""
    forbidden = ("..", "~", "^", ":", "?", "*", "[", "\\", " ", "@{", "//")
    if revision is None or (
        revision and revision == revision.strip("/.") and not any(part in revision for part in forbidden)
    ):
        return
    raise ValueError(f"revision={quote(revision)} is no name for a branch: write one like main, v1 or try/2.")


def open_hub(token: str | bool | None, endpoint: str | None) -> HfApi:
    """A client of the Hub with this token: None takes the one that is logged in, False takes none."""
    return HfApi(endpoint=endpoint, token=token, library_name="hf_attn")


def find_token(token: str | bool | None) -> str:
    """Return the token to write with: the given one, or the one that is logged in; HubError without one."""
    found = token if isinstance(token, str) else None if token is False else get_token()
    if not found:
        raise HubError(
            f"There is no token, and pushing needs one that may write: make one at {TOKENS}, then "
            "`hf auth login`, or set HF_TOKEN."
        )
    return found


def call_with_retries(
    call: Callable[[], Answer],
    api: HfApi,
    repo_id: str,
    sleep: Sleep = time.sleep,
    repeat_when_cut: bool = True,
) -> Generator[Progress, None, Answer]:
    """Call the Hub, and again after a while where it is busy or the connection was cut.

    Each wait is twice as long as the one before, or as long as the Hub asks for; the reason for it is yielded
    before. The client's token is kept out of every sentence. With `repeat_when_cut` a cut connection is no
    reason to give up, though the request may have been carried out.

    Raises:
        HubError: the Hub refused, or was busy to the last attempt.
    """
    wait = FIRST_WAIT
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return call()
        except NO_ANSWER as error:
            status = error.response.status_code if isinstance(error, HfHubHTTPError) else None
            is_cut = isinstance(error, TransportError) and repeat_when_cut
            pause = max(wait, _requested_wait(error))
            if attempt == ATTEMPTS or not (status in TEMPORARY or is_cut) or pause > LONGEST_WAIT:
                raise HubError(explain(error, api, repo_id), status) from None  # its request holds the token
        reason = f"The Hub answered {status}" if status else "The connection was cut"
        yield Progress("waiting", f"{reason}; asking again in {pause:.0f} s ({attempt} of {ATTEMPTS - 1}).")
        sleep(pause)
        wait *= 2
    raise AssertionError("the last attempt returns or raises")


@contextlib.contextmanager
def raise_hub_error() -> Iterator[None]:
    """Raise the Hub's own error where huggingface_hub says only that the file is not in its cache."""
    try:
        yield
    except LocalEntryNotFoundError as error:
        if isinstance(error.__cause__, NO_ANSWER):
            raise error.__cause__ from None
        raise


def explain(error: Exception, api: HfApi, repo_id: str) -> str:
    """A sentence for an error of the Hub or of the network, with what to do about it."""
    if isinstance(error, OfflineModeIsEnabled):
        return "HF_HUB_OFFLINE is set, so the Hub is not asked: unset it to push or pull."
    if isinstance(error, ConnectError):
        return f"{api.endpoint} cannot be reached: check the network, a proxy in between, and HF_ENDPOINT."
    if isinstance(error, TimeoutException):
        return f"{api.endpoint} did not answer in time: try again, what has arrived is not sent twice."
    if not isinstance(error, HfHubHTTPError):
        return f"The connection to {api.endpoint} was cut: try again, what has arrived is not sent twice."
    text = _explain_status(error, repo_id)
    server_message = " ".join((error.server_message or "").split())
    for secret in (api.token, get_token()):
        if isinstance(secret, str) and secret:
            server_message = server_message.replace(secret, "hf_…")
    return f"{text} The Hub says: {server_message[:300]}" if server_message else text


def in_megabytes(size: int) -> str:
    """A number of bytes in MB, or in kB where that is less than 0.1 MB."""
    return f"{size / 1e6:,.1f} MB" if size >= 100_000 else f"{size / 1e3:,.1f} kB"


def join_names(names: Sequence[str]) -> str:
    """Names separated by commas: the first few, and how many more there are."""
    shown = ", ".join(names[:MOST_NAMED])
    return f"{shown} and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else shown


def _requested_wait(error: Exception) -> float:
    """Seconds to wait by the header Retry-After, which is a number of them or a date."""
    header = error.response.headers.get("Retry-After", "") if isinstance(error, HfHubHTTPError) else ""
    if header.strip().isdigit():
        return float(header)
    try:
        return max(0.0, email.utils.parsedate_to_datetime(header).timestamp() - time.time())
    except ValueError:
        return 0.0


def _explain_status(error: HfHubHTTPError, repo_id: str) -> str:
    status, response = error.response.status_code, error.response
    wait = _requested_wait(error)
    when = f"in {wait:.0f} s" if wait else "later"
    is_known = "authorization" in response.request.headers
    if isinstance(error, GatedRepoError):
        return f"{repo_id} is gated ({status}): ask for access on its page, then use that account's token."
    if isinstance(error, DisabledRepoError):
        return f"{repo_id} has been disabled ({status})."
    if isinstance(error, RevisionNotFoundError):
        return f"{repo_id} has no such revision ({status}): name one of its branches, tags or commits."
    if status == 401 and (is_known or not isinstance(error, RepositoryNotFoundError)):
        return f"The Hub does not know this token (401): it was revoked or mistyped. Make one at {TOKENS}."
    if isinstance(error, RepositoryNotFoundError):
        who = "this token may not see it" if is_known else "it is private: then log in with `hf auth login`"
        return f"There is no repo {repo_id}, or {who} ({status})."
    sentences = {
        403: f"This token may not do that to {repo_id} (403): take one that may write, and a repo of yours.",
        404: f"{repo_id} has no such file or revision (404).",
        409: f"{repo_id} exists already, or is being changed (409): try again, or choose another name.",
        412: f"{repo_id} was changed meanwhile (412): push again.",
        413: f"This is more than the Hub takes at once (413); {repo_id} is as it was. Push a smaller model.",
        429: f"Too many requests to the Hub (429): try again {when}.",
    }
    if status >= 500:
        return f"The Hub has trouble of its own ({status}): try again later; nothing is left half done."
    return sentences.get(status, f"The Hub refused ({status}).")
