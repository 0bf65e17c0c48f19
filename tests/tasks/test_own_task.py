"""A task of one's own, from one file: it trains, is measured and writes, or is refused in one sentence."""

import ast
import importlib
import re
import signal
from pathlib import Path

import pytest
import torch

from hf_attn.architectures.settings import apply_settings, name_task
from hf_attn.checkpoints.save_load import load_checkpoint
from hf_attn.tasks import TASKS, Task, build_task, load_task_file
from hf_attn.utils import python_file
from hf_attn.utils.python_file import OwnCodeError
from tests.support.commands import in_process, rows_of, run_page
from tests.support.matrix import rows

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "your_own_task.md").read_text(encoding="utf-8")
SHORT, EXAMPLE = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
(COMMANDS,) = re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL)
FEW_STEPS = ["--steps", "20", "--set", "report_every=5", "--set", "evaluate_every=10"]


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder with the page's example in it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_task.py").write_text(EXAMPLE, encoding="utf-8")
    return tmp_path


def refused(file, text):
    """What is said of a file that makes no task, on one line."""
    file.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(str(file))) as refusal:
        load_task_file(file)
    return str(refusal.value)


@pytest.mark.nightly
def test_the_page_s_example_and_its_commands_work_as_they_stand(here, capsys):
    for arguments, output in run_page(capsys, COMMANDS):
        if arguments[0] == "generate":
            assert re.search(r"cab\s.*fde\s.*right", output), "300 steps are enough for letters"
    assert (here / "map.png").stat().st_size > 1000


@pytest.mark.nightly
def test_a_task_that_resembles_one_of_ours_is_thirty_lines_and_is_learned(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("shifted.py").write_text(SHORT, encoding="utf-8")
    assert len(SHORT.splitlines()) <= 30
    shorter = ["--set", "max_length=5", "--set", "shift=4", "--until", "0.95"]
    assert in_process(capsys, "train", "shifted.py", *shorter, "--output-dir", "shifted-model")[0] == 0
    _, output, _ = in_process(capsys, "generate", "shifted-model", "7 15 2", "--task", "shifted.py", "--json")
    assert rows_of(output)[0]["prediction"] == "11 19 6"
    assert rows_of(output)[0]["correct"]


def test_a_checkpoint_of_one_s_own_task_loads_without_the_file_and_says_what_to_do(here, capsys):
    train = ["train", "my_task.py", *FEW_STEPS, "--set", "shift=4", "--output-dir", "out"]
    assert in_process(capsys, *train)[0] == 0
    loaded = load_checkpoint(here / "out")
    assert loaded.task is None
    assert loaded.training["task"] == {"name": "shift", "options": {"shift": 4, "max_length": 8}}
    code, _, errors = in_process(capsys, "generate", "out", "cab")
    assert code == 2
    assert "'shift'" in errors
    assert "--task FILE.py" in errors
    assert loaded.task_named(load_task_file("my_task.py")).shift == 4, "as it was learned"
    code, output, _ = in_process(capsys, "generate", "out", "cab", "--task", "my_task.py", "--json")
    assert code == 0
    assert rows_of(output)[0]["source"] == "cab"
    code, _, errors = in_process(capsys, "eval", "out", "--task", "copy")
    assert code == 2
    assert "symbols" in errors


def test_a_stopped_run_of_one_s_own_task_goes_on_with_its_file_alone(here, capsys):
    from hf_attn.checkpoints.run_folder import Run, save_run

    run = Run(*apply_settings(name_task("my_task.py"), {"steps": 20, "shift": 4, "evaluate_every": 20}))
    save_run(here / "out", run)
    code, _, errors = in_process(capsys, "train", "--resume", "out")
    assert code == 2
    assert "'shift' is from your own file: hf-attn train FILE.py --resume" in errors
    code, output, _ = in_process(capsys, "train", "my_task.py", "--resume", "out", "--json")
    assert code == 0
    assert rows_of(output)[-1]["steps"] == 20
    assert load_checkpoint(here / "out").training["task"]["options"]["shift"] == 4


def test_a_file_may_have_annotations_that_are_text_two_names_for_its_class_and_a_module_s_name(tmp_path):
    file = tmp_path / "copy.py"
    text = f"from __future__ import annotations\n{EXAMPLE}\nAgain = Shifting\n"
    file.write_text(text, encoding="utf-8")
    assert load_task_file(file).__name__ == "Shifting"
    assert importlib.import_module("copy").deepcopy([1]) == [1]
    task, _ = apply_settings(name_task(str(file)), {"shift": 2})
    assert task.answer("cab") == "ecd"
    with pytest.raises(ValueError, match="shift"):
        apply_settings(name_task(str(file)), {"shift": "far"})


@pytest.mark.parametrize(("text", "said"), [
    ("", "exactly one subclass of hf_attn.Task; it defines none"),
    (EXAMPLE + EXAMPLE.replace("class Shifting", "class Other"), "it defines Other, Shifting"),
    ("def f(:\n", "SyntaxError: invalid syntax"),
    ("1 / 0\n", "ZeroDivisionError: division by zero"),
    ("import sys\nsys.exit(3)\n", "SystemExit: 3"),
    (EXAMPLE.replace("def answer", "def reply").replace("def draw", "def take"), "lacks answer, draw"),
    (EXAMPLE.replace('    name = "shift"\n', ""), "lacks name"),
    (EXAMPLE.replace('name = "shift"', 'name = "copy"'), "name='copy' is taken"),
    (EXAMPLE.replace("@dataclass(frozen=True)\n", ""), "write @dataclass(frozen=True)"),
])  # fmt: skip
def test_a_file_that_makes_no_task_is_refused_in_words(tmp_path, text, said):
    assert said in refused(tmp_path / "my_task.py", text)


@pytest.mark.parametrize(("method", "line", "said"), [
    ("answer", "return {}[source]", "answer failed: KeyError: 'cab' (line 52: return {}[source])"),
    ("answer", "raise SystemExit(3)", "answer failed: SystemExit: 3 (line 52: raise SystemExit(3))"),
    ("answer", "while True: pass",
     "failed: it takes more than 1 seconds; seconds_allowed of its class allows more (line 52: while"),
    ("answer", "return self.answer(source)", "RecursionError"),
    ("answer", "raise RuntimeError('x' * 10**6)", "RuntimeError: xxx"),
    ("max_source_tokens", "return 1 / 0", "max_source_tokens failed: ZeroDivisionError: division by zero"),
])  # fmt: skip
def test_what_fails_in_a_method_is_one_sentence_that_names_the_line(here, monkeypatch, method, line, said):
    monkeypatch.setattr(Task, "seconds_allowed", 1.0)
    old = re.search(rf"def {method}\(.*\n", EXAMPLE)[0]
    (here / "my_task.py").write_text(EXAMPLE.replace(old, f"{old}        {line}\n"), encoding="utf-8")
    task = load_task_file("my_task.py")()
    with pytest.raises(OwnCodeError, match=r"^my_task\.py: ") as refusal:
        task.answer("cab") if method == "answer" else task.max_source_tokens
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 600


@pytest.mark.parametrize("line", ["raise ValueError('no')", "self.refuse_foreign(source, '', 'nothing')"])
def test_what_a_file_refuses_stays_a_refusal(here, line):
    old = re.search(r"def answer\(.*\n", EXAMPLE)[0]
    (here / "my_task.py").write_text(EXAMPLE.replace(old, f"{old}        {line}\n"), encoding="utf-8")
    with pytest.raises(ValueError, match="no"):
        load_task_file("my_task.py")().answer("cab")


@pytest.mark.parametrize(
    ("method", "returned", "kind", "ask"),
    [
        ("answer", "5", "a text or None", lambda task: task.verify("cab", "bac")),
        ("size_of", "'three'", "a whole number", lambda task: task.size_of("cab")),
        ("size_of", "None", "a whole number", lambda task: task.size_of("cab")),
        *(
            (
                "alignment",
                wrong,
                "None, or a list of equally long lists of 0, 1 and 2",
                lambda task: task.alignment("cab", "bac"),
            )
            for wrong in ("5", "[1]", "[[1], [0, 1]]", "[['x']]", "[[3]]", "{}")
        ),
    ],
)
def test_what_a_method_returns_is_named_where_it_is_nothing_of_the_kind(here, method, returned, kind, ask):
    old = re.search(rf"def {method}\(.*\n", EXAMPLE)[0]
    (here / "my_task.py").write_text(
        EXAMPLE.replace(old, f"{old}        return {returned}\n"), encoding="utf-8"
    )
    said = re.escape(f"my_task.py: {method} must return {kind}, not {returned}.")
    with pytest.raises(OwnCodeError, match=f"^{said}$"):
        ask(load_task_file("my_task.py")())


@pytest.mark.parametrize("name", rows(sorted(set(TASKS) - {"csv", "pairs"}), ["copy", "dates", "sentences"]))
def test_a_task_that_inherits_from_any_of_ours_answers_as_that_one(here, name):
    parent = TASKS[name]
    (here / "mine.py").write_text(
        "from dataclasses import dataclass\n"
        f"from {parent.__module__} import {parent.__name__}\n"
        "@dataclass(frozen=True)\n"
        f"class Mine({parent.__name__}):\n    name = 'mine'\n    title = 'Mine'\n",
        encoding="utf-8",
    )
    ours, mine = build_task(name), load_task_file("mine.py")()
    source, target = ours.worked_example.source, ours.worked_example.target
    for method, *given in (("size_of", source), ("alignment", source, target), ("answer", source)):
        assert getattr(mine, method)(*given) == getattr(ours, method)(*given)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "1, self.max_length + 1",
            "1, self.max_length + 5",
            "draw must return lengths from 0 to 8, but those of",
        ),
        (
            'first = self.vocabulary["a"]',
            "first = 10**6",
            "draw must return ids from 0 to 13, but those of the so",
        ),
        (
            "return sources, targets, sources.ids",
            "return sources, targets",
            "draw must return sources and tar",
        ),
        (
            "targets, sources.ids",
            "targets, sources.ids[:3]",
            "draw must return keys [28, K], but theirs are [3, 8]",
        ),
        ("n, self.max_length)", "n + 1, self.max_length)", "draw failed: RuntimeError"),
        (
            "return sources, targets,",
            "return (sources.ids, lengths), targets,",
            "draw must return sources and tar",
        ),
        ("return list(text)", "return 5", "split_source must return a list of symbols, not 5."),
        (
            "len(source) + 1)]",
            "len(source))]",
            "alignment must return 4 rows of 4 for 'cab' and 'fde', </s> co",
        ),
    ],
)
def test_what_is_drawn_read_or_aligned_wrongly_is_one_sentence(here, old, new, said):
    assert EXAMPLE.count(old) == 1
    (here / "my_task.py").write_text(EXAMPLE.replace(old, new), encoding="utf-8")
    task = load_task_file("my_task.py")()

    def use():
        task.sample(torch.Generator().manual_seed(0), 9)
        task.encode("cab")
        task.alignment("cab", "fde")

    with pytest.raises(OwnCodeError, match=re.escape(f"my_task.py: {said}")) as refusal:
        use()
    assert "\n" not in str(refusal.value)
    assert len(str(refusal.value)) < 400


def test_a_task_whose_answer_is_not_what_it_draws_is_told_before_it_is_learned(here, capsys):
    wrong = EXAMPLE.replace("letters + self.shift)", "letters + self.shift + 1)")
    assert wrong != EXAMPLE
    (here / "my_task.py").write_text(wrong, encoding="utf-8")
    _, _, errors = in_process(capsys, "train", "my_task.py", *FEW_STEPS)
    assert re.search(
        r"draw's target of '(\w+)' is '\w+', and answer says '\w+': what is learned is not", errors
    )
    (here / "my_task.py").write_text(EXAMPLE, encoding="utf-8")
    for model in ("dot", "decoder"):
        small = ["--steps", "2", "--set", "hidden_size=16", "--model", model]
        code, output, errors = in_process(capsys, "train", "my_task.py", *small, "--json")
        assert (code, "draw's target" not in errors) == (0, True), errors
        assert rows_of(output)[-1]["model"] == model


def test_a_file_that_never_ends_is_stopped_and_the_timer_before_goes_on(here, monkeypatch):
    monkeypatch.setattr(python_file, "SECONDS", 0.2)
    before = signal.getitimer(signal.ITIMER_REAL)
    said = refused(
        here / "mine.py", "while True:\n    try:\n        1 / 0\n    except Exception:\n        pass\n"
    )
    assert "cannot be run: it takes more than 0.2 seconds (line " in said
    assert signal.getitimer(signal.ITIMER_REAL)[0] == pytest.approx(before[0], abs=5)


def test_the_command_line_says_in_one_line_which_line_of_the_file_failed(here, capsys):
    broken = EXAMPLE.replace("        lengths = ", "        lengths = {}['a']  # ")
    (here / "my_task.py").write_text(broken, encoding="utf-8")
    code, _, errors = in_process(capsys, "train", "my_task.py", *FEW_STEPS)
    assert code == 1
    assert re.fullmatch(
        r"hf-attn: my_task\.py: draw failed: KeyError: 'a' \(line \d+: lengths = .*\n", errors
    )


def test_the_app_never_runs_a_file():
    for file in (ROOT / "app.py", *(ROOT / "demos").rglob("*.py")):
        names = {
            name
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
            for name in (getattr(node, "id", None), getattr(node, "attr", None), getattr(node, "name", None))
        }
        assert not names & {"load_task_file", "name_task", "load_attention_file"}, file
    with pytest.raises(ValueError, match="There is no task"):
        apply_settings("my_task.py", {})


def test_the_names_of_tasks_are_those_they_are_listed_under():
    assert {name: task.name for name, task in TASKS.items()} == {name: name for name in TASKS}
