"""Commands that look at a checkpoint: measure it, let it write, draw what it reads."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hf_attn.commands.console import (
    SEED,
    AsJson,
    Folder,
    open_checkpoint,
    print_json,
    print_table,
    wrong_use,
)

if TYPE_CHECKING:
    from hf_attn.evaluation import Score

TaskName = Annotated[
    str | None,
    typer.Option(help="Another task of the same vocabulary, or its file; the model's own without."),
]


def evaluate_checkpoint(
    checkpoint: Folder,
    task: TaskName = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Options of the task to change.")
    ] = None,
    split: Annotated[Literal["held-out", "validation"], typer.Option(help="Which examples.")] = "held-out",
    by: Annotated[
        str | None, typer.Option(help="Also tell sizes apart: length, digits, depth, words or tokens.")
    ] = None,
    examples: Annotated[int, typer.Option(min=1, help="How many, where there are so many.")] = 1000,
    as_json: AsJson = False,
) -> None:
    """Measure a checkpoint on examples that training never saw, writing freely."""
    from hf_attn.cards import NUMBERS
    from hf_attn.evaluation import evaluate
    from hf_attn.settings import merge_settings, name_task

    with wrong_use():
        loaded = open_checkpoint(checkpoint)
        chosen = loaded.task_named(task and name_task(task), **merge_settings(settings or ()))
        if by is not None and by != chosen.size_name:
            raise ValueError(f"--by {by}: examples of {chosen.name} are told apart by {chosen.size_name}.")
        chosen.held_out(1)  # data that are not here are refused
    evaluation = evaluate(loaded.model, chosen, split, examples)
    overall, sizes = evaluation.overall, evaluation.by_size if by else {}
    if as_json:
        found = {str(size): _score_row(score) for size, score in sizes.items()}
        more = {f"by_{by}": found} if by else {}
        print_json(
            "result", checkpoint=str(checkpoint), task=chosen.name, split=split, **_score_row(overall), **more
        )
        return
    scores = {"all": overall, **{f"{by} {size}": score for size, score in sizes.items()}}
    rows = [
        (
            name,
            score.examples,
            f"{score.exact_match:.2%}",
            f"{score.interval.low:.2%} – {score.interval.high:.2%}",
            *(f"{v:.3f}" if name in NUMBERS else f"{v:.2%}" for name, v in score.measures.items()),
        )
        for name, score in scores.items()
    ]
    measures = [name.replace("_", " ") for name in overall.measures]
    title = f"{checkpoint}: {chosen.name}, {split}"
    print_table("examples", "n", "exact match", "95 % interval", *measures, rows=rows, title=title)


def generate(
    checkpoint: Folder,
    texts: Annotated[list[str], typer.Argument(metavar="TEXT…", help="Sources, as the task writes them.")],
    task: TaskName = None,
    strategy: Annotated[Literal["greedy", "beam", "top-k", "nucleus"], typer.Option()] = "greedy",
    num_beams: Annotated[int, typer.Option(min=1, max=100, help="Of beam search.")] = 4,
    temperature: Annotated[float, typer.Option(min=0, help="Of top-k and nucleus.")] = 1.0,
    seed: Annotated[int, SEED] = 0,
    as_json: AsJson = False,
) -> None:
    """Let a checkpoint write, and judge what it wrote."""
    import torch

    from hf_attn.decoding import check_settings, write
    from hf_attn.settings import name_task

    with wrong_use():
        loaded = open_checkpoint(checkpoint)
        learned = loaded.task_named(task and name_task(task))
        sources = [learned.encode(text) for text in texts]
        check_settings(strategy, num_beams, temperature, 5, 0.9)
        if strategy != "greedy" and not loaded.model.can_generate():
            raise ValueError(f"--strategy {strategy}: a classifier names its likeliest class; leave it out.")
    rows = []
    for text, source in zip(texts, sources, strict=True):
        written = write(
            loaded.model,
            torch.tensor([source]),
            strategy,
            num_beams=num_beams,
            temperature=temperature,
            seed=seed,
            max_new_tokens=learned.max_target_tokens,
        )
        prediction = learned.decode(written.ids)
        names_class = not loaded.model.can_generate()
        tokens = [prediction] if names_class else learned.decode_symbols(written.ids)
        correct = learned.verify(text, prediction).correct
        judged = {True: "right", False: "wrong", None: ""}[correct]
        if as_json:
            figures = {"correct": correct, "tokens": tokens, "score": written.score}
            print_json("generation", source=text, prediction=prediction, **figures)
        rows.append((text, prediction, judged, f"{written.score:.3f}"))
    if not as_json:
        print_table("source", "prediction", "", "log p", rows=rows)


def attention(
    checkpoint: Folder,
    text: Annotated[str, typer.Argument(metavar="TEXT", help="A source, as the task writes it.")],
    layer: Annotated[int, typer.Option(min=0, help="Which layer; 0 is the first.")],
    head: Annotated[int, typer.Option(min=0, help="Which head; 0 is the first.")],
    output: Annotated[Path, typer.Option(help="map.png, .svg, .html, .npz (every layer and head) or .csv")],
    kind: Annotated[
        Literal["encoder", "decoder", "cross"] | None,
        typer.Option(help="Which attention; that in which the answer reads the source without."),
    ] = None,
    task: TaskName = None,
) -> None:
    """Draw who reads whom while a checkpoint writes its answer to TEXT."""
    import torch

    from hf_attn.figures import check_suffix, choose_head, draw_map, save_maps
    from hf_attn.inspection import attention_maps
    from hf_attn.settings import name_task

    with wrong_use():
        check_suffix(output)
        if not output.parent.is_dir():
            raise ValueError(f"--output {output}: there is no folder {output.parent}.")
        loaded = open_checkpoint(checkpoint)
        learned = loaded.task_named(task and name_task(task))
        source = torch.tensor([learned.encode(text)])
        maps = attention_maps(loaded.model, source, tokenizer=loaded.tokenizer)
        answering = maps.answering
        if answering is None:
            raise ValueError(f"{checkpoint} has no attention to draw: it reads step by step.")
        shown: str = kind or answering.kind
        weights, query_tokens, key_tokens = choose_head(maps, shown, layer, head)
    if output.suffix == ".npz":
        save_maps(maps, output)
    else:
        alignment = None
        if shown == "cross":
            alignment = answering.align(learned.alignment(text, learned.decode(maps.target_ids)))
        title = f"{checkpoint.resolve().name}: {shown} attention, layer {layer}, head {head}"
        draw_map(weights, query_tokens, key_tokens, output, alignment=alignment, title=title)
    print(f"Saved {output}.")


def _score_row(score: "Score") -> dict:
    return {
        "examples": score.examples,
        "held_out_exact_match": score.exact_match,
        "interval": [score.interval.low, score.interval.high],
        **score.measures,
    }
