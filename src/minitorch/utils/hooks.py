"""torch.utils.hooks: what registering a hook returns. Enters: a dict of hooks. Leaves: a handle that removes one."""

from __future__ import annotations

from minitorch.tensor import HookHandle as RemovableHandle

__all__ = ["RemovableHandle"]
