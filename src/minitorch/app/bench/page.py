"""Results as one page that needs nothing else. Enters: results. Leaves: HTML with its plots inside."""

from __future__ import annotations

import html
import math
from collections import Counter

from minitorch.app.bench import charts
from minitorch.app.bench.plan import SECONDS
from minitorch.app.bench.results import Results, Row, Section, busy, in_a_line, is_ours
from minitorch.app.bench.table import in_threads, limits, noise, quantity, three_digits

RATIO = (
    "A <b>ratio</b> on a bar is that contender's time over minitorch's: 2× takes twice as long, 0.5× half."
)
GOAL = "<b>Dashed lines</b> are what was aimed at on one H200."
RULES = (
    "Every contender runs in a process of its own. They are asked in turn, round after round, and the <b>best "
    "round</b> of each counts: the one the machine disturbed least. How far the middle round lies above the best one "
    "is the <b>noise</b>, drawn as the thin end of a bar and written in the tables; a smaller difference says nothing.",
    "Each has warmed up before it is timed, except where the first time is what is measured, and has the same number "
    "of threads, written at each section. Numbers are float32. Python's garbage collector stays on, as in a person's "
    "program.",
    RATIO,
    "<b>Compiled steps:</b> minitorch compiles the whole step with <code>compile</code>, JAX with <code>jit</code>, "
    "PyTorch runs eagerly, and where a C++ compiler is found also with its step in <code>torch.compile</code>, which "
    "needs one. minitorch and PyTorch write parameters in place; JAX's are "
    "<b>donated</b>, which comes to the same. minitorch and PyTorch also leave every parameter's gradient in "
    "<code>.grad</code>, which JAX need not: that favours JAX.",
    "<b>Large results:</b> softmax, layer norm and gelu write 32 or 64 MB, cross-entropy's gradient has 524 MB. "
    "minitorch uses the memory of a result "
    "again once nobody holds it; the others ask the system for fresh pages at each call, which is much of the time "
    "measured. That favours minitorch, in programs that drop their results as this one does.",
    "<b>Dashed lines</b> are this machine's own limits: the least arithmetic (or memory traffic) a task needs, over "
    "the best FLOP/s of a large matmul (or bytes/s of a large copy) that any contender reached here with as many "
    "threads. Small tasks live in the caches and can be faster than memory.",
)

RULES_OF_GPUS = (
    "Every contender runs in a process of its own, one after the other, and answers row by row. Each has the same "
    "inputs and begins with the same weights; what its <b>first four steps</b> give must be what they give in float64 "
    "(of losses also how far they fall, which tells of gradients and optimiser), else it is left out of the row.",
    "A row is called for some tenths of a second, in pieces of 50 ms that are waited for; the <b>middle</b> of them "
    "counts. Several rounds (<code>--rounds</code>): the best. With one round, differences below 2% say nothing.",
    RATIO,
    "<b>Precision:</b> products and convolutions of float32 may round their factors to TF32, in all alike. In "
    "bfloat16: minitorch and PyTorch under <code>autocast</code>, JAX with casts in the same places, and cuDNN's "
    "attention.",
    "<b>minitorch</b> compiles the whole step with <code>compile</code>. <b>PyTorch</b> has fused optimisers and "
    "cuDNN's fastest algorithms; as a graph: its whole step, captured as a CUDA graph; compiled: its step in "
    "<code>torch.compile</code>, in its default mode. <b>JAX</b> has its whole step in <code>jit</code>, its "
    "parameters donated. minitorch and PyTorch leave every parameter's gradient in <code>.grad</code>, JAX need not.",
    "<b>First calls</b> find nothing on disk: every contender's caches are new folders.",
)

INTERRUPTED = "This run was interrupted; it holds what was measured until then."


def page(results: Results) -> str:
    """Return the whole page."""
    machine = html.escape(in_a_line(results.machine))
    versions = html.escape(results.versions_in_a_line())
    sections = [s for s in results.sections.values() if s.rows and not s.name.startswith("limits")]
    contents = "".join(f'<a href="#{_key(s)}">{html.escape(s.title)}</a>' for s in sections)
    state = "" if results.finished else f"<p class=warn>{INTERRUPTED}</p>"
    if warning := busy(results.machine):
        state += f"<p class=warn>{html.escape(warning[0].upper() + warning[1:])}.</p>"
    left = "".join(f"<li>{html.escape(line)}" for line in results.left_out)
    options = results.options.get("command", "minitorch bench")
    return _PAGE.format(
        style=_STYLE,
        machine=machine,
        versions=versions,
        date=html.escape(str(results.machine.get("date", ""))),
        command=html.escape(str(options)),
        limits="".join(f"<br>{html.escape(line)}" for line in limits(results)),
        state=state,
        contents=contents,
        headline=_headline(sections),
        sections="\n".join(_section(results, s) for s in sections),
        rules="".join(f"<li>{rule}" for rule in _rules(results)),
        better=_where_a_peer_is_better(sections),
        left=f"<h2>Left out</h2><ul>{left}</ul>" if left else "",
    )


def _rules(results: Results) -> tuple[str, ...]:
    if "gpu" not in results.sections:
        return RULES
    aims = any(row.goal is not None for _, row in results.rows())
    return (*RULES_OF_GPUS, GOAL) if aims else RULES_OF_GPUS


def least_time(results: Results, section: Section, row: Row) -> float | None:
    """Return the seconds this machine would need at its own limits, where they were measured."""
    times = []
    for kind in ("flops", "traffic"):
        work, limit = getattr(row, kind), results.limit(kind, section.threads)
        if work is not None and limit is not None and row.unit == SECONDS:
            times.append(work / limit)
    return max(times, default=None)


def _headline(sections: list[Section]) -> str:
    cards = []
    for section in sections:
        ratios = [
            row.ratio for row in section.rows.values() if row.unit == SECONDS and not math.isnan(row.ratio)
        ]
        if ratios:
            typical = math.exp(sum(map(math.log, ratios)) / len(ratios))
            cards.append(
                f'<a class=card href="#{_key(section)}"><b>{three_digits(typical)}×</b>'
                f"<span>{html.escape(section.title)}</span><small>{_standings(section)}</small></a>"
            )
    return f"<div class=cards>{''.join(cards)}</div>" if cards else ""


def _standings(section: Section) -> str:
    """Count the rows ahead, level and behind, in words; of the same rows that `_where_a_peer_is_better` lists."""
    found = Counter(row.standing for row in section.rows.values() if row.standing)
    counts = [f"{word} in {found[word]}" for word in ("ahead", "level", "behind") if found[word]]
    return f"{', '.join(counts)} of {found.total()} rows"


def _key(section: Section) -> str:
    return section.name.replace(" ", "-")


def _section(results: Results, section: Section) -> str:
    threads = f" <small>{in_threads(section.threads)} each.</small>" if section.threads else ""
    parts = [f'<section id="{_key(section)}"><h2>{html.escape(section.title)}</h2>']
    parts.append(f"<p>{html.escape(section.about)}{threads}</p>")
    curves: dict[str, list[Row]] = {}
    plain = []
    for row in section.rows.values():
        if row.curve is not None and row.x is not None:
            curves.setdefault(row.curve, []).append(row)
        elif row.present:
            plain.append(row)
    if plain:
        blocks = []
        for row in plain:
            least = least_time(results, section, row)
            line = None if least is None else (least, f"this machine's limit: {quantity(least, row.unit)}")
            goal = ""
            if row.goal is not None:
                goal = f"goal {quantity(row.goal, row.unit)}"
                line = (row.goal, goal)
            caption = f"<figcaption>{html.escape(row.name)} <small>{goal}</small></figcaption>"
            blocks.append(f"<figure>{caption}{charts.bars(row, line)}</figure>")
        parts.append(f"<div class=bargrid>{''.join(blocks)}</div>")
    if curves:
        figures = "".join(_curve(results, section, title, rows) for title, rows in curves.items())
        parts.append(f"<div class=curves>{figures}</div>")
    parts.append(f"<details><summary>All numbers</summary>{_table(section)}</details></section>")
    return "".join(parts)


def _curve(results: Results, section: Section, title: str, rows: list[Row]) -> str:
    rows = sorted(rows, key=lambda row: row.x or 0)
    names = dict.fromkeys(name for row in rows for name in row.present)
    lines = [
        charts.Line(n, [(r.x or 0, r.best(n)) for r in rows if n in r.present], charts.kind(n)) for n in names
    ]
    floor = [(row.x or 0, least) for row in rows if (least := least_time(results, section, row)) is not None]
    if floor:
        lines.append(charts.Line("this machine's limit", floor, "c-limit", limit=True))
    plot = charts.log_log(lines, section.x or title, rows[0].unit, f"{section.title}: {title}")
    return f"<figure><figcaption>{html.escape(title)}</figcaption>{charts.legend(lines)}{plot}</figure>"


def _table(section: Section) -> str:
    names = section.contenders
    head = "".join(f"<th class=n>{html.escape(name)}" for name in names)
    body = []
    for row in section.rows.values():
        cells = "".join(f"<td class=n>{quantity(row.best(name), row.unit)}" for name in names)
        ratio = "" if math.isnan(row.ratio) else f"{three_digits(row.ratio)}×"
        spread = "" if math.isnan(noise(row)) else f"{noise(row):+.0%}"
        body.append(f"<tr><td>{html.escape(row.name)}{cells}<td class=n>{ratio}<td class=n>{spread}</tr>")
    return (
        f"<div class=scroll><table><tr><th>{head}<th class=n>best peer / minitorch<th class=n>noise</tr>"
        f"{''.join(body)}</table></div>"
    )


def _where_a_peer_is_better(sections: list[Section]) -> str:
    """List every row in which a peer's best round beats ours by more than the noise of both."""
    parts = []
    for section in sections:
        compared = [row for row in section.rows.values() if row.standing]
        lost = sorted((row for row in compared if row.standing == "behind"), key=lambda row: row.ratio)
        if lost:
            items = "".join(
                f"<li>{html.escape(row.name)}: {html.escape(str(row.best_peer))} needs {row.ratio:.2f} of ours"
                for row in lost
            )
            why = f"<p>{html.escape(section.why)}</p>" if section.why else ""
            parts.append(
                f"<details><summary>{html.escape(section.title)}: {len(lost)} of {len(compared)} rows</summary>"
                f"{why}<ul>{items}</ul></details>"
            )
    peers = any(not is_ours(name) for section in sections for name in section.contenders)
    if not parts:
        words = "In no row of this run, beyond the noise." if peers else "No peer took part in this run."
        return f"<p>{words}</p>"
    return "".join(parts)


_STYLE = """
:root { color-scheme: light dark; --page: #fbfaf7; --card: #ffffff; --ink: #1c2127; --soft: #5b6570; --grid: #d9dadd;
  --ours: #d1440c; --eager: #e08a5b; --torch: #2f6fb2; --torchc: #7aa7d4; --torchg: #1f4a7a; --jax: #1c8f6e;
  --mygrad: #8a5bb5; --autograd: #b0820a; --numpy: #6b7280; --tiny: #b23a72; --limit: #1c2127; }
@media (prefers-color-scheme: dark) { :root { --page: #14171b; --card: #1c2026; --ink: #e7e9ec; --soft: #9aa4af;
  --grid: #353b43; --ours: #ff7a45; --eager: #ffb08a; --torch: #6aa9ea; --torchc: #3f6f9f; --torchg: #a9cdf2;
  --jax: #4fc9a4; --mygrad: #bb93e6; --autograd: #e2b53c; --numpy: #9ca3af; --tiny: #ec7fb0; --limit: #e7e9ec; } }
* { box-sizing: border-box; }
body { font: 16px/1.55 system-ui, sans-serif; margin: 0; background: var(--page); color: var(--ink); }
main { max-width: 68rem; margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: clamp(1.7rem, 5vw, 2.5rem); line-height: 1.15; margin: .5rem 0; letter-spacing: -.02em; }
h2 { margin: 2.8rem 0 .3rem; letter-spacing: -.01em; line-height: 1.25; }
p, li { max-width: 46rem; }
small, .meta { color: var(--soft); }
.warn { color: var(--ours); font-weight: 600; }
a { color: inherit; }
code { font-size: .92em; overflow-wrap: anywhere; }
nav { display: flex; flex-wrap: wrap; gap: .3rem 1rem; margin: 1rem 0; font-size: .92rem; }
.cards, .curves, .bargrid { display: grid; gap: .8rem; margin: 1rem 0; }
.cards { grid-template-columns: repeat(auto-fill, minmax(min(100%, 14rem), 1fr)); }
.curves, .bargrid { grid-template-columns: repeat(auto-fill, minmax(min(100%, 25rem), 1fr)); }
.card, figure { background: var(--card); border: 1px solid var(--grid); border-radius: 10px; padding: .7rem .9rem; }
.card { text-decoration: none; }
.card b { display: block; font-size: 1.7rem; line-height: 1.2; color: var(--ours); }
.card span, .card small { display: block; line-height: 1.3; }
figure { margin: 0; min-width: 0; overflow: hidden; }
figcaption { font-weight: 600; margin-bottom: .3rem; display: flex; justify-content: space-between; gap: .6rem;
  align-items: baseline; }
figcaption small { font-weight: 400; white-space: nowrap; }
svg { display: block; max-width: 100%; overflow: visible; }
.curves svg:not(.key) { width: 100%; height: auto; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem .9rem; font-size: .85rem; margin-bottom: .3rem; }
.legend span { display: inline-flex; align-items: center; gap: .3rem; }
.grid { stroke: var(--grid); fill: none; }
.faint { opacity: .45; }
.tick, .axis { font-size: 13.5px; fill: var(--soft); }
.value { font-size: 13px; fill: var(--ink); paint-order: stroke; stroke: var(--card); stroke-width: 3px; }
.value, .card b, .n { font-variant-numeric: tabular-nums; }
.noise { opacity: .55; }
@media (max-width: 30rem) { .value { font-size: 11.5px; } }
[class^="c-"], .key { fill: var(--c); --c: var(--numpy); }
.line { fill: none; stroke: var(--c); stroke-width: 2; stroke-linejoin: round; }
.limit { stroke: var(--limit); stroke-width: 1.5; stroke-dasharray: 5 4; fill: none; opacity: .75; }
.hollow { fill: var(--card); stroke: var(--c); stroke-width: 2; }
.stroke { stroke: var(--c); stroke-width: 2.4; fill: none; }
.c-minitorch, .c-minitorch-compiled { --c: var(--ours); }
.c-minitorch-eager, .c-minitorch-from-disk { --c: var(--eager); }
.c-pytorch { --c: var(--torch); }
.c-pytorch-compiled { --c: var(--torchc); }
.c-pytorch-graph { --c: var(--torchg); }
.c-jax { --c: var(--jax); }
.c-mygrad { --c: var(--mygrad); }
.c-autograd { --c: var(--autograd); }
.c-tinygrad { --c: var(--tiny); }
.c-limit { --c: var(--limit); }
details { margin: .8rem 0; }
summary { cursor: pointer; color: var(--soft); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .88rem; }
td, th { padding: .2rem .6rem; border-bottom: 1px solid var(--grid); text-align: left; }
.n { text-align: right; white-space: nowrap; }
"""

_PAGE = """<!doctype html>
<html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width,initial-scale=1">
<title>minitorch beside its peers</title>
<style>{style}</style>
<main>
<h1>minitorch beside its peers</h1>
<p class=meta>{machine}<br>{versions}<br>{date} · made by <code>{command}</code>{limits}</p>
{state}
<p>Each number below is the best peer's time over minitorch's, averaged (geometrically) over the section's times:
above 1, minitorch is ahead. Below it all rows are counted, memory too; level means within the noise. What is
compared, and which settings favour whom, is said under
<a href="#rules">the rules</a>; <a href="#better">where a peer is better</a> is listed row by row.</p>
{headline}
<nav>{contents}<a href="#rules">The rules</a><a href="#better">Where a peer is better</a></nav>
{sections}
<section id=rules><h2>The rules</h2><ul>{rules}</ul></section>
<section id=better><h2>Where a peer is better</h2>{better}</section>
{left}
</main>
</html>
"""
