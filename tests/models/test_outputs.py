"""What a model returns, in the shapes and under the names that transformers knows."""

import pytest
import torch

from tests.support.checks import (
    START,
    answers,
    assert_close,
    examples_for,
    pad,
    random_ids,
    random_rows,
    read,
)
from tests.support.subjects import LEARNERS, WRITERS, each_kind, with_positions


@torch.no_grad()
@pytest.mark.parametrize("subject", [*each_kind(*LEARNERS), *each_kind("recurrent", cell_type="gru")])
def test_a_tuple_is_returned_on_demand_and_holds_the_same(subject):
    model = subject.build(output_hidden_states=True)
    (example, *_), _ = examples_for(model)
    named, plain = model(**example), model(**example, return_dict=False)
    assert torch.equal(plain[0], named.loss)
    assert torch.equal(plain[1], named.logits)
    if model.config.is_encoder_decoder:
        memory = model.get_encoder()(example["input_ids"], return_dict=False)
        assert torch.equal(model(encoder_outputs=memory, labels=example["labels"]).logits, named.logits)


@torch.no_grad()
@pytest.mark.parametrize(
    "subject",
    [
        *each_kind("classifier", "decoder", "recurrent", "recurrent classifier"),
        *each_kind("encoder", "encoder-decoder", scale_embedding=True),
        *each_kind("recurrent", embedding_size=6),
    ],
)
def test_embeddings_given_in_place_of_ids_give_the_same(subject):
    model, ids = subject.build(), random_ids(2, 5)
    given, embeds = {"input_ids": ids, **read(model, ids)}, {}
    for name in given:
        stack = model.get_decoder() if "decoder" in name else model
        embeds[name.replace("input_ids", "inputs_embeds")] = stack.get_input_embeddings()(ids)
    assert_close(answers(model, **embeds), answers(model, **given))


@torch.no_grad()
@pytest.mark.parametrize("subject", each_kind("encoder-decoder", "recurrent"))
def test_a_model_without_a_head_reads_the_source_shifted_where_no_target_is_given(subject):
    model, ids = subject.build().model, random_ids(2, 5)
    shifted = torch.cat((torch.full((2, 1), START), ids[:, :-1]), dim=1)
    assert_close(model(ids)[0], model(ids, decoder_input_ids=shifted)[0])


@torch.no_grad()
@pytest.mark.parametrize("subject", each_kind("classifier", "encoder", "encoder-decoder", "decoder"))
def test_maps_have_a_row_for_each_query_that_sums_to_1_and_states_come_with_the_embeddings(subject):
    model = subject.build(kernel="eager", num_hidden_layers=2)
    ids, mask = pad(random_rows(7, 4), "right")
    given = {
        "input_ids": ids,
        "attention_mask": mask,
        "output_attentions": True,
        "output_hidden_states": True,
    }
    if not model.config.is_encoder_decoder:
        output = model(**given)
        assert [states.shape for states in output.hidden_states] == [(2, 7, 16)] * 3
        shapes = {output.attentions: (2, 2, 7, 7)}
    else:
        output = model(**given, decoder_input_ids=random_ids(2, 5))
        assert [states.shape for states in output.encoder_hidden_states] == [(2, 7, 16)] * 3
        assert [states.shape for states in output.decoder_hidden_states] == [(2, 5, 16)] * 3
        shapes = {
            output.encoder_attentions: (2, 2, 7, 7),
            output.decoder_attentions: (2, 2, 5, 5),
            output.cross_attentions: (2, 2, 5, 7),
        }
    for maps, shape in shapes.items():
        assert [weights.shape for weights in maps] == [shape] * 2
        for weights in maps:
            assert_close(weights.sum(-1), torch.ones(shape[:3]))
            if shape[-1] == 7:
                assert (weights[1, :, :, 4:] == 0).all()


@torch.no_grad()
@pytest.mark.parametrize("subject", each_kind("encoder-decoder", "decoder"))
def test_a_stack_s_hidden_states_are_its_layers_outputs(subject):
    model, seen, ids = subject.build(), [], random_ids(1, 4)
    stack = model.get_decoder() if model.config.is_encoder_decoder else model.model
    stack.layers[0].register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    output = model(**{"input_ids": ids, **read(model, ids)}, output_hidden_states=True)
    states = output.decoder_hidden_states if model.config.is_encoder_decoder else output.hidden_states
    torch.testing.assert_close(states[1], seen[0])


@torch.no_grad()
@pytest.mark.parametrize("subject", each_kind(*WRITERS))
def test_a_mask_of_ones_gives_what_no_mask_gives(subject):
    model, ids = subject.build(), random_ids(3, 6)
    plain = {"input_ids": ids, **read(model, ids)}
    ones = {name.replace("input_ids", "attention_mask"): torch.ones_like(ids) for name in plain}
    assert torch.equal(answers(model, **plain, **ones), answers(model, **plain))


@torch.no_grad()
@pytest.mark.parametrize("subject", with_positions("decoder", gate=("learned", "recurrent")))
def test_only_the_logits_asked_for_are_computed(subject):
    model, ids = subject.build(), random_ids(2, 6)
    whole = model(ids).logits
    assert_close(model(ids, logits_to_keep=1).logits, whole[:, -1:])
    assert_close(model(ids, logits_to_keep=torch.tensor([0, 4])).logits, whole[:, [0, 4]])


@pytest.mark.parametrize("subject", each_kind())
def test_what_cannot_be_read_is_refused_in_a_sentence(subject):
    model, ids = subject.build(), random_ids(2, 3)
    embeds, both = torch.zeros(2, 3, 16), "exactly one of input_ids and inputs_embeds"
    target = read(model, ids) if model.config.is_encoder_decoder else {}
    with pytest.raises(ValueError, match=both):
        model(input_ids=ids, inputs_embeds=embeds, **target)
    nothing = {"inputs_embeds": embeds} if target else {}  # without ids there is no target to read
    with pytest.raises(ValueError, match="nothing to read" if target else both):
        model(**nothing)
