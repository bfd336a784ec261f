"""Every operator that PyTorch tests itself with and minitorch offers, on PyTorch's own sample inputs.

Values, and gradients where there are any, must agree; a sample that raises needs a reason written in
op_db_reasons.py. By default some samples of each operator run; MINITORCH_OP_DB=all runs them all.
"""

import pytest

from op_db import EVERYTHING, operators, verdicts

# So many float64 samples an operator, half as many of integers and of bools: about half a minute.
SOME = 6


@pytest.mark.parametrize("operator", operators(), ids=lambda operator: operator.name)
def test_operator_agrees_with_pytorch(operator):
    problems, compared = [], 0
    for spelling, dtype, number, verdict in verdicts(operator, None if EVERYTHING else SOME):
        compared += verdict.kind != "skipped"
        if verdict.kind == "wrong" or (verdict.kind == "raised" and not verdict.reason):
            problems.append(f"{spelling}, {dtype}, sample {number}: {verdict.kind}: {verdict.detail}")
    assert not problems, "\n".join(problems)


def test_many_operators_are_offered():
    assert len(operators()) > 500
