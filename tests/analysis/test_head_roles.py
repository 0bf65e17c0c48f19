"""What heads do: known maps have known scores, chance has chance's, and training is told from none."""

import dataclasses
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_attn.analysis.head_metrics import THEORY, measure_theory
from hf_attn.analysis.head_roles import (
    KINDS,
    ROLES,
    average,
    build_attention_mask,
    build_untrained,
    find_keys,
    is_separator,
    measure_even_attention,
    measure_head_roles,
    measure_heads,
    measure_roles,
    share_on,
)
from hf_attn.architectures.registry import build_model
from hf_attn.checkpoints.save_load import load_checkpoint
from hf_attn.interpret.attention_maps import attention_maps, weight_on_alignment
from hf_attn.tasks import build_task
from tests.support.checks import build_classifier, build_decoder, build_seq2seq, random_ids
from tests.support.recurrent_models import build_recurrent

CARDS = Path(__file__).parents[2] / "model_cards"
FEW = settings(max_examples=25, deadline=None)


def scores(map_, kind="encoder", **given):
    """Role → score of one head's map [Q, K]."""
    return {role: float(score) for role, score in measure_roles(map_[None, None], kind, **given).items()}


def put_weight(places, queries, keys):
    """All weight of query q on key places[q]; a row of zeros where it is None."""
    weights = torch.zeros(queries, keys)
    for query, place in enumerate(places):
        if place is not None:
            weights[query, place] = 1
    return weights


# Known maps


@pytest.mark.parametrize(
    ("role", "places"),
    [
        ("diagonal", [0, 1, 2, 3, 4]),
        ("previous", [4, 0, 1, 2, 3]),  # the first query has none before it, and may read what it likes
        ("next", [1, 2, 3, 4, 0]),
        ("first", [0, 0, 0, 0, 0]),
        ("separator", [4, 2, 2, 4, 2]),
    ],
)
def test_a_head_that_does_one_thing_alone_scores_1_in_it_and_less_elsewhere(role, places):
    tokens = ("the", "▁cat", ".", "sat", "</s>")
    found = scores(put_weight(places, 5, 5), key_tokens=tokens)
    assert found.pop(role) == 1
    assert max(found.values()) < 1
    assert found["uniform"] == 0


def test_the_last_queries_of_a_decoder_stand_at_its_last_places():
    whole = put_weight([0, 0, 1, 2, 3], 5, 5)
    assert scores(whole[2:], "decoder")["previous"] == 1
    assert torch.equal(build_attention_mask("decoder", 3, 5), build_attention_mask("decoder", 5, 5)[2:])
    assert torch.equal(find_keys("decoder", 3, 5)["diagonal"], find_keys("decoder", 5, 5)["diagonal"][2:])


def test_a_role_without_an_occasion_has_no_score():
    alone = torch.ones(1, 1)
    assert all(math.isnan(score) for score in scores(alone, key_tokens=("a",)).values())
    assert math.isnan(scores(torch.full((2, 2), 0.5), key_tokens=("a", "b"))["separator"])
    assert set(scores(alone)) == set(ROLES) - {"separator", "alignment"}  # of which nothing was told


# Any map


def draw_map(seed, kind, queries, keys, sharpness):
    """[1, 2, Q, K] as a model's softmax leaves it."""
    keys = max(queries, keys) if kind == "decoder" else keys
    drawn = sharpness * torch.randn(1, 2, queries, keys, generator=torch.Generator().manual_seed(seed))
    return kind, drawn.masked_fill(~build_attention_mask(kind, queries, keys), -math.inf).softmax(-1)


maps = st.builds(
    draw_map,
    st.integers(0, 10_000),
    st.sampled_from(KINDS),
    st.integers(1, 7),
    st.integers(1, 7),
    st.floats(0, 30),
)


@FEW
@given(maps, st.integers(0, 10_000))
def test_a_score_is_the_mean_over_queries_written_out(drawn, seed):
    kind, weights = drawn
    queries, keys = weights.shape[-2:]
    mask = build_attention_mask(kind, queries, keys)
    chosen = torch.rand(queries, keys, generator=torch.Generator().manual_seed(seed)) < 0.4
    shares = []
    for query in range(queries):
        allowed = [key for key in range(keys) if mask[query, key]]
        wanted = [key for key in allowed if chosen[query, key]]
        if wanted and len(wanted) < len(allowed):
            shares.append(sum(float(weights[0, 0, query, key]) for key in wanted))
    score = float(share_on(weights, chosen, mask)[0, 0])
    assert math.isnan(score) if not shares else score == pytest.approx(sum(shares) / len(shares), abs=1e-5)


@FEW
@given(st.integers(0, 10_000), st.integers(1, 7), st.integers(2, 7))
def test_alignment_is_what_inspection_measures(seed, queries, keys):
    _, weights = draw_map(seed, "cross", queries, keys, 3.0)
    places = torch.randint(keys, (queries,), generator=torch.Generator().manual_seed(seed))
    alignment = torch.nn.functional.one_hot(places, keys).tolist()
    torch.testing.assert_close(
        measure_roles(weights, "cross", alignment=alignment)["alignment"].float(),
        weight_on_alignment(weights, alignment),
    )


# Whole models


@pytest.mark.parametrize(
    ("build", "target", "kinds"),
    [
        (build_seq2seq, random_ids(1, 5), {"encoder": (2, 2), "decoder": (2, 2), "cross": (2, 2)}),
        (build_classifier, None, {"encoder": (2, 2)}),
        (build_decoder, random_ids(1, 5), {"decoder": (2, 2)}),
        (lambda: build_recurrent(score_function="additive"), random_ids(1, 5), {"cross": (1, 1)}),
    ],
)
def test_every_kind_of_model_has_every_figure_of_every_head(build, target, kinds):
    maps = attention_maps(build(), random_ids(1, 6), target)
    alignment = [[0] * 5 + [1]] * 5
    measured = measure_heads(maps, alignment)
    assert {kind: figures["entropy"].shape for kind, figures in measured.items()} == kinds
    assert measure_even_attention(maps, alignment).keys() == measured.keys()
    for figures in measured.values():
        assert set(THEORY) | set(ROLES) - {"alignment"} <= set(figures)
    if target is not None:
        answering = maps.answering
        wanted = weight_on_alignment(answering.weights, answering.align(alignment))
        torch.testing.assert_close(measured[answering.kind]["alignment"].float(), wanted)


def test_a_trained_copier_reads_what_it_writes_and_untrained_it_does_not():
    checkpoint = load_checkpoint(CARDS / "attn-copy")
    found = measure_head_roles(checkpoint.model, checkpoint.task, examples=20)
    assert found.examples == 20
    assert found.trained["cross"]["alignment"].shape == (2, 2)
    assert (found.trained["cross"]["alignment"] > 0.8).all()
    assert (found.untrained["cross"]["alignment"] < 0.2).all()
    assert found.even["cross"]["alignment"] < 0.2
    torch.testing.assert_close(
        found.trained["cross"]["alignment"], found.trained["cross"]["diagonal"]
    )  # a copy's answer lies on the diagonal
    assert (found.trained["cross"]["uniform"] < found.untrained["cross"]["uniform"]).all()


def test_figures_of_a_model_are_the_means_over_its_examples_one_by_one():
    task = build_task("copy", max_length=5, num_symbols=9)
    recipe = dataclasses.replace(
        task.recipe, model={**task.recipe.model, "hidden_size": 16, "intermediate_size": 16}
    )
    model = build_model(task, recipe, seed=3)
    found = measure_head_roles(model, task, examples=6, with_untrained=False)
    assert found.untrained == {}
    batch, alone = task.held_out(6), []
    for row in range(6):
        source = task.read_source(batch.input_ids[row].tolist())
        one = task.batch_of([source])
        maps = attention_maps(model, one)
        figures = measure_heads(maps, task.alignment(source, task.answer(source)))["cross"]
        alone.append({"cross": {name: figures[name] for name in ("alignment", "next", "effective_rank")}})
    for name, mean in average(alone)["cross"].items():
        torch.testing.assert_close(found.trained["cross"][name], mean)


def test_a_head_chooses_that_reads_the_deciding_word_wherever_it_stands():
    loaded = load_checkpoint(CARDS / "attn-sentences")
    found, task = measure_head_roles(loaded.model, loaded.task, examples=60), loaded.task
    batch, sides = task.held_out(60), {True: [], False: []}
    for row in range(60):
        words = task.decode(batch.labels[row].tolist())
        maps = attention_maps(loaded.model, batch, row=row).decoder
        weights = {True: [], False: []}
        for decision in task.decisions_of(task.ids(*words.split())):
            if decision.is_first is not None:
                keys = [1 + place for place in decision.by]
                weights[decision.is_first].append(maps[:, :, decision.at, keys].sum(-1).double())
        for side, of in weights.items():
            sides[side] += [torch.stack(of).mean(0)] if of else []
    means = [torch.stack(of).mean(0) for of in sides.values()]
    torch.testing.assert_close(found.trained["decoder"]["chooses"], torch.minimum(*means))
    assert found.trained["decoder"]["chooses"].max() > 0.6 > 0.2 > found.untrained["decoder"]["chooses"].max()
    assert not {"earlier", "later"} & found.trained["decoder"].keys()


def test_an_untrained_model_is_what_its_own_training_began_with():
    task = build_task("copy", max_length=5, num_symbols=9)
    begun = build_model(task, task.recipe, seed=7)
    trained = build_model(task, task.recipe, seed=7)
    with torch.no_grad():
        for weight in trained.parameters():
            weight.add_(1)
    state = torch.get_rng_state()
    untrained = build_untrained(trained, seed=7)
    assert torch.equal(torch.get_rng_state(), state)
    assert all(
        torch.equal(one, other) for one, other in zip(untrained.parameters(), begun.parameters(), strict=True)
    )
    assert next(trained.parameters()).data_ptr() != next(untrained.parameters()).data_ptr()


# Refusals


def test_what_does_not_fit_is_refused_in_words():
    even = torch.full((1, 1, 3, 4), 1 / 4)
    with pytest.raises(ValueError, match="kind='self' is not known; choose one of encoder, decoder, cross"):
        measure_roles(even, "self")
    with pytest.raises(ValueError, match="key_tokens has 3 tokens for 4 keys: give one a key"):
        measure_roles(even, "cross", key_tokens=("a", "b", "c"))
    with pytest.raises(ValueError, match="key_tokens has 1 tokens for 4 keys"):
        find_keys("cross", 3, 4, (".",))
    with pytest.raises(ValueError, match="key_tokens='abcd' is a text: give its tokens"):
        measure_roles(even, "cross", key_tokens="abcd")
    with pytest.raises(ValueError, match="kind='self' is not known"):
        measure_roles(even, "self", may_attend=torch.ones(3, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"alignment has shape \[2, 4\]; give one row for each of 3 queries"):
        measure_roles(even, "cross", alignment=[[0] * 4] * 2)
    with pytest.raises(ValueError, match="5 queries need as many keys, not 4"):
        build_attention_mask("decoder", 5, 4)
    task = build_task("copy", max_length=5, num_symbols=9)
    with pytest.raises(ValueError, match="examples=0 must be a whole number from 1"):
        measure_head_roles(build_seq2seq(), task, examples=0)
    silent = build_model(task, task.recipes_of("none")["product"])
    with pytest.raises(ValueError, match="no attention to measure: it reads step by step"):
        measure_head_roles(silent, task, examples=1)


def test_an_example_without_a_figure_does_not_count_to_its_mean():
    found = [{"cross": {"next": torch.tensor([[number, 0.2]])}} for number in (math.nan, 0.4, 0.6)]
    assert average(found)["cross"]["next"].tolist() == [pytest.approx([0.5, 0.2])]


def test_separators_are_ends_and_punctuation_and_no_operators():
    tokens = ("</s>", "[SEP]", ".", "Ġ,", "...", "-", "a.", "(", "x", "▁", "")
    assert tuple(token for token in tokens if is_separator(token)) == tokens[:5]


def test_the_first_key_is_the_first_that_may_be_attended():
    may_attend = torch.ones(4, 4, dtype=torch.bool).tril()
    padded = torch.zeros(6, 6, dtype=torch.bool)
    padded[2:, 2:] = may_attend
    weights = put_weight([0] * 4, 4, 4)
    left = torch.nn.functional.pad(weights, (2, 0, 2, 0))
    figures = measure_roles(left, "decoder", may_attend=padded)
    assert figures["first"].item() == measure_roles(weights, "decoder")["first"].item() == 1
    assert figures["first"].item() == measure_theory(left, padded)["sink"].item()
