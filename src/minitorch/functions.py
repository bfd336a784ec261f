"""The functions of `minitorch.*`: each method's twin, and what belongs to no single tensor.

Enters: Tensors or anything array-like. Leaves: Tensors.
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from minitorch.engine.record import apply
from minitorch.ops import shape as shape_ops
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor, common_shape, shape_of, tensor_for
from minitorch.tensor.methods.contract import cross_entropy, einsum, matmul, tensordot
from minitorch.tensor.methods.elementwise import check_mask, fill_of, power
from minitorch.tensor.methods.elementwise import select as _choose
from minitorch.tensor.methods.shape import cat, stack

P = ParamSpec("P")
R = TypeVar("R")


def twin(
    method: Callable[Concatenate[Any, P], R], keep: tuple[type, ...] = ()
) -> Callable[Concatenate[Any, P], R]:
    """Make the function of a method: it also takes numbers, lists and arrays, made tensors unless kept."""
    left_alone = (Tensor, *keep)

    @functools.wraps(method)
    def function(input: Any, *args: P.args, **kwargs: P.kwargs) -> R:
        if not isinstance(input, left_alone):
            input = tensor_for(input, method.__name__)
        return method(input, *args, **kwargs)

    function.__qualname__ = method.__name__
    function.__module__ = __name__
    return function


# --- elementwise --------------------------------------------------------------------------------


def pair(method: Callable[Concatenate[Any, P], R]) -> Callable[Concatenate[Any, P], R]:
    """Make the function of a method of two operands: a number on the left widens no dtype either."""
    return twin(method, keep=(int, float))


add = pair(Tensor.add)
sub = subtract = pair(Tensor.sub)
mul = multiply = pair(Tensor.mul)
div = divide = true_divide = pair(Tensor.div)
floor_divide = pair(Tensor.floor_divide)
remainder = pair(Tensor.remainder)
fmod = pair(Tensor.fmod)
neg = negative = twin(Tensor.neg)
square = twin(Tensor.square)
reciprocal = twin(Tensor.reciprocal)
lerp = twin(Tensor.lerp)
exp = twin(Tensor.exp)
exp2 = twin(Tensor.exp2)
expm1 = twin(Tensor.expm1)
log = twin(Tensor.log)
log2 = twin(Tensor.log2)
log10 = twin(Tensor.log10)
log1p = twin(Tensor.log1p)
logaddexp = pair(Tensor.logaddexp)
sqrt = twin(Tensor.sqrt)
rsqrt = twin(Tensor.rsqrt)
hypot = pair(Tensor.hypot)
sin = twin(Tensor.sin)
cos = twin(Tensor.cos)
tan = twin(Tensor.tan)
asin = arcsin = twin(Tensor.asin)
acos = arccos = twin(Tensor.acos)
atan = arctan = twin(Tensor.atan)
atan2 = arctan2 = pair(Tensor.atan2)
sinh = twin(Tensor.sinh)
cosh = twin(Tensor.cosh)
asinh = arcsinh = twin(Tensor.asinh)
acosh = arccosh = twin(Tensor.acosh)
atanh = arctanh = twin(Tensor.atanh)
tanh = twin(Tensor.tanh)
sigmoid = twin(Tensor.sigmoid)
relu = twin(Tensor.relu)
leaky_relu = twin(Tensor.leaky_relu)
elu = twin(Tensor.elu)
silu = twin(Tensor.silu)
gelu = twin(Tensor.gelu)
softplus = twin(Tensor.softplus)
erf = twin(Tensor.erf)
abs = absolute = twin(Tensor.abs)
sign = twin(Tensor.sign)
maximum = pair(Tensor.maximum)
minimum = pair(Tensor.minimum)
clamp = twin(Tensor.clamp)
clip = twin(Tensor.clip)
floor = twin(Tensor.floor)
ceil = twin(Tensor.ceil)
trunc = fix = twin(Tensor.trunc)
round = twin(Tensor.round)
eq = pair(Tensor.eq)
ne = not_equal = pair(Tensor.ne)
lt = less = pair(Tensor.lt)
le = less_equal = pair(Tensor.le)
gt = greater = pair(Tensor.gt)
ge = greater_equal = pair(Tensor.ge)
equal = twin(Tensor.equal)
logical_and = pair(Tensor.logical_and)
logical_or = pair(Tensor.logical_or)
logical_xor = pair(Tensor.logical_xor)
logical_not = twin(Tensor.logical_not)
bitwise_and = pair(Tensor.bitwise_and)
bitwise_or = pair(Tensor.bitwise_or)
bitwise_xor = pair(Tensor.bitwise_xor)
bitwise_not = twin(Tensor.bitwise_not)
isnan = twin(Tensor.isnan)
isinf = twin(Tensor.isinf)
isfinite = twin(Tensor.isfinite)
isclose = twin(Tensor.isclose)
allclose = twin(Tensor.allclose)

# --- reductions ---------------------------------------------------------------------------------

sum = twin(Tensor.sum)
mean = twin(Tensor.mean)
cumsum = twin(Tensor.cumsum)
prod = twin(Tensor.prod)
cumprod = twin(Tensor.cumprod)
max = twin(Tensor.max)
min = twin(Tensor.min)
amax = twin(Tensor.amax)
amin = twin(Tensor.amin)
argmax = twin(Tensor.argmax)
argmin = twin(Tensor.argmin)
median = twin(Tensor.median)
var = twin(Tensor.var)
std = twin(Tensor.std)
norm = twin(Tensor.norm)
logsumexp = twin(Tensor.logsumexp)
all = twin(Tensor.all)
any = twin(Tensor.any)
count_nonzero = twin(Tensor.count_nonzero)
sort = twin(Tensor.sort)
argsort = twin(Tensor.argsort)
topk = twin(Tensor.topk)

# --- shape --------------------------------------------------------------------------------------

reshape = twin(Tensor.reshape)
flatten = twin(Tensor.flatten)
ravel = twin(Tensor.ravel)
unflatten = twin(Tensor.unflatten)
permute = twin(Tensor.permute)
swapaxes = twin(Tensor.swapaxes)
swapdims = twin(Tensor.swapdims)
movedim = twin(Tensor.movedim)
moveaxis = twin(Tensor.moveaxis)
t = twin(Tensor.t)
squeeze = twin(Tensor.squeeze)
unsqueeze = twin(Tensor.unsqueeze)
broadcast_to = twin(Tensor.broadcast_to)
diagonal = twin(Tensor.diagonal)
diag = twin(Tensor.diag)
diag_embed = twin(Tensor.diag_embed)
chunk = twin(Tensor.chunk)
unbind = twin(Tensor.unbind)
narrow = twin(Tensor.narrow)
select = twin(Tensor.select)
tile = twin(Tensor.tile)
flip = twin(Tensor.flip)
roll = twin(Tensor.roll)
tril = twin(Tensor.tril)
triu = twin(Tensor.triu)
gather = twin(Tensor.gather)
take_along_dim = twin(Tensor.take_along_dim)
scatter = twin(Tensor.scatter)
scatter_add = twin(Tensor.scatter_add)
index_select = twin(Tensor.index_select)
index_add = twin(Tensor.index_add)
masked_fill = twin(Tensor.masked_fill)
masked_select = twin(Tensor.masked_select)
clone = twin(Tensor.clone)
numel = twin(Tensor.numel)

# --- products -----------------------------------------------------------------------------------

dot = twin(Tensor.dot)
mm = twin(Tensor.mm)
mv = twin(Tensor.mv)
bmm = twin(Tensor.bmm)
outer = twin(Tensor.outer)
softmax = twin(Tensor.softmax)
log_softmax = twin(Tensor.log_softmax)

# --- linear algebra -----------------------------------------------------------------------------

inverse = twin(Tensor.inverse)
pinverse = twin(Tensor.pinverse)
det = twin(Tensor.det)
slogdet = twin(Tensor.slogdet)
logdet = twin(Tensor.logdet)
cholesky = twin(Tensor.cholesky)
qr = twin(Tensor.qr)
svd = twin(Tensor.svd)
trace = twin(Tensor.trace)


def pow(input: Any, exponent: Any) -> Tensor:
    """xʸ of tensors or numbers, at least one a tensor.   See Tensor.pow

    >>> pow(2, as_tensor([1.0, 3.0]))
    tensor([2., 8.])
    """
    return power(input, exponent)


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """x where the condition holds, else y; with the condition alone, the indices where it holds.

    dx = g where it holds, dy = g where not. A nan or an infinite slope in the branch not taken still
    spoils the gradient (0·nan = nan): make that branch safe with a second where inside it.

    >>> where(as_tensor([True, False]), as_tensor([1.0, 2.0]), 0.0)
    tensor([1., 0.])
    """
    if input is None and other is None:
        given = as_tensor(condition)
        return tuple(as_tensor(i) for i in np.nonzero((given if given.ndim else given.reshape(1))._data))
    return _choose(check_mask(condition, "where"), input, other)


def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """Add to both ends of the last axes: pad = (left, right, top, bottom, …), the last axis first.

    mode: 'constant', 'reflect', 'replicate' or 'circular'; negative widths cut off.
    dx = g without the border; for the other modes g added where the border was copied from

    >>> pad(as_tensor([1.0, 2.0]), (1, 2))
    tensor([0., 1., 2., 0., 0.])
    >>> pad(as_tensor([[1.0, 2.0, 3.0]]), (1, 1), mode="reflect")
    tensor([[2., 1., 2., 3., 2.]])
    """
    x = as_tensor(input)
    widths = shape_of(pad if isinstance(pad, (tuple, list)) else (pad,), name="pad") if pad != () else ()
    if len(widths) % 2 or len(widths) // 2 > x.ndim:
        raise RuntimeError(f"pad: {tuple(pad)} must be pairs, at most one for each of the {x.ndim} axes")
    pairs = [(0, 0)] * (x.ndim - len(widths) // 2)
    pairs += [(widths[i], widths[i + 1]) for i in range(len(widths) - 2, -1, -2)]
    if builtins.any(
        builtins.min(n + a, n + b, n + a + b) < 0 for (a, b), n in zip(pairs, x.shape, strict=True)
    ):
        raise RuntimeError(
            f"pad: cutting {tuple(pad)} off a tensor of shape {x.shape} leaves a negative length"
        )
    if mode == "constant":
        fill = fill_of(0 if value is None else value, x.dtype, "pad")
        return apply(shape_ops.PAD, x, widths=tuple(pairs), value=fill)
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(
            f"pad: mode must be 'constant', 'reflect', 'replicate' or 'circular', got {mode!r}"
        )
    if value:
        raise RuntimeError(f"pad: mode {mode!r} copies what is there and takes no value, got {value!r}")
    # The border is made of elements that are there: an index along each axis.
    for axis, (before, after) in enumerate(pairs):
        if before or after:
            x = x[(slice(None),) * axis + (_border(x, axis, before, after, mode),)]
    return x


def _border(x: Tensor, axis: int, before: int, after: int, mode: str) -> Any:
    """Return where each element of a padded axis comes from."""
    length = x.shape[axis]
    if length == 0:
        raise RuntimeError(f"pad: nothing to copy to the border: axis {axis} of shape {x.shape} is empty")
    if builtins.max(before, after) > {"reflect": length - 1, "circular": length}.get(mode, math.inf):
        raise RuntimeError(
            f"pad: {mode} padding of {before} and {after} is too wide for an axis of length {length}"
        )
    places = np.arange(-before, length + after, like=x._data)
    if mode == "replicate":
        return np.clip(places, 0, length - 1)
    if mode == "reflect":
        folded = np.absolute(places)
        return np.where(folded >= length, 2 * (length - 1) - folded, folded)
    # Round and round, in what a negative width leaves.
    first = builtins.max(-before, 0)
    return first + (places - first) % (length - first + builtins.min(after, 0))


def transpose(input: Any, dim0: int, dim1: int) -> Tensor:
    """Two axes exchanged; see Tensor.transpose for permuting.   dx = g, exchanged back

    >>> transpose(as_tensor([[1.0, 2.0]]), 0, 1).shape
    (2, 1)
    """
    return tensor_for(input, "transpose").transpose(dim0=dim0, dim1=dim1)


def split(tensor: Any, split_size_or_sections: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Cut along an axis into pieces of one size, the last shorter, or of the sizes listed.   See Tensor.split

    >>> [len(piece) for piece in split(as_tensor([1.0, 2.0, 3.0]), 2)]
    [2, 1]
    """
    return as_tensor(tensor).split(split_size_or_sections, dim)


def repeat_interleave(
    input: Any, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element (or slice of an axis) this many times in a row; given counts alone, their numbers.

    >>> repeat_interleave(as_tensor([1.0, 2.0]), 2)
    tensor([1., 1., 2., 2.])
    >>> repeat_interleave(as_tensor([1, 0, 2]))
    tensor([0, 2, 2])
    """
    x = as_tensor(input)
    if repeats is None:
        x, repeats = as_tensor(np.arange(x.numel(), like=x._data)), x
    return x.repeat_interleave(repeats, dim, output_size=output_size)


def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """Stretch tensors to their common shape, as views.

    >>> [t.shape for t in broadcast_tensors(as_tensor([1.0]), as_tensor([[1.0], [2.0]]))]
    [(2, 1), (2, 1)]
    """
    parts = [as_tensor(t) for t in tensors]
    shape = common_shape("broadcast_tensors", *(t.shape for t in parts))
    return tuple(t.broadcast_to(shape) for t in parts)


def is_tensor(obj: Any) -> bool:
    """Whether it is a Tensor.

    >>> is_tensor(1.0)
    False
    """
    return isinstance(obj, Tensor)


concat = concatenate = cat

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "add",
    "all",
    "allclose",
    "amax",
    "amin",
    "any",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "argsort",
    "asin",
    "asinh",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
    "bitwise_xor",
    "bmm",
    "broadcast_tensors",
    "broadcast_to",
    "cat",
    "ceil",
    "cholesky",
    "chunk",
    "clamp",
    "clip",
    "clone",
    "concat",
    "concatenate",
    "cos",
    "cosh",
    "count_nonzero",
    "cross_entropy",
    "cumprod",
    "cumsum",
    "det",
    "diag",
    "diag_embed",
    "diagonal",
    "div",
    "divide",
    "dot",
    "einsum",
    "elu",
    "eq",
    "equal",
    "erf",
    "exp",
    "exp2",
    "expm1",
    "fix",
    "flatten",
    "flip",
    "floor",
    "floor_divide",
    "fmod",
    "gather",
    "ge",
    "gelu",
    "greater",
    "greater_equal",
    "gt",
    "hypot",
    "index_add",
    "index_select",
    "inverse",
    "is_tensor",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "le",
    "leaky_relu",
    "lerp",
    "less",
    "less_equal",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_softmax",
    "logaddexp",
    "logdet",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "logsumexp",
    "lt",
    "masked_fill",
    "masked_select",
    "matmul",
    "max",
    "maximum",
    "mean",
    "median",
    "min",
    "minimum",
    "mm",
    "moveaxis",
    "movedim",
    "mul",
    "multiply",
    "mv",
    "narrow",
    "ne",
    "neg",
    "negative",
    "norm",
    "not_equal",
    "numel",
    "outer",
    "pad",
    "permute",
    "pinverse",
    "pow",
    "prod",
    "qr",
    "ravel",
    "reciprocal",
    "relu",
    "remainder",
    "repeat_interleave",
    "reshape",
    "roll",
    "round",
    "rsqrt",
    "scatter",
    "scatter_add",
    "select",
    "sigmoid",
    "sign",
    "silu",
    "sin",
    "sinh",
    "slogdet",
    "softmax",
    "softplus",
    "sort",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "sub",
    "subtract",
    "sum",
    "svd",
    "swapaxes",
    "swapdims",
    "t",
    "take_along_dim",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "topk",
    "trace",
    "transpose",
    "tril",
    "triu",
    "true_divide",
    "trunc",
    "unbind",
    "unflatten",
    "unsqueeze",
    "var",
    "where",
]
