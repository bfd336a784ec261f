"""Results in a terminal. Enters: results, a comparison. Leaves: text."""

from __future__ import annotations

import math

from minitorch.app.bench.plan import BYTES, INSTRUCTIONS, SECONDS
from minitorch.app.bench.results import Results, Row, RunComparison, Section, busy, in_a_line

SCALES = {
    SECONDS: ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
    BYTES: ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")),
    INSTRUCTIONS: ((1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")),
}


def quantity(value: float, unit: str) -> str:
    """Write a number so that a person can read it.

    >>> quantity(0.00000123, "seconds"), quantity(2.5, "seconds"), quantity(3.2e8, "bytes")
    ('1.23 µs', '2.50 s', '320 MB')
    """
    if math.isnan(value):
        return "–"
    for scale, name in SCALES[unit]:
        # Half a unit in the last place below 1 is written as 1 already.
        if value >= 0.9995 * scale:
            return f"{three_digits(value / scale)} {name}".rstrip()
    return f"{value:.3g} {'s' if unit == SECONDS else ''}".rstrip()


def three_digits(value: float) -> str:
    """Write three digits that count, never an exponent.

    >>> three_digits(1.234), three_digits(12.34), three_digits(1234)
    ('1.23', '12.3', '1,234')
    """
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}"


def noise(row: Row) -> float:
    """The largest spread of a row's contenders; nan where each has one round only, which tells nothing."""
    several = [name for name in row.present if len(row.values[name]) > 1]
    return max((row.spread(name) for name in several), default=math.nan)


def text(results: Results) -> str:
    """Return every section as a table."""
    lines = [in_a_line(results.machine)]
    lines.append(results.versions_in_a_line())
    lines += [warning] if (warning := busy(results.machine)) else []
    lines += limits(results)
    for section in results.sections.values():
        lines += ["", *_section(section)]
    if results.left_out:
        lines += ["", "left out:", *(f"  {line}" for line in results.left_out)]
    if not results.finished:
        lines += ["", "The run was interrupted: these are the numbers so far."]
    return "\n".join(lines)


def limits(results: Results) -> list[str]:
    """Tell what the machine itself can do, as far as it was measured."""
    lines = []
    for threads in sorted({section.threads for section in results.sections.values()}):
        flops, traffic = results.limit("flops", threads), results.limit("traffic", threads)
        if flops and traffic:
            words = f"{flops / 1e9:.0f} GFLOP/s in a large matmul, {traffic / 1e9:.1f} GB/s when copying"
            lines.append(f"this machine, {in_threads(threads)}: {words}")
    return lines


def _section(section: Section) -> list[str]:
    names = section.contenders
    wide = max([len(row) for row in section.rows] + [len(section.title)])
    columns = {name: max(11, len(name) + 2) for name in names}
    threads = f"{in_threads(section.threads)}; " if section.threads else ""
    lines = [f"{section.title} ({threads}best round of each, less is better)"]
    header = f"{'':{wide}}" + "".join(f"{name:>{columns[name]}}" for name in names)
    aims = any(row.goal is not None for row in section.rows.values())
    lines.append(header + f"{'best peer / minitorch':>24}{'noise':>8}" + f"{'goal':>11}" * aims)
    for row in section.rows.values():
        cells = "".join(f"{quantity(row.best(name), row.unit):>{columns[name]}}" for name in names)
        ratio = "" if math.isnan(row.ratio) else f"{three_digits(row.ratio)}×"
        spread = noise(row)
        noise_words = "" if math.isnan(spread) else f"{spread:+.0%}"
        goal = "" if row.goal is None else quantity(row.goal, row.unit)
        lines.append(f"{row.name:{wide}}{cells}{ratio:>24}{noise_words:>8}{goal:>11}".rstrip())
    return lines


def in_threads(count: int) -> str:
    """Say how many threads there are.

    >>> in_threads(1), in_threads(8)
    ('1 thread', '8 threads')
    """
    return "1 thread" if count == 1 else f"{count} threads"


def markdown(results: Results) -> str:
    """Return the few rows that stand for all, as a table for a README, and where the numbers come from."""
    rows = [row for _, row in results.rows() if row.headline]
    lines = ["| | minitorch | best peer | best peer / minitorch |", "|---|---|---|---|"]
    for row in rows:
        if row.ours is None or row.best_peer is None:
            continue
        ours, peer = quantity(row.best(row.ours), row.unit), quantity(row.best(row.best_peer), row.unit)
        lines.append(f"| {row.name} | {ours} | {peer} ({row.best_peer}) | {three_digits(row.ratio)}× |")
    command = results.options.get("command", "minitorch bench")
    where = f"`{command}`, {results.machine.get('date', '')[:10]}: {in_a_line(results.machine)}."
    return "\n".join([*lines, "", where, f"{results.versions_in_a_line()}."])


def compared(comparison: RunComparison) -> str:
    """Say what became slower and what faster, beyond the noise."""
    lines = []
    for name, factor in comparison.drift.items():
        if abs(factor - 1) > 0.02:
            lines.append(f"{name}: the peers, unchanged, take {factor:.2f}× as long as then; taken off below")
    for word, changes in (("slower", comparison.slower), ("faster", comparison.faster)):
        for c in changes:
            what = c.row if c.contender == "minitorch" else f"{c.row}, {c.contender}"
            was, now = quantity(c.old, c.unit), quantity(c.new, c.unit)
            size = "more" if word == "slower" else "less"
            verb = word if c.unit == SECONDS else size
            lines.append(
                f"{verb:7}{c.factor:6.2f}×  {c.section}: {what}  ({was} → {now}, noise {c.noise:.0%})"
            )
    counts = f"{len(comparison.slower)} slower, {len(comparison.faster)} faster"
    lines.append(f"{len(comparison.changes)} rows compared: {counts} beyond the noise")
    return "\n".join(lines)
