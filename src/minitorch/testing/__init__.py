"""Tools for tests. Enters: results, functions, shapes. Leaves: nothing, or an AssertionError that says what differs.

`assert_close` compares; `gradcheck` proves derivatives of any class of tensors that has the fields of the course
(data, grad, _prev, _backward, requires_grad); `strategies` draws inputs for hypothesis.
"""

from __future__ import annotations

from minitorch.testing import strategies
from minitorch.testing.close import assert_allclose, assert_close
from minitorch.testing.fields import backward, gradcheck
from minitorch.testing.making import make_tensor

__all__ = ["assert_allclose", "assert_close", "backward", "gradcheck", "make_tensor", "strategies"]
