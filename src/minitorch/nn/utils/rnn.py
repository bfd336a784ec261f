"""Sequences of different lengths: padded into one tensor, or packed without any padding.

Enters: a list of sequences, or a padded batch and its lengths. Leaves: a padded Tensor, or a PackedSequence that
RNN, LSTM and GRU understand.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from minitorch.creation import full
from minitorch.engine.node import new_tensor
from minitorch.engine.recording import fixed
from minitorch.functions import cat, pad, stack
from minitorch.tensor import Tensor
from minitorch.tensor.convert import as_tensor


class _Packed(NamedTuple):
    data: Tensor
    batch_sizes: Tensor
    sorted_indices: Tensor | None = None
    unsorted_indices: Tensor | None = None


class PackedSequence(_Packed):
    """Sequences written time step by time step, longest first: made by the pack functions.

    data: (sum of lengths, …), all first elements, then all second ones, and so on. batch_sizes: how many
    sequences have a first element, a second one, …. sorted_indices and unsorted_indices: how the sequences
    were put in order, and back; None if they were given sorted.

    >>> packed = pack_sequence([minitorch.tensor([1, 2, 3]), minitorch.tensor([4, 5])])
    >>> packed.data, packed.batch_sizes
    (tensor([1, 4, 2, 5, 3]), tensor([2, 2, 1]))
    """

    __slots__ = ()

    def __new__(  # noqa: D102
        cls, data: Any, batch_sizes: Any = None, sorted_indices: Any = None, unsorted_indices: Any = None
    ) -> PackedSequence:
        if batch_sizes is None:
            raise TypeError("PackedSequence: batch_sizes is missing; make one with pack_padded_sequence")
        if unsorted_indices is None:
            unsorted_indices = invert_permutation(sorted_indices)
        return super().__new__(cls, data, as_tensor(batch_sizes), sorted_indices, unsorted_indices)

    def to(self, *args: Any, **kwargs: Any) -> PackedSequence:
        """The same sequences in another dtype or on another device.

        >>> pack_sequence([minitorch.tensor([1, 2])]).to(minitorch.float64).data
        tensor([1., 2.], dtype=float64)
        """
        return self._replace(data=self.data.to(*args, **kwargs))

    def double(self) -> PackedSequence:
        """The same sequences in float64."""
        return self._replace(data=self.data.double())

    def float(self) -> PackedSequence:
        """The same sequences in float32."""
        return self._replace(data=self.data.float())

    def half(self) -> PackedSequence:
        """The same sequences in float16."""
        return self._replace(data=self.data.half())

    def long(self) -> PackedSequence:
        """The same sequences in int64."""
        return self._replace(data=self.data.long())

    def int(self) -> PackedSequence:
        """The same sequences in int32."""
        return self._replace(data=self.data.int())

    def cpu(self) -> PackedSequence:
        """The same sequences in the computer's own memory."""
        return self._replace(data=self.data.cpu())

    def cuda(self) -> PackedSequence:
        """The same sequences on the GPU."""
        return self._replace(data=self.data.cuda())

    @property
    def is_cuda(self) -> bool:
        """Whether the sequences are on a GPU."""
        return self.data.device != "cpu"


def invert_permutation(permutation: Any) -> Tensor | None:
    """Return the order that undoes an order: p[inverse] is 0, 1, 2, ….

    >>> invert_permutation(minitorch.tensor([2, 0, 1]))
    tensor([1, 2, 0])
    """
    return None if permutation is None else as_tensor(permutation).argsort()


def _sequences(sequences: Any, name: str) -> list[Tensor]:
    if not isinstance(sequences, Iterable):
        raise RuntimeError(f"{name}: expects a list of sequences, got {type(sequences).__name__}")
    found = [as_tensor(sequence) for sequence in sequences]
    if not found:
        raise RuntimeError(f"{name}: received an empty list of sequences")
    shapes = [sequence.shape for sequence in found]
    if any(not shape or shape[1:] != shapes[0][1:] for shape in shapes):
        raise RuntimeError(f"{name}: sequences may differ in their first axis only, got shapes {shapes}")
    return found


def pad_sequence(
    sequences: Any, batch_first: bool = False, padding_value: float = 0.0, padding_side: str = "right"
) -> Tensor:
    """Put sequences (L, …) of different lengths into one tensor (T, B, …), or (B, T, …) with batch_first.

    >>> pad_sequence([minitorch.tensor([1, 2, 3]), minitorch.tensor([4])], batch_first=True)
    tensor([[1, 2, 3],
            [4, 0, 0]])
    """
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"pad_sequence: padding_side must be 'left' or 'right', got {padding_side!r}")
    parts = _sequences(sequences, "pad_sequence")
    longest = max(part.shape[0] for part in parts)
    padded = []
    for part in parts:
        missing = longest - part.shape[0]
        ends = (missing, 0) if padding_side == "left" else (0, missing)
        # `pad` counts axes from the last: the first one comes at the end.
        padded.append(pad(part, (0, 0) * (part.ndim - 1) + ends, value=padding_value) if missing else part)
    return stack(padded, 0 if batch_first else 1)


def unpad_sequence(padded_sequences: Any, lengths: Any, batch_first: bool = False) -> list[Tensor]:
    """Take a padded batch apart again, each sequence in its own length.

    >>> unpad_sequence(minitorch.tensor([[1, 2, 3], [4, 0, 0]]), [3, 1], batch_first=True)
    [tensor([1, 2, 3]), tensor([4])]
    """
    padded = as_tensor(padded_sequences)
    rows = padded.unbind(0 if batch_first else 1)
    counts = fixed(as_tensor(lengths)._data).tolist()
    return [row[:count] for row, count in zip(rows, counts, strict=True)]


def pack_padded_sequence(
    input: Any, lengths: Any, batch_first: bool = False, enforce_sorted: bool = True
) -> PackedSequence:
    """Leave the padding out of a batch (T, B, …), or (B, T, …) with batch_first: elements beyond `lengths`.

    lengths: one per sequence, in decreasing order unless enforce_sorted is False.

    >>> padded = minitorch.tensor([[1, 2, 3], [4, 0, 0]])
    >>> pack_padded_sequence(padded, [3, 1], batch_first=True).data
    tensor([1, 4, 2, 3])
    """
    name = "pack_padded_sequence"
    x = as_tensor(input)
    if x.ndim < 2:
        raise IndexError(f"{name}: expects a batch of sequences, (T, B, …) or (B, T, …), got shape {x.shape}")
    if batch_first:
        x = x.swapaxes(0, 1)
    counts = fixed(as_tensor(lengths).cpu()._data).astype(np.int64)
    time, batch = x.shape[:2]
    if counts.shape != (batch,):
        raise RuntimeError(
            f"{name}: expected one length for each of the {batch} sequences, got lengths of shape {counts.shape}"
        )
    if (counts <= 0).any():
        raise RuntimeError(f"{name}: every length must be greater than 0, got {counts.tolist()}")
    if counts.max() > time:
        raise RuntimeError(
            f"{name}: a length of {counts.max()} is more than the {time} time steps of the batch"
        )
    order = None
    if not enforce_sorted:
        places = np.argsort(-counts, kind="stable")
        counts = counts[places]
        order = new_tensor(np.asarray(places, like=x._data))
        x = x[:, order]
    elif (counts[1:] > counts[:-1]).any():
        raise RuntimeError(
            f"{name}: lengths must be in decreasing order, got {counts.tolist()}; sort the sequences, or pass "
            "enforce_sorted=False"
        )
    there = np.arange(counts[0])[:, None] < counts  # (T, B)
    flat = x[: int(counts[0])].reshape(int(counts[0]) * batch, *x.shape[2:])
    data = flat[np.asarray(np.flatnonzero(there), like=x._data)]
    return PackedSequence(data, new_tensor(there.sum(axis=1)), order)


def pack_sequence(sequences: Any, enforce_sorted: bool = True) -> PackedSequence:
    """Pack a list of sequences (L, …), longest first unless enforce_sorted is False.

    >>> pack_sequence([minitorch.tensor([1, 2, 3]), minitorch.tensor([4])]).data
    tensor([1, 4, 2, 3])
    """
    parts = _sequences(sequences, "pack_sequence")
    return pack_padded_sequence(
        pad_sequence(parts), [part.shape[0] for part in parts], enforce_sorted=enforce_sorted
    )


def pad_packed_sequence(
    sequence: PackedSequence,
    batch_first: bool = False,
    padding_value: float = 0.0,
    total_length: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Put the padding back: return the batch (T, B, …) and the lengths, in the order they were given.

    >>> packed = pack_sequence([minitorch.tensor([1, 2, 3]), minitorch.tensor([4])])
    >>> pad_packed_sequence(packed, batch_first=True)
    (tensor([[1, 2, 3],
            [4, 0, 0]]), tensor([3, 1]))
    """
    name = "pad_packed_sequence"
    if not isinstance(sequence, PackedSequence):
        raise TypeError(f"{name}: expects a PackedSequence, got {type(sequence).__name__}")
    data, sizes = sequence.data, fixed(sequence.batch_sizes.cpu()._data)
    steps, batch = len(sizes), int(sizes[0])
    time = steps if total_length is None else total_length
    if time < steps:
        raise ValueError(
            f"{name}: total_length {total_length} is less than the longest sequence, which has {steps} elements"
        )
    there = np.arange(batch) < sizes[:, None]  # (T, B)
    # Each place takes a row of data; those of the padding one that is put at the end.
    rows = np.full((time, batch), data.shape[0])
    rows[:steps][there] = np.arange(data.shape[0])
    lengths = there.sum(axis=0)
    if sequence.unsorted_indices is not None:
        back = fixed(sequence.unsorted_indices.cpu()._data)
        rows, lengths = rows[:, back], lengths[back]
    padding = full((1, *data.shape[1:]), padding_value, dtype=data.dtype, device=data.device)
    places = rows.T if batch_first else rows
    return cat([data, padding])[np.asarray(places, like=data._data)], new_tensor(lengths)


def unpack_sequence(packed_sequences: PackedSequence) -> list[Tensor]:
    """Take a PackedSequence apart into its sequences, in the order they were given.

    >>> unpack_sequence(pack_sequence([minitorch.tensor([1, 2, 3]), minitorch.tensor([4])]))
    [tensor([1, 2, 3]), tensor([4])]
    """
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)


__all__ = [
    "PackedSequence", "invert_permutation", "pack_padded_sequence", "pack_sequence", "pad_packed_sequence",
    "pad_sequence", "unpack_sequence", "unpad_sequence",
]  # fmt: skip
