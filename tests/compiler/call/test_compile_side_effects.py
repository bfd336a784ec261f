"""Functions that change what is outside: counters, attributes and globals they make, iterators, output, lazy building."""

import minitorch as mt
from minitorch import nn
from scenarios import Holder, both, plain


def test_what_a_function_changes_and_reads(compile):
    def scenario(compile):
        class Counter:
            def __init__(self):
                self.count = 0
                self.kept = []

            @compile
            def step(self, x):
                self.count += 1
                self.kept.append(x * 2)
                return x * self.count

        counter = Counter()
        results = [counter.step(mt.ones(2)) for _ in range(6)]
        if compile is not plain:
            assert counter.step.compilations == 1
            assert "count" in str(counter.step.explain())
        return results, counter.count, counter.kept

    both(scenario, compile)


def test_attributes_made_by_the_function_itself(compile):
    def scenario(compile):
        class Thing:
            @compile
            def step(self, x):
                self.last = x * 2
                type(self).latest = x * 3
                return x

        @compile
        def f(x):
            global made_by_the_function
            made_by_the_function = x * 4
            return x

        thing = Thing()
        results = []
        for i in range(5):
            thing.step(mt.ones(2) * i)
            f(mt.ones(2) * i)
            results.append([thing.last, Thing.latest, made_by_the_function])
        return results

    both(scenario, compile)


def test_globals_with_the_names_of_attributes_do_not_matter(compile):
    """`data` below is an attribute in the function, and changes as a global at each call."""
    global data
    holder = Holder()
    holder.data = 2.0
    f = compile(lambda x: x * holder.data)
    for i in range(4):
        data = i
        f(mt.ones(2))
    assert f.compilations == 1


def test_iterators(compile):
    def scenario(compile):
        source = iter([mt.ones(2) * i for i in range(20)])

        class Thing:
            def __init__(self):
                self.source = (mt.ones(2) * i for i in range(20))

            @compile
            def pull(self):
                return next(self.source) * 2

        f = compile(lambda: next(source) * 2)
        g = compile(lambda it: next(it) + 1)
        thing = Thing()
        results = [
            f(),
            f(),
            f(),
            g(source),
            g(source),
            thing.pull(),
            thing.pull(),
            thing.pull(),
            thing.pull(),
        ]
        if compile is not plain:
            for each in (f, g, thing.pull):
                assert each.compilations == 0
                assert "iterator" in str(each.explain())
        return results

    both(scenario, compile, refused="takes from an iterator")


def test_a_constant_in_another_file(compile, tmp_path, monkeypatch):
    (tmp_path / "my_helpers.py").write_text("FACTOR = 2.0\ndef scaled(x):\n    return x * FACTOR\n")
    monkeypatch.syspath_prepend(tmp_path)
    import my_helpers

    def scenario(compile):
        my_helpers.FACTOR = 2.0
        f, g = compile(lambda x: my_helpers.scaled(x)), compile(my_helpers.scaled)
        results = [f(mt.ones(2)), g(mt.ones(2))]
        my_helpers.FACTOR = 3.0
        return [*results, f(mt.ones(2)), g(mt.ones(2))]

    both(scenario, compile)


def test_printing_happens_at_each_call(compile, capsys):
    @compile
    def f(x):
        y = x.sum()
        print("the sum is", y.item(), y)
        return x * 2

    for i in range(4):
        f(mt.ones(2) * i)
    assert f.compilations == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines == [f"the sum is {2.0 * i} tensor({2 * i}.)" for i in range(4)]


def test_the_first_call_may_build_something(compile):
    def scenario(compile):
        class Lazy(nn.Module):
            def __init__(self):
                super().__init__()
                self.table = None

            def forward(self, x):
                if self.table is None:
                    self.table = mt.arange(3).float()
                return x + self.table

        model = compile(Lazy())
        results = [model(mt.ones(3)) for _ in range(4)]
        if compile is not plain:
            assert model.compilations == 1
        return results

    both(scenario, compile)
