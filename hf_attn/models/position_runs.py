"""Places counted in the text itself: a symbol's distance from the ends of its own number, or run of symbols.

A digit's column is not its place in the row: in "7+953" the 7 and the 3 belong together. What is learned
about columns of short numbers holds for long ones, if it is said of columns and not of places in the row.

The source's places, [B, S, n], are read off its ids in the encoder, and go to the decoder with its output:
`generate` needs nothing but the model. A decoder counts its steps, k = 1, 2, …
"""

from collections.abc import Sequence

import torch
from torch import nn
from transformers import initialization as init

from .position_base import Positions
from .position_relative import look_up, measure_distances

OUTSIDE = -(2**20)  # the place of what belongs to no run


def mark_run_tokens(input_ids: torch.Tensor, config) -> torch.Tensor:
    """Which tokens [B, S] belong to runs: bool [B, S]; without run_token_ids all that are not special."""
    if config.run_token_ids is not None:
        return is_among(input_ids, config.run_token_ids)
    ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    special = [token for token in (config.pad_token_id, config.bos_token_id, *ends) if token is not None]
    return ~is_among(input_ids, special)


def is_among(input_ids: torch.Tensor, tokens: Sequence[int]) -> torch.Tensor:
    """Which ids are among these: bool, the ids' shape; by comparing with the ends of each row of numbers."""
    found = torch.zeros_like(input_ids, dtype=torch.bool)
    for first in sorted(token for token in set(tokens) if token - 1 not in tokens):
        last = first
        while last + 1 in tokens:
            last += 1
        found = found | ((input_ids >= first) & (input_ids <= last))
    return found


def count_from_starts(is_run: torch.Tensor, goes_on: torch.Tensor) -> torch.Tensor:
    """Distance of each token from the start of its run, the first being 1; OUTSIDE else: [B, S].

    A run goes on from one token to the next where both belong to runs and `goes_on`, [B, S − 1], says so.
    """
    places = torch.arange(is_run.shape[1], device=is_run.device).expand_as(is_run)
    begins = nn.functional.pad(~(is_run[:, :-1] & goes_on), (1, 0), value=True)
    return (places - (places * begins).cummax(dim=1).values + 1).masked_fill(~is_run, OUTSIDE)


class RunPositions(Positions):
    """What encodings share that count in the source's text. `counts` says from which ends: a place each.

    Without ids, where embeddings are given, all tokens of a row are one run.
    """

    counts: tuple[str, ...] = ("end",)  # of "end", "start" and "run": how many runs have begun up to here
    counts_text = True

    def __init__(self, config, is_causal: bool = False):
        super().__init__(config, is_causal)
        self.config = config

    def read_text(self, input_ids: torch.Tensor | None, position_ids: torch.Tensor) -> torch.Tensor:
        """Count the source's places: ids [B, S] at [B or 1, S] → [B or 1, S, n], OUTSIDE where no run is."""
        if input_ids is None:
            is_run = torch.ones_like(position_ids, dtype=torch.bool)
        else:
            is_run = mark_run_tokens(input_ids, self.config)
            position_ids = position_ids.expand_as(input_ids)
        goes_on = position_ids.diff(dim=1) == 1  # else padding, or another sequence
        from_end = count_from_starts(is_run.flip(1), goes_on.flip(1)).flip(1)
        from_start = count_from_starts(is_run, goes_on)
        known = {"end": from_end, "start": from_start, "run": (from_start == 1).cumsum(dim=1)}
        return torch.stack([known[name] for name in self.counts], dim=-1)


class SignificanceBias(RunPositions):
    """A trained number a head for each distance between columns; the ones are column 1.

        e_ij = q_i · k_j / √Dh + c (θ_clip(p_j − p_i) + φ_sign(r_j − r_i)) + ξ

    p is a digit's distance from the last digit of its own number, in the source, and the number of the step
    in the decoder, which writes the ones first (after the coupled positions of Cho et al. 2024). θ has one
    table for each kind of attention; a key outside of numbers has an entry of its own, and a query outside of
    numbers has one for all keys inside. Distances of k = relative_clip_distance and more share one, on either
    side. φ is the encoder's alone: r counts the numbers begun up to a token, so that two of one length
    differ, as subtraction needs. A decoder-only model has no source: there all four encodings of this file
    count its steps.

    c = relative_bias_multiplier lets θ matter: the optimizer moves each θ by about 1, too little against many
    keys. ξ = δ ~ U[0, crowd_noise] where |p_j − p_i| ≥ k, else 0: one δ for each example and kind of
    attention, in training only, as if e^δ times as many far keys were there: a longer input has more of
    them. To a query outside all keys are far.
    """

    title = "Significance"
    equation = "e_ij = q_i · k_j / √Dh + c (θ_clip(p_j − p_i) + φ),  p = distance from the last digit"
    paper = "after Cho et al. 2024, arXiv:2405.20671"
    settings = ("num_attention_heads", "relative_clip_distance", "relative_bias_multiplier", "seed")
    biases_scores = True
    counts = ("end", "run")

    def __init__(self, config, is_causal: bool = False):
        super().__init__(config, is_causal)
        self.farthest, self.std = config.relative_clip_distance, config.position_initializer_range
        heads, ends = config.num_attention_heads, len(self.counts) - 1
        self.weight = nn.Parameter(torch.empty(1 if is_causal else ends, 2 * self.farthest + 3, heads))
        if not is_causal:  # a key's run: an earlier, the same, a later
            self.order_weight = nn.Parameter(torch.empty(3, heads))
        elif config.is_encoder_decoder:
            self.memory_weight = nn.Parameter(torch.empty(ends, 2 * self.farthest + 3, heads))

    def find_rows(self, query_places: torch.Tensor, key_places: torch.Tensor) -> torch.Tensor:
        """clip(p_j − p_i) + k, from 0 to 2k; 2k + 1 for a key and 2k + 2 for a query outside: [B, T, S]."""
        rows = measure_distances(query_places, key_places).clamp(-self.farthest, self.farthest)
        is_query, is_key = (query_places != OUTSIDE).unsqueeze(-1), (key_places != OUTSIDE).unsqueeze(-2)
        rows = torch.where(is_query, rows + self.farthest, 2 * self.farthest + 2)
        return torch.where(is_key, rows, 2 * self.farthest + 1)

    def bias(self, query_places: torch.Tensor, key_places: torch.Tensor, tables, order=None) -> torch.Tensor:
        """Σ c θ over the places [B, T, n] and [B, S, n], c φ of their runs, and the noise: [B, H, T, S]."""
        each = [self.find_rows(query_places[..., i], key_places[..., i]) for i in range(len(tables))]
        rows, table, size = each[0], tables[0], len(tables[0])
        for more, other in zip(each[1:], tables[1:], strict=True):  # every combination: one look-up
            rows, table = rows * size + more, (table.unsqueeze(1) + other).flatten(0, 1)
        if order is not None:
            sign = measure_distances(query_places[..., -1], key_places[..., -1]).sign()
            rows, table = rows * 3 + sign + 1, (table.unsqueeze(1) + order).flatten(0, 1)
        total = look_up(rows, table) * self.config.relative_bias_multiplier
        if self.training and self.config.crowd_noise:
            crowd = torch.rand(len(total), 1, 1, 1, device=total.device) * self.config.crowd_noise
            is_far = [(row == 0) | (row == 2 * self.farthest) | (row == size - 1) for row in each]
            total = total + crowd * torch.stack(is_far).all(0).unsqueeze(1)
        return total

    def score_terms(self, query_positions: torch.Tensor, key_positions: torch.Tensor):
        """Return (bias [B, H, T, S], None); places of a source are [B, T, n], steps [B, T]."""
        if query_positions.dim() == 3:
            return self.bias(query_positions, key_positions, self.weight, self.order_weight), None
        queries, keys = (count_steps(steps, len(self.weight)) for steps in (query_positions, key_positions))
        return self.bias(queries, keys, self.weight), None

    def memory_bias(self, position_ids: torch.Tensor, source_places: torch.Tensor) -> torch.Tensor:
        """Return what stands between steps [B, T] and a source's places [B, S, n]: [B, H, T, S]."""
        steps = count_steps(position_ids, len(self.memory_weight))
        return self.bias(steps, source_places, self.memory_weight)

    def reset(self) -> None:
        """Draw the tables anew from N(0, (std / c)²): what is added to the scores has the usual spread."""
        for table in self.parameters():
            init.normal_(table, mean=0.0, std=self.std / self.config.relative_bias_multiplier)


def count_steps(position_ids: torch.Tensor, counts: int) -> torch.Tensor:
    """Number steps from 1, the same for each of n counts: [B, T] → [B, T, n]."""
    return (position_ids.unsqueeze(-1) + 1).expand(*position_ids.shape, counts)


class BothEndsBias(SignificanceBias):
    """As `significance`, with a symbol's distance from the end and from the start of its run, a table each.

    One rule then serves copying, reversing and adding: which end counts is learned. Noise falls on keys that
    are far in both.
    """

    title = "Both ends"
    equation = (
        "e_ij = q_i · k_j / √Dh + c (θ_clip(p_j − p_i) + θ'_clip(p'_j − p'_i) + φ),  p, p' from either end"
    )
    paper = "hf_attn's own, after Cho et al. 2024, arXiv:2405.20671"
    counts = ("end", "start", "run")


class CoupledPositions(RunPositions):
    """A trained vector for each column, added to the embedding: digits of one column have the same.

    p is a digit's distance from the last digit of its own number; signs, and what the decoder starts with,
    stand at 0. A decoder's token stands where it was written: the ones at 1. In training each example begins
    at a place s of its own, U{0, …, position_offset}, so that the vectors of longer numbers are learned, too.
    Rows longer than max_position_embeddings are refused.
    """

    title = "Coupled"
    equation = "x_j + W_(p_j + s),  p = distance from the last digit,  s drawn in training, else 0"
    paper = "Cho et al. 2024, arXiv:2405.20671"
    settings = ("max_position_embeddings", "seed")
    extrapolates = False

    def __init__(self, config, is_causal: bool = False):
        super().__init__(config, is_causal)
        self.weight = nn.Parameter(torch.empty(config.max_position_embeddings + 1, config.hidden_size))

    @classmethod
    def check_config(cls, config) -> None:
        """Refuse a farthest start that leaves no place for a number."""
        if config.position_offset >= config.max_position_embeddings:
            raise ValueError(
                f"position_offset={config.position_offset} must be below "
                f"max_position_embeddings={config.max_position_embeddings}: numbers begin there in training."
            )

    def shift(self, columns: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        """Move all columns on by s."""
        return columns + start

    def read_text(self, input_ids: torch.Tensor | None, position_ids: torch.Tensor) -> torch.Tensor:
        """Place the source's tokens: ids [B, S] → [B or 1, S, 2], the place and the example's s."""
        columns = super().read_text(input_ids, position_ids).clamp(min=0)  # [B, S, 1]
        start = torch.zeros_like(columns[:, :1])
        if self.training and self.config.position_offset:
            start = torch.randint_like(start, self.config.position_offset + 1)
            start = torch.minimum(start, self.longest - columns.amax(dim=1, keepdim=True))
        return torch.cat((self.shift(columns, start), start.expand_as(columns)), dim=-1)

    def place_steps(self, position_ids: torch.Tensor, source_places: torch.Tensor) -> torch.Tensor:
        """Place a decoder's steps [B, T] as the source's example begins, [B, S, 2]: [B, T]."""
        return self.shift(position_ids, source_places[:, :1, 1]).clamp(max=self.longest)

    def forward(self, embeddings: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Add the vectors of places, [B, T] or [B, T, 2], to [B, T, D] embeddings."""
        places = position_ids[..., 0] if position_ids.dim() == 3 else position_ids
        return embeddings + nn.functional.embedding(places, self.weight)

    def reset(self) -> None:
        """Draw the table anew from N(0, std²)."""
        init.normal_(self.weight, mean=0.0, std=self.config.position_initializer_range)


class AbacusPositions(CoupledPositions):
    """As `coupled`, but signs and what the decoder starts with are not moved on: they stand at 0 always."""

    title = "Abacus"
    equation = "x_j + W_(p_j + s) for digits, x_j + W_0 for signs,  p = distance from the last digit"
    paper = "McLeish et al. 2024, arXiv:2405.17399"

    def shift(self, columns: torch.Tensor, start: torch.Tensor) -> torch.Tensor:
        """Move the columns of digits on by s."""
        return torch.where(columns > 0, super().shift(columns, start), columns)
