"""The checks of the labs that build the engine. Enters: an `Engine`. Leaves: nothing, or a `Mistake`.

Most are rows of a table: an expression, inputs from small to large, and what known mistakes would give. The first input
that fails is the smallest one tried. What no expression can show (order, seeds, flags) is a function.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minitorch.course.examine import (
    ERROR,
    FIELDS,
    VALUE,
    Engine,
    Examination,
    Suspect,
    array_of,
    close,
)
from minitorch.course.findings import Mistake, describe, show
from minitorch.testing.fields import backward, topological

Inputs = dict[str, Any]
S = Suspect

# Small numbers that are easy to read, all different, in no order.
READABLE = (2.0, 3.0, -1.0, 0.5, 4.0, -2.0, 1.5, -0.5, 1.0, 2.5, -3.0, 3.5, -1.5, 5.0, -2.5, 4.5, -4.0, 0.25)


def numbers(*shape: int, skip: int = 0) -> np.ndarray:
    """Return readable numbers; `skip` gives others.

    >>> numbers(2, 2)
    array([[ 2. ,  3. ],
           [-1. ,  0.5]])
    """
    size = math.prod(shape)
    repeated = READABLE[skip:] + READABLE[:skip]
    return np.array([repeated[i % len(repeated)] + i // len(repeated) for i in range(size)]).reshape(shape)


def one(*shapes: tuple[int, ...]) -> list[Inputs]:
    """Return inputs named x, one for each shape."""
    return [{"x": numbers(*shape)} for shape in shapes]


def two(*pairs: tuple[tuple[int, ...], tuple[int, ...]]) -> list[Inputs]:
    """Return inputs named x and y, one pair for each pair of shapes."""
    return [{"x": numbers(*a), "y": numbers(*b, skip=4)} for a, b in pairs]


@dataclass(frozen=True)
class Row:
    """An expression, what it is tried on, and the mistakes it can tell."""

    expression: str
    inputs: Sequence[Inputs]
    suspects: Sequence[Suspect] = ()
    constants: Sequence[str] = ()

    @property
    def name(self) -> str:
        """What the check is called: it says itself what it does."""
        return self.expression + "".join(f", {name}.requires_grad=False" for name in self.constants)

    def __call__(self, engine: Engine) -> None:
        """Try the inputs, from small to large."""
        for inputs in self.inputs:
            Examination(engine, self.expression, inputs, self.suspects, self.constants).run()


# --- 1: the node ------------------------------------------------------------------------------------------


def fields(engine: Engine) -> None:
    """A new tensor has all fields, and they are what they should be."""
    try:
        x = engine.Tensor([[1.0, 2.0], [3.0, 4.0]])
    except Exception as error:
        raise engine.crash("constructor-crash", error, program="Tensor([[1.0, 2.0], [3.0, 4.0]])") from error
    missing = [name for name in FIELDS if not hasattr(x, name)]
    if missing:
        raise Mistake("fields-missing", what=", ".join(missing))
    program = "x = Tensor([[1.0, 2.0], [3.0, 4.0]])"
    if not isinstance(x.data, np.ndarray):
        raise Mistake("data-not-array", program=program, got=type(x.data).__name__)
    if x.data.shape != (2, 2):
        raise Mistake("wrong-shape", program=program, expected="(2, 2)", got=str(x.data.shape))
    if x.requires_grad is not False:
        raise Mistake("requires-grad-default", program=program, got=show(x.requires_grad))
    if x.grad is not None and not close(x.grad, np.zeros((2, 2))):
        raise Mistake("grad-at-birth", program=program, got=f"x.grad = {show(x.grad)}")
    if list(x._prev) or not callable(x._backward):
        raise Mistake("leaf-with-parents", program=program, got=f"x._prev = {show(x._prev)}")
    number = engine.Tensor(3.0)
    if np.shape(number.data) != () or not isinstance(number.data, np.ndarray):
        raise Mistake("data-not-array", program="x = Tensor(3.0)", got=type(number.data).__name__)


def dtypes_are_kept(engine: Engine) -> None:
    """An array keeps its dtype."""
    for dtype in (np.float64, np.float32):
        held = np.asarray(engine.leaf(np.ones(2, dtype)).data).dtype
        if held != dtype:
            raise Mistake(
                "dtype-forced",
                program=f"x = Tensor(np.ones(2, np.{dtype.__name__}))",
                expected=dtype.__name__,
                got=str(held),
            )


def identity(engine: Engine) -> None:
    """Tensors of equal content are two nodes, and a set can hold them."""
    a, b = engine.leaf([1.0]), engine.leaf([1.0])
    try:
        count = len({a, b, a})
    except Exception as error:
        raise engine.crash("not-hashable", error, program="{a, b, a}") from error
    if count != 2:
        raise Mistake("not-hashable", program="len({a, b, a})", expected="2", got=str(count))


def propagation(engine: Engine) -> None:
    """A result requires a gradient if a parent does, and only then remembers its parents."""
    for first, second in ((True, True), (True, False), (False, True), (False, False)):
        x, y = engine.leaf([2.0], first), engine.leaf([3.0], second)
        program = f"x = Tensor([2.0], {first}); y = Tensor([3.0], {second}); z = x + y"
        try:
            z = x + y
        except Exception as error:
            raise engine.crash("forward-crash", error, program=program) from error
        if not isinstance(z, engine.Tensor):
            raise Mistake("not-a-tensor", program=program, got=type(z).__name__)
        if not close(z.data, [5.0]):
            raise Mistake("wrong-value", program=program, expected="[5.]", got=show(z.data))
        if bool(z.requires_grad) != (first or second):
            name = "requires-grad-lost" if first or second else "requires-grad-always"
            raise Mistake(
                name,
                program=program,
                expected=str(first or second),
                got=f"z.requires_grad = {z.requires_grad}",
            )
        parents = {id(parent) for parent in z._prev}
        if (first or second) and not parents <= {id(x), id(y)}:
            raise Mistake("parents-missing", program=program, got=show(z._prev))
        if (first and id(x) not in parents) or (second and id(y) not in parents):
            raise Mistake("parents-missing", program=program, got=f"z._prev = {show(z._prev)}")
        if not (first or second) and parents:
            raise Mistake(
                "graph-for-constants", program=program, expected="()", got=f"len(z._prev) = {len(parents)}"
            )
        if not isinstance(z._op, str):
            raise Mistake("op-not-a-string", program=program, got=f"z._op = {show(z._op)}")


# --- 2: add and mul -----------------------------------------------------------------------------------------

SMALL = [((), ()), ((3,), (3,))]
OVERWRITTEN = "missing-accumulation"
ADD_MUL = (
    Row("x + y", two(*SMALL)),
    Row("x * y", two(*SMALL), [S("factors-swapped", "x", "g * x"), S("factors-swapped", "y", "g * y")]),
    Row("x + x", one((), (3,)), [S(OVERWRITTEN, "x", "g")]),
    Row("x * x", one((), (3,)), [S(OVERWRITTEN, "x", "g * x")]),
    Row(
        "(x + y) + x",
        two(*SMALL),
        [
            S("shared-gradient", "y", "2 * g"),
            S("shared-gradient", "x", "3 * g"),
            S("shared-gradient", "x", "4 * g"),
            S(OVERWRITTEN, "x", "g"),
        ],
    ),
    Row("(x * y) + y", two(*SMALL), [S(OVERWRITTEN, "y", "g"), S(OVERWRITTEN, "y", "g * x")]),
    Row("-x", one((), (3,)), [S("sign-lost", "x", "g")]),
    Row(
        "x - y",
        two(*SMALL),
        [S("sign-lost", "y", "g"), S("reversed-operands", VALUE, "y - x"), S("sign-lost", "x", "-g")],
    ),
    Row(
        "x / y",
        two(*SMALL),
        [
            S("quotient-rule", "y", "g * x / y**2"),
            S("quotient-rule", "y", "-g * x / y"),
            S("quotient-rule", "y", "-g / y**2"),
            S("quotient-rule", "y", "g / x"),
            S("quotient-rule", "y", "g * x"),
            S("quotient-rule", "x", "g * y"),
        ],
    ),
    Row(
        "x ** 3",
        one((), (3,)),
        [
            S("power-rule", "x", "g * 3 * x**3"),
            S("power-rule", "x", "g * x**2"),
            S("power-rule", "x", "g * 2 * x**2"),
            S("power-rule", "x", "g * 3 * x"),
        ],
    ),
    Row("x + 2.0", one((), (3,))),
    Row("2.0 * x", one((), (3,))),
    Row("1.0 - x", one((), (3,)), [S("reversed-operands", VALUE, "x - 1.0"), S("sign-lost", "x", "g")]),
    Row(
        "3.0 / x",
        one((), (3,)),
        [S("reversed-operands", VALUE, "x / 3.0"), S("quotient-rule", "x", "3.0 * g / x**2")],
    ),
    Row("x * y", two(*SMALL), constants=("y",)),
    Row("2.0 * x", [{"x": numbers(3).astype(np.float32)}]),
    Row("x * y", [{"x": numbers(3).astype(np.float32), "y": numbers(3, skip=4).astype(np.float32)}]),
)

# --- 3: topological order -----------------------------------------------------------------------------------

# Chains and diamonds; in each diamond some node must wait for another that uses it too.
GRAPHS = (
    "a = x * 2.0; b = a * 3.0; y = b * 4.0",
    "a = x * 2.0; y = a + a * 3.0",
    "a = x * 2.0; y = a * 3.0 + a",
    "a = x * 2.0; b = a * 3.0; y = a * b + b * b",
    "a = x * x; y = (a * 3.0) * (a * 5.0) + a",
)


def compute(program: str, x: Any) -> Any:
    """Return y, after a program of a few lines about x; x may be a tensor or a number."""
    names = {"x": x}
    exec(program, {}, names)
    return names["y"]


def order(engine: Engine) -> None:
    """Every node is visited once, after all that use it, and the numbers are right."""
    for program in GRAPHS:
        x = engine.leaf(np.array(3.0))
        y = compute(program, x)
        nodes = topological(y)
        number = {id(node): i for i, node in enumerate(nodes)}
        users: dict[int, list[int]] = {i: [] for i in range(len(nodes))}
        for node in nodes:
            for parent in node._prev:
                users[number[id(parent)]].append(number[id(node)])
        visits: list[int] = []
        for i, node in enumerate(nodes):
            if list(node._prev):
                node._backward = _noting(i, visits, node._backward)
        names = [node._op or "x" for node in nodes]
        facts = {"program": program, "inputs": "x = 3.0"}
        try:
            y.backward()
        except Exception as error:
            if isinstance(error, TypeError) and visits and visits[0] != len(nodes) - 1:
                raise Mistake("wrong-order", **facts, got=" → ".join(names[i] for i in visits)) from error
            if isinstance(error, TypeError) and array_of(y.grad) is None:
                name = "float-seed" if isinstance(y.grad, (int, float)) else "no-seed"
                raise Mistake(name, **facts, got=f"y.grad = {show(y.grad)}", error=describe(error)) from error
            raise engine.crash("backward-crash", error, **facts) from error
        seed_is_right(y, facts)
        inner = {i for i, node in enumerate(nodes) if list(node._prev)}
        walked = " → ".join(names[i] for i in visits)
        right = " → ".join(names[i] for i in reversed(range(len(nodes))) if i in inner)
        if inner - set(visits):
            raise Mistake("node-skipped", **facts, expected=right, got=walked or "–")
        if len(visits) != len(inner):
            raise Mistake("visited-twice", **facts, expected=right, got=walked)
        for position, i in enumerate(visits):
            if any(user not in visits[:position] for user in users[i]):
                raise Mistake("wrong-order", **facts, expected=right, got=walked)
        slope = (compute(program, 3.0 + 1e-6) - compute(program, 3.0 - 1e-6)) / 2e-6
        if x.grad is None or not close(x.grad, slope, 1e-5):
            raise Mistake(
                "wrong-derivative",
                **facts,
                expected=f"x.grad = {round(slope, 4)}",
                got=f"x.grad = {show(x.grad)}",
            )


def _noting(number: int, visits: list[int], own: Callable[[], None]) -> Callable[[], None]:
    """Return a closure that notes its visit before it does its work."""

    def note() -> None:
        visits.append(number)
        own()

    return note


def seed_is_right(y: Any, facts: dict[str, str]) -> None:
    """The walk starts with an array of ones, like the result."""
    got = f"y.grad = {show(y.grad)}"
    if y.grad is None:
        raise Mistake("no-seed", **facts, got=got)
    if not isinstance(y.grad, (np.ndarray, np.generic)):
        raise Mistake("float-seed", **facts, expected="y.grad = array(1.)", got=got)
    if not close(y.grad, np.ones(np.shape(y.data))):
        raise Mistake("wrong-seed", **facts, expected="y.grad = 1.0", got=got)


def seed(engine: Engine) -> None:
    """d(y)/d(y) is an array of y's shape and dtype."""
    for dtype in (np.float64, np.float32):
        y = engine.leaf(np.array(3.0, dtype)) * engine.leaf(np.array(2.0, dtype))
        facts = {"program": "y = x * 2; y.backward()", "inputs": f"x = 3.0  ({np.dtype(dtype)})"}
        try:
            y.backward()
        except Exception as error:
            if isinstance(y.grad, (int, float)):
                raise Mistake(
                    "float-seed", **facts, got=f"y.grad = {show(y.grad)}", error=describe(error)
                ) from error
            raise engine.crash("backward-crash", error, **facts) from error
        seed_is_right(y, facts)
        if np.asarray(y.grad).dtype != dtype:
            raise Mistake("gradient-dtype", **facts, expected=str(np.dtype(dtype)), got=str(y.grad.dtype))


def refusals(engine: Engine) -> None:
    """backward() refuses what has no single slope, and what nobody asked a gradient of."""
    for name, tensor, program in (
        ("backward-on-non-scalar", engine.leaf([1.0, 2.0]) * engine.leaf([3.0, 4.0]), "(x * y).backward()"),
        ("backward-on-constant", engine.leaf(1.0, False), "Tensor(1.0).backward()"),
    ):
        try:
            tensor.backward()
        except Mistake:
            raise
        except NotImplementedError as error:
            raise engine.crash("backward-crash", error) from error
        except Exception:  # whichever kind of refusal they chose
            continue
        shape = "x, y: shape (2,)" if name == "backward-on-non-scalar" else "requires_grad=False"
        raise Mistake(name, program=program, inputs=shape, expected="RuntimeError", got=show(tensor.grad))


def adds_up(engine: Engine) -> None:
    """Two losses of one leaf: their gradients add up, until somebody resets them."""
    x = engine.leaf(np.array(3.0))
    try:
        (x * 2.0).backward()
        (x * 5.0).backward()
    except Exception as error:
        raise engine.crash("backward-crash", error) from error
    if not close(x.grad, 7.0):
        raise Mistake(
            "leaf-grad-reset",
            program="(x * 2).backward(); (x * 5).backward()",
            inputs="x = 3.0",
            expected="x.grad = 7.0",
            got=f"x.grad = {show(x.grad)}",
        )


def depth(engine: Engine) -> str:
    """A long chain: works, or advice about recursion."""
    x = engine.leaf(np.array(1.0))
    y = x
    for _ in range(sys.getrecursionlimit() + 500):
        y = y + 1.0
    try:
        y.backward()
    except RecursionError:
        return "recursion-depth"
    if not close(x.grad, 1.0):
        raise Mistake("wrong-derivative", program="x + 1 + 1 + …", expected="x.grad = 1.0", got=show(x.grad))
    return ""


# --- 4: unbroadcast -----------------------------------------------------------------------------------------


def unbroadcast_itself(engine: Engine) -> None:
    """The function by itself, from one axis in front to everything at once."""
    function = engine.function("unbroadcast")
    for big, small in (
        ((2, 3), (3,)), ((2, 2), (2,)), ((2, 3), (2, 1)), ((2, 3), (1, 3)), ((2, 3), ()), ((3,), (3,)),
        ((2, 3), (1, 1)), ((2, 3, 4), (3, 1)), ((2, 3, 4), (1, 3, 4)), ((2, 1, 3), (1, 1)), ((2, 0), (1, 0)),
    ):  # fmt: skip
        grad = numbers(*big)
        extra = len(big) - len(small)
        axes = tuple(range(extra)) + tuple(
            i + extra for i, n in enumerate(small) if n == 1 and big[i + extra] != 1
        )
        want = grad.sum(axis=axes, keepdims=True).reshape(small)
        facts = {
            "program": f"unbroadcast(grad, {small})",
            "inputs": f"grad = {show(grad)}",
            "expected": show(want),
        }
        try:
            got = function(grad.copy(), small)
        except Exception as error:
            raise engine.crash("forward-crash", error, **facts) from error
        if close(got, want):
            continue
        facts["got"] = f"{show(got)}, shape {np.shape(got)}"
        last = tuple(range(len(small), len(big)))
        known = {
            "missing-unbroadcast": [grad] if extra else [],  # the first cases have axes in front
            "mean-instead-of-sum": [
                grad.mean(axis=axes, keepdims=True).reshape(small) if grad.size else grad
            ],
            "keepdims-lost": [grad.sum(axis=axes)],
            "size-one-axes": [grad.sum(axis=tuple(range(extra)))],
            "wrong-broadcast-axis": [grad.sum(axis=last)] if extra else [],
        }
        for name, candidates in known.items():
            if any(close(got, candidate) for candidate in candidates):
                raise Mistake(name, **facts)
        raise Mistake("wrong-shape" if np.shape(got) != small else "wrong-value", **facts)


BROADCAST = [
    ((), (2,)),
    ((2,), (2, 2)),
    ((2, 1), (2, 2)),
    ((1, 2), (2, 1)),
    ((3,), (2, 3)),
    ((2, 3, 1), (3, 4)),
]
UNBROADCAST = (
    Row(
        "x + y",
        two(*BROADCAST),
        [
            S("mean-instead-of-sum", "x", "g.mean()"),
            S("mean-instead-of-sum", "x", "g.mean(axis=0)"),
            S("wrong-broadcast-axis", "x", "g.sum(axis=1)"),
            S("missing-unbroadcast", ERROR, "ValueError"),
        ],
    ),
    Row("x * y", two(*BROADCAST), [S("wrong-broadcast-axis", "x", "(g * y).sum(axis=1)")]),
    Row("x - y", two(*BROADCAST)),
    Row("y / x", two(*BROADCAST)),
    Row("x / y", two(*BROADCAST)),
    Row("x + y", two(((1, 2), (1, 2)))),
)

# --- 5: reductions ------------------------------------------------------------------------------------------

SQUARES = one((2, 2), (2, 3))
CRASH = S("wrong-axis-keepdims", ERROR, "ValueError AxisError TypeError IndexError")
ALONG = {
    "axis=0": "g[:, None]",
    "axis=1": "g",
    "axis=-1": "g",
}  # where a forgotten axis puts a gradient, by chance


def reductions() -> list[Row]:
    """Sum, mean and max over every kind of axis."""
    rows = [Row("x.sum()", one((), (2,), (2, 3)), [CRASH])]
    for axis, by_chance in ALONG.items():
        chance = f"np.broadcast_to({by_chance}, x.shape)"
        rows.append(
            Row(
                f"x.sum({axis})",
                SQUARES,
                [
                    CRASH,
                    S("wrong-axis-keepdims", "x", chance),
                    S("keepdims-ignored", VALUE, f"x.sum({axis}, keepdims=True)"),
                ],
            )
        )
    rows += [
        Row(
            "x.sum(axis=1, keepdims=True)",
            SQUARES,
            [CRASH, S("keepdims-ignored", VALUE, "x.sum(axis=1)")],
        ),
        Row("x.sum(axis=(0, 2))", one((2, 2, 2), (2, 3, 4)), [S("axis-tuple", ERROR, CRASH.formula)]),
    ]
    for axis in ("", "axis=0", "axis=1", "axis=(0, 1)"):
        spread = {"": "g", "axis=0": "g[None, :]", "axis=1": "g[:, None]", "axis=(0, 1)": "g"}[axis]
        rows.append(
            Row(
                f"x.mean({axis})",
                SQUARES,
                [
                    S("axis-tuple" if "(" in axis else CRASH.name, ERROR, CRASH.formula),
                    S("mean-not-divided", "x", f"np.broadcast_to({spread}, x.shape)"),
                    S("mean-not-divided", VALUE, f"x.sum({axis})"),
                    S("mean-wrong-count", "x", f"np.broadcast_to({spread} / x.size, x.shape)"),
                    S("mean-wrong-count", "x", f"np.broadcast_to({spread} / x.shape[0], x.shape)"),
                    S("mean-wrong-count", VALUE, f"x.sum({axis}) / x.size"),
                    S("mean-wrong-count", VALUE, f"x.sum({axis}) / x.shape[0]"),
                    S(
                        CRASH.name,
                        "x",
                        f"np.broadcast_to({'g[:, None]' if axis == 'axis=0' else 'g'} / 2, x.shape)",
                    ),
                ],
            )
        )
    for axis, spread in (
        ("", "g"),
        ("axis=0", "g[None, :]"),
        ("axis=1", "g[:, None]"),
        ("axis=-1, keepdims=True", "g"),
    ):
        rows.append(
            Row(
                f"x.max({axis})",
                SQUARES,
                [CRASH, S("max-to-all", "x", f"np.broadcast_to({spread}, x.shape)")],
            )
        )
    return rows


def ties(engine: Engine) -> None:
    """Equal largest elements: whoever gets the gradient, it is handed out once."""
    x = engine.leaf([2.0, 2.0, 1.0])
    facts = {"program": "x.max().backward()", "inputs": "x = [2.0, 2.0, 1.0]"}
    try:
        x.max().backward()
    except Exception as error:
        raise engine.crash("backward-crash", error, **facts) from error
    if not any(close(x.grad, right) for right in ([0.5, 0.5, 0], [1, 0, 0], [0, 1, 0])):
        raise Mistake(
            "max-ties", **facts, expected="x.grad = [0.5, 0.5, 0.0]", got=f"x.grad = {show(x.grad)}"
        )


# --- 6: shapes ----------------------------------------------------------------------------------------------

LOOP = S("loop-variable", "y", "'the last piece, more than once'")
SHAPES = (
    Row("x.reshape(3, 2)", one((2, 3))),
    Row("x.reshape(4)", one((2, 2))),
    Row("x.transpose()", one((2, 2), (2, 3)), [S("same-permutation", "x", "g")]),
    Row(
        "x.transpose(1, 2, 0)",
        one((2, 2, 2), (2, 3, 4)),
        [
            S("same-permutation", "x", "g.transpose(1, 2, 0)"),
            S("same-permutation", "x", "g.transpose()"),
            S("same-permutation", "x", "g"),
            S("same-permutation", ERROR, "ValueError"),
        ],
    ),
    Row("x.broadcast_to((2, 2))", one((2,), (2, 1))),
    Row("x.broadcast_to((2, 3))", one((), (3,), (2, 1))),
    Row("x[1]", one((3,), (2, 3)), [S("gradient-in-place-of-zeros", "x", "np.broadcast_to(g, x.shape)")]),
    Row("x[0:2]", one((3,), (3, 2))),
    Row("x[:, 1]", one((2, 2))),
    Row(
        "x[[0, 0]]",
        [{"x": numbers(2)}, {"x": numbers(3, 2)}],
        [S("repeated-indices", "x", "(lambda z: (z.__setitem__([0, 0], g), z)[1])(np.zeros_like(x))")],
    ),
    Row(
        "x[[0, 2, 0, 1]]",
        [{"x": numbers(3)}],
        [S("repeated-indices", "x", "(lambda z: (z.__setitem__([0, 2, 0, 1], g), z)[1])(np.zeros_like(x))")],
    ),
    Row(
        "x[np.array([1, 1]), np.array([0, 0])]",
        one((2, 2)),
        [
            S("repeated-indices", "x", "np.array([[0., 0.], [2., 0.]])"),
            S("repeated-indices", "x", "np.array([[0., 0.], [1., 0.]])"),
        ],
    ),
    Row(
        "cat([x, y])",
        [{"x": numbers(2), "y": numbers(2, skip=4)}, {"x": numbers(1), "y": numbers(3, skip=4)}],
        [
            LOOP,
            S("loop-variable", "y", "2 * g[2:]"),
            S("pieces-of-equal-size", ERROR, "ValueError IndexError"),
            S("pieces-swapped", "x", "g[2:]"),
            S("pieces-of-equal-size", "x", "g[:2]"),
            S("pieces-of-equal-size", "x", "g[:2].sum(keepdims=True)"),
        ],
    ),
    Row(
        "cat([x, y], axis=1)",
        two(((2, 2), (2, 2)), ((2, 1), (2, 3))),
        [
            LOOP,
            S("loop-variable", "y", "2 * g[:, 2:]"),
            S("pieces-of-equal-size", ERROR, "ValueError IndexError"),
            S("joined-along-axis-0", VALUE, "np.concatenate([x, y])"),
            S("joined-along-axis-0", "x", "g.reshape(2, -1)[:, :x.shape[1]]"),
        ],
    ),
    Row(
        "cat([x, x])", one((1,), (2,)), [S(OVERWRITTEN, "x", "g[x.size:]"), S(OVERWRITTEN, "x", "g[:x.size]")]
    ),
    Row(
        "stack([x, y])",
        two(((), ()), ((2,), (2,))),
        [LOOP, S("loop-variable", "y", "2 * g[1]"), S("stack-axis-kept", "x", "g[:1]")],
    ),
    Row(
        "stack([x, y], axis=1)",
        two(((2,), (2,)), ((2, 3), (2, 3))),
        [
            LOOP,
            S("loop-variable", "y", "2 * g[:, 1]"),
            S("stack-axis-kept", "x", "g[:, :1]"),
            S("joined-along-axis-0", VALUE, "np.stack([x, y])"),
            S("joined-along-axis-0", "x", "g[0]"),
            S("joined-along-axis-0", ERROR, "ValueError IndexError"),
        ],
    ),
)

# --- 7: elementwise functions ---------------------------------------------------------------------------------

POSITIVE = [{"x": np.array(2.0)}, {"x": np.array([0.5, 2.0, 4.0])}]
SINGLE = {"x": numbers(3).astype(np.float32)}
ELEMENTWISE = (
    Row(
        "x.exp()",
        [*one((), (3,)), SINGLE],
        [
            S("exp-derivative", "x", "g"),
            S("exp-derivative", "x", "g * x"),
            S("exp-derivative", "x", "g * x * np.exp(x - 1)"),
        ],
    ),
    Row(
        "x.log()",
        [*POSITIVE, {"x": np.array([1.0, 2.0], np.float32)}],
        [
            S("log-derivative", "x", "g * np.log(x)"),
            S("log-derivative", "x", "g / np.log(x)"),
            S("log-derivative", "x", "g * x"),
            S("log-derivative", "x", "g"),
        ],
    ),
    Row(
        "x.relu()",
        [*one((), (3,)), SINGLE],
        [
            S("relu-mask", "x", "g"),
            S("relu-mask", "x", "np.maximum(g, 0)"),
            S("relu-mask", "x", "g * (x < 0)"),
            S("relu-mask", "x", "g * np.maximum(x, 0)"),
        ],
    ),
    Row("x.relu()", [{"x": np.array([0.0])}], [S("relu-at-zero", "x", "g"), S("relu-at-zero", "x", "g / 2")]),
    Row(
        "x.tanh()",
        [*one((), (3,)), SINGLE],
        [S("tanh-of-the-input", "x", "g * (1 - x**2)"), S("tanh-of-the-input", "x", "g * (1 - np.tanh(x))")],
    ),
)


def gelu(engine: Engine) -> None:
    """Either form of gelu, with its own derivative."""
    for array in (np.array(1.0), numbers(3)):
        x = engine.leaf(array)
        facts = {"program": "y = x.gelu()", "inputs": f"x = {show(array)}"}
        try:
            y = x.gelu()
        except Exception as error:
            raise engine.crash("forward-crash", error, **facts) from error
        erf = np.vectorize(math.erf, otypes=[float])
        cumulative, density = (
            0.5 * (1 + erf(array / math.sqrt(2))),
            np.exp(-(array**2) / 2) / math.sqrt(2 * math.pi),
        )
        inner = np.sqrt(2 / np.pi) * (array + 0.044715 * array**3)
        slope = np.sqrt(2 / np.pi) * (1 + 3 * 0.044715 * array**2)
        tanh = np.tanh(inner)
        values = [array * cumulative, 0.5 * array * (1 + tanh)]
        slopes = [cumulative + array * density, 0.5 * (1 + tanh) + 0.5 * array * (1 - tanh**2) * slope]
        if not isinstance(y, engine.Tensor):
            raise Mistake("not-a-tensor", **facts, got=type(y).__name__)
        form = next((i for i, value in enumerate(values) if close(y.data, value, 1e-6)), None)
        if form is None:
            raise Mistake("wrong-value", **facts, expected=f"y.data = {show(values[0])}", got=show(y.data))
        if not y.requires_grad:
            raise Mistake("requires-grad-lost", **facts, expected="True", got="False")
        try:
            backward(y, np.ones_like(array))
        except Exception as error:
            raise engine.crash("backward-crash", error, **facts) from error
        facts |= {"expected": f"x.grad = {show(slopes[form])}", "got": f"x.grad = {show(x.grad)}"}
        if x.grad is not None and close(x.grad, slopes[form], 1e-6):
            continue
        missing = [cumulative, 0.5 * (1 + tanh)]
        if x.grad is not None and any(close(x.grad, part, 1e-6) for part in missing):
            raise Mistake("product-rule", **facts)
        if x.grad is not None and close(x.grad, slopes[1 - form], 1e-6):
            raise Mistake("gelu-mixed", **facts)
        raise Mistake("wrong-derivative", **facts)
    single = engine.leaf(np.array([1.0, -1.0], np.float32)).gelu()
    if single.data.dtype != np.float32:
        raise Mistake(
            "result-dtype",
            program="y = x.gelu()",
            inputs="x = [1., -1.]  (float32)",
            expected="float32",
            got=str(single.data.dtype),
        )


# --- 8: matmul ----------------------------------------------------------------------------------------------

VECTORS = S("matmul-vectors", ERROR, "ValueError IndexError AxisError")
STACKS = S("matmul-stack-transpose", ERROR, "ValueError")
MATMUL = (
    Row(
        "x @ y",
        two(((1, 1), (1, 1)), ((2, 2), (2, 2)), ((2, 3), (3, 2))),
        [
            S("matmul-no-transpose", "x", "g @ y"),
            S("matmul-no-transpose", "y", "x @ g"),
            S("matmul-order", "x", "y.T @ g"),
            S("matmul-order", "y", "g @ x.T"),
            S("matmul-elementwise", "x", "g * y"),
            S("matmul-elementwise", VALUE, "x * y"),
            S("matmul-no-transpose", ERROR, "ValueError"),
        ],
    ),
    Row(
        "x @ y",
        two(((2,), (2,))),
        [VECTORS, S("matmul-vectors", "x", "g"), S("matmul-vectors", "x", "np.outer(g, y)")],
    ),
    Row(
        "x @ y",
        two(((2, 2), (2,)), ((2, 3), (3,))),
        [
            VECTORS,
            S("matmul-vectors", "x", "g @ y"),
            S("matmul-vectors", "x", "np.broadcast_to(g @ y.T, x.shape)"),
        ],
    ),
    Row(
        "x @ y",
        two(((2,), (2, 2)), ((3,), (3, 2))),
        [
            VECTORS,
            S("matmul-vectors", "y", "np.broadcast_to(x @ g, y.shape)"),
            S("matmul-vectors", "y", "np.broadcast_to(x.T @ g, y.shape)"),
        ],
    ),
    Row(
        "x @ y",
        two(((2, 2, 2), (2, 2, 2)), ((2, 1, 3), (2, 3, 2))),
        [STACKS, S("matmul-stack-transpose", "x", "g @ y.T"), S("matmul-stack-transpose", "y", "x.T @ g")],
    ),
    Row(
        "x @ y",
        two(((2, 1, 2), (2, 3)), ((2, 3), (2, 3, 1)), ((2, 1, 2, 3), (2, 3, 2))),
        [S("missing-unbroadcast", ERROR, "ValueError"), S("matmul-first-of-stack", "y", "x[0].T @ g[0]")],
    ),
    Row("x @ y", two(((2,), (2, 2, 3)), ((2, 2, 3), (3,))), [VECTORS]),
    Row("x @ x", one((2, 2)), [S(OVERWRITTEN, "x", "x.T @ g"), S(OVERWRITTEN, "x", "g @ x.T")]),
)

# --- 9: softmax ---------------------------------------------------------------------------------------------


def _p(axis: int) -> str:
    return f"(lambda e: e / e.sum(axis={axis}, keepdims=True))(np.exp(x))"


def softmax_rows(axis: int, other: int, shapes: Sequence[tuple[int, ...]]) -> Row:
    """Softmax along an axis, with the mistakes that show along another."""
    p = _p(axis)
    return Row(
        f"x.softmax(axis={axis})",
        one(*shapes),
        [
            *(
                S(name, VALUE, f"(lambda e: e / e.sum({along}))(np.exp({shifted}))")
                for shifted in ("x", f"(x - x.max(axis={axis}, keepdims=True))", "(x - x.max())")
                for name, along in (
                    ("softmax-wrong-axis", f"axis={other}, keepdims=True"),
                    ("softmax-wrong-axis", ""),
                    ("softmax-keepdims", f"axis={axis}"),
                )
            ),
            S("softmax-diagonal", "x", f"g * {p} * (1 - {p})"),
            S("softmax-diagonal", "x", f"g * {p}"),
            S("softmax-wrong-axis", "x", f"{p} * (g - (g * {p}).sum())"),
            S("softmax-wrong-axis", "x", f"{p} * (g - (g * {p}).sum(axis={other}, keepdims=True))"),
            S("softmax-keepdims", "x", f"{p} * (g - (g * {p}).sum(axis={axis}))"),
            S("softmax-keepdims", ERROR, "ValueError"),
        ],
    )


SOFTMAX = (
    softmax_rows(-1, 0, [(2,)]),
    softmax_rows(-1, 0, [(2, 2), (2, 3)]),
    softmax_rows(0, -1, [(2, 2), (3, 2)]),
    softmax_rows(1, -1, [(2, 2, 2)]),
)


def stable(name: str, call: str, rows: Sequence[tuple[str, Any, Any]]) -> Callable[[Engine], None]:
    """Return a check that large numbers do not overflow: (mistake, input, expected value)."""

    def large(engine: Engine) -> None:
        for mistake, array, expected in rows:
            x = engine.leaf(np.array(array))
            facts = {"program": f"y = {call}", "inputs": f"x = {show(np.array(array))}"}
            try:
                y = engine.evaluate(call, {"x": x, "t": np.array([1])})
            except Exception as error:
                raise engine.crash("forward-crash", error, **facts) from error
            if not close(y.data, expected):
                raise Mistake(mistake, **facts, expected=show(np.array(expected)), got=show(y.data))

    large.__name__ = name
    return large


softmax_large = stable(
    "softmax_large",
    "x.softmax(axis=-1)",
    [
        ("softmax-overflow", [1000.0, 1000.0], [0.5, 0.5]),
        ("softmax-overflow", [[1000.0, 0.0]], [[1.0, 0.0]]),
        ("softmax-global-max", [[1000.0, 1000.0], [0.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]]),
    ],
)

# --- 10: cross-entropy --------------------------------------------------------------------------------------

_LOG_P = "(lambda e: np.log(e / e.sum(axis=1, keepdims=True)))(np.exp(x))"
_P1 = _p(1)
_Y = "np.eye(x.shape[1])[t]"
CROSS_ENTROPY = (
    Row(
        "cross_entropy(x, t)",
        [
            {"x": np.array([[1.0, 2.0]]), "t": np.array([1])},
            {"x": np.array([[1.0, 2.0], [0.5, -1.0]]), "t": np.array([0, 1])},
            {"x": numbers(3, 5), "t": np.array([0, 4, 2])},
            {"x": numbers(2, 3).astype(np.float32), "t": np.array([0, 2])},
        ],
        [
            S("loss-not-averaged", VALUE, f"-{_LOG_P}[np.arange(len(t)), t].sum()"),
            S("loss-not-averaged", VALUE, f"-{_LOG_P}[np.arange(len(t)), t].sum() / x.size"),
            S("loss-sign", VALUE, f"{_LOG_P}[np.arange(len(t)), t].mean()"),
            S("logits-taken-for-probabilities", VALUE, "-np.log(x[np.arange(len(t)), t]).mean()"),
            S("softmax-twice", VALUE, f"(lambda x: -{_LOG_P}[np.arange(len(t)), t].mean())({_P1})"),
            S("every-target-for-every-row", VALUE, f"-{_LOG_P}[:, t].mean()"),
            S("target-not-subtracted", "x", f"g * {_P1} / len(t)"),
            S("gradient-not-averaged", "x", f"g * ({_P1} - {_Y})"),
            S("gradient-not-averaged", "x", f"g * ({_P1} - {_Y}) / x.size"),
            S("loss-sign", "x", f"g * ({_Y} - {_P1}) / len(t)"),
            S("arriving-gradient-ignored", "x", f"({_P1} - {_Y}) / len(t)"),
        ],
    ),
)
cross_entropy_large = stable(
    "cross_entropy_large",
    "cross_entropy(x, t)",
    [("log-of-zero", [[1000.0, 0.0]], 1000.0), ("log-of-zero", [[0.0, 1000.0]], 0.0)],
)


def arriving_gradient(engine: Engine) -> None:
    """A loss that is scaled afterwards: the arriving gradient is not always 1."""
    x = engine.leaf(np.array([[1.0, 2.0]]))
    facts = {"program": "y = cross_entropy(x, t) * 3.0", "inputs": "x = [[1., 2.]]; t = [1]"}
    try:
        (engine.function("cross_entropy")(x, np.array([1])) * 3.0).backward()
    except Exception as error:
        raise engine.crash("backward-crash", error, **facts) from error
    p = math.exp(1) / (math.exp(1) + math.exp(2))
    if not close(x.grad, [[3 * p, -3 * p]], 1e-6):
        name = "arriving-gradient-ignored" if close(x.grad, [[p, -p]], 1e-6) else "wrong-derivative"
        raise Mistake(
            name, **facts, expected=f"x.grad = {show(np.array([[3 * p, -3 * p]]))}", got=show(x.grad)
        )


def saved_values(engine: Engine) -> None:
    """A closure may run twice: it must not have changed what it saved."""
    for call in ("x.softmax(axis=-1)", "cross_entropy(x, t)"):
        x = engine.leaf(np.array([[1.0, 2.0]]))
        y = engine.evaluate(call, {"x": x, "t": np.array([1])})
        if [id(parent) for parent in y._prev] != [id(x)]:
            continue  # composed of other operations: then there is nothing saved here
        grads = []
        for _ in range(2):
            x.grad = None if engine.leaf([1.0]).grad is None else np.zeros((1, 2))
            y.grad = np.ones(y.data.shape) * np.arange(1, 1 + y.data.size).reshape(y.data.shape)
            y._backward()
            grads.append(np.array(x.grad))
        if not close(grads[0], grads[1]):
            raise Mistake(
                "saved-values-changed", program=f"y = {call}; y._backward(); y._backward()",
                inputs="x = [[1., 2.]]", expected=show(grads[0]), got=show(grads[1]),
            )  # fmt: skip


# --- 11: no_grad and detach ---------------------------------------------------------------------------------


def no_grad_block(engine: Engine) -> None:
    """Nothing is recorded inside, everything is after it."""
    no_grad = engine.function("no_grad")
    x = engine.leaf([2.0])
    try:
        with no_grad():
            y = x * x
        after = x * x
    except Exception as error:
        raise engine.crash("forward-crash", error, program="with no_grad(): y = x * x") from error
    if y.requires_grad or list(y._prev):
        raise Mistake(
            "graph-under-no-grad",
            program="with no_grad(): y = x * x",
            expected="y.requires_grad = False, y._prev = ()",
            got=f"y.requires_grad = {y.requires_grad}, len(y._prev) = {len(list(y._prev))}",
        )
    if not after.requires_grad:
        raise Mistake(
            "no-grad-sticks", program="with no_grad(): pass\ny = x * x", expected="True", got="False"
        )
    if not x.requires_grad:
        raise Mistake(
            "no-grad-changes-leaves", program="with no_grad(): y = x * x", expected="True", got="False"
        )


def no_grad_after_an_error(engine: Engine) -> None:
    """An exception leaves the block too."""
    no_grad = engine.function("no_grad")
    x = engine.leaf([2.0])
    try:
        with no_grad():
            raise KeyError
    except KeyError:
        pass
    y = x * x
    if not y.requires_grad:
        for _ in range(3):  # put it right for the checks to come
            with no_grad():
                pass
        raise Mistake(
            "no-grad-exception",
            program="with no_grad(): raise KeyError",
            expected="True",
            got="y.requires_grad = False",
        )


def no_grad_nested(engine: Engine) -> None:
    """A block inside a block restores what was before."""
    no_grad = engine.function("no_grad")
    x = engine.leaf([2.0])
    with no_grad():
        with no_grad():
            pass
        y = x * x
    if y.requires_grad:
        raise Mistake(
            "no-grad-nested",
            program="with no_grad():\n    with no_grad(): pass\n    y = x * x",
            expected="y.requires_grad = False",
            got="y.requires_grad = True",
        )


def detach(engine: Engine) -> None:
    """The same values, and no past."""
    x = engine.leaf(np.array([2.0, 3.0]))
    y = x * x
    try:
        cut = y.detach()
    except Exception as error:
        raise engine.crash("forward-crash", error, program="z = y.detach()") from error
    if not isinstance(cut, engine.Tensor) or not close(cut.data, y.data):
        raise Mistake(
            "wrong-value",
            program="z = y.detach()",
            expected=show(y.data),
            got=show(getattr(cut, "data", cut)),
        )
    if cut is y or not y.requires_grad or not list(y._prev):
        raise Mistake(
            "detach-changes-original",
            program="z = y.detach()",
            expected="y._prev = (x, x)",
            got=show(y._prev),
        )
    if cut.requires_grad or list(cut._prev):
        raise Mistake(
            "detach-keeps-graph", program="z = y.detach()", expected="z.requires_grad = False, z._prev = ()",
            got=f"z.requires_grad = {cut.requires_grad}, len(z._prev) = {len(list(cut._prev))}",
        )  # fmt: skip
