"""Whatever text, settings, files and ids somebody sends: an answer, or one sentence that is documented.

    python -m tests.hard.fuzz [--inputs N] [--seed S] [--only NAME]

Each door (`DOORS`) is sent what hypothesis draws for it. A refusal is a ValueError or an OSError that says a
sentence of at most LONGEST_REFUSAL characters; anything else, SLOWEST seconds for one input, or memory
that keeps growing, is a failure. It exits with 1 where there is one, and prints the input that shows it.
"""

import argparse
import functools
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st

import hf_attn
from hf_attn.architectures.settings import apply_settings, parse_setting, read_settings
from hf_attn.experiments.words.ngram_text import split_words
from hf_attn.generation.strategies import STRATEGIES, complete_settings
from hf_attn.interpret.interventions import parse_intervention
from hf_attn.tasks import TASKS, build_task
from hf_attn.tasks.user.read_table import column_names, read_columns

SLOWEST = 5.0  # seconds
LONGEST_REFUSAL = 2000  # characters
MOST_GROWTH = 300_000  # kilobytes of memory, over all inputs
OPEN_TASKS = tuple(
    name for name, task in TASKS.items() if not task.column_options and name != "pronunciation"
)
CONFIGS = (
    hf_attn.AttnDecoderConfig,
    hf_attn.AttnEncoderConfig,
    hf_attn.AttnSeq2SeqConfig,
    hf_attn.RecurrentConfig,
    hf_attn.RecurrentEncoderConfig,
)
MODELS = ("attn-copy", "attn-docstring-topics", "bahdanau-reverse")

odd_numbers = st.sampled_from([0, -1, 2**31, 2**63, 10**30, 1e308, -1e-308, float("nan"), float("inf")])
texts = st.text(max_size=80) | st.sampled_from(["", " ", "\0", "٣+٤", "1" * 5000, "\ud800", "a\u0301" * 40])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts | odd_numbers,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=4),
    max_leaves=8,
)
ids = st.lists(st.integers(-5, 300) | odd_numbers.filter(lambda n: isinstance(n, int)), max_size=40)


@functools.cache
def find_task(name: str):
    return build_task(name)


@functools.cache
def open_model(name: str):
    return hf_attn.load_checkpoint(Path("model_cards") / name).model


@functools.cache
def list_fields(config: type) -> tuple[str, ...]:
    return tuple(vars(config()))


def write(content: bytes | str, name: str) -> Path:
    path = Path(tempfile.gettempdir()) / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))
    return path


def as_tensor(numbers: list[int]) -> torch.Tensor:
    return torch.tensor([[number if abs(number) < 2**62 else 2**62 for number in numbers]], dtype=torch.long)


def read_table(content: bytes | str, ending: str, column: str):
    path = write(content, f"hf_attn_fuzz{ending}")
    return column_names(path), read_columns(path, (column,))


def change_config(kind: int, field: float, value: object):
    config = CONFIGS[kind]
    fields = list_fields(config)
    return config(**{fields[int(field * len(fields))]: value})


@dataclass(frozen=True)
class Door:
    """Where something from outside comes in: the function, and how its arguments are drawn."""

    call: Callable[..., object]
    arguments: tuple[st.SearchStrategy, ...]
    share: int = 1  # how many of the inputs, against the others


tables = st.binary(max_size=300) | st.lists(texts, max_size=8).map("\n".join) | texts
DOORS = {
    "parse_setting": Door(parse_setting, (texts,)),
    "settings file": Door(
        lambda content: read_settings(write(content, "hf_attn_fuzz.json")), (st.binary(max_size=200) | texts,)
    ),
    "apply_settings": Door(
        lambda task, given: apply_settings(task, given),
        (
            st.sampled_from(OPEN_TASKS),
            st.dictionaries(
                texts
                | st.sampled_from(
                    [
                        "steps",
                        "batch_size",
                        "hidden_size",
                        "optimizer",
                        "preset",
                        "position_type",
                        "max_length",
                        "digits",
                    ]
                ),
                values,
                max_size=3,
            ),
        ),
        2,
    ),
    "task reads": Door(
        lambda task, text: (find_task(task).encode(text), find_task(task).find_split(text)),
        (st.sampled_from(OPEN_TASKS), texts),
        2,
    ),
    "task judges": Door(
        lambda task, text, answer: find_task(task).verify(text, answer),
        (st.sampled_from(OPEN_TASKS), texts, texts),
    ),
    "configuration": Door(change_config, (st.integers(0, len(CONFIGS) - 1), st.floats(0, 0.999), values), 2),
    "table": Door(read_table, (tables, st.sampled_from([".csv", ".tsv", ".jsonl"]), texts), 2),
    "generate_answer": Door(
        lambda model, numbers: hf_attn.generate_answer(open_model(model), as_tensor(numbers)),
        (st.sampled_from(MODELS), ids),
    ),
    "attention_maps": Door(
        lambda model, source, target: hf_attn.attention_maps(
            open_model(model), as_tensor(source)[0], as_tensor(target)[0]
        ),
        (st.sampled_from(MODELS), ids, ids),
    ),
    "read_head": Door(
        lambda source, layer, head: hf_attn.read_head(
            open_model("attn-copy"), source, "1 2", layer=layer, head=head
        ),
        (ids, st.integers(-3, 9), st.integers(-3, 9)),
    ),
    "intervention": Door(parse_intervention, (texts | st.sampled_from(["remove", "uniform"]), texts)),
    "strategy": Door(
        complete_settings,
        (
            st.sampled_from(list(STRATEGIES)),
            st.dictionaries(texts | st.sampled_from(["top_k", "top_p", "temperature"]), values, max_size=3),
        ),
    ),
    "by hand": Door(
        hf_attn.check_hand_exercise,
        (
            st.fixed_dictionaries(
                {"scores": st.lists(st.lists(texts, min_size=3, max_size=3), min_size=3, max_size=3)}
            ),
        ),
    ),
    "merges": Door(hf_attn.learn_bpe_merges, (texts, st.integers(0, 30))),
    "passages": Door(lambda text: hf_attn.read_passages(text), (texts,)),
    "words": Door(lambda text: (hf_attn.split_sentences(text), split_words(text)), (texts,)),
    "tokenizer": Door(
        lambda lines, size: hf_attn.train_tokenizer(lines, vocab_size=size),
        (st.lists(texts, max_size=5), st.integers(-1, 400)),
    ),
}


def try_door(door: Door, arguments: tuple) -> str:
    """ "answered", or "refused"; AssertionError says what else became of it."""
    started = time.monotonic()
    try:
        door.call(*arguments)
        outcome = "answered"
    except (ValueError, OSError) as error:
        text = str(error)
        assert len(text) <= LONGEST_REFUSAL, f"a refusal of {len(text):,} characters"
        assert text.rstrip().endswith((".", "”.", ".)", "?")), f"no sentence: {text[-200:]!r}"
        outcome = "refused"
    assert (seconds := time.monotonic() - started) < SLOWEST, f"{seconds:.1f} s"
    return outcome


def attack(name: str, inputs: int, draw: int, outcomes: Counter) -> str | None:
    """Send inputs to a door; the first that fails, in words, or None."""
    door = DOORS[name]

    @seed(draw)
    @settings(
        max_examples=inputs, database=None, derandomize=False, deadline=None,
        suppress_health_check=list(HealthCheck), print_blob=False,
    )  # fmt: skip
    @given(st.tuples(*door.arguments))
    def send(arguments):
        outcomes[try_door(door, arguments)] += 1

    try:
        send()
    except BaseException as error:
        notes = "; ".join(getattr(error, "__notes__", []))
        return f"{name}: {type(error).__name__}: {str(error)[:300]} {notes[:600]}"
    return None


def run(inputs: int, draw: int, only: str | None = None) -> list[str]:
    """Send so many inputs to all doors; what fails, in words. A summary is printed."""
    names = [only] if only else list(DOORS)
    shares = sum(DOORS[name].share for name in names)
    outcomes: Counter = Counter()
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.monotonic()
    failures = []
    for name in names:
        found = attack(name, max(1, inputs * DOORS[name].share // shares), draw, outcomes)
        failures += [found] if found else []
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    if grown > MOST_GROWTH:
        failures.append(f"memory grew by {grown:,} kB")
    print(
        f"inputs {outcomes.total():,}: answered {outcomes['answered']:,}, refused {outcomes['refused']:,}, "
        f"failures {len(failures)}; {time.monotonic() - started:.0f} s, memory +{grown:,} kB, seed {draw}"
    )
    for failure in failures:
        print("-", failure)
    return failures


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Odd input to every door of the package.")
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", choices=list(DOORS))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    sys.exit(1 if run(arguments.inputs, arguments.seed, arguments.only) else 0)
