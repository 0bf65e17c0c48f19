"""What must hold of a model, as plain functions the tests share; mutants.py proves that they can fail.

Each takes a model, raises AssertionError where the claim is broken, and returns nothing.
"""

import copy

import torch
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, Trainer, TrainingArguments

from hf_attn.models.modeling_attn_decoder import AttnDecoderForCausalLM
from hf_attn.models.modeling_attn_encoder import AttnEncoderForSequenceClassification, AttnEncoderModel
from hf_attn.models.modeling_attn_seq2seq import AttnSeq2SeqForConditionalGeneration

PAD, START, END = 0, 1, 2
KERNELS = ("eager", "sdpa")
SIDES = ("left", "right")
EFFICIENT_SIZES = {
    "attention_window": 2,
    "linformer_size": 5,
    "performer_features": 12,
    "reformer_buckets": 4,
    "reformer_rounds": 3,
    "reformer_chunk": 3,
}
SIZES = {
    "tie_word_embeddings": False,
    "vocab_size": 23,
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 24,
    "zero_init_residual": False,  # a block that starts at 0 would hide what is wrong inside it
    **EFFICIENT_SIZES,
}
LABELS = {  # of eight rows, for a classifier
    "single_label_classification": torch.tensor([0, 2, 1, 2, 0, 1, 1, 2]),
    "multi_label_classification": torch.tensor([[0, 1, 1], [1, 0, 0]] * 4).float(),
    "regression": torch.linspace(-1, 1, 8),
}


def build_small(model_class, kernel: str, seed: int, settings: dict):
    """A small model with random weights, in evaluation mode."""
    config = model_class.config_class(**{**SIZES, **settings}, attn_implementation=kernel)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return model_class(config).eval()


def build_encoder(kernel: str = "sdpa", seed: int = 0, **settings) -> AttnEncoderModel:
    return build_small(AttnEncoderModel, kernel, seed, settings)


def build_classifier(kernel: str = "sdpa", seed: int = 0, **settings) -> AttnEncoderForSequenceClassification:
    return build_small(AttnEncoderForSequenceClassification, kernel, seed, settings)


def build_seq2seq(kernel: str = "sdpa", seed: int = 0, **settings) -> AttnSeq2SeqForConditionalGeneration:
    return build_small(AttnSeq2SeqForConditionalGeneration, kernel, seed, settings)


def build_decoder(kernel: str = "sdpa", seed: int = 0, **settings) -> AttnDecoderForCausalLM:
    return build_small(AttnDecoderForCausalLM, kernel, seed, settings)


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


def has_classes(model) -> bool:
    """Whether each row has one answer, not each of its tokens."""
    return hasattr(model, "classifier")


def answers(model, **inputs) -> torch.Tensor:
    """Logits, or the states of a model without a head: [B, T, …], of a classifier [B, classes]."""
    output = model(**inputs)
    return output.logits if "logits" in output else output.last_hidden_state


def read(model, ids, mask=None) -> dict[str, torch.Tensor]:
    """Inputs of which each token is answered: an encoder-decoder's target, or all that the others read."""
    stack = "decoder_" if model.config.is_encoder_decoder else ""
    return {f"{stack}input_ids": ids} | ({} if mask is None else {f"{stack}attention_mask": mask})


def source_of(model, *lengths: int) -> dict[str, torch.Tensor]:
    """What an encoder-decoder reads beside its target, padded on the right; of the others nothing."""
    if not model.config.is_encoder_decoder:
        return {}
    return dict(zip(("input_ids", "attention_mask"), pad(random_rows(*lengths), "right"), strict=True))


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
def check_rows_stand_alone(model, side: str, target_side: str = "left") -> None:
    """Each row of a padded batch is answered as it is alone; an encoder-decoder's target is padded too."""
    rows = random_rows(8, 3, 1, 6)
    ids, mask = pad(rows, side)
    alone, batch = [{"input_ids": row[None]} for row in rows], {"input_ids": ids, "attention_mask": mask}
    if model.config.is_encoder_decoder:
        targets = random_rows(2, 5, 7, 4, seed=10)
        ids, mask = pad(targets, target_side)
        batch |= read(model, ids, mask)
        alone = [row | read(model, target[None]) for row, target in zip(alone, targets, strict=True)]
    for row, own, its_mask in zip(alone, answers(model, **batch), mask.bool(), strict=True):
        tolerance = 1e-5 if has_classes(model) else 2e-5
        assert_close(own if has_classes(model) else own[its_mask], answers(model, **row)[0], tolerance)


@torch.no_grad()
def check_padding_is_not_read(model) -> None:
    """Whatever ids stand where the source's mask is 0, the output does not change."""
    target = read(model, random_ids(2, 4, seed=1)) if model.config.is_encoder_decoder else {}
    for side in SIDES:
        ids, mask = pad(random_rows(7, 3), side)
        other = torch.where(mask.bool(), ids, random_ids(*ids.shape, seed=5))
        before, after = (answers(model, input_ids=x, attention_mask=mask, **target) for x in (ids, other))
        shown = mask.bool() if not target and not has_classes(model) else slice(None)
        assert_close(after[shown], before[shown])
        assert_different(*(answers(model, input_ids=x, **target) for x in (ids, other)))


@torch.no_grad()
def check_the_future_is_hidden(model) -> None:
    """Another token at place t changes the logits from t on, and none before."""
    source, ids = source_of(model, 6, 6), random_ids(2, 7, seed=1)
    before = model(**source, **read(model, ids)).logits
    for place in (1, 3, 6):
        other = ids.clone()
        other[:, place] = (ids[:, place] - 3) % 19 + 4
        after = model(**source, **read(model, other)).logits
        assert_close(after[:, :place], before[:, :place])
        assert_different(after[:, place], before[:, place])


@torch.no_grad()
def check_padding_and_the_future_weigh_nothing(model) -> None:
    """Padded on the left, under the plain kernel: rows and columns of padding and the future are 0."""
    ids, mask = pad(random_rows(7, 3), "left")
    is_token = mask.bool()
    may_attend = (is_token[:, :, None] & is_token[:, None]).tril().unsqueeze(1)  # [B, 1, T, T]
    for weights in model(ids, attention_mask=mask, output_attentions=True).attentions:
        assert (weights.masked_fill(may_attend, 0) == 0).all()
        assert_close(weights.sum(-1), is_token[:, None].expand(weights.shape[:-1]).float())


@torch.no_grad()
def check_cached_equals_uncached(model, side: str | None = None, chunks=(1,) * 7) -> None:
    """Chunk by chunk through the cache gives the logits of one pass over everything.

    Args:
        model: an encoder-decoder or a decoder.
        side: where rows of unequal length are padded; None: equally long and unmasked.
        chunks: how many tokens each step reads.
    """
    ids, mask = pad(random_rows(sum(chunks), sum(chunks) - (3 if side else 0), seed=9), side or "left")
    shown, mask = mask.bool(), mask if side else None
    source = source_of(model, 6, 4)
    whole = model(**source, **read(model, ids, mask), use_cache=False)
    assert whole.cache is None
    if source:
        source["encoder_outputs"] = model.get_encoder()(**source)
        del source["input_ids"]
    cache, pieces, done = None, [], 0
    for size in chunks:
        now, done = ids[:, done : done + size], done + size
        step = read(model, now, None if mask is None else mask[:, :done])
        output = model(**source, **step, cache=cache, use_cache=True)
        cache = output.cache
        pieces.append(output.logits)
    assert_close(torch.cat(pieces, dim=1)[shown], whole.logits[shown])


@torch.no_grad()
def check_labels_shift_once(model) -> None:
    """The loss is the one computed by hand: a label is scored by what was read before it, -100 by nothing.

    An encoder-decoder reads the start, then every label but the last; a decoder reads its own ids.
    """
    source, ids = source_of(model, 6, 6, 6), random_ids(3, 6, seed=1)
    labels = ids.clone()
    labels[0, 4:] = labels[1, 5:] = labels[2, 1] = -100
    first, total, count = int(not source), 0.0, 0
    for row, wanted in enumerate(labels.tolist()):
        begun = [PAD if label == -100 else label for label in wanted] if source else ids[row].tolist()
        begun = [START, *begun] if source else begun
        for place in range(first, 6):
            if wanted[place] != -100:
                before = torch.tensor([begun[: place + bool(source)]])
                own = {name: values[row : row + 1] for name, values in source.items()}
                log_p = model(**own, **read(model, before)).logits[0, -1].log_softmax(-1)
                total, count = total - log_p[wanted[place]], count + 1
    assert count == 14 - 3 * first
    given = source or {"input_ids": ids}
    assert_close(model(**given, labels=labels).loss, total / count)


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


def examples_for(model) -> tuple[list[dict], int]:
    """Eight examples, and how many labels they hold: of a model that writes 1 to 8 each."""
    ids = random_ids(8, 5)
    if has_classes(model):
        labels = LABELS[model.config.problem_type or "single_label_classification"]
        items = labels.numel()
    else:
        hidden, items = torch.arange(8).unsqueeze(1) < torch.arange(8), 36
        labels = random_ids(8, 8, seed=1)
        labels[hidden] = -100
        if not model.config.is_encoder_decoder:  # whose first label is never scored
            ids = random_ids(8, 9)
            labels = torch.cat((ids[:, :1], ids[:, 1:].masked_fill(hidden, -100)), dim=1)
    return [{"input_ids": i[None], "labels": one[None]} for i, one in zip(ids, labels, strict=True)], items


def check_the_trainer_accumulates(build, tmp_path) -> None:
    """The Trainer learns the same from eight batches of one as from one of eight."""
    rows = [{name: tensor[0] for name, tensor in example.items()} for example in examples_for(build())[0]]
    weights = []
    for batch_size in (1, 8):
        model = build()
        of_pairs = model.config.is_encoder_decoder
        arguments = (Seq2SeqTrainingArguments if of_pairs else TrainingArguments)(
            **accumulating(tmp_path, batch_size, max_steps=1 if has_classes(model) else 2)
        )
        head = model.classifier if has_classes(model) else model.lm_head
        before = copy.deepcopy(head.weight)
        (Seq2SeqTrainer if of_pairs else Trainer)(model, arguments, train_dataset=rows).train()
        assert_different(head.weight, before)
        weights.append(model.state_dict())
    for name, weight in weights[0].items():
        torch.testing.assert_close(weight, weights[1][name], atol=1e-4, rtol=1e-3)
