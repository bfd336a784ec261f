"""torch._VF: the functions beneath recurrent layers. Enters: a name. Leaves: torch's function of that name."""

from __future__ import annotations

from typing import Any

import minitorch


def __getattr__(name: str) -> Any:
    return getattr(minitorch, name)
