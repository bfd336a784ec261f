"""op: declare your own operation, in plain NumPy, the way the library declares its own.

Enters: a forward and one derivative rule per input. Leaves: a function of Tensors, and `check`, which
proves it in one call.
"""

from __future__ import annotations

import copy
import functools
import importlib
import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from minitorch import creation
from minitorch.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck
from minitorch.engine.backward import backpropagate
from minitorch.engine.dtypes import kind_of
from minitorch.engine.modes import observed
from minitorch.engine.node import Node
from minitorch.engine.record import apply, apply_many
from minitorch.ops.op import Op, Rule
from minitorch.tensor.convert import as_tensor, promoted


@dataclass
class Report:
    """What `check` tried, and what came out: one line each."""

    name: str
    lines: list[tuple[str, bool, str]] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Whether everything passed."""
        return all(passed for _, passed, _ in self.lines)

    def __str__(self) -> str:
        rows = [
            f"  {'ok  ' if passed else 'FAIL'}  {what}{': ' + why if why else ''}"
            for what, passed, why in self.lines
        ]
        return "\n".join([f"{self.name}: {'proven' if self.ok else 'not proven'}", *rows])


class OpCheckError(AssertionError):
    """An op did not pass its check."""


class UserOp:
    """An operation on Tensors, made by `op`."""

    def __init__(self, declared: Op, several: bool) -> None:
        self.op = declared
        self._several = several
        functools.update_wrapper(self, declared.forward, updated=())
        self.__name__ = declared.name

    def __call__(self, *inputs: Any, **attributes: Any) -> Any:
        """Compute it on Tensors (or what can be made one), and record it."""
        rules = len(self.op.rules)
        if rules and len(inputs) > rules:
            raise TypeError(
                f"{self.op.name}: {len(inputs)} inputs met {rules} rule{'s' * (rules != 1)}. Give op(…) one rule for "
                "each input, None for an input without a derivative, and pass what is no input by keyword"
            )
        tensors = [None if i is None else as_tensor(i) for i in inputs]
        floats = [t for t in tensors if t is not None and kind_of(t.dtype) == "f"]
        if len({t.dtype for t in floats}) > 1:
            together = iter(promoted(*floats))
            tensors = [next(together) if t is not None and kind_of(t.dtype) == "f" else t for t in tensors]
        run = apply_many if self._several else apply
        return run(self._observed(), *tensors, **attributes)

    def _observed(self) -> Op:
        """Return the op; while a function is recorded, with the program's own functions in it observed."""
        if observed(self.op.forward) is self.op.forward:
            return self.op
        op = copy.copy(self.op)
        op.forward = observed(op.forward)
        op.rules = tuple(None if rule is None else observed(rule) for rule in op.rules)
        op.each = op.each and observed(op.each)
        op.joint = op.joint and observed(op.joint)
        return op

    def __repr__(self) -> str:
        return f"<op {self.op.name}>"

    def check(self, *inputs: Any, raise_exception: bool = True, **attributes: Any) -> Report:
        """Prove the op at these inputs: shape and dtype, aliasing, gradcheck, gradgradcheck, broadcasting.

        Where that holds, also that it is the same inside vmap, in forward mode, compiled, and on a GPU if there is one.
        Give float inputs away from kinks; they are checked in float64.

        >>> import minitorch
        >>> cube = minitorch.op(lambda g, out, x: 3 * g * x * x, name="cube")(lambda x: x * x * x)
        >>> print(cube.check(minitorch.tensor([0.5, -1.0, 2.0])))
        cube: proven
          ok    float32 in, float32 out
          ok    inputs and gradient left as they were
          ok    gradcheck
          ok    gradgradcheck
          ok    many examples at once (vmap)
          ok    forward mode
          ok    compiled
        """
        report = Report(self.op.name)
        arrays = [None if i is None else as_tensor(i)._data for i in inputs]
        for what, check in (
            ("float32 in, float32 out", self._check_dtype),
            ("inputs and gradient left as they were", self._check_aliasing),
            ("gradcheck", self._check_first_order),
            ("gradgradcheck", self._check_second_order),
            ("broadcasting", self._check_broadcasting),
        ):
            try:
                problem = check(arrays, attributes)
            except GradcheckError as error:
                problem = str(error)
            except Exception as error:  # whatever a broken op raises is a finding
                problem = f"{type(error).__name__}: {error}"
                if what == "gradgradcheck":
                    problem += (
                        "; rules must be written with NumPy functions and operators that also work on Tensors"
                    )
            if problem is not None:
                report.lines.append((what, not problem, problem))
        if report.ok:
            # The readings use the whole library, as a person does, and few programs ask: loaded when they do.
            other = importlib.import_module("minitorch.proof.readings")
            double = [a.astype(np.float64) if a is not None and a.dtype.kind == "f" else a for a in arrays]
            report.lines += other.readings(self, double, attributes)
        if raise_exception and not report.ok:
            raise OpCheckError(str(report))
        return report

    def _tensors(self, arrays: list[Any], dtype: Any, requires_grad: bool) -> list[Any]:
        return [
            None
            if a is None
            else creation.tensor(a, dtype=dtype, requires_grad=requires_grad)
            if kind_of(a.dtype) == "f"
            else creation.tensor(a)
            for a in arrays
        ]

    def _results(self, tensors: list[Any], attributes: dict[str, Any]) -> list[Any]:
        out = self(*tensors, **attributes)
        return [out] if isinstance(out, Node) else list(out)

    def _check_dtype(self, arrays: list[Any], attributes: dict[str, Any]) -> str:
        single = self._results(self._tensors(arrays, np.float32, False), attributes)
        double = self._results(self._tensors(arrays, np.float64, False), attributes)
        for i, (s, d) in enumerate(zip(single, double, strict=True)):
            if s.shape != d.shape:
                return f"output {i} has shape {s.shape} in float32 but {d.shape} in float64"
            if kind_of(d.dtype) == "f" and (s.dtype != np.float32 or d.dtype != np.float64):
                return f"output {i} is {s.dtype} for float32 inputs and {d.dtype} for float64 inputs"
        return ""

    def _check_aliasing(self, arrays: list[Any], attributes: dict[str, Any]) -> str:
        tensors = self._tensors(arrays, np.float64, True)
        before = [None if t is None else t._data.copy() for t in tensors]
        outputs = self._results(tensors, attributes)
        kept = [o._data.copy() for o in outputs]
        for output, values in zip(outputs, kept, strict=True):
            if not output.requires_grad:
                continue
            seed = np.ones(output.shape, output.dtype)
            # The engine itself, so that the rule gets this very array.
            backpropagate([output], [seed], retain_graph=True)
            if not (seed == 1).all():
                return "a rule writes into g, which other nodes read too; work on a copy"
            if not np.array_equal(output._data, values, equal_nan=True):
                return "a rule writes into out"
        for i, (t, values) in enumerate(zip(tensors, before, strict=True)):
            if values is not None and not np.array_equal(t._data, values, equal_nan=kind_of(t.dtype) == "f"):
                return f"forward or a rule writes into input {i}; work on a copy"
        return ""

    def _check_first_order(self, arrays: list[Any], attributes: dict[str, Any]) -> str:
        return self._compare(gradcheck, arrays, attributes)

    def _check_second_order(self, arrays: list[Any], attributes: dict[str, Any]) -> str:
        return self._compare(gradgradcheck, arrays, attributes)

    def _compare(self, check: Callable[..., bool], arrays: list[Any], attributes: dict[str, Any]) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # a wrong dtype has its own line in the report
            check(lambda *xs: self(*xs, **attributes), self._tensors(arrays, np.float64, True))
        return ""

    def _check_broadcasting(self, arrays: list[Any], attributes: dict[str, Any]) -> str | None:
        """If the op broadcasts, its gradients must come back in the inputs' shapes; None if it does not."""
        floats = [i for i, a in enumerate(arrays) if a is not None and kind_of(a.dtype) == "f" and a.ndim]
        if len(floats) < 2:
            return None
        whole = self._results(self._tensors(arrays, np.float64, False), attributes)
        tried = False
        for i in floats:
            for part in _stretchable(arrays[i]):
                smaller = [part if k == i else a for k, a in enumerate(arrays)]
                try:
                    out = self._results(self._tensors(smaller, np.float64, False), attributes)
                except (RuntimeError, IndexError, ValueError, TypeError):
                    continue  # it does not broadcast this way
                if [o.shape for o in out] != [o.shape for o in whole]:
                    continue
                tried = True
                try:
                    self._compare(gradcheck, smaller, attributes)
                except (GradcheckError, RuntimeError) as error:
                    return f"with input {i} broadcast from shape {part.shape}: {error}"
        return "" if tried else None


def _stretchable(array: np.ndarray) -> Iterator[np.ndarray]:
    """Yield parts of an array that broadcasting could stretch to its shape: each axis cut to 1, the first left out."""
    for axis, length in enumerate(array.shape):
        if length > 1:
            yield array[(slice(None),) * axis + (slice(0, 1),)]
    if array.ndim > 1 and array.shape[0]:
        yield array[0]


def _most_inputs(forward: Callable[..., Any]) -> int | None:
    """Return how many positional arguments a function takes at most; None where that is not known or not bounded."""
    if isinstance(forward, np.ufunc):
        return forward.nin
    try:
        parameters = inspect.signature(forward).parameters.values()
    except (TypeError, ValueError):  # written in C, without a signature
        return None
    kinds = [p.kind for p in parameters]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return None
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(kind in positional for kind in kinds)


def op(
    *rules: Rule | None,
    name: str | None = None,
    joint: Rule | None = None,
    several: bool = False,
    floating: bool = False,
) -> Callable[[Callable[..., Any]], UserOp]:
    """Declare an operation: decorate its forward, written in NumPy, with one rule per input.

    A rule receives g, the output, all inputs, and the attributes by keyword, and returns its input's
    gradient; broadcasting is undone for you. None stands for an input without a derivative.

    joint: instead of rules, one function that returns all gradients. several: forward returns a tuple,
    and rules get a list of gradients. floating: integer inputs become floats first.

    >>> import minitorch
    >>> @minitorch.op(lambda g, out, x: g * (x > 0) * 2 * x)
    ... def squared_relu(x):
    ...     return np.maximum(x, 0) ** 2
    >>> x = minitorch.tensor([1.0, 3.0], requires_grad=True)
    >>> squared_relu(x).sum().backward(); x.grad
    array([2., 6.], dtype=float32)
    >>> squared_relu.check(x).ok
    True
    """
    for rule in (*rules, joint):
        if rule is not None and not callable(rule):
            raise TypeError(
                f"op: rules must be functions, got {type(rule).__name__}; decorate the forward with op(rule, …)"
            )
    if not rules and joint is None:
        raise TypeError("op: give one rule per input (None for an input without a derivative), or joint=")

    def declare(forward: Callable[..., Any]) -> UserOp:
        chosen = name or forward.__name__
        accepted = _most_inputs(forward)
        if accepted is not None and len(rules) > accepted:
            raise TypeError(
                f"op: {chosen} takes at most {accepted} inputs, but {len(rules)} rules were given: give one for each"
            )
        return UserOp(Op(chosen, forward, *rules, joint=joint, floating=floating, register=False), several)

    return declare


__all__ = ["OpCheckError", "Report", "UserOp", "op"]
