"""What was made of a function. Enters: a compiled function. Leaves: a report, as data, as text, as a page to look at.

`compiled.explain()` answers: which programs are there, for which arguments, and why; what is in each (values before
and after simplification, kernels, memory); what it relies on; what is read anew at each call; and why a function is
left to run as it is. MINITORCH_DEBUG=1..5 prints the same, stage by stage, while functions are compiled.
"""

from __future__ import annotations

import html
import linecache
import math
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from minitorch.compiler.backends.llvm.machine import assembly
from minitorch.compiler.backends.llvm.target import host
from minitorch.compiler.call.key import in_words
from minitorch.compiler.call.names import describe
from minitorch.compiler.ir.polynomial import LEAST
from minitorch.compiler.ir.program import VIEWS, Program, Value, evaluate
from minitorch.compiler.ir.simplify import simplify
from minitorch.compiler.ir.sizes import hint, hints
from minitorch.compiler.trace.recorded import (
    Draw,
    Effect,
    FromArgument,
    FromArray,
    FromGradient,
    FromTensor,
    GivenNumbers,
    ReadNumber,
)
from minitorch.engine.recording import rehearsal
from minitorch.nn import Module
from minitorch.nn.names import names_of_tensors

RUNS = 5  # for measuring kernels


@dataclass
class KernelReport:
    """One kernel: what it computes, how much work that is, and how long it takes (0: not measured)."""

    name: str
    kind: str
    values: list[str]
    flops: float
    bytes: int
    seconds: float
    note: str = ""
    lines: list[tuple[str, int]] = field(default_factory=list)  # of the person's code that it comes from

    @property
    def places(self) -> str:
        """Where in a person's code that is: files by name, and their lines."""
        files: dict[str, list[str]] = {}
        for file, line in self.lines:
            files.setdefault(Path(file).name, []).append(str(line))
        return "; ".join(f"{file}:{','.join(lines)}" for file, lines in files.items())


@dataclass
class ProgramReport:
    """One program. `values` and `simplified` count values by primitive; `backward` is the way back, if it has one."""

    arguments: list[str]
    reason: str
    seconds: float
    calls: int
    values: dict[str, int]
    simplified: dict[str, int]
    kernels: list[KernelReport]
    listing: str
    arena: int = 0
    unshared: int = 0
    called_back: list[str] = field(default_factory=list)
    called: str = "NumPy"
    copied: list[str] = field(default_factory=list)
    unfused: list[str] = field(default_factory=list)  # what goes through memory between two kernels, and why
    guards: list[str] = field(default_factory=list)
    sizes: list[str] = field(
        default_factory=list
    )  # those that vary: their names, ranges, and where they are found
    size_guards: list[str] = field(default_factory=list)  # what was taken for granted about them
    numbers: list[str] = field(default_factory=list)
    draws: list[str] = field(default_factory=list)
    effects: list[str] = field(default_factory=list)
    updates: list[str] = field(default_factory=list)
    set_anew: list[str] = field(default_factory=list)
    stages: dict[str, float] = field(default_factory=dict)
    functions: int = 0
    backward: ProgramReport | None = None

    @property
    def fused(self) -> int:
        """How many values share a kernel with others."""
        return sum(len(k.values) for k in self.kernels if len(k.values) > 1)

    @property
    def total(self) -> float:
        """Seconds of all kernels together."""
        return sum(k.seconds for k in self.kernels)


STAYS_EAGER = "stays eager: "  # how a reason begins that is one against compiling


class Explanation:
    """What was made of a compiled function: print it, or look at `programs`, `reasons` and `eager_because`.

    >>> f = minitorch.compile(lambda x: (x * 2).sum(), backend="numpy")
    >>> _ = f(minitorch.ones(3)), f(minitorch.ones(3))
    >>> report = f.explain()
    >>> report.compilations, report.programs[0].calls, report.programs[0].arguments
    (1, 1, ['Tensor float32[3]'])
    """

    def __init__(self, compiled: Any, measure: bool = True) -> None:
        cache = compiled.cache
        self.name = describe(compiled.function)
        self.backend = compiled.backend
        self.compilations = cache.compilations
        self.reasons = list(cache.reasons)
        self.eager_because = cache.eager_because
        self.eager_calls = cache.eager_calls
        self.fixed_sizes = [
            f"{_place(leaf, axis, shapes.ints)} cannot vary: {why}"
            for shapes in cache.shapes.values()
            for (leaf, axis), why in sorted(shapes.fixed.items())
        ]
        self.fixed_sizes += [f"{key} cannot vary: {why}" for (_, key), why in cache.numbers.fixed.items()]
        names = _names(compiled.function)
        self.programs = [report(program, measure, names) for program in cache.all()]

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {self.compilations} compiled, {len(self.programs)} kept, backend {self.backend}"
        ]
        if self.eager_because:
            lines.append(f"  stays eager, because {self.eager_because}")
        if self.eager_calls:
            lines.append(
                f"  {self.eager_calls} calls were run as they are: they cannot be compiled, their arguments came too "
                "rarely, or they changed what the function relies on"
            )
        if not self.programs and not self.eager_because and not self.reasons:
            lines.append("  not called yet, or only with arguments that came too rarely")
        lines += [f"  {line}" for line in self.fixed_sizes]
        compiled = 0
        for reason in self.reasons:
            if reason.startswith(STAYS_EAGER):
                lines.append(f"  runs as it is: {reason.removeprefix(STAYS_EAGER)}")
                continue
            compiled += 1
            lines.append(f"  compilation {compiled}: {reason}")
        for number, program in enumerate(self.programs, 1):
            lines += ["", f"program {number}: {', '.join(program.arguments) or 'no arguments'}"]
            lines += ["  " + line for line in _lines(program)]
        return "\n".join(lines)

    __repr__ = __str__

    def to_html(self) -> str:
        """Return one self-contained page."""
        return _page(self)

    _repr_html_ = to_html

    def write_html(self, path: Any) -> None:
        """Write the page to a file."""
        Path(path).write_text(self.to_html(), encoding="utf-8")


# --- gathering --------------------------------------------------------------------------------------------------


def _place(leaf: int, axis: int, arrays: int) -> str:
    """Say where a size stands that varies. arrays: how many there are; behind them come ints."""
    return f"int {axis} among the arguments" if leaf == arrays else f"axis {axis} of array {leaf}"


def report(program: Any, measure: bool = True, names: Mapping[int, str] | None = None) -> ProgramReport:
    """Return what there is to say about one program (a Specialisation). names: what tensors are called."""
    names = names or {}
    recorded = program.recorded
    found = _of_program(recorded.program, program.runner, measure, program.lock)
    found.arguments = in_words(program.key)
    found.reason = program.reason
    found.seconds = program.seconds
    found.calls = program.calls
    found.guards = [guard.words for guard in program.environment.guards]
    for name, places in program.places.items():
        where = " and ".join(_place(leaf, axis, len(program.key.leaves)) for leaf, axis in places)
        found.sizes.append(f"{name} ≥ {LEAST} ({where}; {program.hints[name]} when recorded)")
    for name, reading in program.sized.items():
        where = f"{reading.key} of {type(reading.holder).__name__}"
        found.sizes.append(f"{name} ≥ {LEAST} ({where}; {program.hints[name]} when recorded)")
    found.size_guards = [str(guard) for guard in recorded.program.guards]
    for step in recorded.script:
        if isinstance(step, ReadNumber):
            is_argument = isinstance(step.holder, GivenNumbers)
            found.numbers.append(
                "an argument" if is_argument else f"{step.key} of {type(step.holder).__name__}"
            )
        elif isinstance(step, Draw):
            found.draws.append(f"{step.method.__name__}{step.args}")
        elif isinstance(step, Effect):
            found.effects.append(describe(step.method))
    inputs = recorded.program.inputs
    for update in recorded.updates:
        value = inputs[update.input]
        found.updates.append(f"{_source(recorded.sources[update.input], names)} {_shape(value)}")
    for rebind in recorded.rebinds:
        what = "None" if rebind.output is None else _shape(recorded.program.outputs[rebind.output])
        where = "an argument" if isinstance(rebind.tensor, int) else names.get(id(rebind.tensor), "a tensor")
        found.set_anew.append(f"{rebind.attribute.strip('_')} of {where}: {what}")
    back = program.backward
    if back is not None and back.runner is not None:
        found.backward = _of_program(back.program, back.runner, measure, program.lock)
    return found


def _of_program(program: Program, runner: Any, measure: bool, lock: Any) -> ProgramReport:
    try:
        simpler = simplify(program)
    except Exception as error:  # a report is made of whatever there is
        simpler, note = program, f"could not be simplified: {error}"
    else:
        note = ""
    native = getattr(runner, "report", None)
    kernels = _native_kernels(runner, program, measure, lock) if native else _numpy_kernels(program, measure)
    found = ProgramReport(
        [],
        "",
        0.0,
        0,
        _count(program),
        _count(simpler),
        kernels,
        "\n".join([*filter(None, [note]), str(program)]),
    )
    if native is not None:
        found.arena, found.unshared = native.arena, native.unshared
        found.functions = native.functions
        found.called_back = [
            f"{each}: {native.undecided.get(each) or _why_called_back(each, simpler)}"
            for each in native.called_back
        ]
        found.called = native.called
        found.copied = list(native.copied)
        found.unfused = [f"{', '.join(_counted(words))}: {why}" for why, words in native.unfused.items()]
        found.stages = dict(native.seconds)
    return found


def _native_kernels(runner: Any, program: Program, measure: bool, lock: Any) -> list[KernelReport]:
    if measure and not any(step.seconds for step in runner.report.steps):
        try:
            with lock, np.errstate(all="ignore"), rehearsal():  # (no other rank takes part)
                runner.measure(_examples(program), RUNS)
        except Exception as error:  # a made-up index may be refused: then there are no times
            runner.report.steps[0].note += f" (not measured: {error})"
    return [
        KernelReport(
            s.name or s.kind, s.kind, list(s.values), s.flops, s.bytes, s.seconds,
            " ".join(filter(None, [s.note, "on all threads" if s.parallel else ""])), list(s.lines),
        )
        for s in runner.report.steps
    ]  # fmt: skip


def _numpy_kernels(program: Program, measure: bool) -> list[KernelReport]:
    """Without native code every value is a call of NumPy."""
    examples = _examples(program)
    binding = program.binding(examples)
    known: dict[Value, Any] = dict(zip(program.inputs, examples, strict=True))
    kernels = []
    with np.errstate(all="ignore"):
        for value in program.values():
            if value in known:
                continue
            began = time.perf_counter()
            if measure:
                try:
                    known[value] = evaluate(value, [known[i] for i in value.inputs], binding)
                except Exception:  # made-up numbers may be refused
                    measure = False
            seconds = time.perf_counter() - began if measure else 0.0
            if value.primitive not in ("constant", "iota") and value.primitive not in VIEWS:
                moved = sum(hint(i.nbytes) for i in value.inputs) + hint(value.nbytes)
                where = [] if value.line is None else [value.line]
                words = [_words(value)]
                kernels.append(
                    KernelReport("numpy", value.primitive, words, flops(value), moved, seconds, lines=where)
                )
    return kernels


def flops(value: Value) -> float:
    """Return how many operations on numbers a value takes, roughly.

    >>> from minitorch.compiler.ir import builder
    >>> a, b = (builder.constant(np.ones(s)) for s in ((2, 3), (3, 4)))
    >>> flops(builder.contract("ij,jk->ik", a, b))
    48.0
    """
    if value.primitive == "contract":
        left, right = value.attributes["spec"].split("->")[0].split(",")
        sizes = dict(zip(left + right, (*value.inputs[0].shape, *value.inputs[1].shape), strict=True))
        return 2.0 * hint(math.prod(sizes.values()))
    if value.primitive in ("map", "scan", "scatter"):
        return float(hint(value.size))
    if value.primitive in ("reduce", "arg_reduce", "sort", "argsort"):
        return float(hint(value.inputs[0].size))
    return 0.0


def _examples(program: Program) -> list[Any]:
    """Return arrays of the inputs' shapes, to measure on: 0 is a good index, ½ a good number."""
    numbers = [v.attributes["symbol"].hint if "symbol" in v.attributes else 0 for v in program.inputs]
    return [
        np.full(hints(v.shape), 0.5 if v.dtype.kind in "fc" else n, v.dtype)
        for v, n in zip(program.inputs, numbers, strict=True)
    ]


def _count(program: Program) -> dict[str, int]:
    return dict(Counter(v.primitive for v in program.values()).most_common())


def _shape(value: Value) -> str:
    return f"{value.dtype}[{'×'.join(map(str, value.shape))}]"


def _words(value: Value) -> str:
    what = value.attributes.get("function", value.attributes.get("spec", ""))
    what = getattr(what, "__name__", what)
    word = str(what) if value.primitive == "map" else f"{value.primitive} {what}".strip()
    return f"{word}[{'×'.join(map(str, value.shape))}]"


def _names(function: Any) -> dict[int, str]:
    """Return what the tensors are called that a function finds by itself: by its globals, its closure, its Module."""
    if isinstance(function, Module):
        return names_of_tensors(function)
    owner, plain = getattr(function, "__self__", None), getattr(function, "__func__", function)
    code = getattr(plain, "__code__", None)
    if code is None:
        return {}
    space = {name: plain.__globals__[name] for name in code.co_names if name in plain.__globals__}
    for name, cell in zip(code.co_freevars, plain.__closure__ or (), strict=True):
        try:
            space[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    return {**names_of_tensors(space), **names_of_tensors({"self": owner})}


def _source(source: Any, names: Mapping[int, str]) -> str:
    if isinstance(source, FromTensor):
        return names.get(id(source.tensor), "a tensor")
    if isinstance(source, FromGradient):
        return f"the gradient of {names[id(source.tensor)]}" if id(source.tensor) in names else "a gradient"
    if isinstance(source, FromArgument):
        return f"argument {source.position}"
    return "an array" if isinstance(source, FromArray) else "a number"


def _counted(words: list[str]) -> list[str]:
    """Return words in order, those that come often once with their number."""
    return [f"{n}× {word}" if n > 1 else word for word, n in Counter(words).items()]


def _why_called_back(words: str, program: Program) -> str:
    """Say why NumPy computes something."""
    for value in program.values():
        if _words(value) == words or words.startswith(value.primitive):
            if value.primitive in ("start", "wait"):
                return "other ranks take part"
            if value.dtype.kind not in "biuf" or value.dtype.itemsize in (2, 16):
                return f"{value.dtype} has no machine code"
            return f"{value.primitive} has no machine code, or not in this form"
    return "it has no machine code"


# --- as text ----------------------------------------------------------------------------------------------------------


def _facts(program: ProgramReport) -> list[tuple[str, str]]:
    """Return what there is to say about a program beside its kernels and guards: label and text."""
    facts = [
        ("compiled in", f"{program.seconds * 1e3:.1f} ms" if program.seconds else ""),
        ("because", program.reason),
        ("calls since", str(program.calls) if program.seconds else ""),
        ("sizes that vary", ", ".join(program.sizes)),
        ("taken for granted of them", ", ".join(program.size_guards)),
        ("values", _counts(program.values)),
        ("simplified", _counts(program.simplified)),
        ("kernels", f"{len(program.kernels)}, {program.functions} different" if program.functions else ""),
        ("fused", f"{program.fused} values share a kernel with others" if program.fused else ""),
        ("memory", f"{program.arena:,} bytes; {program.unshared:,} without sharing" if program.arena else ""),
        (f"{program.called} computes", _some(program.called_back)),
        ("copied, not updated in place", _some(program.copied)),
        ("through memory, not fused", _some(program.unfused)),
        ("numbers read anew", _some(program.numbers)),
        ("draws", _some(program.draws)),
        ("done again", _some(program.effects)),
        ("updated in place", _some(program.updates)),
        ("set anew", _some(program.set_anew)),
        ("stages", ", ".join(f"{k} {v * 1e3:.1f} ms" for k, v in program.stages.items())),
    ]
    return [(label, text) for label, text in facts if text]


def _lines(program: ProgramReport) -> list[str]:
    lines = [f"{label}: {text}" for label, text in _facts(program)]
    if program.guards:
        lines.append(f"relies on {len(program.guards)} things: {_some(program.guards)}")
    for kernel in program.kernels:
        timed = f"{kernel.seconds * 1e6:9.2f} µs" if kernel.seconds else "           "
        lines.append(
            f"  {timed} {kernel.kind:<11} {kernel.flops:12,.0f} flops {kernel.bytes:12,} bytes  "
            f"{' → '.join(kernel.values)}{'  (' + kernel.note + ')' if kernel.note else ''}"
            f"{'  ← ' + kernel.places if kernel.lines else ''}"
        )
    if program.backward is not None:
        lines += ["the way back:", *("  " + line for line in _lines(program.backward))]
    return lines


def _counts(counts: dict[str, int]) -> str:
    return f"{sum(counts.values())} ({', '.join(f'{n} {k}' for k, n in counts.items())})"


def _some(things: Sequence[str], most: int = 8) -> str:
    counted = [f"{n}× {t}" if n > 1 else t for t, n in Counter(things).items()]
    more = len(counted) - most
    return ", ".join(counted[:most]) + (f" and {more} more" if more > 0 else "")


# --- as a page --------------------------------------------------------------------------------------------------------

_STYLE = """
:root { --ink: #1c1e21; --soft: #62676e; --ground: #fbfbf9; --line: #dddcd6; --bar: #4c78a8; --bytes: #b07a2a; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e3; --soft: #9aa0a6; --ground: #17181a; --line: #34363a; --bar: #6b9bd1; --bytes: #d29c4b; }
}
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--ground);
  max-width: 70rem; margin: 2rem auto; padding: 0 1rem; }
h1, h2, h3 { font-weight: 600; line-height: 1.2; } h2 { margin-top: 2.5rem; border-top: 1px solid var(--line);
  padding-top: 1.5rem; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th { text-align: left; font-weight: 500; color: var(--soft); }
td, th { padding: .2rem .8rem .2rem 0; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number { text-align: right; white-space: nowrap; } .soft { color: var(--soft); }
.bar { display: inline-block; height: .65em; background: var(--bar); border-radius: 2px; min-width: 1px; }
.bytes { background: var(--bytes); } code, pre { font: 13px/1.45 ui-monospace, monospace; }
pre { overflow-x: auto; } details { margin: .6rem 0; } summary { cursor: pointer; color: var(--soft); }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; } dt { color: var(--soft); }
dd { margin: 0; }
.eager { border-left: 3px solid var(--bytes); padding-left: .8rem; }
"""


def _page(explanation: Explanation) -> str:
    e = html.escape
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{e(explanation.name)}, compiled</title><style>{_STYLE}</style>",
        f"<h1>{e(explanation.name)}</h1>",
        f"<p>{explanation.compilations} compiled, {len(explanation.programs)} kept, backend {explanation.backend}.",
    ]
    if explanation.eager_calls:
        parts.append(f" {explanation.eager_calls} calls were run as they are.")
    parts.append("</p>")
    if explanation.eager_because:
        parts.append(f"<p class='eager'>It stays eager, because {e(explanation.eager_because)}.</p>")
    parts += [f"<p>{e(line)}</p>" for line in explanation.fixed_sizes]
    if explanation.reasons:
        items = "".join(f"<li>{e(reason)}</li>" for reason in explanation.reasons)
        parts.append(f"<h3>Why it was compiled, each time</h3><ol>{items}</ol>")
    for number, program in enumerate(explanation.programs, 1):
        title = ", ".join(program.arguments) or "no arguments"
        parts.append(f"<h2>Program {number} <span class='soft'>{e(title)}</span></h2>{_section(program)}")
        if program.backward is not None:
            parts.append(f"<h3>The way back</h3>{_section(program.backward)}")
    return "\n".join(parts) + "</html>\n"


def _section(program: ProgramReport) -> str:
    e = html.escape
    facts = "".join(f"<dt>{label}</dt><dd>{e(text)}</dd>" for label, text in _facts(program))
    guards = "".join(f"<li>{e(name)}</li>" for name in dict.fromkeys(program.guards))
    return (
        f"<dl>{facts}</dl>{_table(program)}"
        f"<details><summary>{len(program.guards)} things it relies on</summary><ul>{guards}</ul></details>"
        f"<details><summary>the recorded program</summary><pre>{e(program.listing)}</pre></details>"
    )


def _source_line(file: str, line: int) -> str:
    return f"{Path(file).name}:{line}: {linecache.getline(file, line).strip()}"


def _table(program: ProgramReport) -> str:
    if not program.kernels:
        return ""
    e = html.escape
    longest = max(k.seconds for k in program.kernels) or 1.0
    largest = max(k.bytes for k in program.kernels) or 1
    rows = []
    for kernel in program.kernels:
        rate = f"{kernel.flops / kernel.seconds / 1e9:.1f}" if kernel.seconds and kernel.flops else ""
        values = " → ".join(kernel.values)
        note = f" <span class='soft'>{e(kernel.note)}</span>" if kernel.note else ""
        if kernel.lines:
            source = "\n".join(_source_line(*line) for line in kernel.lines)
            note += (
                f"<details><summary class='soft'>{e(kernel.places)}</summary><pre>{e(source)}</pre></details>"
            )
        rows.append(
            f"<tr><td>{e(kernel.kind)}</td><td><code>{e(values)}</code>{note}</td>"
            f"<td class='number'>{kernel.seconds * 1e6:.2f}</td>"
            f"<td><span class='bar' style='width:{8 * kernel.seconds / longest:.2f}rem'></span></td>"
            f"<td class='number'>{kernel.bytes:,}</td>"
            f"<td><span class='bar bytes' style='width:{5 * kernel.bytes / largest:.2f}rem'></span></td>"
            f"<td class='number'>{kernel.flops:,.0f}</td><td class='number'>{rate}</td></tr>"
        )
    head = "".join(f"<th>{h}</th>" for h in ("kind", "computes", "µs", "", "bytes", "", "flops", "GFLOP/s"))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"


# --- while compiling --------------------------------------------------------------------------------------------------


def debug(compiled: Any, reason: str, program: Any, level: int) -> None:
    """Print a compilation to stderr.

    level: 1 one line; 2 also guards and the recorded program; 3 also the simplified program and the kernels;
    4 also the LLVM text; 5 also the assembly.
    """

    def say(text: str) -> None:
        print(text, file=sys.stderr)

    name = describe(compiled.function)
    if program is None:
        say(f"minitorch.compile: {name}: {reason}")
        return
    made = getattr(program.runner, "report", None)
    kernels = f", {len(made.steps)} kernels" if made is not None else ""
    say(f"minitorch.compile: {name} ({reason}): {program.seconds * 1e3:.1f} ms{kernels}, {compiled.backend}")
    if level >= 2:
        say("relies on: " + ", ".join(dict.fromkeys(guard.words for guard in program.environment.guards)))
        say(f"recorded:\n{program.recorded.program}")
        if program.backward is not None:
            say(f"the way back:\n{program.backward.program}")
    if level >= 3:
        say(f"simplified:\n{simplify(program.recorded.program)}")
        say("\n".join(_lines(report(program))))
    if level >= 4 and made is not None:
        text = made.text or program.runner.text()
        say(text)
        if level >= 5:
            say(assembly(text, host()))
