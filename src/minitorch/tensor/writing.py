"""Writing into a Tensor: `x[i] = v`, `x += y`, `x.add_(y)`, `x.normal_()` and every other trailing underscore.

Enters: a tensor and what to write. Leaves: the same tensor, changed.

Three cases. A tensor no graph needs (a buffer, anything under no_grad) is simply written into. A leaf that
requires grad is refused: its gradient is asked for as it is. The result of a recorded op may be changed if
nobody but the caller holds it (`out = conv(x); out += shortcut`): then it becomes the result of the new op, and
what it was lives on in the graph. So does a buffer that something with a graph is written into (`outs[t] = y`,
`total += loss`).
If something else holds it too, that something would see the old values here and the new ones in PyTorch, so it is
refused, with the spelling to use instead.
"""

from __future__ import annotations

import dis
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from minitorch.engine import watch
from minitorch.engine.modes import is_grad_enabled
from minitorch.engine.node import SELECT, Node, apply
from minitorch.ops.indexing import INDEX_PUT, WRITE
from minitorch.tensor.convert import as_tensor, cast, operand
from minitorch.tensor.generator import Generator, default_generator
from minitorch.tensor.methods.arguments import fill_of
from minitorch.tensor.methods.indexing import index_key
from minitorch.tensor.methods.public import in_place_names

if TYPE_CHECKING:
    from minitorch.tensor import Tensor

_getrefcount = sys.getrefcount


class Writing(Node):
    """What of a Tensor changes it in place."""

    __slots__ = ()

    def __setitem__(self, key: Any, value: Any) -> None:
        _set(self, key, value, "x[key] = value", _getrefcount(self) - _BY_ASSIGNMENT)

    def copy_(self, source: Any, non_blocking: bool = False) -> Tensor:
        """Write another tensor's values into this one; for tensors no graph needs.

        >>> minitorch.tensor([0.0, 0.0]).copy_(minitorch.tensor([1.0, 2.0]))
        tensor([1., 2.])
        """
        return _set(self, ..., source, "x.copy_(y)", _getrefcount(self) - _BY_METHOD)

    def zero_(self) -> Tensor:
        """Write zeros; for tensors no graph needs.

        >>> minitorch.tensor([1.0, 2.0]).zero_()
        tensor([0., 0.])
        """
        return _set(self, ..., 0, "x.zero_()", _getrefcount(self) - _BY_METHOD)

    def fill_(self, value: Any) -> Tensor:
        """Write one value everywhere; for tensors no graph needs.

        >>> minitorch.tensor([1.0, 2.0]).fill_(7)
        tensor([7., 7.])
        """
        return _set(self, ..., value, "x.fill_(v)", _getrefcount(self) - _BY_METHOD)

    def fill_diagonal_(self, fill_value: Any, wrap: bool = False) -> Tensor:
        """Write one value on the main diagonal; for tensors no graph needs.

        >>> minitorch.zeros(2, 3).fill_diagonal_(5)
        tensor([[5., 0., 0.],
                [0., 5., 0.]])
        """
        if self._data.ndim < 2:
            raise RuntimeError(f"fill_diagonal_: expects 2 axes or more, got shape {self._data.shape}")
        self._may_be_written("x.fill_diagonal_(v)", "x = x.diagonal_scatter(…)")
        np.fill_diagonal(self._data, fill_of(fill_value, self._data.dtype, "fill_diagonal_"), wrap)
        watch.touch(self._data)
        return self  # type: ignore[return-value]

    def __iadd__(self, other: Any) -> Tensor:
        return _replace(self, "add", (other,), {}, "x += y", "x = x + y", _getrefcount(self) - _BY_OPERATOR)

    def __isub__(self, other: Any) -> Tensor:
        return _replace(self, "sub", (other,), {}, "x -= y", "x = x - y", _getrefcount(self) - _BY_OPERATOR)

    def __imul__(self, other: Any) -> Tensor:
        return _replace(self, "mul", (other,), {}, "x *= y", "x = x * y", _getrefcount(self) - _BY_OPERATOR)

    def __itruediv__(self, other: Any) -> Tensor:
        return _replace(self, "div", (other,), {}, "x /= y", "x = x / y", _getrefcount(self) - _BY_OPERATOR)

    def __ifloordiv__(self, other: Any) -> Tensor:
        return _replace(
            self, "floor_divide", (other,), {}, "x //= y", "x = x // y", _getrefcount(self) - _BY_OPERATOR
        )

    def __imod__(self, other: Any) -> Tensor:
        return _replace(
            self, "remainder", (other,), {}, "x %= y", "x = x % y", _getrefcount(self) - _BY_OPERATOR
        )

    def __ipow__(self, other: Any) -> Tensor:
        return _replace(self, "pow", (other,), {}, "x **= y", "x = x ** y", _getrefcount(self) - _BY_OPERATOR)

    def __iand__(self, other: Any) -> Tensor:
        return _replace(
            self, "__and__", (other,), {}, "x &= y", "x = x & y", _getrefcount(self) - _BY_OPERATOR
        )

    def __ior__(self, other: Any) -> Tensor:
        return _replace(
            self, "__or__", (other,), {}, "x |= y", "x = x | y", _getrefcount(self) - _BY_OPERATOR
        )

    def __ixor__(self, other: Any) -> Tensor:
        return _replace(
            self, "__xor__", (other,), {}, "x ^= y", "x = x ^ y", _getrefcount(self) - _BY_OPERATOR
        )

    def add_(self, other: Any, *old: Any, alpha: float = 1) -> Tensor:
        """x += α·y, in place; for tensors no graph needs. Old programs write add_(α, y).

        >>> minitorch.tensor([1.0, 2.0]).add_(1)
        tensor([2., 3.])
        """
        if old:
            alpha, (other,) = other, old
        scaled = other if alpha == 1 else as_tensor(other) * alpha
        return _replace(self, "add", (scaled,), {}, "x.add_(y)", "x = x + y", _getrefcount(self) - _BY_METHOD)

    def sub_(self, other: Any, *, alpha: float = 1) -> Tensor:
        """x -= α·y, in place; for tensors no graph needs.

        >>> minitorch.tensor([1.0, 2.0]).sub_(1)
        tensor([0., 1.])
        """
        scaled = other if alpha == 1 else as_tensor(other) * alpha
        return _replace(self, "sub", (scaled,), {}, "x.sub_(y)", "x = x - y", _getrefcount(self) - _BY_METHOD)

    def mul_(self, other: Any) -> Tensor:
        """x *= y, in place; for tensors no graph needs.

        >>> minitorch.tensor([1.0, 2.0]).mul_(3)
        tensor([3., 6.])
        """
        return _replace(self, "mul", (other,), {}, "x.mul_(y)", "x = x * y", _getrefcount(self) - _BY_METHOD)

    def div_(self, other: Any, *, rounding_mode: str | None = None) -> Tensor:
        """x /= y, in place; for tensors no graph needs.

        >>> minitorch.tensor([1.0, 2.0]).div_(2)
        tensor([0.5000, 1.0000])
        """
        options = {} if rounding_mode is None else {"rounding_mode": rounding_mode}
        return _replace(
            self, "div", (other,), options, "x.div_(y)", "x = x / y", _getrefcount(self) - _BY_METHOD
        )

    def _may_be_written(self, spelling: str, instead: str) -> None:
        """Refuse to write into a tensor of a graph: the recorded ops would see other values."""
        if self.requires_grad and is_grad_enabled():
            kind = "a leaf that requires grad" if self.is_leaf else "the result of a recorded op"
            raise RuntimeError(
                f"{spelling}: x is {kind}, and writing into it would falsify its graph; write {instead}, or, to "
                "change the values on purpose, do it inside `with minitorch.no_grad():`"
            )
        if not getattr(self._data.flags, "writeable", True):  # CuPy has no such flag
            raise RuntimeError(
                f"{spelling}: x shares memory it may not write to (an expanded view?); write x.clone() first"
            )

    # --- the same memory, seen with other axes ----------------------------------------------------

    def _look_anew(self, name: str, *args: Any, **kwargs: Any) -> Tensor:
        self._may_be_written(f"x.{name}_()", f"x = x.{name}()")
        self._data = getattr(self, name)(*args, **kwargs)._data
        watch.touch(self)
        return self  # type: ignore[return-value]

    def squeeze_(self, *args: Any, **kwargs: Any) -> Tensor:
        """Drop axes of length 1, of this very tensor; for tensors no graph needs.

        >>> minitorch.tensor([[1.0, 2.0]]).squeeze_(0)
        tensor([1., 2.])
        """
        return self._look_anew("squeeze", *args, **kwargs)

    def unsqueeze_(self, dim: int) -> Tensor:
        """Insert an axis of length 1, in this very tensor; for tensors no graph needs.

        >>> minitorch.tensor([1.0, 2.0]).unsqueeze_(0)
        tensor([[1., 2.]])
        """
        return self._look_anew("unsqueeze", dim)

    def transpose_(self, dim0: int, dim1: int) -> Tensor:
        """Exchange two axes of this very tensor; for tensors no graph needs.

        >>> minitorch.tensor([[1.0, 2.0]]).transpose_(0, 1).shape
        (2, 1)
        """
        return self._look_anew("transpose", dim0=dim0, dim1=dim1)

    swapaxes_ = swapdims_ = transpose_

    def t_(self) -> Tensor:
        """Transpose this very matrix; for tensors no graph needs.

        >>> minitorch.tensor([[1.0, 2.0]]).t_().shape
        (2, 1)
        """
        return self._look_anew("t")

    def resize_(self, *sizes: Any) -> Tensor:
        """Give this very tensor another shape; elements there are kept, new ones are 0 (PyTorch: anything).

        >>> minitorch.tensor([1.0, 2.0, 3.0]).resize_(2, 1)
        tensor([[1.],
                [2.]])
        """
        self._may_be_written("x.resize_()", "x = x.reshape(…)")
        shape = tuple(sizes[0]) if len(sizes) == 1 and isinstance(sizes[0], (tuple, list)) else sizes
        count = int(np.prod(shape))
        flat = self._data.reshape(-1)[:count]
        if flat.size < count:
            flat = np.concatenate([flat, np.zeros(count - flat.size, flat.dtype)])
        self._data = flat.reshape(shape)
        watch.touch(self)
        return self  # type: ignore[return-value]

    def detach_(self) -> Tensor:
        """Cut this very tensor off from the graph that made it: a leaf that requires no grad.

        >>> (minitorch.tensor([1.0], requires_grad=True) * 2).detach_().requires_grad
        False
        """
        self._operation = None
        self._inputs = ()
        self._attributes = {}
        self._requires_grad = False
        return self  # type: ignore[return-value]

    # --- random numbers, as PyTorch draws them --------------------------------------------------------

    def _filled(self, name: str, values: Any) -> Tensor:
        self._may_be_written(f"x.{name}_()", "it on x.detach()")
        data = self._data
        if data.dtype.kind == "c":
            raise RuntimeError(
                f"{name}_: not offered for complex numbers; fill the real and the imaginary part"
            )
        data[...] = np.asarray(values.reshape(data.shape).astype(data.dtype), like=data)
        watch.touch(data)
        return self  # type: ignore[return-value]

    def _doubles(self, generator: Generator | None) -> np.ndarray:
        return (generator or default_generator).uniforms(self._data.size, np.dtype(np.float64))

    def uniform_(
        self, low: float = 0.0, high: float = 1.0, *, generator: Generator | None = None, **names: float
    ) -> Tensor:
        """Fill with uniform numbers from [low, high), in place (PyTorch's names: from, to).

        >>> seeded = minitorch.manual_seed(0); minitorch.tensor([0.0, 0.0]).uniform_(-1, 1)
        tensor([-0.0075,  0.5364])
        """
        low, high = names.get("from", low), names.get("to", high)
        kind = self._data.dtype.type
        drawn = (generator or default_generator).uniforms(self._data.size, self._data.dtype)
        # Multiplied and added with one rounding at the end, as the processor does it for PyTorch.
        spread, start = np.float64(kind(high) - kind(low)), np.float64(kind(low))
        return self._filled("uniform", drawn.astype(np.float64) * spread + start)

    def normal_(self, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Fill with normal numbers, in place.

        >>> seeded = minitorch.manual_seed(0); minitorch.tensor([0.0, 0.0]).normal_()
        tensor([ 1.5410, -0.2934])
        """
        kind = self._data.dtype.type
        drawn = (generator or default_generator).normals(self._data.size, self._data.dtype)
        return self._filled("normal", drawn * kind(std) + kind(mean))

    def bernoulli_(self, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
        """Fill with 1 at probability p (a number, or a tensor of them), else 0, in place.

        >>> minitorch.tensor([0.0, 0.0]).bernoulli_(1.0)
        tensor([1., 1.])
        """
        if isinstance(p, Node):
            chance = np.broadcast_to(p._data, self._data.shape)
            kind = chance.dtype if chance.dtype.kind == "f" else np.dtype(np.float32)
            drawn = (generator or default_generator).uniforms(chance.size, kind).reshape(chance.shape)
            return self._filled("bernoulli", drawn < chance)
        if not 0 <= p <= 1:
            raise RuntimeError(f"bernoulli_: a probability is between 0 and 1, got {p}")
        return self._filled("bernoulli", self._doubles(generator) < p)

    def random_(self, *bounds: int, generator: Generator | None = None, **names: int) -> Tensor:
        """Fill with whole numbers, in place: random_(), random_(high), random_(low, high).

        Without bounds: all that the dtype can hold exactly.

        >>> seeded = minitorch.manual_seed(0); minitorch.zeros(4).random_(5)
        tensor([4., 4., 3., 0.])
        """
        given = [*bounds, *(names[k] for k in ("from", "to") if k in names)]
        low, high = (0, *given) if len(given) == 1 else given or (0, None)
        source, dtype = generator or default_generator, self._data.dtype
        if high is None:
            exact = {"f": lambda: 2 ** (np.finfo(dtype).nmant + 1) + 1, "b": lambda: 2}
            high = exact.get(dtype.kind, lambda: int(np.iinfo(dtype).max) + 1)()
        span = int(high) - int(low)
        if span <= 0:
            raise RuntimeError(f"random_: expects low < high, got {low} and {high}")
        wide = span >= 2**32 if len(given) == 0 else span >= 2**28
        count = self._data.size
        words = source.words64(count) if wide else source.words(count).astype(np.uint64)
        return self._filled("random", (words % np.uint64(span)).astype(np.int64) + int(low))

    def exponential_(self, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
        """Fill with waiting times at a rate, in place.

        >>> seeded = minitorch.manual_seed(0); minitorch.zeros(2).exponential_()
        tensor([3.5083, 1.2304])
        """
        return self._filled("exponential", -np.log1p(-self._doubles(generator)) / lambd)

    def cauchy_(
        self, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None
    ) -> Tensor:
        """Fill from the Cauchy distribution, in place.

        >>> seeded = minitorch.manual_seed(0); minitorch.zeros(2).cauchy_()
        tensor([10.5977,  0.7648])
        """
        return self._filled("cauchy", median + sigma * np.tan(np.pi * (self._doubles(generator) - 0.5)))

    def geometric_(self, p: float, *, generator: Generator | None = None) -> Tensor:
        """Fill with how many tries it takes until one of probability p succeeds, in place.

        >>> seeded = minitorch.manual_seed(0); minitorch.zeros(3).geometric_(0.3)
        tensor([1., 1., 3.])
        """
        if not 0 < p < 1:
            raise RuntimeError(f"geometric_: a probability is between 0 and 1, got {p}")
        return self._filled("geometric", np.ceil(np.log(self._doubles(generator)) / np.log1p(-p)))

    def log_normal_(
        self, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None
    ) -> Tensor:
        """Fill with exponentials of normal numbers, in place.

        >>> seeded = minitorch.manual_seed(0); minitorch.zeros(2).log_normal_()
        tensor([59.2634,  1.5116])
        """
        source = generator or default_generator
        drawn = np.array([source.one_normal() for _ in range(self._data.size)])
        return self._filled("log_normal", np.exp(drawn * std + mean))


def _replace(
    x: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], spelling: str, instead: str, others: int
) -> Any:
    """Let x be x.name(*args): written into its memory, or, where it or an argument has a graph, renewed."""
    leaf = x._requires_grad and x._operation is None
    if (
        is_grad_enabled()
        and not leaf
        and (x._requires_grad or _has_graph(args) or _has_graph(kwargs.values()))
    ):
        # `x[i] += y` holds x[i] by no name: what it becomes is written to x by the assignment that follows.
        passing = spelling.endswith("= y") and others == -1 and not _unseen()
        readers = () if passing else _readers(x, (*args, *kwargs.values()), others + _unseen())
        if readers is None:
            whose = (
                "is the result of a recorded op" if x._requires_grad else "is given something with a graph"
            )
            raise RuntimeError(
                f"{spelling}: x {whose} and is held elsewhere too (by another name, a view, or an op that used it), "
                f"where it would keep its old values; write {instead}"
            )
        return _renew(x, name, args, kwargs, spelling, instead, readers)
    x._may_be_written(spelling, instead)
    result = getattr(x, name)(*args, **kwargs)
    _check_fits(x, result, spelling, instead)
    x._data[...] = result._data
    watch.touch(x._data)
    return x


def _has_graph(values: Any) -> bool:
    return any(isinstance(v, Node) and v._requires_grad for v in values)


def _set(x: Any, key: Any, value: Any, spelling: str, others: int) -> Any:
    """Write at x[key]: into its memory, or, where x or the value has a graph, as a recorded op."""
    value = operand(value, spelling)
    given = isinstance(value, Node)
    tracked = is_grad_enabled() and (x._requires_grad or (given and value._requires_grad))
    if tracked and x._data.dtype.kind in "fc" and not (x._requires_grad and x.is_leaf):
        return _set_recorded(x, index_key(key), value, spelling, others + _unseen())
    x._may_be_written(spelling, "where, masked_fill, scatter or index_add")
    if not given:
        value = fill_of(value, x._data.dtype, spelling)
    elif value._requires_grad and is_grad_enabled():
        raise RuntimeError(
            f"{spelling}: value requires grad, but x holds {x._data.dtype}, which has no gradient; write value.detach()"
        )
    else:
        value = value._data
    shape = x._data.shape
    try:
        x._data[index_key(key)] = value
    except ValueError as error:
        raise RuntimeError(f"{spelling}: x has shape {shape}: {error}") from None
    except IndexError as error:
        raise IndexError(f"{spelling}: x has shape {shape}: {error}") from None
    watch.touch(x._data)
    return x


def _set_recorded(x: Any, key: Any, value: Any, spelling: str, others: int) -> Any:
    """Make x, held by nobody but the caller, the result of writing `value` at `key` into what it was."""
    readers = _readers(x, (value,), others)
    if readers is None:
        raise RuntimeError(
            f"{spelling}: x or value has a graph, and x is held elsewhere too (by another name, a view, or an op that "
            "used it), where it would keep its old values; build the result with stack, cat, where, masked_fill, "
            "scatter or index_add, or, to change the values on purpose, do it inside `with minitorch.no_grad():`"
        )
    shape = x._data.shape
    try:
        room = x._data[key].shape
    except IndexError as error:
        raise IndexError(f"{spelling}: x has shape {shape}: {error}") from None
    if isinstance(value, Node):
        value = cast(value, x._data.dtype)
        while value.ndim > len(room) and value.shape[0] == 1:
            value = value.squeeze(0)
        if value.ndim > len(room) or any(
            n not in (1, m) for n, m in zip(value.shape[::-1], room[::-1], strict=False)
        ):
            raise RuntimeError(
                f"{spelling}: x has shape {shape}, x[key] {room}; a value of shape {value.shape} does not "
                "broadcast to it"
            )
    else:
        value = fill_of(value, x._data.dtype, spelling)
    before = _copy_of(x)
    if readers:
        _point(readers, x, before)
        return _take_over(x, apply(INDEX_PUT, before, value, key=key))
    # Nobody reads what is overwritten, unless the op that made x reads its own result (exp does) or shares it
    # with its input: then the values are copied first.
    ours = type(x._data) is np.ndarray and x._data.base is None and x._data.flags.writeable
    unread = before._operation is None or (before._operation is not SELECT and not watch.is_read(before, 1))
    if not (ours and unread):
        return _take_over(x, apply(INDEX_PUT, before, value, key=key))
    result = apply(WRITE, before, value, key=key)
    # What it was keeps its shape, and no values: they are overwritten now.
    before._data = np.broadcast_to(np.array(np.nan, x._data.dtype), shape)
    return _take_over(x, result)


def _readers(x: Any, values: tuple[Any, ...], others: int) -> Any:
    """Return the nodes between x and `values` that read x or its memory, if only these hold it; otherwise None.

    In `x /= x.sum()` and `x[i] += y` they go on reading what x was. One that looks at x's memory must be held by the
    graph alone: a person who held it would see other values in PyTorch.
    """
    if others <= 0 and _nobody_looks_on(x):
        return ()
    found, views, seen = [], 0, set()
    waiting = [(values, i) for i in range(len(values))]
    while waiting:
        holder, position = waiting.pop()
        held_by_graph = holder is not values and _holders(holder, position) <= _IN_A_TUPLE
        node = holder[position]
        if not isinstance(node, Node) or node is x or id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node._data, np.ndarray) and node._data.base is x._data and held_by_graph:
            views += 1
            found.append(node)
        if node._operation is not None and node._time > x._time:
            reads = sum(each is x for each in node._inputs)
            if reads:
                found.append(node)
                others -= reads
            waiting += [(node._inputs, i) for i in range(len(node._inputs))]
    return found if others <= 0 and _nobody_looks_on(x, views) else None


def _point(readers: Any, x: Any, before: Any) -> None:
    """Let the ops that read x read what it was."""
    for node in readers:
        node._inputs = tuple(before if each is x else each for each in node._inputs)


def _check_fits(x: Any, result: Any, spelling: str, instead: str) -> None:
    if result.shape != x.shape:
        raise RuntimeError(
            f"{spelling}: the result has shape {result.shape}, but x has {x.shape}; write {instead}"
        )
    order = "biufc"
    if order.index(result.dtype.kind) > max(order.index(x.dtype.kind), 2 if x.dtype.kind in "iu" else 0):
        raise RuntimeError(
            f"{spelling}: the result is {result.dtype} and cannot be written into {x.dtype}; write {instead}"
        )


def _nobody_looks_on(x: Any, views: int = 0) -> bool:
    """Tell whether no other tensor and no array a person holds looks at the memory of a recorded op's result.

    views: how many arrays are known to look at it, and may.
    """
    if not isinstance(x._data, np.ndarray):
        return True  # a device's or a recorded array: nothing here writes into it
    if (
        x._operation is None and x._data.base is not None
    ):  # made as a view of memory: does anything else see it?
        return _array_holders(x) <= watch.ALONE and _getrefcount(x._data.base) <= watch.ALONE
    while x._data.base is not None:  # a view of its input: then nobody else may hold that one either
        if _array_holders(x) > watch.ALONE or not x._inputs or not isinstance(x._inputs[0], Node):
            return False
        if _holders(x._inputs) > _IN_A_TUPLE:
            return False
        x = x._inputs[0]
        views += 1
    return _array_holders(x) <= watch.ALONE + views


def _array_holders(x: Any) -> int:
    # The arrays of an op with several results are held by their hidden bundle too, which nobody sees.
    return _getrefcount(x._data) - (x._operation is SELECT)


def _holders(inputs: tuple[Any, ...], position: int = 0) -> int:
    each = inputs[position]
    return _getrefcount(each)


_IN_A_TUPLE = _holders((object(),))


def _renew(x: Any, name: str, args: Any, kwargs: Any, spelling: str, instead: str, readers: Any) -> Any:
    """Make x, held by nobody but the caller and `readers`, the result of a new op on what it was."""
    before = _copy_of(x)
    result = getattr(before, name)(*args, **kwargs)
    _check_fits(x, result, spelling, instead)
    _point(readers, x, before)
    return _take_over(x, cast(result, x._data.dtype))


def _copy_of(x: Any) -> Any:
    """Return another node that is what x is now: same array, same place in the graph."""
    before = object.__new__(type(x))
    for slot in Node.__slots__:
        if slot != "__weakref__" and hasattr(x, slot):
            setattr(before, slot, getattr(x, slot))
    before._hooks = None  # a hook on x sees the gradient of what x is now
    return before


def _take_over(x: Any, result: Any) -> Any:
    """Let x be what `result` is."""
    for slot in ("_attributes", "_data", "_inputs", "_operation", "_requires_grad", "_time"):
        setattr(x, slot, getattr(result, slot))
    return x


class _Probe:
    """Counts who holds it, the way a Tensor's in-place methods do."""

    def __iadd__(self, other: Any) -> Any:
        return _second(self, _getrefcount(self))

    def __setitem__(self, key: Any, value: Any) -> None:
        value.append(_second(self, _getrefcount(self)))

    def add_(self) -> int:
        return _second(self, _getrefcount(self))


def _second(probe: Any, count: int) -> int:
    return count


def _measured() -> tuple[int, int, int]:
    # What getrefcount says of an object that one name holds, in `x += y`, in `x.add_(y)` and in `x[i] = y`.
    # Measured, not assumed: it differs between versions of Python.
    probe: Any = _Probe()
    by_method = probe.add_()
    by_assignment: list[int] = []
    probe[0] = by_assignment
    probe += 1
    return probe, by_method, by_assignment[0]


_BY_OPERATOR, _BY_METHOD, _BY_ASSIGNMENT = _measured()


def _unseen() -> int:
    """Return how many holders a count missed: who writes x.__iadd__(y) holds x once less than who writes x += y."""
    method: Any = sys._getframe(2)
    if not method.f_code.co_name.startswith("__"):
        return 0
    person = method.f_back
    instruction = dis.opname[person.f_code.co_code[person.f_lasti]]
    return int(not instruction.startswith(("BINARY_OP", "INPLACE_", "STORE_SUBSCR")))


def _twin(name: str) -> Any:
    """Make `x.name_()` from `x.name()`."""

    def method(self: Any, *args: Any, **kwargs: Any) -> Any:
        others = _getrefcount(self) - _BY_METHOD + 1  # here it is not yet an argument of `_replace`
        return _replace(self, name, args, kwargs, f"x.{name}_()", f"x = x.{name}(…)", others)

    method.__name__, method.__qualname__ = f"{name}_", f"Tensor.{name}_"
    method.__doc__ = f"Do what `{name}` does, in place; for tensors no graph needs."
    return method


def add_twins(cls: Any) -> None:
    """Give the Tensor class `name_` for each method that is marked `@in_place`."""
    for name in in_place_names(cls):
        if not hasattr(cls, f"{name}_"):
            setattr(cls, f"{name}_", _twin(name))
