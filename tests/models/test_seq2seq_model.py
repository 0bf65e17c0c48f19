"""The encoder-decoder: caching, padding, the future, labels, and all that Hugging Face does."""

import pytest
import torch
from safetensors.torch import load_file

from hf_attn.generation.generate import greedy_ids
from hf_attn.models.configuration_attn_seq2seq import AttnSeq2SeqConfig
from hf_attn.models.modeling_attn_seq2seq import AttnSeq2SeqForConditionalGeneration, AttnSeq2SeqModel
from tests.support.checks import (
    END,
    KERNELS,
    POSITIONS,
    SIDES,
    SIZES,
    START,
    assert_close,
    assert_different,
    assert_same_gradients,
    build_seq2seq,
    check_accumulation_weighs_every_label_alike,
    check_cached_equals_uncached,
    check_labels_shift_once,
    check_padding_is_not_read,
    check_seq2seq_rows_stand_alone,
    check_the_future_is_hidden,
    check_the_trainer_accumulates,
    gradients,
    pad,
    random_ids,
    random_rows,
    seq2seq_examples,
)
from tests.support.recurrent_models import build_recurrent

TABLES = ("model.encoder.embed_tokens", "model.decoder.embed_tokens", "lm_head")


# What is read


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("position_type", POSITIONS)
def test_a_padded_batch_gives_the_same_logits_as_each_row_alone(position_type, kernel):
    model = build_seq2seq(kernel, position_type=position_type)
    for source_side in SIDES:
        for target_side in SIDES:
            check_seq2seq_rows_stand_alone(model, source_side, target_side)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("position_type", POSITIONS)
def test_a_later_target_token_changes_no_earlier_logit(position_type, kernel):
    check_the_future_is_hidden(build_seq2seq(kernel, position_type=position_type))


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_stands_under_the_sources_padding_changes_nothing(kernel):
    check_padding_is_not_read(build_seq2seq(kernel))


# Through the cache


@pytest.mark.parametrize("norm_position", ["pre", "post"])
@pytest.mark.parametrize("position_type", POSITIONS)
def test_step_by_step_through_the_cache_equals_one_pass(position_type, norm_position):
    model = build_seq2seq(position_type=position_type, norm_position=norm_position)
    check_cached_equals_uncached(model)
    for side in SIDES:
        check_cached_equals_uncached(model, target_side=side)


@pytest.mark.parametrize("kernel", KERNELS)
def test_several_tokens_at_once_through_the_cache_equal_one_pass(kernel):
    model = build_seq2seq(kernel, encoder_layers=1, decoder_layers=3)
    check_cached_equals_uncached(model, chunks=(3, 1, 2))
    check_cached_equals_uncached(model, target_side="left", chunks=(4, 3))


@pytest.mark.parametrize("left_padded", [False, True])
@pytest.mark.parametrize("position_type", POSITIONS)
def test_generate_gives_the_same_logits_with_a_static_a_dynamic_and_no_cache(position_type, left_padded):
    model = build_seq2seq("eager", position_type=position_type, decoder_layers=3)
    source, source_mask = pad(random_rows(6, 4), "right")
    read, mask = pad(random_rows(5, 2, seed=7), "left")
    start = {"decoder_input_ids": read, "decoder_attention_mask": mask} if left_padded else {}
    found = []
    for cache in ({"use_cache": False}, {}, {"cache_implementation": "static"}):
        output = model.generate(
            source,
            attention_mask=source_mask,
            max_new_tokens=8,
            min_new_tokens=8,
            do_sample=False,
            return_dict_in_generate=True,
            output_logits=True,
            **start,
            **cache,
        )
        found.append(torch.stack(output.logits))
    for logits in found[1:]:
        assert_close(logits, found[0])


def test_a_row_padded_on_the_left_is_continued_as_if_it_stood_alone():
    model = build_seq2seq()
    sources, beginnings = random_rows(6, 4), random_rows(2, 5, seed=7)
    source, source_mask = pad(sources, "left")
    read, mask = pad(beginnings, "left")
    settings = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False}
    together = model.generate(
        source, attention_mask=source_mask, decoder_input_ids=read, decoder_attention_mask=mask, **settings
    )
    for row, (s, t) in enumerate(zip(sources, beginnings, strict=True)):
        alone = model.generate(s[None], decoder_input_ids=t[None], **settings)
        assert together[row, -6:].tolist() == alone[0, -6:].tolist()


# Labels


@pytest.mark.parametrize("position_type", POSITIONS)
def test_labels_shift_exactly_once(position_type):
    check_labels_shift_once(build_seq2seq(position_type=position_type))


def test_a_label_of_minus_100_is_not_learned():
    model = build_seq2seq()
    source, labels = random_ids(2, 5), random_ids(2, 4)
    labels[:, 3] = -100
    shorter = model(source, labels=labels[:, :3]).loss
    assert_close(model(source, labels=labels).loss, shorter)


@pytest.mark.parametrize("build", [build_seq2seq, build_recurrent])
def test_a_loss_function_of_ones_own_gets_each_argument_by_its_name(build):
    model, given = build(), {}

    def loss(logits, labels, num_items_in_batch=None, **others):
        given.update(others, num_items_in_batch=num_items_in_batch)
        return logits.sum() + labels.sum()

    model.loss_function = loss
    model(random_ids(2, 4), labels=random_ids(2, 4), num_items_in_batch=7)
    assert given == {"num_items_in_batch": 7, "vocab_size": model.config.vocab_size}


def test_a_model_trained_on_copying_writes_the_sequence_itself():
    model = build_seq2seq(hidden_size=32, intermediate_size=64, zero_init_residual=True).train()
    rows = random_ids(16, 5)
    rows[:, -1] = END
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(60):
        optimizer.zero_grad()
        model(rows, labels=rows).loss.backward()
        optimizer.step()
    assert greedy_ids(model, rows).tolist() == rows.tolist()
    written = model.eval().generate(rows, do_sample=False, max_new_tokens=10)
    assert written.tolist() == [[START, *row] for row in rows.tolist()]


def test_accumulated_gradients_weigh_every_label_alike():
    check_accumulation_weighs_every_label_alike(build_seq2seq(), *seq2seq_examples())


def test_the_trainer_learns_the_same_from_eight_batches_of_one_and_one_of_eight(tmp_path):
    check_the_trainer_accumulates(build_seq2seq, tmp_path)


def test_gradient_checkpointing_gives_the_same_gradients():
    source, labels = random_ids(3, 6), random_ids(3, 5, seed=1)
    found = []
    for reentrant in (None, False, True):
        model = build_seq2seq(position_type="rotary").train()
        if reentrant is not None:
            model.activation_checkpointing_enable({"use_reentrant": reentrant})
        model(source, labels=labels).loss.backward()
        found.append(gradients(model))
    assert_same_gradients(found[1], found[0])
    assert_same_gradients(found[2], found[0])


# Weights


def test_the_same_seed_gives_the_same_weights():
    first, same, other = (build_seq2seq(seed=seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(weight, same[name]) for name, weight in first.items())
    assert_different(other["lm_head.weight"], first["lm_head.weight"])


@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("position_type", POSITIONS)
def test_a_saved_model_loads_with_the_same_logits(position_type, tie, tmp_path):
    model = build_seq2seq(position_type=position_type, tie_word_embeddings=tie)
    model.save_pretrained(tmp_path)
    weights = {path.name for path in tmp_path.iterdir() if path.suffix in (".safetensors", ".bin", ".pt")}
    assert weights == {"model.safetensors"}
    loaded, report = AttnSeq2SeqForConditionalGeneration.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values())
    assert not any(tensor.is_meta for tensor in (*loaded.parameters(), *loaded.buffers()))
    inputs = {"input_ids": random_ids(2, 6), "decoder_input_ids": random_ids(2, 5)}
    assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)


def test_a_model_built_on_the_meta_device_takes_no_memory_and_loads():
    model = build_seq2seq(position_type="sinusoidal")
    with torch.device("meta"):
        empty = AttnSeq2SeqForConditionalGeneration(model.config)
    assert all(weight.is_meta for weight in empty.parameters())
    loaded = AttnSeq2SeqForConditionalGeneration.from_pretrained(
        None, config=model.config, state_dict=model.state_dict()
    )
    inputs = {"input_ids": random_ids(2, 6), "decoder_input_ids": random_ids(2, 5)}
    assert torch.equal(loaded(**inputs).logits, model(**inputs).logits)


def test_every_parameter_learns():
    for tie in (False, True):
        model = build_seq2seq(tie_word_embeddings=tie)
        model(random_ids(4, 6), labels=random_ids(4, 5)).loss.backward()
        idle = {
            name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()
        }
        assert not idle


def test_tied_tables_are_one_tensor_and_untied_ones_are_three():
    tied, untied = (build_seq2seq(tie_word_embeddings=tie) for tie in (True, False))
    assert len({tied.get_submodule(name).weight.data_ptr() for name in TABLES}) == 1
    assert len({untied.get_submodule(name).weight.data_ptr() for name in TABLES}) == 3
    tied(random_ids(2, 4), labels=random_ids(2, 4)).loss.backward()
    torch.optim.SGD(tied.parameters(), lr=1.0).step()
    assert torch.equal(tied.lm_head.weight, tied.model.encoder.embed_tokens.weight)


def test_tied_tables_are_saved_once(tmp_path):
    build_seq2seq(tie_word_embeddings=True).save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    assert [name for name in saved if name.removesuffix(".weight") in TABLES] == [f"{TABLES[0]}.weight"]


@pytest.mark.parametrize("tie", [False, True])
def test_resized_embeddings_keep_the_old_logits_and_read_and_write_the_new_tokens(tie, tmp_path):
    model = build_seq2seq(tie_word_embeddings=tie)
    inputs = {"input_ids": random_ids(2, 6), "decoder_input_ids": random_ids(2, 5)}
    before = model(**inputs).logits
    model.resize_token_embeddings(30)
    assert model.config.vocab_size == 30
    assert {len(model.get_submodule(name).weight) for name in TABLES} == {30}
    assert len({model.get_submodule(name).weight.data_ptr() for name in TABLES}) == (1 if tie else 3)
    assert torch.equal(model(**inputs).logits[..., :23], before)
    new = {"input_ids": torch.full((2, 4), 29), "labels": torch.full((2, 3), 28)}
    assert model(**new).loss.isfinite()
    model.save_pretrained(tmp_path)
    loaded = AttnSeq2SeqForConditionalGeneration.from_pretrained(tmp_path)
    assert torch.equal(loaded(**new).logits, model(**new).logits)
    model.resize_token_embeddings(23)
    assert torch.equal(model(**inputs).logits, before)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("position_type", POSITIONS)
def test_half_precision_is_finite_and_near_whether_cast_or_loaded(position_type, dtype, tmp_path):
    ids, mask = pad(random_rows(7, 4), "left")
    inputs = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": random_ids(2, 5)}
    model = build_seq2seq(position_type=position_type)
    exact = model(**inputs).logits
    model.save_pretrained(tmp_path)
    loaded = AttnSeq2SeqForConditionalGeneration.from_pretrained(tmp_path, dtype=dtype)
    for kernel in KERNELS:
        for halved in (loaded, model.to(dtype)):
            halved.set_attn_implementation(kernel)
            logits = halved(**inputs).logits
            assert logits.dtype == dtype
            assert logits.isfinite().all()
            torch.testing.assert_close(logits.float(), exact, atol=0.3, rtol=0.1)


def test_autocast_learns_with_rotary_positions():
    model = build_seq2seq(position_type="rotary").train()
    for kernel in KERNELS:
        model.set_attn_implementation(kernel)
        with torch.autocast("cpu", torch.bfloat16):
            loss = model(random_ids(2, 5), labels=random_ids(2, 4)).loss
        loss.backward()
        assert all(gradient.isfinite().all() for gradient in gradients(model).values())


# Shapes and refusals


def test_a_tuple_is_returned_on_demand_and_holds_the_same():
    model = build_seq2seq("eager", output_attentions=True)
    inputs = {"input_ids": random_ids(2, 6), "labels": random_ids(2, 5)}
    named, plain = model(**inputs), model(**inputs, return_dict=False)
    assert torch.equal(plain[0], named.loss)
    assert torch.equal(plain[1], named.logits)
    assert [weights.shape for weights in named.cross_attentions] == [(2, 2, 5, 6)] * 2
    assert [weights.shape for weights in named.decoder_attentions] == [(2, 2, 5, 5)] * 2
    assert [weights.shape for weights in named.encoder_attentions] == [(2, 2, 6, 6)] * 2


def test_the_bare_model_reads_the_source_shifted_where_no_target_is_given():
    model = build_seq2seq().model
    ids = random_ids(2, 5)
    shifted = torch.cat((torch.full((2, 1), START), ids[:, :-1]), dim=1)
    assert_close(model(ids)[0], model(ids, decoder_input_ids=shifted)[0])
    with pytest.raises(ValueError, match="nothing to read"):
        model(inputs_embeds=torch.zeros(1, 3, 16))
    with pytest.raises(ValueError, match="exactly one of input_ids and inputs_embeds"):
        model(ids, inputs_embeds=torch.zeros(2, 5, 16), decoder_input_ids=ids)


def test_embeddings_given_in_place_of_ids_give_the_same_logits():
    model = build_seq2seq(scale_embedding=True)
    source, target = random_ids(2, 5), random_ids(2, 4)
    by_hand = {
        "inputs_embeds": model.get_encoder().get_input_embeddings()(source),
        "decoder_inputs_embeds": model.get_decoder().get_input_embeddings()(target),
    }
    assert_close(model(**by_hand).logits, model(source, decoder_input_ids=target).logits)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"num_attention_heads": 3}, r"hidden_size=16.*num_attention_heads=3.*multiple of 3"),
        ({"position_type": "absolute"}, r"position_type='absolute'.*learned.*none.*rotary.*sinusoidal"),
        ({"norm_position": "middle"}, r"norm_position='middle'.*post, pre"),
        ({"activation": "reluu"}, r"activation='reluu'.*choose one of.*relu.*silu"),
        ({"dropout": 1.5}, r"dropout=1.5 must be a number from 0 to 0.999"),
        ({"attention_dropout": -0.1}, r"attention_dropout=-0.1 must be a number from 0"),
        ({"hidden_size": 6, "position_type": "rotary"}, r"rotary.*size 3 is odd"),
        ({"decoder_layers": 0}, r"decoder_layers=0 must be a whole number from 1"),
        ({"encoder_layers": -1}, r"encoder_layers=-1 must be a whole number from 1"),
        ({"vocab_size": 0}, r"vocab_size=0 must be a whole number from 1"),
    ],
)
def test_a_config_refuses_with_argument_value_and_what_is_allowed(setting, sentence):
    with pytest.raises(ValueError, match=sentence):
        AttnSeq2SeqConfig(**{**SIZES, **setting})


def test_transformers_canonical_names_reach_the_same_sizes():
    config = AttnSeq2SeqConfig(d_model=32, num_hidden_layers=3, decoder_layers=1)
    assert (config.hidden_size, config.encoder_layers, config.decoder_layers) == (32, 3, 1)
    assert (config.d_model, config.num_hidden_layers, config.decoder_attention_heads) == (32, 3, 4)
    model = AttnSeq2SeqModel(config)
    assert (len(model.encoder.layers), len(model.decoder.layers)) == (3, 1)


def test_a_decoder_s_hidden_states_are_its_layers_outputs():
    model = build_seq2seq()
    seen = []
    layer = model.model.decoder.layers[0]
    layer.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    ids = random_ids(1, 4)
    states = model(ids, decoder_input_ids=ids, output_hidden_states=True).decoder_hidden_states
    assert len(states) == model.config.decoder_layers + 1
    torch.testing.assert_close(states[1], seen[0])
