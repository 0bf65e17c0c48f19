"""The bundled checkpoint that adds, and a head of it without which a sum comes out wrong."""

import torch

from demos.session.catalog import load_once
from demos.tabs.explore.ablation_panel import AblationQuestion
from hf_attn.analysis.ablation import Change, list_trials, measure_changes
from hf_attn.checkpoints.save_load import BUNDLED

SUM = "153+391"


def load_addition():
    return load_once(str(BUNDLED / "attn-addition"))


def find_needed_head() -> tuple[AblationQuestion, Change]:
    """Return a head of cross-attention that the sum needs, as the page asks for it, and what goes with it."""
    found = load_addition()
    trials = [
        trial
        for trial in list_trials(found.model)
        if trial.interventions[0].kind == "cross" and trial.interventions[0].head is not None
    ]
    changes = measure_changes(found.model, torch.tensor([found.task.encode(SUM)]), trials)
    change = next(change for change in changes if change.is_other_answer)
    (gone,) = change.trial.interventions
    return AblationQuestion("head", kind="cross", layer=gone.layer, head=gone.head), change


def symbols_of(ids) -> list[str]:
    tokens = load_addition().tokenizer.convert_ids_to_tokens(ids)
    return ["end" if token == "</s>" else token for token in tokens]
