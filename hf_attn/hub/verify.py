"""Whether what was pushed answers as what is here does."""

import subprocess

import torch
from huggingface_hub import HfApi

from hf_attn.architectures.families import FAMILIES
from hf_attn.checkpoints.save_load import Checkpoint
from hf_attn.checkpoints.validate import CODE
from hf_attn.generation.generate import most_tokens
from hf_attn.hub.verify_worker import ask_stranger, measure_answers
from hf_attn.tasks.batch import SPECIAL_TOKENS

COMPARED = 4  # sources
MOST_TOKENS = 32  # that are written for each
TOLERANCE = 1e-4  # of a logit, relative to the largest: sums may come in another order


def compare_answers(checkpoint: Checkpoint, api: HfApi, repo_id: str, revision: str) -> tuple[str, ...]:
    """What the model in a repo answers otherwise than a checkpoint here; nothing where they agree.

    A fresh process pulls it into an empty cache. It loads by the code in the repo, as for everybody: what is
    pushed is the installed code. Where a checkpoint brings none, it loads by the installed one.

    Args:
        checkpoint: the one that was pushed.
        api: where to, and with which token.
        repo_id: what to pull.
        revision: the commit.
    """
    family = FAMILIES[checkpoint.model.config.model_type]
    sources = choose_sources(checkpoint)
    longest = max(len(source) for source in sources)
    length = max(1, min(MOST_TOKENS, most_tokens(checkpoint.model, longest) - 1))
    question = {
        "repo_id": repo_id,
        "revision": revision,
        "token": api.token,
        "auto_class": family.auto_head if isinstance(checkpoint.model, family.head) else "AutoModel",
        "trusts": any((checkpoint.path / name).exists() for name in CODE),
        "sources": sources,
        "most_tokens": length,
    }
    here = measure_answers(checkpoint.model, sources, length)
    try:
        there = ask_stranger(question, api.endpoint)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return (f"it could not be pulled back: {error}".replace(str(api.token), "hf_…"),)
    return find_differences(here, there)


def find_differences(here: list[dict], there: list[dict]) -> tuple[str, ...]:
    """A sentence for each source that two models answer otherwise, as `measure_answers` gave the answers."""
    found = []
    for number, (own, other) in enumerate(zip(here, there, strict=True), start=1):
        ours, theirs = torch.tensor(own["scores"]), torch.tensor(other["scores"])
        if own["ids"] != other["ids"]:
            found.append(f"source {number}: there it writes {other['ids']}, here {own['ids']}")
        elif ours.shape != theirs.shape:
            found.append(f"source {number}: the scores have another shape")
        else:
            apart = (theirs - ours).abs().nan_to_num().max().item()
            is_nan = not torch.equal(ours.isnan(), theirs.isnan())
            if is_nan or apart > TOLERANCE * max(1.0, ours.abs().nan_to_num().max().item()):
                found.append(f"source {number}: the scores are up to {apart:.1e} apart")
    return tuple(found)


def choose_sources(checkpoint: Checkpoint) -> list[list[int]]:
    """Ids of a few held-out sources, or random ones where the task or its data are not here."""
    model, task = checkpoint.model, checkpoint.task
    try:
        batch = None if task is None else task.held_out(COMPARED)
    except (ValueError, ImportError, OSError):  # its data are elsewhere
        batch = None
    if batch is None:
        drawn = torch.Generator().manual_seed(0)
        size = (COMPARED, 3)
        return torch.randint(len(SPECIAL_TOKENS), model.config.vocab_size, size, generator=drawn).tolist()
    if batch.attention_mask is None:
        return batch.input_ids.tolist()
    rows = zip(batch.input_ids, batch.attention_mask.bool(), strict=True)
    return [row[mask].tolist() for row, mask in rows]
