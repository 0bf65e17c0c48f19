"""The model card of a checkpoint, written from training.json: only figures that were measured."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from huggingface_hub import EvalResult, ModelCardData

from hf_attn.architectures.families import FAMILIES
from hf_attn.architectures.optimizers import OPTIMIZERS, list_unused
from hf_attn.checkpoints.training_schema import ON_A_CARD, check_record
from hf_attn.evaluation.baselines import NAME as BASELINE
from hf_attn.models.own_attention import OWN_ATTENTION
from hf_attn.tasks import Task
from hf_attn.tasks.base import CLASSES, SEQUENCE, TEXT
from hf_attn.utils.markdown import (
    NUMBERS,
    in_words,
    interval_in_words,
    render_template,
    write_cell,
    write_line,
    write_measure,
    write_percent,
    write_rule,
    write_score,
    write_share,
)
from hf_attn.viz.example_map import MAP

LICENCE = "apache-2.0"
LIBRARY = "transformers"

TASK_TYPES = {SEQUENCE: "text2text-generation", CLASSES: "text-classification", TEXT: "text-generation"}
UNITS = {SEQUENCE: "examples", CLASSES: "texts", TEXT: "tokens"}
HOW_JUDGED = {
    SEQUENCE: ", generated freely (greedy) and checked independently of the task's generator",
    CLASSES: "",
    TEXT: ", each predicted from the true ones before it",
}
LAST_LINES = {
    "AutoModelForSeq2SeqLM": "print(tokenizer.decode(model.generate(**inputs)[0], skip_special_tokens=True))",
    "AutoModelForCausalLM": "print(tokenizer.decode(model.generate(**inputs)[0], skip_special_tokens=True))",
    "AutoModelForSequenceClassification": "print(model.config.id2label[int(model(**inputs)[0].argmax())])",
}


def build_card(name: str, task: Task, training: Mapping[str, Any]) -> str:
    """Write a model card, the whole README.md with metadata first, from the content of training.json.

    ValueError where a value in it is missing or of a wrong kind.
    """
    check_record("training.json", training, ON_A_CARD)
    if training["model_type"] not in FAMILIES:
        raise ValueError(
            f"training.json has model_type={training['model_type']!r}; known are {', '.join(FAMILIES)}."
        )
    results = training.get("results") or {}
    family = FAMILIES[training["model_type"]]
    variant = family.variants.get(str(training.get("model")))
    attention = ((training.get("recipe") or {}).get("model") or {}).get("attention_type")
    return render_template(
        Path(__file__).with_name("model_card.md"),
        name=name,
        metadata=_metadata(name, task, training).to_yaml().strip(),
        summary=_summary(task, training),
        auto_head=family.auto_head,
        own_attention=attention if attention in OWN_ATTENTION else None,
        last_line=LAST_LINES[family.auto_head].replace(
            "True))", "True)[::-1])" if task.is_reversed else "True))"
        ),
        task=task,
        training=training,
        write_percent=write_percent,
        example=task.worked_example,
        source_literal=json.dumps(task.worked_example.source, ensure_ascii=False),
        unit=task.units or UNITS[task.kind],
        exactness=": ordinary code does this task exactly" if task.is_computable else "",
        how=HOW_JUDGED[task.kind],
        citations=family.citations + (variant.citations if variant else ()),
        options={option: write_cell(value) for option, value in training["task"]["options"].items()},
        settings=_settings(training),
        results=results,
        map_file=MAP,
        rows=_result_rows(results) if results else [],
        search=training.get("search"),
        reach=training.get("reach"),
        least_sure=training.get("least_sure"),
        find_worst=find_worst,
        write_cell=write_cell,
        write_score=write_score,
        write_share=write_share,
        vocabulary_size=len(task.vocabulary),
        licence=LICENCE,
    )


def name_model(training: Mapping) -> list[str]:
    """What a model is, and of a recurrent one how it attends."""
    family = FAMILIES[training["model_type"]]
    variant = family.variants.get(str(training.get("model")))
    return [family.title, variant.title] if variant and family.is_recurrent else [family.title]


def find_worst(scores: Mapping[str, Mapping]) -> str | None:
    """The name with the smallest share of right answers; None where nothing was wrong.

    >>> find_worst({"1": {"exact_match": 1.0}, "2": {"exact_match": 0.9}})
    '2'
    """
    wrong = [name for name, score in scores.items() if score["exact_match"] < 1]
    return min(wrong, key=lambda name: scores[name]["exact_match"]) if wrong else None


def find_worst_pattern(training: Mapping) -> tuple[str, float] | None:
    """The pattern of a search, or of text the kind, with the smallest share of right answers, and that share.

    None where nothing was searched or nothing was wrong.
    """
    search, results = training.get("search"), training.get("results") or {}
    kinds = {name: score for name, score in results.get("by_size", {}).items() if not name.isdigit()}
    patterns = search["patterns"] if search else kinds
    worst = find_worst(patterns)
    return None if worst is None else (worst, patterns[worst]["exact_match"])


def find_largest(training: Mapping) -> Mapping:
    """The held-out figure of most examples: the search for failures tries more than the results do."""
    held_out = [training.get("results"), (training.get("search") or {}).get("held_out")]
    return max((score for score in held_out if score), key=lambda score: score["examples"], default={})


def _metadata(name: str, task: Task, training: Mapping) -> ModelCardData:
    results, largest = training.get("results"), find_largest(training)
    figures: dict[str, tuple[str, float]] = {}
    if results:
        figures["Exact match"] = ("exact_match", largest["exact_match"])
        figures |= {
            in_words(key).capitalize(): (key if key in NUMBERS else "accuracy", value)
            for key, value in results["measures"].items()
        }
    evaluated = [
        EvalResult(
            task_type=TASK_TYPES[task.kind],
            task_name=task.title,
            dataset_type=f"hf_attn/{task.name}",
            dataset_name=f"{task.title} ({_origin(task)})",
            dataset_split="held-out",
            metric_type=metric_type,
            metric_name=metric_name,
            metric_value=round(value, 6),
            metric_args=_interval_arguments(largest) if metric_type == "exact_match" else None,
        )
        for metric_name, (metric_type, value) in figures.items()
    ]
    return ModelCardData(
        license=LICENCE,
        library_name=LIBRARY,
        # transformers 5 has no pipeline for encoder-decoders
        pipeline_tag=None if task.kind == SEQUENCE else TASK_TYPES[task.kind],
        tags=["hf_attn", "attention", "custom_code", training["model_type"], task.name],
        metrics=["exact_match"] if results else None,
        model_name=name,
        eval_results=evaluated or None,
    )


def _origin(task: Task) -> str:
    """Where the examples come from, in a word."""
    if task.options.get("path") or task.options.get("dataset"):
        return "own data"
    return "generated" if task.is_computable else "text"


def _interval_arguments(results: Mapping) -> dict:
    """The confidence interval, as arguments of the metric: the model-index has no field for it."""
    low, high = (round(end, 6) for end in results["interval"])
    over = {"over": results["interval_over"]} if "interval_over" in results else {}
    return {"examples": results["examples"], "confidence": 0.95, "low": low, "high": high, **over}


def _summary(task: Task, training: Mapping) -> str:
    family, *how = name_model(training)
    sizes = "; ".join([f"{training['parameters']:,} parameters", *how])
    sentence = (
        f"A tiny {family} ({sizes}) trained on one task: "
        f"{task.title.lower()}. It was made with hf_attn for studying attention."
    )
    results = training.get("results")
    if not results:
        return sentence
    largest = find_largest(training)
    interval = interval_in_words(largest["interval"], largest.get("interval_over", ""))
    share, n = write_percent(largest["exact_match"]), f"{largest['examples']:,}"
    accuracy = {
        SEQUENCE: f"It gets {share} of {n} held-out examples right as a whole",
        CLASSES: f"It classifies {share} of {n} held-out texts right",
        TEXT: f"It predicts {share} of {n} held-out {task.units or UNITS[TEXT]}, each from those before it",
    }[task.kind]
    hard = ""
    if worst := find_worst_pattern(training):
        pattern, right = worst
        hard = f" Of the input patterns that were tried, it is worst on “{pattern}”: {write_percent(right)}."
    return f"{sentence} {accuracy} ({interval}).{hard}"


def _settings(training: Mapping) -> dict[str, str]:
    recipe = dict(training.get("recipe") or {})
    sizes = recipe.pop("model", {})
    run = {
        "steps taken": training.get("steps"),
        "seed": training.get("seed"),
        "to stop at (validation)": training.get("until"),
    }
    if recipe:
        optimizer = recipe.pop("optimizer", "adamw")
        row = OPTIMIZERS.get(optimizer)  # None of a version that knows more of them
        for unsaid in ("report_every", *(list_unused(optimizer) if row else ())):
            recipe.pop(unsaid, None)
        run |= {"steps planned": recipe.pop("steps"), "optimizer": row.title if row else optimizer}
    table = {**sizes, **run, **recipe}
    return {name: write_cell(value) for name, value in table.items() if value is not None}


def _result_rows(results: Mapping) -> list[str]:
    """Lines of the table: all examples, the baseline, and each size."""
    named = {"all": results}
    if baseline := results.get("baseline"):
        named[BASELINE] = {**baseline, "measures": dict.fromkeys(results["measures"])}
    unknown = dict.fromkeys(results["measures"])  # a text's kinds have no perplexity of their own
    named |= {
        f"{results['size_name']} {size}": {**score, "measures": score["measures"] or unknown}
        for size, score in results["by_size"].items()
    }
    return [
        write_line(
            "held-out", "examples", "exact match", "95 % interval", *map(in_words, results["measures"])
        ),
        write_rule(1, 3 + len(results["measures"])),
        *(
            write_line(
                row, *write_score(score), *(write_measure(*measure) for measure in score["measures"].items())
            )
            for row, score in named.items()
        ),
    ]
