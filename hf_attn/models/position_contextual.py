"""Position encodings from the neighbours: what a token stands next to, or what was read before it.

`forward` gets all that was read so far, [B, S, D], also through the cache, with padding behind the tokens. A
sequence is a run of positions each one more than the last: nothing here reads padding (PADDING_POSITION), or
from one sequence packed in a row into the next. In a causal stack nothing reads ahead.
"""

import torch
from torch import nn
from transformers import initialization as init

from .position_base import Positions, compute_sinusoids


def find_neighbours(embeddings: torch.Tensor, position_ids: torch.Tensor, offsets: range) -> torch.Tensor:
    """Return x_{i+k} for each k of `offsets`, and zeros where that place is none of the same sequence.

    Embeddings [B, S, D] at positions [B, S], and K offsets in a row with 0 among them, give [B, S, K, D].
    """
    before, after = -offsets[0], offsets[-1]
    windows = nn.functional.pad(embeddings, (0, 0, before, after)).unfold(1, len(offsets), 1)  # [B, S, D, K]
    runs = number_sequences(position_ids)
    theirs = nn.functional.pad(runs, (before, after), value=-1).unfold(1, len(offsets), 1)  # [B, S, K]
    return (windows * (theirs == runs.unsqueeze(-1)).unsqueeze(2)).transpose(2, 3)


def number_sequences(position_ids: torch.Tensor) -> torch.Tensor:
    """Number the runs of positions each one more than the last, [B, S]; padding is a run of its own each."""
    steps = torch.diff(position_ids, dim=-1) != 1
    return nn.functional.pad(steps, (1, 0)).cumsum(-1)


class DepthwiseConvolutionPositions(Positions):
    """A weighted sum over the neighbours in each coordinate: the position shows only near the ends.

    w is [K, D], K = position_kernel_size; k runs around 0, in a causal stack from −(K − 1) to 0. Only the
    zeros beyond both ends say where the sequence begins; in between a token learns its neighbours, not its
    number.
    """

    title = "Depth-wise convolution"
    equation = "P(i) = Σ_k w_k ⊙ x_{i+k}"
    paper = "Chu et al. 2021, arXiv:2102.10882"
    settings = ("seed",)
    reads_neighbours = True

    def __init__(self, config, is_causal: bool = False):
        super().__init__(config, is_causal)
        self.weight = nn.Parameter(torch.empty(config.position_kernel_size, config.hidden_size))

    def forward(self, embeddings: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Add the sums over [B, S, D] embeddings to them."""
        offsets = choose_offsets(len(self.weight), self.is_causal)
        return embeddings + (find_neighbours(embeddings, position_ids, offsets) * self.weight).sum(dim=2)

    def reset(self) -> None:
        """Draw the kernel anew from N(0, 1/K)."""
        init.normal_(self.weight, mean=0.0, std=len(self.weight) ** -0.5)


def choose_offsets(width: int, is_causal: bool) -> range:
    """The places that a kernel of a width reads, relative to its own: around it, or up to it."""
    before = width - 1 if is_causal else width // 2
    return range(-before, width - before)


class MultiscaleConvolutionPositions(Positions):
    """Two convolutions give half of the coordinates each; the position shows only near the ends.

    They read K = position_kernel_size and K + 2 neighbours. A convolution is a linear map of the window
    around a token.
    """

    title = "Convolutions of two widths"
    equation = "P(i) = [Σ_k W_k x_{i+k} ; Σ_k V_k x_{i+k}]"
    paper = "“The Birth of Transformers”, Deep Learning DNA, chapter 8"
    settings = ("seed",)
    reads_neighbours = True

    def __init__(self, config, is_causal: bool = False):
        super().__init__(config, is_causal)
        half, rest = divmod(config.hidden_size, 2)
        self.width = config.position_kernel_size
        self.narrow = nn.Linear(self.width * config.hidden_size, half, bias=False)
        self.wide = nn.Linear((self.width + 2) * config.hidden_size, half + rest, bias=False)

    def forward(self, embeddings: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Add the convolutions of [B, S, D] embeddings to them."""
        found = []
        for width, convolve in ((self.width, self.narrow), (self.width + 2, self.wide)):
            windows = find_neighbours(embeddings, position_ids, choose_offsets(width, self.is_causal))
            found.append(convolve(windows.flatten(2)))  # [B, S, D/2]
        return embeddings + torch.cat(found, dim=-1)


class RecurrentPositions(Positions):
    """What an LSTM has read up to a token is added to it, one token after the other.

        (i, f, o, g) = W x_t + U h_{t−1} + b
        c_t = σ(f) ⊙ c_{t−1} + σ(i) ⊙ tanh(g),   h_t = σ(o) ⊙ tanh(c_t),   P(t) = W_p h_t

    It reads forward in an encoder too: what attention wanted to be rid of. The state is zero where a sequence
    begins. With a cache it reads again from the beginning: exact, and linear in each step.
    """

    title = "Recurrent (LSTM)"
    equation = "P(t) = W h_t,  h_t = LSTM(x_t, h_{t−1})"
    paper = "Hochreiter and Schmidhuber 1997, doi:10.1162/neco.1997.9.8.1735"
    settings = ("seed",)
    reads_neighbours = True

    def __init__(self, config, is_causal: bool = False):
        super().__init__(config, is_causal)
        width = config.hidden_size
        self.from_input = nn.Linear(width, 4 * width)
        self.from_state = nn.Linear(width, 4 * width, bias=False)
        self.projection = nn.Linear(width, width, bias=False)

    def forward(self, embeddings: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Add the projected states of an LSTM over [B, S, D] embeddings to them."""
        gates = self.from_input(embeddings)  # [B, S, 4D]
        begins = nn.functional.pad(torch.diff(position_ids, dim=-1) != 1, (1, 0), value=True)
        goes_on = (~begins).unsqueeze(-1).to(embeddings.dtype)  # [B, S, 1]
        hidden = cell = torch.zeros_like(embeddings[:, 0])
        states = []
        for time in range(embeddings.shape[1]):
            hidden, cell = hidden * goes_on[:, time], cell * goes_on[:, time]
            read, keep, show, new = (gates[:, time] + self.from_state(hidden)).chunk(4, dim=-1)
            cell = keep.sigmoid() * cell + read.sigmoid() * new.tanh()
            hidden = show.sigmoid() * cell.tanh()
            states.append(hidden)
        return embeddings + self.projection(torch.stack(states, dim=1))


class DynamicPositions(Positions):
    """A small network makes the vector from the sinusoid and the mean of the tokens in sight.

    PE is the sinusoid, and the context c_i the mean of the embeddings that token i may see: those up to it in
    a causal stack, else all of its sequence.
    """

    title = "Dynamic"
    equation = "P(i) = W₂ tanh(W₁ [PE(i) ; c_i] + b₁) + b₂"
    paper = "“The Birth of Transformers”, Deep Learning DNA, chapter 8"
    settings = ("seed",)
    reads_neighbours = True

    def __init__(self, config, is_causal: bool = False):
        super().__init__(config, is_causal)
        self.inner = nn.Linear(2 * config.hidden_size, config.hidden_size)
        self.outer = nn.Linear(config.hidden_size, config.hidden_size)

    def forward(self, embeddings: torch.Tensor, position_ids: torch.Tensor) -> torch.Tensor:
        """Add what [B, S] positions and the means of [B, S, D] embeddings give to them."""
        sequences = number_sequences(position_ids)
        share = (sequences.unsqueeze(-1) == sequences.unsqueeze(-2)).float()  # [B, S, S]
        if self.is_causal:
            share = share.tril()
        share = share / share.sum(dim=-1, keepdim=True)
        context = share.to(embeddings.dtype) @ embeddings  # [B, S, D]
        sinusoids = compute_sinusoids(position_ids, embeddings.shape[-1]).to(embeddings.dtype)
        both = torch.cat((sinusoids.expand_as(context), context), dim=-1)  # [B, S, 2D]
        return embeddings + self.outer(torch.tanh(self.inner(both)))
