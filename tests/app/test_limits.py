"""What a public server refuses, in a sentence that says the limit; the same is taken at home."""

from dataclasses import replace

import gradio as gr
import pytest

from demos.core import limits
from demos.core.limits import HOME, PUBLIC
from demos.jobs import job as driving
from demos.jobs.job import RUNNING, STOPPED
from demos.session import page
from demos.session.catalog import LoadedModel, ModelCatalog
from demos.session.session import Session
from demos.tabs.duel import tab as duel
from demos.tabs.duel.job import DuelJob
from demos.tabs.language import word_order, word_vectors
from demos.tabs.language.word_order import WordOrderJob
from demos.tabs.language.word_vectors import KEPT, WordVectorsJob
from demos.tabs.positions import tab as positions
from demos.tabs.positions.length_test import LengthTestJob
from demos.tabs.share import handlers as share
from demos.tabs.train import form, messages
from demos.ui.formatting import count
from hf_attn.tasks import build_task
from tests.support.sessions import begun, changed, follow_job

LARGE = {"hidden_size": 512, "num_attention_heads": 4, "encoder_layers": 6, "decoder_layers": 6}


@pytest.fixture
def space(monkeypatch):
    """A server to which strangers come."""
    monkeypatch.setattr(limits, "_launched", [PUBLIC])


@pytest.mark.parametrize(
    ("field", "changes", "most"),
    [("hidden_size", LARGE, count(PUBLIC.parameters)), ("steps", {"steps": "5001"}, count(PUBLIC.steps))],
)
def test_a_space_says_under_the_field_how_much_it_trains(space, field, changes, most):
    with pytest.raises(form.FieldError, match=most) as refused:
        form.read_form(changed(**changes))
    assert refused.value.field == field


def test_what_a_limit_just_allows_is_taken():
    PUBLIC.refuse_more("steps", PUBLIC.steps)
    with pytest.raises(ValueError, match="steps are too many"):
        PUBLIC.refuse_more("steps", PUBLIC.steps + 1)


def test_a_space_says_how_long_a_text_may_be(space):
    with pytest.raises(ValueError, match=count(PUBLIC.characters)):
        LoadedModel("", None, None, build_task("copy"), "").encode("1 " * 10_001)


def test_a_space_keeps_no_file_that_is_too_large_and_says_so_under_it(space, tmp_path):
    path = tmp_path / "table.csv"
    with path.open("wb") as file:
        file.truncate(PUBLIC.upload_bytes + 1)
    session = Session()
    session.take(str(path), ("source", "target"))
    assert session.folder is None, "not copied"
    with pytest.raises(form.FieldError, match="up to 5 MB") as refused:
        form.read_options({"task": "Your own pairs"}, session.table)
    assert refused.value.field == "table"


@pytest.mark.parametrize(
    "place", ["/etc/passwd", "../secret", "own_task.py", "a/b/c", "C:\\x", "model_cards"]
)
def test_a_space_opens_no_file_of_the_server_and_runs_no_code(space, place):
    with pytest.raises(ValueError, match="opens no files of its own"):
        ModelCatalog().take(Session(), place)
    PUBLIC.refuse_path("google-bert/bert-base-uncased")


def test_a_space_forgets_what_a_tab_remembers_with_the_visit(monkeypatch):
    assert page.state_of(None).time_to_live == HOME.session_seconds
    monkeypatch.setenv("SPACE_ID", "ada/attn")
    assert page.state_of(None).time_to_live == PUBLIC.session_seconds


def test_a_space_keeps_fewer_runs_of_a_visit(space):
    session = Session()
    for _ in range(PUBLIC.runs + 1):
        run = session.add(*form.read_form(changed()))
    assert len(session.runs) == PUBLIC.runs < HOME.runs
    assert f"{PUBLIC.runs} runs are kept" in run.made_room


def test_every_limit_of_a_space_is_lower():
    for name in vars(HOME).keys() - {"audience"}:
        assert getattr(PUBLIC, name) < getattr(HOME, name), name


@pytest.mark.parametrize("name", ["copy", "reverse", "addition", "parser", "modular", "parity"])
def test_every_recipe_can_be_trained_in_a_space(name):
    task = build_task(name)
    for model in form.architectures_of(task.kind):
        for recipe in task.recipes_of(model).values():
            assert recipe.steps <= PUBLIC.steps
            PUBLIC.refuse_more("parameters", form.build_empty(task, recipe).num_parameters())


def limit(monkeypatch, **changes):
    monkeypatch.setattr(driving, "limits_here", lambda: replace(HOME, **changes))


def test_a_run_whose_time_is_up_gives_its_place_back_and_can_go_on(monkeypatch):
    session = begun(steps="8")
    limit(monkeypatch, run_seconds=0.0)
    list(session.run.follow())
    assert session.run.status == STOPPED
    assert "at the time limit of this server" in messages.status_message(session.run)
    assert messages.show_controls(session)["pause"]["value"] == "Resume"
    assert session.run.can_go_on
    limit(monkeypatch)
    session.run.status = RUNNING
    list(session.run.follow())
    assert session.run.step == 8
    assert session.run.message == ""
    assert "time limit" not in messages.status_message(session.run)


def test_a_run_that_reports_nothing_for_long_gives_its_place_back_all_the_same(monkeypatch):
    _, recipe, seed = form.read_form(changed(steps="20000"))
    session = Session(device="cpu")
    session.add(
        build_task("copy", max_length=5), replace(recipe, report_every=10**6, evaluate_every=10**6), seed
    )
    limit(monkeypatch, run_seconds=0.3)
    list(session.run.follow())
    assert session.run.status == STOPPED
    assert 0 < session.run.step < 20_000


def test_whatever_learns_gives_its_place_back_when_its_time_is_up_and_says_so(monkeypatch):
    session = Session(device="cpu")
    rivals = {"task": "Copy", "size": 5, "models": ["none", "transformer"], "parameters": "50 k"}
    rivals |= {"budget": "steps", "steps": "5000", "seconds": "1", "seed": "0"}
    duel.press_start(session, rivals)
    positions.press_start(session, {"task": "Copy", "types": ["alibi"], "run_seed": "0"})
    word_order.press_learn(session)
    composed = word_vectors.COMPOSED
    words = dict(zip(KEPT[3:], word_vectors.ASKED[composed], strict=True))
    vectors = {"vectors_source": composed, "vectors_kind": "CBOW", "vectors_text": "", **words}
    word_vectors.press_train(session, vectors)
    limit(monkeypatch, run_seconds=1.0)  # of a duel for each of its runs: its models are built in them too
    told = [[*follow_job(session, DuelJob, duel.show_duel)][-1]["note"]]
    limit(monkeypatch, run_seconds=0.001)
    shows = {LengthTestJob: positions.show_test, WordOrderJob: word_order.show_job}
    shows |= {WordVectorsJob: word_vectors.show_job}
    told += [[*follow_job(session, kind, show)][-1]["note"] for kind, show in shows.items()]
    assert [session.state(kind).status for kind in (DuelJob, *shows)] == [STOPPED] * 4
    assert ["at the time limit of this server" in note for note in told] == [True] * 4
    assert all(0 < run.step < 5000 and run.can_go_on for run in session.state(DuelJob).runs)


# ---------------------------------------------------------------- signing in


def test_nobody_can_sign_in_outside_of_a_space(monkeypatch):
    monkeypatch.delenv("SPACE_ID", raising=False)
    assert not share.offers_login()
    assert share.login_button() is None


def test_a_space_without_an_oauth_app_offers_no_login(monkeypatch):
    monkeypatch.setenv("SPACE_ID", "ada/attn")
    for name in share.NEEDED:
        monkeypatch.delenv(name, raising=False)
    assert not share.offers_login()


def test_a_typed_token_goes_before_being_signed_in():
    signed = gr.OAuthToken("hf_signed", "contribute-repos", 0)
    assert share.visitor_token(" hf_typed ", signed) == "hf_typed"
    assert share.visitor_token("", signed) == "hf_signed"
    with pytest.raises(ValueError, match="Nobody is signed in"):
        share.visitor_token(None)


def test_gradio_gives_a_handler_the_visitor_s_token():
    from gradio.helpers import special_args

    def handler(typed: str, signed: gr.OAuthToken | None):
        return share.visitor_token(typed, signed)

    inputs, *_ = special_args(handler, ["hf_typed"], None, None)
    assert inputs == ["hf_typed", None], "nobody is signed in here"
