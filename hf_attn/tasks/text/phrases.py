"""The language of a phrase: names of countries, languages, currencies and measures, from Babel's CLDR."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from hf_attn.tasks.base import WorkedExample
from hf_attn.tasks.recipes import Recipe
from hf_attn.tasks.splits import fold_text, split_by_group
from hf_attn.tasks.text.corpus import Row, leave_out_contradictions
from hf_attn.tasks.text.text_classification import DOCUMENT_MODEL, PRODUCT_MODEL, TextClassification
from hf_attn.utils.optional_packages import require_package

LANGUAGES = ("cs", "de", "en", "es", "fi", "fr", "hu", "it", "nl", "pl", "sv", "tr")  # all in Latin letters


@dataclass(frozen=True)
class Phrases(TextClassification):
    """Name the language of a phrase: "Kilometer pro Stunde" → "German".

    What a phrase means is in one split only, in all languages: who has learned "svéd korona" in training is
    never asked for "Swedish krona".
    """

    name = "phrases"
    title = "Language of a phrase"
    purpose = "name the language of a phrase"
    notation = "a word or phrase"
    origin = "Unicode's Common Locale Data Repository, as Babel has it"
    grouped_by = "phrases of one meaning in all languages"
    groups_name = "meanings"
    tokenizer_size = 1000
    unknown_share = 0.05
    recipes: ClassVar[Mapping[str, Recipe]] = {
        "product": Recipe(
            {**PRODUCT_MODEL, "dropout": 0.2}, steps=1200, learning_rate=5e-3, evaluate_every=50
        ),
        "document": Recipe(DOCUMENT_MODEL, steps=400, learning_rate=1e-3, evaluate_every=50),
    }
    worked_example = WorkedExample(
        "Nordkoreanischer Won",
        "German",
        "The won is held out in every language; endings such as -ischer were learned elsewhere.",
    )

    def read_rows(self) -> list[Row]:
        """Phrases that are of one language and one meaning alone, however they are written."""
        return list({fold_text(row.source): row for row in leave_out_contradictions(read_phrases())}.values())

    def split_rows(self, rows: Sequence[Row]) -> list[str]:
        """By meaning alone."""
        return split_by_group(row.group for row in rows)


def read_phrases() -> Iterator[Row]:
    """Every phrase, its language, and what it means; MissingPackageError without Babel."""
    require_package("babel", "Task 'phrases'")
    from babel import Locale
    from babel.units import format_unit

    for code in LANGUAGES:
        locale = Locale(code)
        names = {
            "territory": locale.territories,
            "language": locale.languages,
            "currency": locale.currencies,
            "script": locale.scripts,
            "month": locale.months["format"]["wide"],
            "day": locale.days["format"]["wide"],
            "unit": {
                unit: format_unit(5, str(unit), "long", locale=locale) for unit in locale.unit_display_names
            },
        }
        for kind, named in names.items():
            for key, phrase in named.items():
                if isinstance(phrase, str) and phrase.strip():
                    yield Row(" ".join(phrase.split()), str(locale.english_name), f"{kind} {key}")
