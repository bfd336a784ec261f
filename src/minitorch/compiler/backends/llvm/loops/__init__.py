"""Loop kernels: rows, and passes over each row while it stays in cache.

Enters: a `Loop`: what is stored where and folded how, over a space of loops divided into outer ones (rows) and
inner ones (along a row). Leaves: a `Kernel`: the text of one function, and how much work it is.

One form serves all. An elementwise kernel has no folds. A softmax has two folds over the inner loops, and so
three passes: the first finds the largest, the second sums the exponentials, the third divides. A fold over the
outer loops (a bias' gradient) adds into memory row by row, one sum per block of rows, and another kernel adds
the blocks up: the order of summation depends on shapes alone, never on how many threads there were.
Vectors lie along one loop, inner or outer: a fold over the inner loops with vectors along an outer one is a
fold in every lane.

`arrange.py` decides which loop vectors lie along and how the work is divided, `passes.py` what each pass computes;
`write.py` writes the function, `write_pass.py` the passes in it, `folds.py` what folds need.
"""

from minitorch.compiler.backends.llvm.kernel import SCRATCH, Kernel
from minitorch.compiler.backends.llvm.loops.loop import Loop, LoopFold, Store
from minitorch.compiler.backends.llvm.loops.write import write_loop

__all__ = ["SCRATCH", "Kernel", "Loop", "LoopFold", "Store", "write_loop"]
