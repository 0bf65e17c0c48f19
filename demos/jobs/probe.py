"""What a run is watched by: one example whose attention is drawn, and a few that it answers."""

from dataclasses import dataclass

import torch

from hf_attn.analysis.ablation import Trial
from hf_attn.analysis.head_roles import build_attention_mask
from hf_attn.architectures.families import is_recurrent
from hf_attn.evaluation.metrics import find_right, predict
from hf_attn.generation.generate import generate_answer
from hf_attn.interpret.attention_maps import attention_maps
from hf_attn.interpret.interventions import intervening
from hf_attn.tasks import Batch, Task
from hf_attn.tasks.base import CLASSES, TEXT
from hf_attn.tasks.batch import IGNORED, PAD
from hf_attn.training.loop import VALIDATION_SAMPLE

from ..ui.boards import wrong_symbols
from ..ui.formatting import label_tokens, shorten

EXAMPLES_SHOWN = 6
PROBE_TOKENS = 24  # of a passage or of a text with a class: more labels would not be read
LONGEST_TEXT, LONGEST_SOURCE = 80, 160  # characters of an example with a class, and of another
LONGEST_OWN = 48  # tokens of an example that the visitor wrote
LARGEST_MAPS = 12_000  # weights of all layers in one frame: some hundred frames are kept and sent
SAMPLE_TOKENS = 80  # of what a language model writes
SAMPLE_SEEDS = (0, 1, 2)
MAPS = {
    "cross": "Cross-attention",
    "alignment": "Alignment",
    "decoder": "Decoder self-attention",
    "encoder": "Self-attention",
}


@dataclass(frozen=True)
class Examples:
    """Validation examples that are answered while a run goes on."""

    batch: Batch  # of them
    sources: list[str]  # as a person writes them
    answers: list[str]  # the right ones, by the data

    def __len__(self) -> int:
        return len(self.sources)


@dataclass(frozen=True)
class Probe:
    """The example whose attention is drawn."""

    batch: Batch  # it alone, without padding
    source: str  # as a person writes it
    answer: str  # what is to be written


def choose_examples(task: Task) -> tuple[Examples, Probe]:
    """Validation examples like the worked one: six to answer, and the probe; running text has no answers."""
    batch = task.validation(VALIDATION_SAMPLE)
    if task.kind == TEXT:
        return Examples(batch[:0], [], []), Probe(take_row(batch, 0, PROBE_TOKENS), "", "")
    sources = [task.read_source(row) for row in batch.input_ids.tolist()]
    worked = task.worked_example.source
    wanted = len(task.source_tokens(worked))
    answered = 1 + len(task.split_target(task.worked_example.target))
    if task.kind == CLASSES:
        wanted, answered = min(wanted, PROBE_TOKENS), 1

    def unlike(place: int) -> tuple[int, int]:
        ids = batch.input_ids[place]
        ids = ids[ids != PAD].tolist()
        repeated = len(ids) - len(set(ids))  # which of two equal symbols is read cannot be seen in an answer
        answer = batch.labels[place].numel() - int((batch.labels[place] == IGNORED).sum())
        shorter = max(0, wanted - len(ids)) + max(0, answered - answer)
        return abs(len(ids) - wanted) + shorter + 2 * repeated, abs(len(sources[place]) - len(worked))

    places = sorted(range(len(sources)), key=unlike)
    labels = batch.labels.view(len(batch), -1).tolist()
    shown = sorted(places[:EXAMPLES_SHOWN])
    answers = [task.decode(labels[place]) for place in shown]
    examples = Examples(batch[shown], [sources[place] for place in shown], answers)
    best = shown.index(places[0])
    return examples, Probe(take_row(batch, places[0]), examples.sources[best], answers[best])


def take_row(batch: Batch, place: int, most: int | None = None) -> Batch:
    """One example without padding, with at most so many tokens of its target."""
    ids, labels = batch.input_ids[place], batch.labels[place]
    labels = labels[labels != IGNORED][:most].unsqueeze(0) if labels.dim() else labels.unsqueeze(0)
    return Batch(ids[ids != PAD].unsqueeze(0), labels)


def read_own_probe(task: Task, text: str) -> Probe | None:
    """The visitor's own example to watch, None for none; ValueError where the task cannot use it."""
    text = text.strip()
    if not text:
        return None
    ids = task.encode(text)
    if len(ids) > LONGEST_OWN:
        raise ValueError(
            f"This example has {len(ids)} tokens; up to {LONGEST_OWN} can be watched: shorten it."
        )
    if task.kind == CLASSES:  # only what is read is drawn
        return Probe(Batch(torch.tensor([ids]), torch.zeros(1, dtype=torch.long)), text, "")
    if task.kind == TEXT:  # behind the start, all of it is to be written
        return Probe(Batch(torch.tensor([ids[:1]]), torch.tensor([ids[1:]])), text, "")
    if (answer := task.answer(text)) is None:
        known = task.worked_example.source
        raise ValueError(
            f"The data have no answer to this example, so it cannot be watched; {known!r} works."
        )
    return Probe(task.batch_of([text], [answer]), text, answer)


def read_map(model, task: Task, probe: Probe) -> tuple[torch.Tensor | None, dict]:
    """(maps [layers, heads, rows, columns] in which the probe's answer reads its source, labels and titles).

    The maps are those of the last layers, all of them unless that were too large; None without attention.
    """
    maps = attention_maps(model, probe.batch)
    answering = maps.relabel(lambda ids: label_tokens([task.tokens[index] for index in ids])).answering
    if answering is None:
        return None, {"heads": 0, "layers": [], "rows": [], "cols": [], "kind": ""}
    rows, columns = list(answering.rows), list(answering.columns)
    kind = "alignment" if is_recurrent(model.config) else answering.kind
    allowed = build_attention_mask(answering.kind, len(rows), len(columns))
    is_text = task.kind == TEXT  # all of it stands behind the start
    source, answer = (
        ("", task.decode(probe.batch.labels[0].tolist())) if is_text else (probe.source, probe.answer)
    )
    known = task.alignment(source, answer) if answer else None
    layers = len(answering.weights)
    shown = min(layers, max(1, LARGEST_MAPS // answering.weights[0].numel()))
    return answering.weights[-shown:], {
        "heads": answering.weights.shape[1],
        "layers": list(range(layers - shown + 1, layers + 1)),
        "rows": rows,
        "cols": columns,
        "truth": answering.align(known),
        "allowed": allowed.tolist() if answering.kind == "decoder" else None,
        "kind": answering.kind,
        "map": MAPS[kind],
        "layer": "last layer" if layers > 1 else "",
    }


def answer_examples(model, task: Task, examples: Examples) -> list[dict]:
    """A model's answers to the shown examples, judged by the task or by the data.

    Only wrong answers are generated token by token, up to twice the length of the right ones.
    """
    batch = examples.batch
    longest = int((batch.labels.view(len(examples), -1) != IGNORED).sum(1).max())
    most = min(2 * longest, task.max_target_tokens)
    if task.kind == CLASSES:
        answered = predict(model, task, batch)
    else:
        known = batch.labels.masked_fill(batch.labels == IGNORED, PAD)
        answered = torch.nn.functional.pad(known, (0, most - known.shape[1]), value=PAD)
        wrong = ~find_right(model, task, batch.to(next(model.parameters()).device)).cpu()
        if wrong.any():
            answered[wrong] = predict(model, task, batch[wrong], most=most)
    rows = zip(examples.sources, examples.answers, answered.tolist(), strict=True)
    return [read_answer(task, *row) for row in rows]


def answer_without(model, task: Task, examples: Examples, trial: Trial) -> list[dict] | None:
    """A changed model's answers to validation examples that it gets wrong; to the shown ones where none.

    Of running text there are no answers to compare.
    """
    if task.kind == TEXT:
        return None
    with intervening(model, trial.interventions):
        batch = task.validation(VALIDATION_SAMPLE)
        is_right = find_right(model, task, batch.to(next(model.parameters()).device)).cpu()
        wrong = (~is_right).nonzero().flatten().tolist()
        lengths = (batch.input_ids != PAD).sum(1).tolist()
        wrong = sorted(wrong, key=lengths.__getitem__)[:EXAMPLES_SHOWN]  # short ones are seen whole
        if wrong:
            chosen = batch[wrong]
            sources = [task.read_source(row) for row in chosen.input_ids.tolist()]
            answers = [task.decode(row) for row in chosen.labels.view(len(chosen), -1).tolist()]
            examples = Examples(chosen, sources, answers)
        return answer_examples(model, task, examples)


def read_answer(task: Task, source: str, answer: str, ids: list[int]) -> dict:
    """One answer as the board takes it: its symbols, which may be wrong one by one, or a class."""
    prediction = task.decode(ids)
    verdict = task.verify(source, prediction, answer)
    judged = {"right": verdict.correct, "answer": answer, "symbols": len(verdict.expected)}
    if task.kind == CLASSES:
        return {"source": shorten(source, LONGEST_TEXT), "label": prediction, **judged}
    written = label_tokens(task.decode_symbols(ids))
    most = len(verdict.expected) + 1  # one that does not end would push everything else away
    return {
        "source": shorten(source, LONGEST_SOURCE),
        "written": [*written[:most], *[f"+{len(written) - most}"] * (len(written) > most)],
        "wrong": wrong_symbols(written, verdict)[:most],
        **judged,
    }


def write_samples(model, task: Task, probe: Probe) -> list[dict]:
    """Texts that a language model writes from nothing: greedy, and nucleus samples with several seeds."""
    start = probe.batch.input_ids.to(next(model.parameters()).device)
    most = min(SAMPLE_TOKENS, task.max_target_tokens)
    generations = {"greedy": generate_answer(model, start, max_new_tokens=most)}
    for seed in SAMPLE_SEEDS:
        drawn = generate_answer(model, start, "nucleus", top_p=0.9, seed=seed, max_new_tokens=most)
        generations[f"nucleus 0.9, seed {seed}"] = drawn
    return [
        {"source": name, "text": task.decode(generation.ids), "right": None}
        for name, generation in generations.items()
    ]
