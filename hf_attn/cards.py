"""The model card: what a checkpoint is and can do, told from training.json. Nothing that was not measured."""

import json
import re
from collections.abc import Mapping
from typing import Any

import jinja2
from huggingface_hub import EvalResult, ModelCardData

from hf_attn.architectures import ARCHITECTURES
from hf_attn.baselines import NAME as BASELINE
from hf_attn.citations import cite
from hf_attn.registration import FAMILIES
from hf_attn.tasks import Task
from hf_attn.tasks.base import CLASSES, SEQUENCE, TEXT

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
On {{ results.examples }} held-out {{ unit }}{{ how }}. Right means: {{ task.metric }}. Intervals are
Wilson's, 95 %.

{{ heading }}
{{ rule }}
{% for row in rows %}
{{ row }}
{% endfor %}

{% if task.kind != "text" %}
### Known failures

{% if failures %}
{{ failure_count }} of {{ results.examples }} examples were wrong. {{ failures|length }} of them:

| source | written | right |
|---|---|---|
{% for failure in failures %}
| {{ failure.source }} | {{ failure.prediction }} | {{ failure.answer }} |
{% endfor %}
{% else %}
No failure was found among {{ results.examples }} held-out examples. That does not rule them out: it says
with 95 % confidence that the true share of right answers is above {{ lowest }}.
{% endif %}
{% endif %}
{% else %}
Nothing was measured for this checkpoint.
{% endif %}

## Limits and misuse

- It knows this task and nothing else: {{ vocabulary_size }} tokens, sources of at most
  {{ task.max_source_tokens }} tokens, answers of at most {{ task.max_target_tokens }}, `</s>` included.
- It was never measured on inputs outside the range above, and should not be expected to go beyond it.
- It is made for looking inside, not for use{{ exactness }}. Do not rely on its answers where a wrong one
  matters.
{% if not task.is_computable %}
- It has read little, of one kind: whatever is lopsided in its data is lopsided in its answers. Do not judge
  people or their writing by it.
{% endif %}
- Attention weights show what a head reads. They are no proof of why an answer came out.

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
    SEQUENCE: ", written freely (greedy) and judged by a check that is independent of the generator",
    CLASSES: "",
    TEXT: ", each guessed from the true ones before it",
}
NUMBERS = ("perplexity", "bits_per_token")  # figures that are no shares
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
    failures = [{key: _cell(value) for key, value in row.items()} for row in results.get("failures", [])]
    measures = [_in_words(name) for name in results.get("measures", {})]
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
        options={option: _cell(value) for option, value in training["task"]["options"].items()},
        settings=_settings(training),
        results=results,
        heading=_line("held-out", "examples", "exact match", "95 % interval", *measures),
        rule="|---|" + "---:|" * (3 + len(measures)),
        rows=_rows(results) if results else [],
        failures=failures,
        failure_count=round(results.get("examples", 0) * (1 - results.get("exact_match", 1))),
        lowest=_percent(results["interval"][0]) if results else "",
        vocabulary_size=len(task.vocabulary),
        cost=_cost(training),
        versions=training["versions"],
        versions_line=", ".join(f"{package} {version}" for package, version in training["versions"].items())
        + ".",
        licence=LICENCE,
    )


def _metadata(name: str, task: Task, training: Mapping) -> ModelCardData:
    """The card's head, with the results as the Hub's model-index."""
    results = training.get("results")
    figures: dict[str, tuple[str, float]] = {}
    if results:
        figures["Exact match"] = ("exact_match", results["exact_match"])
        figures |= {
            _in_words(key).capitalize(): (key if key in NUMBERS else "accuracy", value)
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


def _summary(task: Task, training: Mapping) -> str:
    family = FAMILIES[training["model_type"]]
    known = ARCHITECTURES[task.kind].get(str(training.get("model")))
    which = f"; {known.title}" if known is not None and known.is_recurrent else ""
    sentence = (
        f"A tiny {family.title} ({training['parameters']:,} parameters{which}) that learned one task: "
        f"{task.title.lower()}. It was built with hf_attn to be looked into."
    )
    results = training.get("results")
    if not results:
        return sentence
    low, high = map(_percent, results["interval"])
    share, n = _percent(results["exact_match"]), results["examples"]
    said = {
        SEQUENCE: f"It writes {share} of {n} held-out examples right as a whole",
        CLASSES: f"It names the class of {share} of {n} held-out texts right",
        TEXT: f"It guesses {share} of {n} held-out tokens, each from those before it",
    }[task.kind]
    return f"{sentence} {said} (95 % interval {low} to {high})."


def _first_sentence(task: Task) -> str:
    """What the task's class says it is."""
    return (type(task).__doc__ or task.title).strip().partition("\n")[0]


def _settings(training: Mapping) -> dict[str, str]:
    """Hyperparameters, one row each."""
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
    return {name: _cell(value) for name, value in table.items() if value is not None}


def _rows(results: Mapping) -> list[str]:
    """One line of the table over all examples, one of the baseline beside, and one a size."""
    named = {"all": results}
    if baseline := results.get("baseline"):
        named[BASELINE] = {**baseline, "measures": dict.fromkeys(results["measures"])}
    named |= {f"{results['size_name']} {size}": score for size, score in results["by_size"].items()}
    return [
        _line(
            row,
            score["examples"],
            _percent(score["exact_match"]),
            " – ".join(map(_percent, score["interval"])),
            *(_figure(name, value) for name, value in score["measures"].items()),
        )
        for row, score in named.items()
    ]


def _line(*cells: object) -> str:
    """A line of a Markdown table."""
    return f"| {' | '.join(map(str, cells))} |"


def _written(training: Mapping) -> dict | None:
    written = training.get("worked_example")
    if not written:
        return None
    prediction = f"`{written['prediction']}`" if written["prediction"] else "nothing"
    return {"prediction": prediction, "verdict": "right" if written["correct"] else "wrong"}


def _cost(training: Mapping) -> str:
    if training.get("seconds") is None:
        return "Not measured."
    threads = training.get("threads")
    with_threads = f" with {threads} thread{'s' if threads != 1 else ''}" if threads else ""
    return (
        f"{training['seconds']:.1f} s of training on {training.get('device', 'a device that was not noted')}"
        f"{with_threads}; measuring is not counted. Energy was not measured."
    )


def _figure(name: str, value: float | None) -> str:
    """A further measure; a baseline has none."""
    if value is None:
        return "–"
    return f"{value:.3f}" if name in NUMBERS else _percent(value)


def _percent(share: float) -> str:
    """A share as the card writes it; never rounded up to 100 %."""
    hundredths = int(share * 10000 + 0.5)
    if hundredths == 10000 and share < 1:
        hundredths = 9999
    return f"{hundredths / 100:.2f} %".replace(".00 %", " %")


def _in_words(name: str) -> str:
    return name.replace("_", " ")


def _cell(value: object) -> str:
    """A value that a Markdown table can hold."""
    if value is None or value == "":
        return "(nothing)"
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return re.sub(r"([|\\`*_<>])", r"\\\1", " ".join(text.split()))
