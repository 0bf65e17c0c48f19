"""The lens as a file and in a notebook's frame, in a real browser that has no network."""

import csv
import io

import numpy as np
import pytest
import torch
from playwright.sync_api import expect

from hf_attn.interpret.attention_maps import AttentionMaps
from hf_attn.viz.attention_view import AttentionView, show_attention
from tests.support.browser import PATIENCE, choose_save, listen
from tests.support.native_models import build_native

EVIL = "</script><img src=https://example.org/x onerror=window.bad=1>"


@pytest.fixture
def visit(chromium, tmp_path):
    """Open HTML without a network; afterwards nothing was asked for and no script has failed."""
    heard, contexts = [], []

    def open_page(text, scheme="light", width=1280):
        path = tmp_path / f"page-{len(contexts)}.html"
        path.write_text(text, encoding="utf-8")
        context = chromium.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
        context.set_offline(True)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(PATIENCE)
        allowed = (path.as_uri(), "about:srcdoc", "blob:", "data:")
        heard.append(listen(page, allowed))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not any(heard), heard


def large_map(page):
    return page.locator("canvas[role=img][tabindex='0'][aria-label*='queries by']")


def test_some_layers_and_heads_keep_their_numbers_in_the_page_and_in_what_it_saves(visit):
    model, tokenizer = build_native("gpt2")
    view = show_attention(model, tokenizer, "the cat sat on the mat", " the dog", layers=[1], heads=[1, 3])
    page = visit(view.to_html())
    glance = page.locator(".hf-heads")
    expect(glance.locator(".hf-grid > b")).to_have_text(["2"])
    glance.get_by_role("button", name="layer 2, head 4").click()
    expect(page.locator(".hf-one h2")).to_contain_text("Head 2·4")

    def saved(panel, name):
        with page.expect_download() as download:
            choose_save(panel, name)
        return download.value.suggested_filename, download.value.path().read_bytes()

    name, content = saved(page.locator(".hf-one"), "CSV")
    assert name == "attention-decoder-layer-2-head-4.csv"
    shown = [[float(cell) for cell in row[1:]] for row in [*csv.reader(io.StringIO(content.decode()))][1:]]
    assert np.abs(np.array(shown) - view.maps.decoder[1, 3].numpy()).max() < 2e-5
    heads = [row[0] for row in csv.reader(io.StringIO(saved(glance, "CSV")[1].decode()))]
    assert heads[1:] == ["2, 2", "2, 4"]
    arrays = np.load(io.BytesIO(saved(glance, "NPZ")[1]))
    assert (arrays["decoder_layers"].tolist(), arrays["decoder_heads"].tolist()) == ([1], [1, 3])
    assert np.abs(arrays["decoder"] - view.maps.decoder[1:, [1, 3]].numpy()).max() < 2e-5


def test_sinks_are_hidden_and_the_rest_renormalised(visit):
    model, tokenizer = build_native("gpt2")
    view = show_attention(model, tokenizer, "the cat sat on the mat", " the dog")
    page, value = visit(view.to_html()), view.to_value()
    row = view.maps.decoder[-1, 0, value["query"]]
    expect(page.locator(".hf-big")).to_have_text(f"{row[value['key']]:.3f}")
    page.get_by_text("For researchers").click()
    page.get_by_label("Ignore the first token").check()
    hidden = 0 if value["key"] == 0 else row[value["key"]] / (1 - row[0])
    expect(page.locator(".hf-big")).to_have_text(f"{hidden:.3f}")


@pytest.mark.parametrize(("theme", "scheme", "dark"), [
    ("auto", "dark", True), ("auto", "light", False), ("dark", "light", True), ("light", "dark", False),
])  # fmt: skip
def test_the_theme_is_the_reader_s_or_the_one_asked_for(visit, theme, scheme, dark):
    maps = AttentionMaps(torch.eye(3)[None, None], None, None, source_tokens=("a", "b", "c"))
    page = visit(AttentionView(maps, theme=theme).to_html(), scheme)
    expect(large_map(page)).to_be_visible()
    assert page.evaluate("document.body.classList.contains('dark')") is dark
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(14, 16, 23)" if dark else "rgb(249, 250, 252)")


def test_markup_in_a_token_is_text(visit):
    maps = AttentionMaps(torch.eye(2)[None, None], None, None, source_tokens=(EVIL, "猫"))
    page = visit(AttentionView(maps, title=EVIL).to_html())
    page.get_by_text("For researchers").click()
    expect(page.locator(".hf-tok").first).to_contain_text("</script>")
    expect(page.locator(".hf-tok").nth(1)).to_have_text("猫")
    assert page.evaluate("[window.bad ?? null, document.querySelectorAll('img').length]") == [None, 0]


def test_long_inputs_of_1024_tokens_open_in_a_window(visit):
    weights = torch.ones(1, 2, 1024, 1024).tril()
    names = tuple(f"w{place}" for place in range(1024))
    maps = AttentionMaps(None, weights / weights.sum(-1, keepdim=True), None, names, names, names)
    page = visit(AttentionView(maps, "a long text").to_html())
    expect(page.locator(".hf-overview-side")).to_be_visible()
    large_map(page).focus()
    page.keyboard.press("PageDown")
    overview = page.locator(".hf-overview-side canvas")
    expect(overview).to_have_attribute("aria-label", "Overview of 1\u202f024 queries by 1\u202f024 keys")
