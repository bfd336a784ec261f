"""vmap, and forward mode: all examples at once beside one after the other, and a tangent beside the forward pass.

    python benchmarks/examples_at_once.py [--examples 256] [--torch]

Prints a table: each task by a Python loop over the examples, by vmap, and with --torch by PyTorch's vmap; then the
forward pass alone, and jvp, which is that and the tangents' walk behind it. All in one process, in turn; the
best of the rounds counts.
"""

from __future__ import annotations

import argparse
import functools
import importlib
from collections.abc import Callable
from typing import Any

import contest
import numpy as np

Task = tuple[Callable[..., Any], tuple[Any, ...], tuple[Any, ...]]  # the function, in_dims, the arguments


def _data(m: Any, *shape: int) -> Any:
    return m.tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32))


def _per_sample(m: Any, net: Any, x: Any, classes: int) -> Task:
    parameters = {name: p.detach() for name, p in net.named_parameters()}

    def loss(p: Any, x: Any, target: Any) -> Any:
        out = m.func.functional_call(net, p, (x.unsqueeze(0),))
        return m.nn.functional.cross_entropy(out, target.unsqueeze(0))

    return m.func.grad(loss), (None, 0, 0), (parameters, x, m.tensor(np.arange(len(x)) % classes))


def tasks(m: Any, examples: int) -> dict[str, Task]:
    """Return what is computed, in a library."""
    nn, f, data = m.nn, m.func, functools.partial(_data, m)
    mlp = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 10))
    cnn = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(200, 10))
    matrix = data(8, 8)
    return {
        "dot product, 64": (lambda x, y: (x * y).sum(), (0, 0), (data(examples, 64), data(examples, 64))),
        "softmax, 100": (lambda x: m.softmax(x, -1), (0,), (data(examples, 100),)),
        "linear system, 8×8": (m.linalg.solve, (0, 0), (data(examples, 8, 8), data(examples, 8))),
        "jacobian, 8×8": (f.jacrev(lambda x: m.tanh(matrix @ x)), (0,), (data(examples, 8),)),
        "hessian, 5×5": (f.hessian(lambda x: (x.sin() * x.prod()).sum()), (0,), (data(examples, 5),)),
        "gradients of an MLP, 32-64-10": _per_sample(m, mlp, data(examples, 32), 10),
        "gradients of a CNN, 1×12×12": _per_sample(m, cnn, data(examples, 1, 12, 12), 10),
    }


def _loop(function: Callable[..., Any], dims: tuple[Any, ...], args: tuple[Any, ...]) -> None:
    count = next(len(a) for a, d in zip(args, dims, strict=True) if d == 0)
    for i in range(count):
        function(*(a if d is None else a[i] for a, d in zip(args, dims, strict=True)))


def _times(**ways: Callable[[], Any]) -> dict[str, float]:
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(3):
        for name, way in ways.items():
            best[name] = min(best[name], contest.seconds_per_call(way, repeats=2))
    return best


def forwards(m: Any) -> dict[str, tuple[Callable[..., Any], Any]]:
    """Return functions of one input whose tangent is asked for."""
    w, v = _data(m, 784, 256) * 0.05, _data(m, 256, 10)
    return {
        "sin, exp, product, 100,000": (lambda x: x.sin().exp() * x, _data(m, 100_000)),
        "MLP, 128×784-256-10": (lambda x: m.log_softmax(m.tanh(x @ w) @ v, -1), _data(m, 128, 784)),
        "layer norm and softmax, 256×256": (
            lambda x: m.nn.functional.layer_norm(x, (256,)).softmax(-1),
            _data(m, 256, 256),
        ),
    }


def main() -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(description="vmap beside a loop, jvp beside the forward pass")
    parser.add_argument("--examples", type=int, default=256)
    parser.add_argument("--torch", action="store_true")
    chosen = parser.parse_args()
    libraries = {"vmap": importlib.import_module("minitorch")}
    if chosen.torch:
        libraries["PyTorch's"] = importlib.import_module("torch")
        libraries["PyTorch's"].set_num_threads(1)
    both = {name: tasks(m, chosen.examples) for name, m in libraries.items()}
    print(
        f"{f'{chosen.examples} examples, ms':32}{'loop':>10}{''.join(f'{n:>11}' for n in both)}   loop / vmap"
    )
    for name, task in both["vmap"].items():
        ways = {
            library: functools.partial(
                m.func.vmap(both[library][name][0], both[library][name][1]), *both[library][name][2]
            )
            for library, m in libraries.items()
        }
        found = _times(loop=functools.partial(_loop, *task), **ways)
        print(
            f"{name:32}{''.join(f'{1e3 * t:11.3f}' for t in found.values())}{found['loop'] / found['vmap']:11.0f}×"
        )
    print(f"\n{'forward mode, ms':32}{'forward':>11}{'jvp':>11}")
    m = libraries["vmap"]
    for name, (function, x) in forwards(m).items():
        jvp = functools.partial(m.func.jvp, function, (x,), (x,))
        found = _times(forward=functools.partial(function, x), jvp=jvp)
        print(
            f"{name:32}{1e3 * found['forward']:11.3f}{1e3 * found['jvp']:11.3f}{found['jvp'] / found['forward']:11.1f}×"
        )


if __name__ == "__main__":
    main()
