"""torch.nested: tensors of sequences of several lengths: absent. Enters: sequences. Leaves: an error."""

from __future__ import annotations

from typing import Any, NoReturn


def nested_tensor(*args: Any, **kwargs: Any) -> NoReturn:
    """Refuse: a tensor has one length for each axis."""
    raise NotImplementedError(
        "torch.nested: nested tensors are absent; pad the sequences with torch.nn.utils.rnn.pad_sequence and mask what "
        "was added, or pack them with torch.nn.utils.rnn.pack_sequence"
    )


as_nested_tensor = nested_tensor_from_jagged = to_padded_tensor = narrow = masked_select = nested_tensor
