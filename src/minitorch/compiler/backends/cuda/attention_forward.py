"""The kernel of attention itself. Enters: an `Attention`. Leaves: what writes its results, and what rows sum to."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from minitorch.compiler.backends.cuda.attention import ROW_NUMBERS, Attention
from minitorch.compiler.backends.cuda.fragments import Groups, Results
from minitorch.compiler.backends.cuda.tiles import (
    FLOAT32,
    FORWARD,
    GROUPS_FORWARD,
    HALF_FORWARD,
    LOG2_E,
    NOTHING,
    RESULT,
    ZERO,
    Tiles,
)
from minitorch.compiler.backends.llvm import functions
from minitorch.compiler.backends.llvm.control import add, multiply, smaller, when
from minitorch.compiler.backends.llvm.text import literal
from minitorch.compiler.ir.halves import HALVES


class Forward(Tiles):
    """A block has queries, and goes along the keys.

    Of each row the largest score so far is known, and the sum of e to the scores less that; where a larger one comes
    up, what was added up so far is made smaller.
    """

    heavy_last = True
    products = 2
    name = "attention"

    def __init__(self, attention: Attention, exact: bool) -> None:
        super().__init__(attention, exact)
        self.own, self.along = attention.query.size, attention.key.size
        self.low, self.high = attention.band.below, attention.band.above

    def shape(self) -> tuple[int, int, bool]:
        """Return strips of rows for a warp, how many of the others are gone along at once, and where own rows are."""
        return (HALF_FORWARD if self.a.dtype in HALVES else FORWARD)[self.a.size]

    def group_shape(self) -> tuple[int, int, int]:
        """Return warps of a block, how many of the others are gone along at once, and blocks of a multiprocessor."""
        return GROUPS_FORWARD[self.a.size]

    def write(self) -> None:
        """Write the phases."""
        a, block, e = self.a, self.block, self.e
        # Whether keys and values are copied while those before them are met.
        ahead = isinstance(self.f, Groups)
        keys = self.buffer(4 * self.tile if ahead else self.tile)
        values = keys if ahead else self.buffer(max(self.tile, self.rows if self.f.in_registers else 0))
        queries = values if self.f.in_registers else self.buffer(self.rows)
        held = self.f.held()
        second = [self.f.slots(2) for _ in range(max(a.size, self.tile) // 8)]
        scores, result = self.f.results(self.tile // 8), self.f.results(a.size // 8)
        factors = [self.f.slots(4) for _ in range(self.strips)]
        # For each row of a thread:
        most, total, mine, theirs = ([block.variable() for _ in range(2 * self.strips)] for _ in range(4))

        with block.phase():
            number = self.at()[0]
            limit = self.limit(self.own, self.rows)
            self.copy(a.q, multiply(e, number, self.rows), self.rows, limit, str(queries))
            start, _ = self.bounds(number)
            if ahead:
                self.copy_met((a.k, a.v), keys, start)
            else:
                self.copy(a.k, multiply(e, start, self.tile), self.tile, f"{self.along}", str(keys))
                e.line("commit")
            self.clear(result)
            for one, other in zip(most, total, strict=True):
                block.keep(one, NOTHING)
                block.keep(other, ZERO)
            self.arrived()
        if self.f.in_registers:
            self.f.hold(held, str(queries))
        with block.turns_between(self.bounds) as turn:
            with block.phase():
                self.arrived()
            with block.phase(waits=False):
                if ahead:
                    self.copy_met((a.k, a.v), keys, add(e, turn, "1"))
                else:
                    self.copy(a.v, multiply(e, turn, self.tile), self.tile, f"{self.along}", str(values))
                    e.line("commit")
                self.clear(scores)
            places: list[Callable[[], str]] = [lambda: str(keys), lambda: str(values)]
            if ahead:
                places = [functools.partial(self.near, keys, turn, which) for which in range(2)]
            self.f.multiply_along(scores, held, str(queries), second, places[0])
            self.f.multiplied()
            with block.phase(waits=False):
                number = self.at()[0]
                self.within(number, turn, functools.partial(self.take_scores, scores, number, turn, mine))
            self.exchange(mine, theirs, self.larger_of)
            with block.phase(waits=False):
                for strip in range(self.strips):
                    for half in range(2):
                        self.take_powers(
                            scores[strip],
                            result[strip],
                            half,
                            *(x[2 * strip + half] for x in (most, total, mine)),
                        )
            if a.kept is not None:
                with block.phase(waits=False):
                    self.drop(scores, self.at()[0], turn)
            if not ahead:
                with block.phase():
                    self.arrived()
                with block.phase(waits=False):
                    _, stop = self.bounds()
                    following = multiply(e, add(e, turn, "1"), self.tile)
                    limit = smaller(e, multiply(e, stop, self.tile), f"{self.along}")
                    self.copy(a.k, following, self.tile, limit, str(keys))
                    e.line("commit")
            self.f.multiply_across(result, scores, factors, second, places[1])
            self.f.multiplied()
        with block.phase(waits=False):
            for one, other in zip(mine, total, strict=True):
                block.keep(one, block.kept(other))
        self.exchange(mine, theirs, self.sum_of)
        with block.phase(waits=False):
            whole = literal(np.float32(a.v.factor * a.kept_factor), FLOAT32)
            sums = [block.kept(each) for each in mine]
            shares = [e.op(f"fdiv float {whole}, {each}") for each in sums]
            number = self.at()[0]
            self.store("o", result, [shares[2 * strip :] for strip in range(self.strips)], number)
            if "l" in a.written:
                self.store_sums(sums, most, number)
            e.line("wait 0")

    def take_scores(self, scores: Results, number: str, turn: str, largest: list[int], masked: bool) -> None:
        """Take f of the products of a tile, and each row's largest."""
        e, block = self.e, self.block
        _, counters = self.at()
        rows, columns, apart = self.places(number, turn)
        for strip, results in enumerate(scores):
            found = [NOTHING, NOTHING]
            for n, result in enumerate(results):
                for k, slot in enumerate(result):
                    half, column = k // 2, columns[k % 2]
                    score = block.kept(slot)
                    if not self.is_plain:
                        known = {"product": self.scaled(score, self.factor)}
                        j = add(e, column, str(8 * n))
                        score = self.expression("scores", counters, rows[strip][half], j, known)
                    distance = apart[strip][half][k % 2]
                    for holds in self.conditions(distance, column, 8 * n) if masked else ():
                        score = e.op(f"select i1 {holds}, float {score}, float {NOTHING}")
                    block.keep(slot, score)
                    found[half] = self.larger_of(found[half], score)
            for half in range(2):
                block.keep(largest[2 * strip + half], found[half])

    def drop(self, powers: Results, number: str, turn: str) -> None:
        """Leave only those powers that are kept."""
        e, block = self.e, self.block
        _, counters = self.at()
        rows, columns, _ = self.places(number, turn)
        for strip, results in enumerate(powers):
            for n, result in enumerate(results):
                for k, slot in enumerate(result):
                    j = add(e, columns[k % 2], str(8 * n))
                    is_kept = self.expression("kept", counters, rows[strip][k // 2], j, {})
                    block.keep(slot, e.op(f"select i1 {is_kept}, float {block.kept(slot)}, float {ZERO}"))

    def take_powers(
        self, scores: list[list[int]], result: list[list[int]], half: int, most: int, total: int, largest: int
    ) -> None:
        """Take e to a row's scores, less the largest so far, and add them up."""
        e, block = self.e, self.block
        before = block.kept(most)
        after = self.larger_of(before, block.kept(largest))
        block.keep(most, after)
        is_none = e.op(f"fcmp oeq float {after}, {NOTHING}")
        least = e.op(f"select i1 {is_none}, float {ZERO}, float {after}")
        if self.is_plain:
            factor = literal(np.float32(self.factor * math.log2(math.e)), FLOAT32)
            less = e.op(f"fmul float {least}, {factor}")
        power_of = (
            (lambda x: self.plain_power(x, less)) if self.is_plain else (lambda x: self.power(x, least))
        )
        smaller_by = power_of(before)
        so_far = e.op(f"fmul float {block.kept(total)}, {smaller_by}")
        for tile in scores:
            for slot in tile[2 * half : 2 * half + 2]:
                power = power_of(block.kept(slot))
                block.keep(slot, power)
                so_far = e.op(f"fadd float {so_far}, {power}")
        block.keep(total, so_far)
        for tile in result:
            for slot in tile[2 * half : 2 * half + 2]:
                block.keep(slot, e.op(f"fmul float {block.kept(slot)}, {smaller_by}"))

    def store_sums(self, sums: list[str], most: list[int], number: str) -> None:
        """Write each row's largest score and the logarithm of its sum, which the gradients are computed from.

        Apart from each other: where all scores are some -1e9 of a mask's, their sum would be lost in it.
        """
        e, counters = self.e, self.at()[1]
        is_mine = e.op(f"icmp eq i64 {self.f.lanes()[2]}, 0")
        rows, _, _ = self.places(number, "0")
        for row, total, largest in zip([each for strip in rows for each in strip], sums, most, strict=True):
            log = functions.emit_function(e, "log", [total], FLOAT32, 1)
            most_scaled = self.scaled(self.block.kept(largest), self.factor if self.is_plain else 1.0)
            numbers = {"m": most_scaled, "l": e.op(f"fmul float {log}, {LOG2_E}")}
            exists = e.op(f"icmp slt i64 {row}, {self.own}")
            targets = {n: self.row_of((RESULT, n), self.a.written[n], counters, row) for n in ROW_NUMBERS}

            def todo(numbers: dict[str, str] = numbers, targets: dict[str, str] = targets) -> None:
                for name in ROW_NUMBERS:
                    e.line(f"store float {numbers[name]}, ptr {targets[name]}, align 4")

            when(e, e.op(f"and i1 {is_mine}, {exists}"), todo)
