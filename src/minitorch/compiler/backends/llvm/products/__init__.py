"""Matrix products, convolutions, einsums. Enters: a group around one. Leaves: its kernel.

`contraction.py` says what all of them have in common. Planning (`planning.py`, with `tiling.py`, `packing.py` and
the figures of `costs.py`) turns one into a `ContractionPlan` (`plan.py`). The `write_*.py` files turn a plan into
LLVM text, from the loops over units (`write_kernel.py`) inwards. `epilogue.py` puts what follows the product into
its tiles.
"""

from minitorch.compiler.backends.llvm.products.epilogue import KnownTable, Operand, Product, write_product

__all__ = ["KnownTable", "Operand", "Product", "write_product"]
