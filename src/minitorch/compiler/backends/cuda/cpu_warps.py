"""What warps do together, for a CPU. Enters: a `Kernel`. Leaves: functions that do so with what its threads keep."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from minitorch.compiler.backends.cuda.instructions import PRODUCTS
from minitorch.compiler.backends.cuda.words import WARP, GroupProduct, GroupProducts, Kernel, Together, all_of
from minitorch.compiler.backends.llvm import functions
from minitorch.compiler.backends.llvm.control import add, multiply, repeat
from minitorch.compiler.backends.llvm.text import Emitter
from minitorch.compiler.ir.halves import FLOAT32, HALVES

KEPT_BYTES = 8  # of what is kept, where it lies in memory


def cpu_warps(kernel: Kernel) -> str:
    """Return the functions that stand for what a GPU copies, and for what a warp does together."""
    e = Emitter()

    def cell(thread: str, slot: str) -> str:
        place = add(e, multiply(e, thread, kernel.kept), slot)
        return e.op(f"getelementptr i8, ptr %first, i64 {multiply(e, place, KEPT_BYTES)}")

    def begun(head: str) -> None:
        e.lines.append(f"define internal void {head} nounwind {{")
        e.label("entry")
        threads = multiply(e, "%warp", WARP * KEPT_BYTES * kernel.kept)
        start = add(e, threads, str(rounded(kernel.shared)))
        e.line(f"%first = getelementptr i8, ptr %shared, i64 {start}")

    def ended() -> None:
        e.lines += ["  ret void", "}"]

    begun("@words.exchange(ptr %shared, i64 %warp, i64 %from, i64 %to, i64 %distance)")

    def exchange(lane: str) -> None:
        other = e.op(f"xor i64 {lane}, %distance")
        found = e.op(f"load float, ptr {cell(other, '%from')}")
        e.line(f"store float {found}, ptr {cell(lane, '%to')}")

    repeat(e, "0", str(WARP), exchange)
    ended()
    kinds = {item.kind for item in all_of(Together, kernel.items)}
    for kind in sorted(kinds & set(PRODUCTS)):
        begun(f"@words.{kind}(ptr %shared, i64 %warp, {', '.join(f'i64 %{slot}' for slot in _OF_PRODUCT)})")
        _cpu_multiply(e, cell, kind.removeprefix("multiply").removeprefix("_"))
        ended()
    for kind in sorted(kind for kind in kinds if kind.startswith("matrices")):
        slots = [f"i64 %to{k}" for k in range(4)]
        begun(f"@words.{kind}(ptr %shared, i64 %warp, {', '.join(slots)}, i64 %where, i64 %distance)")
        _cpu_matrices(e, cell, kind == "matrices_transposed")
        ended()
    for products in all_of(GroupProducts, kernel.items):
        for number, product in enumerate(products.products):
            begun(f"@words.products{products.number}.{number}(ptr %shared, i64 %warp)")
            _cpu_group_product(e, cell, product)
            ended()
    e.lines += [
        "define internal void @words.copy(ptr %to, ptr %from, i32 %bytes) nounwind {",
        "entry:",
        "  call void @llvm.memset.p0.i64(ptr %to, i8 0, i64 16, i1 false)",
        "  %count = zext i32 %bytes to i64",
        "  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %from, i64 %count, i1 false)",
        "  ret void",
        "}",
        "declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
        "declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)",
    ]
    return "\n".join(e.lines)


_OF_PRODUCT = [*(f"c{k}" for k in range(4)), *(f"a{k}" for k in range(4)), "b0", "b1"]
Cell = Callable[[str, str], str]  # where what a thread keeps in a slot lies


def _widened(e: Emitter, bits: str, dtype: np.dtype) -> str:
    """Return a half as a float32."""
    return functions.emit_function(e, "cast", [bits], dtype, 1, to=FLOAT32)


def _cpu_multiply(e: Emitter, cell: Cell, half: str) -> None:
    """Write a product of what the threads of a warp keep; half: the name of the dtype, if it is not float32."""
    e.line(f"%slots = alloca [{len(_OF_PRODUCT)} x i64]")
    for number, slot in enumerate(_OF_PRODUCT):
        place = e.op(f"getelementptr i64, ptr %slots, i64 {number}")
        e.line(f"store i64 %{slot}, ptr {place}")

    def slot_of(first: int, number: str) -> str:
        place = e.op(f"getelementptr i64, ptr %slots, i64 {add(e, number, str(first))}")
        return e.op(f"load i64, ptr {place}")

    def split(number: str, below: int) -> tuple[str, str]:
        """Return a number without its last bits, and these."""
        return e.op(f"lshr i64 {number}, {below}"), e.op(f"and i64 {number}, {(1 << below) - 1}")

    def factor(row: str, k: str, first: int, further: int) -> str:
        """Return an element of a factor; further: by how many slots rows further on are."""
        below, place = split(row, 3)
        within, odd = (k, "0") if not half else split(k, 1)
        beyond, part = split(within, 2)
        number = add(e, multiply(e, below, further), multiply(e, beyond, max(1, 2 * further)))
        where = cell(add(e, multiply(e, place, 4), part), slot_of(first, number))
        if not half:
            return e.op(f"load float, ptr {where}")
        bits = e.op(f"load i16, ptr {e.op(f'getelementptr i16, ptr {where}, i64 {odd}')}")
        return _widened(e, bits, next(each for each in HALVES if each.name == half))

    def entry(row: str, column: str) -> None:
        below, place = split(row, 3)
        part, odd = split(column, 1)
        thread = add(e, multiply(e, place, 4), part)
        target = cell(thread, slot_of(0, add(e, multiply(e, below, 2), odd)))

        def step(k: str) -> None:
            a, b = factor(row, k, 4, 1), factor(column, k, 8, 0)
            so_far, more = e.op(f"load float, ptr {target}"), e.op(f"fmul float {a}, {b}")
            e.line(f"store float {e.op(f'fadd float {so_far}, {more}')}, ptr {target}")

        repeat(e, "0", "16" if half else "8", step)

    repeat(e, "0", "16", lambda row: repeat(e, "0", "8", lambda column: entry(row, column)))


def _cpu_group_product(e: Emitter, cell: Cell, product: GroupProduct) -> None:
    """Write what one of the four warps has of a product: each thread of it has two rows of the result."""
    p = product

    def near(slot: int, panel: int, row: str, column: str) -> str:
        """Read an element from shared memory."""
        found = e.op(f"load i32, ptr {cell('0', str(slot))}")
        begin = e.op(f"zext i32 {found} to i64")
        eighth = e.op(f"and i64 {e.op(f'lshr i64 {column}, 3')}, 7")
        moved = e.op(f"xor i64 {eighth}, {e.op(f'and i64 {row}, 7')}")
        place = add(e, begin, multiply(e, e.op(f"lshr i64 {column}, 6"), panel))
        place = add(e, add(e, place, multiply(e, row, 128)), multiply(e, moved, 16))
        place = add(e, place, multiply(e, e.op(f"and i64 {column}, 7"), 2))
        return e.op(f"load i16, ptr {e.op(f'getelementptr i8, ptr %shared, i64 {place}')}")

    def kept(lane: str, below: int, k: str) -> str:
        """Return an element of what a thread's row has in fragments."""
        step, inside = e.op(f"lshr i64 {k}, 4"), e.op(f"and i64 {k}, 15")
        beyond, within = e.op(f"lshr i64 {inside}, 3"), e.op(f"and i64 {inside}, 7")
        number = add(e, add(e, multiply(e, step, 4), multiply(e, beyond, 2)), str(below))
        slot = e.op(f"load i64, ptr {e.op(f'getelementptr i64, ptr %fragments, i64 {number}')}")
        thread = add(e, e.op(f"and i64 {lane}, 28"), e.op(f"lshr i64 {within}, 1"))
        odd = e.op(f"and i64 {within}, 1")
        return e.op(f"load i16, ptr {e.op(f'getelementptr i16, ptr {cell(thread, slot)}, i64 {odd}')}")

    if len(p.a) > 1:
        e.line(f"%fragments = alloca [{len(p.a)} x i64]")
        for number, slot in enumerate(p.a):
            e.line(f"store i64 {slot}, ptr {e.op(f'getelementptr i64, ptr %fragments, i64 {number}')}")
    e.line(f"%sums = alloca [{len(p.c)} x i64]")
    for number, slot in enumerate(p.c):
        e.line(f"store i64 {slot}, ptr {e.op(f'getelementptr i64, ptr %sums, i64 {number}')}")
    first = multiply(e, e.op("and i64 %warp, 3"), 16)

    def entry(lane: str, number: str, below: int, odd: int) -> None:
        """Add up what a thread has of eight columns, in one of its two rows and columns."""
        row = add(e, add(e, first, e.op(f"lshr i64 {lane}, 2")), str(8 * below))
        column = add(e, multiply(e, number, 8), multiply(e, e.op(f"and i64 {lane}, 3"), 2))
        column = add(e, column, str(odd))
        place = add(e, multiply(e, number, 4), str(2 * below + odd))
        slot = e.op(f"load i64, ptr {e.op(f'getelementptr i64, ptr %sums, i64 {place}')}")
        target = cell(lane, slot)
        if not p.across:
            e.line(f"store float 0.0, ptr {target}")

        def step(k: str) -> None:
            a = near(p.a[0], p.panels[0], row, k) if len(p.a) == 1 else kept(lane, below, k)
            b = near(p.b, p.panels[1], *((k, column) if p.across else (column, k)))
            x, y = _widened(e, a, p.dtype), _widened(e, b, p.dtype)
            so_far, more = e.op(f"load float, ptr {target}"), e.op(f"fmul float {x}, {y}")
            e.line(f"store float {e.op(f'fadd float {so_far}, {more}')}, ptr {target}")

        repeat(e, "0", str(p.summed), step)

    def lane(number: str) -> None:
        def eight(columns: str) -> None:
            for below in range(2):
                for odd in range(2):
                    entry(number, columns, below, odd)

        repeat(e, "0", str(len(p.c) // 4), eight)

    repeat(e, "0", str(WARP), lane)


def _cpu_matrices(e: Emitter, cell: Cell, transposed: bool) -> None:
    """Write how the threads of a warp read four matrices of halves from shared memory."""

    def read(matrix: int, row: str, column: str) -> str:
        """Read an element."""
        at = e.op(f"load i32, ptr {cell(add(e, row, str(8 * matrix)), '%where')}")
        place = add(e, add(e, e.op(f"zext i32 {at} to i64"), "%distance"), multiply(e, column, 2))
        return e.op(f"load i16, ptr {e.op(f'getelementptr i8, ptr %shared, i64 {place}')}")

    def lane(number: str) -> None:
        place, part = e.op(f"lshr i64 {number}, 2"), e.op(f"and i64 {number}, 3")
        for matrix in range(4):
            target = cell(number, f"%to{matrix}")
            for k in range(2):
                along = add(e, multiply(e, part, 2), str(k))
                found = read(matrix, along, place) if transposed else read(matrix, place, along)
                e.line(f"store i16 {found}, ptr {e.op(f'getelementptr i16, ptr {target}, i64 {k}')}")

    repeat(e, "0", str(WARP), lane)


def rounded(size: int) -> int:
    """Return how many bytes shared memory takes, if what threads keep comes after it."""
    return -(-size // KEPT_BYTES) * KEPT_BYTES
