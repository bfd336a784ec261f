"""save and load: Tensors in containers to and from files, without pickle ever running.

Enters: a state dict, or any nest of dicts, lists and tuples of Tensors, arrays, numbers and strings.
Leaves: a .safetensors or .npz file, whole or not at all; and the nest again, from these or from a
checkpoint that PyTorch wrote. The rooms, in the order data walks: nest (a nest becomes arrays by name
and a JSON skeleton), npz and safetensors (arrays by name in a file), pytorch (its zip checkpoints, read
without PyTorch), atomic (a file is whole or untouched), front (save and load).
"""

from minitorch.serialization.atomic import atomically
from minitorch.serialization.files import load, save

__all__ = ["atomically", "load", "save"]
