"""For scripts and agents: the app's work as named endpoints, without the page.

`gradio_client` and, with `python app.py --mcp`, any MCP client list them with their descriptions and types;
docs/agents.md shows both. Whoever trains gets the run's name, which nobody can guess: the last MOST_RUNS runs
are kept for an hour.
"""

import collections
import functools
import inspect
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import gradio as gr
import pydantic
from gradio.context import LocalContext
from gradio.data_classes import FileData

from hf_attn.architectures.families import architectures_of
from hf_attn.architectures.optimizers import OPTIMIZERS
from hf_attn.architectures.registry import check_recipe
from hf_attn.architectures.settings import apply_settings
from hf_attn.evaluation.metrics import describe_interval
from hf_attn.generation.generate import generate_answer
from hf_attn.generation.strategies import STRATEGIES, list_parameters, name_users, refuse_unused
from hf_attn.tasks import TASKS, build_task
from hf_attn.tasks.base import Task
from hf_attn.tasks.recipes import Recipe
from hf_attn.training.duel import count_parameters
from hf_attn.utils.signatures import name_keywords
from hf_attn.utils.text import quote

from ..core.fields import LARGEST_SEED
from ..core.limits import limits_here
from ..jobs.job import FAILED
from ..session.catalog import ModelCatalog
from ..session.maps import compute_maps
from ..session.model_input import as_ids
from ..session.page import Page
from ..session.run_files import pack
from ..session.session import Session
from ..tabs.try_it.tab import first_settings, read_settings
from ..ui.formatting import shorten

MOST_RUNS = 16
KEPT_SECONDS = 3600.0
LAYERS = ("encoder_layers", "decoder_layers", "num_hidden_layers", "num_layers")
Kind = Literal["answering", "encoder", "decoder", "cross"]


def _name_settings(endpoint: Callable) -> Callable:
    """The endpoint with what strategies use, its `**settings`, named and described one by one."""
    rows = list_parameters()
    name_keywords(endpoint, {name: row.kind | None for name, row in rows.items()})
    defaults = {name: row.default for name, row in rows.items()} | first_settings()
    told = (
        f"{name}: {row.help}; for {', '.join(name_users(name))} (default: {defaults[name]})."
        for name, row in rows.items()
    )
    endpoint.__doc__ = endpoint.__doc__.replace(
        "**settings: (named from the table)", ("\n" + 12 * " ").join(told)
    )
    return endpoint


class RunFailed(Exception):
    """A run that ended before its last step; the message says why, in a sentence."""


@dataclass
class ApiSession:
    """What scripts ask for, and the runs that they trained: each in a session of its own, the oldest first.

    A refusal is a ValueError.
    """

    catalog: ModelCatalog
    device: str = "auto"
    kept: collections.OrderedDict[str, tuple[float, Session]] = field(default_factory=collections.OrderedDict)
    packed: dict[str, Path] = field(default_factory=dict)  # a run's name → its zip
    lock: threading.Lock = field(default_factory=threading.Lock)
    training: set[tuple[str | None, Session]] = field(default_factory=set)  # (visitor, what is being trained)

    def leave(self, visitor: str) -> None:
        """A client is gone: stop what it trains."""
        for one, session in list(self.training):
            if one == visitor:
                session.close()

    def keep(self, session: Session) -> str:
        """Give a session a name that cannot be guessed."""
        name = f"run-{secrets.token_hex(8)}"
        with self.lock:
            self.kept[name] = (time.monotonic(), session)
            self._let_go()
        return name

    def _let_go(self) -> None:
        """Forget the runs that are too old or too many; the caller holds the lock."""
        until = time.monotonic() - KEPT_SECONDS
        while self.kept and (len(self.kept) > MOST_RUNS or next(iter(self.kept.values()))[0] < until):
            gone, (_, old) = self.kept.popitem(last=False)
            self.packed.pop(gone, None)
            old.close()

    def find(self, checkpoint: str) -> tuple[Session, str]:
        """(session, choice in it) of a run's name or a bundled checkpoint's; ValueError where neither is."""
        with self.lock:
            self._let_go()
            if checkpoint in self.kept:
                session = self.kept[checkpoint][1]
                return session, next(iter(session.runs))
        bundled = {path.name: str(path) for _, path in self.catalog.folders}
        if checkpoint not in bundled:
            raise ValueError(
                f"checkpoint={quote(checkpoint)} is not here: give the run's name that /train returned "
                f"within the last hour, or one of {', '.join(bundled)}."
            )
        return Session(), bundled[checkpoint]

    def checkpoints(self) -> list[str]:
        """List the checkpoints that are bundled with the app, by name."""
        return [path.name for _, path in self.catalog.folders]

    def train_model(
        self,
        task: str,
        model: str = "",
        steps: int = 0,
        seed: int = 0,
        settings: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        """Train a tiny model on one of the tasks and keep it for an hour.

        Args:
            task: A name from /tasks, for example copy or addition.
            model: One of the task's models as /tasks lists them, for example decoder; what suits the task
                where empty.
            steps: How many training steps; the recipe's own where 0.
            seed: Of weights and examples: the same seed gives the same model.
            settings: Options by name, like {"max_length": 8, "hidden_size": 32}; "optimizer" is (OPTIMIZERS).

        Returns:
            The run's name (checkpoint, for the other endpoints), steps, seconds, and the share of held-out
            examples that are right, with its 95 % interval.
        """
        session, asked = Session(device=self.device), LocalContext.request.get(None)
        visit = (asked.session_hash if asked else None, session)
        self.training.add(visit)
        try:
            built, recipe = _read_recipe(task, model, steps, seed, settings)
            run = session.add(built, recipe, seed)
            if not session.is_over:  # its client left while the settings were read
                collections.deque(run.follow(), maxlen=0)
        finally:
            self.training.remove(visit)
        if session.is_over:
            raise RunFailed("The client that asked for this run is gone.")
        if run.status == FAILED:
            raise RunFailed(run.message)
        score = run.evaluation.overall
        return {
            "checkpoint": self.keep(session),
            "task": built.name,
            "steps": run.step,
            "seconds": round(run.seconds, 3),
            "held_out_exact_match": score.exact_match,
            **describe_interval(score),
            "examples": score.examples,
        }

    def download(self, checkpoint: str) -> FileData:
        """Download a run that /train kept, as a zip of the checkpoint folder that transformers loads.

        Args:
            checkpoint: The run's name that /train returned.
        """
        session, chosen = self.find(checkpoint)
        if chosen not in session.runs:
            raise ValueError(
                f"checkpoint={quote(checkpoint)} is bundled with the app; name a run that /train returned."
            )
        if checkpoint not in self.packed:
            self.packed[checkpoint] = pack(session, session.runs[chosen])
        path = self.packed[checkpoint]
        return FileData(path=str(path), orig_name=path.name, size=path.stat().st_size)

    @_name_settings
    def write_answer(
        self,
        checkpoint: str,
        text: str,
        strategy: Literal[tuple(STRATEGIES)] = "greedy",
        **settings: float | None,
    ) -> dict[str, Any]:
        """Let a checkpoint answer an input, and check the answer.

        Args:
            checkpoint: A name from /checkpoints, or a run's name that /train returned.
            text: The input, as the task writes it, for example 153+391.
            strategy: How each symbol is chosen.
            **settings: (named from the table)

        Returns:
            The prediction, whether it is right (null where nobody knows), its log probability, and each
            symbol with its probability.
        """
        session, chosen = self.find(checkpoint)
        refuse_unused(strategy, settings)
        given = {name: value for name, value in settings.items() if value is not None}
        how = read_settings(strategy, first_settings() | given)
        with self.catalog.open(session, chosen) as opened:
            ids = opened.encode(text.strip())
            most = opened.most_own(len(ids)) if opened.model.can_generate() else None
            written = generate_answer(opened.model, as_ids(opened, ids), strategy, max_new_tokens=most, **how)
            prediction = opened.read_text(list(written.ids))
            verdict = opened.reader.verify(text.strip(), prediction) if opened.reader else None
            labels = opened.labels(written.ids) if opened.model.can_generate() else [prediction]
            sure = [float(choice.probabilities[choice.token]) for choice in written.choices]
        return {
            "prediction": prediction,
            "correct": verdict.correct if verdict else None,
            "log_probability": written.score,
            "symbols": [{"symbol": s, "probability": p} for s, p in zip(labels, sure, strict=True)],
        }

    def attention_map(
        self,
        checkpoint: str,
        text: str,
        target: str = "",
        kind: Kind = "answering",
        layer: int = 0,
        head: int = 0,
    ) -> dict[str, Any]:
        """Fetch the attention map of one head: who reads whom, and with what weight.

        Args:
            checkpoint: A name from /checkpoints, or a run's name that /train returned.
            text: The input, as the task writes it.
            target: What is to be written; where empty, what the model writes itself, and of a language model
                nothing: each token of the text is shown.
            kind: Which attention; answering is that in which the answer reads the input.
            layer: Which layer; 0 is the first.
            head: Which head; 0 is the first.

        Returns:
            Names of the tokens that read (queries) and that are read (keys), and weights as rows of
            queries, each summing to 1.
        """
        session, chosen = self.find(checkpoint)
        with self.catalog.open(session, chosen) as opened:
            computed = compute_maps(opened, *opened.join(text.strip(), target.strip()))
            if computed.answering is None:
                raise ValueError(f"checkpoint={quote(checkpoint)} has no attention: it reads step by step.")
            shown = computed.answering if kind == "answering" else kind
            if shown not in computed.kinds:
                raise ValueError(f"kind={quote(kind)}: this model has {', '.join(computed.kinds)}.")
            if computed.long:
                raise ValueError("text and answer are too long for one reply: Explore shows them in windows.")
            weights = getattr(computed.maps, shown)
            layers, heads = weights.shape[:2]
            for name, number, most in (("layer", layer, layers), ("head", head, heads)):
                if not 0 <= number < most:
                    raise ValueError(f"{name}={number}: this model has {name}s 0 to {most - 1}.")
            queries, keys = map(list, computed.maps.sides(shown))
            answer = opened.read_text(computed.written) if computed.written else ""
        return {
            "kind": shown,
            "layer": layer,
            "head": head,
            "layers": layers,
            "heads": heads,
            "queries": queries,
            "keys": keys,
            "weights": weights[layer, head].tolist(),
            "answer": answer,
        }


@functools.cache  # building them all takes a second
def list_tasks() -> list[dict[str, str]]:
    """List the tasks that /train learns, with a worked example of each.

    Returns:
        For each task its name, how an input is written (notation), the models that learn it, an input, its
        answer, and what to look for.
    """
    found = []
    for name, task_class in TASKS.items():
        if not task_class.column_options:  # of a file, which no endpoint takes
            task = build_task(name)
            example = task.worked_example
            told = {"source": example.source, "target": example.target, "story": example.story}
            models = ", ".join(architectures_of(task.kind))
            found.append({"name": name, "notation": task.notation, "models": models, **told})
    return found


def build(page: Page, device: str) -> ApiSession:
    """Register the endpoints; their docstrings are what a client reads."""
    api_session = ApiSession(page.catalog, device)
    gr.api(list_tasks, api_name="tasks", queue=False)
    gr.api(api_session.checkpoints, api_name="checkpoints", queue=False)
    gr.api(
        _told(api_session.train_model),
        api_name="train",
        concurrency_limit=page.places,
        concurrency_id="train",
    )
    gr.api(_told(api_session.download), api_name="download")
    gr.api(_told(api_session.write_answer), api_name="write")
    gr.api(_told(api_session.attention_map), api_name="attention_map")
    return api_session


def _read_recipe(
    name: str, model: str, steps: int, seed: int, settings: dict[str, Any] | None
) -> tuple[Task, Recipe]:
    """What /train learns; ValueError for an unknown task, model or setting, or for more than is given."""
    if name in TASKS and TASKS[name].column_options:
        raise ValueError(
            f"task={quote(name)} needs a file, which no endpoint takes: train it in the app or the shell."
        )
    given = {**(settings or {}), **({"steps": steps} if steps else {})}
    for source in ("path", "dataset"):
        if given.get(source):
            raise ValueError(
                f"{source}={quote(given[source])}: no files and data sets of others are read here."
            )
    task, recipe = apply_settings(name, given, model or None)
    here = limits_here()
    here.refuse_more("steps", recipe.steps)
    here.refuse_more("examples", recipe.batch_size)
    for name in LAYERS:  # before all of them are built to be counted
        here.refuse_more("layers", recipe.model.get(name, 0))
    here.refuse_more("parameters", count_parameters(task, recipe))
    check_recipe(task, recipe, most=here.training_bytes)
    if not 0 <= seed <= LARGEST_SEED:
        raise ValueError(f"seed={seed}: give a whole number from 0 to {LARGEST_SEED}.")
    return task, recipe


def _told(endpoint: Callable) -> Callable:
    """The same endpoint: what is not of its type or is refused becomes the sentence that the client sees.

    Any other exception is a bug: its traceback is in the log.
    """
    checked, arguments = pydantic.validate_call(endpoint), inspect.signature(endpoint)

    @functools.wraps(endpoint)
    def told(*given, **named):
        try:
            bound = arguments.bind(*given, **named).arguments
        except TypeError as error:  # an argument is missing, or there is none of that name
            raise gr.Error(str(error), print_exception=False) from error
        try:
            return checked(**bound)
        except pydantic.ValidationError as error:
            wrong = error.errors()[0]
            name, allowed = wrong["loc"][0], wrong["msg"].removeprefix("Input should be ")
            sentence = f"{name}={shorten(repr(wrong['input']), 60)} is not allowed: give {allowed}."
            raise gr.Error(sentence, print_exception=False) from error
        except (ValueError, OverflowError, RunFailed) as error:
            raise gr.Error(str(error), print_exception=False) from error

    told.__signature__ = arguments
    told.__doc__ = (endpoint.__doc__ or "").replace("(OPTIMIZERS)", " or ".join(OPTIMIZERS))
    return told
