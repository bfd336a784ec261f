"""The training command's experiments, eager and compiled: the same losses to rounding."""

import math

import pytest

import minitorch
from minitorch.app.experiments import find, listing
from minitorch.app.train import Run, step

STEPS = 6


def losses(make, compiled):
    minitorch.manual_seed(3)
    experiment = make()
    one = (lambda batch: step(experiment, batch)) if not compiled else minitorch.compile(
        lambda batch: step(experiment, batch)
    )  # fmt: skip
    found = []
    while len(found) < STEPS:
        for batch in experiment.batches:
            outcome = one(batch)
            found.append((outcome.loss.item(), outcome.correct, outcome.samples))
            if len(found) == STEPS:
                break
    return found, one


@pytest.mark.parametrize("name", [name for name, _ in listing()])
def test_an_experiment_compiled_gives_the_same_losses(name):
    for make in find(name):
        eager, _ = losses(make, compiled=False)
        compiled, function = losses(make, compiled=True)
        assert function.cache.eager_because is None
        assert 1 <= function.compilations <= 2
        for ours, theirs in zip(compiled, eager, strict=True):
            assert math.isclose(ours[0], theirs[0], rel_tol=2e-4), name
            assert ours[2] == theirs[2]
            assert abs(ours[1] - theirs[1]) <= 1  # a tie may go the other way


def test_a_run_trains_compiled(tmp_path):
    (make,) = find("xor")
    eager = Run(make, tmp_path / "eager", epochs=3)
    compiled = Run(make, tmp_path / "compiled", epochs=3, compiled=True)
    eager.go(), compiled.go()
    for ours, theirs in zip(compiled.history, eager.history, strict=True):
        assert math.isclose(ours["loss"], theirs["loss"], rel_tol=1e-4)
