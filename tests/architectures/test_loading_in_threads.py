"""Models loaded and built in many threads at once are what each is alone; transformers stays whole."""

import ast
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from hf_attn.architectures.registry import build_model
from hf_attn.checkpoints.save_load import load_checkpoint
from hf_attn.experiments.words.ngram_text import attention_size
from hf_attn.hub.external_models import open_model
from hf_attn.tasks import build_task
from hf_attn.training.duel import count_parameters
from hf_attn.utils.model_lock import building_model
from tests.support.native_models import build_native

ROOT = Path(__file__).parents[2]
BUNDLED = ROOT / "model_cards" / "attn-copy"
LOADS = 10  # of each thread
SWAPPED = (torch.nn.init.normal_, torch.nn.init.uniform_, torch.linspace, PreTrainedModel.tie_weights)


def swapped_now():
    return (torch.nn.init.normal_, torch.nn.init.uniform_, torch.linspace, PreTrainedModel.tie_weights)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """A BERT and a GPT-2, whose output weights are tied to their embeddings and therefore in no file."""
    root = tmp_path_factory.mktemp("native")
    for name in ("bert", "gpt2"):
        for part in build_native(name):
            part.save_pretrained(root / name)
    return root


@pytest.fixture
def whole():
    """Whatever a test breaks in transformers stays in that test."""
    yield
    torch.nn.init.normal_, torch.nn.init.uniform_, torch.linspace, PreTrainedModel.tie_weights = SWAPPED
    torch.set_default_dtype(torch.float32)


def together(*jobs):
    """What each job gives, all begun at once in threads that take turns often."""
    often, start = sys.getswitchinterval(), threading.Barrier(len(jobs))
    sys.setswitchinterval(1e-5)
    try:
        with ThreadPoolExecutor(len(jobs)) as pool:
            begun = [pool.submit(lambda job=job: (start.wait(600), job())[1]) for job in jobs]
            return [future.result(timeout=600) for future in begun]
    finally:
        sys.setswitchinterval(often)


def test_models_built_while_others_are_loaded_are_what_they_are_alone_and_transformers_is_whole(
    folders, whole
):
    task = build_task("copy", max_length=5)
    model = {**task.recipe.model, "tie_word_embeddings": True}
    recipe = replace(task.recipe, model=model)
    alone = [build_model(task, recipe, seed) for seed in range(5)]
    figures = [(count_parameters(task, recipe), attention_size(100))] * LOADS

    def build():
        return [build_model(task, recipe, seed) for _ in range(LOADS // 5) for seed in range(5)]

    def count():
        return [(count_parameters(task, recipe), attention_size(100)) for _ in range(LOADS)]

    def load(place, opener):
        return lambda: [opener(place).model for _ in range(LOADS)]

    native = [load(folders / name, open_model) for name in ("bert", "gpt2")]
    built, counted, *loaded = together(build, count, *native, load(BUNDLED, load_checkpoint))
    assert counted == figures
    assert swapped_now() == SWAPPED
    assert torch.get_default_dtype() == torch.float32
    for found in (loaded[0][-1], loaded[1][-1]):
        assert found.get_output_embeddings().weight is found.get_input_embeddings().weight
    for number, found in enumerate(built):
        wanted = alone[number % 5].state_dict()
        assert found.get_output_embeddings().weight is found.get_input_embeddings().weight
        assert found.state_dict().keys() == wanted.keys()
        assert all(torch.equal(weight, wanted[name]) for name, weight in found.state_dict().items())


def test_every_place_that_loads_or_builds_waits_for_the_lock(folders):
    """Each waits as long as another thread holds it, and goes on as soon as it is free."""
    task = build_task("copy", max_length=5)
    jobs = {
        "open_model": lambda: open_model(folders / "bert"),
        "load_checkpoint": lambda: load_checkpoint(BUNDLED),
        "build_model": lambda: build_model(task, task.recipe),
        "count_parameters": lambda: count_parameters(task, task.recipe),
        "attention_size": lambda: attention_size(100),
    }
    for name, job in jobs.items():
        done = threading.Event()
        thread = threading.Thread(target=lambda job=job, done=done: (job(), done.set()), daemon=True)
        with building_model():
            thread.start()
            assert not done.wait(0.5), f"{name} did not wait"
        assert done.wait(600), f"{name} waits for ever"


MODELS = re.compile(r"(Attn|Recurrent)\w*(Model|LM|Generation|Classification)|model_class")
READERS = re.compile(r"Auto(Config|Tokenizer|ImageProcessor)|PreTrainedTokenizerFast|tokenizer_class")


def test_no_line_of_the_package_loads_or_constructs_a_model_without_the_lock():
    """The fresh process of `verify_worker.py` has one thread and cannot import the lock."""
    found, without = 0, []
    for path in [*(ROOT / "hf_attn").rglob("*.py"), *(ROOT / "demos").rglob("*.py"), ROOT / "app.py"]:
        if path.parent.name == "models" or path.name == "verify_worker.py":
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        locked = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.With)
            and any(name in ast.unparse(item) for item in node.items for name in ("building_", "drawing_"))
        ]
        held = {id(inner) for block in locked for inner in ast.walk(block)}
        for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
            name, _, act = ast.unparse(call.func).rpartition(".")
            loads = act in ("from_pretrained", "from_config", "_from_config") and not READERS.search(name)
            if loads or MODELS.fullmatch(act):
                found += 1
                without += [] if id(call) in held else [f"{path.name}:{call.lineno}"]
    assert found >= 8, "it looks at what it is meant to"
    assert not without
