"""Pipelines of transformers answer texts in a batch as they answer each alone."""

import pytest
import torch
from transformers import pipeline

from hf_attn.tasks.synthetic.copying import Copying
from hf_attn.tasks.tokenizers.from_vocabulary import build_tokenizer
from tests.support.checks import assert_close
from tests.support.subjects import CLASSIFIERS, each_kind

TASK = Copying()
SIZE = {"vocab_size": len(TASK.vocabulary)}
TEXTS = ["7 15 2 3 12", "4", "1 2 3"]


@pytest.mark.parametrize("subject", each_kind(*CLASSIFIERS))
def test_text_classification_scores_texts_in_a_batch_as_alone(subject):
    model = subject.build(**SIZE, num_labels=2, id2label={0: "low", 1: "high"})
    classify = pipeline("text-classification", model=model, tokenizer=build_tokenizer(TASK), device="cpu")
    alone = [classify(text, top_k=None) for text in TEXTS]
    together = classify(TEXTS, top_k=None, batch_size=3)
    for one, other in zip(alone, together, strict=True):
        assert {row["label"] for row in one} == {"low", "high"}
        assert sum(row["score"] for row in one) == pytest.approx(1, abs=1e-5)
        by_label = {row["label"]: row["score"] for row in other}
        assert {row["label"]: row["score"] for row in one} == pytest.approx(by_label, abs=1e-5)


@pytest.mark.parametrize("subject", each_kind("encoder", "recurrent encoder"))
def test_feature_extraction_gives_the_encoders_states(subject):
    model, tokenizer = subject.build(**SIZE), build_tokenizer(TASK)
    extract = pipeline("feature-extraction", model=model, tokenizer=tokenizer, device="cpu")
    ids = torch.tensor([tokenizer("7 15 2")["input_ids"]])
    assert_close(torch.tensor(extract("7 15 2")), model(ids).last_hidden_state)


@pytest.mark.parametrize("subject", each_kind("decoder"))
def test_text_generation_continues_texts_in_a_batch_as_alone(subject):
    tokenizer, model = build_tokenizer(TASK), subject.build(**SIZE)
    tokenizer.padding_side, model.generation_config.max_length = "left", None
    continue_text = pipeline("text-generation", model=model, tokenizer=tokenizer, device="cpu")
    settings = {"max_new_tokens": 6, "do_sample": False}
    alone = [continue_text(text, **settings) for text in TEXTS]
    assert continue_text(TEXTS, batch_size=3, **settings) == alone
