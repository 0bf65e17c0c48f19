"""Attention of one's own: a class that says how queries weigh keys; all else is as ever.

`config.attention_type` names a class in OWN_ATTENTION, where `hf_attn.load_attention_file` puts those of
files. What a class computes is checked: when a model is built on random vectors, and in every pass.
"""

import torch
from torch import nn

from .attention import MultiHeadAttention

TOLERANCE = 1e-3  # of a row's sum, and of a row computed in another way; coarse numbers get more
PLACES = 5  # tokens of the rows on which a class is tried
LONGEST_ERROR = 200  # characters of somebody else's error that are quoted


class AttentionError(ArithmeticError, ValueError):
    """A class of one's own computes something else than attention; the message says where."""


def eager_attention_forward(module, query, key, value, attention_mask, dropout=0.0, **_):
    """Attention of one's own, called as every kernel is: (Y [B, T, H, Dh], A [B, H, T, S]).

    The mask is None where all may attend, bool (True = may attend), or floats to be added (0 = may attend).
    """
    if attention_mask is None:
        may_attend = torch.ones(1, 1, query.shape[2], key.shape[2], dtype=torch.bool, device=query.device)
    elif attention_mask.dtype == torch.bool:
        may_attend = attention_mask
    else:
        may_attend = attention_mask > torch.finfo(attention_mask.dtype).min
    weights = module.compute_weights(query, key, may_attend).to(value.dtype)
    if dropout and module.training:
        weights = nn.functional.dropout(weights, dropout)
    return (weights @ value).transpose(1, 2), weights


class OwnAttention(MultiHeadAttention):
    """Multi-head attention, self and cross, whose weights come from `weigh`.

        A = weigh(Q, K),   Y = A V

    A subclass has a `name` and the method `weigh`, and may learn numbers of its own: its `__init__` takes the
    same arguments. An `nn.Linear` in it is drawn as every other; an `nn.Parameter` starts as written.

    Attributes:
        name: what `config.attention_type` calls it.
        file: the Python file that it is from.
        is_cross: whether the keys are of another sequence than the queries.
    """

    name = ""
    file = ""
    is_cross = False
    plain_kernel = staticmethod(eager_attention_forward)

    def weigh(self, query: torch.Tensor, key: torch.Tensor, may_attend: torch.Tensor) -> torch.Tensor:
        """Return how much each query reads of each key.

        Args:
            query: [B, H, T, Dh]; with a cache these are the last T of the S tokens.
            key: [B, H, S, Dh].
            may_attend: bool [B or 1, 1 or H, T, S], True = may attend.

        Returns:
            A [B, H, T, S], none below 0 and 0 where it may not attend; each row sums to 1, or to 0 where it
            may attend to nothing. What a row may not attend to must not change it.
        """
        raise NotImplementedError

    def compute_weights(self, query, key, may_attend) -> torch.Tensor:
        """What `weigh` returns, checked; AttentionError where it is no attention.

        The values are not read while a GPU learns: it would have to be waited for.
        """
        try:
            weights = self.weigh(query, key, may_attend)
        except (Exception, SystemExit) as error:  # whatever the file does
            raise AttentionError(self.explain("weigh", error, f", in {self.place},")) from error
        shape = (*query.shape[:3], key.shape[2])
        if not isinstance(weights, torch.Tensor):
            self.refuse(f"returned a {type(weights).__name__}: it must be a tensor [B, H, T, S]")
        if weights.shape != shape or not weights.is_floating_point():
            given = f"{weights.dtype} of shape {list(weights.shape)}"
            self.refuse(f"returned {given}: it must be floats [B, H, T, S], here {list(shape)}")
        if not torch.compiler.is_compiling() and (weights.device.type == "cpu" or not self.training):
            self.check_weights(weights.detach(), may_attend.expand_as(weights))
        return weights

    def check_weights(self, weights: torch.Tensor, may_attend: torch.Tensor) -> None:
        """Refuse rows that are no shares of what may be attended: AttentionError for the first one."""
        total = weights.sum(-1, dtype=torch.float32)
        is_wrong = ~((total - may_attend.any(-1).float()).abs() <= find_tolerance(weights))  # NaN, too
        is_wrong |= ((weights < 0) | (~may_attend & (weights != 0))).any(-1)
        if not is_wrong.any():
            return
        batch, head, query = is_wrong.nonzero()[0].tolist()
        row, allowed = weights[batch, head, query], may_attend[batch, head, query]
        where = f"row {query} of head {head}, example {batch}"
        for is_bad, what in ((~row.isfinite(), "is no number"), (row < 0, "is below 0")):
            if is_bad.any():
                key = int(is_bad.nonzero()[0])
                self.refuse(f"gives weight {float(row[key]):g}, which {what}, in column {key} of {where}")
        if (hidden := (row != 0) & ~allowed).any():
            key = int(hidden.nonzero()[-1])
            is_later = self.is_causal and key > query + weights.shape[3] - weights.shape[2]
            what = "looks into the future" if is_later else "reads padding"
            self.refuse(f"{what}: weight {float(row[key]):g} in column {key} of {where}")
        wanted = "1" if allowed.any() else "0, as nothing may be attended"
        self.refuse(f"gives weights that sum to {float(row.sum()):g} in {where}: they must sum to {wanted}")

    @property
    def place(self) -> str:
        """Where in a model it stands, in words."""
        own = "the decoder's self-attention" if self.is_causal else "the encoder's self-attention"
        return f"layer {self.layer_idx} of {'cross-attention' if self.is_cross else own}"

    def refuse(self, what: str) -> None:
        """Raise AttentionError: what `weigh` does wrong."""
        raise AttentionError(f"{type(self).__name__}.weigh of {self.file}, in {self.place}, {what}.")

    @classmethod
    def explain(cls, method: str, error: BaseException, place: str = "") -> str:
        """Say what a method of the file raised, and in which of its lines."""
        line, trace = "", error.__traceback__
        while trace is not None:
            if trace.tb_frame.f_code.co_filename.endswith(cls.file):
                line = f" in line {trace.tb_lineno}"
            trace = trace.tb_next
        text = " ".join(str(error).split())[:LONGEST_ERROR].rstrip(".")
        return f"{cls.__name__}.{method} of {cls.file}{place} raised {type(error).__name__}{line}: {text}."


OWN_ATTENTION: dict[str, type[OwnAttention]] = {}


def find_tolerance(weights: torch.Tensor) -> float:
    """How far a sum or a weight may be off, in the numbers that the weights are."""
    return max(TOLERANCE, 4 * torch.finfo(weights.dtype).eps)


def try_own_attention(model: nn.Module) -> None:
    """Try each attention of one's own in a model on random vectors; AttentionError where one is wrong."""
    for module in model.modules():
        if isinstance(module, OwnAttention) and not module.q_proj.weight.is_meta:
            is_training = module.training
            try_attention(module.eval())
            module.train(is_training)


@torch.no_grad()
def try_attention(attention: OwnAttention) -> None:
    """Refuse what a pass alone does not show: rows that hidden tokens change, or that a cache changes.

    Of three rows of tokens the second begins with padding, and the third is nothing else.
    """
    weight, heads = attention.q_proj.weight, attention.config.num_attention_heads
    generator = torch.Generator().manual_seed(0)
    shape = (4, 3, heads, PLACES, attention.head_dim)
    query, key, other_query, other_key = torch.randn(shape, generator=generator).to(weight)
    is_token = torch.ones(3, PLACES, dtype=torch.bool, device=weight.device)
    is_token[1, :2] = is_token[2] = False
    may_attend = is_token[:, None, None].expand(-1, 1, PLACES, -1)
    if attention.is_causal:
        may_attend = may_attend.tril()
    rows = attention.compute_weights(query, key, may_attend)
    tolerance = find_tolerance(rows)

    def check_same(expected: torch.Tensor, found: torch.Tensor, what: str) -> None:
        if (change := (expected - found).abs().amax()) > tolerance:
            attention.refuse(f"{what}: a weight changes by {float(change):.2g}")

    again = attention.compute_weights(query, key, may_attend)
    check_same(rows, again, "gives other weights for the same queries and keys: leave dropout to hf_attn")

    def replace(is_other: torch.Tensor) -> torch.Tensor:
        """The rows with other tokens in some places [B, S]."""
        is_other = is_other[:, None, :, None]
        given = query if attention.is_cross else torch.where(is_other, other_query, query)
        return attention.compute_weights(given, torch.where(is_other, other_key, key), may_attend)

    padded = replace(~is_token)
    is_read = torch.ones_like(is_token) if attention.is_cross else is_token
    check_same(rows.transpose(1, 2)[is_read], padded.transpose(1, 2)[is_read], "reads padding, in some way")
    for place in range(PLACES) if attention.is_causal else ():
        later = torch.arange(PLACES, device=weight.device).expand_as(is_token) > place
        what = f"looks into the future: what comes after place {place} changes row {place} or one before it"
        check_same(rows[:, :, : place + 1], replace(later)[:, :, : place + 1], what)
    for place in range(PLACES) if attention.is_causal or attention.is_cross else ():
        read = PLACES if attention.is_cross else place + 1
        here = slice(place, place + 1)
        alone = attention.compute_weights(query[:, :, here], key[:, :, :read], may_attend[:, :, here, :read])
        what = f"gives row {place} otherwise when asked for it alone, as with a cache"
        check_same(rows[:, :, here, :read], alone, what)


__all__ = ["OWN_ATTENTION", "AttentionError", "OwnAttention", "try_attention", "try_own_attention"]
