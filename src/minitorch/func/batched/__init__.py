"""Arrays of examples: what an op's plain lines of NumPy compute on inside vmap.

Enters: an array with an axis that counts examples. Leaves: a `Batched`, which looks like the array of one of them.
"""

from minitorch.func.batched import functions, keys
from minitorch.func.batched.arrays import Batched, EachAlone, Level

__all__ = ["Batched", "EachAlone", "Level", "functions", "keys"]
