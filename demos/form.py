"""The settings of a run as the Train tab asks for them: read, checked, and filled in from the recipes."""

import dataclasses
import math

import gradio as gr
import torch

from demos import shared
from hf_attn.models.positions import POSITION_TYPES
from hf_attn.settings import apply_settings
from hf_attn.tasks import TASKS, Recipe, Task
from hf_attn.training import build_model

# label in the app: task, option that sets its size, the option's name and values, the first of them shown
SIZES = {
    "Copy": ("copy", "max_length", "Longest", (5, 10, 20, 40), 20),
    "Addition": ("addition", "digits", "Digits", (1, 2, 3, 4, 5), 3),
    "Parser, one operator": ("parser", "depth", "Depth", (1,), 1),
    "Parser, nested": ("parser", "depth", "Depth", (2, 3, 4), 3),
}
PRESETS = {"small": "product", "document": "document"}
# fields that hold a number: its type, lowest, highest, and what would work
LIMITS = {
    "hidden_size": (int, 8, 512, "a whole number from 8 to 512; 64 works."),
    "num_attention_heads": (int, 1, 16, "a whole number from 1 to 16; 4 works."),
    "encoder_layers": (int, 1, 6, "a whole number from 1 to 6; 2 works."),
    "decoder_layers": (int, 1, 6, "a whole number from 1 to 6; 2 works."),
    "learning_rate": (float, 1e-5, 1e-1, "between 0.00001 and 0.1; 0.003 works."),
    "steps": (int, 1, 20_000, f"a whole number from 1 to {shared.count(20_000)}; 300 works."),
    "seed": (int, 0, 2**31 - 1, "a whole number from 0; 0 works."),
}

FIELDS = ("task", "size", "preset", "hidden_size", "num_attention_heads", "encoder_layers", "decoder_layers")
FIELDS += ("position_type", "learning_rate", "steps", "seed")
ERRORS = ("size", *LIMITS)  # fields that can be wrong

LABELS = {
    "preset": "Model",
    "hidden_size": "Hidden size",
    "num_attention_heads": "Heads",
    "encoder_layers": "Encoder layers",
    "decoder_layers": "Decoder layers",
    "position_type": "Positions",
    "learning_rate": "Learning rate",
    "steps": "Steps",
    "seed": "Seed",
}
CHOICES = {
    "preset": tuple(PRESETS),
    "hidden_size": (32, 64, 128, 256),
    "num_attention_heads": (1, 2, 3, 4, 8),
    "encoder_layers": (1, 2, 3, 4),
    "decoder_layers": (1, 2, 3, 4),
    "position_type": tuple(POSITION_TYPES),
}
ROWS = (  # of the form, two fields each
    ("size", "preset"),
    ("hidden_size", "num_attention_heads"),
    ("encoder_layers", "decoder_layers"),
    ("position_type", "seed"),
    ("learning_rate", "steps"),
)


class FieldError(ValueError):
    """What a visitor wrote cannot be used; `field` is where."""

    def __init__(self, field: str, sentence: str):
        super().__init__(sentence)
        self.field = field


def offers() -> dict[str, tuple]:
    """Every task by its label; those that SIZES does not know come with their defaults."""
    known = {name for name, *_ in SIZES.values()}
    return SIZES | {
        TASKS[name].title: (name, None, "Size", ("-",), "-") for name in TASKS if name not in known
    }


def read_number(field: str, text: object) -> float:
    """A number within its limits, or a FieldError that says what would work."""
    kind, low, high, remedy = LIMITS[field]
    text = "" if text is None else str(text).strip()
    try:
        number = kind(text.replace(shared.NARROW, ""))
    except ValueError:
        number = math.nan
    if not low <= number <= high:
        raise FieldError(field, f"{text or 'Nothing'} will not do: {remedy}")
    return number


def read_form(*form) -> tuple[Task, Recipe, int]:
    """Task, recipe and seed of the settings.

    Raises:
        FieldError: a field holds what cannot be used.
    """
    values = dict(zip(FIELDS, form, strict=True))
    name, option, title, sizes, _ = offers()[values["task"]]
    settings = {field: read_number(field, values[field]) for field in LIMITS}
    seed, steps = settings.pop("seed"), settings["steps"]
    settings |= {"preset": PRESETS[values["preset"]], "position_type": values["position_type"]}
    if option is not None:
        size = next((size for size in sizes if str(size) == str(values["size"]).strip()), None)
        if size is None:
            raise FieldError("size", f"{title}: choose one of {', '.join(map(str, sizes))}.")
        settings[option] = size
    try:
        task, recipe = apply_settings(name, settings)
        recipe = dataclasses.replace(recipe, report_every=1, evaluate_every=max(1, steps // 20))
        build_empty(task, recipe)
    except ValueError as error:
        raise FieldError("num_attention_heads", plain_words(str(error))) from error
    return task, recipe, seed


def build_empty(task: Task, recipe: Recipe) -> torch.nn.Module:
    """The model without memory for its weights: to check the sizes, and to count."""
    with torch.device("meta"):
        return build_model(task, recipe)


def plain_words(sentence: str) -> str:
    """A configuration's error with the names that stand on the page."""
    names = {"num_attention_heads=": "heads ", "hidden_size=": "hidden size ", "hidden_size": "hidden size"}
    for name, words in names.items():
        sentence = sentence.replace(name, words)
    return sentence[:1].upper() + sentence[1:]


def fill_form(label: str, size: object, preset: str) -> dict[str, object]:
    """What the recipe of a task's preset says, for the fields below it."""
    name, option, *_ = offers()[label]
    settings = {option: size} if option else {}
    task, recipe = apply_settings(name, {"preset": PRESETS[preset], **settings})
    config = build_empty(task, recipe).config
    filled = {name: getattr(config, name) for name in FIELDS[3:8]}
    return filled | {"learning_rate": f"{recipe.learning_rate:g}", "steps": str(recipe.steps)}


def choose_task(label: str, preset: str) -> list:
    """Another task: its sizes, and the recipe's settings."""
    _, _, title, values, first = offers()[label]
    size = gr.update(label=title, choices=list(values), value=first, interactive=len(values) > 1)
    return [size, *fill_form(label, first, preset).values()]


def describe_form(*form) -> list:
    """The line under the settings, and what is wrong with them under each field."""
    try:
        task, recipe, _ = read_form(*form)
    except FieldError as error:
        return [shared.note("Nothing starts until the settings are in their range."), *field_errors(error)]
    example = task.worked_example
    model = build_empty(task, recipe)
    held_out = "held out by hash"
    sentence = f"{example.source} → {example.target}; {held_out}. {shared.size_in_words(model)} parameters."
    return [shared.note(sentence), *field_errors()]


def field_errors(error: FieldError | None = None) -> list[str]:
    """One sentence a field of ERRORS; empty where nothing is wrong."""
    return [shared.field_error(str(error)) if error and error.field == field else "" for field in ERRORS]


def build_form() -> tuple[list, list, gr.HTML]:
    """Lay the settings out: (fields in the order of FIELDS, lines in the order of ERRORS, the last line)."""
    label, (_, _, title, sizes, size) = next(iter(offers().items()))
    filled = {"size": size, "preset": "small", "seed": "0", **fill_form(label, size, "small")}
    names = LABELS | {"size": title}
    fields = {"task": gr.Dropdown(list(offers()), value=label, label="Task", elem_id="task")}
    errors = {}
    for pair in ROWS:
        with gr.Row(elem_classes="hf-two"):
            for name in pair:
                look = {
                    "value": filled[name],
                    "label": names[name],
                    "elem_id": f"field-{name}",
                    "min_width": 0,
                }
                choices = {"size": sizes, **CHOICES}.get(name)
                if choices is None:
                    fields[name] = gr.Textbox(max_lines=1, **look)
                else:  # numbers may also be typed: read_form says what is allowed
                    fields[name] = gr.Dropdown(list(choices), allow_custom_value=name in ERRORS, **look)
        for name in pair:
            if name in ERRORS:
                errors[name] = gr.HTML(elem_classes="hf-field-error", elem_id=f"error-{name}")
    ordered = [fields[name] for name in FIELDS]
    hint = gr.HTML(describe_form(*(field.value for field in ordered))[0])
    return ordered, [errors[name] for name in ERRORS], hint
