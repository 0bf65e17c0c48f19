"""What people already use works on our models unchanged: trainers, adapters, processes, export, trackers."""

import json
import os
import re
import sqlite3
import subprocess
import sys

import peft
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModelForSeq2SeqLM, Seq2SeqTrainer, Seq2SeqTrainingArguments

from hf_attn.architectures.families import register_auto_classes
from hf_attn.models.configuration_attn_decoder import AttnDecoderConfig
from hf_attn.models.modeling_attn_decoder import AttnDecoderForCausalLM
from hf_attn.tasks import build_task
from hf_attn.tasks.batch import IGNORED
from hf_attn.tasks.tokenizers.from_vocabulary import build_tokenizer
from tests.support import matrix
from tests.support.checks import (
    END,
    SIZES,
    assert_close,
    assert_different,
    build_classifier,
    build_seq2seq,
    random_ids,
)
from tests.support.commands import SMALL, in_process, rows_of
from tests.support.recurrent_models import build_recurrent

register_auto_classes()
pytestmark = [
    # PEFT asks for an attribute by the name that transformers is about to drop
    pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing`:FutureWarning"),
    # torch's own LSTM gathers its weights anew under export
    pytest.mark.filterwarnings("ignore:The tensor attributes .*_flat_weights:UserWarning"),
]
QUIET = {
    "use_cpu": True,
    "report_to": [],
    "save_strategy": "no",
    "disable_tqdm": True,
    "dataloader_pin_memory": False,
}


def build_decoder():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return AttnDecoderForCausalLM(AttnDecoderConfig(**SIZES)).eval()


def loss_after(model, rows, steps, rate=0.02):
    """Losses before and after learning to write rows once more; only what asks for gradients moves."""
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, lr=rate, weight_decay=0)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = model(input_ids=rows, labels=rows).loss
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses[0], losses[-1]


# Trainer


def test_the_seq2seq_trainer_learns_copying_and_measures_what_generate_writes(tmp_path):
    task = build_task("copy", max_length=3, num_symbols=5)
    sizes = {"vocab_size": len(task.vocabulary), "hidden_size": 32, "intermediate_size": 64}
    model = build_seq2seq(encoder_layers=1, decoder_layers=1, **sizes)
    drawn = task.sample(torch.Generator().manual_seed(0), 512)
    rows = [
        {"input_ids": source[kept.bool()].tolist(), "labels": labels[labels != IGNORED].tolist()}
        for source, kept, labels in zip(drawn.input_ids, drawn.attention_mask, drawn.labels, strict=True)
    ]

    def exact_match(prediction):
        pairs = zip(prediction.predictions.tolist(), prediction.label_ids.tolist(), strict=True)
        texts = [[task.decode([index for index in row if index >= END]) for row in pair] for pair in pairs]
        return {"exact_match": sum(written == meant for written, meant in texts) / len(texts)}

    def collate(examples):
        from transformers import DataCollatorForSeq2Seq

        return DataCollatorForSeq2Seq(build_tokenizer(task), model)(examples)

    arguments = Seq2SeqTrainingArguments(
        **QUIET,
        output_dir=str(tmp_path),
        max_steps=120,
        per_device_train_batch_size=64,
        learning_rate=0.01,
        predict_with_generate=True,
        generation_max_length=6,
    )
    trainer = Seq2SeqTrainer(
        model,
        arguments,
        train_dataset=rows,
        eval_dataset=rows[:64],
        data_collator=collate,
        processing_class=build_tokenizer(task),
        compute_metrics=exact_match,
    )
    before = trainer.evaluate()["eval_exact_match"]
    trainer.train()
    assert before < 0.2
    assert trainer.evaluate()["eval_exact_match"] > 0.9
    trainer.save_model(str(tmp_path / "kept"))
    loaded = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "kept").eval()
    ids = torch.tensor([rows[0]["input_ids"]])
    assert_close(loaded(ids, labels=ids).logits, model.eval()(ids, labels=ids).logits)


# PEFT


@pytest.mark.parametrize("build", [build_seq2seq, build_decoder], ids=["seq2seq", "decoder"])
def test_lora_adapters_learn_are_saved_loaded_and_merged(tmp_path, build):
    rows = random_ids(8, 5)
    rows[:, -1] = END
    base = build()
    frozen = {name: weight.clone() for name, weight in base.state_dict().items()}
    targets = ["q_proj", "v_proj", "o_proj", "up_proj"]
    model = peft.get_peft_model(base, peft.LoraConfig(r=8, lora_alpha=16, target_modules=targets))
    first, last = loss_after(model.train(), rows, steps=60)
    assert last < 0.7 * first
    changed = [name for name, weight in model.named_parameters() if weight.requires_grad]
    assert changed
    assert all("lora_" in name for name in changed)
    model.eval()
    learned = model(input_ids=rows, labels=rows).logits
    model.save_pretrained(tmp_path)

    fresh = build()
    for name, weight in fresh.state_dict().items():
        assert torch.equal(weight, frozen[name]), name
    assert_different(fresh(input_ids=rows, labels=rows).logits, learned)
    loaded = peft.PeftModel.from_pretrained(fresh, tmp_path).eval()
    assert_close(loaded(input_ids=rows, labels=rows).logits, learned)
    written = {"input_ids": rows, "max_new_tokens": 4, "do_sample": False}
    assert loaded.generate(**written).tolist() == model.generate(**written).tolist()
    merged = loaded.merge_and_unload()
    assert type(merged) is type(base)
    assert_close(merged(input_ids=rows, labels=rows).logits, learned)


# Processes


def test_two_processes_give_the_losses_of_one_at_the_same_global_batch(capsys):
    """Started by torch's launcher: accelerate's own starts one process where there is no GPU."""
    train = ["train", "copy", *SMALL, "--set", "batch_size=32", "--steps", "4", "--device", "cpu", "--json"]
    train += ["--set", "report_every=1"]
    launcher = ["torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m"]
    process = subprocess.run(
        [sys.executable, "-m", *launcher, "hf_attn", *train],
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    together, there = run_in(process.stdout)
    alone, here = run_in(in_process(capsys, *train)[1])
    assert there == f"{here}, 2 processes"
    assert len(alone) == len(together) > 1
    assert together == pytest.approx(alone, abs=1e-4)


@pytest.mark.nightly
def test_two_processes_save_and_stop_at_the_same_step_and_one_goes_on_from_there(tmp_path, capsys):
    folder, whole = tmp_path / "stopped", tmp_path / "whole"
    train = ["train", "copy", *SMALL, "--set", "batch_size=32", "--steps", "300", "--device", "cpu", "--json"]
    train += ["--set", "report_every=1", "--save-every", "0.1"]  # by their own clocks they would not agree
    launcher = ["torch.distributed.run", "--standalone", "--nproc_per_node", "2", "-m", "hf_attn"]
    process = subprocess.Popen(
        [sys.executable, "-m", *launcher, *train, "--output-dir", str(folder)],
        env={**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    for line in process.stdout:
        if line.startswith("{") and json.loads(line)["step"] == 30:
            process.terminate()
            break
    _, said = process.communicate(timeout=300)
    found = re.search(r"Stopped after step (\d+) of 300", said)
    assert found, said[-2000:]
    assert 30 <= int(found[1]) < 300
    in_process(capsys, "train", "--resume", str(folder), "--json")
    in_process(capsys, *train, "--output-dir", str(whole))
    stopped, unbroken = (load_file(path / "model.safetensors") for path in (folder, whole))
    for name, weight in unbroken.items():
        assert (stopped[name] - weight).abs().max() < 1e-2, name


def run_in(output):
    """The losses that a run reported, and what it ran on."""
    *reports, result = [json.loads(line) for line in output.splitlines() if line.startswith("{")]
    return [report["loss"] for report in reports if report["step"]], result["device"]


# Export


@pytest.mark.parametrize("kernel", matrix.rows(["sdpa", "eager"], ["sdpa"]))
def test_torch_export_gives_a_program_with_the_same_outputs(kernel):
    source, target = random_ids(2, 6), random_ids(2, 4, seed=1)
    models = {
        build_seq2seq(kernel): {"input_ids": source, "decoder_input_ids": target, "use_cache": False},
        build_classifier(kernel): {"input_ids": source},
        build_decoder(): {"input_ids": source, "use_cache": False},
        build_recurrent(score_function="additive"): {
            "input_ids": source,
            "decoder_input_ids": target,
            "use_cache": False,
        },
    }
    for model, inputs in models.items():
        with torch.no_grad():
            program = torch.export.export(model, (), inputs, strict=False)
            others = {
                name: value.flip(1) if isinstance(value, torch.Tensor) else value
                for name, value in inputs.items()
            }
            assert_close(program.module()(**others).logits, model(**others).logits)


# Placement


def test_a_device_map_places_layers_also_on_disk_and_changes_nothing(tmp_path):
    model, ids = build_seq2seq(), random_ids(2, 6)
    model.save_pretrained(tmp_path / "model")
    expected = model(ids, labels=ids).logits
    whole = AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "model", device_map="cpu")
    assert_close(whole(ids, labels=ids).logits, expected)
    names = {".".join(name.rsplit(".", 1)[0].split(".")[:4]) for name, _ in model.named_parameters()}
    places = {name: "disk" if name == "model.decoder.layers.1" else "cpu" for name in names}
    spread = AutoModelForSeq2SeqLM.from_pretrained(
        tmp_path / "model", device_map=places, offload_folder=str(tmp_path / "offload")
    )
    assert next(spread.model.decoder.layers[1].parameters()).device.type == "meta"
    assert_close(spread(ids, labels=ids).logits, expected)


# Trackers


def test_trackio_keeps_every_report_in_its_own_file(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    command = ("train", "copy", *SMALL, "--steps", 3, "--track", "trackio", "--json")
    code, output, _ = in_process(capsys, *command)
    assert code == 0
    reports = [row for row in rows_of(output) if row["event"] == "report"]
    (base,) = tmp_path.rglob("*.db")
    with sqlite3.connect(base) as connection:
        kept = connection.execute("SELECT step, metrics FROM metrics ORDER BY step").fetchall()
    assert [step for step, _ in kept] == [row["step"] for row in reports]
    losses = [json.loads(metrics).get("loss") for _, metrics in kept]
    assert losses[-1] > 0
    assert losses == [row["loss"] for row in reports]
