"""Dates are written as Babel writes them, can be read in one way only, and are split by the day."""

import datetime
import re
import sys

import pytest
import torch
from babel.dates import format_date

from hf_attn.tasks import build_task
from hf_attn.tasks.text.dates import FIRST_YEAR, LOCALES, build_tables, clean, load_formats, read_date
from hf_attn.tasks.tokenizers.from_vocabulary import build_tokenizer


def draw(task, n, seed=0):
    return task.sample(torch.Generator().manual_seed(seed), n)


def sources_of(task, batch):
    return [task.read_source(row) for row in batch.input_ids.tolist()]


@pytest.mark.parametrize("locales", LOCALES)
def test_every_format_writes_what_babel_writes(locales):
    tables, formats = build_tables(locales), load_formats(locales)
    task = build_task("dates", locales=locales)
    some = torch.randint(0, len(tables.dates), (200,), generator=torch.Generator().manual_seed(0))
    for row, format_ in enumerate(formats):
        written = tables.write(torch.full_like(some, row), tables.dates[some])
        for day, ids, length in zip(
            some.tolist(), written.ids.tolist(), written.lengths.tolist(), strict=True
        ):
            date = datetime.date(FIRST_YEAR, 1, 1) + datetime.timedelta(day)
            text = task.join_source(task.decode_symbols(ids[:length]))
            assert text == clean(format_date(date, format_.pattern, locale=format_.locale)), format_.pattern


def test_every_text_can_be_read_in_one_way_only():
    """Each format, on days that could be taken for months, and months whose short names look alike."""
    days = [datetime.date(2025, month, day) for month in range(1, 13) for day in (4, 12)]
    days += [datetime.date(year, 3, 4) for year in (1969, 2001, 2012, 2068)]
    for locales in LOCALES:
        for format_ in load_formats(locales):
            for day in days:
                text = clean(format_date(day, format_.pattern, locale=format_.locale))
                reading = read_date(text)
                assert reading is not None, (format_.locale, format_.pattern, text)
                assert reading[0] == day, (format_.locale, format_.pattern, text)


def test_numbers_with_the_month_first_are_left_out():
    patterns = {format_.pattern for format_ in load_formats("seen") if format_.locale == "en_US"}
    assert patterns == {"MMM d, y", "MMMM d, y", "EEEE, MMMM d, y", "E, MMM d, y"}
    assert build_task("dates").answer("03/04/2025") == "2025-04-03"
    assert build_task("dates").answer("12/25/2025") is None


def test_the_unseen_locales_are_never_trained_on():
    assert not set(LOCALES["seen"]) & set(LOCALES["unseen"])
    generator = torch.Generator().manual_seed(0)
    task = build_task("dates")
    trained = {source for _ in range(5) for source in sources_of(task, task.sample(generator, 2000))}
    assert not any(re.search(r"søndag|Dinsdag|xaneiro|xullo|Desember", source) for source in trained)
    unseen = build_task("dates", locales="unseen")
    shown = " ".join(sources_of(unseen, unseen.held_out(1000)))
    assert all(word in shown for word in ("søndag", "Dinsdag", "xaneiro", "xullo", "Desember"))


def test_an_unseen_locale_s_held_out_days_are_those_of_the_seen_ones():
    seen, unseen = build_task("dates"), build_task("dates", locales="unseen")
    assert seen.vocabulary == unseen.vocabulary
    held = {unseen.decode(row) for row in unseen.held_out(1000).labels.tolist()}
    assert held
    assert not held & {seen.decode(row) for row in draw(seen, 20_000).labels.tolist()}


@pytest.mark.parametrize(("source", "answer"), [
    ("Tuesday, March 4, 2025", "2025-03-04"),
    ("  4   de marzo de\u00a02025 ", "2025-03-04"),
    ("4 марта 2025\u202fг.", "2025-03-04"),
    ("2025年3月4日火曜日", "2025-03-04"),
    ("2025. március 4., kedd", "2025-03-04"),
    ("04.03.69", "1969-03-04"),
    ("04.03.68", "2068-03-04"),
    ("29 February 2024", "2024-02-29"),
    ("29 February 2025", None),
    ("the day after", None),
])  # fmt: skip
def test_dates_worked_out_by_hand(source, answer):
    task = build_task("dates")
    assert task.answer(source) == answer
    verdict = task.verify(source, "2025-03-04")
    assert verdict.correct is (None if answer is None else answer == "2025-03-04")
    if answer:
        assert not task.verify(source, answer[:-1] + "x").correct


def marked(source, place, kind):
    """The source's characters that the target's place-th symbol needs, as (text, is first kind)."""
    row = build_task("dates").alignment(source, "2025-03-04")[place]
    return "".join(character for character, need in zip(source, row[:-1], strict=True) if need == kind)


def test_digits_are_aligned_with_those_that_they_copy_and_months_with_their_names():
    source = "Dienstag, 14. März 2025"
    assert [marked(source, place, 1) for place in range(10)] == [*"2025", "", "März", "März", "", *"14"]
    assert not any(marked(source, place, 2) for place in range(10))
    source = "4/3/25"  # what is not written is read off the number's digits
    assert [marked(source, place, 1) for place in range(10)] == ["", "", *"25", "", "", "3", "", "", "4"]
    assert [marked(source, place, 2) for place in range(10)] == ["25", "25", "", "", "", "3", "", "", "4", ""]
    assert build_task("dates").alignment("tomorrow", "2025-03-04") is None


def test_the_tokenizer_reads_spaces_as_the_task_does():
    task = build_task("dates")
    tokenizer = build_tokenizer(task)
    for text in ("  4   de marzo de\u00a02025 ", "4 марта 2025\u202fг.", "4 Ma\u0308rz 2025"):
        assert tokenizer(text)["input_ids"] == task.encode(text)
        assert tokenizer.decode(task.encode(text), skip_special_tokens=True) == clean(text)


@pytest.mark.parametrize(("text", "named", "remedy"), [
    ("4 März 2025 €", "'€' (character 13)", "Dienstag, 4. März 2025"),
    ("4 " * 21, "41 characters", "40 at most"),
    ("  ", "empty", "Dienstag, 4. März 2025"),
])  # fmt: skip
def test_what_cannot_be_read_is_refused_in_words(text, named, remedy):
    with pytest.raises(ValueError, match=re.escape(named)) as refusal:
        build_task("dates").encode(text)
    assert remedy in str(refusal.value)


def test_without_babel_sampling_says_what_to_install_and_reading_still_works(monkeypatch):
    for function in (load_formats, build_tables, read_date):
        function.cache_clear()
    monkeypatch.setitem(sys.modules, "babel", None)
    task = build_task("dates")
    try:
        with pytest.raises(ImportError, match=re.escape("pip install 'hf-attn[text]'")):
            draw(task, 4)
        source = task.worked_example.source
        assert task.read_source(task.encode(source)) == source
        assert task.decode(task.ids(*"2025-03-04")) == "2025-03-04"
        assert task.verify(source, "2025-03-04").correct is None
    finally:
        read_date.cache_clear()
