"""Models of language in Explore: ours of English, and others'; what they expect, and what decides it."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from transformers import BertConfig, BertForMaskedLM

from demos.session import model_input
from demos.session.catalog import ModelCatalog, build_catalog, load_once
from demos.session.session import Session
from demos.tabs.explore import tab as explore
from demos.tabs.explore.ablation_panel import AblationQuestion
from demos.tabs.explore.head_scores import ExploreState
from demos.tabs.explore.layers import read_layers
from demos.tabs.explore.predictions import DECIDED_EXAMPLES
from hf_attn.analysis.ablation import Trial, measure_outcomes
from hf_attn.analysis.predictions import predict_tokens
from hf_attn.interpret.interventions import Intervention
from tests.app.test_lens import save
from tests.app.test_snippets import run_lines
from tests.support.native_models import build_native
from tests.support.sessions import ask_model

CATALOG = build_catalog()
TIRED = "The cat sat on the mat because it was tired. The tired"


def bundled(name):
    return next(str(path) for _, path in CATALOG.folders if path.name == name)


ENGLISH = bundled("attn-sentences")


def show(session, chosen, text, target=""):
    """Show an input in Explore; give the lens's value and the panels'."""
    updates = explore.show_input(session, {"checkpoint": chosen, "text": text, "target": target})
    assert (updates["error"], updates["target_error"]) == ("", "")
    return json.loads(updates["board"]), json.loads(updates["checks"])


def ask(session, *question, **more):
    *_, last = ask_model(session, AblationQuestion(*question, **more))
    value = json.loads(last["checks"])
    assert value["error"] == ""
    return value


@pytest.fixture(scope="module")
def others(tmp_path_factory):
    """Folders of others' models, and one without its tokenizer."""
    folders = {}
    for name in ("gpt2", "bert", "t5"):
        folders[name] = tmp_path_factory.mktemp(name)
        for part in build_native(name):
            part.save_pretrained(folders[name])
    folders["ids alone"] = tmp_path_factory.mktemp("ids")
    build_native("gpt2")[0].save_pretrained(folders["ids alone"])
    return {name: str(folder) for name, folder in folders.items()}


def opened(folder):
    session = Session(ModelCatalog(), device="cpu")
    assert session.catalog.take(session, folder) == folder
    return session


# English


def test_what_a_head_s_removal_does_to_a_word_and_to_its_kind_is_the_package_s():
    session = Session(CATALOG, device="cpu")
    lens, _ = show(session, ENGLISH, TIRED)
    place = {name: lens[name] for name in ("layer", "head")}
    answer = ask(session, "head", kind="decoder", by_kind=True, **place)["answer"]
    head = Trial((Intervention("remove", "decoder", **place),))
    found = load_once(ENGLISH)
    whole, changed = predict_tokens(found.model, torch.tensor([found.task.encode(TIRED)]), [head])
    cat = found.task.vocabulary["cat"]
    (row,) = [row for row in answer["places"][-1] if row[0] == "cat"]
    before, after = (float(one.log_probabilities[-1, cat].exp()) for one in (whole, changed))
    assert row[1:] == pytest.approx([before, after], abs=1e-6)
    assert [moved[1] for moved in answer["moved"]] == pytest.approx(
        changed.total_variation.tolist(), abs=1e-6
    )
    kinds = answer["held_out"]["kinds"]
    trials = [head, Trial(edges="known"), Trial(edges="control")]
    outcomes = list(measure_outcomes(found.model, found.task, trials, DECIDED_EXAMPLES))
    for name, outcome in zip(("whole", "left", "known", "control"), outcomes, strict=True):
        assert kinds["tired or wide"][name][0] == outcome.by_size["tired or wide"].exact_match
    tired = kinds["tired or wide"]
    assert tired["whole"][0] > 0.95 > tired["left"][0] > tired["known"][0]
    assert tired["control"][0] > 0.95
    run = run_lines(answer)
    torch.testing.assert_close(run.changed.total_variation, changed.total_variation)


def test_a_text_may_go_on_or_have_another_word_and_the_chips_say_so():
    session, values = Session(CATALOG, device="cpu"), {"checkpoint": ENGLISH}
    first = {**values, "text": "The cat sat on the mat because it was tired."}
    offered = model_input.offer_more(session, ENGLISH, first["text"], is_wrong=False)
    assert offered["next_1"]["value"] == ". the tired"
    longer = model_input.take_followup(session, first | {"followup": ". the tired"})["text"]
    assert longer == "the cat sat on the mat because it was tired . the tired"
    offered = model_input.offer_more(session, ENGLISH, longer, is_wrong=False)
    assert (offered["next_1"]["value"], offered["next_2"]["visible"]) == ("tired → soft", False)
    soft = model_input.take_followup(session, {**values, "text": longer, "followup": "tired → soft"})["text"]
    lens, _ = show(session, ENGLISH, soft)
    assert lens["kinds"]["decoder"]["cols"][lens["key"]] == "mat"
    assert model_input.take_followup(session, first | {"followup": "gone"}) == {}


def test_a_sentence_that_a_model_cannot_read_is_offered_to_the_one_that_can():
    session, chosen = Session(CATALOG, device="cpu"), bundled("attn-addition")
    updates = explore.show_input(session, {"checkpoint": chosen, "text": TIRED, "target": ""})
    assert 'role="alert"' in updates["error"]
    offered = model_input.offer_more(session, chosen, TIRED, is_wrong=True)
    assert offered["offer"]["visible"]
    taken = model_input.take_offer(session, {"checkpoint": chosen, "text": TIRED})
    assert taken == {"checkpoint": ENGLISH}
    nothing = model_input.offer_more(session, chosen, "15 +", is_wrong=True)
    assert not nothing["offer"]["visible"]


# Models of others


def test_others_models_write_nothing_unasked_and_say_what_they_expect(others, monkeypatch):
    for name, text, what in (
        ("gpt2", "the cat sat", "next"),
        ("bert", "the cat", "masked"),
        ("t5", "the cat", "written"),
    ):
        session = opened(others[name])
        lens, panels = show(session, others[name], text)
        written = session.state(ExploreState).written
        assert len(written) == (1 if name == "t5" else 0)
        kind = {"gpt2": "decoder", "bert": "encoder", "t5": "cross"}[name]
        assert len(panels["predictions"]["places"]) == len(lens["kinds"][kind]["rows"])
        assert panels["predictions"]["what"] == what
        if name != "t5":
            assert lens["kinds"][kind]["rows"] == lens["kinds"][kind]["cols"]
        answer = ask(session, "head", kind=kind, layer=1, head=1)["answer"]
        assert answer["option"] == ""  # `hf-attn ablate` refuses a model without a task
        assert max(moved[1] for moved in answer["moved"]) > 0
        monkeypatch.chdir(Path(others[name]).parent)  # the lines name the folder alone
        run = run_lines(answer)
        assert run.changed.total_variation.tolist() == pytest.approx(
            [m[1] for m in answer["moved"]], abs=1e-6
        )


def test_writing_on_is_a_press_away(others):
    for name, field in (("gpt2", "text"), ("t5", "target")):
        session = opened(others[name])
        values = {"checkpoint": others[name], "text": "the cat"}
        updates = explore.write_on(session, values)
        assert list(updates) == [field]
        assert name == "t5" or updates["text"].startswith("the cat")
    assert explore.write_on(session, values | {"text": ""}) == {}


def test_a_model_is_shown_with_a_sentence_for_its_kind(tmp_path, others):
    folder = save(
        tmp_path / "mlm", BertForMaskedLM(BertConfig(vocab_size=11, hidden_size=16, num_attention_heads=2))
    )
    for chosen, wanted in (
        (others["gpt2"], "because it was"),
        (others["t5"], "<extra_id_0>"),
        (folder, "mat"),
    ):
        session = opened(chosen)
        for text in ("153+391", "", "the [MASK] sat"):
            updates = model_input.choose_checkpoint(session, chosen, text)
            assert wanted in updates["text"]
        assert model_input.choose_checkpoint(session, chosen, "my own words")["text"] == "my own words"


def test_a_model_without_a_tokenizer_reads_ids_and_says_so(others):
    session = opened(others["ids alone"])
    updates = model_input.choose_checkpoint(session, others["ids alone"], "the cat")
    assert updates["text"] == "1 2 3 4 5"
    assert "came without a tokenizer" in updates["hint"]
    lens, panels = show(session, others["ids alone"], "5 12 7")
    assert lens["kinds"]["decoder"]["rows"] == ["5", "12", "7"]
    assert len(panels["predictions"]["places"]) == 3
    for text in ("the cat", "5 9999", ""):
        updates = explore.show_input(session, {"checkpoint": others["ids alone"], "text": text, "target": ""})
        assert "write ids from 0 to 297, for example 5 12 7" in updates["error"]


# Layer by layer


def look_into(session, **event):
    event = SimpleNamespace(**{"id": session.state(ExploreState).id, "changed": None, "place": -1, **event})
    return json.loads(read_layers(session, event)["checks"])["layers"]


def test_each_layer_s_tokens_and_each_patch_are_the_package_s(others, monkeypatch):
    for chosen, session in ((ENGLISH, Session(CATALOG, device="cpu")), (others["t5"], opened(others["t5"]))):
        text, changed = (
            (TIRED, TIRED.replace("tired", "soft")) if chosen == ENGLISH else ("the cat", "the dog")
        )
        show(session, chosen, text)
        lens = look_into(session)["lens"]
        monkeypatch.chdir(Path(chosen).parents[1] if chosen == ENGLISH else Path(chosen).parent)
        run = run_lines(lens)
        assert [max(row) for row in lens["p"]] == pytest.approx(
            [float(row.exp().max(-1).values.max()) for row in run.lens]
        )
        patching = look_into(session, changed=changed)["patching"]
        run = run_lines(patching)
        recovery = torch.tensor(
            [[torch.nan if x is None else x for x in row] for row in patching["recovery"]]
        )
        torch.testing.assert_close(recovery, run.found.recovery, equal_nan=True)
        assert [a == b for a, b in zip(patching["columns"], patching["others"], strict=True)].count(False) > 0


def test_layers_that_cannot_be_read_say_why_and_what_was_read_stays(others):
    session = opened(others["gpt2"])
    show(session, others["gpt2"], "the cat sat")
    lens = look_into(session)["lens"]
    for changed, why in (
        ("the", "The changed text has 1 tokens"),
        ("", "tokens"),
        ("x" * 2000, "characters"),
    ):
        layers = look_into(session, changed=changed)
        assert why in layers["why"]
        assert (layers["lens"], "patching" in layers) == (lens, False)
    assert read_layers(session, SimpleNamespace(id=-1, changed=None, place=-1)) == {}
    show(session, others["gpt2"], "the cat " * 40)
    assert "64 are read layer by layer" in look_into(session)["why"]
