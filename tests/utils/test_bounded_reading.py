"""A path that somebody gives is a file with an end, or refused at once in a sentence, at every door."""

import os
from pathlib import Path

import pytest

from demos.core.upload import take_table
from hf_attn.architectures.settings import read_settings
from hf_attn.checkpoints.validate import read_json
from hf_attn.cli.inspect import _open_image
from hf_attn.tasks import load_task_file
from hf_attn.tasks.user.read_table import read_text
from hf_attn.utils.folder_files import read_bounded
from tests.support.odd_files import link_to, make_endless, make_pipe, make_socket, refusal

pytestmark = pytest.mark.timeout(300)  # what waits for a pipe's writer fails


DOORS = {
    "table": read_text,
    "settings": read_settings,
    "task": load_task_file,
    "image": lambda path: _open_image(str(path)),
    "upload": lambda path: refuse_fault(take_table(path, path.parent / "kept", ("text",))),
    "json": read_json,
}


def refuse_fault(table):
    if table.fault:
        raise ValueError(table.fault)


@pytest.mark.parametrize("kind", ["pipe", "socket", "folder", "endless", "device", "nothing"])
@pytest.mark.parametrize("door", DOORS)
def test_what_is_no_file_or_has_no_end_is_refused_at_once_wherever_a_path_is_given(tmp_path, door, kind):
    path = tmp_path / "named.py"
    {
        "pipe": make_pipe,
        "socket": make_socket,
        "folder": Path.mkdir,
        "endless": make_endless,
        "device": link_to("/dev/zero"),
        "nothing": link_to("not-there"),
    }[kind](path)
    refusal(lambda: DOORS[door](path), "named.py" if door != "json" or kind != "folder" else "")


def test_no_more_is_read_than_is_allowed_whatever_size_is_reported():
    assert os.stat("/proc/self/maps").st_size == 0
    refusal(lambda: read_bounded("/proc/self/maps", 100), "/proc/self/maps", "at most are read")
    refusal(lambda: read_bounded("/dev/zero", 100), "/dev/zero", "a device")
    assert len(read_bounded("/proc/self/maps", 10**7)) > 100


def test_a_link_that_a_person_names_is_followed(tmp_path):
    (tmp_path / "table.csv").write_text("a,b\n")
    (tmp_path / "named.csv").symlink_to("table.csv")
    assert read_text(tmp_path / "named.csv") == "a,b\n"
