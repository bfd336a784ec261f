"""The certificate: every op's derivative against finite differences, on this machine.

Enters: the table. Leaves: one row per op with its largest errors, as text, HTML or JSON-ready data.
"""

from __future__ import annotations

import html
import math
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import minitorch
from minitorch.autograd.gradcheck import compare, second_order_problem
from minitorch.proof.cases import Case
from minitorch.proof.table import CASES

# About 1e-5: the step that balances rounding (1e-16 / step) against truncation (step²). A power of two,
# so that moving an input by it is exact.
STEP = 2.0**-17

# What central differences in float64 can show: rounding and truncation together stay well below.
FIRST_ORDER_LIMIT = 1e-5
SECOND_ORDER_LIMIT = 1e-4


@dataclass
class Finding:
    """What was found about one op."""

    op: str
    first: float = 0.0
    second: float = 0.0
    cases: int = 0
    differentiable: bool = True
    problem: str = ""

    @property
    def ok(self) -> bool:
        """Whether every case passed; a nan is no agreement."""
        within = self.first <= FIRST_ORDER_LIMIT and self.second <= SECOND_ORDER_LIMIT
        return within and not self.problem


def _tensors(case: Case, trial: int) -> list[Any]:
    return [
        minitorch.tensor(a, requires_grad=case.differentiable and a.dtype.kind == "f")
        for a in case.arrays(trial)
    ]


def _function(case: Case) -> Callable[..., Any]:
    def call(*tensors: Any) -> list[Any]:
        outputs = case.call(minitorch, *tensors)
        listed = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
        return [o for o in listed if o.dtype.kind == "f"]

    return call


def _largest(errors: Iterator[float]) -> float:
    return max((math.inf if math.isnan(e) else e for e in errors), default=0.0)


def first_order_error(case: Case, trial: int) -> float:
    """Return the largest relative difference between backward and central differences."""
    return _largest(c.error for c in compare(_function(case), _tensors(case, trial), eps=STEP))


def second_order_error(case: Case, trial: int) -> float:
    """Return the same for the gradient of the gradient."""
    slope, arguments = second_order_problem(_function(case), _tensors(case, trial))
    return 0.0 if slope is None else _largest(c.error for c in compare(slope, arguments, eps=STEP))


def prove(case: Case, trial: int, line: Finding) -> None:
    """Try one case and enter what was found."""
    line.cases += 1
    try:
        if case.differentiable:
            line.first = max(line.first, first_order_error(case, trial))
            line.second = max(line.second, second_order_error(case, trial))
        else:
            case.call(minitorch, *_tensors(case, trial))
    except Exception as error:  # a certificate reports what is broken, whatever it is
        line.problem = f"{type(error).__name__}: {error}".splitlines()[0]


def certify(
    trials: int = 5,
    only: str | None = None,
    progress: Callable[[int, int, str], None] | None = None,
    cases: list[Case] | None = None,
) -> list[Finding]:
    """Prove every op (or those whose name contains `only`), each case `trials` times with other numbers."""
    chosen = [c for c in (CASES if cases is None else cases) if only is None or only in c.op]
    lines: dict[str, Finding] = {}
    for i, case in enumerate(chosen):
        line = lines.setdefault(case.op, Finding(case.op, differentiable=False))
        line.differentiable = line.differentiable or case.differentiable
        for trial in range(trials):
            prove(case, trial, line)
        if progress is not None:
            progress(i + 1, len(chosen), case.op)
    return sorted(lines.values(), key=lambda line: line.op)


@dataclass
class Certificate:
    """All lines, with where and how long."""

    lines: list[Finding]
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether every op is proven."""
        return all(line.ok for line in self.lines)

    @property
    def headline(self) -> str:
        """One sentence that sums it up."""
        proven = sum(line.ok and line.differentiable for line in self.lines)
        total = sum(line.differentiable for line in self.lines)
        asked = len(self.lines) - total
        cases = sum(line.cases for line in self.lines)
        return (
            f"{proven} of {total} differentiable ops proven to second order ({cases} cases, {self.seconds:.0f} s); "
            f"{asked} op{'s' * (asked != 1)} without a derivative ran"
        )

    @property
    def machine(self) -> str:
        """What it ran on."""
        return (
            f"minitorch {minitorch.__version__}, NumPy {np.__version__}, Python {platform.python_version()}, "
            f"{platform.system()} {platform.machine()}"
        )

    def text(self) -> str:
        """Return the table for a terminal."""
        rows = [f"{'op':18} {'max error':>10} {'2nd order':>10} {'cases':>6}"]
        for line in self.lines:
            first = f"{line.first:.1e}" if line.differentiable else "–"
            second = f"{line.second:.1e}" if line.differentiable else "–"
            verdict = "ok" if line.ok else f"FAIL {line.problem}".rstrip()
            rows.append(f"{line.op:18} {first:>10} {second:>10} {line.cases:>6}  {verdict}")
        return "\n".join([*rows, "", self.headline, self.machine])

    def html(self, derivations: Mapping[str, str] | None = None) -> str:
        """Return the table as a page of its own. derivations: HTML by op, to unfold under its name."""
        texts = derivations or {}
        cells = []
        for line in self.lines:
            first = f"{line.first:.1e}{_bar(line.first)}" if line.differentiable else "–"
            second = f"{line.second:.1e}" if line.differentiable else "–"
            verdict = "proven" if line.ok else f"FAIL {html.escape(line.problem)}"
            if line.ok and not line.differentiable:
                verdict = "ran"
            kind = "ok" if line.ok else "bad"
            name = f"<code>{html.escape(line.op)}</code>"
            if line.op in texts:
                name = f"<details><summary>{name}</summary>{texts[line.op]}</details>"
            cells.append(
                f"<tr class={kind}><td>{name}</td><td class=n>{first}</td>"
                f"<td class=n>{second}</td><td class=n>{line.cases}</td><td>{verdict}</td></tr>"
            )
        return _PAGE.format(
            headline=html.escape(self.headline), machine=html.escape(self.machine), rows="\n".join(cells)
        )


def _bar(error: float) -> str:
    """Draw an error on a logarithmic scale from 1e-16 (left) to the limit (right)."""
    digits = 16 + math.log10(max(error, 1e-16)) if error > 0 else 0
    share = min(100.0, 100 * digits / (16 + math.log10(FIRST_ORDER_LIMIT)))
    return f'<div class=scale><div class=bar style="width:{share:.0f}%"></div></div>'


_PAGE = """<!doctype html>
<html lang=en><meta charset=utf-8><meta name=viewport content="width=device-width,initial-scale=1">
<title>minitorch: certificate of gradients</title>
<style>
:root {{ color-scheme: light dark; --line: #8884; --good: #2a8a4a; --bad: #c0392b; --bar: #4a7fd0; }}
body {{ font: 15px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ border-collapse: collapse; width: 100%; }}
td, th {{ padding: .2rem .6rem; border-bottom: 1px solid var(--line); text-align: left; overflow-wrap: anywhere; }}
td:first-child, td:last-child {{ min-width: 4rem; }}
.n {{ text-align: right; font-variant-numeric: tabular-nums; overflow-wrap: normal; }}
.ok td:last-child {{ color: var(--good); }} .bad td {{ color: var(--bad); font-weight: 600; }}
summary {{ cursor: pointer; }} details[open] {{ font-weight: 400; }}
pre {{ overflow: auto; background: #8881; padding: .4rem .6rem; max-width: 46rem; font-size: 13px; }}
tr:has(details[open]) {{ vertical-align: top; }}
.scale {{ background: var(--line); border-radius: 2px; }}
.bar {{ height: .3rem; background: var(--bar); border-radius: 2px; min-width: 2px; }}
@media (max-width: 30rem) {{ body {{ font-size: 14px; margin-top: 1rem; }} td, th {{ padding: .2rem .3rem; }} }}
</style>
<h1>Certificate of gradients</h1>
<p><b>{headline}.</b><br>{machine}</p>
<p>Each op's backward is compared with central finite differences in float64, for every element of every
input, and so is the gradient of its gradient. An error is |backward − differences| / max(1, |differences|);
the differences themselves are exact to about 1e-10. The bar below it shows the error on a logarithmic
scale that ends at the limit, 1e-5.</p>
<table><tr><th>op<th class=n>max error<th class=n>second order<th class=n>cases<th></tr>
{rows}
</table>
</html>
"""


def make(
    trials: int = 5, only: str | None = None, progress: Callable[[int, int, str], None] | None = None
) -> Certificate:
    """Run the whole proof and return the certificate."""
    start = time.perf_counter()
    lines = certify(trials, only, progress)
    return Certificate(lines, time.perf_counter() - start)
