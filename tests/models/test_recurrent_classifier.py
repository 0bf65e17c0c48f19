"""The recurrent encoder and its classifier: padding, pooling, losses, and everything Hugging Face does."""

import itertools

import pytest
import torch
from transformers import Trainer, TrainingArguments, pipeline

from hf_attn.models import modeling_recurrent_encoder
from hf_attn.models.configuration_recurrent_encoder import RecurrentEncoderConfig
from hf_attn.models.modeling_recurrent_encoder import (
    RecurrentEncoderModel,
    RecurrentForSequenceClassification,
)
from hf_attn.tasks.synthetic.copying import Copying
from hf_attn.tasks.tokenizers.from_vocabulary import build_tokenizer
from tests.support.checks import (
    SIDES,
    accumulating,
    assert_close,
    assert_different,
    check_accumulation_weighs_every_label_alike,
    check_encoder_rows_stand_alone,
    check_padding_is_not_read,
    gradients,
    pad,
    random_ids,
    random_rows,
)

SIZES = {"vocab_size": 23, "hidden_size": 16, "num_labels": 3, "embedding_initializer_range": 1.0}
POOLINGS = ("last", "mean", "max")
MECHANISMS = [
    {"cell_type": cell_type, "bidirectional": both_ends, "num_layers": layers}
    for cell_type, both_ends, layers in itertools.product(("lstm", "gru", "rnn"), (True, False), (1, 2))
]
LABELS = {
    "single_label_classification": torch.tensor([0, 2, 1, 2, 0, 1, 1, 2]),
    "multi_label_classification": torch.tensor([[0, 1, 1], [1, 0, 0]] * 4).float(),
    "regression": torch.linspace(-1, 1, 8),
}
every_mechanism = pytest.mark.parametrize(
    "settings", MECHANISMS, ids=lambda s: "-".join(map(str, s.values()))
)
every_pooling = pytest.mark.parametrize("pooling", POOLINGS)
every_problem = pytest.mark.parametrize("problem_type", LABELS)


def build_reader(seed: int = 0, **settings) -> RecurrentForSequenceClassification:
    """A small recurrent classifier with random weights, in evaluation mode."""
    config = RecurrentEncoderConfig(**{**SIZES, **settings})
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return RecurrentForSequenceClassification(config).eval()


def build_for(problem_type: str) -> RecurrentForSequenceClassification:
    return build_reader(problem_type=problem_type, num_labels=1 if problem_type == "regression" else 3)


@every_mechanism
def test_a_padded_batch_gives_the_same_states_as_each_row_alone(settings):
    encoder = build_reader(**settings).encoder
    for side in SIDES:
        check_encoder_rows_stand_alone(encoder, side)
    check_padding_is_not_read(encoder)


@every_mechanism
@every_pooling
def test_the_classifier_gives_a_padded_row_the_logits_it_gives_it_alone(pooling, settings):
    model, rows = build_reader(**settings, pooling=pooling), random_rows(8, 3, 1)
    for side in SIDES:
        ids, mask = pad(rows, side)
        logits = model(ids, attention_mask=mask).logits
        for row, own in zip(rows, logits, strict=True):
            assert_close(own, model(row[None]).logits[0], 1e-5)
    assert_different(model(ids).logits[2], logits[2])


def test_pooling_is_what_its_name_says():
    ids, mask = pad(random_rows(7, 3), "left")
    for pooling in POOLINGS:
        model = build_reader(pooling=pooling)
        states = [model.encoder(row[None]).last_hidden_state[0] for row in random_rows(7, 3)]
        by_hand = {
            "mean": [row.mean(0) for row in states],
            "max": [row.max(0).values for row in states],
            "last": [torch.cat((row[-1, :8], row[0, 8:])) for row in states],  # each direction where it ends
        }
        expected = model.classifier(torch.stack(by_hand[pooling]))
        assert_close(model(ids, attention_mask=mask).logits, expected)


def test_pooling_over_padding_is_caught(monkeypatch):
    def check(model):
        ids, mask = random_ids(1, 5), torch.tensor([[1, 1, 1, 0, 0]])
        assert_close(model(ids, attention_mask=mask).logits, model(ids[:, :3]).logits)

    for pooling in POOLINGS:
        model = build_reader(pooling=pooling)
        check(model)
        with monkeypatch.context() as broken:
            broken.setattr(modeling_recurrent_encoder, "read_mask", lambda *_: None)
            with pytest.raises(AssertionError):
                check(model)
    monkeypatch.setattr(type(model), "_pool", lambda self, outputs, mask: outputs.last_hidden_state.mean(1))
    with pytest.raises(AssertionError):
        check(model)


@every_pooling
def test_a_row_of_nothing_but_padding_reads_nothing(pooling):
    model = build_reader(pooling=pooling)
    mask = torch.tensor([[1, 1, 1], [0, 0, 0]])
    found = model(random_ids(2, 3), attention_mask=mask).logits
    assert_close(found[1], model.classifier(torch.zeros(16)))
    assert found.isfinite().all()


@every_problem
def test_each_problem_type_has_the_loss_of_its_name(problem_type):
    labels = LABELS[problem_type]
    output = build_for(problem_type)(random_ids(8, 5), labels=labels)
    expected = {
        "single_label_classification": torch.nn.functional.cross_entropy,
        "multi_label_classification": torch.nn.functional.binary_cross_entropy_with_logits,
        "regression": torch.nn.functional.mse_loss,
    }[problem_type](output.logits.squeeze(-1), labels)
    assert_close(output.loss, expected)


@every_problem
def test_accumulated_gradients_weigh_every_label_alike(problem_type):
    labels = LABELS[problem_type]
    examples = [
        {"input_ids": row[None], "labels": label[None]}
        for row, label in zip(random_ids(8, 5), labels, strict=True)
    ]
    check_accumulation_weighs_every_label_alike(build_for(problem_type), examples, labels.numel())


@every_problem
def test_the_trainer_learns_the_same_from_eight_batches_of_one_and_one_of_eight(problem_type, tmp_path):
    labels = LABELS[problem_type]
    rows = [{"input_ids": i, "labels": label} for i, label in zip(random_ids(8, 5), labels, strict=True)]
    weights = []
    for batch_size in (1, 8):
        arguments = TrainingArguments(**accumulating(tmp_path, batch_size, max_steps=1))
        model = build_for(problem_type)
        before = model.classifier.weight.detach().clone()
        Trainer(model, arguments, train_dataset=rows).train()
        assert_different(model.classifier.weight, before)
        weights.append(model.state_dict())
    for name, weight in weights[0].items():
        torch.testing.assert_close(weight, weights[1][name], atol=1e-4, rtol=1e-3)


@every_mechanism
@every_pooling
def test_every_parameter_learns(pooling, settings):
    model = build_reader(**settings, pooling=pooling)
    model(random_ids(8, 5), labels=LABELS["single_label_classification"]).loss.backward()
    idle = {name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()}
    assert not idle


def test_a_classifier_learns_which_token_comes_first():
    ids = random_ids(64, 6)
    labels = ids[:, 0] % 3
    for cell_type, pooling in itertools.product(("lstm", "gru", "rnn"), POOLINGS):
        model = build_reader(cell_type=cell_type, pooling=pooling, hidden_size=32).train()
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-2)
        for _ in range(40):
            optimizer.zero_grad()
            model(ids, labels=labels).loss.backward()
            optimizer.step()
        assert model.eval()(ids).logits.argmax(-1).tolist() == labels.tolist(), (cell_type, pooling)


def test_text_classification_pipeline_scores_texts_in_a_batch_as_alone():
    task = Copying()
    model = build_reader(vocab_size=len(task.vocabulary), num_labels=2, id2label={0: "low", 1: "high"})
    classify = pipeline("text-classification", model=model, tokenizer=build_tokenizer(task), device="cpu")
    texts = ["7 15 2 3 12", "4", "1 2 3"]
    alone = [classify(text, top_k=None) for text in texts]
    together = classify(texts, top_k=None, batch_size=3)
    for one, other in zip(alone, together, strict=True):
        assert {row["label"] for row in one} == {"low", "high"}
        by_label = {row["label"]: row["score"] for row in other}
        assert {row["label"]: row["score"] for row in one} == pytest.approx(by_label, abs=1e-5)


def test_feature_extraction_pipeline_gives_the_encoders_states():
    task = Copying()
    model, tokenizer = build_reader(vocab_size=len(task.vocabulary)).encoder, build_tokenizer(task)
    extract = pipeline("feature-extraction", model=model, tokenizer=tokenizer, device="cpu")
    ids = torch.tensor([tokenizer("7 15 2")["input_ids"]])
    assert_close(torch.tensor(extract("7 15 2")), model(ids).last_hidden_state)


def test_evaluation_is_deterministic_and_dropout_acts_in_training_only():
    model, ids = build_reader(dropout=0.5), random_ids(2, 6)
    assert torch.equal(model(ids).logits, model(ids).logits)
    assert_different(model.train()(ids).logits, model(ids).logits)
    first, same, other = (build_reader(seed=seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(weight, same[name]) for name, weight in first.items())
    assert_different(other["classifier.weight"], first["classifier.weight"])


@every_mechanism
def test_a_saved_classifier_loads_with_the_same_logits_and_its_encoder_alone(settings, tmp_path):
    model, ids = build_reader(**settings), random_ids(2, 6)
    model.save_pretrained(tmp_path)
    weights = {path.name for path in tmp_path.iterdir() if path.suffix in (".safetensors", ".bin", ".pt")}
    assert weights == {"model.safetensors"}
    loaded, report = RecurrentForSequenceClassification.from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values())
    assert torch.equal(loaded(ids).logits, model(ids).logits)
    bare = RecurrentEncoderModel.from_pretrained(tmp_path)
    assert torch.equal(bare(ids).last_hidden_state, model.encoder(ids).last_hidden_state)
    with torch.device("meta"):
        empty = RecurrentForSequenceClassification(model.config)
    assert all(weight.is_meta for weight in empty.parameters())


def test_resized_embeddings_keep_what_the_old_tokens_gave():
    model, ids = build_reader(), random_ids(2, 6)
    before = model(ids).logits
    model.resize_token_embeddings(30)
    assert torch.equal(model(ids).logits, before)
    assert model(torch.full((2, 3), 29)).logits.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@every_mechanism
def test_half_precision_is_finite_and_near_and_autocast_learns(settings, dtype):
    ids, mask = pad(random_rows(7, 4), "left")
    for pooling in POOLINGS:
        model = build_reader(**settings, pooling=pooling)
        exact = model(ids, attention_mask=mask).logits
        with torch.autocast("cpu", torch.bfloat16):
            model(ids, attention_mask=mask, labels=torch.tensor([0, 1])).loss.backward()
        assert all(gradient.isfinite().all() for gradient in gradients(model).values())
        logits = model.to(dtype)(ids, attention_mask=mask).logits
        assert logits.dtype == dtype
        torch.testing.assert_close(logits.float(), exact, atol=0.1, rtol=0.1)


def test_an_input_that_cannot_be_read_says_why():
    model, ids = build_reader(), random_ids(2, 3)
    with pytest.raises(ValueError, match="exactly one of input_ids and inputs_embeds"):
        model(ids, inputs_embeds=torch.zeros(2, 3, 16))
    with pytest.raises(ValueError, match=r"attention_mask has the shape \[2, 4\].*inputs are \[2, 3\]"):
        model(ids, attention_mask=torch.ones(2, 4))


@pytest.mark.parametrize(
    ("setting", "sentence"),
    [
        ({"cell_type": "lsmt"}, r"cell_type='lsmt'.*gru, lstm, rnn"),
        ({"pooling": "first"}, r"pooling='first'.*last, max, mean"),
        ({"hidden_size": 15}, r"hidden_size=15 is odd.*bidirectional=False"),
        ({"dropout": 1.5}, r"dropout=1.5 must be a number from 0 to 0.999"),
        ({"classifier_dropout": 1.0}, r"classifier_dropout=1.0 must be a number from 0 to 0.999"),
        ({"num_layers": 0}, r"num_layers=0 must be a whole number from 1"),
        ({"vocab_size": 0}, r"vocab_size=0 must be a whole number from 1"),
    ],
)
def test_a_config_refuses_with_argument_value_and_what_is_allowed(setting, sentence):
    with pytest.raises(ValueError, match=sentence):
        RecurrentEncoderConfig(**{**SIZES, **setting})
