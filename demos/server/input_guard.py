"""The page's door: what no field of the page can hold is refused in a sentence, before a handler sees it.

What a visitor types may be wrong in many ways, and each tab says under the field what is. Beside that anyone
can send the server any JSON for any field: a list for a number, a choice that is not offered, half of a pair
of surrogates. Here that is looked at once for all fields, so that a handler gets a text from a field of text,
a number from a number, and one of its choices from a list of choices.
"""

import copy
import datetime
import html
import json
import logging
import os
import re

import gradio as gr
from fastapi.exceptions import RequestValidationError
from gradio import components
from gradio.blocks import BlocksConfig, convert_component_dict_to_list
from gradio.components import Component
from gradio.exceptions import InvalidPathError
from starlette.middleware import Middleware

from hf_attn.utils.text import replace_surrogates

from ..core.events import refusal
from ..core.limits import HOME, choose_limits, limits_here
from ..links.codec import allowed_in, can_hold
from ..ui import formatting
from .gate import Gate, refuse_body
from .uploads import UploadRefused, Uploads, refuse_upload

MOST_CHARACTERS = 1_000_000  # of any text: below that the field's own limit is said under it
LARGEST = 2**53  # that a browser's numbers count to
LONGEST_SAID = 40  # characters of what is refused
DEEPEST = 40  # lists in lists
FAILED = "This failed here, and the server's log says why. What is shown stays as it was."
SESSION = re.compile(r"[\w-]{1,64}", re.ASCII)
STRANGE_SESSION = "session_hash: give up to 64 letters and digits."
TRIED = "6.31"  # of Gradio: with it the overrides below were measured (benchmarks/LOG.md)
LOG = logging.getLogger(__name__)
TYPED = (components.Textbox, components.Button)
GIVEN = (components.Number, components.Slider, components.Checkbox)
CHOSEN = (components.Dropdown, components.Radio, components.CheckboxGroup)


def mend_text(value: object, depth: int = 0) -> object:
    """The same with � for each lone surrogate, which no answer can carry; gr.Error if nested too deep."""
    if isinstance(value, str):
        return replace_surrogates(value)
    if isinstance(value, list | dict) and depth == DEEPEST:
        raise refusal("Lists lie too deep in lists.")
    if isinstance(value, list):
        return [mend_text(one, depth + 1) for one in value]
    if isinstance(value, dict):
        return {mend_text(name): mend_text(one, depth + 1) for name, one in value.items()}
    return value


def allowed_of(component: Component, value: object, *, varies: bool = False) -> str:
    """What a field takes, in words; empty where it takes this value, or may because its choices vary."""
    if isinstance(component, TYPED):
        if not isinstance(value, str | None):
            return "give a text"
        is_short = len(value or "") <= MOST_CHARACTERS
        return "" if is_short else f"up to {formatting.count(MOST_CHARACTERS)} characters are read"
    if isinstance(component, components.File):
        return "" if value is None or is_upload(value) else "upload a file"
    if isinstance(component, GIVEN):
        is_held = can_hold(component, value) and abs(value) <= LARGEST
        return "" if is_held else f"give {allowed_in(component)}"
    if isinstance(component, CHOSEN):
        is_open = varies or getattr(component, "allow_custom_value", False)
        is_known = can_hold(component, value, varies=is_open)
        return "" if is_known else f"choose {allowed_in(component, varies=is_open)}"
    return ""


def is_upload(value: object) -> bool:
    """Whether a value has the form of an uploaded file; Gradio checks that the file exists."""
    if not isinstance(value, dict) or value.get("meta") != {"_type": "gradio.FileData"}:
        return False
    path, name = value.get("path"), value.get("orig_name")
    return isinstance(path, str) and "://" not in path and isinstance(name, str | None)


def check_call(handler, inputs: list, state, event_data) -> tuple[list, gr.EventData | None]:
    """(inputs, event data) of a call, checked and mended; gr.Error where a field cannot hold its value."""
    if len(inputs) != len(handler.inputs):
        raise refusal(f"{handler.name} takes {len(handler.inputs)} values, and {len(inputs)} were sent.")
    inputs = [mend_text(value) for value in inputs]
    if event_data is not None:
        event_data = type(event_data)(event_data.target, mend_text(event_data._data))
    for component, value in zip(handler.inputs, inputs, strict=True):
        held = state[component._id] if state is not None and component._id in state else component
        is_open = isinstance(component, CHOSEN) and (component.value is None or not held.choices)
        if value is None and is_open:  # when the page opens: Gradio chooses the first once there are choices
            continue
        refuse(held, value, varies=not handler.preprocess)
    return inputs, event_data


def is_session(name: object) -> bool:
    """Whether a page could name its session so; Gradio writes the name into its tasks and tables."""
    return name is None or bool(isinstance(name, str) and SESSION.fullmatch(name))


def guard_queue(queue) -> None:
    """Let Gradio's queue refuse sessions with strange names, and keep no analytics."""
    push = queue.push

    async def push_checked(body, request, username):
        if not is_session(body.session_hash):
            return False, STRANGE_SESSION, "error"
        return await push(body=body, request=request, username=username)

    queue.push = push_checked
    queue.compute_analytics_summary = lambda _: {"functions": {}}


class PageConfig(BlocksConfig):
    """The page's components; a visitor's copy does not describe them all anew, which Gradio's links need."""

    def __copy__(self):
        copied = super().__copy__()
        copied.config_for_block = lambda *_: {}
        return copied


class GuardedBlocks(gr.Blocks):
    """A page that no JSON gets past: whoever sends what a field cannot hold is told so.

    What a handler skips costs nothing: a run sends several messages a second, and most change one output.
    """

    def __init__(self, **options):
        super().__init__(**options)
        self.default_config = PageConfig(self)
        self.uploads = Uploads(self)

    def launch(self, *args, server_name: str | None = None, share: bool = False, **options):
        """As Gradio's own, behind the gate; ValueError where others could come with the limits of home."""
        host = server_name or os.environ.get("GRADIO_SERVER_NAME") or "127.0.0.1"
        is_home = limits_here().takes_paths
        if is_home and choose_limits(host, share=share) != HOME:
            raise ValueError(
                f"server_name={host!r} and share={share} let others in, but this page has home's limits: "
                "call demos.core.limits.decide_limits(PUBLIC) first, or use demos.launch.start."
            )
        gate = Middleware(Gate, is_home=is_home, names=(host.lower(),), uploads=self.uploads)
        refusals = {RequestValidationError: refuse_body, UploadRefused: refuse_upload}
        kwargs = {"middleware": [gate], "exception_handlers": refusals}
        options_of_ours = {"app_kwargs": kwargs, "run_history": False}
        launched = super().launch(*args, server_name=host, share=share, **options_of_ours, **options)
        self.share = False  # with it the page takes its scripts from another server, which POLICY forbids
        return launched

    def forget_left(self, seconds: float) -> None:
        """Drop the states of pages that were left and not used for so long: Gradio keeps them by number."""
        holder, until = self.state_holder, datetime.datetime.now() - datetime.timedelta(seconds=seconds)
        with holder.lock:
            for name, state in list(holder.session_data.items()):
                if state.is_closed and holder.time_last_used.get(name, until) < until:
                    holder.session_data.pop(name, None)
                    holder.time_last_used.pop(name, None)

    async def process_api(self, block_fn, inputs, state=None, *, iterator=None, event_data=None, **more):
        """As Gradio's own, with checked inputs; gr.Error for a refused input or a failed handler (logged)."""
        handler = self.fns[block_fn] if isinstance(block_fn, int) else block_fn
        try:
            if not is_session(more.get("session_hash")):
                raise refusal(STRANGE_SESSION)
            if iterator is None:
                inputs, event_data = check_call(handler, inputs, state, event_data)
            call = {"iterator": iterator, "event_data": event_data, **more}
            return await super().process_api(block_fn, inputs, state, **call)
        except gr.Error as error:
            error.print_exception = False  # one line will do
            LOG.warning("%s refused: %s", handler.name, formatting.in_one_line(error.message))
            if (
                handler.api_visibility != "public"
            ):  # a page shows it as HTML, and it may quote what somebody sent
                error.message = html.escape(error.message, quote=False)
            raise
        except InvalidPathError as error:
            LOG.warning("%s refused a file's path", handler.name)
            raise refusal("This file was not uploaded here: upload it.") from error
        except Exception as error:
            LOG.error("%s failed:\n%s", handler.name, formatting.format_failure(error))
            raise refusal(FAILED) from error

    async def postprocess_data(self, block_fn, predictions, state):
        """As Gradio's own, except that components which a handler skips are not built anew."""
        outputs, values = list(block_fn.outputs), predictions
        if not outputs:
            return await super().postprocess_data(block_fn, predictions, state)
        if isinstance(values, dict) and values != gr.skip():
            values = convert_component_dict_to_list(outputs, values)
        if len(outputs) == 1:
            values = [values]
        elif values == gr.skip():
            values = [values] * len(outputs)
        skipped = [isinstance(value, dict) and value == gr.skip() for value in values]
        changed = [place for place, is_skipped in enumerate(skipped) if not is_skipped]
        if len(values) != len(outputs) or len(changed) == len(outputs):
            return await super().postprocess_data(block_fn, predictions, state)
        answer = [None if part.stateful else gr.skip() for part in outputs]
        if changed:
            fewer = copy.copy(block_fn)
            fewer.outputs = [outputs[place] for place in changed]
            changes = [values[place] for place in changed]
            sent = await super().postprocess_data(fewer, changes if len(changes) > 1 else changes[0], state)
            for place, one in zip(changed, sent, strict=True):
                answer[place] = one
        return answer


def refuse(component: Component, value: object, *, varies: bool = False) -> None:
    """Refuse what a field cannot hold, by a gr.Error that names both; handlers check varying choices."""
    if getattr(component, "stateful", False):
        return
    if allowed := allowed_of(component, value, varies=varies):
        name = getattr(component, "label", None) or component.elem_id or type(component).__name__
        if getattr(component, "type", None) == "password":
            quoted = "what was sent"
        elif isinstance(value, str) and len(value) > MOST_CHARACTERS:
            quoted = f"a text of {formatting.count(len(value))} characters"
        else:
            quoted = formatting.shorten(json.dumps(value, ensure_ascii=False, default=str), LONGEST_SAID)
        raise refusal(f"“{name}” cannot be {quoted}: {allowed}.")
