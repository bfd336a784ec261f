"""The experiments by name. Enters: a name. Leaves: what to train."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from minitorch.app.experiment import Experiment
from minitorch.app.experiments.digits import Digits, DigitsCnn
from minitorch.app.experiments.gpt import Gpt
from minitorch.app.experiments.grammar import GrammarForms, GrammarOneHot
from minitorch.app.experiments.xor import Xor

ALL: dict[str, type[Experiment]] = {
    each.name: each for each in (Xor, GrammarOneHot, GrammarForms, Digits, DigitsCnn, Gpt)
}
# One name for several, trained one after the other.
GROUPS: dict[str, tuple[str, ...]] = {"grammar": (GrammarOneHot.name, GrammarForms.name)}
SUMMARIES = {"grammar": "both of the following: what a network can and cannot learn from a conjugation grid"}


def find(name: str) -> list[type[Experiment]]:
    """Return what a name stands for; KeyError with the nearest name if there is none.

    >>> [each.name for each in find("grammar")]
    ['grammar-onehot', 'grammar-forms']
    >>> find("digit")
    Traceback (most recent call last):
    ...
    KeyError: "no experiment is called 'digit'; did you mean digits? ..."
    """
    if name not in ALL and name not in GROUPS:
        known = [*ALL, *GROUPS]
        raise KeyError(
            f"no experiment is called {name!r}{nearest(name, known)} `minitorch list` shows them all"
        )
    return [ALL[each] for each in GROUPS.get(name, (name,))]


def nearest(word: str, known: Iterable[str]) -> str:
    """Suggest the nearest known word, as the end of a sentence.

    >>> nearest("dgits", ["xor", "digits"])
    '; did you mean digits?'
    """
    found = difflib.get_close_matches(word, list(known), 1, 0.5)
    return f"; did you mean {found[0]}?" if found else ";"


def listing() -> list[tuple[str, str]]:
    """Return name and summary of everything that can be trained, groups before their members."""
    lines = []
    for name, each in ALL.items():
        for group, members in GROUPS.items():
            if members[0] == name:
                lines.append((group, SUMMARIES[group]))
        lines.append((name, each.summary))
    return lines
