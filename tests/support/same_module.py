"""A module of both libraries, held to one behaviour: a pair (ours, PyTorch's) and arrays enter, assertions follow."""

import numpy as np

import minitorch
from minitorch.engine.node import new_tensor
from pytorch import torch
from same_as_torch import agree
from standin import DeviceArray
from tensors import weights


def twins(build):
    """Build a module in both libraries, in float64, and move PyTorch's weights over."""
    ours, theirs = build(minitorch).double(), build(torch).double()
    ours.load_state_dict(theirs.state_dict())
    return ours, theirs


def same_module(pair, *arrays, call=None, calls=1, seed=None, tol=1e-9):
    """Copy PyTorch's weights into ours, run both on the arrays, and compare everything there is to compare.

    Keys, printed form, results, gradients of inputs and parameters, buffers, and the state dict on its way back.
    """
    __tracebackhide__ = True
    ours, theirs = (module.double() for module in pair)
    with torch.no_grad():
        for i, p in enumerate(theirs.parameters()):
            p += 0.1 * torch.tensor(weights(tuple(p.shape))) + 0.01 * i  # no parameter at a special value
    assert list(ours.state_dict()) == list(theirs.state_dict())
    assert not any(ours.load_state_dict(theirs.state_dict()))
    assert repr(ours) == repr(theirs).replace("NonDynamicallyQuantizableLinear", "Linear")

    def run(m, *tensors):
        module = ours if m is minitorch else theirs
        if seed is not None:
            m.manual_seed(seed)
        return module(*tensors) if call is None else call(m, module, *tensors)

    for _ in range(calls):
        assert agree(run, *arrays, tol=tol) is not None, "both refuse"
    _same_names(ours.named_parameters(), theirs.named_parameters(), _same_gradient, tol)
    _same_names(ours.named_buffers(), theirs.named_buffers(), _same_buffer, tol)
    back = {name: torch.tensor(value.numpy()) for name, value in ours.state_dict().items()}
    theirs.load_state_dict(back)
    return ours


def _same_names(ours, theirs, compare, tol):
    __tracebackhide__ = True
    ours, theirs = dict(ours), dict(theirs)
    assert list(ours) == list(theirs)
    for name, mine in ours.items():
        compare(mine, theirs[name], name, tol)


def _same_gradient(mine, other, name, tol):
    if other.grad is None:
        assert mine.grad is None or not mine.grad.any(), f"{name} has a gradient"
    else:
        assert mine.grad is not None, f"{name} has no gradient"
        np.testing.assert_allclose(mine.grad, other.grad.numpy(), rtol=tol, atol=tol, err_msg=name)


def _same_buffer(mine, other, name, tol):
    assert str(mine.dtype) == str(other.dtype).removeprefix("torch.")
    np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=tol, atol=tol, err_msg=name)


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
