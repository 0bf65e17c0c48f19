"""The recurrent decoder, with attention or without, and the state that it carries from step to step."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import nn
from transformers.modeling_outputs import BaseModelOutputWithPastAndCrossAttentions
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.utils import can_return_tuple
from transformers.utils.deprecation import deprecate_kwarg

from .configuration_recurrent import RecurrentConfig
from .encoder_decoder import ResizeBothTablesMixin
from .modeling_recurrent_encoder import (
    BaseRecurrentPreTrainedModel,
    RecurrentEncoderOutput,
    State,
    build_cells,
    embed,
    read_mask,
    wanted,
)
from .score_functions import SCORE_FUNCTIONS, read_memory


@dataclass
class RecurrentState:
    """A recurrent decoder's memory of what is written so far; its size does not depend on the length.

    Attributes:
        parts: an LSTM's (hidden, cell), or (hidden,); each [B, layers, D].
        projected: the part of the scores that depends on the source alone, [B, S, ·]; None without attention.
        length: how many tokens were read; a tensor, so that an exported step counts on.
    """

    parts: State
    projected: torch.Tensor | None
    length: torch.Tensor

    # what generate asks of a cache
    is_compileable: ClassVar = False
    is_linear: ClassVar = (False,)  # so it counts what was read, and gives the rest alone

    def get_seq_length(self, layer_idx: int = 0) -> torch.Tensor:  # noqa: ARG002 - as transformers' caches have it
        """How many tokens were read."""
        return self.length

    def reorder_cache(self, beam_idx: torch.LongTensor) -> None:
        """Let row i go on from row beam_idx[i], as beam search asks."""
        self.parts = tuple(part.index_select(0, beam_idx) for part in self.parts)
        if self.projected is not None:
            self.projected = self.projected.index_select(0, beam_idx)


torch.export.register_dataclass(  # so that a step can be exported with it
    RecurrentState, serialized_type_name=f"{RecurrentState.__module__}.RecurrentState"
)


class RecurrentPreTrainedModel(ResizeBothTablesMixin, BaseRecurrentPreTrainedModel):
    """What transformers needs to know about the recurrent encoder-decoder family."""

    config: RecurrentConfig
    config_class = RecurrentConfig
    base_model_prefix = "model"
    _skip_keys_device_placement = ["cache"]
    _is_stateful = True  # a state cannot go back to an earlier token

    @classmethod
    def _supports_default_dynamic_cache(cls) -> bool:
        """No: the decoder makes a RecurrentState at its first step."""
        return False


class RecurrentDecoder(RecurrentPreTrainedModel):
    """Reads what is written so far, and with a score function the encoder's memory.

    With input feeding (Bahdanau et al. 2014, arXiv:1409.0473, §3.1) the state before the step is the query:

        c_t = Σ_j α_tj h_j,  α_t = softmax_j score(s_{t−1}, h_j),   s_t = cell([y_t; c_t], s_{t−1})

    so that no step can begin before the one before it has ended: a loop, in training too. Without it (Luong
    et al. 2015, arXiv:1508.04025, §3) the new state is the query, and the cells run over all tokens in one
    call:

        s_t = cell(y_t, s_{t−1}),   c_t = Σ_j α_tj h_j,  α_t = softmax_j score(s_t, h_j)

    Both then write from tanh(W_c [s_t; c_t]) (Luong, eq. 5); without a score function, from s_t.
    """

    def __init__(self, config: RecurrentConfig):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.input_size, config.pad_token_id)
        self.dropout = nn.Dropout(config.dropout)
        fed = config.memory_size if config.feeds_context else 0
        self.cells = build_cells(config, config.input_size + fed, config.hidden_size, bidirectional=False)
        self.bridges = nn.ModuleList()  # the encoder's states enter as they are where the widths agree
        if config.memory_size != config.hidden_size:
            parts = 2 if config.cell_type == "lstm" else 1
            self.bridges.extend(nn.Linear(config.memory_size, config.hidden_size) for _ in range(parts))
        self.score = None
        if (score := SCORE_FUNCTIONS[config.score_function]) is not None:
            self.score = score(config.hidden_size, config.memory_size, config.comparing_size)
            self.readout = nn.Linear(config.hidden_size + config.memory_size, config.hidden_size, bias=False)
        self.post_init()

    @deprecate_kwarg("past_key_values", "5.40.0", new_name="cache")
    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        encoder_outputs: RecurrentEncoderOutput | None = None,
        encoder_attention_mask: torch.Tensor | None = None,
        cache: RecurrentState | None = None,
        inputs_embeds: torch.Tensor | None = None,
        use_cache: bool | None = None,
        output_attentions: bool | None = None,
        output_hidden_states: bool | None = None,
        **_,
    ) -> BaseModelOutputWithPastAndCrossAttentions:
        """[B, T] ids after those the state has read → [B, T, D] to write from, reading memory [B, S, M]."""
        inputs_embeds = embed(self, input_ids, inputs_embeds)
        length = inputs_embeds.shape[1]
        if attention_mask is not None:
            attention_mask = attention_mask[:, -length:]
        memory = encoder_outputs.last_hidden_state
        state = self.begin(encoder_outputs) if cache is None else cache
        if not isinstance(state, RecurrentState):
            raise TypeError(
                f"cache is a {type(state).__name__}; a recurrent decoder carries a RecurrentState: "
                "give None at the first step, and later what the step before returned."
            )
        rows, has_score = len(state.parts[0]), state.projected is not None
        if rows != len(inputs_embeds) or has_score != (self.score is not None):
            raise ValueError(
                f"cache is the state of {rows} rows of another model, or of other rows than these "
                f"{len(inputs_embeds)}: give what this model returned for them."
            )
        are_wanted = wanted(self, "output_hidden_states", output_hidden_states)
        run = self._run_feeding if self.config.feeds_context else self._run_at_once
        layers, contexts, weights, parts = run(
            self.dropout(inputs_embeds),
            read_mask(attention_mask, inputs_embeds),
            state,
            memory,
            read_mask(encoder_attention_mask, memory),
            are_wanted,
        )
        states = layers[-1]
        if contexts is not None:
            states = torch.tanh(self.readout(torch.cat((states, contexts), dim=-1)))  # [B, T, D]
        maps = None if weights is None else (weights.unsqueeze(1),)  # [B, 1, T, S]
        carried = RecurrentState(parts, state.projected, state.length + length)
        return BaseModelOutputWithPastAndCrossAttentions(
            last_hidden_state=states,
            cache=carried if wanted(self, "use_cache", use_cache) else None,
            hidden_states=(inputs_embeds, *layers[:-1], states) if are_wanted else None,
            cross_attentions=maps if wanted(self, "output_attentions", output_attentions) else None,
        )

    def begin(self, encoder_outputs: RecurrentEncoderOutput) -> RecurrentState:
        """Where the decoder stands before its first token: at the encoder's end, or tanh(W · + b) of it."""
        final = (encoder_outputs.final_hidden, encoder_outputs.final_cell)
        parts = tuple(part for part in final if part is not None)
        if self.bridges:
            parts = tuple(bridge(part).tanh() for bridge, part in zip(self.bridges, parts, strict=True))
        projected = None if self.score is None else self.score.project(encoder_outputs.last_hidden_state)
        return RecurrentState(parts, projected, torch.zeros((), dtype=torch.long, device=parts[0].device))

    def _run_at_once(self, inputs, is_token, state, memory, may_attend, every_layer):
        """All steps in one call of the cells; then all states read the memory."""
        outputs, end, layers = self.cells(inputs, swap_layers_and_rows(state.parts), is_token, every_layer)
        layers = layers or (outputs,)
        if self.score is None:
            return layers, None, None, swap_layers_and_rows(end)
        return layers, *self._read(outputs, state, memory, may_attend), swap_layers_and_rows(end)

    def _run_feeding(self, inputs, is_token, state, memory, may_attend, _every_layer):
        """One step after the other: the state reads the memory, then token and context move it."""
        now = swap_layers_and_rows(state.parts)
        states, contexts, weights = [], [], []
        for place, token in enumerate(inputs.split(1, dim=1)):  # [B, 1, E]
            query = now[0][-1].unsqueeze(1)  # [B, 1, D]
            context, row = self._read(query, state, memory, may_attend)
            _, new, _ = self.cells(torch.cat((token, context), dim=-1), now)
            if is_token is not None:  # padding moves nothing
                here = is_token[:, place, None]
                new = tuple(torch.where(here, *both) for both in zip(new, now, strict=True))
            now = new
            states.append(now[0])
            contexts.append(context)
            weights.append(row)
        layers = torch.stack(states, dim=2).unbind()  # each [B, T, D]
        return layers, torch.cat(contexts, dim=1), torch.cat(weights, dim=1), swap_layers_and_rows(now)

    def _read(self, query, state, memory, may_attend):
        """Read the memory by the plain function, or by what transformers' attention interface has instead."""
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, read_memory)
        return attend(self.score, query, state.projected, memory, may_attend)


def swap_layers_and_rows(parts: State) -> State:
    """[B, layers, D] ↔ [layers, B, D]: a state is kept by rows, and the cells take it by layers."""
    return tuple(part.transpose(0, 1).contiguous() for part in parts)
