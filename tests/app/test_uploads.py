"""Uploads fill no disk: a limit for a file, a visitor and all visitors; what is left behind is deleted."""

import asyncio
import socket
import time
import urllib.error
import urllib.request
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import gradio as gr
import pytest

from demos.core import limits, upload
from demos.core.limits import HOME, PUBLIC
from demos.core.upload import count_bytes
from demos.server import input_guard, uploads
from demos.session import session
from demos.session.session import Session
from hf_attn.tasks import build_task
from hf_attn.tasks.user.read_table import MOST_BYTES
from tests.support.browser import find_free_port

KB = 1000
SMALL = replace(
    PUBLIC, upload_bytes=100 * KB, visitor_bytes=240 * KB, address_bytes=240 * KB, all_bytes=10_000 * KB
)
ROW = b"source,target\n1 2,2 1\n"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where Gradio keeps uploads."""
    monkeypatch.setattr(upload, "own_folder", lambda: tmp_path)
    for user in (session, uploads):
        monkeypatch.setattr(user, "own_folder", upload.own_folder)
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path / "gradio"))
    monkeypatch.setattr(limits, "_launched", [SMALL])
    return tmp_path / "gradio"


@pytest.fixture
def served(folder):
    """A page with a field for files."""

    async def build():  # outside an event loop Gradio opens some and never closes them
        with input_guard.GuardedBlocks() as page:
            gr.File()
        _, address, _ = page.launch(server_port=find_free_port(), prevent_thread_lock=True, quiet=True)
        return page, address.rstrip("/")

    page, address = asyncio.run(build())
    yield page, address
    page.close()


def body_of(content, name="table.csv"):
    head = f'--x\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'
    return head.encode() + content + b"\r\n--x--\r\n"


def send(address, content, name="table.csv"):
    """(status, what is said) of an upload."""
    headers = {"Content-Type": "multipart/form-data; boundary=x"}
    asked = urllib.request.Request(f"{address}/gradio_api/upload", body_of(content, name), headers)
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def hang_up(address, size, folder):
    """Send half of an upload, until Gradio keeps a part of it."""
    place = urlsplit(address)
    head = f"POST /gradio_api/upload HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Length: {2 * size}\r\n"
    with socket.create_connection((place.hostname, place.port)) as line:
        line.sendall(head.encode() + b"Content-Type: multipart/form-data; boundary=x\r\n\r\n")
        line.sendall(body_of(b"x" * size)[: -len("\r\n--x--\r\n")])
        while not any(path.is_file() for path in folder.glob("*")):
            time.sleep(0.01)


def test_a_file_and_an_address_have_a_limit_whatever_is_sent(served, folder, monkeypatch):
    page, address = served
    monkeypatch.setattr(uploads, "BESIDE", KB)
    monkeypatch.setattr(uploads, "SMALLEST", KB)
    hang_up(address, 4 * KB, folder)
    status, said = send(address, b"x" * 102 * KB)
    assert status == 413
    assert "too large" in said
    answers = [send(address, b"x" * 40 * KB, f"{number}.csv") for number in range(4)]
    assert [status for status, _ in answers] == [200, 200, 200, 413]
    assert "your network" in answers[-1][1], "the sentence alone, which the page shows"
    assert count_bytes([folder]) <= SMALL.address_bytes
    monkeypatch.setattr(uploads, "WAITS", -1.0)
    page.uploads.sweep()
    assert count_bytes([folder]) == 0, "no page took them"
    assert not page.uploads.received
    assert not page.upload_file_set, "nor are their names kept"


def test_small_files_count_too(served, monkeypatch):
    page, address = served
    assert [send(address, ROW, f"{number}.csv")[0] for number in range(3)] == [200, 200, 413]
    many = b"".join(body_of(ROW, f"{number}.csv").removesuffix(b"--x--\r\n") for number in range(3))
    monkeypatch.setattr(page.uploads, "received", {})
    assert send(address, many)[0] == 413


def test_all_visitors_together_have_a_limit(served, folder, monkeypatch):
    _, address = served
    monkeypatch.setattr(limits, "_launched", [replace(SMALL, all_bytes=30 * KB)])
    assert send(address, b"x" * 40 * KB)[0] == 200
    status, said = send(address, ROW)
    assert status == 413
    assert said.startswith("All visitors' tables")


def test_sessions_take_an_upload_that_they_share_and_keep_it_no_longer_than_their_visitors(folder):
    visit = Session(device="cpu")
    other = Session(device="cpu")
    shared = put(folder, ROW)  # Gradio keeps equal files once
    for one in (visit, other):
        one.take(shared, ("source", "target"))
        assert one.table.fault == ""
    kept = visit.table.path
    assert kept.read_bytes() == other.table.path.read_bytes() == ROW
    Path(shared).unlink()  # as the sweep does after a while
    visit.take(shared, ("source", "target"))
    assert visit.table.fault == "table.csv is gone: upload it again."
    visit.close()
    other.close()
    assert not kept.exists()
    assert not list(folder.parent.glob("session-*/table-*"))


def put(folder, content):
    """An upload as Gradio keeps it."""
    path = folder / "hash" / "table.csv"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return str(path)


def test_tables_that_no_run_learned_make_room_and_those_of_runs_count(folder):
    visit = Session(device="cpu")
    rows = [b"%d 1,1 %d" % (row, row) + b" " * 500 for row in range(170)]
    table = b"\n".join([b"source,target", *rows])
    assert 80 * KB < len(table) < SMALL.upload_bytes
    for _ in range(5):
        visit.take(put(folder, table), ("source", "target"))
        assert visit.table.fault == ""
        assert count_bytes(folder.parent.glob("session-*/table-*")) < 2 * len(table)
    for _ in range(2):
        task = build_task("pairs", path=str(visit.table.path))
        visit.add(task, task.recipe, 0)
        visit.take(put(folder, table), ("source", "target"))
    assert "delete runs that use them" in visit.table.fault
    assert Path(visit.runs["run-1"].task.options["path"]).exists()
    visit.forget("run-1")
    visit.take(put(folder, table), ("source", "target"))
    assert visit.table.fault == ""
    visit.close()


def test_limits_of_tables_and_of_uploads_agree():
    assert HOME.upload_bytes == MOST_BYTES
    for each in (HOME, PUBLIC):
        assert each.upload_bytes < each.visitor_bytes < each.address_bytes < each.all_bytes
    with pytest.raises(ValueError, match=r"A file of 5\.0 MB is too large: up to 5 MB"):
        PUBLIC.refuse_more("upload_bytes", PUBLIC.upload_bytes + 1)
