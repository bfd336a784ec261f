"""Launching kernels in machine code, with a function of Python's in the driver's place."""

import gc
import sys
import weakref
from types import SimpleNamespace

import pytest

from compiled import BACKENDS
from minitorch.compiler.backends.cuda import devices
from minitorch.compiler.backends.cuda.launching import Finder
from minitorch.compiler.backends.cuda.steps import address_of, in_a_row, kernel_step
from minitorch.compiler.backends.cuda.words import Kernel, Phase
from some_driver import Driver, Stream, class_of_arrays

pytestmark = pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed")


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


@pytest.fixture(params=[False, True], ids=["asked by name", "read by C's functions"])
def Array(request):
    """A class of arrays."""
    return class_of_arrays(request.param)


class Found:
    """A finder, with a driver, that knows a launch for two arrays of shape (2, 3)."""

    def __init__(self, kind, *codes):
        self.driver, self.asked = Driver(*codes), []
        self.finder, self.busy = Finder(kind, Stream, kind.pointer), []
        operands = [(2, 0), (0, 0), (1, 4)]
        driver = self.driver
        at = address_of(driver.function)
        step = kernel_step(at, 77, (1, 32, 0), operands, driver.prepare, driver.fail, None)
        self.launch = in_a_row([step], 3)
        self.keep(max, (2, 3), (2, 3))

    def keep(self, function, shape, made, *attributes):
        self.finder.keep((function, shape, "f", shape, "f", *attributes), self.launch, [(made, "d")], -1)

    def shortcut(self, function=max):
        return self.finder.shortcut(function, lambda *x, **a: self.asked.append((function, x, a)), self.busy)

    def __call__(self, *inputs, function=max, **attributes):
        return self.shortcut(function)(*inputs, **attributes)


def test_a_launch_is_found_by_what_arrays_are_like(Array):
    found = Found(Array)
    x, y = Array((2, 3), "f", 16), Array((2, 3), "f", 32)
    out = found(x, y)
    assert (type(out), out.shape, out.dtype) == (Array, (2, 3), "d")
    assert [launch[2:] for launch in found.driver.launches] == [(5, [4096, 16, 36])]
    assert not found.asked


def test_all_else_is_asked_for_elsewhere(Array):
    found = Found(Array)
    x = Array((2, 3), "f", 16)
    for call in (
        (x,),
        (x, Array((3, 2), "f", 16)),
        (x, Array((2, 3), "d", 16)),
        (x, Array((2, 3), "f", 24)),
        (x, Array((2, 3), "f", 32, contiguous=False)),
        (x, 1.5),
        (x, None),
        (x, object()),
        ([x], x),
    ):
        assert found(*call) is None
        assert found.asked.pop() == (max, call, {})
    assert found(x, x, function=min) is None
    assert found(x, x, axis=1) is None
    assert found(x, x, axis=[1]) is None  # (which cannot be a part of a key)
    assert found.asked == [(min, (x, x), {}), (max, (x, x), {"axis": 1}), (max, (x, x), {"axis": [1]})]
    assert not found.driver.launches


def test_other_kinds_of_addresses_are_asked_by_name(Array):
    found = Found(Array)
    x = Array((2, 3), "f", 16)
    x.data = Stream()
    assert found(x, x) is None  # 5 is no multiple of 16
    x.data = Stream()
    x.data.ptr = 64
    assert found(x, x).shape == (2, 3)
    assert found.driver.launches[0][3] == [4096, 64, 68]
    x.data = object()
    assert found(x, x) is None
    del x.shape
    assert found(x, x) is None


def test_nothing_is_looked_for_meanwhile(Array):
    found = Found(Array)
    x = Array((2, 3), "f", 16)
    shortcut = found.shortcut()
    found.busy.append("making")
    assert shortcut(x, x) is None
    found.busy.clear()
    assert shortcut(x, x).shape == (2, 3)
    assert found.asked == [(max, (x, x), {})]


def test_attributes_are_a_part_of_what_is_looked_for(Array):
    found = Found(Array)
    x = Array((2, 3), "f", 16)
    found.keep(max, (2, 3), (2,), "axis", 1, int, "keep", False, bool)
    assert found(x, x, axis=1, keep=False).shape == (2,)
    for axis, keep in ((1, True), (1, 0), (1, 0.0), (1.0, False), (True, False)):
        assert found(x, x, axis=axis, keep=keep) is None
    assert found(x, x).shape == (2, 3)


def test_ctrl_c_while_it_is_looked_for_is_raised(Array):
    found = Found(Array)
    x = Array((2, 3), "f", 16)

    class Slow:
        def __hash__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        found(x, x, axis=Slow())
    assert not found.asked


def test_what_goes_wrong_on_the_way_is_raised(Array):
    found = Found(Array, 700)
    x = Array((2, 3), "f", 16)
    with pytest.raises(ValueError, match="700"):
        found(x, x)
    found.keep(min, (2, 3), (13,))
    with pytest.raises(MemoryError):
        found(x, x, function=min)
    assert found(x, x).shape == (2, 3)


def test_finding_keeps_nothing(Array):
    found = Found(Array)
    x, y = Array((2, 3), "f", 16), Array((7, 7), "f", 16)
    odd = {"axis": [1]}
    things = [
        x,
        y,
        x.shape,
        y.shape,
        max,
        odd,
        odd["axis"],
        found.launch,
        found.finder.entries,
        Array,
        Array.pointer,
        "axis",
    ]

    shortcut = found.shortcut()

    def many():
        for _ in range(100):
            shortcut(x, x), shortcut(y, x), shortcut(x, x, **odd), shortcut(x, 1.5)
            found.asked.clear()
            found.driver.launches.clear()

    many()
    before = [sys.getrefcount(each) for each in things]
    many()
    assert [sys.getrefcount(each) for each in things] == before


def test_kernels_are_made_side_by_side_and_come_back_in_their_order(monkeypatch):
    """The longest alone; and what fails in one of them is raised."""
    together = []

    class Module:
        def load(self, code):
            self.notes = code.split()

        def get_function(self, name):
            return f"the function of {self.notes[int(name.removeprefix('kernel'))]}"

    def text(kernels):
        together.append([kernel.length for kernel in kernels])
        if kernels[0].note == "wrong":
            raise ValueError("it is wrong")
        return " ".join(kernel.note for kernel in kernels)

    monkeypatch.setattr(devices, "gpu_text", text)
    monkeypatch.setattr(devices, "assembled", lambda text, processor: text)
    monkeypatch.setattr(devices, "cores", lambda: 3)
    device = SimpleNamespace(id=0, compute_capability="90", use=lambda: None)
    cuda = devices.Cuda()
    cuda.__dict__["cupy"] = SimpleNamespace(
        cuda=SimpleNamespace(
            Device=lambda number=0: device,
            driver=SimpleNamespace(CUDADriverError=OSError),
            function=SimpleNamespace(Module=Module),
        )
    )

    def kernel(lines, note):
        return Kernel([Phase(0, ["  line"] * lines)], [], 1, 1, 0, {}, note=note)

    lengths = [3, 500, 4, 20, 1, 30, 2]
    kernels = [kernel(length, str(number)) for number, length in enumerate(lengths)]
    assert cuda.load(kernels) == [f"the function of {number}" for number in range(len(lengths))]
    assert [500] in together
    assert sorted(length for part in together for length in part) == sorted(lengths)
    assert len(together) == 3
    with pytest.raises(ValueError, match="it is wrong"):
        cuda.load([kernel(1, "wrong")])
