"""Places counted in the source's text: by hand, and what is refused."""

import pytest
import torch
from transformers.modeling_outputs import BaseModelOutput

from hf_attn.models.position_runs import OUTSIDE
from tests.support.checks import (
    SIDES,
    assert_close,
    assert_different,
    build_encoder,
    build_seq2seq,
    pad,
    random_ids,
)

TYPES = ("significance", "both_ends")
RUNS = [8, 9, 10, 12, 13, 14, 15, 17]  # ids that form runs in what is built here: three rows of numbers


def count_by_hand(row: list[int], runs: list[int]) -> list[tuple[int, int, int]]:
    """(distance from the end, from the start, runs begun) of each token, the run's own token by token."""
    found, begun = [], 0
    for place, token in enumerate(row):
        before = after = place
        while before >= 0 and row[before] in runs:
            before -= 1
        while after < len(row) and row[after] in runs:
            after += 1
        begun += place - before == 1
        found.append((*((after - place, place - before) if token in runs else (OUTSIDE, OUTSIDE)), begun))
    return found


def build(kind: str, position_type: str, **settings):
    fields = {"position_type": position_type, "run_token_ids": RUNS, "relative_clip_distance": 2, **settings}
    return (build_encoder if kind == "encoder" else build_seq2seq)(**fields)


def random_sources(*lengths: int, seed: int = 0) -> list[torch.Tensor]:
    """Rows of ids most of which form runs."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(8, 19, (length,), generator=generator) for length in lengths]


@pytest.mark.parametrize("side", SIDES)
def test_places_are_distances_from_the_ends_of_a_token_s_own_run(side):
    rows = random_sources(12, 7, 1)
    assert any(token in RUNS for token in rows[1].tolist()), "else nothing is counted"
    ids, mask = pad(rows, side)
    encoder = build("encoder", "both_ends")
    places = encoder(ids, attention_mask=mask).source_places
    for row, found, is_token in zip(rows, places, mask.bool(), strict=True):
        assert list(map(tuple, found[is_token].tolist())) == count_by_hand(row.tolist(), RUNS)
    only_ends = build("encoder", "significance")(ids, attention_mask=mask).source_places
    assert torch.equal(only_ends, places[..., [0, 2]])


def test_without_a_table_all_tokens_but_the_special_ones_form_runs():
    ids = torch.tensor([[5, 6, 7, 2, 8, 1, 9, 9]])
    encoder = build("encoder", "significance", run_token_ids=None)
    assert encoder(ids).source_places[0, :, 0].tolist() == [3, 2, 1, OUTSIDE, 1, OUTSIDE, 2, 1]
    embedded = encoder(inputs_embeds=encoder.embed_tokens(ids))  # which say nothing of what is special
    assert embedded.source_places[0, :, 0].tolist() == list(range(8, 0, -1))


@torch.no_grad()
@pytest.mark.parametrize("position_type", TYPES)
def test_what_stands_between_a_step_and_a_key_is_the_equation_pair_by_pair(position_type):
    model = build("seq2seq", position_type, relative_bias_multiplier=3.0)
    (source,) = random_sources(14)
    places = model.get_encoder()(source[None]).source_places
    positions, steps = model.get_decoder().positions, torch.arange(5)[None]
    found = positions.memory_bias(steps, places)
    for t in range(5):
        for s, (*distances, _) in enumerate(count_by_hand(source.tolist(), RUNS)):
            rows = [5 if d == OUTSIDE else max(-2, min(2, d - (t + 1))) + 2 for d in distances]
            tables = zip(positions.memory_weight, rows, strict=False)
            assert_close(found[0, :, t, s], 3.0 * sum(table[row] for table, row in tables))
    own = build("encoder", position_type, relative_bias_multiplier=3.0)
    own.load_state_dict(model.get_encoder().state_dict())
    inside = own.positions.score_terms(places, places)[0][0]  # [H, S, S]
    places = count_by_hand(source.tolist(), RUNS)
    assert {begun for *_, begun in places} >= {1, 2}, "else no order is seen"
    for t, (*mine, my_run) in enumerate(places):
        for s, (*theirs, run) in enumerate(places):
            rows = [
                5 if other == OUTSIDE else 6 if place == OUTSIDE else max(-2, min(2, other - place)) + 2
                for place, other in zip(mine, theirs, strict=True)
            ]
            tables = zip(own.positions.weight, rows, strict=False)
            order = own.positions.order_weight[(run > my_run) - (run < my_run) + 1]
            assert_close(inside[:, t, s], 3.0 * (sum(table[row] for table, row in tables) + order))


def test_sequences_packed_in_a_source_are_counted_each_by_itself():
    encoder = build("encoder", "both_ends", run_token_ids=None)
    ids, places = random_ids(1, 7), torch.tensor([[0, 1, 2, 0, 1, 2, 3]])
    counted = encoder(ids, position_ids=places).source_places[0, :, :2].tolist()
    assert counted == [[3, 1], [2, 2], [1, 3], [4, 1], [3, 2], [2, 3], [1, 4]]


@pytest.mark.parametrize("position_type", TYPES)
@torch.no_grad()
def test_noise_falls_on_far_keys_while_training_one_number_an_example(position_type):
    model = build("seq2seq", position_type, crowd_noise=4.0, run_token_ids=None)
    ids = random_ids(3, 8)
    encoder, positions = model.get_encoder(), model.get_decoder().positions
    places, steps = encoder(ids).source_places, torch.arange(6)[None].expand(3, -1)
    calm = positions.memory_bias(steps, places)
    model.train()
    with torch.random.fork_rng():
        torch.manual_seed(0)
        noise = positions.memory_bias(steps, places) - calm
    distances = places[..., :-1].unsqueeze(1) - (steps + 1)[:, :, None, None]  # [B, T, S, n]
    is_far = (distances.abs() >= 2).all(-1).unsqueeze(1).expand_as(noise)
    assert (noise[~is_far].abs() < 1e-5).all()
    of_each = [row[far] for row, far in zip(noise, is_far, strict=True)]
    for row in of_each:
        assert_close(row, row[:1].expand_as(row), tolerance=1e-5)
        assert 0 < float(row[0]) < 4
    assert len({round(float(row[0]), 3) for row in of_each}) == 3
    training = encoder(ids).last_hidden_state
    assert_different(training, model.eval().get_encoder()(ids).last_hidden_state)


def test_a_decoder_refuses_an_encoder_s_output_without_places():
    model = build("seq2seq", "both_ends")
    (source,) = random_sources(6)
    whole = model.get_encoder()(source[None])
    bare = BaseModelOutput(last_hidden_state=whole.last_hidden_state)
    refusal = r"lack source_places.*position_type='both_ends'.*own encoder returns"
    with pytest.raises(ValueError, match=refusal):
        model(encoder_outputs=bare, decoder_input_ids=random_ids(1, 2))
    given = model(encoder_outputs=whole, decoder_input_ids=random_ids(1, 2)).logits
    assert_close(model(source[None], decoder_input_ids=random_ids(1, 2)).logits, given)
    as_tuple = model.get_encoder()(source[None], return_dict=False)
    assert_close(model(encoder_outputs=as_tuple, decoder_input_ids=random_ids(1, 2)).logits, given)
