"""What is asked of word vectors: a word's neighbours, one word minus another plus a third, all in a plane."""

import dataclasses
from collections.abc import Sequence

from hf_attn.experiments.words.countries import find_capital
from hf_attn.experiments.words.word_vectors import WordVectors

NEAREST = 8


def find_near(vectors: WordVectors, word: str) -> dict:
    """A word's neighbours as the board shows them."""
    found = [dataclasses.asdict(near) for near in vectors.neighbours(word, NEAREST)]
    return {"word": word.strip().lower(), "found": found}


def find_analogy(vectors: WordVectors, word: str, without: str, plus: str) -> dict:
    """A sum's nearest words, and the rank of the right one where the table of countries knows it."""
    ranked = vectors.analogy(word, without, plus)
    wanted = find_capital(word, without, plus)
    right = next((near for near in ranked if near.word == wanted), None)
    found = [dataclasses.asdict(near) | {"is_right": near.word == wanted} for near in ranked[:NEAREST]]
    given = {
        name: text.strip().lower() for name, text in (("word", word), ("without", without), ("plus", plus))
    }
    told = dataclasses.asdict(right) if right else None
    return given | {"found": found, "others": len(ranked), "right": told}


def draw_plane(vectors: WordVectors, near: dict, analogy: dict, countries: Sequence[str]) -> dict:
    """The asked words and, with their capitals, these countries, or else the neighbours, in a plane."""
    asked = [analogy["without"], analogy["word"], analogy["plus"], analogy["found"][0]["word"]]
    pairs = [(asked[0], asked[1]), (asked[2], asked[3])]
    others = [near["word"], *(one["word"] for one in near["found"])]
    if countries:
        pairs += [(name, find_capital(asked[1], asked[0], name)) for name in countries]
        others = [near["word"]]
    known = [(a, b) for a, b in dict.fromkeys(pairs) if a in vectors.words and b in vectors.words]
    words = list(dict.fromkeys([*asked, *(word for pair in known for word in pair), *others]))
    place = {word: number for number, word in enumerate(words)}
    plane = vectors.project(words)
    points = [
        {"word": word, "x": x, "y": y, "asked": word in asked or word == near["word"]}
        for word, (x, y) in zip(words, plane.places.tolist(), strict=True)
    ]
    arrows = [{"from": place[a], "to": place[b], "asked": (a, b) in pairs[:2]} for a, b in known]
    title = f"arrows from {asked[0]} to {asked[1]} and from {asked[2]} to {asked[3]}"
    return {"points": points, "share": plane.share, "arrows": arrows, "arrows_title": title}
