"""A round trip through the real Hub: a checkpoint and the app go up, come back, open, and are deleted again.

    make hub-smoke

It needs a network and a token that may write (`hf auth login`, or HF_TOKEN), and some minutes: the Space is
built anew. What it makes is private, has its own name, and goes whatever happens. test_hub_smoke.py takes
the same trip through the Hub on loopback, where no Space is built.
"""

import argparse
import contextlib
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
from huggingface_hub import HfApi, SpaceStage

from hf_attn.hub.client import HubError, find_token, open_hub
from hf_attn.hub.pull import pull_checkpoint
from hf_attn.hub.push import push_checkpoint
from hf_attn.hub.space import ROOT, push_space

BUILDING = {
    SpaceStage.BUILDING, SpaceStage.RUNNING_BUILDING, SpaceStage.APP_STARTING, SpaceStage.NO_APP_FILE,
    SpaceStage.RUNNING_APP_STARTING,
}  # fmt: skip
PATIENCE = 1200  # seconds that a Space may take to be built


def run_smoke(api: HfApi, open_space: Callable[[HfApi, str], str]) -> Iterator[str]:
    """Push, pull, open and delete, a line about each; AssertionError where something came back otherwise."""
    name = f"{api.whoami()['name']}/hf-attn-smoke-{uuid.uuid4().hex[:8]}"
    given = {"token": api.token, "endpoint": api.endpoint}
    with contextlib.ExitStack() as afterwards:
        for kind in ("model", "space"):
            afterwards.callback(api.delete_repo, name, repo_type=kind, missing_ok=True)
        *_, pushed = push_checkpoint(ROOT / "model_cards" / "attn-copy", name, private=True, **given)
        assert pushed.verified, pushed.differences
        yield f"pushed {name} at {pushed.commit}: {len(pushed.sent)} files; loaded, they answer the same"
        with tempfile.TemporaryDirectory() as folder:
            *_, back = pull_checkpoint(name, Path(folder) / "back", revision=pushed.commit, **given)
            assert back.verified, back.differences
            yield f"pulled {len(back.files)} files; they answer as the card says"
        *_, space = push_space(name, private=True, **given)
        yield f"pushed the app: {len(space.folder.files)} files"
        yield f"opened: {open_space(api, name)}"
    assert not any(api.repo_exists(name, repo_type=kind) for kind in ("model", "space"))
    yield "deleted both"


def wait_for_space(api: HfApi, name: str) -> str:
    """Wait until a Space runs, and ask it what it offers."""
    begun = time.monotonic()
    while (stage := api.get_space_runtime(name).stage) != SpaceStage.RUNNING:
        assert stage in BUILDING, f"the Space came to {stage}"
        assert time.monotonic() - begun < PATIENCE, f"the Space is still at {stage}"
        time.sleep(10)
    host = api.space_info(name).host
    answer = httpx.get(
        f"{host}/gradio_api/info", headers={"authorization": f"Bearer {api.token}"}, timeout=60
    )
    answer.raise_for_status()
    offered, took = answer.json()["named_endpoints"], time.monotonic() - begun
    return f"{host} offers {len(offered)} endpoints after {took:.0f} s"


def main() -> int:
    """Take the trip; 1 where the Hub refused."""
    parser = argparse.ArgumentParser(description="Push, pull, open and delete on the real Hub.")
    parser.add_argument("--endpoint", help="another Hub (default: HF_ENDPOINT, or huggingface.co)")
    options = parser.parse_args()
    try:
        for line in run_smoke(open_hub(find_token(None), options.endpoint), wait_for_space):
            print(line, flush=True)
    except (HubError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
