"""Contraction kernels against np.einsum: every layout, form and packing, on three kinds of processor."""

import ctypes
import dataclasses
import itertools

import numpy as np
import pytest
from numpy.lib.stride_tricks import as_strided

llvm = pytest.importorskip("llvmlite.binding")

from minitorch.compiler.backends.llvm import target  # noqa: E402
from minitorch.compiler.backends.llvm.products import costs  # noqa: E402
from minitorch.compiler.backends.llvm.products.contraction import (  # noqa: E402
    Contraction,
    Problem,
    StridedLoop,
)
from minitorch.compiler.backends.llvm.products.planning import plan_columns, plan_contraction  # noqa: E402
from minitorch.compiler.backends.llvm.products.write_base import prefetch  # noqa: E402
from minitorch.compiler.backends.llvm.products.write_kernel import emit_contraction  # noqa: E402
from minitorch.compiler.backends.llvm.text import TYPES, Emitter, vector  # noqa: E402

llvm.initialize_native_target()
llvm.initialize_native_asmprinter()
HOST = target.host()
TARGETS = [t for t in (HOST, target.avx2(), target.baseline()) if t.runs_here]
ARM = target.Target("apple-m1", "+neon", "arm64-apple-darwin")
DTYPES = [np.dtype(np.float32), np.dtype(np.float64)]
GUARD = 64  # elements around each array: nan, so that using them shows


def panel_widths(which):
    """How many times as many columns make as many panels as there are with 256 bits."""
    return max(1, which.vector_bytes // 32)


def machine(which):
    return llvm.Target.from_triple(which.triple).create_target_machine(
        cpu=which.name, features=which.features, opt=2, reloc="pic", codemodel="small", jit=True
    )


class Kernel:
    """A plan compiled with an epilogue; called on arrays."""

    def __init__(self, plan, which, epilogue, fetch=None):
        e = Emitter()
        count = 3 + len(plan.tables)
        names = [
            e.op(f"load ptr, ptr {e.op(f'getelementptr ptr, ptr %table, i64 {i}')}") for i in range(count)
        ]
        emit_contraction(
            e,
            plan,
            a=names[0],
            b=names[1],
            tables=names[3:],
            scratch="%scratch" if plan.scratch else None,
            start="%start",
            stop="%stop",
            fetch=fetch and (lambda e, index, columns: fetch(e, index, columns, names[2])),
            epilogue=lambda e, value, index: epilogue(e, value, index, *names[2:]),
        )
        body = "\n".join(e.lines)
        self.text = (
            "define i64 @kernel(ptr %table, ptr %scratch, i64 %start, i64 %stop) {\nentry:\n"
            f"{body}\n  ret i64 0\n}}\n" + "\n".join(e.externs.values())
        )
        module = llvm.parse_assembly(self.text, llvm.create_context())
        maker = machine(which)  # the engine takes it over, so each needs its own
        module.triple, module.data_layout = which.triple, str(maker.target_data)
        module.verify()
        self.engine = llvm.create_mcjit_compiler(module, maker)
        self.engine.finalize_object()
        self.plan = plan
        kind = ctypes.CFUNCTYPE(
            ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64
        )
        self.function = kind(self.engine.get_function_address("kernel"))

    def __call__(self, a, b, c, pieces=1):
        """Run all units, in some calls one after another, each with a scratch memory full of nan."""
        arrays = [a, b, c, *self.plan.tables.values()]
        table = np.array([x.ctypes.data for x in arrays], np.uint64)
        edges = [self.plan.units * i // pieces for i in range(pieces + 1)]
        for start, stop in itertools.pairwise(edges):
            scratch = np.full(self.plan.scratch + 64, 255, np.uint8)
            place = -scratch.ctypes.data % 64
            scratch[place + self.plan.scratch :] = 77
            assert self.function(table.ctypes.data, scratch.ctypes.data + place, start, stop) == 0
            assert (scratch[place + self.plan.scratch :] == 77).all(), "wrote behind the scratch memory"


def store(e, value, index, pointer, *, dtype, batch, row, column):
    """Store a finished value at batch · stride + row · stride + column · stride elements behind a pointer.

    Instead of the strides of rows and columns, names of pointers to tables of offsets may be given.
    """
    element, kind = TYPES[dtype], vector(TYPES[dtype], index.lanes)

    def offset(where, number):
        if isinstance(where, int):
            return e.op(f"mul i64 {number}, {where}")
        return e.op(f"load i64, ptr {e.op(f'getelementptr i64, ptr {where}, i64 {number}')}")

    line = e.op(f"add i64 {offset(batch, index.batch)}, {offset(row, index.row)}")
    for lane in range(index.valid):
        across = offset(column, e.op(f"add i64 {index.column}, {lane}"))
        there = e.op(f"getelementptr {element}, ptr {pointer}, i64 {e.op(f'add i64 {line}, {across}')}")
        scalar = value if index.lanes == 1 else e.op(f"extractelement {kind} {value}, i64 {lane}")
        if column == 1 and index.lanes > 1:  # as real epilogues do
            if index.mask is None:
                e.line(f"store {kind} {value}, ptr {there}, align {dtype.itemsize}")
            else:
                e.masked_store(element, index.lanes, value, there, dtype.itemsize, index.mask)
            return
        e.line(f"store {element} {scalar}, ptr {there}, align {dtype.itemsize}")


def extents(dims):
    return tuple(d.extent for d in dims)


def random_array(rng, dims, which, dtype):
    """An array just long enough for some dims, between guards of nan, and its view by these dims."""
    low = sum(min(0, getattr(d, which) * (d.extent - 1)) for d in dims)
    high = sum(max(0, getattr(d, which) * (d.extent - 1)) for d in dims)
    length = high - low + 1 if all(d.extent for d in dims) else 0
    memory = np.full(length + 2 * GUARD, np.nan, dtype)
    memory[GUARD : GUARD + length] = rng.standard_normal(length)
    first = memory[GUARD - low :]
    view = as_strided(
        first, extents(dims), [getattr(d, which) * dtype.itemsize for d in dims], writeable=False
    )
    return first, view


def reference(c, a, b):
    """np.einsum on the views, in float64, flattened to (batch, m, n)."""
    letters = iter("abcdefghijklmnopqrstuvwxyz")
    batch, m, n, k = ("".join(next(letters) for _ in dims) for dims in (c.batch, c.m, c.n, c.k))
    out = np.einsum(f"{batch}{m}{k},{batch}{k}{n}->{batch}{m}{n}", a.astype("f8"), b.astype("f8"))
    return out.reshape([int(np.prod(extents(dims))) for dims in (c.batch, c.m, c.n)])


def check(c, which=HOST, seed=0, plan=None, pieces=2, fetches=True):
    """Compute a contraction and compare; returns the plan."""
    rng = np.random.default_rng(seed)
    a, a_view = random_array(rng, [*c.batch, *c.m, *c.k], "a", c.dtype)
    b, b_view = random_array(rng, [*c.batch, *c.k, *c.n], "b", c.dtype)
    expected = reference(c, a_view, b_view)
    _, m, n = expected.shape
    plan = plan or plan_contraction(c, which)
    out = np.full(expected.size + 2 * GUARD, 77.0, c.dtype)

    def epilogue(e, value, index, pointer, *_):
        store(e, value, index, pointer, dtype=c.dtype, batch=m * n, row=n, column=1)

    def fetch(e, index, columns, pointer):
        line = e.op(f"mul i64 {index.row}, {n * c.dtype.itemsize}")
        prefetch(e, e.op(f"getelementptr i8, ptr {pointer}, i64 {line}"), columns, write=True)

    Kernel(plan, which, epilogue, fetch=fetch if fetches else None)(a, b, out[GUARD:], pieces)
    assert (out[:GUARD] == 77).all()
    assert (out[GUARD + expected.size :] == 77).all()
    depth = int(np.prod(extents(c.k)))
    tolerance = np.finfo(c.dtype).eps * 4 * max(1, depth) ** 0.5 * max(1, np.abs(expected).max(initial=0))
    result = out[GUARD : GUARD + expected.size].reshape(expected.shape)
    np.testing.assert_allclose(result, expected, rtol=0, atol=tolerance)
    assert plan.flops == 2 * expected.size * depth
    return plan


def product(m, k, n, layout="NN", batch=1, dtype=DTYPES[0]):
    """A matrix product: layouts as BLAS names them, T for transposed in memory."""
    a_m, a_k = (k, 1) if layout[0] == "N" else (1, m)
    b_k, b_n = (n, 1) if layout[1] == "N" else (1, k)
    return Contraction(
        np.dtype(dtype),
        (StridedLoop(batch, m * k, k * n),),
        (StridedLoop(m, a_m, 0),),
        (StridedLoop(n, 0, b_n),),
        (StridedLoop(k, a_k, b_k),),
    )


def convolution(images, channels, filters, height, width, side, step=1, dtype=DTYPES[0]):
    """Forward and weight gradient of a convolution of x (images, channels, height, width)."""
    high, wide = ((size - side) // step + 1 for size in (height, width))
    plane, square = height * width, side * side
    forward = Contraction(
        np.dtype(dtype),
        (StridedLoop(images, 0, channels * plane),),
        (StridedLoop(filters, channels * square, 0),),
        (StridedLoop(high, 0, step * width), StridedLoop(wide, 0, step)),
        (StridedLoop(channels, square, plane), StridedLoop(side, side, width), StridedLoop(side, 1, 1)),
    )
    gradient = Contraction(
        np.dtype(dtype),
        (),
        (StridedLoop(channels, plane, 0), StridedLoop(side, width, 0), StridedLoop(side, 1, 0)),
        (StridedLoop(filters, 0, high * wide),),
        (
            StridedLoop(images, channels * plane, filters * high * wide),
            StridedLoop(high, step * width, wide),
            StridedLoop(wide, step, 1),
        ),
    )
    return forward, gradient


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("which", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_products(layout, which, dtype):
    for m, k, n in [(4, 2, 8), (7, 23, 37), (61, 64, 5), (13, 70, 10), (1, 40, 33), (30, 17, 1), (2, 300, 3)]:
        check(product(m, k, n, layout, dtype=dtype), which)


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("which", TARGETS, ids=lambda t: t.name)
def test_batches(layout, which):
    check(product(9, 11, 21, layout, batch=3), which)
    check(product(70, 60, 130, layout, batch=5), which, pieces=3)


@pytest.mark.parametrize("which", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(
    "shape", [(2, 3, 5, 9, 8, 3), (2, 2, 4, 20, 19, 2), (1, 3, 4, 9, 9, 1), (2, 1, 1, 6, 30, 3)]
)
@pytest.mark.parametrize("step", [1, 2])
def test_convolutions(which, dtype, shape, step):
    for c in convolution(*shape, step=step, dtype=dtype):
        check(c, which)


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("which", TARGETS, ids=lambda t: t.name)
def test_long_sums_in_blocks(layout, which, monkeypatch):
    monkeypatch.setattr(costs, "PANEL_BYTES", 16 << 10)
    monkeypatch.setattr(costs, "MOST_PANELS", 1.5)
    for m, n, form in [(31, 70, "columns"), (50, 5, "swapped")]:
        c = product(m, 1100, n, layout)
        plan = plan_columns(Problem.of(c if form == "columns" else c.exchanged(), which), form)
        check(c, which, plan=plan)
        assert plan.depth_blocks > 1 or (form == "swapped" and not plan.packing)


@pytest.mark.parametrize("which", TARGETS, ids=lambda t: t.name)
def test_a_weight_gradient_whose_sums_are_long_and_cross_rows(which, monkeypatch):
    monkeypatch.setattr(costs, "PANEL_BYTES", 4 << 10)  # a panel of any width is larger here
    plan = check(convolution(9, 3, 40, 15, 15, 3)[1], which)
    assert (plan.packing, plan.depth_blocks > 1) == ("transpose", True)


@pytest.mark.parametrize(
    ("which", "columns", "blocks"),
    [(target.avx512(), 40, 2), (target.avx2(), 8, 1), (target.baseline(), 8, 1), (ARM, 8, 1)],
    ids=lambda x: getattr(x, "name", x),
)
def test_wide_panels_fill_the_cache_at_a_smaller_depth(which, columns, blocks, monkeypatch):
    """Registers of 512 bits, and 32 of them, allow all 40 columns at once, and k must be cut; others take 8 at a time."""
    monkeypatch.setattr(costs, "MOST_PANELS", 1)
    plan = plan_contraction(convolution(9, 3, 40, 15, 15, 3)[1], which)
    assert (plan.width, plan.depth_blocks) == (columns, blocks)


@pytest.mark.parametrize("which", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("zero", ["batch", "m", "n", "k"])
def test_nothing_to_do(which, zero):
    shape = {"batch": 2, "m": 3, "k": 4, "n": 5} | {zero: 0}
    plan = check(product(shape["m"], shape["k"], shape["n"], batch=shape["batch"]), which)
    assert (plan.units > 0) == (zero == "k")


def random_contraction(rng):
    """Up to three dims of each kind, in random order in memory, with gaps, broadcasting and flips now and then."""

    def some_extents(most, largest):
        return [int(rng.integers(1, largest)) for _ in range(rng.integers(0, most))]

    batch, m, n, k = (some_extents(most, size) for most, size in ((3, 4), (3, 9), (3, 20), (4, 8)))
    sizes = [*batch, *m, *n, *k]
    ids = np.arange(len(sizes))
    owners = np.repeat(np.arange(4), [len(batch), len(m), len(n), len(k)])
    strides = {}
    for name, absent in (("a", 2), ("b", 1)):
        stride, mine = 1, np.zeros(len(sizes), int)
        order = rng.permutation(ids) if rng.random() < 0.7 else ids[::-1]
        for i in order:
            if owners[i] == absent or (owners[i] == 0 and rng.random() < 0.2):
                continue
            mine[i] = stride * (-1 if rng.random() < 0.1 else 1)
            stride *= sizes[i]
            if rng.random() < 0.1:
                stride += int(rng.integers(0, 3))
        strides[name] = mine
    dims = [
        StridedLoop(size, int(x), int(y))
        for size, x, y in zip(sizes, strides["a"], strides["b"], strict=True)
    ]
    groups = [tuple(d for d, owner in zip(dims, owners, strict=True) if owner == which) for which in range(4)]
    return Contraction(DTYPES[int(rng.integers(2))], *groups)


@pytest.mark.parametrize("seed", range(60))
def test_any_contraction(seed):
    c = random_contraction(np.random.default_rng(seed))
    check(c, TARGETS[seed % len(TARGETS)], seed, fetches=seed % 2 == 0)


def test_every_form_and_packing_is_covered():
    seen = set()
    for seed in range(60):
        plan = plan_contraction(random_contraction(np.random.default_rng(seed)), TARGETS[seed % len(TARGETS)])
        seen |= {plan.form, plan.packing}
    seen.add(plan_contraction(product(512, 512, 512), HOST).packing)
    assert seen == {"columns", "swapped", "dot", None, "copy", "runs", "transpose", "scalar"}


@pytest.mark.parametrize("which", TARGETS, ids=lambda t: t.name)
def test_far_lines_are_copied(which, monkeypatch):
    monkeypatch.setattr(costs, "PACK_ROWS", 4)
    monkeypatch.setattr(costs, "PACK_DEPTH", 4)
    for n in (600, 613):
        assert check(product(9, 20, n), which).packing == "copy"


@pytest.mark.parametrize("which", TARGETS, ids=lambda t: t.name)
def test_rows_that_are_far_apart_are_copied_too(which, monkeypatch):
    small = {
        "FAR_BYTES": 4,
        "LARGE_BYTES": 4,
        "VERY_LARGE_BYTES": 4,
        "PANEL_BYTES": 16 << 10,
        "PACK_A_ROWS": 30,
        "PACK_A_BYTES": 4,
    }
    for name, value in (small | {"MOST_PANELS": 1.5}).items():
        monkeypatch.setattr(costs, name, value)
    for m, k, n in [(5, 20, 500), (16, 30, 333), (47, 43, 256), (99, 600, 300)]:
        for layout in ("TN", "TT"):
            c = product(m, k, n, layout, batch=2)
            plan = plan_columns(Problem.of(c, which))
            assert plan.packs_a
            check(c, which, plan=plan, pieces=3)


@pytest.mark.parametrize("which", TARGETS, ids=lambda t: t.name)
def test_lines_that_find_no_place_in_the_cache_are_copied(which):
    """128 floats are 512 bytes: of lines that far apart the nearest cache holds 64; of twice as long ones, half."""
    times = panel_widths(which)
    n, held = 128 * times, 64 // times
    for m, k in [(130, held + 6), (31, held + 2)]:
        assert check(product(m, k, n), which, pieces=3).packing == "copy"
    assert check(product(130, held - 4, n), which).packing is None
    assert check(product(130, 70, 100), which).packing is None
    for m, n in [(128, 300 * times), (257, 131 * times)]:
        assert check(product(m, 600, n, "TN"), which, pieces=3).packs_a
    assert not check(product(128, 60, 300 * times, "TN"), which).packs_a


@pytest.mark.parametrize("which", TARGETS, ids=lambda t: t.name)
def test_rows_whose_lines_are_at_several_distances(which):
    """A sequence's states but for the last, beside gradients but for the first: k is two loops that do not join."""
    batch, length, m, n = 12, 90, 64, 80 * panel_widths(which)
    loops = (StridedLoop(batch, length * m, length * n), StridedLoop(length - 1, m, n))
    f4 = np.dtype(np.float32)
    c = Contraction(f4, (), (StridedLoop(m, 1, 0),), (StridedLoop(n, 0, 1),), loops)
    plan = check(c, which, pieces=3)
    assert plan.problem.a_depth.stride is None
    assert plan.packs_a


@pytest.mark.parametrize("layout", ["NN", "NT", "TN", "TT"])
@pytest.mark.parametrize("which", TARGETS, ids=lambda t: t.name)
@pytest.mark.parametrize("blocked", [False, True])
def test_what_the_end_of_a_tile_touches_is_fetched_while_it_is_computed(layout, which, blocked, monkeypatch):
    """k is walked in a piece per row: pieces that divide it, that do not, empty ones, and more rows than k."""
    monkeypatch.setattr(costs, "STRIDE_BYTES", 64)
    if blocked:
        monkeypatch.setattr(costs, "PANEL_BYTES", 1 << 10)
        monkeypatch.setattr(costs, "MOST_PANELS", 1)
    for m, k, n in [(48, 60, 70), (48, 61, 64), (50, 13, 128), (49, 3, 128), (7, 500, 96), (64, 1, 64)]:
        for fetches in (True, False):
            check(product(m, k, n, layout, batch=2), which, fetches=fetches)


def test_a_small_b_is_shared_by_threads_that_have_rows_of_their_own():
    """All panels of some rows are one unit after the other; the layouts in which B is packed keep its panels."""
    for m, k, n, batch in [(768, 96, 128, 1), (300, 64, 200, 3), (250, 31, 77, 2)]:
        for layout in ("NN", "TN"):
            plan = check(product(m, k, n, layout, batch=batch), pieces=5)
            assert plan.rows_first
            assert plan.panel_count > 1
        assert not check(product(m, k, n, "NT", batch=batch), pieces=5).rows_first
    for which in (target.avx2(), ARM):  # (with 16 registers of 128 bits it is one block)
        assert plan_contraction(product(768, 96, 128), which).row_blocks > 1
    assert not plan_contraction(product(100, 96, 400), HOST).rows_first


def test_shared_panels_are_packed_once_per_call():
    c = product(40, 30, 50, "NT", batch=6)
    c = Contraction(c.dtype, (StridedLoop(6, 1200, 0),), c.m, c.n, c.k)
    plan = check(c, pieces=3)
    assert plan.problem.shares_b
    assert plan.packing == "transpose"


def zero(index):
    return "zeroinitializer" if index.lanes > 1 else "0.0"


def kind(index, element="float"):
    return f"<{index.lanes} x {element}>" if index.lanes > 1 else element


@pytest.mark.parametrize("layout", ["NN", "NT", "TN"])
@pytest.mark.parametrize("shape", [(13, 30, 40), (40, 30, 5), (5, 300, 3), (40, 2600, 20)])
@pytest.mark.parametrize("long", [False, True])
def test_epilogues(layout, shape, long):
    """Add a bias, and end with relu, or with something long that has blocks of its own."""
    m, k, n = shape
    c = product(m, k, n, layout)
    rng = np.random.default_rng(1)
    a, a_view = random_array(rng, [*c.batch, *c.m, *c.k], "a", c.dtype)
    b, b_view = random_array(rng, [*c.batch, *c.k, *c.n], "b", c.dtype)
    bias = rng.standard_normal(n).astype("f4")
    expected = reference(c, a_view, b_view)[0] + bias
    expected = expected * 2.0**20 if long else np.maximum(expected, 0)
    out = np.concatenate([np.zeros(m * n, "f4"), bias])  # the result, and behind it the bias

    def bias_of(e, index, pointer):
        value = zero(index)
        for lane in range(index.valid):
            place = e.op(f"add i64 {index.column}, {m * n + lane}")
            scalar = e.op(f"load float, ptr {e.op(f'getelementptr float, ptr {pointer}, i64 {place}')}")
            if index.lanes == 1:
                return scalar
            value = e.op(f"insertelement {kind(index)} {value}, float {scalar}, i64 {lane}")
        return value

    def epilogue(e, value, index, pointer, *_):
        value = e.op(f"fadd {kind(index)} {value}, {bias_of(e, index, pointer)}")
        if long:
            for _ in range(20):
                value = e.op(f"fadd {kind(index)} {value}, {value}")
            label = e.fresh("here")
            e.line(f"br label %{label}")
            e.label(label)
        else:
            positive = e.op(f"fcmp ogt {kind(index)} {value}, {zero(index)}")
            value = e.op(
                f"select {kind(index, 'i1')} {positive}, {kind(index)} {value}, {kind(index)} {zero(index)}"
            )
        store(e, value, index, pointer, dtype=c.dtype, batch=0, row=1, column=m)  # transposed

    Kernel(plan_contraction(c, HOST), HOST, epilogue)(a, b, out)
    result = out[: m * n].reshape(n, m).T
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-6 * k**0.5 * np.abs(expected).max())


def test_storing_by_tables():
    """Rows and columns of the result may lie anywhere: here reversed."""
    c = product(5, 6, 19)
    rng = np.random.default_rng(1)
    a, a_view = random_array(rng, [*c.batch, *c.m, *c.k], "a", c.dtype)
    b, b_view = random_array(rng, [*c.batch, *c.k, *c.n], "b", c.dtype)
    tables = {"rows": np.arange(4, -1, -1) * 19, "columns": np.arange(18, -1, -1)}
    plan = dataclasses.replace(plan_contraction(c, HOST), tables=tables)

    def epilogue(e, value, index, pointer, rows, columns):
        store(e, value, index, pointer, dtype=c.dtype, batch=0, row=rows, column=columns)

    out = np.zeros((5, 19), "f4")
    Kernel(plan, HOST, epilogue)(a, b, out)
    np.testing.assert_allclose(out[::-1, ::-1], reference(c, a_view, b_view)[0], rtol=0, atol=1e-5)


def test_nan_and_infinity_reach_the_elements_they_belong_to_and_no_others():
    a, b, out = np.ones((9, 12), "f4"), np.ones((12, 21), "f4"), np.zeros((9, 21), "f4")
    a[4, 3], b[5, 20] = np.nan, np.inf
    plan = plan_contraction(product(9, 12, 21), HOST)

    def epilogue(e, value, index, pointer, *_):
        store(e, value, index, pointer, dtype=a.dtype, batch=0, row=21, column=1)

    Kernel(plan, HOST, epilogue)(a, b, out)
    np.testing.assert_array_equal(out, a @ b)


def test_missing_scratch_memory_is_noticed():
    plan = plan_contraction(product(64, 64, 64, "NT"), HOST)
    assert plan.scratch
    with pytest.raises(ValueError, match="bytes of scratch memory"):
        emit_contraction(
            Emitter(), plan, a="%a", b="%b", tables=[], start="0", stop="1", epilogue=lambda *_: None
        )
