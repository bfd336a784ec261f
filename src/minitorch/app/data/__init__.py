"""The grammar that ships with minitorch. Enters: nothing. Leaves: a conjugation grid, and sentences.

conjugations.csv is a real grid: 20 English verbs × 5 tenses × 3 persons, 300 forms. complements.csv
says what may follow each verb. Together with a time they make the 2,400 sentences of a small language
in which every sentence can be told right from wrong.
"""

from __future__ import annotations

import csv
import functools
from importlib import resources
from typing import NamedTuple

TENSES = ("present", "past", "future", "present perfect", "past perfect")
PERSONS = ("I", "you", "he/she")
# The pronouns that speak for each person.
PRONOUNS = {"I": ("I",), "you": ("you",), "he/she": ("he", "she")}
# When a tense is said to happen.
TIMES = {
    "present": ("every day", "often"),
    "past": ("yesterday", "last week"),
    "future": ("tomorrow", "next week"),
    "present perfect": ("so far", "this week"),
    "past perfect": ("by then", "before that"),
}


class Form(NamedTuple):
    """One cell of the grid: which verb, in which tense and person, and how it is written."""

    verb: str
    tense: str
    person: str
    text: str


def _rows(name: str) -> list[list[str]]:
    text = (resources.files(__name__) / name).read_text(encoding="utf-8")
    return list(csv.reader(text.splitlines()))[1:]


@functools.cache
def conjugations() -> tuple[Form, ...]:
    """Return the grid: verbs in the file's order, then tenses, then persons.

    >>> len(conjugations())
    300
    >>> [form.text for form in conjugations() if form.verb == "write" and form.person == "he/she"]
    ['writes', 'wrote', 'will write', 'has written', 'had written']
    """
    return tuple(
        Form(verb, tense, person, text)
        for verb, tense, *texts in _rows("conjugations.csv")
        for person, text in zip(PERSONS, texts, strict=True)
    )


@functools.cache
def verbs() -> tuple[str, ...]:
    """Return the 20 verbs in the grid's order.

    >>> verbs()[:3]
    ('be', 'have', 'do')
    """
    return tuple(dict.fromkeys(form.verb for form in conjugations()))


@functools.cache
def sentences() -> tuple[str, ...]:
    """Return every sentence of the language: a time, a pronoun, a form of the verb, a complement.

    >>> len(sentences()), sentences()[0]
    (2400, 'every day I am at home.')
    >>> "yesterday she wrote a letter." in sentences(), "yesterday she writes a letter." in sentences()
    (True, False)
    """
    complements = {verb: rest for verb, *rest in _rows("complements.csv")}
    return tuple(
        f"{time} {pronoun} {form.text} {complement}."
        for form in conjugations()
        for time in TIMES[form.tense]
        for pronoun in PRONOUNS[form.person]
        for complement in complements[form.verb]
    )
