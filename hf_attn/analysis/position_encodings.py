"""What each position encoding does, as numbers to look at: tables, waves, similarities, and two tests.

Example:
    picture, = view_position_encoding("sinusoidal", PositionSettings(length=50, width=32))
    picture.similarity[0, 49]                    # cosine of place 49 with place 0: .348
    measure_order_sensitivity("sinusoidal", PositionSettings(), "the cat sat on the mat".split())
"""

from dataclasses import dataclass, replace

import torch

from hf_attn.architectures.registry import build_model
from hf_attn.models.config_checks import check_number
from hf_attn.models.positions import ComplexPositions, Positions
from hf_attn.tasks.recipes import Recipe
from hf_attn.tasks.synthetic.copying import Copying

LONGEST, WIDEST = 64, 128  # places, and numbers of a vector, that are drawn
VECTORS, ANGLES, BIAS = "vectors", "angles", "bias"  # kinds of pictures
FEWEST_WORDS, MOST_WORDS = 2, 24  # of a sentence that is moved
SHIFT = 7  # places, by which a sentence is moved on


@dataclass(frozen=True)
class PositionSettings:
    """What is drawn, and of which size.

    Attributes:
        length: places.
        width: D, numbers of an embedding.
        heads: H.
        trained: places that the model is built for, its max_position_embeddings.
        theta: base of the rotary frequencies.
        clip: farthest distance that the clipped encodings tell apart.
        seed: of weights that would be learned.

    Raises:
        ValueError: a size outside what can be drawn.
    """

    length: int = 50
    width: int = 32
    heads: int = 2
    trained: int = 50
    theta: float = 10000.0
    clip: int = 8
    seed: int = 0

    def __post_init__(self) -> None:
        limits = {
            "length": (2, LONGEST),
            "width": (4, WIDEST),
            "heads": (1, 8),
            "trained": (2, LONGEST),
            "clip": (1, LONGEST),
        }
        for name, (low, high) in limits.items():
            check_number(name, getattr(self, name), low, high)


@dataclass(frozen=True)
class Picture:
    """One table that a position encoding gives.

    Attributes:
        name: which of the encoding's tables.
        kind: "vectors" (places × dimensions), "angles" (places × pairs, in (−π, π]), "bias" (queries × keys).
        values: [rows, columns].
        rows: the number of each row: its place, or its distance.
        similarity: [rows, rows]. Of vectors and angles the cosine between two rows; of a bias the weight by
            which a query reads a key where all products are equal, softmax(bias).
        waves: [points, lines]: each dimension over the places; of angles the cosines; of a bias, for each
            head, what stands at a distance.
        points: the place or distance of each point.
    """

    name: str
    kind: str
    values: torch.Tensor
    rows: tuple[int, ...]
    similarity: torch.Tensor
    waves: torch.Tensor
    points: tuple[int, ...]


def build_encoder(position_type: str, settings: PositionSettings, words: int = 2):
    """One layer of an untrained encoder, all of whose weights are drawn, with this position encoding.

    ValueError says why the encoding cannot work with the sizes.
    """
    task = Copying(max_length=settings.trained - 1, num_symbols=max(2, words))
    fields = {
        "hidden_size": settings.width,
        "num_attention_heads": settings.heads,
        "intermediate_size": 4 * settings.width,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "max_position_embeddings": settings.trained,
        "position_type": position_type,
        "rope_theta": settings.theta,
        "relative_clip_distance": settings.clip,
        "zero_init_residual": False,
    }
    return build_model(task, Recipe(fields), settings.seed).get_encoder().eval()


@torch.no_grad()
def view_position_encoding(position_type: str, settings: PositionSettings) -> tuple[Picture, ...]:
    """What a position encoding adds, how it turns, or what it puts between queries and keys.

    What is added is seen on the same token at every position: what differs comes of the position alone.

    Returns:
        A picture of what is added or turned, or one a head; none without position encoding.

    Raises:
        ValueError: more positions than the encoding has, or sizes that it cannot work with.
    """
    positions = build_encoder(position_type, settings).positions
    positions.check_length(settings.length, 0)
    places = torch.arange(settings.length).unsqueeze(0)  # [1, n]
    pictures = []
    if (added := _added(positions, settings, places)) is not None:
        pictures.append(_of_vectors("added to the embedding", added, range(settings.length)))
    if (rotation := positions.rotation(places)) is not None:
        pictures.append(_of_angles(*rotation))
    distances = torch.arange(-settings.length + 1, settings.length)
    _, vectors = positions.score_terms(torch.zeros(1, 1, dtype=torch.long), distances.unsqueeze(0))
    if vectors is not None:
        near = distances.abs() <= settings.clip
        for name, table in zip(("added to keys", "added to values"), vectors[:, 0, 0], strict=True):
            pictures.append(_of_vectors(name, table[near], distances[near].tolist()))
    else:
        pictures += _of_biases(positions, places)
    return tuple(pictures)


def _added(positions: Positions, settings: PositionSettings, places: torch.Tensor) -> torch.Tensor | None:
    """[n, D]: what the same token gets at each place; None where it stays as it is.

    An encoding that turns the embedding has nothing to turn but the token, so there it is the token, turned.
    """
    generator = torch.Generator().manual_seed(settings.seed)
    token = torch.randn(settings.width, generator=generator)
    if isinstance(positions, ComplexPositions):
        token = torch.cat((torch.ones(settings.width // 2), torch.zeros(settings.width // 2)))  # 1 + 0i
        return positions(token.expand(1, settings.length, -1), places)[0]
    same = token.expand(1, settings.length, -1)
    added = (positions(same, places) - same)[0]
    return None if torch.equal(added, torch.zeros_like(added)) else added


def _of_vectors(name: str, table: torch.Tensor, rows) -> Picture:
    rows = tuple(rows)
    return Picture(name, VECTORS, table, rows, _cosines(table), table, rows)


def _of_angles(cosine: torch.Tensor, sine: torch.Tensor) -> Picture:
    """Rotary angles from (cos, sin) [1, 1, n, Dh], whose halves are the same."""
    half = cosine.shape[-1] // 2
    cosine, sine = cosine[0, 0, :, :half], sine[0, 0, :, :half]
    rows = tuple(range(len(cosine)))
    turned = torch.cat((cosine, sine), dim=-1)  # what a vector of ones becomes
    return Picture(
        "angle of each pair", ANGLES, torch.atan2(sine, cosine), rows, _cosines(turned), cosine, rows
    )


def _of_biases(positions: Positions, places: torch.Tensor) -> list[Picture]:
    """A picture a head, queries × keys; its waves are all heads by distance. None without a bias."""
    bias, _ = positions.score_terms(places, places)  # [1, H, n, n]
    last = places.shape[1] - 1
    points = torch.arange(-last, last + 1)
    by_distance, _ = positions.score_terms(torch.zeros(1, 1, dtype=torch.long), points.unsqueeze(0))
    if bias is None or by_distance is None:
        return []
    rows = tuple(places[0].tolist())
    waves = by_distance[0, :, 0].T  # [2n − 1, H]
    return [
        Picture(f"head {head + 1}", BIAS, table, rows, table.softmax(dim=-1), waves, tuple(points.tolist()))
        for head, table in enumerate(bias[0])
    ]


def _cosines(vectors: torch.Tensor) -> torch.Tensor:
    """[n, d] → [n, n]."""
    unit = torch.nn.functional.normalize(vectors, dim=-1)
    return unit @ unit.T


@dataclass(frozen=True)
class OrderTest:
    """Whether an encoder notices that its tokens were moved.

    Attributes:
        order: which token stands at each place afterwards.
        without: L2 between the output and that of the moved tokens, moved back, without positions.
        with_positions: the same with them.
        shift: by how many places the whole sentence was moved on.
        shifted: L2 between the output and that of the sentence moved on, with positions.
        norm: L2 of the output itself, to compare with.
    """

    order: tuple[int, ...]
    without: float
    with_positions: float
    shift: int
    shifted: float
    norm: float


@torch.no_grad()
def measure_order_sensitivity(
    position_type: str, settings: PositionSettings, words: list[str], shift: int = SHIFT
) -> OrderTest:
    """Move a sentence's words about, and on, through one untrained layer of attention; compare the outputs.

        ‖P⁻¹ f(P x) − f(x)‖ is 0 without positions: attention is equivariant to permutations.
        ‖f(x at p + k) − f(x at p)‖ is 0 where only distances count.

    Args:
        position_type: the position encoding, a name in POSITION_TYPES.
        settings: width, heads and seed of the encoder; it has places enough for the sentence.
        words: the sentence.
        shift: k.

    Raises:
        ValueError: too few or too many words, or sizes that the encoding cannot work with.
    """
    if not FEWEST_WORDS <= len(words) <= MOST_WORDS:
        count = f"{len(words)} word{'' if len(words) == 1 else 's'}"
        raise ValueError(
            f"The sentence has {count}: write {FEWEST_WORDS} to {MOST_WORDS}, with spaces between."
        )
    settings = replace(settings, trained=len(words) + shift)
    vocabulary = sorted(set(words))
    ids = torch.tensor([[vocabulary.index(word) for word in words]])
    encoder = build_encoder(position_type, settings, len(vocabulary))
    without = build_encoder("none", settings, len(vocabulary))
    names = without.state_dict().keys()
    without.load_state_dict({name: weight for name, weight in encoder.state_dict().items() if name in names})
    ids = ids + encoder.config.vocab_size - len(vocabulary)  # the special tokens come first
    order = torch.randperm(len(words), generator=torch.Generator().manual_seed(settings.seed))
    places = torch.arange(len(words)).unsqueeze(0)

    def unshuffled(model) -> torch.Tensor:
        return model(ids[:, order]).last_hidden_state[:, order.argsort()]

    output = encoder(ids).last_hidden_state
    moved = encoder(ids, position_ids=places + shift).last_hidden_state
    return OrderTest(
        order=tuple(order.tolist()),
        without=float(torch.dist(unshuffled(without), without(ids).last_hidden_state)),
        with_positions=float(torch.dist(unshuffled(encoder), output)),
        shift=shift,
        shifted=float(torch.dist(moved, output)),
        norm=float(output.norm()),
    )


def is_learned(position_type: str, settings: PositionSettings) -> bool:
    """Whether the encoding has weights of its own: those drawn here are untrained."""
    return any(True for _ in build_encoder(position_type, settings).positions.parameters())
