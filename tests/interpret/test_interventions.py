"""Changed attention is what it says: each change equals a plain twin, and nothing of it remains."""

import copy
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
import transformers

from hf_attn.interpret.attention_maps import find_attentions
from hf_attn.interpret.interventions import (
    ACTIONS,
    Intervention,
    count_heads,
    intervening,
    intervening_by_row,
)
from tests.support.checks import (
    assert_close,
    assert_different,
    build_classifier,
    build_decoder,
    build_encoder,
    build_seq2seq,
    pad,
    random_ids,
    random_rows,
)
from tests.support.recurrent_models import build_recurrent

KINDS = ("encoder", "decoder", "cross")
MAPS = {"encoder": "encoder_attentions", "decoder": "decoder_attentions", "cross": "cross_attentions"}
LAYERS = {"encoder_layers": 2, "decoder_layers": 2}
SOURCE, WRITTEN = random_ids(1, 7), random_ids(1, 5, seed=1)
RECURRENT = [{"score_function": "additive", "input_feeding": feeding} for feeding in (True, False)]


def outputs_of(model, *interventions, source=SOURCE, mask=None, written=WRITTEN):
    """What an encoder-decoder returns under interventions, with its maps."""
    written = written.expand(len(source), -1)
    with intervening(model, interventions), torch.no_grad():
        return model(source, attention_mask=mask, decoder_input_ids=written, output_attentions=True)


def twin_of(model, kind: str, layer: int, change) -> torch.nn.Module:
    """A copy whose attention module was changed by hand."""
    twin = copy.deepcopy(model)
    with torch.no_grad():
        change(find_attentions(twin)[kind][layer])
    return twin


# Each change and its plain twin


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("settings", [{}, {"position_type": "rotary"}, {"kernel": "eager"}], ids=str)
def test_to_remove_a_head_or_a_layer_is_to_zero_its_columns_of_the_output_projection(kind, settings):
    model = build_seq2seq(**LAYERS, **settings)

    def zero_head(module):
        module.o_proj.weight[:, module.head_dim :] = 0

    def zero_all(module):
        module.o_proj.weight.zero_()

    for head, zero in ((1, zero_head), (None, zero_all)):
        twin = twin_of(model, kind, 1, zero)
        found = outputs_of(model, Intervention("remove", kind, 1, head)).logits
        assert_close(found, outputs_of(twin).logits)
        assert_different(found, outputs_of(model).logits)


@pytest.mark.parametrize("kind", KINDS)
def test_uniform_weights_are_those_of_a_head_whose_queries_are_zero(kind):
    model = build_seq2seq(**LAYERS)

    def zero_queries(module):
        module.q_proj.weight[: module.head_dim] = 0

    twin = twin_of(model, kind, 0, zero_queries)
    found = outputs_of(model, Intervention("uniform", kind, 0, 0))
    assert_close(found.logits, outputs_of(twin).logits)
    assert_different(found.logits, outputs_of(model).logits)
    rows = found[MAPS[kind]][0][0, 0]
    seen = torch.ones_like(rows).tril() if kind == "decoder" else torch.ones_like(rows)
    assert_close(rows, seen / seen.sum(-1, keepdim=True))


@pytest.mark.parametrize("kind", KINDS)
def test_an_edge_taken_away_weighs_0_and_the_others_share_its_weight_as_they_did(kind):
    model = build_seq2seq(**LAYERS)
    before = outputs_of(model)[MAPS[kind]][0]
    after = outputs_of(model, Intervention("remove", kind, 0, 1, 3, 2))[MAPS[kind]][0]
    expected = before.clone()
    expected[0, 1, 3, 2] = 0
    expected[0, 1, 3] /= expected[0, 1, 3].sum()
    assert before[0, 1, 3, 2] > 0
    assert_close(after, expected)


def test_a_key_taken_from_every_query_is_a_token_that_the_mask_hides():
    model = build_seq2seq(**LAYERS, position_type="none")  # a mask would move the places behind it
    found = outputs_of(
        model, Intervention("remove", "encoder", key=2), Intervention("remove", "cross", key=2)
    )
    mask = torch.ones_like(SOURCE)
    mask[0, 2] = 0
    masked = outputs_of(model, mask=mask)
    assert_close(found.logits, masked.logits)
    assert_different(found.logits, outputs_of(model).logits)


@pytest.mark.parametrize("kind", KINDS)
def test_permuted_weights_are_the_same_numbers_in_another_order_and_none_falls_on_a_hidden_key(kind):
    model = build_seq2seq(**LAYERS)
    source, mask = pad(random_rows(7, 5), "right")
    before = outputs_of(model, source=source, mask=mask)[MAPS[kind]][0]
    found = [
        outputs_of(model, Intervention("permute", kind, 0, seed=seed), source=source, mask=mask)[MAPS[kind]][
            0
        ]
        for seed in (0, 0, 1)
    ]
    assert_close(found[0].sort(-1).values, before.sort(-1).values)
    assert torch.equal(found[0] == 0, before == 0)
    assert torch.equal(found[0], found[1])
    assert_different(found[0], found[2])
    assert_different(found[0], before)


@pytest.mark.parametrize("action", ["uniform", "permute"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_gets_no_weight(action, side):
    source, mask = pad(random_rows(7, 4), side)
    for model in (build_seq2seq(**LAYERS), build_recurrent()):
        kinds = [kind for kind in ("encoder", "cross") if kind in count_heads(model)]
        found = outputs_of(model, *(Intervention(action, kind) for kind in kinds), source=source, mask=mask)
        for kind in kinds:
            for weights in found[MAPS[kind]]:
                assert (weights[1][..., mask[1] == 0] == 0).all()
                assert_close(weights[..., mask[1] == 1].sum(-1)[1], torch.ones(weights.shape[1:3]))


def test_weights_that_positions_speak_to_directly_are_changed_too():
    model = build_seq2seq("eager", **LAYERS, position_type="relative")

    def zero(module):
        module.o_proj.weight.zero_()

    twin = twin_of(model, "encoder", 1, zero)
    assert_close(outputs_of(model, Intervention("remove", "encoder", 1)).logits, outputs_of(twin).logits)


# Recurrent models


@pytest.mark.parametrize("settings", RECURRENT, ids=str)
def test_a_recurrent_decoder_without_its_alignment_reads_a_memory_of_zeros(settings):
    model = build_recurrent(**settings)
    twin = copy.deepcopy(model)
    decoder, size = twin.get_decoder(), twin.config.hidden_size
    with torch.no_grad():
        decoder.readout.weight[:, size:] = 0
        if settings["input_feeding"]:
            decoder.cells.weight_ih_l0[:, twin.config.input_size :] = 0
    found = outputs_of(model, Intervention("remove", "cross", 0, 0)).logits
    assert_close(found, outputs_of(twin).logits)
    assert_different(found, outputs_of(model).logits)


@pytest.mark.parametrize("settings", RECURRENT, ids=str)
def test_a_recurrent_alignment_is_levelled_shuffled_and_loses_edges_as_any_other(settings):
    model = build_recurrent(**settings)
    before = outputs_of(model).cross_attentions[0]
    uniform = outputs_of(model, Intervention("uniform", "cross")).cross_attentions[0]
    assert_close(uniform, torch.full_like(before, 1 / 7))
    permuted = outputs_of(model, Intervention("permute", "cross", query=0)).cross_attentions[0]
    assert_close(permuted[:, :, 0].sort(-1).values, before[:, :, 0].sort(-1).values)
    assert_different(permuted[:, :, 0], before[:, :, 0])
    cut = outputs_of(model, Intervention("remove", "cross", 0, 0, 0, 3)).cross_attentions[0]
    expected = before[0, 0, 0].clone()
    expected[3] = 0
    assert_close(cut[0, 0, 0], expected / expected.sum())


# A batch, a cache, a thread, an outsider


@pytest.mark.parametrize("build", [build_seq2seq, build_recurrent])
def test_rows_with_interventions_of_their_own_give_what_each_gives_alone(build):
    model = build()
    trials = [(), *(
        (Intervention(action, kind, layer, head, seed=3),)
        for action in ACTIONS
        for kind, counts in count_heads(model).items()
        for layer, heads in enumerate(counts)
        for head in range(heads)
    )]  # fmt: skip
    with intervening_by_row(model, trials), torch.no_grad():
        together = model(
            SOURCE.expand(len(trials), -1), decoder_input_ids=WRITTEN.expand(len(trials), -1)
        ).logits
    for row, interventions in zip(together, trials, strict=True):
        assert_close(row, outputs_of(model, *interventions).logits[0])


WRITERS = {"decoder": [build_seq2seq, build_decoder], "cross": [build_seq2seq, build_recurrent]}


@pytest.mark.parametrize(("kind", "build"), [(kind, build) for kind in WRITERS for build in WRITERS[kind]])
def test_writing_with_a_cache_is_writing_without_one(kind, build):
    model = build(eos_token_id=None)
    first = 7 if build is build_decoder else 0
    settings = {
        "max_new_tokens": 6,
        "do_sample": False,
        "output_scores": True,
        "return_dict_in_generate": True,
    }
    whole = torch.stack(model.generate(random_ids(2, 7), **settings).scores)
    for change in (
        Intervention("remove", kind, 0, 0, first + 3, first and 2),
        Intervention("uniform", kind, 0, query=first + 2),
        Intervention("permute", kind, seed=1),
    ):
        with intervening(model, [change]):
            written = [model.generate(random_ids(2, 7), use_cache=use, **settings) for use in (True, False)]
        assert torch.equal(written[0].sequences, written[1].sequences)
        assert_close(torch.stack(written[0].scores), torch.stack(written[1].scores))
        assert_different(torch.stack(written[0].scores), whole)


def traces(model) -> list:
    """What intervening must leave as it was."""
    modules = list(model.modules())
    return [
        model.config._attn_implementation,
        *(module.training for module in modules),
        *(sorted(vars(module)) for module in modules),
        *(len(module._forward_pre_hooks) for module in modules),
        *(weight.clone().tolist() for weight in model.state_dict().values()),
    ]


@pytest.mark.parametrize("build", [build_seq2seq, build_decoder, build_classifier, build_recurrent])
def test_nothing_remains_afterwards_also_not_after_an_error(build):
    model = build(dropout=0.5).train()
    kind = next(iter(count_heads(model)))
    before = traces(model)
    with intervening(model, [Intervention("permute", kind, 0)]):
        assert torch.equal(model(SOURCE).logits, model(SOURCE).logits), "dropout rests, and shuffles repeat"
    assert traces(model) == before
    with pytest.raises(ZeroDivisionError), intervening(model, [Intervention("remove", kind, 0)]):
        1 / (model.config._attn_implementation == before[0])
    assert traces(model) == before


def test_another_thread_has_the_whole_model_meanwhile():
    model, found = build_seq2seq(), []
    whole = outputs_of(model).logits

    def read():
        with torch.no_grad():
            found.append(model(SOURCE, decoder_input_ids=WRITTEN).logits)

    with intervening(model, [Intervention("remove", "cross")]):
        thread = threading.Thread(target=read)
        thread.start()
        thread.join()
        mine = model(SOURCE, decoder_input_ids=WRITTEN).logits
    assert_close(found[0], whole)
    assert_different(mine, whole)


SMALL = {
    "vocab_size": 23,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "decoder_start_token_id": 1,
}
OUTSIDERS = {
    "bert": lambda: transformers.BertForSequenceClassification(
        transformers.BertConfig(vocab_size=23, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
                                intermediate_size=24)
    ),
    "gpt2": lambda: transformers.GPT2LMHeadModel(
        transformers.GPT2Config(**SMALL, n_embd=16, n_layer=2, n_head=2, n_positions=32)
    ),
    "bart": lambda: transformers.BartForConditionalGeneration(
        transformers.BartConfig(**SMALL, d_model=16, encoder_layers=1, decoder_layers=2, init_std=0.5,
                                encoder_attention_heads=4, decoder_attention_heads=2, encoder_ffn_dim=24,
                                decoder_ffn_dim=24, max_position_embeddings=32, forced_eos_token_id=None)
    ),
    "t5": lambda: transformers.T5ForConditionalGeneration(
        transformers.T5Config(**SMALL, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2)
    ),
}  # fmt: skip
THEIR_HEADS = {
    "bert": {"encoder": (2, 2)},
    "gpt2": {"decoder": (2, 2)},
    "bart": {"encoder": (4,), "decoder": (2, 2), "cross": (2, 2)},
    "t5": {"encoder": (2, 2), "decoder": (2, 2), "cross": (2, 2)},
}


@pytest.mark.parametrize("name", OUTSIDERS)
def test_models_with_transformers_own_classes_are_intervened_in_too(name):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = OUTSIDERS[name]().eval()
    assert count_heads(model) == THEIR_HEADS[name]
    inputs = {"input_ids": SOURCE}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = WRITTEN
    for kind, counts in count_heads(model).items():
        layer = len(counts) - 1
        with intervening(model, [Intervention("uniform", kind, layer, 1)]), torch.no_grad():
            found = model(**inputs, output_attentions=True)
        maps = found[MAPS[kind]] if model.config.is_encoder_decoder else found.attentions
        rows = maps[layer][0, 1]
        even = torch.ones_like(rows).tril() if kind == "decoder" else torch.ones_like(rows)
        assert_close(rows, even / even.sum(-1, keepdim=True))
        assert_different(maps[layer][0, 0], even / even.sum(-1, keepdim=True))
        twin = twin_of(model, kind, layer, _zero_values)
        with intervening(model, [Intervention("remove", kind, layer)]), torch.no_grad():
            assert_close(model(**inputs).logits, twin(**inputs).logits)
    if model.can_generate():
        settings = {"max_new_tokens": 6, "do_sample": False}
        with intervening(model, [Intervention("permute", kind) for kind in count_heads(model)]):
            written = [model.generate(SOURCE, use_cache=use, **settings) for use in (True, False)]
        assert torch.equal(*written)


def _zero_values(module) -> None:
    """Let an outsider's module attend to values that are all 0."""
    for name, part in module.named_modules():
        if name.split(".")[-1] in ("value", "v_proj", "v"):
            part.weight.zero_()
            if part.bias is not None:
                part.bias.zero_()
        if name.split(".")[-1] == "c_attn":  # GPT-2's queries, keys and values in one
            part.weight[:, -part.weight.shape[0] :] = 0
            part.bias[-part.weight.shape[0] :] = 0


# What is refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"action": "hide"}, "action='hide' is not known; choose remove, uniform, permute"),
        ({"kind": "self"}, "kind='self' is not known"),
        ({"layer": -1}, "layer=-1 must be 0 or above"),
        ({"action": "uniform", "key": 1}, "changes whole rows"),
        ({"kind": "decoder", "query": 2, "key": 3}, "never read from query=2"),
    ],
)
def test_an_intervention_that_means_nothing_is_refused(settings, message):
    with pytest.raises(ValueError, match=message):
        Intervention(**{"action": "remove", "kind": "cross", **settings})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (Intervention("remove", "cross", 2), "layer=2 is not there: cross attention has layers 0 to 1"),
        (Intervention("remove", "cross", key=7), "key=7 is not there: cross attention has keys 0 to 6"),
    ],
)
def test_a_place_that_the_model_or_the_input_has_not_is_refused(change, message):
    model = build_seq2seq(**LAYERS)
    with pytest.raises(ValueError, match=message):
        outputs_of(model, change)


def test_a_model_without_such_attention_says_what_it_has():
    with pytest.raises(ValueError, match="this model has encoder attention"):
        intervening(build_encoder(), [Intervention("remove", "cross")]).__enter__()
    with pytest.raises(ValueError, match="this model has no attention"):
        intervening(build_recurrent(score_function="none"), [Intervention("remove", "cross")]).__enter__()
    local = build_seq2seq(**LAYERS, attention_type="local")
    with pytest.raises(ValueError, match="this model has cross attention that can be changed"):
        intervening(local, [Intervention("remove", "encoder")]).__enter__()


def test_two_at_once_and_a_batch_of_another_size_are_refused():
    model = build_seq2seq()
    change = [Intervention("remove", "cross")]
    with intervening(model, change), pytest.raises(RuntimeError, match="give all interventions at once"):
        intervening(model, change).__enter__()
    with (
        intervening_by_row(model, [change, change]),
        pytest.raises(ValueError, match="the batch has 1: give"),
    ):
        model(SOURCE, decoder_input_ids=WRITTEN)


def test_a_pass_in_another_thread_may_meet_the_hook_as_it_comes_or_goes():
    """Torch reads the hooks first, and only then whether each takes keywords: by then it may be gone."""
    model, ids = build_seq2seq(), torch.tensor([[5, 6, 7]])
    whole = model(ids, decoder_input_ids=ids).logits
    with ThreadPoolExecutor(1) as other, intervening(model, [Intervention("remove", "cross")]):
        assert model.get_decoder()._forward_pre_hooks_with_kwargs, "else nothing is tried here"
        model.get_decoder()._forward_pre_hooks_with_kwargs.clear()
        assert_close(other.submit(model, ids, decoder_input_ids=ids).result().logits, whole)
