"""The lean decoder beside its plain twin, which asks the model's own `forward` for each token."""

import pytest
import torch
from transformers import AttentionInterface
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from hf_attn.analysis.ablation import list_trials, measure_changes
from hf_attn.generation import decoders
from hf_attn.generation.decoders import IncrementalDecoder, LeanDecoder, can_serve, open_decoder
from hf_attn.generation.generate import greedy_ids
from hf_attn.interpret.interventions import Intervention, intervening
from hf_attn.models.positions import POSITION_TYPES
from tests.support.checks import (
    END,
    PAD,
    SIDES,
    assert_close,
    build_decoder,
    build_seq2seq,
    pad,
    random_ids,
    random_rows,
)
from tests.support.matrix import rows
from tests.support.position_checks import GATE

SETTINGS = [
    {},
    {"norm_position": "post", "use_bias": False},
    {"scale_embedding": True, "activation": "gelu"},
    {"attn_implementation": "eager"},
]
STEPS = 7
SERVED = [
    name for name, kind in POSITION_TYPES.items() if not kind.reads_neighbours and not kind.needs_weights
]

LONG = [name for name in SERVED if POSITION_TYPES[name].extrapolates]
OFTEN = (*GATE, "t5")


def build(kind: str, **settings):
    needs_weights = POSITION_TYPES[settings.get("position_type", "learned")].needs_weights
    kernel = settings.pop("attn_implementation", "eager" if needs_weights else "sdpa")
    return (build_seq2seq if kind == "seq2seq" else build_decoder)(kernel, **settings)


@torch.no_grad()
def assert_twins(model, ids, mask, steps: int = STEPS):
    """Both decoders give the same scores, also after rows were exchanged, repeated and dropped."""
    lean, plain = LeanDecoder(model, ids, mask), IncrementalDecoder(model, ids, mask)
    token = None
    for step in range(steps):
        expected = plain.next_logits(token)
        assert_close(lean.next_logits(token), expected)
        token = expected.argmax(-1, keepdim=True)
        if step == 2:
            order = torch.tensor([2, 0, 0])
            lean.reorder_rows(order)
            plain.reorder_rows(order)
            token = token[order]
    return lean


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("position_type", rows(POSITION_TYPES, OFTEN))
def test_scores_of_every_position_type_are_the_model_s_own(position_type, side):
    model = build("seq2seq", position_type=position_type)
    if not can_serve(model):
        assert model.model.decoder.positions.reads_neighbours or model.model.decoder.positions.needs_weights
        assert type(open_decoder(model, random_ids(1, 3))) is IncrementalDecoder
        return
    assert_twins(model, *pad(random_rows(2, 9, 5, 7), side))
    assert_twins(model, random_ids(4, 5), None)


@pytest.mark.parametrize("kind", ["seq2seq", "decoder"])
@pytest.mark.parametrize("position_type", rows(SERVED, [name for name in OFTEN if name in SERVED]))
def test_a_token_that_stands_in_no_table_is_placed_by_itself(position_type, kind, monkeypatch):
    monkeypatch.setattr(decoders, "LARGEST_TABLE", 0)
    assert not assert_twins(build(kind, position_type=position_type), random_ids(4, 5), None).tables


@pytest.mark.parametrize("kind", ["seq2seq", "decoder"])
@pytest.mark.parametrize("position_type", rows(LONG, [name for name in OFTEN if name in LONG]))
def test_an_answer_goes_on_behind_the_tables(position_type, kind):
    sizes = {"max_position_embeddings": 6, "position_scaling_factor": 2.0}
    lean = assert_twins(build(kind, position_type=position_type, **sizes), random_ids(4, 3), None, steps=9)
    places = 6 if kind == "seq2seq" else 3
    assert len(lean.tables) == (0 if POSITION_TYPES[position_type].biases_scores else places)


def test_tables_are_made_a_block_at_a_time(monkeypatch):
    monkeypatch.setattr(decoders, "BLOCK", 3)
    assert len(assert_twins(build("seq2seq"), random_ids(4, 5), None, steps=7).tables) == 9


@pytest.mark.parametrize("position_type", rows(POSITION_TYPES, OFTEN))
def test_a_decoder_only_model_goes_on_behind_its_padded_prompts(position_type):
    model = build("decoder", position_type=position_type)
    if can_serve(model):
        assert_twins(model, *pad(random_rows(2, 9, 5, 7), "left"))
        assert_twins(model, random_ids(4, 5), torch.ones(4, 5, dtype=torch.long))


@pytest.mark.parametrize("kind", ["seq2seq", "decoder"])
@pytest.mark.parametrize("settings", SETTINGS)
def test_scores_are_the_model_s_own_whatever_its_settings(kind, settings):
    model = build(kind, **settings)
    assert can_serve(model)
    assert_twins(model, *pad(random_rows(2, 9, 5, 7), "left"))


def test_keys_and_values_find_room_however_long_the_answer():
    model = build("seq2seq", max_position_embeddings=150)
    assert_twins(model, random_ids(4, 5), None, steps=140)


def test_a_prompt_longer_than_the_first_block_is_read():
    model = build("decoder", max_position_embeddings=60)
    assert_twins(model, random_ids(4, decoders.BLOCK + 8), None)


def test_under_autocast_the_model_itself_writes():
    model, ids = build("seq2seq"), random_ids(2, 3)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert type(open_decoder(model, ids)) is IncrementalDecoder
        assert greedy_ids(model, ids, max_new_tokens=4).shape[0] == 2


def test_an_answer_longer_than_the_positions_is_refused_as_the_model_refuses_it():
    model = build("seq2seq", position_type="learned")
    lean, token = LeanDecoder(model, random_ids(1, 3)), torch.tensor([[5]])
    with torch.no_grad():
        for _ in range(model.config.max_position_embeddings):
            lean.next_logits(token)
        with pytest.raises(ValueError, match="max_position_embeddings=24"):
            lean.next_logits(token)


@pytest.mark.parametrize("change", ["hook", "hooked positions", "wrapped", "other attention", "other linear"])
def test_what_would_change_the_model_s_answers_is_left_to_the_model(change):
    model = build("seq2seq")
    attention = model.model.decoder.layers[1].cross_attn
    if change == "hook":
        attention.o_proj.register_forward_hook(lambda module, given, made: 0 * made)
    elif change == "hooked positions":
        model.model.decoder.positions.register_forward_hook(lambda module, given, made: 0 * made)
    elif change == "other attention":
        model = build("seq2seq", attention_type="local")
    elif change == "other linear":

        class Lowered(torch.nn.Linear):
            def forward(self, states):
                return 0.5 * super().forward(states)

        attention.q_proj = Lowered(attention.q_proj.in_features, attention.q_proj.out_features)
    if change == "wrapped":
        with intervening(model, [Intervention("remove", "cross", 1)]):
            assert not can_serve(model)
        assert can_serve(model)
    else:
        assert not can_serve(model)
        assert type(open_decoder(model, random_ids(1, 3))) is IncrementalDecoder


def test_another_attention_is_left_to_the_model():
    AttentionInterface.register("somebody's", ALL_ATTENTION_FUNCTIONS["sdpa"])
    model = build("seq2seq")
    assert can_serve(model)
    model.set_attn_implementation("somebody's")
    assert not can_serve(model)


def test_an_adapter_is_not_passed_over():
    peft = pytest.importorskip("peft")
    model = build("seq2seq")
    peft.inject_adapter_in_model(peft.LoraConfig(target_modules=["q_proj"], init_lora_weights=False), model)
    assert not can_serve(model)


def test_trials_side_by_side_keep_their_rows_when_some_answers_end():
    model = build("seq2seq")
    with torch.no_grad():
        model.lm_head.weight[END] *= 6
    source, trials = random_ids(1, 6), list_trials(model)
    changes = measure_changes(model, source, trials, 12)
    for trial, change in zip(trials, changes, strict=True):
        with intervening(model, trial.interventions):
            alone = greedy_ids(model, source, max_new_tokens=12)[0].tolist()
        written = list(change.after)
        assert written == alone[: len(written)]
        assert set(alone[len(written) :]) <= {PAD}


def test_an_answer_of_no_token_is_refused():
    with pytest.raises(ValueError, match="max_new_tokens=0"):
        greedy_ids(build("seq2seq"), random_ids(1, 4), max_new_tokens=0)


def test_what_was_written_can_be_learned_from():
    """Ids are made in inference mode, and are yet like others."""
    model = build("seq2seq")
    ids = greedy_ids(model, random_ids(2, 4), max_new_tokens=5)
    assert not ids.is_inference()
    model(random_ids(2, 4), labels=ids).loss.backward()


@torch.no_grad()
def write_each_alone(model, sources, most: int) -> list[list[int]]:
    """Greedily, one source after the other, by the model's own `generate`."""
    return [
        model.generate(source.unsqueeze(0), max_new_tokens=most, do_sample=False)[0, 1:].tolist()
        for source in sources
    ]


def test_what_a_row_writes_behind_its_end_counts_for_nothing():
    written = torch.tensor([[END, 7, 7, 7], [5, 6, END, 7]])

    class Scripted:
        length = 0

        def next_logits(self, token=None):
            self.length += 1
            return torch.nn.functional.one_hot(written[:, self.length - 1], 23).float()

    ids = greedy_ids(build("seq2seq"), random_ids(2, 4), None, 4, lambda *given: Scripted())
    assert ids.tolist() == [[END, PAD, PAD], [5, 6, END]]


def test_rows_that_have_ended_are_dropped_and_the_others_go_on_as_if_alone():
    model = build("seq2seq")
    with torch.no_grad():
        model.lm_head.weight[END] *= 6
    sources = random_ids(32, 6)
    sizes = []

    class Counting(LeanDecoder):
        def next_logits(self, token=None):
            sizes.append(len(self.prompt))
            return super().next_logits(token)

    expected = write_each_alone(model, sources, 20)
    longest = max(map(len, expected))
    assert longest < 20, "all answers end, at different lengths"
    written = greedy_ids(model, sources, max_new_tokens=20, build_decoder=Counting)
    assert written.tolist() == [row + [PAD] * (longest - len(row)) for row in expected]
    assert sizes[0] == 32
    assert sizes[-1] <= 8, "most answers have ended by then"
    assert len(sizes) == longest
