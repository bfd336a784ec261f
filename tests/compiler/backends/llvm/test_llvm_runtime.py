"""The native runtime: targets, machine code and its cache, threads, and the call from Python."""

import ctypes
import gc
import math
import os
import subprocess
import sys
import threading
import time
import tracemalloc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from minitorch.compiler.backends.llvm import machine, object_cache, runtime, target, threads
from minitorch.compiler.backends.llvm.driver import (
    Arena,
    Constant,
    External,
    PythonKernel,
    Runner,
    Step,
    array_at,
)

ATTRIBUTES = target.host().attributes


def kernel(name, operands, body, before="", result="0"):
    """A kernel that loads its operands' addresses as %p0, %p1 … and runs `body` for each unit %unit."""
    loads = "\n".join(
        f"""  %slot_at{i} = getelementptr i64, ptr %slots, i64 {i}
  %slot{i} = load i64, ptr %slot_at{i}
  %pointer_at{i} = getelementptr ptr, ptr %table, i64 %slot{i}
  %p{i} = load ptr, ptr %pointer_at{i}"""
        for i in range(operands)
    )
    return f"""
define i64 @{name}(ptr %table, ptr %slots, i64 %start, i64 %stop, i64 %thread) {ATTRIBUTES} {{
entry:
{loads}
{before}
  br label %next
next:
  %unit = phi i64 [ %start, %entry ], [ %unit_next, %done ]
  %more = icmp ult i64 %unit, %stop
  br i1 %more, label %work, label %out
work:
{body}
  br label %done
done:
  %unit_next = add i64 %unit, 1
  br label %next
out:
  ret i64 {result}
}}
"""


# out[unit] = a[unit] + b[unit]
ADD = kernel(
    "add",
    3,
    """  %a_at = getelementptr double, ptr %p1, i64 %unit
  %b_at = getelementptr double, ptr %p2, i64 %unit
  %out_at = getelementptr double, ptr %p0, i64 %unit
  %a = load double, ptr %a_at
  %b = load double, ptr %b_at
  %c = fadd double %a, %b
  store double %c, ptr %out_at""",
)
# times[unit] += 1, by[unit] = thread
MARK = kernel(
    "mark",
    2,
    """  %count_at = getelementptr i64, ptr %p0, i64 %unit
  %by_at = getelementptr i64, ptr %p1, i64 %unit
  %old = atomicrmw add ptr %count_at, i64 1 monotonic
  store i64 %thread, ptr %by_at""",
)
# Wait a while for each unit.
SLOW = (
    kernel("slow", 0, "  call void @wait()", before="")
    + f"""
define internal void @wait() {ATTRIBUTES} {{
entry:
  br label %again
again:
  %i = phi i64 [ 0, %entry ], [ %next, %again ]
  call void asm sideeffect "", ""()
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, 20000
  br i1 %more, label %again, label %done
done:
  ret void
}}
"""
)
# Fail with the code 77 if a unit's number is the first value of the operand.
FAIL = kernel(
    "fail",
    1,
    """  %bad_at = load i64, ptr %p0
  %bad = icmp eq i64 %unit, %bad_at
  br i1 %bad, label %fail, label %done
fail:
  ret i64 77
unused:""",
)
NAMES = ["add", "mark", "slow", "fail"]


@pytest.fixture(scope="module")
def code():
    return machine.compile_module(ADD + MARK + SLOW + FAIL, target.host(), NAMES)


@pytest.fixture
def two_threads():
    threads.set_threads(2)
    yield
    threads.set_threads(None)


@pytest.fixture(params=["fast", "slow"])
def either_entry(request, monkeypatch):
    """The native entry, and the one for a Python whose objects lie otherwise in memory."""
    if request.param == "slow":
        monkeypatch.setattr(runtime.runtime(), "fast", False)
    elif not runtime.runtime().fast:
        pytest.skip("not this Python")
    return request.param


def adder(code, **options):
    return Runner(
        [External(0), External(1), External(2)],
        [Step(code.address("add"), (0, 1, 2), 5)],
        externals=3,
        keep=[code],
        **options,
    )


# --- targets ------------------------------------------------------------------------------------------------


def test_targets_know_their_vectors():
    assert [target.baseline().lanes(t) for t in ("f4", "f8", "i1")] == [4, 2, 16]
    assert [target.avx2().lanes(t) for t in ("f4", "f8", "i1")] == [8, 4, 32]
    assert [target.avx512().lanes(t) for t in ("f4", "f8", "i1")] == [16, 8, 64]
    assert [t().registers for t in (target.baseline, target.avx2, target.avx512)] == [16, 16, 32]
    assert target.Target("apple-m1", "+neon", "arm64-apple-darwin").registers == 32
    assert not target.baseline().has_fma
    assert target.avx2().has_fma
    assert target.host() is target.host()
    assert target.host().runs_here
    assert hash(target.avx2()) == hash(target.avx2())


@pytest.mark.skipif(not target.host().is_x86, reason="names registers of x86")
@pytest.mark.parametrize(
    ("make", "register"), [(target.baseline, "xmm"), (target.avx2, "ymm"), (target.avx512, "zmm")]
)
def test_vectors_as_wide_as_the_target_says_stay_whole(make, register):
    here = make()
    lanes = here.lanes("f4")
    text = f"""define void @f(ptr %a, ptr %b) {here.attributes} {{
  %x = load <{lanes} x float>, ptr %a, align 4
  %y = fadd <{lanes} x float> %x, %x
  store <{lanes} x float> %y, ptr %b, align 4
  ret void
}}"""
    listing = machine.assembly(text, here)
    assert listing.count("addps") == 1
    assert register in listing


def test_without_llvmlite_the_error_says_what_to_install(monkeypatch):
    target.require_llvmlite.cache_clear()
    monkeypatch.setitem(sys.modules, "llvmlite", None)
    monkeypatch.setitem(sys.modules, "llvmlite.binding", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[compile\]'"):
        target.require_llvmlite()


# --- machine code -------------------------------------------------------------------------------------------

SEVEN = "define i64 @seven() {\n  ret i64 7\n}\n"


def call(code, name, result=ctypes.c_int64, *arguments):
    return ctypes.CFUNCTYPE(result, *[type(a) for a in arguments])(code.address(name))(*arguments)


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("MINITORCH_CACHE", str(folder))
    machine._loaded.clear()
    return folder


def counted(monkeypatch):
    """How many times object code was made, as a list that grows."""
    made = []
    original = machine.object_code
    monkeypatch.setattr(machine, "object_code", lambda *a: made.append(a) or original(*a))
    return made


def test_a_module_is_compiled_and_called(cache):
    code = machine.compile_module(SEVEN, target.host(), ["seven"])
    assert call(code, "seven") == 7


@pytest.mark.slow
def test_threads_make_the_code_that_one_makes():
    lines = [f"  %v{i + 1} = fmul float %v{i}, {float(2 + i % 7)}" for i in range(60)]
    texts = [
        "define float @f(float %v0) {\n"
        + "\n".join(lines[: 10 + n % 50])
        + f"\n  ret float %v{10 + n % 50}\n}}\n"
        for n in range(200)
    ]
    one = [machine.object_code(text, target.host()) for text in texts]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lambda text: machine.object_code(text, target.host()), texts)) == one


def test_code_is_made_where_llvmlite_keeps_its_functions_elsewhere(monkeypatch):
    expected = machine.object_code(SEVEN, target.host())

    class Hidden:
        LLVMPY_TargetMachineEmitToMemory = None  # nothing to be called without the lock

    monkeypatch.setattr(machine.require_llvmlite().ffi, "lib", Hidden, raising=True)
    emitted = []

    class Machine:
        def emit_object(self, module):
            emitted.append(module)
            return expected

    assert machine.emitted(Machine(), "module") == expected
    assert emitted == ["module"]


def test_a_module_that_cannot_become_code_is_an_error():
    with pytest.raises(RuntimeError):
        machine.object_code("define i64 @seven() { ret i32 7 }", target.host())


@pytest.mark.parametrize("make", [target.baseline, target.avx2, target.avx512, target.host])
def test_each_target_that_runs_here_does(cache, make):
    if not make().runs_here:
        pytest.skip("another processor")
    assert call(machine.compile_module(SEVEN, make(), ["seven"]), "seven") == 7


def test_functions_of_libm_and_of_instructions_are_found(cache):
    text = """
declare double @cbrt(double)
declare float @llvm.sin.f32(float)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
define double @root(double %x) {
  %y = call double @cbrt(double %x)
  ret double %y
}
define float @sine(float %x) {
  %y = call float @llvm.sin.f32(float %x)
  ret float %y
}
define double @rest(double %x, double %y) {
  %z = frem double %x, %y
  ret double %z
}
define void @clear(ptr %p, i64 %n) {
  call void @llvm.memset.p0.i64(ptr %p, i8 0, i64 %n, i1 false)
  ret void
}
"""
    code = machine.compile_module(text, target.host(), ["root", "sine", "rest", "clear"])
    double, single = ctypes.c_double, ctypes.c_float
    assert call(code, "root", double, double(27.0)) == math.cbrt(27.0)
    assert call(code, "sine", single, single(1.0)) == pytest.approx(np.sin(1.0), rel=1e-6)
    assert call(code, "rest", double, double(7.5), double(2.0)) == 1.5


def test_an_unknown_function_is_named(cache):
    text = "declare double @frobnicate(double)\n" + SEVEN
    with pytest.raises(LookupError, match="frobnicate"):
        machine.compile_module(text, target.host(), ["seven"])
    with pytest.raises(LookupError, match="eight"):
        machine.compile_module(SEVEN, target.host(), ["seven", "eight"])


def test_wrong_text_is_an_error(cache):
    with pytest.raises(RuntimeError, match="expected"):
        machine.compile_module("define i64 @seven() {\n  ret i64 oops\n}\n", target.host(), ["seven"])
    assert not list(cache.glob("*"))


def test_what_is_in_memory_is_shared_and_unloaded_with_its_last_holder(cache):
    code = machine.compile_module(SEVEN, target.host(), ["seven"])
    assert machine.compile_module(SEVEN, target.host(), ["seven"]) is code
    reference = weakref.ref(code)
    del code
    gc.collect()
    assert reference() is None
    assert call(machine.compile_module(SEVEN, target.host(), ["seven"]), "seven") == 7


def test_object_code_is_taken_from_the_disk(cache, monkeypatch):
    made = counted(monkeypatch)
    for _ in range(3):
        machine._loaded.clear()
        assert call(machine.compile_module(SEVEN, target.host(), ["seven"]), "seven") == 7
    assert len(made) == 1
    assert len(list(cache.glob("*.o"))) == 1
    # Another text, processor or effort is another file.
    machine.compile_module(SEVEN + "\n", target.host(), ["seven"])
    machine.compile_module(SEVEN, target.Target("generic", "", target.host().triple), ["seven"])
    machine.compile_module(SEVEN, target.host(), ["seven"], optimization=0)
    assert len(made) == 4
    assert len(list(cache.glob("*.o"))) == 4


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-10],
        lambda content: content[:20],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: content.replace(b"minitorch", b"somethink"),
        lambda content: b"\x7fELF" + content,
        lambda content: os.urandom(500),
    ],
)
def test_a_damaged_file_is_made_anew(cache, monkeypatch, damage):
    made = counted(monkeypatch)
    machine.compile_module(SEVEN, target.host(), ["seven"])
    (file,) = cache.glob("*.o")
    good = file.read_bytes()
    file.write_bytes(damage(good))
    machine._loaded.clear()
    assert call(machine.compile_module(SEVEN, target.host(), ["seven"]), "seven") == 7
    assert len(made) == 2
    assert file.read_bytes() == good


def test_a_file_under_anothers_name_is_not_taken(cache, monkeypatch):
    made = counted(monkeypatch)
    other = SEVEN.replace("ret i64 7", "ret i64 8")
    machine.compile_module(SEVEN, target.host(), ["seven"])
    (seven,) = cache.glob("*.o")
    machine.compile_module(other, target.host(), ["seven"])
    (eight,) = set(cache.glob("*.o")) - {seven}
    eight.write_bytes(seven.read_bytes())
    machine._loaded.clear()
    assert call(machine.compile_module(other, target.host(), ["seven"]), "seven") == 8
    assert len(made) == 3


def test_well_formed_nonsense_is_made_anew(cache):
    key = object_cache.key(SEVEN, target.host(), machine.OPTIMIZATION)
    object_cache.write(object_cache.file_for(key), key, b"not object code at all")
    assert call(machine.compile_module(SEVEN, target.host(), ["seven"]), "seven") == 7


@pytest.mark.skipif(os.name != "posix", reason="POSIX has such things")
@pytest.mark.parametrize("what", ["a pipe", "a folder", "a huge file", "a link to nothing"])
def test_what_else_lies_in_the_place_of_a_file_is_not_read(cache, what):
    place = object_cache.file_for(object_cache.key(SEVEN, target.host(), machine.OPTIMIZATION))
    if what == "a pipe":
        os.mkfifo(place)  # whoever opens one to read waits for a writer
    elif what == "a folder":
        place.mkdir()
    elif what == "a huge file":
        with open(place, "wb") as file:
            file.truncate(1 << 40)  # takes no room on the disk, but would in memory
    else:
        place.symlink_to(cache / "nothing")
    assert call(machine.compile_module(SEVEN, target.host(), ["seven"]), "seven") == 7
    assert place.is_dir() if what == "a folder" else place.is_file() and place.stat().st_size < 1 << 20


@pytest.mark.parametrize("how", ["none", "a file", "forbidden", "anyone's"])
def test_without_a_usable_folder_it_works_too(tmp_path, monkeypatch, how):
    folder = tmp_path / "cache"
    if how == "a file":
        folder.write_text("in the way")
    elif how == "forbidden":
        if os.name != "posix" or os.getuid() == 0:
            pytest.skip("nothing is forbidden to this user")
        tmp_path.chmod(0o500)
    elif how == "anyone's":
        if os.name != "posix":
            pytest.skip("rights are POSIX's")
        folder.mkdir()
        folder.chmod(0o777)
    monkeypatch.setenv("MINITORCH_CACHE", "" if how == "none" else str(folder))
    machine._loaded.clear()
    assert call(machine.compile_module(SEVEN, target.host(), ["seven"]), "seven") == 7
    assert how == "a file" or not list(folder.glob("*"))


@pytest.mark.parametrize("value", ["", "off", "OFF", "0", "none", " none "])
def test_the_folder_can_be_switched_off(tmp_path, monkeypatch, value):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINITORCH_CACHE", value)
    machine._loaded.clear()
    assert call(machine.compile_module(SEVEN, target.host(), ["seven"]), "seven") == 7
    assert object_cache.folder() is None
    assert not list(tmp_path.iterdir())


def test_a_relative_folder_is_one_folder_wherever_the_program_goes(tmp_path, monkeypatch):
    name = f"objects-{tmp_path.name}"  # (what a name stands for is remembered: no other test may use it)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MINITORCH_CACHE", name)
    machine._loaded.clear()
    machine.compile_module(SEVEN, target.host(), ["seven"])
    monkeypatch.chdir(elsewhere)
    machine.compile_module(SEVEN.replace("7", "8"), target.host(), ["seven"])
    assert object_cache.folder() == tmp_path / name
    assert len(list((tmp_path / name).glob("*.o"))) == 2
    assert not list(elsewhere.iterdir())


def test_the_oldest_files_go_first(cache):
    cache.mkdir()
    now = time.time()
    for age in range(5):
        (cache / f"{age}.o").write_bytes(bytes(100))
        os.utime(cache / f"{age}.o", (now - age, now - age))
    (cache / ".dead.part").write_bytes(b"x")
    os.utime(cache / ".dead.part", (0, 0))
    (cache / ".live.part").write_bytes(b"x")
    object_cache.trim(cache, 250)
    assert sorted(p.name for p in cache.glob("*.o")) == ["0.o", "1.o"]
    assert [p.name for p in cache.glob(".*.part")] == [".live.part"]


@pytest.mark.slow
def test_many_processes_share_one_folder(cache):
    script = """
from minitorch.compiler.backends.llvm import machine, target
import ctypes
for i in range(8):
    text = "define i64 @f() {\\n  ret i64 " + str(i) + "\\n}\\n"
    code = machine.compile_module(text, target.host(), ["f"])
    assert ctypes.CFUNCTYPE(ctypes.c_int64)(code.address("f"))() == i
"""
    processes = [subprocess.Popen([sys.executable, "-c", script]) for _ in range(3)]
    assert [process.wait(60) for process in processes] == [0, 0, 0]
    assert len(list(cache.glob("*.o"))) == 8
    assert not list(cache.glob("*.part"))


# --- running ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("release", [False, True])
def test_arguments_reach_the_kernels(code, either_entry, release):
    run = adder(code, release=release).entry
    a, b, out = np.arange(5.0), np.ones(5), np.zeros(5)
    assert run(out, a, b) is None
    np.testing.assert_array_equal(out, a + 1)
    # Fresh arrays at each call; a view, and a subclass of ndarray.
    big = np.zeros((3, 5))
    assert run(big[1], a, np.full(5, 2.0)) is None
    np.testing.assert_array_equal(big, [np.zeros(5), a + 2, np.zeros(5)])

    class Mine(np.ndarray):
        pass

    assert run(out, a.view(Mine), a) is None
    np.testing.assert_array_equal(out, 2 * a)


def test_tables_know_the_arena_constants_offsets_and_floats(code, either_entry):
    constant = np.arange(20.0)[::2]  # not in order: copied
    runner = Runner(
        [External(0), External(1, 16), Arena(64), Constant(constant), Constant(constant, 8), External(2)],
        [
            Step(code.address("add"), (2, 1, 3), 5),  # arena = x[2:] + constant
            Step(code.address("add"), (0, 2, 4), 5),  # out = arena + constant[1:]
            Step(code.address("add"), (0, 0, 5), 1),  # out[0] += the float
        ],
        arena=64 + 5 * 8,
        externals=3,
        keep=[code],
    )
    x = np.arange(7.0)
    out = np.zeros(5)
    expected = x[2:] + constant[:5] + constant[1:6]
    constant[:] = 0  # theirs to change, without consequence
    for number in (100.0, np.float64(0.5)):
        assert runner.entry(out, x, number) is None
        np.testing.assert_array_equal(out - expected, [float(number), 0, 0, 0, 0])


def test_a_float_is_there_in_single_precision_too(code, either_entry):
    seen = []
    look = PythonKernel(
        lambda at: seen.append((array_at(at[0], (), "f8").item(), array_at(at[1], (), "f4").item())), 2
    )
    runner = Runner(
        [External(0), External(0, 8)], [Step(look.address, (0, 1))], externals=1, keep=[look], release=True
    )
    runner.entry(0.1)
    assert seen == [(0.1, float(np.float32(0.1)))]


def test_wrong_arguments_raise(code, either_entry):
    for release in (False, True):
        run = adder(code, release=release).entry
        x = np.zeros(5)
        for arguments in ((), (x, x), (x, x, x, x)):
            with pytest.raises(TypeError, match="number of arguments"):
                run(*arguments)
        for wrong in (1, None, [1.0], "x", np.float32(1)):
            with pytest.raises(TypeError, match="NumPy arrays and Python floats"):
                run(x, x, wrong)
        with pytest.raises(TypeError):
            run(x, x, b=x)
        assert run(x, x, x) is None  # the lock was given back


def test_programs_that_cannot_be_are_refused(code):
    add = code.address("add")
    for table, step in (
        ([External(1)], Step(add)),
        ([Arena(100)], Step(add)),
        ([External(0)], Step(add, (0, 1))),
        ([External(0)], Step(add, (0,), -1)),
        ([External(0)], Step(0)),
    ):
        with pytest.raises(ValueError, match=r"External|Arena|Step"):
            Runner(table, [step], externals=1, arena=64)


def test_the_arena_begins_on_a_cache_line(code):
    seen = []
    look = PythonKernel(lambda at: seen.append(at[0]), 1)
    for size in (1, 100, 1 << 16):
        Runner([Arena(0)], [Step(look.address, (0,))], arena=size, keep=[look], release=True).entry()
    assert all(address % 64 == 0 for address in seen)


def test_an_empty_program_and_steps_without_units(code, either_entry):
    assert Runner([], []).entry() is None
    out = np.zeros(3)
    runner = Runner(
        [External(0)], [Step(code.address("add"), (0, 0, 0), 0, p) for p in (False, True)], externals=1
    )
    assert runner.entry(out) is None


@pytest.mark.parametrize("parallel", [False, True])
def test_a_nonzero_code_stops_the_program(code, either_entry, two_threads, parallel):
    bad, counts, by = np.array([13]), np.zeros(4, np.int64), np.zeros(4, np.int64)
    mark = Step(code.address("mark"), (1, 2), 4)
    runner = Runner(
        [External(0), External(1), External(2)],
        [mark, Step(code.address("fail"), (0,), 100, parallel, label="the bad one"), mark],
        externals=3,
        keep=[code],
    )
    assert runner.entry(bad, counts, by) == 77
    assert runner.failed.label == "the bad one"
    np.testing.assert_array_equal(counts, 1)
    bad[0] = -1
    assert runner.entry(bad, counts, by) is None
    np.testing.assert_array_equal(counts, 3)


def test_python_functions_as_kernels(code, either_entry):
    def double(addresses):
        x = array_at(addresses[0], (5,), "f8")
        x *= 2
        if x[0] < 0:
            raise ValueError("negative")

    step = PythonKernel(double, 1)
    with pytest.raises(ValueError, match="release=True"):
        Runner([External(0)], [Step(step.address, (0,))], externals=1, keep=[step])
    runner = Runner([External(0)], [Step(step.address, (0,))], externals=1, keep=[step], release=True)
    x = np.arange(5.0)
    assert runner.entry(x) is None
    np.testing.assert_array_equal(x, [0, 2, 4, 6, 8])
    assert runner.entry(-x - 1) == PythonKernel.FAILED
    assert str(step.error) == "negative"


def test_steps_are_timed_on_demand(code):
    runner = Runner([], [Step(code.address("slow"), (), n) for n in (1, 20)], keep=[code])
    runner.entry()
    assert runner.times == [0, 0]
    runner.measure()
    for _ in range(3):
        runner.entry()
    short, long = runner.times
    assert 1e-7 < short < long < 1
    runner.measure(False)
    runner.entry()
    assert runner.times == [0, 0]


# --- threads ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 2, 3, 5])
@pytest.mark.parametrize("grain", [0, 1, 7, 1000])
def test_each_unit_is_done_once(code, count, grain):
    threads.set_threads(count)
    try:
        for units in (1, 2, 10, 503):
            counts, by = np.zeros(units, np.int64), np.full(units, -1)
            runner = Runner(
                [External(0), External(1)],
                [Step(code.address("mark"), (0, 1), units, True, grain)] * 20,
                externals=2,
                keep=[code],
            )
            runner.entry(counts, by)
            np.testing.assert_array_equal(counts, 20)
            assert by.min() >= 0
            assert by.max() < count
        assert runtime.runtime().pool.started <= count
    finally:
        threads.set_threads(None)


def test_both_threads_take_part(code, two_threads):
    counts, by = np.zeros(64, np.int64), np.zeros(64, np.int64)
    table = [External(0), External(1)]
    steps = [
        Step(code.address("slow"), (), 64, True, 1),
        Step(code.address("mark"), (0, 1), 64, True, 1),
    ]
    runner = Runner(table, steps * 10, externals=2, keep=[code])
    seen = set()
    until = time.monotonic() + 60  # the other core may be busy for a while
    while seen != {0, 1} and time.monotonic() < until:
        runner.entry(counts, by)
        seen |= set(by.tolist())
    assert seen == {0, 1}


def test_the_pool_wakes_after_sleeping(code, two_threads):
    counts, by = np.zeros(100, np.int64), np.zeros(100, np.int64)
    runner = Runner(
        [External(0), External(1)],
        [Step(code.address("mark"), (0, 1), 100, True)],
        externals=2,
        keep=[code],
    )
    for i in range(1, 51):
        time.sleep(0.001)
        runner.entry(counts, by)
        np.testing.assert_array_equal(counts, i)


@pytest.mark.parametrize("release", [False, True])
def test_programs_run_in_many_python_threads(code, two_threads, release):
    """Each with its own program, and all with one that has one arena."""
    shared = Runner(
        [External(0), Arena(0), External(1)],
        [Step(code.address("add"), (1, 2, 2), 1000, True), Step(code.address("add"), (0, 1, 2), 1000)],
        arena=8000,
        externals=2,
        keep=[code],
        release=release,
    )
    wrong = []

    def work(number):
        own = Runner(
            [External(0), Arena(0), External(1)],
            [
                Step(code.address("add"), (1, 2, 2), 1000, True),
                Step(code.address("add"), (0, 1, 2), 1000),
            ],
            arena=8000,
            externals=2,
            keep=[code],
            release=release,
        )
        x, out = np.full(1000, float(number)), np.zeros(1000)
        for _ in range(300):
            for runner in (own, shared):
                out[:] = -1
                code_ = runner.entry(out, x)
                if code_ is not None or (out != 3 * number).any():
                    wrong.append((number, runner is own, code_))

    workers = [threading.Thread(target=work, args=(n,)) for n in range(5)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert not wrong


@pytest.mark.slow
def test_starting_and_stopping_beside_running_programs(code, two_threads):
    stop = threading.Event()
    wrong = []

    def work():
        counts, by = np.zeros(256, np.int64), np.zeros(256, np.int64)
        runner = Runner(
            [External(0), External(1)],
            [Step(code.address("mark"), (0, 1), 256, True, 1)] * 20,
            externals=2,
            keep=[code],
            release=True,
        )
        while not stop.is_set():
            counts[:] = 0
            runner.entry(counts, by)
            if (counts != 20).any():
                wrong.append(counts)

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for i in range(60):
        threads.set_threads(2 + i % 2)
        time.sleep(0.002)
    stop.set()
    for worker in workers:
        worker.join(60)
    assert not wrong


def test_how_many_threads(monkeypatch):
    with pytest.raises(ValueError, match="between 1 and 64"):
        threads.set_threads(0)
    threads.set_threads(3)
    assert threads.threads() == 3
    threads.set_threads(None)
    for given, expected in (("1", 1), ("5", 5), ("2,1", 2), ("1000", 64)):
        monkeypatch.setenv("OMP_NUM_THREADS", given)
        threads._default_threads.cache_clear()
        assert threads.threads() == expected
    for given in ("", "zero", "0", "-1"):
        monkeypatch.setenv("OMP_NUM_THREADS", given)
        threads._default_threads.cache_clear()
        assert 1 <= threads.threads() <= 8
    monkeypatch.undo()
    threads._default_threads.cache_clear()


def test_systems_without_a_futex_poll(code):
    """The pool as another system than Linux would have it, run here."""
    if not target.host().is_x86 or sys.platform == "win32":
        pytest.skip("made for x86 with POSIX")
    elsewhere = target.Target(target.host().name, target.host().features, "x86_64-unknown-freebsd")
    text = threads.text(elsewhere)
    assert "@syscall" not in text
    if sys.platform != "linux":
        pytest.skip("it is what runs here anyway")
    built = machine.compile_module(text, target.host(), threads.EXPORTS)
    pool = threads.ThreadPool(built)
    threads.set_threads(2)
    try:
        pool.start()
        counts, by = np.zeros(100, np.int64), np.zeros(100, np.int64)
        table, slots = np.array([counts.ctypes.data, by.ctypes.data]), np.array([0, 1])
        step = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 8)(built.address("pool_step"))
        for i in range(1, 31):
            time.sleep(0.0005 * (i % 4))
            addresses = pool.address, code.address("mark"), table.ctypes.data, slots.ctypes.data
            assert step(*addresses, 100, 1, True, 2) == 0
            np.testing.assert_array_equal(counts, i)
        begin = time.perf_counter()
        pool.stop()
        assert time.perf_counter() - begin < 1
    finally:
        pool.close()
        threads._pools.remove(pool)
        threads.set_threads(None)


# --- lifetimes ----------------------------------------------------------------------------------------------


def test_memory_goes_with_the_runner(code):
    def build():
        return Runner(
            [Arena(0), Constant(np.ones(1000))],
            [Step(code.address("add"), (0, 0, 1), 1000)],
            arena=1 << 20,
            keep=[code],
        )

    build().entry()
    gc.collect()
    gc.disable()  # no cycles: it goes at once
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(50):
            build().entry()
        after, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert after - before < 50_000
    assert peak - before < 3 << 20


def test_the_entry_alone_keeps_everything_it_needs(cache):
    code = machine.compile_module(ADD, target.host(), ["add"])
    reference = weakref.ref(code)
    run = adder(code).entry
    del code
    gc.collect()
    out = np.zeros(5)
    for _ in range(100):
        assert run(out, np.arange(5.0), np.ones(5)) is None
    np.testing.assert_array_equal(out, np.arange(5.0) + 1)
    assert reference() is not None
    del run
    gc.collect()
    assert reference() is None


@pytest.mark.parametrize("release", [False, True])
def test_references_are_given_back(code, either_entry, release):
    run = adder(code, release=release).entry
    x, number, method = np.zeros(5), 1.5e10, runtime.runtime().start
    objects = [x, number, run, method, np.ndarray]
    before = [sys.getrefcount(o) for o in objects]
    nothing = sys.getrefcount(None)
    for _ in range(10_000 if either_entry == "slow" else 100_000):
        run(x, x, x)
    for _ in range(1000):
        run(x, x, number)
        with pytest.raises(TypeError):
            run(x)
        with pytest.raises(TypeError):
            run(x, x, "x")
    assert [sys.getrefcount(o) for o in objects] == before
    assert abs(sys.getrefcount(None) - nothing) < 1000


def test_objects_lie_as_the_entry_reads_them():
    if sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)():
        assert runtime.objects_are_as_expected()


PROGRAM = f"""
import os, sys, threading, time
import numpy as np
sys.path.insert(0, {os.path.dirname(__file__)!r})
from test_llvm_runtime import *

threads.set_threads(2)
code = machine.compile_module(ADD + MARK + SLOW + FAIL, target.host(), NAMES)
counts, by = np.zeros(100, np.int64), np.zeros(100, np.int64)
runner = Runner(
    [External(0), External(1)], [Step(code.address("mark"), (0, 1), 100, True, 1)] * 5, externals=2, keep=[code],
    release=True,
)

def check():
    counts[:] = 0
    assert runner.entry(counts, by) is None
    assert (counts == 5).all()

check()
assert runtime.runtime().pool.started == 2
"""


def finishes(script, status=0):
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM + script], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == status, done.stderr
    assert not done.stderr
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "status"),
    [
        ("", 0),
        ("time.sleep(0.01)", 0),  # the worker sleeps
        ("sys.exit(3)", 3),
        ("os._exit(4)", 4),
        # A daemon thread that never stops calling.
        ("""
def forever():
    mine, whose = np.zeros(100, np.int64), np.zeros(100, np.int64)
    while True:
        runner.entry(mine, whose)
threading.Thread(target=forever, daemon=True).start()
time.sleep(0.02)
""", 0),
        # Used once more while Python shuts down.
        ("import atexit; atexit.register(check)", 0),
        ("""
class Late:
    def __del__(self, check=check):
        check()
late = Late()
""", 0),
    ],
    ids=["awake", "asleep", "exit", "_exit", "busy", "atexit", "late"],
)  # fmt: skip
def test_python_ends_as_ever(script, status):
    finishes(script, status)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_and_its_parent_go_on():
    script = """
def child():
    check()
    assert runtime.runtime().pool.started == 2
    os._exit(0)

import warnings
warnings.simplefilter("ignore", DeprecationWarning)  # Python's, of any fork beside any thread
for _ in range(5):
    process = os.fork()
    if not process:
        try:
            child()
        finally:
            os._exit(1)
    assert os.waitpid(process, 0)[1] == 0
    check()
    assert runtime.runtime().pool.started == 2

# While other threads are in the middle of programs, that one included whose lock they hold.
stop = False
def busy():
    mine, whose = np.zeros(100, np.int64), np.zeros(100, np.int64)
    while not stop:
        runner.entry(mine, whose)
workers = [threading.Thread(target=busy) for _ in range(2)]
for worker in workers:
    worker.start()
for _ in range(10):
    process = os.fork()
    if not process:
        try:
            child()
        finally:
            os._exit(1)
    assert os.waitpid(process, 0)[1] == 0
stop = True
for worker in workers:
    worker.join()
print("well")
"""
    assert finishes(script) == "well\n"
