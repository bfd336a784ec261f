"""Scheduling, without any machine code: the device of the tests carries schedules out to the letter.

What it gives must be what the program means, whatever a machine's figures; and a mistake in a schedule must show.
"""

import cProfile
import pstats
from dataclasses import replace

import numpy as np
import pytest

from device_backend import Device, Machine
from minitorch.compiler.ir import builder as b
from minitorch.compiler.ir.program import Program, interpret
from minitorch.compiler.schedule import memory, order, schedule, updates
from minitorch.compiler.schedule.fuse import fuse_values
from minitorch.compiler.schedule.groups import Contradiction, Group
from random_ir import F4, I8, RandomProgram, close, given, some


def device(fuse=True, **figures):
    """The device with other figures."""
    made = Device()
    made.fuse = fuse
    made.machine = Machine()
    made.machine.figures = replace(Machine.figures, **figures)
    return made


def run(outputs, inputs, arrays, updates=None, on=None):
    """Run on the device, compare with the interpreter; return the program."""
    updates = updates or {}
    program = Program(inputs, outputs)
    want = interpret(program, [a.copy() for a in arrays])
    single = any(v.dtype == F4 for v in program.values())
    made = (on or device()).build(program, updates)
    mine = [np.array(a, order="C") for a in arrays]
    for number, (got, expected) in enumerate(zip(made(mine), want, strict=True)):
        got = mine[updates[number]] if number in updates else got
        close(got, np.asarray(expected), f"output {number}", 50, single)
    for number, (before, after) in enumerate(zip(arrays, mine, strict=True)):
        if number not in updates.values():
            np.testing.assert_array_equal(before, after)
    return made


def run_random(seed, on):
    made = RandomProgram(seed)
    return run(made.outputs, made.inputs, made.arrays, made.updates, on)


def random_figures(seed):
    rng = np.random.default_rng(seed)
    choices = {
        "serial_elements": [4, 12, 64, 1 << 14],
        "most_blocks": [1, 2, 5],
        "column_bytes": [16, 256, 1 << 18],
        "largest_group": [3, 12, 400],
        "longest_epilogue": [0, 3, 20],
        "grained_elements": [1, 16, 4096],
        "cheap": [0.0, 2.0, 30.0],
        "far_bytes": [16, 1 << 20],
        "few_bytes": [0, 64, 1 << 14],
    }
    return {name: rng.choice(values).item() for name, values in choices.items()}


@pytest.mark.parametrize("block", range(4))
def test_random_programs_mean_the_same_whatever_the_figures(block):
    for seed in range(3000 + block * 15, 3015 + block * 15):
        run_random(seed, device(fuse=False))
        made = run_random(seed, device(**random_figures(seed)))
        assert "failed" not in str(made.report.unfused)


# --- would the device notice? ---------------------------------------------------------------------------------


def assert_noticed(seeds=range(40)):
    """With a mistake in place, some random program goes wrong."""
    with pytest.raises((AssertionError, KeyError)):
        for seed in seeds:
            run_random(seed, device())


class ShortLifetime(memory.Lifetime):
    """One that is over a step before its last reader's."""

    @property
    def last(self):
        return max(self.first, self._last - 1)

    @last.setter
    def last(self, step):
        self._last = step


def test_values_that_give_up_their_place_too_early(monkeypatch):
    monkeypatch.setattr(memory, "Lifetime", ShortLifetime)
    assert_noticed()


def test_groups_in_a_wrong_order(monkeypatch):
    monkeypatch.setattr(order, "_sorted", lambda groups, stage: sorted(groups, key=lambda g: -g.number))
    monkeypatch.setattr(order, "_released_early", lambda grouping, groups, kept, stage: groups)
    assert_noticed()


def test_updates_written_over_what_is_still_read(monkeypatch):
    monkeypatch.setattr(updates, "_in_place", lambda grouping, value, source: True)
    assert_noticed()


def test_values_that_nobody_stores(monkeypatch):
    stored = schedule.stored_values

    def all_but_one(fuser):
        found = sorted(stored(fuser), key=lambda value: value.number)
        inner = [v for v in found if v not in fuser.program.outputs and v.primitive == "map"]
        return set(found) - {
            v for v in inner[:1] if fuser.machine.cost(v.attributes["function"], v.dtype) > 1
        }

    # What is not stored is computed again, from what may be gone by then.
    monkeypatch.setattr(schedule, "stored_values", all_but_one)
    assert_noticed(range(200))


def grown_indices():
    """Indices are made one larger, in place, and then used to pick from four numbers."""
    index, numbers = given((2,)), given((4,))
    grown = b.map_values("add", index, b.full((2,), 1, F4))
    picked = b.gather(b.map_values("exp", numbers), b.cast(grown, I8), 0)
    return device().build(Program([index, numbers], [grown, picked]), {0: 0})


def test_an_update_made_before_an_index_is_looked_at(monkeypatch):
    monkeypatch.setattr(updates, "MAY_FAIL", ())
    with pytest.raises(AssertionError, match="argument 0 was changed"):
        grown_indices()([np.array([0, 8], np.float32), np.ones(4, np.float32)])


def test_an_index_out_of_range_changes_nothing():
    made = grown_indices()
    assert made.may_fail
    assert len(made.report.copied) == 1
    index = np.array([0, 8], np.float32)
    with pytest.raises(IndexError, match="outside of an axis of length 4"):
        made([index, np.ones(4, np.float32)])
    np.testing.assert_array_equal(index, [0, 8])
    index[1] = 2
    made([index, np.ones(4, np.float32)])
    np.testing.assert_array_equal(index, [1, 3])


# --- what figures do ----------------------------------------------------------------------------------------------


def scheduled(outputs, inputs, **figures):
    machine = device(**figures).machine
    return schedule.schedule_program(Program(inputs, outputs), machine, {})


def kinds(made):
    return [group.kind for group in made.groups]


def dense(rows=6):
    """A layer: a product, a bias and tanh."""
    x, w, bias = given((rows, 5)), given((5, 4)), given((4,))
    return [b.map_values("tanh", b.map_values("add", b.matmul(x, w), bias))], [x, w, bias]


def test_a_product_takes_what_follows_it_in_unless_a_library_computes_it():
    assert kinds(scheduled(*dense(), longest_epilogue=3)) == ["contract"]
    assert kinds(scheduled(*dense(), longest_epilogue=0)) == ["contract", "loop"]


def test_what_meets_far_memory_after_a_product_has_a_loop_of_its_own():
    """A step of gradient descent: p - 0.1·(xᵀ @ g), with momentum, p and m given."""
    p, m, x, g = map(given, [(6, 5), (6, 5), (7, 6), (7, 5)])
    gradient = b.contract("ba,bc->ac", x, g)
    rate = b.constant(np.float32(0.1))
    kept = b.map_values("add", b.map_values("multiply", m, rate), gradient)
    outputs = [gradient, kept, b.map_values("subtract", p, b.map_values("multiply", kept, rate))]
    assert kinds(scheduled(outputs, [p, m, x, g], longest_epilogue=20, far_inputs=1 << 20)) == ["contract"]
    assert kinds(scheduled(outputs, [p, m, x, g], longest_epilogue=20, far_inputs=6 * 5 * 4)) == [
        "contract",
        "loop",
    ]
    # A bias is small, and stays.
    assert kinds(scheduled(*dense(), longest_epilogue=3, far_inputs=6 * 4 * 4)) == ["contract"]


def test_a_group_is_as_large_as_the_machine_allows():
    x = given((8,))
    value = x
    for _ in range(10):
        value = b.map_values("tanh", value)
    assert [len(g.members) for g in scheduled([value], [x], largest_group=400).groups] == [10]
    assert max(len(g.members) for g in scheduled([value], [x], largest_group=3).groups) <= 4


def test_large_sums_are_done_in_blocks_and_small_ones_are_not():
    x = given((64, 3))
    total = b.reduce("add", b.map_values("square", x), (0, 1))
    assert [g.blocks for g in scheduled([total], [x], serial_elements=1000).groups] == [1]
    assert [g.blocks for g in scheduled([total], [x], serial_elements=8, most_blocks=4).groups] == [4, 1]


def test_what_is_cheap_is_computed_again_and_what_is_not_is_stored():
    x, y = given((6, 5)), given((6, 5))
    doubled = b.map_values("add", x, x)
    turned = b.map_values("multiply", b.flip(doubled, (0,)), y)
    outputs = [b.map_values("exp", doubled), turned]
    assert len(scheduled(outputs, [x, y], cheap=2.0).stored) == 2
    stored = scheduled(outputs, [x, y], cheap=0.0, far_bytes=1 << 30)
    assert len(stored.stored) == 3
    assert list(stored.report.unfused) == ["the two go through their elements in different ways"]


def test_what_the_machine_does_not_compute_numpy_does():
    made = device()
    made.machine.computes = lambda value: (
        value.primitive != "contract" and Machine.computes(made.machine, value)
    )
    rng = np.random.default_rng(0)
    outputs, inputs = dense()
    built = run(outputs, inputs, [some(rng, v.shape) for v in inputs], on=made)
    assert len(built.report.called_back) == 1


# --- why two groups are not one -----------------------------------------------------------------------------------


def test_the_report_says_why_a_value_goes_through_memory():
    x = given((6, 8))
    up = b.map_values("exp", x)
    turned = b.map_values("multiply", b.reshape(up, (8, 6)), b.permute(up, (1, 0)))
    made = scheduled([turned], [x])
    assert made.report.unfused
    assert all(reason and words for reason, words in made.report.unfused.items())
    outputs, inputs = dense()
    hidden = b.matmul(outputs[0], given((4, 3)))
    assert "a product reads its factors from memory" in scheduled([hidden], [*inputs]).report.unfused


def test_groups_that_wait_for_each_other_are_a_contradiction():
    first, second = Group(0, "loop"), Group(1, "loop")
    first.ancestors, second.ancestors = second.bit, first.bit
    first.members = second.members = [given((1,))]
    with pytest.raises(Contradiction, match="wait for each other"):
        order._sorted([first, second], {first: 0, second: 0})


def test_without_fusing_every_value_has_a_group_of_its_own():
    outputs, inputs = dense()
    fuser = fuse_values(Program(inputs, outputs), Machine(), fuse=False)
    assert [len(g.members) for g in fuser.groups] == [1, 1, 1]


def test_memory_is_shared_between_values_that_do_not_meet():
    x = given((64, 64))
    value = x
    for _ in range(8):
        value = b.map_values("tanh", b.matmul(value, value))
    made = run([value], [x], [some(np.random.default_rng(0), (64, 64)) * np.float32(0.1)])
    assert made.report.arena <= 3 * 64 * 64 * 4 < made.report.unshared


# --- how long it takes ----------------------------------------------------------------------------------------


def a_long_sum(terms):
    x = given((8,))
    total = x
    for i in range(terms):
        total = b.map_values("add", total, b.map_values("multiply", x, b.constant(np.full(8, i + 1.5, F4))))
    return [total], [x]


def many_layers(count):
    x, *weights = inputs = [given((4, 8)), *(given((8, 8)) for _ in range(count))]
    for w in weights:
        x = b.map_values("tanh", b.matmul(x, w))
    return [x], inputs


@pytest.mark.parametrize("make", [a_long_sum, many_layers])
def test_scheduling_takes_time_linear_in_the_size(make):
    """Counted in calls, not in seconds; twice as many would be four times as much if it were quadratic."""

    def calls(size):
        outputs, inputs = make(size)
        profile = cProfile.Profile()
        profile.runcall(scheduled, outputs, inputs, largest_group=100)
        return pstats.Stats(profile).total_calls

    assert calls(800) < 2.3 * calls(400)
