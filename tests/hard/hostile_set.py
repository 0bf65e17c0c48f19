"""Checkpoint folders as an enemy would make them, each opened as the product does.

    python -m tests.hard.hostile_set --folders 600 --seed 0
    python -m tests.hard.hostile_set --seed 0 --only 17  # one of them, with its traceback; the folder stays

A folder is a checkpoint of ours or another's model, in which one to three things were changed. It is opened
in a process that may take 3 GB more than its imports did, and 20 seconds. What may happen: it opens, or it is
refused in a sentence. Whatever else happens is a failure, and so is a connection. The attacks follow from the
seed.
"""

import base64
import contextlib
import functools
import json
import os
import random
import select
import shutil
import signal
import socket
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import torch

from hf_attn.analysis import ablation, head_roles  # noqa: F401 - before the limit
from hf_attn.checkpoints.model_card import build_card
from hf_attn.checkpoints.save_load import BUNDLED
from hf_attn.hub.external_models import open_model
from hf_attn.viz import attention_view  # noqa: F401 - before the limit
from tests.support.commands import limit_memory, read_options, type_in
from tests.support.native_models import NATIVE, build_native

GIGABYTES, SECONDS = 3, 20
OURS = ("attn-copy", "attn-addition-long", "attn-sentences", "attn-docstring-topics", "bahdanau-dates")
LONGEST_SENTENCE = 2_500
TEXT = "1 2 3"
LONG = "a1 " * 700
NOT_HERE = "/tmp/hostile-set-outside"
JSON_FILES = tuple(
    f"{name}.json" for name in ["config", "generation_config", "training", "tokenizer", "tokenizer_config"]
)
ODD = (
    None, True, False, -1, 0, 1, 2.5, 10**5, 10**9, 2**31, 10**30, -(10**30), 1e308, float("nan"),
    float("inf"), "", "x" * 100_000, "\ud800", "\u202e<img src=x onerror=alert(1)>\x00",
    "../../etc/passwd", "/etc/passwd", "somebody/kernel", "somebody/kernel@main:f", "http://127.0.0.1:9/x",
    "[[[", "{{ 1 }}",
    [], {}, [[]], [None] * 10_000, {"a": {"b": {}}}, {"": 1}, ["x"] * 3, [float("nan")] * 2, {"0": 0},
    functools.reduce(lambda inner, _: [inner], range(200), []),
    functools.reduce(lambda inner, _: {"a": inner}, range(200), {}),
)  # fmt: skip


def each(names: str, value: object) -> dict[str, object]:
    return dict.fromkeys(names.split(), value)


ADDED = {
    "config.json": {
        **each("auto_map backbone _name_or_path base_model_name_or_path", "somebody/model"),
        **each("attn_implementation _attn_implementation", "somebody/kernel"),
        "_attn_implementation_internal": "flash_attention_2",
        "quantization_config": {"quant_method": "bitsandbytes", "load_in_4bit": True},
        "text_config": {"model_type": "llama", "num_hidden_layers": 10**5, "_attn_implementation": "x/y"},
        "backbone_config": {"model_type": "resnet", "depths": [10**6]},
        **each("num_hidden_layers n_layer num_layers encoder_layers depth", 10**5),
        **each("num_experts num_local_experts max_position_embeddings n_positions", 10**7),
        **each("hidden_size vocab_size n_embd d_model intermediate_size", 10**7),
        "layer_types": ["full_attention"] * 10**5,
        "id2label": {str(i): "x" for i in range(10**5)},
        "pruned_heads": {"0": [0]},
        "attention_type": "own_attention.Mine",
        "rope_scaling": {"rope_type": "yarn", "factor": 1e30},
    },
    "training.json": {
        "task": {"name": "csv", "options": {"dataset": "somebody/data"}},
        "versions": {"hf_attn": "9" * 5000},
    },
    "tokenizer_config.json": {
        "init_inputs": ["/etc/passwd"], "vocab_file": "/etc/passwd", "model_max_length": -5,
        "tokenizer_class": "BertJapaneseTokenizer", "auto_map": {"AutoTokenizer": ["evil.T", None]},
        "chat_template": "{% for i in range(10**9) %}x{% endfor %}" * 99, "extra_special_tokens": {"a": "b"},
        "added_tokens_decoder": {"99999999": {"content": "x" * 10**5}},
        "additional_special_tokens": [f"a{number}" for number in range(10**5)],
        "pad_token": {"content": "x" * 10**7},
    },
    "generation_config.json": {
        "max_length": 10**9, "num_beams": 10**6, "cache_implementation": "x/y",
        "bad_words_ids": [[1] * 10**6],
    },
}  # fmt: skip


# ---------------------------------------------------------------- what is attacked


def make_bases(root: Path, ours: Iterable[str] = OURS, others: Iterable[str] = NATIVE) -> list[Path]:
    """A few of the bundled checkpoints, without their code and pictures, and tiny models of transformers'."""
    for name in ours:
        (root / name).mkdir(parents=True)
        for path in (BUNDLED / name).iterdir():
            if path.suffix in (".json", ".safetensors"):
                shutil.copyfile(path, root / name / path.name)
    for name in others:
        for part in build_native(name):
            part.save_pretrained(root / name)
    return sorted(root.iterdir())


# ---------------------------------------------------------------- attacks on what JSON says


def change_json(folder: Path, rng: random.Random, name: str | None = None) -> str:
    """Put an odd value somewhere, or take something away."""
    name = name or rng.choice([one for one in JSON_FILES if (folder / one).is_file()])
    content = json.loads((folder / name).read_text("utf-8"))
    place, way = content, []
    while True:
        if not (keys := list(place) if isinstance(place, dict) else list(range(len(place)))):
            break
        key = rng.choice(keys)
        way.append(key)
        if not isinstance(place[key], dict | list) or not place[key] or rng.random() < 0.2:
            break
        place = place[key]
    if not way:
        return f"{name}: nothing to change"
    what = rng.choice(("put", "put", "put", "delete", "nest"))
    if what == "delete":
        del place[way[-1]]
    else:
        place[way[-1]] = rng.choice(ODD) if what == "put" else [place[way[-1]]] * rng.choice((1, 2, 1000))
    write_json(folder / name, content)
    return f"{name}: {what} {'.'.join(map(str, way))[:80]}"


def add_key(folder: Path, rng: random.Random) -> str:
    name = rng.choice([one for one in ADDED if (folder / one).is_file()])
    key = rng.choice(list(ADDED[name]))
    edit(folder / name, **{key: ADDED[name][key]})
    return f"{name}: add {key}"


def write_json(path: Path, content: object) -> None:
    path.write_text(json.dumps(content, ensure_ascii=True), "utf-8")


def edit(path: Path, **changes: object) -> None:
    write_json(path, {**json.loads(path.read_text("utf-8")), **changes})


# ---------------------------------------------------------------- attacks on files


def spoil_file(folder: Path, rng: random.Random) -> str:
    path = folder / rng.choice(sorted(one.name for one in folder.iterdir() if one.is_file()))
    other = folder / rng.choice(sorted(one.name for one in folder.iterdir()))
    way = rng.choice(sorted(SPOILED))
    SPOILED[way](path, other)
    return f"{path.name}: {way} ({other.name})"


def replace(make):
    """The same, after the file was taken away."""

    def spoil(path: Path, other: Path) -> None:
        path.unlink()
        make(path, other)

    return spoil


def swap(path: Path, other: Path) -> None:
    first, second = path.read_bytes(), other.read_bytes() if other.is_file() else b""
    path.write_bytes(second)
    other.write_bytes(first)


def sparse(path: Path, _: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(2**40)


def twice(path: Path, _: Path) -> None:
    text = path.read_bytes().strip()
    first = b'{"normalizer": {"type": "Precompiled", "precompiled_charsmap": "////////AAAA"}, '
    last = b', "model_type": "bert", "model": 3, "task": 4, "vocab_size": 1e400}'
    path.write_bytes(first + text[1:-1] + last)


SPOILED = {
    "truncated": lambda path, _: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "empty": lambda path, _: path.write_bytes(b""),
    "missing": replace(lambda path, _: None),
    "a folder": replace(lambda path, _: path.mkdir()),
    "a pipe": replace(lambda path, _: os.mkfifo(path)),
    "a link out": replace(lambda path, _: path.symlink_to("/etc/passwd")),
    "a link to a device": replace(lambda path, _: path.symlink_to("/dev/zero")),
    "a link to nothing": replace(lambda path, _: path.symlink_to(NOT_HERE)),
    "a circle": replace(lambda path, _: path.symlink_to(path.name)),
    "a hard link": lambda path, other: other == path or (path.unlink(), os.link(other, path)),
    "swapped": swap,
    "sparse": sparse,
    "keys twice": twice,
    "deep": lambda path, _: path.write_text("[" * 100_000),
    "deep objects": lambda path, _: path.write_text('{"a":' * 100_000),
    "many digits": lambda path, _: path.write_text('{"a": 1' + "0" * 10_000 + "}"),
    "UTF-16": lambda path, _: path.write_bytes(path.read_bytes().decode("latin-1").encode("utf-16")),
    "zeros": lambda path, _: path.write_bytes(bytes(100_000)),
    "a list": lambda path, _: path.write_text("[1]"),
    "a pickle": lambda path, _: path.write_bytes(b"\x80\x04cos\nsystem\n(S'touch /tmp/hostile-set-ran'\ntR."),
}


# ---------------------------------------------------------------- attacks on weights


def spoil_weights(folder: Path, rng: random.Random) -> str:
    path = folder / "model.safetensors"
    content = path.read_bytes() if path.is_file() else struct.pack("<Q", 2) + b"{}"
    size = struct.unpack("<Q", content[:8])[0]
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    names = [name for name in header if name != "__metadata__"] or ["x"]
    name = rng.choice(names)
    way = rng.choice(sorted(HEADERS))
    made = HEADERS[way](header, name, data)
    path.unlink(missing_ok=True)
    if isinstance(made, tuple):  # the length that it says, the header's bytes, the data
        length, text, data = made
    else:
        text = json.dumps(made).encode()
        length = len(text)
    path.write_bytes(struct.pack("<Q", length) + text + data)
    if way == "100 MB":
        with path.open("r+b") as file:
            file.truncate(8 + length)
    return f"{path.name}: {way} ({name})"


def given(name: str, **values: object):
    return lambda header, chosen, data: {
        **header,
        chosen if name == "" else name: {**header.get(chosen, {}), **values},
    }


HEADERS = {
    "longer than the file": lambda header, name, data: (2**40, b"{}", data),
    "largest length": lambda header, name, data: (2**64 - 1, b"{}", data),
    "no header": lambda header, name, data: (0, b"", data),
    "100 MB": lambda header, name, data: (99_000_000, b'{"x": 1', b""),
    "deep header": lambda header, name, data: (200_000, b"[" * 200_000, data),
    "no data": lambda header, name, data: (len(json.dumps(header)), json.dumps(header).encode(), b""),
    "10^5 tensors of nothing": lambda header, name, data: {
        **header,
        **{f"t{i}": {"dtype": "F32", "shape": [0], "data_offsets": [len(data)] * 2} for i in range(10**5)},
    },
    "not a number": lambda header, name, data: (
        len(text := json.dumps(header).encode()),
        text,
        struct.pack("<f", float("nan")) * (len(data) // 4),
    ),
    "of other numbers": given("", dtype="F64"),
    "of no numbers": given("", dtype="EVIL"),
    "of eight bits": given("", dtype="F8_E5M2"),
    "complex": given("", dtype="C64"),
    "huge shape": given("", shape=[2**62, 2**62]),
    "negative shape": given("", shape=[-1, 5]),
    "long shape": given("", shape=[1] * 10_000),
    "all overlap": lambda header, name, data: {
        one: {**value, "data_offsets": [0, len(data)]} if one != "__metadata__" else value
        for one, value in header.items()
    },
    "backwards": given("", data_offsets=[100, 0]),
    "metadata": lambda header, name, data: {**header, "__metadata__": {"format": [1]}},
    "other format": lambda header, name, data: {**header, "__metadata__": {"format": "tf"}},
    "another name": given("../../etc/passwd"),
    "one less": lambda header, name, data: {one: value for one, value in header.items() if one != name},
}


def point_outside(folder: Path, rng: random.Random) -> str:
    weights = folder / "model.safetensors"
    target = rng.choice(
        ("../outside.safetensors", "/etc/passwd", "sub/model.safetensors", "", "..", 3, None, "x" * 999)
    )
    if weights.is_file():
        shutil.copyfile(weights, folder.parent / "outside.safetensors")
        weights.unlink()
    write_json(
        folder / "model.safetensors.index.json", {"metadata": {}, "weight_map": {"a": target, "b": target}}
    )
    return f"index: {target!r:.40}"


def lay_beside(folder: Path, rng: random.Random) -> str:
    """A file that another library would open."""
    name = rng.choice(sorted(BESIDE))
    content = BESIDE[name]
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    if name.endswith(".bin"):
        (folder / "model.safetensors").unlink(missing_ok=True)
    return f"beside: {name}"


BESIDE = {
    "adapter_config.json": {"peft_type": "LORA", "r": 10**7, "base_model_name_or_path": "somebody/model"},
    "pytorch_model.bin": "never read",
    **dict.fromkeys(("modeling_evil.py", "own_attention.py", "attention.py"), "import os; os.abort()"),
    "added_tokens.json": {"x" * 2000: 99999, "y": -1},
    "special_tokens_map.json": {
        "pad_token": {"content": ["x"]},
        "additional_special_tokens": [f"a{number}" for number in range(10**5)],
    },
    "chat_template.jinja": "{% for i in range(10**9) %}x{% endfor %}",
    "preprocessor_config.json": {"auto_map": {"AutoImageProcessor": "evil.P"}},
    "processor_config.json": {"auto_map": {"AutoProcessor": "evil.P"}},
    "vocab.json": {"a": 10**12},
    "merges.txt": "a b\n" * 10,
    "spiece.model": "\x00\x01",
    "tokenizer.model": "\x0a\xff\xff",
}


# ---------------------------------------------------------------- attacks on the tokenizer


def plant_bomb(folder: Path, rng: random.Random) -> str:
    path, way = folder / "tokenizer.json", rng.choice(sorted(BOMBS))
    content = json.loads(path.read_text("utf-8"))
    changes = BOMBS[way]
    if callable(changes):
        changes = changes(content)
    write_json(path, {**content, **changes})
    return f"tokenizer.json: {way}"


def double(times: int, inner: str = "a") -> dict:
    return {"type": "Replace", "pattern": {"String": inner}, "content": inner * times}


def sequence(*parts: dict, of: str = "normalizers") -> dict:
    return {"type": "Sequence", of: list(parts)}


def split(pattern: str) -> dict:
    pattern = {"Regex": pattern}
    return {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}


def charsmap(array: list[int], texts: bytes) -> dict:
    packed = struct.pack(f"<I{len(array)}I", 4 * len(array), *array) + texts
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(packed).decode()}


def swap_in(pattern: str, content: str) -> dict:
    return {"type": "Replace", "pattern": {"Regex": pattern}, "content": content}


def pad(strategy: object, multiple: int | None) -> dict:
    ids = {"pad_id": 0, "pad_type_id": 0, "pad_token": "<pad>"}
    return {"strategy": strategy, "direction": "Right", "pad_to_multiple_of": multiple, **ids}


def added(number: int, content: str, strips: bool) -> dict:
    ways = {"single_word": False, "lstrip": strips, "rstrip": strips, "normalized": True, "special": strips}
    return {"id": number, "content": content, **ways}


PIECE = {"Sequence": {"id": "A", "type_id": 0}}
CUT = {"max_length": 1, "stride": 5, "strategy": "LongestFirst", "direction": "Right"}
REPEATED = {"type": "TemplateProcessing", "single": [PIECE] * 2000, "pair": [], "special_tokens": {}}
BOMBS = {
    "doubles forty times": {"normalizer": sequence(*[double(2)] * 40)},
    "grows at once": {"normalizer": double(10**6)},
    "nested a hundred deep": {
        "normalizer": functools.reduce(lambda inner, _: sequence(inner), range(100), double(2))
    },
    "ten thousand parts": {"normalizer": sequence(*[{"type": "NFC"}] * 10_000)},
    "prepends": {"normalizer": sequence(*[{"type": "Prepend", "prepend": "a" * 50}] * 50)},
    "backtracks": {"pre_tokenizer": split(r"(a+)+b$|(1+)+b$|(\s*\S*)*x$")},
    "backtracks in words": {"pre_tokenizer": split(r"((\w+\s*)+)+!$")},
    "a large pattern": {"pre_tokenizer": split("((((a{0,999}){0,999}){0,999}){0,999}){0,999}")},
    "a pattern that matches nothing": {"normalizer": swap_in("(?=.)", "aaaa")},
    "finds nothing": {"normalizer": double(2, "")},
    "fills numbers": {"normalizer": swap_in("(?<![0-9])(?=[0-9]{1}(?![0-9]))", "0" * 10**6)},
    "the decoder grows": {"decoder": sequence(*[double(9)] * 30, of="decoders")},
    "a broken map of characters": {"normalizer": charsmap([2**31 - 1] * 256, b"a\0")},
    "an empty map of characters": {"normalizer": {"type": "Precompiled", "precompiled_charsmap": "AAAA"}},
    "a map that leads nowhere": {"normalizer": charsmap([0x80000000 | 10**6] * 256, b"a\0")},
    "pads": {"padding": pad({"Fixed": 10**9}, None)},
    "pads to multiples of nothing": {"padding": pad("BatchLongest", 0)},
    "cuts to nothing": {"truncation": CUT},
    "repeats the text": {"post_processor": REPEATED},
    "many added tokens": lambda content: {
        "added_tokens": [added(i, f"t{i}" * 20, False) for i in range(50_000)]
    },
    "an empty added token": {"added_tokens": [added(0, "", True)]},
    "long words": lambda content: {
        "model": {"type": "WordPiece", "unk_token": "<unk>", "continuing_subword_prefix": "#" * 10**5}
        | {"max_input_chars_per_word": 10**9, "vocab": {"<unk>": 0, "a": 1}}
    },
    "no unknown token": lambda content: {"model": {"type": "WordLevel", "vocab": {"z": 0}, "unk_token": "?"}},
    "huge ids": lambda content: {
        "model": {**content["model"], "vocab": {"<unk>": 4_000_000_000, "a": 2**32 - 1}}
    },
    "a unigram of nothing": {"model": {"type": "Unigram", "unk_id": None, "vocab": []}},
    "a unigram of infinity": {
        "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", -1e308], ["a", 1e308]]}
    },
    "another type": {"pre_tokenizer": {"type": "Evil"}},
    "other merges": lambda content: {
        "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}}
        | {"merges": [["a", "b"]] * 1000 + [["ab", "q"]]}
    },
}
ATTACKS = (
    *(change_json,) * 6,
    *(add_key, add_key, spoil_file, spoil_file, spoil_weights, spoil_weights),
    *(plant_bomb, plant_bomb, point_outside, lay_beside),
)


def make_folder(number: int, seed: int, bases: list[Path], root: Path) -> tuple[Path, str]:
    """(a folder, what was done to it)."""
    rng = random.Random(f"{seed}:{number}")
    base = bases[number % len(bases)]
    folder = shutil.copytree(base, root / f"{number:05}" / base.name)
    done = []
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        with contextlib.suppress(
            ValueError, OSError, AttributeError, TypeError, RecursionError
        ):  # spoiled already
            done.append(rng.choice(ATTACKS)(folder, rng))
    return folder, f"{base.name}: {'; '.join(done)}"


# ---------------------------------------------------------------- opening


def open_folder(folder: Path) -> str:
    """Open a checkpoint, read and write with it, build its card, and draw as the command line does."""
    opened = open_model(folder)
    if opened.task is not None and opened.training:
        build_card(folder.name, opened.task, opened.training)
    if opened.tokenizer is not None:
        opened.tokenizer.decode(opened.tokenizer(LONG, verbose=False)["input_ids"])
    for words in (
        ["attention", folder, TEXT, "--output", folder.parent / "map.csv"],
        *([["generate", folder, TEXT], ["eval", folder, "--examples", 2]] if opened.training else []),
    ):
        try:
            code, said = type_in(*words)
        except BaseException as error:
            raise AssertionError(f"hf-attn {words[0]} raises {type(error).__name__}: {error}") from error
        is_line = said.count("\n") <= 1 and said.startswith("hf-attn: ") and len(said) <= LONGEST_SENTENCE
        if code and said and not is_line:
            raise AssertionError(f"hf-attn {words[0]} says {said[:300]!r}")
    return "opened"


def judge(folder: Path, shows: bool = False) -> str:
    """What became of a folder: "opened", "refused …", or what else, which is a failure."""
    TRIED.clear()
    try:
        outcome = open_folder(folder)
    except BaseException as error:
        said, is_plain = str(error), type(error) in (ValueError, FileNotFoundError)
        is_sentence = is_plain and 0 < len(said) <= LONGEST_SENTENCE and "\n" not in said.strip()
        outcome = f"refused {said}" if is_sentence else f"{type(error).__name__}: {said[:400]}"
        if shows:
            traceback.print_exc()
    return f"network: {TRIED[0]}" if TRIED else outcome


TRIED: list[str] = []


def block_network() -> None:
    """Whatever wants out is noted, and gets nothing."""

    def refuse(*given, **_):
        TRIED.append(repr(given[-1])[:100] if given else "?")
        raise OSError("the network was tried")

    socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse


class Worker:
    """A process that opens one folder after the other; a fork, so that nothing is imported twice."""

    def __init__(self) -> None:
        (theirs, self.ask), (self.answers, mine) = os.pipe(), os.pipe()
        self.process = os.fork()
        if not self.process:
            os.close(self.ask)
            os.close(self.answers)
            serve(os.fdopen(theirs), mine)
        os.close(theirs)
        os.close(mine)

    def open(self, folder: Path) -> str:
        """What became of it, and of the process."""
        os.write(self.ask, f"{folder}\n".encode())
        ready, _, _ = select.select([self.answers], [], [], SECONDS)
        answer = os.read(self.answers, 65_536) if ready else b""
        return json.loads(answer) if answer else self.end("timed out" if not ready else "killed")

    def end(self, why: str) -> str:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGKILL)
        _, status = os.waitpid(self.process, 0)
        os.close(self.ask)
        os.close(self.answers)
        return f"{why} (status {status})"


def serve(questions, answers: int) -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # of libraries
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    warnings.simplefilter("ignore")
    limit_memory(GIGABYTES)
    block_network()
    for line in questions:
        os.write(answers, json.dumps(judge(Path(line.strip()))[:3000]).encode())
    os._exit(0)


def run(folders: int, seed: int, **bases: Iterable[str]) -> Counter:
    """Make and open folders from `make_bases`; print each failure at once.

    Returns:
        How many "opened", were "refused" and "failed".
    """
    counts, worker = Counter(), None
    with tempfile.TemporaryDirectory(prefix="hostile-") as made:
        bases = make_bases(Path(made) / "bases", **bases)
        for number in range(folders):
            folder, what = make_folder(number, seed, bases, Path(made) / "made")
            worker, started = worker or Worker(), time.monotonic()
            outcome = worker.open(folder)
            kind = outcome.partition(" ")[0]
            if kind not in ("opened", "refused"):
                print(f"{number} {what} → {outcome[:300]} ({time.monotonic() - started:.0f} s)", flush=True)
                kind = "failed"
            if outcome.startswith(("timed", "killed")):
                worker = None
            counts[kind] += 1
            shutil.rmtree(folder.parent)
        if worker is not None:
            worker.end("done")
    return counts


def main() -> int:
    """Make and open the folders; print what failed, and the figures last."""
    given = read_options(__doc__, folders=600, seed=0, only=-1)
    sys.stdout.reconfigure(errors="replace")  # an attack's name may be no text
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if given.only >= 0:
        root = Path(tempfile.mkdtemp(prefix="hostile-"))
        folder, what = make_folder(given.only, given.seed, make_bases(root / "bases"), root / "made")
        limit_memory(GIGABYTES)
        block_network()
        print(what, folder, judge(folder, shows=True), sep="\n")
        return 0
    started = time.monotonic()
    counts = run(given.folders, given.seed)
    if counts["failed"]:
        print(f"One again: python -m tests.hard.hostile_set --seed {given.seed} --only NUMBER")
    print(
        f"{given.folders} folders (seed {given.seed}): {counts['opened']} opened, {counts['refused']} "
        f"refused in a sentence, {counts['failed']} failed, {time.monotonic() - started:.0f} s"
    )
    return int(counts["failed"] > 0)


if __name__ == "__main__":
    sys.exit(main())
