"""Compiled programs give what NumPy gives: every primitive, random programs, realistic ones."""

import itertools
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from minitorch.compiler.backends.llvm.assemble import Assembler
from minitorch.compiler.ir import builder as b
from minitorch.compiler.ir.program import Program, Value, interpret
from random_ir import F4, F8, I8, RandomProgram, close, given, some


def run(outputs, inputs, arrays, updates=None, fuse=True, factor=1.0, **options):
    """Compile, run, compare with the interpreter; return the compiled program."""
    program = Program(inputs, outputs)
    want = interpret(program, [a.copy() for a in arrays])
    updates = updates or {}
    native = Assembler(fuse=fuse, **options).build(program, updates)
    mine = [np.array(a, order="C") for a in arrays]
    results = [np.full(o.shape, 7).astype(o.dtype) for k, o in enumerate(outputs) if k not in updates]
    native(mine, results)
    results = iter(results)
    for k, (output, expected) in enumerate(zip(outputs, want, strict=True)):
        got = mine[updates[k]] if k in updates else next(results)
        single = any(v.dtype == F4 for v in program.values())
        close(got, np.asarray(expected), f"output {k}, fuse={fuse}: {output}\n{program}", factor, single)
    changed = {updates[k] for k in updates}
    for k, (before, after) in enumerate(zip(arrays, mine, strict=True)):
        if k not in changed:
            np.testing.assert_array_equal(before, after)
    return native


def both(outputs, inputs, arrays, **options):
    outputs = outputs if isinstance(outputs, list) else [outputs]
    run(outputs, inputs, arrays, fuse=False, **options)
    return run(outputs, inputs, arrays, fuse=True, **options)


SHAPES = [
    (),
    (1,),
    (5,),
    (16,),
    (33,),
    (0, 3),
    (3, 0),
    (1, 1),
    (3, 5),
    (4, 16),
    (7, 1, 9),
    (2, 3, 17),
    (2, 3, 4, 5),
]


@pytest.fixture
def rng():
    return np.random.default_rng(1)


# --- primitives ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "i4", "u1", "f2"])
def test_maps(shape, dtype, rng):
    x, y = given(shape, dtype), given(shape, dtype)
    product = b.map_values("multiply", x, y)
    chosen = b.where(
        b.map_values("less", x, y), b.map_values("add", product, x), b.cast(b.cast(y, "f4"), dtype)
    )
    both(
        [chosen, b.map_values("greater_equal", chosen, x), b.cast(product, "f8")],
        [x, y],
        [some(rng, shape, dtype), some(rng, shape, dtype)],
    )


@pytest.mark.parametrize("shape", [s for s in SHAPES if s])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
@pytest.mark.parametrize("function", ["add", "multiply", "maximum", "minimum"])
def test_reductions(shape, dtype, function, rng):
    x = given(shape, dtype)
    array = some(rng, shape, dtype)
    subsets = [(i,) for i in range(len(shape))] + [tuple(range(len(shape))), tuple(range(len(shape) - 1))]
    outputs = []
    for axes in dict.fromkeys(subsets):
        lost = np.prod([shape[a] for a in axes])
        if axes and (lost or function in ("add", "multiply")):
            outputs.append(b.reduce(function, x, axes))
    if outputs:
        both(outputs, [x], [array])


@pytest.mark.parametrize("function", ["logical_and", "logical_or"])
@pytest.mark.parametrize("dtype", ["?", "f4", "i8"])
def test_logical_reductions(function, dtype, rng):
    x = given((5, 37), dtype)
    both([b.reduce(function, x, axes) for axes in [(0,), (1,), (0, 1)]], [x], [some(rng, (5, 37), dtype)])


@pytest.mark.parametrize("shape", [(200, 300), (3000, 33), (1, 50_000), (50_000,), (9, 7, 1025), (70_000, 3)])
def test_large_reductions_in_blocks(shape, rng):
    x = given(shape)
    array = some(rng, shape)
    every = tuple(range(len(shape)))
    square = b.map_values("multiply", x, x)
    outputs = [b.reduce("add", square, every), b.reduce("maximum", x, every), b.reduce("add", x, (0,))]
    outputs += [b.reduce("add", square, (len(shape) - 1,)), b.reduce("minimum", x, (0,))]
    total = b.reduce("add", x, every)
    outputs.append(b.map_values("subtract", x, total))
    both(outputs, [x], [array])


def test_sums_are_accurate():
    rng = np.random.default_rng(3)
    for shape in [(1_000_003,), (1003, 1009)]:
        array = rng.random(shape).astype(F4)
        x = given(shape)
        native = Assembler().build(Program([x], [b.reduce("add", x, range(len(shape)))]), {})
        got = np.empty((), F4)
        native([array], [got])
        exact = array.astype(F8).sum()
        assert abs(got - exact) / exact < 1e-6


def test_special_numbers_in_reductions():
    array = np.array([[1, np.nan, 3], [np.inf, 1, -np.inf], [-np.inf] * 3, [np.inf] * 3, [-0.0] * 3], F4)
    array = np.concatenate([array] * 7, axis=1)
    x = given(array.shape)
    outputs = [b.reduce(f, x, (a,)) for f in ("add", "multiply", "maximum", "minimum") for a in (0, 1)]
    outputs += [b.arg_reduce(f, x, a) for f in ("argmax", "argmin") for a in (0, 1)]
    both(outputs, [x], [array])


@pytest.mark.parametrize("shape", [(1,), (5,), (40,), (3, 5), (5, 33), (33, 5), (2, 3, 17)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "?"])
def test_places_of_extremes(shape, dtype, rng):
    x = given(shape, dtype)
    array = some(rng, shape, dtype)
    if dtype != "?":
        array = np.rint(array * 2).astype(dtype)  # ties
    both([b.arg_reduce(f, x, a) for f in ("argmax", "argmin") for a in range(len(shape))], [x], [array])


@pytest.mark.parametrize("shape", [(1,), (5,), (40,), (3, 5), (5, 33), (33, 5), (2, 3, 17)])
@pytest.mark.parametrize("dtype", ["f4", "i8"])
def test_scans(shape, dtype, rng):
    x = given(shape, dtype)
    array = some(rng, shape, dtype)
    outputs = [b.scan(f, x, a) for f in ("add", "multiply") for a in range(len(shape))]
    outputs += [b.scan("add", b.flip(x, (a,)), a) for a in range(len(shape))]
    outputs += [b.scan("maximum", x, 0)]
    both(outputs, [x], [array])


def views(x):
    """Views of a 3-axis value."""
    n, m, k = x.shape
    return [
        b.permute(x, (2, 0, 1)),
        b.reshape(x, (n * m, k)),
        b.reshape(b.permute(x, (1, 0, 2)), (m * n * k,)),
        b.reshape(b.permute(x, (2, 1, 0)), (m, n * k)),
        b.expand(b.reshape(x, (n, m, 1, k)), (n, m, 3, k)),
        b.reshape(b.expand(b.reshape(x, (n, 1, m, k)), (n, 2, m, k)), (n, 2 * m, k)),
        b.flip(x, (2,)),
        b.flip(x, (0, 1)),
        b.slice_axes(x, (n - 1, 0, k - 1), (n, (m + 1) // 2, (k + 1) // 2), (-1, 2, -2)),
        b.reshape(b.slice_axes(x, (0, 0, 1), (n, m, k - 1), (1, 1, 1)), (n, m * (k - 1))),
        b.reshape(b.slice_axes(x, (0, 0, 1), (n, m, k - 1), (1, 1, 1)), (m, n * (k - 1))),
        b.pad(x, (1, 0, 2), (0, 2, 1), 3),
        b.reshape(b.pad(x, (0, 0, 2), (0, 0, 1), 3), (n * m * (k + 3),)),
        b.permute(b.pad(b.pad(x, (0, 1, 0), (0, 0, 1), 2), (0, 1, 0), (0, 0, 1), 5), (2, 0, 1)),
        b.window(b.pad(x, (0, 2, 2), (0, 2, 2)), (1, 2), (2, 3), (1, 2), (2, 1)),
        b.spread(x, 2, 3),
        b.concatenate([x, b.flip(x, (1,)), b.crop(x, 1, 0, 1)], 1),
        b.concatenate([b.permute(x, (0, 1, 2)), b.crop(x, 2, 0, 1)], 2),
    ]


@pytest.mark.parametrize("shape", [(2, 3, 4), (5, 4, 17), (1, 2, 33), (3, 1, 2)])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "?"])
def test_views(shape, dtype, rng):
    x = given(shape, dtype)
    array = some(rng, shape, dtype)
    outputs = views(x)
    native = both(outputs, [x], [array])
    assert not native.report.called_back


@pytest.mark.parametrize("shape", [(2, 3, 4), (5, 4, 17)])
def test_views_of_computed_values_and_computing_on_views(shape, rng):
    x, y = given(shape), given(shape)
    arrays = [some(rng, shape), some(rng, shape)]
    outputs = []
    for mine, other in zip(views(b.map_values("multiply", x, y)), views(x), strict=True):
        outputs.append(b.map_values("exp", b.map_values("subtract", mine, other)))
        outputs.append(b.reduce("add", mine, (mine.ndim - 1,)))
        outputs.append(b.reduce("maximum", other, (0,)))
    both(outputs, [x, y], arrays)


@pytest.mark.parametrize(
    ("spec", "first", "second"),
    [
        ("ab,bc->ac", (5, 7), (7, 3)),
        ("ab,bc->ac", (33, 17), (17, 65)),
        ("ba,bc->ac", (7, 5), (7, 3)),
        ("ab,cb->ac", (5, 70), (30, 70)),
        ("ab,bc->ca", (5, 7), (7, 33)),
        ("abc,cd->abd", (3, 4, 5), (5, 6)),
        ("abc,abd->cd", (3, 4, 5), (3, 4, 6)),
        ("zab,zbc->zac", (3, 4, 5), (3, 5, 6)),
        ("zabh,zcbh->hzac", (2, 4, 5, 3), (2, 6, 5, 3)),
        ("ab,cd->abcd", (2, 3), (4, 5)),
        ("ab,b->a", (5, 9), (9,)),
        ("ab,a->b", (40, 35), (40,)),
        ("a,ab->b", (40,), (40, 35)),
        ("ab,ac->bc", (9, 1), (9, 40)),
        ("zab,za->zb", (3, 20, 18), (3, 20)),
        ("abc,b->ac", (4, 20, 18), (20,)),
    ],
)
@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_products(spec, first, second, dtype, rng):
    x, y = given(first, dtype), given(second, dtype)
    product = b.contract(spec, x, y)
    raw = Value("contract", (x, y), {"spec": spec}, product.shape, product.dtype)
    bias = given(product.shape[-1:], dtype)
    after = b.map_values("tanh", b.map_values("add", product, bias))
    turned = b.map_values(
        "add", b.permute(product, tuple(reversed(range(product.ndim)))), b.full((), 1, dtype)
    )
    both(
        [after, b.reduce("add", after, (0,)), raw, turned],
        [x, y, bias],
        [some(rng, first, dtype), some(rng, second, dtype), some(rng, bias.shape, dtype)],
    )


def test_a_matrix_times_a_vector_is_summed_as_it_lies_in_memory(rng):
    matrix, vector = given((30, 40)), given((30,))
    turned = b.permute(matrix, (1, 0))
    products = [b.contract("ab,a->b", matrix, vector), b.contract("ba,a->b", turned, vector)]
    across = [product.attributes["axes"] for product in products]
    assert across == [(0,), (0,)]  # rows are added up, none is jumped over
    along = b.contract("ab,b->a", b.permute(b.permute(matrix, (1, 0)), (1, 0)), given((40,)))
    assert along.attributes["axes"] == (1,)
    both(products, [matrix, vector], [some(rng, (30, 40)), some(rng, (30,))])


def test_products_of_views(rng):
    x, y = given((4, 6, 10)), given((10, 5))
    heads = b.permute(b.reshape(x, (4, 6, 2, 5)), (0, 2, 1, 3))
    outputs = [
        b.contract("zhab,zhcb->zhac", heads, heads),
        b.matmul(b.flip(x, (2,)), y),
        b.matmul(b.crop(x, 1, 2, 3), b.flip(y, (0,))),
        b.contract("abc,cd->abd", b.expand(b.crop(x, 0, 1, 1), (3, 6, 10)), y),
        b.matmul(b.pad(x, (0, 1, 2), (0, 1, 1)), b.pad(y, (2, 0), (1, 3))),
        b.matmul(b.map_values("exp", x), y),
        b.matmul(b.reshape(b.permute(x, (1, 0, 2)), (24, 10)), y),
    ]
    both(outputs, [x, y], [some(rng, (4, 6, 10)), some(rng, (10, 5))])


@pytest.mark.parametrize("machine", ["host", "avx2", "baseline"])
@pytest.mark.parametrize(
    ("rows", "depth", "columns"), [(48, 40, 64), (50, 33, 70), (13, 7, 129), (96, 5, 48)]
)
def test_long_ends_of_products(rows, depth, columns, machine, rng, monkeypatch):
    """gelu, its slope and a step of Adam are done on a product's tiles, with what they read fetched ahead."""
    from minitorch.compiler.backends.llvm import target
    from minitorch.compiler.backends.llvm.products import costs

    chosen = getattr(target, machine)()
    if not chosen.runs_here:
        pytest.skip(f"this machine does not run code for {machine}")
    monkeypatch.setattr(costs, "FETCHED_BYTES", 0)
    x, w, bias = given((rows, depth)), given((depth, columns)), given((columns,))
    up = b.map_values("add", b.matmul(x, w), bias)
    normal = times(b.map_values("exp", times(b.map_values("multiply", up, up), -0.5)), 0.4)
    below = times(b.map_values("add", b.map_values("erf", times(up, 0.7)), b.full((), 1, F4)), 0.5)
    gelu = b.map_values("multiply", up, below)
    slope = b.map_values("add", below, b.map_values("multiply", up, normal))
    arrays = [some(rng, v.shape) for v in (x, w, bias)]
    native = run([gelu, slope], [x, w, bias], arrays, target=chosen)
    assert len(native.report.steps) == 1

    # The step of an optimiser for w, whose gradient is a product of x turned round.
    g, mean, square = given((rows, columns)), given(w.shape), given(w.shape)
    dw = b.contract("ba,bc->ac", x, g)
    new_mean = b.map_values("add", times(mean, 0.9), times(dw, 0.1))
    new_square = b.map_values("add", times(square, 0.99), times(b.map_values("multiply", dw, dw), 0.01))
    root = b.map_values("add", b.map_values("sqrt", new_square), b.full((), 1e-3, F4))
    new_w = b.map_values("subtract", times(w, 0.999), times(b.map_values("divide", new_mean, root), 0.1))
    inputs = [x, g, w, mean, square]
    arrays = [some(rng, v.shape) for v in inputs]
    arrays[4] = np.abs(arrays[4])
    updates = {1: 2, 2: 3, 3: 4}
    native = run([dw, new_w, new_mean, new_square], inputs, arrays, updates=updates, target=chosen)
    assert len(native.report.steps) == 1


def test_convolutions(rng):
    x, w = given((2, 3, 9, 8)), given((5, 3, 3, 2))
    outputs = []
    for strides, dilations, border in [((1, 1), (1, 1), 0), ((2, 1), (1, 2), 1), ((1, 3), (2, 1), 2)]:
        padded = b.pad(x, (0, 0, border, border), (0, 0, border, border))
        windows = b.window(padded, (2, 3), (3, 2), strides, dilations)
        out = b.contract("ncyxhw,ochw->noyx", windows, w)
        outputs += [b.map_values("maximum", out, b.full(out.shape, 0, F4))]
        outputs += [b.contract("ncyxhw,noyx->ochw", windows, out), b.reduce("maximum", windows, (4, 5))]
    both(outputs, [x, w], [some(rng, x.shape), some(rng, w.shape)])


def test_gather_and_scatter(rng):
    x, index, updates = given((7, 5, 3)), given((4, 6), I8), given((24, 5, 3))
    places = rng.integers(0, 7, (4, 6))
    flat = b.reshape(index, (24,))
    rows = b.gather(x, index, 0)
    shifted = b.map_values("remainder", b.map_values("add", index, b.full((), 1, I8)), b.full((), 5, I8))
    outputs = [
        rows,
        b.map_values("exp", rows),
        b.reduce("add", rows, (4 - 1,)),
        b.gather(b.permute(x, (1, 0, 2)), index, 1),
        b.gather(x, shifted, 1),
        b.gather(b.map_values("exp", x), b.map_values("remainder", index, b.full((), 3, I8)), 2),
        b.scatter("add", x, flat, updates, 0),
        b.scatter("set", x, flat, updates, 0),
        b.scatter("add", b.full((5, 9, 3), 0.5, F4), flat, b.permute(updates, (1, 0, 2)), 1),
        b.scatter("add", b.permute(x, (1, 2, 0)), flat, b.permute(updates, (1, 2, 0)), 2),
        b.gather(x, b.arg_reduce("argmax", b.permute(x, (1, 2, 0)), 2), 0),
    ]
    both(outputs, [x, index, updates], [some(rng, x.shape), places, some(rng, updates.shape)])


@pytest.mark.parametrize("bad", [-1, 7, 1 << 40, -(1 << 40)])
@pytest.mark.parametrize("what", ["gather", "scatter"])
def test_an_index_outside_stops_before_anything_is_changed(bad, what, rng):
    x, index, updates = given((7, 5)), given((40,), I8), given((40, 5))
    if what == "gather":
        result = b.reduce("add", b.gather(x, index, 0), (0,))
        changed = b.map_values("subtract", x, b.expand(result, x.shape))
    else:
        changed = b.scatter("add", x, index, updates, 0)
    other = b.map_values("add", updates, b.full((), 1, F4))
    for fuse in (True, False):
        program = Program([x, index, updates], [changed, other])
        native = Assembler(fuse=fuse).build(program, {0: 0, 1: 2})
        arrays = [some(rng, (7, 5)), rng.integers(0, 7, 40), some(rng, (40, 5))]
        arrays[1][33] = bad
        before = [a.copy() for a in arrays]
        with pytest.raises(IndexError, match="axis of length 7"):
            native(arrays, [])
        for a, old in zip(arrays, before, strict=True):
            np.testing.assert_array_equal(a, old)
        arrays[1][33] = 0
        native(arrays, [])


def test_what_numpy_computes_in_between(rng):
    x = given((4, 6))
    twice = b.map_values("add", x, x)
    ordered = Value("sort", (b.permute(twice, (1, 0)),), {"axis": 1}, (6, 4), F4)
    places = Value("argsort", (x,), {"axis": 1}, (4, 6), I8)
    half = b.cast(twice, "f2")
    wide = b.map_values("multiply", half, half)
    parts = b.call(lambda a: np.linalg.qr(a.T), [twice], [np.empty((6, 4), F4), np.empty((4, 4), F4)], False)
    single = b.call(lambda a: a * 2, [ordered], [np.empty((6, 4), F4)], True)[0]
    imaginary = b.map_values("multiply", b.cast(x, "c8"), b.cast(x, "c8"))
    outputs = [b.map_values("exp", ordered), places, b.cast(wide, "f4"), wide, imaginary, *parts]
    outputs += [b.map_values("add", single, ordered), b.matmul(parts[0], parts[1])]
    native = both(outputs, [x], [some(rng, (4, 6))], factor=10)
    assert native.report.called_back


def test_an_error_in_a_called_function_is_raised(rng):
    def refuse(a):
        raise ZeroDivisionError("no")

    x = given((4,))
    out = b.call(refuse, [b.map_values("exp", x)], [np.empty((4,), F4)], True)[0]
    native = Assembler().build(Program([x], [b.map_values("exp", out)]), {})
    with pytest.raises(ZeroDivisionError, match="no"):
        native([some(rng, (4,))], [np.empty((4,), F4)])


def test_outputs_that_are_inputs_constants_views_or_twice(rng):
    x, y = given((3, 4)), given(())
    total = b.map_values("add", x, y)
    outputs = [x, total, total, b.permute(total, (1, 0)), b.constant(np.arange(5.0)), b.full((2, 2), 3, F4)]
    outputs += [b.iota(5), y, b.reshape(x, (12,)), b.constant(np.float32(2)), b.reshape(y, (1, 1))]
    both(outputs, [x, y], [some(rng, (3, 4)), some(rng, ())])


# --- updates ----------------------------------------------------------------------------------------------


def test_updates_see_old_values(rng):
    w, g, v = given((9, 5)), given((9, 5)), given((9, 5))
    new_v = b.map_values("add", b.map_values("multiply", v, b.full((), 0.9, F4)), g)
    new_w = b.map_values("subtract", w, b.map_values("multiply", new_v, b.full((), 0.1, F4)))
    turned = b.matmul(b.permute(w, (1, 0)), v)
    outputs = [new_w, new_v, b.reduce("add", w, (0, 1)), turned, w]
    arrays = [some(rng, (9, 5)) for _ in range(3)]
    for fuse in (False, True):
        run(outputs, [w, g, v], arrays, updates={0: 0, 1: 2}, fuse=fuse)


def test_updates_that_need_a_copy(rng):
    a, c = given((6, 6)), given((6, 6))
    arrays = [some(rng, (6, 6)) for _ in range(2)]
    swapped = [b.map_values("add", c, b.full((), 0, F4)), b.map_values("add", a, b.full((), 0, F4))]
    turned = b.permute(a, (1, 0))
    softmax = b.map_values("divide", a, b.reduce("add", a, (1,), True))
    shifted = b.map_values("add", a, b.concatenate([b.crop(a, 0, 1, 5), b.crop(a, 0, 0, 1)], 0))
    product = b.matmul(a, a)
    for fuse in (False, True):
        run([c, a], [a, c], arrays, updates={0: 0, 1: 1}, fuse=fuse)
        run(swapped, [a, c], arrays, updates={0: 0, 1: 1}, fuse=fuse)
        for new in (turned, softmax, shifted, product, b.map_values("add", a, turned)):
            run([new, b.reduce("add", a, (0,))], [a, c], arrays, updates={0: 0}, fuse=fuse)


# --- random programs ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("block", range(8))
def test_random_programs(block):
    for seed in range(block * 5, block * 5 + 5):
        made = RandomProgram(seed)
        for fuse in (False, True):
            try:
                run(made.outputs, made.inputs, made.arrays, updates=made.updates, fuse=fuse, factor=50)
            except Exception as error:
                error.add_note(f"seed {seed}, fuse={fuse}")
                raise


@pytest.mark.parametrize("machine", ["host", "avx2", "baseline"])
def test_random_programs_in_many_small_pieces(machine, monkeypatch):
    """Blocks of rows, tiles and threads are for large arrays; here they are used on small ones too."""
    from minitorch.compiler.backends.llvm import assemble, target
    from minitorch.compiler.backends.llvm.capabilities import CPU_FIGURES, Cpu
    from minitorch.compiler.backends.llvm.loops import costs as loop_costs
    from minitorch.compiler.backends.llvm.products import costs as product_costs

    chosen = getattr(target, machine)()
    if not chosen.runs_here:
        pytest.skip(f"this machine does not run code for {machine}")
    cpu = Cpu(replace(CPU_FIGURES, serial_elements=64, most_blocks=5, column_bytes=256))
    monkeypatch.setattr(loop_costs, "TILED_BYTES", 256)
    monkeypatch.setattr(loop_costs, "UNIT_WORK", 64)
    monkeypatch.setattr(product_costs, "FETCHED_BYTES", 0)
    monkeypatch.setattr(assemble, "PARALLEL_SECONDS", 0)
    for seed in range(200, 208):
        made = RandomProgram(seed)
        run(
            made.outputs,
            made.inputs,
            made.arrays,
            updates=made.updates,
            factor=50,
            target=chosen,
            machine=cpu,
        )


# --- realistic programs -----------------------------------------------------------------------------------------


def relu(x):
    return b.map_values("maximum", x, b.full(x.shape, 0, x.dtype))


def times(x, number):
    return b.map_values("multiply", x, b.full((), number, x.dtype))


def mlp_step(sizes, batch, rate=0.1):
    """A training step of a network with relu, cross-entropy and gradient descent, derivatives by hand."""
    x, labels = given((batch, sizes[0])), given((batch,), I8)
    weights = [given((n, m)) for n, m in itertools.pairwise(sizes)]
    biases = [given((m,)) for m in sizes[1:]]
    hidden = [x]
    for w, bias in zip(weights, biases, strict=True):
        last = b.map_values("add", b.matmul(hidden[-1], w), bias)
        hidden.append(relu(last))
    high = b.reduce("maximum", last, (1,), True)
    moved = b.map_values("subtract", last, high)
    up = b.map_values("exp", moved)
    below = b.reduce("add", up, (1,), True)
    log_p = b.map_values("subtract", moved, b.map_values("log", below))
    chosen = b.map_values(
        "equal", b.reshape(labels, (batch, 1)), b.reshape(b.iota(sizes[-1]), (1, sizes[-1]))
    )
    one_hot = b.cast(chosen, F4)
    loss = times(b.reduce("add", b.map_values("multiply", log_p, one_hot), (0, 1)), -1 / batch)
    g = times(b.map_values("subtract", b.map_values("divide", up, below), one_hot), 1 / batch)
    outputs, updates = [loss], {}
    inputs = [x, labels, *weights, *biases]
    for k in reversed(range(len(weights))):
        if k < len(weights) - 1:
            g = b.where(b.map_values("greater", hidden[k + 1], b.full((), 0, F4)), g, b.full((), 0, F4))
        dw = b.contract("ba,bc->ac", hidden[k], g)
        db = b.reduce("add", g, (0,))
        if k:
            g_next = b.contract("bc,ac->ba", g, weights[k])
        for old, d, place in ((weights[k], dw, 2 + k), (biases[k], db, 2 + len(weights) + k)):
            updates[len(outputs)] = place
            outputs.append(b.map_values("subtract", old, times(d, rate)))
        if k:
            g = g_next
    return inputs, outputs, updates


@pytest.mark.parametrize(("sizes", "batch"), [((2, 8, 2), 4), ((23, 64, 5), 60), ((64, 256, 10), 128)])
def test_a_training_step(sizes, batch, rng):
    inputs, outputs, updates = mlp_step(sizes, batch)
    arrays = [some(rng, v.shape, v.dtype) for v in inputs]
    arrays[1] = rng.integers(0, sizes[-1], batch)
    arrays = [a * np.float32(0.3) if a.dtype == F4 and a.ndim == 2 else a for a in arrays]
    run(outputs, inputs, arrays, updates=updates, fuse=False, factor=10)
    native = run(outputs, inputs, arrays, updates=updates, factor=10)
    assert not native.report.called_back
    assert not native.report.copied


def mean(x, axes, keepdims=True):
    n = np.prod([x.shape[a] for a in axes])
    return times(b.reduce("add", x, axes, keepdims), 1 / n)


def layer_norm(x, gain, bias):
    centred = b.map_values("subtract", x, mean(x, (x.ndim - 1,)))
    variance = mean(b.map_values("square", centred), (x.ndim - 1,))
    scale = b.map_values(
        "reciprocal", b.map_values("sqrt", b.map_values("add", variance, b.full((), 1e-5, F4)))
    )
    normal = b.map_values("multiply", centred, scale)
    return b.map_values("add", b.map_values("multiply", normal, gain), bias), normal, scale


@pytest.mark.parametrize("shape", [(3, 5), (6, 33), (2, 3, 64), (300, 128)])
def test_layer_norm(shape, rng):
    x, gain, bias, g = given(shape), given(shape[-1:]), given(shape[-1:]), given(shape)
    out, normal, scale = layer_norm(x, gain, bias)
    last = len(shape) - 1
    scaled = b.map_values("multiply", g, gain)
    inner = b.map_values("subtract", scaled, mean(scaled, (last,)))
    along = b.map_values("multiply", normal, mean(b.map_values("multiply", scaled, normal), (last,)))
    dx = b.map_values("multiply", b.map_values("subtract", inner, along), scale)
    first = tuple(range(last))
    d_gain = b.reduce("add", b.map_values("multiply", g, normal), first)
    outputs = [out, dx, d_gain, b.reduce("add", g, first)]
    native = both(outputs, [x, gain, bias, g], [some(rng, v.shape) for v in (x, gain, bias, g)], factor=5)
    assert len(native.report.steps) <= 5


def attention(x, w, heads):
    batch, length, width = x.shape
    deep = width // heads
    qkv = b.reshape(b.matmul(x, w), (batch, length, 3, heads, deep))
    q, k, v = (b.reshape(b.crop(qkv, 2, i, 1), (batch, length, heads, deep)) for i in range(3))
    scores = times(b.contract("zihd,zjhd->zhij", q, k), deep**-0.5)
    rows, columns = b.reshape(b.iota(length), (length, 1)), b.reshape(b.iota(length), (1, length))
    seen = b.map_values("less_equal", columns, rows)
    masked = b.where(seen, scores, b.full((), -np.inf, F4))
    high = b.reduce("maximum", masked, (3,), True)
    up = b.map_values("exp", b.map_values("subtract", masked, high))
    p = b.map_values("divide", up, b.reduce("add", up, (3,), True))
    out = b.contract("zhij,zjhd->zihd", p, v)
    return b.reshape(out, (batch, length, width))


def test_attention(rng):
    x, w, gain, bias = given((2, 9, 12)), given((12, 36)), given((12,)), given((12,))
    out = b.map_values("add", x, attention(layer_norm(x, gain, bias)[0], w, 3))
    native = both([out], [x, w, gain, bias], [some(rng, v.shape) for v in (x, w, gain, bias)], factor=5)
    assert len(native.report.steps) <= 8


# --- what is shared ----------------------------------------------------------------------------------------------


def test_equal_kernels_are_one_function(rng):
    inputs = [given((8, 9)) for _ in range(6)]
    outputs = [b.reduce("add", b.map_values("exp", x), (1,)) for x in inputs]
    native = both(outputs, inputs, [some(rng, (8, 9)) for _ in inputs])
    assert native.report.functions == 1


def test_memory_is_shared(rng):
    x = given((64, 64))
    value = x
    for _ in range(8):
        value = b.map_values("tanh", b.matmul(value, value))
    native = both([value], [x], [some(rng, (64, 64)) * np.float32(0.1)], factor=10)
    assert native.report.arena <= 3 * 64 * 64 * 4 + 65536
    assert native.report.arena < native.report.unshared
