"""Plots as SVG that takes its colours from the page. Enters: rows. Leaves: SVG text, light and dark alike."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass

from minitorch.app.bench.plan import SECONDS
from minitorch.app.bench.results import Row
from minitorch.app.bench.table import quantity, three_digits

WIDTH, HEIGHT = 460, 320
LEFT, RIGHT, TOP, BOTTOM = 62, 14, 12, 46


@dataclass
class Line:
    """A line on a log-log plot; a limit is dashed and has no marks."""

    name: str
    points: list[tuple[float, float]]
    kind: str  # the CSS class that colours it
    limit: bool = False


def kind(contender: str) -> str:
    """Return the CSS class of a contender.

    >>> kind("minitorch eager"), kind("PyTorch")
    ('c-minitorch-eager', 'c-pytorch')
    """
    return "c-" + "".join(c if c.isalnum() else "-" for c in contender.lower())


# Not by colour alone: each contender has a mark of its own, too.
MARKS = {
    "c-minitorch": "circle", "c-minitorch-compiled": "circle", "c-minitorch-eager": "ring", "c-pytorch": "square",
    "c-jax": "triangle", "c-mygrad": "diamond", "c-autograd": "cross", "c-numpy": "dash",
}  # fmt: skip


def mark(kind: str, x: float, y: float) -> str:
    """Draw a contender's mark."""
    shapes = {
        "circle": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4"/>',
        "ring": f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.6" class="hollow"/>',
        "square": f'<rect x="{x - 3.4:.1f}" y="{y - 3.4:.1f}" width="6.8" height="6.8"/>',
        "triangle": f'<path d="M{x:.1f} {y - 4.6:.1f}l4.6 8h-9.2z"/>',
        "diamond": f'<path d="M{x:.1f} {y - 5:.1f}l5 5l-5 5l-5 -5z"/>',
        "cross": f'<path class="stroke" d="M{x - 3.6:.1f} {y - 3.6:.1f}l7.2 7.2m0 -7.2l-7.2 7.2"/>',
        "dash": f'<rect x="{x - 5:.1f}" y="{y - 1.5:.1f}" width="10" height="3"/>',
    }
    return shapes[MARKS.get(kind, "diamond")]


def short(value: float) -> str:
    """Write a size for an axis.

    >>> [short(v) for v in (1, 64, 1000, 2048, 10_000_000)]
    ['1', '64', '1k', '2048', '10M']
    """
    for scale, name in ((1e6, "M"), (1e3, "k")):
        if value >= scale and value % scale == 0:
            return f"{value / scale:g}{name}"
    return f"{value:g}"


def log_log(lines: Sequence[Line], x_title: str, unit: str, label: str) -> str:
    """Draw lines with both axes logarithmic: equal steps are equal factors, so a straight line is a power."""
    drawn = [line for line in lines if line.points]
    measured = [y for line in drawn if not line.limit for _, y in line.points]
    xs = sorted({x for line in drawn for x, _ in line.points})
    if not measured or not xs:
        return ""
    x0, x1 = math.log10(xs[0]), math.log10(xs[-1])
    if x0 == x1:
        x0, x1 = x0 - 0.5, x1 + 0.5
    # A limit far below what anyone reaches must not squeeze the lines that matter into a corner.
    lowest = max(min(y for line in drawn for _, y in line.points), min(measured) / 4)
    y0, y1 = math.floor(math.log10(lowest)), math.ceil(math.log10(max(measured)) + 1e-9)
    y1 = max(y1, y0 + 1)

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log10(x) - x0) / (x1 - x0)
        up = (math.log10(y) - y0) / (y1 - y0)
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{html.escape(label)}">']
    for power in range(y0, y1 + 1):
        _, y = place(xs[0], 10.0**power)
        parts.append(f'<path class="grid" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
        parts.append(_text("tick", LEFT - 6, y + 4, "end", tick(power, unit)))
    last = -math.inf
    for value in xs:
        x, _ = place(value, 10.0**y0)
        parts.append(f'<path class="grid faint" d="M{x:.1f} {TOP}V{HEIGHT - BOTTOM}"/>')
        if x - last >= 34:
            last = x
            place_x = min(x, WIDTH - RIGHT - 8)
            parts.append(_text("tick", place_x, HEIGHT - BOTTOM + 17, "middle", short(value)))
    parts.append(_text("axis", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 8, "middle", x_title))
    parts.append(
        f'<clipPath id="{_key(label)}"><rect x="{LEFT - 6}" y="{TOP - 6}" width="{WIDTH - LEFT - RIGHT + 12}" '
        f'height="{HEIGHT - TOP - BOTTOM + 6}"/></clipPath><g clip-path="url(#{_key(label)})">'
    )
    for line in sorted(drawn, key=lambda line: not line.limit):
        path = "L".join("{:.1f} {:.1f}".format(*place(x, y)) for x, y in line.points)
        style = "line limit" if line.limit else "line"
        parts.append(f'<g class="{line.kind}"><path class="{style}" d="M{path}"/>')
        for x, y in [] if line.limit else line.points:
            title = html.escape(f"{line.name}, {short(x)}: {quantity(y, unit)}")
            parts.append(f"<g><title>{title}</title>{mark(line.kind, *place(x, y))}</g>")
        parts.append("</g>")
    return "".join([*parts, "</g></svg>"])


def _text(style: str, x: float, y: float, anchor: str, words: str) -> str:
    return f'<text class="{style}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(words)}</text>'


def _key(label: str) -> str:
    return "clip-" + "".join(c if c.isalnum() else "-" for c in label.lower())


def tick(power: int, unit: str) -> str:
    """Name a power of ten on an axis.

    >>> tick(-6, "seconds"), tick(-4, "seconds"), tick(7, "bytes")
    ('1 µs', '100 µs', '10 MB')
    """
    return quantity(10.0**power, unit).replace(".00", "").replace(".0", "")


def legend(lines: Sequence[Line]) -> str:
    """Name the lines above a plot."""
    items = []
    for line in lines:
        if not line.points:
            continue
        sample = '<path class="line limit" d="M0 6h18"/>' if line.limit else mark(line.kind, 9, 6)
        key = f'<svg class="key {line.kind}" width="18" height="12" aria-hidden="true">{sample}</svg>'
        items.append(f"<span>{key}{html.escape(line.name)}</span>")
    return f'<div class="legend">{"".join(items)}</div>'


def bars(row: Row, least: tuple[float, str] | None = None) -> str:
    """Draw a bar per contender, with its number and how many times ours it is; the thin end is the middle round.

    Positions are shares of the width, so that the letters keep their size on a phone. `least`: what the machine
    itself would need, drawn as a dashed line.
    """
    names = sorted(row.present, key=row.best)
    ours = row.ours
    ends = {name: row.best(name) * (1 + row.spread(name)) for name in names}
    longest = max(ends.values())
    share = 40.0 / longest  # the rest of the width is for the numbers
    height = 22 * len(names)
    parts = [
        f'<svg class="bars" width="100%" height="{height}" role="img" aria-label="{html.escape(row.name)}">'
    ]
    words = []
    for i, name in enumerate(names):
        y = 22 * i
        best = row.best(name)
        noise = (ends[name] - best) * share
        times = "" if ours in (None, name) else f" · {three_digits(best / row.best(ours or name))}×"
        word = html.escape(f"{name} {quantity(best, row.unit)}{times}")
        parts.append(
            f'<g class="{kind(name)}"><title>{html.escape(_rounds(row, name))}</title>'
            f'<rect x="0" y="{y + 3}" width="{max(0.3, best * share):.2f}%" height="15" rx="2.5"/>'
            f'<rect class="noise" x="{best * share:.2f}%" y="{y + 9}" width="{noise:.2f}%" height="3"/></g>'
        )
        words.append(
            f'<svg x="{best * share + noise:.2f}%" y="{y}"><text class="value" x="7" y="15">{word}</text></svg>'
        )
    if least is not None and 0 < least[0] <= longest:
        at = least[0] * share
        parts.append(
            f'<g class="c-limit"><title>{html.escape(least[1])}</title>'
            f'<line class="limit" x1="{at:.2f}%" x2="{at:.2f}%" y1="0" y2="{height}"/></g>'
        )
    return "".join([*parts, *words, "</svg>"])  # (words last: a dashed line must not go through them)


def _rounds(row: Row, name: str) -> str:
    rounds = ", ".join(quantity(value, row.unit) for value in row.values[name])
    spread = f", the middle {'round' if row.unit == SECONDS else 'value'} {row.spread(name):+.0%}"
    return f"{name}: {rounds}{spread}"
