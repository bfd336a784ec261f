"""Run one line on minitorch and on PyTorch, and hold both to one answer or one kind of refusal.

A line is an expression in `m` (the library) and `x`, `y`, … (tensors made from arrays): the same text runs
on both. What is compared: the structure of the answer, shapes, dtypes, values, which results require grad,
and the gradients of an irregular weighting of the results.
"""

import contextlib
import warnings

import numpy as np
import pytest

import minitorch
from pytorch import torch
from tensors import weights

# The base class a refusal must have. PyTorch's own subclasses (NotImplementedError, LinAlgError) are
# RuntimeErrors; which of them it is says nothing to a person.
REFUSALS = (IndexError, TypeError, ValueError, RuntimeError)


class Functional:
    """PyTorch, with the few functions of torch.nn.functional that minitorch has at the top."""

    def __getattr__(self, name):
        if name in ("pad", "one_hot", "cross_entropy", "gelu", "silu", "softplus", "leaky_relu", "elu"):
            return getattr(torch.nn.functional, name)
        return getattr(torch, name)


def line(text, names="x"):
    """The function a line of a table stands for."""
    return eval(f"lambda m, {', '.join(names.split())}: {text}", {"inf": float("inf"), "nan": float("nan")})


def agree(call, *arrays, tol=1e-9, gradients=True, where=""):
    """Assert that both libraries answer `call(m, *tensors)` alike; return our answer, None where both refuse."""
    __tracebackhide__ = True
    ours, our_inputs, our_error = _run(minitorch, minitorch.tensor, call, arrays, gradients)
    theirs, their_inputs, their_error = _run(Functional(), torch.tensor, call, arrays, gradients)
    if their_error is not None:
        assert our_error is not None, (
            f"{where} PyTorch refuses ({their_error!r:.200}), minitorch gives {ours}"
        )
        expected = next(kind for kind in REFUSALS if isinstance(their_error, kind))
        assert isinstance(our_error, expected), f"{where} {our_error!r:.300} instead of {their_error!r:.200}"
        return None
    if our_error is not None:
        raise AssertionError(f"{where} minitorch refuses, PyTorch gives {theirs}") from our_error
    _same(ours, theirs, tol, where)
    if gradients:
        _same_gradients(ours, theirs, our_inputs, their_inputs, tol, where)
    return ours


def same_function(name, *given, **options):
    """Hold a function of nn.functional to PyTorch's. Arrays among the arguments become tensors; none may refuse."""
    __tracebackhide__ = True
    places = [i for i, argument in enumerate(given) if isinstance(argument, np.ndarray)]

    def call(m, *tensors):
        arguments = list(given)
        for i, tensor in zip(places, tensors, strict=True):
            arguments[i] = tensor
        return getattr(m.nn.functional, name)(*arguments, **options)

    assert agree(call, *(given[i] for i in places), where=name) is not None, "both refuse"


def same_refusal(call, kind, reason):
    """Hold both libraries to one refusal of `call(functional, zeros)`; ours gives the reason."""
    with pytest.raises(kind, match=reason):
        call(minitorch.nn.functional, minitorch.zeros)
    with pytest.raises(kind):
        call(torch.nn.functional, torch.zeros)


def _run(library, tensor, call, arrays, gradients):
    inputs = []
    for array in arrays:
        made = tensor(np.array(array))
        if gradients and np.asarray(array).dtype.kind == "f":
            made.requires_grad_()
        inputs.append(made)
    try:
        with contextlib.nullcontext() if library is minitorch else _torch_unwarned():
            return call(library, *inputs), inputs, None
    except REFUSALS as error:
        return None, inputs, error


@contextlib.contextmanager
def _torch_unwarned():
    # PyTorch warns of its own deprecations; ours are errors, as everywhere in the suite.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _same(ours, theirs, tol, where):
    __tracebackhide__ = True
    if isinstance(theirs, torch.Tensor):
        assert isinstance(ours, minitorch.Tensor), f"{where} {type(ours)} instead of a tensor"
        mine = ours.detach().numpy()
        other = theirs.detach().numpy()
        assert type(mine) is np.ndarray
        assert mine.shape == other.shape, f"{where} shape {mine.shape} instead of {other.shape}"
        assert str(mine.dtype) == str(theirs.dtype).removeprefix("torch."), (
            f"{where} {mine.dtype} instead of {theirs.dtype}"
        )
        _close(mine, other, tol, f"{where} values")
    elif isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs), f"{where} {len(ours)} results instead of {len(theirs)}"
        for mine, other in zip(ours, theirs, strict=True):
            _same(mine, other, tol, where)
    else:
        assert ours == theirs, f"{where} {ours!r} instead of {theirs!r}"


def _close(mine, other, tol, what):
    __tracebackhide__ = True
    if mine.dtype.kind in "fc":
        tol = {"float16": max(tol, 4e-3), "float32": max(tol, 1e-4)}.get(str(mine.dtype), tol)
        np.testing.assert_allclose(mine, other, rtol=tol, atol=tol, err_msg=what)
    else:
        np.testing.assert_array_equal(mine, other, err_msg=what)


def _tensors(answer, kind):
    if isinstance(answer, kind):
        return [answer]
    return [t for part in answer for t in _tensors(part, kind)] if isinstance(answer, (tuple, list)) else []


def _same_gradients(ours, theirs, our_inputs, their_inputs, tol, where):
    __tracebackhide__ = True
    mine, other = _tensors(ours, minitorch.Tensor), _tensors(theirs, torch.Tensor)
    asked = [o.requires_grad for o in other]
    assert [o.requires_grad for o in mine] == asked, f"{where} requires_grad should be {asked}"
    chosen = [i for i, wanted in enumerate(asked) if wanted]
    if not chosen:
        return
    seeds = [weights(mine[i].shape) for i in chosen]
    minitorch.autograd.backward(
        [mine[i] for i in chosen], [s.astype(mine[i].dtype) for i, s in zip(chosen, seeds, strict=True)]
    )
    try:
        torch.autograd.backward(
            [other[i] for i in chosen],
            [torch.tensor(s, dtype=other[i].dtype) for i, s in zip(chosen, seeds, strict=True)],
        )
    except RuntimeError:
        return  # PyTorch has no derivative here, or fails on the way (bools among the inputs)
    # Rounded on the way back too, and not in the same places.
    coarsest = min((t.dtype for t in our_inputs + mine if t.dtype.kind == "f"), key=lambda d: d.itemsize)
    tol = max(tol, {2: 2e-2, 4: 1e-4, 8: tol}[coarsest.itemsize])
    for position, (a, b) in enumerate(zip(our_inputs, their_inputs, strict=True)):
        if b.grad is None:
            assert a.grad is None or not a.grad.any(), f"{where} input {position} has a gradient"
            continue
        what = f"{where} gradient of input {position}"
        assert a.grad is not None, f"{what} is missing"
        assert a.grad.shape == tuple(b.shape), what
        assert a.grad.dtype == a.dtype, what
        _close(a.grad, b.grad.numpy(), tol, what)
