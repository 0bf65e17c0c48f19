"""The sentence over a run says what its own figures say, of every task and in every case."""

import json
import re

import pytest
import torch

from demos.core.fields import task_choices
from demos.jobs import training_job
from demos.jobs.probe import read_map
from demos.jobs.training_job import TrainingJob
from demos.tabs.train import form
from demos.ui import boards
from hf_attn import load_checkpoint
from hf_attn.analysis.ablation import Trial, measure_outcomes
from hf_attn.checkpoints.save_load import BUNDLED
from hf_attn.interpret.interventions import Intervention
from hf_attn.tasks import TASKS
from tests.support.browser import open_tab

DRAW = """value => {
    const element = document.createElement("div"), inner = document.createElement("div");
    inner.className = "hf-train";
    element.append(inner);
    document.body.append(element);
    hfAttn.train_board(element).update(value);
    const words = selector => element.querySelector(selector).textContent.replaceAll("\\u202f", " ");
    const read = () => ({
        headline: words(".hf-headline"),
        asked: words(".hf-asked > span"),
        looks: words(".hf-looks h2"),
        writes: words(".hf-answers h2"),
        verdicts: [...element.querySelectorAll(".hf-answers li > :last-child")].map(one => one.textContent),
    });
    const seen = read();
    element.querySelector(".hf-asked button").click();
    const after = read();
    element.remove();
    return [seen, after];
}"""
LABELS = [label for label, (name, *_) in task_choices().items() if not TASKS[name].column_options]
HEAD = r"([\d.]+) % of the weight of (?:head (\d+)·(\d+)|the mean of layer (\d+))"


@pytest.fixture(scope="module")
def page(chromium, served_app):
    with open_tab(chromium, served_app, "Train") as page:
        yield page


def tell(page, message):
    """Return what stands over the run, before and after its first button was pressed."""
    return page.evaluate(DRAW, json.loads(boards.to_json(message)))


def train(label, **changes):
    """Return the job of a task's own settings, done."""
    filled = {name: update.get("value") for name, update in form.choose_task(label).items()}
    made = form.read_form({**filled, "task": label, "seed": "0", "probe": "", **changes})
    job = TrainingJob("run-1", "one", *made, "cpu", measure_baseline=lambda _: None)  # it takes long
    list(job.follow())
    return job


def on_rings(job, layer, head):
    """Return the weight that lies on the rings of the probe's map, by hand."""
    weights, labels = read_map(job.model, job.task, job.probe)
    place = labels["layers"].index(layer)
    shown = weights[place].mean(dim=0) if head is None else weights[place][head - 1]
    rows = [row for row, needs in enumerate(labels["truth"]) if any(needs)]
    needed = torch.tensor(labels["truth"]) > 0
    return float((shown * needed).sum(dim=1)[rows].mean())


@pytest.mark.parametrize("label", LABELS)
def test_after_training_the_sentence_is_true_by_the_runs_own_figures(page, label, monkeypatch):
    monkeypatch.setattr(training_job, "LEARNED", 0)  # asked after two steps too
    job = train(label, steps="2")
    seen, after = tell(page, job.to_message(whole=True))
    share, steps = re.match(r"([\d.]+) % (?:right|guessed) after (\d+) steps", seen["headline"]).groups()
    assert float(share) == pytest.approx(100 * job.evaluation.overall.exact_match, abs=0.06)
    assert int(steps) == job.step == 2
    assert ("It needs more" in seen["headline"]) <= (job.evaluation.overall.exact_match < 0.9)
    for weight, layer, head, mean in re.findall(HEAD, seen["headline"]):
        found = on_rings(job, int(layer or mean), int(head) if head else None)
        assert float(weight) == pytest.approx(100 * found, abs=0.15)
    needed = job.needed
    name = f"head {needed['layer']}·{needed['head']}" if needed["head"] else f"layer {needed['layer']}"
    assert f"without {name}" in after["headline"]
    assert after["headline"].startswith("Yes" if needed["whole"] - needed["left"] >= 0.05 else "No")


def test_a_trained_copier_s_sentence_question_and_answer_are_measured(page):
    job = train("Copy")
    (kind,) = {job.map["kind"]}
    seen, after = tell(page, job.to_message(whole=True))
    needed = job.needed
    shown = on_rings(job, needed["layer"], needed["head"] or None)
    exact = "exactly" if shown >= 0.95 else "mostly"
    assert f"It looks {exact} where the answer stands" in seen["headline"]
    head = needed["head"] - 1 if needed["head"] else None
    trial = Trial((Intervention("remove", kind, needed["layer"] - 1, head),))
    whole, without = measure_outcomes(job.model, job.task, [trial], 500)
    assert (needed["whole"], needed["left"]) == (whole.exact_match, without.exact_match)
    assert f"of {without.examples} unseen inputs" in after["asked"]
    assert "now" in after["writes"]
    assert not any(row["right"] for row in needed["predictions"])


def test_how_far_a_run_reaches_is_drawn_as_it_grows_and_said_at_its_end(page, monkeypatch):
    monkeypatch.setattr(training_job, "REACHED", {2: 1, 4: 5})
    monkeypatch.setattr(training_job, "WATCHED", (4, 2))
    job = train("Long arithmetic", steps="2")
    watched = [point["beyond"] for _, point in job.points if point["validation"] is not None]
    assert watched == [0.0] * len(watched)
    assert job.reach == [{"size": 20, "right": 0, "examples": 4}, {"size": 40, "right": 0, "examples": 20}]
    seen, _ = tell(page, job.to_message(whole=True))
    assert "Learned on at most" not in seen["headline"], "it has not learned"
    job.model.load_state_dict(load_checkpoint(BUNDLED / "attn-addition-long").model.state_dict())
    job.measure()
    job.measure_reach()
    seen, _ = tell(page, job.to_message(whole=True))
    assert "100 % right" in seen["headline"]
    assert "Learned on at most 10 digits; right on 20 of 20 with 40 digits." in seen["headline"]
    plain = train("Copy", steps="2").to_message(whole=True)
    assert plain["meta"]["reach"] is None
    assert not any("beyond" in point for point in plain["points"])
