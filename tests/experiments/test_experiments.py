"""The documents' experiments: run at a tiny size, judged by their rows, and met at the terminal."""

import dataclasses
import itertools
import json
import re
import signal
import xml.etree.ElementTree as ElementTree

import pytest
import torch

from hf_attn import attention_maps, load_checkpoint
from hf_attn.checkpoints.save_load import BUNDLED
from hf_attn.experiments import (
    EXPERIMENTS,
    beam_width,
    bottleneck,
    dilution,
    gradients,
    over_seeds,
    position_extrapolation,
    reach,
    reversal,
    rnn_vs_attention_time,
    word_order,
)
from hf_attn.experiments.base import learn, mean_of, resize
from hf_attn.experiments.length_generalization import LengthTest
from hf_attn.experiments.words import deciding_words, ngrams
from hf_attn.generation.generate import generate_answer
from hf_attn.tasks.batch import IGNORED
from hf_attn.tasks.recipes import Recipe
from hf_attn.tasks.splits import HELD_OUT, TRAINING, VALIDATION
from hf_attn.tasks.synthetic.reversing import Reversing
from hf_attn.tasks.text.language import Language
from hf_attn.viz.draw_chart import draw_chart
from tests.support.commands import in_process, rows_of, start

SHORT = Recipe(steps=2, batch_size=4)
TINY_TEXT = "".join(
    f"the {noun} {verb}.\n\n"
    for noun in ["cat", "dog", "fox", "owl", "hen"]
    for verb in ["sat", "ran", "ate"]
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Sizes at which every experiment takes a second or two."""
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text(TINY_TEXT * 4 + "".join(f"word{n} ends.\n\n" for n in range(40)))
    model = {"hidden_size": 8, "bidirectional": False}
    return {
        "bottleneck": bottleneck.Sizes((4, 8), (3, 5), SHORT, examples=20),
        "reversal": reversal.Sizes((4, 6), parameters=4000, steps=2, batch_size=4, examples=20),
        "beams": beam_width.Sizes(4, (1, 3), Recipe(model, "none", steps=20, batch_size=16), examples=20),
        "order": word_order.WordOrderSizes(length=6, steps=60, examples=100),
        "gradients": gradients.Sizes((0, 1, 4, 30), hidden_size=16, inputs=4, initialisations=2),
        "timing": rnn_vs_attention_time.Sizes(
            (
                rnn_vs_attention_time.Layer("lstm", 8, 1, (4, 20, 40)),
                rnn_vs_attention_time.Layer("rnn", 8, 2, (4,)),
            ),
            repeats=2,
        ),
        "ngrams": ngrams.Sizes(Language(window=16, path=str(path)), (1, 2), steps=2, passages=50),
        "positions": position_extrapolation.Sizes(
            ("none", "learned"), (LengthTest("copy", 3, (4,), steps=2),), examples=20
        ),
        "words": deciding_words.Sizes(steps=2, batch_size=4, contexts=(1,), counted=200, passages=60),
        "dilution": dilution.Sizes(train=2, test=(3, 4), steps=2, examples=1),
        "reach": reach.Sizes(train=2, test=(3,), models=("both_ends", "none"), steps=2, examples=5),
    }


@pytest.fixture(scope="module")
def measured(tiny):
    """Rows of every experiment, seed 0."""
    return {name: list(EXPERIMENTS[name].run(sizes, 0)) for name, sizes in tiny.items()}


@pytest.fixture
def small_experiments(tiny, monkeypatch):
    """The command line measures at the tiny sizes."""
    for name, sizes in tiny.items():
        monkeypatch.setitem(EXPERIMENTS, name, dataclasses.replace(EXPERIMENTS[name], sizes=sizes))


# Every experiment


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_rows_are_flat_and_as_many_as_announced_findings_have_their_figures_and_charts_their_names(
    name, measured, tiny
):
    rows, chosen = measured[name], EXPERIMENTS[name]
    assert len(rows) == chosen.count(tiny[name])
    assert len({frozenset(row) for row in rows} - {frozenset(rows[0])}) <= 1, "at most two kinds of rows"
    for row in rows:
        assert set(chosen.settings) <= set(row)
        assert row["seed"] == 0
        assert all(value is None or isinstance(value, (int, float, str)) for value in row.values()), row
        json.dumps(row, allow_nan=False)
    settings = [tuple(row[setting] for setting in chosen.settings) for row in rows]
    assert len(set(settings)) == len(rows), "settings tell rows apart"
    findings, chart = chosen.judge(rows), chosen.draw(rows)
    assert findings
    for finding in findings:
        assert finding.claim.endswith(".")
        assert isinstance(finding.holds, bool)
        assert re.search(r"\d", finding.measured)
    text = " ".join(ElementTree.fromstring(draw_chart(chart, ".svg")).itertext())
    assert all(label in text for label in (chart.title, *chart.series))
    assert chosen.full != chosen.sizes
    assert chosen.count(chosen.full) >= chosen.count(chosen.sizes), "the document's size"


@pytest.mark.parametrize("name", ["beams", "gradients", "ngrams"])
def test_the_same_seed_gives_the_same_figures(name, measured, tiny):
    def figures(rows):
        return [{key: value for key, value in row.items() if key != "seconds"} for row in rows]

    assert figures(EXPERIMENTS[name].run(tiny[name], 0)) == figures(measured[name])


# Verdicts come from the rows: other rows, other verdicts


def with_figures(rows, change, **settings):
    """Rows as if something else had been measured where the settings match."""
    return [
        {**row, **change} if all(row[name] == value for name, value in settings.items()) else row
        for row in rows
    ]


def holds(name, rows):
    return [finding.holds for finding in EXPERIMENTS[name].judge(rows)]


def test_a_marginal_last_doubling_is_told_from_one_that_brings_much(measured):
    rows = with_figures(measured["bottleneck"], {"token_accuracy": 0.5})
    much = with_figures(rows, {"token_accuracy": 0.9}, hidden_size=8, model="none", length=3)
    assert holds("bottleneck", rows) == [True, False, False]
    assert holds("bottleneck", much) == [False, False, False]
    harder = with_figures(rows, {"token_accuracy": 0.1}, model="none", length=5)
    assert holds("bottleneck", harder) == [True, True, True]


def test_reversal_s_gain_is_asked_of_every_model_at_every_length():
    accuracy = {"none": (0.6, 0.1), "additive": (0.9, 0.9), "transformer": (0.9, 0.05)}
    rows = [
        {"model": model, "length": length, "token_accuracy": share, "parameters": 1000, "exact_match": 0.0}
        for model, shares in accuracy.items()
        for length, share in zip((4, 6), shares, strict=True)
    ]
    assert holds("reversal", rows) == [True, False, True, False]


def test_beams_verdict_asks_every_width_and_counts_errors_among_what_is_wrong():
    figures = {1: (-2.0, 0.5, 0.2), 3: (-1.0, 0.6, 0.1), 5: (-1.5, 0.9, 0.02)}  # 0.02 is a fifth of 0.1
    names = ("log_probability", "exact_match", "search_errors")
    rows = [{"num_beams": width, **dict(zip(names, row, strict=True))} for width, row in figures.items()]
    assert holds("beams", rows) == [False, True, False]


def test_ngrams_verdict_on_what_the_text_fills_is_of_the_largest_table():
    rows = [
        {"model": model, "perplexity": 5.0, "parameters": cells, "met": met}
        for model, cells, met in (("2-gram", 100, 50), ("3-gram", 10_000, 60), ("attention", 1000, None))
    ]
    assert holds("ngrams", rows)[3]


def test_positions_verdicts_are_of_every_task_and_of_what_lies_beyond():
    rows = [
        {"task": task, "position_type": kind, "inside": inside, "beyond": 0.5, "step_ms": 1.0}
        for task, none in (("copy", 0.01), ("reverse", 0.5))
        for kind, inside in (("none", none), ("sinusoidal", 1.0))
    ]
    beyond_copy, beyond_reverse, without, *_ = holds("positions", rows)
    assert (beyond_copy, beyond_reverse, without) == (False, False, False)


def test_order_s_verdict_follows_accuracy(measured):
    rows = with_figures(measured["order"], {"exact_match": 0.5})
    assert holds("order", rows) == [True, True, False, False]
    assert holds("order", with_figures(rows, {"exact_match": 1.0})) == [False, False, True, True]


def test_gradients_verdict_follows_what_is_left(measured):
    alike = with_figures(measured["gradients"], {"gradient_norm": 0.1})
    assert holds("gradients", alike) == [False, False, False, False, True]
    gone = with_figures(alike, {"gradient_norm": 1e-9}, distance=30)
    assert holds("gradients", gone) == [True, True, True, True, False]


def test_timing_s_verdict_follows_the_milliseconds(measured):
    rows = [{**row, "forward_ms": row["length"], "training_ms": row["length"]} for row in measured["timing"]]
    assert holds("timing", rows) == [True, False, False, False, False]
    share = {"attention": 0.1}
    faster = [
        {**row, **{name: row[name] * share.get(row["model"], 1) for name in ("forward_ms", "training_ms")}}
        for row in rows
    ]
    assert holds("timing", faster) == [True, True, True, True, True]
    quadratic = [{**row, "forward_ms": row["length"] ** 2} for row in measured["timing"]]
    assert not holds("timing", quadratic)[0]


def test_a_verdict_on_rows_that_are_missing_is_refused(measured):
    with pytest.raises(ValueError, match="run the experiment to its end"):
        bottleneck.judge(measured["bottleneck"][:-1])


# What they stand on


def test_order_s_examples_come_in_twins_with_opposite_answers(generator):
    task = word_order.Order(length=8)
    for split, batch in (("training", task.sample(generator, 64)), ("held-out", task.held_out(64))):
        assert {task.find_split(task.read_source(row)) for row in batch.input_ids.tolist()} == {split}
        ids, labels = batch.input_ids, batch.labels
        assert torch.equal(ids[::2].sort(dim=1).values, ids[1::2].sort(dim=1).values)
        assert torch.equal(labels[::2] + labels[1::2], torch.ones(32, dtype=torch.long))
        for row, label in zip(ids.tolist(), labels.tolist(), strict=True):
            assert task.answer(task.read_source(row)) == task.classes[label]


def test_a_search_wide_enough_finds_the_likeliest_of_all_sequences():
    task = Reversing(min_length=2, max_length=2, num_symbols=4)
    recipe = Recipe({"hidden_size": 8, "bidirectional": False}, "none", steps=10, batch_size=8)
    model, _ = learn(task, recipe, 0)
    batch = task.batch_of(["1 2", "3 3"])
    found = beam_width.search(model, batch, 100, 3)
    greedy = beam_width.search(model, batch, 1, 3)
    everything = torch.tensor(list(itertools.product(range(len(task.vocabulary)), repeat=3)))
    for row in range(2):
        sources = batch[torch.full((len(everything),), row)]
        scores = beam_width.log_probabilities(model, sources, everything)
        best = float(beam_width.log_probabilities(model, batch, found)[row])
        assert best == pytest.approx(float(scores.max()), abs=1e-4)
        alone = generate_answer(model, batch.input_ids[row : row + 1], "greedy", max_new_tokens=3)
        assert tuple(greedy[row, : len(alone.ids)].tolist()) == alone.ids
        assert float(beam_width.log_probabilities(model, batch, greedy)[row]) == pytest.approx(
            alone.score, abs=1e-4
        )
        assert alone.score <= best + 1e-4


@pytest.mark.parametrize("discount", [0.3, 0.9])
def test_a_table_of_n_grams_gives_probabilities_that_sum_to_1(generator, discount):
    vocab_size = 6
    passages = torch.randint(1, vocab_size, (5, 20), generator=generator)
    table = ngrams.NGrams(ngrams.grams_of(passages, 2), vocab_size)
    for context in ([1, 1], [3, 5], [0, 0], [5, 0]):  # met and never met
        grams = torch.tensor([[*context, token] for token in range(vocab_size)])
        shares = table.probabilities(grams, discount)
        assert float(shares.sum()) == pytest.approx(1.0)
        assert bool((shares > 0).all())


def test_a_table_of_bigrams_counts_as_one_would_by_hand():
    passages = torch.tensor([[4, 5, 4, 5, 4, 4, IGNORED]])
    table = ngrams.NGrams(ngrams.grams_of(passages, 1), 6)
    # behind 4: 5 twice, 4 once. Alone: 4 behind three different tokens (<s>, 5, 4), 5 behind one.
    alone = [(3 - 0.5) / 4 + 0.5 * 2 / 4 / 6, (1 - 0.5) / 4 + 0.5 * 2 / 4 / 6]
    behind_4 = [(1 - 0.5) / 3 + 0.5 * 2 / 3 * alone[0], (2 - 0.5) / 3 + 0.5 * 2 / 3 * alone[1]]
    found = table.probabilities(torch.tensor([[4, 4], [4, 5]]), 0.5)
    assert found.tolist() == pytest.approx(behind_4)


def test_a_table_s_discount_is_chosen_on_validation(generator):
    known = torch.randint(3, 6, (20, 20), generator=generator)
    strange = torch.randint(3, 40, (20, 20), generator=generator)
    for validating, held_out in ((known, strange), (strange, known)):
        parts = {TRAINING: known, VALIDATION: validating, HELD_OUT: held_out}
        table = ngrams.count_table(parts, 1, 40)
        best = {
            split: min(
                ngrams.DISCOUNTS,
                key=lambda d, split=split: table.grams.perplexity(ngrams.grams_of(parts[split], 1), d),
            )
            for split in (VALIDATION, HELD_OUT)
        }
        assert table.discount == best[VALIDATION] != best[HELD_OUT]


def test_gradients_are_what_small_changes_make_of_the_last_output(generator):
    sizes = gradients.Sizes((0, 1, 5), hidden_size=8, inputs=1)
    model = gradients.build("LSTM", sizes, 0)
    norms = gradients.gradient_norms(model, 6, 1, torch.Generator().manual_seed(3))
    again = torch.Generator().manual_seed(3)
    inputs = torch.randn(1, 6, 8, dtype=torch.float64, generator=again)
    direction = torch.nn.functional.normalize(torch.randn(1, 8, dtype=torch.float64, generator=again), dim=1)

    @torch.no_grad()
    def moved(change):
        return float((model(inputs_embeds=inputs + change).last_hidden_state[:, -1] * direction).sum())

    for place in (0, 5):
        slopes = []
        for channel in range(8):
            change = torch.zeros_like(inputs)
            change[0, place, channel] = 1e-6
            slopes.append((moved(change) - moved(-change)) / 2e-6)
        assert float(torch.tensor(slopes).norm()) == pytest.approx(float(norms[place]), rel=1e-4)


def test_several_seeds_become_means_with_their_spread():
    rows = [{"model": "a", "seed": s, "share": share, "steps": 5} for s, share in enumerate((0.2, 0.4))]
    (row,) = over_seeds(rows, ("model",))
    assert row == {
        "model": "a",
        "share": pytest.approx(0.3),
        "share_sd": pytest.approx(0.1414, abs=1e-4),
        "steps": 5,
        "seeds": 2,
    }
    assert mean_of(rows, "share", model="a") == pytest.approx(0.3)


# At the terminal


def test_without_a_name_the_experiments_are_listed(capsys):
    code, output, _ = in_process(capsys, "experiment", "--json")
    assert code == 0
    rows = rows_of(output)
    assert [row["name"] for row in rows] == list(EXPERIMENTS)
    assert all(row["event"] == "experiment" and row["question"].endswith("?") for row in rows)
    assert "bottleneck" in in_process(capsys, "experiment")[1]
    code, output, errors = in_process(capsys, "experiment", "alchemy")
    assert (code, output) == (2, "")
    assert "There is no experiment 'alchemy'; choose one of " + ", ".join(EXPERIMENTS) in errors


def test_json_lines_are_rows_and_a_result_with_verdicts(capsys, small_experiments, tiny, tmp_path):
    folder = tmp_path / "out"
    code, output, _ = in_process(
        capsys, "experiment", "gradients", "--json", "--seeds", "2", "--seed", "3", "--output-dir", folder
    )
    assert code == 0
    *rows, result = rows_of(output)
    assert {row["event"] for row in rows} == {"row"}
    assert {row["experiment"] for row in rows} == {"gradients"}
    assert {row["seed"] for row in rows} == {3, 4}
    assert (result["event"], result["rows"]) == ("result", len(rows))
    findings = gradients.judge(rows)
    assert result["verdicts"] == [dataclasses.asdict(finding) for finding in findings]
    kept = rows_of((folder / "rows.jsonl").read_text())
    assert kept == [{k: v for k, v in row.items() if k not in ("event", "experiment")} for row in rows]
    assert {path.name for path in folder.iterdir()} == {
        "rows.jsonl",
        "figure.png",
        "figure.svg",
        "result.json",
    }
    assert json.loads((folder / "result.json").read_text())["verdicts"] == result["verdicts"]


def test_a_person_reads_rows_a_table_and_verdicts(capsys, small_experiments):
    code, output, _ = in_process(capsys, "experiment", "timing")
    assert code == 0
    assert output.count("forward_ms") == 8
    assert "In all rows: repeats 2." in output
    assert re.search(r"^(Yes|No): .*LSTM.*\)$", output, re.MULTILINE)


def test_a_folder_with_rows_is_not_overwritten(capsys, small_experiments, tmp_path):
    (tmp_path / "rows.jsonl").write_text("{}\n")
    code, _, errors = in_process(capsys, "experiment", "gradients", "--output-dir", tmp_path)
    assert code == 2
    assert "name another folder" in errors
    assert (tmp_path / "rows.jsonl").read_text() == "{}\n"


@pytest.mark.nightly
def test_ctrl_c_leaves_the_rows_written_so_far(tmp_path):
    folder = tmp_path / "out"
    with start("experiment", "gradients", "--output-dir", folder, "--json") as process:
        first = json.loads(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        output, errors = process.stdout.read(), process.stderr.read()
    assert process.returncode == 1
    assert '"result"' not in output
    kept = rows_of((folder / "rows.jsonl").read_text())
    assert kept[0].items() <= first.items()
    assert len(kept) < gradients.EXPERIMENT.count(gradients.EXPERIMENT.sizes)
    assert re.search(r"Stopped after \d+ rows; they are in \S+rows\.jsonl", " ".join(errors.split())), errors
    assert [path.name for path in folder.iterdir()] == ["rows.jsonl"]


# Settings


def test_an_experiment_takes_settings_of_its_own_and_refuses_others(capsys):
    sizes = resize(reach.Sizes(), {"task": "copy", "train": 5, "test": "20, 50", "models": ["none"]})
    assert sizes == reach.Sizes("copy", 5, (20, 50), ("none",))
    assert resize(reach.Sizes(), {"test": 12}).test == (12,)
    for settings, sentence in (
        ({"tests": 3}, "no setting 'tests'; choose task, train, test, models, steps, runs, examples"),
        ({"test": "20,a"}, "test='20,a' is not understood; write test=20,50"),
        ({"steps": 0}, "steps=0 must be at least 1"),
        ({"task": "division"}, "task='division' is not known; choose one of addition, "),
        ({"test": "20,5"}, "test=5 must be a whole number from 11 to 2,000"),
        ({"test": "20,20"}, "test names one of its values twice"),
        ({"task": "copy", "test": 2000}, "test=2000 must be a whole number from 11 to 1,000"),
        ({"task": []}, "is not known"),
        ({"models": "rope"}, "models='rope' is not known; choose one of both_ends, "),
    ):
        with pytest.raises(ValueError, match=sentence):
            resize(reach.Sizes(), settings)


def test_the_attention_on_what_is_needed_is_the_mean_of_a_plain_loop():
    checkpoint = load_checkpoint(BUNDLED / "attn-addition-long")
    model, task, source = checkpoint.model, checkpoint.task, "98+7"
    written = [task.vocabulary[digit] for digit in "501"]
    maps = attention_maps(model, torch.tensor([task.encode(source)]), torch.tensor([written]))
    digits = {0: [1, 3], 1: [0, 1, 3], 2: [0]}  # of the answer, the ones first → places in the source
    weights, found = maps.answering.weights, []
    for layer, head, step in itertools.product(range(1), range(4), range(3)):
        found.append(sum(float(weights[layer, head, step, place]) for place in digits[step]))
    assert dilution.mass_of(model, task, source) == pytest.approx(sum(found) / len(found), abs=1e-6)


def test_what_is_kept_in_a_crowd_is_judged_at_the_longest():
    rows = [
        {"model": model, "size": size, "seed": seed, "kept": kept}
        for seed in (0, 1)
        for model, size, kept in (
            ("with noise", 20, 0.5),
            ("with noise", 50, 0.97),
            ("without", 20, 0.99),
            ("without", 50, 0.9),
        )
    ]
    assert [finding.holds for finding in dilution.judge(rows)] == [True, True]
    swapped = [row | {"kept": 1.87 - row["kept"]} for row in rows]
    assert [finding.holds for finding in dilution.judge(swapped)] == [False, False]


def test_a_run_that_is_not_right_on_validation_is_made_anew_with_twice_the_steps():
    task = Reversing(3)
    short = dataclasses.replace(reach.recipe_for("both_ends", 3), report_every=3, evaluate_every=3)
    model, seconds, steps = reach.learn_until_right(task, short, 0, runs=3)
    assert steps == 12
    whole, seconds_of_whole = learn(task, dataclasses.replace(short, steps=12), 2 * reach.ANEW)
    assert seconds > seconds_of_whole / 2
    for weight, other in zip(model.parameters(), whole.parameters(), strict=True):
        assert torch.equal(weight, other)
    assert reach.learn_until_right(task, short, 0, runs=1)[2] == 3


def test_a_reach_is_judged_by_its_worst_kind_at_the_longest():
    row = {"task": "addition", "train": 10, "model": "both_ends", "seed": 0}
    kinds = {"same lengths": 1.0, "nines": 0.98}
    rows = [{**row, "size": 10, "kind": "held-out", "exact_match": 1.0}]
    rows += [{**row, "size": 50, "kind": kind, "exact_match": share} for kind, share in kinds.items()]
    (finding,) = reach.judge(rows)
    assert (finding.holds, "50: 0.980" in finding.measured) == (False, True)
    (finding,) = reach.judge(rows[:2])
    assert finding.holds
    other = [{**line, "seed": 1, "exact_match": 0.5} for line in rows[:2]]
    (finding,) = reach.judge(rows[:2] + other)  # one seed fails: the mean does not hide it
    assert (finding.holds, "whatever the seed (2)" in finding.claim) == (False, True)
    (ten, five) = reach.judge(rows[:2] + [{**line, "train": 5} for line in other])
    assert (ten.holds, five.holds) == (True, False)
