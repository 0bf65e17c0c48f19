"""Our recorded beam search against transformers' generate, and what it remembers against the model."""

import math

import pytest
import torch

from hf_attn.generation.beam_search import beam_search
from hf_attn.generation.generate import choices_of, generate_answer, search_beams
from tests.support.checks import END, START, build_decoder, build_seq2seq, pad, random_ids, random_rows
from tests.support.recurrent_models import build_recurrent

MODELS = {
    "encoder-decoder": build_seq2seq,
    "rotary encoder-decoder": lambda **more: build_seq2seq(position_type="rotary", **more),
    "decoder-only": build_decoder,
    "LSTM without attention": lambda **more: build_recurrent(score_function="none", **more),
    "LSTM, additive attention": lambda **more: build_recurrent(score_function="additive", **more),
    "GRU, dot attention": lambda **more: build_recurrent(score_function="dot", cell_type="gru", **more),
}
STOPPING = (False, True, "never")
every_model = pytest.mark.parametrize("name", MODELS)


def build(name, seed=0, by=3.0):
    """A random model that is surer than an untrained one, and ends some of its answers early."""
    model = MODELS[name](seed=seed)
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(4)
        model.get_output_embeddings().weight[END] *= by
    return model


def generated(model, source, num_beams, limit=8, **settings):
    """What generate returns: [(ids, score)], the best first, without padding and fillers."""
    output = model.generate(
        source,
        num_beams=num_beams,
        num_return_sequences=num_beams,
        do_sample=False,
        max_new_tokens=limit,
        return_dict_in_generate=True,
        output_scores=True,
        **settings,
    )
    begun = 1 if model.config.is_encoder_decoder else source.shape[1]
    rows = output.sequences[:, begun:].tolist()
    return [(up_to(row), score) for row, score in zip(rows, output.sequences_scores.tolist(), strict=True)]


def up_to(row, ends=(END,)):
    """Ids up to the first end, that one included: generate fills up with what it likes."""
    return tuple(row[: next((place + 1 for place, token in enumerate(row) if token in ends), len(row))])


def found_by(model, source, num_beams, limit=8, **settings):
    found = search_beams(model, source, num_beams, max_new_tokens=limit, **settings)
    return [(answer.ids, answer.score) for answer in found.answers]


def assert_same(model, source, num_beams, limit=8, **how):
    """Ids are equal, scores but for rounding: where rows lie changes some products."""
    expected = generated(model, source, num_beams, limit, **how)
    found = found_by(model, source, num_beams, limit, **how)
    assert [ids for ids, _ in found] == [ids for ids, _ in expected], (num_beams, how)
    assert [score for _, score in found] == pytest.approx([score for _, score in expected], rel=1e-6), how


@every_model
@pytest.mark.parametrize("early_stopping", STOPPING)
def test_ids_and_scores_are_generates(name, early_stopping):
    widths = {False: (2, 8), True: (5, 3), "never": (4, 2)}[early_stopping]
    for seed, (num_beams, penalty) in enumerate(zip(widths, (1.0, -1.0), strict=True)):
        model, source = build(name, seed), random_ids(1, 3 + seed, seed=10 + seed)
        assert_same(model, source, num_beams, length_penalty=penalty, early_stopping=early_stopping)


@every_model
def test_the_longest_answers_are_cut_as_generate_cuts_them(name):
    for limit in (1, 4):
        assert_same(build(name, by=-3.0), random_ids(1, 4), 3, limit, length_penalty=2.0)


def test_several_ends_are_ends_here_as_there():
    model, source = build("encoder-decoder"), random_ids(1, 4)
    ends = model.config.eos_token_id = model.generation_config.eos_token_id = [END, 7, 9]
    output = model.generate(source, num_beams=4, num_return_sequences=4, max_new_tokens=8, do_sample=False)
    found = search_beams(model, source, 4, max_new_tokens=8)
    expected = [up_to(row, ends) for row in output[:, 1:].tolist()]
    assert [answer.ids for answer in found.answers] == expected


def test_where_all_is_equally_likely_the_same_ties_are_broken():
    model, source = build("encoder-decoder"), random_ids(1, 4)
    with torch.no_grad():
        model.lm_head.weight.zero_()
    for num_beams in (2, 5):
        assert_same(model, source, num_beams, 4)


def test_each_source_of_a_padded_batch_is_searched_as_if_alone():
    model = build("encoder-decoder")
    rows = random_rows(6, 3, 5)
    ids, mask = pad(rows, "right")
    output = model.generate(
        ids, attention_mask=mask, num_beams=3, num_return_sequences=3, max_new_tokens=8, do_sample=False
    )
    for row, wanted in zip(rows, output[:, 1:].view(3, 3, -1).tolist(), strict=True):
        found = search_beams(model, row.unsqueeze(0), 3, max_new_tokens=8)
        assert [answer.ids for answer in found.answers] == [up_to(ids) for ids in wanted]


class Table:
    """A writer that needs no model: what comes next depends on the last token alone, by a table [V, V]."""

    def __init__(self, probabilities):
        self.rows, self.logits = 1, torch.tensor(probabilities).log()

    def reorder_rows(self, rows):
        self.rows = len(rows)

    def next_logits(self, token=None):
        return self.logits[torch.zeros(self.rows, dtype=torch.long) if token is None else token.squeeze(1)]


def test_wide_enough_the_search_finds_the_likeliest_of_all_answers():
    generator = torch.Generator().manual_seed(0)
    table = torch.rand(4, 4, generator=generator).softmax(-1)  # 0 begins, 3 ends
    found = beam_search(Table(table.tolist()), 64, 4, [3], length_penalty=0.0, early_stopping="never")

    def answers(last=0, score=0.0, ids=()):
        for token in range(4):
            so_far = (score + math.log(table[last, token]), (*ids, token))
            if token == 3 or len(so_far[1]) == 4:
                yield so_far
            else:
                yield from answers(token, *so_far)

    best = sorted(answers(), reverse=True)
    for answer, (score, ids) in zip(found.answers[:20], best, strict=False):
        assert (answer.ids, answer.score) == (ids, pytest.approx(score, abs=1e-5))


def test_fewer_different_answers_than_beams_are_not_filled_up():
    found = beam_search(Table([[0.5, 0.5], [0.5, 0.5]]), 8, 2, [1])
    assert {answer.ids for answer in found.answers} == {(1,), (0, 1), (0, 0)}


@every_model
def test_the_tree_holds_what_the_model_gives_each_hypothesis(name):
    model, source = build(name), random_ids(1, 4)
    found = search_beams(model, source, 3, max_new_tokens=6)
    for place, node in enumerate(found.nodes):
        if place == 0:
            continue
        parent = found.nodes[node.parent]
        assert node.parent < place
        assert node.depth == parent.depth + 1 == len(found.ids(place))
        assert node.score == pytest.approx(parent.score + node.log_probability, abs=1e-5)
        assert float(parent.probabilities[node.token].log()) == pytest.approx(node.log_probability, abs=1e-5)
        assert parent.fate == "kept", "only what was kept is gone on with"
        if not len(node.probabilities):
            continue
        expected = next_probabilities(model, source, found.ids(place))
        torch.testing.assert_close(node.probabilities, expected, atol=1e-4, rtol=1e-3)


@torch.no_grad()
def next_probabilities(model, source, ids):
    """[V], by one pass over everything."""
    if model.config.is_encoder_decoder:
        logits = model(source, decoder_input_ids=torch.tensor([[START, *ids]])).logits
    else:
        logits = model(torch.cat((source, torch.tensor([ids])), dim=1)).logits
    return logits[0, -1].softmax(-1)


def test_every_answer_is_a_path_of_the_tree_with_the_choices_along_it():
    model, source = build("encoder-decoder"), random_ids(1, 4)
    found = generate_answer(model, source, "beam", num_beams=4, max_new_tokens=8)
    assert found.ids == found.beams.answers[0].ids
    assert found.score == found.beams.answers[0].log_probability
    for answer in found.beams.answers:
        choices = choices_of(found.beams, answer.node)
        assert tuple(choice.token for choice in choices) == answer.ids
        total = sum(math.log(float(choice.probabilities[choice.token])) for choice in choices)
        assert total == pytest.approx(answer.log_probability, abs=1e-4)
        assert answer.score == pytest.approx(answer.log_probability / len(answer.ids), rel=1e-5)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"early_stopping": "soon"}, "early_stopping='soon' must be True, False"),
        ({"max_new_tokens": 0}, "max_new_tokens=0 must be a whole number from 1"),
    ],
)
def test_a_setting_that_no_search_can_use_is_refused(setting, sentence):
    with pytest.raises(ValueError, match=sentence):
        search_beams(build_seq2seq(), random_ids(1, 4), **setting)
