"""What a model expects at each place of what it reads, whole and changed.

A causal model has a distribution of the token behind each, a masked one (BERT) of the token at each, an
encoder-decoder of each token that it writes. So a model that names no task can be asked without letting it
write, and a word that decides another is found by taking it away.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from transformers import PreTrainedModel

from hf_attn.analysis.ablation import Trial, leave_out, refuse_queries, refuse_trial
from hf_attn.generation.decoders import find_start, is_decoder_only
from hf_attn.generation.generate import check_ids, check_source, evaluating
from hf_attn.interpret.interventions import intervening_by_row
from hf_attn.interpret.model_inputs import read_example
from hf_attn.utils.text import quote

NEXT, MASKED, WRITTEN = "next", "masked", "written"


@dataclass(frozen=True, eq=False)
class Prediction:
    """Distributions over a vocabulary of V tokens at N places, in a trial.

    With p of the whole model and q of the changed one, at each place:

        total variation  ½ Σ_v |p(v) − q(v)|, from 0 to 1        (as Jain & Wallace 2019, §3)
        divergence       KL(p‖q) = Σ_v p(v) log (p(v) / q(v)), in nats

    Attributes:
        trial: what was changed.
        log_probabilities: [N, V]; NaN where the token of the place was left out.
        total_variation: [N], NaN there too.
        divergence: [N].
    """

    trial: Trial
    log_probabilities: torch.Tensor
    total_variation: torch.Tensor
    divergence: torch.Tensor


def find_prediction(model: PreTrainedModel) -> str:
    """What a model has distributions of.

    "next", the token behind each place (causal); "masked", the token at each (an encoder with a head over
    its vocabulary); "written", each token of its target (encoder-decoder); "" where it has none.
    """
    if is_decoder_only(model):
        return NEXT
    if model.config.is_encoder_decoder:
        return WRITTEN if model.can_generate() else ""
    return MASKED if model.get_output_embeddings() is not None else ""


@torch.no_grad()
def predict_tokens(
    model: PreTrainedModel,
    input_ids: torch.Tensor | Mapping[str, Any],
    trials: Sequence[Trial] = (),
    target_ids: torch.Tensor | None = None,
) -> list[Prediction]:
    """What a model expects at each place of one text: whole, then in each trial.

    Args:
        model: one that has a head over its vocabulary.
        input_ids: [1, S] ids, or what a tokenizer returns for one text.
        trials: what is changed of the attention, or left out of the text.
        target_ids: [1, T] ids that an encoder-decoder writes: N = T places, each given those before it; of
            other models N = S, and there is none.

    Raises:
        ValueError: a model without such a head, more than one text, a target that is missing or not read, or
            a place that the text or the model has not.
    """
    inputs = read_arguments(model, input_ids, target_ids)
    source, written = inputs["input_ids"], inputs.get("decoder_input_ids")
    tried = [Trial(), *trials]
    for trial in tried:
        refuse_trial(trial, source.shape[1], model)
    refuse_queries(tried, (source if written is None else written).shape[1])
    # padding behind the text moves no position, and no causal model reads it
    ids, mask = leave_out(model, source[0], [trial.without for trial in tried], "right")
    inputs |= {"input_ids": ids, "attention_mask": mask}
    if written is not None:
        inputs["decoder_input_ids"] = written.expand(len(tried), -1)
    with intervening_by_row(model, [trial.interventions for trial in tried]), evaluating(model):
        logits = model(**inputs).logits
    log_p = logits.float().log_softmax(-1).cpu()
    rows = list(log_p) if written is not None else _put_back(log_p, source.shape[1], tried)
    whole = rows[0]
    p = whole.exp()
    return [
        Prediction(
            trial,
            row,
            (row.exp() - p).abs().sum(-1) / 2,
            (p * (whole - row)).sum(-1).clamp(min=0),  # rounding alone goes below
        )
        for trial, row in zip(tried, rows, strict=True)
    ]


def read_arguments(
    model: PreTrainedModel, input_ids: torch.Tensor | Mapping[str, Any], target_ids: torch.Tensor | None
) -> dict[str, Any]:
    """What a model that expects tokens is given of one text and what it writes, both [1, …].

    ValueError where it has no head over its vocabulary, or the target is missing or not read.
    """
    kind = find_prediction(model)
    if not kind:
        raise ValueError(f"{type(model).__name__} has no head over its vocabulary, so it expects no token.")
    if isinstance(input_ids, Mapping):
        input_ids, labels, types = read_example(model, input_ids)
        if types is not None:
            raise ValueError("input_ids has token_type_ids of two texts: give one text.")
        target_ids = labels if target_ids is None and kind == WRITTEN else target_ids
    check_source(model, input_ids, None)
    if (target_ids is None) == (kind == WRITTEN):
        wanted = "give the ids that it writes, [1, T]" if kind == WRITTEN else "leave it out"
        raise ValueError(
            f"target_ids={quote(target_ids)}: {type(model).__name__} has its answer so: {wanted}."
        )
    device = next(model.parameters()).device
    arguments: dict[str, Any] = {"input_ids": input_ids.to(device)}
    if target_ids is not None:
        check_ids("target", target_ids, model.get_decoder())
        start = target_ids.new_full((1, 1), find_start(model))
        arguments["decoder_input_ids"] = torch.cat((start, target_ids[:, :-1]), dim=1).to(device)
    return arguments if kind == MASKED else arguments | {"use_cache": False}


def _put_back(log_p: torch.Tensor, length: int, trials: Sequence[Trial]) -> list[torch.Tensor]:
    """Each row [N, V] at the places of the whole text, NaN where a token was left out."""
    rows = []
    for row, trial in zip(log_p, trials, strict=True):
        kept = [place for place in range(length) if place not in trial.without]
        found = row.new_full((length, row.shape[-1]), torch.nan)
        found[kept] = row[: len(kept)]
        rows.append(found)
    return rows
