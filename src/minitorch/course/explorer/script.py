"""A script, explored. Enters: a script's path. Leaves: the backward pass that it makes, as an `Explorer`.

The script runs as it would by itself up to its first call of `backward()` (or the n-th), which is recorded instead of
made. A script with an engine of its own is run to its end; then its variable `loss` is taken.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from minitorch.course.explorer import Explorer, explore
from minitorch.tensor import Tensor
from minitorch.testing.fields import is_tensor


class _Found(BaseException):
    """The backward that was looked for; no `except Exception` of the script stops it."""

    def __init__(self, explorer: Explorer) -> None:
        super().__init__()
        self.explorer = explorer


def run_script(path: Path, arguments: Sequence[str] = (), which: int = 1) -> Explorer | None:
    """Run a script up to its backward number `which`, and return that; None if it makes none."""
    own: Callable[..., Any] = Tensor.backward
    calls = 0

    def backward(self: Tensor, *given: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == which:
            frame = sys._getframe(1)
            raise _Found(explore(self, names={**frame.f_globals, **frame.f_locals}))
        return own(self, *given, **options)

    kept = sys.argv, sys.path[:]
    sys.argv, sys.path[:] = [str(path), *arguments], [str(path.resolve().parent), *sys.path]
    Tensor.backward = backward  # type: ignore[method-assign]
    try:
        space = runpy.run_path(str(path), run_name="__main__")
    except _Found as found:
        return found.explorer
    except SystemExit:
        return None
    finally:
        Tensor.backward = own  # type: ignore[method-assign]
        sys.argv, sys.path[:] = kept
    loss = space.get("loss")
    return explore(loss, names=space) if is_tensor(loss) and not isinstance(loss, Tensor) else None
