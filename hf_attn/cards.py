"""The model card: what a checkpoint is and can do, told from training.json. Nothing that was not measured."""

import json
import re
from collections.abc import Mapping
from typing import Any

import jinja2
from huggingface_hub import EvalResult, ModelCardData

from hf_attn.registration import FAMILIES
from hf_attn.tasks import Task
from hf_attn.tasks.sequences import HASH_BUCKETS

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

Examples are drawn while training and never stored. Each falls into one of {{ buckets }} buckets by a hash
of the example itself: training draws from {{ buckets - 2 }} of them, one (10 %) is held out for the results
below, and one (10 %) is kept apart for choosing settings. The split is the same on every machine.

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
On {{ results.examples }} held-out examples, written freely (greedy) and judged by a check that is
independent of the generator. Right means: {{ task.metric }}. Intervals are Wilson's, 95 %.

{{ heading }}
{{ rule }}
{% for row in rows %}
{{ row }}
{% endfor %}

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
{% else %}
Nothing was measured for this checkpoint.
{% endif %}

## Limits and misuse

- It knows this task and nothing else: {{ vocabulary_size }} tokens, sources of at most
  {{ task.max_source_tokens }} tokens, answers of at most {{ task.max_target_tokens }}, `</s>` included.
- It was never measured on inputs outside the range above, and should not be expected to go beyond it.
- It is made for looking inside attention, not for use: ordinary code does this task exactly. Do not rely on
  its answers where a wrong one matters.
- Attention weights show what a head reads. They are no proof of why an answer came out.

## Environmental cost

{{ cost }}

## Versions

{{ versions_line }}

## Licence and citation

{{ licence }}. The architecture:

```bibtex
@inproceedings{vaswani2017attention,
  title     = {Attention Is All You Need},
  author    = {Vaswani, Ashish and Shazeer, Noam and Parmar, Niki and Uszkoreit, Jakob and Jones, Llion and
               Gomez, Aidan N. and Kaiser, {\\L}ukasz and Polosukhin, Illia},
  booktitle = {Advances in Neural Information Processing Systems},
  year      = {2017},
  url       = {https://arxiv.org/abs/1706.03762}
}
@software{hf_attn,
  title   = {hf\\_attn: understand attention by building it and watching it learn},
  version = {{ "{" }}{{ versions.hf_attn }}{{ "}" }},
  license = {Apache-2.0}
}
```
"""

LAST_LINES = {
    "AutoModelForSeq2SeqLM": "print(tokenizer.decode(model.generate(**inputs)[0], skip_special_tokens=True))",
    "AutoModelForSequenceClassification": "print(model(**inputs).logits.softmax(-1))",
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
        buckets=HASH_BUCKETS,
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
            _in_words(key).capitalize(): ("accuracy", value) for key, value in results["measures"].items()
        }
    is_classifier = FAMILIES[training["model_type"]].auto_head.__name__.endswith("SequenceClassification")
    evaluated = [
        EvalResult(
            task_type="text-classification" if is_classifier else "text2text-generation",
            task_name=task.title,
            dataset_type=f"hf_attn/{task.name}",
            dataset_name=f"{task.title} (generated)",
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
        # transformers 5 has no pipeline for encoder-decoders, so only a classifier names one
        pipeline_tag="text-classification" if is_classifier else None,
        tags=["hf_attn", "attention", "custom_code", training["model_type"], task.name],
        metrics=["exact_match"] if results else None,
        model_name=name,
        eval_results=evaluated or None,
    )


def _summary(task: Task, training: Mapping) -> str:
    kind = "encoder" if training["model_type"] == "attn_encoder" else "encoder-decoder"
    sentence = (
        f"A tiny Transformer {kind} ({training['parameters']:,} parameters) that learned one task: "
        f"{task.title.lower()}. "
        "It was built with hf_attn to be looked into: who reads whom can be seen in every head."
    )
    results = training.get("results")
    if results:
        low, high = results["interval"]
        sentence += (
            f" It writes {_percent(results['exact_match'])} of {results['examples']} held-out examples right "
            f"as a whole (95 % interval {_percent(low)} to {_percent(high)})."
        )
    return sentence


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
    """One line of the table over all examples, and one a size."""
    named = {"all": results}
    named |= {f"{results['size_name']} {size}": score for size, score in results["by_size"].items()}
    return [
        _line(
            name,
            score["examples"],
            _percent(score["exact_match"]),
            " – ".join(map(_percent, score["interval"])),
            *map(_percent, score["measures"].values()),
        )
        for name, score in named.items()
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
