"""The encoder and its classifier: padding, pooling, losses, pipelines, and everything Hugging Face does."""

import pytest
import torch
from transformers import Trainer, TrainingArguments, pipeline

from hf_attn.models.configuration_attn_encoder import AttnEncoderConfig
from hf_attn.models.layers import Residual
from hf_attn.models.modeling_attn_encoder import AttnEncoderForSequenceClassification, AttnEncoderModel
from hf_attn.tasks.synthetic.copying import Copying
from hf_attn.tasks.tokenizers.from_vocabulary import build_tokenizer
from tests.support.checks import (
    KERNELS,
    POSITIONS,
    SIDES,
    SIZES,
    accumulating,
    assert_close,
    assert_different,
    assert_same_gradients,
    build_classifier,
    build_encoder,
    check_accumulation_weighs_every_label_alike,
    check_encoder_rows_stand_alone,
    check_padding_is_not_read,
    gradients,
    pad,
    random_ids,
    random_rows,
)

LABELS = {
    "single_label_classification": torch.tensor([0, 2, 1, 2, 0, 1, 1, 2]),
    "multi_label_classification": torch.tensor([[0, 1, 1], [1, 0, 0]] * 4).float(),
    "regression": torch.linspace(-1, 1, 8),
}


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("position_type", POSITIONS)
def test_a_padded_batch_gives_the_same_states_as_each_row_alone(position_type, kernel):
    model = build_encoder(kernel, position_type=position_type)
    for side in SIDES:
        check_encoder_rows_stand_alone(model, side)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("build", [build_encoder, build_classifier])
def test_what_stands_under_the_padding_changes_nothing(build, kernel):
    model = build(kernel)
    if build is build_encoder:
        check_padding_is_not_read(model)
    else:
        ids, mask = pad(random_rows(7, 3), "right")
        other = torch.where(mask.bool(), ids, random_ids(*ids.shape, seed=5))
        assert_close(model(other, attention_mask=mask).logits, model(ids, attention_mask=mask).logits)


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_the_classifier_gives_a_padded_row_the_logits_it_gives_it_alone(pooling, side):
    model = build_classifier(pooling=pooling, num_labels=3)
    rows = random_rows(8, 3, 1)
    ids, mask = pad(rows, side)
    logits = model(ids, attention_mask=mask).logits
    for row, own in zip(rows, logits, strict=True):
        assert_close(own, model(row[None]).logits[0])


def test_mean_pooling_is_the_mean_over_tokens_and_leaves_padding_out():
    model = build_classifier(num_labels=3)
    ids, mask = pad(random_rows(7, 3), "right")
    states = model.encoder(ids, attention_mask=mask).last_hidden_state
    by_hand = torch.stack([states[0].mean(0), states[1, :3].mean(0)])
    assert_close(model(ids, attention_mask=mask).logits, model.classifier(by_hand))
    assert_different(model(ids).logits[1], model(ids, attention_mask=mask).logits[1])


def test_a_classifier_refuses_a_mask_that_says_nothing_of_padding_and_a_row_without_tokens():
    model = build_classifier()
    with pytest.raises(ValueError, match=r"shape \[1, 1, 3, 3\].*classifier pools.*give \[B, S\]"):
        model(random_ids(1, 3), attention_mask=torch.ones(1, 1, 3, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="without tokens"):
        model(random_ids(1, 0))


def test_a_row_of_nothing_but_padding_gives_finite_logits():
    mask = torch.tensor([[1, 1, 1], [0, 0, 0]])
    for pooling in ("mean", "first"):
        model = build_classifier(pooling=pooling)
        assert model(random_ids(2, 3), attention_mask=mask).logits.isfinite().all()


@pytest.mark.parametrize("problem_type", LABELS)
def test_each_problem_type_has_the_loss_of_its_name(problem_type):
    labels = LABELS[problem_type]
    model = build_classifier(problem_type=problem_type, num_labels=1 if problem_type == "regression" else 3)
    output = model(random_ids(8, 5), labels=labels)
    expected = {
        "single_label_classification": torch.nn.functional.cross_entropy,
        "multi_label_classification": torch.nn.functional.binary_cross_entropy_with_logits,
        "regression": torch.nn.functional.mse_loss,
    }[problem_type](output.logits.squeeze(-1), labels)
    assert_close(output.loss, expected)


@pytest.mark.parametrize("problem_type", LABELS)
def test_accumulated_gradients_weigh_every_label_alike(problem_type):
    labels = LABELS[problem_type]
    model = build_classifier(problem_type=problem_type, num_labels=1 if problem_type == "regression" else 3)
    ids = random_ids(8, 5)
    examples = [
        {"input_ids": row[None], "labels": label[None]} for row, label in zip(ids, labels, strict=True)
    ]
    check_accumulation_weighs_every_label_alike(model, examples, labels.numel())


@pytest.mark.parametrize("problem_type", LABELS)
def test_the_trainer_learns_the_same_from_eight_batches_of_one_and_one_of_eight(problem_type, tmp_path):
    labels = LABELS[problem_type]
    rows = [{"input_ids": i, "labels": label} for i, label in zip(random_ids(8, 5), labels, strict=True)]
    weights = []
    for batch_size in (1, 8):
        arguments = TrainingArguments(**accumulating(tmp_path, batch_size, max_steps=1))
        model = build_classifier(
            problem_type=problem_type, num_labels=1 if problem_type == "regression" else 3
        )
        before = model.classifier.weight.detach().clone()
        Trainer(model, arguments, train_dataset=rows).train()
        assert_different(model.classifier.weight, before)
        weights.append(model.state_dict())
    for name, weight in weights[0].items():
        torch.testing.assert_close(weight, weights[1][name], atol=1e-4, rtol=1e-3)


def test_text_classification_pipeline_scores_texts_in_a_batch_as_alone():
    task = Copying()
    model = build_classifier(vocab_size=len(task.vocabulary), id2label={0: "low", 1: "high"})
    classify = pipeline("text-classification", model=model, tokenizer=build_tokenizer(task), device="cpu")
    texts = ["7 15 2 3 12", "4", "1 2 3"]
    alone = [classify(text, top_k=None) for text in texts]
    together = classify(texts, top_k=None, batch_size=3)
    for one, other in zip(alone, together, strict=True):
        assert {row["label"] for row in one} == {"low", "high"}
        assert sum(row["score"] for row in one) == pytest.approx(1, abs=1e-5)
        by_label = {row["label"]: row["score"] for row in other}
        assert {row["label"]: row["score"] for row in one} == pytest.approx(by_label, abs=1e-5)


def test_feature_extraction_pipeline_gives_the_encoders_states():
    task = Copying()
    model, tokenizer = build_encoder(vocab_size=len(task.vocabulary)), build_tokenizer(task)
    extract = pipeline("feature-extraction", model=model, tokenizer=tokenizer, device="cpu")
    ids = torch.tensor([tokenizer("7 15 2")["input_ids"]])
    assert_close(torch.tensor(extract("7 15 2")), model(ids).last_hidden_state)


def test_the_same_seed_gives_the_same_weights():
    first, same, other = (build_classifier(seed=seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(weight, same[name]) for name, weight in first.items())
    assert_different(other["classifier.weight"], first["classifier.weight"])


@pytest.mark.parametrize("position_type", POSITIONS)
def test_a_saved_classifier_loads_with_the_same_logits_and_its_encoder_alone(position_type, tmp_path):
    model = build_classifier(position_type=position_type, num_labels=3)
    model.save_pretrained(tmp_path)
    weights = {path.name for path in tmp_path.iterdir() if path.suffix in (".safetensors", ".bin", ".pt")}
    assert weights == {"model.safetensors"}
    loaded, report = AttnEncoderForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values())
    ids = random_ids(2, 6)
    assert torch.equal(loaded(ids).logits, model(ids).logits)
    bare = AttnEncoderModel.from_pretrained(tmp_path)
    assert torch.equal(bare(ids).last_hidden_state, model.encoder(ids).last_hidden_state)


def test_resized_embeddings_keep_what_the_old_tokens_gave():
    model = build_classifier()
    ids = random_ids(2, 6)
    before = model(ids).logits
    model.resize_token_embeddings(30)
    assert torch.equal(model(ids).logits, before)
    assert model(torch.full((2, 3), 29)).logits.isfinite().all()


def test_gradient_checkpointing_gives_the_same_gradients():
    found = []
    for reentrant in (None, False, True):
        model = build_classifier(num_labels=3).train()
        if reentrant is not None:
            model.activation_checkpointing_enable({"use_reentrant": reentrant})
        model(random_ids(8, 5), labels=LABELS["single_label_classification"]).loss.backward()
        found.append(gradients(model))
    assert_same_gradients(found[1], found[0])
    assert_same_gradients(found[2], found[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("position_type", POSITIONS)
def test_half_precision_is_finite_and_near(position_type, dtype):
    ids, mask = pad(random_rows(7, 4), "left")
    model = build_classifier(position_type=position_type)
    exact = model(ids, attention_mask=mask).logits
    model.to(dtype)
    for kernel in KERNELS:
        model.set_attn_implementation(kernel)
        logits = model(ids, attention_mask=mask).logits
        assert logits.dtype == dtype
        torch.testing.assert_close(logits.float(), exact, atol=0.1, rtol=0.1)


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"num_attention_heads": 3}, r"hidden_size=16.*num_attention_heads=3.*multiple of 3"),
        ({"position_type": "absolute"}, r"position_type='absolute'.*learned.*none.*rotary.*sinusoidal"),
        ({"norm_position": "middle"}, r"norm_position='middle'.*post, pre"),
        ({"activation": "reluu"}, r"activation='reluu'.*choose one of.*relu.*silu"),
        ({"dropout": 1.5}, r"dropout=1.5 must be a number from 0 to 0.999"),
        ({"classifier_dropout": 1.0}, r"classifier_dropout=1.0 must be a number from 0 to 0.999"),
        ({"hidden_size": 6, "position_type": "rotary"}, r"rotary.*size 3 is odd"),
        ({"pooling": "max"}, r"pooling='max'.*first, mean"),
        ({"num_hidden_layers": 0}, r"num_hidden_layers=0 must be a whole number from 1"),
        ({"max_position_embeddings": 0}, r"max_position_embeddings=0 must be a whole number from 1"),
    ],
)
def test_a_config_refuses_with_argument_value_and_what_is_allowed(setting, sentence):
    with pytest.raises(ValueError, match=sentence):
        AttnEncoderConfig(**{**SIZES, **setting})


def test_a_post_norm_residual_normalises_and_a_pre_norm_one_does_not():
    config = build_encoder(norm_position="post").config
    states, block = torch.randn(2, 5, 16) * 3 + 1, torch.randn(2, 5, 16)
    after = Residual(config).after(states, block)
    torch.testing.assert_close(after.mean(-1), torch.zeros(2, 5), atol=1e-5, rtol=0)
    torch.testing.assert_close(after.var(-1, unbiased=False), torch.ones(2, 5), atol=1e-3, rtol=0)
    config.norm_position = "pre"
    torch.testing.assert_close(Residual(config).after(states, block), states + block)


def test_embeddings_are_scaled_by_the_root_of_the_width():
    plain, scaled = (
        build_encoder(position_type="none"),
        build_encoder(position_type="none", scale_embedding=True),
    )
    ids = random_ids(1, 4)
    first = plain(ids, output_hidden_states=True).hidden_states[0]
    torch.testing.assert_close(scaled(ids, output_hidden_states=True).hidden_states[0], 4 * first)
