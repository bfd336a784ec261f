"""L-BFGS: steps along -H·g, where H approximates the inverse Hessian from the steps before.

Enters: a closure that computes the loss and its gradients anew. Leaves: parameters, at the end of up
to `max_iter` iterations. All parameters are seen as one long vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from minitorch.autograd import enable_grad
from minitorch.engine.node import new_tensor
from minitorch.engine.watch import touch
from minitorch.ops.sparse import Coo
from minitorch.optim.optimizer import Optimizer, as_reals, check_lr, number


class LBFGS(Optimizer):
    """Limited-memory BFGS, a quasi-Newton method for losses that are computed on all the data.

    line_search_fn: None takes steps of length `lr`; "strong_wolfe" searches along the direction for
        a point where the loss has fallen enough and the slope has flattened.
    history_size: how many pairs (change of place, change of gradient) H is built from.

    >>> x = minitorch.tensor([3.0, -2.0], requires_grad=True)
    >>> optimizer = LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((x - 1) ** 2).sum()
    ...     loss.backward()
    ...     return loss
    >>> first_loss = optimizer.step(closure); x
    tensor([1.0000, 1.0000], requires_grad=True)
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_lr("LBFGS", lr)
        if line_search_fn not in (None, "strong_wolfe"):
            raise ValueError(f"LBFGS: line_search_fn must be None or 'strong_wolfe', got {line_search_fn!r}")
        defaults = {
            "lr": lr,
            "max_iter": max_iter,
            "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad,
            "tolerance_change": tolerance_change,
            "history_size": history_size,
            "line_search_fn": line_search_fn,
        }
        super().__init__(params, defaults)

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add the parameters; there is one group only."""
        if self.param_groups:
            raise ValueError("LBFGS: doesn't support per-parameter options (several parameter groups)")
        super().add_param_group(param_group)

    # --- all parameters as one vector -----------------------------------------------------------

    def _gradient(self) -> np.ndarray:
        held = [(p._data, p._grad) for p in self.param_groups[0]["params"]]
        parts = [np.zeros_like(x) if g is None else g.dense() if isinstance(g, Coo) else g for x, g in held]
        return np.concatenate([_reals(part).reshape(-1) for part in parts])

    def _move(self, length: float, direction: np.ndarray) -> None:
        start = 0
        for p in self.param_groups[0]["params"]:
            reals = _reals(p._data)
            part = direction[start : start + reals.size].reshape(reals.shape)
            reals += (length * part).astype(reals.dtype, copy=False)
            start += reals.size
            touch(p._data)

    def _places(self) -> list[np.ndarray]:
        return [p._data.copy() for p in self.param_groups[0]["params"]]

    def _return_to(self, places: list[np.ndarray]) -> None:
        for p, place in zip(self.param_groups[0]["params"], places, strict=True):
            p._data[...] = place
            touch(p._data)

    # --- the step -------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Run up to max_iter iterations and return the loss at the start."""
        if closure is None:
            raise TypeError(
                "LBFGS.step: needs a closure that zeroes the gradients, computes the loss, calls backward"
            )
        group = self.param_groups[0]
        lr = number(group["lr"])
        max_iter, max_eval = group["max_iter"], group["max_eval"]
        flat_enough, small_change = group["tolerance_grad"], group["tolerance_change"]
        state = self.state[group["params"][0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        def evaluate() -> tuple[Any, np.ndarray]:
            with enable_grad():
                loss = closure()
            return loss, self._gradient()

        first_loss, gradient = evaluate()
        loss = float(first_loss)
        evaluations = 1
        state["func_evals"] += 1
        if _largest(gradient) <= flat_enough:
            return first_loss

        history = _History.of(state, group["history_size"])
        direction = _array(state.get("d"))
        length = number(state.get("t", 0.0))
        previous_gradient = _array(state.get("prev_flat_grad"))
        previous_loss = state.get("prev_loss")
        for iteration in range(1, max_iter + 1):
            state["n_iter"] += 1
            if state["n_iter"] == 1:
                direction = -gradient
                history = _History([], [], [], 1.0, group["history_size"])
                length = min(1.0, 1.0 / float(np.abs(gradient).sum())) * lr
            else:
                history = history.with_pair(direction * length, gradient - previous_gradient)
                direction = history.direction(gradient)
                length = lr
            previous_gradient, previous_loss = gradient, loss
            slope = float(gradient @ direction)
            if slope > -small_change:
                break
            used = 0
            if group["line_search_fn"] is not None:
                start = self._places()

                def along(t: float, start: list[np.ndarray] = start, direction: Any = direction) -> _Point:
                    self._move(t, direction)
                    value, g = evaluate()
                    self._return_to(start)
                    return _Point(t, float(value), g, float(g @ direction))

                here = _Point(0.0, loss, gradient, slope)
                found, used = strong_wolfe(along, here, length, _largest(direction), max_eval - evaluations)
                length, loss, gradient = found.t, found.loss, found.gradient
                self._move(length, direction)
            else:
                self._move(length, direction)
                if iteration != max_iter:
                    value, gradient = evaluate()
                    loss, used = float(value), 1
            evaluations += used
            state["func_evals"] += used
            if (
                evaluations >= max_eval
                or _largest(gradient) <= flat_enough
                or _largest(direction * length) <= small_change
                or abs(loss - previous_loss) < small_change
            ):
                break

        state["d"] = new_tensor(direction)
        state["t"] = length
        state["old_dirs"] = [new_tensor(y) for y in history.gradients]
        state["old_stps"] = [new_tensor(s) for s in history.steps]
        state["ro"] = [new_tensor(np.asarray(r, dtype=direction.dtype)) for r in history.inverses]
        state["H_diag"] = new_tensor(np.asarray(history.scale, dtype=direction.dtype))
        state["prev_flat_grad"] = new_tensor(previous_gradient)
        state["prev_loss"] = previous_loss
        return first_loss


def _reals(array: np.ndarray) -> np.ndarray:
    return as_reals(array) if array.dtype.kind == "c" else array


def _largest(vector: np.ndarray) -> float:
    return float(np.abs(vector).max()) if vector.size else 0.0


def _array(value: Any) -> Any:
    return getattr(value, "_data", value)


class _History(NamedTuple):
    """What is known of the curvature: pairs (s, y) of a step and how it changed the gradient."""

    steps: list[np.ndarray]  # s
    gradients: list[np.ndarray]  # y
    inverses: list[float]  # 1/(yᵀs)
    scale: float  # the inverse Hessian is taken for scale·I where no pair speaks
    size: int

    @classmethod
    def of(cls, state: dict[str, Any], size: int) -> _History:
        """Read it from the optimiser's state."""
        steps, gradients, inverses = (
            [_array(each) for each in state.get(key, [])] for key in ("old_stps", "old_dirs", "ro")
        )
        return cls(
            steps, gradients, [float(r) for r in inverses], float(_array(state.get("H_diag", 1.0))), size
        )

    def with_pair(self, s: np.ndarray, y: np.ndarray) -> _History:
        """Add a pair, if the loss curves upwards along it; forget the oldest when full."""
        curvature = float(y @ s)
        if curvature <= 1e-10:
            return self
        first = 1 if len(self.steps) == self.size else 0
        return _History(
            [*self.steps[first:], s],
            [*self.gradients[first:], y],
            [*self.inverses[first:], 1.0 / curvature],
            curvature / float(y @ y),
            self.size,
        )

    def direction(self, gradient: np.ndarray) -> np.ndarray:
        """Return -H·g by the two-loop recursion: no matrix is ever formed."""
        r = -gradient
        shares = []
        pairs = list(zip(self.steps, self.gradients, self.inverses, strict=True))
        for s, y, inverse in reversed(pairs):
            share = float(s @ r) * inverse
            shares.append(share)
            r -= share * y
        r *= self.scale
        for (s, y, inverse), share in zip(pairs, reversed(shares), strict=True):
            r += (share - float(y @ r) * inverse) * s
        return r


class _Point(NamedTuple):
    """A place on the line of a search: how far, the loss there, its gradient, its slope along the line."""

    t: float
    loss: float
    gradient: np.ndarray
    slope: float


def strong_wolfe(
    along: Callable[[float], _Point],
    here: _Point,
    t: float,
    size: float,
    max_steps: int = 25,
    small_change: float = 1e-9,
    enough: float = 1e-4,
    flat: float = 0.9,
) -> tuple[_Point, int]:
    """Find a point on a line where the strong Wolfe conditions hold; return it and the evaluations made.

    loss(t) ≤ loss(0) + enough·t·slope(0)   and   |slope(t)| ≤ flat·|slope(0)|

    First walk outwards until such a point or an interval that must hold one is found; then narrow
    the interval by cubic interpolation (Nocedal and Wright, Numerical Optimization, chapter 3).
    """

    def too_high(point: _Point) -> bool:
        return point.loss > here.loss + enough * point.t * here.slope

    previous, point = here, along(t)
    evaluations, steps = 1, 0
    low = high = None
    while steps < max_steps:
        risen = too_high(point) or (steps > 1 and point.loss >= previous.loss)
        if not risen and abs(point.slope) <= -flat * here.slope:
            return point, evaluations
        if risen or point.slope >= 0:
            low, high = (previous, point) if previous.loss <= point.loss else (point, previous)
            break
        nearest, farthest = point.t + 0.01 * (point.t - previous.t), 10 * point.t
        guess = _cubic_minimum(previous, point, nearest, farthest)
        previous, point = point, along(guess)
        evaluations += 1
        steps += 1
    if low is None or high is None:
        return (here, evaluations) if here.loss <= point.loss else (point, evaluations)

    stuck = False
    while steps < max_steps and abs(high.t - low.t) * size >= small_change:
        left, right = min(low.t, high.t), max(low.t, high.t)
        guess = _cubic_minimum(low, high, left, right)
        margin = 0.1 * (right - left)
        if min(right - guess, guess - left) < margin:
            # Too near an end to be worth an evaluation: twice in a row, or outside, step inwards.
            if stuck or guess >= right or guess <= left:
                guess = right - margin if abs(guess - right) < abs(guess - left) else left + margin
                stuck = False
            else:
                stuck = True
        else:
            stuck = False
        point = along(guess)
        evaluations += 1
        steps += 1
        if too_high(point) or point.loss >= low.loss:
            high = point
            if high.loss < low.loss:
                low, high = high, low
            continue
        if abs(point.slope) <= -flat * here.slope:
            return point, evaluations
        if point.slope * (high.t - low.t) >= 0:
            high = low
        low = point
    return low, evaluations


def _cubic_minimum(a: _Point, b: _Point, smallest: float, largest: float) -> float:
    """Return where the cubic through two points with their slopes is lowest, within bounds."""
    if a.t > b.t:
        a, b = b, a
    middle = a.slope + b.slope - 3 * (a.loss - b.loss) / (a.t - b.t)
    square = middle * middle - a.slope * b.slope
    # Not `square < 0`: a nan (the loss overflowed) gives the middle too.
    if not square >= 0:
        return (smallest + largest) / 2
    root = math.sqrt(square)
    below = b.slope - a.slope + 2 * root
    if below == 0:
        return (smallest + largest) / 2
    return min(max(b.t - (b.t - a.t) * ((b.slope + root - middle) / below), smallest), largest)
