"""Where the packages of the wheel come from; all else is in pyproject.toml.

`demos` is too common a name for an installed package: there the app is `hf_attn_app`, and has the bundled
checkpoints in it.
"""

from setuptools import find_packages, setup

APP = [name.replace("demos", "hf_attn_app", 1) for name in find_packages(include=["demos*"])]
setup(
    packages=[*find_packages(include=["hf_attn*"]), *APP, "hf_attn_app.model_cards"],
    package_dir={"hf_attn_app": "demos", "hf_attn_app.model_cards": "model_cards"},
)
