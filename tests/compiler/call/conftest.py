"""What tests of eager ops on a device share."""

import pytest

import minitorch
from minitorch.compiler.call import eager_backend
from minitorch.ops import native
from minitorch.ops.op import OPS
from standin import DeviceArray
from standin_kernels import StandinLauncher


@pytest.fixture
def launcher(monkeypatch):
    """Kernels for DeviceArrays, made at the first call of a kind."""
    found = StandinLauncher()
    eager_backend.use(found)
    monkeypatch.setattr(eager_backend, "CALLS", 1)
    native.meet(DeviceArray)
    minitorch.set_native_ops(True)
    for op in OPS.values():
        op.open_to_devices()
    yield found
    native.forget(DeviceArray)
    minitorch.set_native_ops(False)
    eager_backend.forget()
