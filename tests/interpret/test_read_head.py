"""Any weight taken apart: it is the model's own and PyTorch's, and the documents' figures stand in it."""

import dataclasses

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as draw

from hf_attn.interpret.attention_maps import attention_maps
from hf_attn.interpret.head import LONGEST, MOST_DIGITS, SCORE_DIGITS, Head, round_half_up
from hf_attn.interpret.random_head import build_random_head, embed_words
from hf_attn.interpret.read_head import find_readable_attention, read_head
from hf_attn.models.positions import POSITION_TYPES
from hf_attn.textbooks.chapter_1 import basics
from hf_attn.textbooks.chapter_8 import examples
from hf_attn.textbooks.claims import CORRECTED, flat
from hf_attn.textbooks.exercises import BANKS, check_hand_exercise, separate_query_key_value, set_beside
from hf_attn.textbooks.notebook import printed_numbers
from hf_attn.textbooks.worked_examples import WORKED_EXAMPLES
from tests.support.checks import assert_close, build_classifier, build_decoder, build_seq2seq, random_ids
from tests.support.recurrent_models import build_recurrent


def drawn_head(data) -> Head:
    """A head of any shape, mask and bias."""
    rows, columns, width, values = (data.draw(draw.integers(1, 7)) for _ in range(4))
    generator = torch.Generator().manual_seed(data.draw(draw.integers(0, 999)))
    size = data.draw(draw.sampled_from((0.1, 1.0, 4.0)))
    shapes = ((rows, width), (columns, width), (columns, values))
    tensors = (size * torch.randn(*shape, generator=generator).double() for shape in shapes)
    bias = torch.randn(rows, columns, generator=generator).double() if data.draw(draw.booleans()) else None
    hidden = data.draw(draw.sets(draw.integers(0, columns - 1), max_size=columns - 1))
    return Head(
        tuple(f"r{i}" for i in range(rows)),
        tuple(f"c{i}" for i in range(columns)),
        *tensors,
        scale=data.draw(draw.booleans()),
        causal=rows == columns and data.draw(draw.booleans()),
        hidden=tuple(sorted(hidden)),
        bias=bias,
    )


# The arithmetic


@settings(max_examples=25, deadline=None)
@given(draw.data())
def test_every_row_is_what_pytorch_computes_and_sums_to_one_or_to_nothing(data):
    head = drawn_head(data)
    sums = head.weights.sum(dim=1)
    assert_close(sums, head.may_attend.any(dim=1).double())
    assert (head.weights[~head.may_attend] == 0).all()
    if head.may_attend.any():
        assert head.measure_torch_difference().largest < 1e-5


@settings(max_examples=25, deadline=None)
@given(draw.data())
def test_a_cell_is_explained_from_products_to_output(data):
    head = drawn_head(data)
    row, column = (data.draw(draw.integers(0, len(side) - 1)) for side in (head.rows, head.columns))
    told = head.explain(row, column)
    line = told.chosen
    assert sum(told.products) == pytest.approx(line.score, abs=1e-9)
    assert line.scaled == pytest.approx(line.score * head.scaling)
    assert sum(one.exp for one in told.lines) == pytest.approx(told.exp_sum)
    assert line.weight == pytest.approx(line.exp / told.exp_sum if told.exp_sum else 0.0)
    assert [sum(parts) for parts in zip(*(one.contribution for one in told.lines), strict=True)] == (
        pytest.approx(told.output)
    )


@settings(max_examples=25, deadline=None)
@given(draw.lists(draw.floats(-50, 50), min_size=1, max_size=64))
def test_the_products_as_shown_sum_to_the_score_as_shown(products):
    query = torch.tensor([products], dtype=torch.float64)
    told = Head(("q",), ("k",), query, torch.ones_like(query), query).explain(0, 0)
    shown = sum(round_half_up(product, told.product_digits) for product in told.products)
    score = round_half_up(told.chosen.score, SCORE_DIGITS)
    assert told.product_digits == MOST_DIGITS or round_half_up(shown, SCORE_DIGITS) == score
    assert abs(shown - score) < 0.006


def test_what_does_not_fit_is_refused_in_words():
    head = WORKED_EXAMPLES["exercise-1"].build(0)
    with pytest.raises(ValueError, match=r"\(3, 0\) is no cell: rows are 0 to 2"):
        head.explain(3, 0)
    with pytest.raises(ValueError, match="leaves no key to read"):
        dataclasses.replace(head, hidden=(0, 1, 2))
    with pytest.raises(ValueError, match="hidden=5 is no key"):
        dataclasses.replace(head, hidden=(5,))
    with pytest.raises(ValueError, match=r"bias has shape \[3\]; give \[3, 3\]"):
        dataclasses.replace(head, bias=torch.zeros(3))
    with pytest.raises(ValueError, match=r"\(0.5, 'x'\) is no cell"):
        head.explain(0.5, "x")
    with pytest.raises(ValueError, match="give one row a token"):
        dataclasses.replace(head, rows=("a", "b"))
    with pytest.raises(ValueError, match="as many queries as keys"):
        dataclasses.replace(head, rows=("a", "b"), query=head.query[:2], causal=True)


# A trained model's own tensors


def model_with(kind: str, position_type: str):
    """A tiny model with a map of that kind and that way to tell places."""
    build = {"encoder": build_classifier, "decoder": build_decoder, "cross": build_seq2seq}[kind]
    return build("eager" if position_type == "relative" else "sdpa", position_type=position_type)


@pytest.mark.parametrize(
    ("kind", "position_type"),
    [("encoder", "learned"), ("decoder", "alibi"), *(("cross", name) for name in POSITION_TYPES)],
)
def test_the_weights_are_the_model_s_own_with_every_way_to_tell_a_place(kind, position_type):
    model, source = model_with(kind, position_type), random_ids(1, 7)
    target = None if kind == "encoder" else random_ids(1, 5, seed=1)
    maps = attention_maps(model, source, target)
    for name, stack in find_readable_attention(model).items():
        for layer in range(len(stack)):
            head = read_head(model, source, target, kind=name, layer=layer, head=1)
            own = getattr(maps, name)[layer, 1]
            assert (head.weights - own).abs().max() < 1e-6, (name, layer)
            assert head.measure_torch_difference().largest < 1e-5
            assert head.scaled.shape == own.shape


def test_the_outputs_are_what_the_model_s_attention_hands_on():
    model, source = build_classifier("eager", position_type="relative"), random_ids(1, 6)
    (stack,) = find_readable_attention(model).values()
    written = []
    handle = stack[0].o_proj.register_forward_hook(lambda _, args, output: written.append(args[0]))
    heads = [read_head(model, source, layer=0, head=index).outputs for index in range(2)]
    handle.remove()
    assert_close(torch.cat(heads, dim=1), written[0][0].double())


def test_a_map_that_there_is_not_is_refused():
    model = build_seq2seq()
    with pytest.raises(
        ValueError, match="kind='self' is none of this model's; choose cross, encoder, decoder"
    ):
        read_head(model, random_ids(1, 3), kind="self")
    with pytest.raises(ValueError, match="head=2 is not there: cross attention has 2 heads, from 0"):
        read_head(model, random_ids(1, 3), head=2)
    with pytest.raises(ValueError, match="layer=-3 is not there: cross attention has 2 layers, from 0"):
        read_head(model, random_ids(1, 3), layer=-3)
    with pytest.raises(ValueError, match="has no queries and keys"):
        read_head(build_recurrent(), random_ids(1, 3))


# A sentence of one's own


def test_a_word_has_one_vector_in_every_sentence_and_becomes_another_thing_in_each():
    assert torch.equal(embed_words(["river", "bank"])[1], embed_words(["bank"])[0])
    head = build_random_head(BANKS[0])
    beside = set_beside(head)
    there = build_random_head(BANKS[1])
    assert (head.rows[-1], there.rows[-1], beside.word) == ("bank", "bank", "bank")
    assert torch.equal(head.key[-1], there.key[-1])
    assert beside.output == flat(there.outputs[-1])
    assert beside.apart == pytest.approx(float((head.outputs[-1] - there.outputs[-1]).norm()))
    assert beside.apart > 0.1
    assert set_beside(build_random_head("another bank")) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("  ", "is empty"),
        ("word " * (LONGEST + 1), "has 65 words; up to 64 are read number by number"),
        ("<pad> <pad>", "All 2 tokens"),
    ],
)
def test_a_sentence_that_cannot_be_walked_through_is_refused(text, words):
    with pytest.raises(ValueError, match=words):
        build_random_head(text)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"head": 1.0}, "head=1.0 of num_heads=2: choose 1, 2, 4 heads"),
        ({"num_heads": 2.0}, "num_heads=2.0"),
        ({"hidden": [True]}, "hidden=True is no key: places are 0 to 2"),
        ({"seed": 2**70}, "seed=1180591620717411303424 must be a whole number from 0"),
    ],
)
def test_a_setting_of_a_sentence_that_cannot_be_is_refused(given, words):
    with pytest.raises(ValueError, match=words):
        build_random_head("time flies fast", **given)


# The documents


def test_every_figure_that_the_documents_print_is_compared_and_the_known_faults_are_found():
    wrong = {
        name: [figure.printed for printed in example.printed for figure in example.compare(printed)
               if figure.verdict == CORRECTED]
        for name, example in WORKED_EXAMPLES.items()
    }  # fmt: skip
    assert wrong == {
        "exercise-1": ["0.28", "0.28", "0.44"],
        "time-flies": ["True"],
        "causal": [],
        "padding": ["0.00"] * 4,
        "cat": ["0.245", "0.198", "0.221", "0.203", "0.234", "0.187"],
        "notebook-raw": [],
        "notebook-head": [],
        "notebook-heads": [],
    }


def test_the_worked_examples_are_the_sources_own():
    assert_close(WORKED_EXAMPLES["exercise-1"].build(0).weights, basics.by_hand()[0].double())
    assert_close(WORKED_EXAMPLES["cat"].build(0).weights, basics.heatmap().double(), 1e-6)
    assert_close(WORKED_EXAMPLES["time-flies"].build(0).outputs, examples.contextual())
    assert_close(
        WORKED_EXAMPLES["causal"].build(0).weights,
        examples.masked(torch.ones(4, 4).tril().bool()).double(),
        1e-6,
    )
    assert_close(
        WORKED_EXAMPLES["notebook-raw"].build(0).outputs, printed_numbers.raw_attention()[1].double(), 1e-5
    )
    assert_close(
        WORKED_EXAMPLES["notebook-head"].build(0).weights[1],
        printed_numbers.single_head()["weights"].double(),
    )
    keys = printed_numbers.many_heads(printed_numbers.SKIPPED)["keys"]
    assert_close(WORKED_EXAMPLES["notebook-heads"].build(2).key, keys[2].double(), 1e-5)
    assert (WORKED_EXAMPLES["padding"].build(0).weights[:, 3] == 0).all()


def test_a_learner_s_figures_are_right_within_two_decimals_and_told_what_they_come_from():
    head = WORKED_EXAMPLES["exercise-1"].build(0)
    right = {name: [[f"{x:.2f}" for x in row] for row in getattr(head, name).tolist()]
             for name in ("scores", "weights", "outputs")}  # fmt: skip
    judged = check_hand_exercise(right)
    assert all(one.is_right for lines in judged.values() for line in lines for one in line)
    document = [["", "", ""], ["", "", ""], [".28", "0,28", "0.44"]]
    third = check_hand_exercise({"weights": document})["weights"]
    assert [one.is_right for one in third[0]] == [None] * 3
    assert [one.is_right for one in third[2]] == [False] * 3
    assert third[2][2].hint.startswith("e^1.41 ÷ (e^0.71 + e^0.71 + e^1.41)")
    (word,) = check_hand_exercise({"outputs": [["half"]]})["outputs"][0]
    assert (word.is_right, word.hint) == (False, "“half” is no number: write digits, for example .28.")


def test_only_the_third_step_of_role_separation_makes_scores_asymmetric():
    one, two, three = separate_query_key_value()
    assert max(one.asymmetry, two.asymmetry) < 1e-12
    assert three.asymmetry > 0.1
    assert_close(one.head.outputs, examples.contextual())
    assert torch.equal(two.head.value, three.head.value)
    assert not torch.equal(two.head.query, two.head.value)
