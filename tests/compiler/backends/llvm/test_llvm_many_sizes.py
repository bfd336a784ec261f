"""Machine code for programs whose sizes vary: each at many sizes, beside NumPy and the program of that size alone.

Behind every array that a run is given, and behind all that lies in its own memory, stands a pattern that has to be there
afterwards.
"""

import threading
import tracemalloc

import numpy as np
import pytest

pytest.importorskip("llvmlite.binding")

from minitorch.compiler.backends.llvm import native
from minitorch.compiler.backends.llvm.native import Llvm
from minitorch.compiler.backends.llvm.products import costs
from minitorch.compiler.ir import builder as b
from minitorch.compiler.ir.program import Program, interpret
from minitorch.compiler.ir.sizes import Symbol
from minitorch.compiler.schedule.memory import MemoryPlan
from random_ir import close, given
from varying import CASES, RandomVarying, arrays_for, fixed, varying

SIZES = ((6, 5), (2, 2), (3, 17), (33, 2), (64, 64), (129, 50))
CANARY, BEHIND = 0xA5, 256  # bytes
# What NumPy computes in between: nothing else may be.
CALLED_BACK = {"sorts", "call_backs"}


def guarded(array):
    """An equal array, and the bytes behind it."""
    memory = np.full(array.nbytes + BEHIND, CANARY, np.uint8)
    inside = memory[: array.nbytes].view(array.dtype).reshape(array.shape)
    inside[...] = array
    return inside, memory[array.nbytes :]


def run_guarded(made, arrays):
    """Run a program on guarded arrays; return the outputs."""
    inputs, canaries = zip(*map(guarded, arrays), strict=True)
    sized = made.at(made.sizes_of(inputs))
    outputs, behind = zip(*(guarded(np.zeros(p.shape, p.dtype)) for p in sized.pools), strict=True)
    assert made.entry(*inputs, *outputs) is None
    assert all((canary == CANARY).all() for canary in (*canaries, *behind)), "wrote behind an array"
    return list(outputs)


@pytest.mark.parametrize("name", CASES)
def test_each_primitive_at_many_sizes(name):
    for hints in ((6, 5), (300, 70)):
        made = Llvm().compile(varying(CASES[name], *hints), {})
        assert bool(made.report.called_back) == (name in CALLED_BACK)
        for n, m in SIZES:
            one = fixed(CASES[name], n, m)
            arrays = arrays_for(one)
            for got, want in zip(run_guarded(made, arrays), interpret(one, arrays), strict=True):
                close(got, np.asarray(want), f"{name} at {n}, {m}", 50)


# Figures by which other ways to compute a product seem best, also where they are not.
WAYS = {
    "other forms": {"OTHER_FORMS": 1e6},
    "k in blocks": {"PANEL_BYTES": 1 << 11, "MOST_PANELS": 1, "MANY_TILES": 1},
    "k in blocks, other forms": {
        "PANEL_BYTES": 1 << 11,
        "MOST_PANELS": 1,
        "MANY_TILES": 1,
        "OTHER_FORMS": 1e6,
    },
    "panels copied": {"PACK_ROWS": 1, "PACK_DEPTH": 1, "FAR_WIDTHS": 0},
    "rows copied": {"FAR_BYTES": 0, "LARGE_BYTES": 0, "VERY_LARGE_BYTES": 0, "PACK_A_PANELS": 1},
    "many units": {"UNIT_FLOPS": 2000, "REPACKING_ROWS": 1},
}


@pytest.mark.parametrize("way", WAYS)
def test_products_in_other_ways(way, monkeypatch):
    for figure, value in WAYS[way].items():
        monkeypatch.setattr(costs, figure, value)
    notes = set()
    for name in (n for n in CASES if any(word in n for word in ("product", "linear", "conv", "attention"))):
        made = Llvm().compile(varying(CASES[name], 90, 40), {})
        notes |= {step.note.split(",")[0] for step in made.report.steps}
        for n, m in ((2, 2), (65, 50)):
            one = fixed(CASES[name], n, m)
            arrays = arrays_for(one)
            for got, want in zip(run_guarded(made, arrays), interpret(one, arrays), strict=True):
                close(got, np.asarray(want), f"{name} at {n}, {m}", 50)
    assert "columns" in notes
    assert ("forms" in way) <= {"swapped", "dot"}.issubset(notes)


def same_as_numpy(made, program, updates, arrays, name):
    """Run a program; outputs and updated inputs are what NumPy makes of it, other inputs as they were."""
    want = interpret(program, [a.copy() for a in arrays])
    mine = [a.copy() for a in arrays]
    got = made(mine)
    single = any(v.dtype == np.float32 for v in program.values())
    for number, expected in enumerate(want):
        found = mine[updates[number]] if number in updates else got[number]
        close(np.asarray(found), np.asarray(expected), f"{name}, output {number}", 100, single)
    for number, (before, after) in enumerate(zip(arrays, mine, strict=True)):
        if number not in updates.values():
            np.testing.assert_array_equal(before, after)


@pytest.mark.parametrize("block", range(4))
def test_random_programs_at_many_sizes(block):
    for seed in range(block * 15, block * 15 + 15):
        random = RandomVarying(seed)
        program = random.program
        made = Llvm().compile(program, random.updates)
        assert not any("failed" in why for why in made.report.unfused)
        for number, sizes in enumerate(((random.n.hint, random.m.hint), (2, 2), (3, 19), (33, 2), (57, 40))):
            binding = dict(zip((random.n, random.m), sizes, strict=True))
            assert all(guard.holds(binding) for guard in program.guards)
            alone = program.at(binding)
            arrays = arrays_for(alone, seed)
            same_as_numpy(made, program, random.updates, arrays, f"seed {seed} at {sizes}")
            if number == 0:
                alone_made = Llvm().compile(alone, random.updates)
                same_as_numpy(alone_made, alone, random.updates, arrays, f"seed {seed} at {sizes} alone")


class Apart(MemoryPlan):
    """A plan in which nothing shares a place, and a gap lies behind everything."""

    def placed(self, sizes):
        offsets, self.gaps, end = [], [], 0
        for size in sizes:
            offsets.append(end)
            self.gaps.append((end + size, end + size + BEHIND))
            end = -(-(end + size + BEHIND) // self.alignment) * self.alignment
        return offsets, end


class LlvmApart(Llvm):
    """The backend with such plans."""

    def link(self, schedule, tasks, plan):
        self.plan = Apart(plan.size, plan.unshared, plan.offsets, plan.below, plan.alignment)
        return super().link(schedule, tasks, self.plan)


def assert_gaps_untouched(arrays, backend, made):
    sizes = made.sizes_of(arrays)
    made.at(sizes)
    made.native.arena[:] = CANARY
    made([a.copy() for a in arrays])
    for begin, end in backend.plan.gaps:
        assert (made.native.arena[begin:end] == CANARY).all(), "wrote behind something in its own memory"


@pytest.mark.parametrize("name", CASES)
def test_memory_by_formula_is_never_less_than_what_is_touched(name):
    backend = LlvmApart()
    made = backend.compile(varying(CASES[name]), {})
    checked = 0
    for n, m in SIZES if backend.plan.below else ():
        one = fixed(CASES[name], n, m)
        assert_gaps_untouched(arrays_for(one), backend, made)
        checked += len(backend.plan.gaps)
    assert checked or not backend.plan.below


def test_memory_of_random_programs_is_never_less_than_what_is_touched():
    checked = 0
    for seed in range(100, 130):
        random, backend = RandomVarying(seed), LlvmApart()
        made = backend.compile(random.program, random.updates)
        for sizes in ((2, 3), (40, 9)) if backend.plan.below else ():
            alone = random.program.at(dict(zip((random.n, random.m), sizes, strict=True)))
            assert_gaps_untouched(arrays_for(alone, seed), backend, made)
            checked += len(backend.plan.gaps)
    assert checked > 100


def test_plans_share_memory_at_every_size():
    x, w = given((Symbol("s0", 6).size, 32)), given((32, 32))
    out = x
    for _ in range(8):
        out = b.map_values("tanh", b.matmul(out, w))
    made = Llvm().compile(Program([x, w], [out]), {})
    assert made.report.arena * 2 < made.report.unshared
    made([np.ones((50, 32), np.float32), np.ones((32, 32), np.float32)])
    assert 0 < len(made.native.arena) < 4 * 50 * 32 * 4


def test_an_index_out_of_range_is_told_with_the_length_of_the_call():
    made = Llvm().compile(varying(CASES["gathers"]), {})
    arrays = arrays_for(fixed(CASES["gathers"], 7, 4))
    arrays[1][0, 0] = 7
    with pytest.raises(IndexError, match="an axis of length 7"):
        made(arrays)


def test_a_size_that_leaves_nothing_is_left_to_numpy():
    n = Symbol("s0", 6).size
    x = given((n, 3))
    program = Program([x], [b.map_values("exp", b.crop(x, 0, 2, n - 2)), b.reduce("add", x, (0,))])
    made = Llvm().compile(program, {})
    for count in (2, 3, 9):
        array = np.ones((count, 3), np.float32)
        same_as_numpy(made, program, {}, [array], f"{count}")


def test_threads_may_call_it_with_different_sizes_at_the_same_time():
    made = Llvm().compile(varying(CASES["small_and_large_together"]), {})
    wrong = []

    def call(n):
        one = fixed(CASES["small_and_large_together"], n, 2)
        arrays = arrays_for(one, n)
        want = [np.asarray(w) for w in interpret(one, arrays)]
        for _ in range(60):
            got = made(arrays)
            wrong.extend(n for g, w in zip(got, want, strict=True) if not np.allclose(g, w, 1e-3, 1e-4))

    threads = [threading.Thread(target=call, args=(n,)) for n in (5, 64, 200)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_many_sizes_are_met_and_not_all_are_kept(monkeypatch):
    monkeypatch.setattr(native, "KEPT_BYTES", 1 << 15)
    made = Llvm().compile(varying(CASES["bare_linear"]), {})
    for n in [*range(2, 150), 3, 2]:
        one = fixed(CASES["bare_linear"], n, 2)
        same_as_numpy(made, one, {}, arrays_for(one), f"{n}")
        assert made.at((n,)).image.nbytes < 1 << 12
    assert made.kept_bytes <= 1 << 15


def test_what_varies_too_freely_is_left_to_numpy_and_told():
    n, m = Symbol("s0", 40).size, Symbol("s1", 5).size
    x, y = given((n, n)), given((m, n))
    part = b.crop(x, 1, 0, n - m)  # whether that is more than nothing, nobody has asked
    part = b.Value("sort", (part,), {"axis": 1}, part.shape, part.dtype)
    turned = b.map_values("exp", b.permute(part, (1, 0)))
    program = Program([x, y], [b.concatenate([turned, y], 0), b.reduce("add", turned, (0, 1))])
    made = Llvm().compile(program, {})
    assert made.report.called_back
    assert made.report.undecided
    for sizes in ((40, 5), (7, 3), (64, 2)):
        arrays = arrays_for(program.at(dict(zip(program.symbols, sizes, strict=True))))
        same_as_numpy(made, program, {}, arrays, f"{sizes}")


def test_memory_that_grows_is_one_and_results_of_other_sizes_are_let_go():
    x, w = given((Symbol("s0", 6).size, 512)), given((512, 512))
    out = b.map_values("tanh", b.matmul(b.map_values("tanh", b.matmul(x, w)), w))
    made = Llvm().compile(Program([x, w], [out]), {})
    weights = np.ones((512, 512), np.float32)
    tracemalloc.start()
    try:
        for n in range(100, 150):
            made([np.ones((n, 512), np.float32), weights])
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(made.native.arena) >= 149 * 512 * 4
    assert held < 30 * 150 * 512 * 4  # and not of 50 sizes


def test_a_size_may_be_a_number_that_is_given():
    count = Symbol("s0", 6)
    x, number = given((3,)), given((), np.int64)
    number.attributes["symbol"] = count
    rows = b.expand(b.reshape(x, (1, 3)), (count.size, 3))
    ramp = b.cast(b.reshape(b.iota(count.size), (count.size, 1)), np.float32)
    program = Program([x, number], [b.map_values("add", rows, ramp), b.reduce("add", rows, (0,))])
    made = Llvm().compile(program, {})
    for n in (2, 6, 100):
        arrays = [np.ones(3, np.float32), np.asarray(n)]
        same_as_numpy(made, program, {}, arrays, f"{n}")
