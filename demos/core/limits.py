"""How much one visitor may ask of the server: a lot on one's own machine, less where others come.

The limits are decided once, when the server is launched, and for all requests: a tunnel or a proxy connects
from this very machine, and whatever it says about its visitors can be made up.
"""

import ipaddress
import os
import socket
from dataclasses import dataclass, replace
from pathlib import Path

import huggingface_hub.constants

from hf_attn.tasks.user.read_table import MOST_BYTES

from ..ui.formatting import count

MEGABYTE = 10**6
CODE = (".py", ".ipynb")
LONGEST_NAME = 200  # characters of a folder or a Hub id
REMEDY = "the app on your own machine allows more."
UPLOADED = {
    "upload_bytes": "A file of {:.1f} MB is too large",
    "visitor_bytes": "Your tables of {:.1f} MB together are too many (delete runs that use them)",
    "address_bytes": "{:.0f} MB in ten minutes from your network, or by one proxy, are too many (wait)",
    "all_bytes": "All visitors' tables of {:.0f} MB together are too many now (try again later)",
}


@dataclass(frozen=True)
class Limits:
    """The most of everything; a refusal is a sentence under the field that it is about."""

    parameters: int = 50_000_000  # of a model that is trained here
    layers: int = 100  # of an encoder, or of a decoder
    examples: int = 8_192  # in a training batch
    # memory of a training step, as `hf_attn.architectures.memory` estimates it
    training_bytes: int = 1_000_000 * MEGABYTE
    steps: int = 20_000  # of a run, or of each contestant of a duel
    run_seconds: float = 12 * 3600.0  # training time of a run or contestant; then it is stopped as if by hand
    pause_seconds: float = 900.0  # how long a paused run keeps its place
    characters: int = 100_000  # of a typed text
    upload_bytes: int = MOST_BYTES  # of a file
    visitor_bytes: int = 20 * MOST_BYTES  # of a visitor's uploads that are kept
    # that came from one address in ten minutes: a class shares one, and so do all who come by a proxy
    address_bytes: int = 40 * MOST_BYTES
    all_bytes: int = 100 * MOST_BYTES  # of all visitors' uploads; more are refused until some are gone
    download_bytes: int = 4000 * MEGABYTE  # of a model's weights on the Hub
    runs: int = 12  # kept in a session; a new one deletes the oldest
    sessions: int = 500  # with a state at once; a new one deletes the oldest
    session_seconds: int = 12 * 3600  # how long a session is kept
    # whether visitors may open files of the server, and use its owner's Hub token for reading
    takes_paths: bool = True
    audience: str = ""  # who these limits are for, as a sentence for whoever starts the server; empty at home

    @property
    def own_token(self) -> bool | None:
        """The Hub token where the visitor gives none: None for the server's own, False for no token."""
        return None if self.takes_paths else False

    def refuse_more(self, what: str, amount: int) -> None:
        """Refuse more of `what`, the name of a limit, than that allows, by a ValueError that says it."""
        most = getattr(self, what)
        if amount <= most:
            return
        if what in UPLOADED:
            sizes = f"{UPLOADED[what].format(amount / 2**20)}: up to {most / 2**20:.0f} MB"
        else:
            sizes = f"{count(amount)} {what} are too many: up to {count(most)}"
        raise ValueError(f"{sizes} are allowed here; {REMEDY}")

    def refuse_path(self, text: str) -> None:
        """Refuse a typed name that would be read from the server's own disk, by a ValueError.

        A Hub id ("owner/name") is no path, unless the app's folder holds a file of that name; whatever begins
        like a path, has a backslash or more than one slash is one.
        """
        name = text.strip()
        refuse_longer("name", name, LONGEST_NAME)
        looks_local = name.startswith(("/", "~", ".")) or "\\" in name or name.count("/") > 1 or ":" in name
        is_local = looks_local or Path(name).exists() or Path(name).suffix.lower() in CODE
        if is_local and not self.takes_paths:
            raise ValueError(
                f"{name!r} cannot be opened: this server opens no files of its own. Choose a checkpoint "
                "from the list, or give a Hub id, owner/name."
            )


HOME = Limits()
PUBLIC = Limits(
    parameters=5_000_000,
    layers=48,  # as many as GPT-2's largest
    examples=512,
    training_bytes=1000 * MEGABYTE,
    steps=5_000,
    run_seconds=300.0,
    pause_seconds=120.0,
    characters=20_000,
    upload_bytes=MOST_BYTES // 10,
    visitor_bytes=4 * MOST_BYTES // 10,
    address_bytes=4 * MOST_BYTES,
    all_bytes=8 * MOST_BYTES,
    download_bytes=600 * MEGABYTE,
    runs=6,
    sessions=100,
    session_seconds=2 * 3600,
    takes_paths=False,
    audience=". Visitors are strangers: small models, short runs, no folders, and never your Hub token.",
)
# Visitors who mean well: as much as at home, and still neither this machine's files nor its owner's token.
TRUSTED = replace(
    HOME,
    takes_paths=False,
    audience=". Visitors train as much as you may, but open no folders and never use your Hub token.",
)


def refuse_longer(what: str, text: str | None, most: int) -> None:
    """Refuse a text that is longer than a field reads, by a ValueError that says so."""
    if len(text or "") > most:
        raise ValueError(
            f"The {what} has {count(len(text or ''))} characters; up to {count(most)} are read: shorten it."
        )


def is_space() -> bool:
    return "SPACE_ID" in os.environ


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens on this address."""
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)} if host else set()
        return bool(found) and all(ipaddress.ip_address(address).is_loopback for address in found)
    except (OSError, ValueError):  # no such host; an address with a zone
        return False


def choose_limits(host: str, *, share: bool, trusts: bool = False, has_password: bool = False) -> Limits:
    """The limits of a server that listens on `host`: those of home only where nobody but its owner can come.

    Visitors are expected where it has a public link (`share`) or a password, which also a proxy passes on.
    """
    if trusts:
        return TRUSTED
    is_alone = is_loopback(host) and not (share or has_password or is_space())
    return HOME if is_alone else PUBLIC


_launched: list[Limits] = []  # of this process's server; none before it is decided


def decide_limits(limits: Limits) -> None:
    """Let these limits hold for every request from now on; called before the page is built.

    Where visitors may not use the owner's Hub token, this process forgets it, so that no request can send it.
    """
    _launched[:] = [limits]
    if limits.own_token is False:
        for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
            os.environ.pop(name, None)
        os.environ["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1"  # for processes that this one starts
        huggingface_hub.constants.HF_HUB_DISABLE_IMPLICIT_TOKEN = True


def limits_here() -> Limits:
    """The limits of this server; before they are decided, a Space's or those of home."""
    return _launched[0] if _launched else PUBLIC if is_space() else HOME
