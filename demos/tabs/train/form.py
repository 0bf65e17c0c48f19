"""The settings of a run as the Train tab asks for them: read, checked, filled in, laid out."""

import dataclasses
import functools
from collections.abc import Collection

import gradio as gr
import torch

from hf_attn.architectures.families import architectures_of
from hf_attn.architectures.optimizers import OPTIMIZERS
from hf_attn.architectures.registry import build_model, check_recipe
from hf_attn.architectures.settings import apply_settings, setting_types
from hf_attn.models.score_functions import SCORE_FUNCTIONS
from hf_attn.tasks import TASKS, Recipe, Task, build_task

from ...core.fields import (
    CANNOT_START,
    LARGEST_SEED,
    FieldError,
    blame,
    error_lines,
    position_choices,
    read_number,
    refuse_form,
    share_task,
    task_choices,
)
from ...core.limits import limits_here, refuse_longer
from ...core.upload import SUFFIXES, Table
from ...jobs.probe import Probe, read_own_probe
from ...session.model_input import name_split
from ...ui import formatting, notices

PRESETS = {
    "quick": "quick",
    "small": "product",
    "document": "document",
}  # the first that a task has is offered
# fields of numbers: whether whole, lowest, highest (None: as this server allows), and an example
LIMITS: dict[str, tuple] = {
    "hidden_size": (True, 8, 512, 64),
    "num_attention_heads": (True, 1, 16, 4),
    "attention_size": (True, 1, 512, 64),
    "encoder_layers": (True, 1, 6, 2),
    "decoder_layers": (True, 1, 6, 2),
    "num_hidden_layers": (True, 1, 6, 2),
    "learning_rate": (False, 0.00001, 0.1, 0.003),
    "steps": (True, 1, None, 300),
    "seed": (True, 0, LARGEST_SEED, 0),
}
# of the model; which of them are shown is the architecture's to say
MODEL_FIELDS = ("hidden_size", "num_attention_heads", "attention_size", "encoder_layers", "decoder_layers")
MODEL_FIELDS += ("num_hidden_layers", "position_type", "bidirectional", "input_feeding")
TRAINING_FIELDS = ("learning_rate", "steps", "seed")
CHOSEN = ("task", "column_1", "column_2", "model", "size", "preset")
FIELDS = (*CHOSEN, *MODEL_FIELDS, "optimizer", *TRAINING_FIELDS, "probe")
ERRORS = ("task", "table", "size", *LIMITS, "probe")  # fields that can be wrong
LABELS = {
    "task": "Task",
    "table": "Your table",
    "model": "Model",
    "size": "Longest",
    "column_1": "Column of texts",
    "column_2": "Column of answers",
    "preset": "Size",
    "hidden_size": "Hidden size",
    "num_attention_heads": "Heads",
    "attention_size": "Attention size",
    "encoder_layers": "Encoder layers",
    "decoder_layers": "Decoder layers",
    "num_hidden_layers": "Layers",
    "position_type": "Positions",
    "bidirectional": "Read both ways",
    "input_feeding": "Input feeding",
    "optimizer": "Optimizer",
    "learning_rate": "Learning rate",
    "steps": "Steps",
    "seed": "Seed",
    "probe": "Your example to watch (optional)",
}
CHOICES = {
    "hidden_size": (32, 64, 128, 256),
    "num_attention_heads": (1, 2, 4, 8),
    "attention_size": (32, 64, 128),
    "encoder_layers": (1, 2, 3, 4),
    "decoder_layers": (1, 2, 3, 4),
    "num_hidden_layers": (1, 2, 3, 4, 6),
    "optimizer": tuple((row.title, name) for name, row in OPTIMIZERS.items()),
}
RAIL = ("task", "column_1", "column_2", "model")  # always seen; the others are in the fold
# the others are in sight once the fold is open
FIRST_MODELS = ("transformer", "additive", "none")
SWITCHES = ("bidirectional", "input_feeding")
RECIPE = ("task", "model", "size", "preset")  # what chooses a recipe
FILLED = (*MODEL_FIELDS, "optimizer", "learning_rate", "steps")  # what a recipe says
LONGEST_EXAMPLE = 90  # characters of an example in the line under the settings


def fields_of(task: str, model: str) -> dict[str, str]:
    """{field: its name in the config} of an architecture; FieldError if it cannot learn the task."""
    architecture = architectures_of(TASKS[task].kind).get(model)
    if architecture is None:
        raise FieldError("task", f"This model cannot learn {TASKS[task].title}: choose another model.")
    settings = setting_types(TASKS[task], model)["model"]
    names = {name: name for name in MODEL_FIELDS}
    if architecture.family.is_recurrent:
        names |= {"num_hidden_layers": "num_layers"}
    score = SCORE_FUNCTIONS[architecture.fields.get("score_function", "none")]
    silent = set() if score is not None and score.uses_attention_size else {"attention_size"}
    silent |= {"input_feeding"} if score is None else set()
    return {name: known for name, known in names.items() if known in settings and name not in silent}


def read_field(field: str, text: object) -> float:
    is_whole, low, high, example = LIMITS[field]
    return read_number(
        field, text, low, limits_here().steps if high is None else high, whole=is_whole, example=example
    )


def read_options(values: dict, table: Table | None) -> dict[str, object]:
    """The task's options, its size or the table and columns; FieldError for another size, or no table."""
    name, option, title, sizes, _ = task_choices()[values["task"]]
    options = {}
    if table is not None and table.fault:
        raise FieldError("table", table.fault)
    if table is None and TASKS[name].column_options:
        raise FieldError("table", "Choose a table first: CSV, TSV or JSON Lines, in UTF-8.")
    if table is not None and TASKS[name].file_label:  # a path comes from an upload only
        chosen = zip(TASKS[name].column_options, (values["column_1"], values["column_2"]), strict=False)
        options = {"path": str(table.path), **{option: column or "" for option, column in chosen}}
    if option is None:
        return options
    size = find_size(sizes, values["size"])
    if size is None:
        raise FieldError("size", f"{title}: choose one of {', '.join(map(str, sizes))}.")
    return {**options, option: size}


def find_size(sizes: tuple, given: object) -> object:
    """The size that was chosen or typed; None where it is not offered."""
    return next((size for size in sizes if str(size) == str(given).strip()), None)


def read_form(values: dict, table: Table | None = None) -> tuple[Task, Recipe, int]:
    """Task, recipe and seed of the fields' values and of an uploaded table; FieldError if one is wrong."""
    name, model = task_choices()[values["task"]][0], values["model"]
    shown = fields_of(name, model)
    check_preset(name, model, values["preset"])
    numbers = {field: read_field(field, values[field]) for field in number_fields(values)}
    seed = numbers.pop("seed")
    chosen = numbers | {field: values[field] for field in shown if field not in LIMITS}
    settings = {shown.get(field, field): value for field, value in chosen.items()}
    settings |= {"optimizer": values["optimizer"], "preset": PRESETS[values["preset"]]}
    settings |= read_options(values, table)
    words = functools.partial(plain_words, table=table)
    with blame("task" if table is None else "table", words):
        task, recipe = apply_settings(name, settings, model)
        task = share_task(task) if table is None else table.share_task(task)
        _ = task.vocabulary  # what is read from disk is read here
    recipe = dataclasses.replace(recipe, report_every=1, evaluate_every=max(1, recipe.steps // 20))
    with blame("num_attention_heads" if "num_attention_heads" in shown else "hidden_size", words):
        parameters = build_empty(task, recipe).num_parameters()
    with blame("hidden_size", words):
        limits_here().refuse_more("parameters", parameters)
        check_recipe(task, recipe, most=limits_here().training_bytes)
    return task, recipe, seed


def number_fields(values: dict) -> list[str]:
    shown = fields_of(task_choices()[values["task"]][0], values["model"])
    return [field for field in (*shown, *TRAINING_FIELDS) if field in LIMITS]


def find_errors(first: FieldError, values: dict) -> list[FieldError]:
    """The first error, and one for every other number that cannot be read."""
    found = [first]
    try:
        numbers = number_fields(values)
    except FieldError:  # a model that does not learn the task
        return found
    for field in numbers:
        try:
            read_field(field, values[field])
        except FieldError as error:
            found.append(error)
    return found


def read_probe(task: Task, values: dict) -> Probe | None:
    """The example to watch, None for a validation one; FieldError where the task cannot read it."""
    written = str(values["probe"] or "")
    with blame("probe"):
        refuse_longer("example", written, limits_here().characters)
        return read_own_probe(task, written)


def offer_heads(hidden_size: object) -> tuple[int, ...]:
    """The numbers of heads that divide a hidden size; the usual ones while it is not a number."""
    low, high = LIMITS["num_attention_heads"][1:3]
    try:
        size = read_field("hidden_size", hidden_size)
    except FieldError:
        return CHOICES["num_attention_heads"]
    return tuple(heads for heads in range(low, high + 1) if size % heads == 0)


def build_empty(task: Task, recipe: Recipe) -> torch.nn.Module:
    """The model without memory for its weights: to check the sizes, and to count."""
    with torch.device("meta"):
        return build_model(task, recipe)


def plain_words(sentence: str, table: Table | None = None) -> str:
    """An error of the package, with the labels of the page."""
    if table is not None:
        sentence = sentence.replace(str(table.path), table.name)
    for name in sorted(MODEL_FIELDS, key=len, reverse=True):
        words = LABELS[name].lower()
        sentence = sentence.replace(f"{name}=", f"{words} ").replace(name, words)
    if table is not None and sentence.startswith(table.name):
        return sentence
    return sentence[:1].upper() + sentence[1:]


def presets_of(name: str, model: str) -> list[str]:
    """The sizes that an architecture has for a task; FieldError where it cannot learn it."""
    fields_of(name, model)
    recipes = build_task(name).recipes_of(model)
    return [label for label, preset in PRESETS.items() if preset in recipes]


def check_preset(name: str, model: str, preset: str) -> None:
    if preset not in presets_of(name, model):
        raise FieldError("task", f"This model has no such size for {TASKS[name].title}: choose another size.")


def fill_form(label: str, model: str, size: object, preset: str) -> dict[str, dict]:
    """{field: {visible, value}} of the recipe; FieldError if the model cannot learn the task so."""
    name, option, _, sizes, _ = task_choices()[label]
    check_preset(name, model, preset)
    chosen = find_size(sizes, size)  # None where one was typed that is not offered
    options = {} if chosen is None else {option: chosen}
    recipe = build_task(name, **options).recipes_of(model)[PRESETS[preset]]
    config, shown = architectures_of(TASKS[name].kind)[model].family.config, fields_of(name, model)
    filled = {}
    for field in MODEL_FIELDS:
        filled[field] = {"visible": field in shown}
        if field in shown:
            value = recipe.model.get(shown[field], getattr(config, shown[field]))
            filled[field]["value"] = recipe.model["hidden_size"] if value is None else value
    filled["optimizer"] = {"value": recipe.optimizer}
    filled["learning_rate"] = {"value": f"{recipe.learning_rate:g}"}
    filled["steps"] = {"value": str(recipe.steps)}
    return filled


def fill(values: dict) -> dict[str, dict]:
    """As `fill_form` of these fields; nothing for a model that does not learn the task: another comes."""
    try:
        return fill_form(*(values[name] for name in RECIPE))
    except FieldError:
        return {}


def choose_optimizer(values: dict) -> dict:
    """Another optimizer: the learning rate that suits it."""
    if not (filled := fill(values)):
        return {}
    rate = float(filled["learning_rate"]["value"]) * OPTIMIZERS[values["optimizer"]].rate
    return {"learning_rate": f"{rate:g}"}


def choose_model(values: dict) -> dict:
    """Another model: the preset, and what its recipe says."""
    try:
        presets = presets_of(task_choices()[values["task"]][0], values["model"])
    except FieldError:  # the model of the task before: another is on its way
        return {}
    preset = values["preset"] if values["preset"] in presets else presets[0]
    filled = fill(values | {"preset": preset})
    return {
        "preset": gr.update(choices=presets, value=preset, visible=len(presets) > 1),
        **{field: gr.update(**change) for field, change in filled.items()},
    }


def choose_task(label: str) -> dict:
    """Another task: its file, columns, models and sizes, and what the first of its recipes says."""
    name, option, title, sizes, first = task_choices()[label]
    task = build_task(name, **({} if option is None else {option: first}))
    model, known = task.recipe.architecture, architectures_of(task.kind)
    example = "a validation one" if task.column_options else task.worked_example.source
    # without a word that all but one share, the names are not cut in a narrow field
    names = sorted(known, key=lambda name: name not in FIRST_MODELS)
    choices = [(known[name].title.replace(" attention (", " ("), name) for name in names]
    return {
        "table": show_file(name),
        **show_columns(name, None),
        "model": gr.update(choices=choices, value=model, interactive=len(known) > 1),
        "size": gr.update(label=title, choices=list(sizes), value=first, visible=len(sizes) > 1),
        **choose_model({"task": label, "model": model, "size": first, "preset": presets_of(name, model)[0]}),
        "probe": gr.update(value="", placeholder=example),
    }


def show_file(name: str) -> dict:
    """The field for a file of the visitor's own, empty; hidden where a task reads none."""
    return gr.update(visible=bool(TASKS[name].file_label), value=None, label=TASKS[name].file_label)


def show_columns(name: str, table: Table | None) -> dict[str, dict]:
    """The two fields that name a table's columns; hidden where no table is read."""
    if table is None or table.fault or not (columns := TASKS[name].column_options):
        return {"column_1": gr.update(visible=False), "column_2": gr.update(visible=False)}
    guessed = table.guess_columns(columns)
    return {
        field: gr.update(visible=True, choices=list(table.columns), value=column, label=f"Column: {option}")
        for field, option, column in zip(("column_1", "column_2"), columns, guessed, strict=True)
    }


def is_complete(values: dict) -> bool:
    """Whether the model learns the task; while it does not, the model of the task before stands there."""
    return values["model"] in architectures_of(TASKS[task_choices()[values["task"]][0]].kind)


def describe_run(task: Task, recipe: Recipe) -> dict[str, str]:
    """The lines under Train and under the settings, for settings in which nothing is wrong."""
    example, model = task.worked_example, build_empty(task, recipe)
    source = formatting.shorten(example.source, LONGEST_EXAMPLE)
    shown = f"{source} → {example.target}" if example.target else source
    split = name_split(task, example.source) or "a hash decides what is held out"
    sizes = f"{notices.name_with_sizes(model.config)}, {formatting.size_in_words(model)} parameters"
    return {
        "note": notices.note(f"{formatting.count(recipe.steps)} steps. {sizes}."),
        "hint": notices.note(f"{shown} ({split}). {task.describe_data()}".strip()),
        **error_lines(ERRORS),
    }


def describe_error(error: FieldError, values: dict, table: Table | None) -> dict[str, str]:
    """A sentence under each wrong field, the first under Train too; a table not yet chosen is not wrong."""
    if error.field == "table" and table is None:
        return {"note": notices.note(str(error)), "hint": "", **error_lines(ERRORS)}
    return {"hint": CANNOT_START, **refuse_form(LABELS, ERRORS, *find_errors(error, values))}


@dataclasses.dataclass
class Form:
    """The components by their names: the fields, and what is shown beside them.

    `shown` has the upload as "table", the line under the settings as "hint", and the line under a field.
    """

    fields: dict[str, gr.components.Component] = dataclasses.field(default_factory=dict)
    shown: dict[str, gr.components.Component] = dataclasses.field(default_factory=dict)

    def named(self, *names: str) -> dict:
        return {name: self.fields[name] for name in names}

    def build(self, names: Collection[str]) -> None:
        """Lay out these fields, each with the line that says what is wrong with it."""
        looks = first_looks()
        with gr.Row(elem_classes="hf-fields"):
            for name in names:
                wide = {"elem_classes": "hf-wide"} if name in (*RAIL, "probe") else {}
                self.fields[name] = build_field(name, {**looks[name], **wide})
                if name in ERRORS:
                    self.shown[f"{name}_error"] = notices.build_error_line(f"error-{name}")
                if name == "task":
                    self.shown |= build_upload(looks["table"])


def first_looks() -> dict[str, dict]:
    """{field: what it holds when the page opens}: the first task and its recipe."""
    label = next(iter(task_choices()))
    filled = choose_task(label)
    filled |= {"task": {"value": label, "choices": list(task_choices())}, "seed": {"value": "0"}}
    return {name: {k: v for k, v in look.items() if k != "__type__"} for name, look in filled.items()}


def build_field(name: str, look: dict) -> gr.components.Component:
    """One field; where a number can be chosen it can be typed too, and `read_form` says what is allowed."""
    look = {"label": LABELS[name], "elem_id": f"field-{name}", "min_width": 0, **look}
    if name in SWITCHES:
        return gr.Checkbox(elem_classes="switch", **look)
    if name in (*TRAINING_FIELDS, "probe"):
        return gr.Textbox(max_lines=1, **look)
    offered = position_choices() if name == "position_type" else CHOICES.get(name, ())
    choices = look.pop("choices", list(offered))
    if name == "model":
        return gr.Radio(choices, **look)
    return gr.Dropdown(choices, allow_custom_value=name in LIMITS or name == "size", **look)


def build_upload(look: dict) -> dict[str, gr.components.Component]:
    """The field for a file of the visitor's own, and the line under it."""
    table = gr.File(label=LABELS["table"], file_types=list(SUFFIXES), height=96, min_width=0)
    table.elem_id, table.elem_classes, table.visible = "field-table", ["hf-wide"], look["visible"]
    return {"table": table, "table_error": notices.build_error_line("error-table")}
