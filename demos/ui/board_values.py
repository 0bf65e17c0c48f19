"""What the app's boards draw: the contract of each board's value, the one place where it stands.

A board takes its value or None, where there is nothing to show yet; NaN and infinity come as None. The lens's
own value is in `hf_attn/viz/board_values.py`. `docs/board_types.py` writes all for the page's scripts, and
`tests/app/conftest.py` holds to them whatever a test sends to a board. Layers, heads and places count from 0.
`python` holds the lines of Python that give the same.
"""

from typing import Literal, NotRequired

from typing_extensions import TypedDict

from hf_attn.viz.board_values import LensCellMessage, LensHeadMessage, LensValue, Packed, Shape, Truth

Pair = tuple[float, float | None]  # a point of a curve
Named = tuple[str, str]  # a fact: its name, and what it is
JobStatus = Literal["running", "paused", "stopped", "finished", "error"]
Heads = dict[str, dict[str, list[list[float | None]]]]  # kind → measure → [layers][heads]
Even = dict[str, dict[str, float | None]]  # kind → measure → of even attention

# ---- Attention


class KeyLine(TypedDict):
    """One key of the explained row, as `hf_attn.interpret.head.Line`."""

    score: float
    scaled: float
    bias: float
    may_attend: bool
    exp: float
    weight: float
    value: list[float]
    contribution: list[float]


class ExplainedCell(TypedDict):
    """The arithmetic of one cell, as `hf_attn.interpret.head.Explanation`."""

    python: str
    row: int
    column: int
    query: list[float]
    key: list[float]
    products: list[float]
    product_digits: int
    lines: list[KeyLine]
    shift: float
    exp_sum: float
    output: list[float]


class LargestDifference(TypedDict):
    """How far the arithmetic is from PyTorch's."""

    largest: float
    where: str


class PrintedFigure(TypedDict):
    """A figure of a text beside the computed one; its place is None where it stands beside the arithmetic."""

    printed: str
    computed: str
    verdict: Literal["reproduced", "corrected"]
    station: Literal["query", "key", "scores", "scaled", "weights", "outputs"] | None
    row: int | None
    column: int | None
    head: int | None


class PrintedClaim(TypedDict):
    """A sentence of a text with its figures."""

    claim: str
    why: str
    figures: list[PrintedFigure]


class OtherSentence(TypedDict):
    """The same word in the other sentence."""

    sentence: str
    word: str
    row: int
    output: list[float]
    apart: float


class AttentionValue(TypedDict):
    """The map of one head, one cell's arithmetic, and the figures of its text. Event `pick`: a PickEvent."""

    id: int  # of this map
    title: str
    notice: str  # what is to be known of the map before it is read
    rows: list[str]
    cols: list[str]
    weights: list[list[float]]
    allowed: list[list[bool]] | None
    padding: list[bool]
    truth: Truth | None
    head: int
    width: int  # of a key
    scale: bool
    has_bias: bool
    score_digits: int
    cell: ExplainedCell
    same: LargestDifference
    printed: list[PrintedClaim]
    beside: OtherSentence | None


class AttentionCell(TypedDict):
    """Another cell of the map that has this id."""

    id: int
    cell: ExplainedCell


class HandFigure(TypedDict):
    """A figure that the chapter prints in the third row."""

    printed: str
    computed: float


class HandCheck(TypedDict):
    """What was said of a typed figure; None where nothing is written."""

    is_right: bool | None
    hint: str


class HandChecks(TypedDict):
    """[row][column] of each part of the exercise."""

    scores: list[list[HandCheck]]
    weights: list[list[HandCheck]]
    outputs: list[list[HandCheck]]


class HandValue(TypedDict):
    """The exercise by hand. Event `check`: a CheckEvent."""

    names: list[str]
    query: list[list[float]]
    key: list[list[float]]
    value: list[list[float]]
    printed: list[HandFigure]
    checks: HandChecks | None
    python: str


class RoleStep(TypedDict):
    """One step from a single vector to query, key and value."""

    title: str
    equation: str
    weights: list[list[float]]
    scores: list[list[float]]
    asymmetry: float  # largest |s_ij − s_ji|


class RolesValue(TypedDict):
    """The three steps on the same words."""

    words: list[str]
    steps: list[RoleStep]
    python: str


# ---- Train


class BaselineLevel(TypedDict):
    """A baseline, drawn as a level over the whole run."""

    name: str
    parameters: int
    seconds: float
    held_out: float
    interval: tuple[float, float]


class ExampleAnswer(TypedDict):
    """An answered example: symbols, one by one; or a class; or running text."""

    source: str
    written: NotRequired[list[str]]
    wrong: NotRequired[list[bool]]  # beside `written`
    label: NotRequired[str]
    text: NotRequired[str]
    right: bool | None
    answer: NotRequired[str]


class TrainPoint(TypedDict):
    """A report of the loop."""

    step: int
    loss: float | None
    seconds: float
    tokens_per_second: float
    held_out: float | None


class TrainFrame(TypedDict):
    """The probe's maps at a step; predictions only where they changed."""

    step: int
    maps: NotRequired[list[Packed]]  # a layer each: [heads, rows, cols]
    predictions: NotRequired[list[ExampleAnswer]]


class TrainMeta(TypedDict):
    """What every message of a run repeats; the map's part comes once there is a model."""

    task: str
    probe: str  # the example whose attention is drawn
    own_probe: bool  # the visitor wrote it
    metric: str
    total_steps: int
    predictions_name: str
    predictions_title: str
    predictions_columns: tuple[str, str]
    baseline: BaselineLevel | None
    heads: NotRequired[int]  # 0: no attention
    layers: NotRequired[list[int]]  # their numbers, from 1
    rows: NotRequired[list[str]]
    cols: NotRequired[list[str]]
    truth: NotRequired[Truth | None]
    allowed: NotRequired[list[list[bool]] | None]
    map: NotRequired[str]
    map_title: NotRequired[str]
    layer: NotRequired[str]


class TrainValue(TypedDict):
    """A message of a run, which the board merges with those before by step; a new `run` starts afresh.

    Messages may be lost or merged by the browser: each repeats recent points and frames, the last has all
    that is kept, and a null never hides what was measured before. A `gr.Button(elem_classes="train")` of
    the page shows the progress.
    """

    run: str
    status: JobStatus
    message: str  # what failed and what to do, where status is "error"
    eta_seconds: float | None
    meta: TrainMeta
    points: list[TrainPoint]
    frames: list[TrainFrame]
    film_every: int  # steps between two frames that stay; another stays until a newer comes
    name: NotRequired[str]  # of a run that is compared
    python: NotRequired[str]


class RunRow(TypedDict):
    """A row of the table of runs."""

    id: str
    name: str
    model: str
    details: str  # "928 k, 1 240 steps, 0:31"
    held_out: float | None
    curve: list[Pair]  # held-out accuracy by step
    loss: list[Pair]
    settings: list[Named]
    results: list[Named]


class RefusedName(TypedDict):
    """A name that will not do."""

    run: str
    name: str
    why: str


class RunsValue(TypedDict):
    """The table of runs; a click on a row lays its curves over the train board's and compares it.

    Events, each with `event.run`: `open_run`, `download_run`, `share_run`, `rename_run` with `event.name`,
    and `delete_run`, sent ten seconds after the click, unless undone; `compare_runs` with `event.runs`, the
    ids of those laid over the curves.
    """

    runs: list[RunRow]
    current: str | None
    refused: NotRequired[RefusedName]


class CompareValue(TypedDict):
    """The whole messages of the runs that are laid over; nothing is seen while there are none."""

    runs: list[TrainValue]
    python: str


# ---- Try


class WrittenSymbol(TypedDict):
    """A symbol with the probability that the model gave it."""

    token: str
    probability: float


class ParseNode(TypedDict):
    """A node of a parse tree, with the right label wherever another stands."""

    label: str
    sign: str | None
    children: list["ParseNode"]
    wrong: bool
    expected: str


class Passage(TypedDict):
    """What a language model wrote behind a prompt."""

    prompt: str
    text: str


class AnswerMap(TypedDict):
    """Who reads what while the answer is written; kind None: no attention."""

    kind: Literal["cross", "alignment", "decoder", "encoder"] | None
    title: NotRequired[str]
    maps: NotRequired[Packed]
    shape: NotRequired[Shape]
    rows: NotRequired[list[str]]
    cols: NotRequired[list[str]]
    truth: NotRequired[Truth | None]
    allowed: NotRequired[list[list[bool]] | None]


class Answer(TypedDict):
    """One answer: `wrong` and `steps` (places in distributions) stand beside `written`."""

    written: list[WrittenSymbol]
    wrong: list[bool]
    steps: list[int]
    correct: bool | None
    log_probability: float
    per_token: float
    map: AnswerMap
    check: NotRequired[str]  # "the same tree as Python's ast"
    answer: NotRequired[str | None]  # the right one
    text: NotRequired[str]
    tree: NotRequired[ParseNode | None]
    passage: NotRequired[Passage]


class Distribution(TypedDict):
    """What a step chose from, from the largest; `more` symbols are not named."""

    names: list[str]
    log_p: list[float | None]
    more: NotRequired[int]
    weights: NotRequired[list[float]]  # what those weigh together at each temperature of the slider


class BeamNode(TypedDict):
    """A symbol of the beam tree; nodes count from 1, 0 is the beginning."""

    token: str
    parent: int
    p: float
    score: float
    fate: Literal["kept", "dropped", "ended"]
    step: int  # place in distributions
    map: int | None  # among the maps of the answers, and then `maps`


class Beams(TypedDict):
    """The tree of all beams, parents first; `ends` are the answers' last nodes."""

    nodes: list[BeamNode]
    ends: list[int]
    maps: list[AnswerMap | None]


class RemovedWord(TypedDict):
    """What the removal of a word takes from the class's probability, and what is left."""

    word: str
    drop: float
    left: float
    turns: str | None  # the class that the text then has, where that is another


WordRemoval = TypedDict("WordRemoval", {"class": str, "before": float, "words": list[RemovedWord]})


class AnswerSettings(TypedDict):
    """How the answer was written; beside the temperature, what the strategy uses."""

    strategy: str
    temperature: float
    seed: NotRequired[int]
    num_beams: NotRequired[int]
    top_k: NotRequired[int]
    top_p: NotRequired[float]
    min_p: NotRequired[float]


class TryValue(Answer):
    """The best answer, with what all were chosen from. Event `rewrite`: write anew, as the sliders are."""

    distributions: list[Distribution]
    source: str  # the same source and checkpoint again keep the chosen step
    chosen: str
    python: str
    others: NotRequired[list[Answer]]  # other beams or draws
    seeds: NotRequired[list[int]]  # of all draws
    how: NotRequired[AnswerSettings]
    beams: NotRequired[Beams]
    removal: NotRequired[WordRemoval]


# ---- Explore


class AblationAnswer(TypedDict):
    """An answer's symbols; `changed` stands beside them."""

    symbols: list[str]
    changed: list[bool]
    correct: bool | None


class HeldOutChange(TypedDict):
    """Held-out accuracy with and without; only `status` while it is measured, `why` where it cannot be."""

    status: NotRequired[Literal["running"]]
    why: NotRequired[str]
    examples: NotRequired[int]
    whole: NotRequired[float]
    left: NotRequired[float]
    low: NotRequired[float]
    high: NotRequired[float]
    drop: NotRequired[float]
    error: NotRequired[float]


class AblationChange(TypedDict):
    """The answer to a question: before and after, and held-out."""

    what: str
    option: str  # of `hf-attn ablate`
    is_shorter: bool  # the input
    before: AblationAnswer
    after: AblationAnswer
    moved: list[tuple[str, float | None, float | None]]  # of `before`: symbol, total variation, divergence
    differ: int
    held_out: HeldOutChange
    python: str


class RemovedHead(TypedDict):
    """Held-out accuracy without one head."""

    kind: str
    layer: int
    head: int
    left: float
    low: float
    high: float
    drop: float
    error: float


class EachHead(TypedDict):
    """Each head removed in turn."""

    status: Literal["running", "stopped", "finished"]
    done: int
    of: int
    rows: list[RemovedHead]
    examples: NotRequired[int]
    whole: NotRequired[float]
    python: NotRequired[str]


class MeasuredHeads(TypedDict):
    """Roles and theory views of every head on the input; only `why` where it is too long."""

    why: NotRequired[str]
    roles: NotRequired[list[tuple[str, str, str, str]]]  # name, title, definition, of even attention
    views: NotRequired[list[tuple[str, str, str, str]]]
    trained: NotRequired[Heads]
    even: NotRequired[Even]
    spectrum: NotRequired[dict[str, list[list[list[float]]]]]  # kind → [layers][heads][singular values]
    offsets: NotRequired[dict[str, list[int]]]  # kind → [key − query]
    profile: NotRequired[dict[str, list[list[list[float | None]]]]]  # kind → [layers][heads][mean weights]
    python: NotRequired[str]  # of the roles
    theory: NotRequired[str]  # of one head's views


class ComparedRoles(TypedDict):
    """Roles on held-out examples, beside the same model untrained."""

    status: NotRequired[Literal["running"]]
    why: NotRequired[str]
    examples: NotRequired[int]
    trained: NotRequired[Heads]
    untrained: NotRequired[Heads]
    even: NotRequired[Even]
    python: NotRequired[str]


class HeadEnergy(TypedDict):
    """Mean Hopfield energy of a head's queries before and after one update, or why there is none."""

    before: NotRequired[float | None]
    after: NotRequired[float | None]
    why: NotRequired[str]


class ChecksValue(TypedDict):
    """What the model was asked about the lens's input.

    On how many held-out examples it is measured stands in the template: data-examples, data-role-examples.
    """

    id: int  # number of the lens's input; a new one starts afresh
    source: list[str]  # labels of the input's tokens
    heads: dict[str, list[int]]  # kind → heads of each layer; empty: the model has no attention
    is_own: bool  # False: the lens shows a target that was given
    no_answer: str  # why nothing can be asked; else empty
    can_count: bool  # whether there are held-out examples
    error: str  # why the last question was not answered
    answer: AblationChange | None
    each: EachHead | None
    measured: MeasuredHeads | None
    compared: ComparedRoles | None
    energies: dict[str, HeadEnergy]  # "cross.1.0", of the heads looked at
    python: str


# ---- Duel


class DuelBudget(TypedDict):
    """One of both."""

    steps: int | None
    seconds: float | None


class DuelPoint(TypedDict):
    """A measurement, with the mean loss since the one before."""

    step: int
    seconds: float
    held_out: float
    loss: float | None


class SizeScore(TypedDict("_Sizes", {"from": int})):
    """Accuracy on sizes `from` … `to`."""

    to: int
    examples: int
    held_out: float
    low: float
    high: float


class DuelMap(TypedDict):
    """The probe's newest map; of its columns the first `source` are what was read."""

    maps: Packed
    step: int
    source: int
    heads: int
    rows: list[str]
    cols: list[str]
    truth: Truth | None
    layer: str


class Contestant(TypedDict):
    """One model of a duel."""

    id: str
    name: str
    model: str
    parameters: int
    status: JobStatus
    message: str
    step: int
    steps: int
    seconds: float
    spent: float  # share of its budget
    held_out: float | None
    loss: float | None
    interval: tuple[float, float] | None
    examples: int
    kept: bool
    points: list[DuelPoint]
    sizes: list[SizeScore]
    map: DuelMap | None
    written: ExampleAnswer | None


class DuelValue(TypedDict):
    """Two to four models on one task; every message holds everything.

    Events `keep_run` and `download_run` with `event.run`. The page's button `duel-start` shows the progress.
    """

    duel: int  # a new number starts afresh
    status: JobStatus
    message: str
    done: float
    measured: bool  # whether the figures by size are all there
    task: str
    metric: str
    size_name: str
    budget: DuelBudget
    probe: str
    answer: str
    baseline: BaselineLevel | None
    contestants: list[Contestant]
    python: str


# ---- Positions


class PositionPicture(TypedDict):
    """One table of an encoding, as `hf_attn.analysis.position_encodings.Picture`."""

    name: str
    kind: Literal["vectors", "angles", "bias"]
    values: list[list[float]]
    rows: list[int]
    similarity: list[list[float]]
    waves: list[list[float]]
    points: list[int]


class PositionOrder(TypedDict):
    """Whether words that were moved are noticed, as `OrderTest`; below `rounding` outputs are the same."""

    words: list[str]
    rounding: float
    order: list[int]
    without: float
    with_positions: float
    shift: int
    shifted: float
    norm: float


class PositionsValue(TypedDict):
    """One position encoding as numbers."""

    type: str
    title: str
    sentence: str
    equation: str
    paper: str
    untrained: bool  # whether weights of its own, as they were drawn, are in the numbers
    pictures: list[PositionPicture]
    order: PositionOrder
    python: str


class LengthScore(TypedDict):
    """Accuracy at a size; None where the encoding refuses so long a sequence."""

    size: int
    right: float | None
    low: float | None
    high: float | None


class TestedEncoding(TypedDict):
    """An encoding that is measured beyond its length; None until it has begun."""

    type: str
    title: str
    step: int | None
    steps: int | None
    loss: float | None
    inside: float | None
    beyond: float | None
    refuses: bool
    scores: list[LengthScore]


class GrowthValue(TypedDict):
    """Up to four encodings on one task. The page's button `positions-start` shows the progress."""

    run: int
    status: JobStatus
    message: str
    done: float
    task: str
    metric: str
    size_name: str
    how: str
    trained: int  # largest size learned
    tested: list[int]
    encodings: list[TestedEncoding]
    python: str


# ---- Language


class TokenKind(TypedDict):
    """A segmentation: ids, and for each that occurs its token and its row of the embedding table."""

    ids: list[int]
    size: int  # of the vocabulary
    vocabulary: dict[str, str]
    rows: dict[str, list[float]]
    difference: float  # of lookup and one-hot product


class MergeStep(TypedDict):
    """The text before the first merge, and after each; `made` is the merged token's id."""

    merge: tuple[str, str] | None
    made: int
    count: int
    ids: list[int]
    size: int
    pairs: list[tuple[str, str, int]]  # left, right, count


class TokenKinds(TypedDict):
    """The ids of bpe are those of the steps."""

    characters: TokenKind
    words: TokenKind
    bytes: TokenKind
    bpe: TokenKind


class TokensValue(TypedDict):
    """A text cut in four ways."""

    text: str  # another one starts afresh
    kinds: TokenKinds
    steps: list[MergeStep]
    python: str


class BagRow(TypedDict):
    """A word's places in both sentences, and how far its outputs are apart, as a share of the length."""

    word: str
    places: tuple[int, int] | None
    distance: dict[str, float]


class BagsValue(TypedDict):
    """Two sentences of the same words."""

    bag: dict[str, int]
    names: list[str]  # ways of telling places
    rows: list[BagRow]
    python: str


class OrderModel(TypedDict):
    """A model that learns which letter comes first."""

    name: str
    parameters: int
    steps: int
    points: list[Pair]
    answers: list[str]  # to the twins
    right: list[bool]
    is_done: bool


class OrderValue(TypedDict):
    """Which of two letters comes first: two sequences of the same letters, and who can tell them apart."""

    status: JobStatus
    message: str
    examples: int
    twins: tuple[str, str]
    models: list[OrderModel]
    python: str


class WordCounts(TypedDict):
    """Words that were counted and measured, and how many different ones."""

    training: int
    held_out: int
    vocabulary: int


class NgramTable(TypedDict):
    """A table by number of words read."""

    name: str
    context: int
    perplexity: float
    discount: float
    cells: int
    met: int


class Following(TypedDict):
    """What follows the words read; `seen`: how often they were met; None of a language model."""

    name: str
    context: list[str]
    seen: int | None
    words: list[tuple[str, float, int | None]]  # word, probability, times


class TableGrowth(TypedDict):
    """How many numbers a full table has, beside attention's."""

    cells: list[tuple[int, int]]  # words read, numbers
    attention: int
    window: int  # words it reads


class NgramsValue(TypedDict):
    """Counts of a text, and what follows a prompt; `model`: the visitor's newest language model."""

    prompt: str
    counts: WordCounts
    tables: list[NgramTable]
    following: list[Following]
    model: Following | None
    growth: TableGrowth
    python: str


class NearWord(TypedDict):
    """A neighbour."""

    word: str
    cosine: float
    rank: int


class SumWord(NearWord):
    """A neighbour of a sum."""

    is_right: bool


class Neighbours(TypedDict):
    """A word's neighbours."""

    word: str
    found: list[NearWord]


class Analogy(TypedDict):
    """word − without + plus, and the rank of the right word where it is known."""

    word: str
    without: str
    plus: str
    found: list[SumWord]
    others: int  # words that were ranked
    right: NearWord | None


class PlanePoint(TypedDict):
    """A word in the plane."""

    word: str
    x: float
    y: float
    asked: bool


class PlaneArrow(TypedDict("_Arrow", {"from": int})):
    """From one point to another."""

    to: int
    asked: bool


class Plane(TypedDict):
    """The plane in which the words differ most."""

    points: list[PlanePoint]
    share: float
    arrows: list[PlaneArrow]
    arrows_title: str


class NeighboursValue(TypedDict):
    """Word vectors; `share` of `pairs` sums of capitals and countries are right, None of other texts."""

    status: JobStatus
    message: str
    kind: str
    words: int
    width: int
    step: int
    steps: int
    losses: list[Pair]
    near: Neighbours | None
    analogy: Analogy | None
    share: float | None
    pairs: int
    plane: Plane | None
    python: str


# ---- Share and links


class TransferStep(TypedDict):
    """What was done."""

    stage: str
    message: str


class TransferResult(TypedDict):
    """What came of a push or a pull."""

    title: str
    verified: bool
    url: str
    facts: list[Named]
    differences: list[str]


class CodeLines(TypedDict):
    """Lines to copy."""

    title: str
    text: str


class ShareValue(TypedDict):
    """A push or a pull; `done` of `total` bytes, 0 where nothing is counted."""

    status: Literal["running", "stopped", "finished", "error"]
    steps: list[TransferStep]  # so far, the last one now
    done: int
    total: int
    message: str  # why it stopped or failed, and what to do
    result: NotRequired[TransferResult]
    code: NotRequired[list[CodeLines]]


class OpenedLink(TypedDict):
    """What a link asks of the page."""

    tab: str
    boards: dict[str, dict[str, object]]  # id → what that board chose
    locked: list[str]  # ids of fields
    hidden: NotRequired[bool]  # the answers
    trains: NotRequired[bool]  # its jobs: the board sends `open_link` then
    said: str


class LinkValue(TypedDict):
    """The link that event `copy_<tab>` asked for, or why there is none; or one that was opened (turn 0)."""

    turn: int
    made: NotRequired[str]  # the text for the address
    said: NotRequired[str]
    refused: NotRequired[str]
    asks: NotRequired[str]  # whether what takes long shall be trained: `train_link` or `skip_training`
    opened: NotRequired[OpenedLink]


BOARDS = {  # the name under which a script exports it → what it takes
    "attention_board": AttentionValue | AttentionCell,
    "hand_board": HandValue,
    "roles_board": RolesValue,
    "train_board": TrainValue,
    "runs_table": RunsValue,
    "compare_board": CompareValue,
    "try_board": TryValue,
    "explore_board": LensValue | LensHeadMessage | LensCellMessage,
    "checks_board": ChecksValue,
    "duel_board": DuelValue,
    "positions_board": PositionsValue,
    "growth_board": GrowthValue,
    "tokens_board": TokensValue,
    "bags_board": BagsValue,
    "order_board": OrderValue,
    "ngrams_board": NgramsValue,
    "neighbours_board": NeighboursValue,
    "share_board": ShareValue,
    "link_board": LinkValue,
}
