"""Time of one training step of the recurrent models: ours, and a plain loop over `nn.LSTM` of the same size.

    python -m benchmarks.recurrent_speed [--threads N] [--repeats R] [--quick]

The plain arm writes as textbooks do: token by token through `nn.LSTM`, the memory projected anew at every
step, no attention mask, Adam. Blocks take turns as in train_speed.
"""

from collections.abc import Callable

import torch
from torch import nn

from benchmarks.peers import Learner
from benchmarks.report import build_arguments, environment, record, show, summary, take_turns
from benchmarks.train_speed import OURS, our_block, peer_block
from hf_attn.tasks import Batch, Task, build_task
from hf_attn.tasks.batch import IGNORED, PAD, START
from hf_attn.tasks.recipes import Recipe

PLAIN = "nn.LSTM, step by step"
HIDDEN, ATTENTION, BATCH = 128, 64, 64
SCORES = ("none", "additive", "dot", "general", "concat")
LENGTHS = {"reverse": {"max_length": 20, "min_length": 20}}


class PlainLoop(nn.Module):
    """A bidirectional LSTM encoder, and an LSTM decoder that takes one token a call.

    Args:
        vocabulary: V.
        score: one of SCORES.
    """

    def __init__(self, vocabulary: int, score: str):
        super().__init__()
        self.score = score
        self.source = nn.Embedding(vocabulary, HIDDEN)
        self.target = nn.Embedding(vocabulary, HIDDEN)
        self.encoder = nn.LSTM(HIDDEN, HIDDEN // 2, batch_first=True, bidirectional=True)
        context = 0 if score == "none" else HIDDEN
        self.decoder = nn.LSTM(HIDDEN + context, HIDDEN, batch_first=True)
        self.query = nn.Linear(HIDDEN, ATTENTION, bias=False)
        self.key = nn.Linear(HIDDEN, ATTENTION, bias=False)
        self.pair = nn.Linear(2 * HIDDEN, ATTENTION, bias=False)
        self.energy = nn.Linear(ATTENTION, 1, bias=False)
        self.general = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.out = nn.Linear(HIDDEN + context, vocabulary)

    def attend(self, state: torch.Tensor, memory: torch.Tensor) -> torch.Tensor:
        """[B, D] asking memory [B, S, D] → its context [B, D]."""
        if self.score == "additive":
            scores = self.energy(torch.tanh(self.query(state).unsqueeze(1) + self.key(memory))).squeeze(-1)
        elif self.score == "concat":
            pairs = torch.cat((state.unsqueeze(1).expand_as(memory), memory), dim=-1)
            scores = self.energy(torch.tanh(self.pair(pairs))).squeeze(-1)
        else:
            asked = self.general(memory) if self.score == "general" else memory
            scores = (asked @ state.unsqueeze(-1)).squeeze(-1)
        return (scores.softmax(-1).unsqueeze(1) @ memory).squeeze(1)

    def loss(self, batch: Batch) -> torch.Tensor:
        """Cross-entropy, the true token being read at every step."""
        memory, (hidden, cell) = self.encoder(self.source(batch.input_ids))
        state = tuple(part.transpose(0, 1).flatten(1).unsqueeze(0).contiguous() for part in (hidden, cell))
        start = torch.full_like(batch.labels[:, :1], START)
        read = torch.cat((start, batch.labels[:, :-1]), dim=1)
        logits = []
        for token in self.target(read.masked_fill(read == IGNORED, PAD)).unbind(1):
            seen = [] if self.score == "none" else [self.attend(state[0][-1], memory)]
            output, state = self.decoder(torch.cat((token, *seen), dim=-1).unsqueeze(1), state)
            logits.append(self.out(torch.cat((output[:, 0], *seen), dim=-1)))
        return nn.functional.cross_entropy(
            torch.stack(logits, dim=1).flatten(0, 1), batch.labels.flatten(), ignore_index=IGNORED
        )


def build_plain_learner(task: Task, score: str) -> Learner:
    torch.manual_seed(0)
    model = PlainLoop(len(task.vocabulary), score)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return Learner(task, model, model.loss, optimizer, BATCH, 1.0, torch.Generator().manual_seed(0))


def build_recipe(score: str) -> Recipe:
    """Ours at the same size; Luong's scores without input feeding, as their recipes have it."""
    model = {"hidden_size": HIDDEN, "attention_size": ATTENTION, "bidirectional": True}
    if score not in ("none", "additive"):
        model["input_feeding"] = False
    return Recipe(model, architecture=score, batch_size=BATCH)


def measure(name: str, repeats: int, steps: int) -> list[dict]:
    task = build_task(name, **LENGTHS[name])
    arms: dict[str, Callable[[], float]] = {}
    for score in SCORES:
        arms[f"{score}: {OURS}"] = our_block(task, build_recipe(score), steps)
        arms[f"{score}: {PLAIN}"] = peer_block(build_plain_learner(task, score), steps)
    for take in arms.values():  # a first block apart: memory is fetched in it
        take()
    times: dict[str, list[float]] = {arm: [] for arm in arms}
    for order in take_turns(list(arms), repeats):
        for arm in order:
            times[arm].append(arms[arm]() / steps * 1000)
    rows = []
    for arm, values in times.items():
        ours = times[f"{arm.partition(':')[0]}: {OURS}"]
        ratios = [value / own for value, own in zip(values, ours, strict=True)]
        row = {"task": name, "arm": arm, "milliseconds": summary(values), "ratio_to_ours": summary(ratios)}
        rows.append(row | {"repeats": repeats, "steps_a_repeat": steps})
    return rows


def main() -> None:
    parser = build_arguments(__doc__.splitlines()[0], list(LENGTHS))
    parser.add_argument("--repeats", type=int, default=11, help="blocks of each arm (default: %(default)s)")
    parser.add_argument("--steps", type=int, default=5, help="steps a block (default: %(default)s)")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    repeats, steps = (2, 1) if arguments.quick else (arguments.repeats, arguments.steps)
    around = {"script": "recurrent_speed", "quick": arguments.quick, **environment()}
    lines = [line for name in arguments.tasks for line in measure(name, repeats, steps)]
    record(arguments.output / "recurrent_speed.jsonl", lines, around)
    columns = ["task", "arm", "ms a step", "quartiles", "of ours"]
    cells = [
        [
            line["task"],
            line["arm"],
            f"{line['milliseconds']['median']:.2f}",
            " – ".join(f"{edge:.2f}" for edge in line["milliseconds"]["quartiles"]),
            f"{line['ratio_to_ours']['median']:.3g}×",
        ]
        for line in lines
    ]
    show("One training step of a recurrent model", columns, cells, around)


if __name__ == "__main__":
    main()
