"""What can lie in a folder in the place of a file: links out of it, pipes, sockets, files without end."""

import os
import shutil
import socket
from pathlib import Path

import pytest

SECRET = "the-neighbour"  # in the name of what links lead to: no sentence may tell it


def link_out(path, folder=None):
    """To a copy of the same file beside the folder (the file's own), in one whose name begins as its does."""
    folder = folder or path.parent
    beside = folder.with_name(f"{folder.name}-{SECRET}")
    beside.mkdir(exist_ok=True)
    outside = shutil.copyfile(path, beside / path.name) if path.exists() else beside / path.name
    outside.touch()
    path.unlink(missing_ok=True)
    path.symlink_to(outside)


def link_relative(path):
    link_out(path)
    outside = path.readlink()
    path.unlink()
    path.symlink_to(Path("..") / outside.parent.name / outside.name)


def link_twice(path):
    """Out by a second link, which lies in the folder."""
    link_out(path)
    path.rename(path.with_name(f"hop-{path.name}.bak"))
    path.symlink_to(f"hop-{path.name}.bak")


def link_to(target):
    def make(path):
        path.unlink(missing_ok=True)
        path.symlink_to(target)

    return make


def make_pipe(path):
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def make_socket(path):
    path.unlink(missing_ok=True)
    here = os.getcwd()
    os.chdir(path.parent)  # a socket's address may not be long
    with socket.socket(socket.AF_UNIX) as bound:
        bound.bind(path.name)
    os.chdir(here)


def make_endless(path):
    """More than the disk has: a file with a hole."""
    with path.open("ab") as file:
        file.truncate(2**40)


MADE = {
    "link out": (link_out, "a link that leads out of its folder"),
    "relative link": (link_relative, "a link that leads out of its folder"),
    "link by a link": (link_twice, "a link that leads out of its folder"),
    "link to a folder": (link_to("/usr"), "a link that leads out of its folder"),
    "link to nothing outside": (link_to(f"/nowhere/{SECRET}"), "a link that leads out of its folder"),
    "link to nothing": (link_to("not-there"), "a link to a file that is not there"),
    "circle": (link_to("circle"), "a link in a circle"),
    "device": (link_to("/dev/zero"), "a link that leads out of its folder"),
    "pipe": (make_pipe, "a named pipe"),
    "socket": (make_socket, "a socket"),
}


def make(kind, path):
    maker, words = MADE[kind]
    if kind == "circle":
        path.unlink(missing_ok=True)
        path.symlink_to(path.name)
    else:
        maker(path)
    return words


def refusal(call, *names):
    """The one sentence in which something is refused, which names a file and not where its link leads."""
    with pytest.raises((ValueError, OSError)) as refused:
        call()
    sentence = str(refused.value)
    assert "\n" not in sentence
    assert all(name in sentence for name in names), sentence
    assert SECRET not in sentence
    return sentence
