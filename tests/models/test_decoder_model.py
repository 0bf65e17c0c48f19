"""The decoder-only model: the future, padding, caching, labels, writing, and all that Hugging Face does."""

import copy

import pytest
import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments, pipeline

from hf_attn.models.configuration_attn_decoder import AttnDecoderConfig
from hf_attn.models.modeling_attn_decoder import AttnDecoderForCausalLM, AttnDecoderModel
from hf_attn.tasks.synthetic.copying import Copying
from hf_attn.tasks.tokenizers.from_vocabulary import build_tokenizer
from tests.support.checks import (
    END,
    KERNELS,
    POSITIONS,
    SIDES,
    SIZES,
    accumulating,
    assert_close,
    assert_different,
    assert_same_gradients,
    check_accumulation_weighs_every_label_alike,
    check_kernels_agree,
    check_padding_is_not_read,
    gradients,
    pad,
    random_ids,
    random_rows,
)
from tests.support.decoder_checks import (
    build_decoder,
    check_cached_equals_uncached,
    check_labels_shift_once,
    check_padding_and_the_future_weigh_nothing,
    check_rows_stand_alone,
    check_the_future_is_hidden,
    decoder_examples,
)

EXACTLY_6 = {"max_new_tokens": 6, "min_new_tokens": 6, "do_sample": False}
CACHES = ({"use_cache": False}, {"use_cache": True}, {"cache_implementation": "static"})


# What is read


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("position_type", POSITIONS)
def test_a_padded_batch_gives_the_same_logits_as_each_row_alone(position_type, kernel):
    model = build_decoder(kernel, position_type=position_type)
    for side in SIDES:
        check_rows_stand_alone(model, side)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("position_type", POSITIONS)
def test_a_later_token_changes_no_earlier_logit(position_type, kernel):
    check_the_future_is_hidden(build_decoder(kernel, position_type=position_type))


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_stands_under_the_padding_changes_nothing(kernel):
    check_padding_is_not_read(build_decoder(kernel).model)


@pytest.mark.parametrize("norm_position", ["pre", "post"])
@pytest.mark.parametrize("position_type", POSITIONS)
def test_eager_and_sdpa_agree_in_values_and_gradients(position_type, norm_position):
    model = build_decoder(position_type=position_type, norm_position=norm_position, use_bias=True)
    check_kernels_agree(model.model)


@pytest.mark.nightly  # inductor compiles the kernel: a minute
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@torch.no_grad()
def test_flex_agrees_in_values():
    model = build_decoder(hidden_size=32)  # flex wants heads of 16 at least
    ids, mask = pad(random_rows(7, 4), "right")
    expected = model(ids, attention_mask=mask).logits
    model.set_attn_implementation("flex_attention")
    assert_close(model(ids, attention_mask=mask).logits[mask.bool()], expected[mask.bool()])


def test_attention_weights_look_back_only_and_sum_to_one():
    model = build_decoder("eager")
    ids, mask = pad(random_rows(7, 4), "right")
    output = model(ids, attention_mask=mask, output_attentions=True, output_hidden_states=True)
    assert [states.shape for states in output.hidden_states] == [(2, 7, 16)] * 3
    assert [weights.shape for weights in output.attentions] == [(2, 2, 7, 7)] * 2
    for weights in output.attentions:
        assert_close(weights.sum(-1), torch.ones(2, 2, 7))
        assert (weights.triu(1) == 0).all()
        assert (weights[1, :, :, 4:] == 0).all()
    plain = model(ids, attention_mask=mask, output_attentions=True, return_dict=False)
    assert torch.equal(plain[0], output.logits)


@pytest.mark.parametrize("position_type", [*POSITIONS, "alibi", "t5"])
def test_padding_on_the_left_and_the_future_have_weight_0(position_type):
    check_padding_and_the_future_weigh_nothing(build_decoder("eager", position_type=position_type))


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("position_type", POSITIONS)
@torch.no_grad()
def test_sequences_packed_in_one_row_do_not_see_each_other(position_type, kernel):
    model = build_decoder(kernel, position_type=position_type)
    rows = random_rows(5, 3)
    places = torch.tensor([[*range(5), *range(3)]])
    packed = model(torch.cat(rows)[None], position_ids=places, use_cache=False).logits[0]
    assert_close(packed, torch.cat([model(row[None]).logits[0] for row in rows]))


# Through the cache


@pytest.mark.parametrize("norm_position", ["pre", "post"])
@pytest.mark.parametrize("position_type", POSITIONS)
def test_step_by_step_through_the_cache_equals_one_pass(position_type, norm_position):
    model = build_decoder(position_type=position_type, norm_position=norm_position)
    for side in (None, *SIDES):
        check_cached_equals_uncached(model, side)


@pytest.mark.parametrize("kernel", KERNELS)
def test_several_tokens_at_once_through_the_cache_equal_one_pass(kernel):
    model = build_decoder(kernel, num_hidden_layers=3)
    check_cached_equals_uncached(model, chunks=(3, 1, 2))
    check_cached_equals_uncached(model, "left", chunks=(4, 3))


@pytest.mark.parametrize("position_type", POSITIONS)
def test_rows_padded_on_the_left_are_continued_as_alone_with_every_cache(position_type):
    model = build_decoder(position_type=position_type)
    rows = random_rows(6, 2, 4)
    ids, mask = pad(rows, "left")
    wanted = {**EXACTLY_6, "return_dict_in_generate": True, "output_logits": True}
    for cache in CACHES:
        together = model.generate(ids, attention_mask=mask, **wanted, **cache)
        for place, row in enumerate(rows):
            alone = model.generate(row[None], attention_mask=torch.ones_like(row[None]), **wanted)
            assert_close(torch.stack(together.logits)[:, place], torch.stack(alone.logits)[:, 0])
            assert together.sequences[place, 6:].tolist() == alone.sequences[0, len(row) :].tolist()


@pytest.mark.parametrize("position_type", POSITIONS)
def test_a_compiled_forward_has_no_break_and_gives_the_same(position_type):
    model = build_decoder(position_type=position_type)
    ids, mask = pad(random_rows(7, 4), "left")
    expected = model(ids, attention_mask=mask, labels=ids)
    found = torch.compile(model, backend="eager", fullgraph=True)(ids, attention_mask=mask, labels=ids)
    assert_close(found.logits, expected.logits)
    assert_close(found.loss, expected.loss)


# Labels


@pytest.mark.parametrize("position_type", POSITIONS)
def test_labels_shift_exactly_once(position_type):
    check_labels_shift_once(build_decoder(position_type=position_type))


def test_accumulated_gradients_weigh_every_label_alike():
    check_accumulation_weighs_every_label_alike(build_decoder(), *decoder_examples())


def test_the_trainer_learns_the_same_from_eight_batches_of_one_and_one_of_eight(tmp_path):
    examples, _ = decoder_examples()
    rows = [{name: tensor[0] for name, tensor in example.items()} for example in examples]
    weights = []
    for batch_size in (1, 8):
        model = build_decoder()
        before = copy.deepcopy(model.lm_head.weight)
        arguments = TrainingArguments(**accumulating(tmp_path, batch_size, max_steps=2))
        Trainer(model, arguments, train_dataset=rows).train()
        assert_different(model.lm_head.weight, before)
        weights.append(model.state_dict())
    for name, weight in weights[0].items():
        torch.testing.assert_close(weight, weights[1][name], atol=1e-4, rtol=1e-3)


def test_gradient_checkpointing_gives_the_same_gradients():
    ids, found = random_ids(3, 6), []
    for reentrant in (None, False, True):
        model = build_decoder(position_type="rotary").train()
        if reentrant is not None:
            model.activation_checkpointing_enable({"use_reentrant": reentrant})
        model(ids, labels=ids).loss.backward()
        found.append(gradients(model))
    assert_same_gradients(found[1], found[0])
    assert_same_gradients(found[2], found[0])


def test_every_parameter_learns():
    for tie in (False, True):
        model = build_decoder(tie_word_embeddings=tie)
        model(random_ids(4, 6), labels=random_ids(4, 6)).loss.backward()
        assert not [
            name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()
        ]


@pytest.mark.parametrize("position_type", POSITIONS)
def test_a_model_trained_on_a_sentence_writes_it_from_its_first_letters(position_type):
    text = "look before you leap"
    letters = sorted(set(text))
    sizes = {"hidden_size": 32, "intermediate_size": 64, "zero_init_residual": True}
    model = build_decoder(position_type=position_type, **sizes).train()
    ids = torch.tensor([[*(4 + letters.index(letter) for letter in text), END]])
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(100):
        optimizer.zero_grad()
        model(ids, labels=ids).loss.backward()
        optimizer.step()
    prompt = ids[:, :3]
    model.eval()
    for cache in CACHES:
        written = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_length=24, do_sample=False, **cache
        )
        assert written.tolist() == ids.tolist()


# Writing


def test_beams_are_the_likeliest_and_one_beam_is_greedy():
    model, ids = build_decoder(), random_ids(1, 4)
    wanted = {**EXACTLY_6, "attention_mask": torch.ones_like(ids), "length_penalty": 0.0}
    found = [
        model.generate(ids, num_beams=4, num_return_sequences=3, **wanted, use_cache=cache)
        for cache in (True, False)
    ]
    assert found[0].tolist() == found[1].tolist()
    log_p = model(found[0]).logits.log_softmax(-1)[:, :-1].gather(2, found[0][:, 1:, None])[:, 3:, 0].sum(1)
    assert log_p.tolist() == sorted(log_p.tolist(), reverse=True)
    greedy = model.generate(ids, **EXACTLY_6, attention_mask=torch.ones_like(ids))
    assert model.generate(ids, num_beams=1, **wanted).tolist() == greedy.tolist()


def test_sampling_gives_as_many_continuations_as_asked_and_the_greedy_one_from_a_single_choice():
    model, ids = build_decoder(), random_ids(1, 4)
    wanted = {**EXACTLY_6, "attention_mask": torch.ones_like(ids), "do_sample": True}
    with torch.random.fork_rng():
        torch.manual_seed(0)
        sampled = model.generate(ids, num_return_sequences=5, **wanted)
        single = model.generate(ids, num_return_sequences=2, top_k=1, **wanted)
    assert sampled.shape == (5, 10)
    assert len({tuple(row) for row in sampled.tolist()}) > 1
    greedy = model.generate(ids, attention_mask=torch.ones_like(ids), **EXACTLY_6)
    assert single.tolist() == greedy.tolist() * 2


def test_text_generation_pipeline_continues_texts_in_a_batch_as_alone():
    task = Copying()
    tokenizer = build_tokenizer(task)
    tokenizer.padding_side = "left"
    model = build_decoder(vocab_size=len(task.vocabulary))
    model.generation_config.max_length = None
    continue_text = pipeline("text-generation", model=model, tokenizer=tokenizer, device="cpu")
    texts, settings = ["7 15 2 3 12", "4", "1 2 3"], {"max_new_tokens": 6, "do_sample": False}
    alone = [continue_text(text, **settings) for text in texts]
    assert continue_text(texts, batch_size=3, **settings) == alone


@torch.no_grad()
def test_only_the_logits_asked_for_are_computed():
    model, ids = build_decoder(), random_ids(2, 6)
    whole = model(ids).logits
    assert_close(model(ids, logits_to_keep=1).logits, whole[:, -1:])
    assert_close(model(ids, logits_to_keep=torch.tensor([0, 4])).logits, whole[:, [0, 4]])


# Weights


@pytest.mark.parametrize("tie", [False, True])
@pytest.mark.parametrize("position_type", POSITIONS)
def test_a_saved_model_loads_with_the_same_logits_whole_or_without_its_head(position_type, tie, tmp_path):
    model, ids = build_decoder(position_type=position_type, tie_word_embeddings=tie), random_ids(2, 6)
    model.save_pretrained(tmp_path)
    loaded, report = AutoModelForCausalLM.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values())
    assert torch.equal(loaded(ids).logits, model(ids).logits)
    assert (loaded.lm_head.weight is loaded.model.embed_tokens.weight) is tie
    bare = AttnDecoderModel.from_pretrained(tmp_path)
    assert torch.equal(bare(ids).last_hidden_state, model.model(ids).last_hidden_state)


def test_a_model_built_on_the_meta_device_takes_no_memory_and_loads():
    model, ids = build_decoder(position_type="sinusoidal"), random_ids(2, 6)
    with torch.device("meta"):
        assert all(weight.is_meta for weight in AttnDecoderForCausalLM(model.config).parameters())
    loaded = AttnDecoderForCausalLM.from_pretrained(None, config=model.config, state_dict=model.state_dict())
    assert torch.equal(loaded(ids).logits, model(ids).logits)


@pytest.mark.parametrize("tie", [False, True])
def test_resized_embeddings_keep_the_old_logits_and_read_and_write_the_new_tokens(tie):
    model, ids = build_decoder(tie_word_embeddings=tie), random_ids(2, 6)
    before = model(ids).logits
    model.resize_token_embeddings(30)
    assert torch.equal(model(ids).logits[..., :23], before)
    assert (model.lm_head.weight is model.model.embed_tokens.weight) is tie
    new = torch.full((2, 4), 29)
    assert model(new, labels=new).loss.isfinite()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("position_type", POSITIONS)
def test_half_precision_is_finite_and_near(position_type, dtype):
    ids, mask = pad(random_rows(7, 4), "left")
    model = build_decoder(position_type=position_type)
    exact = model(ids, attention_mask=mask).logits
    model.to(dtype)
    for kernel in KERNELS:
        model.set_attn_implementation(kernel)
        logits = model(ids, attention_mask=mask).logits
        assert logits.dtype == dtype
        assert logits.isfinite().all()
        shown = mask.bool()
        torch.testing.assert_close(logits[shown].float(), exact[shown], atol=0.3, rtol=0.1)


# Refusals


def test_a_sequence_longer_than_the_positions_is_refused_at_once_and_through_the_cache():
    model, sentence = build_decoder(), r"25 tokens.*max_position_embeddings=24.*Shorten it"
    with pytest.raises(ValueError, match=sentence):
        model(random_ids(1, 25))
    cache = model(random_ids(1, 20), use_cache=True).cache
    with pytest.raises(ValueError, match=sentence):
        model(random_ids(1, 5), cache=cache)
    with pytest.raises(ValueError, match="exactly one of input_ids and inputs_embeds"):
        model()


def test_a_config_refuses_with_argument_value_and_what_is_allowed():
    with pytest.raises(ValueError, match=r"num_hidden_layers=0 must be a whole number from 1"):
        AttnDecoderConfig(**{**SIZES, "num_hidden_layers": 0})
    with pytest.raises(ValueError, match=r"position_type='absolute'.*learned.*none.*rotary.*sinusoidal"):
        AttnDecoderConfig(**{**SIZES, "position_type": "absolute"})
