"""Compare the answers of a pushed model with those of the local checkpoint."""

import subprocess

import torch
from huggingface_hub import HfApi

from hf_attn.architectures.families import FAMILIES
from hf_attn.checkpoints.save_load import Checkpoint
from hf_attn.checkpoints.validate import CODE
from hf_attn.generation.generate import most_tokens
from hf_attn.hub.verify_worker import answers_in_fresh_process, measure_answers
from hf_attn.tasks.batch import SPECIAL_TOKENS
from hf_attn.utils.atomic_write import scratch_directory

COMPARED = 4  # sources
MOST_TOKENS = 32  # generated for each
TOLERANCE = 1e-4  # of logits, relative to the largest: sums may be taken in another order


def compare_answers(checkpoint: Checkpoint, api: HfApi, repo_id: str, revision: str) -> tuple[str, ...]:
    """A sentence for each difference between the answers of a pushed model and of the local checkpoint.

    A fresh process pulls the model into an empty cache and loads it with the code in the repo, as anybody
    does; with the installed code, if the checkpoint has none. The Hub's token may read the repo.
    """
    family = FAMILIES[checkpoint.model.config.model_type]
    sources = choose_sources(checkpoint)
    longest = max(len(source) for source in sources)
    length = max(1, min(MOST_TOKENS, most_tokens(checkpoint.model, longest) - 1))
    request = {
        "repo_id": repo_id,
        "revision": revision,
        "token": api.token,
        "auto_class": family.auto_head if isinstance(checkpoint.model, family.head) else "AutoModel",
        "trusts": any((checkpoint.path / name).exists() for name in CODE),
        "sources": sources,
        "most_tokens": length,
    }
    local = measure_answers(checkpoint.model, sources, length)
    try:
        with scratch_directory() as empty:
            pulled = answers_in_fresh_process(request, api.endpoint, empty)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        return (f"it could not be pulled back: {error}".replace(str(api.token), "hf_…"),)
    return find_differences(local, pulled)


def find_differences(local: list[dict], pulled: list[dict]) -> tuple[str, ...]:
    """A sentence for each source that the local and the pulled model (`measure_answers`) answer otherwise."""
    differences = []
    for number, (answer, other) in enumerate(zip(local, pulled, strict=True), start=1):
        scores, others = torch.tensor(answer["scores"]), torch.tensor(other["scores"])
        if answer["ids"] != other["ids"]:
            differences.append(f"source {number}: there it writes {other['ids']}, here {answer['ids']}")
        elif scores.shape != others.shape:
            differences.append(f"source {number}: the scores have another shape")
        elif not torch.allclose(
            others, scores, rtol=0, atol=TOLERANCE * max(1.0, _largest(scores)), equal_nan=True
        ):
            differences.append(f"source {number}: the scores are up to {_largest(others - scores):.1e} apart")
    return tuple(differences)


def _largest(values: torch.Tensor) -> float:
    return values.abs().nan_to_num().max().item()


def choose_sources(checkpoint: Checkpoint) -> list[list[int]]:
    """Choose a few held-out sources, or random ones where the task or its data are missing: their ids."""
    model, task = checkpoint.model, checkpoint.task
    try:
        batch = None if task is None else task.held_out(COMPARED)
    except (ValueError, OSError):  # its data are missing
        batch = None
    if batch is None:
        generator = torch.Generator().manual_seed(0)
        size = (COMPARED, 3)
        return torch.randint(len(SPECIAL_TOKENS), model.config.vocab_size, size, generator=generator).tolist()
    if batch.attention_mask is None:
        return batch.input_ids.tolist()
    rows = zip(batch.input_ids, batch.attention_mask.bool(), strict=True)
    return [row[mask].tolist() for row, mask in rows]
