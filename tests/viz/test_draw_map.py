"""Maps as files: the weights are the model's, every format opens, nothing comes from the network."""

import base64
import csv
import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest
import torch

from hf_attn.checkpoints.save_load import load_checkpoint
from hf_attn.interpret.attention_maps import attention_maps
from hf_attn.viz.draw_map import (
    ATTENTION_COLOURS,
    WRITERS,
    _find_families,
    _spell,
    choose_head,
    colour_of,
    draw_map,
)

QUERIES, KEYS = ("5", "</s>"), ("1", "+", "<&\"'>")
WEIGHTS = torch.tensor([[0.9, 0.1, 0.0], [0.25, 0.25, 0.5]])
KNOWN = [[1, 0, 2], [0, 0, 1]]
TOKENS_CSS = Path(__file__).parents[2] / "hf_attn" / "viz" / "web" / "core" / "tokens.css"


@pytest.fixture(scope="module")
def maps(tiny_checkpoint):
    checkpoint = load_checkpoint(tiny_checkpoint)
    return attention_maps(checkpoint.model, "1 2 3", tokenizer=checkpoint.tokenizer)


def draw(tmp_path, suffix, **settings):
    return draw_map(WEIGHTS, QUERIES, KEYS, tmp_path / f"map{suffix}", title="a <map> of $5", **settings)


def test_the_colours_are_those_of_the_app():
    text = TOKENS_CSS.read_text()
    found = re.findall(r"--hf-att-(\d+): (#[0-9a-f]{6});", text)[:11]
    assert [colour for _, colour in sorted(found, key=lambda pair: int(pair[0]))] == list(ATTENTION_COLOURS)
    assert (colour_of(0.0), colour_of(1.0)) == ("#ffffff", ATTENTION_COLOURS[-1])
    assert [colour_of(step / 10) for step in range(1, 11)] == list(ATTENTION_COLOURS[1:])


def test_png_is_a_picture_of_the_map_s_shape(tmp_path):
    import matplotlib.image

    picture = matplotlib.image.imread(draw(tmp_path, ".png", alignment=KNOWN))
    assert picture.shape[0] > 200
    ink = np.array([int(ATTENTION_COLOURS[9][place : place + 2], 16) for place in (1, 3, 5)]) / 255
    assert (np.abs(picture[..., :3] - ink).max(-1) < 0.02).sum() > 500, "the .9 cell has its colour"


def test_svg_keeps_its_labels_as_text(tmp_path):
    root = ElementTree.fromstring(draw(tmp_path, ".svg", alignment=KNOWN).read_text())
    texts = {"".join(node.itertext()).strip() for node in root.iter("{http://www.w3.org/2000/svg}text")}
    first = (tmp_path / "map.svg").read_bytes()
    assert draw(tmp_path, ".svg", alignment=KNOWN).read_bytes() == first
    assert {"key: is read →", "← query: reads", "</s>", "<&\"'>", ".90", "a <map> of $5"} <= texts


def value_in(page):
    """Return what the lens of a page draws."""
    (data,) = re.findall(r'<script type="application/json" id="value">(.*?)</script>', page, re.DOTALL)
    return json.loads(data)


def test_html_is_the_lens_with_this_one_map_in_one_file(tmp_path):
    text = draw(tmp_path, ".html", alignment=KNOWN).read_text()
    assert not re.findall(r"(?:src|href)=[\"']|@import|https?://(?!www\.w3\.org/)", text)
    shown = value_in(text)
    (kind,) = shown["kinds"].values()
    assert shown["title"] == "a <map> of $5"
    assert (kind["rows"], kind["cols"], kind["truth"]) == (list(QUERIES), list(KEYS), KNOWN)
    packed = np.frombuffer(base64.b64decode(kind["maps"]), "<u2").reshape(kind["shape"])
    assert np.allclose(packed[0, 0] / 65535, WEIGHTS, atol=1e-5)
    assert all(asset in text for asset in ("explore_board", "--hf-att-10"))
    evil = "</script><img src=x onerror=alert(1)>"
    text = draw_map(torch.ones(1, 1), [evil], [evil], tmp_path / "map.html", title=evil).read_text()
    assert "<img" not in text
    assert value_in(text)["title"] == evil


def test_a_sign_without_a_shape_is_spelled_in_a_picture_and_kept_in_an_svg(tmp_path):
    rare = "\U00012000"  # cuneiform, which no font of WIDE_FONTS has
    for suffix in (".png", ".svg"):
        draw_map(torch.ones(1, 1), [rare], [rare], tmp_path / f"map{suffix}")
    assert rare in (tmp_path / "map.svg").read_text()
    assert _spell(f"a{rare}", _find_families()) == "a<U+12000>"


def read_csv(path):
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.reader(file))


def test_csv_holds_the_weights_to_the_last_digit_and_no_formula(tmp_path):
    head, *rows = read_csv(draw(tmp_path, ".csv"))
    assert head[1:] == ["'+" if key == "+" else key for key in KEYS], "no formula"
    assert [row[0] for row in rows] == list(QUERIES)
    assert np.array_equal(np.array([row[1:] for row in rows], dtype=np.float32), WEIGHTS.numpy())
    tokens = ["=", "+1", "-", "@", "\t", "a=b"]
    head, *rows = read_csv(draw_map(torch.eye(6), tokens, tokens, tmp_path / "map.csv"))
    assert head[1:] == [row[0] for row in rows] == ["'=", "'+1", "'-", "'@", "'\t", "a=b"]


def test_one_head_comes_with_its_own_tokens_and_one_that_is_not_there_is_refused(maps):
    for kind in ("encoder", "decoder", "cross"):
        weights, queries, keys = choose_head(maps, kind, 0, 1)
        assert torch.equal(weights, getattr(maps, kind)[0, 1])
        assert weights.shape == (len(queries), len(keys))
    for chosen, message in (
        (("cross", 2, 0), "layers 0 to 1"),
        (("cross", 0, 2), "heads 0 to 1"),
        (("cross", -1, 0), "layer=-1"),
        (("self", 0, 0), "encoder, decoder, cross"),
    ):
        with pytest.raises(ValueError, match=message):
            choose_head(maps, *chosen)


def test_labels_must_fit_the_weights(tmp_path):
    with pytest.raises(ValueError, match=r"\[2, 3\]"):
        draw_map(WEIGHTS, KEYS, KEYS, tmp_path / "map.png")
    with pytest.raises(ValueError, match=r"\.gif.*\.png, \.svg, \.html, \.npz, \.csv"):
        draw(tmp_path, ".gif")


@pytest.mark.parametrize("suffix", WRITERS)
def test_an_alignment_of_another_shape_is_left_out_and_a_full_disk_leaves_the_old_file_and_no_half_one(
    tmp_path, suffix, monkeypatch
):
    path = draw(tmp_path, suffix, alignment=[[1]])
    before = path.read_bytes()

    def full(self, content):
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="No space"):
        draw(tmp_path, suffix)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [before]
