"""Boards' values held to their contracts: no key too many, none missing, every type as it is declared.

The contracts are the `board_values.d.ts` of the scripts; what is read of TypeScript is what stands in them.
"""

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[2]
CONTRACTS = (ROOT / "hf_attn/viz/web/board_values.d.ts", ROOT / "demos/ui/board_values.d.ts")
COMMENTS = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
NAMED = re.compile(
    r"type (?P<alias>\w+) = (?P<meaning>[^;]+);"
    r"|interface (?P<name>\w+)(?: extends (?P<base>\w+))? \{(?P<body>[^}]*)\}"
)
KEY = re.compile(r"(\w+)(\??): ([^;]+);")
PLAIN = {"string": str, "number": int | float, "boolean": bool, "null": type(None), "unknown": object}

Check = Callable[[object, str], list[str]]  # a value and its place → what is wrong, outermost first


class TypeReader:
    """Reads the text of one type into a check; the types that it names are looked up when they are needed."""

    def __init__(self, text: str, named: Callable[[str], Check]):
        self.left = re.findall(r'"[^"]*"|\w+|\[\]|\S', text)
        self.named = named

    def read(self) -> Check:
        members = [self.read_member()]
        while self.left[:1] == ["|"]:
            self.left.pop(0)
            members.append(self.read_member())

        def check_union(value, at):
            errors = [member(value, at) for member in members]
            return min(errors, key=lambda found: (bool(found), -max(map(len, found), default=0)))

        return check_union

    def read_member(self) -> Check:
        first = self.left.pop(0)
        if first == "(":
            check = self.read_list(")")[0]
        elif first == "[":
            check = self.check_tuple(self.read_list("]"))
        elif first == "Record":
            self.left.pop(0)
            check = self.check_record(*self.read_list(">"))
        elif first[0] == '"' or first.isdigit():
            check = self.check_literal(json.loads(first))
        elif first in PLAIN:
            check = self.check_plain(first)
        else:
            check = lambda value, at: self.named(first)(value, at)  # noqa: E731 - looked up later
        while self.left[:1] == ["[]"]:
            self.left.pop(0)
            check = self.check_array(check)
        return check

    def read_list(self, end: str) -> list[Check]:
        found = [self.read()]
        while (mark := self.left.pop(0)) == ",":
            found.append(self.read())
        assert mark == end, f"{mark!r} stands where {end!r} should"
        return found

    @staticmethod
    def check_plain(name: str) -> Check:
        def check(value, at):
            fits = isinstance(value, PLAIN[name]) and (name != "number" or not isinstance(value, bool))
            return [] if fits else [f"{at}: {value!r:.60} is no {name}"]

        return check

    @staticmethod
    def check_literal(expected) -> Check:
        def check(value, at):
            same = value == expected and type(value) is type(expected)
            return [] if same else [f"{at}: {value!r:.60} is not {expected!r}"]

        return check

    @staticmethod
    def check_array(item: Check) -> Check:
        def check(value, at):
            if not isinstance(value, list):
                return [f"{at}: {value!r:.60} is no array"]
            return [error for place, one in enumerate(value) for error in item(one, f"{at}[{place}]")]

        return check

    @staticmethod
    def check_tuple(items: list[Check]) -> Check:
        def check(value, at):
            if not isinstance(value, list) or len(value) != len(items):
                return [f"{at}: {value!r:.60} is no {len(items)} values"]
            return [
                error
                for place, (item, one) in enumerate(zip(items, value, strict=True))
                for error in item(one, f"{at}[{place}]")
            ]

        return check

    @staticmethod
    def check_record(_key: Check, item: Check) -> Check:
        def check(value, at):
            if not isinstance(value, dict):
                return [f"{at}: {value!r:.60} is no record"]
            return [error for key, one in value.items() for error in item(one, f"{at}.{key}")]

        return check


def check_interface(keys: dict[str, tuple[bool, Check]]) -> Check:
    """Every key that is not optional stands there, and none that is not named."""

    def check(value, at):
        if not isinstance(value, dict):
            return [f"{at}: {value!r:.60} is no object"]
        missing = [key for key, (is_optional, _) in keys.items() if not is_optional and key not in value]
        errors = [f"{at}: {key} is missing" for key in missing]
        errors += [f"{at}: {key} is not declared" for key in value.keys() - keys.keys()]
        known = value.keys() & keys.keys()
        return errors + [error for key in known for error in keys[key][1](value[key], f"{at}.{key}")]

    return check


@functools.cache
def read_contracts() -> dict[str, Check]:
    """Read the contracts: the name under which a script exports a board → the check of what it takes."""
    text = "\n".join(COMMENTS.sub("", path.read_text(encoding="utf-8")) for path in CONTRACTS)
    written = {found["alias"] or found["name"]: found for found in NAMED.finditer(text)}
    read = sum(len(KEY.findall(found["body"] or "")) for found in written.values())
    assert read == len(re.findall(r"\w\??: ", text)), "a key stands where it is not read"

    @functools.cache
    def named(name: str) -> Check:
        if written[name]["alias"]:
            return TypeReader(written[name]["meaning"], named).read()
        return check_interface(list_keys(name))

    def list_keys(name: str) -> dict[str, tuple[bool, Check]]:
        found = written[name]
        keys = list_keys(found["base"]) if found["base"] else {}
        for key, optional, meaning in KEY.findall(found["body"]):
            keys[key] = (bool(optional), TypeReader(meaning, named).read())
        return keys

    return {board: check for board, (_, check) in list_keys("Values").items()}


def check_value(text: str, board: str | None = None) -> None:
    """Refuse a board's value, as `to_json` gives it; without a board's name it may be any board's."""
    value = json.loads(text)
    contracts = read_contracts()
    wrong = {name: contracts[name](value, name) for name in ([board] if board else contracts)}
    if value is None or not all(wrong.values()):
        return
    nearest = min(wrong.values(), key=len)
    raise AssertionError("No value of a board, as board_values.d.ts has them: " + "; ".join(nearest[:5]))
