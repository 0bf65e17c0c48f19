"""The settings of a run as the Train tab asks for them: read, checked, and filled in from the recipes."""

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence

import gradio as gr
import torch

from hf_attn.architectures.families import architectures_of
from hf_attn.architectures.optimizers import OPTIMIZERS
from hf_attn.architectures.registry import build_model, check_recipe
from hf_attn.architectures.settings import apply_settings, setting_types
from hf_attn.models.positions import POSITION_TYPES
from hf_attn.models.score_functions import SCORE_FUNCTIONS
from hf_attn.tasks import TASKS, Recipe, Task, build_task
from hf_attn.tasks.options import SizeChoice

from ...core.limits import limits_here, refuse_longer
from ...core.upload import Table
from ...jobs.probe import Probe, read_own_probe
from ...jobs.training_job import LARGEST_SEED
from ...ui import formatting, notices

NO_SIZE = SizeChoice(None, "Longest", (), None)
PRESETS = {"small": "product", "document": "document"}
# fields that hold a number: its type, lowest, highest (None: as this server allows), and what would work
LIMITS: dict[str, tuple] = {
    "hidden_size": (int, 8, 512, 64),
    "num_attention_heads": (int, 1, 16, 4),
    "attention_size": (int, 1, 512, 64),
    "encoder_layers": (int, 1, 6, 2),
    "decoder_layers": (int, 1, 6, 2),
    "num_hidden_layers": (int, 1, 6, 2),
    "learning_rate": (float, 0.00001, 0.1, 0.003),
    "steps": (int, 1, None, 300),
    "seed": (int, 0, LARGEST_SEED, 0),
}
# of the model; which of them are shown is the architecture's to say
MODEL_FIELDS = ("hidden_size", "num_attention_heads", "attention_size", "encoder_layers", "decoder_layers")
MODEL_FIELDS += ("num_hidden_layers", "position_type", "bidirectional", "input_feeding")
TRAINING_FIELDS = ("learning_rate", "steps", "seed")
CHOSEN = ("task", "column_1", "column_2", "model", "size", "preset")
FIELDS = (*CHOSEN, *MODEL_FIELDS, "optimizer", *TRAINING_FIELDS, "probe")
OLDER = {"optimizer": "adamw"}  # what links mean that were made before there was such a field
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
    "position_type": POSITION_TYPES,
    "optimizer": tuple((row.title, name) for name, row in OPTIMIZERS.items()),
}
SWITCHES = ("bidirectional", "input_feeding")
LONGEST_EXAMPLE = 90  # characters of an example in the line under the settings


class FieldError(ValueError):
    """What a visitor wrote cannot be used; `field` is where."""

    def __init__(self, field: str, sentence: str):
        super().__init__(sentence)
        self.field = field


def offers() -> dict[str, tuple]:
    """Every task by its label, in the order of TASKS: (name, option of its size, label, values, first)."""
    offered = {}
    for name, task in TASKS.items():
        for size in task.sizes or (NO_SIZE,):
            offered[size.title or task.title] = (name, size.option, size.label, size.values, size.default)
    return offered


@functools.lru_cache(maxsize=16)
def share_task(task: Task) -> Task:
    """The first task that equals this one: what it has read from disk is read once for all visitors."""
    return task


def fields_of(task: str, model: str) -> dict[str, str]:
    """The settings of the model that mean something to an architecture: field → its name there.

    Raises:
        FieldError: it does not learn such a task.
    """
    architecture = architectures_of(TASKS[task].kind).get(model)
    if architecture is None:
        raise FieldError("task", f"{TASKS[task].title} is not learned by this model: choose another model.")
    there = setting_types(TASKS[task], model)["model"]
    names = {name: name for name in MODEL_FIELDS}
    if architecture.family.is_recurrent:
        names |= {"num_hidden_layers": "num_layers"}
    score = SCORE_FUNCTIONS[architecture.fields.get("score_function", "none")]
    silent = set() if score is not None and score.uses_attention_size else {"attention_size"}
    silent |= {"input_feeding"} if score is None else set()
    return {name: known for name, known in names.items() if known in there and name not in silent}


def read_number(field: str, text: object) -> float:
    """A number within its limits, or a FieldError that says what would work."""
    kind, low, high, works = LIMITS[field]
    high = limits_here().steps if high is None else high
    number = parse_number(text, kind)
    if not low <= number <= high:
        whole = f"a whole number from {low} to {formatting.count(high)}; {works} works."
        raise FieldError(
            field,
            refuse_text(text, whole if kind is int else f"between {low:.5f} and {high}; {works} works."),
        )
    return number


def parse_number(text: object, kind: type[int] | type[float]) -> float:
    """A typed number, in any script's digits; NaN where it is none of this kind."""
    try:
        return kind(str("" if text is None else text).strip().replace(formatting.NARROW, ""))
    except ValueError:
        return math.nan


def refuse_text(text: object, remedy: str) -> str:
    """What was typed will not do, and what would."""
    typed = formatting.shorten(str("" if text is None else text).strip(), 20)
    return f"{typed} will not do: {remedy}" if typed else f"This is empty: {remedy}"


def count_chosen(chosen: Sequence) -> str:
    """How many are chosen, as the beginning of a sentence."""
    return {0: "None is chosen", 1: "Only one is chosen"}.get(len(chosen), f"{len(chosen)} are chosen")


def read_options(values: dict, table: Table | None) -> dict[str, object]:
    """The task's options: its size, or the table and its columns.

    Raises:
        FieldError: a size that is not offered, or no table yet.
    """
    name, option, title, sizes, _ = offers()[values["task"]]
    given = {}
    if table is not None and table.fault:
        raise FieldError("table", table.fault)
    if table is None and TASKS[name].column_options:
        raise FieldError("table", "Choose a table first: CSV, TSV or JSON Lines, in UTF-8.")
    if table is not None and TASKS[name].file_label:  # a path comes from an upload only
        chosen = zip(TASKS[name].column_options, (values["column_1"], values["column_2"]), strict=False)
        given = {"path": str(table.path), **{option: column or "" for option, column in chosen}}
    if option is None:
        return given
    size = find_size(sizes, values["size"])
    if size is None:
        raise FieldError("size", f"{title}: choose one of {', '.join(map(str, sizes))}.")
    return {**given, option: size}


def find_size(sizes: tuple, given: object) -> object:
    """The size that was chosen or typed; None where it is not offered."""
    return next((size for size in sizes if str(size) == str(given).strip()), None)


def read_form(*form, table: Table | None = None) -> tuple[Task, Recipe, int]:
    """Task, recipe and seed of the settings.

    Args:
        *form: values in the order of FIELDS.
        table: what the visitor has uploaded.

    Raises:
        FieldError: a field holds what cannot be used.
    """
    values = dict(zip(FIELDS, form, strict=True))
    name, model = offers()[values["task"]][0], values["model"]
    shown = fields_of(name, model)
    if values["preset"] not in presets_of(name, model):
        raise FieldError("task", f"{TASKS[name].title} is not learned in this size by this model.")
    given = {field: read_number(field, values[field]) for field in numbers_of(values)}
    seed = given.pop("seed")
    given |= {field: values[field] for field in shown if field not in LIMITS}
    settings = {shown.get(field, field): value for field, value in given.items()}
    settings["optimizer"] = values["optimizer"]
    options = read_options(values, table)
    blamed = "task" if table is None else "table"
    try:
        settings |= {**options, "preset": PRESETS[values["preset"]]}
        task, recipe = apply_settings(name, settings, model)
        task = share_task(task) if table is None else table.share_task(task)
        _ = task.vocabulary  # what is read from disk is read here
        blamed = "num_attention_heads" if "num_attention_heads" in shown else "hidden_size"
        every = max(1, recipe.steps // 20)
        recipe = dataclasses.replace(recipe, report_every=1, evaluate_every=every)
        model = build_empty(task, recipe)
        blamed = "hidden_size"
        limits_here().refuse_more("parameters", model.num_parameters())
        check_recipe(task, recipe, most=limits_here().training_bytes)
    except (ValueError, ImportError) as error:
        raise FieldError(blamed, plain_words(str(error), table)) from error
    return task, recipe, seed


def numbers_of(values: dict) -> list[str]:
    """The fields of numbers that a task and a model have."""
    shown = fields_of(offers()[values["task"]][0], values["model"])
    return [field for field in (*shown, *TRAINING_FIELDS) if field in LIMITS]


def all_wrong(first: FieldError, *form) -> list[FieldError]:
    """What was found first, and every other number that cannot be read."""
    values, found = dict(zip(FIELDS, form, strict=True)), [first]
    try:
        numbers = numbers_of(values)
    except FieldError:  # a model that does not learn the task
        return found
    for field in numbers:
        try:
            read_number(field, values[field])
        except FieldError as error:
            found.append(error)
    return found


def read_probe(task: Task, *form) -> Probe | None:
    """The example to watch; None where the visitor leaves it to us.

    Raises:
        FieldError: the task does not read it.
    """
    try:
        written = str(form[FIELDS.index("probe")] or "")
        refuse_longer("example", written, limits_here().characters)
        return read_own_probe(task, written)
    except ValueError as error:
        raise FieldError("probe", str(error)) from error


def offer_heads(hidden_size: object) -> tuple[int, ...]:
    """Numbers of heads into which a hidden size can be divided; the usual ones while it is none."""
    low, high = LIMITS["num_attention_heads"][1:3]
    try:
        size = read_number("hidden_size", hidden_size)
    except FieldError:
        return CHOICES["num_attention_heads"]
    return tuple(heads for heads in range(low, high + 1) if size % heads == 0)


def build_empty(task: Task, recipe: Recipe) -> torch.nn.Module:
    """The model without memory for its weights: to check the sizes, and to count."""
    with torch.device("meta"):
        return build_model(task, recipe)


def plain_words(sentence: str, table: Table | None = None) -> str:
    """An error of the package with the names that stand on the page."""
    if table is not None:
        sentence = sentence.replace(str(table.path), table.name)
    for name in sorted(MODEL_FIELDS, key=len, reverse=True):
        words = LABELS[name].lower()
        sentence = sentence.replace(f"{name}=", f"{words} ").replace(name, words)
    if table is not None and sentence.startswith(table.name):
        return sentence
    return sentence[:1].upper() + sentence[1:]


def presets_of(name: str, model: str) -> list[str]:
    """The sizes that an architecture has for a task.

    Raises:
        FieldError: it does not learn such a task.
    """
    fields_of(name, model)
    recipes = build_task(name).recipes_of(model)
    return [label for label, preset in PRESETS.items() if preset in recipes]


def fill_form(label: str, model: str, size: object, preset: str) -> dict[str, dict]:
    """What the recipe says for the fields of model and training: {field: {visible, value}}.

    Raises:
        FieldError: the architecture does not learn such a task, or not in such a size.
    """
    name, option, _, sizes, _ = offers()[label]
    if preset not in presets_of(name, model):
        raise FieldError("task", f"{TASKS[name].title} is not learned in this size by this model.")
    chosen = find_size(sizes, size)  # None where one was typed that is not offered
    given = {} if chosen is None else {option: chosen}
    recipe = build_task(name, **given).recipes_of(model)[PRESETS[preset]]
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


def choose_optimizer(label: str, model: str, size: object, preset: str, optimizer: str) -> str | dict:
    """Another optimizer: the learning rate that suits it."""
    try:
        rate = float(fill_form(label, model, size, preset)["learning_rate"]["value"])
    except FieldError:  # of the task before: the fields are on their way
        return gr.skip()
    return f"{rate * OPTIMIZERS[optimizer].rate:g}"


def choose_model(label: str, model: str, size: object, preset: str) -> list:
    """Another model: [preset, fields of FILLED…]."""
    try:
        presets = presets_of(offers()[label][0], model)
    except FieldError:  # the model of the task before: another is on its way
        return [gr.skip()] * (1 + len(FILLED))
    preset = preset if preset in presets else presets[0]
    shown = gr.update(choices=presets, value=preset, visible=len(presets) > 1)
    return [shown, *[gr.update(**change) for change in fill_form(label, model, size, preset).values()]]


def choose_task(label: str) -> list:
    """Another task: [file, column, column, model, size, preset, fields of FILLED…]."""
    name, _, title, sizes, first = offers()[label]
    model, known = build_task(name).recipe.architecture, architectures_of(TASKS[name].kind)
    size = gr.update(label=title, choices=list(sizes), value=first, visible=len(sizes) > 1)
    # without a word that all but one share, the names are not cut in a narrow field
    choices = [(known[key].title.replace(" attention (", " ("), key) for key in known]
    named = gr.update(choices=choices, value=model, interactive=len(known) > 1)
    files = [show_file(name), *show_columns(name, None)]
    return [*files, named, size, *choose_model(label, model, first, "small")]


def clear_probe(label: str) -> dict:
    """Another task: its own held-out example is watched unless another is written."""
    name = offers()[label][0]
    example = "a held-out one" if TASKS[name].column_options else build_task(name).worked_example.source
    return gr.update(value="", placeholder=example)


def show_file(name: str) -> dict:
    """The field for a file of the visitor's own, empty; hidden where a task reads none."""
    return gr.update(visible=bool(TASKS[name].file_label), value=None, label=TASKS[name].file_label)


def show_columns(name: str, table: Table | None) -> list[dict]:
    """The two fields that name a table's columns; hidden where a task reads none, or none is there."""
    if table is None or table.fault or not (columns := TASKS[name].column_options):
        return [gr.update(visible=False)] * 2
    guessed = table.guess_columns(columns)
    return [
        gr.update(visible=True, choices=list(table.columns), value=column, label=f"Column: {option}")
        for option, column in zip(columns, guessed, strict=True)
    ]


FILLED = (*MODEL_FIELDS, "optimizer", "learning_rate", "steps")  # what a recipe says


def describe_form(*form, table: Table | None = None) -> list:
    """[the line under the settings, what is wrong under each field…, and that again for another place]."""
    values = dict(zip(FIELDS, form, strict=True))
    if values["model"] not in architectures_of(TASKS[offers()[values["task"]][0]].kind):
        return [gr.skip()] * (2 + len(ERRORS))  # of the task before: another is on its way
    try:
        task, recipe, _ = read_form(*form, table=table)
        read_probe(task, *form)
    except FieldError as error:
        if error.field == "table" and table is None:  # nothing is wrong yet
            return [notices.note(str(error)), *errors_of(ERRORS), ""]
        hint = notices.note("Nothing starts until the settings are in their range.")
        return [hint, *errors_of(ERRORS, *all_wrong(error, *form)), refuse(error)]
    example = task.worked_example
    source = formatting.shorten(example.source, LONGEST_EXAMPLE)
    shown = f"{source} → {example.target}" if example.target else source
    size = formatting.size_in_words(build_empty(task, recipe))
    return [notices.note(f"{shown}; held out by hash. {size} parameters."), *errors_of(ERRORS), ""]


def refuse(error: FieldError, labels: Mapping[str, str] = LABELS) -> str:
    """The sentence under the button that starts: the field itself may be out of sight."""
    is_named = error.field == "size"  # which the task calls by a name of its own
    return notices.refusal(str(error) if is_named else f"{labels[error.field]}: {error}")


def errors_of(fields: Iterable[str], *errors: FieldError) -> list[str]:
    """One sentence a field; empty where nothing is wrong."""
    said = {error.field: notices.field_error(str(error)) for error in errors}
    return [said.get(field, "") for field in fields]
