"""What hypothesis draws: shapes (zeros and rank 0 included), values, axes, broadcast partners. The library's own."""

from minitorch.testing.strategies import MAX_SIZE, arrays, axes_of, broadcast_pair, shapes, values

__all__ = ["MAX_SIZE", "arrays", "axes_of", "broadcast_pair", "shapes", "values"]
