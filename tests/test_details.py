"""Small things that would go unnoticed if they were wrong: each test kills a mutant that once survived."""

import dataclasses

import pytest
import torch

from hf_attn.architectures.registry import build_model
from hf_attn.evaluation.metrics import evaluate
from hf_attn.generation.generate import cut_nucleus
from hf_attn.models.layers import Residual
from hf_attn.tasks import Recipe, build_task
from hf_attn.tasks.batch import END, PAD
from hf_attn.training.loop import Diverged, build_optimizer, train
from tests.support.checks import build_encoder, build_seq2seq, random_ids


def test_a_post_norm_residual_normalises_and_a_pre_norm_one_does_not():
    config = build_encoder(norm_position="post").config
    states, block = torch.randn(2, 5, 16) * 3 + 1, torch.randn(2, 5, 16)
    after = Residual(config).after(states, block)
    torch.testing.assert_close(after.mean(-1), torch.zeros(2, 5), atol=1e-5, rtol=0)
    torch.testing.assert_close(after.var(-1, unbiased=False), torch.ones(2, 5), atol=1e-3, rtol=0)
    config.norm_position = "pre"
    torch.testing.assert_close(Residual(config).after(states, block), states + block)


def test_embeddings_are_scaled_by_the_root_of_the_width():
    plain, scaled = (
        build_encoder(position_type="none"),
        build_encoder(position_type="none", scale_embedding=True),
    )
    ids = random_ids(1, 4)
    first = plain(ids, output_hidden_states=True).hidden_states[0]
    torch.testing.assert_close(scaled(ids, output_hidden_states=True).hidden_states[0], 4 * first)


def test_a_decoder_s_hidden_states_are_its_layers_outputs():
    model = build_seq2seq()
    seen = []
    layer = model.model.decoder.layers[0]
    layer.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    ids = random_ids(1, 4)
    states = model(ids, decoder_input_ids=ids, output_hidden_states=True).decoder_hidden_states
    assert len(states) == model.config.decoder_layers + 1
    torch.testing.assert_close(states[1], seen[0])


def test_only_matrices_decay():
    task = build_task("copy", max_length=3)
    model = build_model(task, Recipe({"use_bias": True}))
    decaying, others = build_optimizer(model, Recipe(weight_decay=0.3)).param_groups
    assert (decaying["weight_decay"], others["weight_decay"]) == (0.3, 0.0)
    assert all(weight.dim() > 1 for weight in decaying["params"])
    assert others["params"]
    assert all(weight.dim() == 1 for weight in others["params"])


def test_the_first_step_is_taken_at_the_first_learning_rate():
    """AdamW's first update of a weight with a gradient is its learning rate, whatever the gradient."""
    task = build_task("copy", max_length=3)
    recipe = Recipe(steps=10, learning_rate=0.1, warmup_steps=10, weight_decay=0.0, max_grad_norm=0.0)
    model = build_model(task, recipe)
    before = model.lm_head.weight.detach().clone()
    run = train(task, model, dataclasses.replace(recipe, report_every=1))
    next(run), next(run)
    run.close()
    moved = (model.lm_head.weight.detach() - before).abs().max()
    assert float(moved) == pytest.approx(0.1 / 10, rel=1e-2)


def test_gradients_are_clipped():
    task = build_task("copy", max_length=3)

    def gradient_norms(max_grad_norm):
        model = build_model(task, Recipe())
        norms = []
        recipe = Recipe(steps=2, max_grad_norm=max_grad_norm, report_every=1)
        clip = torch.nn.utils.clip_grad_norm_

        def spy(parameters, *args, **kwargs):
            parameters = list(parameters)
            clip(parameters, *args, **kwargs)
            norms.append(torch.norm(torch.stack([p.grad.norm() for p in parameters if p.grad is not None])))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(torch.nn.utils, "clip_grad_norm_", spy)
            list(train(task, model, recipe))
        return norms

    clipped = gradient_norms(0.01)
    assert len(clipped) == 2
    assert all(norm <= 0.0101 for norm in clipped)
    assert gradient_norms(0.0) == []


def test_a_nucleus_stops_as_soon_as_it_holds_what_it_must():
    kept = cut_nucleus(torch.tensor([0.5, 0.25, 0.25]), 0.5)
    assert kept.tolist() == [1.0, 0.0, 0.0]
    assert (cut_nucleus(torch.tensor([0.5, 0.25, 0.25]), 0.51) > 0).sum() == 2


def test_accuracy_is_told_under_the_right_size():
    task = build_task("copy", max_length=4)
    sizes = evaluate(build_model(task, Recipe()), task, n=60).by_size
    lengths = [sum(index not in (PAD, END) for index in row) for row in task.held_out(60).input_ids.tolist()]
    assert {size: score.examples for size, score in sizes.items()} == {
        length: lengths.count(length) for length in sorted(set(lengths))
    }


def test_a_missing_symbol_costs_accuracy_and_an_empty_answer_gets_nothing():
    task = build_task("copy")
    assert task.measure("7 15 2 3", "7 15")["token_accuracy"] == 0.5
    addition = build_task("addition")
    assert not addition.verify("0+0", "").correct
    assert addition.measure("1+1", "") == {"token_accuracy": 0, "digit_accuracy": 0}


def test_a_special_token_in_an_answer_makes_it_wrong():
    task = build_task("copy")
    written = task.decode([*task.ids("7"), PAD, *task.ids("15"), END])
    assert not task.verify("7 15", written).correct


def test_a_batch_has_as_many_examples_as_asked_and_the_loop_uses_all():
    task = build_task("copy", max_length=3)
    model = build_model(task, Recipe())
    seen = []
    model.register_forward_pre_hook(
        lambda module, _args, kwargs: seen.append(len(kwargs["labels"])) if module.training else None,
        with_kwargs=True,
    )
    list(train(task, model, Recipe(steps=2, batch_size=13)))
    assert seen == [13, 13]


@pytest.mark.parametrize("largest", [1, 9, 10, 50, 99, 100, 499, 999])
def test_no_addend_is_larger_than_allowed(largest):
    task = build_task("addition", max_addend=largest)
    batch = task.sample(torch.Generator().manual_seed(0), 300)
    addends = [int(a) for row in batch.input_ids.tolist() for a in task.read_source(row).split("+")]
    assert max(addends) <= largest
    assert max(addends) > largest / 2


def test_a_task_without_held_out_examples_says_so():
    task = build_task("copy", max_length=1, num_symbols=2)
    with pytest.raises(ValueError, match=r"no (held-out|validation) examples"):
        (task.held_out(5), task.validation(5))


def test_a_run_that_diverges_stops_in_words():
    task = build_task("copy", max_length=3)
    recipe = Recipe(steps=50, learning_rate=1e20, warmup_steps=0, max_grad_norm=0.0)
    with pytest.raises(Diverged, match=r"step \d+.*lower learning rate"):
        list(train(task, build_model(task, recipe), recipe))


def test_a_damaged_state_is_refused_in_words(tmp_path):
    task = build_task("copy", max_length=3)
    recipe = Recipe(steps=4, report_every=1)
    run = train(task, build_model(task, recipe), recipe, state_dir=tmp_path / "state")
    next(run), next(run)
    run.close()
    (tmp_path / "state" / "progress.json").write_text("{")
    with pytest.raises(OSError, match=r"cannot be read.*Begin the run again"):
        next(train(task, build_model(task, recipe), recipe, state_dir=tmp_path / "state"))


def test_numbers_that_are_none_are_refused_in_words():
    for options in ({"betas": (1.5, 0.9)}, {"weight_decay": -1.0}, {"max_grad_norm": float("inf")}):
        with pytest.raises(ValueError, match=next(iter(options))):
            Recipe(**options)
    with pytest.raises(ValueError, match="1001 characters; 1000 at most"):
        build_task("parser").encode("x" * 1001)
