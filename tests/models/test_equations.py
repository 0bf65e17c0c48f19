"""Each mechanism computes its equation on drawn inputs: a second, plain implementation gives the same.

The twins are written from the equations in the docstrings, one token, one pair or one number at a time.
"""

import itertools
import math
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hf_attn.models import score_functions
from hf_attn.models.attention import scaled_dot_product_attention
from hf_attn.models.configuration_recurrent_encoder import CELL_TYPES, RecurrentEncoderConfig
from hf_attn.models.modeling_recurrent_encoder import RecurrentEncoderModel
from hf_attn.models.position_base import PADDING_POSITION
from hf_attn.models.position_rotary import rotate
from hf_attn.models.positions import POSITION_TYPES
from hf_attn.textbooks import reference_attention
from tests.support.checks import SIDES, assert_close
from tests.support.position_checks import build_positions

FEW = settings(max_examples=15, deadline=None)
WIDTH = 12
SEEDS, SIZES, SIDE = st.integers(0, 10_000), st.integers(1, 5), st.sampled_from(SIDES)
LENGTHS = st.lists(st.integers(0, 6), min_size=1, max_size=4)
CELLS = {"num_layers": st.integers(1, 2), "bidirectional": st.booleans()}
SHAPES = st.tuples(st.integers(1, 2), st.integers(1, 2), SIZES, SIZES, SIZES, SIZES)


def draw(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=generator).requires_grad_()


def tabulate(function, *axes) -> torch.Tensor:
    """function(a, b, …) of every combination, an axis of the result for each one given."""
    found = torch.stack([function(*at) for at in itertools.product(*axes)])
    return found.unflatten(0, [len(axis) for axis in axes])


def gradients(parts, tensors) -> tuple[torch.Tensor, ...]:
    """Of the sum of all squares."""
    total = sum(part.square().sum() for part in parts)
    return torch.autograd.grad(total, tensors, retain_graph=True, allow_unused=True, materialize_grads=True)


def assert_twins(found, expected, tensors) -> None:
    """The same values, and the same gradients by every tensor."""
    for own, twin in zip(found, expected, strict=True):
        assert_close(own, twin, 1e-4)
    for own, twin in zip(gradients(found, tensors), gradients(expected, tensors), strict=True):
        scale = twin.abs().max().clamp(min=1)  # a sum over many tokens is rounded as its largest part is
        assert_close(own / scale, twin / scale, 1e-4)


# Positions


@dataclass
class Reading:
    """What a position module reads, and its settings: all that a twin is given."""

    module: torch.nn.Module  # for its weights alone
    words: torch.Tensor  # [B, S, D]
    places: list[list[int]]  # of each row its S places
    queries: torch.Tensor  # [B, H, S, Dh]
    asked: int  # how many of the places ask: the last ones
    config: dict

    def add(self, vector) -> dict:
        """words + vector(self, row, t), token by token."""
        rows, tokens = map(range, self.words.shape[:2])
        return {"told": tabulate(lambda row, t: self.words[row, t] + vector(self, row, t), rows, tokens)}

    def turn(self, angle) -> dict:
        """Each pair (i, i + Dh/2) of each query times the 2×2 matrix of angle(row, t, i)."""
        *before, width = self.queries.shape

        def turned(row, head, t, i):
            a = angle(row, t, i)
            matrix = torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])
            return matrix @ self.queries[row, head, t, [i, i + width // 2]]

        return {"turned": tabulate(turned, *map(range, before), range(width // 2)).mT.flatten(-2)}

    def pair(self, numbers) -> torch.Tensor:
        """numbers(j − i) of each query and key, [B, T, S, ·]."""
        (rows, keys), place = map(range, self.words.shape[:2]), self.places
        asking = keys[-self.asked :]
        return tabulate(lambda row, i, j: numbers(place[row][j] - place[row][i]), rows, asking, keys)

    def score(self, numbers) -> dict:
        """numbers(j − i), one a head, of each query and key."""
        return {"bias": self.pair(numbers).permute(0, 3, 1, 2)}

    def theta(self, i: int, growth: float = 1.0) -> float:
        return (self.config["rope_theta"] * growth) ** (-2 * i / self.queries.shape[-1])

    def stretch(self, row: int, t: int) -> float:
        """s of the sequence of token t: it ends where the next place is no greater."""
        places, fixed = self.places[row], self.config["position_scaling_factor"]
        while t + 1 < len(places) and places[t + 1] > places[t]:
            t += 1
        return fixed or max(1, (places[t] + 1) / self.config["max_position_embeddings"])

    def clip(self, distance: int) -> int:
        farthest = self.config["relative_clip_distance"]
        return min(farthest, max(-farthest, distance)) + farthest

    def run(self, row: int, t: int) -> tuple[int, int]:
        """Where the run of places that token t stands in begins, and where it ends (exclusive)."""
        places, begin, end = self.places[row], t, t + 1
        while begin > 0 and places[begin - 1] == places[begin] - 1:
            begin -= 1
        while end < len(places) and places[end] == places[end - 1] + 1:
            end += 1
        return begin, end

    def convolve(self, row: int, t: int, multiply, weights) -> torch.Tensor:
        """Σ_k multiply(w_k, x_{t+k}) around token t, or up to it where causal, within its run."""
        begin, end = self.run(row, t)
        first = t - (len(weights) - 1 if self.config["is_causal"] else len(weights) // 2)
        near = enumerate(weights, start=first)
        return sum(multiply(w, self.words[row, at]) for at, w in near if begin <= at < end)


def sinusoid(place: int) -> torch.Tensor:
    angles = [place / 10000 ** (2 * (i // 2) / WIDTH) for i in range(WIDTH)]
    return torch.tensor([math.cos(x) if i % 2 else math.sin(x) for i, x in enumerate(angles)])


def learned(read: Reading):
    return read.add(lambda _, row, t: read.module.weight[read.places[row][t]])


def learned_interpolated(read: Reading, row: int, t: int):
    table, x = read.module.weight, read.places[row][t] / read.stretch(row, t)
    low = math.floor(x)
    return (low + 1 - x) * table[low] + (x - low) * table[min(low + 1, len(table) - 1)]


def rotary_ntk(read: Reading):
    power = read.queries.shape[-1] / (read.queries.shape[-1] - 2)
    return read.turn(lambda row, t, i: read.places[row][t] * read.theta(i, read.stretch(row, t) ** power))


def rotary_interpolated(read: Reading):
    return read.turn(lambda row, t, i: read.places[row][t] / read.stretch(row, t) * read.theta(i))


def relative(read: Reading):
    return {"vectors": torch.stack([read.pair(lambda d, w=w: w[read.clip(d)]) for w in read.module.weight])}


def t5(read: Reading):
    buckets = read.config["relative_attention_num_buckets"]
    farthest = read.config["relative_attention_max_distance"]

    def bucket(distance):
        if read.config["is_causal"]:
            count, first, distance = buckets, 0, max(0, -distance)
        else:
            count, first, distance = buckets // 2, buckets // 2 if distance > 0 else 0, abs(distance)
        near = count // 2
        if distance < near:
            return first + distance
        share = math.log(distance / near) / math.log(farthest / near)
        return first + min(count - 1, near + math.floor(share * (count - near)))

    return read.score(lambda d: read.module.weight[bucket(d)])


def t5_clipped(read: Reading):
    return read.score(lambda d: read.module.weight[read.clip(d)] / math.sqrt(read.queries.shape[-1]))


def count_columns(read: Reading):
    """Where a row is one run: its places are steps, and each count has a table."""
    return read.score(lambda d: sum(table[read.clip(d)] for table in read.module.weight))


def composite(read: Reading):
    told = read.add(lambda _, row, t: read.module.alpha * sinusoid(read.places[row][t]))
    return {**told, "bias": read.module.beta * t5_clipped(read)["bias"]}


def alibi(read: Reading):
    slopes = {1: [2**-8], 2: [2**-4, 2**-8], 3: [2**-4, 2**-8, 2**-2]}[read.queries.shape[1]]
    return read.score(lambda d: torch.tensor([-slope * abs(d) for slope in slopes]))


def depthwise_convolution(read: Reading, row: int, t: int):
    return read.convolve(row, t, torch.mul, read.module.weight)


def multiscale_convolution(read: Reading, row: int, t: int):
    maps = [part.weight.split(WIDTH, dim=1) for part in (read.module.narrow, read.module.wide)]  # W_k and V_k
    return torch.cat([read.convolve(row, t, torch.mv, weights) for weights in maps])


def recurrent(read: Reading, row: int, t: int):
    lstm, hidden, cell = read.module, torch.zeros(WIDTH), torch.zeros(WIDTH)
    for word in read.words[row, read.run(row, t)[0] : t + 1]:
        gates = lstm.from_input.weight @ word + lstm.from_state.weight @ hidden + lstm.from_input.bias
        i, f, o, g = gates.split(WIDTH)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        hidden = torch.sigmoid(o) * torch.tanh(cell)
    return lstm.projection.weight @ hidden


def ode(read: Reading):
    module, longest = read.module, read.config["max_position_embeddings"]

    def f(p, t):
        inside = module.inner.weight @ p + module.time.weight[:, 0] * (t / longest) + module.inner.bias
        return (module.outer.weight @ torch.tanh(inside) + module.outer.bias) / longest**0.5

    solution = [module.start]
    for t in range(max(map(max, read.places))):
        k1 = f(p := solution[-1], t)
        k2 = f(p + k1 / 2, t + 1 / 2)
        k3 = f(p + k2 / 2, t + 1 / 2)
        solution.append(p + k1 / 6 + k2 / 3 + k3 / 3 + f(p + k3, t + 1) / 6)
    return read.add(lambda _, row, t: solution[read.places[row][t]])


def complex_waves(read: Reading, row: int, t: int):
    word, half = read.words[row, t], WIDTH // 2
    phase = read.places[row][t] * read.module.omega + read.module.phi
    wave = torch.complex(word[:half], word[half:]) * torch.polar(torch.ones(half), phase)
    return torch.cat((wave.real, wave.imag)) - word


def dynamic(read: Reading, row: int, t: int):
    (begin, end), inner, outer = read.run(row, t), read.module.inner, read.module.outer
    seen = read.words[row, begin : t + 1 if read.config["is_causal"] else end]
    both = torch.cat((sinusoid(read.places[row][t]), sum(seen) / len(seen)))
    return outer.weight @ torch.tanh(inner.weight @ both + inner.bias) + outer.bias


TWINS = {
    "none": lambda read: {},
    "index": lambda read: read.add(lambda _, row, t: float(read.places[row][t])),
    "sinusoidal": lambda read: read.add(lambda _, row, t: sinusoid(read.places[row][t])),
    "learned": learned,
    "learned_interpolated": lambda read: read.add(learned_interpolated),
    "rotary": lambda read: read.turn(lambda row, t, i: read.places[row][t] * read.theta(i)),
    "rotary_interpolated": rotary_interpolated,
    "rotary_ntk": rotary_ntk,
    "relative": relative,
    "t5": t5,
    "t5_clipped": t5_clipped,
    "alibi": alibi,
    "depthwise_convolution": lambda read: read.add(depthwise_convolution),
    "multiscale_convolution": lambda read: read.add(multiscale_convolution),
    "recurrent": lambda read: read.add(recurrent),
    "ode": ode,
    "complex": lambda read: read.add(complex_waves),
    "composite": composite,
    "dynamic": lambda read: read.add(dynamic),
    "significance": count_columns,
    "both_ends": count_columns,
    **dict.fromkeys(
        ("coupled", "abacus"),
        lambda read: read.add(lambda _, row, t: read.module.weight[read.places[row][t]]),
    ),
}
CONFIGS = {
    "seed": SEEDS, "is_causal": st.booleans(), "num_attention_heads": st.integers(1, 3),
    "max_position_embeddings": st.integers(4, 12), "rope_theta": st.sampled_from([100.0, 10000.0]),
    "position_scaling_factor": st.none() | st.sampled_from([1, 1.5, 2.5]),
    "position_kernel_size": st.integers(1, 5), "relative_clip_distance": st.integers(1, 8),
    "relative_attention_num_buckets": st.sampled_from([4, 6, 8, 14]),
    "relative_attention_max_distance": st.integers(8, 25),
}  # fmt: skip
ROWS = st.lists(st.tuples(*map(st.integers, (0, 0, 0), (15, 15, 6))), min_size=1, max_size=3)


def number(start: int, first: int, padded: int, length: int, padding: int) -> list[int]:
    """A row's places: `first` from `start` on, a second sequence packed behind them, then padding."""
    tokens = max(0, length - padded)
    return [start + t if t < first else t - first for t in range(tokens)] + [padding] * (length - tokens)


@pytest.mark.parametrize("name", TWINS)
@FEW
@given(config=st.fixed_dictionaries(CONFIGS), rows=ROWS, length=st.integers(1, 15), asked=st.integers(1, 15))
def test_every_position_type_is_its_equation_token_by_token(name, config, rows, length, asked):
    module = build_positions(name, hidden_size=WIDTH, **config)
    generator = torch.Generator().manual_seed(config["seed"])
    for weight in module.parameters():  # away from where it begins: some begin at 0 or 1
        weight.data += 0.3 * draw(generator, *weight.shape).detach()
    ids = torch.tensor(
        [number(*row, length, PADDING_POSITION if module.reads_neighbours else 0) for row in rows]
    )
    factor = 1 if name in ("learned", "coupled", "abacus") else config["position_scaling_factor"]
    if name.startswith(("learned", "coupled", "abacus")) and factor:  # these have an end
        ids %= int(config["max_position_embeddings"] * factor)
    heads, asked = config["num_attention_heads"], min(asked, length)
    words = draw(generator, len(rows), length, WIDTH)
    queries = draw(generator, len(rows), heads, length, WIDTH // heads)

    rotation = module.rotation(ids)
    turned = None if rotation is None else rotate(queries, *rotation)
    bias, vectors = module.score_terms(ids[:, -asked:], ids)
    found = {"told": module(words, ids), "turned": turned, "bias": bias, "vectors": vectors}
    twin = TWINS[name](Reading(module, words, ids.tolist(), queries, asked, config))
    assert {"told", *twin} == {part for part, value in found.items() if value is not None}
    shown = (ids != PADDING_POSITION).unsqueeze(-1)  # what padding is told is never read
    found["told"], twin["told"] = found["told"] * shown, twin.get("told", words) * shown
    assert_twins([found[part] for part in twin], twin.values(), [words, queries, *module.parameters()])


# Attention, and the scores of Bahdanau and of Luong


def soften(scores, may_attend) -> torch.Tensor:
    """exp(e_s) / Σ exp(e_s) over what may be attended, number by number."""
    worth = [torch.exp(score) * may for score, may in zip(scores, may_attend, strict=True)]
    return torch.stack([one / (sum(worth) if any(may_attend) else 1) for one in worth])


def attend_by_hand(query, key, value, may_attend, bias, scaling):
    """Query by query, key by key: (Y, A)."""

    def weigh(b, h, t):
        products = [sum(query[b, h, t] * one) * scaling for one in key[b, h]]
        return soften(torch.stack(products) + bias[b, h, t], may_attend[b, h, t])

    def read(b, h, t):
        return sum(weight * answer for weight, answer in zip(weights[b, h, t], value[b, h], strict=True))

    axes = [range(size) for size in query.shape[:3]]
    weights = tabulate(weigh, *axes)
    return tabulate(read, *axes), weights


@FEW
@given(SEEDS, SHAPES, st.sampled_from([0.0, 0.3, 0.7]), st.none() | st.floats(0.1, 2), st.booleans())
def test_attention_is_its_equation_pair_by_pair(seed, shape, share, scaling, is_biased):
    """Also where a query may attend to nothing, and from scratch, where it must see some key."""
    rows, heads, asked, keys, width, value_width = shape
    generator = torch.Generator().manual_seed(seed)
    sizes = ((asked, width), (keys, width), (keys, value_width), (asked, keys))
    *read, bias = tensors = [draw(generator, rows, heads, *size) for size in sizes]
    may_attend, none = torch.rand(bias.shape, generator=generator) < share, torch.zeros_like(bias)
    found = scaled_dot_product_attention(*read, may_attend, bias if is_biased else None, scaling)
    twin = attend_by_hand(*read, may_attend, bias if is_biased else none, scaling or width**-0.5)
    assert_twins(found, twin, tensors)
    assert (found[0][~may_attend.any(-1)] == 0).all()

    unmasked = attend_by_hand(*read, none == 0, none, width**-0.5)
    for attend in (scaled_dot_product_attention, reference_attention.attend):
        assert_twins(attend(*read), unmasked, read)
    may_attend[..., seed % keys] = True
    masked = attend_by_hand(*read, may_attend, none, width**-0.5)
    assert_twins(reference_attention.attend(*read, may_attend), masked, read)


SCORES = {
    "additive": (score_functions.additive_score, lambda s, h, w_s, w_h, v: v @ torch.tanh(w_s @ s + w_h @ h)),
    "dot": (score_functions.luong_dot_score, lambda s, h: sum(s * h)),
    "general": (
        score_functions.luong_general_score,
        lambda s, h, w: sum(s * torch.stack([sum(r * h) for r in w])),
    ),
    "concat": (score_functions.luong_concat_score, lambda s, h, w, v: v @ torch.tanh(w @ torch.cat((s, h)))),
}


def draw_mask(lengths: list[int], longest: int, side: str) -> torch.Tensor:
    """[B, longest], True = token: a row's tokens on one side, its padding on the other."""
    mask = torch.arange(longest) < torch.tensor(lengths).unsqueeze(1)
    return mask.flip(1) if side == "left" else mask


def test_every_position_type_and_every_score_has_a_twin():
    assert set(TWINS) == set(POSITION_TYPES)
    assert {"none", *SCORES} == set(score_functions.SCORE_FUNCTIONS)


@pytest.mark.parametrize("name", SCORES)
@FEW
@given(seed=SEEDS, sizes=st.tuples(*(SIZES,) * 5), lengths=LENGTHS, side=SIDE)
def test_every_score_is_its_equation_pair_by_pair_and_padding_weighs_0(name, seed, sizes, lengths, side):
    asked, longest, width, memory_width, hidden_width = sizes
    memory_width = width if name == "dot" else memory_width
    generator, (function, pair) = torch.Generator().manual_seed(seed), SCORES[name]
    score = score_functions.SCORE_FUNCTIONS[name](width, memory_width, hidden_width)
    for weight in score.parameters():
        weight.data = draw(generator, *weight.shape).detach()
    weights = [weight[0] if "score_proj" in path else weight for path, weight in score.named_parameters()]
    query, memory = (draw(generator, len(lengths), *s) for s in ((asked, width), (longest, memory_width)))
    may_attend = draw_mask(lengths, longest, side)
    axes = range(len(lengths)), range(asked)
    scores = tabulate(lambda b, t, s: pair(query[b, t], memory[b, s], *weights), *axes, range(longest))
    shares = tabulate(lambda b, t: soften(scores[b, t], may_attend[b]), *axes)
    contexts = tabulate(lambda b, t: sum(shares[b, t, :, None] * memory[b]), *axes)
    projected = score.project(memory)
    found = score_functions.read_memory(score, query, projected, memory, may_attend)
    own = [score(query, projected), function(query, memory, *weights), *found]
    assert_twins(own, [scores, scores, contexts, shares], [query, memory, *score.parameters()])
    assert_close(found[1].sum(-1), may_attend.any(1, keepdim=True).float().expand(-1, asked))
    assert (found[1].masked_select(~may_attend.unsqueeze(1)) == 0).all()


@pytest.mark.parametrize("cell_type", CELL_TYPES)
@FEW
@given(config=st.fixed_dictionaries(CELLS), seed=SEEDS, lengths=LENGTHS, spare=st.integers(0, 2), side=SIDE)
def test_a_recurrent_encoder_reads_a_padded_row_as_alone(cell_type, config, seed, lengths, spare, side):
    config = RecurrentEncoderConfig(cell_type=cell_type, vocab_size=9, hidden_size=8, **config)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        encoder = RecurrentEncoderModel(config).eval()
    mask = draw_mask(lengths, max(lengths) + 1 + spare, side)
    words = draw(torch.Generator().manual_seed(seed), *mask.shape, 8)
    together = encoder(inputs_embeds=words, attention_mask=mask.long())
    assert (together.last_hidden_state[~mask] == 0).all()
    assert (together.final_hidden[~mask.any(1)] == 0).all()  # a row without a token stays where it began
    for row in mask.any(1).nonzero().flatten().tolist():
        alone = encoder(inputs_embeds=words[row, mask[row]][None])
        assert_close(together.last_hidden_state[row, mask[row]], alone.last_hidden_state[0])
        assert_close(together.final_hidden[row], alone.final_hidden[0])
        if cell_type == "lstm":
            assert_close(together.final_cell[row], alone.final_cell[0])
