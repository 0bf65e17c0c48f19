"""Document `chapter-8`: attention's views, measured on the maps of the trained models in `model_cards/`.

Maps of 20 tokens and more, so that a tenth of them is two at least: the copier's cross maps, the parser's
encoder, and the alignment of Bahdanau's reverser, each of the last layer.
"""

from collections.abc import Iterator
from functools import cache

import torch

from hf_attn.analysis.head_metrics import measure_theory
from hf_attn.analysis.head_roles import build_untrained
from hf_attn.analysis.hopfield import hopfield_descent
from hf_attn.checkpoints.save_load import BUNDLED, Checkpoint, load_checkpoint
from hf_attn.interpret.attention_maps import AttentionMaps, attention_maps
from hf_attn.tasks.batch import IGNORED
from hf_attn.textbooks.claims import OURS, STATED, Claim, Measured

VIEWED = {"attn-copy": "cross", "attn-parser": "encoder", "bahdanau-reverse": "cross"}
LONG, EXAMPLES, DRAWN = 20, 20, 400  # tokens of a source, examples, and held-out ones they are looked for in
STEPS = 200  # of Hopfield updates, after which a state no longer moves


@cache
def open_bundled(name: str) -> Checkpoint:
    """A bundled checkpoint; FileNotFoundError without it, as in a package without the app."""
    if not (BUNDLED / name).is_dir():
        raise FileNotFoundError(
            f"{BUNDLED / name} is not there, and these claims are measured on it: run them in the "
            "repository, or make it with `make checkpoints`."
        )
    return load_checkpoint(BUNDLED / name)


def long_examples(name: str) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
    """(source, target) ids of held-out examples whose sources are long."""
    checkpoint = open_bundled(name)
    batch = checkpoint.task_named().held_out(DRAWN)
    lengths = (batch.input_ids != checkpoint.model.config.pad_token_id).sum(dim=1)
    for row in (lengths >= LONG).nonzero().flatten()[:EXAMPLES].tolist():
        labels = batch.labels[row]
        yield batch.input_ids[row, : lengths[row]], labels[labels != IGNORED]


@cache
def maps_of(name: str, is_trained: bool = True) -> tuple[AttentionMaps, ...]:
    """Maps of a bundled model on long examples, with their right answers; or of the same model untrained."""
    model = open_bundled(name).model
    if not is_trained:
        model = build_untrained(model)
    return tuple(attention_maps(model, source, target) for source, target in long_examples(name))


def view(name: str, measure: str, layer: int = -1, is_trained: bool = True) -> float:
    """A measure of THEORY, the mean over the heads of a layer and over the examples."""
    figures = [
        measure_theory(getattr(maps, VIEWED[name])[layer : layer + 1 or None])[measure].mean()
        for maps in maps_of(name, is_trained)
    ]
    return float(torch.stack(figures).mean())


def deep(measure: str) -> Measured:
    """A measure of the last layers: copier, parser, reverser."""
    return tuple(view(name, measure) for name in VIEWED)


def learned(measure: str) -> Measured:
    """What training adds to a measure of the last layers: copier, parser, reverser."""
    return tuple(view(name, measure) - view(name, measure, is_trained=False) for name in VIEWED)


@cache
@torch.no_grad()
def queries_and_keys() -> tuple[tuple[torch.Tensor, torch.Tensor], ...]:
    """Queries and keys [H, S, Dh] of the last layer of the parser's encoder, on long examples.

    Their softmax is the map of that layer.
    """
    encoder = open_bundled("attn-parser").model.get_encoder()
    layer, found = encoder.layers[-1], []
    for source, _ in long_examples("attn-parser"):
        states = encoder(source.unsqueeze(0), output_hidden_states=True).hidden_states
        read = layer.self_attn_residual.before(states[len(encoder.layers) - 1])[0]  # [S, D]
        query, key = (
            project(read).unflatten(-1, (-1, layer.self_attn.head_dim)).transpose(0, 1)
            for project in (layer.self_attn.q_proj, layer.self_attn.k_proj)
        )
        found.append((query, key))
    return tuple(found)


def asymmetry() -> Measured:
    shares = []
    for query, key in queries_and_keys():
        scores = query @ key.transpose(1, 2)
        turned = scores.transpose(1, 2)
        shares.append(((scores - turned).norm(dim=(1, 2)) / (scores + turned).norm(dim=(1, 2))).mean())
    return (float(torch.stack(shares).mean()),)


def energy() -> Measured:
    """Of the Hopfield energy of trained queries among trained keys: how many states' rises in an update.

    And what is left, after the one update that attention makes, of the whole way down to where it settles.
    """
    rising, left = 0, []
    for query, key in queries_and_keys():
        energies = hopfield_descent(query, key, STEPS)
        rising += int((energies[1] > energies[0] + 1e-9).sum())
        left.append(((energies[1] - energies[-1]) / (energies[0] - energies[-1])).mean())
    return rising, float(torch.stack(left).mean())


CLAIMS = (
    Claim(
        "Deep layers' maps have a rank of at most .1 n: mean rank over n of the last layers of copier, "
        "parser and reverser.",
        "≤0.10 ≤0.10 ≤0.10",
        lambda: deep("rank_share"),
        "Trained to find one token among many, a map needs a direction a token; counted are singular "
        "values above 1 % of the largest.",
        where="views of attention",
    ),
    Claim(
        "At least .9 of a map's energy lies in its first singular values: the largest tenth, same maps.",
        "≥0.90 ≥0.90 ≥0.90",
        lambda: deep("first_tenth"),
        "That holds for uniform attention, whose rank is 1; the more a head distinguishes tokens, the less.",
        where="views of attention",
    ),
    Claim(
        "Low frequencies hold over 80 % of a map: those below half the highest, same maps.",
        ">0.80 >0.80 >0.80",
        lambda: deep("low_frequencies"),
        "A sharp map has steep edges; an exact diagonal has half its energy there.",
        where="views of attention",
    ),
    Claim(
        "What a map says is in its low frequencies: their share in these trained maps, less that in the "
        "untrained.",
        ">0.00 >0.00 >0.00",
        lambda: learned("low_frequencies"),
        "Untrained maps are nearly even, and evenness is the lowest frequency: learning moves away from it.",
        kind=OURS,
    ),
    Claim(
        "Deep layers compress: effective rank of the parser's last encoder layer over that of its first.",
        "<1.00",
        lambda: (view("attn-parser", "effective_rank") / view("attn-parser", "effective_rank", layer=0),),
        "The direction holds, the size does not: see the rank above.",
        where="views of attention",
        kind=STATED,
    ),
    Claim(
        "Softmax maximises the entropy: that of the trained heads as a share of the highest, same maps.",
        "1.00 1.00 1.00",
        lambda: deep("entropy"),
        "Trained heads choose, and a choice is what lowers entropy.",
        where="views of attention",
        kind=STATED,
    ),
    Claim(
        "Attention's kernel is asymmetric: ‖S − Sᵀ‖ / ‖S + Sᵀ‖ of the trained parser's scores S = Q Kᵀ.",
        ">0.10",
        asymmetry,
        "Queries and keys are two maps of the same states; 0 would be symmetric, 1 as far from it as can be.",
        where="views of attention",
        kind=STATED,
    ),
    Claim(
        "Attention minimises an energy: trained queries whose Hopfield energy rises in an update, and what "
        "is left of the way down.",
        "0 <0.01",
        energy,
        "With keys for values every update lowers it (Ramsauer et al. 2020), but one update is not the "
        "minimum.",
        where="views of attention",
        kind=STATED,
    ),
)
