"""What minitorch costs beside NumPy on large arrays: ten million elements, and the same arithmetic by hand.

    python benchmarks/large.py [--rounds 5] [--json FILE]

Here the library's own overhead is nothing and memory is everything: an unneeded copy or pass over the
array shows at once. By hand means: as a careful person writes it for this one function. Both sides
sum the result to a loss, and hand out gradients that are arrays of their own. Further: indexing, what is
not computed because nobody wants it, and views.
"""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any, NamedTuple

import contest
import numpy as np

SIZE = 10_000_000
ROWS, WIDTH, CHOSEN = 50_000, 64, 20_000  # an embedding: a table, and how many of its rows a batch reads

Arrays = tuple[np.ndarray, ...]


class Workload(NamedTuple):
    """A function on Tensors, and the same by hand: its forward, and its backward from (g, out, inputs)."""

    tensors: Callable[..., Any]
    forward: Callable[..., np.ndarray]
    backward: Callable[..., Arrays]
    count: int = 1  # of inputs
    wanted: tuple[int, ...] | None = None  # which inputs require grad; None: all


def sigmoid_by_hand(x: np.ndarray) -> np.ndarray:
    out = np.negative(x)
    np.exp(out, out=out)
    out += 1
    return np.divide(1, out, out=out)


ELEMENTWISE = {
    "add": Workload(lambda a, b: a + b, lambda a, b: a + b, lambda g, *_: (g.copy(), g.copy()), 2),
    "mul": Workload(lambda a, b: a * b, lambda a, b: a * b, lambda g, out, a, b: (g * b, g * a), 2),
    "a·b + c": Workload(
        lambda a, b, c: a * b + c,
        lambda a, b, c: a * b + c,
        lambda g, out, a, b, c: (g * b, g * a, g.copy()),
        3,
    ),
    "exp": Workload(lambda x: x.exp(), np.exp, lambda g, out, x: (g * out,)),
    "tanh": Workload(lambda x: x.tanh(), np.tanh, lambda g, out, x: (g * (1 - out * out),)),
    "sigmoid": Workload(lambda x: x.sigmoid(), sigmoid_by_hand, lambda g, out, x: (g * (out * (1 - out)),)),
    "relu": Workload(lambda x: x.relu(), lambda x: np.maximum(x, 0), lambda g, out, x: (g * (x > 0),)),
    "square": Workload(lambda x: x**2, lambda x: x * x, lambda g, out, x: (g * (2 * x),)),
    "sum": Workload(lambda x: x.sum(), lambda x: x.sum(), lambda g, out, x: (np.full_like(x, g),)),
    "mean": Workload(
        lambda x: x.mean(), lambda x: x.mean(), lambda g, out, x: (np.full_like(x, g / x.size),)
    ),
}


def put_back(g: np.ndarray, out: np.ndarray, table: np.ndarray, key: Any) -> Arrays:
    gradient = np.zeros_like(table)
    gradient[key] = g
    return (gradient,)


def put_back_repeated(g: np.ndarray, out: np.ndarray, table: np.ndarray, key: Any) -> Arrays:
    gradient = np.zeros_like(table)
    np.add.at(gradient, key, g)
    return (gradient,)


def take(x: Any, key: Any) -> Any:
    return x[key]


INDEXING = {
    f"table[{CHOSEN} ints]": Workload(take, take, put_back_repeated),
    "table[mask]": Workload(take, take, put_back),
    "table[slice]": Workload(take, take, put_back),
}

PRODUCTS = {
    "both require grad": Workload(
        lambda x, w: x @ w, lambda x, w: x @ w, lambda g, out, x, w: (g @ w.T, x.T @ g), 2
    ),
    "only the right one": Workload(
        lambda x, w: x @ w, lambda x, w: x @ w, lambda g, out, x, w: (x.T @ g,), 2, (1,)
    ),
}

VIEWS: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: x.reshape(1000, -1),
    "transpose": lambda x: x.reshape(1000, -1).T,
    "broadcast_to": lambda x: x.broadcast_to(3, SIZE),
    "x[5:-5:2]": lambda x: x[5:-5:2],
}

WORKLOADS = {**ELEMENTWISE, **INDEXING, **PRODUCTS}


# --- the workers --------------------------------------------------------------------------------


def inputs(name: str) -> tuple[list[np.ndarray], tuple[Any, ...]]:
    """Return the arrays of a workload, and what else its function takes (an index)."""
    rng = np.random.default_rng(0)
    draw = lambda *shape: rng.standard_normal(shape, dtype=np.float32)
    if name in INDEXING:
        keys = {
            f"table[{CHOSEN} ints]": rng.integers(0, ROWS, CHOSEN),
            "table[mask]": rng.random(ROWS) < CHOSEN / ROWS,
            "table[slice]": slice(1000, 1000 + CHOSEN),
        }
        return [draw(ROWS, WIDTH)], (keys[name],)
    if name in PRODUCTS:
        return [draw(1024, 1024), draw(1024, 1024)], ()
    return [draw(SIZE) for _ in range(WORKLOADS[name].count)], ()


def by_hand(name: str) -> tuple[float, float]:
    """Return the seconds of forward and of backward, written in NumPy."""
    arrays, rest = inputs(name)
    workload = WORKLOADS[name]
    start = time.perf_counter()
    out = workload.forward(*arrays, *rest)
    loss = out.sum()
    middle = time.perf_counter()
    g = np.broadcast_to(np.ones_like(loss), out.shape)
    gradients = workload.backward(g, out, *arrays, *rest)
    end = time.perf_counter()
    assert len(gradients) > 0
    return middle - start, end - middle


def by_minitorch(name: str) -> tuple[float, float]:
    """Return the seconds of forward and of backward, as the library does it."""
    import minitorch

    arrays, rest = inputs(name)
    workload = WORKLOADS[name]
    wanted = range(len(arrays)) if workload.wanted is None else workload.wanted
    tensors = [minitorch.tensor(a, requires_grad=i in wanted) for i, a in enumerate(arrays)]
    start = time.perf_counter()
    out = workload.tensors(*tensors, *rest)
    loss = out.sum()
    middle = time.perf_counter()
    loss.backward()
    gradients = [tensor.grad for tensor in tensors]
    end = time.perf_counter()
    assert len(gradients) > 0
    return middle - start, end - middle


def views() -> dict[str, tuple[bool, int]]:
    """Tell of each view whether it shares memory with its source, and how many bytes it allocated."""
    import minitorch

    x = minitorch.zeros(SIZE, requires_grad=True)
    found = {}
    for name, view in VIEWS.items():
        view(x)
        tracemalloc.start()
        y = view(x)
        allocated = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        found[name] = (bool(np.shares_memory(x.detach().numpy(), y.detach().numpy())), allocated)
    return found


def work(name: str) -> None:
    """Be the process of one side."""
    package = "numpy" if name == "NumPy by hand" else "minitorch"
    measure = by_hand if name == "NumPy by hand" else by_minitorch

    def perform(task: str) -> Any:
        if task == "views":
            return views()
        times = [measure(task) for _ in range(3)]
        return [min(part) for part in zip(*times, strict=True)]

    contest.serve(contest.version(package), perform)


# --- the report ---------------------------------------------------------------------------------


def report(title: str, names: dict[str, Workload], times: contest.Times) -> None:
    """Print forward and backward of some workloads, in milliseconds, and minitorch over NumPy."""
    print(f"\n{title:<28}{'forward, ms':>22}{'backward, ms':>32}{'both':>16}")
    print(f"{'':<28}" + f"{'minitorch':>11}{'by hand':>11}{'ratio':>8}" * 2 + f"{'ratio':>10}")
    for name in names:
        print(f"{name:<28}", end="")
        best = {
            side: [1e3 * min(part) for part in zip(*rounds, strict=True)]
            for side, rounds in times[name].items()
        }
        ours, hand = best["minitorch"], best["NumPy by hand"]
        for part in (0, 1):
            print(f"{ours[part]:11.2f}{hand[part]:11.2f}{ours[part] / hand[part]:8.2f}", end="")
        print(f"{sum(ours) / sum(hand):10.2f}")


def main() -> None:
    """Hold the contest, or be one of its workers."""
    options = contest.arguments(__doc__.splitlines()[0], rounds=5)
    if options.worker:
        work(options.worker)
        return
    from minitorch.app.bench.measure import ContenderProcess

    versions, times = contest.hold(__file__, ["minitorch", "NumPy by hand"], WORKLOADS, options.rounds)
    print(contest.machine())
    print(", ".join(f"{name} {version}" for name, version in versions.items()), "(one thread each)")
    report(f"{SIZE:,} elements, float32", ELEMENTWISE, times)
    report(f"a table of {ROWS:,} × {WIDTH}", INDEXING, times)
    report("matmul 1024 × 1024", PRODUCTS, times)
    worker = ContenderProcess(__file__, "minitorch")
    print(
        f"\n{'views of ' + format(SIZE, ',') + ' elements':<28}{'shares memory':>15}{'bytes allocated':>18}"
    )
    for name, (shared, allocated) in worker.ask("views").items():
        print(f"{name:<28}{'yes' if shared else 'NO':>15}{allocated:>18,}")
    worker.close()
    contest.save(options.json, versions, times)


if __name__ == "__main__":
    main()
