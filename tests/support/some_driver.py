"""A GPU's driver, arrays and streams that do not exist, for machine code that asks them."""

import ctypes

from minitorch.compiler.backends.cuda.steps import address_of, in_a_row, kernel_step

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
        return in_a_row([kernel_step(at, 77, (5, 64, 1024), operands, self.prepare, self.fail, owner)], 2)


def class_of_arrays(slotted):
    """What arrays of CuPy's are in Python: a class, whose own __new__ is passed by. slotted: its attributes are C's."""

    class Pointer:
        if slotted:
            __slots__ = ("ptr",)

        def __init__(self, ptr):
            self.ptr = ptr

    class Base:
        if slotted:
            __slots__ = ("_c_contiguous", "data", "dtype", "shape")

        def _init(self, shape, dtype):
            if shape == (13,):
                raise MemoryError("13")
            self.shape, self.dtype, self._c_contiguous = shape, dtype, True
            self.data = Pointer(4096)

    class Array(Base):
        __slots__ = ()
        pointer = Pointer

        def __new__(cls, shape, dtype, address, contiguous=True):
            array = Base.__new__(cls)
            array._init(shape, dtype)
            array.data, array._c_contiguous = Pointer(address), contiguous
            return array

    return Array


class Stream:
    ptr = 5
