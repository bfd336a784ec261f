"""gradcheck: is a derivative right? Compared with finite differences, element by element.

Enters: a function of Tensors and inputs. Leaves: True, or a report of where and how it disagrees.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitorch import creation
from minitorch.autograd.grad import grad
from minitorch.engine.dtypes import kind_of
from minitorch.engine.gpu import on_host
from minitorch.engine.modes import enable_grad, no_grad
from minitorch.engine.node import Node, new_tensor
from minitorch.tensor import Tensor
from minitorch.tensor.conversions import move
from minitorch.tensor.devices import place_of
from minitorch.tensor.methods.complex import view_as_complex, view_as_real


class GradcheckError(RuntimeError):
    """A derivative disagrees with finite differences."""


@dataclass(frozen=True)
class Comparison:
    """One input against one output: the two Jacobians, and their largest difference."""

    output: int
    input: int
    analytical: np.ndarray  # (outputs, inputs)
    numerical: np.ndarray

    @property
    def error(self) -> float:
        """The largest |analytical - numerical| / max(1, |numerical|)."""
        if not self.analytical.size:
            return 0.0
        difference = np.absolute(self.analytical - self.numerical)
        # Equal infinities (the slope of sqrt at 0) agree.
        difference = np.where(self.analytical == self.numerical, 0.0, difference)
        return float(np.max(difference / np.maximum(1.0, np.absolute(self.numerical))))


def _outputs(value: Any) -> list[Tensor]:
    results = [value] if isinstance(value, Node) else list(value)
    for i, r in enumerate(results):
        if not isinstance(r, Node):
            raise TypeError(f"gradcheck: output {i} of the function must be a Tensor, got {type(r).__name__}")
    return [r for r in results if kind_of(r._data.dtype) == "f"]  # type: ignore[misc]


def _listed(inputs: Any) -> list[Any]:
    # (A tensor of somebody's own class may be iterable as well.)
    return [inputs] if isinstance(inputs, Node) or hasattr(inputs, "requires_grad") else list(inputs)


def _of_reals(function: Callable[..., Any], inputs: Any) -> tuple[Callable[..., Any], Any]:
    """Return the same problem in real numbers: a complex tensor is its real and its imaginary part.

    A gradient of a complex tensor is ∂L/∂x + i·∂L/∂y, so to check these two is to check it.
    """
    listed = _listed(inputs)
    complex_ones = {k for k, i in enumerate(listed) if isinstance(i, Node) and i._data.dtype.kind == "c"}

    def in_parts(tensor: Any) -> Any:
        parts = new_tensor(np.stack([tensor._data.real, tensor._data.imag], axis=-1))
        return parts.requires_grad_() if tensor.requires_grad else parts

    def of_reals(*arguments: Any) -> Any:
        given = [view_as_complex(a) if k in complex_ones else a for k, a in enumerate(arguments)]
        value = function(*given)
        results = [value] if isinstance(value, Node) else value
        return tuple(
            view_as_real(r) if isinstance(r, Node) and r._data.dtype.kind == "c" else r for r in results
        )

    if not complex_ones:
        with no_grad():
            value = function(*listed) if any(isinstance(i, Node) for i in listed) else ()
        results = [value] if isinstance(value, Node) else value
        if not any(isinstance(r, Node) and r._data.dtype.kind == "c" for r in results):
            return function, inputs
    return of_reals, [in_parts(i) if k in complex_ones else i for k, i in enumerate(listed)]


def _beside(tensor: Any, array: np.ndarray) -> Tensor:
    """Return an array as a Tensor that lies where another does."""
    return move(new_tensor(array), place_of(tensor._data))


class _Numeric:
    """Evaluate the function at the inputs with one element moved, without a graph."""

    def __init__(self, function: Callable[..., Any], inputs: Sequence[Any]) -> None:
        self.function = function
        self.inputs = list(inputs)

    def __call__(self, which: int = 0, element: int = 0, step: float = 0.0) -> list[np.ndarray]:
        moved = [np.array(on_host(i._data), order="C") if isinstance(i, Node) else None for i in self.inputs]
        if step:
            moved[which].reshape(-1)[element] += step  # type: ignore[union-attr]
        given = [
            i if array is None else _beside(i, array) for i, array in zip(self.inputs, moved, strict=True)
        ]
        with no_grad():
            results = _outputs(self.function(*given))
        return [np.array(on_host(r._data), dtype=np.float64).reshape(-1) for r in results]


def numerical_jacobian(
    function: Callable[..., Any], inputs: Any, which: int = 0, eps: float = 1e-6
) -> list[np.ndarray]:
    """Return d(output)/d(inputs[which]) by central differences, one (outputs, inputs) array per output.

    >>> import minitorch
    >>> x = minitorch.tensor([1.0, 2.0], dtype=minitorch.float64)
    >>> numerical_jacobian(lambda t: t * t, x)[0].round(6)
    array([[2., 0.],
           [0., 4.]])
    """
    evaluate = _Numeric(function, _listed(inputs))
    size = evaluate.inputs[which]._data.size
    columns = []
    for element in range(size):
        up, down = evaluate(which, element, eps), evaluate(which, element, -eps)
        columns.append([(u - d) / (2 * eps) for u, d in zip(up, down, strict=True)])
    sizes = [o.size for o in evaluate()]
    return [
        np.stack([c[k] for c in columns], axis=1) if size else np.zeros((n, 0)) for k, n in enumerate(sizes)
    ]


def analytical_jacobian(function: Callable[..., Any], inputs: Any, which: int = 0) -> list[np.ndarray]:
    """Return d(output)/d(inputs[which]) by backward, one (outputs, inputs) array per output.

    >>> import minitorch
    >>> x = minitorch.tensor([1.0, 2.0], dtype=minitorch.float64, requires_grad=True)
    >>> analytical_jacobian(lambda t: t * t, x)[0]
    array([[2., 0.],
           [0., 4.]])
    """
    every = _jacobians(function, _listed(inputs))
    return [row[which] for row in every]


def _jacobians(function: Callable[..., Any], inputs: Sequence[Any]) -> list[list[np.ndarray]]:
    """Return, per output, the Jacobian with respect to each input (None for those without gradient)."""
    wanted: list[Any] = [i for i in inputs if isinstance(i, Node) and i.requires_grad]
    with enable_grad():
        outputs = _outputs(function(*inputs))
    found = []
    for output in outputs:
        size = int(output._data.size)
        rows: dict[int, list[np.ndarray]] = {id(w): [] for w in wanted}
        for k in range(size):
            seed = np.zeros(size, dtype=output.dtype)
            seed[k] = 1
            if output.requires_grad:
                gradients = grad(
                    output,
                    wanted,
                    _beside(output, seed.reshape(output.shape)),
                    retain_graph=True,
                    allow_unused=True,
                )
            else:
                gradients = (None,) * len(wanted)
            for w, g in zip(wanted, gradients, strict=True):
                if g is not None and (g.shape != w.shape or g.dtype != w.dtype):
                    raise GradcheckError(
                        f"gradcheck: the gradient has shape {g.shape} and dtype {g.dtype}, its input {w.shape} "
                        f"{w.dtype}"
                    )
                rows[id(w)].append(np.zeros(w._data.size) if g is None else on_host(g._data).reshape(-1))
        found.append(
            [
                np.array(rows[id(i)], dtype=np.float64).reshape(size, i._data.size) if id(i) in rows else None
                for i in inputs
            ]
        )
    return found  # type: ignore[return-value]


def compare(function: Callable[..., Any], inputs: Any, eps: float = 1e-6) -> list[Comparison]:
    """Return every output's Jacobian with respect to every input, both ways."""
    function, inputs = _of_reals(function, inputs)
    listed = _listed(inputs)
    analytical = _jacobians(function, listed)
    comparisons = []
    for which, tensor in enumerate(listed):
        if not isinstance(tensor, Node) or not tensor.requires_grad:
            continue
        numerical = numerical_jacobian(function, listed, which, eps)
        for k, by_differences in enumerate(numerical):
            comparisons.append(Comparison(k, which, analytical[k][which], by_differences))
    return comparisons


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    **ignored: Any,
) -> bool:
    """Check gradients computed by backward against central differences, for every element.

    func: a function of Tensors that returns a Tensor or several. inputs: a Tensor or a tuple; those
    that require grad are checked. Use float64: in float32 the differences themselves are wrong by
    about 1e-3. At a kink (relu at 0) no derivative exists, and the report gives both slopes and what
    we return.

    >>> import minitorch
    >>> x = minitorch.tensor([0.5, -1.5], dtype=minitorch.float64, requires_grad=True)
    >>> gradcheck(lambda t: t.exp() * t.sin(), x)
    True
    >>> kink = minitorch.tensor([0.0], dtype=minitorch.float64, requires_grad=True)
    >>> gradcheck(minitorch.relu, kink)
    Traceback (most recent call last):
    ...
    minitorch.autograd.gradcheck.GradcheckError: gradcheck: output 0 with respect to input 0: 1 of 1 derivatives ...
    """
    func, inputs = _of_reals(func, inputs)
    listed = _listed(inputs)
    checked = [i for i in listed if isinstance(i, Node) and i.requires_grad]
    if not checked:
        from minitorch.testing import fields  # rarely needed, and `import minitorch` stays quick

        if any(
            fields.is_tensor(i) and not isinstance(i, Node) for i in listed
        ):  # somebody's own class of tensors
            found = fields.disagreement(func, listed, eps, atol, rtol)
            if found and raise_exception:
                raise GradcheckError(found)
            return found is None
        raise ValueError("gradcheck: at least one input must be a Tensor with requires_grad=True")
    for i, tensor in enumerate(listed):
        if isinstance(tensor, Node) and tensor.requires_grad and tensor._data.dtype != np.float64:
            warnings.warn(
                f"gradcheck: input {i} is {tensor._data.dtype}; finite differences need float64 to mean anything. Make "
                "it with dtype=minitorch.float64",
                stacklevel=2,
            )
    problem = _find_problem(func, listed, eps, atol, rtol, nondet_tol, check_undefined_grad)
    if problem is None:
        return True
    if raise_exception:
        raise GradcheckError(problem)
    return False


def _find_problem(
    func: Callable[..., Any],
    inputs: list[Any],
    eps: float,
    atol: float,
    rtol: float,
    nondet_tol: float,
    check_undefined_grad: bool,
) -> str | None:
    analytical = _jacobians(func, inputs)
    again = _jacobians(func, inputs)
    for k, (first, second) in enumerate(zip(analytical, again, strict=True)):
        for i, (a, b) in enumerate(zip(first, second, strict=True)):
            if a is not None and not np.allclose(a, b, rtol=0, atol=nondet_tol, equal_nan=True):
                return f"gradcheck: not deterministic: output {k} has two gradients for input {i} in two runs"
    for which, tensor in enumerate(inputs):
        if not isinstance(tensor, Node) or not tensor.requires_grad:
            continue
        for k, numerical in enumerate(numerical_jacobian(func, inputs, which, eps)):
            ours = analytical[k][which]
            close = np.isclose(ours, numerical, rtol=rtol, atol=atol, equal_nan=True)
            if not close.all():
                return _report(func, inputs, k, which, ours, numerical, close, eps, atol, rtol)
    if check_undefined_grad:
        return _check_partial_use(func, inputs)
    return None


def _check_partial_use(func: Callable[..., Any], inputs: list[Any]) -> str | None:
    """Several outputs: a loss that uses only one of them must work too."""
    wanted = [i for i in inputs if isinstance(i, Node) and i.requires_grad]
    with enable_grad():
        outputs = _outputs(func(*inputs))
    if len(outputs) < 2:
        return None
    for k, output in enumerate(outputs):
        if output.requires_grad:
            try:
                grad(output.sum(), wanted, retain_graph=True, allow_unused=True)
            except (TypeError, AttributeError) as error:
                return f"gradcheck: backward fails when only output {k} is used: {error}"
    return None


def _report(
    func: Callable[..., Any],
    inputs: list[Any],
    output: int,
    which: int,
    analytical: np.ndarray,
    numerical: np.ndarray,
    close: np.ndarray,
    eps: float,
    atol: float,
    rtol: float,
) -> str:
    bad = np.argwhere(~close)
    row, column = (int(n) for n in bad[0])
    tensor = inputs[which]
    place = tuple(int(n) for n in np.unravel_index(column, tensor._data.shape)) if tensor._data.ndim else ()
    lines = [
        f"gradcheck: output {output} with respect to input {which}: {len(bad)} of {close.size} derivatives disagree "
        f"(atol {atol}, rtol {rtol})",
        f"  first at input element {place}, output element {row}: backward gives {analytical[row, column]:.6g}, "
        f"differences give {numerical[row, column]:.6g}",
    ]
    left, right = one_sided_slopes(func, inputs, which, column, eps)
    a, b = left[output][row], right[output][row]
    if not math.isclose(a, b, rel_tol=1e-3, abs_tol=1e-3):
        lines.append(
            f"  a kink: the slope is {a:.6g} on the left and {b:.6g} on the right; backward returns "
            f"{analytical[row, column]:.6g}. No derivative exists here: check at another input, or see "
            "docs/conventions.md"
        )
    return "\n".join(lines)


def one_sided_slopes(
    function: Callable[..., Any], inputs: Any, which: int = 0, element: int = 0, eps: float = 1e-6
) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Return the slopes of every output to the left and to the right of one input element.

    >>> import minitorch
    >>> x = minitorch.tensor([0.0], dtype=minitorch.float64)
    >>> left, right = one_sided_slopes(minitorch.relu, x)
    >>> float(left[0][0]), round(float(right[0][0]), 6)
    (0.0, 1.0)
    """
    evaluate = _Numeric(function, _listed(inputs))
    here, up, down = evaluate(), evaluate(which, element, eps), evaluate(which, element, -eps)
    left = [(h - d) / eps for h, d in zip(here, down, strict=True)]
    right = [(u - h) / eps for u, h in zip(up, here, strict=True)]
    return left, right


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    **ignored: Any,
) -> bool:
    """Check second derivatives: gradcheck of the gradient itself, as a function of inputs and grad_outputs.

    >>> import minitorch
    >>> x = minitorch.tensor([0.5, -1.5], dtype=minitorch.float64, requires_grad=True)
    >>> gradgradcheck(lambda t: t.exp() * t.sin(), x)
    True
    """
    first_order, arguments = second_order_problem(func, inputs, grad_outputs)
    if first_order is None:
        return True
    return gradcheck(
        first_order, arguments, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
        check_undefined_grad=False,
    )  # fmt: skip


def second_order_problem(
    func: Callable[..., Any], inputs: Any, grad_outputs: Any = None
) -> tuple[Callable[..., Any] | None, tuple[Any, ...]]:
    """Return the gradient of func as a function, and the arguments to check it at."""
    func, inputs = _of_reals(func, inputs)
    listed = _listed(inputs)
    with enable_grad():
        outputs = [o for o in _outputs(func(*listed)) if o.requires_grad]
    if not outputs:
        return None, ()
    if grad_outputs is None:
        # Fixed and irregular: a constant gradient hides mistakes that cancel. Multiples of 1/64, so that
        # they are exact in any float.
        seeds: list[Any] = [
            creation.tensor(
                (np.round(64 * np.cos(1.0 + 1.7 * np.arange(o._data.size))) / 64).reshape(o.shape),
                dtype=o.dtype,
                device=place_of(o._data),
                requires_grad=True,
            )
            for o in outputs
        ]
    else:
        seeds = _listed(grad_outputs)

    def first_order(*arguments: Any) -> tuple[Any, ...]:
        values, gradients = arguments[: len(listed)], arguments[len(listed) :]
        with enable_grad():
            # The numerical side calls with plain tensors: they must require grad for grad() to run.
            values = tuple(
                v.requires_grad_() if isinstance(v, Node) and w.requires_grad and not v.requires_grad else v  # type: ignore[attr-defined]
                for v, w in zip(values, listed, strict=True)
            )
            wanted = [v for v in values if isinstance(v, Node) and v.requires_grad]
            results = [o for o in _outputs(func(*values)) if o.requires_grad]
            answers = grad(results, wanted, gradients, create_graph=True, allow_unused=True)
        return tuple(a for a in answers if a is not None)

    return first_order, (*listed, *seeds)
