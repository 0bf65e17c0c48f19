"""A toy English: short passages made from patterns, in which known earlier words decide later ones.

A pattern is a line of words and slots. It writes passages, and it finds in any text that begins like one
which word is decided there, by which earlier words, and what it may be. The ambiguities are those of
Winograd's schemas (Levesque et al. 2012, "The Winograd Schema Challenge") and of agreement over attractors
(Linzen et al. 2016, arXiv:1611.01368).
"""

import functools
import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

NEW = ("<new1>", "<new2>", "<new3>", "<new4>")  # stand for words that are not known
SHARE_OF_NEW = 0.25  # of the passages have a word that is not known
SHARE_OF_OPTIONAL = 0.3  # of the passages have what a pattern leaves open

_LISTS = {
    "creatures": "animal cat dog horse cow goat pig rabbit fox wolf bear lion tiger monkey elephant bird "
    "duck chicken donkey camel kitten puppy squirrel hamster turtle frog lamb hen",
    "women": "woman girl queen mother sister aunt daughter grandmother actress waitress princess lady",
    "men": "man boy king father brother uncle son grandfather actor waiter prince gentleman",
    "ways": "street river road bridge field valley lake stream canal highway desert square park tunnel swamp "
    "forest meadow path",
    "seats": "mat bed chair sofa carpet cushion blanket bench pillow rug couch stool roof floor armchair "
    "mattress towel lawn",
    "crossed": "did not cross, did not enter, avoided, left, walked around, hated",
    "sat": "sat on, slept on, lay on, rested on, jumped on, stayed on",
    "states": "tired hungry scared sleepy weak sick lazy nervous thirsty shy sad bored angry ill",
    "way_qualities": "wide deep busy dangerous muddy icy long flooded crowded steep dark slippery",
    "seat_qualities": "soft warm clean dry comfortable cosy sunny smooth fluffy nice cool cheap",
    "contents": "trophy ball lamp doll vase clock guitar violin painting shoe hat coat camera laptop bottle "
    "book cake kite box bag basket case jar bucket",
    "containers": "suitcase drawer backpack cupboard trunk chest pocket crate wardrobe sack locker "
    "box bag basket case jar bucket",
    "fitted": "did not fit in, did not fit into, does not fit in, does not fit into, did not go into",
    "big": "big large huge bulky thick",
    "small": "small tiny little narrow tight",
    "she": "anna mary lisa emma sara lucy kate julia nina rosa clara helen maria laura",
    "he": "ben john tom jack peter paul david mark adam max leo simon martin oscar",
    "helped": "helped called visited met phoned missed left followed avoided hugged",
    "gave": "gave lent sent brought showed sold handed offered",
    "gifts": "book cake letter flower ring key",
    "thanked": "thanked hugged praised kissed paid answered",
    "shops": "market party station school garden",
    "nature": "fisherman hiker ranger explorer hunter biologist camper sailor farmer shepherd",
    "town": "clerk manager engineer student player reporter lawyer banker programmer shopkeeper",
    "near": "sat at, went to, waited for, talked about, pointed at, stood near, asked about, came to",
    "watched": "looked at, watched, described, drew, thought of",
    "thing": "key cabinet window door garden house wall tower report chair table cup plate flower tree "
    "bottle label picture letter fence gate roof",
    "looks": "old new red blue green white black wooden",
    "to": "to near behind beside under above from",
    "broken": "broken rusty expensive beautiful missing dusty heavy famous",
    "when": "yesterday, again, at night, in the morning, after lunch, last week, today",
    "went": "was there, was seen again, comes back",
    "degree": "too very so",
    "still": "here there still",
    "is": "is was",
    "are": "are were",
}
SENSES = {  # a word of two senses → what is seen of it in nature, and in town
    "bank": ("water fish boat", "money coins cash"),
    "bat": ("cave wings moths", "ball glove stadium"),
    "crane": ("nest eggs feathers", "steel bricks tower"),
    "mouse": ("cheese hole tail", "keyboard screen desk"),
    "seal": ("ice sea rocks", "envelope stamp document"),
    "plant": ("roots leaves seeds", "workers machines smoke"),
    "jaguar": ("jungle paws prey", "engine wheels garage"),
    "bug": ("legs shell grass", "code program computer"),
}
LISTS: dict[str, tuple[str, ...]] = {
    name: tuple(words.split(", ") if ", " in words else words.split()) for name, words in _LISTS.items()
}
LISTS["things"] = tuple(f"{word}s" for word in LISTS["thing"])
LISTS["any_thing"] = LISTS["thing"] + LISTS["things"]
LISTS["names"] = LISTS["she"] + LISTS["he"]
LISTS["qualities"] = LISTS["states"] + LISTS["way_qualities"] + LISTS["seat_qualities"]
LISTS["verbs"] = LISTS["is"] + LISTS["are"]
for _word, _seen in SENSES.items():
    LISTS[_word] = (_word,)
    LISTS[f"{_word}_nature"], LISTS[f"{_word}_town"] = (tuple(seen.split()) for seen in _seen)

# The pairs of the sentences that everybody knows: held out, whatever their hash says.
FAMOUS = (
    ("animal", "street"), ("animal", "tired"), ("street", "wide"), ("cat", "mat"), ("cat", "tired"),
    ("mat", "soft"), ("trophy", "suitcase"), ("key", "cabinets"), ("keys", "cabinet"), ("fisherman", "bank"),
    ("clerk", "bank"), ("anna", "ben"), ("anna", "lisa"),
)  # fmt: skip


@dataclass(frozen=True)
class Decision:
    """A word that earlier words decide.

    Attributes:
        family: which kind of decision.
        at: its place among the words, from 0; one behind the last where it is yet to come.
        by: places of the words that decide it.
        right: what it may be.
        among: what it is chosen from: of "are" and "were" against "is" and "was", not against "near"; all
            words where it is empty.
        pairs: of words before it, which decide the split of a passage that has them.
        is_first: whether it is the earlier of the two nouns or names between which it decides; None where
            what is decided is no such word.
    """

    family: str
    at: int
    by: tuple[int, ...]
    right: frozenset[str]
    among: frozenset[str] = frozenset()
    pairs: tuple[tuple[str, str], ...] = ()
    is_first: bool | None = None


@dataclass(frozen=True)
class Slot:
    """A part of a pattern: phrases, of which a passage has one, or a name that was filled before.

    Attributes:
        phrases: to choose from; none where an earlier slot's is repeated.
        name: by which it is repeated; empty where it is not.
        is_optional: it may be left out.
        may_be_new: a word that is not known may stand there.
        by: names of the slots that decide it; none where it is free.
        among: as in Decision.
    """

    phrases: tuple[str, ...] = ()
    name: str = ""
    is_optional: bool = False
    may_be_new: bool = False
    by: tuple[str, ...] = ()
    among: frozenset[str] = frozenset()


SLOT = re.compile(r"[{\[](?:(\w+):)?(\w+)([?*]?)(?:<([\w,]+))?(?:\|(\w+))?[}\]]")


def read_slot(text: str, names: Sequence[str]) -> Slot:
    """One word of a pattern.

    `word` itself; `{list}` or `{name:list}` one of a list, with `?` or nothing, with `*` or an unknown word;
    `{name}` what that slot has; `[name]` the same, decided by that slot; `[list<a,b|all]` or `[q:list<a]` one
    of a list, decided by the slots a and b, among the words of another.
    """
    found = SLOT.fullmatch(text)
    if found is None:
        return Slot((text,))
    name, filled, mark, by, among = found.groups()
    if filled in names:
        return Slot(name=filled, by=(filled,) if text.startswith("[") else ())
    return Slot(
        LISTS[filled],
        name or "",
        mark == "?",
        mark == "*",
        tuple(by.split(",")) if by else (),
        frozenset(LISTS[among]) if among else frozenset(),
    )


@dataclass(frozen=True)
class Pattern:
    """How passages of one kind are written.

    Attributes:
        family: of its decisions; those behind a ":" of a slot's own.
        slots: in order.
        pairs: names of the slots whose words must not both be in training and in another split.
        weight: how often it is written, beside the others.
    """

    family: str
    slots: tuple[Slot, ...]
    pairs: tuple[tuple[str, str], ...]
    weight: float

    @functools.cached_property
    def beginnings(self) -> list[tuple[re.Pattern, Slot]]:
        """What stands before each decision, and the slot that is decided."""
        found, text = [], ""
        for slot in self.slots:
            if slot.by:
                found.append((re.compile(text), slot))
            phrases = [*slot.phrases, *(NEW if slot.may_be_new else ())]
            part = "|".join(map(re.escape, phrases))
            if not slot.phrases:
                part = f"(?P={slot.name})"
            elif slot.name:
                part = f"(?P<{slot.name}>{part})"
            text += f"(?:(?:{part}) )?" if slot.is_optional else f"(?:{part}) "
        return found


def read_pattern(family: str, line: str, pairs: str, weight: float = 1.0) -> Pattern:
    """A pattern from its line and its pairs, as in "a b, a q"."""
    names: list[str] = []
    slots = []
    for word in line.split():
        slots.append(read_slot(word, names))
        names.append(slots[-1].name)
    split = tuple(tuple(pair.split()) for pair in pairs.split(", "))
    return Pattern(family, tuple(slots), split, weight)  # type: ignore[arg-type]


def _tails(answer: str, asked: str) -> list[str]:
    """How a passage goes on behind "because it was too tired": the noun again, or a question."""
    return [f". the {{q}} [{answer}] {{went}} .", f". {asked} was {{degree?}} {{q}} ? the [{answer}] ."]


def _orders(clause: str, reason: str) -> list[tuple[str, float]]:
    """The reason behind the clause, and before it; how often."""
    return [(f"{clause} {{when?}} {reason}", 0.8), (f"{reason} {clause} {{when?}}", 0.2)]


def _things_that_are_tired_or_wide() -> Iterator[Pattern]:
    kinds = (("crossed", "ways", "way_qualities"), ("sat", "seats", "seat_qualities"))
    for verbs, places, qualities in kinds:
        clause = f"the {{a:creatures*}} {{{verbs}}} the {{b:{places}*}}"
        for answer, fitting in (("a", "states"), ("b", qualities)):
            for order, share in _orders(clause, f"because it was {{degree?}} {{q:{fitting}}}"):
                for tail in _tails(answer, "what"):
                    yield read_pattern("tired or wide", f"{order} {tail}", f"a b, {answer} q", share * 0.4)
    clause = "the {a:creatures*} {sat} the {b:seats*} {to} the {c:ways*} because it was {degree?}"
    for answer, fitting in (("a", "states"), ("b", "seat_qualities"), ("c", "way_qualities")):
        for tail in _tails(answer, "what"):
            line = f"{clause} {{q:{fitting}}} {tail}"
            yield read_pattern("two places", line, f"a b, a c, {answer} q", 0.4)


def _people_and_things() -> Iterator[Pattern]:
    kinds = (("crossed", "ways", "way_qualities"), ("sat", "seats", "seat_qualities"))
    for (verbs, places, qualities), (people, pronoun) in itertools.product(
        kinds, (("women", "she"), ("men", "he"))
    ):
        clause = f"the {{a:{people}}} {{{verbs}}} the {{b:{places}}} {{when?}} because"
        for answer, word, fitting in (("a", pronoun, "states"), ("b", "it", qualities)):
            asked = "what" if word == "it" else "who"
            for tail in _tails(answer, asked):
                line = f"{clause} {word} was {{degree?}} [q:{fitting}*<{answer}|qualities] {tail}"
                yield read_pattern("who or what", line, f"a b, {answer} q", 0.2)


def _big_or_small() -> Iterator[Pattern]:
    clause = "the {a:contents*} {fitted} the {b:containers*}"
    for answer, fitting in (("a", "big"), ("b", "small")):
        for order, share in _orders(clause, f"because it was {{degree?}} {{q:{fitting}}}"):
            for tail in _tails(answer, "what"):
                yield read_pattern("big or small", f"{order} {tail}", "a b", share * 0.75)


def _he_or_she() -> Iterator[Pattern]:
    for first, second in itertools.permutations(("she", "he")):
        clause = f"{{a:{first}*}} {{helped}} {{b:{second}*}}"
        for answer, pronoun in (("a", first), ("b", second)):
            for order, share in _orders(clause, f"because {pronoun} was {{degree?}} {{q:states*}}"):
                tail = f". who was {{degree?}} {{q}} ? [{answer}] ."
                yield read_pattern("he or she", f"{order} {tail}", "a b", share * 1.75)


def _names() -> Iterator[Pattern]:
    for first, second in itertools.product(("she", "he"), repeat=2):
        family = "names, two of a kind" if first == second else "names, one of each"
        gift = f"{{a:{first}*}} {{gave}} {{b:{second}*}} a {{gifts}} {{when?}} ."
        walk = f"{{a:{first}*}} and {{b:{second}*}} went to the {{shops}} {{when?}} ."
        for one, other in (("a", "b"), ("b", "a")):
            lines = (
                f"{gift} {{{one}}} {{thanked}} [{other}] .",
                f"{walk} {{{one}}} {{gave}} a {{gifts}} to [{other}] .",
            )
            yield from (read_pattern(family, line, "a b", 0.7) for line in lines)


def _word_sense() -> Iterator[Pattern]:
    for word, field in itertools.product(SENSES, ("nature", "town")):
        seen = f"{{when?}} and {{watched}} the [{word}_{field}<a,w] ."
        line = f"the {{a:{field}}} {{near}} the {{w:{word}}} {seen}"
        yield read_pattern("word sense", line, "a w", 3 / 16)


def _is_or_are() -> Iterator[Pattern]:
    for (noun, verbs), (phrases, share) in itertools.product(
        (("thing", "is"), ("things", "are")), enumerate((1, 2, 2, 1))
    ):
        # the first noun between decides the split: it is a known one
        nouns = [f"{{n{k}:any_thing{'*' if k else ''}}}" for k in range(phrases)]
        between = " ".join(f"{{to}} the {{looks?}} {noun}" for noun in nouns)
        line = f"the {{looks?}} {{a:{noun}}} {between} {{still?}} [{verbs}<a|verbs] {{broken}} ."
        yield read_pattern("is or are", line, "a n0" if phrases else "a a", share * 2.5 / 6)


PATTERNS = tuple(
    itertools.chain(
        _things_that_are_tired_or_wide(),
        _people_and_things(),
        _big_or_small(),
        _he_or_she(),
        _names(),
        _word_sense(),
        _is_or_are(),
    )
)
FAMILIES = tuple(dict.fromkeys(pattern.family for pattern in PATTERNS))
_WEIGHTS = tuple(itertools.accumulate(pattern.weight for pattern in PATTERNS))
WORDS = tuple(
    sorted({word for p in PATTERNS for slot in p.slots for phrase in slot.phrases for word in phrase.split()})
)


def write_passage(random: Random) -> tuple[list[str], list[tuple[str, str]]]:
    """(words of a passage, the pairs of words that decide its split); a pair's order does not count."""
    pattern = random.choices(PATTERNS, cum_weights=_WEIGHTS)[0]
    unknown = -1
    if random.random() < SHARE_OF_NEW:
        places = [place for place, slot in enumerate(pattern.slots) if slot.may_be_new]
        unknown = random.choice(places) if places else -1
    phrases: list[str] = []
    filled: dict[str, str] = {}
    for place, slot in enumerate(pattern.slots):
        if slot.is_optional and random.random() > SHARE_OF_OPTIONAL:
            continue
        if not slot.phrases:
            phrase = filled[slot.name]
        elif place == unknown:
            phrase = filled[slot.name] = random.choice(NEW)
        elif slot.name:
            phrase = random.choice(slot.phrases)
            while phrase in filled.values():
                phrase = random.choice(slot.phrases)
            filled[slot.name] = phrase
        else:
            phrase = random.choice(slot.phrases)
        phrases.append(phrase)
    return " ".join(phrases).split(), [(filled[one], filled[other]) for one, other in pattern.pairs]


@functools.lru_cache(maxsize=65536)
def find_decisions(text: str) -> tuple[Decision, ...]:
    """Every word of a text that is decided by earlier ones, and the next one where that is; in order.

    Args:
        text: words with single spaces between, which begins as a passage does. What patterns do not agree on
            is not decided.
    """
    text = f"{text} "
    found: dict[int, list[Decision]] = {}
    for pattern in PATTERNS:
        for beginning, slot in pattern.beginnings:
            match = beginning.match(text)
            if match is None:
                continue
            at = text.count(" ", 0, match.end())
            by = tuple(text.count(" ", 0, match.start(name)) for name in slot.by)
            right = frozenset(slot.phrases) or frozenset([match[slot.name]])
            words = match.groupdict()
            pairs = tuple((words[a], words[b]) for a, b in pattern.pairs if a in words and b in words)
            is_first = None
            if not slot.phrases:
                is_first = match.start(slot.name) == min(match.start(name) for name in pattern.pairs[0])
            decision = Decision(pattern.family, at, by, right, slot.among, pairs, is_first)
            found.setdefault(at, []).append(decision)
    agreed = [found[at] for at in sorted(found) if len({decision.right for decision in found[at]}) == 1]
    return tuple(decisions[0] for decisions in agreed)
