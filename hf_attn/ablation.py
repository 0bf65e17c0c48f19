"""What an answer loses when a part of the input is taken out: the check that stands beside an attention map.

An attention weight says what was read, not what mattered (Jain & Wallace 2019, arXiv:1902.10186); to leave a
word out and read again says by how much the answer changes (Li et al. 2016, arXiv:1612.08220).
"""

import re
from dataclasses import dataclass

import torch
from transformers import PreTrainedTokenizerFast

from hf_attn.decoding import evaluating

BATCH = 64  # texts that are read at once


@dataclass(frozen=True)
class Removal:
    """A text's class, and how sure it stays of it without each word.

    Attributes:
        words: what stands between spaces; in a text without spaces, each token.
        predicted: index of the class of the whole text.
        probabilities: of every class, for the whole text.
        remaining: the predicted class's probability without each word.
        predicted_without: index of the class that the text has without each word.
    """

    words: tuple[str, ...]
    predicted: int
    probabilities: tuple[float, ...]
    remaining: tuple[float, ...]
    predicted_without: tuple[int, ...]

    @property
    def drops(self) -> tuple[float, ...]:
        """What each word's removal takes from the predicted class's probability; below 0, it gives.

        drop(w) = p(ŷ | text) − p(ŷ | text without w)
        """
        return tuple(self.probabilities[self.predicted] - left for left in self.remaining)


def group_words(text: str, tokenizer: PreTrainedTokenizerFast) -> list[tuple[str, list[int]]]:
    """(word, places of its tokens) for each word of a text: what stands between spaces, else each token."""
    encoding = tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True)
    spans = [match.span() for match in re.finditer(r"\S+", text)]
    tokens = [
        (place, begin, end)
        for place, ((begin, end), is_special) in enumerate(
            zip(encoding["offset_mapping"], encoding["special_tokens_mask"], strict=True)
        )
        if not is_special and end > begin
    ]
    if len(spans) < 2:
        pieces = [(text[begin:end].strip(), [place]) for place, begin, end in tokens]
        return [(piece, places) for piece, places in pieces if piece]
    groups: dict[tuple[int, int], list[int]] = {}
    for (
        place,
        _,
        end,
    ) in tokens:  # a token may begin with the space before its word: its last character decides
        span = next((span for span in spans if span[0] < end <= span[1]), None)
        if span is not None:
            groups.setdefault(span, []).append(place)
    return [(text[slice(*span)], places) for span, places in groups.items()]


def measure_removal(model, tokenizer: PreTrainedTokenizerFast, text: str) -> Removal:
    """Take each word out of a text in turn, and see how sure a classifier stays of the class it named.

    Args:
        model: a sequence classifier.
        tokenizer: the model's; it must be a fast one, which knows where each token stands.
        text: the input; of a longer one, the first tokens are read, as many as the model has positions for.

    Raises:
        ValueError: the model is no classifier, or the text has no words.
    """
    if model.can_generate():
        raise ValueError("Words are taken out before a classifier; this model writes. Look at its attention.")
    ids, groups = _cut(tokenizer(text)["input_ids"], group_words(text, tokenizer), model, tokenizer)
    if not groups:
        raise ValueError(f"{text!r} has no words to take out; write some.")
    rows = [ids, *[[index for place, index in enumerate(ids) if place not in places] for _, places in groups]]
    probabilities = torch.cat(
        [_class_probabilities(model, rows[start : start + BATCH]) for start in range(0, len(rows), BATCH)]
    )
    predicted = int(probabilities[0].argmax())
    return Removal(
        tuple(word for word, _ in groups),
        predicted,
        tuple(probabilities[0].tolist()),
        tuple(probabilities[1:, predicted].tolist()),
        tuple(probabilities[1:].argmax(dim=1).tolist()),
    )


def _cut(ids: list[int], groups: list[tuple[str, list[int]]], model, tokenizer):
    """The first tokens, with the end token behind, and the words that are among them."""
    positions = getattr(model.config, "max_position_embeddings", tokenizer.model_max_length)
    most = min(positions, tokenizer.model_max_length)
    if len(ids) <= most:
        return ids, groups
    kept = [(word, [place for place in places if place < most - 1]) for word, places in groups]
    return [*ids[: most - 1], ids[-1]], [(word, places) for word, places in kept if places]


@torch.no_grad()
def _class_probabilities(model, rows: list[list[int]]) -> torch.Tensor:
    """[B, classes] for texts of unequal length, padded on the right."""
    device = next(model.parameters()).device
    ids = torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=model.config.pad_token_id
    )
    lengths = torch.tensor([len(row) for row in rows])
    mask = (torch.arange(ids.shape[1]) < lengths.unsqueeze(1)).long()
    with evaluating(model):
        return model(ids.to(device), attention_mask=mask.to(device)).logits.float().softmax(-1).cpu()
