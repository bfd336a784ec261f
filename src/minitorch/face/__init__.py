"""The torch face: programs and packages that import torch get minitorch. Enters: nothing. Leaves: `import torch` works.

`install_as_torch()` (finder.py) makes every `torch.*` address one of minitorch's own modules and lets PyTorch's types
hold (tensor/torch_types.py); `minitorch run` (run.py) does that and runs a program. `names/` holds what exists only
because programs import it: `torch.jit`, `torch.fx`, …; in `site/` processes that are spawned find torch.
"""

from minitorch.face.finder import install_as_torch

__all__ = ["install_as_torch"]
