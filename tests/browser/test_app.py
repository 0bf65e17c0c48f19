"""The app as people meet it: `python app.py` in a process of its own, a real browser, what is seen there."""

import functools
import http.server
import re
import shutil
import socket
import threading

import pytest
from playwright.sync_api import expect

from hf_attn.checkpoints.save_load import load_checkpoint
from hf_attn.tasks import build_task
from tests.support.browser import (
    PATIENCE,
    SETTLE,
    choose_tab,
    expect_trained,
    listen,
    run_long,
    set_training,
    settle,
)
from tests.support.tables import write_table

NO_ATTENTION = "No attention: all of the source passes through one vector."


@pytest.fixture(scope="module")
def visit(chromium, served_app):
    """Open the page as a new visitor; afterwards no script has failed and nothing outside was asked for."""
    heard = []

    def open_page(width=1280):
        context = chromium.new_context(viewport={"width": width, "height": 900}, accept_downloads=True)
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        heard.append(listen(page, (served_app, "data:", "blob:")))
        page.add_init_script(path=SETTLE)
        page.goto(served_app)
        choose_tab(page, "Train")
        return page

    yield open_page
    assert not any(heard), heard


@pytest.fixture(scope="module")
def trained(visit):
    """A page on which copying was learned by pressing the one primary button."""
    page = visit()
    expect(page.locator("#train-board .hf-looks")).to_contain_text("untrained")
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page.locator("#train")).to_have_text(re.compile("Training"))
    while (shown := page.locator("#train").inner_text()) != "Train again":
        expect(page.locator("#train")).not_to_have_text(shown)  # as long as it gets on, it is waited for
    expect_trained(page)
    return page


def fill(page, label, text):
    set_training(page, **{label: text})


def choose(page, label, option):
    page.get_by_label(label, exact=True).click()
    page.get_by_role("option", name=option, exact=True).click()


def test_one_button_trains_copying_to_the_end_and_its_map_is_the_diagonal(trained):
    board = trained.locator("#train-board")
    share = re.search(r"([\d.]+)\s%", trained.locator("#note").inner_text()).group(1)
    assert float(share) >= 99
    expect(board.locator(".hf-says .wrong")).to_have_count(0)
    board.locator(".hf-looks").get_by_role("button", name="Show as table").click()
    rows = board.locator(".hf-numbers tbody tr")
    weights = [[float(cell) for cell in row.locator("td").all_text_contents()] for row in rows.all()]
    on_diagonal = [row[place] for place, row in enumerate(weights)]
    assert len(weights) == len(weights[0]) > 3
    assert sum(on_diagonal) / len(on_diagonal) > 0.6
    board.get_by_role("button", name="Hide table").click()


def test_the_slider_goes_back_to_the_untrained_map(trained):
    trained.get_by_label("Step of training shown").fill("0")
    untrained = trained.locator("#train-board .hf-looks .hf-tag")
    expect(untrained).to_be_visible()
    trained.get_by_role("button", name="Go to the end").click()
    expect(untrained).to_have_count(0)


def test_the_run_just_trained_answers_an_input_of_ones_own(trained):
    choose_tab(trained, "Try")
    checkpoint = trained.get_by_label("Checkpoint").locator("visible=true")
    expect(checkpoint).to_have_value("copy 1 (this session)")
    expect(trained.locator("#try-board .hf-verdict")).to_be_visible()  # what was watched is answered first
    trained.locator("#try-text input, #try-text textarea").fill("7 15 2 3 12")
    trained.get_by_role("button", name="Write").click()
    expect(trained.locator("#try-board .hf-verdict")).to_have_text("right: the same as the input")
    expect(trained.locator("#try-board .hf-answer")).to_have_text("71523 12end".replace(" ", ""))
    trained.get_by_role("radio", name="nucleus").check()
    expect(trained.locator("#try-board .hf-dist")).to_contain_text("nucleus 0.90 keeps 1 of 23 symbols")


def test_a_wrong_character_is_one_sentence_under_the_field_and_the_answer_stays(trained):
    choose_tab(trained, "Try")
    field = trained.locator("#try-text input, #try-text textarea")
    field.fill("7 x 2")
    field.press("Enter")
    expect(trained.locator("#try-error [role=alert]")).to_contain_text("'x'")
    expect(trained.locator("#try-board .hf-answer")).to_have_text("71523 12end".replace(" ", ""))
    field.fill("7 2")
    field.press("Enter")
    expect(trained.locator("#try-error [role=alert]")).to_have_count(0)


def test_every_head_can_be_looked_into(trained):
    choose_tab(trained, "Explore")
    board = trained.locator("#explore-board")
    heads = board.locator("[data-kind=cross] .hf-grid button")
    expect(heads).to_have_count(2)
    heads.nth(1).click()
    expect(board.locator(".hf-one > header h2")).to_contain_text("Head 1·2")
    board.locator("[data-kind=decoder] .hf-grid button").first.click()
    expect(board.locator(".hf-one > header h2")).to_contain_text("the answer reads itself")
    expect(trained.locator("#explore-origin")).to_contain_text("step 60")
    trained.get_by_role("button", name="Force an answer").click()
    trained.locator("#explore-target input, #explore-target textarea").fill("1 1 1")
    trained.locator("#explore-show").click()
    expect(board).to_contain_text("→ 1 1 1")


def test_the_end_of_a_run_asks_takes_away_and_opens_explore_without_that_part(trained):
    choose_tab(trained, "Train")
    asked, headline = trained.locator("#train-board .hf-asked"), trained.locator("#train-board .hf-headline")
    asked.get_by_role("button", name=re.compile("^Take (head|layer) .* away$")).click()
    expect(headline).to_contain_text(re.compile("^(Yes|No): without"))
    asked.get_by_role("button", name="Put it back").click()
    expect(headline).to_contain_text("right after 60 steps")
    asked.get_by_role("button", name="Open in Explore").click()
    expect(trained.get_by_role("tab", name="Explore")).to_have_attribute("aria-selected", "true")
    expect(trained.locator("#explore-board")).to_contain_text("without 1")


def test_a_run_is_downloaded_as_a_checkpoint_that_loads(trained, tmp_path):
    choose_tab(trained, "Train")
    with trained.expect_download() as download:
        trained.get_by_role("button", name="Download copy 1").click()
    assert download.value.suggested_filename == "attn-copy-1.zip"
    download.value.save_as(tmp_path / "run.zip")
    shutil.unpack_archive(tmp_path / "run.zip", tmp_path)
    loaded = load_checkpoint(tmp_path / "attn-copy-1")
    assert loaded.training["results"]["exact_match"] >= 0.99
    assert loaded.training["curve"][-1]["step"] == 60


def test_a_run_pauses_goes_on_stops_and_keeps_its_weights(visit):
    page = visit()
    run_long(page)
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator("#note")).to_contain_text("Paused at step")
    step = page.locator("#note").inner_text()
    page.get_by_role("button", name="Step", exact=True).click()
    taken = int(re.search(r"step (\d+)", step.replace("\u202f", "")).group(1))
    expect(page.locator("#note")).to_contain_text(f"Paused at step {taken + 1} of")
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.locator("#train")).to_have_text(re.compile("Training"))
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator("#note")).to_contain_text("The weights are kept; nothing is lost.")
    expect(page.get_by_role("button", name="Resume", exact=True)).to_be_enabled()
    expect(page.get_by_role("button", name="Open copy 1")).to_be_visible()
    page.context.close()


def test_wrong_settings_are_named_where_they_stand(visit):
    page = visit()
    fill(page, "Learning rate", "fast")
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page.locator("#error-learning_rate [role=alert]")).to_contain_text("for example 0.003")
    expect(page.locator("#note")).to_contain_text(
        "Learning rate: “fast” is not a number"
    )  # beside the button, too
    fill(page, "Learning rate", "0.005")
    fill(page, "Heads", "3")  # typed: what is offered divides every size
    page.get_by_label("Heads", exact=True).press("Enter")
    expect(page.locator("#error-num_attention_heads [role=alert]")).to_contain_text("multiple of 3")
    expect(page.locator("#error-learning_rate [role=alert]")).to_have_count(0)
    choose(page, "Task", "Addition")
    expect(page.locator(".hf-field-error [role=alert]")).to_have_count(0)
    set_training(page)
    expect(page.get_by_label("Steps", exact=True)).to_have_value(str(build_task("addition").recipe.steps))
    page.context.close()


def test_two_visitors_train_at_once_never_meet_and_one_who_leaves_harms_nobody(visit, trained):
    first, second = visit(), visit()
    run_long(first)
    run_long(second)
    third = visit()
    fill(third, "Steps", "10")
    third.get_by_role("button", name="Train", exact=True).click()
    expect(third.locator("#note")).to_contain_text("Waiting for a free place, this one is next")
    fourth = visit()
    fourth.get_by_role("button", name="Train", exact=True).click()
    expect(fourth.locator("#note")).to_contain_text("Waiting for a free place, 1 before this one")
    fourth.get_by_role("button", name="Stop", exact=True).click()
    expect(fourth.locator("#note")).to_contain_text("Stopped at step 0")
    fourth.context.close()
    choose_tab(third, "Duel")  # a second job of the same visitor has its own place
    third.locator("#duel-start").click()
    expect(third.locator("#tab-duel")).to_contain_text("Waiting for a free place, 1 before this one")
    expect(third.locator("#note")).to_have_text(re.compile("this one is next"))
    choose_tab(third, "Train")
    for page in (first, second):
        expect(page.locator("#runs tbody tr")).to_have_count(1)
    first.context.close()  # in the middle of its run: its place is free for the third
    expect_trained(third)
    expect(second.locator("#train")).to_have_text(re.compile("Training"))
    choose_tab(second, "Try")
    checkpoint = second.get_by_label("Checkpoint").locator("visible=true")
    expect(checkpoint).to_have_value(re.compile("this session"))
    checkpoint.click()
    expect(second.get_by_role("option").filter(has_text="this session")).to_have_count(1)
    second.context.close()
    third.context.close()


@pytest.mark.gpu
def test_where_there_is_a_gpu_visitors_train_on_it(visit):
    pages = [visit(), visit()]
    for page in pages:
        fill(page, "Steps", "120")
        page.get_by_role("button", name="Train", exact=True).click()
    for page in pages:
        expect_trained(page)
        expect(page.locator("#tab-train .hf-origin")).to_contain_text("GPU, float32")
        page.context.close()


def test_an_lstm_shows_its_alignment_form_and_one_without_says_that_it_has_none(visit):
    page = visit()
    for model, steps in (("LSTM, dot attention (Luong)", "12"), ("LSTM without attention", "2")):
        set_training(page)  # where the other models are
        page.get_by_role("radio", name=model.replace(" attention (", " (")).check()
        expect(page.get_by_label("Steps", exact=True)).to_have_value("600")
        expect(page.get_by_label("Heads", exact=True)).to_be_hidden()
        settle(page)  # Gradio tells of a choice twice, and each answer fills the fields in
        fill(page, "Steps", steps)
        page.get_by_role("button", name="Train", exact=True).click()
        expect(page.locator("#runs tbody tr.on")).to_contain_text(model)
        expect(page.locator("#note")).to_contain_text(f"step {steps} of {steps}. ")
        if steps == "12":
            expect(page.locator("#train-board .hf-film button:not(.blank)").first).to_be_visible()
        fill(page, "Steps", "1")
    expect(page.locator("#train-board")).to_contain_text(NO_ATTENTION)
    choose_tab(page, "Explore")
    expect(page.locator("#explore-board")).to_contain_text(NO_ATTENTION)
    choose_tab(page, "Train")
    page.locator("#runs tbody tr").nth(1).locator("td").nth(1).click()  # anywhere on the row
    expect(page.locator("#train-board .hf-keys").first).to_contain_text("copy 1, LSTM, dot attention (Luong)")
    page.context.close()


def test_a_table_of_ones_own_is_learned_and_try_takes_its_words_out(visit, tmp_path):
    page = visit()
    expect(page.locator("#train-board")).to_contain_text("This model should copy")
    choose(page, "Task", "Your own classes")
    expect(page.locator("#note")).to_contain_text("Choose a table first")
    expect(page.locator("#train-board")).to_contain_text("Choose a task, then press Train.")
    upload = page.locator("#field-table input[type=file]")
    (tmp_path / "bad.csv").write_bytes(b"PK\x03\x04 nothing")
    upload.set_input_files(tmp_path / "bad.csv")
    expect(page.locator("#error-table [role=alert]")).to_contain_text("bad.csv is a ZIP archive")
    expect(page.get_by_role("alert")).to_have_count(1)
    page.locator("#field-table").get_by_role("button", name="Clear").click()
    upload.set_input_files(write_table(tmp_path))
    expect(page.get_by_label("Column: label")).to_have_value("label")
    expect(page.locator("#note")).to_contain_text("parameters")
    fill(page, "Steps", "60")
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page.locator("#note")).to_contain_text("held-out examples get the right class")
    expect(page.locator("#train-board .hf-says tbody tr")).to_have_count(6)
    expect(page.locator("#note")).to_contain_text("The baseline, TF-IDF, logistic regression: ")
    expect(page.locator("#train-board .hf-keys").first).to_contain_text("TF-IDF, logistic regression")
    choose_tab(page, "Try")
    field = page.locator("#try-text input, #try-text textarea")
    expect(field).not_to_have_value("")
    field.fill("a poor film in town")
    page.get_by_role("button", name="Read", exact=True).click()
    words = page.locator("#try-board .hf-words span")
    expect(words).to_have_text(["a", "poor", "film", "in", "town"])
    page.locator("#try-board").get_by_role("button", name="Show as table").first.click()
    rows = page.locator("#try-board .hf-numbers tbody tr")
    changes = [float(row.locator("td").nth(1).inner_text().replace("−", "-")) for row in rows.all()]
    assert changes.index(min(changes)) == 1  # without "poor" the class loses most
    words.nth(1).hover()
    expect(page.locator(".hf-tip")).to_contain_text("without poor")
    page.context.close()


def test_on_a_phone_no_tab_scrolls_sideways_and_the_settings_fold(visit):
    page = visit(width=390)
    fill(page, "Steps", "10")
    page.get_by_role("button", name="Train", exact=True).click()
    expect(page.get_by_label("Learning rate", exact=True)).to_be_hidden()
    expect_trained(page)
    for name in ("Train", "Try", "Explore"):
        choose_tab(page, name)
        expect(page.locator(".hf-headline").locator("visible=true")).to_have_count(1)
        expect(page.locator("canvas").locator("visible=true").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == 390, name
    page.context.close()


@pytest.mark.parametrize("name", ["Try", "Explore"])
def test_a_tab_with_a_model_asks_the_server_once_when_it_is_opened(visit, name):
    page, asked_by = visit(), []
    settle(page)
    page.on("request", lambda sent: asked_by.append((sent.post_data_json or {}).get("trigger_id")))
    choose_tab(page, name)
    page.locator(f"#{name.lower()}-origin").get_by_text("attn-").wait_for()
    settle(page)
    opened = next(filter(None, asked_by))  # the tab; what its board asks then is asked by the board
    assert asked_by.count(opened) == 1


def test_a_script_on_the_page_reaches_no_other_server_and_no_other_page_frames_it(
    chromium, served_app, tmp_path
):
    context = chromium.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(served_app)
    with socket.create_server(("127.0.0.1", 0)) as elsewhere:
        elsewhere.settimeout(0.1)
        address = f"http://127.0.0.1:{elsewhere.getsockname()[1]}/"
        refused = page.evaluate(
            """async address => {
                const broken = [];
                document.addEventListener("securitypolicyviolation", told => {
                    broken.push(told.effectiveDirective);
                });
                await fetch(address, { mode: "no-cors" }).catch(() => null);
                new Image().src = address;
                document.head.append(Object.assign(document.createElement("script"), { src: address }));
                while (broken.length < 3) await new Promise(done => setTimeout(done, 20));
                return broken;
            }""",
            address,
        )
        assert sorted(refused) == ["connect-src", "img-src", "script-src-elem"]
        with pytest.raises(TimeoutError):
            elsewhere.accept()
    (tmp_path / "index.html").write_text(f"<iframe src='{served_app}'></iframe>")
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=tmp_path)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as framing:
        threading.Thread(target=framing.serve_forever, daemon=True).start()
        with page.expect_console_message(lambda line: "frame-ancestors" in line.text):
            page.goto(f"http://127.0.0.1:{framing.server_port}/")
        framing.shutdown()
    context.close()
