"""What the boards draw is what their contracts say, which the page's scripts are checked with too."""

import graphlib
import json
import re

import pytest

from demos.tabs.attention import tab as attention
from demos.tabs.language import tokens
from hf_attn.viz import web
from tests.project.test_architecture import APP, CANVAS
from tests.support.board_values import check_value, read_contracts


def test_every_board_has_a_contract():
    calls = "\n".join(path.read_text() for path in APP if path.suffix == ".py")
    assert set(re.findall(r'build_board\(\s*"(\w+)"', calls)) == set(read_contracts())


@pytest.mark.parametrize(
    ("board", "make"),
    [
        ("hand_board", attention.show_hand),
        ("roles_board", attention.show_roles),
        ("tokens_board", lambda: tokens.segment(None, {"tokens": "low lower"})["board"]),
    ],
)
def test_a_value_with_another_key_is_refused(board, make):
    text = make()
    check_value(text, board)
    value = json.loads(text)
    for wrong in ({**value, "another": 1}, {name: value[name] for name in list(value)[1:]}):
        with pytest.raises(AssertionError, match=board):
            check_value(json.dumps(wrong), board)


def test_no_two_scripts_export_the_same_name_and_none_import_in_a_circle():
    """`join_scripts` puts all names into one object, and each script after those that it imports."""
    scripts = [path for path in (*APP, *CANVAS) if path.suffix == ".js"]
    texts = {path.resolve(): path.read_text(encoding="utf-8") for path in scripts}
    names = [
        name for text in texts.values() for found in web.EXPORT.findall(text) for name in read_names(found)
    ]
    assert len(names) == len(set(names)) > 100
    imports = {
        path: {(path.parent / found).resolve() for _, found in web.IMPORT.findall(text)}
        for path, text in texts.items()
    }
    list(graphlib.TopologicalSorter(imports).static_order())  # raises CycleError


def read_names(braces):
    return re.findall(r"\w+", braces)


def test_a_script_stands_behind_what_it_imports():
    joined = web.join_scripts(web.list_scripts())
    assert "import " not in re.sub(r"/\*.*?\*/|//.*", "", joined, flags=re.DOTALL)
    given = joined.index("Object.assign(hfAttn, { atNight")
    assert given < joined.index("const { colourOf, onLook, readTheme, themeOf } = hfAttn")
