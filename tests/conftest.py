"""What every test shares: one thread, so that timings and sums do not depend on the machine.

Torch and the package are imported where they are needed: the process that only hands tests out needs neither.
"""

import contextlib
import gc
import multiprocessing.util
import os
import shutil
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import hypothesis
import pytest

from tests.run import UNSTEADY, file_name

os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"  # read when gradio is imported
# rows that only the tests which ask for them add; modules of one name, which pytest loads by itself
collect_ignore_glob = ["project/added_*.py", "conftest.py", "*/conftest.py"]
BROWSER = Path(__file__).with_name("browser")
pytest.register_assert_rewrite("tests.support")  # so that what failed there is told

gc.disable()  # until all tests are collected: importing makes no garbage, and a million objects
hypothesis.settings.register_profile("the same everywhere", derandomize=True, deadline=None)
hypothesis.settings.load_profile("the same everywhere")


STARTS = ("subprocess.Popen", "os.fork", "os.posix_spawn")
started: list[str] = []  # by the tests of the file that runs now
sys.addaudithook(lambda event, _: started.append(event) if event in STARTS else None)
spawn = multiprocessing.util.spawnv_passfds  # of which no event tells
multiprocessing.util.spawnv_passfds = lambda *given: started.append("spawn") or spawn(*given)
processor: Counter[str] = Counter()  # seconds, of each folder


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item, nextitem):
    """Note which tests start processes, and at the end of a folder what it took of the processor."""
    result = yield
    if nextitem is None or nextitem.path != item.path:
        started.clear()
    if nextitem is None or nextitem.path.parent != item.path.parent:
        folder = os.path.relpath(item.path.parent, item.config.rootpath)
        processor[folder] += max(0.0, round(used_seconds() - processor.total(), 1))
    return result


def used_seconds() -> float:
    """Seconds of the processor of this process, of those that it has waited for, and of those that run."""
    import psutil

    this, used = psutil.Process(), 0.0
    for process in (this, *this.children(recursive=True)):
        with contextlib.suppress(psutil.Error):  # it has just ended
            times = process.cpu_times()
            used += times.user + times.system + times.children_user + times.children_system
    return used


def pytest_sessionfinish(session):
    """Give what was measured to the process that hands tests out."""
    getattr(session.config, "workeroutput", {})["processor"] = dict(processor)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Of a test that failed, tell whether it starts processes, and keep what its pages and servers show."""
    report = yield
    if report.failed:
        served = any(name.startswith("served_") for name in getattr(item, "fixturenames", ()))
        report.user_properties.append(("starts", served or bool(started)))
        if "tests.support.browser" in sys.modules:
            from tests.support.browser import keep_evidence

            keep_evidence(UNSTEADY, file_name(item.nodeid))
    return report


def pytest_itemcollected(item):
    """Mark what drives a browser: a few journeys every time, all else in the nightly set."""
    if item.path.is_relative_to(BROWSER):
        from tests.support.browser import find_chromium

        item.add_marker("browser")
        if item.path.name != "test_journeys.py":
            item.add_marker("nightly")
        if find_chromium() is None:
            item.add_marker(pytest.mark.skip(reason="no Chromium on this machine"))


def pytest_collection_modifyitems(items):
    """Begin with the browser's, which take longest, so that no core is idle at the end."""
    items.sort(key=lambda item: item.get_closest_marker("browser") is None)


def pytest_collection_finish():
    """Collect garbage again, but seldom, and never walk through what is imported and lives to the end."""
    import torch

    torch.set_num_threads(1)
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


@pytest.fixture
def generator():
    """Randomness as an argument, the same in every run."""
    import torch

    return torch.Generator().manual_seed(0)


@pytest.fixture
def folder(tiny_checkpoint, tmp_path):
    """A copy of a checkpoint that a test may change."""
    return shutil.copytree(tiny_checkpoint, tmp_path / "attn-copy")


@pytest.fixture
def hub(tmp_path):
    """A Hub on loopback, of one test."""
    from tests.support.hub_server import serve_hub

    with serve_hub(tmp_path / "served") as hub:
        yield hub


@pytest.fixture
def connections(monkeypatch):
    """Every connection that is tried; none is made."""
    import socket

    tried = []

    def refuse(*given, **_):
        tried.append(given[-1])
        raise OSError("There is no network here.")

    for owner, name in (
        (socket.socket, "connect"),
        (socket.socket, "connect_ex"),
        (socket, "getaddrinfo"),
    ):
        monkeypatch.setattr(owner, name, refuse)
    return tried


@pytest.fixture(scope="session")
def served_app():
    """Address of the app in a process of its own, for all tests that visit it with pages of their own."""
    from tests.support.browser import serve_app

    with serve_app() as address:
        yield address


@pytest.fixture(scope="module")
def chromium():
    """A browser for the tests of one module; its pages belong to each test."""
    from tests.support.browser import open_browser

    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="session")
def linked():
    """The app's page without a browser, as links see it."""
    from tests.support.linked_page import LinkedPage

    return LinkedPage()


@pytest.fixture(scope="session")
def tiny_checkpoint(tmp_path_factory) -> Path:
    """A finished checkpoint of a small copying model, trained for a second. Copy it before changing it."""
    from hf_attn.architectures.registry import build_model
    from hf_attn.checkpoints.run_folder import Run, finish_run, train_run
    from hf_attn.tasks import build_task
    from hf_attn.training.device import build_accelerator

    task = build_task("copy", max_length=5, num_symbols=9)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "encoder_layers": 1, "decoder_layers": 2}
    model = {**task.recipe.model, **sizes}
    run = Run(task, replace(task.recipe, model=model, steps=60, learning_rate=0.01), device="cpu")
    folder = tmp_path_factory.mktemp("checkpoints") / "attn-copy"
    accelerator = build_accelerator("cpu")
    model = build_model(run.task, run.recipe, run.seed)
    for _ in train_run(run, model, accelerator, folder):
        pass
    finish_run(run, model, accelerator, folder)
    return folder
