"""The command line: `hf-attn`, or `python -m hf_attn`. With `hf_attn/cli/` the only place that prints.

Exit codes: 0 done, 1 failed or interrupted, 2 wrong use. What takes seconds to import is imported in the
commands, so that help answers at once.
"""

import functools
import importlib
import math
import os
import sys
from collections.abc import Callable
from typing import Annotated, NoReturn

import typer
from typer.exceptions import TyperException

from hf_attn.cli import ablate, cards, duel, experiment, heads, hub, inspect, sources, train
from hf_attn.cli import app as start
from hf_attn.cli.output import Failure, WrongUse, silence_transformers, working, wrong_use
from hf_attn.utils.hardware import is_memory_full
from hf_attn.utils.optional_packages import MissingPackageError
from hf_attn.utils.python_file import OwnCodeError
from hf_attn.utils.text import replace_surrogates, shorten

app = typer.Typer(
    help="Understand attention by building it and watching it learn.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
NUMBERS = (  # what pydantic calls a number that cannot be read, or is out of its range
    *("int_parsing", "int_parsing_size", "int_from_float", "float_parsing"),
    *("greater_than_equal", "less_than_equal"),
)
LONGEST = 2_000  # characters of a refusal, which may quote what was given
INTERRUPTED = 130  # what typer makes of Ctrl-C


def loads_first(command: Callable[..., None], has_models: bool = True) -> Callable[..., None]:
    """The same command, which first imports what takes seconds; an unknown task is refused before that."""

    @functools.wraps(command)
    def run(*args, **options) -> None:
        with working(f"Loading torch{' and transformers' if has_models else ''} …"):
            if not (options.get("task") or ".py").endswith(".py"):
                tasks = importlib.import_module("hf_attn.tasks")
                with wrong_use():
                    tasks.find_task(options["task"])
            importlib.import_module("transformers.modeling_utils" if has_models else "torch")
        if has_models:
            silence_transformers()
        command(*args, **options)

    return run


def _print_version(is_asked: bool) -> None:
    if is_asked:
        from hf_attn import __version__

        print(f"hf-attn {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print the version and exit."),
    ] = False,
) -> None:
    """Understand attention by building it and watching it learn."""


app.command("app")(start.app)
app.command("tasks")(loads_first(train.list_tasks, has_models=False))
app.command()(loads_first(train.train))
app.command()(loads_first(duel.duel))
app.command("eval")(loads_first(inspect.evaluate_checkpoint))
app.command()(loads_first(inspect.generate))
app.command()(loads_first(inspect.attention))
app.command()(loads_first(heads.heads))
app.command()(loads_first(ablate.ablate))
app.command()(loads_first(experiment.experiment))
app.command()(loads_first(sources.sources))
app.command()(loads_first(hub.push))
app.command()(loads_first(hub.pull))
app.command()(loads_first(cards.cards))
app.command()(loads_first(hub.dataset))
app.command()(loads_first(hub.space))
app.command("push-space")(loads_first(hub.push_space))


def _leave(message: str, code: int) -> NoReturn:
    """Say in one line what went wrong, and go."""
    print(f"hf-attn: {shorten(message, LONGEST)}", file=sys.stderr)
    sys.exit(code)


def _explain(error: TyperException) -> str:
    """What was typed and what may be, where a number was wanted; typer has a library's sentence for that.

    Its error holds the option (annotation, min, max) and, as its cause, pydantic's list of what is wrong.
    """
    wrong: list = getattr(error.__cause__, "errors", list)()
    option = getattr(error, "param", None)
    if option is None or not wrong or wrong[0]["type"] not in NUMBERS:
        return shorten(error.format_message().replace("Value error, ", ""))
    kind = "number" if "float" in str(option.type_descriptor.annotation) else "whole number"
    bounds = {"from": option.min, "to": option.max}
    allowed = "".join(f" {word} {bound}" for word, bound in bounds.items() if bound is not None)
    works = option.default is not None and not callable(option.default)
    example = option.default if works else min((option.min or 0) + 1, option.max or math.inf)
    named = option.get_error_hint().partition(" (env")[0].strip("'")
    return f"{named} {wrong[0]['input']} is no {kind}{allowed}; give for example {named} {example}."


def main() -> None:
    """Run the command line; errors that are no bugs become one line, a bug shows its traceback."""
    try:
        words = [word if os.path.exists(word) else replace_surrogates(word) for word in sys.argv[1:]]
        code = app(words or ["--help"], prog_name="hf-attn", standalone_mode=False)
        sys.exit(code) if code != INTERRUPTED else _leave("interrupted.", 1)
    except TyperException as error:
        _leave(f"{_explain(error)} (--help tells more)", 2)
    except WrongUse as error:
        _leave(str(error), 2)
    except BrokenPipeError:  # whoever read the output has gone
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115
        sys.exit(1)
    except (Failure, OwnCodeError, MissingPackageError, OSError, ArithmeticError) as error:
        _leave(str(error), 1)  # also of a full disk
    except (RuntimeError, MemoryError) as error:
        if not is_memory_full(error):
            raise
        _leave(f"The memory is full; a smaller model or batch_size needs less. {error}".rstrip(), 1)


if __name__ == "__main__":
    main()
