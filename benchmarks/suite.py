"""Everything `minitorch bench` asks, group by group. Read by the one who asks; the workers are the other files here.

A group names its script, which is started once per contender as `python SCRIPT --worker CONTENDER` and answers
questions, one line each, with a number (or one for each row). See contest.serve.
"""

from __future__ import annotations

import shutil

import compiled_models
import eager
import first
import lazily

from minitorch.app.bench.plan import BYTES, INSTRUCTIONS, Ask, Part, Questions
from minitorch.app.bench.results import cores

ALL = cores()
# tinygrad makes its kernels with clang.
TINYGRAD = ("tinygrad",) if shutil.which("clang") else ()
NO_CLANG = () if TINYGRAD else ("tinygrad is left out: it needs clang, which is not found here",)
TORCH_COMPILE = ("PyTorch compiled",) if any(map(shutil.which, ("g++", "clang++", "c++"))) else ()
NO_CXX = (
    () if TORCH_COMPILE else ("torch.compile is left out: it needs a C++ compiler, which is not found here",)
)


def one(text: str, row: str, quick: bool = False, **more: object) -> Ask:
    """Ask for a single number."""
    return Ask(text, (Part(row, **more),), quick)  # type: ignore[arg-type]


# --- the machine itself ---------------------------------------------------------------------------------------

MATMUL, COPY = 2048, 1 << 26  # side of the matrices; bytes


def limits(threads: int) -> Questions:
    """The machine's own limits with so many threads."""
    return Questions(
        f"limits-{threads}",
        f"The machine itself, {threads} thread{'s' if threads > 1 else ''}",
        "curves.py",
        ("NumPy", "PyTorch"),
        (
            one(f"matmul {MATMUL}", f"matmul {MATMUL}×{MATMUL}, float32", True, flops=2.0 * MATMUL**3),
            one(f"copy {COPY}", f"copy of {COPY >> 20} MB", True, traffic=2.0 * COPY),
        ),
        threads=threads,
    )


# --- tables ---------------------------------------------------------------------------------------------------

EAGER = Questions(
    "eager",
    "One small op, eagerly",
    "eager.py",
    ("minitorch", "PyTorch", "MyGrad", "autograd"),
    tuple(
        one(
            f"{what}: {name}",
            f"{what}: {name}",
            name in ("mul, add", "relu", "matmul 8×8", "reshape", "sum, mul"),
            headline=name == "mul, add",
        )
        for what in ("forward", "forward + backward")
        for name in eager.WORKLOADS
    ),
    rounds=7,
    about="What the library itself costs: a chain of 100 ops on 8 numbers (8×8 for matmul), both inputs requiring "
    "grad, divided by 100. Forward alone records the graph and drops it. Eager mode allocates each result anew, for "
    "all contenders. PyTorch's ops are C++ behind a dispatcher; the others are Python over NumPy.",
    why="PyTorch is C++ below its first line. Where it is ahead, NumPy's own call costs more than PyTorch's whole op.",
)

COMPILED = Questions(
    "compiled",
    "Whole training steps and memory-bound kernels, compiled",
    "compiled.py",
    ("minitorch", "JAX", "PyTorch", *TORCH_COMPILE),
    tuple(
        one(
            name,
            name,
            name.startswith(("XOR", "grammar", "digits", "softmax")),
            headline=True,
            traffic={
                "softmax 8192×1024": 8.0 * 8192 * 1024,
                "layer norm 8192×1024": 8.0 * 8192 * 1024,
                "gelu 16M": 8.0 * (1 << 24),
                "cross-entropy, forward and backward, 4096×32000": 8.0 * 4096 * 32000,
            }.get(name),
        )
        for name in compiled_models.TASKS
    ),
    threads=ALL,
    rounds_inside=True,
    about="One step: forward, loss, backward and the optimiser's update, with the loss ready to be read. minitorch "
    "compiles it, JAX jits it with donated parameters, PyTorch runs eagerly; 'PyTorch compiled' is the same step in "
    "torch.compile, which needs a C++ compiler and up to a minute for its first calls. minitorch and PyTorch keep "
    "every gradient in .grad; minitorch uses a dropped result's memory again.",
    not_quick=TORCH_COMPILE,
    left_out=NO_CXX,
    why="Where a peer is ahead, nearly all the time is spent in large products or convolutions: oneDNN and MKL "
    "(PyTorch) and Eigen (JAX) carry kernels written by hand for them.",
)

LAZY = Questions(
    "lazy",
    "Lazy execution",
    "lazily.py",
    lazily.CONTENDERS,
    tuple(one(name, name) for name in lazily.TASKS),
    rounds_inside=True,
    about="`with minitorch.lazy()` beside the same lines compiled and run eagerly: what it costs to record one op on 8 "
    "numbers (a chain of 100, divided by 100), the same with the program run, a chain of elementwise ops on 4 million "
    "numbers, and a whole training step with its loss read.",
    why="Recording is Python, and is done anew at each round; a compiled function is recorded once.",
)

# --- growth ---------------------------------------------------------------------------------------------------

SIZES = [10**power for power in range(8)]
# The bytes that one op of the chain must move at least, per element: what it reads and what it writes.
TRAFFIC = {
    "mul, forward": 12,
    "mul, forward + backward": 36,
    "tanh, forward": 8,
    "tanh, forward + backward": 20,
}

SIZE = Questions(
    "size",
    "One op against the tensor's size",
    "curves.py",
    ("minitorch", "PyTorch", "MyGrad", "autograd", "NumPy"),
    tuple(
        one(f"size {curve}|{n}", f"{curve}, {n:,}", n in (1, 1000, 10**6), curve=curve, x=n, traffic=float(moved * n))
        for curve, moved in TRAFFIC.items()
        for n in SIZES
    ),
    x="elements",
    rounds=3,
    about="A chain of 10 ops, divided by 10. Flat on the left: the library's own cost. Rising on the right: arithmetic "
    "and memory. NumPy runs without a graph and without gradients. On glibc minitorch keeps the memory of freed arrays "
    "up to 32 MB each; MyGrad and autograd leave that to the C library, and much of their time on mid-size arrays goes "
    "into fresh pages.",
    why="On large arrays it is memory traffic that is measured, and the libraries differ in how many arrays they touch "
    "and how many they hold at once.",
)  # fmt: skip

DEPTHS, WIDTHS, BATCHES = (
    [1, 2, 4, 8, 16, 32, 64, 128],
    [8, 16, 32, 64, 128, 256, 512, 1024],
    [1, 8, 64, 512, 4096],
)
STEPPERS = ("minitorch compiled", "minitorch eager", "JAX", "PyTorch", *TINYGRAD)


def mlp(kind: str, curve: str, x: int, depth: int, width: int, batch: int, quick: bool) -> Ask:
    """Ask for something about an MLP of equal layers; its least arithmetic is two products back for each forward."""
    products = 2.0 * batch * width * width
    flops = products * (3 * depth - 1)  # the first layer's input needs no gradient
    text = f"{kind} {depth} {width} {batch}"
    return one(text, f"{curve} {x}", quick, curve=curve, x=x, flops=flops if kind == "step" else None,
               unit=BYTES if kind == "memory" else "seconds")  # fmt: skip


STEPS = Questions(
    "steps",
    "A training step against depth, width and batch",
    "curves.py",
    STEPPERS,
    (
        *(mlp("step", "depth (width 64, batch 32)", d, d, 64, 32, d in (1, 8)) for d in DEPTHS),
        *(mlp("step", "width (3 layers, batch 64)", w, 3, w, 64, w in (16, 256)) for w in WIDTHS),
        *(mlp("step", "batch (3 layers, width 128)", b, 3, 128, b, b in (1, 512)) for b in BATCHES),
    ),
    threads=ALL,
    rounds_inside=True,
    about="An MLP of equal layers with ReLU and cross-entropy, trained by SGD. On the left the libraries' own cost, on "
    "the right the products; the dashed line is the arithmetic at this machine's best FLOP/s.",
    why="In wide layers and large batches the products decide: PyTorch calls MKL for them.",
    left_out=NO_CLANG,
)

COMPILE = Questions(
    "compile",
    "Time to compile against the program's size",
    "curves.py",
    ("minitorch compiled", "minitorch from disk", "JAX"),
    tuple(mlp("compile", "first two calls", d, d, 64, 32, d == 4) for d in (1, 2, 4, 8, 16, 32, 64)),
    threads=ALL,
    rounds=3,
    quick_rounds=1,
    fresh=True,
    x="layers of the MLP",
    about="Seconds of the first two calls of a compiled training step, in a new process that has compiled a tiny one "
    "before: recording (tracing), compiling, and running. minitorch records at both, and compiles at the second, when "
    "it also checks the program against the function itself. 'From disk': the object code was kept by an earlier "
    "process, as it is by default; JAX keeps none unless told to.",
    why="minitorch checks every new program against the function itself before it is used.",
)

LENGTHS = [10**3, 10**4, 10**5, 10**6]


def lengths() -> tuple[Ask, ...]:
    """Ask for forward, backward and memory of a long chain, measured at once."""
    asks = []
    for n in LENGTHS:
        parts = (
            Part(f"forward, {n:,} ops", "forward", n),
            Part(f"backward, {n:,} ops", "backward", n),
            Part(f"peak memory, {n:,} ops", "peak memory", n, BYTES),
        )
        asks.append(Ask(f"graph {n}", parts, n == 10**4))
    return tuple(asks)


GRAPH = Questions(
    "graph",
    "Backward against the graph's length",
    "curves.py",
    ("minitorch", "PyTorch", "MyGrad", "autograd"),
    lengths(),
    rounds=3,
    quick_rounds=1,
    fresh=True,
    x="ops in the graph",
    about="A chain of mul and add on 8 numbers, up to a million nodes: twice the graph must cost twice the time. Each "
    "in a new process; peak memory is what the process held at most beyond what it held before the chain.",
    why="PyTorch walks back in C++.",
)

MEMORY = Questions(
    "memory",
    "Peak memory against depth",
    "curves.py",
    ("minitorch compiled", "minitorch eager", "JAX", "PyTorch"),
    tuple(mlp("memory", "peak memory", d, d, 512, 512, d == 8) for d in (1, 2, 4, 8, 16, 32, 64)),
    threads=ALL,
    rounds=2,
    quick_rounds=1,
    fresh=True,
    x="layers (width 512, batch 512)",
    about="The most a new process holds during three training steps, beyond what it held after import: weights, "
    "gradients, activations, and whatever the compiler needs.",
    why="LLVM and what it makes take some tens of MB, however small the model, and the first call of a compiled step "
    "checks the program against the function itself: for that moment it holds weights and gradients twice, and more "
    "where deep networks make it look closer. Afterwards it holds less. JAX keeps no gradient after the step.",
)

# --- what a user feels first ----------------------------------------------------------------------------------

EVERYONE = ("minitorch", "minitorch compiled", "PyTorch", "JAX", "MyGrad", "autograd", *TINYGRAD)
FIRST = Questions(
    "first",
    "What a user feels first",
    "first.py",
    EVERYONE,
    (
        one("import", "import", True, headline=True),
        one("step", "from starting Python to the first training step's loss", True, headline=True),
        one("rest", "memory at rest after import", True, unit=BYTES),
    ),
    rounds=3,
    quick_rounds=1,
    about="Each in a new process. The first step is that of a two-layer XOR network with SGD. 'minitorch compiled' "
    "also compiles it, without any object code kept from earlier.",
    why="MyGrad and autograd are smaller libraries: there is less to import.",
)

INSTALL = Questions(
    "install",
    "Installing",
    "first.py",
    EVERYONE,
    (Ask("install", (Part("pip install into a fresh environment"), Part("megabytes on disk", unit=BYTES))),),
    rounds=2,
    about="pip into a new virtual environment; the better of two, so that downloads come from pip's cache where "
    "it keeps any. minitorch is installed from this checkout, which includes building it; the others come as wheels. "
    "On disk is everything that came along, NumPy and SciPy too. 'minitorch compiled' is "
    "the extra '.[compile]', with llvmlite.",
    why="MyGrad, autograd and tinygrad are wheels of Python alone; minitorch brings SciPy and is built first.",
)

COUNTER = first.counter()
COUNTED = {
    "perf": [f"{what}: {name}" for what in ("forward", "forward + backward") for name in eager.WORKLOADS],
    "callgrind": [
        f"{what}: {name}" for what in ("forward", "forward + backward") for name in ("mul, add", "relu")
    ],
}
INSTRUCTION_COUNTS = Questions(
    "instructions",
    "Instructions of one small op, eagerly",
    "first.py",
    ("minitorch",),
    tuple(
        one(f"count {task}", f"instructions, {task}", unit=INSTRUCTIONS)
        for task in COUNTED.get(COUNTER or "", [])
    ),
    rounds=2,
    about="How many instructions the processor executes for an op of the first table, counted by "
    f"{COUNTER}: a number that varies by a percent or two, for --compare on a noisy machine.",
    left_out=()
    if COUNTER
    else ("instruction counts are left out: neither `perf stat` with a counter nor valgrind is found here",),
)

GROUPS = [
    limits(1),
    *([limits(ALL)] if ALL > 1 else []),
    EAGER,
    COMPILED,
    LAZY,
    SIZE,
    STEPS,
    COMPILE,
    GRAPH,
    MEMORY,
    FIRST,
    INSTALL,
    INSTRUCTION_COUNTS,
]
