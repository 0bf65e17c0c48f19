"""Text of strangers in tables, file names, names of runs and inputs is shown as text: nothing in it runs."""

import pytest
from playwright.sync_api import expect

from tests.support.browser import choose_tab, open_tab, set_training, settle

IMAGE = "<img src=x onerror=window.bad=1>"
SCRIPT = "<script>window.bad=1</script>"
VALUE = "{{window.bad=1}}${window.bad=1}"
CLASSES = (f"good {IMAGE}", f"dull {VALUE}")
FOREIGN = "img[src=x], iframe, svg[onload], a[href^=javascript], script[data-foreign]"


def expect_nothing_ran(page):
    settle(page)
    assert page.evaluate("window.bad") is None
    assert page.locator(FOREIGN).count() == 0


def test_names_and_cells_of_a_table_and_names_of_runs_are_shown_as_they_stand(chromium, served_app, tmp_path):
    rows = [
        f"{i} {word} {SCRIPT} film\t{name}"
        for i in range(20)
        for word, name in zip(("fine", "dull"), CLASSES, strict=True)
    ]
    table = tmp_path / f"{IMAGE}.tsv"
    table.write_text("\n".join([f"{IMAGE}\t{SCRIPT.replace('/', '∕')}", *rows]), encoding="utf-8")
    bad = tmp_path / f"{IMAGE}{VALUE}.csv"
    bad.write_bytes(b"PK\x03\x04 nothing")
    with open_tab(chromium, served_app, "Train") as page:
        page.on("dialog", lambda dialog: pytest.fail(dialog.message))
        page.get_by_label("Task", exact=True).last.click()
        page.get_by_role("option", name="Your own classes").click()
        upload = page.locator("#field-table input[type=file]")
        upload.set_input_files(bad)
        expect(page.locator("#error-table [role=alert]")).to_contain_text("is a ZIP archive")
        expect_nothing_ran(page)
        page.locator("#field-table").get_by_role("button", name="Clear").click()
        upload.set_input_files(table)
        expect(page.get_by_label("Column: text")).to_have_value(IMAGE)
        set_training(page, Steps="5")
        page.get_by_role("button", name="Train", exact=True).click()
        expect(page.locator("#note")).to_contain_text("held-out examples get the right class")
        expect(page.locator("#train-board .hf-says")).to_contain_text(SCRIPT)
        runs = page.locator("#runs")
        runs.get_by_role("button", name="Rename csv 1").press("Enter")
        page.keyboard.type(IMAGE)
        page.keyboard.press("Enter")
        expect(runs.locator("tbody tr.on")).to_contain_text(IMAGE)
        expect_nothing_ran(page)
        choose_tab(page, "Try")
        field = page.locator("#try-text input, #try-text textarea")
        expect(field).not_to_have_value("")  # what Try itself writes first
        field.fill(f"a dull {IMAGE} film {VALUE}")
        page.get_by_role("button", name="Read", exact=True).click()
        expect(page.locator("#try-board .hf-words span").first).to_have_text("a")
        expect(page.locator("#try-board")).to_contain_text("onerror")
        expect_nothing_ran(page)
        for name in ("Explore", "Share"):
            choose_tab(page, name)
            expect(page.locator("body")).to_contain_text(IMAGE)
            expect_nothing_ran(page)
