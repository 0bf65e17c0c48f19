"""Writing: every strategy against transformers' own generate and processors, and its definition."""

import math
import re

import pytest
import torch
from transformers.generation.logits_process import MinPLogitsWarper, TopKLogitsWarper, TopPLogitsWarper

from hf_attn.generation.generate import generate_answer, greedy_ids, temper
from hf_attn.generation.strategies import STRATEGIES, cut_min_p, cut_nucleus, cut_top_k
from tests.support.checks import (
    END,
    PAD,
    SIDES,
    START,
    assert_close,
    build_classifier,
    build_decoder,
    build_seq2seq,
    pad,
    random_ids,
    random_rows,
)


def eager_to_end(model, by: float = 2.0):
    """Raise the end's score, so that random models end some answers early."""
    with torch.no_grad():
        model.lm_head.weight[END] *= by
    return model


@torch.no_grad()
def log_probability(model, source, ids) -> float:
    """Sum of log p over ids, by one pass without a cache."""
    read = torch.tensor([[START, *ids[:-1]]])
    log_p = model(source, decoder_input_ids=read).logits[0].log_softmax(-1)
    return sum(float(row[token]) for row, token in zip(log_p, ids, strict=True))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("position_type", ["learned", "rotary"])
def test_greedy_ids_equal_generate(position_type, side):
    model = eager_to_end(build_seq2seq(position_type=position_type))
    ids, mask = pad(random_rows(*range(1, 17)), side)
    written = greedy_ids(model, ids, mask, max_new_tokens=12)
    generated = model.generate(ids, attention_mask=mask, max_new_tokens=12, do_sample=False)
    assert written.tolist() == generated[:, 1:].tolist()


def test_greedy_ids_pad_behind_the_end_and_stop_when_every_row_has_ended():
    model = eager_to_end(build_seq2seq())
    rows = greedy_ids(model, random_ids(32, 6), max_new_tokens=12).tolist()
    ended = [row for row in rows if END in row]
    assert 0 < len(ended) < len(rows), "the sources should give answers that end and answers that do not"
    for row in ended:
        assert set(row[row.index(END) + 1 :]) <= {PAD}
    lengths = {row.index(END) + 1 for row in ended}
    source = random_ids(32, 6)[[row for row in range(32) if END in rows[row]]]
    assert greedy_ids(model, source, max_new_tokens=12).shape[1] == max(lengths)


def test_a_decoder_writes_until_its_positions_are_full_and_the_last_token_needs_none():
    model = build_decoder(position_type="learned", eos_token_id=None)
    assert model.config.max_position_embeddings == 24
    assert len(generate_answer(model, random_ids(1, 4)).ids) == 24 - 4 + 1


def test_every_end_of_several_ends_an_answer():
    model = build_seq2seq()
    first = greedy_ids(model, random_ids(1, 4), max_new_tokens=3)[0].tolist()
    model.config.eos_token_id = [END, first[1]]
    assert (
        greedy_ids(model, random_ids(1, 4), max_new_tokens=9)[0].tolist()
        == first[: first.index(first[1]) + 1]
    )
    assert list(generate_answer(model, random_ids(1, 4)).ids) == first[: first.index(first[1]) + 1]


@pytest.mark.parametrize("seed", range(2))
def test_writing_greedily_equals_greedy_ids_up_to_the_last_position(seed):
    model, source = build_seq2seq(seed=seed), random_ids(1, 5, seed=seed)
    expected = tuple(greedy_ids(model, source, max_new_tokens=24)[0].tolist())
    assert generate_answer(model, source).ids == expected
    assert generate_answer(model, source, "top-k", top_k=1).ids == expected
    assert generate_answer(model, source, "nucleus", top_p=1e-6).ids == expected
    assert generate_answer(model, source, "nucleus", temperature=0).ids == expected
    assert generate_answer(model, source, "min-p", min_p=1.0).ids == expected
    assert generate_answer(model, source, "top-k", temperature=1e-40).ids == expected
    assert generate_answer(model, source, "beam", num_beams=1).ids == expected


def test_a_score_is_the_sum_of_the_models_own_log_probabilities():
    model, source = build_seq2seq(), random_ids(1, 5)
    for strategy in STRATEGIES:
        how = {"temperature": 0.5} if STRATEGIES[strategy].samples else {}
        found = generate_answer(model, source, strategy, **how, max_new_tokens=10)
        assert found.score == pytest.approx(log_probability(model, source, found.ids), abs=1e-3)
        for choice, token in zip(found.choices, found.ids, strict=True):
            assert choice.token == token
            assert float(choice.probabilities.sum()) == pytest.approx(1, abs=1e-5)
            assert float(choice.allowed.sum()) == pytest.approx(1, abs=1e-5)
            assert choice.allowed[token] > 0
    for answer in generate_answer(model, source, "beam", max_new_tokens=10).beams.answers:
        expected = log_probability(model, source, answer.ids)
        assert answer.log_probability == pytest.approx(expected, abs=1e-3)


def test_sampling_repeats_with_its_seed_and_leaves_the_global_generator_alone():
    model, source = build_seq2seq(), random_ids(1, 5)
    state = torch.get_rng_state()
    for strategy in (name for name, row in STRATEGIES.items() if row.samples):
        drawn = [
            generate_answer(model, source, strategy, temperature=3.0, seed=seed).ids for seed in (1, 1, 2)
        ]
        assert drawn[0] == drawn[1]
        assert drawn[0] != drawn[2]
    assert torch.equal(torch.get_rng_state(), state)


def test_sampling_draws_each_token_as_often_as_it_is_likely():
    model, source = build_seq2seq(), random_ids(1, 5)
    drawn = [
        generate_answer(model, source, "top-k", top_k=3, max_new_tokens=1, seed=seed) for seed in range(300)
    ]
    allowed = drawn[0].choices[0].allowed
    counts = torch.bincount(torch.tensor([found.ids[0] for found in drawn]), minlength=23) / 300
    assert (allowed > 0).sum() == 3
    assert_close(counts, allowed, tolerance=0.1)
    assert (counts[allowed == 0] == 0).all()


def test_temperature_is_the_formula_and_survives_its_extremes(generator):
    logits = torch.randn(9, generator=generator)
    assert_close(temper(logits, 0.7), (logits / 0.7).exp() / (logits / 0.7).exp().sum())
    assert temper(logits, 0).tolist() == torch.eye(9)[logits.argmax()].tolist()
    for temperature in (1e-45, 1e-3, 1e30):
        assert float(temper(logits, temperature).sum()) == pytest.approx(1, abs=1e-5)
    assert_close(temper(logits, 1e30), torch.full((9,), 1 / 9))


@pytest.mark.parametrize(
    ("cut", "values", "processor"),
    [
        (cut_top_k, (1, 4, 23), TopKLogitsWarper),
        (cut_nucleus, (0.05, 0.5, 0.9), TopPLogitsWarper),
        (cut_min_p, (0.0, 0.05, 0.3, 1.0), MinPLogitsWarper),
    ],
)
def test_a_cut_leaves_what_the_processor_of_transformers_leaves(cut, values, processor, generator):
    for value in values:
        logits = torch.randn(23, generator=generator) * 3
        expected = processor(value)(None, logits.unsqueeze(0))[0].softmax(-1)
        assert_close(cut(logits.softmax(-1), value), expected)


def test_writing_lets_dropout_rest_and_gives_every_module_its_mode_back():
    model, source = build_seq2seq(dropout=0.5, attention_dropout=0.5), random_ids(1, 5)
    expected = {
        strategy: generate_answer(model, source, strategy, max_new_tokens=8).ids for strategy in STRATEGIES
    }
    model.train()
    model.get_encoder().eval()
    modes = [module.training for module in model.modules()]
    for strategy in STRATEGIES:
        assert generate_answer(model, source, strategy, max_new_tokens=8).ids == expected[strategy]
        assert [module.training for module in model.modules()] == modes
    assert greedy_ids(model, source, max_new_tokens=8)[0].tolist() == list(expected["greedy"])
    assert [module.training for module in model.modules()] == modes
    with pytest.raises(ValueError, match="25 tokens"):
        greedy_ids(model, random_ids(1, 25))
    assert [module.training for module in model.modules()] == modes


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"strategy": "gready"}, r"strategy='gready'.*greedy, beam, top-k, nucleus"),
        ({"strategy": "beam", "num_beams": 0}, r"num_beams=0 must be a whole number from 1 to 100"),
        ({"strategy": "beam", "length_penalty": math.nan}, r"length_penalty=nan must be a number from -10"),
        ({"strategy": "top-k", "top_k": 0}, r"top_k=0 must be a whole number from 1"),
        ({"strategy": "top-k", "temperature": math.inf}, r"temperature=inf"),
        ({"strategy": "nucleus", "top_p": 0.0}, r"top_p=0.0 must be a number from 1e-09 to 1"),
        ({"strategy": "min-p", "min_p": -0.1}, r"min_p=-0.1 must be a number from 0 to 1"),
        ({"strategy": "min-p", "seed": 2**70}, r"seed=1180591620717411303424"),
        ({"max_new_tokens": 10**12}, r"max_new_tokens=1000000000000"),
    ],
)
def test_a_setting_that_no_strategy_can_use_is_refused(setting, sentence):
    with pytest.raises(ValueError, match=sentence):
        generate_answer(build_seq2seq(), random_ids(1, 4), **setting)


@pytest.mark.parametrize(
    ("strategy", "setting", "sentence"),
    [
        ("greedy", {"seed": 3}, "seed=3 is not used by strategy='greedy'; it uses nothing: leave seed out."),
        ("beam", {"top_p": 0.5}, "it uses num_beams, length_penalty: leave top_p out."),
        ("min-p", {"top_q": 5}, "top_q=5 is not used by strategy='min-p'"),
    ],
)
def test_a_setting_that_the_strategy_does_not_use_is_refused(strategy, setting, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        generate_answer(build_seq2seq(), random_ids(1, 4), strategy, **setting)
    generate_answer(build_seq2seq(), random_ids(1, 4), strategy, **dict.fromkeys(setting), max_new_tokens=1)


def test_a_classifier_names_its_likeliest_class_and_takes_no_other_strategy():
    model, source = build_classifier(), random_ids(1, 5)
    with torch.no_grad():
        assert generate_answer(model, source).ids == (int(model(source).logits.argmax()),)
    for strategy in set(STRATEGIES) - {"greedy"}:
        with pytest.raises(ValueError, match=f"names a class; strategy='{strategy}' is for models"):
            generate_answer(model, source, strategy)


def test_a_nucleus_stops_as_soon_as_it_holds_what_it_must():
    kept = cut_nucleus(torch.tensor([0.5, 0.25, 0.25]), 0.5)
    assert kept.tolist() == [1.0, 0.0, 0.0]
    assert (cut_nucleus(torch.tensor([0.5, 0.25, 0.25]), 0.51) > 0).sum() == 2
