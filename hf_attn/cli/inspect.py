"""Commands that look at a checkpoint: measure it, let it write, draw what it reads."""

import io
import itertools
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hf_attn.cli.output import (
    THREADS,
    AsJson,
    AttentionFile,
    Folder,
    TaskSettings,
    check_data,
    interval_title,
    open_checkpoint,
    open_with_attention,
    print_json,
    print_table,
    score_cells,
    score_row,
    working,
    wrong_use,
)
from hf_attn.generation.strategies import (
    STRATEGIES,
    Parameter,
    complete_settings,
    list_parameters,
    name_users,
)
from hf_attn.utils.signatures import name_keywords
from hf_attn.utils.text import quote

if TYPE_CHECKING:
    from hf_attn.checkpoints.save_load import Checkpoint
    from hf_attn.generation.beam_search import Answer
    from hf_attn.tasks import Task
    from hf_attn.viz.attention_view import AttentionView

    StrategyName = str
else:
    StrategyName = Literal[tuple(STRATEGIES)]

STRATEGY_HELP = "; ".join(f"{name}: {row.title}, {row.sentence}" for name, row in STRATEGIES.items())
LARGEST_IMAGE = 50 * 2**20  # bytes of a file
TaskName = Annotated[
    str | None,
    typer.Option(help="Another task with the same vocabulary, or its file (default: the model's)."),
]


def evaluate_checkpoint(
    checkpoint: Folder,
    task: TaskName = None,
    settings: TaskSettings = None,
    attention: AttentionFile = None,
    split: Annotated[
        Literal["held-out", "validation"], typer.Option(help="Split to measure on.")
    ] = "held-out",
    by: Annotated[
        str | None,
        typer.Option(
            help="Also report by size: length, digits, depth, words, tokens, letters, pairs, open brackets, "
            "wraps or kind, whichever the task has."
        ),
    ] = None,
    examples: Annotated[int, typer.Option(min=1, help="Number of examples, at most.")] = 1000,
    threads: Annotated[int, THREADS] = 1,
    as_json: AsJson = False,
) -> None:
    """Measure a checkpoint on held-out examples."""
    import torch

    from hf_attn.evaluation.metrics import evaluate
    from hf_attn.tasks.base import check_count
    from hf_attn.utils.markdown import in_words, write_measure

    torch.set_num_threads(threads)
    with wrong_use():
        check_count(examples, "--examples")
        loaded, chosen = open_checkpoint(checkpoint, task, settings, attention)
        if by is not None and by != chosen.size_name:
            raise ValueError(f"--by {by}: examples of {chosen.name} are told apart by {chosen.size_name}.")
        check_data(loaded, chosen)
    with working(f"Measuring up to {examples:,} {split} examples …"):
        evaluation = evaluate(loaded.model, chosen, split, examples)
    overall, sizes = evaluation.overall, evaluation.by_size if by else {}
    if as_json:
        found = {str(size): {**score_row(score, split), **score.measures} for size, score in sizes.items()}
        more = {f"by_{by}": found} if by else {}
        measured = {**score_row(overall, split), **overall.measures, **more}
        print_json("result", checkpoint=str(checkpoint), task=chosen.name, split=split, **measured)
        return
    scores = {"all": overall, **{f"{by} {size}": score for size, score in sizes.items()}}
    rows = [
        (name, score.examples, *score_cells(score), *itertools.starmap(write_measure, score.measures.items()))
        for name, score in scores.items()
    ]
    measures = map(in_words, overall.measures)
    title = f"{checkpoint}: {chosen.name}, {split}"
    print_table("examples", "n", "exact match", interval_title(overall), *measures, rows=rows, title=title)


def generate(
    checkpoint: Folder,
    texts: Annotated[
        list[str], typer.Argument(metavar="TEXT…", help="Source texts, as the task writes them.")
    ],
    task: TaskName = None,
    attention: AttentionFile = None,
    strategy: Annotated[
        StrategyName, typer.Option(help=f"How tokens are chosen: {STRATEGY_HELP}.")
    ] = "greedy",
    threads: Annotated[int, THREADS] = 1,
    as_json: AsJson = False,
    **settings: float | None,
) -> None:
    """Generate answers with a checkpoint and check them."""
    import torch

    from hf_attn.evaluation.reach import widen_task
    from hf_attn.generation.generate import generate_answer

    torch.set_num_threads(threads)
    with wrong_use():
        loaded, learned = open_checkpoint(checkpoint, task, attention=attention)
        reader = widen_task(learned, loaded.model.config)
        sources = [reader.encode(text) for text in texts]
        complete_settings(strategy, settings)
        if strategy != "greedy" and not loaded.model.can_generate():
            raise ValueError(f"--strategy {strategy}: a classifier names its likeliest class; leave it out.")
    rows = []
    for text, source in zip(texts, sources, strict=True):
        written = generate_answer(
            loaded.model,
            torch.tensor([source]),
            strategy,
            max_new_tokens=max(learned.max_target_tokens, len(source) if learned.longest_size else 0),
            **settings,
        )
        prediction, words = learned.decode(written.ids), learned.stand_ins(text)
        correct = reader.verify(text, prediction).correct
        prediction = learned.name_words(prediction, words)
        names_class = not loaded.model.can_generate()
        symbols = [prediction] if names_class else learned.decode_symbols(written.ids)
        tokens = [words.get(symbol, symbol) for symbol in symbols]
        judged = {True: "right", False: "wrong", None: ""}[correct]
        if as_json:
            figures: dict = {"correct": correct, "tokens": tokens, "score": written.score}
            if written.beams is not None:
                figures["beams"] = [_beam_row(reader, text, answer) for answer in written.beams.answers]
            print_json("generation", source=text, prediction=prediction, **figures)
        rows.append((text, prediction, judged, f"{round(written.score, 3) + 0:.3f}"))
    if not as_json:
        print_table("source", "prediction", "", "log p", rows=rows)


def _option_of(row: Parameter) -> object:
    used = ", ".join(name_users(row.name))
    told = f"{row.help}; for {used} (default: {row.default})."
    return Annotated[row.kind | None, typer.Option(min=row.low, max=row.high, help=told)]


name_keywords(generate, {name: _option_of(row) for name, row in list_parameters().items()})


def _beam_row(task: "Task", text: str, answer: "Answer") -> dict:
    """One of a beam search's answers, judged; `score` divides by the length, `log_probability` does not."""
    prediction, words = task.decode(answer.ids), task.stand_ins(text)
    return {
        "prediction": task.name_words(prediction, words),
        "tokens": [words.get(symbol, symbol) for symbol in task.decode_symbols(answer.ids)],
        "log_probability": answer.log_probability,
        "score": answer.score,
        "correct": task.verify(text, prediction).correct,
    }


def attention(
    checkpoint: Annotated[str, typer.Argument(metavar="CHECKPOINT", help="Model folder, or Hub id.")],
    text: Annotated[
        str,
        typer.Argument(
            metavar="TEXT",
            help="Source text, as the task writes it; path of an image; ids for a model without tokenizer.",
        ),
    ],
    output: Annotated[
        Path,
        typer.Option(help="maps.html (the whole lens), .npz (every weight), or one head: .png, .svg, .csv"),
    ],
    layer: Annotated[int | None, typer.Option(min=0, help="Layer index, from 0 (default: the last).")] = None,
    head: Annotated[int | None, typer.Option(min=0, help="Head index, from 0 (default: 0).")] = None,
    kind: Annotated[
        Literal["encoder", "decoder", "cross"] | None,
        typer.Option(help="Kind of attention (default: the one in which the answer reads the source)."),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="Target text (default: what the model generates; nothing for a language model, whose text "
            "is read alone)."
        ),
    ] = None,
    threads: Annotated[int, THREADS] = 1,
    task: TaskName = None,
    attention: AttentionFile = None,
) -> None:
    """Save the attention maps of a model for a text.

    The model is a checkpoint of ours, or any of transformers.
    """
    import torch

    from hf_attn.architectures.settings import name_task
    from hf_attn.hub.external_models import open_model
    from hf_attn.interpret.model_inputs import read_ids
    from hf_attn.viz.attention_view import show_attention
    from hf_attn.viz.draw_map import check_suffix

    torch.set_num_threads(threads)
    with wrong_use():
        check_suffix(output)
        if not output.parent.is_dir():
            raise ValueError(f"--output {output}: there is no folder {output.parent}.")
        loaded = open_with_attention(open_model, checkpoint, attention)
        if loaded.task is not None or task is not None:
            view = _view_of_task(loaded, loaded.task_named(task and name_task(task)), text, target)
        elif loaded.model.main_input_name == "pixel_values":
            view = show_attention(loaded.model, loaded.tokenizer, _open_image(text), target)
        elif loaded.tokenizer is None:
            size = loaded.model.get_input_embeddings().num_embeddings
            written = target and read_ids(target, size)
            view = show_attention(loaded.model, None, read_ids(text, size), written)
        else:
            view = show_attention(loaded.model, loaded.tokenizer, text, target)
        name = loaded.path.resolve().name if loaded.path.is_dir() else checkpoint
        view = replace(view, title=f"{name}: {view.title}")
        view.save(output, layer=layer, head=head, kind=kind)
    print(f"Saved {output}.")


def _view_of_task(loaded: "Checkpoint", task: "Task", text: str, target: str | None) -> "AttentionView":
    """A view of a model that learned a task here, with the known answer where there is one."""
    from hf_attn.evaluation.reach import widen_task
    from hf_attn.interpret.attention_maps import attention_maps
    from hf_attn.interpret.model_inputs import refuse_target
    from hf_attn.tasks.base import TEXT
    from hf_attn.viz.attention_view import AttentionView

    task = widen_task(task, loaded.model.config)
    if task.kind == TEXT and target is None:  # each row is of a token itself
        maps = attention_maps(loaded.model, task.encode(text), "", tokenizer=loaded.tokenizer)
        return AttentionView(maps, text, truth=task.alignment("", task.join_target(task.split_source(text))))
    if not (writes := loaded.model.can_generate()):
        refuse_target(loaded.model, target)
    written = None if target is None else _read_target(task, target)
    maps = attention_maps(loaded.model, task.encode(text), written, tokenizer=loaded.tokenizer)
    answer = task.decode(maps.answer_ids) if writes else ""
    title = f"{text} → {answer}" if writes else text
    return AttentionView(maps, title, truth=task.alignment(text, answer) if writes else None)


def _read_target(task: "Task", target: str) -> list[int]:
    from hf_attn.tasks.base import TEXT
    from hf_attn.tasks.batch import END

    symbols = task.split_target(target)
    if unknown := [symbol for symbol in symbols if symbol not in task.vocabulary]:
        example = task.worked_example.target
        raise ValueError(
            f"--target: {quote(unknown[0])} is no symbol of {task.name}; write for example {example!r}."
        )
    end = [] if task.kind == TEXT else [END]
    return [*task.ids(*symbols), *end]


def _open_image(path: str):
    from PIL import Image

    from hf_attn.utils.folder_files import read_bounded

    try:
        content = read_bounded(path, LARGEST_IMAGE)
    except OSError as error:
        raise FileNotFoundError(
            f"TEXT {quote(path)}: this model reads images, and there is no such file."
        ) from error
    return Image.open(io.BytesIO(content)).convert("RGB")
