"""The recurrent encoder (LSTM, GRU or plain RNN), and a classifier on top of it."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import ModelOutput
from transformers.utils import can_return_tuple

from .configuration_recurrent_encoder import BaseRecurrentConfig, RecurrentEncoderConfig
from .labels import ClassifierMixin

MODES = {"lstm": "LSTM", "gru": "GRU", "rnn": "RNN_TANH"}  # torch's names of the cell types
RUNS: dict[str, Callable] = {"LSTM": torch.lstm, "GRU": torch.gru, "RNN_TANH": torch.rnn_tanh}
STEPS: dict[str, Callable] = {
    "LSTM": torch.lstm_cell,
    "GRU": torch.gru_cell,
    "RNN_TANH": torch.rnn_tanh_cell,
}

# an LSTM's (hidden, cell), or (hidden,): each [layers, B, width], a layer's directions one after the other
State = tuple[torch.Tensor, ...]


@dataclass
class RecurrentEncoderOutput(ModelOutput):
    """The encoder's output.

    Attributes:
        last_hidden_state: [B, S, M], the top layer's states, directions side by side; 0 at padding.
        final_hidden: [B, layers, M], the states after the last token, of the other direction after the first.
        final_cell: [B, layers, M], an LSTM's cells there.
        hidden_states: on demand: the embeddings, and the states of every layer.
    """

    last_hidden_state: torch.Tensor | None = None
    final_hidden: torch.Tensor | None = None
    final_cell: torch.Tensor | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None


def read_mask(attention_mask: torch.Tensor | None, inputs: torch.Tensor) -> torch.Tensor | None:
    """1 = token → True, [B, S]; None where nothing is padded: that is read in one piece, without packing.

    A graph that is being recorded does not look. ValueError where the mask has another shape than the [B, S]
    of the inputs.
    """
    if attention_mask is None:
        return None
    if attention_mask.shape != inputs.shape[:2]:
        raise ValueError(
            f"attention_mask has the shape {list(attention_mask.shape)}, and the inputs are "
            f"{list(inputs.shape[:2])}: give one number a token, 1 = token, 0 = padding."
        )
    is_token = attention_mask.bool()
    return None if not torch.compiler.is_compiling() and is_token.all() else is_token


class RecurrentCells(nn.RNNBase):
    """LSTM, GRU or plain cells in layers, over every row's tokens, wherever its padding stands.

    A row gives what it gives alone: padding moves no state. Its twin, `run_plainly`, goes step by step, which
    gives every layer's states, and can be recorded as a graph.
    """

    def __init__(self, cell_type: str, input_size: int, width: int, **settings):
        super().__init__(MODES[cell_type], input_size, width, batch_first=True, **settings)

    def forward(
        self,
        inputs: torch.Tensor,
        state: State | None = None,
        is_token: torch.Tensor | None = None,
        every_layer: bool = False,
    ) -> tuple[torch.Tensor, State, tuple[torch.Tensor, ...] | None]:
        """Run over [B, S, E] from a state, 0 where None; `is_token` is bool, [B, S], None without padding.

        Returns:
            (the top layer's states [B, S, M], 0 at padding; the state after each row's last token, its first
            if it has none; with `every_layer` the states of each, else None).
        """
        if state is None:
            shape = (len(self.all_weights), len(inputs), self.hidden_size)
            state = (inputs.new_zeros(shape),) * (2 if self.mode == "LSTM" else 1)
        # a single token's step is faster by itself than as a row of one
        if every_layer or inputs.shape[1] == 1 or torch.compiler.is_compiling():
            layers, end = self.run_plainly(inputs, state, is_token)
            return layers[-1], end, layers if every_layer else None
        if is_token is None:
            outputs, *parts = RUNS[self.mode](inputs, self._as_torch_s(state), *self._settings(), True)
            return outputs, tuple(parts), None
        return *self.run_packed(inputs, state, is_token), None

    def run_packed(self, inputs: torch.Tensor, state: State, is_token: torch.Tensor):
        """Tokens are moved to the front, run as a packed sequence, and moved back: the top layer's states."""
        lengths = is_token.sum(dim=1)
        order = (~is_token).long().argsort(dim=1, stable=True).unsqueeze(-1)  # [B, S, 1], tokens first
        packed = pack_padded_sequence(
            inputs.take_along_dim(order, dim=1),
            lengths.clamp(min=1).cpu(),
            batch_first=True,
            enforce_sorted=False,
        )
        begin = tuple(part.index_select(1, packed.sorted_indices) for part in state)
        data, *end = RUNS[self.mode](
            packed.data, packed.batch_sizes, self._as_torch_s(begin), *self._settings()
        )
        outputs, _ = pad_packed_sequence(
            PackedSequence(data, *packed[1:]), batch_first=True, total_length=inputs.shape[1]
        )
        outputs = outputs.take_along_dim(order.argsort(dim=1), dim=1) * is_token.unsqueeze(-1)
        moved = (lengths > 0).unsqueeze(-1)  # a row without a token ran on one that was not its own
        ends = (part.index_select(1, packed.unsorted_indices) for part in end)
        return outputs, tuple(torch.where(moved, new, old) for new, old in zip(ends, state, strict=True))

    def _settings(self) -> tuple:
        """What torch's kernel of all layers takes behind inputs and state."""
        weights = [weight for layer in self.all_weights for weight in layer]
        return weights, self.bias, self.num_layers, self.dropout, self.training, self.bidirectional

    def _as_torch_s(self, state: State) -> State | torch.Tensor:
        """A state as torch takes it: a pair of an LSTM, else a tensor."""
        return state if self.mode == "LSTM" else state[0]

    def run_plainly(self, inputs: torch.Tensor, state: State, is_token: torch.Tensor | None):
        """Token by token, layer by layer; padding moves nothing: every layer's states, and the last state."""
        step, directions = STEPS[self.mode], 2 if self.bidirectional else 1
        layers: list[torch.Tensor] = []
        ends: list[State] = []
        for index, weights in enumerate(self.all_weights):
            now = tuple(part[index] for part in state)
            times = range(inputs.shape[1])
            states = [now[0]] * len(times)
            for time in reversed(times) if index % directions else times:
                new = step(inputs[:, time], self._as_torch_s(now), *weights)
                new = new if self.mode == "LSTM" else (new,)
                if is_token is not None:
                    here = is_token[:, time, None]
                    new = tuple(torch.where(here, *both) for both in zip(new, now, strict=True))
                now, states[time] = new, new[0]
            ends.append(now)
            outputs = torch.stack(states, dim=1)
            outputs = outputs if is_token is None else outputs * is_token.unsqueeze(-1)
            if index % directions:  # the other direction of the same layer
                outputs = torch.cat((layers.pop(), outputs), dim=-1)
            layers.append(outputs)
            if len(ends) % directions == 0:
                inputs = nn.functional.dropout(outputs, self.dropout, self.training)
        return tuple(layers), tuple(torch.stack(part) for part in zip(*ends, strict=True))


def build_cells(
    config: BaseRecurrentConfig, input_size: int, width: int, bidirectional: bool
) -> RecurrentCells:
    """Build the cells of the config's type and number of layers."""
    return RecurrentCells(
        config.cell_type,
        input_size,
        width,
        num_layers=config.num_layers,
        dropout=config.dropout if config.num_layers > 1 else 0.0,
        bidirectional=bidirectional,
    )


class BaseRecurrentPreTrainedModel(PreTrainedModel):
    """What transformers needs to know about every recurrent model here."""

    main_input_name = "input_ids"
    supports_gradient_checkpointing = False  # the cells run in one call, with nothing between to let go of
    _no_split_modules = ["RecurrentCells"]

    @torch.no_grad()
    def _init_weights(self, module):
        """Draw one module's weights: as BaseRecurrentConfig says of initializer_range."""
        std = self.config.initializer_range
        if isinstance(module, nn.RNNBase):
            for weight in module.parameters():
                if std is None:
                    init.uniform_(weight, -(module.hidden_size**-0.5), module.hidden_size**-0.5)
                elif weight.dim() == 1:
                    init.zeros_(weight)
                else:
                    init.normal_(weight, mean=0.0, std=std)
        elif isinstance(module, nn.Linear):
            if std is None:
                init.xavier_uniform_(module.weight)
            else:
                init.normal_(module.weight, mean=0.0, std=std)
            if module.bias is not None:
                init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            init.normal_(module.weight, mean=0.0, std=self.config.embedding_initializer_range)
            if module.padding_idx is not None and not getattr(module.weight, "_is_hf_initialized", False):
                init.zeros_(module.weight[module.padding_idx])


class RecurrentEncoderPreTrainedModel(BaseRecurrentPreTrainedModel):
    """What transformers needs to know about the recurrent encoder family."""

    config: RecurrentEncoderConfig
    config_class = RecurrentEncoderConfig
    base_model_prefix = "encoder"


class RecurrentEncoderModel(RecurrentEncoderPreTrainedModel):
    """Token embeddings, then recurrent cells over them, from one end or from both."""

    def __init__(self, config: RecurrentEncoderConfig):
        super().__init__(config)
        self.embed_tokens = nn.Embedding(config.vocab_size, config.input_size, config.pad_token_id)
        self.dropout = nn.Dropout(config.dropout)
        width = config.memory_size // config.num_directions
        self.cells = build_cells(config, config.input_size, width, config.bidirectional)
        self.post_init()

    @can_return_tuple
    def forward(
        self,
        input_ids: torch.LongTensor | None = None,
        attention_mask: torch.Tensor | None = None,
        inputs_embeds: torch.Tensor | None = None,
        output_hidden_states: bool | None = None,
        **_,
    ) -> RecurrentEncoderOutput:
        """Read a batch of sequences.

        Args:
            input_ids: [B, S] token ids.
            attention_mask: [B, S], 1 = token, 0 = padding (left or right), which moves no state; fastest is
                None, where nothing is padded.
            inputs_embeds: [B, S, E] instead of input_ids.
            output_hidden_states: whether embeddings and the states of every layer are returned too, which
                takes a loop over the tokens.
            **_: arguments of other models, ignored here.

        Raises:
            ValueError: both or neither of input_ids and inputs_embeds, or a mask of another shape.
        """
        inputs_embeds = embed(self, input_ids, inputs_embeds)
        is_token = read_mask(attention_mask, inputs_embeds)
        are_wanted = wanted(self, "output_hidden_states", output_hidden_states)
        outputs, state, layers = self.cells(
            self.dropout(inputs_embeds), is_token=is_token, every_layer=are_wanted
        )
        final = [part.unflatten(0, (-1, self.config.num_directions)) for part in state]
        final_hidden, *final_cell = [part.permute(2, 0, 1, 3).flatten(2) for part in final]  # [B, layers, M]
        return RecurrentEncoderOutput(
            last_hidden_state=outputs,
            final_hidden=final_hidden,
            final_cell=final_cell[0] if final_cell else None,
            hidden_states=(inputs_embeds, *layers) if are_wanted else None,
        )


def embed(stack, input_ids, inputs_embeds) -> torch.Tensor:
    """Return the embeddings [B, S, E] of the ids, or those given in their place."""
    if (input_ids is None) == (inputs_embeds is None):
        raise ValueError("Give exactly one of input_ids and inputs_embeds.")
    return stack.embed_tokens(input_ids) if inputs_embeds is None else inputs_embeds


def wanted(model: PreTrainedModel, name: str, argument: bool | None) -> bool:
    """Whether an extra output is wanted: as the call says, or where it says nothing the configuration."""
    return getattr(model.config, name) if argument is None else argument


class RecurrentForSequenceClassification(ClassifierMixin, RecurrentEncoderPreTrainedModel):
    """The encoder, its states pooled over the tokens, and a linear map to the labels."""

    encoder_class = RecurrentEncoderModel

    def _pool(self, outputs: RecurrentEncoderOutput, attention_mask: torch.Tensor | None) -> torch.Tensor:
        """[B, S, D] → [B, D]: the last state, or the mean or maximum over tokens; 0 where there are none."""
        states = outputs.last_hidden_state
        if self.config.pooling == "last":
            return outputs["final_hidden"][:, -1]
        if attention_mask is None:
            return states.mean(dim=1) if self.config.pooling == "mean" else states.amax(dim=1)
        is_token = attention_mask.bool().unsqueeze(-1)  # [B, S, 1]
        if self.config.pooling == "mean":
            return states.sum(dim=1) / is_token.sum(dim=1).clamp(min=1)  # the states at padding are 0
        lowest = torch.finfo(states.dtype).min
        highest = states.masked_fill(~is_token, lowest).amax(dim=1)
        return highest.masked_fill(~is_token.any(dim=1), 0)


__all__ = ["RecurrentEncoderModel", "RecurrentEncoderPreTrainedModel", "RecurrentForSequenceClassification"]
