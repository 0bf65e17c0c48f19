"""The fields of the Train tab: components in their order, filled in for the first task."""

import dataclasses

import gradio as gr

from ...core.fields import task_choices
from ...core.upload import SUFFIXES
from ...ui import notices
from .form import (
    CHOICES,
    CHOSEN,
    ERRORS,
    FIELDS,
    FILLED,
    LABELS,
    LIMITS,
    SWITCHES,
    TRAINING_FIELDS,
    choose_task,
    clear_probe,
    describe_form,
)


@dataclasses.dataclass
class Form:
    """The components.

    Attributes:
        fields: in the order of FIELDS.
        errors: lines in the order of ERRORS.
        table: the upload.
        hint: the last line.
    """

    fields: dict[str, gr.components.Component]
    errors: dict[str, gr.HTML]
    table: gr.File
    hint: gr.HTML

    @property
    def values(self) -> list:
        return [self.fields[name] for name in FIELDS]

    @property
    def lines(self) -> list:
        return [self.errors[name] for name in ERRORS]

    def named(self, *names: str) -> list:
        return [self.fields[name] for name in names]


def build_field(name: str, look: dict) -> gr.components.Component:
    """One field; where a number can be chosen it can be typed too, and `read_form` says what is allowed."""
    look = {"label": LABELS[name], "elem_id": f"field-{name}", "min_width": 0, **look}
    if name in SWITCHES:
        return gr.Checkbox(elem_classes="switch", **look)
    if name in (*TRAINING_FIELDS, "probe"):
        return gr.Textbox(max_lines=1, **look)
    choices = look.pop("choices", list(CHOICES.get(name, ())))
    return gr.Dropdown(choices, allow_custom_value=name in LIMITS or name == "size", **look)


def build_form() -> Form:
    """Lay the settings out, filled in for the first task."""
    label = next(iter(task_choices()))
    file, *changes = choose_task(label)
    filled = dict(zip((*CHOSEN[1:], *FILLED), changes, strict=True))
    filled |= {"task": {"value": label, "choices": list(task_choices())}, "seed": {"value": "0"}}
    filled["probe"] = clear_probe(label)
    looks = {name: {k: v for k, v in look.items() if k != "__type__"} for name, look in filled.items()}
    fields, errors = {}, {}
    with gr.Row(elem_classes="hf-fields"):
        for name in FIELDS:
            wide = "hf-wide" if name in ("task", "model", "probe") else None
            fields[name] = build_field(name, {**looks[name], **({"elem_classes": wide} if wide else {})})
            if name in ERRORS:
                errors[name] = notices.build_error_line(f"error-{name}")
            if name == "task":
                table = gr.File(label=LABELS["table"], file_types=list(SUFFIXES), height=96, min_width=0)
                table.visible, table.elem_id, table.elem_classes = file["visible"], "field-table", ["hf-wide"]
                errors["table"] = notices.build_error_line("error-table")
    form = Form(fields, errors, table, gr.HTML())
    form.hint.value = describe_form(*(field.value for field in form.values))[0]
    return form
