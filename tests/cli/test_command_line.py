"""The command line as a person meets it: output, exit codes, what is left behind."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import hf_attn
from hf_attn.__main__ import app
from hf_attn.checkpoints.save_load import list_checkpoints, load_checkpoint
from hf_attn.evaluation.metrics import Evaluation, Interval, Score
from tests.support.commands import SMALL, in_process, rows_of, run
from tests.support.tables import write_grouped_table, write_table

REPORT = {
    "event", "step", "steps", "loss", "learning_rate", "tokens_per_second", "seconds",
    "validation_exact_match", "validation_examples",
}  # fmt: skip


# Help


def test_every_command_says_that_it_loads_what_takes_seconds_to_import():
    others = [command for command in app.registered_commands if command.name != "app"]  # which says so itself
    assert others
    assert all(hasattr(command.callback, "__wrapped__") for command in others)


def test_help_version_and_a_task_that_is_none_come_without_what_takes_seconds_to_import():
    output, _ = run("--help")
    assert run() == (output, ""), "nothing asked: the help"
    for command in ("tasks", "train", "eval", "generate", "attention"):
        assert command in output
    assert run("--version") == (f"hf-attn {hf_attn.__version__}\n", "")
    for words, code, heavy in (
        (("train", "--help"), 0, {"torch", "transformers", "accelerate", "numpy", "matplotlib"}),
        (("train", "addtion"), 2, {"transformers"}),
    ):
        command = [sys.executable, "-X", "importtime", "-m", "hf_attn", *words]
        done = subprocess.run(command, capture_output=True, text=True)
        imported = {line.rsplit("|", 1)[-1].strip().split(".")[0] for line in done.stderr.splitlines()}
        assert done.returncode == code
        assert "typer" in imported
        assert not imported & heavy
    assert done.stderr.splitlines()[-1].startswith(
        "hf-attn: There is no task 'addtion'; choose one of copy, "
    )


# Wrong use: one line, exit code 2


@pytest.mark.parametrize(("arguments", "message"), [
    ("dance", "'dance'"),
    ("train", "TASK"),
    ("train juggling", "choose one of copy"),
    ("train copy --steps 0", "--steps 0 is no whole number from 1; give for example --steps 2."),
    ("train copy --until 2", "--until 2 is no number from 0 to 1; give for example --until 1."),
    ("train copy --seed -1", "--seed -1 is no whole number from 0 to"),
    ("train copy --model lstm", "choose transformer"),
    ("train copy --device abacus", "device='abacus' is not known; choose 'auto'"),
    ("train copy --track diary", "'trackio', 'tensorboard'"),
    ("train copy --set", "--set"),
    ("train copy --set fun=1", "max_length"),
    ("train copy --set digits=3", "There is no setting 'digits'"),
    ("train copy --set max_length=long", "max_length"),
    ("train copy --set position_type=magic", "rotary"),
    ("train copy --set preset=huge", "product, document"),
    ("train copy --config nowhere.json", "nowhere.json"),
    ("train copy --resume nowhere", "nowhere"),
    ("train copy --output-dir full", "not empty"),
    ("train copy --output-dir full/file", "is a file"),
    ("train --resume full", "run.json"),
    ("train --resume CHECKPOINT", "finished"),
    ("eval nowhere", "nowhere"),
    ("eval full", "config.json"),
    ("eval CHECKPOINT --by digits", "length"),
    ("eval CHECKPOINT --task addition", "symbols"),
    ("eval CHECKPOINT --split training", "held-out"),
    ("generate CHECKPOINT", "TEXT"),
    ("generate CHECKPOINT 1,x", "'x' (number 2)"),
    ("generate CHECKPOINT 1,2 --strategy luck", "nucleus"),
    ("generate CHECKPOINT 1,2 --temperature -1", "--temperature"),
    ("generate CHECKPOINT 1,2 --num-beams 0", "--num-beams"),
    ("generate CHECKPOINT 1,2 --strategy nucleus --top-k 5", "top_k=5 is not used by strategy='nucleus'"),
    ("attention CHECKPOINT 1,2 --layer 0 --head 0", "--output"),
    ("attention CHECKPOINT 1,2 --layer 2 --head 0 --output m.png", "layers 0 to 1"),
    ("attention CHECKPOINT 1,2 --layer 0 --head 0 --output no/m.png", "folder no"),
])  # fmt: skip
def test_wrong_use_is_one_line_and_exit_code_2(
    arguments, message, tiny_checkpoint, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("mine")
    words = [
        str(tiny_checkpoint) if w == "CHECKPOINT" else w.replace(",", " ") for w in arguments.split(" ") if w
    ]
    code, output, errors = in_process(capsys, *words)
    assert (code, output) == (2, "")
    assert message in errors
    assert errors.count("\n") == 1, "one line, no traceback"
    assert [path.name for path in tmp_path.rglob("*")] == ["full", "file"], "nothing is left behind"


def test_a_bug_shows_its_traceback(tiny_checkpoint, monkeypatch, capsys):
    def broken(*args, **kwargs):
        raise ValueError("a bug")

    monkeypatch.setattr("hf_attn.evaluation.metrics.evaluate", broken)
    monkeypatch.setattr(sys, "argv", ["hf-attn", "eval", str(tiny_checkpoint)])
    from hf_attn.__main__ import main

    with pytest.raises(ValueError, match="a bug"):
        main()


# Train


def test_tasks_are_listed_with_a_worked_example(capsys):
    code, output, _ = in_process(capsys, "tasks", "--json")
    rows = rows_of(output)
    assert code == 0
    assert {"copy", "addition", "parser"} <= {row["name"] for row in rows}
    assert {row["source"]: row["target"] for row in rows}["153+391"] == "544"
    assert "153+391" in in_process(capsys, "tasks")[1]


def test_train_prints_reports_and_a_result_that_eval_repeats(tmp_path, capsys):
    out = tmp_path / "attn-copy"
    train = ("train", "copy", *SMALL, "--steps", 25, "--seed", 3, "--output-dir", out, "--json")
    code, output, errors = in_process(capsys, *train)
    assert code == 0
    *reports, result = rows_of(output)
    assert errors == ""
    assert [report["step"] for report in reports] == [0, 10, 20, 25]
    assert all(set(report) == REPORT and report["event"] == "report" for report in reports)
    assert reports[0]["loss"] is None
    assert set(result) == {
        "event",
        "task",
        "model",
        "steps",
        "seconds",
        "device",
        "validation_exact_match",
        "validation_examples",
        "held_out_exact_match",
        "held_out_examples",
        "interval",
        "output_dir",
    }
    assert (result["event"], result["task"], result["model"]) == ("result", "copy", "transformer")
    assert (result["steps"], result["output_dir"]) == (25, str(out))
    assert list_checkpoints(tmp_path) == [out]
    assert [path.name for path in tmp_path.iterdir()] == ["attn-copy"]
    assert not {"run.json", "training_state", "reports.jsonl"} & {path.name for path in out.iterdir()}
    (again,) = rows_of(in_process(capsys, "eval", out, "--json")[1])
    assert again["held_out_exact_match"] == result["held_out_exact_match"]
    training = load_checkpoint(out).training
    assert training["seed"] == 3
    assert training["curve"][-1]["loss"] == reports[-1]["loss"]
    assert result["validation_exact_match"] == reports[-1]["validation_exact_match"]
    low, high = result["interval"]
    assert low <= result["held_out_exact_match"] <= high


def test_settings_reach_task_recipe_and_model_and_the_nearest_wins(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = {"max_length": 9, "hidden_size": 16, "batch_size": 8, "steps": 5, "betas": [0.8, 0.9]}
    Path("settings.json").write_text(json.dumps(settings))
    arguments = ["--set", "max_length=4", "--set", "position_type=sinusoidal", "--steps", "2"]
    code, *_ = in_process(
        capsys,
        "train",
        "copy",
        "--config",
        "settings.json",
        *arguments,
        "--output-dir",
        "out",
        "--until",
        "1",
    )
    assert code == 0
    checkpoint = load_checkpoint("out")
    recipe = checkpoint.training["recipe"]
    assert checkpoint.task.max_length == 4
    assert (recipe["steps"], recipe["batch_size"], recipe["betas"]) == (2, 8, [0.8, 0.9])
    assert (checkpoint.model.config.hidden_size, checkpoint.model.config.position_type) == (16, "sinusoidal")
    assert checkpoint.training["until"] == 1


def test_until_stops_early_or_is_told_where_it_was_not_reached(capsys):
    code, output, _ = in_process(capsys, "train", "copy", *SMALL, "--until", 0.01, "--json")
    *_, last, result = rows_of(output)
    assert code == 0
    assert last["validation_exact_match"] >= 0.01
    assert result["steps"] == last["step"] < last["steps"]
    assert result["output_dir"] is None
    _, output, _ = in_process(capsys, "train", "copy", *SMALL, "--steps", 1, "--until", 1)
    assert "not the 100.0% of --until: give it more --steps" in output
    assert "--until" not in in_process(capsys, "train", "copy", *SMALL, "--steps", 1)[1]


# Eval, generate, attention


def test_eval_tells_sizes_apart(tiny_checkpoint, capsys):
    code, output, _ = in_process(capsys, "eval", tiny_checkpoint, "--by", "length", "--json")
    (row,) = rows_of(output)
    assert code == 0
    assert (row["event"], row["task"], row["split"]) == ("result", "copy", "held-out")
    low, high = row["interval"]
    assert low <= row["held_out_exact_match"] <= high
    assert 0 <= row["token_accuracy"] <= 1
    assert row["checkpoint"] == str(tiny_checkpoint)
    assert sum(score["examples"] for score in row["by_length"].values()) == row["examples"]
    table = in_process(capsys, "eval", tiny_checkpoint, "--by", "length")[1]
    assert "length 5" in table
    (row,) = rows_of(in_process(capsys, "eval", tiny_checkpoint, "--split", "validation", "--json")[1])
    assert "held_out_exact_match" not in row
    assert 0 <= row["validation_exact_match"] <= 1


def test_eval_never_writes_nearly_all_as_all(tiny_checkpoint, capsys, monkeypatch):
    score = Score(100_000, 0.99999, Interval(0.99994, 1.0), {"token_accuracy": 0.999999})
    monkeypatch.setattr("hf_attn.evaluation.metrics.evaluate", lambda *_: Evaluation(score, {}, ()))
    _, table, _ = in_process(capsys, "eval", tiny_checkpoint)
    assert table.count("99.99 %") == 3
    assert table.count("100 %") == 1, "the interval's end"


def test_eval_says_where_the_table_is_not_the_one_that_was_learned_from(tmp_path, capsys):
    path, folder = write_table(tmp_path), tmp_path / "out"
    table, less = path.read_text(encoding="utf-8"), tmp_path / "less.csv"
    arguments = ["train", "csv", "--set", f"path={path}", "--set", "hidden_size=16", "--steps", 1]
    assert in_process(capsys, *arguments, "--output-dir", folder)[0] == 0
    header, first, *lines = table.splitlines()
    less.write_text("\n".join([header, *lines]), encoding="utf-8")
    other = "The model learned from other rows than these"
    for command in ("eval", "heads", "ablate"):
        code, _, errors = in_process(capsys, command, folder, "--set", f"path={less}")
        assert (code, other in errors) == (0, True), errors
    less.write_text("\n".join([header, *lines, first]), encoding="utf-8")  # the same rows in another order
    code, _, errors = in_process(capsys, "eval", folder, "--set", f"path={less}")
    assert (code, other in errors) == (0, False), errors


@pytest.mark.parametrize("header", ["", "said,verdict\n"])
def test_train_says_which_columns_and_rows_of_a_table_it_reads(tmp_path, capsys, header):
    path = tmp_path / "films.csv"
    films = write_table(tmp_path).read_text(encoding="utf-8").splitlines()[1:]
    path.write_text(header + "\n".join(",".join(row.split(";")[:2]) for row in films), encoding="utf-8")
    arguments = ["train", "csv", "--set", f"path={path}", "--steps", 1, "--device", "cpu", "--json"]
    code, output, errors = in_process(capsys, *arguments)
    assert code == 0
    how = "the first line is read as their names" if header else "they have no names"
    assert f"films.csv: 60 rows, column 1 is the text, column 2 is the label; {how}.\n" in errors
    assert "interval_over" not in rows_of(output)[-1], "no text stands there twice"
    code, output, errors = in_process(capsys, *arguments, "--set", "label=klass")
    assert (code, output, errors.count("\n")) == (2, "", 1)
    first = header.strip() or "a good film today,like"
    assert f"has no column 'klass': its first line is '{first}'." in errors


def test_train_and_ablate_say_what_an_interval_was_taken_over(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    data = ("--set", f"path={write_grouped_table(tmp_path)}")
    small = ("--set", "hidden_size=16", "--steps", 1, "--device", "cpu", "--output-dir", tmp_path / "out")
    code, output, _ = in_process(capsys, "train", "csv", *data, *small, "--json")
    *_, baseline, result = rows_of(output)
    assert code == 0
    assert baseline["interval_over"] == result["interval_over"] == "8 texts"
    results = load_checkpoint(tmp_path / "out").training["results"]
    assert results["interval_over"] == results["baseline"]["interval_over"] == "8 texts"
    _, output, _ = in_process(capsys, "ablate", tmp_path / "out", *data, "--uniform", "encoder", "--json")
    assert [row["interval_over"] for row in rows_of(output)] == ["8 texts", "8 texts"]
    _, table, _ = in_process(capsys, "ablate", tmp_path / "out", *data, "--uniform", "encoder")
    assert "95 % interval over 8 texts" in table


def test_generate_prints_a_line_a_text(tiny_checkpoint, capsys):
    nucleus = ["generate", tiny_checkpoint, "1 2 3", "--strategy", "nucleus", "--seed", "5", "--json"]
    assert in_process(capsys, *nucleus)[1] == in_process(capsys, *nucleus)[1], "the same for the same seed"
    assert in_process(capsys, "generate", tiny_checkpoint, "1 2 3", "1 x", "--json")[:2] == (2, "")
    code, output, errors = in_process(capsys, "generate", tiny_checkpoint, "1 2 3", "4", "--json")
    rows = rows_of(output)
    assert (code, errors) == (0, "")
    assert [row["source"] for row in rows] == ["1 2 3", "4"]
    assert rows[0]["prediction"] == "1 2 3"
    assert rows[0]["correct"] is True
    assert rows[0]["tokens"] == ["1", "2", "3"]
    assert -1 < rows[0]["score"] <= 0


def test_generate_writes_a_word_that_the_task_does_not_know_as_it_was_given(capsys):
    checkpoint = Path(hf_attn.__file__).parents[1] / "model_cards" / "attn-sentences"
    text = "the zork saw the blim . the"
    beams = ("--strategy", "beam", "--num-beams", "4", "--json")
    code, out, errors = in_process(capsys, "generate", checkpoint, text, *beams)
    (row,) = rows_of(out)
    assert code == 0, errors
    written = [row, *row["beams"]]
    assert any({"zork", "blim"} & set(one["tokens"]) for one in written)
    assert any(word in one["prediction"] for one in written for word in ("zork", "blim"))
    assert "<new" not in out


def test_bytes_that_are_no_text_are_read_as_replacement_characters(capsys):
    checkpoint = Path(hf_attn.__file__).parents[1] / "model_cards" / "attn-docstring-topics"
    code, out, _ = in_process(capsys, "generate", str(checkpoint), "read \udcff the file", "--json")
    assert code == 0
    assert rows_of(out)[0]["source"] == "read � the file"
