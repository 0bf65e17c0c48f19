"""The fields of the Train tab: components in their order, filled in for the first task."""

import dataclasses

import gradio as gr

from ...core.fields import task_choices
from ...core.upload import SUFFIXES
from ...ui import notices
from .form import (
    CHOICES,
    ERRORS,
    FIELDS,
    LABELS,
    LIMITS,
    SWITCHES,
    TRAINING_FIELDS,
    choose_task,
    describe_form,
)


@dataclasses.dataclass
class Form:
    """The components by their names: the fields in the order of FIELDS, and what is shown beside them.

    `shown` has the upload as "table", the line under the settings as "hint", and the line under a field.
    """

    fields: dict[str, gr.components.Component]
    shown: dict[str, gr.components.Component]

    def named(self, *names: str) -> dict:
        return {name: self.fields[name] for name in names}


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
    filled = choose_task(label)
    filled |= {"task": {"value": label, "choices": list(task_choices())}, "seed": {"value": "0"}}
    looks = {name: {k: v for k, v in look.items() if k != "__type__"} for name, look in filled.items()}
    fields, shown = {}, {}
    with gr.Row(elem_classes="hf-fields"):
        for name in FIELDS:
            wide = "hf-wide" if name in ("task", "model", "probe") else None
            fields[name] = build_field(name, {**looks[name], **({"elem_classes": wide} if wide else {})})
            if name in ERRORS:
                shown[f"{name}_error"] = notices.build_error_line(f"error-{name}")
            if name == "task":
                table = gr.File(label=LABELS["table"], file_types=list(SUFFIXES), height=96, min_width=0)
                table.elem_id, table.elem_classes = "field-table", ["hf-wide"]
                shown["table"], table.visible = table, looks["table"]["visible"]
                shown["table_error"] = notices.build_error_line("error-table")
    shown["hint"] = gr.HTML(describe_form({name: field.value for name, field in fields.items()})["hint"])
    return Form(fields, shown)
