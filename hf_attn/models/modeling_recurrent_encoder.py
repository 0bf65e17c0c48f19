"""The recurrent encoder (LSTM, GRU or plain RNN), and a classifier on top of it."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence
from transformers import PreTrainedModel
from transformers import initialization as init
from transformers.modeling_outputs import ModelOutput
from transformers.utils import can_return_tuple

from .configuration_recurrent_encoder import BaseRecurrentConfig, RecurrentEncoderConfig
from .labels import ClassifierMixin

CELLS: dict[str, Callable[..., nn.RNNBase]] = {"lstm": nn.LSTM, "gru": nn.GRU, "rnn": nn.RNN}

State = tuple[torch.Tensor, ...]  # an LSTM's (hidden, cell), or (hidden,): each [layers, B, width]


@dataclass
class RecurrentEncoderOutput(ModelOutput):
    """The encoder's output.

    Attributes:
        last_hidden_state: [B, S, M], the top layer's states, directions side by side; 0 at padding.
        final_hidden: [B, layers, M], the states after the last token, of the other direction after the first.
        final_cell: [B, layers, M], an LSTM's cells there.
        hidden_states: on demand: the embeddings and the top layer's states.
    """

    last_hidden_state: torch.Tensor | None = None
    final_hidden: torch.Tensor | None = None
    final_cell: torch.Tensor | None = None
    hidden_states: tuple[torch.Tensor, ...] | None = None


def read_mask(attention_mask: torch.Tensor | None, inputs: torch.Tensor) -> torch.Tensor | None:
    """1 = token → True, [B, S]; None where nothing is padded: that is read in one piece, without packing.

    ValueError where the mask has another shape than the [B, S] of the inputs.
    """
    if attention_mask is None:
        return None
    if attention_mask.shape != inputs.shape[:2]:
        raise ValueError(
            f"attention_mask has the shape {list(attention_mask.shape)}, and the inputs are "
            f"{list(inputs.shape[:2])}: give one number a token, 1 = token, 0 = padding."
        )
    is_token = attention_mask.bool()
    return None if is_token.all() else is_token


def run_cells(cells: nn.RNNBase, inputs, is_token=None, state: State | None = None) -> tuple:
    """Run the cells over every row's tokens, wherever its padding stands: it gives what it gives alone.

    Tokens [B, S, E] are moved to the front, run as a packed sequence from a state (0 where None), and moved
    back; `is_token` is bool, [B, S], and None where nothing is padded.

    Returns:
        (outputs [B, S, M], 0 at padding; the state after each row's last token, its first if it has none).
    """
    begin = state if state is None or len(state) == 2 else state[0]
    if is_token is None:
        outputs, end = cells(inputs, begin)
        return outputs, end if isinstance(end, tuple) else (end,)
    lengths = is_token.sum(dim=1)
    order = (~is_token).long().argsort(dim=1, stable=True).unsqueeze(-1)  # [B, S, 1], tokens first
    packed = pack_padded_sequence(
        inputs.take_along_dim(order, dim=1),
        lengths.clamp(min=1).cpu(),
        batch_first=True,
        enforce_sorted=False,
    )
    outputs, end = cells(packed, begin)
    outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=inputs.shape[1])
    outputs = outputs.take_along_dim(order.argsort(dim=1), dim=1) * is_token.unsqueeze(-1)
    end = end if isinstance(end, tuple) else (end,)
    begin = state or tuple(torch.zeros_like(part) for part in end)
    moved = (lengths > 0).unsqueeze(-1)  # a row without a token ran on one that was not its own
    return outputs, tuple(torch.where(moved, new, old) for new, old in zip(end, begin, strict=True))


def build_cells(config: BaseRecurrentConfig, input_size: int, width: int, bidirectional: bool) -> nn.RNNBase:
    """Build the cells of the config's type and number of layers."""
    return CELLS[config.cell_type](
        input_size,
        width,
        num_layers=config.num_layers,
        batch_first=True,
        dropout=config.dropout if config.num_layers > 1 else 0.0,
        bidirectional=bidirectional,
    )


class BaseRecurrentPreTrainedModel(PreTrainedModel):
    """What transformers needs to know about every recurrent model here."""

    main_input_name = "input_ids"
    supports_gradient_checkpointing = False  # the cells run in one call, with nothing between to let go of
    _no_split_modules = ["LSTM", "GRU", "RNN"]

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
            output_hidden_states: whether embeddings and states are returned too.
            **_: arguments of other models, ignored here.

        Raises:
            ValueError: both or neither of input_ids and inputs_embeds, or a mask of another shape.
        """
        inputs_embeds = embed(self, input_ids, inputs_embeds)
        is_token = read_mask(attention_mask, inputs_embeds)
        outputs, state = run_cells(self.cells, self.dropout(inputs_embeds), is_token)
        final = [part.unflatten(0, (-1, self.config.num_directions)) for part in state]
        final_hidden, *final_cell = [part.permute(2, 0, 1, 3).flatten(2) for part in final]  # [B, layers, M]
        are_wanted = wanted(self, "output_hidden_states", output_hidden_states)
        return RecurrentEncoderOutput(
            last_hidden_state=outputs,
            final_hidden=final_hidden,
            final_cell=final_cell[0] if final_cell else None,
            hidden_states=(inputs_embeds, outputs) if are_wanted else None,
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
