"""The model card: what a checkpoint is and can do, told from training.json. Nothing that was not measured."""

import json
from collections.abc import Mapping
from typing import Any

import jinja2
from huggingface_hub import EvalResult, ModelCardData

from hf_attn.architectures.families import FAMILIES
from hf_attn.architectures.registry import ARCHITECTURES
from hf_attn.checkpoints.citations import cite
from hf_attn.checkpoints.model_card_failures import worst_of, write_failures
from hf_attn.evaluation.baselines import NAME as BASELINE
from hf_attn.tasks import Task
from hf_attn.tasks.base import CLASSES, SEQUENCE, TEXT
from hf_attn.utils.markdown import (
    NUMBERS,
    in_words,
    write_cell,
    write_line,
    write_measure,
    write_percent,
    write_rule,
    write_score,
)
from hf_attn.viz.example_map import MAP

LICENCE = "apache-2.0"
LIBRARY = "transformers"

TEMPLATE = """\
---
{{ metadata }}
---

# {{ name }}

{{ summary }}

## Use

```python
from transformers import {{ auto_head }}, AutoTokenizer

checkpoint = "{{ name }}"  # this folder, or the id of its repository on the Hub
tokenizer = AutoTokenizer.from_pretrained(checkpoint, trust_remote_code=True)
model = {{ auto_head }}.from_pretrained(checkpoint, trust_remote_code=True)
inputs = tokenizer({{ source_literal }}, return_tensors="pt")
{{ last_line }}
```

The model's classes are in the files beside the weights, so hf_attn need not be installed;
`trust_remote_code=True` runs these files. After `import hf_attn` the same lines work without it.

## A worked example

`{{ example.source }}` → `{{ example.target }}`. {{ example.story }}
{% if written %}
This model writes {{ written.prediction }}: {{ written.verdict }}.
{% endif %}

{% if map_caption %}
![Attention map of the worked example]({{ map_file }})

{{ map_caption }}

{% endif %}
It reads {{ task.notation }}.

## Training data

{{ about }}

{{ task.provenance }}

| option of the task | value |
|---|---|
{% for option, value in options.items() %}
| {{ option }} | {{ value }} |
{% endfor %}

## Training

| setting | value |
|---|---|
{% for setting, value in settings.items() %}
| {{ setting }} | {{ value }} |
{% endfor %}

## Results

{% if results %}
On {{ '{:,}'.format(results.examples) }} held-out {{ unit }}{{ how }}. Right means: {{ task.metric }}.
Intervals are Wilson's, 95 %.

{% for row in rows %}
{{ row }}
{% endfor %}
{% else %}
Nothing was measured for this checkpoint.
{% endif %}

{% if failures %}
### Known failures

{% for paragraph in failures %}
{{ paragraph }}

{% endfor %}
{% endif %}
## Limits and misuse

- It knows only this task: {{ vocabulary_size }} tokens, sources of at most
  {{ task.max_source_tokens }} tokens, answers of at most {{ task.max_target_tokens }}, `</s>` included.
- It was measured only on the inputs in the tables above; do not expect it to generalize beyond them.
- It is made for studying attention, not for use{{ exactness }}. Do not rely on its answers where a wrong
  one matters.
{% if not task.is_computable %}
- It was trained on few texts of one kind and has their biases. Do not judge people or their writing by it.
{% endif %}
- Attention weights show what a head reads; they do not prove why the model gave its answer.

## Environmental cost

{{ cost }}

## Versions

{{ versions_line }}

## Licence and citation

{{ licence }}. The architecture:

```bibtex
{% for entry in citations %}
{{ entry }}
{% endfor %}
@software{hf_attn,
  title   = {hf\\_attn: understand attention by building it and watching it learn},
  version = {{ "{" }}{{ versions.hf_attn }}{{ "}" }},
  license = {Apache-2.0}
}
```
"""

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
    """Write a model card.

    Args:
        name: the model's name, which is its folder's.
        task: what it learned.
        training: what training.json holds.

    Returns:
        The whole README.md, metadata first.
    """
    results = training.get("results") or {}
    family = FAMILIES[training["model_type"]]
    environment = jinja2.Environment(
        undefined=jinja2.StrictUndefined, trim_blocks=True, keep_trailing_newline=True
    )
    return environment.from_string(TEMPLATE).render(
        name=name,
        metadata=_metadata(name, task, training).to_yaml().strip(),
        summary=_summary(task, training),
        auto_head=family.auto_head.__name__,
        last_line=LAST_LINES[family.auto_head.__name__],
        task=task,
        example=task.worked_example,
        source_literal=json.dumps(task.worked_example.source, ensure_ascii=False),
        written=_written(training),
        about=_first_sentence(task),
        unit=UNITS[task.kind],
        exactness=": ordinary code does this task exactly" if task.is_computable else "",
        how=HOW_JUDGED[task.kind],
        citations=cite(training["model_type"], str(training.get("model"))),
        options={option: write_cell(value) for option, value in training["task"]["options"].items()},
        settings=_settings(training),
        results=results,
        map_caption=_describe_map(training),
        map_file=MAP,
        rows=_result_rows(results) if results else [],
        failures=write_failures(name, training),
        vocabulary_size=len(task.vocabulary),
        cost=_cost(training),
        versions=training["versions"],
        versions_line=_versions(training),
        licence=LICENCE,
    )


def name_model(kind: str, training: Mapping) -> list[str]:
    """What a model is, and of a recurrent one how it attends."""
    family = FAMILIES[training["model_type"]].title
    known = ARCHITECTURES[kind].get(str(training.get("model")))
    return [family, known.title] if known is not None and known.is_recurrent else [family]


def _metadata(name: str, task: Task, training: Mapping) -> ModelCardData:
    results = training.get("results")
    figures: dict[str, tuple[str, float]] = {}
    if results:
        figures["Exact match"] = ("exact_match", results["exact_match"])
        figures |= {
            in_words(key).capitalize(): (key if key in NUMBERS else "accuracy", value)
            for key, value in results["measures"].items()
        }
    evaluated = [
        EvalResult(
            task_type=TASK_TYPES[task.kind],
            task_name=task.title,
            dataset_type=f"hf_attn/{task.name}",
            dataset_name=f"{task.title} ({'generated' if task.is_computable else 'text'})",
            dataset_split="held-out",
            metric_type=metric_type,
            metric_name=metric_name,
            metric_value=round(value, 6),
            metric_args=_sureness(results or {}) if metric_type == "exact_match" else None,
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


def _sureness(results: Mapping) -> dict:
    """How sure an exact match is, for the model-index, which has no word for it."""
    low, high = (round(end, 6) for end in results["interval"])
    return {"examples": results["examples"], "confidence": 0.95, "low": low, "high": high}


def _summary(task: Task, training: Mapping) -> str:
    family, *how = name_model(task.kind, training)
    sizes = "; ".join([f"{training['parameters']:,} parameters", *how])
    sentence = (
        f"A tiny {family} ({sizes}) trained on one task: "
        f"{task.title.lower()}. It was made with hf_attn for studying attention."
    )
    results = training.get("results")
    if not results:
        return sentence
    low, high = map(write_percent, results["interval"])
    share, n = write_percent(results["exact_match"]), f"{results['examples']:,}"
    said = {
        SEQUENCE: f"It gets {share} of {n} held-out examples right as a whole",
        CLASSES: f"It classifies {share} of {n} held-out texts right",
        TEXT: f"It predicts {share} of {n} held-out tokens, each from those before it",
    }[task.kind]
    hard = ""
    if worst := worst_of(training):
        pattern, right = worst
        hard = f" Of the input patterns that were tried, it is worst on “{pattern}”: {write_percent(right)}."
    return f"{sentence} {said} (95 % interval {low} to {high}).{hard}"


def _first_sentence(task: Task) -> str:
    return (type(task).__doc__ or task.title).strip().partition("\n")[0]


def _settings(training: Mapping) -> dict[str, str]:
    recipe = dict(training.get("recipe") or {})
    sizes = recipe.pop("model", {})
    run = {
        "steps taken": training.get("steps"),
        "seed": training.get("seed"),
        "to stop at (held-out)": training.get("until"),
    }
    if recipe:
        run |= {"steps planned": recipe.pop("steps"), "optimizer": "AdamW"}
        recipe.pop("report_every")
    table = {**sizes, **run, **recipe}
    return {name: write_cell(value) for name, value in table.items() if value is not None}


def _result_rows(results: Mapping) -> list[str]:
    """The table: all examples, the baseline beside, and a line a size."""
    named = {"all": results}
    if baseline := results.get("baseline"):
        named[BASELINE] = {**baseline, "measures": dict.fromkeys(results["measures"])}
    named |= {f"{results['size_name']} {size}": score for size, score in results["by_size"].items()}
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


def _describe_map(training: Mapping) -> str:
    """What the picture shows; nothing where there is none."""
    if not (shown := training.get("map")):
        return ""
    head = f"{shown['kind'].capitalize()} attention of layer {shown['layer']}, head {shown['head']}"
    weight = write_percent(shown["weight"])
    if shown["is_aligned"]:
        why = f"puts the most weight on the positions that the answer depends on (ringed): {weight}"
    else:
        why = f"is the sharpest: the largest weight of a row is {weight} on average"
    return f"{head} (counted from 0), in this example. Of the {shown['heads']} heads it {why}."


def _written(training: Mapping) -> dict | None:
    written = training.get("worked_example")
    if not written:
        return None
    prediction = f"`{written['prediction']}`" if written["prediction"] else "nothing"
    return {"prediction": prediction, "verdict": "right" if written["correct"] else "wrong"}


def _versions(training: Mapping) -> str:
    """What it was trained with, and measured with where that is another."""
    measured = training.get("measured_with", training["versions"])
    if measured == training["versions"]:
        return f"{_list(measured)}."
    return f"Trained with {_list(training['versions'])}; measured with {_list(measured)}."


def _list(versions: Mapping[str, str]) -> str:
    return ", ".join(f"{package} {version}" for package, version in versions.items())


def _cost(training: Mapping) -> str:
    if training.get("seconds") is None:
        return "Not measured."
    threads = training.get("threads")
    with_threads = f" with {threads} thread{'s' if threads != 1 else ''}" if threads else ""
    return (
        f"{training['seconds']:.1f} s of training on {training.get('device', 'a device that was not noted')}"
        f"{with_threads}; measuring is not counted. Energy was not measured."
    )
