"""Programs with changes between their calls, compiled and by an eager twin (tests/support/histories.py): all is the same."""

import pytest

from compiled import BACKENDS
from histories import backend_of, check, generate

EACH = 10  # histories in one test
COUNT = 120


@pytest.mark.parametrize("first", range(0, COUNT, EACH))
def test_a_history_is_the_same_compiled_and_eager(first):
    compiled = eager = 0
    for seed in range(first, first + EACH):
        said, run = check(generate(seed, backend_of(seed)))
        assert said == "", f"python -m histories --seed {seed} shows it: {said}"
        compiled, eager = compiled + run.compiled + run.recorded, eager + run.eager
    assert 2 * compiled > eager, "hardly anything was compiled: nothing is proven"


@pytest.mark.parametrize("backend", [b for b in BACKENDS if b != "numpy"])
def test_a_history_on_another_backend(backend):
    for seed in range(1000, 1005):
        said, _ = check(generate(seed, backend))
        assert said == "", f"seed {seed}: {said}"


def test_a_history_is_known_by_its_seed():
    assert generate(3).source() == generate(3).source()
    assert generate(3).source() != generate(4).source()
