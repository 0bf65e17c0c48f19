"""The fuzz's quick form: two hundred inputs, the same each time."""

import pytest

pytest.importorskip("gradio")

import hf_attn
from tests.hard import fuzz
from tests.hard.fuzz_commands import DOORS as COMMANDS
from tests.hard.fuzz_draws import Door
from tests.hard.fuzz_package import DOORS as PACKAGE

SLOW = (
    "saving",
    "tokenizer",
    "training",
    "lengths",
    "learned orders",
    "roles",
    "task reads",  # of every task: topics learn for seconds
    "measures",
    "outcomes",
    "duel",
)
MODELS = ("Model", "Classification", "Generation", "CausalLM")
NO_DOOR = (  # what takes no text, file, ids or settings from outside, but what others returned; or gives it
    *("Batch", "Ragged", "WORKED_EXAMPLES", "WorkedExample", "compose_country_sentences", "__version__"),
    *("read_docstring_passages", "HubError", "Progress", "Pulled", "Pushed"),
    # models, as transformers' own: ids that a model does not know are torch's to refuse
    *(name for name in hf_attn.__all__ if name.endswith(MODELS)),
)


def test_what_anybody_sends_is_answered_or_refused_in_a_sentence(capsys):
    names = [name for name in PACKAGE if name not in SLOW] + ["hf-attn", "hf-attn generate", "hf-attn push"]
    with fuzz.quiet():
        failures = fuzz.run(200, 0, names).failures
    assert failures == {}, capsys.readouterr().out


def test_every_public_name_has_a_door():
    tried = {name for door in PACKAGE.values() for name in door.names}
    assert set(hf_attn.__all__) == tried | set(NO_DOOR)
    assert not tried & set(NO_DOOR)


def test_every_command_has_a_door():
    from hf_attn import __main__ as command_line

    commands = [one.name or one.callback.__name__ for one in command_line.app.registered_commands]
    assert {f"hf-attn {name}" for name in commands} == set(COMMANDS) - {"hf-attn"}


@pytest.mark.parametrize(("call", "complaint"), [
    (lambda: {}["a"], "KeyError"),
    (lambda: int("x"), "no sentence"),
    (lambda: (_ for _ in ()).throw(ValueError(f"{'x' * 3000}.")), "a long refusal"),
])  # fmt: skip
def test_the_fuzz_finds_what_is_no_short_sentence(call, complaint, monkeypatch):
    monkeypatch.setitem(fuzz.DOORS, "broken", Door(call, ()))
    tally = fuzz.Tally()
    fuzz.try_door("broken", (), tally)
    ((_, found),) = tally.failures
    assert found.startswith(complaint)
