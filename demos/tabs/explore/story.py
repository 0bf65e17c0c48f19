"""What Explore says: a sentence of what was found, and a verdict on what was changed.

Every sentence is made of figures that stand on the screen; the first rule that holds wins.
"""

import math

from hf_attn.analysis.ablation import Trial, measure_changes, measure_removal
from hf_attn.analysis.predictions import NEXT, predict_tokens
from hf_attn.tasks.base import CLASSES

from ...jobs.training_job import LEARNED
from ...session.catalog import LoadedModel
from ...session.maps import ComputedMaps
from ...session.model_input import as_ids
from ...ui import formatting
from ...ui.notices import Part
from .head_counts import HeadCounts, Place, removal
from .head_scores import ExploreState

READS = {
    "cross": "the answer reads the input",
    "encoder": "the input reads itself",
    "decoder": "the answer reads itself",
}
LONGEST = 40  # characters of an input or an answer in the sentence
MOST_WORDS = 64  # of a text, each of which is left out in turn
SURE = 0.995  # a share that is written as 100 %
FEW = 10  # examples of a length that say nothing
MOSTLY = 0.5  # of a head's weight, where one role has it
NAMED_CHANGES = 2  # changed symbols that a verdict names
ROLE_WORDS = {
    "previous": "on the token before",
    "next": "on the token after",
    "diagonal": "on the token's own place",
    "first": "on the first token",
    "separator": "on ends and punctuation",
}
NO_MODEL: list[Part] = [
    ("b", "Choose a model"),
    " in the menu: its heads are shown, and what is lost without each.",
]


def percent(share: float) -> str:
    """A share in whole per cent, a half rounded up, as the boards do."""
    return formatting.percent(math.floor(100 * share + 0.5) / 100, 0)


def at_least(share: float) -> str:
    """A share in whole per cent, rounded down."""
    return formatting.percent(math.floor(100 * share + 1e-9) / 100, 0)


def wrong_of_100(right: float) -> str:
    """How many of 100 are wrong, of a share that is right: half, or a number."""
    wrong = 100 - math.floor(100 * right + 0.5)
    if wrong == 100:
        return "more than 99 of 100" if right else "all"
    return "half of the" if 45 <= wrong <= 55 else f"{wrong} of 100"


def spell(token: str) -> str:
    """A token as a sentence has it: white space by its name."""
    return token.strip() or ("a line break" if "\n" in token else "a space")


# ---------------------------------------------------------------- of one input


def read_input(opened: LoadedModel, text: str, computed: ComputedMaps) -> list[Part]:
    """What a classifier or a language model makes of an input, and the word that counts most."""
    if opened.kind == CLASSES and opened.task is not None:
        return tell_class(opened, text)
    if opened.predicts == NEXT and opened.task is not None:
        return tell_next(opened, computed.read)
    return []


def tell_class(opened: LoadedModel, text: str) -> list[Part]:
    removal, names = measure_removal(opened.model, opened.tokenizer, text), opened.class_names()
    before = removal.probabilities[removal.predicted]
    said: list[Part] = ["It says ", ("b", names[removal.predicted]), f", {percent(before)}."]
    place = max(range(len(removal.words)), key=lambda word: abs(removal.drops[word]))
    other, left = removal.predicted_without[place], removal.remaining[place]
    if len(removal.words) < 2 or percent(left) == percent(before):
        return said
    said.append(f" Without “{removal.words[place]}” ")
    if other != removal.predicted:
        return [*said, "it would say ", ("b", names[other]), "."]
    return [*said, f"{'that falls' if left < before else 'that rises'} to {percent(left)}."]


def tell_next(opened: LoadedModel, read: list[int]) -> list[Part]:
    """The next token, and the one whose removal moves it most."""
    places = range(len(read)) if 1 < len(read) <= MOST_WORDS else range(0)
    special = opened.tokenizer.all_special_ids if opened.tokenizer is not None else ()
    # behind the last one it is another question, and nobody typed the start
    tried = [place for place in places[:-1] if read[place] not in special]
    trials = [Trial(without=(place,)) for place in tried]
    whole, *changed = predict_tokens(opened.model, as_ids(opened, read), trials)
    last = whole.log_probabilities[-1].exp()
    (name, p), *_ = opened.name_likeliest(whole.log_probabilities[-1], 1)
    unit = "word" if opened.task is not None and opened.task.gap else "letter"
    said: list[Part] = [f"The next {unit} is ", ("b", spell(name)), f", {percent(p)}."]
    moves = [float((one.log_probabilities[-1].exp() - last).abs().sum()) / 2 for one in changed]
    most = max(range(len(moves)), key=moves.__getitem__, default=None)
    if most is None:
        return said
    (other, _), *_ = opened.name_likeliest(changed[most].log_probabilities[-1], 1)
    left = float(changed[most].log_probabilities[-1].exp()[last.argmax()])
    without = spell(opened.labels([read[tried[most]]])[0])
    if other != name:
        return [*said, f" Without “{without}” it would be ", ("b", spell(other)), "."]
    if percent(left) == percent(p):
        return said
    return [*said, f" Without “{without}” that {'falls' if left < p else 'rises'} to {percent(left)}."]


def find_effects(opened: LoadedModel, state: ExploreState, places: list[Place]) -> dict:
    """What becomes of the answer to the input on show without each of these heads: (before, after)."""
    ids, trials = as_ids(opened, state.read), [removal(place) for place in places]
    if opened.predicts:
        target = as_ids(opened, state.written) if state.written else None
        whole, *changed = predict_tokens(opened.model, ids, trials, target)
        opened.encode(state.text)  # names its words
        likeliest = [int(one.log_probabilities[state.shown["at"]].argmax()) for one in (whole, *changed)]
        before, *names = (name.strip() for name in opened.labels(likeliest))
        return {place: (before, name) for place, name in zip(places, names, strict=True)}
    most = opened.most_own(len(state.read)) if opened.model.can_generate() else None
    changes = measure_changes(opened.model, ids, trials, most)

    def read(written: tuple[int, ...]) -> str:
        return opened.class_names()[written[0]] if opened.kind == CLASSES else opened.read_text(list(written))

    return {place: (read(one.before), read(one.after)) for place, one in zip(places, changes, strict=True)}


# ---------------------------------------------------------------- the headline


def tell(state: ExploreState) -> list[Part]:
    """The sentence for what is on show, from what is known by now."""
    if state.shown is None:
        return NO_MODEL
    counts = state.counts
    if not state.labels:
        return tell_without_attention(state, counts)
    if counts is not None and (place := state.named) is not None:
        return tell_needed(state, counts, place)
    if state.shown["reading"]:
        return state.shown["reading"]
    if counts is None:
        return tell_other(state)
    return [state.count_error] if state.count_error else tell_none(counts)


def tell_without_attention(state: ExploreState, counts: HeadCounts | None) -> list[Part]:
    said: list[Part] = [("b", f"This {state.shown['family']} has one vector for all it read")]
    sizes = [(size, score) for size, score in counts.sizes.items() if score.examples >= FEW] if counts else []
    if len(sizes) > 1:
        (short, easy), *_, (long, hard) = sizes
        name = counts.size_name
        said.append(f": {percent(easy.exact_match)} right at {name} {short}")
        said.append(f", {percent(hard.exact_match)} at {name} {long}")
    return [*said, ". There is no map to look at."]


def tell_needed(state: ExploreState, counts: HeadCounts, place: Place) -> list[Part]:
    head, units = name_of(state, place), state.shown["units"]
    whole, left = counts.whole.exact_match, counts.rows[place].exact_match
    lost = f"{wrong_of_100(left)} {units} go wrong."
    if whole < SURE:
        lost = f"right {units} fall from {percent(whole)} to {percent(left)}."
    before, after = state.effects.get(place, ("", ""))
    if not before:
        return [("b", f"Without {head},"), f" {lost}"]
    if before == after:
        return [("b", f"Without {head},"), f" {lost} This input keeps its answer."]
    after = formatting.shorten_middle(after or "nothing", LONGEST)
    if state.shown["predicts"]:
        turns = f"the next word is {after}, not {before},"
    elif state.shown["is_class"]:
        turns = f"it says {after} instead of {before},"
    else:
        turns = f"{formatting.shorten_middle(state.text, LONGEST)} becomes {after}"
    return [("b", f"Without {head}, {turns}"), f" and {lost}"]


def name_of(state: ExploreState, place: Place) -> str:
    """A head in words: head 2·2, with what it reads where that is not what the answer is made of."""
    kind, layer, head = place
    if state.shown["is_alignment"]:
        return "its attention"
    name = f"head {layer + 1}·{head + 1}"
    return name if kind == state.shown["answering"] else f"{name}, where {READS[kind]}"


def tell_none(counts: HeadCounts) -> list[Part]:
    """No head is needed, of those that were counted."""
    if counts.why:
        return [counts.why]
    whole, done, of = counts.whole, len(counts.rows), len(counts.places)
    if whole is None or not done:
        return [f"Which head do its answers need? {done} of {of} heads are counted."]
    right = whole.exact_match
    if right < LEARNED:
        return [("b", f"It gets {percent(right)} right"), ", so no head can be needed: train it first."]
    low = at_least(min(row.exact_match for row in counts.rows.values()))
    rest = f"at least {low} stay right."
    if right < SURE:
        rest = f"at least {low} are right, with all of them {percent(right)}."
    if not counts.is_complete:
        return [f"No head is needed so far, {done} of {of} counted: without any one of them {rest}"]
    if of == 1:
        return [("b", "Its one head is not needed"), f": without it {rest}"]
    some = f" of {of} counted (it has {formatting.count(counts.of)})" if counts.of > of else ""
    return [("b", f"No single head{some} is needed"), f": without any one of them {rest} Remove a layer."]


def tell_other(state: ExploreState) -> list[Part]:
    """Of a model that names no task: what the head on show reads, and what its removal does."""
    answer = state.answer
    if answer is None or answer["asked"][0] != "head":
        return tell_likeliest(state)
    _, how, kind, layer, head = answer["asked"]
    name = f"Head {layer + 1}·{head + 1}"
    said: list[Part] = []
    figures = (state.shown["measured"] or {}).get("trained", {}).get(kind, {})
    shares = {role: figures[role][layer][head] for role in ROLE_WORDS if role in figures}
    role = max(shares, key=lambda one: shares[one] if shares[one] is not None else -1, default=None)
    if role is not None and (shares[role] or 0) >= MOSTLY:
        said = [f"{name} puts {percent(shares[role])} of its weight {ROLE_WORDS[role]}. "]
    do = {"remove": "Remove it", "uniform": "Make it uniform", "permute": "Permute it"}[how]
    do = do if said else do.replace("it", f"head {layer + 1}·{head + 1}")
    if not answer["places"]:
        before, after = (" ".join(answer[side]["symbols"]) for side in ("before", "after"))
        if before == after:
            return [*said, f"{do}: the answer stays ", ("b", before), "."]
        return [*said, f"{do}: the answer changes from ", ("b", before), " to ", ("b", after), "."]
    rows = answer["places"][state.shown["at"]]
    if rows is None:
        return tell_likeliest(state)
    (before, p, stays), (after, _, q) = rows[0], max(rows, key=lambda row: row[2])
    what = "the next word" if state.shown["predicts"] == NEXT else "the word there"
    if before == after:
        ends = f" ({decimal(p)} → {decimal(stays)})."
        return [*said, f"{do}: {what} stays ", ("b", before.strip()), ends]
    turns = [("b", before.strip()), f" ({decimal(p)}) to ", ("b", after.strip()), f" ({decimal(q)})."]
    return [*said, f"{do}: {what} changes from ", *turns]


def tell_likeliest(state: ExploreState) -> list[Part]:
    expected = state.shown["predictions"]
    if not expected:
        return ["Nothing is known of this model's task. ", ("b", "Choose a head"), " and see what it reads."]
    (name, p), *_ = expected["places"][state.shown["at"]]
    what = "The next word" if expected["what"] == NEXT else "The word there"
    return [f"{what} is ", ("b", name.strip()), f", {percent(p)}."]


def decimal(p: float) -> str:
    return f"{p:.2f}".removeprefix("0")


# ---------------------------------------------------------------- the verdict


def tell_change(state: ExploreState, answer: dict) -> str:
    """What a change does to this input, and to held-out ones."""
    said = [tell_symbols(answer), tell_share(state, answer["held_out"])]
    return " ".join(sentence for sentence in said if sentence)


def tell_symbols(answer: dict) -> str:
    what, how, _, layer, head = answer["asked"]
    if what == "nothing":
        return "This is the whole model's answer."
    before, after = (answer[side]["symbols"] for side in ("before", "after"))
    name = f"head {layer + 1}·{head + 1}" if what == "head" else "it"
    if answer["places"]:
        places = f"{len(before)} place{'' if len(before) == 1 else 's'}"
        return f"At {answer['differ']} of {places} another token is the likeliest."
    if before == after:
        if how == "remove":
            return f"Same answer without {name}. This input does not need it."
        return f"Same answer {answer['what'][0].lower()}{answer['what'][1:]}."
    if len(before) != len(after):
        return f"The answer has {len(after)} symbols instead of {len(before)}."
    if len(before) == 1:
        return f"The answer turns from {before[0]} into {after[0]}."
    changed = [place for place, (a, b) in enumerate(zip(before, after, strict=True)) if a != b]
    if len(changed) > NAMED_CHANGES:
        return f"{len(changed)} of {len(before)} symbols change."
    turns = (f"symbol {place + 1} turns from {before[place]} into {after[place]}" for place in changed)
    sentence = " and ".join(turns)
    return f"{sentence[0].upper()}{sentence[1:]}."


def tell_share(state: ExploreState, held: dict) -> str:
    if held.get("why"):
        return held["why"]
    if held.get("status"):
        return ""
    low, high = (math.floor(100 * held[side] + 0.5) for side in ("low", "high"))
    tried = f"{formatting.count(held['examples'])} unseen {state.shown['examples']}"
    return (
        f"Of {tried} {percent(held['left'])} are right (95 % interval {low} to {high}{formatting.NARROW}%)."
    )
