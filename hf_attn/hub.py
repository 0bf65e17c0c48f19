"""The checkpoint folder: what the Hub wants and nothing else. Save it, load it, list those there are."""

import dataclasses
import importlib.metadata
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import torch
from huggingface_hub.errors import StrictDataclassError
from safetensors import SafetensorError, safe_open
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerFast

from hf_attn.atomic import atomic_directory
from hf_attn.baselines import Baseline
from hf_attn.cards import build_card
from hf_attn.evaluation import Evaluation, Score, predict, refuse_too_long
from hf_attn.registration import FAMILIES, register_auto_classes
from hf_attn.tasks import TASKS, Recipe, Task, build_task, find_task
from hf_attn.tasks.base import CLASSES, SEQUENCE
from hf_attn.tokenization import build_tokenizer

CONFIG, WEIGHTS, TRAINING = "config.json", "model.safetensors", "training.json"
NEEDED_FILES = (CONFIG, WEIGHTS, "tokenizer.json", "tokenizer_config.json")
PICKLES = ("pytorch_model.bin", "model.bin", "model.pt", "model.pth")
CURVE_POINTS = 200  # of a run's reports, as many as a curve can show
KEPT_FAILURES = 20


@dataclass(frozen=True)
class Checkpoint:
    """A trained model with what belongs to it.

    Attributes:
        model: ready to read and write (evaluation mode).
        tokenizer: of the task's vocabulary.
        task: what it learned, with its options; None where the folder does not say.
        training: how it was trained and what was measured, from training.json; empty where there is none.
        path: the folder.
    """

    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerFast
    task: Task | None
    training: dict
    path: Path

    def task_named(self, name: str | type[Task] | None = None, **options) -> Task:
        """The task that the model learned, or another one whose symbols are the same.

        Args:
            name: a name in TASKS, or a class; the model's own task where None.
            **options: of the task, where they are to be others.

        Raises:
            ValueError: the folder does not say what was learned, no such task, or its symbols are others.
        """
        learned = self.training.get("task") or {}
        own_name = learned.get("name")
        if name is not None:
            chosen = find_task(name) if isinstance(name, str) else name
        elif self.task is not None:
            chosen = type(self.task)
        else:
            whose = f"it learned {own_name!r}, a task of somebody's own: name its file, --task FILE.py"
            raise ValueError(
                f"{self.path} does not say what it learned; {whose if own_name else f'it has no {TRAINING}'}."
            )
        if chosen.name == own_name:
            task = build_task(chosen, **{**learned.get("options", {}), **options})
            task = task.restore(self.tokenizer, _classes_of(self.model.config))
        else:
            task = build_task(chosen, **options)
        if task.vocabulary != self.tokenizer.get_vocab():
            other = f"task={task.name!r}: its symbols are not those that"
            raise ValueError(f"{other} {self.path} was trained on.")
        refuse_too_long(task, self.model)
        return task


def build_training_record(
    task: Task,
    recipe: Recipe,
    evaluation: Evaluation | None,
    *,
    seed: int,
    reports: Iterable[Mapping],
    device: str,
    threads: int,
    until: float | None = None,
    baseline: Baseline | None = None,
) -> dict:
    """How a model came about and what it can do, for training.json and the card.

    Args:
        task: what was learned.
        recipe: how.
        evaluation: measured on held-out examples after the last step; None where nothing was measured.
        seed: of weights and examples.
        reports: the run's reports as mappings with step, seconds, loss and held_out_exact_match; the last one
            gives steps and seconds.
        device: where it was trained, in words.
        threads: processor threads that torch used.
        until: the accuracy at which the run was to stop, if any.
        baseline: of a task that names classes, measured on the same held-out examples.
    """
    reports = list(reports)
    last = reports[-1] if reports else {"step": 0, "seconds": 0.0}
    return {
        "task": _describe_task(task),
        "model": recipe.architecture,
        "recipe": dataclasses.asdict(recipe),
        "seed": seed,
        "until": until,
        "steps": last["step"],
        "seconds": round(last["seconds"], 3),
        "device": device,
        "threads": threads,
        "results": None if evaluation is None else _describe_results(task, evaluation, baseline),
        "curve": _thin(
            [
                {name: report.get(name) for name in ("step", "loss", "held_out_exact_match")}
                for report in reports
            ]
        ),
        "versions": _versions(),
    }


def save_checkpoint(directory: str | Path, model: PreTrainedModel, task: Task, training: Mapping) -> Path:
    """Write a checkpoint folder, whole or not at all.

    Args:
        directory: the folder; its name is the model's name on the card. What stood there is replaced.
        model: an encoder-decoder or a classifier of `hf_attn.models`.
        task: gives tokenizer and worked example.
        training: what `build_training_record` gave; whatever is missing is left out of the card.

    Returns:
        The folder.

    Raises:
        ValueError: a model of another type.
        OSError: the disk is full or cannot be written; the folder is as it was.
    """
    directory = Path(directory)
    model_type = getattr(getattr(model, "config", None), "model_type", None)
    if model_type not in FAMILIES:
        raise ValueError(f"model_type={model_type!r} cannot be saved; hf_attn saves {', '.join(FAMILIES)}.")
    register_auto_classes()  # so that save_pretrained copies the code
    record = {
        "task": _describe_task(task),
        "versions": _versions(),
        **training,
        **_describe_model(model, task),
    }
    card = build_card(directory.resolve().name, task, record)
    with atomic_directory(directory) as partial:
        model.config.auto_map = FAMILIES[model_type].auto_map
        model.save_pretrained(partial)
        build_tokenizer(task).save_pretrained(partial)
        text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
        (partial / TRAINING).write_text(text + "\n", encoding="utf-8")
        (partial / "README.md").write_text(card, encoding="utf-8")
        for file in partial.iterdir():
            file.chmod(0o644)  # safetensors makes its file the owner's alone
    return directory


def load_checkpoint(directory: str | Path) -> Checkpoint:
    """Read a checkpoint folder, looking at every file before a model is built from it.

    Raises:
        FileNotFoundError: the folder or one of its files is missing.
        ValueError: a file cannot be read, or does not belong to the others.
    """
    directory = Path(directory)
    _check_files(directory)
    config = _load_config(directory)
    model_class = _class_of(config)
    _check_weights(directory / WEIGHTS, config, model_class)
    training = _read_json(directory / TRAINING) if (directory / TRAINING).exists() else {}
    tokenizer = _load_tokenizer(directory, config)
    task = _restore_task(training, directory)
    if task is not None:
        task = task.restore(tokenizer, _classes_of(config))
    if task is not None and len(task.vocabulary) != config.vocab_size:
        raise ValueError(
            f"{directory / TRAINING} names task {task.name!r} with {len(task.vocabulary)} tokens, "
            f"but {CONFIG} has vocab_size={config.vocab_size}. They are of different models; save it again."
        )
    model = model_class.from_pretrained(directory, config=config).eval()
    return Checkpoint(model, tokenizer, task, training, directory)


def list_checkpoints(folder: str | Path) -> list[Path]:
    """Folders in `folder` that hold a checkpoint of a known model type, by name; none where it is missing."""
    found = []
    for path in sorted(Path(folder).iterdir()) if Path(folder).is_dir() else []:
        if path.name.startswith(".") or not all((path / name).is_file() for name in NEEDED_FILES):
            continue
        try:
            known = _read_json(path / CONFIG).get("model_type") in FAMILIES
        except (ValueError, OSError):
            known = False
        if known:
            found.append(path)
    return found


def _describe_task(task: Task) -> dict:
    """Name and options; of a file of the user's only its name, since the folder may be shown to others."""
    options = dict(task.options)
    if options.get("path"):
        options["path"] = Path(str(options["path"])).name
    return {"name": task.name, "options": options}


def _describe_model(model: PreTrainedModel, task: Task) -> dict:
    """Type and size of the model, and what it makes of the task's worked example."""
    described: dict = {"model_type": model.config.model_type, "parameters": model.num_parameters()}
    if task.kind == (SEQUENCE if model.can_generate() else CLASSES):
        source = task.worked_example.source
        prediction = task.decode(predict(model, task, task.batch_of([source]))[0].tolist())
        correct = task.verify(source, prediction).correct
        described["worked_example"] = {"source": source, "prediction": prediction, "correct": correct}
    return described


def _describe_score(score: Score) -> dict:
    return {
        "examples": score.examples,
        "exact_match": score.exact_match,
        "interval": [score.interval.low, score.interval.high],
        "measures": score.measures,
    }


def _describe_results(task: Task, evaluation: Evaluation, baseline: Baseline | None) -> dict:
    failures = [
        dict(zip(("source", "prediction", "answer"), row, strict=True))
        for row in evaluation.failures[:KEPT_FAILURES]
    ]
    return {
        "split": "held-out",
        **_describe_score(evaluation.overall),
        "size_name": task.size_name,
        "by_size": {str(size): _describe_score(score) for size, score in evaluation.by_size.items()},
        "baseline": None if baseline is None else _describe_score(baseline.score),
        "failures": failures,
    }


def _versions() -> dict[str, str]:
    packages = ("torch", "transformers", "accelerate")
    found = {name: importlib.metadata.version(name) for name in packages}
    return {"python": platform.python_version(), **found, "hf_attn": _own_version()}


def _own_version() -> str:
    import hf_attn

    return hf_attn.__version__


def _thin(rows: list[dict]) -> list[dict]:
    """At most CURVE_POINTS rows, evenly chosen, the first and the last among them."""
    if len(rows) <= CURVE_POINTS:
        return rows
    return [rows[round(place * (len(rows) - 1) / (CURVE_POINTS - 1))] for place in range(CURVE_POINTS)]


def _check_files(directory: Path) -> None:
    if not directory.is_dir():
        raise FileNotFoundError(
            f"There is no folder {str(directory)!r}; give the folder of a saved checkpoint."
        )
    pickles = [name for name in PICKLES if (directory / name).exists()]
    if pickles and not (directory / WEIGHTS).exists():
        raise ValueError(
            f"{directory} holds its weights as a pickle ({pickles[0]}), which can run any code when read: "
            f"only {WEIGHTS} is loaded. Convert it where you trust it, with save_pretrained."
        )
    for name in NEEDED_FILES:
        if not (directory / name).is_file():
            raise FileNotFoundError(
                f"{directory} is no complete checkpoint: {name} is missing. Save it again."
            )


def _read_json(path: Path) -> dict:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not valid JSON ({error}). Save the checkpoint again.") from error
    if not isinstance(content, dict):
        raise ValueError(
            f"{path} must hold a JSON object, not {type(content).__name__}. Save the checkpoint again."
        )
    return content


def _load_config(directory: Path) -> PreTrainedConfig:
    """The validated configuration."""
    content = _read_json(directory / CONFIG)
    model_type = content.get("model_type")
    if model_type not in FAMILIES:
        raise ValueError(
            f"{directory / CONFIG} has model_type={model_type!r}, which hf_attn does not know; "
            f"it loads {', '.join(FAMILIES)}."
        )
    try:
        return FAMILIES[model_type].config.from_pretrained(directory)
    except (ValueError, TypeError, StrictDataclassError) as error:
        reason = " ".join(str(error).split())
        raise ValueError(f"{directory / CONFIG} is refused: {reason}") from error


def _class_of(config: PreTrainedConfig) -> type[PreTrainedModel]:
    """The class that was saved: the head, or the model without one."""
    family = FAMILIES[config.model_type]
    known = {cls.__name__: cls for cls in (family.head, family.base)}
    named = config.architectures or [family.head.__name__]
    for name in named if isinstance(named, list) else [named]:
        if isinstance(name, str) and name in known:
            return known[name]
    raise ValueError(
        f"{CONFIG} has architectures={config.architectures}; {config.model_type} has {', '.join(known)}."
    )


def _check_weights(path: Path, config: PreTrainedConfig, model_class: type[PreTrainedModel]) -> None:
    """Compare names and shapes in the file with what the configuration builds, without building it."""
    try:
        with safe_open(path, "pt") as file:
            found = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(
            f"{path} is not a whole safetensors file ({error}). Save or download it again."
        ) from error
    layers = max(
        getattr(config, name, 0) for name in ("num_hidden_layers", "encoder_layers", "decoder_layers")
    )
    if layers > len(found):  # every layer has weights: do not try to build what cannot be in the file
        raise ValueError(f"{path} holds {len(found)} tensors, too few for the {layers} layers of {CONFIG}.")
    with torch.device("meta"):
        empty = model_class(config)
    expected = {name: tuple(tensor.shape) for name, tensor in empty.state_dict().items()}
    tied = set(empty.all_tied_weights_keys)
    remedy = f"{CONFIG} and {WEIGHTS} are not of the same model; save it again."
    for name, shape in expected.items():
        if name not in found and name not in tied:
            raise ValueError(f"{path} lacks the tensor {name!r}. {remedy}")
        if name in found and found[name] != shape:
            raise ValueError(
                f"{path}: {name!r} has shape {list(found[name])}, the configuration wants {list(shape)}. "
                f"{remedy}"
            )
    if unknown := sorted(set(found) - set(expected)):
        raise ValueError(
            f"{path} holds a tensor {unknown[0]!r} that the configuration does not have. {remedy}"
        )


def _load_tokenizer(directory: Path, config: PreTrainedConfig) -> PreTrainedTokenizerFast:
    try:
        tokenizer = PreTrainedTokenizerFast.from_pretrained(directory)
    except Exception as error:  # `tokenizers` raises plain Exception
        reason = " ".join(str(error).split())
        raise ValueError(
            f"{directory / 'tokenizer.json'} cannot be read ({reason}). Save it again."
        ) from error
    if len(tokenizer) != config.vocab_size:
        raise ValueError(
            f"{directory / 'tokenizer.json'} has {len(tokenizer)} tokens, but {CONFIG} has "
            f"vocab_size={config.vocab_size}. They are of different models; save it again."
        )
    return tokenizer


def _classes_of(config: PreTrainedConfig) -> tuple[str, ...]:
    """Names of a classifier's classes, in their order."""
    return tuple(str(name) for _, name in sorted((config.id2label or {}).items()))


def _restore_task(training: Mapping, directory: Path) -> Task | None:
    """The task that was learned; None where the folder does not say, or where it is somebody's own."""
    described = training.get("task")
    if described is None or (isinstance(described, Mapping) and described.get("name") not in TASKS):
        return None
    try:
        return build_task(described["name"], **described.get("options", {}))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise ValueError(f"{directory / TRAINING} names no task that can be built: {error}") from error
