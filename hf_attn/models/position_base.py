"""What every position encoding builds on: how tokens are counted, and what a position module may do."""

import torch
from torch import nn

PADDING_POSITION = -(2**20)  # far from every token's, so that nothing reads across padding


def position_ids_from_mask(attention_mask, length: int, past_length, device) -> torch.Tensor:
    """Number `length` tokens from 0, skipping padding on either side: [B, T], or [1, T] without any.

    They come after `past_length` others. The mask is [B, past + T], 1 = token, 0 = padding, or longer.
    """
    newest = torch.arange(length, device=device) + past_length
    if attention_mask is None or attention_mask.dim() != 2:
        return newest.unsqueeze(0)
    return (attention_mask.long().cumsum(-1) - 1).clamp(min=0)[:, newest.to(attention_mask.device)]


class Positions(nn.Module):
    """No position encoding: the control for all others, and what they build on.

    A stack without a causal mask is equivariant to permutations with it. A position encoding does one or more
    of three things: it changes the embeddings (`forward`), turns queries and keys (`rotation`), or says
    something between each query and key (`score_terms`).

    Attributes:
        title: its name, for people, who are also shown the docstring's first line, equation and paper.
        settings: what changes it beside its width: fields of the configuration, and "seed" where its first
            weights are drawn.
        head_multiple: of what a head's size is best a multiple.
        extrapolates: whether a sequence may be longer than max_position_embeddings.
        reads_neighbours: whether `forward` reads other tokens than its own: it then gets those in the cache
            too.
        biases_scores: whether `score_terms` gives something.
        counts_text: whether an encoder's places are read off its text, and go to the decoder with its output.
        needs_weights: whether the attention weights themselves are needed, which only the eager kernel forms.

    Args:
        config: of the model.
        is_causal: whether the stack may not look ahead.
    """

    title = "None"
    equation = "P(i) = 0"
    paper = ""
    settings: tuple[str, ...] = ()
    head_multiple = 1
    extrapolates = True
    reads_neighbours = False
    biases_scores = False
    counts_text = False
    needs_weights = False

    def __init__(self, config, is_causal: bool = False):
        super().__init__()
        self.longest, self.is_causal = config.max_position_embeddings, is_causal

    @classmethod
    def check_config(cls, config) -> None:
        """Refuse sizes that the encoding cannot work with, with a ValueError that says what to choose."""

    def read_text(self, input_ids: torch.Tensor | None, position_ids: torch.Tensor) -> torch.Tensor:
        """Return where an encoder's tokens stand, [B, S] or [B, S, n], to be given to the other methods.

        Args:
            input_ids: [B, S]; None where embeddings are given.
            position_ids: [B or 1, S], counted in the row: what is returned here.
        """
        return position_ids

    def forward(self, embeddings: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Return the embeddings as they are: [B, T, D] at [B, T] or [1, T] positions → [B, T, D].

        With `reads_neighbours` both hold all that was read so far; padding stands behind, at
        PADDING_POSITION.
        """
        return embeddings

    def rotation(self, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor] | None:
        """Return the rotation of queries and keys, (cos, sin): none."""
        return None

    def score_terms(
        self, query_positions: torch.Tensor, key_positions: torch.Tensor
    ) -> tuple[torch.Tensor | None, torch.Tensor | None]:
        """Return what stands between each query at [B, T] and each key at [B, S]: nothing.

        Returns:
            bias: [B, H, T, S], added to the scores; or None.
            vectors: [2, B, T, S, Dh], added to each key and to each value; or None.
        """
        return None, None

    def place_steps(self, position_ids: torch.Tensor, source_places: torch.Tensor) -> torch.Tensor:
        """Return where a decoder's steps, [B, T], stand beside a source's places, [B, S, n]: [B, T]."""
        return position_ids

    def memory_bias(self, position_ids: torch.Tensor, source_places: torch.Tensor) -> torch.Tensor | None:
        """Return what cross-attention adds to the scores of steps [B, T] and places [B, S, n]: nothing."""
        return None

    def check_length(self, length: int, past_length: int, position_ids: torch.Tensor | None = None) -> None:
        """Refuse a sequence, of `length` tokens with those in the cache, that lacks positions: ValueError.

        The row may hold padding, or several sequences: where position_ids are given, the highest counts.
        """
        if not self.extrapolates and (needed := self.count_beyond(length, position_ids)):
            raise ValueError(
                f"The sequence has {needed} tokens; this model has "
                f"max_position_embeddings={self.longest}. Shorten it, or build the model with more positions."
            )

    def count_beyond(self, length: int, position_ids: torch.Tensor | None) -> int:
        """How many positions are needed where these are more than max_position_embeddings; else 0.

        A GPU must be waited for to read position_ids, so that there a row that is no longer is not looked at.
        """
        if position_ids is not None and length > self.longest:
            length = position_ids.max() + 1
        return int(length) if length > self.longest else 0

    def reset(self) -> None:
        """Draw the module's own weights anew: loading builds on the meta device and leaves them empty."""


def build_inverse_frequencies(width: int, theta: float, device=None) -> torch.Tensor:
    """ω_i = theta^(−2i/width), one for each pair of numbers: i = 0 … width/2 − 1 (Su et al. 2021, eq. 15).

    [width/2, rounded up], float32; the period of pair i is 2π / ω_i.
    """
    return theta ** (-torch.arange(0, width, 2, dtype=torch.float32, device=device) / width)


def compute_sinusoids(position_ids: torch.Tensor, width: int) -> torch.Tensor:
    """Sines and cosines of falling frequency, [..., D], float32: two numbers for each i from 0 to D/2 − 1.

    PE(p, 2i) = sin(p / 10000^(2i/D)),   PE(p, 2i+1) = cos(p / 10000^(2i/D))  (Vaswani et al. 2017, §3.5)
    """
    frequencies = build_inverse_frequencies(width, 10000.0, position_ids.device)
    angles = position_ids.unsqueeze(-1) * frequencies  # [..., D/2]
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)[..., :width]


def build_sinusoids(length: int, width: int) -> torch.Tensor:
    """The table of the first `length` positions' sinusoids, [length, width], float32."""
    return compute_sinusoids(torch.arange(length), width)


class Stretched(Positions):
    """What lets a row be s times longer than trained: the encodings that interpolate and scale share it.

        s = max(1, length / max_position_embeddings), or `position_scaling_factor` where the config gives one

    Without a fixed factor s grows with the row, so that what is in the cache would have to be placed anew:
    a cached sequence longer than trained is refused.
    """

    def __init__(self, config, is_causal: bool = False):
        super().__init__(config, is_causal)
        self.factor = config.position_scaling_factor

    def stretch(self, position_ids: torch.Tensor) -> torch.Tensor:
        """Return s of each token's sequence, [B, T], or [1, 1] for all; float32. A row may hold several."""
        if self.factor is not None:
            return torch.full((1, 1), float(self.factor), device=position_ids.device)
        begins = (position_ids[:, :-1] == 0) & (position_ids[:, 1:] == 1)  # padding may be at 0, too
        sequences = nn.functional.pad(begins, (0, 1)).cumsum(-1)  # [B, T]
        lasts = torch.zeros_like(position_ids).scatter_reduce(-1, sequences, position_ids, "amax")
        return ((lasts.gather(-1, sequences) + 1) / self.longest).clamp(min=1)

    def check_length(self, length: int, past_length: int, position_ids: torch.Tensor | None = None) -> None:
        """Refuse to go on from a cache whose keys were placed for a shorter sequence."""
        if self.factor is None and past_length > 0 and (needed := self.count_beyond(length, position_ids)):
            raise ValueError(
                f"The sequence has {needed} tokens, more than max_position_embeddings={self.longest}: "
                "every further token moves all places, also those in the cache. Give use_cache=False, or fix "
                "the scale with the configuration's position_scaling_factor."
            )
