"""Start the app: `python app.py`, then open the address it prints. `--help` lists the options."""

import argparse
import errno
import os
import socket
import sys

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # before gradio is imported
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")


def parse() -> argparse.Namespace:
    """Read the options; where they are left out, the environment of a Space decides."""
    host = os.environ.get("GRADIO_SERVER_NAME", "0.0.0.0" if "SPACE_ID" in os.environ else "127.0.0.1")
    port = os.environ.get("GRADIO_SERVER_PORT", "7860")  # a text is read as an option is, and refused so
    options = argparse.ArgumentParser(description="Watch small Transformers learn, in the browser.")
    options.add_argument("--host", default=host, help="address to listen on (default %(default)s)")
    options.add_argument("--port", type=int, default=port, help="default %(default)s")
    options.add_argument("--share", action="store_true", help="a public link through Gradio's servers")
    options.add_argument("--checkpoint", metavar="PATH", help="a checkpoint folder for Try and Explore")
    options.add_argument("--device", default="auto", choices=("auto", "cpu", "cuda", "mps"))
    options.add_argument("--mcp", action="store_true", help="offer the named endpoints to agents, by MCP")
    return options.parse_args()


def say(line: str) -> None:
    """Tell whoever started the app how far it is."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    """Build the page and serve it until interrupted; 2 means that it could not start."""
    options = parse()
    where = {"server_name": options.host, "server_port": options.port, "share": options.share}
    try:
        socket.create_server((options.host, options.port)).close()  # before the imports, which take seconds
        say("Loading hf_attn; this takes some seconds …")
        import torch

        from demos import build_app, shared
        from demos.checkpoints import build_shelf
        from demos.limits import limits_here

        torch.set_num_threads(1)  # two runs at once train faster on two cores than with more threads each
        app = build_app(build_shelf(options.checkpoint), options.device)
        look = {"head": shared.HEAD, "theme": shared.THEME, "footer_links": [], "ssr_mode": False}
        most = {"state_session_capacity": limits_here().visits, "max_file_size": "50mb"}
        own_words = {"quiet": True, "prevent_thread_lock": True}
        _, local, public = app.launch(**where, **look, **most, **own_words, mcp_server=options.mcp)
        if options.mcp and app.mcp_error:
            raise OSError(f"--mcp cannot start: {app.mcp_error}")
        say(f"Running on {local} (Ctrl-C ends)" + (f"; for everybody on {public}" if public else ""))
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
