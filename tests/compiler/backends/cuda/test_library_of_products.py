"""How libraries are asked for products: with one that only takes notes."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pytest

from compiled import BACKENDS
from minitorch.compiler.backends.cuda.cublas import Cublas
from minitorch.compiler.backends.cuda.products import LibraryProduct, Matrix

pytestmark = pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed")

FLOAT32 = np.dtype(np.float32)
PLAIN = LibraryProduct([], FLOAT32, FLOAT32, 8, 16, 4, 1, Matrix(4, 1, 0), Matrix(16, 1, 0), Matrix(16, 1, 0))


class Notes:
    """In the place of both libraries: every function succeeds."""

    def __init__(self):
        self.calls = []

    def __getattr__(self, name):
        def function(*arguments):
            self.calls.append((name, arguments))
            if name == "cublasLtMatmulAlgoGetHeuristic":
                arguments[-1]._obj.value = 1
            return 0

        return function


def library():
    """The library's other side, on no GPU."""
    memory = SimpleNamespace(data=SimpleNamespace(ptr=512))
    made = Cublas(SimpleNamespace(empty=lambda size, dtype: memory))
    made._library = made._finishing = notes = Notes()
    return made, notes


def test_a_plain_product_is_cublas_own():
    cublas, notes = library()
    cublas.launch(PLAIN, [512, 512, 512], 3)
    (*_, (name, arguments)) = notes.calls
    assert name == "cublasGemmStridedBatchedEx"
    assert arguments[1:6] == (0, 0, 16, 8, 4)


def test_more_rows_than_32_bits_count():
    cublas, notes = library()
    cublas.launch(dataclasses.replace(PLAIN, rows=3 << 30), [512, 512, 512], 3)
    (*_, (name, arguments)) = notes.calls
    assert name == "cublasGemmStridedBatchedEx_64"
    assert [each.value for each in arguments[3:6]] == [16, 3 << 30, 4]


def test_what_is_added_is_described_once_and_told_where_it_lies():
    cublas, notes = library()
    added = LibraryProduct(
        [], FLOAT32, FLOAT32, 8, 16, 4, 1, *(PLAIN.a, PLAIN.b, PLAIN.c), addend=PLAIN.c, has_row=True
    )
    for row in (8192 + 4, 4096 + 512, 8192):
        cublas.launch(added, [512, 1024, 2048, 4096, row], 3)
    (*_, (name, arguments)) = notes.calls
    assert name == "cublasLtMatmul"
    # The library's matrices lie column by column: b's comes first. Then the addend, and where the result goes.
    assert [arguments[i].value for i in (3, 5, 8, 10)] == [1024, 512, 4096, 2048]
    rows = [a[2]._obj.value for n, a in notes.calls if n == "cublasLtMatmulDescSetAttribute" and a[1] == 8]
    assert rows[-1] == 8192
    assert [name for name, _ in notes.calls].count("cublasLtMatmulAlgoGetHeuristic") == 2  # alignments


def test_ctrl_c_leaves_no_row_that_another_address_is_believed_of(monkeypatch):
    (cublas, _), told = library(), []
    added = dataclasses.replace(PLAIN, has_row=True)

    def launch(row):
        cublas.launch(added, [1024, 2048, 4096, row], 3)

    def tell(thing, made, which, number):
        told.append(number.value)
        if number.value == 512:
            raise KeyboardInterrupt  # as soon as the library was told

    launch(256)
    monkeypatch.setattr(cublas, "_set", tell)
    with pytest.raises(KeyboardInterrupt):
        launch(512)
    launch(256)
    assert told == [512, 256]
