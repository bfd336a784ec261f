"""Launching kernels in machine code, with a function of Python's in the driver's place."""

import ctypes
import gc
import weakref

import pytest

from compiled import BACKENDS
from minitorch.compiler.backends.cuda.launching import address_of, launching

pytestmark = pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed")
WORDS = ctypes.POINTER(ctypes.POINTER(ctypes.c_int64))
DRIVER = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_void_p, *[ctypes.c_uint] * 7, ctypes.c_int64, WORDS, ctypes.c_void_p
)


class Driver:
    """A driver that answers with some codes, one after the other, and remembers what it was told."""

    def __init__(self, *codes):
        self.codes, self.launches, self.told = list(codes), [], []
        self.function = DRIVER(self.launch)

    def launch(self, function, bx, by, bz, tx, ty, tz, shared, stream, operands, extra):
        grid = (bx, by, bz), (tx, ty, tz), shared
        self.launches.append((function, grid, stream, [operands[i][0] for i in range(3)]))
        assert extra is None
        return self.codes.pop(0) if self.codes else 0

    def prepare(self, code):
        if code != 201:
            raise ValueError(code)
        self.told.append(code)

    def fail(self, code):
        raise RuntimeError(code)

    def kernel(self, owner=None):
        operands = [(1, 0), (0, 8), (-1, -7)]
        at = address_of(self.function)
        return launching(at, 77, (5, 64, 1024), 2, operands, self.prepare, self.fail, owner)


def test_the_driver_is_told_the_kernel_the_grid_the_stream_and_the_operands():
    driver = Driver()
    assert driver.kernel()(3, 1 << 46, 1000) is None
    assert driver.launches == [(77, ((5, 1, 1), (64, 1, 1), 1024), 3, [1000, (1 << 46) + 8, -7])]


def test_what_the_driver_complains_of_is_raised():
    driver = Driver(700)
    with pytest.raises(ValueError, match="700"):
        driver.kernel()(0, 16, 32)
    assert len(driver.launches) == 1


def test_it_is_tried_once_more_if_something_can_be_done_about_it():
    driver = Driver(201)
    driver.kernel()(0, 16, 32)
    assert (driver.told, len(driver.launches)) == ([201], 2)
    driver = Driver(201, 201)
    with pytest.raises(RuntimeError, match="201"):
        driver.kernel()(0, 16, 32)
    assert len(driver.launches) == 2


def test_wrong_arguments_are_refused_and_nothing_is_launched():
    driver = Driver()
    kernel = driver.kernel()
    with pytest.raises(TypeError, match="wrong number of addresses"):
        kernel(0, 16)
    with pytest.raises(TypeError):
        kernel(0, 16, "somewhere")
    with pytest.raises(OverflowError):
        kernel(0, 16, 1 << 70)
    kernel(0, 16, -1)  # (which is what a failure looks like)
    assert [launch[3] for launch in driver.launches] == [[-1, 24, -7]]


def test_what_it_needs_lives_as_long_as_it_does():
    class Module:
        pass

    module = Module()
    kernel, seen = Driver().kernel(module), weakref.ref(module)
    del module
    gc.collect()
    assert seen() is not None
    del kernel
    gc.collect()
    assert seen() is None
