"""Who the visitor is on the Hub, where a Space lets people sign in. No token is kept."""

import importlib.util
import os

import gradio as gr

from ...core.limits import is_space

NEEDED = ("OAUTH_CLIENT_ID", "OAUTH_CLIENT_SECRET", "OAUTH_SCOPES", "OPENID_PROVIDER_URL")  # `hf_oauth: true`


def offers_login() -> bool:
    """Whether visitors can sign in: in a Space with an OAuth app, and the packages for it."""
    has_packages = all(importlib.util.find_spec(name) for name in ("authlib", "itsdangerous"))
    is_hosted = (
        is_space() and os.environ.get("SYSTEM") == "spaces"
    )  # elsewhere Gradio signs a made-up user in
    return is_hosted and has_packages and all(os.environ.get(name) for name in NEEDED)


def login_button() -> gr.LoginButton | None:
    return gr.LoginButton(size="md", min_width=0, elem_id="login") if offers_login() else None


def visitor_token(
    typed: str | None, profile: gr.OAuthProfile | None = None, signed: gr.OAuthToken | None = None
) -> tuple[str, str]:
    """(user name, token) to push with, a typed token first; ValueError where there is none.

    Gradio passes the last two to a handler whose parameters have these types. A typed token has no name.
    """
    if token := (typed or "").strip():
        return "", token
    if signed is not None:
        return (profile.username if profile is not None else ""), signed.token
    way = "Sign in above, or paste" if offers_login() else "Paste"
    raise ValueError(
        f"Nobody is signed in. {way} an access token with write permission, from the Hub's settings."
    )
