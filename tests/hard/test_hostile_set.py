"""A few folders of the hostile set; `make test-nightly` opens them all."""

import pytest

from tests.hard import hostile_set


def test_folders_of_an_enemy_open_or_are_refused_in_a_sentence():
    counts = hostile_set.run(16, seed=1, ours=["attn-copy"], others=["bert"])
    assert counts.total() == 16
    assert not counts["failed"]
    assert counts["opened"] >= 1
    assert counts["refused"] >= 5


@pytest.mark.parametrize(("attack", "outcome"), [
    (lambda: None, "opened"),
    (lambda: 1 / 0, "ZeroDivisionError"),
    (lambda: bytes(4 * 10**9), "MemoryError"),
    (lambda: hostile_set.os.kill(hostile_set.os.getpid(), 9), "killed"),
    (lambda: hostile_set.time.sleep(9), "timed out"),
    (lambda: hostile_set.socket.create_connection(("127.0.0.1", 9)), "network"),
])  # fmt: skip
def test_whatever_else_happens_is_told_as_a_failure(tmp_path, monkeypatch, attack, outcome):
    monkeypatch.setattr(hostile_set, "SECONDS", 1)
    monkeypatch.setattr(hostile_set, "open_folder", lambda _: attack() or "opened")
    worker = hostile_set.Worker()
    assert worker.open(tmp_path).startswith(outcome)
    if outcome not in ("killed", "timed out"):
        worker.end("done")
