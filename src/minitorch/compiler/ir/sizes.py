"""Sizes that vary from call to call. Enters: what a recording met as the length of an axis. Leaves: a `Size`.

A `Size` is an int, the one that was met while recording (its *hint*), which remembers how it comes about from
`Symbol`s: a polynomial with whole coefficients (`polynomial.py`), in one written form, so that
equal expressions are equal Sizes. Where the symbols cancel out, plain ints come back.

Comparing is the only way by which a program could depend on a size. What expressions and ranges say for every size
is simply true. All else is answered as it is at the hint, and noted as a `Guard` with whoever is collecting them
(`collecting`); where nobody is, it is a mistake (`Undecided`). Code that would do without an answer asks
`surely_equal`, `surely_less` or `surely_multiple`, and takes the general way if not; what is no more than an
estimate asks for `hint`.
"""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from minitorch.compiler.ir.polynomial import (
    Atom,
    Quotient,
    Terms,
    Variable,
    constant,
    floored,
    plus,
    range_of,
    replaced,
    times,
    written,
)

USUAL = 24  # a size that varies is taken to be typically so much at least


class Undecided(Exception):
    """A question about a size that has no one answer for all of its values, where nobody notes which was taken."""


class Symbol(Variable):
    """A size that a call brings along."""

    @property
    def size(self) -> Size:
        """It as a Size."""
        return Size._of((((self,), 1),))


Binding = Mapping[Symbol, int]


def _terms(number: Any) -> Terms:
    if isinstance(number, Size):
        return number.terms
    return (((), int(number)),) if number else ()


# --- guards -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Guard:
    """Something that was taken for granted: `size` is 0 ('=='), is not ('!='), or is not negative ('>=')."""

    relation: str
    size: Size

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Guard)
            and self.relation == other.relation
            and self.size.terms == other.size.terms
        )

    def __hash__(self) -> int:
        return hash((self.relation, self.size.terms))

    def holds(self, binding: Binding) -> bool:
        """Whether it is so, for a call's sizes."""
        number = evaluated(self.size, binding)
        return number == 0 if self.relation == "==" else number != 0 if self.relation == "!=" else number >= 0

    def __str__(self) -> str:
        left = [(m, c) for m, c in self.size.terms if c > 0]
        right = [(m, -c) for m, c in self.size.terms if c < 0]
        return f"{written(tuple(left))} {self.relation} {written(tuple(right))}"


Guards = list[Guard]

_collected: ContextVar[Any] = ContextVar("collected", default=None)  # Guards, or None
_surely: ContextVar[bool] = ContextVar("surely", default=False)
_known: ContextVar[tuple[Guard, ...]] = ContextVar("known", default=())


@contextlib.contextmanager
def collecting(guards: Guards) -> Iterator[Guards]:
    """Note in `guards` what is taken for granted about sizes; what stands there already is known."""
    token = _collected.set(guards)
    try:
        yield guards
    finally:
        _collected.reset(token)


@contextlib.contextmanager
def comparing_surely(guards: Sequence[Guard] = ()) -> Iterator[None]:
    """Let `==` mean equal whatever the symbols are, and `!=` the rest, where that leads to the general way.

    guards: what is sure to hold.
    """
    token = _surely.set(True)
    try:
        with knowing(guards):
            yield
    finally:
        _surely.reset(token)


@contextlib.contextmanager
def knowing(guards: Sequence[Guard]) -> Iterator[None]:
    """Let guards that are sure to hold decide comparisons."""
    token = _known.set((*_known.get(), *guards))
    try:
        yield
    finally:
        _known.reset(token)


def _normal(relation: str, terms: Terms) -> Terms:
    """Return the difference of a comparison with its sign and its common factor taken out."""
    common = math.gcd(*(c for _, c in terms)) or 1
    if relation != ">=" and terms[0][1] < 0:
        common = -common
    return tuple((m, c // common) for m, c in terms)


def _sure(relation: str, terms: Terms) -> bool | None:
    """Return whether a sum is 0, is not 0 or is not negative, if one can tell for all sizes."""
    low, high = range_of(terms)
    if relation == ">=":
        found = True if low >= 0 else False if high < 0 else None
    else:
        found = True if low == high == 0 else False if low > 0 or high < 0 else None
        if found is None and len(terms) == 1 and len(terms[0][0]) > 1:  # 0 only if one of its factors is
            found = False if all(_sure("==", (((a,), 1),)) is False for a in terms[0][0]) else None
        if found is None and _indivisible(terms):
            found = False
        if relation == "!=" and found is not None:
            found = not found
    if found is not None:
        return found
    facts = (*_known.get(), *(_collected.get() or ()))
    return _by_facts(relation, terms, facts) if facts else None


def _indivisible(terms: Terms) -> bool:
    """Whether a sum cannot be 0 because all but its plain number is a multiple of what that is not."""
    number = dict(terms).get((), 0)
    common = math.gcd(*(c for m, c in terms if m))
    return common > 1 and number % common != 0


def _by_facts(relation: str, terms: Terms, facts: Sequence[Guard]) -> bool | None:
    """Return whether guards that hold say so."""
    if relation != ">=":
        normal = _normal(relation, terms)
        for fact in facts:
            if fact.relation == relation and fact.size.terms == normal:
                return True
            if {fact.relation, relation} == {"==", "!="} and fact.size.terms == normal:
                return False
    for fact in facts:
        if fact.relation == "!=":
            continue
        signs = (1, -1) if fact.relation == "==" else (1,)
        for sign in signs:
            # terms = sign·fact + rest with the fact not negative
            if range_of(plus(terms, fact.size.terms, -sign))[0] >= (0 if relation == ">=" else 1):
                return relation in (">=", "!=")
            if range_of(plus(terms, fact.size.terms, sign))[1] < 0:
                return relation == "!="
    return None


def _compare(relation: str, terms: Terms) -> bool:
    """Answer a comparison of a sum with 0; if it depends on the size, as it is at the hint, with a guard."""
    answer = _sure(relation, terms)
    if answer is not None:
        return answer
    guards = _collected.get()
    if guards is None:
        if relation != ">=" and _surely.get():
            return relation == "!="
        raise Undecided(f"whether {written(terms)} {relation} 0 depends on the size")
    now = replaced(terms)
    answer = now == 0 if relation == "==" else now != 0 if relation == "!=" else now >= 0
    if answer:
        noted = Guard(relation, Size._of(_normal(relation, terms)))
    elif relation == ">=":
        noted = Guard(">=", Size._of(_normal(">=", plus(times(terms, _terms(-1)), _terms(-1)))))
    else:
        other = "!=" if relation == "==" else "=="
        noted = Guard(other, Size._of(_normal(other, terms)))
    if noted not in guards:
        guards.append(noted)
    return answer


# --- sizes --------------------------------------------------------------------------------------------------

_spelling: ContextVar[Callable[[Size], str]] = ContextVar("spelling", default=str)


@contextlib.contextmanager
def spelled(spelling: Callable[[Size], str]) -> Iterator[None]:
    """Have Sizes in text (f"{n}") written in a way of one's own: as a register of a kernel, say."""
    token = _spelling.set(spelling)
    try:
        yield
    finally:
        _spelling.reset(token)


if TYPE_CHECKING:
    _Int = int  # what passes for an int is one to who reads types
else:
    _Int = object


class Size(_Int):
    """An int that varies: `terms` says how it comes about; what it was while recording, is its `hint`.

    It passes for an int (isinstance), but is none: what is written in C (range, a list's index, NumPy) would read the
    digits of one and ask nobody. So it has to ask for the number by a method, and that is noted, or a mistake.
    """

    __slots__ = ("terms",)

    terms: Terms
    __class__ = property(lambda self: int)

    @classmethod
    def _of(cls, terms: Terms) -> Any:
        """Return a sum as a Size, or as an int if it is one."""
        number = constant(terms)
        if number is not None:
            return number
        size = object.__new__(cls)
        size.terms = terms
        return size

    @property
    def symbols(self) -> list[Symbol]:
        """What it depends on."""
        return symbols_of(self)

    # --- arithmetic: what any other int would do, but for the symbols

    def __add__(self, other: Any) -> Any:
        return Size._of(plus(self.terms, _terms(other))) if _is_whole(other) else self._mixed("add", other)

    def __radd__(self, other: Any) -> Any:
        return self + other if _is_whole(other) else self._mixed("add", other, True)

    def __sub__(self, other: Any) -> Any:
        return (
            Size._of(plus(self.terms, _terms(other), -1)) if _is_whole(other) else self._mixed("sub", other)
        )

    def __rsub__(self, other: Any) -> Any:
        return (
            Size._of(plus(_terms(other), self.terms, -1))
            if _is_whole(other)
            else self._mixed("sub", other, True)
        )

    def __mul__(self, other: Any) -> Any:
        return Size._of(times(self.terms, _terms(other))) if _is_whole(other) else self._mixed("mul", other)

    def __rmul__(self, other: Any) -> Any:
        return self * other if _is_whole(other) else self._mixed("mul", other, True)

    def __neg__(self) -> Any:
        return self * -1

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return self if self >= 0 else -self

    def __floordiv__(self, other: Any) -> Any:
        return _floor_divide(self, other) if _is_whole(other) else self._mixed("floordiv", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _floor_divide(other, self) if _is_whole(other) else self._mixed("floordiv", other, True)

    def __mod__(self, other: Any) -> Any:
        return self - _floor_divide(self, other) * other if _is_whole(other) else self._mixed("mod", other)

    def __rmod__(self, other: Any) -> Any:
        return (
            other - _floor_divide(other, self) * self if _is_whole(other) else self._mixed("mod", other, True)
        )

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self

    def __pow__(self, exponent: Any, modulus: Any = None) -> Any:
        if modulus is None and type(exponent) is int and exponent >= 0:
            return math.prod([self] * exponent)
        return self.number**exponent if modulus is None else pow(self._number(), exponent, modulus)

    def __lshift__(self, by: Any) -> Any:
        return self * (1 << by)

    # --- comparisons

    def __eq__(self, other: object) -> bool:
        if not _is_whole(other):
            return self._mixed("eq", other)
        return _compare("==", plus(self.terms, _terms(other), -1))

    def __ne__(self, other: object) -> bool:
        if not _is_whole(other):
            return self._mixed("ne", other)
        return _compare("!=", plus(self.terms, _terms(other), -1))

    def __ge__(self, other: Any) -> bool:
        return (
            _compare(">=", plus(self.terms, _terms(other), -1))
            if _is_whole(other)
            else self._mixed("ge", other)
        )

    def __le__(self, other: Any) -> bool:
        return (
            _compare(">=", plus(_terms(other), self.terms, -1))
            if _is_whole(other)
            else self._mixed("le", other)
        )

    def __gt__(self, other: Any) -> bool:
        return not self <= other if _is_whole(other) else self._mixed("gt", other)

    def __lt__(self, other: Any) -> bool:
        return not self >= other if _is_whole(other) else self._mixed("lt", other)

    def __bool__(self) -> bool:
        return self != 0

    def __hash__(self) -> int:
        # While a function is recorded it may be looked up among plain numbers.
        return hash(self.terms) if _collected.get() is None else hash(self._number())

    # --- what asks for the number itself, and so takes it for granted

    def _number(self) -> int:
        """Return the hint as a plain int, having noted that it is to be this; a mistake where nobody notes it."""
        collected: Any = _collected.get()
        number = hint(self)
        if hasattr(collected, "need") and _sure("==", plus(self.terms, _terms(number), -1)) is not True:
            collected.need(self)
        _compare("==", plus(self.terms, _terms(number), -1))
        return number

    def __int__(self) -> int:
        return self._number()

    __index__ = __trunc__ = __floor__ = __ceil__ = __int__

    def __float__(self) -> float:
        return float(self._number())

    def __complex__(self) -> complex:
        return complex(self._number())

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        return np.asarray(self._number(), dtype)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        for each in inputs:
            if hasattr(each, "__minitorch_op__"):  # an array that records: a size beside it is an operand
                return each.__array_ufunc__(ufunc, method, *inputs, **options)
        plain = [each._number() if type(each) is Size else each for each in inputs]
        return getattr(ufunc, method)(*plain, **options)

    # Whoever collects may have numbers with fractions that vary too, for what is no polynomial any more, and arrays
    # that are recorded, like which others are made whose lengths vary.

    @property
    def number(self) -> Any:
        """The same as a number of another kind, which computes with fractions; the plain one, if there is none."""
        collected: Any = _collected.get()
        return collected.number(self) if hasattr(collected, "number") else self._number()

    @property
    def like(self) -> Any:
        """What an array that is made of it is like."""
        return getattr(_collected.get(), "like", None)

    def _mixed(self, name: str, other: Any, reflected: bool = False) -> Any:
        if not isinstance(other, (int, float, complex)):
            return NotImplemented
        operands = (other, self.number) if reflected else (self.number, other)
        return getattr(operator, name)(*operands)

    def __truediv__(self, other: Any) -> Any:
        return self.number / other

    def __rtruediv__(self, other: Any) -> Any:
        return other / self.number

    def __rpow__(self, base: Any, modulus: Any = None) -> Any:
        if modulus is None and isinstance(base, float):
            return base**self.number
        return pow(base, self._number(), modulus)

    def __and__(self, other: Any) -> Any:
        return self._number() & other

    def __or__(self, other: Any) -> Any:
        return self._number() | other

    def __xor__(self, other: Any) -> Any:
        return self._number() ^ other

    def __rshift__(self, by: Any) -> Any:
        return self // (1 << by)

    def __rlshift__(self, other: Any) -> Any:
        return other << self._number()

    def __rrshift__(self, other: Any) -> Any:
        return other >> self._number()

    __rand__, __ror__, __rxor__ = __and__, __or__, __xor__

    def __invert__(self) -> Any:
        return -self - 1

    def __round__(self, digits: Any = None) -> Any:
        return self if digits is None or digits >= 0 else round(self._number(), digits)

    def bit_length(self) -> int:
        """Return how many bits it needs."""
        return self._number().bit_length()

    # --- in words

    def __str__(self) -> str:
        # While a function is recorded it is the function that asks, and is told the number.
        return written(self.terms) if _collected.get() is None else str(self._number())

    __repr__ = __str__

    def __format__(self, spec: str) -> str:
        if _collected.get() is not None:
            return format(self._number(), spec)
        return format(_spelling.get()(self), spec)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a size that varies belongs to the recording in which it was met")


def _is_whole(number: Any) -> bool:
    """Whether something is an int, and not merely passes for one."""
    return issubclass(type(number), (int, Size))


def _floor_divide(a: int, b: int) -> Any:
    if b < 0:
        a, b = -a, -b
    if not b:
        raise ZeroDivisionError("a size divided by zero")
    return Size._of(floored(_terms(a), _terms(b)))


# --- questions ----------------------------------------------------------------------------------------------


def hint(number: int) -> int:
    """Return a size as it was while recording: for estimates, not for what has to be right."""
    return replaced(number.terms) if isinstance(number, Size) else number


def typical(number: int) -> int:
    """Return a size as it often is: for estimates, not for what has to be right."""
    if not isinstance(number, Size):
        return number
    usual = {s: max(s.hint, USUAL) if s.typical is None else s.typical for s in symbols_of(number)}
    try:
        found = replaced(number.terms, usual)
    except ZeroDivisionError:
        found = 0
    return found if found > 0 else hint(number)  # (all of them together may be no sizes of a call: n - k)


def hints(shape: Sequence[int]) -> tuple[int, ...]:
    """Return a shape as it was while recording."""
    return tuple([replaced(n.terms) if type(n) is Size else n for n in shape])


def is_fixed(*numbers: int) -> bool:
    """Whether all are plain numbers."""
    return not any(isinstance(n, Size) for n in numbers)


def surely_equal(a: Any, b: Any) -> bool:
    """Whether two sizes, or two shapes, are equal whatever the symbols are."""
    if a is b:
        return True
    if isinstance(a, (tuple, list)):
        return len(a) == len(b) and all(x is y or surely_equal(x, y) for x, y in zip(a, b, strict=True))
    if type(a) is Size or type(b) is Size:
        return _sure("==", plus(_terms(a), _terms(b), -1)) is True
    return bool(a == b)


def surely_different(a: int, b: int) -> bool:
    """Whether two sizes are different whatever the symbols are."""
    if isinstance(a, Size) or isinstance(b, Size):
        return _sure("==", plus(_terms(a), _terms(b), -1)) is False
    return a != b


def surely_less(a: int, b: int) -> bool:
    """Whether one size is less than another whatever the symbols are."""
    if isinstance(a, Size) or isinstance(b, Size):
        return _sure(">=", plus(_terms(a), _terms(b), -1)) is False
    return a < b


def surely_at_most(a: int, b: int) -> bool:
    """Whether one size is at most another whatever the symbols are."""
    return surely_less(a, b + 1)


def surely_multiple(a: int, b: int) -> bool:
    """Whether one size is a multiple of another whatever the symbols are."""
    return surely_equal(a % b, 0)


def limits(number: int) -> tuple[float, float]:
    """Return numbers between which a size lies; infinite, where nothing is known."""
    return range_of(number.terms) if isinstance(number, Size) else (number, number)


# --- symbols replaced ---------------------------------------------------------------------------------------


def symbols_of(anything: Any) -> list[Symbol]:
    """Return the symbols in a size, a shape, or what else holds sizes; in the order of their first place."""
    found: dict[Symbol, None] = {}

    def look(terms: Terms) -> None:
        for monomial, _ in terms:
            for atom in monomial:
                if isinstance(atom, Quotient):
                    look(atom.dividend)
                    look(atom.divisor)
                else:
                    assert isinstance(atom, Symbol)
                    found[atom] = None

    stack = [anything]
    while stack:
        each = stack.pop()
        if isinstance(each, Size):
            look(each.terms)
        elif isinstance(each, (tuple, list)):
            stack.extend(reversed(each))
        elif isinstance(each, dict):
            stack.extend(reversed(each.values()))
    return list(found)


def evaluated(anything: Any, binding: Binding) -> Any:
    """Return sizes with all symbols replaced, by numbers or by other sizes: a shape, attributes, or one alone.

    >>> n = Symbol("n", 5)
    >>> evaluated((n.size * 2, 7, "add"), {n: 3})
    (6, 7, 'add')
    """
    if isinstance(anything, Size):
        missing = [str(s) for s in symbols_of(anything) if s not in binding]
        if missing:
            raise KeyError(f"{anything}: nothing is given for {', '.join(missing)}")
        return replaced(anything.terms, binding)
    if type(anything) in (tuple, list):
        return type(anything)([evaluated(each, binding) for each in anything])
    if type(anything) is dict:
        return {name: evaluated(each, binding) for name, each in anything.items()}
    return anything


def formulas(sizes: Sequence[int], symbols: Sequence[Symbol]) -> Callable[..., tuple[int, ...]]:
    """Return a function that takes what symbols are, in their order, and gives all of some sizes at once.

    >>> n, m = Symbol("n", 5), Symbol("m", 3)
    >>> formulas([n.size * 2, 7, (n.size + m.size) // 2], [n, m])(4, 5)
    (8, 7, 4)
    """
    names: dict[Variable, str] = {symbol: f"n{number}" for number, symbol in enumerate(symbols)}

    def source(terms: Terms) -> str:
        return "+".join("*".join([str(c), *map(atom, monomial)]) for monomial, c in terms) or "0"

    def atom(part: Atom) -> str:
        if isinstance(part, Quotient):
            return f"(({source(part.dividend)})//({source(part.divisor)}))"
        return names[part]

    text = "".join(f"{source(_terms(n))}," for n in sizes)
    return eval(f"lambda {', '.join(names.values())}: ({text})")
