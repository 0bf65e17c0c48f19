"""Every measured figure of README and docs, written from benchmarks/results/ (and cards): `make figures`.

A page names a block between `<!-- figures: NAME -->` and `<!-- end -->`; what stands there is made here.
"""

import json
import math
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from demos.core.limits import HOME, PUBLIC, UPLOADED
from hf_attn.checkpoints.model_card import find_largest, find_worst_pattern
from hf_attn.checkpoints.save_load import load_checkpoint
from hf_attn.experiments import EXPERIMENTS
from hf_attn.experiments.base import Row, over_seeds, settings_of
from hf_attn.experiments.reach import worst_of
from hf_attn.tasks.text.toy_english import FAMILIES
from hf_attn.utils.markdown import write_line, write_percent, write_rule

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
PAGES = (
    "README.md",
    "docs/results.md",
    "docs/experiments.md",
    "docs/reference.md",
    "docs/scaling.md",
    "docs/your_own_attention.md",
    "docs/reliability.md",
    "docs/visitors.md",
    "benchmarks/README.md",
)
BLOCK = re.compile(r"(<!-- figures: ([\w ]+) -->)\n(?:(?!<!-- figures:).)*?(<!-- end -->)", re.DOTALL)
FEWEST_SEEDS = 3
WIDTH = 118  # characters of a line of a page
TEXTS = ("topics", "phrases")
MODEL_NAMES = {
    "none": "LSTM without attention",
    "additive": "LSTM, additive attention (Bahdanau)",
    "general": "LSTM, general attention (Luong)",
    "transformer": "Transformer",
}

SCALED = {
    "hidden_size": "width",
    "num_hidden_layers": "layers",
    "length": "length",
    "batch_size": "batch",
    "vocab_size": "vocabulary",
}


def fill(page: str) -> str:
    """A page with each of its blocks made anew."""
    return BLOCK.sub(lambda found: f"{found[1]}\n{make_block(found[2])}\n{found[3]}", page)


def make_block(name: str) -> str:
    """What stands in a block: a table, a sentence, or an experiment's table and verdicts."""
    kind, _, rest = name.partition(" ")
    if kind == "experiment":
        return tabulate_experiment(rest)
    return BLOCKS[name]()


def read_lines(path: str) -> list[dict]:
    return [json.loads(line) for line in (RESULTS / path).read_text(encoding="utf-8").splitlines()]


def latest(path: str, **wanted) -> dict:
    """The newest line of a file with these values, not of a quick run."""
    lines = [line for line in read_lines(path) if wanted.items() <= line.items() and not line.get("quick")]
    if not lines:
        raise ValueError(f"{path} has no line with {wanted}: measure it.")
    return lines[-1]


def in_lines(text: str) -> str:
    """A paragraph in lines of WIDTH characters, a bullet's further ones indented; no link is cut."""
    lines = [""]
    for word in re.findall(r"\S*\[[^]]*\]\([^)]*\)\S*|\S+", " ".join(text.split())):
        if lines[-1] and len(lines[-1]) + 1 + len(word) > WIDTH:
            lines.append("  " + word if text.startswith("- ") else word)
        else:
            lines[-1] = f"{lines[-1]} {word}".strip() if len(lines) == 1 else f"{lines[-1]} {word}"
    return "\n".join(lines)


def write_table(header: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1) -> str:
    """A table whose first columns are words, the others figures."""
    return "\n".join(
        [write_line(*header), write_rule(words, len(header) - words), *(write_line(*r) for r in rows)]
    )


Pick = Callable[[Row], str]


def figure(name: str, write: str = "{:.3f}") -> Pick:
    """A measure's mean over seeds, its standard deviation behind it where seeds differ."""

    def pick(row: Row) -> str:
        value = row[name]
        if not isinstance(value, int | float):
            return "–" if value is None else str(value)
        spread = row.get(f"{name}_sd")
        return write.format(value) + (f" ± {write.format(spread)}" if spread is not None else "")

    return pick


def setting(name: str) -> Pick:
    return lambda row: f"{row[name]:,}" if isinstance(row[name], int) else str(row[name]).replace("_", " ")


POSITIONS: Mapping[str, Pick] = {
    "positions": setting("position_type"),
    "right inside": figure("inside"),
    "right beyond": figure("beyond"),
    "symbols beyond": figure("tokens_beyond"),
    "ms a step": figure("step_ms", "{:.1f}"),
    "MB": figure("step_mb", "{:.1f}"),
    "parameters": setting("parameters"),
}
# block → experiment and its columns
TABLES: Mapping[str, tuple[str, Mapping[str, Pick]]] = {
    "bottleneck": (
        "bottleneck",
        {
            "length": setting("length"),
            "hidden size": setting("hidden_size"),
            "attention": setting("model"),
            "tokens right": figure("token_accuracy"),
            "sequences right": figure("exact_match"),
        },
    ),
    "reversal": (
        "reversal",
        {
            "length": setting("length"),
            "model": setting("model"),
            "hidden size": setting("hidden_size"),
            "parameters": setting("parameters"),
            "tokens right": figure("token_accuracy"),
            "sequences right": figure("exact_match"),
        },
    ),
    "beams": (
        "beams",
        {
            "beams": setting("num_beams"),
            "tokens right": figure("token_accuracy"),
            "sequences right": figure("exact_match"),
            "mean log p found": figure("log_probability"),
            "of the right answer": figure("right_answer_log_probability"),
            "overlooked": figure("search_errors"),
        },
    ),
    "order": (
        "order",
        {"model": setting("model"), "parameters": setting("parameters"), "right": figure("exact_match")},
    ),
    "ngrams": (
        "ngrams",
        {
            "model": setting("model"),
            "tokens of context": setting("context"),
            "perplexity": figure("perplexity", "{:.2f}"),
            "bits a token": figure("bits_per_token", "{:.2f}"),
            "parameters, or cells of the full table": setting("parameters"),
            "cells the text fills": figure("met", "{:,}"),
            "discount": figure("discount", "{:g}"),
        },
    ),
    "words": (
        "words",
        {
            "model": setting("model"),
            "parameters": setting("parameters"),
            "steps": setting("steps"),
            "all": figure("exact_match"),
            **{kind: figure(kind) for kind in FAMILIES},
        },
    ),
    "dilution": (
        "dilution",
        {
            "training": setting("model"),
            "digits": setting("size"),
            "keys": setting("keys"),
            "attention on what is needed": figure("mass"),
            "of that at 10 digits": figure("kept"),
        },
    ),
    "copy": ("positions", POSITIONS),
    "reverse": ("positions", POSITIONS),
    "addition": ("positions", POSITIONS),
}
# block → experiment, the columns of its settings, the setting that is a column each, and what is shown
ACROSS: Mapping[str, tuple[str, Mapping[str, Pick], str, Pick]] = {
    "gradients": (
        "gradients",
        {"distance": setting("distance")},
        "model",
        lambda row: f"{row['gradient_norm']:.1e}",
    ),
    "timing forward": (
        "timing",
        {"size": setting("size"), "length": setting("length")},
        "model",
        figure("forward_ms", "{:.2f}"),
    ),
    "timing training": (
        "timing",
        {"size": setting("size"), "length": setting("length")},
        "model",
        figure("training_ms", "{:.2f}"),
    ),
    "reach": (
        "reach",
        {"task": setting("task"), "up to": setting("train"), "positions": setting("model")},
        "size",
        figure("exact_match"),
    ),
}


def read_experiment(name: str) -> list[Row]:
    """An experiment's rows, as `hf-attn experiment NAME --seeds 3 --output-dir` keeps them."""
    rows = read_lines(f"experiments/{name}.jsonl")
    if len(settings_of(rows, "seed")) < FEWEST_SEEDS:
        raise ValueError(f"{name} was measured on fewer than {FEWEST_SEEDS} seeds.")
    return rows


def tabulate_experiment(block: str) -> str:
    """A table of means and standard deviations over seeds, or the verdicts on an experiment's rows."""
    if block.startswith("verdicts "):
        return write_verdicts(block.removeprefix("verdicts "))
    if block in ACROSS:
        name, columns, across, pick = ACROSS[block]
        rows, settings = read_experiment(name), EXPERIMENTS[name].settings
        if name == "reach":  # of every training and size one line: the kind that is worst
            rows, settings = worst_of(rows), settings[:-1]
        rows = over_seeds(rows, settings)
        values = list(dict.fromkeys(row[across] for row in rows))
        values = sorted(values) if isinstance(values[0], int) else values
        lines: dict[tuple[str, ...], dict[object, str]] = {}
        for row in rows:
            lines.setdefault(tuple(column(row) for column in columns.values()), {})[row[across]] = pick(row)
        body = [(*line, *(cells.get(value, "–") for value in values)) for line, cells in lines.items()]
        unit = f"{across} " if isinstance(values[0], int) else ""
        return write_table([*columns, *(f"{unit}{value}" for value in values)], body, len(columns))
    name, columns = TABLES[block]
    rows = over_seeds(read_experiment(name), EXPERIMENTS[name].settings)
    if name == "positions":
        rows = [row for row in rows if row["task"] == block]
    body = [[pick(row) for pick in columns.values()] for row in rows]
    words = [place for place, cell in enumerate(body[0]) if cell[:1].isalpha()]
    return write_table(list(columns), body, 1 + max(words, default=0))


def write_verdicts(name: str) -> str:
    """What the rows say of the experiment's claims, a bullet each."""
    findings = EXPERIMENTS[name].judge(read_experiment(name))
    return "\n".join(
        in_lines(f"- **{'Yes' if finding.holds else 'No'}.** {finding.claim} ({finding.measured})")
        for finding in findings
    )


def spread(values: Sequence[float], write: str) -> str:
    """Median, smallest and largest of the seeds; ValueError where there are too few.

    >>> spread([3.0, 1.0, 2.0], "{:.1f}")
    '2.0 (1.0 to 3.0)'
    """
    if len(values) < FEWEST_SEEDS:
        raise ValueError(f"{len(values)} values are no median over {FEWEST_SEEDS} seeds.")
    low, high = write.format(min(values)), write.format(max(values))
    middle = write.format(statistics.median(values))
    return middle if low == high else f"{middle} ({low} to {high})"


def shares_right(task: str, setting: str = "") -> dict[str, list[float]]:
    """Model → percent of held-out examples that it got right with each seed, the newest of a seed."""
    newest: dict[str, dict[int, float]] = {}
    for line in accuracy_lines(task, setting):
        newest.setdefault(line["model"], {})[line["seed"]] = 100 * line["held_out_exact_match"]
    return {model: list(shares.values()) for model, shares in newest.items()}


def accuracy_lines(task: str, setting: str = "") -> list[dict]:
    lines = [line for line in read_lines("accuracy.jsonl") if not line["quick"]]
    return [line for line in lines if (line["task"], line["setting"]) == (task, setting)]


def tabulate_reversal() -> str:
    seconds: dict[str, dict[int, float]] = {}
    for line in accuracy_lines("reverse", "lengths 40"):
        seconds.setdefault(line["model"], {})[line["seed"]] = line["seconds"]
    rows = [
        (MODEL_NAMES[model], spread(list(seconds[model].values()), "{:.0f}"), spread(shares, "{:.1f}"))
        for model, shares in shares_right("reverse", "lengths 40").items()
    ]
    return write_table(["model", "seconds of one thread", "held-out sequences right as a whole, %"], rows)


def medians(task: str, setting: str = "") -> dict[str, str]:
    return {
        model: f"{statistics.median(shares):.1f} %" for model, shares in shares_right(task, setting).items()
    }


def describe_mixed_lengths() -> str:
    right = medians("reverse", "lengths 1 to 40")
    return in_lines(
        f"""With lengths from 1 to 40 mixed (leave `min_length` out) the medians are {right["none"]},
        {right["additive"]} and {right["general"]}, and {right["transformer"]} for the Transformer: its
        positions count from the front, and it must learn where the end is. The same question at other
        sizes, and nine more questions, are commands too: [`hf-attn experiment`](experiments.md)."""
    )


def tabulate_text() -> str:
    right = {task: shares_right(task) for task in TEXTS}
    rows = [
        (title, *(spread(right[task][model], "{:.1f}") for task in TEXTS))
        for model, title in (
            ("transformer", "Transformer encoder"),
            ("lstm", "LSTM"),
            ("baseline", "TF-IDF + logistic regression"),
        )
    ]
    return write_table(["texts classed right, %", *TEXTS], rows)


def describe_text_intervals() -> str:
    found = []
    for task in TEXTS:
        *_, line = (
            line for line in accuracy_lines(task) if line["model"] == "transformer" and line["seed"] == 0
        )
        low, high = (100 * end for end in line["interval"])
        found.append(f"{low:.1f} to {high:.1f} ({task}, over {line['interval_over']})")
    return in_lines(
        f"""Beside the spread of seeds stands that of the texts: whole modules and whole meanings were held
        out, and the 95 % interval of the Transformer with seed 0 is {" and ".join(found)}."""
    )


KINDS = {
    "full, sdpa": "full (sdpa)",
    "local": "local, window 64",
    "linformer": "linformer, 128",
    "performer": "performer, 128 features",
    "reformer": "reformer, 2 rounds",
}
SPEED_TASKS = {
    "copy": "copy, length 20",
    "parser": "parser, one operator",
    "addition": "addition, 0 to 499",
}


PRODUCTS = {
    "copy": "copy, lengths 1 to 20",
    "parser": "parser, one operator",
    "parser depth=3": "parser, nested to depth 3",
    "addition": "addition, three digits",
    "reverse": "reversal, lengths 1 to 20",
}


def write_goal(sign: str, line: dict, measured: float, unit: str = "×") -> str:
    """What was wanted, and whether it is so."""
    is_met = measured >= line["goal"] if sign == "≥" else measured <= line["goal"]
    return f"{sign}{line['goal']:g}{unit}, {'met' if is_met else 'not met'}"


def speed_line(task: str, arm: str, path: str = "time_to_accuracy.jsonl") -> dict:
    line = latest(path, task=task, arm=arm)
    if len(line["seeds"]) < FEWEST_SEEDS:
        raise ValueError(f"{task}, {arm}: {len(line['seeds'])} seeds are too few.")
    return line


def write_seconds(line: dict) -> str:
    """Median and range; of runs that did not reach the target, a lower bound."""
    digits = f"{{:.{max(0, 2 - math.floor(math.log10(line['median_seconds'])))}f}}"  # three of them
    low, high = (digits.format(end) for end in line["seconds"]["range"])
    if line["is_lower_bound"]:
        reached = [
            f"{share:.1%}".replace("%", " %")
            for share, is_there in zip(line["exact_match"], line["reached"], strict=True)
            if not is_there
        ]
        return f"over {digits.format(line['median_seconds'])} (stopped at {', '.join(reached)})"
    missed = line["reached"].count(False)
    never = f"; {missed} of {len(line['reached'])} stopped short" if missed else ""
    return f"{digits.format(line['median_seconds'])} ({low} to {high}{never})"


def write_ratio(line: dict) -> str:
    """Three digits; a lower bound is rounded down."""
    ratio = line["ratio_to_ours"]
    return f"≥{math.floor(ratio)}×" if line["is_lower_bound"] else f"{ratio:.3g}×"


def tabulate_race(peer: str, title: str, path: str) -> str:
    """Seconds to 99 %, ours and a peer's in turn, and their ratio."""
    rows = []
    for task, name in SPEED_TASKS.items():
        ours, other = speed_line(task, "ours", path), speed_line(task, peer, path)
        goal = write_goal("≥", other, other["ratio_to_ours"])
        rows.append((name, write_seconds(ours), write_seconds(other), write_ratio(other), goal))
    return write_table(["task", "our recipe", title, "ratio of medians", "wanted"], rows)


def tabulate_speed() -> str:
    return tabulate_race("document's recipe", "the text's recipe", "time_to_accuracy.jsonl")


def tabulate_trainer() -> str:
    return tabulate_race("Bart, Seq2SeqTrainer", "Bart, the best that was found", "trainer_race.jsonl")


def tabulate_products() -> str:
    """Seconds to 99 % by the recipes that the app trains by default."""
    rows = []
    for task, title in PRODUCTS.items():
        line = speed_line(task, "product")
        rows.append((title, write_seconds(line), write_goal("≤", line, line["median_seconds"], " s")))
    return write_table(["task", "seconds", "wanted"], rows)


def tabulate_steps() -> str:
    """Milliseconds of a step, and how many times as long it takes as its matrix products."""
    rows = []
    for task, title in SPEED_TASKS.items():
        ours = latest("train_speed.jsonl", task=task, arm="ours")
        goal = write_goal("≤", ours, ours["over_floor"])
        rows.append((title, f"{ours['milliseconds']['median']:.1f}", f"{ours['over_floor']:.2f}×", goal))
    return write_table(["task", "ms", "over its products", "wanted"], rows)


def tabulate_app() -> str:
    """What a visitor waits for."""
    rows = []
    for name in list(dict.fromkeys(line["measured"] for line in read_lines("app_speed.jsonl"))):
        line = latest("app_speed.jsonl", measured=name)
        goal = write_goal("≥" if name == "updates" else "≤", line, line["median"], "")
        rows.append((line["what"], f"{line['median']:.2g}", goal))
    return write_table(["waiting for", "seconds, or as it says", "wanted"], rows)


def writing_line(task: str, batch: int, arm: str) -> dict:
    return latest("generation.jsonl", task=task, strategy="greedy", batch=batch, arm=arm)


def tabulate_writing() -> str:
    """Milliseconds to write greedily, and how many times as long others take."""
    rows = []
    for task, title in SPEED_TASKS.items():
        for batch in (64, 1):
            arms = {
                arm: writing_line(task, batch, arm)
                for arm in ("lean", "our generate", "Bart", "Bart, static cache")
            }
            lean, *others = arms.values()
            ratios = [f"{other['ratio_to_lean']['median']:.2f}×" for other in others]
            goal = write_goal("≥", arms["Bart"], arms["Bart"]["ratio_to_lean"]["median"])
            rows.append((title, str(batch), f"{lean['milliseconds']['median']:.1f}", *ratios, goal))
    return write_table(
        [
            "task",
            "sources at once",
            "ours, ms",
            "our own `generate`",
            "Bart's `generate`",
            "with a static cache",
            "wanted of Bart's",
        ],
        rows,
    )


def tabulate_startup() -> str:
    """How soon the command line answers."""
    rows = []
    for name in list(dict.fromkeys(line["measured"] for line in read_lines("startup.jsonl"))):
        line = latest("startup.jsonl", measured=name)
        seconds = [line[key]["median"] if key in line else None for key in ("seconds", "seconds_beyond")]
        measured = seconds[0] if seconds[1] is None else seconds[1]
        goal = write_goal("≤", line, measured, " s") if line.get("goal") else "–"
        beyond = "–" if seconds[1] is None else f"{max(0.0, seconds[1]):.2f}"
        rows.append((f"`{name}`" if name.startswith("hf-attn") else name, f"{seconds[0]:.2f}", beyond, goal))
    return write_table(["measured", "seconds", "beyond what it imports", "wanted"], rows)


def describe_results() -> str:
    right = medians("reverse", "lengths 40")
    texts = [speed_line(task, "document's recipe") for task in SPEED_TASKS]
    trainers = [speed_line(task, "Bart, Seq2SeqTrainer", "trainer_race.jsonl") for task in SPEED_TASKS]
    writers = [writing_line(task, batch, "Bart") for task in SPEED_TASKS for batch in (1, 64)]
    fastest = max(texts, key=lambda line: line["ratio_to_ours"])
    most = write_ratio(fastest).removesuffix("×").replace("≥", "at least ")
    sooner = f"{min(line['ratio_to_ours'] for line in texts):.0f} to {most}"
    short = sum(line["reached"].count(False) for line in trainers)
    later = [
        row for row in read_experiment("reversal") if row["length"] == 40 and row["model"] == "transformer"
    ]
    least_right = 100 * min(row["exact_match"] for row in later)
    low, high = (f"{end(shares_right('reverse', 'lengths 40')['transformer']):.1f}" for end in (min, max))
    return in_lines(
        f"""Reversing 40 symbols with about 148,000 parameters after 300 steps, an LSTM gets {right["none"]}
        of held-out sequences right without attention, {right["additive"]} with additive attention and
        {right["general"]} with general attention ([the table and its
        command](docs/results.md#why-attention-came)). A Transformer gets {right["transformer"]} ({low} to
        {high}): it finds the rule all at once, at a step that depends on the seed; in an experiment with
        {later[0]["parameters"]:,} parameters and 500 steps the lowest of three seeds gets {least_right:.1f} %
        ([reversal](docs/experiments.md#reversal-with-and-without-attention)). Our recipes bring a model of
        the same size to 99 % right {sooner} times sooner than PyTorch's own `nn.Transformer` by the recipe of
        the text that the task comes from, and {range_of([line["ratio_to_ours"] for line in trainers])} times
        sooner than Bart by the best found for transformers' Trainer ({short} of its runs stopped short).
        Greedy writing takes Bart {range_of([line["ratio_to_lean"]["median"] for line in writers])} times as
        long ([goals met and missed](docs/results.md#speed)). On real text ours is no better than a logistic
        regression on TF-IDF counts of characters ([figures](docs/results.md#on-real-text)). Medians of three
        seeds."""
    )


def range_of(values: Sequence[float]) -> str:
    return f"{min(values):.1f} to {max(values):.1f}"


def tabulate_lengths() -> str:
    """Attention over long sequences: time on one thread, and what is learned at equal budget."""
    rows = []
    for arm, title in KINDS.items():
        forward, step = (
            latest("attention_scaling.jsonl", task="time", arm=arm, what=what) for what in ("forward", "step")
        )
        learned = latest("attention_scaling.jsonl", task="accuracy", arm=arm.split(",")[0])
        rows.append(
            (
                title,
                f"{forward['milliseconds']['16384']['median']:.0f}",
                f"{forward['exponent']:.2f} / {step['exponent']:.2f}",
                "–" if arm.startswith("full") else f"{forward['faster_than_full_from']:,}",
                spread([100 * share for share in learned["exact_match"]["values"]], "{:.1f}"),
            )
        )
    return write_table(
        [
            "`attention_type`",
            "forward, ms",
            "exponent, forward / step",
            "faster than sdpa from n",
            "sorted right, %",
        ],
        rows,
    )


def tabulate_bias() -> str:
    """What the adding checkpoint's cross-attention learned of distances: c θ, each line's highest being 0."""
    model = load_checkpoint(ROOT / "model_cards" / "attn-addition-long").model
    tables = model.get_decoder().positions.memory_weight.detach() * model.config.relative_bias_multiplier
    farthest = model.config.relative_clip_distance  # [ends, rows, heads]
    body = []
    for head in range(tables.shape[-1]):
        for end, table in zip(("end", "start"), tables[:, : 2 * farthest + 1, head], strict=True):
            body.append(
                (str(head + 1), end, *(str(round(value)) for value in (table - table.max()).tolist()))
            )
    far = {-farthest: f"{-farthest} and less", farthest: f"+{farthest} and more"}
    distances = [far.get(place, f"{place:+d}" if place else "0") for place in range(-farthest, farthest + 1)]
    return write_table(["head", "counted from the", *distances], body, words=2)


def tabulate_scaling() -> str:
    """Exponents of a step, and the two ends of what was measured."""
    rows = []
    for name, title in SCALED.items():
        line = latest("scaling.jsonl", task="sizes", arm=name)
        low, *_, high = line["milliseconds"]
        ends = [f"{line['milliseconds'][end]['median']:,.0f}" for end in (low, high)]
        memory = [f"{line['megabytes'][end]:,.0f}" for end in (low, high)]
        slopes = [f"{line['exponents'][kind]:.2f}" for kind in ("time", "operations", "memory")]
        between = f"{int(low):,} to {int(high):,}"
        rows.append((title, between, *slopes, " to ".join(ends), " to ".join(memory)))
    header = ["size", "from – to", "time", "operations", "memory", "ms a step", "MB"]
    base = latest("scaling.jsonl", task="sizes", arm="length")
    stays = ", ".join(f"{title} {base['base'][name]}" for name, title in SCALED.items())
    return (
        write_table(header, rows, words=2)
        + "\n\n"
        + in_lines(
            f"""Unless it is the one that changes: {stays}. Processor time, medians; memory at its peak beyond
            what the process held before; one thread of {base["hardware"]["cpu"]}."""
        )
    )


def tabulate_models() -> str:
    """What training takes of models that are too large to be trained here."""
    rows = []
    for name in list(dict.fromkeys(line["arm"] for line in read_lines("scaling.jsonl"))):
        if name in SCALED:
            continue
        line = latest("scaling.jsonl", task="models", arm=name)
        sizes, rows_there = line["sizes"], line["rows_that_fit"]
        rows.append(
            (
                f"{name} (width {sizes['hidden_size']:,}, {sizes['num_hidden_layers']} layers, length "
                f"{sizes['length']:,})",
                f"{line['parameters'] / 1e6:,.1f}",
                f"{line['bytes_of_weights'] / 1e9:.3g}",
                f"{line['bytes_of_a_row'] / 1e9:.2g}",
                *(f"{rows_there[place]:,}" if rows_there[place] else "–" for place in rows_there),
                f"{line['seconds_here']:.2g}",
                f"{line['seconds_of_a_gpu']:.1g}",
            )
        )
    header = [
        "model",
        "parameters, millions",
        "GB for the weights",
        "GB for a row",
        "rows on a laptop (16 GB)",
        "on a GPU (80 GB)",
        "on eight, weights shared out",
        "s a row, one thread",
        "s a row, a GPU at 300 Tflop/s",
    ]
    return write_table(header, rows)


def tabulate_gpu() -> str:
    """The newest run on a GPU: seconds to 99 % on the processor beside it, and on the card."""
    newest = max(read_lines("gpu.jsonl"), key=lambda line: line["date"])
    lines = [line for line in read_lines("gpu.jsonl") if line["date"] == newest["date"]]
    rows = []
    for line in lines:
        above = ">" if line["is_lower_bound"] else ""
        rows.append(
            (
                line["task"],
                line["arm"],
                f"{above}{line['median_seconds']:.2f}",
                f"{sum(line['reached'])} of {len(line['reached'])}",
                f"{line['steps_per_second']:.0f}",
                f"{line['ratio_to_processor']:.1f}",
            )
        )
    header = ["task", "on", "s to 99 %", "seeds that reached it", "steps a second", "times as soon"]
    return (
        write_table(header, rows, words=2)
        + "\n\n"
        + in_lines(
            f"""Medians; {newest["device"]}, one thread of {newest["hardware"]["cores"]} cores of
            {newest["hardware"]["cpu"]}, torch {newest["versions"]["torch"]}, {newest["date"][:10]}."""
        )
    )


def describe_known_failure() -> str:
    """Every card has a search for failures: what it found of one model."""
    record = json.loads(
        (ROOT / "model_cards" / "bahdanau-reverse" / "training.json").read_text(encoding="utf-8")
    )
    largest, (pattern, share) = find_largest(record), find_worst_pattern(record)
    return in_lines(
        f"""Every model was searched for failures: the reversing LSTM with attention, right on
        {write_percent(largest["exact_match"])} of {largest["examples"]:,} held-out sequences, is right on
        {write_percent(share)} of those with {pattern}."""
    )


def tabulate_attacks() -> str:
    """What every attack said last."""
    rows = []
    for name in dict.fromkeys(line["check"] for line in read_lines("hard.jsonl")):
        line = latest("hard.jsonl", check=name)
        minutes = f"{line['date'][:10]}, {line['seconds'] / 60:.0f} minutes"
        load = line["hardware"]["load_average"]
        rows.append(
            (f"`{line['command']}`", line["said"], "yes" if line["kept"] else "**no**", f"{minutes}, {load}")
        )
    header = ["command", "what it said last", "all promises held", "measured, load before it"]
    return write_table(header, rows)


def tabulate_uploads() -> str:
    """How much may be uploaded, by who may come."""
    rows = [
        (who, *(f"{getattr(limits, name) // 2**20:,}" for name in UPLOADED))
        for who, limits in (("none, `--trust-visitors`", HOME), ("the others", PUBLIC))
    ]
    header = [
        "options",
        "uploads in MB: a file",
        "a visitor's tables",
        "from an address in ten minutes",
        "all",
    ]
    return write_table(header, rows)


def read_proposal() -> dict[str, dict[tuple[str, int], Row]]:
    """Rows of ours and of the attention that docs/your_own_attention.md proposes, by task and seed."""
    rows, found = read_lines("own_attention.jsonl"), {}
    for row in rows:
        kind = row["position_type"].partition(" + ")[2] or "ours"
        found.setdefault(kind, {})[row["task"], row["seed"]] = row
    return found


def tabulate_proposal() -> str:
    """Ours and a proposal, task by task: means over seeds, with the lowest and the highest."""

    def write(values: Sequence[float], digits: int = 3) -> str:
        low, mean, high = min(values), statistics.fmean(values), max(values)
        return f"{mean:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"

    found, lines = read_proposal(), []
    for task in dict.fromkeys(task for task, _ in found["ours"]):
        for kind, by_seed in found.items():
            rows = {seed: row for (name, seed), row in by_seed.items() if name == task}
            steps = [row["step_ms"] / found["ours"][task, seed]["step_ms"] for seed, row in rows.items()]
            shares = [
                write([row[name] for row in rows.values()]) for name in ("inside", "beyond", "tokens_beyond")
            ]
            parameters = f"{next(iter(rows.values()))['parameters']:,}"
            lines.append((task, kind, *shares, "1" if kind == "ours" else write(steps, 2), parameters))
    header = [
        "task",
        "attention",
        "right inside",
        "right beyond",
        "symbols beyond",
        "step, ours = 1",
        "parameters",
    ]
    return write_table(header, lines, 2)


def judge_proposal() -> str:
    """What the rule of docs/your_own_attention.md says of the rows."""
    ours, proposed = (
        {
            seed: statistics.fmean(row["tokens_beyond"] for (_, of), row in rows.items() if of == seed)
            for seed in dict.fromkeys(seed for _, seed in rows)
        }
        for rows in read_proposal().values()
    )
    higher = sum(proposed[seed] > share for seed, share in ours.items())
    means = [statistics.fmean(shares.values()) for shares in (ours, proposed)]
    return in_lines(
        f"""**{"Better" if higher >= 4 else "Not better"}**, by the rule: the mean over the tasks is higher
        for {higher} of {len(ours)} seeds. Over all seeds it is {means[0]:.3f} with ours and {means[1]:.3f}
        with the proposal."""
    )


BLOCKS: Mapping[str, Callable[[], str]] = {
    "learned bias": tabulate_bias,
    "attacks": tabulate_attacks,
    "uploads": tabulate_uploads,
    "readme": describe_results,
    "reversal": tabulate_reversal,
    "mixed lengths": describe_mixed_lengths,
    "text": tabulate_text,
    "text intervals": describe_text_intervals,
    "speed": tabulate_speed,
    "trainer race": tabulate_trainer,
    "products": tabulate_products,
    "steps": tabulate_steps,
    "app": tabulate_app,
    "writing": tabulate_writing,
    "startup": tabulate_startup,
    "long sequences": tabulate_lengths,
    "scaling sizes": tabulate_scaling,
    "scaling models": tabulate_models,
    "gpu": tabulate_gpu,
    "known failure": describe_known_failure,
    "own attention": tabulate_proposal,
    "own attention verdict": judge_proposal,
}


if __name__ == "__main__":
    for page in map(ROOT.joinpath, PAGES):
        page.write_text(fill(page.read_text(encoding="utf-8")), encoding="utf-8")
