"""Steps in memory, which machine code goes through, with functions of Python's in the driver's and a library's place."""

import ctypes
import gc
import threading
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from compiled import BACKENDS
from minitorch.compiler.backends.cuda.cublas import Cublas
from minitorch.compiler.backends.cuda.launching import Finder
from minitorch.compiler.backends.cuda.products import LibraryProduct, Matrix
from minitorch.compiler.backends.cuda.steps import (
    MOST_ARGUMENTS,
    address_of,
    either_step,
    in_a_row,
    kernel_step,
    python_step,
)
from some_driver import Driver, Stream, class_of_arrays

pytestmark = pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed")
FLOAT32 = np.dtype(np.float32)


def noting(noted, name, count):
    return python_step(lambda *given: noted.append((name, given)), count)


def test_steps_go_one_after_the_other():
    noted, driver = [], Driver()
    kernel = kernel_step(
        address_of(driver.function),
        7,
        (1, 32, 0),
        [(0, 0), (1, 8), (-1, 5)],
        driver.prepare,
        driver.fail,
        None,
    )
    run = in_a_row([noting(noted, "a", 2), kernel, noting(noted, "b", 2), kernel], 2)
    assert run(3, 16, -1) is None
    assert noted == [("a", (3, 16, -1)), ("b", (3, 16, -1))]
    assert [launch[2:] for launch in driver.launches] == [(3, [16, 7, 5])] * 2


def test_what_a_step_raises_ends_them():
    noted = []

    def refuse(*given):
        raise ValueError(given)

    run = in_a_row([noting(noted, "a", 1), python_step(refuse, 1), noting(noted, "b", 1)], 1)
    with pytest.raises(ValueError, match="3, 16"):
        run(3, 16)
    assert noted == [("a", (3, 16))]


def test_which_of_two_a_word_of_memory_says():
    noted, flag = [], np.zeros(1, np.int64)
    run = in_a_row([either_step(flag, noting(noted, "yes", 1), noting(noted, "no", 1))], 1)
    for flag[0] in (0, 1, 0):
        run(0, 16)
    assert [name for name, _ in noted] == ["no", "yes", "no"]


def test_steps_live_as_long_as_what_runs_them():
    class Owner:
        def __call__(self, *given):
            pass

    owner = Owner()
    run, seen = in_a_row([python_step(owner, 1)], 1), weakref.ref(owner)
    del owner
    gc.collect()
    run(0, 16)
    assert seen() is not None
    del run
    gc.collect()
    assert seen() is None


CALL = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_int64] * MOST_ARGUMENTS)
SET = ctypes.CFUNCTYPE(
    ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_int64), ctypes.c_size_t
)


class Library:
    """In the place of both libraries: notes what it is told, and answers with a status."""

    def __init__(self):
        self.told, self.status = [], 0
        self.functions = {"cublasLtMatmulDescSetAttribute": SET(self.set)}

    def set(self, description, which, number, size):
        self.told.append(("set", which, number[0]))
        return 0

    def __getattr__(self, name):
        if name in ("cublasLtMatmul", "cublasGemmStridedBatchedEx"):

            def note(*arguments):
                self.told.append((name, arguments))
                return self.status

            return self.functions.setdefault(name, CALL(note))
        if name == "cublasLtMatmulDescSetAttribute":
            return self.functions[name]

        def function(*arguments):
            self.told.append((name, arguments))
            if name == "cublasLtMatmulAlgoGetHeuristic":
                arguments[-1]._obj.value = 1
            return 0

        return function


class Multiplying:
    """A product as a step, of addresses: what a library is told."""

    def __init__(self, monkeypatch, product, rounds=False):
        memory = SimpleNamespace(data=SimpleNamespace(ptr=512))
        self.cublas = Cublas(SimpleNamespace(empty=lambda size, dtype: memory))
        self.library = self.cublas._library = self.cublas._finishing = Library()
        self.turn, self.turns = np.full(1, -1, np.int64), []
        monkeypatch.setattr(Cublas, "_set", lambda *given: None)
        count = len(product.operands)
        operands = [(number, 8 * number) for number in range(count)]
        step = self.cublas.step(product, operands, count, rounds, self.take_turn, self.turn)
        self.run = in_a_row([step], count)
        self.library.told.clear()

    def take_turn(self):
        self.turns.append(self.stream)
        self.turn[0] = self.stream

    def __call__(self, stream, *addresses):
        self.stream = stream
        self.library.told.clear()
        self.run(stream, *addresses)
        return list(self.library.told)


PLAIN = LibraryProduct(
    ["a", "b", "c"], FLOAT32, FLOAT32, 8, 16, 4, 1, Matrix(4, 1, 0), Matrix(16, 1, 0), Matrix(16, 1, 0)
)
FINISHED = LibraryProduct(
    [*"abcdr"], FLOAT32, FLOAT32, 8, 16, 4, 1, *(PLAIN.a, PLAIN.b, PLAIN.c), addend=PLAIN.c, has_row=True
)


def as_python_says(multiplying, product, addresses, rounds):
    """What the library is told when Python asks it."""
    given = [address + 8 * i for i, address in enumerate(addresses)]
    told = []

    def call(name, *arguments):
        told.append((name, arguments))
        if name == "cublasLtMatmulAlgoGetHeuristic":
            arguments[-1]._obj.value = 1

    multiplying.cublas._call = call
    multiplying.cublas.ready(product)(given, 3)
    del multiplying.cublas._call
    return told[-1]


def worth(argument):
    """An argument of a C function."""
    if hasattr(argument, "_obj"):
        return argument._obj.value
    return None if isinstance(argument, ctypes.Array) else getattr(argument, "value", argument) or 0


@pytest.mark.parametrize("product", [PLAIN, FINISHED], ids=["plain", "finished"])
def test_a_library_is_told_what_python_tells_it(monkeypatch, product):
    multiplying = Multiplying(monkeypatch, product)
    addresses = [1024 * (1 + i) - 8 * i for i in range(len(product.operands))]
    (*_, (name, given)) = multiplying(3, *addresses)
    expected_name, expected = as_python_says(multiplying, product, addresses, False)
    assert name == expected_name
    read = {ctypes.c_float: ctypes.c_float, ctypes.c_double: ctypes.c_double}
    for number, (mine, other) in enumerate(zip(given, expected, strict=False)):
        if hasattr(other, "_obj"):
            mine = read[type(other._obj)].from_address(mine).value
        elif isinstance(other, ctypes.Array):
            continue
        elif name == "cublasLtMatmul" and number in (1, 4, 6, 9, 11):
            continue  # descriptions, of which each has its own
        assert mine == worth(other), number


def test_only_what_has_changed_is_told(monkeypatch):
    multiplying = Multiplying(monkeypatch, FINISHED)
    places = [1024 * (1 + i) - 8 * i for i in range(5)]

    def told(*given):
        return [each[0] for each in multiplying(*given)]

    assert told(3, *places) == ["cublasSetStream_v2", "cublasSetWorkspace_v2", "set", "cublasLtMatmul"]
    assert told(3, *places) == ["cublasLtMatmul"]
    assert told(3, *places[:4], places[4] + 256) == ["set", "cublasLtMatmul"]
    assert multiplying.turns == [3]
    assert told(4, *places[:4], places[4] + 256)[:2] == ["cublasSetStream_v2", "cublasSetWorkspace_v2"]
    assert multiplying.turns == [3, 4]
    multiplying.turn[0] = 9  # (somebody else has used the memory)
    assert told(4, *places)[-1] == "cublasLtMatmul"
    assert multiplying.turns == [3, 4, 4]


def test_what_lies_elsewhere_is_left_to_python(monkeypatch):
    """Which knows how to describe it."""
    multiplying = Multiplying(monkeypatch, FINISHED)
    given = []
    ready = multiplying.cublas._ready[FINISHED.key]
    assert ready is multiplying.cublas.ready(FINISHED)
    monkeypatch.setattr(multiplying.cublas, "_call", lambda name, *arguments: given.append((name, arguments)))
    monkeypatch.setattr(multiplying.cublas, "_planned", lambda *options: options)
    with pytest.raises(AttributeError, match="row"):  # (of the options, which are no plan)
        multiplying(3, 1024 + 4, *[1024 * (2 + i) - 8 * i for i in range(1, 5)])
    assert not multiplying.cublas._lock.locked()


def test_a_failure_is_told_and_the_lock_is_free(monkeypatch):
    multiplying = Multiplying(monkeypatch, PLAIN)
    multiplying.library.status = 13
    with pytest.raises(RuntimeError, match="cublasGemmStridedBatchedEx of cuBLAS failed with status 13"):
        multiplying(3, 1024, 2048, 4096)
    assert not multiplying.cublas._lock.locked()

    def refuse():
        raise ValueError("no turn")

    multiplying.take_turn, multiplying.turn[0] = refuse, -1
    multiplying.cublas._told[0] = -1
    monkeypatch.setattr(multiplying.cublas, "_follow", lambda stream: refuse())
    with pytest.raises(ValueError, match="no turn"):
        multiplying(3, 1024, 2048, 4096)
    assert not multiplying.cublas._lock.locked()


def test_several_threads_ask_one_library_one_after_the_other(monkeypatch):
    multiplying, inside, most = Multiplying(monkeypatch, PLAIN), [], []

    def note(*arguments):
        inside.append(1)
        most.append(len(inside))
        threading.Event().wait(0.001)
        inside.pop()
        return 0

    multiplying.stream = 3
    slow = CALL(note)
    words_of = Multiplying(monkeypatch, PLAIN)
    words_of.library.functions["cublasGemmStridedBatchedEx"] = slow
    count = len(PLAIN.operands)
    step = words_of.cublas.step(
        PLAIN, [(i, 0) for i in range(count)], count, False, lambda: None, words_of.turn
    )
    run = in_a_row([step], count)
    threads = [
        threading.Thread(target=lambda: [run(3, 16, 32, 48) for _ in range(20)], daemon=True)
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) == 80
    assert max(most) == 1


def test_a_product_is_described_once_and_while_nobody_else_uses_the_library(monkeypatch):
    """Nothing forgets a description; and what makes one uses the handle."""
    multiplying, held = Multiplying(monkeypatch, FINISHED), []
    cublas, told = multiplying.cublas, multiplying.library.told
    call = cublas._call

    def noting_the_lock(name, *arguments):
        held.append(cublas._lock.locked())
        if name != "cublasLtMatmul":
            call(name, *arguments)

    monkeypatch.setattr(cublas, "_call", noting_the_lock)
    operands = [(number, 0) for number in range(5)]
    for rounds in (False, True, False, True):
        cublas.step(FINISHED, operands, 5, rounds, lambda: None, multiplying.turn)
    cublas.launch(FINISHED, [1024 * (1 + i) for i in range(5)], 3)
    names = [name for name, *_ in told]
    assert names.count("cublasLtMatmulDescCreate") == 1  # (the one that does not round is there already)
    assert all(held)


class Found:
    """A finder of one entry, and what its steps were given."""

    def __init__(self, made, results, *key):
        self.kind = class_of_arrays(slotted=True)
        self.finder, self.given, self.asked = Finder(self.kind, Stream, self.kind.pointer), [], []
        arrays = sum(part == "f" for part in key)
        count = arrays + len(made)
        run = in_a_row([python_step(lambda *given: self.given.append(given), count)], count)
        self.finder.keep((max, *key), run, made, results)
        self.shortcut = self.finder.shortcut(max, lambda *x: self.asked.append(x), [])


def test_several_results_and_memory_meanwhile():
    found = Found([((2,), "d"), ((3,), "f"), ((100,), "B")], 2, (2, 3), "f")
    first, second = found.shortcut(found.kind((2, 3), "f", 16))
    assert (first.shape, first.dtype, second.shape, second.dtype) == ((2,), "d", (3,), "f")
    assert found.given == [(5, 16, 4096, 4096, 4096)]
    alone = Found([((2,), "d"), ((100,), "B")], -1, (2, 3), "f")
    assert alone.shortcut(alone.kind((2, 3), "f", 16)).shape == (2,)
    assert not alone.asked


def test_memory_that_runs_out_on_the_way_is_raised():
    found = Found([((2,), "d"), ((13,), "f"), ((100,), "B")], 2, (2, 3), "f")
    with pytest.raises(MemoryError):
        found.shortcut(found.kind((2, 3), "f", 16))
    assert not found.given


def test_numbers_are_a_part_of_what_is_looked_for():
    found = Found([((2,), "d")], -1, (2, 3), "f", float, 2.0, (3,), "f", type(None), None)
    x, y = found.kind((2, 3), "f", 16), found.kind((3,), "f", 32)
    assert found.shortcut(x, 2.0, y, None).shape == (2,)
    assert found.given == [(5, 16, 32, 4096)]
    for other in (
        (x, 2, y, None),
        (x, 2.5, y, None),
        (x, True, y, None),
        (x, 2.0, y, 0),
        (x, np.float64(2), y, None),
    ):
        assert found.shortcut(*other) is None
        assert found.asked.pop() == other
