"""torch.fx.experimental.symbolic_shapes: conditions on sizes that might be symbols. Enters: a condition. Leaves: it."""

from __future__ import annotations

from typing import Any


def guard_or_false(a: Any) -> bool:
    """Return a condition: sizes are numbers here."""
    return bool(a)


guard_or_true = guard_size_oblivious = statically_known_true = definitely_true = guard_or_false


def is_symbolic(val: Any) -> bool:
    """Return False: sizes are numbers here."""
    return False


has_free_symbols = free_unbacked_symbols = is_symbolic


def guard_int(a: Any) -> int:
    """Return a size."""
    return int(a)


hint_int = guard_int
