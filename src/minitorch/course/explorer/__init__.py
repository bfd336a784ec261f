"""The explorer: a backward pass to step through. Enters: a loss. Leaves: one HTML page that needs nothing else."""

from __future__ import annotations

import html
import inspect
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from minitorch.course.derivations import html as derivation
from minitorch.course.derivations import page_of, title
from minitorch.course.explorer.boxes import boxes
from minitorch.course.explorer.record import Recorded, record
from minitorch.course.rules import formula, source
from minitorch.nn import Module
from minitorch.nn.names import names_of_tensors
from minitorch.serialization import atomically

__all__ = ["Explorer", "explore"]

TEMPLATE = Path(__file__).parent / "page.html"
NUMBERS = 1_500_000  # in a page, in all: about 10 MB
MOST, LEAST = 1024, 16  # numbers of one array


def explore(
    loss: Any, path: str | Path | None = None, *, names: Mapping[str, Any] | Module | None = None
) -> Explorer:
    """Write a page on which the backward pass of `loss` can be stepped through, node by node.

    Call it before `backward()`, which frees the graph. names: a module, or a dict of tensors and modules, to call
    parameters by; if nothing is given, the variables where it is called. Without a path nothing is written: in a
    notebook the result shows itself. It works for minitorch's tensors, and for any class with the course's fields.

    >>> w = minitorch.tensor([1.0, 2.0], requires_grad=True)
    >>> page = explore((w * w).sum())
    >>> [(node.op, node.grad.tolist()) for node in page.nodes]
    [('', [2.0, 4.0]), ('mul', [1.0, 1.0]), ('sum', 1.0)]
    """
    if names is None:
        frame = inspect.currentframe()
        while frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "minitorch":
            frame = frame.f_back  # the variables are those of whoever called the library
        names = {**frame.f_globals, **frame.f_locals} if frame is not None else {}
    made = Explorer(record(loss), names_of_tensors(names))
    if path is not None:
        made.write(path)
    return made


class Explorer:
    """A recorded backward pass. nodes: parents before children."""

    def __init__(self, nodes: list[Recorded], names: Mapping[int, str]) -> None:
        self.nodes = nodes
        self.names = names

    def write(self, path: str | Path) -> None:
        """Write the page."""
        with atomically(Path(path)) as file:
            file.write(self.html().encode())

    def html(self) -> str:
        """Return the page."""
        data = self.json().replace("</", "<\\/")
        return TEMPLATE.read_text(encoding="utf-8").replace("/*DATA*/null", data)

    def _repr_html_(self) -> str:
        page = html.escape(self.html(), quote=True)
        style = "width:100%;height:640px;border:1px solid #8884"
        return f'<iframe srcdoc="{page}" style="{style}" title="explorer"></iframe>'

    def json(self) -> str:
        """Return what the page is made from."""
        arrays = _Arrays(max(LEAST, min(MOST, NUMBERS // (4 * len(self.nodes)))))
        rules: dict[str, dict[str, Any]] = {}
        nodes = []
        for node, box in zip(self.nodes, boxes(self.nodes, self.names), strict=True):
            if node.op and node.op not in rules:
                backward = None if node.operation is not None else getattr(node.tensor, "_backward", None)
                rules[node.op] = {
                    "formula": formula(node.op),
                    "code": source(node.operation, backward),
                    "derivation": page_of().get(node.op, ""),
                }
            nodes.append(
                {
                    "op": node.op,
                    "name": self.names.get(id(node.tensor), ""),
                    "box": box,
                    "parents": node.parents,
                    "dtype": str(node.value.dtype),
                    "bytes": int(node.value.nbytes),
                    "wants": node.requires_grad,
                    "value": arrays.add(node.value),
                    "grad": None if node.grad is None else arrays.add(node.grad),
                    "gave": [
                        [c.parent, None if c.before is None else arrays.add(c.before), arrays.add(c.after)]
                        for c in node.contributions
                    ],
                    "us": round(node.seconds * 1e6, 1),
                    "forward_us": round(node.forward_seconds * 1e6, 1),
                }
            )
        used = sorted({str(rule["derivation"]) for rule in rules.values()} - {""})
        texts = {name: {"title": title(name), "html": derivation(name)} for name in used}
        parts = {"nodes": nodes, "rules": rules, "derivations": texts}
        return f'{json.dumps(parts)[:-1]},"arrays":[{",".join(arrays.texts)}]}}'


class _Arrays:
    """Arrays as JSON, each once; of large ones a sample, evenly spread, with whole-array figures beside it."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.texts: list[str] = []
        self.known: dict[int, int] = {}
        self.held: list[np.ndarray] = []  # as long as they live, identities stay theirs

    def add(self, array: np.ndarray) -> int:
        """Return the array's number."""
        if id(array) not in self.known:
            self.known[id(array)] = len(self.texts)
            self.held.append(array)
            self.texts.append(self._text(array))
        return self.known[id(array)]

    def _text(self, array: np.ndarray) -> str:
        if array.dtype.kind == "c":
            array = np.abs(array)
        shape = array.shape
        columns = shape[-1] if shape else 1
        table = array.reshape(-1, columns) if array.size else array.reshape(0, 0)
        rows, columns = table.shape
        side = math.isqrt(self.most)
        wide = min(columns, max(side, self.most // max(rows, 1)))
        high = min(rows, max(1, self.most // max(wide, 1)))
        i, j = (
            np.linspace(0, n - 1, m).astype(int) if m else np.zeros(0, int)
            for n, m in ((rows, high), (columns, wide))
        )
        sample = table[np.ix_(i, j)].astype(np.float64)
        finite = np.isfinite(array) if array.dtype.kind == "f" else np.ones(shape, bool)
        some = array[finite].astype(np.float64) if array.size else np.zeros(0)
        facts = {
            "shape": shape,
            "rows": i.tolist() if high < rows else high,
            "columns": j.tolist() if wide < columns else wide,
            "min": _short(some.min()) if some.size else None,
            "max": _short(some.max()) if some.size else None,
            "mean": _short(some.mean()) if some.size else None,
            "nan": int(np.isnan(array).sum()) if array.dtype.kind == "f" else 0,
            "inf": int(np.isinf(array).sum()) if array.dtype.kind == "f" else 0,
        }
        numbers = ",".join(_number(value) for value in sample.reshape(-1).tolist())
        return f'{json.dumps(facts)[:-1]},"numbers":[{numbers}]}}'


def _short(value: Any) -> float:
    return float(f"{float(value):.5g}")


def _number(value: float) -> str:
    # JSON knows neither nan nor infinity; a page reads 1e999 as the latter.
    if math.isnan(value):
        return "null"
    return f"{value:.5g}" if math.isfinite(value) else "1e999" if value > 0 else "-1e999"
