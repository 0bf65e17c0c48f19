"""A small composed text on countries and their capitals, for word vectors that a second can learn.

The facts are of a table, the sentences of templates. No sentence names a capital together with its country:
that Paris belongs to France has to follow from the company that both keep.
"""

from typing import NamedTuple


class Country(NamedTuple):
    """A line of the table, each fact in one word."""

    name: str  # in English
    capital: str  # its seat of government
    people: str  # the adjective
    language: str  # the official one, or the one that most people speak
    money: str  # its currency
    region: str  # where it lies


COUNTRIES = tuple(
    Country(*line.split())
    for line in """
    France      Paris       French      French      euro      Western
    Belgium     Brussels    Belgian     Dutch       euro      Western
    Ireland     Dublin      Irish       English     euro      Western
    Germany     Berlin      German      German      euro      Central
    Austria     Vienna      Austrian    German      euro      Central
    Poland      Warsaw      Polish      Polish      zloty     Central
    Hungary     Budapest    Hungarian   Hungarian   forint    Central
    Italy       Rome        Italian     Italian     euro      Southern
    Spain       Madrid      Spanish     Spanish     euro      Southern
    Portugal    Lisbon      Portuguese  Portuguese  euro      Southern
    Greece      Athens      Greek       Greek       euro      Southern
    Sweden      Stockholm   Swedish     Swedish     krona     Northern
    Norway      Oslo        Norwegian   Norwegian   krone     Northern
    Denmark     Copenhagen  Danish      Danish      krone     Northern
    Finland     Helsinki    Finnish     Finnish     euro      Northern
    Russia      Moscow      Russian     Russian     ruble     Eastern
    Ukraine     Kyiv        Ukrainian   Ukrainian   hryvnia   Eastern
    Romania     Bucharest   Romanian    Romanian    leu       Eastern
    Egypt       Cairo       Egyptian    Arabic      pound     African
    Morocco     Rabat       Moroccan    Arabic      dirham    African
    Kenya       Nairobi     Kenyan      Swahili     shilling  African
    Turkey      Ankara      Turkish     Turkish     lira      Asian
    Japan       Tokyo       Japanese    Japanese    yen       Asian
    China       Beijing     Chinese     Chinese     yuan      Asian
    Thailand    Bangkok     Thai        Thai        baht      Asian
    Vietnam     Hanoi       Vietnamese  Vietnamese  dong      Asian
    Canada      Ottawa      Canadian    English     dollar    American
    Cuba        Havana      Cuban       Spanish     peso      American
    Peru        Lima        Peruvian    Spanish     sol       American
    Chile       Santiago    Chilean     Spanish     peso      American
    """.strip().splitlines()
)

OF_A_COUNTRY = (
    "{name} is a {region} country",
    "{name} lies among the {region} countries",
    "the people of {name} speak {language}",
    "most families in {name} speak {language} at home",
    "the money of {name} is the {money}",
    "the whole of {name} pays with the {money}",
    "the {people} nation inhabits {name}",
    "the {people} border runs around {name}",
    "every {people} citizen votes in {name}",
    "the {people} flag stands for {name}",
)
OF_A_CAPITAL = (
    "{capital} is a {region} city",
    "{capital} stands among the {region} cities",
    "the streets of {capital} hear {language}",
    "most shops in {capital} greet in {language}",
    "the markets of {capital} take the {money}",
    "a taxi through {capital} costs some {money}",
    "the {people} parliament meets in {capital}",
    "the {people} president works in {capital}",
    "every {people} museum worth seeing is in {capital}",
    "the {people} mayor governs {capital}",
)


def compose_country_sentences() -> list[str]:
    """Every template with every line of the table, in a fixed order.

    >>> sentences = compose_country_sentences()
    >>> len(sentences), sentences[0]
    (600, 'France is a Western country')
    """
    return [
        template.format(**country._asdict())
        for template in (*OF_A_COUNTRY, *OF_A_CAPITAL)
        for country in COUNTRIES
    ]


def find_capital(capital: str, country: str, other: str) -> str | None:
    """The right answer to capital − country + other country, in small letters; None where there is none.

    >>> find_capital("Paris", "France", "Italy"), find_capital("Paris", "Italy", "France")
    ('rome', None)
    """
    capitals = {line.name.lower(): line.capital.lower() for line in COUNTRIES}
    name, city = country.strip().lower(), capital.strip().lower()
    return capitals.get(other.strip().lower()) if capitals.get(name) == city and name else None
