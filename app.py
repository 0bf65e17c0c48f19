"""Start the app: `python app.py`, then open the address it prints. `--help` lists the options."""

import argparse
import errno
import os
import socket
import sys

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # before gradio is imported
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

STRANGERS = """With --share, --password or a --host that others reach, and in a Space, visitors are strangers:
small models, short runs, and neither this machine's folders nor what its Hub token may read."""
TRUST = "visitors train as large and as long as you may; this machine's folders and Hub token stay closed"
PASSWORD = "only who knows it comes in, by any name; HF_ATTN_PASSWORD says it without others seeing it"


def parse() -> argparse.Namespace:
    """Read the options; where they are left out, the environment of a Space decides."""
    host = os.environ.get("GRADIO_SERVER_NAME", "0.0.0.0" if "SPACE_ID" in os.environ else "127.0.0.1")
    port = os.environ.get("GRADIO_SERVER_PORT", "7860")  # a text is read as an option is, and refused so
    parser = argparse.ArgumentParser(
        description="Watch small Transformers learn, in the browser.", epilog=STRANGERS
    )
    add = parser.add_argument
    add("--host", default=host, help="address to listen on (default %(default)s)")
    add("--port", type=int, default=port, help="default %(default)s")
    add("--share", action="store_true", help="a public link through Gradio's servers")
    add("--trust-visitors", action="store_true", help=TRUST)
    add("--password", default=os.environ.get("HF_ATTN_PASSWORD"), help=PASSWORD)
    add("--checkpoint", metavar="PATH", help="a checkpoint folder for Try and Explore")
    add("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"))
    add("--mcp", action="store_true", help="offer the named endpoints to agents, by MCP")
    options = parser.parse_args()
    if options.password == "":
        parser.error("--password is empty: write one that visitors must know.")
    if options.password and options.mcp:
        parser.error("--mcp asks for no password: leave one of them out.")
    return options


def say(line: str) -> None:
    """Tell whoever started the app how far it is."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Build the page and serve it until interrupted; 2 means that it could not start."""
    options = parse()
    try:
        socket.create_server((options.host, options.port)).close()  # before the imports, which take seconds
        say("Loading hf_attn; this takes some seconds …")
        from demos.server.launch import start

        app, sentence = start(**vars(options))
        say(sentence)
        app.block_thread()
    except (ValueError, OSError, OverflowError) as error:
        said = " ".join(str(error).split())
        if getattr(error, "errno", None) == errno.EADDRINUSE:
            said = f"the port is taken: stop what runs there, or choose another by --port {options.port + 1}."
        sys.stderr.write(f"app.py: {options.host}:{options.port}: {said}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
