"""The Share tab: a push is verified or refused in words, a pull is this visitor's, a token is nobody's."""

import re
import shutil
import threading

import pytest

from demos.jobs.job import FAILED, FINISHED, STOPPED
from demos.session.catalog import ModelCatalog
from demos.session.session import Session
from demos.tabs.share import handlers as hub
from demos.tabs.share import tab as sharing
from demos.tabs.share.card_preview import render_card
from demos.tabs.share.handlers import PullJob, PushJob, Transfer, embed_lines, load_lines
from hf_attn.hub.client import HubError, Progress
from hf_attn.hub.pull import Pulled
from tests.support.hub_server import serve_hub
from tests.support.sessions import Event, begun, finished, follow_job, read_boards


@pytest.fixture
def hub_here(tmp_path):
    """A Hub on loopback."""
    with serve_hub(tmp_path) as served:
        yield served


@pytest.fixture
def catalog(tiny_checkpoint):
    """One checkpoint that everybody may open."""
    return ModelCatalog((("attn-copy (bundled)", tiny_checkpoint),))


def pushed(catalog, hub_here, name="attn-copy", token=None, private=True, until="pushed", session=None):
    """Push the catalog's checkpoint as far as a stage; what was shown, in turn."""
    session = session or Session(catalog, device="cpu", endpoint=hub_here.endpoint)
    chosen = session.shown or str(catalog.folders[0][1])
    typed = hub_here.token if token is None else token
    values = {"checkpoint": chosen, "repository": name, "private": private, "token": typed}
    told = [hub.press_push(session, values)]
    for shown in follow_job(session, PushJob, hub.show_push):
        told.append(shown)
        if session.state(PushJob).reached(until):
            session.state(hub.PushJob).stop()
    return told


def pulled(session, hub_here, repo_id="ada/attn-copy"):
    """Pull; what was shown, in turn."""
    session.endpoint = hub_here.endpoint
    told = [hub.press_pull(session, {"hub_id": repo_id, "token": hub_here.token})]
    return told + list(follow_job(session, PullJob, hub.show_pull))


def boards(told):
    """The board's values among what was shown."""
    return read_boards(told, "pushed") + read_boards(told, "pulled")


# ---------------------------------------------------------------- push


@pytest.mark.parametrize(
    ("name", "token", "line", "words"),
    [
        ("my model", "hf_x", "name_error", "OWNER/NAME"),
        ("", "hf_x", "name_error", "OWNER/NAME"),
        ("attn-copy", "", "token_error", "Nobody is signed in"),
        ("attn-copy", "hf_\u00e9", "token_error", "not an access token"),
    ],
)
def test_a_wrong_name_or_token_is_a_sentence_under_its_field_and_nothing_is_asked(
    catalog, hub_here, name, token, line, words
):
    (told,) = pushed(catalog, hub_here, name, token)
    assert words in told.pop(line)
    assert set(told.values()) == {""}, "the other line is empty, the board and the buttons stay"
    assert hub_here.requests == []


def test_a_token_that_the_hub_does_not_take_is_said_under_it_and_never_repeated(catalog, hub_here):
    *_, unknown = pushed(catalog, hub_here, token="hf_mistyped")
    assert "does not know this token (401)" in unknown["token_error"]
    *_, reader = told = pushed(catalog, hub_here, token=hub_here.read_token)
    assert "may only read" in reader["token_error"]
    assert hub_here.store.names() == []
    assert hub_here.read_token not in str(told)
    assert "hf_mistyped" not in str(unknown)


def test_a_push_is_private_and_told_step_by_step_and_one_that_is_stopped_says_what_is_there(
    catalog, hub_here
):
    told = pushed(catalog, hub_here)
    last = boards(told)[-1]
    stages = [step["stage"] for step in last["steps"]]
    assert stages[:3] == ["saving", "checking", "connecting"]
    assert (last["status"], last["message"]) == (
        "stopped",
        "Stopped before the check. The pushed files are on the Hub.",
    )
    assert hub_here.repo("ada/attn-copy").settings["private"] is True
    busy, idle = (
        [shown[name]["interactive"] for name in ("push", "stop_push")] for shown in (told[0], told[-1])
    )
    assert (busy, idle) == ([False, True], [True, False])
    folder = catalog.folders[0][1]
    assert hub_here.repo("ada/attn-copy").files("main")["README.md"] == (folder / "README.md").read_bytes()
    assert str(folder) not in str(boards(told)), "where it lies on the server is nobody's business"


def test_a_push_that_waits_for_the_hub_stops_at_once_and_nothing_was_pushed(catalog, hub_here):
    trouble = hub_here.hold("whoami", at="request")
    session = Session(catalog, device="cpu", endpoint=hub_here.endpoint)
    press = threading.Thread(target=lambda: trouble.reached.wait(600) and session.state(hub.PushJob).stop())
    press.start()
    told = pushed(catalog, hub_here, session=session)
    press.join()
    assert boards(told)[-1]["message"] == "Stopped: nothing of the checkpoint was pushed."
    trouble.release.set()
    assert hub_here.store.names() == []


def test_a_hub_that_cannot_be_reached_is_said_at_once(catalog, hub_here):
    nowhere = Session(catalog, device="cpu", endpoint="http://127.0.0.1:9")
    told = boards(pushed(catalog, hub_here, until="waiting", session=nowhere))
    assert any("asking again" in step["message"] for step in told[-1]["steps"])


def test_the_card_that_is_shown_is_the_one_that_is_pushed_and_a_run_is_saved_once(catalog, hub_here):
    session, _ = finished(catalog, steps="2", hidden_size=32, encoder_layers=1, decoder_layers=1)
    session.endpoint = hub_here.endpoint
    assert hub.own_checkpoints(session)[0] == ("copy 1 (this session)", "run-1")
    assert hub.name_for(session, "run-1") == "attn-copy"
    *_, shown = sharing.show_card(session, {"checkpoint": "run-1", "repository": "ada/my-copy"})
    assert "<h1>my-copy</h1>" in shown["card"]
    folder = hub.find_folder(session, "run-1", "my-copy")
    assert hub.find_folder(session, "run-1", "my-copy") == folder
    pushed(catalog, hub_here, "ada/my-copy", session=session)
    card = hub_here.repo("ada/my-copy").files("main")["README.md"].decode()
    assert card == (folder / "README.md").read_text()
    session.close()


# ---------------------------------------------------------------- pull


def test_what_is_pulled_is_offered_to_this_visitor_alone_and_goes_with_the_visit(catalog, hub_here):
    pushed(catalog, hub_here)
    session, other = Session(catalog), Session(catalog)
    told = pulled(session, hub_here)
    last = boards(told)[-1]
    assert (last["status"], last["result"]["title"]) == ("finished", "Pulled and checked")
    assert 'checkpoint = "ada/attn-copy"' in last["code"][0]["text"]
    assert ("ada/attn-copy (pulled)", "ada/attn-copy") in catalog.choices(session)
    assert catalog.choices(other) == [("attn-copy (bundled)", str(catalog.folders[0][1]))]
    with catalog.open(session, "ada/attn-copy") as opened:
        assert (opened.chosen, opened.weights) == ("ada/attn-copy", "ada/attn-copy, step 60")
    first = session.pulled["ada/attn-copy"]
    pulled(session, hub_here)
    assert not first.exists(), "the same once more replaces it"
    kept = session.pulled["ada/attn-copy"]
    session.empty()
    assert (session.pulled, kept.exists()) == ({}, False)


@pytest.mark.parametrize(
    ("repo_id", "words"),
    [("ada/nothing", "There is no repo ada/nothing"), ("a b", "OWNER/NAME"), ("", "OWNER/NAME")],
)
def test_a_pull_that_is_refused_says_why_under_the_id_and_offers_nothing(catalog, hub_here, repo_id, words):
    session = Session(catalog)
    *_, last = pulled(session, hub_here, repo_id)
    assert words in last["id_error"]
    assert (session.pulled, len(catalog.choices(session))) == ({}, 1)


def test_what_is_larger_than_what_is_trained_here_is_not_pulled(catalog, hub_here, monkeypatch):
    pushed(catalog, hub_here)
    monkeypatch.setattr(hub, "LARGEST", 1000)
    session = Session(catalog)
    *_, last = pulled(session, hub_here)
    assert "at most 1.0 kB are pulled" in last["id_error"]
    assert session.pulled == {}


def test_a_pull_that_is_stopped_keeps_nothing_also_where_its_last_step_was_under_way(
    catalog, hub_here, tiny_checkpoint, monkeypatch
):
    at_work, may_go_on, is_over = threading.Event(), threading.Event(), threading.Event()

    def pull_slowly(repo_id, folder, **how):
        try:
            at_work.set()
            may_go_on.wait(60)
            yield Pulled(repo_id, tiny_checkpoint, "c0ffee", files=(), left_out=(), size=0)
        finally:
            is_over.set()

    monkeypatch.setattr(hub, "pull_checkpoint", pull_slowly)
    session = Session(catalog)
    hub.press_pull(session, {"hub_id": "ada/attn-copy", "token": hub_here.token})
    told = []
    for shown in follow_job(session, PullJob, hub.show_pull):
        told.append(shown)
        if at_work.is_set():
            session.state(hub.PullJob).stop()
    assert boards(told)[-1]["message"] == "Stopped: nothing was kept."
    may_go_on.set()
    assert is_over.wait(60)
    assert session.pulled == {}


# ---------------------------------------------------------------- what both do


def test_a_transfer_that_was_stopped_takes_no_further_step_when_another_begins():
    at_work, may_go_on, is_over, taken = threading.Event(), threading.Event(), threading.Event(), []

    def slow(_):
        try:
            yield Progress("saving", "")
            at_work.set()
            may_go_on.wait(60)
            yield Progress("uploading", "")
            taken.append("after it was stopped")
        finally:
            is_over.set()

    def next_one(_):
        may_go_on.set()
        assert is_over.wait(60)
        yield {"result": {}}

    job = Transfer()
    job.start(slow)
    for _ in job.follow():
        if at_work.is_set():
            job.stop()
    assert job.status == STOPPED
    job.start(next_one)
    list(job.follow())
    assert (job.status, taken) == (FINISHED, [])


@pytest.mark.parametrize(
    ("error", "is_logged"), [(HubError("The Hub refused.", 403), False), (KeyError("tokens"), True)]
)
def test_what_the_hub_refuses_is_nobodys_bug_and_is_not_logged(error, is_logged, caplog):
    def steps(_):
        yield Progress("saving", "")
        raise error

    job = PushJob()
    job.start(steps)
    list(job.follow())
    assert (job.status, job.fault) == (FAILED, error)
    assert str(error) in job.message
    assert bool(caplog.records) == is_logged


# ---------------------------------------------------------------- card, lines, links


def test_a_card_is_shown_without_its_html_and_loads_nothing_from_elsewhere(tiny_checkpoint, tmp_path):
    folder = tmp_path / "card"
    shutil.copytree(tiny_checkpoint, folder)
    hostile = (
        "<script>alert(1)</script>\n\n<img src=x onerror=alert(1)>\n\n[go](javascript:alert(1))\n\n"
        "![far](https://example.org/a.png) ![up](../secret.png)\n\n| a |\n|---|\n| <b>x</b> |\n"
    )
    (folder / "README.md").write_text(f"---\nlicense: <i>\n---\n{hostile}", encoding="utf-8")
    shown = render_card(folder)
    assert not re.search(r"<(script|img|b|i)\b|href=.javascript", shown)
    assert "<em>far</em> <em>up</em>" in shown
    assert 'src="data:image/png;base64,' in render_card(tiny_checkpoint)


def test_a_checkpoint_is_pulled_and_shown_also_without_a_card_or_with_one_that_is_no_text(
    catalog, hub_here, tiny_checkpoint
):
    session = Session(catalog)
    repo = hub_here.store.create("model", "ada/attn-copy", "ada", private=True)
    content = {path.name: path.read_bytes() for path in tiny_checkpoint.iterdir()}
    del content["README.md"]
    for card, shown in (
        ({}, "This checkpoint has no card."),
        ({"README.md": b"# caf\xe9"}, "<h1>caf\ufffd</h1>"),
    ):
        changes = {name: hub_here.store.keep(data) for name, data in (content | card).items()}
        repo.add_commit("refs/heads/main", repo.resolve("main"), "by anybody", "ada", changes)
        assert boards(pulled(session, hub_here))[-1]["status"] == "finished"
        chosen = {"checkpoint": "ada/attn-copy", "repository": "ada/attn-copy"}
        *_, told = sharing.show_card(session, chosen)
        assert shown in told["card"]
    session.empty()


def test_the_lines_that_load_it_are_the_cards_with_its_id_and_a_page_only_a_space_has(
    tiny_checkpoint, monkeypatch
):
    (lines,) = load_lines((tiny_checkpoint / "README.md").read_text(encoding="utf-8"), "ada/attn-copy")
    assert 'checkpoint = "ada/attn-copy"\n' in lines["text"]
    compile(lines["text"], "snippet", "exec")
    assert load_lines("# another's card", "ada/x") == []
    assert embed_lines() == []
    monkeypatch.setenv("SPACE_HOST", "ada-attn.hf.space")
    assert 'src="https://ada-attn.hf.space"' in embed_lines()[0]["text"]


def test_a_run_without_weights_is_not_shared_and_no_other_checkpoint_in_its_place(catalog):
    session = begun(catalog)
    said = sharing.take_run(session, {"repository": ""}, Event("run-1"))
    assert set(said) == {"note"}
    assert "This run has no weights yet." in said["note"]
    session.run.begin()
    shown = sharing.take_run(session, {"repository": ""}, Event("run-1"))
    assert (shown["tabs"].selected, shown["checkpoint"]["value"]) == ("share", "run-1")
    assert "note" not in shown
    session.close()
