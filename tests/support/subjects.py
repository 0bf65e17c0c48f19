"""What a contract of tests/models is tested with: each kind of model, with each setting of its mechanism.

Every function returns parameters for pytest; those that the gate leaves out are marked nightly.
"""

import itertools
from typing import NamedTuple

import pytest

from hf_attn.models.efficient_attention import EFFICIENT_ATTENTION
from tests.support.checks import build_classifier, build_decoder, build_encoder, build_seq2seq
from tests.support.matrix import rows
from tests.support.position_checks import ALL, GATE, kernels_of
from tests.support.recurrent_models import (
    GATE_MECHANISMS,
    GATE_READERS,
    MECHANISMS,
    POOLINGS,
    READERS,
    build_reader,
    build_recurrent,
    name_of,
)


def build_three_classes(**settings):
    return build_classifier(**{"num_labels": 3, **settings})


def build_recurrent_encoder(**settings):
    return build_reader(**settings).encoder


BUILDERS = {
    "encoder": build_encoder,
    "classifier": build_three_classes,
    "encoder-decoder": build_seq2seq,
    "decoder": build_decoder,
    "recurrent": build_recurrent,
    "recurrent encoder": build_recurrent_encoder,
    "recurrent classifier": build_reader,
}
TRANSFORMERS = ("encoder", "encoder-decoder", "decoder")
CLASSIFIERS = ("classifier", "recurrent classifier")
WRITERS = ("encoder-decoder", "decoder", "recurrent")
LEARNERS = (*CLASSIFIERS, *WRITERS)
FAMILIES = {"classifier": build_classifier, "encoder-decoder": build_seq2seq, "decoder": build_decoder}
EFFICIENT = tuple(EFFICIENT_ATTENTION)
CAUSAL = tuple(name for name, kind in EFFICIENT_ATTENTION.items() if not kind.not_causal)


def can_have(kind: str, attention_type: str) -> bool:
    """Whether a kind of Transformer may have such attention: a decoder's must hide the future."""
    return kind != "decoder" or attention_type in CAUSAL


EFFICIENT_FAMILIES = [pair for pair in itertools.product(FAMILIES, EFFICIENT) if can_have(*pair)]


class Subject(NamedTuple):
    """A kind of model and its settings, the kernel's name among them."""

    kind: str
    settings: dict

    def build(self, **more):
        """A small model with random weights, in evaluation mode."""
        return BUILDERS[self.kind](**{**self.settings, **more})

    def __str__(self) -> str:
        return f"{self.kind}-{name_of(self.settings)}"


def each_kind(*kinds: str, **settings) -> list:
    """One model of each kind, of all kinds where none is named."""
    subjects = [Subject(kind, settings) for kind in kinds or BUILDERS]
    return [pytest.param(subject, id=str(subject) if settings else subject.kind) for subject in subjects]


def with_positions(*kinds: str, both_kernels: bool = False, gate=GATE, types=ALL) -> list:
    """Each kind with each position encoding by the fastest kernel, or by both (two in the gate)."""
    every = [
        Subject(kind, {"position_type": name, "kernel": kernel})
        for kind, name in itertools.product(kinds or TRANSFORMERS, types)
        for kernel in (kernels_of(name) if both_kernels else kernels_of(name)[-1:])
    ]
    often = {(name, kernels_of(name)[-1]) for name in gate} | {("learned", "eager"), ("alibi", "eager")}
    return rows(every, [each for each in every if tuple(each.settings.values()) in often], str)


def with_attention(*kinds: str, kernels=("sdpa",), gate=EFFICIENT) -> list:
    """Each kind with each efficient attention that it may have."""
    every = [
        Subject(kind, {"attention_type": name, "kernel": kernel})
        for kind, name, kernel in itertools.product(kinds or TRANSFORMERS, EFFICIENT, kernels)
        if can_have(kind, name)
    ]
    return rows(every, [each for each in every if each.settings["attention_type"] in gate], str)


def recurrent(every=MECHANISMS, gate=GATE_MECHANISMS) -> list:
    """The recurrent encoder-decoder with each of its mechanisms."""
    often = [Subject("recurrent", each) for each in gate if each in every]
    return rows([Subject("recurrent", each) for each in every], often, str)


def recurrent_encoders() -> list:
    """The recurrent encoder with each of its cells."""
    every, gate = ([Subject("recurrent encoder", each) for each in some] for some in (READERS, GATE_READERS))
    return rows(every, gate, str)


def classifiers() -> list:
    """Each pooling of both classifiers, the recurrent one's with each of its cells."""
    ours = [Subject("classifier", {"pooling": pooling}) for pooling in ("mean", "first")]
    every = [
        Subject("recurrent classifier", {**each, "pooling": pooling})
        for pooling, each in itertools.product(POOLINGS, READERS)
    ]
    gate = [
        Subject("recurrent classifier", {**each, "pooling": pooling})
        for pooling, each in zip(("mean", "last", "max"), GATE_READERS, strict=True)
    ]
    return rows([*ours, *every], [*ours, *gate], str)


small_blocks = pytest.mark.usefixtures("small_blocks")  # of efficient attention: see tests/models/conftest.py
