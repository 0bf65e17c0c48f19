"""Every optimizer of the table: what it builds, what it refuses, what it keeps, and that its runs resume."""

import dataclasses
import json

import pytest
import torch

from hf_attn.architectures.memory import Weights, estimate_training
from hf_attn.architectures.muon import make_orthogonal
from hf_attn.architectures.optimizers import OPTIMIZERS, switch_optimizer
from hf_attn.architectures.registry import build_config, build_model
from hf_attn.architectures.settings import apply_settings
from hf_attn.checkpoints.run_folder import Run, load_run, save_run
from hf_attn.tasks import Recipe, build_task
from hf_attn.training.loop import build_optimizer, train
from tests.support.checks import assert_close

TASK = build_task("copy", max_length=4)
SMALL = {"hidden_size": 16, "num_attention_heads": 2, "encoder_layers": 1, "decoder_layers": 1}


def recipe_of(optimizer, **changes):
    recipe = Recipe({**SMALL, "intermediate_size": 32}, steps=6, batch_size=8, warmup_steps=0, **changes)
    return switch_optimizer(recipe, optimizer)


def weights_after(recipe, **how):
    """Train a small model; its weights, and all reports."""
    model = build_model(TASK, recipe)
    reports = list(train(TASK, model, recipe, **how))
    return torch.cat([weight.detach().flatten() for weight in model.parameters()]), reports


def test_adamw_is_what_every_recipe_has_and_torch_s_own():
    model = torch.nn.Linear(3, 2)
    built = build_optimizer(model, Recipe(betas=(0.8, 0.9), weight_decay=0.3, learning_rate=0.02))
    assert type(built) is torch.optim.AdamW
    assert built.defaults["fused"] is True
    for group, decay in zip(built.param_groups, (0.3, 0.0), strict=True):
        assert (group["lr"], group["betas"], group["weight_decay"]) == (0.02, (0.8, 0.9), decay)


def test_adafactor_is_torch_s_own_with_the_recipe_s_rate_and_decay():
    built = build_optimizer(torch.nn.Linear(3, 2), Recipe(optimizer="adafactor", weight_decay=0.3))
    assert type(built) is torch.optim.Adafactor
    assert [(group["lr"], group["weight_decay"]) for group in built.param_groups] == [(3e-3, 0.3), (3e-3, 0)]


def test_muon_s_update_keeps_a_matrix_s_directions_and_makes_them_alike():
    for shape in ((3, 8, 8), (2, 16, 4), (2, 4, 16)):
        drawn = torch.randn(shape, generator=torch.Generator().manual_seed(0))
        left, sizes, right = torch.linalg.svd(drawn, full_matrices=False)
        found = left.mT @ make_orthogonal(drawn) @ right.mT
        strengths = found.diagonal(dim1=-2, dim2=-1)
        assert_close(found, torch.diag_embed(strengths))
        clear = sizes > 0.1 * sizes[:, :1]
        assert clear.sum() > 0.6 * clear.numel()
        assert ((strengths[clear] > 0.6) & (strengths[clear] < 1.3)).all()


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="torch has its own from 2.9 on")
def test_muon_takes_torch_s_steps_inside_and_adamw_s_elsewhere():
    recipe = Recipe(
        {**SMALL, "intermediate_size": 32}, learning_rate=0.02, weight_decay=0.3, optimizer="muon"
    )
    mine, theirs = build_model(TASK, recipe), build_model(TASK, recipe)
    layers = [name for name, part in theirs.named_modules() if isinstance(part, torch.nn.Linear)]
    inside = {f"{name}.weight" for name in layers if name != "lm_head"}
    weights = dict(theirs.named_parameters())
    others = [weights[name] for name in sorted(set(weights) - inside)]
    twins = [
        torch.optim.Muon(
            [weights[name] for name in sorted(inside)],
            lr=0.02,
            weight_decay=0.3,
            adjust_lr_fn="match_rms_adamw",
        ),
        torch.optim.AdamW(
            [
                {"params": [weight for weight in others if weight.dim() > 1], "weight_decay": 0.3},
                {"params": [weight for weight in others if weight.dim() == 1], "weight_decay": 0.0},
            ],
            lr=0.02,
            betas=recipe.betas,
            fused=True,
        ),
    ]
    optimizer, generator = build_optimizer(mine, recipe), torch.Generator().manual_seed(0)
    start = {name: weight.detach().clone() for name, weight in mine.named_parameters()}
    for _ in range(12):
        batch = TASK.sample(generator, 8)
        optimizer.zero_grad()
        mine(**batch.inputs()).loss.backward()
        for weight, twin in zip(mine.parameters(), theirs.parameters(), strict=True):
            twin.grad = weight.grad.clone()
        optimizer.step()
        for twin in twins:
            twin.step()
    for name, weight in mine.named_parameters():
        moved, expected = ((part - start[name]).detach() for part in (weight, weights[name]))
        if name not in inside:
            assert torch.equal(moved, expected), name
        else:  # torch's is computed in bfloat16
            moved, expected = moved.flatten(), expected.flatten()
            assert torch.cosine_similarity(moved, expected, dim=0) > 0.995, name
            assert float(moved.norm() / expected.norm()) == pytest.approx(1, abs=0.02), name
    assert len(inside) == 16


def test_muon_is_refused_where_no_linear_layer_is_inside():
    task = build_task("copy", max_length=4)
    _, recipe = apply_settings("copy", {"optimizer": "muon"}, "none")
    model = build_model(task, dataclasses.replace(recipe, optimizer="adamw"))
    for begin in (lambda: build_model(task, recipe), lambda: next(train(task, model, recipe))):
        with pytest.raises(ValueError, match="optimizer='muon' takes its steps with matrices of linear"):
            begin()


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_a_stopped_run_goes_on_to_the_same_weights_as_an_unbroken_one(optimizer, tmp_path):
    recipe = recipe_of(optimizer, report_every=1)
    whole, _ = weights_after(recipe)
    begun = train(TASK, build_model(TASK, recipe), recipe, state_dir=tmp_path / "state")
    for report in begun:
        if report.step == 3:
            begun.close()
    resumed, rest = weights_after(recipe, state_dir=tmp_path / "state")
    assert rest[0].step == 4
    assert torch.equal(resumed, whole)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_the_memory_estimate_counts_what_the_optimizer_keeps(optimizer):
    model, row = build_model(TASK, TASK.recipe), OPTIMIZERS[optimizer]
    built = build_optimizer(model, switch_optimizer(TASK.recipe, optimizer))
    model(**TASK.sample(torch.Generator().manual_seed(0), 4).inputs()).loss.backward()
    built.step()
    kept = sum(part.numel() for state in built.state.values() for part in state.values() if part.dim())
    count = sum(weight.numel() for weight in model.parameters())
    assert kept <= row.moments * count
    weights, config = Weights(count, 0), build_config(TASK, TASK.recipe)
    bytes_of = [estimate_training(given, config, 1, TASK, optimizer) for given in (weights, Weights(0, 0))]
    assert bytes_of[0] - bytes_of[1] == 4 * (2 + row.moments) * count


@pytest.mark.parametrize(
    ("recipe", "sentence"),
    [
        (Recipe(optimizer="lion"), "optimizer='lion' is not known; choose one of adafactor, adamw"),
        (
            Recipe(optimizer="adafactor", betas=(0.8, 0.9)),
            r"betas=\(0\.8, 0\.9\) is not used by optimizer='adafactor'; it uses weight_decay: leave",
        ),
    ],
)
def test_what_an_optimizer_does_not_use_is_refused_before_anything_is_built(recipe, sentence):
    with pytest.raises(ValueError, match=sentence):
        build_optimizer(torch.nn.Linear(2, 2), recipe)
    with pytest.raises(ValueError, match=sentence):
        build_config(TASK, dataclasses.replace(recipe, model=SMALL))


def test_an_optimizer_is_a_name():
    with pytest.raises(ValueError, match="optimizer=7 must be a name"):
        Recipe(optimizer=7)


def test_a_task_s_recipe_is_switched_to_another_optimizer_and_a_given_setting_stays():
    _, adamw = apply_settings("addition", {})
    _, same = apply_settings("addition", {"optimizer": "adamw"})
    _, switched = apply_settings("addition", {"optimizer": "adafactor"})
    assert same == adamw
    assert (adamw.betas, switched.betas) == ((0.9, 0.98), (0.9, 0.95))
    assert switched.learning_rate == 4 * adamw.learning_rate
    task, given = apply_settings(
        "addition", {"optimizer": "adafactor", "learning_rate": 0.5, "betas": [0.8, 0.9]}
    )
    assert given.learning_rate == 0.5
    with pytest.raises(ValueError, match="betas="):
        build_config(task, given)
    with pytest.raises(ValueError, match="optimizer='lion' is not known"):
        apply_settings("addition", {"optimizer": "lion"})


def test_a_run_from_before_there_were_optimizers_is_adamw_s(tmp_path):
    run = Run(TASK, Recipe(SMALL))
    save_run(tmp_path, run)
    said = json.loads((tmp_path / "run.json").read_text())
    assert said["recipe"].pop("optimizer") == "adamw"
    (tmp_path / "run.json").write_text(json.dumps(said))
    assert load_run(tmp_path) == run
