"""The app: `build_app` builds its page, `launch.start` serves it."""

import os

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # read when gradio is imported

from .app import TABS, build_app

__all__ = ["TABS", "build_app"]
