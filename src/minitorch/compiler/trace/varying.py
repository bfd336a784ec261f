"""Sizes that vary, while a function is recorded. Enters: what Python and NumPy ask of them. Leaves: guards on them, or
which of them cannot vary.

What is compared is decided as it is in this run, and noted (ir/sizes.py). Where a size has to be one number (range, an
index of a list, a text, a function of NumPy), or has to be equal to another one, the recording cannot go on with it: it
is given up (`SizeIsNeeded`) and made anew without that symbol, or with one for both.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from minitorch.compiler.ir import builder as make
from minitorch.compiler.ir.polynomial import Quotient
from minitorch.compiler.ir.sizes import Guard, Size, Symbol, evaluated, hint, symbols_of
from minitorch.compiler.trace.number import Number, as_int
from minitorch.compiler.trace.refusal import where_in_user_code
from minitorch.compiler.trace.traced import Traced
from minitorch.engine.recording import recorder


class SizeIsNeeded(BaseException):
    """A size that varies has to be a number here, or equal to another one. No `except Exception` catches it."""


class Assumptions(list[Guard]):
    """What a recording takes for granted about the sizes of its arguments.

    given: where each call puts its sizes, by the symbols' names.
    fixed: symbols, by name, that cannot vary, and the line that is why. special: those that were compared with a number
    which they are in this run. equal: pairs of symbols that have to be one.
    """

    def __init__(self, given: Any) -> None:
        super().__init__()
        self.given = given
        self.fixed: dict[str, str] = {}
        self.special: dict[str, str] = {}
        self.equal: set[tuple[str, str]] = set()

    @property
    def like(self) -> Traced:
        """Some array that is recorded, like which others are made whose lengths vary."""
        return Traced(make.constant(np.float32(0)), np.zeros((), np.float32))

    def need(self, size: Any) -> None:
        """Note that a size has to be a number, and give the recording up."""
        self.fixed.update(dict.fromkeys((symbol.name for symbol in symbols_of(size)), where_in_user_code()))
        raise SizeIsNeeded

    def append(self, guard: Guard) -> None:
        """Note a guard; give the recording up if it leaves a symbol no choice."""
        terms = guard.size.terms
        if guard.relation == "==" and not _has_quotient(terms):
            symbols = symbols_of(guard.size)
            if len(symbols) == 2 and len(terms) == 2 and {c for _, c in terms} == {1, -1}:
                first, second = sorted(symbol.name for symbol in symbols)
                self.equal.add((first, second))
            else:
                self.special.update(dict.fromkeys((symbol.name for symbol in symbols), str(guard)))
            raise SizeIsNeeded
        super().append(guard)

    @property
    def is_given_up(self) -> bool:
        """Whether the recording has to be made anew, whoever has caught what was raised."""
        return bool(self.fixed or self.special or self.equal)

    def number(self, size: Any) -> Any:
        """Return a size as a Python number that varies, for what is no polynomial: a mean's 1 / n."""
        symbols, given = symbols_of(size), self.given
        active: Any = recorder()

        def read() -> int:
            return evaluated(size, {symbol: getattr(given, symbol.name) for symbol in symbols})

        def decide(question: Any, answer: Any) -> None:
            if type(answer) is not bool:
                self.need(size)  # the number itself is asked for
            active.decide(question, answer)

        return as_int(Number(make.cast(make.size(size), np.float64), hint(size), read, decide))


def _has_quotient(terms: Any) -> bool:
    return any(isinstance(atom, Quotient) for monomial, _ in terms for atom in monomial)


def as_number(thing: Any) -> Any:
    """Return a size that varies as a Number; anything else as it is."""
    if type(thing) is not Size:
        return thing
    active: Any = recorder()
    return active.assumed.number(thing)


__all__ = ["Assumptions", "SizeIsNeeded", "Symbol", "as_number"]
