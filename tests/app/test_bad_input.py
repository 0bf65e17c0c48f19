"""Bad input of each field: every component that a handler of the page reads, and what may be sent for it."""

import asyncio
import copy
import functools
import math

import gradio as gr
import orjson
import pytest
from gradio import components
from gradio.components.api_component import Api
from gradio.state_holder import SessionState

from demos import build_app
from demos.core.fields import FieldError, read_number
from demos.server import input_guard
from demos.session.catalog import ModelCatalog, build_catalog
from demos.ui import formatting, notices

LINKS = ("open_page", "go_on", "copy")  # what a link gives and takes stands in test_links.py
NO_FIELDS = (components.State, components.HTML, Api)
COPY = next(folder for folder in build_catalog().folders if folder[1].name == "attn-copy")
MARKUP = "<img src=x onerror=alert(1)>{{alert(1)}}${alert(1)}<script>alert(1)</script>"
REPORTS = ("share-pushed", "share-pulled")  # boards that are about what was asked last, however it ended
TEXTS = {  # what a person can type or paste
    "empty": "",
    "far too long": "7 " * 400_000,
    "one endless word": "x" * 900_000,
    "emoji and combining marks": "👩‍👩‍👧‍👦 🏳️‍🌈 e" + "\u0301" * 300,
    "right-to-left": "\u202eשלום مرحبا\u2066",
    "HTML and script": MARKUP,
    "control characters": "a\x00b\x1b[31m\x07\u2028\u2029",
    "half a pair of surrogates": "\ud800 x \udfff",
}
NO_NUMBERS = {
    "a superscript": "²",
    "not a number": "nan",
    "infinite": "-inf",
    "out of range": "-1e999",
    "a comma": "1,5",
    "hexadecimal": "0x10",
}
FOREIGN = {  # what no field of the page sends, and anyone can
    "a list": ["x"],
    "lists in a list": [["x"]],
    "lists deep in lists": functools.reduce(lambda inner, _: [inner], range(900), "x"),
    "an object": {"a": 1},
    "true": True,
    "NaN": math.nan,
    "a huge number": 1e308,
    "a huge whole number": 10**400,
    "below all": -1e308,
    "nothing offered": "no such choice",
}
# field of a number: its line, and the words of what is allowed; those of one way of telling places with it
NUMBERS = {
    "positions-length": ("positions-error-length", "a whole number from 2 to 64"),
    "positions-width": ("positions-error-width", "a whole number from 4 to 128"),
    "positions-trained": ("positions-error-trained", "a whole number from 2 to 64"),
    "positions-heads": ("positions-error-heads", "a whole number from 1 to 8"),
    "positions-theta": ("positions-error-theta", "a number from 2 to 10"),
    "positions-clip": ("positions-error-clip", "a whole number from 1 to 64"),
    "positions-seed": ("positions-error-seed", "a whole number from 0 to 2"),
    "positions-run_seed": ("positions-error-run_seed", "a whole number from 0 to 2"),
    "duel-steps": ("duel-error-steps", "a whole number from 1 to 20"),
    "duel-seconds": ("duel-error-seconds", "a number from 1 to 600"),
    "duel-seed": ("duel-error-seed", "a whole number from 0"),
    "field-steps": ("error-steps", "a whole number from 1 to 20"),
    "field-seed": ("error-seed", "a whole number from 0"),
    "field-learning_rate": ("error-learning_rate", "a number from 0.00001 to 0.1"),
    "field-hidden_size": ("error-hidden_size", "a whole number from 8 to 512"),
}
WITH = {  # what is to be chosen for a field to be read
    "positions-trained": {"positions-type": "learned"},
    "positions-heads": {"positions-type": "relative"},
    "positions-theta": {"positions-type": "rotary"},
    "positions-clip": {"positions-type": "relative"},
    "positions-seed": {"positions-type": "relative"},
    "duel-seconds": {"duel-budget": "seconds"},
}


@pytest.fixture(scope="module")
def app():
    """The page, with one checkpoint, and without the Hub."""
    import huggingface_hub.constants as hub

    before, hub.HF_HUB_OFFLINE = hub.HF_HUB_OFFLINE, True

    async def build():  # outside an event loop Gradio opens some and never closes them
        return build_app(ModelCatalog((COPY,)), "cpu")

    yield asyncio.run(build())
    hub.HF_HUB_OFFLINE = before


def fields_of(app):
    """Every component that a handler reads."""
    read = {component for fn in app.fns.values() for component in fn.inputs}
    return [component for component in read if not isinstance(component, NO_FIELDS)]


def readers_of(app, field):
    """One handler of each kind that reads a field: copies of the same lines are tried once."""
    found = {}
    for fn in app.fns.values():
        if field in fn.inputs and fn.fn is not None and fn.name not in LINKS:
            lines = getattr(fn.fn, "func", fn.fn)
            found.setdefault(getattr(lines, "__wrapped__", lines).__code__, fn)
    return list(found.values())


@functools.cache
def session_of(app):
    return SessionState(app)  # takes long


def send(app, fn, changes):
    """What a new visitor is sent for these values of fields; of a generator, the first."""
    session = session_of(app)
    session.blocks_config = copy.copy(app.default_config)
    session.state_data.clear()

    async def once():
        given = [
            changes.get(part, changes.get(part.elem_id, None if part.stateful else part.value))
            for part in fn.inputs
        ]
        event = gr.EventData(None, {"run": "x"})
        answer = await app.process_api(fn, given, session, event_data=event)
        if answer["iterator"] is not None:
            await answer["iterator"].aclose()
        return answer["data"]

    return dict(zip(fn.outputs, asyncio.run(once()), strict=True))


def value_of(sent):
    """The new value of a component; None where it stays."""
    return sent.get("value") if isinstance(sent, dict) else sent


def is_line(component):
    return "hf-field-error" in (component.elem_classes or [])


def complain(app, field, name, value):
    """What is wrong with how the page takes a value of a field; nothing where all is well."""
    for fn in readers_of(app, field):
        where = f"{field.elem_id} {name} {fn.name}"
        try:
            outputs = send(app, fn, WITH.get(field.elem_id, {}) | {field: value})
        except gr.Error as error:  # shown as it is, and nothing else happens
            sentence = str(error.message)
            if isinstance(field, components.Textbox) and isinstance(value, str):
                yield f"{where}: not under its field: {sentence}"
            if len(sentence) > 200 or str(COPY[1]) in sentence:
                yield f"{where}: {sentence}"
            continue
        except Exception as error:  # whatever it is, a visitor would see no word of it
            yield f"{where}: {error!r}"
            continue
        yield from complain_of(outputs, where)


def complain_of(outputs, where):
    plain = {key: value for key, value in outputs.items() if not isinstance(key, components.State)}
    orjson.dumps(list(plain.values()))
    refused = [key.elem_id for key, value in plain.items() if is_line(key) and value_of(value)]
    for component, sent in plain.items():
        said = value_of(sent)
        is_board = isinstance(component, components.HTML) and component.html_template != "${value}"
        if is_board and refused and said is not None and component.elem_id not in REPORTS:
            yield f"{where}: {component.elem_id} was drawn anew though {refused} says what is wrong"
        if isinstance(component, components.HTML) and not is_board and isinstance(said, str):
            if "<img" in said or "<script" in said:
                yield f"{where}: markup in {said[:200]}"
            if len(said) > 1200:
                yield f"{where}: {len(said)} characters in {component.elem_id}: {said[:200]}"


def test_every_field_takes_whatever_is_typed_or_says_under_it_what_it_takes(app):
    typed = [field for field in fields_of(app) if isinstance(field, components.Textbox)]
    typed += [field for field in fields_of(app) if getattr(field, "allow_custom_value", False)]
    assert len(typed) > 30
    complaints = [
        complaint
        for field in typed
        for name, text in TEXTS.items()
        for complaint in complain(app, field, name, text)
    ]
    assert complaints == []


def test_what_no_field_can_send_is_refused_in_a_sentence_by_every_handler(app):
    complaints = [
        complaint
        for field in fields_of(app)
        for name, value in FOREIGN.items()
        if not (isinstance(value, str) and isinstance(field, input_guard.TYPED))
        for complaint in complain(app, field, name, value)
    ]
    assert complaints == []


def test_what_is_overridden_of_gradio_was_tried_with_the_version_that_is_installed():
    assert gr.__version__.startswith(f"{input_guard.TRIED}."), "measure the overrides anew, then name it"


@pytest.mark.parametrize("told", [(), (0,), (1,), (0, 2), (0, 1, 2, 3)])
def test_what_a_handler_skips_is_left_alone_and_the_answer_is_gradio_s_own(told):
    def values():
        return ["said", gr.update(value=2, interactive=False), 3, gr.update(choices=["a"])]

    async def ask(kind, answer):  # outside an event loop Gradio opens some and never closes them
        with kind() as page:
            outputs = [gr.Textbox(), gr.Number(), gr.State(0), gr.Radio(["b"])]
            page.load(lambda: None, None, outputs)
        (fn,) = page.fns.values()
        state = SessionState(page)
        said = await page.postprocess_data(fn, answer(outputs), state)
        return said, state[outputs[2]._id], state[outputs[0]._id] is not outputs[0]

    def as_list(_):
        return [value if place in told else gr.skip() for place, value in enumerate(values())]

    def as_dict(outputs):
        return {outputs[place]: values()[place] for place in told} or gr.skip()

    for answer in (as_list, as_dict):
        mine, own = (asyncio.run(ask(kind, answer)) for kind in (input_guard.GuardedBlocks, gr.Blocks))
        assert mine[:2] == own[:2]
        assert not mine[2]
        assert own[2] == (0 not in told)


@pytest.mark.parametrize("elem_id", NUMBERS)
def test_a_field_of_a_number_says_in_its_own_line_what_it_got_and_what_it_takes(app, elem_id):
    line, allowed = NUMBERS[elem_id]
    field = next(field for field in fields_of(app) if field.elem_id == elem_id)
    reader = next(fn for fn in readers_of(app, field) if any(out.elem_id == line for out in fn.outputs))
    for name, text in (TEXTS | NO_NUMBERS).items():
        outputs = send(app, reader, WITH.get(elem_id, {}) | {field: text})
        said = {out.elem_id: value_of(sent) for out, sent in outputs.items() if is_line(out)}
        assert allowed in said.pop(line).replace(formatting.NARROW, " "), name
        assert not any(said.values()), name


@pytest.mark.parametrize("space", [" ", "\u00a0", formatting.NARROW])
def test_numbers_are_read_in_any_digits_with_the_spaces_that_people_put_between_thousands(space):
    def read(typed):
        return read_number("steps", typed, 1, 10**7, whole=True, example=5)

    assert (read(f"1{space}000"), read(f"2{space}000{space}000")) == (1000, 2_000_000)
    assert [read(digit) for digit in ("７", "٧", "७", " 7 ", "+7")] == [7] * 5
    for typed in (f"1{space}2", f"10{space}00", f"1{space}0000", f"12345{space}678", f"0.001{space}000"):
        with pytest.raises(FieldError, match="is not a number"):
            read(typed)


def test_what_a_sentence_quotes_neither_turns_it_round_nor_becomes_markup_nor_fills_the_page():
    said = notices.field_error(f"\u202e{MARKUP}\x00 will not do: {'x' * 1000} works.")
    assert "\u202e" not in said
    assert "\x00" not in said
    assert "<img" not in said
    assert said.endswith("x… works.</p>")
    assert len(notices.field_error("a word " * 10_000 + "works.")) < 1000
    assert notices.field_error("👩‍👩‍👧‍👦 will not do.") == '<p role="alert">👩‍👩‍👧‍👦 will not do.</p>'
