"""Checks of a checkpoint's files before a model is built from them. Each refusal is one sentence.

A folder may come from anybody: its code is never run, and its numbers are compared before they are used.
"""

import dataclasses
import json
import math
import os
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError, safe_open
from torch.nn.modules.module import (
    register_module_module_registration_hook,
    register_module_parameter_registration_hook,
)
from transformers import GenerationConfig, PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from hf_attn.architectures.families import FAMILIES, Family, is_ours
from hf_attn.checkpoints.tokenizer_parts import (
    check_added_tokens,
    check_built,
    check_settings,
    check_tokenizer,
    list_values,
)
from hf_attn.checkpoints.training_record import find_versions
from hf_attn.checkpoints.training_schema import check_record
from hf_attn.models.config_checks import MOST_LABELS
from hf_attn.utils.atomic_write import FolderKind
from hf_attn.utils.folder_files import MODEL_FILES, find_file, list_files, read_file
from hf_attn.utils.model_lock import building_model
from hf_attn.utils.text import quote, shorten

CONFIG, WEIGHTS, TRAINING = "config.json", "model.safetensors", "training.json"
GENERATION = "generation_config.json"
RUN = "run.json"  # in the folder of a run that is not finished
NEEDED_FILES = (CONFIG, WEIGHTS, "tokenizer.json", "tokenizer_config.json")
INDEX = f"{WEIGHTS}.index.json"  # where weights are in several files
CODE = frozenset(path.name for path in MODEL_FILES.glob("*.py")) - {"__init__.py"}
OTHER_FILES = frozenset((GENERATION, TRAINING, "README.md", "LICENSE", "special_tokens_map.json"))
PICTURES = (".png", ".svg")
# endings of files that transformers reads, of any model
READ = (".json", ".txt", ".model", ".tokenizer", ".spm", ".codes", ".jinja", ".safetensors")
ADAPTER = "adapter_config.json"  # of PEFT
TEMPLATES = "additional_chat_templates"  # a folder that transformers reads
PICKLES = ("pytorch_model.bin", "model.bin", "model.pt", "model.pth")  # as other libraries name them
PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl")
LARGEST_JSON = 50_000_000  # bytes: a tokenizer of 250 000 tokens has 20 million
LARGEST_NUMBER = 2**31 - 1
LARGEST_HEADER, MOST_TENSORS = 10_000_000, 20_000  # of a file of weights: 100 bytes name a tensor
SMALL = 1_000_000  # numbers that any model may have beside those in its file
LARGEST_SETTING = 100_000  # in generation_config.json: tokens, beams, …
LARGEST_SETTINGS = 5_000_000  # bytes of a file of settings: a large tokenizer's have a million
MOST_VALUES = 10_000  # in generation_config.json, with those in lists: of banned words, …
DTYPES = ("float32", "float16", "bfloat16", "float64")
PROBLEMS = ("single_label_classification", "multi_label_classification", "regression", None)
# keys that transformers writes beside the fields of a configuration
NOTES = {"transformers_version", "model_type", "auto_map", "_name_or_path", "torch_dtype"}
SET_IN_CALLS = ("return_dict", "output_attentions", "output_hidden_states", "chunk_size_feed_forward")
# file → (the most bytes, how it is checked)
TOKENIZER_CHECKS: dict[str, tuple[int, Callable]] = {
    "tokenizer.json": (LARGEST_JSON, check_tokenizer),
    "tokenizer_config.json": (LARGEST_SETTINGS, check_settings),
    "special_tokens_map.json": (LARGEST_SETTINGS, check_settings),
    "added_tokens.json": (LARGEST_SETTINGS, check_added_tokens),
}
NOT_RUN = "It was not run; take auto_map out of the file to load it with the installed classes."
SAVE_AGAIN = "Save the checkpoint again."


class _Building(threading.local):
    """What counts the parts of a model that this thread builds; None where nothing does."""

    weight: Callable | None = None
    part: Callable | None = None


_building = _Building()
# For good: a hook that came or went while another thread builds a model would break that.
register_module_parameter_registration_hook(lambda _m, _n, one: _building.weight and _building.weight(one))
register_module_module_registration_hook(lambda *_: _building.part and _building.part())


def is_checkpoint_file(name: str) -> bool:
    """Whether a file of this name belongs to a checkpoint: weights, tokenizer, card, pictures, model code."""
    if name in NEEDED_FILES or name in OTHER_FILES or name in CODE:
        return True
    return "/" not in name and not name.startswith(".") and name.endswith(PICTURES)


# a folder that may be replaced by another checkpoint
CHECKPOINT = FolderKind("checkpoint of hf_attn", (*NEEDED_FILES, TRAINING), is_checkpoint_file)


def list_model_files(directory: str | Path) -> dict[str, Path]:
    """List the files of a model's folder that hf_attn or transformers reads, as `list_files` does.

    Files of other names are never opened, and may be links to anywhere. ValueError where one may not be read,
    or is too large for a file without weights.
    """
    directory = Path(directory)
    files = list_files(directory, lambda name: is_checkpoint_file(name) or name.endswith(READ))
    if (directory / TEMPLATES).is_dir():
        templates = [f"{TEMPLATES}/{name}" for name in os.listdir(directory / TEMPLATES)]
        found = {name: find_file(directory, name) for name in templates if name.endswith(READ)}
        files |= {name: path for name, path in found.items() if path is not None}
    for name, path in files.items():
        if not name.endswith(".safetensors") and (size := path.stat().st_size) > LARGEST_JSON:
            most = f"no checkpoint here needs more than {LARGEST_JSON:,}. {SAVE_AGAIN}"
            raise ValueError(f"{directory / name} has {size:,} bytes; {most}")
    return files


def check_files(directory: Path) -> None:
    """Refuse a folder that is no complete checkpoint or is unsafe to read.

    Raises:
        FileNotFoundError: the folder or one of its files is missing.
        ValueError: the weights are a pickle, which could run code, or a file may not be read (`find_file`).
    """
    if not directory.is_dir():
        raise FileNotFoundError(
            f"There is no folder {str(directory)!r}; give the folder of a saved checkpoint."
        )
    files = list_model_files(directory)
    refuse_adapter(str(directory), files)
    if WEIGHTS not in files:
        refuse_pickles(str(directory), os.listdir(directory))
    for name in NEEDED_FILES:
        if name not in files:
            why = (
                f"holds a run that is not finished: `hf-attn train --resume {directory}` ends it."
                if (directory / RUN).exists()
                else f"is no complete checkpoint: {name} is missing. Save it again."
            )
            raise FileNotFoundError(f"{directory} {why}")


def refuse_pickles(place: str, names: Iterable[str]) -> None:
    """Refuse a folder or repo without safetensors whose weights are a pickle."""
    if pickles := sorted(name for name in names if name.endswith(PICKLED)):
        raise ValueError(
            f"{place} holds its weights only as a pickle ({pickles[0]}), which can run any code when read: "
            f"only {WEIGHTS} is read. Convert it where you trust it, with save_pretrained."
        )


def refuse_adapter(place: str, names: Iterable[str]) -> None:
    """Refuse an adapter's configuration, by which PEFT would load weights from any file or repo it names."""
    if ADAPTER in names:
        raise ValueError(
            f"{place} has an adapter beside its weights ({ADAPTER}), which is not opened: merge it into them "
            "with merge_and_unload of PEFT and save the model, or take the file away."
        )


def read_json(path: Path, most: int = LARGEST_JSON) -> dict:
    """Read a JSON file of a model's folder; ValueError where it is too large or holds no object.

    Nor may an object have two values of one name: readers that take the first one would see another file.
    """
    raw = read_file(path.parent, path.name, most, "save the checkpoint again")
    try:
        content = json.loads(raw.decode("utf-8"), object_pairs_hook=_refuse_twice)
    except (ValueError, RecursionError) as error:  # UnicodeDecodeError is a ValueError too
        raise ValueError(f"{path} is not valid JSON ({shorten(error)}). {SAVE_AGAIN}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{path} must hold a JSON object, not {type(content).__name__}. {SAVE_AGAIN}")
    return content


def _refuse_twice(pairs: list[tuple[str, Any]]) -> dict:
    found = dict(pairs)
    if len(found) < len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        raise ValueError(f"it has {quote(name)} twice")
    return found


def read_training(directory: Path) -> dict:
    """Read training.json, empty where it is missing; ValueError where a value has a wrong type."""
    path = directory / TRAINING
    training = read_json(path) if find_file(directory, TRAINING) else {}
    check_record(path, training)
    return training


def load_config(directory: Path) -> PreTrainedConfig:
    """Read the configuration; ValueError: another model type, unknown fields, foreign code, bad values."""
    path = directory / CONFIG
    content = read_json(path)
    model_type = content.get("model_type")
    if not is_ours(model_type):
        raise ValueError(
            f"{path} has model_type={quote(model_type)}, which hf_attn does not know; "
            f"it loads {', '.join(FAMILIES)}.{_suggest_update(directory)}"
        )
    family = FAMILIES[model_type]
    _check_fields(path, content, family)
    _check_values(path, content, family)
    try:
        return family.config.from_dict(content)
    except (ValueError, TypeError, AttributeError, OverflowError, StrictDataclassError) as error:
        raise ValueError(f"{path} is refused: {shorten(error)}") from error


def class_of(config: PreTrainedConfig) -> type[PreTrainedModel]:
    """The class that a configuration names: the family's head, or its model without one; else ValueError."""
    family = FAMILIES[config.model_type]
    known = {cls.__name__: cls for cls in (family.head, family.base)}
    for name in config.architectures or [family.head.__name__]:
        if name in known:
            return known[name]
    named = quote(config.architectures)
    raise ValueError(f"{CONFIG} has architectures={named}; {config.model_type} has {', '.join(known)}.")


def read_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """Names and shapes of a file's tensors, from its header; ValueError where it is too long or not whole."""
    try:
        with path.open("rb") as file:
            size = int.from_bytes(file.read(8), "little")
        if size > LARGEST_HEADER:
            raise ValueError(f"its header has {size:,} bytes, more than {LARGEST_HEADER:,}")
        with safe_open(path, "pt") as file:
            found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        if len(found) > MOST_TENSORS:
            raise ValueError(f"it holds {len(found):,} tensors, more than {MOST_TENSORS:,}")
    except (SafetensorError, OSError, ValueError) as error:
        raise ValueError(
            f"{path} is not a whole safetensors file ({shorten(error)}). Save or download it again."
        ) from error
    return found


def build_empty(
    name: str,
    config: PreTrainedConfig,
    model_class: type[PreTrainedModel],
    shapes: Mapping[str, Sequence[int]],
) -> PreTrainedModel:
    """Build a model without its numbers, on the meta device.

    It is counted while it is built, since a configuration may describe more layers than there is memory for.

    Args:
        name: what a refusal names.
        config: of the model.
        model_class: which is built.
        shapes: of the tensors in its files, by their names.

    Raises:
        ValueError: it cannot be built, or needs far more numbers or parts than its files hold.
    """
    held = sum(map(math.prod, shapes.values()))
    left = {
        "numbers": 4 * held + SMALL,  # before they are tied, Marian has four copies of its embeddings
        "tensors": 4 * len(shapes) + 1000,
        "parts": 64 * len(shapes) + 10_000,
    }
    counted = {}  # id → parameter: where two are tied, one is registered again

    def count(**taken: int) -> None:
        for what, amount in taken.items():
            left[what] -= amount
            if left[what] < 0:
                raise ValueError(
                    f"its files hold {held:,} numbers in {len(shapes):,} tensors, and {CONFIG} describes a "
                    f"model of far more {what}"
                )

    def count_once(weight: torch.nn.Parameter | None) -> None:
        if weight is not None and id(weight) not in counted:
            counted[id(weight)] = weight
            count(numbers=weight.numel(), tensors=1)

    _building.weight, _building.part = count_once, lambda: count(parts=1)
    try:
        with building_model(), torch.device("meta"):
            return model_class(config)
    except Exception as error:  # torch raises many kinds for a size that it cannot have
        raise ValueError(f"No model can be built from {name}: {shorten(error)}") from error
    finally:
        _building.weight = _building.part = None


def check_weights(path: Path, config: PreTrainedConfig, model_class: type[PreTrainedModel]) -> None:
    """Compare the names and shapes of the file's tensors with the configured model's, else ValueError."""
    found = read_shapes(path)
    layers = max(
        getattr(config, name, 0) for name in ("num_hidden_layers", "encoder_layers", "decoder_layers")
    )
    if layers > len(found):  # every layer has weights: do not try to build what cannot be in the file
        raise ValueError(f"{path} holds {len(found)} tensors, too few for the {layers} layers of {CONFIG}.")
    empty = build_empty(str(path.parent / CONFIG), config, model_class, found)
    expected = {name: tuple(tensor.shape) for name, tensor in empty.state_dict().items()}
    tied = set(empty.all_tied_weights_keys)
    remedy = f"{CONFIG} and {WEIGHTS} are not of the same model; save it again."
    for name, shape in expected.items():
        if name not in found and name not in tied:
            raise ValueError(f"{path} lacks the tensor {quote(name)}. {remedy}")
        if name in found and name in tied:
            raise ValueError(f"{path} holds {quote(name)}, which the configuration ties to another. {remedy}")
        if name in found and found[name] != shape:
            raise ValueError(
                f"{path}: {quote(name)} has shape {quote(list(found[name]))}, the configuration wants "
                f"{list(shape)}. {remedy}"
            )
    if unknown := sorted(set(found) - set(expected)):
        raise ValueError(
            f"{path} holds a tensor {quote(unknown[0])} that the configuration does not have. {remedy}"
        )


def load_tokenizer(directory: Path, config: PreTrainedConfig) -> PreTrainedTokenizerFast:
    """Read the tokenizer and compare its size and special ids with the configuration's, else ValueError."""
    path = directory / "tokenizer.json"
    tokenizer = open_tokenizer(directory, PreTrainedTokenizerFast)
    remedy = "They are of different models; save it again."
    if len(tokenizer) != config.vocab_size:
        raise ValueError(
            f"{path} has {len(tokenizer)} tokens, but {CONFIG} has vocab_size={config.vocab_size}. {remedy}"
        )
    for name in ("pad_token_id", "bos_token_id", "eos_token_id"):
        found, allowed = getattr(tokenizer, name), getattr(config, name)
        if found not in (allowed if isinstance(allowed, list) else [allowed]):
            raise ValueError(f"{path} has {name}={found}, but {CONFIG} has {allowed}. {remedy}")
    return tokenizer


def open_tokenizer(directory: Path, tokenizer_class: Any) -> Any:
    """Build a folder's tokenizer once its files are checked: whatever opens one, opens it here.

    Args:
        directory: the folder.
        tokenizer_class: a class of transformers that builds it, AutoTokenizer too.

    Raises:
        ValueError: a file is refused (`tokenizer_parts`), or cannot be read.
    """
    for name, (most, check) in TOKENIZER_CHECKS.items():
        if find_file(directory, name):
            check(directory / name, read_json(directory / name, most))
    place = str(directory / "tokenizer.json")
    try:
        tokenizer = tokenizer_class.from_pretrained(directory, trust_remote_code=False, local_files_only=True)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # `tokenizers` raises plain Exception, and a panic, which is not even one
        raise ValueError(f"{place} cannot be read ({shorten(error)}). Save it again.") from error
    check_built(place, tokenizer)
    return tokenizer


def check_generation(directory: Path, config: PreTrainedConfig) -> None:
    """Refuse a generation_config.json by which the model cannot generate."""
    path = directory / GENERATION
    if find_file(directory, GENERATION) is None:
        return
    content = read_json(path, LARGEST_SETTINGS)
    if (held := sum(1 for _ in list_values(content))) > MOST_VALUES:
        raise ValueError(f"{path} holds {held:,} values; {MOST_VALUES:,} at most are read. {SAVE_AGAIN}")
    for name, value in content.items():
        if name.endswith("_token_id"):
            _check_ids(path, name, value, config.vocab_size)
        elif isinstance(value, int) and not -1 < value <= LARGEST_SETTING:
            raise ValueError(f"{path} has {name}={value}; at most {LARGEST_SETTING} is written. {SAVE_AGAIN}")
    try:
        GenerationConfig.from_dict(content)
    except (ValueError, TypeError, AttributeError, StrictDataclassError) as error:
        raise ValueError(f"{path} is refused: {shorten(error)}") from error


def _check_fields(path: Path, content: Mapping, family: Family) -> None:
    """Refuse unknown fields, and an auto_map that names other code than hf_attn's."""
    known = {field.name for field in dataclasses.fields(family.config)} | set(family.config().to_dict())  # type: ignore[arg-type]
    unknown = sorted(set(content) - known - NOTES)
    if unknown:
        remedy = _suggest_update(path.parent) or " Take them out if they came from elsewhere."
        raise ValueError(
            f"{path} has fields that hf_attn does not know: {shorten(', '.join(unknown))}.{remedy}"
        )
    auto_map = content.get("auto_map") or {}
    named = auto_map.items() if isinstance(auto_map, Mapping) else [("auto_map", auto_map)]
    for auto, code in named:
        if family.auto_map.get(auto) != code:
            raise ValueError(
                f"{path} names code that is not hf_attn's: auto_map has {quote(auto)}: {quote(code)}. "
                f"{NOT_RUN}"
            )


def _check_values(path: Path, content: Mapping, family: Family) -> None:
    """Refuse values that the configuration's class would accept, or refuse only after much memory."""
    defaults = family.config()
    _check_fixed(path, content, defaults)
    for name, value in content.items():
        if isinstance(value, int | float) and not abs(value) <= LARGEST_NUMBER and name != "rope_theta":
            raise ValueError(f"{path} has {name}={value:g}, which is more than any model has.")
    names = content.get("architectures")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise ValueError(f"{path} has architectures={quote(names)}; it must be a list of class names.")
    _check_classes(path, content)
    vocab_size = content.get("vocab_size", defaults.vocab_size)
    if isinstance(vocab_size, int):
        for name in [name for name in content if name.endswith("_token_id")]:
            _check_ids(path, name, content[name], vocab_size)
            if content[name] is None and getattr(defaults, name) is not None:
                raise ValueError(f"{path} has no {name}, and {family.title}s need one. {SAVE_AGAIN}")


def _check_fixed(path: Path, content: Mapping, defaults: PreTrainedConfig) -> None:
    for name in SET_IN_CALLS:
        if (value := content.get(name, default := getattr(defaults, name))) != default:
            raise ValueError(f"{path} has {name}={quote(value)}; leave it out, it is asked for in each call.")
    allowed = {
        "is_encoder_decoder": (defaults.is_encoder_decoder,),
        "dtype": (*DTYPES, None),
        "torch_dtype": (*DTYPES, None),
        "problem_type": PROBLEMS,
    }
    for name, values in allowed.items():
        if name in content and content[name] not in values:
            allowed_here = f"a {defaults.model_type} has {', '.join(map(str, values))}"
            raise ValueError(f"{path} has {name}={quote(content[name])}; {allowed_here}. {SAVE_AGAIN}")


def _check_ids(path: Path, name: str, value, vocab_size: int) -> None:
    if value is None:
        return
    ids = value if isinstance(value, list) and value else [value]
    if not all(type(one) is int and 0 <= one < vocab_size for one in ids):
        allowed = f"ids are whole numbers from 0 to {vocab_size - 1}"
        raise ValueError(f"{path} has {name}={quote(value)}; {allowed}. {SAVE_AGAIN}")


def _check_classes(path: Path, content: Mapping) -> None:
    names, numbers = content.get("id2label"), content.get("label2id")
    if names is None and numbers is None:
        return
    wanted = {str(place) for place in range(len(names))} if isinstance(names, Mapping) else None
    if isinstance(names, Mapping) and len(names) > MOST_LABELS:
        raise ValueError(f"{path} names {len(names):,} classes; {MOST_LABELS:,} at most are read.")
    if not isinstance(names, Mapping) or set(names) != wanted or not names:
        raise ValueError(f"{path} has an id2label that does not name classes 0, 1, 2, …. {SAVE_AGAIN}")
    if numbers is not None and numbers != {name: int(place) for place, name in names.items()}:
        raise ValueError(f"{path} has a label2id that is not its id2label turned round. {SAVE_AGAIN}")


def _suggest_update(directory: Path) -> str:
    """A sentence to update hf_attn, if a newer one saved the folder; else empty."""
    try:
        saved_by = str(read_json(directory / TRAINING)["versions"]["hf_attn"])
        installed = find_versions()["hf_attn"]
        if [int(part) for part in saved_by.split(".")] <= [int(part) for part in installed.split(".")]:
            return ""
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    return f" It was saved by hf_attn {saved_by}, and this is {installed}: pip install -U hf-attn."
