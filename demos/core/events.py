"""What a board sends with an event: its values by name and type. Anything else is refused in a sentence."""

import functools
import threading
import typing
from dataclasses import dataclass, field

import gradio as gr
import pydantic

from ..ui.formatting import shorten

LONGEST_QUOTE = 40  # characters of what is refused
Kind = typing.Literal["encoder", "decoder", "cross"]
Place = typing.Annotated[int, pydantic.Field(ge=0, le=1_000_000)]  # of a layer, a head or a token, from 0
Seed = typing.Annotated[int, pydantic.Field(ge=0, le=2**31 - 1)]


def refusal(sentence: str) -> gr.Error:
    """An error for the page: nothing was done, and the sentence says why; Gradio logs no traceback."""
    return gr.Error(sentence, title="Not taken", print_exception=False)


class Event(gr.EventData):
    """An event with checked values: a subclass names them with their types, and with defaults where optional.

        class RunEvent(Event):
            run: str

    Raises:
        gr.Error: a value is missing, or of another type.
    """

    def __init__(self, target, data):
        super().__init__(target, data)
        try:
            checked = _model_of(type(self)).model_validate({} if data is None else data)
        except pydantic.ValidationError as error:
            raise refusal(_sentence(error)) from None
        vars(self).update(checked)


@dataclass(eq=False)
class Newest:
    """When the newest of several questions was sent: the server may begin them in another order."""

    sent_at: float = 0.0  # ms of the page's clock
    lock: threading.Lock = field(default_factory=threading.Lock)

    def admits(self, sent_at: float) -> bool:
        """Whether no question was sent after this one, whose answer would be late."""
        with self.lock:
            self.sent_at = max(self.sent_at, sent_at)
            return sent_at == self.sent_at


class NewestEvent(Event):
    """An event that replaces those of its kind sent before; `Session.is_newest` tells.

    Each is sent by itself (`EACH`, `EACH_NOW`): where Gradio keeps only the last of several, it sends the
    first one's values again.
    """

    sent_at: float = 0.0  # ms of the page's clock


class RunEvent(Event):
    """An event about one run."""

    run: str  # its id


@functools.cache
def _model_of(event: type[Event]) -> type[pydantic.BaseModel]:
    hints = typing.get_type_hints(event, include_extras=True)
    values = {name: (hint, getattr(event, name, ...)) for name, hint in hints.items()}
    return pydantic.create_model(event.__name__, __config__={"strict": True}, **values)


def _sentence(error: pydantic.ValidationError) -> str:
    wrong = error.errors(include_url=False)[0]
    where = ".".join(map(str, wrong["loc"])) or "its data"
    if wrong["type"] == "missing":
        return f"This event lacks its value “{shorten(where, LONGEST_QUOTE)}”."
    allowed = wrong["msg"].removeprefix("Input should be ")
    return f"This event's “{shorten(where, LONGEST_QUOTE)}” cannot be taken: it should be {allowed}."
