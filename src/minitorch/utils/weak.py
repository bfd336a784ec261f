"""Dictionaries that do not keep their tensors alive. Enters: Tensors. Leaves: what was kept for those that live."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, MutableMapping
from typing import Any

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):
    """A weak reference that is equal to another if both are to the same thing, whatever its == says."""

    __slots__ = ("_id",)

    def __init__(self, key: Any, callback: Any = None) -> None:
        super().__init__(key, callback)  # type: ignore[call-arg]
        self._id = id(key)

    def __hash__(self) -> int:
        return self._id

    def __eq__(self, other: object) -> bool:
        mine, others = self(), other() if isinstance(other, WeakIdRef) else None
        return self is other if mine is None or others is None else mine is others


class WeakIdKeyDictionary(MutableMapping[Any, Any]):
    """A dictionary by identity, whose entries go when their keys do.

    >>> notes, x = WeakIdKeyDictionary(), minitorch.ones(1)
    >>> notes[x] = "one"
    >>> notes[x], len(notes)
    ('one', 1)
    >>> del x; len(notes)
    0
    """

    def __init__(self, dict: Any = None, ref_type: Any = WeakIdRef) -> None:
        self.data: Any = {}
        self.ref_type = ref_type
        if dict is not None:
            self.update(dict)

    def _gone(self, reference: Any) -> None:
        self.data.pop(reference, None)

    def __setitem__(self, key: Any, value: Any) -> None:
        self.data[self.ref_type(key, self._gone)] = value

    def __getitem__(self, key: Any) -> Any:
        try:
            return self.data[self.ref_type(key)]
        except KeyError:
            raise KeyError(key) from None

    def __delitem__(self, key: Any) -> None:
        del self.data[self.ref_type(key)]

    def __contains__(self, key: object) -> bool:
        return self.ref_type(key) in self.data

    def __len__(self) -> int:
        return len(self.data)

    def __iter__(self) -> Iterator[Any]:
        return iter([key for key in (reference() for reference in list(self.data)) if key is not None])

    def __repr__(self) -> str:
        return f"<{type(self).__name__} at {id(self):#x}>"


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a Tensor: called, it gives the Tensor, or None."""

    def __init__(self, tensor: Any) -> None:
        self.ref = weakref.ref(tensor)

    def __call__(self) -> Any:
        """Return the Tensor; None if it is gone."""
        return self.ref()
