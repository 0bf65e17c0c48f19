"""Open any model of transformers, from a folder or by its Hub id.

Only configuration, tokenizer and safetensors weights are read: no code from the folder is run, no pickle is
opened. A model that needs more is refused in a sentence.
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
from transformers import (
    CONFIG_MAPPING,
    AutoConfig,
    AutoImageProcessor,
    AutoModel,
    AutoModelForCausalLM,
    AutoModelForImageClassification,
    AutoModelForMaskedLM,
    AutoModelForQuestionAnswering,
    AutoModelForSeq2SeqLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoTokenizer,
    PreTrainedModel,
)

from hf_attn.architectures.families import is_ours
from hf_attn.architectures.memory import FLOAT, check_memory, measure_room
from hf_attn.checkpoints.save_load import Checkpoint, load_checkpoint
from hf_attn.checkpoints.validate import (
    CONFIG,
    INDEX,
    WEIGHTS,
    build_empty,
    list_model_files,
    open_tokenizer,
    read_json,
    read_shapes,
    refuse_adapter,
    refuse_pickles,
)
from hf_attn.hub.client import (
    NO_ANSWER,
    check_repo_id,
    check_revision,
    explain,
    open_hub,
    raise_hub_error,
)
from hf_attn.models.config_checks import MOST_LABELS
from hf_attn.utils.model_lock import building_model
from hf_attn.utils.text import quote, shorten

BACKBONES = ("backbone", "use_pretrained_backbone", "use_timm_backbone")  # fields that name other repos
ATTENTIONS = (None, "eager", "sdpa")  # ways to compute it that are in torch: others are code from the Hub
WEIGHTS_LIMIT = 4 * 2**30  # bytes
TOKENIZERS = (  # files of which a tokenizer is made
    "tokenizer.json",
    "tokenizer_config.json",
    "vocab.json",
    "vocab.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tokenizer.model",
)
DOWNLOADED = ("*.json", "*.txt", "*.model", "*.jinja", WEIGHTS, "model-*.safetensors")
HEADS = (
    AutoModelForSeq2SeqLM,
    AutoModelForCausalLM,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
    AutoModelForQuestionAnswering,
    AutoModelForImageClassification,
)


def open_model(
    path_or_id: str | Path,
    *,
    token: str | bool | None = None,
    revision: str | None = None,
    max_bytes: int = WEIGHTS_LIMIT,
    endpoint: str | None = None,
    cache_dir: str | Path | None = None,
) -> Checkpoint:
    """Open a model from a folder or the Hub: one of hf_attn's, or any for which transformers has a class.

    Args:
        path_or_id: a folder, or "owner/name" on the Hub.
        token: for private and gated repos; None takes the one that is logged in, False takes none.
        revision: branch, tag or commit (default: main).
        max_bytes: refuse larger weights before they are downloaded.
        endpoint: of another Hub (default: HF_ENDPOINT).
        cache_dir: for downloads (default: huggingface_hub's).

    Returns:
        A checkpoint in evaluation mode and float32. `task` is None for a model that hf_attn did not train;
        `tokenizer` is an image processor for a model that reads images, and None where there is none.

    Raises:
        FileNotFoundError: there is no such folder, or it lacks a file.
        ValueError: it cannot be downloaded or must not be opened; the message says why and what to do.
    """
    folder = Path(path_or_id).expanduser()
    if not folder.is_dir():
        folder = _download(str(path_or_id), token, revision, max_bytes, endpoint, cache_dir)
    files = list_model_files(folder)
    sizes = {name: path.stat().st_size for name, path in files.items()}
    _check_listing(str(path_or_id), {**dict.fromkeys(os.listdir(folder), 0), **sizes}, max_bytes)
    content = read_json(folder / CONFIG)
    if is_ours(content.get("model_type")):
        return load_checkpoint(folder)
    _check_config(str(path_or_id), content)
    _check_parts(str(path_or_id), folder, files)
    return _load(folder, str(path_or_id), files)


def _download(name: str, token, revision, max_bytes: int, endpoint, cache_dir) -> Path:
    """Download a repository's files; the folder where huggingface_hub keeps them."""
    if Path(name).is_absolute() or name.startswith((".", "~")) or name.count("/") > 1:
        raise FileNotFoundError(f"There is no folder {name!r}; give a model's folder, or its id on the Hub.")
    check_repo_id(name)
    check_revision(revision)
    api = open_hub(token, endpoint)
    wanted = {
        "allow_patterns": DOWNLOADED,
        "ignore_patterns": ("*/*",),
        "revision": revision,
        "cache_dir": cache_dir,
    }
    try:
        info = api.model_info(name, revision=revision, files_metadata=True)
        _check_listing(name, {file.rfilename: file.size or 0 for file in info.siblings or ()}, max_bytes)
        with raise_hub_error():
            return Path(snapshot_download(name, token=token, endpoint=endpoint, **wanted))
    except NO_ANSWER as error:
        if not isinstance(error, HfHubHTTPError) and token is not False:  # the cache may hold what is private
            with contextlib.suppress(LocalEntryNotFoundError):  # a model in the cache needs no network
                return Path(snapshot_download(name, local_files_only=True, **wanted))
        raise ValueError(explain(error, api, name)) from None  # its request holds the token


def _check_listing(name: str, sizes: Mapping[str, int], max_bytes: int) -> None:
    """Refuse a model by the names and sizes of its files."""
    if CONFIG not in sizes:
        raise FileNotFoundError(f"{name} has no {CONFIG}: it is no model of transformers.")
    if not sizes.keys() & {WEIGHTS, INDEX}:
        refuse_pickles(name, sizes)
        raise FileNotFoundError(f"{name} has no {WEIGHTS}: there are no weights that can be opened.")
    weights = sum(size for file, size in sizes.items() if file == WEIGHTS or file.startswith("model-"))
    if weights > max_bytes:
        raise ValueError(
            f"{name} has {weights / 2**30:.1f} GB of weights; up to {max_bytes / 2**30:.1f} GB are opened. "
            "Choose a smaller model, or raise max_bytes."
        )


def _check_config(name: str, content: Mapping) -> None:
    """Refuse a configuration for which transformers needs code or packages from elsewhere."""
    if content.get("auto_map"):
        raise ValueError(
            f"{name} needs code of its own (auto_map in {CONFIG}), and no code from a repository is run "
            "here. Open a model whose classes are in transformers."
        )
    model_type = content.get("model_type")
    if not isinstance(model_type, str) or model_type not in CONFIG_MAPPING:
        raise ValueError(f"{name} has model_type={quote(model_type)}, which this transformers does not know.")
    if content.get("quantization_config"):
        raise ValueError(f"{name} is quantised; open the model that it was made from.")
    for part in _parts_of(content):
        for field, value in part.items():
            if "_implementation" in str(field) and value not in ATTENTIONS:
                raise ValueError(
                    f"{name} computes by code from elsewhere ({field}={quote(value)} in {CONFIG}), "
                    "and none is run here; take it out of the file, or write eager or sdpa."
                )
        if any(part.get(field) for field in BACKBONES):
            raise ValueError(
                f"{name} takes a part of its model from another repository (backbone in {CONFIG}), and only "
                "what it holds itself is opened here. Open a model that is whole."
            )
        for field in ("num_labels", "id2label"):
            size = len(value) if isinstance(value := part.get(field), Mapping) else value
            if isinstance(size, int) and size > MOST_LABELS:
                raise ValueError(f"{name} has {size:,} classes; {MOST_LABELS:,} at most are opened.")


def _parts_of(content: Mapping) -> Iterator[Mapping]:
    """A configuration and the ones nested in it, such as those of an encoder and a decoder."""
    yield content
    for value in content.values():
        if isinstance(value, Mapping):
            yield from _parts_of(value)


def _check_size(name: str, files: Mapping[str, Path], config, model_class) -> None:
    """Refuse a model much larger than its weights or than this machine's memory, before it is built."""
    shapes: dict[str, tuple[int, ...]] = {}
    for part in [WEIGHTS] if WEIGHTS in files else [file for file in files if file.endswith(".safetensors")]:
        shapes |= read_shapes(files[part])
    layers = [
        value
        for part in _parts_of(config.to_dict())
        for field, value in part.items()
        if "layer" in str(field) and isinstance(value, int)
    ]
    if max(layers, default=0) > len(shapes):  # every layer has weights: do not build what cannot be there
        raise ValueError(f"{name} holds {len(shapes)} tensors, too few for {max(layers)} layers in {CONFIG}.")
    empty = build_empty(f"{name}/{CONFIG}", config, model_class, shapes)
    needed = sum(weight.numel() for weight in empty.parameters())
    check_memory(FLOAT * needed, measure_room(), name, "its size: choose a smaller model")


def _check_parts(name: str, folder: Path, files: Mapping[str, Path]) -> None:
    """Refuse an index that names files elsewhere: transformers would open any path in it."""
    refuse_adapter(name, files)
    if WEIGHTS in files:
        return
    places = read_json(folder / INDEX).get("weight_map")
    named = list(places.values()) if isinstance(places, dict) else [places]
    if others := [part for part in named if not isinstance(part, str) or part not in files]:
        raise ValueError(
            f"{name}: {INDEX} names {shorten(repr(others[0]))}, which is no file of its folder. Save the "
            "model again, or download it whole."
        )


def choose_class(config) -> type[PreTrainedModel]:
    """The class that a configuration names, or else its model without a head.

    ValueError where it reads neither text nor images.
    """
    named = (config.architectures or [""])[0]
    if not named and config.is_encoder_decoder:
        known = _classes_of(AutoModelForSeq2SeqLM, config)
    else:
        known = [cls for auto in HEADS for cls in _classes_of(auto, config) if cls.__name__ == named]
    known += _classes_of(AutoModel, config)
    if not known or known[0].main_input_name not in ("input_ids", "pixel_values"):
        raise ValueError(f"model_type={config.model_type!r} reads neither text nor images.")
    return known[0]


def _classes_of(auto, config) -> list[type[PreTrainedModel]]:
    if type(config) not in auto._model_mapping:
        return []
    found = auto._model_mapping[type(config)]
    return list(found) if isinstance(found, tuple) else [found]


def _load(folder: Path, name: str, files: Mapping[str, Path]) -> Checkpoint:
    """Load a model with its class in transformers, and its tokenizer or image processor."""
    safely = {"trust_remote_code": False, "local_files_only": True}
    with _explain_errors(name):
        config = AutoConfig.from_pretrained(folder, **safely)
        model_class = choose_class(config)
        _check_size(name, files, config, model_class)
        with building_model():
            loaded: Any = model_class.from_pretrained(
                folder,
                config=config,
                dtype=torch.float32,
                use_safetensors=True,
                local_files_only=True,
                output_loading_info=True,
            )
        model, info = loaded
        model.eval()
        reads_images = model.main_input_name == "pixel_values"
        if not reads_images:
            _run_once(model)
        reader: Any = None
        if reads_images:
            reader = AutoImageProcessor.from_pretrained(folder, **safely)
        elif any((folder / file).is_file() for file in TOKENIZERS):
            reader = open_tokenizer(folder, AutoTokenizer)
    if info["missing_keys"]:
        missing = sorted(info["missing_keys"])
        raise ValueError(
            f"{name} lacks {len(missing)} tensors of a {model_class.__name__} ({missing[0]}, …): they would "
            "be random, and so would the maps."
        )
    if (
        reader is not None
        and not reads_images
        and len(reader) > (rows := model.get_input_embeddings().weight.shape[0])
    ):
        raise ValueError(
            f"{name} has a tokenizer of {len(reader)} tokens, but a model of {rows}: they do not belong "
            "together."
        )
    return Checkpoint(model, reader, None, {}, folder)


@torch.no_grad()
def _run_once(model: PreTrainedModel) -> None:
    """Read two tokens: a configuration may hold numbers that no model can compute with."""
    ids = torch.zeros(1, 2, dtype=torch.long)
    model(input_ids=ids, **({"decoder_input_ids": ids} if model.config.is_encoder_decoder else {}))


@contextlib.contextmanager
def _explain_errors(name: str) -> Iterator[None]:
    """Turn whatever transformers and torch raise over the files into one sentence: it can be anything."""
    try:
        yield
    except Exception as error:
        raise ValueError(f"{name} cannot be opened: {shorten(error)}") from error
