"""A saved model is the model; its weights depend on its seed alone, and the meta device holds none."""

import pytest
import torch
from safetensors.torch import load_file

from tests.support.checks import answers, assert_different, random_ids, read
from tests.support.subjects import (
    TRANSFORMERS,
    classifiers,
    each_kind,
    recurrent,
    small_blocks,
    with_attention,
    with_positions,
)

pytestmark = small_blocks
TIED = {"tie_word_embeddings": True}


def inputs_for(model) -> dict[str, torch.Tensor]:
    return {"input_ids": random_ids(2, 6), **read(model, random_ids(2, 6))}


def is_whole(model) -> bool:
    """Whether every number of a model is in memory."""
    return not any(tensor.is_meta for tensor in (*model.parameters(), *model.buffers()))


@torch.no_grad()
@pytest.mark.parametrize(
    "subject",
    [
        *with_positions(),
        *with_attention(),
        *classifiers(),
        *recurrent(),
        *each_kind("encoder-decoder", "decoder", **TIED),
    ],
)
def test_a_saved_model_loads_with_the_same_answers_whole_or_without_its_head(subject, tmp_path):
    model = subject.build()
    model.save_pretrained(tmp_path)
    weights = {path.name for path in tmp_path.iterdir() if path.suffix in (".safetensors", ".bin", ".pt")}
    assert weights == {"model.safetensors"}
    loaded, report = type(model).from_pretrained(tmp_path, output_loading_info=True)
    assert not any(report.values())
    assert is_whole(loaded)
    given = inputs_for(model)
    assert torch.equal(answers(loaded, **given), answers(model, **given))
    if model.base_model is not model:
        bare = type(model.base_model).from_pretrained(tmp_path)
        assert torch.equal(answers(bare, **given), answers(model.base_model, **given))


@torch.no_grad()
@pytest.mark.parametrize(
    "subject",
    [
        *each_kind(*TRANSFORMERS, "classifier", position_type="sinusoidal"),
        *each_kind("recurrent", "recurrent classifier"),
    ],
)
def test_a_model_built_on_the_meta_device_takes_no_memory_and_loads(subject):
    model = subject.build()
    with torch.device("meta"):
        empty = type(model)(model.config)
    assert all(weight.is_meta for weight in empty.parameters())
    loaded = type(model).from_pretrained(None, config=model.config, state_dict=model.state_dict())
    assert torch.equal(answers(loaded, **inputs_for(model)), answers(model, **inputs_for(model)))


@pytest.mark.parametrize("subject", each_kind())
def test_the_same_seed_gives_the_same_weights(subject):
    first, same, other = (subject.build(seed=seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(weight, same[name]) for name, weight in first.items())
    name = next(name for name in first if name.endswith("embed_tokens.weight"))
    assert_different(other[name], first[name])


# Tables of words: what is read, and what is written


def tables_of(model) -> dict[str, torch.nn.Parameter]:
    return {
        name: part.weight
        for name, part in model.named_modules()
        if name.rpartition(".")[2] in ("embed_tokens", "lm_head")
    }


@pytest.mark.parametrize("subject", each_kind("encoder-decoder", "decoder", "recurrent"))
def test_tied_tables_are_one_tensor_saved_once_and_untied_ones_are_each_its_own(subject, tmp_path):
    tied, untied = (subject.build(tie_word_embeddings=tie) for tie in (True, False))
    assert len({table.data_ptr() for table in tables_of(tied).values()}) == 1
    tables = tables_of(untied)
    assert len({table.data_ptr() for table in tables.values()}) == len(tables)
    assert len(tables) == (3 if tied.config.is_encoder_decoder else 2)
    tied.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    assert len([name for name in saved if name.removesuffix(".weight") in tables]) == 1
    loaded = type(tied).from_pretrained(tmp_path)
    assert len({table.data_ptr() for table in tables_of(loaded).values()}) == 1
    tied(random_ids(2, 4), labels=random_ids(2, 4)).loss.backward()
    torch.optim.SGD(tied.parameters(), lr=1.0).step()
    assert torch.equal(tied.lm_head.weight, tied.get_input_embeddings().weight)


@torch.no_grad()
@pytest.mark.parametrize(
    "subject", [*each_kind(), *each_kind("encoder-decoder", "decoder", "recurrent", **TIED)]
)
def test_resized_tables_keep_the_old_answers_and_read_and_write_the_new_tokens(subject, tmp_path):
    model = subject.build()
    given, tables = inputs_for(model), len({table.data_ptr() for table in tables_of(model).values()})
    before = answers(model, **given)
    model.resize_token_embeddings(30)
    assert model.config.vocab_size == 30
    assert {len(table) for table in tables_of(model).values()} == {30}
    assert len({table.data_ptr() for table in tables_of(model).values()}) == tables
    assert torch.equal(answers(model, **given)[..., :23], before)
    new = {"input_ids": torch.full((2, 4), 29), **read(model, torch.full((2, 3), 29))}
    assert answers(model, **new).isfinite().all()
    if "lm_head" in tables_of(model):
        assert model(torch.full((2, 4), 29), labels=torch.full((2, 4), 28)).loss.isfinite()
    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path)
    assert torch.equal(answers(loaded, **new), answers(model, **new))
    model.resize_token_embeddings(23)
    assert torch.equal(answers(model, **given), before)
