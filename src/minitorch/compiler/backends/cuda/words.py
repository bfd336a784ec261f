"""The words that GPU kernels are written in. Enters: phases of instructions. Leaves: a `Kernel`.

A kernel runs in blocks of threads. What it computes is cut into phases: inside a phase a thread sees nothing of what
the other threads of its block do in it, and between two phases there is a barrier. Names do not outlive a phase; what
does lies in shared memory, which a block has for itself, or in memory. So a GPU runs the phases one after the other
with a barrier between them (gpu_text.py), and a CPU runs each phase for one thread after the other (cpu_text.py): a
wrong index, a name that is not known in every thread or a barrier that is missing shows there too.

Inside a phase there are `%block`, `%thread`, `%shared`, the counters of the turns around it, and `%operand0` …
Sizes that vary from call to call have names too, `%size.0` … (`with_sizes`): a launch is given what they are.
What a thread itself needs in a later phase of the same turn it can `keep`, and have back as `kept`: on a GPU that is a
register, so it must not be kept inside a branch or a loop. A kernel that has `variables` keeps them as long as it runs.

What the 32 threads of a warp do together (multiply matrices, look at what another keeps) comes between two phases, too,
and concerns variables. `copy` brings 16 bytes (the last of them 0 where there are fewer) to shared memory while a
thread goes on, `commit` ends a bundle of copies, and `wait` waits until at most so many bundles are on their way.
Four warps multiply what lies in shared memory (`GroupProducts`): what was written there has to be `shown` to them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from minitorch.compiler.backends.cuda.exact import renamed
from minitorch.compiler.backends.cuda.instructions import FAST
from minitorch.compiler.backends.llvm.text import Emitter
from minitorch.compiler.ir.sizes import Size, spelled

TRIPLE = "nvptx64-nvidia-cuda"
ALIGNMENT = 16  # of arrays that kernels read
SHARED_BYTES = 48 << 10  # what every GPU gives a block
SHARED_ALIGNMENT = 1024  # of shared memory that four warps multiply from
EXIT = "  exit"  # the line that ends a phase; each rendering has its own way
KEEP = re.compile(r"  keep (\d+) (\w+) (\S+)")
KEPT = re.compile(r"  (\S+) = kept (\d+) (\w+)")
COPY = re.compile(r"  copy (\S+) (\S+) (\S+)")
WAIT = re.compile(r"  (commit|wait) ?(\d*)")
SHOWN = "  shown"
WARP = 32
SIZE = "size"  # (SIZE, size): an operand that is no address, but what a size is


@dataclass
class Phase:
    """Instructions that every thread of a block runs between two barriers.

    in_warps: whether at its end it is enough that the 32 threads of a warp wait for each other. waits: whether anybody
    has to wait there at all.
    """

    number: int
    lines: list[str]
    in_warps: bool = False
    waits: bool = True


@dataclass
class Together:
    """What the threads of each warp do together with their variables.

    'multiply': c += a @ b, of 16 × 8 and 8 × 8 elements in TF32; slots: four of c, four of a and two of b, as
    mma.m16n8k8 has them. 'multiply_bfloat16' and 'multiply_float16': the same of 16 × 16 and 16 × 8 elements, two in a
    slot of a and b.
    'exchange': the second is what the thread `distance` away (exclusive or) has in the first. 'matrices': four matrices
    of 8 × 8 elements of two bytes from shared memory, two elements of each in a slot. The fifth slot says where: of the
    8·n-th thread and the seven after it, where the rows of matrix n begin, in bytes, but for `distance`. In
    'matrices_transposed' rows and columns are exchanged.
    """

    number: int
    kind: str
    slots: tuple[int, ...]
    distance: int = 0


@dataclass(frozen=True)
class GroupProduct:
    """A product of four warps, 64 rows by some columns of halves: c += a @ b, or c = a @ bᵀ.

    c: four slots for each eight columns, of 16 rows for each warp as 'multiply_bfloat16' has them. a: slots of
    fragments likewise, four for each 16 that are summed; or the one that says where its rows begin in shared memory.
    b: the slot that says so of b's. summed: how many. across: c += a @ b. panels: how far apart in shared memory
    columns 0 and 64 of a row are, of a and of b: 64 columns lie side by side there, and eighths of them (16 bytes) in
    an order in which threads find all banks: eighth n of row i where n xor i % 8 says.
    """

    dtype: np.dtype
    c: tuple[int, ...]
    a: tuple[int, ...]
    b: int
    summed: int
    across: bool
    panels: tuple[int, int] = (0, 0)


@dataclass
class GroupProducts:
    """Products that each four warps of a block multiply together, one beside the other."""

    number: int
    products: list[GroupProduct]


@dataclass
class Turns:
    """Phases that all threads of a block go through several times together.

    count: a number, or a size's name. Where how often depends on the block, `lines` compute from where to where the
    counter goes: start and stop.
    """

    counter: str
    count: int | str
    items: list[Item] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    start: str = "0"
    stop: str = ""


Item = Phase | Turns | Together | GroupProducts
Each = TypeVar("Each", bound=Item)


@dataclass
class Kernel:
    """A function that a GPU runs in `blocks` blocks of `threads` threads each.

    operands: what its addresses are of, in the order of its slots. shared: bytes that each block has for itself.
    externs: other functions it calls, with their declarations or texts. elements: places of its loops. parts: of one
    that has no phases of its own, the kernels that it runs side by side. kept: how many things a thread keeps.
    variables: their types, if they are kept for as long as the kernel runs. exact: the same, but nothing is rounded to
    TF32 in it.
    sizes: how many of its operands, the last ones, are sizes; blocks and elements may vary with them. at_once: for how
    many blocks a multiprocessor is to have registers, at least.
    """

    items: list[Item]
    operands: list[Any]
    blocks: int
    threads: int
    shared: int
    externs: dict[str, str]
    flops: float = 0.0
    note: str = ""
    elements: int = 0
    parts: Sequence[Part] = ()
    kept: int = 0
    variables: Sequence[str] = ()
    exact: Kernel | None = None
    sizes: int = 0
    at_once: int = 1

    @property
    def length(self) -> int:
        """How long it takes to be made, about: its lines."""
        return _length(self.items) + sum(part.kernel.length for part in self.parts)


def _length(items: Sequence[Item]) -> int:
    lines = 0
    for item in items:
        lines += 8 if isinstance(item, (Together, GroupProducts)) else len(item.lines)
        lines += _length(item.items) if isinstance(item, Turns) else 0
    return lines


def with_sizes(write: Callable[[], Kernel]) -> Kernel:
    """Write a kernel in which sizes may vary: each that it names is one more operand."""
    names: dict[Size, str] = {}
    with spelled(lambda size: names.setdefault(size, f"%size.{len(names)}")):
        kernel = write()
    if names:
        kernel.operands.extend((SIZE, size) for size in names)
        kernel.sizes = len(names)
    return kernel


@dataclass(frozen=True)
class Part:
    """A kernel among others, its first block and the place of its first operand there."""

    kernel: Kernel
    block: int
    operand: int


class BlockWriter:
    """A kernel while it is written."""

    def __init__(self) -> None:
        self.e = Emitter(fast=FAST)
        self.items: list[Item] = []
        self._open = [self.items]
        self._count = 0
        self.variables: list[str] = []

    @contextmanager
    def phase(self, in_warps: bool = False, waits: bool = True) -> Iterator[None]:
        """Write the instructions of one phase."""
        e, number = self.e, self._count
        self._count += 1
        e.lines = []
        e.label(f"phase{number}")
        yield
        e.lines.append(EXIT)
        self._open[-1].append(Phase(number, [renamed(line) for line in e.lines], in_warps, waits))
        e.lines = []

    # Variables, and what concerns them.

    def variable(self, kind: str = "float") -> int:
        """Return the slot of something that each thread keeps."""
        self.variables.append(kind)
        return len(self.variables) - 1

    def keep(self, slot: int, name: str) -> None:
        """Keep something."""
        self.e.line(f"keep {slot} {self.variables[slot]} {name}")

    def kept(self, slot: int) -> str:
        """Return what is kept."""
        return self.e.op(f"kept {slot} {self.variables[slot]}")

    def together(self, kind: str, slots: Sequence[int], distance: int = 0) -> None:
        """Let the threads of each warp do something together."""
        self._open[-1].append(Together(self._count, kind, tuple(slots), distance))
        self._count += 1

    def group_products(self, products: list[GroupProduct]) -> None:
        """Let each four warps multiply."""
        self._open[-1].append(GroupProducts(self._count, products))
        self._count += 1

    @contextmanager
    def turns_between(self, bounds: Callable[[], tuple[str, str]]) -> Iterator[str]:
        """Write phases that are gone through for all numbers between two, which `bounds` computes from `%block`."""
        e = self.e
        e.lines = []
        start, stop = bounds()
        turns = Turns("%" + e.fresh("turn"), 0, lines=e.lines, start=start, stop=stop)
        e.lines = []
        self._open[-1].append(turns)
        self._open.append(turns.items)
        yield turns.counter
        self._open.pop()

    @contextmanager
    def turns(self, count: int) -> Iterator[str]:
        """Write phases that are gone through several times; yields the counter's name."""
        if count == 1:
            yield "0"
            return
        turns = Turns("%" + self.e.fresh("turn"), f"{count}" if isinstance(count, Size) else count)
        self._open[-1].append(turns)
        self._open.append(turns.items)
        yield turns.counter
        self._open.pop()


def all_of(kind: type[Each], items: Sequence[Item]) -> Iterator[Each]:
    """Yield what is of a kind among these, and inside their turns."""
    for item in items:
        if isinstance(item, kind):
            yield item
        elif isinstance(item, Turns):
            yield from all_of(kind, item.items)
