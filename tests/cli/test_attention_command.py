"""`attention` on the command line: our checkpoints and others', one head or the whole lens."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from transformers import ViTImageProcessorPil

from hf_attn.viz.attention_view import show_attention
from tests.support.commands import in_process
from tests.support.native_models import build_native, build_vit


@pytest.fixture(scope="module")
def gpt2(tmp_path_factory):
    folder = tmp_path_factory.mktemp("native") / "gpt2"
    for part in build_native("gpt2"):
        part.save_pretrained(folder)
    return folder


def value_in(page):
    """Return what the lens of a page draws."""
    return json.loads(
        re.findall(r'<script type="application/json" id="value">(.*?)</script>', page, re.DOTALL)[0]
    )


def test_a_target_of_ours_is_read_in_the_task_s_own_notation(tiny_checkpoint, tmp_path, capsys):
    path = tmp_path / "maps.npz"
    in_process(capsys, "attention", tiny_checkpoint, "1 2 3", "--target", "3 2", "--output", path)
    with np.load(path, allow_pickle=False) as arrays:
        assert arrays["target_tokens"].tolist() == ["3", "2", "</s>"]
    code, _, said = in_process(capsys, "attention", tiny_checkpoint, "1 2", "--target", "x", "--output", path)
    assert code == 2
    assert "'x' is no symbol of copy" in said


def test_a_target_is_refused_where_a_class_is_named(tmp_path, capsys):
    classifier = Path(__file__).parents[2] / "model_cards" / "attn-docstring-topics"
    asked = ("attention", classifier, "Sort a list.", "--output", tmp_path / "maps.npz")
    for target in ("nonsense", "a list"):
        code, _, said = in_process(capsys, *asked, "--target", target)
        assert code == 2
        assert "only reads: leave target out" in said
    assert in_process(capsys, *asked)[0] == 0


def test_a_model_of_somebody_else_is_shown_as_in_python(gpt2, tmp_path, capsys):
    path = tmp_path / "maps.npz"
    code, *_ = in_process(capsys, "attention", gpt2, "the cat sat", "--target", " on", "--output", path)
    assert code == 0
    wanted = show_attention(*build_native("gpt2"), "the cat sat", " on").maps
    with np.load(path, allow_pickle=False) as arrays:
        assert np.array_equal(arrays["decoder"], wanted.decoder)
        assert tuple(arrays["decoder_tokens"]) == wanted.decoder_tokens
    picture = tmp_path / "map.svg"
    in_process(capsys, "attention", gpt2, "the cat sat", "--layer", 0, "--head", 3, "--output", picture)
    assert "layer 0, head 3" in picture.read_text()


def test_a_language_model_reads_the_text_alone_with_rows_of_its_own_words(tmp_path, capsys):
    sentences = Path(__file__).parents[2] / "model_cards" / "attn-sentences"
    text, page = "the cat sat on the mat because it was tired . the tired", tmp_path / "maps.html"
    assert in_process(capsys, "attention", sentences, text, "--output", page)[0] == 0
    value = value_in(page.read_text())
    shown = value["kinds"]["decoder"]
    assert shown["rows"] == shown["cols"] == ["<s>", *text.split()]
    assert shown["truth"][-1][1 + text.split().index("cat")] == 1
    assert value["title"] == f"attn-sentences: {text}"
    table = tmp_path / "map.csv"
    assert in_process(capsys, "attention", sentences, text, "--output", table)[0] == 0
    assert table.read_text().splitlines()[-1].startswith("tired,")
    written = tmp_path / "written.npz"
    in_process(capsys, "attention", sentences, text, "--target", "cat was", "--output", written)
    with np.load(written, allow_pickle=False) as arrays:
        assert arrays["target_tokens"].tolist()[-2:] == ["cat", "was"]


def test_a_model_without_a_tokenizer_reads_ids(tmp_path, capsys):
    build_native("gpt2")[0].save_pretrained(tmp_path / "bare")
    asked, path = ("attention", tmp_path / "bare"), tmp_path / "maps.npz"
    assert in_process(capsys, *asked, "5 12 7", "--output", path)[0] == 0
    with np.load(path, allow_pickle=False) as arrays:
        assert arrays["target_tokens"].tolist() == arrays["source_tokens"].tolist() == ["5", "12", "7"]
    assert in_process(capsys, *asked, "5 12 7", "--target", "3, 4", "--output", path)[0] == 0
    with np.load(path, allow_pickle=False) as arrays:
        assert arrays["target_tokens"].tolist()[-2:] == ["3", "4"]
    for wrong in ("the cat", "5 9999"):
        code, _, said = in_process(capsys, *asked, wrong, "--output", path)
        assert code == 2
        assert "write ids from 0 to 297, for example 5 12 7" in " ".join(said.split())


def test_an_image_is_given_by_its_path(tmp_path, capsys):
    build_vit().save_pretrained(tmp_path / "vit")
    ViTImageProcessorPil(size={"height": 24, "width": 32}).save_pretrained(tmp_path / "vit")
    Image.new("RGB", (40, 30), (200, 30, 30)).save(tmp_path / "red.png")
    code, *_ = in_process(
        capsys, "attention", tmp_path / "vit", tmp_path / "red.png", "--output", tmp_path / "maps.html"
    )
    assert code == 0
    assert value_in((tmp_path / "maps.html").read_text())["kinds"]["encoder"]["rows"][:2] == [
        "CLS",
        "row\u00a01,\u00a0col\u00a01",
    ]
    code, _, said = in_process(
        capsys, "attention", tmp_path / "vit", "no.png", "--output", tmp_path / "m.html"
    )
    assert (code, "there is no such file" in said) == (2, True)
