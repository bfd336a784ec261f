"""Running one expression on a learner's engine. Enters: an expression, arrays, what known mistakes would give.

Leaves: nothing if values and gradients are those of the one-file engine; otherwise a `Mistake`, named by what the wrong
numbers look like. The walk back is done here, by the fields `_prev` and `_backward` alone, so that a lab proves its own
operation and not the learner's backward().
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from minitorch.course import tensor as reference
from minitorch.course.findings import Mistake, describe, show, where
from minitorch.testing.fields import backward

TOLERANCE = {"float64": 1e-7, "float32": 1e-4}
FIELDS = ("data", "grad", "requires_grad", "_prev", "_op", "_backward")
FUNCTIONS = ("cat", "stack", "cross_entropy", "unbroadcast", "no_grad")
VALUE, ERROR = "value", "error"


@dataclass(frozen=True)
class Suspect:
    """A known mistake, and what it would give.

    where: the name of the input whose gradient it spoils; "value" for the result itself; "error" for an exception.
    formula: what would be there, in terms of the inputs, `out`, `g` (the arriving gradient) and `np`; for "error", the
    kinds of exception.
    """

    name: str
    where: str
    formula: str


class Engine:
    """A learner's module, or a class alone: its Tensor and its functions, by name."""

    def __init__(self, module: ModuleType | type | Any) -> None:
        self.module = module
        self.Tensor: Any = module if isinstance(module, type) else getattr(module, "Tensor", None)
        if not isinstance(self.Tensor, type):
            raise Mistake("not-written", what="Tensor")

    def function(self, name: str) -> Any:
        """Return a function of the module, or one that the class has."""
        found = getattr(self.module, name, None) or getattr(self.Tensor, name, None)
        if found is None:
            raise Mistake("not-written", what=name)
        return found

    def leaf(self, array: Any, requires_grad: bool = True) -> Any:
        """Make a tensor of theirs."""
        try:
            made = self.Tensor(np.array(array), requires_grad=requires_grad)
        except Exception as error:
            raise self.crash("constructor-crash", error) from error
        missing = [name for name in FIELDS if not hasattr(made, name)]
        if missing:
            raise Mistake("fields-missing", what=", ".join(missing))
        return made

    def crash(self, name: str, error: BaseException, **facts: Any) -> Mistake:
        """Name an exception of theirs."""
        if isinstance(error, Mistake):
            return error
        text = describe(error)
        for kind, named in ((RecursionError, "endless-recursion"), (MemoryError, "out-of-memory")):
            if isinstance(error, kind):
                return Mistake(named, line=where(error, self.module), **facts)
        if isinstance(error, NotImplementedError):
            return Mistake("not-written", what=str(error) or where(error, self.module), **facts)
        # Something is absent that the program asks for by name, or an operator that the class does not have.
        absent = isinstance(error, AttributeError) and f".{error.name}(" in str(facts.get("program"))
        operators = ("unsupported operand", "bad operand type", "not subscriptable")
        undefined = isinstance(error, TypeError) and f"'{self.Tensor.__name__}'" in text
        if absent or (undefined and any(words in text for words in operators)):
            return Mistake("not-written", what=text, **facts)
        return Mistake(name, error=text, line=where(error, self.module), **facts)

    def evaluate(self, expression: str, names: dict[str, Any]) -> Any:
        """Compute an expression of a check with their functions."""
        used = {name: self.function(name) for name in FUNCTIONS if f"{name}(" in expression}
        return eval(expression, {"np": np, **used, **names})


REFERENCE = Engine(reference)


def weights(shape: tuple[int, ...]) -> np.ndarray:
    """Return the gradient that arrives: 1, 2, 3, …; a constant one hides mistakes that cancel."""
    return np.arange(1.0, 1.0 + int(np.prod(shape))).reshape(shape)


def close(a: Any, b: Any, tolerance: float = 1e-7) -> bool:
    """Tell whether two arrays have one shape and, up to rounding, equal numbers."""
    a, b = np.asarray(a), np.asarray(b)
    return a.shape == b.shape and bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))


def array_of(value: Any) -> np.ndarray | None:
    """Return a field's array; None where it holds none."""
    return np.asarray(value) if isinstance(value, (np.ndarray, np.generic)) else None


class Examination:
    """One expression on one set of inputs, theirs beside the right one."""

    def __init__(
        self,
        engine: Engine,
        expression: str,
        inputs: dict[str, Any],
        suspects: Sequence[Suspect] = (),
        constants: Sequence[str] = (),
    ) -> None:
        self.engine, self.expression, self.inputs, self.suspects = engine, expression, inputs, suspects
        self.floats = [n for n, a in inputs.items() if np.asarray(a).dtype.kind == "f"]
        self.wanted = [n for n in self.floats if n not in constants]
        self.facts: dict[str, Any] = {
            "program": f"out = {expression}",
            "inputs": "; ".join(f"{name} = {show(np.asarray(array))}" for name, array in inputs.items()),
        }

    def tensors(self, engine: Engine) -> dict[str, Any]:
        """Make the inputs: floats are tensors, all else stays an array."""
        return {
            name: engine.leaf(array, name in self.wanted) if name in self.floats else np.asarray(array)
            for name, array in self.inputs.items()
        }

    def run(self) -> None:
        """Compare, in the order in which a mistake is easiest to understand."""
        right = self.tensors(REFERENCE)
        expected = REFERENCE.evaluate(self.expression, right)
        mine = self.tensors(self.engine)
        for name in self.floats:
            given, held = np.asarray(self.inputs[name]).dtype, np.asarray(mine[name].data).dtype
            if given != held:
                raise Mistake("dtype-forced", expected=str(given), got=str(held))
        try:
            out = self.engine.evaluate(self.expression, mine)
        except Exception as error:
            raise self.blame_error(error, "forward-crash") from error
        self.compare_value(out, expected)
        self.compare_graph(out, mine)
        self.g = weights(expected.data.shape).astype(expected.data.dtype)
        backward(expected, self.g)
        try:
            backward(out, self.g.copy())
        except Exception as error:
            raise self.blame_error(error, "backward-crash") from error
        if not close(out.grad, self.g):
            theirs = [mine[name].grad for name in self.wanted]
            shared = any(isinstance(grad, np.ndarray) and np.shares_memory(grad, out.grad) for grad in theirs)
            name = "shared-gradient" if shared else "upstream-changed"
            raise Mistake(
                name, **self.facts, expected=f"out.grad = {show(self.g)}", got=f"out.grad = {show(out.grad)}"
            )
        for name in self.wanted:
            self.compare_gradient(name, mine[name], right[name], mine)
        for name in self.floats:
            grad = mine[name].grad
            if name not in self.wanted and grad is not None and np.asarray(grad).any():
                raise Mistake("gradient-for-constants", **self.facts, expected="None", got=grad, what=name)

    # --- one thing at a time ---------------------------------------------------------------------------------

    def compare_value(self, out: Any, expected: Any) -> None:
        """Is the result a tensor of theirs, of the right shape, values and dtype?"""
        if not isinstance(out, self.engine.Tensor):
            raise Mistake("not-a-tensor", **self.facts, got=type(out).__name__)
        got, want = np.asarray(out.data), expected.data
        tolerance = TOLERANCE.get(want.dtype.name, 1e-7)
        if not close(got, want, tolerance):
            facts = {**self.facts, "expected": f"out.data = {show(want)}", "got": f"out.data = {show(got)}"}
            for suspect in self.suspects:
                if suspect.where == VALUE and self.gives(suspect, got, out):
                    raise Mistake(suspect.name, **facts)
            raise Mistake("wrong-shape" if got.shape != want.shape else "wrong-value", **facts)
        if got.dtype != want.dtype:
            raise Mistake("result-dtype", **self.facts, expected=str(want.dtype), got=str(got.dtype))

    def compare_graph(self, out: Any, mine: dict[str, Any]) -> None:
        """Does the result know that a gradient may be asked for, and whom it was made from?"""
        if self.wanted and not out.requires_grad:
            raise Mistake("requires-grad-lost", **self.facts, expected="True", got=show(out.requires_grad))
        if self.wanted and not list(out._prev):
            raise Mistake("parents-missing", **self.facts, got=show(out._prev))

    def compare_gradient(self, name: str, mine: Any, right: Any, everything: dict[str, Any]) -> None:
        """Is a gradient there, an array, of the right shape, dtype and numbers?"""
        want, got = right.grad, mine.grad
        facts = {
            **self.facts,
            "arriving": f"out.grad = {show(self.g)}",
            "expected": f"{name}.grad = {show(want)}",
            "got": f"{name}.grad = {show(got)}",
        }
        if got is None:
            others = [n for n in self.wanted if n != name and everything[n].grad is not None]
            if others and any(s.name == "loop-variable" for s in self.suspects):
                raise Mistake("loop-variable", **facts)
            raise Mistake("no-gradient", **facts, what=name)
        array = array_of(got)
        if array is None:
            raise Mistake("gradient-not-array", **facts, what=type(got).__name__)
        if close(array, want, TOLERANCE.get(want.dtype.name, 1e-7)):
            if array.dtype != want.dtype:
                raise Mistake("gradient-dtype", **facts)
            if isinstance(got, np.ndarray) and got.size and not got.flags.writeable:
                raise Mistake("read-only-gradient", **facts)
            return
        for suspect in self.suspects:
            if suspect.where == name and self.gives(suspect, array, None):
                raise Mistake(suspect.name, **facts)
        if array.shape != want.shape:
            try:
                stretched = np.broadcast_shapes(want.shape, array.shape) == array.shape == self.g.shape
            except ValueError:
                stretched = False
            raise Mistake("missing-unbroadcast" if stretched else "gradient-shape", **facts)
        raise Mistake("wrong-derivative", **facts)

    def gives(self, suspect: Suspect, got: np.ndarray, out: Any) -> bool:
        """Tell whether a known mistake would give exactly what they got."""
        names = {name: np.asarray(array) for name, array in self.inputs.items()}
        if hasattr(self, "g"):
            names["g"] = self.g
        try:
            with np.errstate(all="ignore"):
                return close(got, eval(suspect.formula, {"np": np, **names}), 1e-5)
        except (ValueError, IndexError, TypeError):
            return False  # the mistake could not have been made on these shapes

    def blame_error(self, error: Exception, otherwise: str) -> Mistake:
        """Name an exception."""
        kind = type(error).__name__
        absent = otherwise == "backward-crash" and isinstance(error, TypeError) and "NoneType" in str(error)
        if absent:
            return Mistake(
                "grad-is-none", error=describe(error), line=where(error, self.engine.module), **self.facts
            )
        for suspect in self.suspects:
            if suspect.where == ERROR and kind in suspect.formula and otherwise == "backward-crash":
                return Mistake(
                    suspect.name, error=describe(error), line=where(error, self.engine.module), **self.facts
                )
        return self.engine.crash(otherwise, error, **self.facts)
