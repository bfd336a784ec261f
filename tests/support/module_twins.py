"""One module built in both libraries, with the same weights: outputs, input and parameter gradients are compared."""

import numpy as np
import torch

import minitorch
from both import weights
from minitorch.engine.node import new_tensor
from same_as_torch import agree
from standin import DeviceArray

# The tensors are tiny: threads would only wait for each other.
torch.set_num_threads(1)


def twins(build):
    """Build a module in both libraries, in float64, and move PyTorch's weights over."""
    ours, theirs = build(minitorch).double(), build(torch).double()
    given = theirs.state_dict()
    assert list(ours.state_dict()) == list(given)
    assert [tuple(v.shape) for v in given.values()] == [v.shape for v in ours.state_dict().values()]
    ours.load_state_dict(given)
    # … and back: what PyTorch reads from us are the weights it gave.
    back = {name: torch.tensor(value.numpy()) for name, value in ours.state_dict().items()}
    theirs.load_state_dict({name: torch.zeros_like(value) for name, value in back.items()})
    theirs.load_state_dict(back)
    return ours, theirs


def same_module(build, *arrays, call=None, tol=1e-9):
    """Assert that both modules compute the same and differentiate the same; return ours."""
    __tracebackhide__ = True
    ours, theirs = twins(build)
    call = call or (lambda m, module, *tensors: module(*tensors))
    agree(lambda m, *t: call(m, ours if m is minitorch else theirs, *t), *arrays, tol=tol)
    found = dict(ours.named_parameters())
    for name, parameter in theirs.named_parameters():
        grad = found.pop(name).grad
        if parameter.grad is None:
            assert grad is None or not grad.any(), f"{name} has a gradient"
            continue
        assert grad is not None, f"{name} has no gradient"
        np.testing.assert_allclose(grad, parameter.grad.numpy(), rtol=tol, atol=tol, err_msg=name)
    assert not found, f"PyTorch has no {list(found)}"
    return ours


def same_draws(build, seed=0):
    """Assert that both libraries draw the same default parameters from one seed."""
    __tracebackhide__ = True
    minitorch.manual_seed(seed)
    torch.manual_seed(seed)
    ours, theirs = build(minitorch), build(torch)
    for (name, mine), (other_name, other) in zip(
        ours.named_parameters(), theirs.named_parameters(), strict=True
    ):
        assert name == other_name
        np.testing.assert_allclose(
            mine.detach().numpy(), other.detach().numpy(), rtol=2e-6, atol=1e-7, err_msg=name
        )
    assert float(minitorch.rand(1)) == float(torch.rand(1)), "another number of draws"


def same_on_device(build, *arrays, call=None):
    """Assert that a module gives the same on a device that refuses host arrays."""
    __tracebackhide__ = True
    call = call or (lambda module, *tensors: module(*tensors))
    host, device = build(minitorch).double(), build(minitorch).double()
    device.load_state_dict(host.state_dict())
    for parameter in device.parameters():
        parameter._data = DeviceArray(parameter._data)
    inputs = [minitorch.tensor(a, requires_grad=a.dtype.kind == "f") for a in arrays]
    moved = [new_tensor(DeviceArray(a.copy())).requires_grad_(a.dtype.kind == "f") for a in arrays]
    expected, found = call(host, *inputs), call(device, *moved)
    np.testing.assert_allclose(found._data.host, expected.detach().numpy(), rtol=1e-12, atol=1e-12)
    expected.backward(weights(expected.shape))
    found.backward(DeviceArray(weights(expected.shape)))
    pairs = [*zip(moved, inputs, strict=True), *zip(device.parameters(), host.parameters(), strict=True)]
    for mine, other in pairs:
        if other.grad is not None:
            np.testing.assert_allclose(mine.grad.host, other.grad, rtol=1e-12, atol=1e-12)
