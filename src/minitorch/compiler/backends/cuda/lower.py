"""From groups to GPU kernels. Enters: groups of values. Leaves: the kernels of each group.

Values become expressions as for a CPU; a product is a loop like any other, that folds a row of multiplications.
"""

from __future__ import annotations

from typing import Any

from minitorch.compiler.backends.cuda.loops import write_loop
from minitorch.compiler.backends.cuda.products import LibraryProduct, library_product
from minitorch.compiler.backends.cuda.words import TRIPLE
from minitorch.compiler.backends.llvm.body import Body
from minitorch.compiler.backends.llvm.loops import Loop, LoopFold
from minitorch.compiler.backends.llvm.lower import Lowering, loop_key, product_of
from minitorch.compiler.backends.llvm.target import Target
from minitorch.compiler.ir.index import dims_of
from minitorch.compiler.ir.program import Value
from minitorch.compiler.schedule.groups import Group
from minitorch.compiler.schedule.schedule import Schedule

# Operands (FAILED, n): whether the n-th check has failed, counted from 1; (FAILED, 0): whether any has.
FAILED = "failed"


class GpuLowering(Lowering):
    """Writes groups as kernels for a GPU."""

    def __init__(self, schedule: Schedule) -> None:
        super().__init__(schedule, Target("", "", TRIPLE))
        self.checks: list[Group] = []  # so far

    def write(self, loop: Loop) -> Any:
        """Write a loop; one that checks says where to say so, and others look there before they do any harm."""
        if loop.has("check"):
            self.checks.append(self.group)
            loop.folds[0].operand = loop.body.operand((FAILED, len(self.checks)))
            loop.body.operand((FAILED, 0))
            guard = None
        else:
            guard = loop.body.operand((FAILED, 0)) if self.checks and self.may_harm(loop) else None
        return self.written((guard, loop_key(loop)), loop.body, lambda: write_loop(loop, guard))

    def may_harm(self, loop: Loop) -> bool:
        """Whether a loop would read or write elsewhere if an index were out of range, or changes an input."""
        if any(store.places for store in loop.stores) or any(
            n.kind == "load" and n.args for n in loop.nodes()
        ):
            return True
        written = [s.operand for s in loop.stores] + [f.operand for f in loop.folds if f.operand >= 0]
        operands = [loop.body.operands[place] for place in written]
        values = [each[0] if isinstance(each, tuple) else each for each in operands]
        arguments, inputs = self.schedule.arguments, len(self.schedule.program.inputs)
        return any(arguments.get(value, inputs) < inputs for value in values)

    def contract(self, group: Group) -> Any:
        """Write a product, with what follows it, as a loop over its elements and along its sums."""
        value, indices, summed = product_of(group)
        body = Body(self.is_stored)
        sides = [body.at(operand, index) for operand, index in zip(value.inputs, indices, strict=True)]
        sides = [
            side if side.dtype == value.dtype else body.apply("cast", value.dtype, side) for side in sides
        ]
        loop = Loop(body, dims_of(group.index[value]), summed, True)
        loop.folds.append(LoopFold(value, "add", body.apply("multiply", value.dtype, *sides), "row"))
        _, stores = self.epilogue(group, value, body)
        loop.stores += stores
        return self.library_product(group, value, loop) or self.write(loop)

    def library_product(self, group: Group, value: Value, loop: Loop) -> LibraryProduct | None:
        """Return a product that stands alone as a library's, if it is one that a library computes."""
        left, right = loop.folds[0].source.args
        plain = left.kind == right.kind == "load" and not left.data.conditions and not right.data.conditions
        arguments, inputs = self.schedule.arguments, len(self.schedule.program.inputs)
        if len(group.members) > 1 or not plain or arguments.get(value, inputs) < inputs:
            return None
        sides = [left.data, right.data]
        operands = [*(loop.body.operands[side.operand] for side in sides), value]
        places = (sides[0].where, sides[1].where, loop.stores[0].where)
        return library_product(operands, value.dtype, places, loop.outer, loop.inner)
