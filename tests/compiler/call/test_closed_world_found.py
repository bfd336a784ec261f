"""What random histories (tests/support/histories.py) and programs written by hand have found, each as a few lines."""

import abc
import functools
import logging
import math
import warnings
from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn, optim
from minitorch.compiler.call.compiled import CompileWarning, Disagreement
from scenarios import both, plain


@dataclass
class Batch:
    u: object


def warned(compile):
    """Expect to be told that something runs as it is."""
    return nullcontext() if compile is plain else pytest.warns(CompileWarning)


def test_a_container_from_outside_is_returned_itself(compile):
    def scenario(compile):
        log, tensors, table = [], [mt.ones(2)], {"a": 1.0}

        @compile
        def f(x):
            log.append(1)
            return x * 2, log, {"inside": [tensors, table]}

        found = [f(mt.ones(2)) for _ in range(4)]
        assert all(log is same for _, same, _ in found)
        assert all(d["inside"][0] is tensors and d["inside"][1] is table for *_, d in found)
        if compile is not plain:
            assert f.compilations == 1
        return log, [h for h, *_ in found]

    both(scenario, compile)


def test_a_container_from_outside_is_stored_itself(compile):
    def scenario(compile):
        class Box:
            pass

        box, shared = Box(), [1, 2]

        @compile
        def f(x):
            box.held = shared
            return x * 2

        for _ in range(3):
            f(mt.ones(2))
            assert box.held is shared
        if compile is not plain:
            assert f.compilations == 1
        return shared

    both(scenario, compile)


def test_an_object_is_given_another_dict_of_attributes(compile):
    def scenario(compile):
        class Box:
            def __init__(self):
                self.k, self.count = 0.5, 0

        box = Box()

        @compile
        def f(x):
            box.count += 1
            return x * box.k

        @compile
        def g(x):
            vars(box)["seen"] = x * 2
            return x

        found = [(f(mt.ones(2)), g(mt.ones(2))) for _ in range(3)]
        box.__dict__ = {"k": 0.25, "count": 7}
        found += [(f(mt.ones(2)), g(mt.ones(2))) for _ in range(3)]
        return found, box.count, box.seen

    both(scenario, compile)


def test_a_new_container_that_stands_in_two_places_is_one(compile):
    def scenario(compile):
        class Box:
            pass

        box, log = Box(), []

        @compile
        def f(x):
            out = {"x": x * 2, "n": [1]}
            box.last = out
            log.append(out)
            return out, out["n"]

        for i in range(4):
            out, numbers = f(mt.ones(2) * i)
            assert out is box.last is log[-1]
            assert out["n"] is numbers
        return log

    both(scenario, compile)


@pytest.mark.parametrize("how", ["item", "in place", "fill", "out", "view", "from_numpy"])
def test_an_array_among_the_arguments_is_written_into(compile, how):
    def write(y):
        if how == "item":
            y[0] = 0.25
        elif how == "in place":
            y += 1
        elif how == "fill":
            y.fill(3)
        elif how == "out":
            np.add(y, 1, out=y)
        elif how == "view":
            y.T[0] = 7
        else:
            mt.from_numpy(y).add_(1)

    def scenario(compile):
        @compile
        def f(x, y):
            write(y)
            return x + mt.tensor(y)

        found = []
        for i in range(4):
            y = np.arange(6.0).reshape(2, 3) * i
            found += [f(mt.ones(3), y), y]
        if compile is not plain:
            assert f.compilations == 1
        return found

    both(scenario, compile)


def test_a_method_that_cannot_be_recorded_of_an_array_among_the_arguments(compile):
    def scenario(compile):
        @compile
        def f(x, y):
            y.sort()
            return x * 2

        y = np.array([3.0, 1.0, 2.0])
        with warned(compile):
            return f(mt.ones(2), y), y

    both(scenario, compile)


def test_a_key_that_a_dict_makes_up(compile):
    def scenario(compile):
        class Odd(dict):
            def __missing__(self, key):
                return 0.5

        odd = Odd()
        f = compile(lambda x: x * odd["q"])
        found = [f(mt.ones(2)), f(mt.ones(2))]
        odd["q"] = 0.8
        found.append(f(mt.ones(2)))
        del odd["q"]
        Odd.__missing__ = lambda self, key: 0.25
        return [*found, f(mt.ones(2))]

    both(scenario, compile)


def test_numbers_seen_through_a_view_of_a_dict(compile):
    def scenario(compile):
        table = {1: 0.5, "a": 1.5}
        f = compile(lambda x: x * sum(v for v in table.values()))
        found = [f(mt.ones(2))]
        table[1] = 0.75
        found.append(f(mt.ones(2)))
        table[1] = mt.ones(2)
        return [*found, f(mt.ones(2))]

    both(scenario, compile)


@pytest.mark.parametrize("other", [1, True, np.float32(0.5), "tensor"])
def test_a_number_that_becomes_one_of_another_type(compile, other):
    def scenario(compile):
        numbers = [0.5]
        f = compile(lambda x: x * numbers[0])
        found = []
        for i in range(6):
            numbers[0] = 0.5 + i if i < 4 else mt.ones(2) if other == "tensor" else other
            found.append(f(mt.ones(2, dtype=mt.int64)))
        return found

    both(scenario, compile)


def test_an_argument_that_an_optimiser_has_too(compile):
    def scenario(compile):
        kept = nn.Parameter(mt.ones(2))
        w, optimizer = kept, optim.Adam([kept], lr=0.1)

        @compile
        def f(x, w):
            optimizer.zero_grad()
            (x * w).sum().backward()
            optimizer.step()

        for _ in range(3):
            f(mt.ones(2), w)
        w = nn.Parameter(mt.ones(2))
        for _ in range(3):
            f(mt.ones(2), w)
        return kept, w, optimizer.state[kept]["step"]

    both(scenario, compile)


def test_a_record_among_the_arguments_is_changed(compile):
    def scenario(compile):
        held = Batch(mt.ones(2))

        @compile
        def f(batch):
            batch.u = batch.u * 0.5
            return batch.u

        @compile
        def g(batch):
            held.u = held.u * 0.5
            return held.u + batch.u

        with warned(compile):
            return [f(held) for _ in range(3)], [g(held) for _ in range(3)], held.u

    both(scenario, compile)


def test_a_backward_that_is_not_asked_for_may_be_impossible(compile):
    def scenario(compile):
        b = mt.ones(2)

        @compile
        def f(x):
            h = x * b
            b[0] = 0.5
            return h

        with warned(compile):
            return [f(mt.ones(2, requires_grad=True)) for _ in range(3)], b

    both(scenario, compile)


def test_what_was_printed_before_an_error_stays_said(compile, capsys):
    @compile
    def f(x):
        print("before", f"{x.sum().item():.1f}")
        raise KeyError("x")

    for _ in range(2):
        with pytest.raises(KeyError):
            f(mt.ones(2))
        assert capsys.readouterr().out == "before 2.0\n"


def test_a_function_that_remembers_its_results_with_a_rate(compile):
    def scenario(compile):
        squared = functools.lru_cache(lambda k: k * k)
        w = nn.Parameter(mt.ones(2))
        optimizer = optim.SGD([w], lr=0.5)
        f = compile(lambda x: x * squared(optimizer.param_groups[0]["lr"]))
        found = []
        for i in range(4):
            optimizer.param_groups[0]["lr"] = 0.5 + i
            found.append(f(mt.ones(2)))
        return found

    both(scenario, compile)


def test_a_rate_that_is_a_tensor_and_a_schedule(compile):
    def scenario(compile):
        w = nn.Parameter(mt.ones(2))
        optimizer = optim.SGD([w], lr=mt.tensor(0.5))
        schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)

        @compile
        def f(x):
            optimizer.zero_grad()
            (x * w).sum().backward()
            optimizer.step()
            schedule.step()

        with warned(compile):
            for _ in range(4):
                f(mt.ones(2))
        return w, optimizer.param_groups[0]["lr"]

    both(scenario, compile)


def test_a_container_among_the_arguments_is_returned_and_stored_itself(compile):
    def scenario(compile):
        class Box:
            pass

        box = Box()

        @compile
        def f(x, batch, *, more):
            box.last = batch
            return x * batch[0]["k"], batch[0], more, [more.u]

        found = []
        for i in range(5):
            batch, more = [{"k": mt.ones(2) * i, "n": 3}], Batch([1.5])
            h, first, same, inside = f(mt.ones(2), batch, more=more)
            assert box.last is batch
            assert first is batch[0]
            assert same is more
            assert inside[0] is more.u
            found.append(h)
        if compile is not plain:
            assert f.compilations == 1
        return found

    both(scenario, compile)


def test_slices_of_a_list_from_outside_are_set_and_deleted(compile):
    def scenario(compile):
        names, log = ["a", "b", "c"], [1, 2]

        @compile
        def f(x, name):
            names[:] = [name, "z"]
            del log[2:]
            log.append(x * 2)
            return x

        for i in range(4):
            f(mt.ones(2) * i, "n")
        if compile is not plain:
            assert f.compilations == 1
        return names, log

    both(scenario, compile)


def test_a_call_without_the_number_that_is_an_input(compile):
    def scenario(compile):
        @compile
        def f(x, t=0.5):
            return x * t

        return [f(mt.ones(2), t=0.9), f(mt.ones(2), t=0.5), f(mt.ones(3)), f(mt.ones(2))]

    both(scenario, compile)


def test_a_number_that_changes_and_a_numpy_scalar(compile):
    def scenario(compile):
        class Stats:
            total = 0.0

        stats, level = Stats(), 0.5

        @compile
        def f(x):
            stats.total = stats.total + level
            return x * 2

        for _ in range(3):
            f(mt.ones(2))
        level = np.float32(0.25)
        with warned(compile):
            f(mt.ones(2))
            f(mt.ones(2))
        return type(stats.total).__name__, float(stats.total)

    both(scenario, compile)


def test_a_sum_is_written_into_the_gradient_whoever_had_it_before(compile):
    def scenario(compile):
        layer = nn.Linear(2, 2)
        optimizer = optim.SGD(layer.parameters(), lr=0.1)

        @compile
        def f(x):
            layer(x).pow(2).mean().backward()
            optimizer.step()

        f(mt.ones(3, 2))
        f(mt.ones(3, 2))
        held = layer.weight.grad
        f(mt.ones(3, 2))
        layer.float()
        f(mt.ones(3, 2))
        (layer.weight + layer.weight).sum().backward()
        f(mt.ones(3, 2))
        return held, layer.weight, layer.weight.grad, layer.bias.grad

    both(scenario, compile)


def test_one_tensor_in_two_places_that_change(compile):
    def scenario(compile):
        table = {"u": mt.ones(2), "w": mt.ones(2) * 2}
        f = compile(lambda x: x + table["u"] * 3 + table["w"])
        found = [f(mt.ones(2))]
        table["u"] = table["w"]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CompileWarning)
            found += [f(mt.ones(2)), f(mt.ones(2))]
            table["u"] = mt.ones(2) * 5
            found += [f(mt.ones(2)), f(mt.ones(2))]
            table["w"] = mt.ones(2) * 7
            found += [f(mt.ones(2)), f(mt.ones(2))]
            table["w"] = table["u"]
            found += [f(mt.ones(2)), f(mt.ones(2))]
            table["u"] = mt.ones(2) * 9
            found += [f(mt.ones(2)), f(mt.ones(2))]
        return found

    both(scenario, compile)


def _or_zero(function, n):
    try:
        return function(n)
    except ValueError:
        return 0.0


NUMBERS = {
    "divide": (lambda n, x: x * (1 / n), [3, 4, 5, 0, 2]),
    "divide a float": (lambda n, x: x * (1 / n), [3.0, 4.0, 5.0, 0.0, 2.0]),
    "whole division": (lambda n, x: x * (7 // n), [3, 4, 5, 0, 2]),
    "remainder": (lambda n, x: x * (7 % n), [3.0, 4.0, 5.0, 0.0, 2.0]),
    "log": (lambda n, x: x * math.log(n), [3.0, 4.0, 5.0, 0.0, -1.0, 2.0]),
    "exp": (lambda n, x: x * math.exp(n), [3.0, 4.0, 5.0, 1000.0, 2.0]),
    "log that is caught": (lambda n, x: x * _or_zero(math.log, n), [3.0, 4.0, 0.0, -1.0, 5.0, 6.0]),
    "power too large": (lambda n, x: x * 2.0**n, [3.0, 4.0, 5.0, 2000.0, 2.0]),
    "complex root": (lambda n, x: x * n**0.5, [3.0, 4.0, 5.0, -2.0, 2.0]),
    "square of a whole number": (lambda n, x: [mt.tensor([1, 2]) * n**2, n**2], [3, 4, 5, 6]),
    "power of two": (lambda n, x: x * 2**n, [3, 4, 5, 6]),
    "bits": (lambda n, x: [x * (n & 1), x * (1 << n)], [3, 4, 5, 6]),
    "divmod": (lambda n, x: [divmod(n, 3), x * divmod(n, 3)[0]], [3, 4, 5, 6]),
    "round": (lambda n, x: [round(n, 1), round(n)], [3, 4, 5, 6]),
    "methods": (lambda n, x: [x * n.bit_length(), n.__class__ is int], [3, 4, 50, 6]),
    "type": (lambda n, x: x * 2 if type(n) is int else x, [3, 4, 5.0, 6.0, 7]),
    "isinstance": (lambda n, x: x * 2 if isinstance(n, int) else x, [3, 4, 5.0, 6.0, 7]),
    "in a set": (lambda n, x: x * 2 if n in {3, 5, 7} else x, [3, 4, 5, 6, 7]),
    "an index": (lambda n, x: [x[n % 3], x[: n % 3], x[..., n % 2]], [3, 4, 5, 6, 7]),
    "sign of zero": (lambda n, x: x * math.copysign(1, n), [1.0, 2.0, -0.0, 0.0, -0.0]),
    "large": (lambda n, x: x * (n % 7), [10, 10**5, 10**16 + 1, 10**17 + 3, 10**19, 10**30]),
    "format by name": (lambda n, x: [f"{n:>5}|{n}", "%(a)s" % {"a": n}], [3, 4, 5, 6]),  # noqa: UP031
}


@pytest.mark.parametrize("what", NUMBERS)
@pytest.mark.filterwarnings("ignore::minitorch.compiler.call.compiled.CompileWarning")
def test_a_number_that_changes_computes_as_python_does(compile, what):
    function, values = NUMBERS[what]

    def scenario(compile):
        class Box:
            pass

        box, found = Box(), []

        @compile
        def f(x):
            return function(box.n, x)

        for n in values:
            box.n = n
            try:
                found.append(f(mt.arange(1.0, 4.0)))
            except (ArithmeticError, ValueError) as error:
                found.append([type(error), str(error)])
        return found

    both(scenario, compile)


def test_text_is_made_of_a_tensors_number_by_name(compile):
    def scenario(compile):
        said = []

        @compile
        def f(x):
            said.append("{loss:.2f}".format(loss=x.sum().item()))  # noqa: UP032
            said.append("%(loss).2f" % {"loss": x.sum().item()})  # noqa: UP031
            return x

        found = [f(mt.ones(2) * i) for i in range(4)]
        if compile is not plain:
            assert f.compilations == 1
        return found, said

    both(scenario, compile)


def test_attributes_of_a_metaclass_an_array_and_a_number_of_ones_own(compile):
    def scenario(compile):
        class Meta(type):
            k = 2.0

        class Kind(metaclass=Meta):
            pass

        class Array(np.ndarray):
            pass

        class Real(float):
            pass

        class Box:
            pass

        box, array = Box(), np.ones(2).view(Array)

        def change(n):
            Meta.k, array.scale, box.number = 1.0 + n, 2.0 + n, Real(1.0)
            box.number.scale = 3.0 + n

        functions = [
            compile(lambda x: x * Kind.k),
            compile(lambda x: x * array.scale),
            compile(lambda x: x * box.number.scale),
        ]
        found = []
        for n in range(5):
            change(n)
            found += [f(mt.ones(2)) for f in functions for _ in range(2)]
        return found

    both(scenario, compile)


def test_a_class_is_registered_later_on(compile):
    def scenario(compile):
        class Kind(metaclass=abc.ABCMeta):  # noqa: B024
            pass

        class Other:
            pass

        other = Other()
        f = compile(lambda x: x * 2 if isinstance(other, Kind) else x)
        found = [f(mt.ones(2)) for _ in range(3)]
        Kind.register(Other)
        return found + [f(mt.ones(2)) for _ in range(3)]

    both(scenario, compile)


def test_a_list_from_outside_is_begun_anew(compile):
    def scenario(compile):
        things = [1.0]

        @compile
        def f(x):
            things.__init__([2.0, 3.0])
            return x * 2

        found = []
        for _ in range(4):
            things.append(5.0)
            found += [f(mt.ones(2)), list(things)]
        return found

    both(scenario, compile, refused="__init__ of a list")


def test_warnings_come_at_each_call_from_their_line(compile):
    def scenario(compile):
        @compile
        def f(x):
            warnings.warn(f"sum {x.sum().item()}", stacklevel=1)
            return x * 2

        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            found = [f(mt.ones(2) * i) for i in range(4)]
        if compile is not plain:
            assert f.compilations == 1
        return found, [[str(w.message), w.category, w.filename, w.lineno] for w in told]

    both(scenario, compile)


def test_an_array_read_by_value_shares_memory_with_a_tensor_that_is_written(compile):
    def scenario(compile):
        array = np.ones(3, np.float32)
        tensor = mt.from_numpy(array)

        @compile
        def f(x):
            tensor.mul_(2)
            return x * float(array.sum())

        return [[f(mt.ones(2)), array.copy()] for _ in range(4)]

    both(scenario, compile, refused="shares memory with a NumPy array")


def test_what_is_printed_is_as_it_was_then(compile, capsys):
    def scenario(compile):
        w = mt.ones(2)

        @compile
        def f(x):
            print(w)
            w.add_(x)
            y = x * 2
            print([w, y])
            y.add_(1)
            return y

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CompileWarning)
            results = [f(mt.ones(2)) for _ in range(4)]
        return results, w, capsys.readouterr().out

    both(scenario, compile)


def test_a_gradient_that_is_held_is_read_as_it_is_then(compile):
    def scenario(compile):
        w = mt.ones(2, requires_grad=True)
        (w * 2).sum().backward()
        held = w.grad

        @compile
        def f(x):
            (w * x).sum().backward()
            return held * 2

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CompileWarning)
            return [f(mt.ones(2)) for _ in range(4)], w.grad

    both(scenario, compile)


def test_a_compiled_function_inside_while_views_have_moved(compile):
    base = mt.ones(3, requires_grad=True) * 2
    view = base[:2]
    base.add_(1)
    inner = compile(lambda x: x * 2)
    inner(mt.ones(2))
    outer = compile(lambda x: inner(x) + 1)
    assert [outer(mt.ones(2)).tolist() for _ in range(3)] == [[3, 3]] * 3
    assert outer.compilations == 1
    assert view.tolist() == [3, 3]


SCHEDULES = {
    "cosine": lambda o: optim.lr_scheduler.CosineAnnealingLR(o, T_max=5),
    "one cycle": lambda o: optim.lr_scheduler.OneCycleLR(o, max_lr=0.1, total_steps=20),
    "sequential": lambda o: optim.lr_scheduler.SequentialLR(
        o,
        [optim.lr_scheduler.ConstantLR(o, 0.5, 2), optim.lr_scheduler.ExponentialLR(o, 0.9)],
        milestones=[2],
    ),
}
LOOKS_AT_SCHEDULE = {
    "its counter": lambda s, o: s.last_epoch,
    "a counter inside": lambda s, o: getattr(s, "_schedulers", [s])[0].last_epoch,
    "the last rates": lambda s, o: s._last_lr[0],
    "its state_dict": lambda s, o: s.state_dict()["last_epoch"],
    "betas": lambda s, o: o.param_groups[0]["betas"][0],
    "branches": lambda s, o: 1.0 if s.last_epoch % 2 else 2.0,
}


@pytest.mark.parametrize("look", LOOKS_AT_SCHEDULE)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_what_a_schedule_has_changed_is_read_as_it_is_then(compile, schedule, look):
    def scenario(compile):
        mt.manual_seed(0)
        model = nn.Linear(2, 2)
        optimizer = optim.Adam(model.parameters(), lr=0.02)
        scheduler = SCHEDULES[schedule](optimizer)

        @compile
        def f(x):
            optimizer.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            optimizer.step()
            scheduler.step()
            return loss, LOOKS_AT_SCHEDULE[look](scheduler, optimizer)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CompileWarning)
            return [f(mt.ones(2, 2)) for _ in range(6)], list(model.parameters())

    both(scenario, compile)


WHOLE = {
    "values": lambda table: sum(v for v in table.values()),
    "items": lambda table: {k: v * 2 for k, v in table.items()}["a"],
    "copied": lambda table: dict(table, c=1.0)["a"],
    "merged": lambda table: {**table, "c": 1.0}["a"],
    "the largest": lambda table: max(table.values(), key=lambda v: -v),
    "by a call": lambda table: (lambda a, b: a + b)(**table),
    "sorted": lambda table: sorted(table.values())[0],
}


@pytest.mark.parametrize("look", WHOLE)
def test_a_number_that_it_changes_is_seen_among_the_others(compile, look):
    def scenario(compile):
        table = {"a": 0.5, "b": 1.25}

        @compile
        def f(x):
            y = x * WHOLE[look](table)
            table["a"] *= 0.9
            return y

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CompileWarning)
            return [f(mt.ones(2)) for _ in range(5)], table

    both(scenario, compile)


@pytest.mark.parametrize("look", ["all", "sum", "starred"])
def test_a_number_of_a_list_that_it_changes_is_seen_among_the_others(compile, look):
    def scenario(compile):
        numbers = [0.5, 1.25, mt.ones(2)]

        @compile
        def f(x):
            if look == "all":
                doubled = [n * 2 for n in numbers]
                y = x * doubled[0]
            elif look == "sum":
                y = x * sum(numbers[:2])
            else:
                first, *_ = numbers
                y = x * first
            numbers[0] *= 0.9
            return y

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CompileWarning)
            return [f(mt.ones(2)) for _ in range(5)], numbers

    both(scenario, compile)


def test_an_argument_that_is_put_where_another_tensor_was(compile):
    def scenario(compile):
        held, other = Batch(mt.full((2,), 0.5)), mt.full((2,), 0.25)

        @compile
        def f(x):
            held.u = held.u * 0.9
            return held.u + x

        found = [f(other) for _ in range(3)]
        held.u = other
        return found, [f(other) for _ in range(3)], held.u

    both(scenario, compile)


def test_a_place_seen_to_change_under_another_mode(compile):
    def scenario(compile):
        place = {"t": mt.ones(2)}

        @compile
        def f(x):
            return x * 2, place["t"]

        found = [f(mt.ones(2))]
        place["t"] = place["t"] * 2
        for _ in range(3):
            with mt.no_grad():
                found.append(f(mt.ones(2)))
            found.append(f(mt.ones(2)))
        return found

    both(scenario, compile)


VIEWS = {
    "detach": lambda x, w: x.detach(),
    "data": lambda x, w: x.data,
    "slice": lambda x, w: x[:1],
    "chain": lambda x, w: x.reshape(-1)[1:].unsqueeze(0),
    "transposed parameter": lambda x, w: w.T,
    "data of a parameter": lambda x, w: w.data,
    "gradient": lambda x, w: ((w * x).sum().backward(), w.grad)[1],
    "expanded": lambda x, w: x[0].expand(3, 2),
    "diagonal": lambda x, w: x.diagonal(),
    "numpy": lambda x, w: x.numpy(),
    "a result and its detach": lambda x, w: (lambda h: (h, h.detach()))(x * w),
    "a detach before": lambda x, w: (lambda h: (h.detach(), h))(x * w),
    "a result and a part": lambda x, w: (lambda h: (h, h[:1]))(x * 2),
    "windows of a result laid out otherwise": lambda x, w: (
        lambda h: (h.unfold(1, 1, 1).detach(), h.detach())
    )(x.T * 2),
    "a detach and a part": lambda x, w: (lambda h: (h.detach(), h[:1]))(x * w),
    "a part and a detached part": lambda x, w: (lambda h: (h[:1], h.detach()[0]))(x * w),
    "two parts with a graph": lambda x, w: (lambda h: (h[:1], h[0]))(x * w),
    "overlapping": lambda x, w: (lambda h: (h[:2], h[1:]))(mt.cat([x, x])),
    "apart": lambda x, w: (x @ w).chunk(2, -1),
}


@pytest.mark.parametrize("what", VIEWS)
def test_what_is_written_into_a_result_is_seen_where_it_comes_from(compile, what):
    def scenario(compile):
        mt.manual_seed(0)
        x, w = mt.randn(2, 2), mt.randn(2, 2, requires_grad=True)
        f = compile(lambda x, w: VIEWS[what](x, w))
        found = []
        for _ in range(4):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", CompileWarning)
                result = f(x, w)
            results = result if isinstance(result, tuple) else (result,)
            written = results[-1]
            with mt.no_grad():
                if written.__class__ is np.ndarray:
                    written += 1
                elif what not in ("expanded", "diagonal"):
                    written.add_(1)
            w.grad = None if what != "gradient" else w.grad
            numbers = [np.array(r.data if isinstance(r, mt.Tensor) else r) for r in results]
            flags = [(r.requires_grad, r.is_leaf) for r in results if isinstance(r, mt.Tensor)]
            found.append((numbers, flags, x.clone(), w.detach().clone()))
        return found, x, w

    both(scenario, compile)


@pytest.mark.parametrize(
    "rates", [(1, 2, 3), (mt.tensor(0.1), mt.tensor(0.2), 0.3), (0.1, 1, mt.tensor(0.2))]
)
def test_learning_rates_of_every_kind(compile, rates):
    def scenario(compile):
        w = mt.ones(2, requires_grad=True)
        optimizer = optim.SGD([w], lr=rates[0], momentum=0.9)

        @compile
        def f(x):
            optimizer.zero_grad()
            (w * x).sum().backward()
            optimizer.step()
            return w.detach().clone()

        found = []
        for rate in rates:
            optimizer.param_groups[0]["lr"] = rate
            found += [f(mt.full((2,), 0.1)) for _ in range(3)]
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        both(scenario, compile)


@pytest.mark.parametrize("what", ["property", "setter", "__setattr__", "class", "slot", "deleter"])
def test_how_an_attribute_is_stored_may_change(compile, what):
    class Doubled:
        def __init__(self):
            self.kept = 1

        @property
        def v(self):
            return self.kept

        @v.setter
        def v(self, new):
            self.kept = 2 * new

    class Plain:
        pass

    class Slot:
        __slots__ = ("kept", "v")

    def change(thing):
        kind = type(thing)
        if what == "property":
            kind.v = property(lambda self: 3.0)  # without a setter: storing is an error from now on
        elif what == "setter":
            kind.v = kind.v.setter(lambda self, new: setattr(self, "kept", new - 1))
        elif what in ("__setattr__", "slot"):
            kind.__setattr__ = lambda self, name, new: object.__setattr__(self, name, new + 10)
        elif what == "class":
            thing.__class__ = type("Other", (Plain,), {"v": property(Doubled.v.fget, Doubled.v.fset)})
        else:
            kind.__delattr__ = lambda self, name: object.__setattr__(self, name, 5)

    def scenario(compile):
        kind = {"property": Doubled, "setter": Doubled, "slot": Slot}.get(what, Plain)
        thing = type(kind)("Copy", (kind,), {})()
        count = {"n": 1}

        @compile
        def f(x):
            thing.v = count["n"]
            if what == "deleter":
                del thing.v
            return x + 1

        found = []
        for i in range(5):
            count["n"] = i
            if i == 3:
                change(thing)
            try:
                found.append(f(mt.ones(2)))
            except AttributeError:
                found.append("error")
            found += [getattr(thing, "kept", None), thing.__dict__.get("v")]
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        both(scenario, compile)


def test_a_rate_that_nobody_reads_becomes_a_tensor(compile):
    """Its group has no gradients; a schedule sets it all the same."""

    def scenario(compile):
        w, unused = mt.ones(2, requires_grad=True), mt.ones(2, requires_grad=True)
        optimizer = optim.SGD([{"params": [unused], "lr": 0.1}, {"params": [w]}], lr=0.03)
        schedule = optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)

        @compile
        def f(x):
            optimizer.zero_grad()
            (w * x).sum().backward()
            optimizer.step()
            schedule.step()
            return w.detach().clone()

        found = [f(mt.ones(2))]
        optimizer.param_groups[0]["lr"] = mt.tensor(0.01)
        found += [f(mt.ones(2)) for _ in range(3)]
        return found, [float(group["lr"]) for group in optimizer.param_groups]

    with warnings.catch_warnings():
        warnings.simplefilter("error", Disagreement)
        warnings.simplefilter("ignore", CompileWarning)
        both(scenario, compile)


def test_a_record_that_is_returned_may_have_more_put_on_it(compile):
    """It is the same object at every call; an attribute that is no field is none of the program's business."""

    @dataclass
    class Settings:
        scale: float = 1.5

    def scenario(compile):
        settings = Settings()
        f = compile(lambda x: (settings, x * 2))
        found = []
        for i in range(5):
            if i in (1, 3):
                settings.more = i
            returned, doubled = f(mt.ones(2))
            found += [returned is settings, returned.scale, getattr(returned, "more", None), doubled]
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("error", Disagreement)
        both(scenario, compile)


# --- memory that comes to be shared only after the recording -------------------------------------------------


def shares(compile, scenario):
    """The same in both ways, without audits, which would only tell of a mistake."""

    def unaudited(function):
        return compile(function) if compile is plain else compile(function, verify=False)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CompileWarning)
        both(lambda which: scenario(which if which is plain else unaudited), compile)


def test_a_tensor_at_a_place_comes_to_share_memory_with_what_is_written(compile):
    def scenario(compile):
        class Box:
            state = mt.ones(4)

        box, kept = Box(), mt.zeros(3, 4)

        @compile
        def f(x):
            kept[0] = x[0]
            doubled = box.state * 2
            box.state = box.state * 0.5
            return doubled

        found = [f(mt.ones(3, 4)) for _ in range(3)]
        box.state = kept[0]
        kept[0] = 7.0
        return [*found, f(mt.ones(3, 4)), f(mt.ones(3, 4)), kept]

    shares(compile, scenario)


def test_a_gradient_comes_to_be_a_parameter_that_is_written(compile):
    def scenario(compile):
        p, w = nn.Parameter(mt.zeros(4)), nn.Parameter(mt.ones(4))
        optimizer = optim.SGD([w, p], lr=0.5)
        step = compile(lambda x: [optimizer.step(), x * 2][1])
        p.grad, w.grad = np.ones(4, np.float32), np.ones(4, np.float32)
        found = [step(mt.ones(2)), step(mt.ones(2))]
        p.grad = w.data
        return [*found, step(mt.ones(2)), step(mt.ones(2)), p, w]

    shares(compile, scenario)


def test_a_gradient_that_is_added_to_comes_to_be_an_argument(compile):
    def scenario(compile):
        p = nn.Parameter(mt.ones(4))
        p.grad = np.ones(4, np.float32)

        @compile
        def f(x):
            (p * 3).sum().backward()
            return x * 2

        found = [f(mt.ones(4)), f(mt.ones(4)), f(mt.from_numpy(p.grad))]
        return [*found, f(mt.ones(4)), p.grad.copy()]

    shares(compile, scenario)


def test_two_gradients_that_are_added_to_come_to_be_one_array(compile):
    def scenario(compile):
        p, w = nn.Parameter(mt.ones(4)), nn.Parameter(mt.ones(4))
        p.grad, w.grad = np.ones(4, np.float32), np.ones(4, np.float32)

        @compile
        def f():
            (p * 3).sum().backward()
            (w * 5).sum().backward()

        found = []
        together = np.ones(8, np.float32)
        for one, other in ((p.grad, w.grad), (together[:4], together[4:]), (together[:4], together[:4])):
            p.grad, w.grad = one, other
            f(), f()
            found += [p.grad.copy(), w.grad.copy()]
        return found

    shares(compile, scenario)


def test_a_gradient_that_is_read_comes_to_lie_in_a_tensor_that_is_written(compile):
    def scenario(compile):
        p, w = nn.Parameter(mt.ones(4)), mt.ones(4)
        p.grad = np.ones(4, np.float32)

        @compile
        def f(x):
            w.mul_(2.0)
            return mt.tensor(p.grad) + x

        found = [f(mt.ones(4)), f(mt.ones(4))]
        p.grad = w.data
        return [*found, f(mt.ones(4)), f(mt.ones(4)), w]

    shares(compile, scenario)


def test_a_tensor_that_is_written_comes_to_lie_in_an_array(compile):
    def scenario(compile):
        array, w = np.ones(4, np.float32), mt.ones(4)

        @compile
        def f(x):
            w.mul_(2.0)
            return x * mt.from_numpy(array)

        found = [f(mt.ones(4)), f(mt.ones(4))]
        w.data = array
        return [*found, f(mt.ones(4)), f(mt.ones(4)), w]

    shares(compile, scenario)


def test_arguments_with_gradients_may_be_older_or_younger_than_parameters(compile):
    """A walk backwards meets leaves by their age: the program is the same all the same."""

    def scenario(compile):
        older = [mt.randn(3, 4, requires_grad=True) for _ in range(2)]
        layer = nn.Linear(4, 4, bias=False)
        younger = [mt.randn(3, 4, requires_grad=True) for _ in range(2)]

        @compile
        def f(x, y):
            loss = (layer(x) * layer(y)).sum()
            loss.backward()
            return loss.detach()

        pairs = [younger, older, younger[::-1], older[::-1], [older[0], younger[0]], [younger[0], older[0]]]
        found = []
        for _ in range(2):
            found += [[f(x, y), layer.weight.grad, x.grad, y.grad] for x, y in pairs]
        if compile is not plain:
            assert f.compilations <= 5  # by which of the gradients were there
        return found

    with warnings.catch_warnings():
        warnings.simplefilter("error", Disagreement)
        both(scenario, compile)


@pytest.mark.parametrize("ends_with", ["None", "zeros", "another"])
def test_who_holds_a_gradient_sees_what_was_added_to_it_before_it_was_replaced(compile, ends_with):
    def scenario(compile):
        p = nn.Parameter(mt.ones(3))

        @compile
        def f(x):
            (p * x).sum().backward()
            doubled = mt.tensor(p.grad) * 2
            if ends_with == "None":
                p.grad = None
            elif ends_with == "zeros":
                p.grad = np.zeros(3, np.float32)
            else:
                p.grad = (x * 5).data
            return doubled

        found = []
        for i in range(4):
            held = np.full(3, float(i), np.float32)
            p.grad = held
            found += [f(mt.ones(3)), held]
        return found

    shares(compile, scenario)


@pytest.mark.parametrize("to_none", [True, False])
def test_gradients_that_are_set_to_zero_are_the_same_arrays(compile, to_none):
    def scenario(compile):
        model = nn.Linear(3, 2)
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        @compile
        def step(x):
            optimizer.zero_grad(set_to_none=to_none)
            model(x).pow(2).sum().backward()
            optimizer.step()

        found = []
        together = np.ones(8, np.float32)
        for i in range(10):
            if i == 5:
                model.weight.grad, model.bias.grad = together[:6].reshape(2, 3), together[6:]
            if i == 8:
                model.weight.grad = mt.zeros(2, 3).data
            weight, bias = model.weight.grad, model.bias.grad
            step(mt.ones(4, 3) * i)
            found += [
                model.weight.grad is not None
                and not to_none
                and i
                and np.shares_memory(weight, model.weight.grad)
            ]
            found += [
                weight,
                bias,
                model.weight.grad.copy(),
                model.bias.grad.copy(),
                model.weight.detach().clone(),
            ]
        if compile is not plain:
            assert step.compilations <= 2
        return found, together

    shares(compile, scenario)


def test_gradients_that_are_set_to_zero_come_to_share_memory(compile):
    def scenario(compile):
        model, w = nn.Linear(4, 4), nn.Parameter(mt.ones(4))
        optimizer = optim.SGD([*model.parameters(), w], lr=0.1)

        @compile
        def step(x):
            loss = model.weight.sum() + model.bias.sum() * 2 + w.sum() * 3 + x.sum()
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            optimizer.step()
            return loss.detach()

        found = [step(mt.ones(2, 4)) for _ in range(3)]
        model.bias.grad = w.data
        found += [step(mt.ones(2, 4)) for _ in range(2)]
        model.bias.grad = np.ones(4, np.float32)
        found += [step(mt.ones(2, 4)), step(mt.from_numpy(model.weight.grad))]
        model.bias.grad = w.grad
        return [*found, step(mt.ones(2, 4)), step(mt.ones(2, 4)), w, model.bias, w.grad, model.bias.grad]

    shares(compile, scenario)


def test_who_holds_an_array_sees_what_was_written_before_it_was_replaced(compile):
    def scenario(compile):
        w = mt.ones(3)

        @compile
        def f(x):
            w.mul_(2.0)
            w.data = (w * x + 1.0).data
            return w * 3

        found = []
        for _ in range(4):
            held = w.data
            found += [f(mt.ones(3)), held, w.data.copy()]
        return found

    shares(compile, scenario)


def test_an_argument_older_and_one_younger_than_the_weights(compile):
    def scenario(compile):
        old = mt.ones(3, 4, requires_grad=True)
        model = nn.Linear(4, 4)
        f = compile(lambda x: mt.tanh(model(x)) * 0.5 + x * 0.25)
        found = []
        for x in (old, mt.full((3, 4), 2.0, requires_grad=True), old):
            found += mt.autograd.grad(f(x).sum(), [x, model.weight])
        if compile is not plain:
            assert f.compilations == 1
        return found

    both(scenario, compile)


@pytest.mark.parametrize("asked", ["inside", "outside"])
def test_hooks_of_modules_on_the_way_back(compile, asked):
    """Asked for inside, they are part of the program; outside, they run when they are asked for, or it is refused."""

    def scenario(compile):
        model, seen, scale = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2)), [], [1.0]

        def hook(module, inputs, outputs):
            seen.append(outputs[0].sum().item())
            return (inputs[0] * scale[0],)

        handle = model[1].register_full_backward_hook(hook)
        model[1].register_full_backward_pre_hook(lambda module, gradients: (gradients[0] * 2,))

        @compile
        def f(x):
            loss = model(x).square().sum()
            if asked == "inside":
                loss.backward()
            return loss

        found = []
        for i in range(7):
            scale[0] = 1.0 + (i > 3)
            if i == 6:
                handle.remove()
            model.zero_grad()
            loss = f(mt.ones(2, 3) * i)
            if asked == "outside":
                loss.backward()
            found.append([p.grad for p in model.parameters()])
        return found, seen

    both(scenario, compile, refused="call backward\\(\\) inside as well" if asked == "outside" else None)


@pytest.mark.parametrize("what", ["a list", "a counter", "a draw", "a constant", "nothing"])
def test_the_backward_of_a_function_reads_and_changes(compile, what):
    def scenario(compile):
        factors, count, fixed = [2.0], [0], 0.5

        class Scaled(mt.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x * x * factors[0]

            @staticmethod
            def backward(ctx, g):
                (x,) = ctx.saved_tensors
                if what == "a list":
                    return g * x * factors[0]
                if what == "a counter":
                    count[0] += 1
                if what == "a draw":
                    return g * mt.rand(3)
                return g * x * (fixed if what == "a constant" else 0.25)

        w = mt.ones(3, requires_grad=True)
        f = compile(lambda x: Scaled.apply(w * x).sum())
        found = []
        for i in range(6):
            w.grad = None
            loss = f(mt.ones(3) * i)
            factors[0] = float(i)
            loss.backward()
            found.append(w.grad)
        return found, count

    refused = what in ("a list", "a counter", "a draw")
    both(scenario, compile, refused="when gradients of its results are asked for" if refused else None)


def test_what_the_way_back_relies_on_changes_after_the_call(compile):
    factor = 0.5

    class Scaled(mt.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * factor

    w = mt.ones(3, requires_grad=True)
    f = compile(lambda x: Scaled.apply(w * x).sum())
    for _ in range(3):
        f(mt.ones(3)).backward()
    loss = f(mt.ones(3))
    factor = 0.25
    with pytest.raises(RuntimeError, match="what its gradients rely on has changed"):
        loss.backward()
    w.grad = None
    with pytest.warns(CompileWarning, match="when gradients of its results are asked for"):
        f(mt.ones(3)).backward()  # it is no constant, then
    assert (w.grad == 0.25).all()


def test_code_that_cannot_be_observed_does_nothing_before_it_is_refused(compile):
    def scenario(compile):
        seen = []

        class Key:
            def __init__(self, name):
                self.name = name

            def __hash__(self):
                return 1

            def __eq__(self, other):
                seen.append(self.name)
                return True

        keys = [Key("a"), Key("b")]
        f = compile(lambda x: x * (keys.index(Key("c")) + 1))
        return [f(mt.ones(2)) for _ in range(3)], seen

    both(scenario, compile, refused="cannot be observed")


def test_derivatives_of_functions_with_a_matrix_from_outside(compile):
    def scenario(compile):
        a = mt.randn(3, 3)

        def g(x):
            return (a @ x).tanh() - a[0] * x

        @compile
        def f(x):
            return (
                mt.func.jacrev(g)(x),
                mt.func.hessian(lambda x: g(x).sum())(x),
                mt.func.vmap(g)(x.expand(2, 3)),
            )

        found = []
        for i in range(4):
            found.append(f(mt.randn(3)))
            if i == 1:
                a.mul_(0.5)
        if compile is not plain:
            assert f.compilations == 1
        return found

    both(scenario, compile)


def test_a_function_that_fails_and_is_called_again(compile):
    """What it counted and wrote before it failed is counted and written."""

    def scenario(compile):
        w, count, log = mt.ones(2, requires_grad=True), [0], []
        optimizer = optim.SGD([w], lr=0.1)

        @compile
        def f(x):
            count[0] += 1
            optimizer.zero_grad()
            (w * x).sum().backward()
            optimizer.step()
            log.append(w.sum().item())
            if count[0] % 3:
                raise ValueError(count[0])
            return w * 1

        found = []
        while len(found) < 4:
            try:
                found.append(f(mt.ones(2)))
            except ValueError as error:
                log.append(str(error))
        return found, log, count, w, w.grad

    both(scenario, compile)


def test_log_records_tell_the_line_that_logs(compile):
    def scenario(compile):
        class Handler(logging.Handler):
            def emit(self, record):
                told.append([record.getMessage(), record.lineno - first, record.funcName, record.filename])

        told, logger = [], logging.Logger("found")
        logger.addHandler(Handler())

        def report(text, value):
            logger.warning(text, value, stacklevel=2)

        @compile
        def f(x):
            logger.info("sum %.1f", x.sum().item())
            report("mean %.1f", x.mean().item())
            return x * 2

        first = f.__code__.co_firstlineno if compile is plain else f.function.__code__.co_firstlineno
        for i in range(3):
            f(mt.ones(2) * i)
        return told

    both(scenario, compile)


@pytest.mark.parametrize("how", ["deleted", "none"])
def test_a_tensor_is_taken_from_its_place(compile, how):
    def scenario(compile):
        class Box:
            pass

        box = Box()

        @compile
        def f(x):
            held = box.held
            if how == "deleted":
                del box.held
            else:
                box.held = None
            return x + held

        found = []
        for i in range(6):
            box.held = mt.ones(2) * i
            found.append(f(mt.ones(2)))
            found.append(getattr(box, "held", "gone"))
        return found

    both(scenario, compile)


def test_hooks_that_are_methods_of_a_list(compile):
    def scenario(compile):
        w, seen, layer = mt.ones(3, requires_grad=True), [], nn.Linear(3, 2)

        @compile
        def f(x):
            h = w * x
            h.register_hook(seen.append)
            h.register_hook(functools.partial(seen.insert, 0))
            layer(h).sum().backward()
            return h.detach()

        found = [f(mt.ones(2, 3) * i) for i in range(5)]
        if compile is not plain:
            assert f.compilations == 2  # (the first call finds no gradients)
        return found, seen, w.grad

    both(scenario, compile)


VIEWS_OF_MEMORY = {
    "steps": lambda y: y.as_strided((2, 2), (3, 1)),
    "steps from a place": lambda y: y.as_strided((2, 2), (3, 1), 1),
    "steps in what is turned": lambda y: y.t().as_strided((2, 3), (1, 2)),
    "steps in a part": lambda y: y[1:].as_strided((2,), (2,), 2),
    "einsum": lambda y: mt.einsum("ij->ji", y),
    "einsum's diagonal": lambda y: mt.einsum("ii->i", y[:, :2]),
    "bits": lambda y: y.view(mt.int32),
}


@pytest.mark.parametrize("view", VIEWS_OF_MEMORY)
def test_views_by_memory_follow_and_are_written_through(compile, view):
    look = VIEWS_OF_MEMORY[view]

    def scenario(compile):
        w = mt.arange(6.0).view(2, 3).requires_grad_()

        @compile
        def f(x):
            y = x * 2
            part = look(y)
            y.add_(1)
            before = part * 1
            part.mul_(3)
            if view == "bits":
                return before, y
            z = w * x
            look(z).mul_(3)
            (z * z).sum().backward()
            return before, y, part

        found = [f(mt.arange(6.0).view(2, 3) + i) for i in range(4)]
        return found, w.grad

    both(scenario, compile)


def test_views_by_memory_of_arguments(compile):
    def scenario(compile):
        memory, found = mt.arange(20.0), []
        f = compile(
            lambda x: (x.as_strided((2,), (2,)).add_(1), mt.einsum("ij->ji", x.view(2, 2)).mul_(2), x.sum())
        )
        g = compile(lambda x: x.as_strided((2,), (1,), 1) * 2)
        with warned(compile):  # where in its memory an argument lies is not known
            for i in range(6):
                found += [f(memory[i : i + 4]), memory.clone(), g(memory[i : i + 4])]
        return found

    both(scenario, compile)


@pytest.mark.parametrize("kind", ["SGD", "Adam", "RMSprop"])
def test_an_optimiser_and_a_schedule_that_it_makes_begin_anew_at_each_call(compile, kind):
    def scenario(compile):
        layer = nn.Linear(3, 2)

        @compile
        def f(x, rate):
            options = {} if kind == "Adam" else {"momentum": 0.9}
            optimizer = getattr(optim, kind)(layer.parameters(), lr=rate, **options)
            schedule = optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
            for _ in range(3):
                optimizer.zero_grad()
                layer(x).square().mean().backward()
                optimizer.step()
                schedule.step()
            return layer(x).detach(), optimizer.param_groups[0]["lr"], len(optimizer.state)

        found = [f(mt.ones(2, 3), 0.1) for _ in range(4)]
        if compile is not plain:
            assert f.compilations <= 2
        return found, list(layer.parameters())

    both(scenario, compile)


@pytest.mark.parametrize("how", ["clear", "pop", "del", "schedule"])
def test_what_is_taken_from_an_optimiser_inside(compile, how):
    def scenario(compile):
        layer = nn.Linear(3, 2)
        optimizer = optim.SGD(layer.parameters(), lr=0.1, momentum=0.9)

        @compile
        def f(x, now):
            if now and how == "clear":
                optimizer.state.clear()
            elif now and how == "pop":
                optimizer.state.pop(layer.weight)
            elif now and how == "del":
                del optimizer.state[layer.weight]
            elif now:
                optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5)
            optimizer.zero_grad()
            layer(x).square().mean().backward()
            optimizer.step()
            return layer(x).detach()

        found = [f(mt.ones(2, 3), i in (2, 3, 5)) for i in range(7)]
        return found, list(layer.parameters()), [s["momentum_buffer"] for s in optimizer.state.values()]

    both(scenario, compile, refused="state away|a schedule that it makes")


@pytest.mark.parametrize("left", ["number", "tensor", "nothing"])
def test_a_number_gives_its_place_to_a_tensor_and_the_function_leaves_something_else(compile, left):
    def scenario(compile):
        class Box:
            level = 0.5

        box = Box()

        @compile
        def f(x):
            h = x * box.level
            if left == "number":
                box.level = x.shape[-1] / 4
            elif left == "tensor":
                box.level = h.sum() * 0.25
            else:
                del box.level
            return h

        found = []
        for level in (0.5, 0.25, mt.tensor(0.5), mt.tensor(0.75), 2.0, mt.tensor(0.5)):
            box.level = level
            found += [f(mt.ones(3, 4)), box.level]
        return found

    both(scenario, compile)


def test_results_lie_in_memory_as_eager_ones_do(compile):
    """Whether view(-1) can be, and what randn_like draws where, depends on it."""

    def scenario(compile):
        layer, recurrent = nn.Linear(6, 4), nn.LSTM(4, 3, batch_first=True)
        held = []

        @compile
        def f(x):
            h = layer(x)
            held.append(x.transpose(0, 2) * 2)
            return h, h.mT.exp(), h.mT.contiguous(), recurrent(h)[0], h.permute(2, 0, 1).detach() + 1

        found = []
        for rows in (5, 5, 5, 3, 7, 7):
            results = [*f(mt.randn(2, rows, 6)), held[-1]]
            found += [[r.stride(), r.is_contiguous(), mt.randn_like(r.detach())] for r in results]
            (results[1].sum() + results[3].square().sum()).backward()
        return found, [p.grad for p in layer.parameters()]

    both(scenario, compile)


def test_vmap_over_parameters(compile):
    def scenario(compile):
        layers = [nn.Linear(3, 2) for _ in range(3)]

        @compile
        def f(x):
            stacked = {
                k: mt.stack([dict(m.named_parameters())[k] for m in layers]) for k in ("weight", "bias")
            }
            return mt.func.vmap(lambda p: mt.func.functional_call(layers[0], p, (x,)))(stacked)

        found = []
        for i in range(4):
            layers[1].weight.data.mul_(i)
            found.append(f(mt.ones(2, 3)))
        if compile is not plain:
            assert f.compilations == 1
        return found

    both(scenario, compile)


def test_numbers_that_parameters_have_as_attributes(compile):
    def scenario(compile):
        w = nn.Parameter(mt.ones(2))
        w.scale = 1.0

        @compile
        def f(x):
            w.seen = getattr(w, "seen", 0) + 1
            return x * w * w.scale, w.seen

        found = []
        for i in range(8):
            if i % 2:
                w.scale = 1.0 + i
            if i == 5:
                del w.seen
            found += [f(mt.ones(2)), w.seen]
        return found

    both(scenario, compile)


def test_a_number_of_a_class_is_read_by_name_and_by_super(compile):
    def scenario(compile):
        class A:
            k = 1.0

        class B(A):
            def f(self, x):
                return x * A.k + super().k

        f, found = compile(B().f), []
        for i in range(6):
            A.k = 1.0 + i
            found.append(f(mt.ones(2)))
        return found

    both(scenario, compile)


def test_two_views_are_returned_of_which_one_was_written_through(compile):
    def scenario(compile):
        @compile
        def f(x):
            h = x * 2
            diagonal, turned = h.diagonal(), h.t()
            turned.mul_(0.5)
            return diagonal, turned

        found = []
        for i in range(4):
            diagonal, turned = f(mt.ones(3, 3) * i)
            turned.add_(1)
            found += [diagonal, turned]
        return found

    both(scenario, compile)


def test_objects_of_this_library_are_changed_between_calls(compile):
    """Its own code, which is not observed, reads their attributes: a distribution's, a dataset's, a context's."""

    def scenario(compile):
        chances = mt.distributions.Categorical(logits=mt.zeros(3))
        data = mt.utils.data.TensorDataset(mt.arange(6.0).reshape(2, 3))
        stacked = mt.utils.data.ConcatDataset([data, data])
        named = mt.utils.data.StackDataset(a=data, b=data)

        @compile
        def f(x):
            return chances.log_prob(mt.tensor([0, 1, 2])) + data[1][0] + stacked[2][0] * x + named[0]["a"][0]

        found = []
        for i in range(7):
            if i == 2:
                chances.logits = mt.tensor([5.0, 0.0, 1.0])
            if i == 3:
                data.tensors = (mt.ones(2, 3) * 7,)
            if i == 4:
                stacked.datasets[1] = mt.utils.data.TensorDataset(mt.ones(2, 3) * 9)
            if i == 5:
                data.tensors[0].add_(1)
            if i == 6:
                named.datasets["a"] = mt.utils.data.TensorDataset(mt.ones(2, 3) * 11)
            found.append(f(mt.ones(3)))
        return found

    both(scenario, compile)


def test_objects_of_classes_made_from_this_librarys_are_changed_between_calls(compile):
    """What they inherit is this library's code, and reads their attributes unobserved."""

    class Chances(mt.distributions.Normal):
        pass

    class Scaler(mt.amp.GradScaler):
        def update(self, new_scale=None):
            super().update(new_scale)

    def scenario(compile):
        chances = Chances(mt.tensor(0.0), mt.tensor(1.0))
        scaler = Scaler("cpu", init_scale=4.0, growth_interval=2)
        p = mt.nn.Parameter(mt.ones(3))
        optimizer = mt.optim.SGD([p], lr=0.1)

        def step(x):
            scaler.scale((p * x).sum()).backward()
            scaler.step(optimizer)
            scaler.update()
            return chances.log_prob(x)

        f = compile(step)
        found = []
        for i in range(9):
            if i == 4:
                chances.loc = mt.tensor(2.0)
                scaler.set_growth_interval(3)
            if i == 6:
                chances.scale.fill_(3.0)
                scaler.set_growth_factor(8.0)
            found += [f(mt.ones(3)), scaler.get_scale(), p.detach().clone()]
        return found

    both(scenario, compile)
