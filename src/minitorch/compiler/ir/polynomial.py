"""Sums of products of numbers that vary, in one written form. Enters: sums. Leaves: sums, and what is sure of them.

`sizes.py` has ints made of these. A product may have floor quotients among its factors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

INFINITE = math.inf
LEAST = 2  # sizes 0 and 1 are never symbols: whether an axis is empty, or stretches, is known beforehand
GREATEST = (1 << 31) - 1  # nor are larger ints: what is computed of them stays a machine's number


@dataclass(frozen=True)
class Variable:
    """A number that varies.

    hint: its value while recording. least, greatest: the values that it may have. typical: one that it often has, for
    which to plan; if nothing is said, the hint, unless that is small: what varies will hardly stay so.
    """

    name: str
    hint: int
    least: int = LEAST
    greatest: int | None = None
    typical: int | None = None

    def __hash__(self) -> int:
        return hash(self.name)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Quotient:
    """The whole part of a quotient that is no polynomial; the divisor is positive."""

    dividend: Terms
    divisor: Terms

    def __str__(self) -> str:
        over = written(self.divisor) if len(self.divisor) == 1 else f"({written(self.divisor)})"
        plain = len(self.dividend) == 1 and self.dividend[0][1] == 1
        under = written(self.dividend) if plain else f"({written(self.dividend)})"
        return f"{under}//{over}" if "*" not in over else f"{under}//({over})"


Atom = Variable | Quotient
Monomial = tuple[Atom, ...]  # a product, in the order of the atoms' names
# A sum: products with their factors, none of them 0, in the order in which they are written.
Terms = tuple[tuple[Monomial, int], ...]


# --- sums of products ---------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _key(monomial: Monomial) -> tuple[int, tuple[str, ...]]:
    return -len(monomial), tuple(str(atom) for atom in monomial)


def summed(terms: Mapping[Monomial, int]) -> Terms:
    """Return a sum in its one written form: the longest products first, a plain number last."""
    return tuple(sorted(((m, c) for m, c in terms.items() if c), key=lambda term: _key(term[0])))


def number(n: int) -> Terms:
    """Return a plain number as a sum."""
    return (((), n),) if n else ()


def plus(a: Terms, b: Terms, factor: int = 1) -> Terms:
    """Return a + b·factor."""
    out = dict(a)
    for monomial, c in b:
        out[monomial] = out.get(monomial, 0) + c * factor
    return summed(out)


@lru_cache(maxsize=4096)
def times(a: Terms, b: Terms) -> Terms:
    """Return a·b."""
    out: dict[Monomial, int] = {}
    for m, c in a:
        for n, d in b:
            both = tuple(sorted(m + n, key=str))
            out[both] = out.get(both, 0) + c * d
    return summed(out)


def constant(terms: Terms) -> int | None:
    """Return the number that a sum is, if it is one."""
    if not terms:
        return 0
    return terms[0][1] if len(terms) == 1 and not terms[0][0] else None


@lru_cache(maxsize=4096)
def floored(a: Terms, b: Terms) -> Terms:
    """Return a // b; b must be positive."""
    divisor = constant(b)
    if divisor == 1 or not a:
        return a
    if divisor is not None and a[0][1] < 0:  # -x // n = -((x + n - 1) // n)
        up = floored(plus(number(divisor - 1), a, -1), b)
        return times(up, number(-1))
    whole, rest = _divided(a, b)
    if range_of(rest)[0] >= 0 and range_of(plus(b, rest, -1))[0] > 0:  # 0 ≤ rest < b
        return whole
    if divisor is None:
        return plus(whole, (((Quotient(rest, b),), 1),))
    common = math.gcd(divisor, *(c for m, c in rest if m))
    if common > 1:  # (g·x + c) // (g·n) = (x + c // g) // n
        reduced = summed({m: c // common for m, c in rest})
        return plus(whole, floored(reduced, number(divisor // common)))
    if len(rest) == 1 and rest[0][1] == 1 and len(rest[0][0]) == 1 and isinstance(rest[0][0][0], Quotient):
        inner = rest[0][0][0]  # (x // m) // n
        if constant(inner.divisor) is not None:
            return plus(whole, floored(inner.dividend, times(inner.divisor, b)))
    return plus(whole, (((Quotient(rest, b),), 1),))


def _divided(a: Terms, b: Terms) -> tuple[Terms, Terms]:
    """Return whole and rest of a division by the leading product: a = whole·b + rest."""
    leading, factor = b[0]
    whole: Terms = ()
    rest = a
    for monomial, _ in a:
        c = dict(rest).get(monomial, 0)
        missing = _without(monomial, leading)
        if missing is None or c // factor == 0:
            continue
        step = ((missing, c // factor),)
        whole = plus(whole, step)
        rest = plus(rest, times(step, b), -1)
    return whole, rest


def _without(product: Monomial, part: Monomial) -> Monomial | None:
    """Return a product divided by another, if it has all of its atoms."""
    left = list(product)
    for atom in part:
        if atom not in left:
            return None
        left.remove(atom)
    return tuple(left)


def written(terms: Terms) -> str:
    """Return a sum as people write it.

    >>> n = Variable("n", 5)
    >>> written((((n,), 4), ((), 2))), written((((n,), -1), ((), 1)))
    ('4*n + 2', '-n + 1')
    """
    out = ""
    for monomial, c in terms:
        sign = "-" if c < 0 else "+"
        product = "*".join(
            f"({a})" if isinstance(a, Quotient) and len(monomial) > 1 else str(a) for a in monomial
        )
        if c != 1 and len(monomial) == 1 and isinstance(monomial[0], Quotient):
            product = f"({product})"
        if abs(c) != 1 or not monomial:
            product = f"{abs(c)}*{product}" if monomial else str(abs(c))
        out += f" {sign} {product}" if out else f"-{product}" if c < 0 else product
    return out or "0"


# --- what is known about one, whatever its symbols are --------------------------------------------------------


@lru_cache(maxsize=8192)
def range_of(terms: Terms) -> tuple[float, float]:
    """Return numbers between which a sum lies for all values of its symbols."""
    low, high = _range_of_parts(terms)
    for change in (_from_the_least, _without_quotients):
        also_low, also_high = change(terms)
        low, high = max(low, also_low), min(high, also_high)
    return low, high


def _range_of_parts(terms: Terms) -> tuple[float, float]:
    """Return the range if every product were free of the others."""
    low = high = 0.0
    for monomial, c in terms:
        least, greatest = 1.0, 1.0
        for atom in monomial:
            a, b = _atom_range(atom)
            ends = [_product(x, y) for x in (least, greatest) for y in (a, b)]
            least, greatest = min(ends), max(ends)
        ends = [_product(c, least), _product(c, greatest)]
        low, high = low + min(ends), high + max(ends)
    return low, high


def _product(x: float, y: float) -> float:
    return 0.0 if not x or not y else x * y


def _atom_range(atom: Atom) -> tuple[float, float]:
    if isinstance(atom, Variable):
        return atom.least, INFINITE if atom.greatest is None else atom.greatest
    (a, b), (c, d) = range_of(atom.dividend), range_of(atom.divisor)
    c = max(c, 1)
    ends = [_whole(x, y) for x in (a, b) for y in (c, d)]
    return min(ends), max(ends)


def _whole(x: float, y: float) -> float:
    if math.isinf(x):
        return x if not math.isinf(y) else math.copysign(INFINITE, x)
    if math.isinf(y):
        return 0.0 if x >= 0 else -1.0
    return float(int(x) // int(y))


def _from_the_least(terms: Terms) -> tuple[float, float]:
    """Return the range of a sum in which each atom is its least value and something that is not negative.

    (s·t - s is s·(t - 1), and never negative: with s = 2 + a, t = 2 + b it is ab + a + 2b + 2.)
    """
    atoms = dict.fromkeys(a for monomial, _ in terms for a in monomial)
    least = {a: _atom_range(a)[0] for a in atoms}
    if any(math.isinf(n) for n in least.values()):
        return -INFINITE, INFINITE
    moved: dict[Monomial, int] = {}
    for monomial, c in terms:
        product: dict[Monomial, int] = {(): c}
        for atom in monomial:
            grown: dict[Monomial, int] = {}
            for m, d in product.items():
                both = tuple(sorted((*m, atom), key=str))
                grown[both] = grown.get(both, 0) + d
                grown[m] = grown.get(m, 0) + d * int(least[atom])
            product = grown
        for m, d in product.items():
            moved[m] = moved.get(m, 0) + d
    number = moved.pop((), 0)
    return (
        number if all(c >= 0 for c in moved.values()) else -INFINITE,
        number if all(c <= 0 for c in moved.values()) else INFINITE,
    )


def _without_quotients(terms: Terms) -> tuple[float, float]:
    """Return the range of a sum in which x // n is (x - r) / n, with 0 ≤ r < n."""
    low = high = Fraction(0)
    rest: dict[Monomial, Fraction] = {}
    found = False
    for monomial, c in terms:
        divisor = None
        if len(monomial) == 1 and isinstance(monomial[0], Quotient):
            divisor = constant(monomial[0].divisor)
        if divisor is None:
            rest[monomial] = rest.get(monomial, Fraction(0)) + c
            continue
        found = True
        quotient = monomial[0]
        assert isinstance(quotient, Quotient)
        share = Fraction(c, divisor)
        for m, d in quotient.dividend:
            rest[m] = rest.get(m, Fraction(0)) + d * share
        if c > 0:
            low -= share * (divisor - 1)
        else:
            high -= share * (divisor - 1)
    if not found:
        return -INFINITE, INFINITE
    scale = math.lcm(*(f.denominator for f in rest.values()), low.denominator, high.denominator)
    least, greatest = range_of(summed({m: int(f * scale) for m, f in rest.items()}))
    return (
        least if math.isinf(least) else math.ceil((Fraction(least) + low * scale) / scale),
        greatest if math.isinf(greatest) else math.floor((Fraction(greatest) + high * scale) / scale),
    )


def replaced(terms: Terms, values: Mapping[Any, Any] | None = None) -> Any:
    """Return a sum with all that varies replaced; by its hint, if nothing is given."""
    total = 0
    for monomial, product in terms:
        for atom in monomial:
            if isinstance(atom, Variable):
                product = product * (values[atom] if values else atom.hint)
            else:
                product = product * (replaced(atom.dividend, values) // replaced(atom.divisor, values))
        total = total + product
    return total
