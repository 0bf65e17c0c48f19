"""The doors of the command line: each command, sent odd words, leaves with 0, or says why with 1 or 2."""

from hypothesis import strategies as st

from tests.hard.fuzz_draws import CARDS, HERE, Door, one_of, texts
from tests.support.commands import type_in

COPY, TOPICS = str(CARDS / "attn-copy"), str(CARDS / "attn-docstring-topics")
NOWHERE = f"{HERE.name}/nowhere"
START = {  # what comes before the odd words, so that nothing takes long
    "tasks": [],
    "train": ["--steps", "1", "--set", "batch_size=2", "--device", "cpu"],
    "duel": ["--steps", "1", "--device", "cpu", "--set", "batch_size=2"],
    "eval": ["--examples", "3"],
    "generate": [],
    "attention": ["--output", f"{HERE.name}/map.csv"],
    "heads": ["--examples", "3"],
    "ablate": ["--examples", "3"],
    "experiment": ["--set", "no=1"],
    "sources": ["--measured", NOWHERE],
    "cards": ["--examples", "1", NOWHERE],
    "dataset": ["--training", "3", "--measured", "3", "--output-dir", f"{HERE.name}/data"],
    "push": [NOWHERE],
    "pull": [],
    "space": ["/dev/null/space"],
    "push-space": [],
    "app": ["--checkpoint", NOWHERE],
}
OPTIONS = (
    *("--json", "--steps", "--set", "--seed", "--examples", "--split", "--by", "--task", "--model"),
    *("--threads", "--config", "--layer", "--head", "--kind", "--target", "--strategy", "--temperature"),
    *("--remove", "--uniform", "--permute", "--token", "--revision", "--port", "--host", "--resume"),
    *("--num-beams", "--models", "--parameters", "--message", "--endpoint", "--token-env", "--device"),
    *("--no", "--top-k", "--until", "--attention"),
)
KNOWN = (
    COPY, TOPICS, "copy", "topics", "7 3 2", "max_length=4", "1", "0", "encoder.0", "held-out", "transformer",
)  # fmt: skip
words = st.lists(one_of(OPTIONS + KNOWN, texts), max_size=6)


def run(command: str, words: list[str]) -> None:
    """Run a command as a shell would, whose words hold no NUL."""
    code, said = type_in(command, *START[command], *(word.replace("\0", "") for word in words))
    assert code in (0, 1, 2), f"left with {code}"
    assert "Traceback" not in said, "a traceback"
    if code:
        (last,) = said.strip().splitlines()[-1:] or [""]
        assert last.startswith("hf-attn: "), f"left with {code} and said {last[:100]!r}"
        raise ValueError(last.replace("(--help tells more)", "."))


DOORS = {
    **{f"hf-attn {command}": Door(run, (st.just(command), words), (), 0.7) for command in START},
    "hf-attn": Door(
        lambda command, words: run("tasks", [command, *words]), (texts, words), (), 0.5
    ),
}  # fmt: skip
