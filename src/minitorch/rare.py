"""Functions of torch that programs call seldom, made of others. Enters: Tensors. Leaves: Tensors.

Most say in one call what two others say: a view and a copy of it, a layer with what it computed on the way. They are
imported at first use.
"""

from __future__ import annotations

import builtins
import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

import numpy as np

from minitorch import creation, linalg, random
from minitorch.engine.gpu import on_host
from minitorch.engine.node import new_tensor
from minitorch.func import functional_call
from minitorch.functions import mm, view_as_complex, view_as_real
from minitorch.nn import functional as F
from minitorch.nn import recurrent
from minitorch.nn.functional.recurrent import gru_cell, lstm_cell, rnn_relu_cell, rnn_tanh_cell  # noqa: F401
from minitorch.tensor import Tensor
from minitorch.tensor.convert import tensor_for
from minitorch.tensor.storage import TypedStorage, UntypedStorage

# --- copies of views ----------------------------------------------------------------------------------------


def _copying(name: str, view: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function that copies what a view shows, or each of several views."""

    def copied(input: Any, *args: Any, **kwargs: Any) -> Any:
        out = kwargs.pop("out", None)
        found = view(tensor_for(input, name), *args, **kwargs)
        if isinstance(found, (tuple, list)):
            return tuple(each.clone() for each in found)
        return found.clone() if out is None else out.copy_(found)

    copied.__name__ = copied.__qualname__ = name
    copied.__doc__ = f"A copy of what {name.removesuffix('_copy')} shows, in memory of its own."
    return copied


def _slice(x: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1) -> Tensor:
    return x[(slice(None),) * (dim % x.ndim) + (slice(start, end, step),)]


alias_copy = _copying("alias_copy", lambda x: x)
as_strided_copy = _copying("as_strided_copy", Tensor.as_strided)
detach_copy = _copying("detach_copy", Tensor.detach)
diagonal_copy = _copying("diagonal_copy", Tensor.diagonal)
expand_copy = _copying("expand_copy", lambda x, size, implicit=False: x.expand(size))
narrow_copy = _copying("narrow_copy", Tensor.narrow)
permute_copy = _copying("permute_copy", Tensor.permute)
select_copy = _copying("select_copy", Tensor.select)
slice_copy = _copying("slice_copy", _slice)
split_copy = _copying("split_copy", Tensor.split)
split_with_sizes_copy = _copying("split_with_sizes_copy", Tensor.split)
squeeze_copy = _copying("squeeze_copy", Tensor.squeeze)
t_copy = _copying("t_copy", Tensor.t)
transpose_copy = _copying("transpose_copy", lambda x, dim0, dim1: x.transpose(dim0, dim1))
unbind_copy = _copying("unbind_copy", Tensor.unbind)
unfold_copy = _copying("unfold_copy", Tensor.unfold)
unsqueeze_copy = _copying("unsqueeze_copy", Tensor.unsqueeze)
view_copy = _copying("view_copy", Tensor.view)
view_as_real_copy = _copying("view_as_real_copy", view_as_real)
view_as_complex_copy = _copying("view_as_complex_copy", view_as_complex)


# Parts of which PyTorch's autograd does not know that they share memory; here it may know.
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> Any:
    """Return x.chunk(chunks, dim)."""
    return input.chunk(chunks, dim)


def unsafe_split(input: Tensor, split_size: Any, dim: int = 0) -> Any:
    """Return x.split(split_size, dim)."""
    return input.split(split_size, dim)


unsafe_split_with_sizes = unsafe_split


# --- tensors by their places in memory ------------------------------------------------------------------------


def empty_strided(size: Any, stride: Any, **options: Any) -> Tensor:
    """Return an uninitialised tensor whose axes lie in memory in the order of the given steps."""
    return empty_permuted(size, sorted(builtins.range(len(size)), key=lambda axis: -stride[axis]), **options)


def empty_permuted(size: Any, physical_layout: Any, **options: Any) -> Tensor:
    """Return an uninitialised tensor whose axes lie in memory in a given order, the slowest first.

    >>> empty_permuted((2, 3, 5, 7), (0, 2, 3, 1)).stride()
    (105, 1, 21, 3)
    """
    order = list(physical_layout)
    if sorted(order) != list(builtins.range(len(size))):
        raise RuntimeError(
            f"empty_permuted: physical_layout must name each of {len(size)} axes once, got {order}"
        )
    made = creation.empty(tuple(size[axis] for axis in order), **options)
    return made.permute(tuple(order.index(axis) for axis in builtins.range(len(size))))


def new_empty_strided(input: Tensor, size: Any, stride: Any, **options: Any) -> Tensor:
    """empty_strided in another tensor's dtype and on its device."""
    return empty_strided(size, stride, **{"dtype": input.dtype, "device": input.device, **options})


def as_strided_scatter(
    input: Any, src: Any, size: Any, stride: Any, storage_offset: int | None = None
) -> Tensor:
    """A copy of x with `src` at the places that x.as_strided(size, stride, storage_offset) shows.

    >>> as_strided_scatter(minitorch.zeros(4), minitorch.ones(2), (2,), (2,), 1)
    tensor([0., 1., 0., 1.])
    """
    x = tensor_for(input, "as_strided_scatter")
    if not x.is_contiguous():
        raise RuntimeError("as_strided_scatter: x must lie in order in memory; write x.contiguous()")
    places = creation.arange(x.numel(), device=x.device).as_strided(size, stride, storage_offset or 0)
    values = tensor_for(src, "as_strided_scatter")
    if tuple(values.shape) != tuple(places.shape):
        raise RuntimeError(
            f"as_strided_scatter: src must have the slice's shape {tuple(places.shape)}, got {tuple(values.shape)}"
        )
    return x.reshape(-1).scatter(0, places.reshape(-1), values.reshape(-1).to(x.dtype)).reshape(x.shape)


def resize_as_(input: Tensor, the_template: Tensor, *, memory_format: Any = None) -> Tensor:
    """Give a tensor another one's shape, in place; see Tensor.resize_."""
    return input.resize_(*the_template.shape)


def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Tensor:
    """The first `size` places of elements that are not 0, one a row; if there are fewer, `fill_value`.

    >>> nonzero_static(minitorch.tensor([0, 3, 4]), size=3)
    tensor([[ 1],
            [ 2],
            [-1]])
    """
    found = tensor_for(input, "nonzero_static").nonzero()[:size]
    return F.pad(found, (0, 0, 0, size - len(found)), value=fill_value)


def map_(input: Tensor, other: Tensor, callable: Callable[[Any, Any], Any]) -> Tensor:
    """Write callable(element, other's element) in each element's place; slow."""
    pairs = zip(input.flatten().tolist(), other.expand(input.shape).flatten().tolist(), strict=True)
    return _written(input, [callable(a, b) for a, b in pairs])


def map2_(input: Tensor, x: Tensor, y: Tensor, callable: Callable[[Any, Any, Any], Any]) -> Tensor:
    """Write callable(element, x's, y's) in each element's place; slow."""
    each = (t.expand(input.shape).flatten().tolist() for t in (input, x, y))
    return _written(input, [callable(*three) for three in zip(*each, strict=True)])


def _written(input: Tensor, values: list[Any]) -> Tensor:
    return input.copy_(creation.tensor(values, dtype=input.dtype, device=input.device).reshape(input.shape))


def conj_physical_(input: Tensor) -> Tensor:
    """Write the conjugates in a tensor's place."""
    return input.copy_(input.conj()) if input.is_complex() else input


def is_set_to(input: Tensor, tensor: Tensor) -> bool:
    """Tell whether two tensors show the same memory in the same way."""
    return (input.data_ptr(), input.shape, input.stride()) == (
        tensor.data_ptr(),
        tensor.shape,
        tensor.stride(),
    )


def dim_order(input: Tensor, *, ambiguity_check: Any = False) -> tuple[int, ...]:
    """Return the axes in the order of memory, the slowest first.

    >>> dim_order(minitorch.ones(2, 3).T)
    (1, 0)
    """
    steps = input.stride()
    return tuple(sorted(builtins.range(input.ndim), key=lambda axis: -steps[axis]))


# --- questions ------------------------------------------------------------------------------------------------


def get_device(input: Tensor) -> int:
    """Return the number of a tensor's GPU; -1 for the CPU."""
    return input.get_device()


def is_conj(input: Tensor) -> bool:
    """Tell whether a tensor waits to be conjugated: none does."""
    return input.is_conj()


def is_neg(input: Tensor) -> bool:
    """Tell whether a tensor waits to be negated: none does."""
    return False


def is_inference(input: Tensor) -> bool:
    """Tell whether a tensor was made for inference alone: none is."""
    return input.is_inference()


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Tell whether two tensors have one shape."""
    return input.is_same_size(other)


def is_signed(input: Tensor) -> bool:
    """Tell whether a tensor's dtype has negative numbers."""
    return input.is_signed()


def is_distributed(input: Tensor) -> bool:
    """Tell whether a tensor is spread over processes: none is."""
    return False


def is_storage(obj: Any) -> bool:
    """Tell whether a thing is the memory of a tensor."""
    return isinstance(obj, (TypedStorage, UntypedStorage))


def set_flush_denormal(mode: bool) -> bool:
    """Return False: numbers near 0 are never made 0."""
    return False


# --- branches and loops ------------------------------------------------------------------------------------------


def cond(
    pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], operands: Sequence[Any] = ()
) -> Any:
    """Return what one of two functions gives for the operands, by a condition.

    >>> cond(minitorch.tensor(True), lambda x: x + 1, lambda x: x - 1, (minitorch.zeros(1),))
    tensor([1.])
    """
    return (true_fn if pred else false_fn)(*operands)


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: Any) -> Any:
    """Return what is left of the inputs when body_fn was applied to them as long as cond_fn holds."""
    carried = tuple(carried_inputs)
    while cond_fn(*carried):
        carried = body_fn(*carried)
        carried = carried if isinstance(carried, (tuple, list)) else (carried,)
    return tuple(carried)


# --- layers under PyTorch's inner names ----------------------------------------------------------------------------


def constant_pad_nd(input: Tensor, pad: Any, value: Any = 0) -> Tensor:
    """Pad by a number; see nn.functional.pad."""
    return F.pad(input, tuple(pad), value=value)


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    """A convolution, or a transposed one, of 1 to 3 dimensions; see nn.functional."""
    rank = weight.ndim - 2
    if transposed:
        function = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[rank - 1]
        return function(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return (F.conv1d, F.conv2d, F.conv3d)[rank - 1](input, weight, bias, stride, padding, dilation, groups)


def conv_tbc(input: Tensor, weight: Tensor, bias: Tensor, pad: int = 0) -> Tensor:
    """conv1d of (time, batch, channels) with weights (width, in, out)."""
    out = F.conv1d(input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad)
    return out.permute(2, 0, 1)


def affine_grid_generator(theta: Tensor, size: Any, align_corners: bool) -> Tensor:
    """Return nn.functional.affine_grid's grid."""
    return F.affine_grid(theta, size, align_corners)


def grid_sampler(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """nn.functional.grid_sample with numbers in place of the modes' names."""
    mode = ("bilinear", "nearest", "bicubic")[interpolation_mode]
    return F.grid_sample(input, grid, mode, ("zeros", "border", "reflection")[padding_mode], align_corners)


grid_sampler_2d = grid_sampler_3d = grid_sampler
native_channel_shuffle = F.channel_shuffle


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Return dropout's result, and what was kept."""
    if train is False:
        return input, creation.ones_like(input, dtype=np.bool_)
    kept = F.dropout(creation.ones_like(input), p)
    return input * kept, kept != 0


def native_layer_norm(
    input: Tensor, normalized_shape: Any, weight: Any, bias: Any, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return layer_norm's result, the means, and one over the standard deviations."""
    axes = tuple(builtins.range(-len(normalized_shape), 0))
    mean = input.mean(dim=axes, keepdim=True)
    scale = (input.var(dim=axes, keepdim=True, unbiased=False) + eps).rsqrt()
    return F.layer_norm(input, normalized_shape, weight, bias, eps), mean.detach(), scale.detach()


def native_group_norm(
    input: Tensor, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return group_norm's result, the means, and one over the standard deviations."""
    grouped = input.reshape(N, group, -1)
    scale = (grouped.var(dim=-1, unbiased=False) + eps).rsqrt()
    return F.group_norm(input, group, weight, bias, eps), grouped.mean(dim=-1), scale


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """Return the norm of each slice along an axis, with as many axes as v; dim -1: of all elements.

    >>> norm_except_dim(minitorch.tensor([[3.0, 4.0], [0.0, 2.0]]))
    tensor([[5.],
            [2.]])
    """
    if dim == -1:
        return v.norm(pow)
    shape = [1] * v.ndim
    shape[dim] = -1
    return v.movedim(dim, 0).flatten(1).norm(pow, dim=1).reshape(shape) if v.ndim > 1 else v.abs()


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Zero whole channels of (N, C, …) at random; the others grow to keep the mean."""
    if not train or p == 0:
        return input
    mask = F.dropout(creation.ones(*input.shape[:2], dtype=input.dtype, device=input.device), p)
    return input * mask.reshape(*input.shape[:2], *(1,) * (input.ndim - 2))


def _writing(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def write(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if input.is_leaf and input.requires_grad:
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")
        return input.copy_(function(input, *args, **kwargs))

    write.__name__ = write.__qualname__ = name
    write.__doc__ = f"{name.removesuffix('_')}, written into its input."
    return write


dropout_ = _writing("dropout_", F.dropout)
alpha_dropout_ = _writing("alpha_dropout_", F.alpha_dropout)
feature_dropout_ = _writing("feature_dropout_", feature_dropout)
feature_alpha_dropout_ = _writing("feature_alpha_dropout_", F.feature_alpha_dropout)


def _recurrent(kind: Any, **options: Any) -> Callable[..., Any]:
    def run(
        input: Tensor,
        hx: Any,
        params: Any,
        has_biases: bool,
        num_layers: int,
        dropout: float,
        train: bool,
        bidirectional: bool,
        batch_first: bool = False,
    ) -> Any:
        """Run layers of recurrence over (T, N, features), with the weights in PyTorch's order. -> output, states."""
        hidden = (hx[0] if isinstance(hx, (tuple, list)) else hx).shape[-1]
        with random.fork_rng():  # weights are drawn, and not used
            layers = kind(
                input.shape[-1],
                hidden,
                num_layers,
                bias=has_biases,
                batch_first=batch_first,
                dropout=dropout,
                bidirectional=bidirectional,
                **options,
            )
        layers.train(train)
        if kind is recurrent.LSTM:
            hx = tuple(hx)
        given = dict(zip((name for name, _ in layers.named_parameters()), params, strict=True))
        output, state = functional_call(layers, given, (input, hx))
        return (output, *state) if isinstance(state, tuple) else (output, state)

    return run


lstm, gru = _recurrent(recurrent.LSTM), _recurrent(recurrent.GRU)
rnn_tanh, rnn_relu = _recurrent(recurrent.RNN), _recurrent(recurrent.RNN, nonlinearity="relu")


# --- matrices -------------------------------------------------------------------------------------------------------


def frobenius_norm(input: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Return the root of the sum of squares, over some axes or all."""
    return linalg.vector_norm(input, 2, dim, keepdim)


def nuclear_norm(input: Tensor, dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """Return the sum of a matrix's singular values."""
    return linalg.matrix_norm(input, "nuc", tuple(dim), keepdim)


class _Geqrf(NamedTuple):
    """R above the diagonal and the reflections' vectors below, and their factors."""

    a: Tensor
    tau: Tensor


def geqrf(input: Any) -> _Geqrf:
    """LAPACK's form of the QR decomposition, from which linalg.householder_product makes Q. It has no derivative.

    >>> a, tau = geqrf(minitorch.tensor([[3.0], [4.0]]))
    >>> a[0, 0], linalg.householder_product(a, tau)
    (tensor(-5.), tensor([[-0.6000],
            [-0.8000]]))
    """
    x = tensor_for(input, "geqrf")
    if x.requires_grad:
        raise NotImplementedError("the derivative for 'geqrf' is not implemented; linalg.qr has one")
    h, tau = np.linalg.qr(on_host(x._data), mode="raw")
    return _Geqrf(
        *(new_tensor(each).to(x.device) for each in (np.ascontiguousarray(h.swapaxes(-1, -2)), tau))
    )


def ormqr(input: Any, tau: Any, other: Any, left: bool = True, transpose: bool = False) -> Tensor:
    """Q·other (left), or other·Q, with the Q of geqrf's reflections, whole; transpose: with Qᴴ."""
    a, factors, matrix = (tensor_for(each, "ormqr") for each in (input, tau, other))
    rows = a.shape[-2]
    square = F.pad(a, (0, rows - a.shape[-1]))
    q = linalg.householder_product(square, F.pad(factors, (0, rows - factors.shape[-1])))
    q = q.mH if transpose else q
    return q @ matrix if left else matrix @ q


class _LowRank(NamedTuple):
    U: Tensor
    S: Tensor
    V: Tensor


def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Any = None) -> Any:
    """The largest q singular values and vectors of a matrix (or of A - M), by a random basis of its range."""
    q, steps = 6 if q is None else q, 2 if niter is None else niter
    a = A if M is None else A - M
    wide = a.shape[-2] < a.shape[-1]
    tall = a.mH if wide else a
    basis = linalg.qr(tall @ random.randn(tall.shape[-1], q, dtype=tall.dtype, device=tall.device)).Q
    for _ in builtins.range(steps):
        basis = linalg.qr(tall @ linalg.qr(tall.mH @ basis).Q).Q
    u, s, vh = linalg.svd(basis.mH @ tall, full_matrices=False)
    u, v = basis @ u, vh.mH
    return _LowRank(v, s, u) if wide else _LowRank(u, s, v)


def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> Any:
    """svd_lowrank of a matrix whose columns are centred: its principal components are V's columns."""
    q = min(6, *A.shape[-2:]) if q is None else q
    if not 0 <= q <= min(A.shape[-2:]):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(A.shape[-2:])}"
        )
    return svd_lowrank(A - A.mean(dim=-2, keepdim=True) if center else A, q, niter)


class _Histogram(NamedTuple):
    hist: Tensor
    bin_edges: tuple[Tensor, ...]


def histogramdd(
    input: Tensor, bins: Any, *, range: Any = None, weight: Tensor | None = None, density: bool = False
) -> _Histogram:
    """Count points (…, D) in boxes. bins: how many along each axis, or their edges."""
    x = tensor_for(input, "histogramdd").detach()
    points = on_host(x._data).reshape(-1, x.shape[-1])
    edges = [on_host(b._data) if isinstance(b, Tensor) else b for b in bins] if _several(bins) else bins
    spans = None if range is None else list(zip(range[::2], range[1::2], strict=True))
    weights = None if weight is None else on_host(weight._data).reshape(-1)
    hist, found = np.histogramdd(points, edges, spans, density, weights)
    kind = points.dtype
    counts, *places = (new_tensor(each.astype(kind)).to(x.device) for each in (hist, *found))
    return _Histogram(counts, tuple(places))


def _several(bins: Any) -> bool:
    return isinstance(bins, (tuple, list))


def smm(input: Tensor, mat: Tensor) -> Tensor:
    """A sparse matrix times a matrix."""
    return mm(input, mat)


dsmm = smm


def range(start: float = 0, end: float | None = None, step: float = 1, **options: Any) -> Tensor:
    """Numbers from start to end, both included, in steps: arange's forerunner, which warns."""
    warnings.warn(
        "torch.range is deprecated: it includes the end, which Python's range does not; write torch.arange",
        UserWarning,
        stacklevel=2,
    )
    if end is None:
        start, end = 0, start
    count = math.floor((end - start) / step) + 1
    if count < 1:
        raise RuntimeError(f"range: no step of {step} leads from {start} to {end}")
    like = creation.empty(0, **options)
    numbers = creation.arange(count, dtype=np.float64, device=like.device) * step + start
    return numbers.to(like.dtype).requires_grad_(like.requires_grad)


# --- removed by PyTorch --------------------------------------------------------------------------------------------


def _removed(name: str, instead: str) -> Callable[..., NoReturn]:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"torch.{name} is removed, in PyTorch too; write {instead}")

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Refuse: removed by PyTorch; write {instead}."
    return refuse


eig = _removed("eig", "torch.linalg.eig(A), whose eigenvalues are complex")
lstsq = _removed("lstsq", "torch.linalg.lstsq(A, B).solution, whose arguments are in the other order")
matrix_rank = _removed("matrix_rank", "torch.linalg.matrix_rank(A)")
solve = _removed("solve", "torch.linalg.solve(A, B), whose arguments are in the other order")
symeig = _removed("symeig", "torch.linalg.eigh(A), or torch.linalg.eigvalsh(A)")

# NumPy has LAPACK's matrices and Fourier transforms.
has_lapack = has_spectral = True
has_mkl = has_openmp = False
