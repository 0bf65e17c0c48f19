"""The app, as a command: `hf-attn app`, and in a clone or a Space `python app.py`."""

import errno
import importlib
import os
import socket
import sys
from pathlib import Path
from types import ModuleType
from typing import Annotated, Literal

import typer

from hf_attn.cli.output import WrongUse, silence_transformers, wrong_use
from hf_attn.utils.optional_packages import require_package

CLONE = Path(__file__).parents[2]
HOST = "0.0.0.0" if "SPACE_ID" in os.environ else "127.0.0.1"


def app(
    host: Annotated[str, typer.Option(envvar="GRADIO_SERVER_NAME", help="Address to listen on.")] = HOST,
    port: Annotated[
        int, typer.Option(min=1, max=65535, envvar="GRADIO_SERVER_PORT", help="Port to listen on.")
    ] = 7860,
    share: Annotated[
        bool, typer.Option("--share", help="Also open a public link through Gradio's servers.")
    ] = False,
    trust_visitors: Annotated[
        bool,
        typer.Option(
            "--trust-visitors",
            help="Let visitors train as large and as long as you may; this machine's folders and Hub token "
            "stay closed to them.",
        ),
    ] = False,
    password: Annotated[
        str | None, typer.Option(envvar="HF_ATTN_PASSWORD", help="Password that visitors must know.")
    ] = None,
    checkpoint: Annotated[
        str | None, typer.Option(metavar="PATH", help="Checkpoint folder to offer first in Try and Explore.")
    ] = None,
    device: Annotated[
        Literal["auto", "cpu", "cuda", "mps"], typer.Option(help="Device on which runs train.")
    ] = "auto",
    mcp: Annotated[bool, typer.Option("--mcp", help="Offer the named endpoints to agents, by MCP.")] = False,
) -> None:
    """Start the app in the browser: watch small Transformers learn.

    With --share, --password or a --host that others reach, and in a Space, visitors get small models and
    short runs, and neither this machine's folders nor what its Hub token may read.
    """
    if password == "" or (password is None and os.environ.get("HF_ATTN_PASSWORD") == ""):
        raise WrongUse("--password is empty: give one that visitors must know, or unset HF_ATTN_PASSWORD.")
    if password and mcp:
        raise WrongUse("--mcp asks for no password: leave one of --mcp and --password out.")
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # read when gradio is imported
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        socket.create_server((host, port)).close()  # before the imports, which take seconds
        print("Loading hf_attn; this takes some seconds …", flush=True)
        launch = _import_launch(mcp)
        silence_transformers()
        page, sentence = launch.start(
            host,
            port,
            share=share,
            trust_visitors=trust_visitors,
            password=password,
            checkpoint=checkpoint,
            device=device,
            mcp=mcp,
        )
    except (ValueError, OSError, OverflowError) as error:
        reason = " ".join(str(error).split())
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            reason = f"the port is taken: stop what runs there, or choose another by --port {port + 1}."
        raise WrongUse(f"{host}:{port}: {reason}") from error
    print(sentence, flush=True)
    page.block_thread()


def _import_launch(mcp: bool) -> ModuleType:
    """The app's module that starts it: of the clone that this file is in, else the installed one."""
    with wrong_use():
        require_package("gradio", "The app")
        if mcp:
            require_package("mcp", "--mcp")
    if (CLONE / "demos" / "launch.py").is_file():
        sys.path.insert(0, str(CLONE))
        return importlib.import_module("demos.launch")
    return importlib.import_module("hf_attn_app.launch")
