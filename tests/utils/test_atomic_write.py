"""Files and folders that appear whole: what lies in their way is neither followed nor lost."""

import pytest

from hf_attn.utils.atomic_write import refuse_others, write_file


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


@pytest.mark.parametrize("kind", ["a file", "a link to a folder", "a broken link"])
def test_a_folder_that_holds_anything_else_is_not_replaced(tmp_path, kind):
    folder, other = tmp_path / "folder", tmp_path / "other"
    folder.mkdir()
    other.mkdir()
    refuse_others(folder, {"README.md"}.__contains__, "a data set")
    strange = folder / "strange"
    if kind == "a file":
        strange.write_text("mine")
    else:
        strange.symlink_to(other if kind == "a link to a folder" else tmp_path / "nowhere")
    with pytest.raises(ValueError, match="holds 'strange', which is no part of a data set"):
        refuse_others(folder, {"README.md"}.__contains__, "a data set")
    linked = tmp_path / "linked"
    linked.symlink_to(tmp_path / "nowhere")
    with pytest.raises(ValueError, match="is a link: name a folder"):
        refuse_others(linked, {"README.md"}.__contains__, "a data set")
