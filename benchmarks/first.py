"""The worker of what a user feels first: installing, importing, the first step, memory at rest; and instruction counts.

Started by `minitorch bench`, once per contender: python benchmarks/first.py --worker CONTENDER. Every number is
taken from another new process, so that nothing is warm.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

import contest

HERE = Path(__file__).resolve().parent
PACKAGES = {
    "minitorch": "minitorch", "minitorch compiled": "minitorch", "PyTorch": "torch", "JAX": "jax",
    "MyGrad": "mygrad", "autograd": "autograd", "tinygrad": "tinygrad",
}  # fmt: skip
IMPORTS = {"JAX": "import jax, jax.numpy", "autograd": "import autograd, autograd.numpy"}

# XOR: two inputs, eight hidden units, one output; one SGD step and its loss.
TORCH_LIKE = """
import {library} as torch
from {library} import nn
model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 1))
optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.tensor([[0., 0], [0, 1], [1, 0], [1, 1]]), torch.tensor([[0.], [1], [1], [0]])
{compile}
def step(x, y):
    optimiser.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimiser.step()
    return loss
print(step(x, y).item())
"""
BY_HAND = """
import numpy
rng = numpy.random.default_rng(0)
shapes = [(2, 8), (8,), (8, 1), (1,)]
parameters = [rng.normal(size=shape).astype(numpy.float32) for shape in shapes]
x = numpy.array([[0, 0], [0, 1], [1, 0], [1, 1]], numpy.float32)
y = numpy.array([[0], [1], [1], [0]], numpy.float32)
def loss_of(np, p):
    return np.mean((np.matmul(np.tanh(np.matmul(x, p[0]) + p[1]), p[2]) + p[3] - y) ** 2)
"""
STEPS = {
    "minitorch": TORCH_LIKE.format(library="minitorch", compile=""),
    "minitorch compiled": TORCH_LIKE.format(library="minitorch", compile="@torch.compile"),
    "PyTorch": TORCH_LIKE.format(library="torch", compile=""),
    "JAX": BY_HAND + """
import jax, jax.numpy
@jax.jit
def step(p):
    loss, gradients = jax.value_and_grad(lambda p: loss_of(jax.numpy, p))(p)
    return loss, [a - 0.1 * g for a, g in zip(p, gradients)]
print(float(step(parameters)[0]))
""",
    "MyGrad": BY_HAND + """
import mygrad
p = [mygrad.tensor(a) for a in parameters]
loss = loss_of(mygrad, p)
loss.backward()
p = [a.data - 0.1 * a.grad for a in p]
print(loss.item())
""",
    "autograd": BY_HAND + """
import autograd, autograd.numpy
loss, gradients = autograd.value_and_grad(lambda p: loss_of(autograd.numpy, p))(parameters)
p = [a - 0.1 * g for a, g in zip(parameters, gradients)]
print(float(loss))
""",
    "tinygrad": BY_HAND + """
from tinygrad import Tensor
p = [Tensor(a) for a in parameters]
out = (Tensor(x).matmul(p[0]) + p[1]).tanh().matmul(p[2]) + p[3]
loss = ((out - Tensor(y)) ** 2).mean()
p = [(a - 0.1 * g).realize() for a, g in zip(p, loss.gradient(*p))]
print(loss.item())
""",
}  # fmt: skip
REST = """
try:
    with open("/proc/self/status") as file:
        print(next(1024 * int(line.split()[1]) for line in file if line.startswith("VmRSS:")))
except OSError:
    import resource, sys
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024))
"""


def python(code: str) -> str:
    """Run code in a new Python, away from this folder; return what it printed. Nothing kept on disk helps it."""
    environment = {**os.environ, "MINITORCH_CACHE": ""}
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            cwd=elsewhere,
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    return done.stdout


def import_line(contender: str) -> str:
    return IMPORTS.get(contender, f"import {PACKAGES[contender]}")


def perform(contender: str, question: str) -> Any:
    kind, _, rest = question.partition(" ")
    if kind == "import":
        code = (
            f"import time; t = time.perf_counter(); {import_line(contender)}; print(time.perf_counter() - t)"
        )
        return float(python(code))
    if kind == "rest":
        return float(python(f"{import_line(contender)}\n{REST}"))
    if kind == "step":
        return contest.once(lambda: python(STEPS[contender]))
    if kind == "install":
        return install(contender)
    return instructions(rest)


# --- installing -----------------------------------------------------------------------------------------------


def install(contender: str) -> dict[str, Any]:
    """Time pip in a new environment; and how much larger that has become."""
    if contender.startswith("minitorch"):
        what = str(HERE.parent) + ("[compile]" if contender == "minitorch compiled" else "")
    else:
        label = contest.version(PACKAGES[contender]) or ""
        what = f"{PACKAGES[contender]}=={label.partition('+')[0]}"  # a build's own label is not asked for
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        before = bytes_in(folder)
        program = next(Path(folder).glob("[bS]*/python*"))
        pip = [str(program), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", what]
        begun = time.perf_counter()
        done = subprocess.run(pip, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        seconds = time.perf_counter() - begun
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            return {"problem": f"pip could not install {what}: {reason}"[:200]}
        return {
            "pip install into a fresh environment": seconds,
            "megabytes on disk": bytes_in(folder) - before,
        }


def bytes_in(folder: str) -> int:
    return sum(p.stat().st_size for p in Path(folder).rglob("*") if p.is_file() and not p.is_symlink())


# --- instructions ---------------------------------------------------------------------------------------------


def counter() -> str | None:
    """Tell what can count instructions here: perf with a hardware counter, else callgrind, else nothing."""
    if shutil.which("perf"):
        done = subprocess.run(
            ["perf", "stat", "-x", ",", "-e", "instructions:u", "true"], capture_output=True, text=True
        )
        if done.returncode == 0 and re.search(r"^\d+,", done.stderr, re.MULTILINE):
            return "perf"
    return "callgrind" if shutil.which("valgrind") else None


CHAINS = 40
COUNTED = """
import sys
sys.path.insert(0, {here!r})
import gc, numpy as np, eager
gc.disable()
what, _, name = {task!r}.partition(": ")
methods, np_like, make, run = eager.contender("minitorch")
x, w = eager.inputs(eager.WORKLOADS[name])
arguments = [eager.chain(eager.WORKLOADS[name].methods, np_like), make(x, True), make(w, True)]
if what == "forward + backward":
    arguments.append(make(np.ones_like(x), False))
for _ in range({times}):
    run(*arguments)
"""


def instructions(task: str) -> float:
    """Count what some chains take more than a few: the import and the warm-up are in both."""
    few, many = (count(COUNTED.format(here=str(HERE), task=task, times=times)) for times in (10, 10 + CHAINS))
    return (many - few) / (CHAINS * 100)


def count(code: str) -> int:
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    if counter() == "perf":
        command = ["perf", "stat", "-x", ",", "-e", "instructions:u", sys.executable, "-c", code]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        found = re.search(r"^(\d+),", done.stderr, re.MULTILINE)
    else:
        command = [
            "valgrind",
            "--tool=callgrind",
            "--callgrind-out-file=/dev/null",
            sys.executable,
            "-c",
            code,
        ]
        done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
        found = re.search(r"Collected : (\d+)", done.stderr)
    assert found is not None, done.stderr
    return int(found[1])


def work(contender: str) -> None:
    """Be the process of one contender."""
    version = contest.version(PACKAGES[contender])
    if version is None:
        contest.serve(None, lambda task: 0.0)
        return

    def answer(question: str) -> Any:
        try:
            return perform(contender, question)
        except subprocess.CalledProcessError as error:
            return {"problem": f"exit code {error.returncode} of a process that was measured"}

    contest.serve(version, answer)


if __name__ == "__main__":
    work(sys.argv[sys.argv.index("--worker") + 1])
