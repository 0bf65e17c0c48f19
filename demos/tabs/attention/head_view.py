"""The head that the Attention tab walks through: a checkpoint's, a sentence's, or a worked example's."""

import dataclasses
import functools
from dataclasses import dataclass

from hf_attn.architectures.families import FAMILIES, is_ours
from hf_attn.interpret.attention_maps import AnsweringMap, weight_on_alignment
from hf_attn.interpret.head import LONGEST, SCORE_DIGITS, Head
from hf_attn.interpret.random_head import build_random_head
from hf_attn.interpret.read_head import ReadHeads, find_readable_attention, read_heads
from hf_attn.tasks.base import TEXT
from hf_attn.textbooks import DOCUMENTS
from hf_attn.textbooks.exercises import BANKS, set_beside
from hf_attn.textbooks.worked_examples import WORKED_EXAMPLES

from ...session.catalog import LoadedModel, ModelCatalog
from ...session.maps import read_target
from ...session.model_input import known_alignment
from ...session.session import Session
from ...snippets.views import input_arguments, join_lines, model_lines
from ...ui import formatting, notices
from ...ui.notices import Part
from . import story

RANDOM, WORKED = "random", "worked:"  # what else than a checkpoint the weights may be
FIRST = ("attn-parser", "attn-addition", "attn-copy")  # what the page opens with, where it is bundled
UNTRAINED = "Untrained weights: this map means nothing yet."
CHANGED = "Changed by a switch: this is no longer what the model computes."
NOT_PRINTED = "Changed by a switch: these are no longer the numbers of the text."
HALF, NEARLY_ALL = 0.5, 0.95
LONGEST_TITLE = 60  # characters


@dataclass(frozen=True)
class Settings:
    """What a visitor chose; None leaves it to the source."""

    weights: str  # a checkpoint's path, a run's id, RANDOM, or WORKED and the name of an example
    text: str | None = None  # the sentence, or the model's input
    place: str | None = None  # kind and layer of a checkpoint's map, "cross 1"; layers count from 0
    head: int | None = None  # from 0
    # scale, causal, positions: the switches
    scale: bool | None = None
    causal: bool | None = None
    positions: bool = True
    hidden: tuple[int, ...] | None = None  # places that nobody may read
    num_heads: int = 2  # of a sentence's random weights
    without: int | None = None  # the place of the word that is taken away from a sentence

    @property
    def example(self) -> str | None:
        return self.weights.removeprefix(WORKED) if self.weights.startswith(WORKED) else None


@dataclass(frozen=True, eq=False)
class ReadInput:
    """What a checkpoint made of an input: any of its maps can be shown without reading it again."""

    of: tuple[str, str, str]  # checkpoint, its weights in words, and the input
    # source, written: ids of the input, and of what was written
    source: list[int]
    written: list[int]
    heads: ReadHeads  # all of them
    places: tuple[str, ...]  # their maps, each in words like `Settings.place`
    alignment: list[list[int]] | None  # of what is written with the input, where it is known
    result: dict  # what came of it, as the board draws it
    told: list[Part]  # … and in a sentence
    swap: tuple[str, str] | None  # a word in whose place another decides otherwise: (it, the changed text)

    @property
    def is_sentence(self) -> bool:
        """Whether words are read, each of which may be taken away."""
        likeliest = self.result["likeliest"]
        return bool(likeliest) and likeliest["title"] == story.WORDS and not self.written


@dataclass(frozen=True)
class HeadView:
    """A head with what the page says of it."""

    settings: Settings  # with nothing left to the source
    head: Head  # its tensors
    cell: tuple[int, int]  # the one that is explained
    num_heads: int  # how many heads there are to choose from
    told: list[Part]  # the screen's sentence, before what follows from the cell
    # origin, title: lines of the page
    origin: str
    title: str
    python: str  # the lines of Python that give the same
    read: ReadInput | None = None  # what the checkpoint made of the input; None for the others
    notice: str = ""  # what is to be known of the map before it is read
    truth: list[list[int]] | None = None  # the known answer in the map's shape, or None
    # of a word taken away: at each place [word, p whole, p without it], as the board draws them
    without: list[list[list] | None] | None = None

    @property
    def headline(self) -> list[Part]:
        """The screen's sentence, made of the figures that it shows."""
        if self.read is None or self.notice == UNTRAINED:
            return self.told
        if self.without is not None:
            return story.tell_without(self.head, self.cell[0], self.settings.without, self.without)
        changed, (row, _) = self.notice == CHANGED, self.cell
        told, likeliest = self.told, self.read.result["likeliest"]
        if likeliest and row < len(likeliest["rows"]) - 1:
            told = story.tell_next(likeliest, self.head.rows[row], row)
        told = [*told, *story.tell_row(self.head, row, writes=self.writes, is_changed=changed)]
        if self.read.swap is not None:
            return [*told, ("i", " Change the word: "), ("button", self.read.swap[0])]
        length = sum(len(part if isinstance(part, str) else part[1]) for part in told)
        return told + (story.POINT if length <= story.LONGEST_SENTENCE else [])

    @property
    def result(self) -> dict | None:
        """What the model makes of the input, as the board draws it."""
        if self.read is None or self.without is None:
            return self.read.result if self.read else None
        word = self.head.columns[self.settings.without]
        without = {"word": word, "place": self.settings.without, "rows": self.without}
        return self.read.result | {"likeliest": self.read.result["likeliest"] | {"without": without}}

    @property
    def writes(self) -> bool:
        """Whether the rows are what the model writes, one after the other."""
        kind = (self.settings.place or "").split(" ")[0]
        return self.read is not None and bool(self.read.written) and kind != "encoder"


def is_readable(session: Session, chosen: str) -> bool:
    """Whether a choice's heads can be shown number by number: one of our models, and no recurrent one."""
    model_type = session.catalog.model_type(session, chosen)
    return is_ours(model_type) and not FAMILIES[model_type].is_recurrent


def choices(session: Session) -> list[tuple[str, str]]:
    """(label, value): this session's runs, checkpoints, random weights, worked examples."""
    found = [
        (label, value) for label, value in session.catalog.choices(session) if is_readable(session, value)
    ]
    examples = [(f"worked: {example.title}", WORKED + name) for name, example in WORKED_EXAMPLES.items()]
    return [*found, ("random weights, any sentence", RANDOM), *examples]


@functools.lru_cache(maxsize=2)
def first_view(catalog: ModelCatalog) -> HeadView:
    """What the page opens with: a bundled model's head; the exercise where there is none."""
    session = Session(catalog)
    folders = {path.name: str(path) for _, path in catalog.folders if is_readable(session, str(path))}
    chosen = next((folders[name] for name in FIRST if name in folders), next(iter(folders.values()), None))
    return read_view(session, Settings(chosen or f"{WORKED}exercise-1"))


def read_view(session: Session, settings: Settings, before: HeadView | None = None) -> HeadView:
    """The chosen head; ValueError where the input cannot be read, or a switch does not fit.

    What the view `before` has read of the same input with the same weights is not read again.
    """
    if settings.weights == RANDOM:
        return _view_random(settings)
    if settings.example is not None:
        return _view_example(settings)
    with session.catalog.open(session, settings.weights) as opened:
        return _view_checkpoint(opened, settings, before.read if before else None)


def keep_cell(view: HeadView, before: HeadView | None) -> HeadView:
    """The view with the cell of the one before, where both are of the same tokens."""
    if before is None or tokens_of(before) != tokens_of(view):
        return view
    return dataclasses.replace(view, cell=before.cell)


def tokens_of(view: HeadView) -> tuple:
    return view.head.rows, view.head.columns


def _switch(head: Head, settings: Settings) -> Head:
    names = ("scale", "causal", "hidden")
    chosen = {name: getattr(settings, name) for name in names if getattr(settings, name) is not None}
    return dataclasses.replace(head, **chosen)


def _settle(settings: Settings, head: Head, /, **more) -> Settings:
    """The settings, with the head's own switches where none was chosen."""
    return dataclasses.replace(settings, scale=head.scale, causal=head.causal, hidden=head.hidden, **more)


def _view_random(settings: Settings) -> HeadView:
    text = BANKS[0] if settings.text is None else settings.text.strip()
    index = min(settings.head or 0, settings.num_heads - 1)
    named = {"num_heads": settings.num_heads, "head": index, "positions": settings.positions}
    original = build_random_head(text, **named)
    head = _switch(original, settings)
    given = "".join(f", {name}={value!r}" for name, value in named.items())
    build = f"head = build_random_head({text!r}{given})"
    width = head.key.shape[1]
    last = len(head.rows) - 1
    return HeadView(
        _settle(settings, head, head=index, text=text),
        head,
        (last, int(head.weights[last].argmax())),
        settings.num_heads,
        told=[
            ("b", "Random weights."),
            " The arithmetic is that of a trained model, but nothing was learned: the map means nothing.",
        ],
        origin=notices.origin(
            f"{settings.num_heads} × {width} numbers a token", "random, seed 0", "CPU, float64"
        ),
        title=text,
        python=head_snippet(["build_random_head"], [build], original, head),
        notice=UNTRAINED,
    )


def _view_example(settings: Settings) -> HeadView:
    name = settings.example
    if name not in WORKED_EXAMPLES:
        raise ValueError(f"{name!r} is no worked example; choose {', '.join(WORKED_EXAMPLES)}.")
    example = WORKED_EXAMPLES[name]
    text = DOCUMENTS[example.document]
    index = min(settings.head or 0, example.num_heads - 1)
    original = example.build(index)
    head = _switch(original, settings)
    build = f"head = WORKED_EXAMPLES[{name!r}].build({index})"
    return HeadView(
        _settle(settings, head, head=index, text=" ".join(head.columns)),
        head,
        example.cell,
        example.num_heads,
        told=[NOT_PRINTED if switches_line(original, head) else example.sentence],
        origin=notices.origin(
            f"“{text.title}”, {example.place}", "as printed there", "CPU, float64", url=text.url
        ),
        title=example.title,
        python=head_snippet(["WORKED_EXAMPLES"], [build], original, head),
    )


def switches_line(original: Head, head: Head) -> str:
    """The Python line that sets the changed switches; empty where none is changed."""
    names = ("scale", "causal", "hidden")
    turned = [
        f"{name}={getattr(head, name)!r}" for name in names if getattr(head, name) != getattr(original, name)
    ]
    return f"head = dataclasses.replace(head, {', '.join(turned)})" if turned else ""


def head_snippet(imports: list[str], lines: list[str], original: Head, head: Head) -> str:
    switches = switches_line(original, head)
    if switches:
        imports, lines = [*imports, "import dataclasses"], [*lines, switches]
    return join_lines(imports, *lines)


def read_input(opened: LoadedModel, of: tuple[str, str, str]) -> ReadInput:
    """Let a checkpoint write its answer, and read all heads in one more pass."""
    model, text = opened.model, of[-1]
    stacks = find_readable_attention(model)
    source = opened.encode(text)
    refuse_long("input", source)
    written = read_target(opened, source, "")
    refuse_long("answer", written)
    heads = read_heads(model, source, opened.as_target(written), tokenizer=opened.tokenizer)
    places = tuple(f"{kind} {layer}" for kind, stack in stacks.items() for layer in range(len(stack)))
    result = story.read_result(opened, text, source, written)
    told = story.tell_result(opened, text, written, result)
    alignment = known_alignment(opened, text, written)
    return ReadInput(of, source, written, heads, places, alignment, result, told, find_swap(opened, text))


def find_swap(opened: LoadedModel, text: str) -> tuple[str, str] | None:
    """The first word that another's place may take, with the text that has it; None where there is none."""
    followups = opened.task.followups(text) if opened.task is not None else {}
    swaps = ((name.partition(" → ")[2], changed) for name, changed in followups.items())
    return next((swap for swap in swaps if swap[0]), None)


def _view_checkpoint(opened: LoadedModel, settings: Settings, read: ReadInput | None) -> HeadView:
    text = settings.text
    if text is None:
        text = opened.task.worked_example.source if opened.task else ""
    text = text.strip()
    of = (settings.weights, opened.weights, text)
    if read is None or read.of != of:
        read = read_input(opened, of)
    maps, written = read.heads.maps, read.written
    kind, layer, index = choose_head(maps.answering, read, settings)
    original = read.heads.head(kind, layer, index)
    opened.encode(text)  # names its words
    rows, columns = (tuple(opened.label(names)) for names in (original.rows, original.columns))
    original = dataclasses.replace(original, rows=rows, columns=columns)
    head = _switch(original, settings)
    rings = maps.align(kind, read.alignment)
    has_answer = any(1 in line for line in rings or ())
    is_last = read.is_sentence and not has_answer  # what comes next is what the sentence tells
    cell = best_cell(head, rings, is_last=is_last)
    notice, told = CHANGED if switches_line(original, head) else story.tell_unknown(opened), read.told
    if opened.run is not None and opened.run.step == 0:
        notice, told = UNTRAINED, [*story.UNTRAINED]
    without = None
    if settings.without is not None and read.is_sentence:
        without = story.compare_without(opened, read.source, settings.without)
    answer = f" → {opened.task.decode(written)}" if written and opened.task and opened.kind != TEXT else ""
    imports, lines = model_lines(opened)
    given = f"{input_arguments(opened, read.source, written)}, tokenizer=tokenizer"
    lines.append(f"head = read_head(model, {given}, kind={kind!r}, layer={layer}, head={index})")
    return HeadView(
        _settle(settings, head, text=text, place=f"{kind} {layer}", head=index),
        head,
        cell,
        opened.model.config.num_attention_heads,
        told=told,
        origin=notices.origin_of(opened.model, opened.weights),
        title=formatting.shorten(f"{text}{answer}", LONGEST_TITLE),
        python=head_snippet([*imports, "read_head"], lines, original, head),
        read=read,
        notice=notice,
        truth=rings,
        without=without,
    )


def choose_head(answering: AnsweringMap, read: ReadInput, settings: Settings) -> tuple[str, int, int]:
    """Kind, layer and head as chosen; else the head with most weight on the known answer."""
    kind, layer, index = answering.kind, len(answering.weights) - 1, 0
    if (truth := answering.align(read.alignment)) is not None:
        on_answer = weight_on_alignment(answering.weights, truth)
        layer, index = divmod(int(on_answer.argmax()), on_answer.shape[1])
    if settings.place in read.places:
        kind, number = settings.place.split()
        layer = int(number)
    if settings.head is not None:
        index = min(settings.head, answering.weights.shape[1] - 1)
    return kind, layer, index


def refuse_long(name: str, ids: list[int]) -> None:
    """Refuse more tokens than can be read number by number, by a ValueError."""
    if len(ids) > LONGEST:
        raise ValueError(
            f"The {name} has {len(ids)} tokens; at most {LONGEST} are shown number by number. Shorten it, "
            "or look at its maps in Explore."
        )


def best_cell(head: Head, truth: list[list[int]] | None, *, is_last: bool = False) -> tuple[int, int]:
    """The largest weight that is not nearly all of its row; where the answer is known, one on it.

    With `is_last`, the largest of the last row.
    A row that may read one token alone is left out where there are others: its weight is 1 whatever it reads.
    """
    if is_last:
        return len(head.rows) - 1, int(head.weights[-1].argmax())
    has_choice = head.may_attend.sum(-1, keepdim=True) > 1
    weights = head.weights * has_choice if has_choice.any() else head.weights
    if truth is not None:
        on_ring = weights.new_tensor(truth) == 1
        weights = weights * on_ring if on_ring.any() else weights
    shared_out = weights.masked_fill(weights > NEARLY_ALL, 0)
    chosen = shared_out if shared_out.max() > HALF else weights
    return divmod(int(chosen.argmax()), weights.shape[1])


def explain_cell(view: HeadView) -> dict:
    """The chosen cell's arithmetic, with the lines of Python that give it; ValueError where there is none."""
    row, column = view.cell
    python = f"{view.python}\nprint(head.explain({row}, {column}))"
    return dataclasses.asdict(view.head.explain(row, column)) | {"python": python}


def to_value(view: HeadView) -> dict:
    """The board's value but for its id: the map, one cell's arithmetic, and the figures of its text."""
    head, settings = view.head, view.settings
    apart = head.measure_torch_difference()
    where = f"number {apart.column + 1} of “{head.rows[apart.row]}”"
    return {
        "title": view.title,
        "notice": view.notice,
        "rows": list(head.rows),
        "cols": list(head.columns),
        "weights": [[float(f"{weight:.6g}") for weight in line] for line in head.weights.tolist()],
        "allowed": head.may_attend.tolist() if head.causal else None,
        "padding": [place in head.hidden for place in range(len(head.columns))],
        "truth": view.truth,
        "head": settings.head,
        "width": head.key.shape[1],
        "scale": head.scale,
        "has_bias": head.bias is not None,
        "score_digits": SCORE_DIGITS,
        "cell": explain_cell(view),
        "same": {"largest": apart.largest, "where": where},
        "printed": read_printed(settings.example) if settings.example else [],
        "beside": read_beside(view),
        "place": describe_place(view),
        "writes": view.writes,
        "result": view.result,
    }


def describe_place(view: HeadView) -> str:
    """Where the head stands in its model: layer 2, head 1."""
    head = f"head {view.settings.head + 1}" if view.num_heads > 1 else "one head"
    return f"layer {int(view.settings.place.split()[1]) + 1}, {head}" if view.read else head


@functools.cache
def read_printed(name: str) -> list[dict]:
    """Every printed figure of a worked example beside the computed one."""
    example = WORKED_EXAMPLES[name]
    return [
        {
            "claim": printed.claim.claim,
            "why": printed.claim.why,
            "figures": [dataclasses.asdict(figure) for figure in example.compare(printed)],
        }
        for printed in example.printed
    ]


def read_beside(view: HeadView) -> dict | None:
    """The same word in the other sentence."""
    settings = view.settings
    if settings.weights != RANDOM or " ".join(view.head.columns) not in BANKS:
        return None
    names = ("num_heads", "head", "positions", "scale", "causal", "hidden")
    beside = set_beside(view.head, **{name: getattr(settings, name) for name in names})
    return dataclasses.asdict(beside) if beside else None


def labels_of(head: Head) -> list[tuple[str, int]]:
    """(name, place) of every key; a name that occurs twice has its place behind it."""
    names = head.columns
    return [
        (f"{name} {place + 1}" if names.count(name) > 1 else name, place) for place, name in enumerate(names)
    ]
