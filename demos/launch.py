"""The app as a server: for whom it is decided first, then the page is built and launched."""

import gc
import os
import secrets
import socket

import gradio as gr
import torch

from hf_attn.utils.freed_memory import keep_freed_memory

from .app import HEAD, build_app
from .core.limits import choose_limits, decide_limits, is_loopback
from .core.upload import own_folder
from .session.catalog import build_catalog
from .ui import theme


def start(
    host: str,
    port: int,
    *,
    share: bool = False,
    trust_visitors: bool = False,
    password: str | None = None,
    checkpoint: str | None = None,
    device: str = "auto",
    mcp: bool = False,
) -> tuple[gr.Blocks, str]:
    """Build the page and serve it from other threads.

    Args:
        host: the address on which it listens.
        port: the port there.
        share: whether it also has a public link.
        trust_visitors: whether visitors may train as much as at home.
        password: what visitors must type, with any name; None for none.
        checkpoint: a folder that is offered first.
        device: where jobs train: "auto", "cpu", "cuda" or "mps".
        mcp: whether agents are offered the named endpoints.

    Returns:
        (the page, a sentence that says where it is and for whom).

    Raises:
        ValueError, OSError: it cannot be served so.
    """
    limits = choose_limits(host, share=share, trusts=trust_visitors, has_password=password is not None)
    decide_limits(limits)
    os.environ.setdefault("FORWARDED_ALLOW_IPS", "")  # else a visitor by a proxy here says who is asking
    os.environ.setdefault("GRADIO_TEMP_DIR", str(own_folder() / "gradio"))
    keep_freed_memory(one_heap=True)
    torch.set_num_threads(1)  # two runs at once train faster on two cores than with more threads each
    app = build_app(build_catalog(checkpoint), device)
    gc.collect()
    gc.freeze()  # a million objects that stay: to look through them holds everybody up for a second
    _, local, public = app.launch(
        server_name=host,
        server_port=port,
        share=share,
        auth_message="Write any name, and the password that you were given.",
        auth=None if password is None else lambda _, typed: is_same(typed, password),
        mcp_server=mcp,
        state_session_capacity=limits.sessions,
        max_file_size=limits.upload_bytes,
        head=HEAD,
        theme=theme.THEME,
        footer_links=[],
        ssr_mode=False,
        quiet=True,
        prevent_thread_lock=True,
    )
    if mcp and app.mcp_error:
        raise OSError(f"--mcp cannot start: {app.mcp_error}")
    where = f"Running on {local} (Ctrl-C ends)"
    if not is_loopback(host):
        where += f"; for others http://{find_address(host)}:{port}"
    if public:
        where += f"; for everybody {public}"
    return app, f"{where}{limits.audience}"


def find_address(host: str) -> str:
    """The address by which others reach a server here: this machine's own, where it listens on all."""
    if host not in ("0.0.0.0", "::", ""):
        return host
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing; the address is of no machine
            return probe.getsockname()[0]
        except OSError:  # there is no way out
            return socket.gethostname()


def is_same(typed: str, password: str) -> bool:
    """Compare in a time that does not reveal how much of the password is right."""
    return secrets.compare_digest(*(word.encode("utf-8", "surrogatepass") for word in (typed, password)))
