"""What random histories (tests/support/histories.py) have found, each as a few lines."""

import minitorch as mt
from scenarios import both, plain


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

        found = [f(mt.ones(2)) for _ in range(3)]
        box.__dict__ = {"k": 0.25, "count": 7}
        found += [f(mt.ones(2)) for _ in range(3)]
        return found, box.count

    both(scenario, compile)
