"""Hold a Module to PyTorch's: weights copied over, then outputs, all gradients, buffers, keys and printed form."""

import numpy as np
import torch

import minitorch

TOLERANCE = 1e-10


def irregular(shape):
    """A gradient to start from; a constant one hides mistakes that cancel."""
    return np.cos(1.0 + 1.7 * np.arange(int(np.prod(shape)))).reshape(shape)


def outputs(result):
    return list(result) if isinstance(result, (tuple, list)) else [result]


def close(mine, other, tolerance, what=""):
    np.testing.assert_allclose(mine, other, rtol=tolerance, atol=tolerance, err_msg=what)


def backward_both(ours, theirs, tolerance=TOLERANCE):
    """Compare results, and go backward from both with the same irregular gradient."""
    mine, other = outputs(ours), outputs(theirs)
    assert len(mine) == len(other)
    for a, b in zip(mine, other, strict=True):
        assert a.shape == tuple(b.shape)
        close(a.detach().numpy(), b.detach().numpy(), tolerance)
    assert [a.requires_grad for a in mine] == [b.requires_grad for b in other]
    chosen = [i for i, a in enumerate(mine) if a.requires_grad]
    if chosen:
        minitorch.autograd.backward([mine[i] for i in chosen], [irregular(mine[i].shape) for i in chosen])
        torch.autograd.backward(
            [other[i] for i in chosen], [torch.tensor(irregular(tuple(other[i].shape))) for i in chosen]
        )


def inputs_of(arrays):
    """The same inputs for both libraries; floats require grad."""
    mine = [minitorch.tensor(np.array(a)) for a in arrays]
    other = [torch.tensor(np.array(a)) for a in arrays]
    for a, b in zip(mine, other, strict=True):
        if a.dtype.kind == "f":
            a.requires_grad_()
            b.requires_grad_()
    return mine, other


def same_gradient(mine, other, what, tolerance=TOLERANCE):
    if other is None:
        assert mine is None or not mine.any(), what
    else:
        assert mine is not None, what
        close(mine, other.numpy(), tolerance, what)


def same_function(call, *arrays):
    """Run `call(library, F, *tensors)` on both libraries: values and input gradients must agree."""
    mine, other = inputs_of(arrays)
    backward_both(call(minitorch, minitorch.nn.functional, *mine), call(torch, torch.nn.functional, *other))
    for i, (a, b) in enumerate(zip(mine, other, strict=True)):
        same_gradient(a.grad, b.grad, f"input {i}")


def same_module(ours, theirs, *arrays, printed=True, calls=1, seed=None, tolerance=TOLERANCE):
    """Copy PyTorch's weights into ours, run both on the arrays, and compare everything there is to compare."""
    ours, theirs = ours.double(), theirs.double()
    with torch.no_grad():
        for i, p in enumerate(theirs.parameters()):
            p += 0.1 * torch.tensor(irregular(tuple(p.shape))) + 0.01 * i  # no parameter at a special value
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert not any(ours.load_state_dict(theirs.state_dict()))
    if printed:
        assert repr(ours) == repr(theirs)
    for _ in range(calls):
        mine, other = inputs_of(arrays)
        if seed is not None:
            minitorch.manual_seed(seed)
            torch.manual_seed(seed)
        backward_both(ours(*mine), theirs(*other), tolerance)
        for i, (a, b) in enumerate(zip(mine, other, strict=True)):
            same_gradient(a.grad, b.grad, f"input {i}", tolerance)
    parameters = dict(theirs.named_parameters())
    assert [n for n, _ in ours.named_parameters()] == list(parameters)
    for name, p in ours.named_parameters():
        same_gradient(p.grad, parameters[name].grad, name, tolerance)
    buffers = dict(theirs.named_buffers())
    assert [n for n, _ in ours.named_buffers()] == list(buffers)
    for name, b in ours.named_buffers():
        assert str(b.dtype) == str(buffers[name].dtype).removeprefix("torch.")
        close(b.numpy(), buffers[name].numpy(), tolerance, name)
    # And back: our state dict into PyTorch.
    theirs.load_state_dict({k: torch.tensor(v.numpy()) for k, v in ours.state_dict().items()})
