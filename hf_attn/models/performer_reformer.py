"""Efficient self-attention that draws at random: Performer's features and Reformer's hashes."""

import math
from collections.abc import Callable

import torch
from torch import nn
from transformers import initialization as init

from .attention import scaled_dot_product_attention
from .efficient_base import EfficientAttention, may_read

CAUSAL_BLOCK = 128  # queries that causal Performer compares with their own block's keys
ONLY_IF_ALONE = 1e5  # off a token's score for itself: beside any other nothing is left (Kitaev et al., §2)


class RandomAttention(EfficientAttention):
    """Shared by the kinds that draw at random: `drawn` is saved with the weights, and can be drawn again.

    What a layer begins with is always the same: a buffer must be whole before weights are drawn, and after.
    """

    drawn: torch.Tensor

    def __init__(self, config, layer_idx: int, is_causal: bool = False):
        super().__init__(config, layer_idx, is_causal)
        self.register_buffer("drawn", self.draw(self.seeded()).to(torch.get_default_dtype()))

    def seeded(self) -> torch.Generator:
        """The generator of the layer's own first draw."""
        return torch.Generator("cpu").manual_seed(self.layer_idx)

    def shape_of_drawn(self) -> tuple[int, ...]:
        """The shape of what is drawn."""
        raise NotImplementedError

    def draw(self, generator: torch.Generator) -> torch.Tensor:
        """Draw it, float32 on the CPU."""
        return torch.randn(self.shape_of_drawn(), generator=generator, device="cpu", dtype=torch.float32)

    def reset(self) -> None:
        """Draw where a checkpoint gave nothing."""
        init.copy_(self.drawn, self.draw(self.seeded()))

    @torch.no_grad()
    def redraw(self, generator: torch.Generator) -> None:
        """Draw anew."""
        self.drawn.copy_(self.draw(generator))


class PerformerAttention(RandomAttention):
    """Softmax's kernel exp(q·k / √Dh) as a product of positive random features: keys meet values first.

        φ(x) = exp(Ω x − ‖x‖²/2) / √m,   E[φ(q)·φ(k)] = exp(q·k),   Ω [m, Dh],   m = performer_features
        Y_i = φ(q_i) Σ_j φ(k_j) v_jᵀ / φ(q_i) Σ_j φ(k_j)         (FAVOR+, Choromanski et al. 2020,
                                                                  arXiv:2009.14794)

    with q and k divided by Dh^¼; the sums run over j ≤ i in a causal stack. O(nm). Ω's rows are orthogonal
    within blocks of Dh, each with the length of a normal vector of its own (§3.2), one Ω a layer for all
    heads. A row of the map φ(q_i)·φ(k_j) / Σ sums to 1. From a cache all keys are read anew at every step.
    """

    def shape_of_drawn(self) -> tuple[int, ...]:
        """Ω's, [m, Dh]."""
        return self.config.performer_features, self.head_dim

    def draw(self, generator: torch.Generator) -> torch.Tensor:
        """Ω: directions evenly distributed and orthogonal, lengths as those of normal vectors."""
        lengths = super().draw(generator).norm(dim=1, keepdim=True)  # [m, 1]
        directions = []
        for _ in range(0, len(lengths), self.head_dim):
            drawn = torch.randn(
                self.head_dim, self.head_dim, generator=generator, device="cpu", dtype=torch.float32
            )
            orthogonal, triangular = torch.linalg.qr(drawn)
            directions.append(orthogonal * triangular.diagonal().sign())  # else some directions are likelier
        return torch.cat(directions)[: len(lengths)] * lengths

    def precision(self, query: torch.Tensor) -> torch.dtype:
        """float64 in a causal stack, where its device has it: later keys may outweigh those that are read."""
        wide = self.is_causal and query.device.type != "mps"
        return torch.float64 if wide else torch.float32

    def attend(self, query, key, value, sequences, _bias=None) -> torch.Tensor:
        """Sum the keys' features and values, then let each query read the sum."""
        queries, keys = positive_features(query, key, sequences, self.drawn, self.precision(query))
        values = nn.functional.pad(value.to(keys.dtype), (0, 1), value=1.0)  # [B, H, S, Dh + 1]: one counts
        if self.is_causal:
            read = read_prefixes(queries, keys, values, sequences)
        else:
            read = queries @ (keys.transpose(-2, -1) @ values)
        return (read[..., :-1] / avoid_zero(read[..., -1:])).to(value.dtype)

    def attend_plainly(self, query, key, value, sequences, _bias=None) -> tuple[torch.Tensor, torch.Tensor]:
        """Multiply every query's features with every key's."""
        queries, keys = positive_features(query, key, sequences, self.drawn, self.precision(query))
        weights = queries @ keys.transpose(-2, -1)  # [B, H, T, S]
        if self.is_causal:
            weights = weights.masked_fill(~may_read(sequences, query.shape[2], is_causal=True), 0)
        weights = (weights / avoid_zero(weights.sum(dim=-1, keepdim=True))).to(value.dtype)
        return weights @ value, weights


def positive_features(
    query, key, sequences, features, dtype: torch.dtype = torch.float32
) -> tuple[torch.Tensor, torch.Tensor]:
    """φ(q) [B, H, T, m] and φ(k) [B, H, S, m] of a dtype, but for factors that Y's quotient does not have.

    Each feature of the keys is divided by its largest and the queries' multiplied with it, then each query by
    its largest: nothing overflows, and a query that reads all keys finds at least one feature at 1. In place,
    for pages fetched anew cost more than the arithmetic.
    """
    scale, features = query.shape[-1] ** -0.25, features.to(dtype)
    query, key = query.to(dtype) * scale, key.to(dtype) * scale
    padding = (sequences == 0)[:, None, :, None]
    keys = (key @ features.T).to(dtype)  # [B, H, S, m]; autocast gives half precision
    keys = keys.sub_(key.square().sum(dim=-1, keepdim=True) / 2)
    keys = keys.masked_fill_(padding, torch.finfo(dtype).min)  # whose exponential is 0
    highest = keys.detach().amax(dim=-2, keepdim=True)  # [B, H, 1, m]
    queries = (query @ features.T).to(dtype).add_(highest)  # [B, H, T, m]
    queries = queries.sub_(queries.detach().amax(dim=-1, keepdim=True)).exp_()
    return queries, keys.sub_(highest).exp_()


def avoid_zero(total: torch.Tensor) -> torch.Tensor:
    """Put 1 where nothing is read, or by a causal query e³⁵⁰ times less than it would read of later keys."""
    return total.masked_fill(total < torch.finfo(total.dtype).tiny ** 0.5, 1)  # its gradient takes the square


def read_prefixes(queries, keys, values, sequences) -> torch.Tensor:
    """φ(q_i) Σ_{j ≤ i} φ(k_j) v_jᵀ, [B, H, T, D], block by block: pairs within a block, before it one sum.

    Queries are [B, H, T, m], keys [B, H, S, m] with 0 where padding is, values [B, H, S, D]. The sum begins
    anew with each of the sequences, [B or 1, S].
    """
    past = keys.shape[2] - queries.shape[2]
    latest = sequences.cummax(dim=1).values  # the sequence that was read last: padding has none
    total = keys[:, :, :past].transpose(-2, -1) @ values[:, :, :past]  # [B, H, m, D]
    current = latest[:, max(past - 1, 0), None]
    pieces = []
    for start in range(past, keys.shape[2], CAUSAL_BLOCK):
        block = slice(start, start + CAUSAL_BLOCK)
        query = queries[:, :, start - past :][:, :, :CAUSAL_BLOCK]
        key, value = keys[:, :, block], values[:, :, block]
        numbers = sequences[:, block]
        near = (query @ key.transpose(-2, -1)) * may_read(numbers, numbers.shape[1], is_causal=True)
        goes_on = (numbers == current)[:, None, :, None]
        pieces.append(near @ value + (query * goes_on) @ total)
        before, current = current, latest[:, block][:, -1:]
        key = key * (numbers == current)[:, None, :, None]
        total = total * (before == current)[:, None, :, None] + key.transpose(-2, -1) @ value
    return torch.cat(pieces, dim=2)


class ReformerAttention(RandomAttention):
    """Tokens are sorted by a hash of their queries; each reads its chunk and the one before.

        h(x) = argmax([xR ; −xR]),   R [Dh, buckets / 2] at random            (Kitaev et al. 2020,
        P_i = {j : 0 ≤ ⌊s_i / m⌋ − ⌊s_j / m⌋ ≤ 1 in some round}                arXiv:2001.04451, §2)
        A = softmax over P_i of q_i·k_j,   k_j = q_j / ‖q_j‖

    s_i is i's index after sorting by (h, i), m = reformer_chunk; each of reformer_rounds has an R of its own,
    and what is found in several counts once. Queries are keys too, made unit vectors, so that there is no
    k_proj; a token reads itself only where it is alone. O(n log n) for sorting, O(nm) for reading. The
    number of buckets is fixed, so that a row's does not depend on the batch; rows of the map sum to 1.
    """

    not_causal = "what later tokens hash to moves the borders of the chunks that earlier ones read"

    def __init__(self, config, layer_idx: int, is_causal: bool = False):
        super().__init__(config, layer_idx, is_causal)
        self.k_proj = nn.Identity()  # the keys are made of the queries

    def shape_of_drawn(self) -> tuple[int, ...]:
        """The rounds' R, [rounds, Dh, buckets / 2]."""
        return self.config.reformer_rounds, self.head_dim, self.config.reformer_buckets // 2

    def attend(self, query, _key, value, sequences, _bias=None) -> torch.Tensor:
        """Sort, read chunk by chunk, put back, and join the rounds."""
        return lsh_attention(query, value, sequences, self.drawn, self.config.reformer_chunk)

    def attend_plainly(self, query, _key, value, sequences, _bias=None) -> tuple[torch.Tensor, torch.Tensor]:
        """Read by all pairs, all but P_i hidden."""
        _, slots = sort_by_hash(query, sequences, self.drawn)
        chunks = slots // self.config.reformer_chunk  # [B, H, rounds, S]
        back = chunks.unsqueeze(-1) - chunks.unsqueeze(-2)
        found = ((back == 0) | (back == 1)).any(dim=2) & may_read(sequences, query.shape[2], is_causal=False)
        itself = torch.eye(query.shape[2], dtype=torch.bool, device=query.device)
        others = found & ~itself
        allowed = others | (found & itself & ~others.any(dim=-1, keepdim=True))
        return scaled_dot_product_attention(query, share_key(query), value, allowed)


def share_key(query: torch.Tensor) -> torch.Tensor:
    """Make keys of queries: k = √Dh q / ‖q‖, so that q·k / √Dh is the product with a unit vector."""
    unit = nn.functional.normalize(query.float(), dim=-1)  # its smallest length is 0 in half precision
    return (unit * math.sqrt(query.shape[-1])).to(query.dtype)


@torch.no_grad()
def sort_by_hash(query, sequences, rotations) -> tuple[torch.Tensor, torch.Tensor]:
    """Sort by (bucket, place), padding last: (order, slots), each [B, H, rounds, S].

    `order` holds the token at each place of the sorted row, `slots` each token's place in it.
    """
    turned = torch.einsum("bhsd,rdk->bhrsk", query.float(), rotations.float())
    buckets = torch.cat((turned, -turned), dim=-1).argmax(dim=-1)
    buckets = buckets.masked_fill((sequences == 0)[:, None, None], 2 * rotations.shape[-1])
    order = buckets.argsort(dim=-1, stable=True)
    return order, order.argsort(dim=-1)


def lsh_attention(query, value, sequences, rotations, chunk: int) -> torch.Tensor:
    """Attend within chunks of m of the tokens sorted by hash, in memory rounds × S × 2m: [B, H, S, Dh].

    Queries and values are [B, H, S, Dh], sequences [B or 1, S], rotations [rounds, Dh, buckets / 2]. The
    output is 0 where padding is.
    """
    length = query.shape[2]
    missing = -length % chunk
    query, value = (nn.functional.pad(states, (0, 0, 0, missing)) for states in (query, value))
    sequences = nn.functional.pad(sequences, (0, missing))
    order, slots = sort_by_hash(query, sequences, rotations)

    def cut(states):  # [B, H, 1, S, D] → [B, H, rounds, chunks, m, D], sorted
        return states.take_along_dim(order.unsqueeze(-1), dim=3).unflatten(3, (-1, chunk))

    def look_back(chunks):  # [..., chunks, m, D] → [..., chunks, 2m, D]
        return torch.cat((nn.functional.pad(chunks, (0, 0, 0, 0, 1, 0))[..., :-1, :, :], chunks), dim=-2)

    queries, keys = cut(query.unsqueeze(2)), look_back(cut(share_key(query).unsqueeze(2)))
    scores = (queries @ keys.transpose(-2, -1)).float() / math.sqrt(query.shape[-1])  # [..., chunks, m, 2m]
    tokens = order.unflatten(3, (-1, chunk)).unsqueeze(-1)
    scores = scores - ONLY_IF_ALONE * (tokens == look_back(tokens).transpose(-2, -1))
    if len(rotations) > 1:
        scores = scores - count_rounds(cut((slots // chunk).transpose(2, 3).unsqueeze(2)), look_back).log()
    is_token = (sequences != 0)[:, None, None, :, None].expand_as(slots.unsqueeze(-1))
    hidden = ~look_back(cut(is_token)).transpose(-2, -1)
    scores = scores.masked_fill(hidden, torch.finfo(torch.float32).min)
    total = scores.logsumexp(dim=-1, keepdim=True)
    output = (scores - total).exp().to(value.dtype) @ look_back(cut(value.unsqueeze(2)))
    back = slots.unsqueeze(-1)
    share = total.flatten(3, 4).take_along_dim(back, dim=3).softmax(dim=2)  # [B, H, rounds, S, 1]
    output = (output.flatten(3, 4).take_along_dim(back, dim=3) * share.to(value.dtype)).sum(dim=2)
    return (output * is_token[:, :, 0])[:, :, :length]


def count_rounds(chunks: torch.Tensor, look_back: Callable) -> torch.Tensor:
    """In how many rounds a query finds a key: [B, H, rounds, chunks, m, 2m], at least 1.

    `chunks`, [B, H, rounds, chunks, m, rounds], is sorted and holds each token's chunk in every round;
    `look_back` puts the chunk before in front of each.
    """
    of_keys = look_back(chunks)
    count = torch.zeros((), device=chunks.device)
    for other in range(chunks.shape[-1]):
        back = chunks[..., other].unsqueeze(-1) - of_keys[..., other].unsqueeze(-2)
        count = count + ((back == 0) | (back == 1))
    return count.clamp(min=1)
