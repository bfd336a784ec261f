"""simplify: what is left of a program computes what the program did."""

import numpy as np

from minitorch.compiler.ir.program import Program, interpret
from minitorch.compiler.ir.simplify import simplify
from random_ir import RandomProgram, close


def test_simplifying_keeps_the_meaning():
    for seed in range(40):
        made = RandomProgram(seed)
        program = Program(made.inputs, made.outputs)
        want = interpret(program, made.arrays)
        got = interpret(simplify(program), made.arrays)
        for w, g in zip(want, got, strict=True):
            close(np.asarray(g), np.asarray(w), f"seed {seed}", 5, True)
