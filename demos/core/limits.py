"""What one visitor may ask of the server: generous on a machine of one's own, less where others come.

Which of the limits hold is decided once, as the server is launched, and for all requests: a tunnel or a proxy
arrives from this very machine, and what it says of whom it forwards for can be made up.
"""

import ipaddress
import os
import socket
from dataclasses import dataclass, replace
from pathlib import Path

import huggingface_hub.constants

from ..ui.formatting import count

MEGABYTE = 10**6
CODE = (".py", ".ipynb")
LONGEST_NAME = 200  # characters of a folder or a Hub id
REMEDY = "the app on a machine of your own takes more."


@dataclass(frozen=True)
class Limits:
    """The most of everything; a refusal is a sentence under the field that it is about.

    Attributes:
        parameters: of a model that is trained here.
        layers: of an encoder, or of a decoder.
        examples: of a step's batch.
        training_bytes: that a step may need, as `hf_attn.architectures.memory` estimates; never more than the
            machine has.
        steps: of a run, or of each contestant of a duel.
        run_seconds: that a run may hold a place, or a contestant of a duel; then it is stopped as if by hand.
        pause_seconds: that a paused run may hold a place.
        characters: of a typed text.
        upload_bytes: of a file.
        download_bytes: of a model's weights on the Hub.
        runs: kept in a session; the oldest makes room.
        sessions: with a state at once; the oldest is forgotten.
        session_seconds: until what a session keeps is forgotten.
        takes_paths: whether a typed path to the server's own files is followed, and the Hub's token of
            whoever started the server reads for a visitor.
        audience: who these limits are for, in words for whoever starts the server; nothing at home.
    """

    parameters: int = 50_000_000
    layers: int = 100
    examples: int = 8_192
    training_bytes: int = 1_000_000 * MEGABYTE
    steps: int = 20_000
    run_seconds: float = 12 * 3600.0
    pause_seconds: float = 900.0
    characters: int = 100_000
    upload_bytes: int = 50 * MEGABYTE
    download_bytes: int = 4000 * MEGABYTE
    runs: int = 12
    sessions: int = 500
    session_seconds: int = 12 * 3600
    takes_paths: bool = True
    audience: str = ""

    @property
    def own_token(self) -> bool | None:
        """The token with which the Hub is asked where the visitor gives none: None for the server's own."""
        return None if self.takes_paths else False

    def refuse_more(self, what: str, amount: int) -> None:
        """Refuse what is beyond a limit.

        Args:
            what: "parameters", "layers", "examples", "steps", "characters" or "upload_bytes".
            amount: how much is asked for.

        Raises:
            ValueError: more than the limit, in a sentence that says it.
        """
        most = getattr(self, what)
        if amount <= most:
            return
        if what == "upload_bytes":
            said = f"A file of {amount / MEGABYTE:.1f} MB will not do: up to {most / MEGABYTE:.0f} MB"
        else:
            said = f"{count(amount)} {what} will not do: up to {count(most)}"
        raise ValueError(f"{said} are taken here; {REMEDY}")

    def refuse_path(self, text: str) -> None:
        """Refuse a typed name that would be read from the server's own disk, or run as code.

        A Hub id ("owner/name") is none, unless the app's folder holds a file of that name; whatever begins
        like a path, has a backslash or more than one slash is one.

        Raises:
            ValueError: it is one, and this server does not take them.
        """
        name = text.strip()
        refuse_longer("name", name, LONGEST_NAME)
        looks_local = name.startswith(("/", "~", ".")) or "\\" in name or name.count("/") > 1 or ":" in name
        is_local = looks_local or Path(name).exists() or Path(name).suffix.lower() in CODE
        if is_local and not self.takes_paths:
            raise ValueError(
                f"{name!r} will not do: this server opens no files of its own. Choose one of the checkpoints "
                "in the list, or give a Hub id, owner/name."
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
    upload_bytes=5 * MEGABYTE,
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
    """Refuse a text that is longer than a field reads.

    Raises:
        ValueError: more characters than that, in a sentence that says it.
    """
    if len(text or "") > most:
        raise ValueError(
            f"The {what} has {count(len(text or ''))} characters; up to {count(most)} are read: shorten it."
        )


def is_space() -> bool:
    """Whether a Space runs the app: everybody may come."""
    return "SPACE_ID" in os.environ


def is_loopback(host: str) -> bool:
    """Whether nothing but this machine itself reaches a server that listens on this address."""
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None)} if host else set()
        return bool(found) and all(ipaddress.ip_address(address).is_loopback for address in found)
    except (OSError, ValueError):  # no such host; an address with a zone
        return False


def choose_limits(host: str, *, share: bool, trusts: bool = False, has_password: bool = False) -> Limits:
    """The limits of a server: those of home only where nobody but its owner can come.

    Args:
        host: what it listens on.
        share: whether it has a public link.
        trusts: whether visitors may train as much as at home.
        has_password: whether they must know one; then visitors are expected, also through a proxy.
    """
    if trusts:
        return TRUSTED
    is_alone = is_loopback(host) and not (share or has_password or is_space())
    return HOME if is_alone else PUBLIC


_launched: list[Limits] = []  # of this process's server; none before it is decided


def decide_limits(limits: Limits) -> None:
    """Let these limits hold for every request from now on: before the page is built.

    A token that visitors may not use is forgotten by this process: whatever asks the Hub, on whichever way,
    then has none but what a visitor gave.
    """
    _launched[:] = [limits]
    if limits.own_token is False:
        for name in ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"):
            os.environ.pop(name, None)
        os.environ["HF_HUB_DISABLE_IMPLICIT_TOKEN"] = "1"  # for processes that this one starts
        huggingface_hub.constants.HF_HUB_DISABLE_IMPLICIT_TOKEN = True


def limits_here() -> Limits:
    """The limits of this server; where nothing is decided yet, a Space's or those of home."""
    return _launched[0] if _launched else PUBLIC if is_space() else HOME
