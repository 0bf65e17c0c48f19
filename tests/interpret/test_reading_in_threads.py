"""What two readers of one model and keys out of all proportion must not break."""

import threading

import pytest
import torch

from hf_attn.generation.generate import generate_answer
from hf_attn.interpret.attention_maps import attention_maps
from hf_attn.interpret.plain_attention import eager_attention
from tests.support.checks import assert_close, build_decoder, build_seq2seq, random_ids
from tests.support.position_checks import build_positions

PATIENCE = 600  # seconds; the machine may be busy


@pytest.mark.parametrize("build", [build_seq2seq, build_decoder])
def test_who_reads_while_another_thread_looks_waits_and_reads_rightly(build):
    model, source = build(), random_ids(1, 6)
    alone = generate_answer(model, source).ids
    looking, found = threading.Event(), []

    def read():
        looking.wait(PATIENCE)
        found.append(generate_answer(model, source).ids)

    reader = threading.Thread(target=read)
    reader.start()
    with eager_attention(model):
        looking.set()
        reader.join(0.3)
        assert found == [], "the reader has not waited"
        assert attention_maps(model, source, target=[3, 4]).answering is not None, "the looker itself goes on"
    reader.join(PATIENCE)
    assert found == [alone]


def test_another_model_is_read_meanwhile():
    first, second, found = build_decoder(), build_decoder(seed=1), []
    with eager_attention(first):
        reader = threading.Thread(target=lambda: found.append(generate_answer(second, random_ids(1, 4))))
        reader.start()
        reader.join(PATIENCE)
        assert len(found) == 1


@pytest.mark.parametrize("scale", [6, 12])
def test_later_keys_that_outweigh_all_before_change_nothing_that_performer_read(scale):
    model = build_decoder(attention_type="performer", position_type="rotary", max_position_embeddings=64)
    ids, others = random_ids(1, 40), random_ids(1, 40, seed=1)
    with torch.no_grad():
        for layer in model.model.layers:
            layer.self_attn.q_proj.weight *= scale
            layer.self_attn.k_proj.weight *= scale
        whole = model(ids).logits
        changed = model(torch.cat((ids[:, :20], others[:, 20:]), dim=1)).logits
        cache, steps = None, []
        for token in ids.split(1, dim=1):
            step = model(token, cache=cache, use_cache=True)
            cache = step.cache
            steps.append(step.logits)
    assert_close(changed[:, :20], whole[:, :20], 1e-4)
    assert_close(torch.cat(steps, dim=1), whole, 1e-3)


@pytest.mark.parametrize("position_type", ["depthwise_convolution", "multiscale_convolution"])
def test_no_neighbour_is_read_across_another_sequence_that_lies_between(position_type):
    positions = build_positions(position_type, position_kernel_size=5)
    words, places = (
        torch.randn(1, 3, 16, generator=torch.Generator().manual_seed(0)),
        torch.tensor([[7, 0, 9]]),
    )
    with torch.no_grad():
        alone = [positions(words[:, i : i + 1], places[:, i : i + 1]) for i in range(3)]
        assert_close(positions(words, places), torch.cat(alone, dim=1))
