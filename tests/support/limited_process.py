"""A process that may not grow: `python -m tests.support.limited_process FOLDER` asks for far too much.

FOLDER holds a checkpoint whose training.json asks for too many symbols. The process may take four gigabytes
more than its imports did, and each question ten seconds of the processor's time, which is the same on a busy
machine. A line of JSON tells what became of each: [name, exit code or exception, what was said, seconds].
"""

import json
import signal
import sys
import time
from pathlib import Path

import torch

from demos.core.limits import limits_here
from demos.server import api as endpoints
from hf_attn.analysis import head_roles  # noqa: F401 - before the limit
from hf_attn.architectures.families import architectures_of
from hf_attn.architectures.registry import build_model, check_recipe
from hf_attn.evaluation import metrics  # noqa: F401 - before the limit
from hf_attn.models.configuration_attn_encoder import AttnEncoderConfig
from hf_attn.models.configuration_recurrent_encoder import RecurrentEncoderConfig
from hf_attn.tasks import TASKS, Recipe, build_task
from hf_attn.training import duel, loop
from hf_attn.viz import attention_view  # noqa: F401 - before the limit
from tests.support.commands import limit_memory, type_in

GIGABYTES = 4
SECONDS = 10
BUNDLED = Path(__file__).parents[2] / "model_cards" / "attn-copy"
HUGE = 10**20


def commands(folder: Path) -> dict[str, list]:
    """What is typed, by name."""
    sources = [
        ["eval", folder],
        ["generate", folder, "7 15 2"],
        ["attention", folder, "7 15 2", "--output", folder.parent / "map.csv"],
        ["heads", folder],
        ["ablate", folder],
        ["eval", BUNDLED, "--examples", HUGE],
        ["heads", BUNDLED, "--examples", HUGE],
        ["ablate", BUNDLED, "--examples", HUGE],
        ["cards", BUNDLED, "--examples", HUGE],
        ["eval", BUNDLED, "--set", f"num_symbols={10**9}"],
        ["dataset", "copy", "--output-dir", folder.parent / "data", "--training", HUGE],
        ["dataset", "copy", "--output-dir", folder.parent / "data", "--measured", HUGE],
        ["generate", BUNDLED, "7 15 2", "--strategy", "beam", "--num-beams", 10**9],
        ["generate", BUNDLED, "7 15 2", "--strategy", "top-k", "--top-k", HUGE],
        ["generate", BUNDLED, "7 15 2", "--strategy", "top-k", "--temperature", "1e999"],
        ["generate", BUNDLED, "7 15 2", "--seed", HUGE],
        ["duel", "copy", "--parameters", HUGE],
        ["duel", "copy", "--steps", HUGE],
        ["duel", "copy", "--seconds", "1e300"],
        ["experiment", "order", "--seeds", HUGE],
        ["train", "copy", "--steps", HUGE],
    ]
    settings = [
        (f"num_symbols={10**9}",),
        (f"max_length={HUGE}",),
        ("encoder_layers=1000000",),
        ("hidden_size=1000000000",),
        ("hidden_size=16384", "intermediate_size=65536"),
        ("hidden_size=4096", "num_attention_heads=1", "encoder_layers=1000"),
        ("batch_size=65536", "max_length=64", "min_length=64"),
        (f"batch_size={HUGE}",),
        (f"learning_rate={'9' * 400}",),
        (f"warmup_steps={'9' * 5000}",),
        (f"relative_clip_distance={10**9}", "position_type=relative"),
    ]
    sources += [["train", "copy", *(f"--set={pair}" for pair in pairs)] for pairs in settings]
    return {" ".join(map(str, words)): list(map(str, words)) for words in sources}


def calls() -> dict:
    """What Python and the named endpoints are asked for, by name."""
    settings = {
        "num_symbols": 10**9,
        "max_length": HUGE,
        "encoder_layers": 10**6,
        "hidden_size": 10**9,
        "intermediate_size": 10**9,
        "batch_size": HUGE,
        "relative_clip_distance": HUGE,
    }
    asked = {
        f"/train {name}={value}": lambda name=name, value=value: endpoints._read_recipe(
            "copy", "", 5, 0, {name: value}
        )
        for name, value in settings.items()
    }
    copy = build_task("copy")
    wide = {"hidden_size": 16_384, "intermediate_size": 65_536}
    tall = {"encoder_layers": 1000, "decoder_layers": 1000, "hidden_size": 1024}
    return asked | {
        "/train with a batch of long sequences": lambda: endpoints._read_recipe(
            "copy", "", 5, 0, {"batch_size": 512, "max_length": 64, "hidden_size": 128}
        ),
        "names of classes": lambda: AttnEncoderConfig(num_labels=10**9),
        "names of an LSTM's classes": lambda: RecurrentEncoderConfig(num_labels=10**9),
        "held-out examples": lambda: copy.held_out(HUGE),
        "validating examples": lambda: copy.validation(HUGE),
        "training examples": lambda: copy.sample(torch.Generator(), HUGE),
        "rows of a corpus": lambda: build_task("phrases").held_out(HUGE),
        "a wide model": lambda: build_model(copy, Recipe(wide)),
        "a tall model": lambda: build_model(copy, Recipe(tall)),
        "a large batch": lambda: next(
            loop.train(copy, build_model(copy, copy.recipe), Recipe(copy.recipe.model, batch_size=65_536))
        ),
        "a seed": lambda: build_model(copy, copy.recipe, HUGE),
    }


def largest() -> dict:
    """What must work: every option of every task at its highest, and as many layers as there may be."""

    def use(name: str, options: dict) -> None:
        task = build_task(name, **options)
        assert len(task.vocabulary) > 4
        assert task.worked_example.source
        task.draw(torch.Generator().manual_seed(0), 64)

    def count(name: str, stacks: dict) -> None:
        task = build_task("copy")
        recipe = task.recipes_of(name)["product"]
        found = duel.count_parameters(task, Recipe({**recipe.model, **stacks}, name))
        assert found > 1e7

    options = {
        "copy": {"max_length": 64, "min_length": 64, "num_symbols": 10_000},
        "reverse": {"max_length": 64, "min_length": 64, "num_symbols": 10_000},
        "sort": {"length": 20, "smallest": 0, "largest": 99},
        "addition": {"digits": 9, "max_addend": 10**9 - 1},
        "parser": {"depth": 4},
        "recall": {"max_pairs": 26, "num_keys": 26},
        "brackets": {"max_length": 40, "kinds": 3},
        "parity": {"length": 40},
        "modular": {"modulus": 200, "train_share": 0.999},
        "text": {"window": 1024, "vocab_size": 30_000, "tokenizer_kind": "bpe"},
    }
    heights = {
        "transformer": {"encoder_layers": 1000, "decoder_layers": 1000},
        "decoder": {"num_hidden_layers": 1000},
        "additive": {"num_layers": 1000},
    }
    return {
        **{f"largest {name}": lambda name=name: use(name, options[name]) for name in options},
        **{f"largest {name}": lambda name=name: count(name, heights[name]) for name in heights},
        "a public server's own recipes": lambda: all(
            check_recipe(task, recipe, most=limits_here().training_bytes) is None
            for task in map(build_task, TASKS.keys() - {"csv", "pairs"})
            for name in architectures_of(task.kind)
            for recipe in task.recipes_of(name).values()
        ),
    }


def be_late(signum: int, frame: object) -> None:
    """No question may take so long."""
    raise TimeoutError(f"It took more than {SECONDS} seconds of the processor.")


def answer(question) -> tuple[int | str, str]:
    """What becomes of it."""
    try:
        if isinstance(question, list):
            return type_in(*question)
        question()
    except BaseException as error:  # that is what is told
        return type(error).__name__, str(error)
    return 0, ""


def main() -> None:
    """Ask everything."""
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    questions = {**commands(folder), **calls(), **largest()}
    limit_memory(GIGABYTES)
    signal.signal(signal.SIGPROF, be_late)
    for name, question in questions.items():
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        outcome = answer(question)
        signal.setitimer(signal.ITIMER_PROF, 0)
        seconds = time.process_time() - started
        sys.stdout.write(json.dumps([name, *outcome, seconds]) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
