"""Compiling a function and comparing it with itself: which backends there are, and how close is equal."""

from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np

import minitorch
import minitorch.compiler.backends
from device_backend import Device
from minitorch.compiler.backends.cuda.backend import CudaBackend
from minitorch.compiler.backends.cuda.devices import Emulated
from minitorch.compiler.ir import builder
from minitorch.compiler.trace import ufuncs

# The program by NumPy is always there, and so is the device that takes a schedule at its word; machine code where
# its room and llvmlite are.
minitorch.compiler.backends.register("device", Device())
BACKENDS = ["numpy", "device"]
if find_spec("minitorch.compiler.backends.llvm.native") and find_spec("llvmlite"):
    BACKENDS += ["unfused", "native"]
    # A GPU's kernels, run by this processor thread after thread, and from the last thread to the first.
    minitorch.compiler.backends.register("gpu", CudaBackend(Emulated()))
    minitorch.compiler.backends.register("gpu backwards", CudaBackend(Emulated(backwards=True)))

# What rounding may do: to a number, and to a number beside larger ones.
RTOL = {2: 2e-2, 4: 1e-4, 8: 1e-9}


def assert_same(compiled, eager, what="", slack=1.0, floor=0.0):
    """The same shape, dtype, nans, infinities; and the same numbers but for the order of additions."""
    a, b = (np.asarray(x.detach().numpy() if hasattr(x, "detach") else x) for x in (compiled, eager))
    assert a.shape == b.shape, f"{what}: shape {a.shape}, eager {b.shape}"
    assert a.dtype == b.dtype, f"{what}: dtype {a.dtype}, eager {b.dtype}"
    if b.dtype.kind != "f":
        np.testing.assert_array_equal(a, b, err_msg=what)
        return
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size else 0.0
    rtol = RTOL[b.dtype.itemsize] * slack
    np.testing.assert_allclose(a, b, rtol=rtol, atol=floor + rtol * 0.1 * min(scale, 1e30), err_msg=what)


def calls_of(function):
    """The names of the NumPy functions that a compiled function's programs call back."""
    names = []
    for program in function.cache.all():
        parts = [program.recorded.program]
        if program.backward is not None:
            parts.append(program.backward.program)
        for part in parts:
            names += [v.attributes["function"].__name__ for v in part.values() if v.primitive == "call"]
    return names


def compiled(function, backend):
    return minitorch.compile(function, backend=backend)


def put_off_audits(function):
    """From its next call on, what a compiled function gives is its program's: an audit would give the function's own.

    An audit runs and records the function once more, whatever the backend: where a test runs a table through several,
    one of them shows that nothing is found.
    """
    for program in function.cache.all():
        program.audits.put_off()


def write_down_too_much(function, monkeypatch, shape=None):
    """Let a function of NumPy's be written down as 1.001 times what it is; what it computes stays as it is."""

    def wrong(name, *values):
        value = builder.map_values(name, *values)
        if name != function or value.dtype != np.float32 or (shape and value.shape != shape):
            return value
        return builder.map_values("multiply", value, builder.full(value.shape, 1.001, value.dtype))

    # It has to pass for code of the recorder's own: other code is observed.
    wrong.__code__ = wrong.__code__.replace(co_filename=ufuncs.__file__)
    monkeypatch.setattr(ufuncs, "make", SimpleNamespace(**{**vars(builder), "map_values": wrong}))
