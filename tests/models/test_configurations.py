"""A configuration that cannot work is refused in a sentence; transformers' own names reach the others."""

import pytest

from hf_attn.models.configuration_attn_decoder import AttnDecoderConfig
from hf_attn.models.configuration_attn_encoder import AttnEncoderConfig
from hf_attn.models.configuration_attn_seq2seq import AttnSeq2SeqConfig
from hf_attn.models.configuration_recurrent import RecurrentConfig
from hf_attn.models.configuration_recurrent_encoder import RecurrentEncoderConfig
from hf_attn.models.modeling_attn_seq2seq import AttnSeq2SeqModel
from tests.support import recurrent_models
from tests.support.checks import SIZES
from tests.support.position_checks import ALL, POSITION_TYPES
from tests.support.subjects import CAUSAL, EFFICIENT

TRANSFORMER = [  # of all three
    ({"num_attention_heads": 3}, r"hidden_size=16.*num_attention_heads=3.*multiple of 3"),
    ({"position_type": "absolute"}, r"position_type='absolute'.*learned.*none.*rotary.*sinusoidal"),
    ({"norm_position": "middle"}, r"norm_position='middle'.*post, pre"),
    ({"activation": "reluu"}, r"activation='reluu'.*choose one of.*relu.*silu"),
    ({"dropout": 1.5}, r"dropout=1.5 must be a number from 0 to 0.999"),
    ({"attention_dropout": -0.1}, r"attention_dropout=-0.1 must be a number from 0"),
    ({"hidden_size": 6, "position_type": "rotary"}, r"rotary.*size 3 is odd"),
    ({"hidden_size": 6, "position_type": "rotary_interpolated"}, r"'rotary_interpolated'.*size 3 is odd"),
    ({"hidden_size": 4, "position_type": "rotary_ntk"}, r"'rotary_ntk'.*size 2 has no other.*at least 4"),
    ({"hidden_size": 7, "num_attention_heads": 1, "position_type": "complex"}, r"hidden_size=7.*even"),
    ({"position_scaling_factor": 0.5}, r"position_scaling_factor=0.5 must be a number from 1 to "),
    ({"relative_clip_distance": 0}, r"relative_clip_distance=0 must be a whole number from 1"),
    ({"position_kernel_size": 0}, r"position_kernel_size=0 must be a whole number from 1"),
    ({"relative_attention_num_buckets": 7}, r"num_buckets=7 must be even"),
    ({"relative_attention_max_distance": 16}, r"max_distance=16 above half"),
    ({"vocab_size": 0}, r"vocab_size=0 must be a whole number from 1"),
    ({"max_position_embeddings": 0}, r"max_position_embeddings=0 must be a whole number from 1"),
    ({"attention_type": "sparse"}, "'sparse' is not known.*full, linformer, local, performer, reformer"),
    ({"attention_window": 0}, "attention_window=0 must be a whole number from 1"),
    ({"linformer_size": 0}, "linformer_size=0"),
    ({"performer_features": 0}, "performer_features=0"),
    ({"reformer_rounds": 0}, "reformer_rounds=0"),
    ({"reformer_chunk": 0}, "reformer_chunk=0"),
    ({"reformer_buckets": 5}, "reformer_buckets=5 must be even"),
    ({"attention_type": "local", "attention_dropout": 0.1}, r"attention_dropout=0.1.*'local'.*choose 0"),
]
RECURRENT = [  # of both
    ({"cell_type": "lsmt"}, r"cell_type='lsmt'.*gru, lstm, rnn"),
    ({"dropout": 1.0}, r"dropout=1.0 must be a number from 0 to 0.999"),
    ({"num_layers": 0}, r"num_layers=0 must be a whole number from 1"),
    ({"embedding_size": 0}, r"embedding_size=0 must be a whole number from 1"),
    ({"vocab_size": 0}, r"vocab_size=0 must be a whole number from 1"),
]
OWN = {
    AttnEncoderConfig: [
        ({"classifier_dropout": 1.0}, r"classifier_dropout=1.0 must be a number from 0 to 0.999"),
        ({"pooling": "max"}, r"pooling='max'.*first, mean"),
        ({"num_hidden_layers": 0}, r"num_hidden_layers=0 must be a whole number from 1"),
    ],
    AttnDecoderConfig: [
        ({"num_hidden_layers": 0}, r"num_hidden_layers=0 must be a whole number from 1"),
        *(
            (
                {"attention_type": kind},
                rf"'{kind}' cannot hide the future.*Choose local or performer, or full",
            )
            for kind in EFFICIENT
            if kind not in CAUSAL
        ),
    ],
    AttnSeq2SeqConfig: [
        ({"decoder_layers": 0}, r"decoder_layers=0 must be a whole number from 1"),
        ({"encoder_layers": -1}, r"encoder_layers=-1 must be a whole number from 1"),
    ],
    RecurrentEncoderConfig: [
        ({"pooling": "first"}, r"pooling='first'.*last, max, mean"),
        ({"hidden_size": 15}, r"hidden_size=15 is odd.*bidirectional=False"),
        ({"classifier_dropout": 1.0}, r"classifier_dropout=1.0 must be a number from 0 to 0.999"),
    ],
    RecurrentConfig: [
        ({"score_function": "cosine"}, r"score_function='cosine'.*additive, concat, dot, general, none"),
        ({"encoder_hidden_size": 0}, r"encoder_hidden_size=0 must be a whole number from 1"),
        ({"attention_size": 0}, r"attention_size=0 must be a whole number from 1"),
        ({"hidden_size": 15}, r"hidden_size=15 is odd.*choose an even hidden_size, or encoder_hidden_size"),
        (
            {"score_function": "dot", "encoder_hidden_size": 16},
            r"hidden_size=16.*encoder_hidden_size=16 × 2 = 32.*choose hidden_size=32.*'general'",
        ),
        (
            {"tie_word_embeddings": True, "embedding_size": 8},
            r"embedding_size=8 and hidden_size=16 must be equal",
        ),
    ],
}
COMMON = {
    **dict.fromkeys((AttnEncoderConfig, AttnDecoderConfig, AttnSeq2SeqConfig), (SIZES, TRANSFORMER)),
    RecurrentConfig: (recurrent_models.SIZES, RECURRENT),
    RecurrentEncoderConfig: (recurrent_models.READER_SIZES, RECURRENT),
}


@pytest.mark.parametrize("config_class", OWN, ids=lambda config_class: config_class.__name__)
def test_a_config_refuses_with_argument_value_and_what_is_allowed(config_class):
    sizes, common = COMMON[config_class]
    for settings, sentence in (*common, *OWN[config_class]):
        with pytest.raises(ValueError, match=sentence):
            config_class(**{**sizes, **settings})


@pytest.mark.parametrize("kind", EFFICIENT)
def test_positions_that_need_scores_are_refused_where_there_are_none(kind):
    biases = [name for name in ALL if POSITION_TYPES[name].biases_scores]
    unweighted = [name for name in biases if not POSITION_TYPES[name].needs_weights]
    for position_type in ["relative"] if kind == "local" else [*unweighted, "relative"]:
        with pytest.raises(ValueError, match=rf"'{position_type}'.*'{kind}'.*added to the embeddings"):
            AttnEncoderConfig(attention_type=kind, position_type=position_type)


def test_transformers_canonical_names_reach_the_same_sizes():
    config = AttnSeq2SeqConfig(d_model=32, num_hidden_layers=3, decoder_layers=1)
    assert (config.hidden_size, config.encoder_layers, config.decoder_layers) == (32, 3, 1)
    assert (config.d_model, config.num_hidden_layers, config.decoder_attention_heads) == (32, 3, 4)
    stacks = AttnSeq2SeqModel(config)
    assert (len(stacks.encoder.layers), len(stacks.decoder.layers)) == (3, 1)
    config = RecurrentConfig(d_model=32, num_hidden_layers=3)
    assert (config.hidden_size, config.num_layers, config.num_attention_heads) == (32, 3, 1)
    assert (config.encoder_layers, config.decoder_layers, config.memory_size) == (3, 3, 32)
    assert RecurrentConfig(hidden_size=15, encoder_hidden_size=4).memory_size == 8
