"""What must hold of a model, as plain functions the tests share; test_mutations.py proves that they can fail.

Each takes a model, raises AssertionError where the claim is broken, and returns nothing.
"""

import copy

import torch
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments
from transformers.cache_utils import DynamicLayer

from hf_attn.models.configuration_attn_encoder import AttnEncoderConfig
from hf_attn.models.configuration_attn_seq2seq import AttnSeq2SeqConfig
from hf_attn.models.modeling_attn_encoder import AttnEncoderForSequenceClassification, AttnEncoderModel
from hf_attn.models.modeling_attn_seq2seq import AttnSeq2SeqForConditionalGeneration

PAD, START, END = 0, 1, 2
POSITIONS = ("none", "learned", "sinusoidal", "rotary")
KERNELS = ("eager", "sdpa")
SIDES = ("left", "right")
SIZES = {
    "tie_word_embeddings": False,
    "vocab_size": 23,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 24,
    "zero_init_residual": False,  # a block that starts at 0 would hide what is wrong inside it
}


def build_seq2seq(kernel: str = "sdpa", seed: int = 0, **settings) -> AttnSeq2SeqForConditionalGeneration:
    """A small encoder-decoder with random weights, in evaluation mode."""
    config = AttnSeq2SeqConfig(**{**SIZES, **settings}, attn_implementation=kernel)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return AttnSeq2SeqForConditionalGeneration(config).eval()


def build_encoder(kernel: str = "sdpa", seed: int = 0, **settings) -> AttnEncoderModel:
    """A small encoder with random weights, in evaluation mode."""
    config = AttnEncoderConfig(**{**SIZES, **settings}, attn_implementation=kernel)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return AttnEncoderModel(config).eval()


def build_classifier(kernel: str = "sdpa", seed: int = 0, **settings) -> AttnEncoderForSequenceClassification:
    """A small classifier with random weights, in evaluation mode."""
    config = AttnEncoderConfig(**{**SIZES, **settings}, attn_implementation=kernel)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return AttnEncoderForSequenceClassification(config).eval()


def random_ids(*shape: int, seed: int = 0) -> torch.Tensor:
    """Ids of ordinary tokens: none of them special."""
    return torch.randint(4, SIZES["vocab_size"], shape, generator=torch.Generator().manual_seed(seed))


def random_rows(*lengths: int, seed: int = 0) -> list[torch.Tensor]:
    """One sequence a length."""
    return [random_ids(length, seed=seed + place) for place, length in enumerate(lengths)]


def pad(rows: list[torch.Tensor], side: str, value: int = PAD) -> tuple[torch.Tensor, torch.Tensor]:
    """Rows → (ids [B, longest], mask [B, longest])."""
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=value, padding_side=side)
    ones = [torch.ones_like(row) for row in rows]
    return ids, torch.nn.utils.rnn.pad_sequence(ones, batch_first=True, padding_side=side)


def assert_close(actual: torch.Tensor, expected: torch.Tensor, tolerance: float = 2e-5) -> None:
    """Equal but for the order of sums."""
    torch.testing.assert_close(actual, expected, atol=tolerance, rtol=tolerance)


def assert_different(actual: torch.Tensor, expected: torch.Tensor) -> None:
    """Different enough to be no rounding: guards a test against comparing what cannot differ."""
    assert (actual - expected).abs().max() > 1e-3, "these should differ, else the check proves nothing"


def gradients(model) -> dict[str, torch.Tensor]:
    """A copy of every parameter's gradient."""
    return {name: weight.grad.clone() for name, weight in model.named_parameters() if weight.grad is not None}


def assert_same_gradients(actual: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    """The same parameters have the same gradients."""
    assert actual.keys() == expected.keys()
    assert any(gradient.abs().max() > 1e-3 for gradient in expected.values())
    for name, gradient in expected.items():
        torch.testing.assert_close(
            actual[name], gradient, atol=2e-5, rtol=1e-3, msg=lambda m, n=name: f"{n}: {m}"
        )


def check_plain_attention_is_the_equation(attend) -> None:
    """`attend(Q, K, V, may_attend)` gives what torch's own function gives; rows of weights sum to 1."""
    generator = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, 3, length, 8, generator=generator) for length in (4, 6, 6))
    may_attend = torch.rand(2, 1, 4, 6, generator=generator) > 0.4
    may_attend[..., 0] = True
    for mask in (None, may_attend):
        output, weights = attend(query, key, value, mask)
        assert_close(output, torch.nn.functional.scaled_dot_product_attention(query, key, value, mask))
        assert_close(weights.sum(-1), torch.ones(2, 3, 4))


def check_kernels_agree(model, kernels=KERNELS) -> None:
    """Every kernel gives the first one's values and gradients, with and without padding."""
    is_seq2seq = model.config.is_encoder_decoder
    rows, mask = pad(random_rows(7, 4, 6), "right")
    labels = random_ids(3, 5, seed=1) if is_seq2seq else None
    for attention_mask in (None, mask):
        found = []
        for kernel in kernels:
            model.set_attn_implementation(kernel)
            model.zero_grad()
            output = model(rows, attention_mask=attention_mask, **({"labels": labels} if is_seq2seq else {}))
            values = output.logits if is_seq2seq else output.last_hidden_state
            shown = values if is_seq2seq or attention_mask is None else values[mask.bool()]
            (output.loss if is_seq2seq else shown.square().mean()).backward()
            found.append((shown.detach(), gradients(model)))
        for values, slopes in found[1:]:
            assert_close(values, found[0][0])
            assert_same_gradients(slopes, found[0][1])
    model.zero_grad()


@torch.no_grad()
def check_encoder_rows_stand_alone(model, side: str) -> None:
    """Each row of a padded batch gives what it gives alone."""
    rows = random_rows(8, 3, 1, 6)
    ids, mask = pad(rows, side)
    states = model(ids, attention_mask=mask).last_hidden_state
    for row, own, its_mask in zip(rows, states, mask.bool(), strict=True):
        assert_close(own[its_mask], model(row.unsqueeze(0)).last_hidden_state[0])


@torch.no_grad()
def check_seq2seq_rows_stand_alone(model, source_side: str, target_side: str) -> None:
    """Each row of a batch padded in source and target gives the logits that it gives alone."""
    sources, targets = random_rows(8, 3, 1, 6), random_rows(2, 5, 7, 4, seed=10)
    ids, mask = pad(sources, source_side)
    read, read_mask = pad(targets, target_side)
    logits = model(ids, attention_mask=mask, decoder_input_ids=read, decoder_attention_mask=read_mask).logits
    for source, target, own, its_mask in zip(sources, targets, logits, read_mask.bool(), strict=True):
        alone = model(source.unsqueeze(0), decoder_input_ids=target.unsqueeze(0)).logits[0]
        assert_close(own[its_mask], alone)


@torch.no_grad()
def check_padding_is_not_read(model) -> None:
    """Whatever ids stand where the source's mask is 0, the output does not change."""
    ids, mask = pad(random_rows(7, 3), "right")
    other = torch.where(mask.bool(), ids, random_ids(*ids.shape, seed=5))
    extra = {"decoder_input_ids": random_ids(2, 4, seed=1)} if model.config.is_encoder_decoder else {}
    before, after = (model(x, attention_mask=mask, **extra)[0] for x in (ids, other))
    if not model.config.is_encoder_decoder:
        before, after = before[mask.bool()], after[mask.bool()]
    assert_close(after, before)
    assert_different(model(other, **extra)[0], model(ids, **extra)[0])


@torch.no_grad()
def check_the_future_is_hidden(model) -> None:
    """Another token at place t changes the logits from t on, and none before."""
    source, target = random_ids(2, 6), random_ids(2, 7, seed=1)
    before = model(source, decoder_input_ids=target).logits
    for place in (1, 3, 6):
        other = target.clone()
        other[:, place] = (target[:, place] - 3) % 19 + 4
        after = model(source, decoder_input_ids=other).logits
        assert_close(after[:, :place], before[:, :place])
        assert_different(after[:, place:], before[:, place:])


@torch.no_grad()
def check_cached_equals_uncached(model, target_side: str | None = None, chunks=(1,) * 7) -> None:
    """Step by step through the cache gives the logits of one pass over everything.

    Args:
        model: an encoder-decoder.
        target_side: where targets of unequal length are padded; None: equally long and unmasked.
        chunks: how many tokens each step reads.
    """
    source, source_mask = pad(random_rows(6, 4), "right")
    read, mask = pad(
        random_rows(sum(chunks), sum(chunks) - (3 if target_side else 0), seed=9), target_side or "left"
    )
    mask = mask if target_side else None
    whole = model(
        source, attention_mask=source_mask, decoder_input_ids=read, decoder_attention_mask=mask
    ).logits
    memory = model.get_encoder()(source, attention_mask=source_mask)
    cache, pieces, done = None, [], 0
    for size in chunks:
        step = model(
            encoder_outputs=memory,
            attention_mask=source_mask,
            decoder_input_ids=read[:, done : done + size],
            decoder_attention_mask=None if mask is None else mask[:, : done + size],
            cache=cache,
            use_cache=True,
        )
        cache, done = step.cache, done + size
        pieces.append(step.logits)
    shown = torch.ones_like(read).bool() if mask is None else mask.bool()
    assert_close(torch.cat(pieces, dim=1)[shown], whole[shown])


@torch.no_grad()
def check_labels_shift_once(model) -> None:
    """The loss is the one computed by hand: the decoder reads the start, then every label but the last."""
    source, labels = random_ids(3, 6), random_ids(3, 5, seed=1)
    labels[0, 3:] = labels[1, 4:] = labels[2, 1] = -100
    total, count = 0.0, 0
    for row, wanted in zip(source, labels.tolist(), strict=True):
        read = [START, *(PAD if label == -100 else label for label in wanted[:-1])]
        log_p = model(row.unsqueeze(0), decoder_input_ids=torch.tensor([read])).logits[0].log_softmax(-1)
        for place, label in enumerate(wanted):
            if label != -100:
                total, count = total - log_p[place, label], count + 1
    assert count == 11
    assert_close(model(source, labels=labels).loss, total / count)


def accumulating(output_dir, batch_size: int, max_steps: int) -> dict:
    """Trainer's arguments for plain gradient descent over eight examples a step, `batch_size` at a time."""
    return {
        "output_dir": str(output_dir),
        "per_device_train_batch_size": batch_size,
        "gradient_accumulation_steps": 8 // batch_size,
        "max_steps": max_steps,
        "learning_rate": 0.1,
        "optim": "sgd",
        "max_grad_norm": 0,
        "lr_scheduler_type": "constant",
        "use_cpu": True,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }


def check_accumulation_weighs_every_label_alike(model, examples: list[dict], items: int) -> None:
    """Eight batches of one give the gradients of one batch of eight, though their label counts differ.

    Args:
        model: any that gives a loss.
        examples: inputs of one example each, labels included.
        items: how many labels they hold together.
    """
    model.zero_grad()
    model(**{name: torch.cat([e[name] for e in examples]) for name in examples[0]}).loss.backward()
    together = gradients(model)
    model.zero_grad()
    for example in examples:
        model(**example, num_items_in_batch=torch.tensor(items)).loss.backward()
    assert_same_gradients(gradients(model), together)


def seq2seq_examples() -> tuple[list[dict], int]:
    """Eight examples with 1 to 8 labels, and the number of labels."""
    labels = random_ids(8, 8, seed=1)
    labels[torch.arange(8).unsqueeze(1) < torch.arange(8)] = -100
    source = random_ids(8, 5)
    return [{"input_ids": s[None], "labels": t[None]} for s, t in zip(source, labels, strict=True)], 36


def check_the_trainer_accumulates(build, tmp_path):
    """The Trainer learns the same from eight batches of one as from one of eight."""
    examples, _ = seq2seq_examples()
    rows = [{name: tensor[0] for name, tensor in example.items()} for example in examples]
    weights = []
    for batch_size in (1, 8):
        arguments = Seq2SeqTrainingArguments(**accumulating(tmp_path, batch_size, max_steps=2))
        model = build()
        before = copy.deepcopy(model.lm_head.weight)
        Seq2SeqTrainer(model, arguments, train_dataset=rows).train()
        assert_different(model.lm_head.weight, before)
        weights.append(model.state_dict())
    for name, weight in weights[0].items():
        torch.testing.assert_close(weight, weights[1][name], atol=1e-4, rtol=1e-3)


def make_caches_forget(monkeypatch):
    """Let a cache hold nothing but what it was given last."""
    update = DynamicLayer.update

    def forget(self, key, value, *arguments, **settings):
        update(self, key, value, *arguments, **settings)
        self.keys, self.values = key, value
        return key, value

    monkeypatch.setattr(DynamicLayer, "update", forget)
