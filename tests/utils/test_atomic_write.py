"""Files and folders that appear whole: what lies in their way is neither followed nor lost."""

import contextlib
import os
import sys
import tempfile
import time
import warnings
from pathlib import Path

import pytest

from hf_attn.utils import atomic_write
from hf_attn.utils.atomic_write import (
    DAY,
    LEFTOVER,
    PREFIX,
    FolderKind,
    atomic_directory,
    clear_leftovers,
    refuse_others,
    scratch_directory,
    write_file,
)


def test_a_link_or_a_folder_where_the_part_was_to_be_is_left_alone(tmp_path):
    victim = tmp_path / "victim"
    victim.write_bytes(b"mine")
    (tmp_path / ".v.partial").symlink_to(victim)
    (tmp_path / ".w.partial").mkdir()
    for name in ("v", "w", "x" * 250):
        assert write_file(tmp_path / name, b"new").read_bytes() == b"new"
        assert not (tmp_path / name).is_symlink()
    assert victim.read_bytes() == b"mine"
    assert sorted(path.name for path in tmp_path.glob(".*")) == [".v.partial", ".w.partial"]


def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(tmp_path):
    kept = tmp_path / "kept"
    kept.write_bytes(b"old")
    with pytest.raises(TypeError):
        write_file(kept, "no bytes")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("kept", b"old")]


@pytest.mark.parametrize("name", ["a\0b", "a\ud800"])
def test_a_name_that_no_folder_can_have_is_refused_before_anything_is_written(tmp_path, name):
    with (
        pytest.raises(ValueError, match=r"is no name of a folder: .*\."),
        atomic_directory(tmp_path / name / "b", ANY),
    ):
        pytest.fail("written")
    assert not list(tmp_path.iterdir())


ANY = FolderKind("folder", (), lambda name: True)
DATA_SET = FolderKind("data set", ("rows",), ("rows", "README.md").__contains__)


def leave(folder, name, is_folder=True):
    """What a killed writer left, or somebody's own."""
    path = folder / name
    if is_folder:
        path.mkdir()
    (path / "half" if is_folder else path).write_bytes(b"half")
    return path


@pytest.mark.skipif(sys.platform == "win32", reason="there leftovers stay")
def test_what_a_killed_writer_left_goes_at_the_next_write_and_nothing_else(tmp_path):
    folder, file = f"{PREFIX}abcd0_12.partial", f"{PREFIX}abcd0_13.partial"
    own = [f"{PREFIX}abcd0_12", f"{PREFIX}ABCD0-12.partial", f"{PREFIX}more_than_8.partial", ".v.partial"]
    for name in own:
        leave(tmp_path, name)
    linked = tmp_path / f"{PREFIX}abcd0_14.partial"
    linked.symlink_to(tmp_path / own[0])
    for write in (
        lambda: write_file(tmp_path / "new", b"new"),
        lambda: clear_leftovers(tmp_path / "new"),
        lambda: write_folder(tmp_path / "folder", "new"),
    ):
        leave(tmp_path, folder)
        leave(tmp_path, file, is_folder=False)
        write()
        assert not (tmp_path / folder).exists()
        assert not (tmp_path / file).exists()
    assert {path.name for path in tmp_path.iterdir()} == {*own, linked.name, "new", "folder"}
    assert all((tmp_path / name / "half").exists() for name in own)


@pytest.mark.skipif(sys.platform == "win32", reason="there leftovers stay")
def test_what_another_machine_left_on_a_shared_disk_goes_after_a_day_but_scratch_folders_stay(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    new, old = (leave(tmp_path, f".hf_attn.0123abcd.abcd0_1{number}.partial") for number in range(2))
    os.utime(old, (0, time.time() - DAY - 60))
    with scratch_directory():
        assert old.exists(), "which its server may use for long"
    clear_leftovers(tmp_path / "any")
    assert [path.name for path in tmp_path.iterdir()] == [new.name]


@pytest.mark.skipif(sys.platform == "win32" or not os.geteuid(), reason="there nobody is kept from removing")
def test_a_leftover_that_cannot_be_removed_hinders_nobody(tmp_path):
    left = leave(tmp_path, f"{PREFIX}abcd0_12.partial", is_folder=False)
    tmp_path.chmod(0o500)
    clear_leftovers(tmp_path / "any")
    assert left.exists()
    tmp_path.chmod(0o700)
    clear_leftovers(tmp_path / "any")
    assert not left.exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no process forks there")
def test_what_another_process_still_writes_stays(tmp_path):
    (asked, go_on), (told, tell) = os.pipe(), os.pipe()
    with warnings.catch_warnings(action="ignore"):  # pytest has threads, which the child does not use
        other = os.fork()
    if not other:
        with contextlib.suppress(BaseException), atomic_directory(tmp_path / "other", ANY) as partial:
            (partial / "a").write_text("other")
            os.write(tell, os.fsencode(partial))
            os.read(asked, 1)
        os._exit(0)
    partial = Path(os.fsdecode(os.read(told, 4096)))
    write_folder(tmp_path / "own", "new")
    clear_leftovers(tmp_path / "other")
    assert (partial / "a").read_text() == "other"
    os.write(go_on, b"!")
    os.waitpid(other, 0)
    assert (tmp_path / "other" / "a").read_text() == "other"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["other", "own"]


def test_a_scratch_folder_goes_with_its_block_and_a_killed_one_at_the_next(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    left = leave(tmp_path, f"{PREFIX}abcd0_12.partial")
    with scratch_directory() as first, scratch_directory() as second:
        assert first.is_dir()
        assert second.is_dir()
        assert not left.exists()
    assert not list(tmp_path.iterdir())


def write_folder(target, text):
    with atomic_directory(target, ANY) as partial:
        (partial / "deep").mkdir()
        (partial / "deep" / "a").write_text(text)
        (partial / "a").write_text(text)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere the link is set aside")
def test_a_part_that_went_before_it_was_locked_is_made_anew(tmp_path, monkeypatch):
    take_lock, removed = atomic_write._take_lock, []

    def take_late(path, *, waits):  # another process took it for a leftover
        if waits and not removed:
            removed.append(path)
            path.rmdir()
        return take_lock(path, waits=waits)

    monkeypatch.setattr(atomic_write, "_take_lock", take_late)
    write_folder(tmp_path / "target", "new")
    assert (tmp_path / "target" / "a").read_text() == "new"
    assert removed


def test_the_disk_holds_every_byte_before_a_name_is_given_and_the_name_after(tmp_path, monkeypatch):
    done, flush = [], atomic_write._flush
    put, swap, replace = Path.rename, atomic_write._swap, Path.replace
    monkeypatch.setattr(atomic_write, "_flush", lambda path: (done.append(path.name), flush(path)))
    monkeypatch.setattr(Path, "rename", lambda one, other: (done.append("NAMED"), put(one, other))[1])
    monkeypatch.setattr(Path, "replace", lambda one, other: (done.append("NAMED"), replace(one, other))[1])
    monkeypatch.setattr(atomic_write, "_swap", lambda *paths: (done.append("NAMED"), swap(*paths))[1])
    for write in (
        lambda: write_folder(tmp_path / "run", "old"),
        lambda: write_folder(tmp_path / "run", "new"),
    ):
        done.clear()
        write()
        before, after = done[: done.index("NAMED")], done[done.index("NAMED") :]
        assert sorted(before[:-1]) == ["a", "a", "deep"]
        assert LEFTOVER.fullmatch(before[-1]), "and the folder itself"
        assert after[-1] == tmp_path.name
    done.clear()
    write_file(tmp_path / "file", b"new")
    assert LEFTOVER.fullmatch(done[0])
    assert done[1:] == ["NAMED", tmp_path.name]


@pytest.mark.parametrize("can_swap", [True, False])
def test_an_old_folder_is_there_until_the_new_one_is(tmp_path, monkeypatch, can_swap):
    if not can_swap:
        monkeypatch.setattr(atomic_write, "_swap", lambda *_: False)
    elif not sys.platform.startswith("linux"):
        pytest.skip("only Linux lets two folders change names at once")
    target, missed = tmp_path / "run", []
    write_folder(target, "old")
    rename = Path.rename
    monkeypatch.setattr(
        Path, "rename", lambda one, other: (rename(one, other), missed.append(not target.exists()))[0]
    )
    write_folder(target, "new")
    assert (target / "a").read_text() == "new"
    assert any(missed) != can_swap
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize("kind", ["a file", "a link to a folder", "a broken link"])
def test_a_folder_that_holds_anything_else_is_not_replaced(tmp_path, kind):
    folder, other = tmp_path / "folder", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    refuse_others(folder, DATA_SET)
    for left in (".DS_Store", f"{PREFIX}abcd0_12.partial"):  # of nobody
        (folder / left).touch()
    refuse_others(folder, DATA_SET)
    (folder / "README.md").write_text("of somebody's own program")
    with pytest.raises(ValueError, match="is not empty and holds no data set: name another folder"):
        refuse_others(folder, DATA_SET)
    (folder / "rows").touch()
    refuse_others(folder, DATA_SET)
    strange = folder / "strange"
    if kind == "a file":
        strange.write_text("mine")
    else:
        strange.symlink_to(other if kind == "a link to a folder" else tmp_path / "nowhere")
    with pytest.raises(ValueError, match="holds 'strange', which is no part of a data set and would be lost"):
        refuse_others(folder, DATA_SET)
    linked = tmp_path / "linked"
    linked.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="is a link: name a folder"):
        refuse_others(linked, DATA_SET)


@pytest.mark.parametrize(
    ("name", "words"),
    [(".", "working folder"), ("..", "working folder"), ("/", "working folder"), ("../other", "not empty")],
)
def test_a_folder_of_work_is_never_replaced_by_whatever_name(tmp_path, monkeypatch, name, words):
    inner = tmp_path / "inner"
    for folder in (inner, tmp_path / "other"):
        folder.mkdir(parents=True)
        (folder / "thesis.txt").write_text("mine")
    monkeypatch.chdir(inner)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ValueError, match=words), atomic_directory(name, DATA_SET):
        pytest.fail("written")
    assert sorted(tmp_path.rglob("*")) == before
    assert (inner / "thesis.txt").read_text() == "mine"
