"""`push` and `pull` on the command line: what scripts read, and what goes wrong in one line."""

import shutil

import pytest

from tests.support.commands import in_process, rows_of
from tests.support.hub_server import serve_hub


def test_json_lines_tell_progress_and_result(tiny_checkpoint, tmp_path, monkeypatch, capsys):
    with serve_hub(tmp_path) as hub:
        content = {path.name: path.read_bytes() for path in tiny_checkpoint.iterdir()}
        hub.store.put("ada/copy", content).configure(private=False)
        where = ["ada/copy", tmp_path / "pulled", "--endpoint", hub.endpoint, "--json"]
        code, output, _ = in_process(capsys, "pull", *where)
    assert code == 0
    *progress, result = rows_of(output)
    assert {row["event"] for row in progress} == {"progress"}
    assert set(progress[0]) == {"event", "stage", "message", "done", "total"}
    assert set(result) >= {"event", "repo_id", "path", "commit", "files", "left_out", "size", "verified"}
    assert result["path"] == str(tmp_path / "pulled")


@pytest.mark.parametrize(("arguments", "code", "words"), [
    ("push nowhere ada/copy", 2, "There is no folder 'nowhere'"),
    ("push CHECKPOINT ada/copy/again", 2, "OWNER/NAME"),
    ("push CHECKPOINT", 2, "REPO_ID"),
    ("push CHECKPOINT ada/copy --revision v1 --create-pr", 2, "a pull request goes to main"),
    ("push CHECKPOINT ada/copy --token-from-env NOBODY", 2, "NOBODY"),
    ("push CHECKPOINT ada/copy --token-from-env READER", 1, "may only read"),
    ("pull ada/copy CHECKPOINT/config.json", 2, "is a file"),
    ("pull ada/nothing x --token-from-env READER", 1, "There is no repo ada/nothing"),
])  # fmt: skip
def test_what_goes_wrong_is_one_line_without_the_token(
    tiny_checkpoint, tmp_path, monkeypatch, capsys, arguments, code, words
):
    monkeypatch.chdir(tmp_path)
    checkpoint = shutil.copytree(tiny_checkpoint, tmp_path / "attn-copy")
    with serve_hub(tmp_path) as hub:
        monkeypatch.setenv("READER", hub.read_token)
        monkeypatch.setenv("WRITER", hub.token)
        given = [word.replace("CHECKPOINT", str(checkpoint)) for word in arguments.split()]
        left, output, errors = in_process(capsys, *given, "--endpoint", hub.endpoint)
    assert left == code
    assert output == ""
    last = errors.splitlines()[-1]
    assert last.startswith("hf-attn: ")
    assert words in last
    assert "Traceback" not in errors
    assert hub.token not in errors
    assert hub.read_token not in errors
