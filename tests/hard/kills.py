"""Killed at random moments: `python -m tests.hard.kills --kills 50 --seed 0`.

A warm process forks a child for each try. It trains, saves, caches, pushes to a Hub on loopback or pulls from
it, and is killed with whatever it has started: after a random time, or before a random operation on files.
Then everything must be there as a whole, old or new, and a second child must bring it to the same end as one
that nobody killed, with no file left beside it. Others are stopped for some seconds, in which leftovers are
looked for, or have a clock that jumps; they must come to that end by themselves.
"""

import argparse
import contextlib
import functools
import itertools
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.commands import leave, read_options

TRAIN = "train copy --set max_length=4 --set hidden_size=16 --set report_every=4 --device cpu --save-every 0"
ROWS = [[f"row {number}", "of the cache"] for number in range(20_000)]
FILE_EVENTS = {"os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.scandir", "os.chmod", "os.truncate"}
ATTEMPTS = 20  # until a kill comes before the end
PATIENCE = 300  # seconds for one child
OWNER = "ada"
LEFT_NAME = ".hf_attn."  # in the names of what is being written
HOMES = ("HF_HOME", "HF_MODULES_CACHE", "HF_DATASETS_CACHE")


@dataclass
class Place:
    """Where everything happens, and what an unbroken try of each kind came to."""

    root: Path
    endpoint: str = ""
    token: str = ""
    steps: int = 60  # of a run
    ends: dict[str, dict[str, bytes | None]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    operations: dict[str, int] = field(default_factory=dict)
    bytes_by_kills: int = 0
    bytes_left: int = 0  # after the next start

    @property
    def old(self) -> Path:
        return self.root / "old" / "model"

    @property
    def new(self) -> Path:
        return self.root / "unbroken-train" / "model"

    @property
    def store(self):
        from tests.support.hub_store import Store

        return Store(self.root / "served" / "hub")


def read_tree(folder: Path) -> dict[str, bytes | None]:
    """Files (their bytes) and folders (None) under a folder."""
    found = sorted(folder.rglob("*")) if folder.is_dir() else ()
    return {str(path.relative_to(folder)): None if path.is_dir() else path.read_bytes() for path in found}


# ---------------------------------------------------------------- what is killed


class Kind:
    """Something that is killed: in its folder, whose subfolders in `whole` are old or new at any moment."""

    whole: tuple[str, ...] = ("model",)

    def __init__(self, place: Place):
        self.place = place
        self.name = type(self).__name__.lower()

    def prepare(self, folder: Path) -> None:
        """Put the old checkpoint there."""
        shutil.copytree(self.place.old, folder / "model")

    def work(self, folder: Path) -> None:
        """In a child: what is killed."""
        raise NotImplementedError

    def go_on(self, folder: Path) -> None:
        """In a child: open what a killed one left, and do it again."""
        from hf_attn.checkpoints.save_load import load_checkpoint

        if "model" in self.whole:
            load_checkpoint(folder / "model")
        self.work(folder)

    def read_end(self, folder: Path) -> dict[str, bytes | None]:
        """Everything that a try came to."""
        return read_tree(folder)

    def check_whole(self, before: dict, folder: Path) -> None:
        """Refuse what is neither old nor new."""
        now, end = self.read_end(folder), self.place.ends[self.name]
        for part in self.whole:
            inside = [{n: c for n, c in tree.items() if n.startswith(part)} for tree in (now, before, end)]
            assert inside[0] in inside[1:], f"{part} is neither old nor new: {sorted(inside[0])}"


class Train(Kind):
    """Training, which goes on with --resume where a run was begun."""

    whole = ()

    def prepare(self, folder: Path) -> None:
        """Nothing is there."""

    def work(self, folder: Path) -> None:
        out = folder / "model"
        if (out / "run.json").exists():
            code = leave("train", "--resume", out, "--save-every", "0")
        elif (out / "model.safetensors").exists():  # killed after its end
            leave("train", "--resume", out)  # which says so
            return
        else:
            code = leave(*TRAIN.split(), "--steps", self.place.steps, "--output-dir", out)
        if code:
            sys.exit(code)

    def read_end(self, folder: Path) -> dict[str, bytes | None]:
        """The weights are the same; what else there is, by name: the record holds seconds."""
        return {n: c if n.endswith(".safetensors") else None for n, c in read_tree(folder).items()}


class Save(Kind):
    """Saving a checkpoint over an older one."""

    def work(self, folder: Path) -> None:
        from hf_attn.checkpoints.save_load import load_checkpoint, save_checkpoint

        new = load_checkpoint(self.place.new)
        save_checkpoint(folder / "model", new.model, new.task, new.training)


class Cache(Kind):
    """Rows that are cached, and a data set that is saved over an older one."""

    whole = ("cache/rows", "data")

    def prepare(self, folder: Path) -> None:
        self.save(folder, seed=1)

    def work(self, folder: Path) -> None:
        from hf_attn.utils import disk_cache

        os.environ[disk_cache.CACHE_VARIABLE] = str(folder / "cache")
        assert disk_cache.cached_rows("rows", lambda: ROWS) == ROWS
        self.save(folder, seed=2)

    def save(self, folder: Path, seed: int) -> None:
        from hf_attn.hub.dataset import save_dataset
        from hf_attn.tasks import build_task

        task = build_task("copy", max_length=6)
        save_dataset(folder / "data", task, training=2000, measured=50, seed=seed)


class Push(Kind):
    """Pushing a checkpoint to a repo that holds an older one."""

    whole = ("repo",)

    def repo(self, folder: Path) -> str:
        return f"{OWNER}/{folder.name}"

    def prepare(self, folder: Path) -> None:
        self.place.store.put(self.repo(folder), read_tree(self.place.old))

    def work(self, folder: Path) -> None:
        from hf_attn.hub.push import push_checkpoint

        hub = {"token": self.place.token, "endpoint": self.place.endpoint}
        *_, pushed = push_checkpoint(self.place.new, self.repo(folder), **hub)
        assert pushed.verified, pushed.differences

    def read_end(self, folder: Path) -> dict[str, bytes | None]:
        files = self.place.store.open("model", self.repo(folder)).files("main")
        return {**read_tree(folder), **{f"repo/{name}": content for name, content in files.items()}}


class Pull(Kind):
    """Pulling a checkpoint over an older one."""

    def work(self, folder: Path) -> None:
        from hf_attn.hub.pull import pull_checkpoint

        hub = {"token": self.place.token, "endpoint": self.place.endpoint}
        *_, pulled = pull_checkpoint(f"{OWNER}/new", folder / "model", **hub)
        assert pulled.verified, pulled.differences


KINDS = {kind.__name__.lower(): kind for kind in (Train, Save, Cache, Push, Pull)}


# ---------------------------------------------------------------- children


def fork(work: Callable[[], None], folder: Path) -> int:
    """Start a child that leads a group of its own; what it says goes to a file beside its folder."""
    child = os.fork()
    if child:
        with contextlib.suppress(OSError):  # it did that itself
            os.setpgid(child, child)
        return child
    code = 1
    try:
        os.setpgid(0, 0)
        log = os.open(f"{folder}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.stdout = sys.stderr = os.fdopen(1, "w", closefd=False)  # pytest has its own
        (folder / "tmp").mkdir(parents=True, exist_ok=True)
        tempfile.tempdir = os.environ["TMPDIR"] = str(folder / "tmp")
        work()
        code = 0
    except SystemExit as left:
        code = int(left.code or 0)
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code)


def wait(child: int, seconds: float) -> int | None:
    """The child's exit code, negative for a signal; None where it goes on after so many seconds."""
    end = time.monotonic() + seconds
    while True:
        found, status = os.waitpid(child, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() >= end:
            return None
        time.sleep(0.002)


def finish(child: int, folder: Path) -> None:
    """Wait for a child that must do well."""
    code = wait(child, PATIENCE)
    if code is None:
        os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    said = Path(f"{folder}.log").read_text(encoding="utf-8").splitlines()[-3:]
    assert code == 0, f"ended with {code if code is not None else 'nothing, ever'}: {' / '.join(said)}"


def count_operations(folder: Path, reach: Callable[[int], None]) -> None:
    """Call `reach` with 1, 2, … before each operation on files, as far as Python knows of it."""
    number = itertools.count(1)

    def hear(event: str, arguments: tuple) -> None:
        if event in FILE_EVENTS or (event == "open" and str(folder) in str(arguments[0])):
            reach(next(number))

    sys.addaudithook(hear)


# ---------------------------------------------------------------- tries


def try_unbroken(kind: Kind, folder: Path) -> None:
    """What a try comes to that nobody kills, how long it takes, and in how many operations."""

    def work() -> None:
        met = [0]
        count_operations(folder, met.append)
        kind.work(folder)
        Path(f"{folder}.operations").write_text(str(met[-1]), encoding="utf-8")

    finish(fork(lambda: kind.prepare(folder), folder), folder)
    started = time.monotonic()
    finish(fork(work, folder), folder)
    place = kind.place
    place.seconds[kind.name] = time.monotonic() - started
    place.operations[kind.name] = int(Path(f"{folder}.operations").read_text(encoding="utf-8"))
    place.ends[kind.name] = kind.read_end(folder)


def kill_once(kind: Kind, folder: Path, rng: random.Random) -> bool:
    """Kill a try and do it again; False where it had ended before the kill."""
    before = kind.read_end(folder)
    if rng.random() < 0.5:
        moment = rng.uniform(0, kind.place.seconds[kind.name])
        said = f"killed after {moment:.3f} s of {kind.place.seconds[kind.name]:.3f}"
        child = fork(lambda: kind.work(folder), folder)
        code = wait(child, moment)
        if code is None:
            os.killpg(child, signal.SIGKILL)
            code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    else:
        fatal = rng.randint(1, kind.place.operations[kind.name])
        said = f"killed before operation {fatal} of {kind.place.operations[kind.name]}"

        def work() -> None:
            count_operations(folder, lambda number: number == fatal and os.killpg(0, signal.SIGKILL))
            kind.work(folder)

        code = wait(fork(work, folder), PATIENCE)
    if code == 0:
        return False
    time.sleep(0.05)  # until what it had started is dead too
    try:
        assert code == -signal.SIGKILL, f"ended with {code}"
        left = [path for path in folder.rglob("*") if any(LEFT_NAME in part for part in path.parts)]
        kind.place.bytes_by_kills += sum(path.stat().st_size for path in left if path.is_file())
        kind.check_whole(before, folder)
        finish(fork(lambda: kind.go_on(folder), folder), folder)
        check_end(kind, folder)
    except AssertionError as error:
        raise AssertionError(f"{error} ({said})") from error
    return True


def stop_once(kind: Kind, folder: Path, rng: random.Random) -> bool:
    """Stop a try for some seconds, in which others look for leftovers, and let it go on."""
    from hf_attn.utils.atomic_write import clear_leftovers

    child = fork(lambda: kind.work(folder), folder)
    time.sleep(rng.uniform(0.2, 0.8) * kind.place.seconds[kind.name])
    os.killpg(child, signal.SIGSTOP)
    for path in (folder / "model", folder / "model" / "training_state", folder / "tmp" / "any"):
        clear_leftovers(path)
    time.sleep(rng.uniform(1, 3))
    os.killpg(child, signal.SIGCONT)
    finish(child, folder)
    check_end(kind, folder)
    return True


def jump_once(kind: Kind, folder: Path, rng: random.Random) -> bool:
    """Do it with a clock that jumps."""

    def work() -> None:  # the clock goes by days, forwards and backwards
        right = time.time
        time.time = lambda: right() + rng.uniform(-3e5, 3e5)
        kind.work(folder)

    finish(fork(work, folder), folder)
    check_end(kind, folder)
    return True


def check_end(kind: Kind, folder: Path) -> None:
    """Refuse another end than that of an unbroken try, and whatever is left beside it."""
    now, end = kind.read_end(folder), kind.place.ends[kind.name]
    assert not end.keys() - now.keys(), f"missing: {sorted(end.keys() - now.keys())}"
    other = sorted(name for name in end if now[name] != end[name])
    assert not other, f"other than of an unbroken try: {other}"
    if left := sorted(now.keys() - end.keys()):
        size = sum(path.stat().st_size for name in left if (path := folder / name).is_file())
        kind.place.bytes_left += size
        raise AssertionError(f"{len(left)} names and {size} bytes are left: {left[:3]}")


# ---------------------------------------------------------------- all together


@contextlib.contextmanager
def served(root: Path) -> Iterator[tuple[str, str]]:
    """(address, token) of a Hub in a process of its own: a child that is forked from threads may hang."""
    from tests.support.hub_server import serve_hub

    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        with serve_hub(root) as hub:
            os.write(theirs, json.dumps([hub.endpoint, hub.token]).encode())
            signal.pause()
    address, token = json.loads(os.read(ours, 10_000))
    try:
        yield address, token
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def warm_up() -> None:
    """Import what the children need, and do nothing with it: whoever forks must have no threads."""
    import matplotlib.figure  # noqa: F401
    import torch

    import hf_attn.checkpoints.run_folder
    import hf_attn.cli.train
    import hf_attn.hub.dataset
    import hf_attn.hub.pull
    import hf_attn.hub.push  # noqa: F401
    from hf_attn.hub.dataset import load_library

    with contextlib.suppress(ValueError):
        load_library()
    torch.set_num_threads(1)


def prepare(place: Place, kinds: Sequence[Kind]) -> None:
    """The new checkpoint, an old one with other weights, a repo, and what every kind comes to unbroken."""

    def save_old() -> None:
        from hf_attn.checkpoints.save_load import load_checkpoint, save_checkpoint

        new = load_checkpoint(place.new)
        for weights in new.model.parameters():
            weights.data.mul_(0.5)
        save_checkpoint(place.old, new.model, new.task, new.training)

    try_unbroken(Train(place), place.new.parent)
    finish(fork(save_old, place.old.parent), place.old.parent)
    place.store.put(f"{OWNER}/new", read_tree(place.new))
    for kind in kinds:
        if kind.name not in place.ends:
            try_unbroken(kind, place.root / f"unbroken-{kind.name}")


@dataclass
class Tally:
    """What became of all tries; counted by what was done and the kind."""

    place: Place
    seed: int
    tried: Counter = field(default_factory=Counter)
    held: Counter = field(default_factory=Counter)

    def take(self, what: str, kind: Kind, number: int, attempt: Callable[..., bool]) -> None:
        """Try, again where it ended before it was killed, and say what is wrong."""
        rng = random.Random(f"{self.seed} {what} {number}")
        for turn in range(ATTEMPTS):
            folder = self.place.root / f"{what}-{kind.name}-{number}-{turn}"
            try:
                finish(fork(functools.partial(kind.prepare, folder), folder), folder)
                is_done = attempt(kind, folder, rng)
                self.held[what, kind.name] += is_done
            except AssertionError as error:
                is_done = True
                print(f"FAILED: {what} {kind.name}, seed {self.seed}, number {number}: {error}", flush=True)
            shutil.rmtree(folder, ignore_errors=True)
            self.tried[what, kind.name] += is_done
            if is_done:
                return

    def share(self, what: str, names: Sequence[str]) -> str:
        """How many of how many held, such as "10 of 10"."""
        return " of ".join(str(sum(of[what, name] for name in names)) for of in (self.held, self.tried))


def attack(root: Path, options: argparse.Namespace) -> tuple[bool, str]:
    """All tries in a folder: whether every promise was kept, and the figures."""
    warm_up()
    with served(root / "served") as (address, token):
        place = Place(root, address, token, options.steps)
        kinds = [KINDS[name](place) for name in options.kinds.split(",")]
        prepare(place, kinds)
        tally = Tally(place, options.seed)
        for number in range(options.kills):
            tally.take("kill", kinds[number % len(kinds)], number, kill_once)
        for number, kind in enumerate([] if options.only_kills else kinds):
            tally.take("stop", kind, number, stop_once)
            tally.take("jump", kind, number, jump_once)
    names = [kind.name for kind in kinds]
    each = [f"{name} {tally.share('kill', [name])}" for name in names]
    figures = (
        f"kills {tally.share('kill', names)} survived ({', '.join(each)}),"
        f" resumed equal {tally.share('kill', ['train'])}, stopped {tally.share('stop', names)},"
        f" jumping clocks {tally.share('jump', names)}, bytes left {place.bytes_left}"
        f" (by kills, until the next start: {place.bytes_by_kills:,})"
    )
    is_kept = (
        tally.held == tally.tried and tally.share("kill", names) == f"{options.kills} of {options.kills}"
    )
    return is_kept, figures


def main() -> int:
    """Kill; 1 where a promise was broken."""
    options = read_options(__doc__, kills=50, seed=0, kinds=",".join(KINDS), steps=60, only_kills=False)
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="kills-") as folder:
        root = Path(folder)
        os.environ.update({name: str(root / name.lower()) for name in HOMES} | {"OMP_NUM_THREADS": "1"})
        os.environ.update({f"HF_HUB_DISABLE_{name}": "1" for name in ("XET", "TELEMETRY", "PROGRESS_BARS")})
        is_kept, figures = attack(root, options)
    promises = "all promises kept" if is_kept else "PROMISES BROKEN"
    print(f"{figures}, seed {options.seed}, {time.monotonic() - started:.0f} s: {promises}")
    return 0 if is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
