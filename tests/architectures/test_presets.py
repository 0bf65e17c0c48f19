"""The documents' sizes, counted."""

import pytest
import torch

from hf_attn.architectures.presets import PRESETS, build_preset
from hf_attn.architectures.registry import build_model
from hf_attn.models.modeling_attn_encoder import AttnEncoderForSequenceClassification
from hf_attn.models.modeling_attn_seq2seq import AttnSeq2SeqForConditionalGeneration
from hf_attn.tasks import build_task


def test_the_classifier_of_chapter_1_has_the_parameters_its_code_has_not_those_its_text_says():
    config = build_preset("chapter-1-classifier")
    parameters = AttnEncoderForSequenceClassification(config).num_parameters()
    assert parameters == 3_350_274
    assert parameters != 3_150_338


def test_the_transformer_of_chapter_8_has_its_sizes():
    config = build_preset("chapter-8-transformer")
    with torch.device("meta"):
        model = AttnSeq2SeqForConditionalGeneration(config)
    width, inner = 768, 3072
    attention = 4 * (width * width + width)
    feed_forward = 2 * width * inner + inner + width
    norm = 2 * width
    encoder = 12 * (attention + feed_forward + 2 * norm) + norm
    decoder = 12 * (2 * attention + feed_forward + 3 * norm) + norm
    expected = 30_000 * width + encoder + decoder + 2 * 512 * width
    assert model.num_parameters() == expected
    assert len(model.model.encoder.layers) == len(model.model.decoder.layers) == 12


@pytest.mark.parametrize(
    ("name", "expected"),
    [("copy", (64, 128, 2, 2)), ("addition", (256, 512, 3, 4)), ("parser", (128, 512, 3, 4))],
)
def test_the_document_recipes_of_chapter_8_have_its_sizes(name, expected):
    task = build_task(name)
    config = build_model(task, task.recipes["document"]).config
    sizes = (config.hidden_size, config.intermediate_size, config.encoder_layers, config.num_attention_heads)
    assert sizes == expected
    assert config.decoder_layers == config.encoder_layers


def test_a_preset_can_be_changed_and_an_unknown_one_is_refused_in_words():
    assert build_preset("chapter-1-classifier", num_labels=5).num_labels == 5
    with pytest.raises(ValueError, match=r"'bert'.*chapter-1-classifier"):
        build_preset("bert")
    assert all(build_preset(name) for name in PRESETS)
