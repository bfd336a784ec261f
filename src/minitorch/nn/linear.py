"""Linear, Bilinear and layers without parameters that change only the shape. Enters: (…, in). Leaves: (…, out)."""

from __future__ import annotations

import math
from typing import Any

from minitorch import creation
from minitorch.nn import functional as F
from minitorch.nn import init
from minitorch.nn.module import Module
from minitorch.nn.parameter import Parameter
from minitorch.tensor import Tensor

__all__ = ["Bilinear", "CosineSimilarity", "Flatten", "Identity", "Linear", "PairwiseDistance", "Unflatten"]


class Identity(Module):
    """Give back what comes in; any arguments of the constructor are ignored.

    >>> Identity(54, unused=True)(minitorch.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """Return the input."""
        return input


class Linear(Module):
    """y = x Wᵀ + b, with W (out, in) and b (out,) drawn uniformly from ±1/√in.

    >>> Linear(23, 5)(minitorch.zeros(4, 23)).shape
    (4, 5)
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = Parameter(creation.empty(out_features, in_features, device=device, dtype=dtype))
        shift = Parameter(creation.empty(out_features, device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", shift)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        bound = 1 / math.sqrt(self.in_features) if self.in_features else 0.0
        # kaiming_uniform_ with a = √5 is this same bound; PyTorch spells it so.
        if self.weight.numel():
            init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        """(…, in) → (…, out)."""
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"
        )


class Bilinear(Module):
    """y_o = aᵀ W_o b + bias_o, with W (out, in1, in2) drawn uniformly from ±1/√in1.

    >>> Bilinear(2, 3, 5)(minitorch.zeros(4, 2), minitorch.zeros(4, 3)).shape
    (4, 5)
    """

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"Bilinear: in1_features must be > 0, but got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = Parameter(
            creation.empty(out_features, in1_features, in2_features, device=device, dtype=dtype)
        )
        shift = Parameter(creation.empty(out_features, device=device, dtype=dtype)) if bias else None
        self.register_parameter("bias", shift)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias anew."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        """(…, in1) and (…, in2) → (…, out)."""
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Return the sizes."""
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, "
            f"out_features={self.out_features}, bias={self.bias is not None}"
        )


class Flatten(Module):
    """Make one axis of the axes start_dim to end_dim; by default of all but the batch.

    >>> Flatten()(minitorch.zeros(4, 2, 3)).shape
    (4, 6)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        """(N, …) → (N, product of the rest)."""
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """Return the range of axes."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Split one axis into several.

    >>> Unflatten(1, (2, 3))(minitorch.zeros(4, 6)).shape
    (4, 2, 3)
    """

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(f"Unflatten: dim must be an int, got {dim!r}; axes have no names here")
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(f"Unflatten: unflattened_size must be a tuple, got {unflattened_size!r}")
        for i, length in enumerate(unflattened_size):
            if not isinstance(length, int):
                raise TypeError(f"Unflatten: element {i} of unflattened_size must be an int, got {length!r}")
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        """Split the axis."""
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        """Return the axis and its new lengths."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class CosineSimilarity(Module):
    """⟨a, b⟩ / (‖a‖·‖b‖) along an axis.

    >>> CosineSimilarity(dim=0)(minitorch.tensor([1.0, 0.0]), minitorch.tensor([1.0, 1.0]))
    tensor(0.7071)
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Compare two tensors."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """‖a - b + eps‖_p along the last axis.

    >>> PairwiseDistance()(minitorch.tensor([3.0, 4.0]), minitorch.tensor([0.0, 0.0]))
    tensor(5.0000)
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        """Measure the distance of two tensors."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
