"""torch.storage: the classes of storages."""

from minitorch.tensor.storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]
