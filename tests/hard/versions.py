"""The tests on the lowest and on the newest versions of torch, transformers and Gradio that are allowed.

    python -m tests.hard.versions [lowest] [newest]

`lowest` has the versions that pyproject.toml begins with, and the rest of constraints.txt; `newest` is what
pip installs today. Each is a fresh environment in build/versions, and the gate is run in it, but its
journeys in a browser and the page of licences, which is of constraints.txt. It exits with 1 where one fails.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
NAMED = ("torch", "transformers", "gradio")
MARKS = "not browser and not nightly and not gpu and not network"
LEFT_OUT = ["--ignore", "tests/project/test_licences.py"]


def read_lowest() -> dict[str, str]:
    """{package: the lowest version that pyproject.toml allows} of those that are named."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *project["optional-dependencies"]["app"]]
    wanted = {found.name: found.specifier for found in map(Requirement, lines) if found.name in NAMED}
    return {
        name: next(one.version for one in bounds if one.operator == ">=") for name, bounds in wanted.items()
    }


def pin(kind: str, folder: Path) -> list[str]:
    """Options of pip that lead to these versions."""
    if kind == "newest":
        return ["--upgrade"]
    lowest = read_lowest()
    kept = [
        line
        for line in (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
        if line.partition("==")[0] not in lowest
    ]
    pins = folder / "constraints.txt"
    pins.write_text("\n".join([*kept, *(f"{name}=={version}" for name, version in lowest.items())]))
    return ["-c", str(pins)]


def try_versions(kind: str) -> tuple[bool, str]:
    """(whether the tests passed, the versions and what pytest said last)."""
    folder = ROOT / "build" / "versions" / kind
    subprocess.run([sys.executable, "-m", "venv", "--clear", folder], check=True)
    python = folder / "bin" / "python"
    wanted = ["-e", f"{ROOT}[test]"]
    subprocess.run([python, "-m", "pip", "install", "-q", *pin(kind, folder), *wanted], check=True)
    asked = f"import importlib.metadata as m; print(*(f'{{n}} {{m.version(n)}}' for n in {NAMED}), sep=', ')"
    versions = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=True)
    command = [python, "-m", "pytest", "-n", "auto", "--dist", "loadfile", "-m", MARKS, *LEFT_OUT]
    tested = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    failed = re.findall("^(?:FAILED|ERROR) .*", tested.stdout, re.MULTILINE)
    print(*failed, sep="\n")
    counts = re.findall(r"\d+ (?:passed|failed|skipped|errors?)", tested.stdout[-400:])
    return tested.returncode == 0, f"{kind} ({versions.stdout.strip()}): {', '.join(counts) or 'nothing'}"


def main(kinds: list[str]) -> int:
    tried = [try_versions(kind) for kind in kinds]
    print("; ".join(said for _, said in tried))
    return 0 if all(passed for passed, _ in tried) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or ["lowest", "newest"]))
