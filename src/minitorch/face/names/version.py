"""torch.version: which one this is. Enters: nothing. Leaves: numbers, and None for what is not there."""

from minitorch.face.torch_module import VERSION
from minitorch.face.version import TorchVersion

__version__ = TorchVersion(VERSION)
cuda = hip = xpu = rocm = None
debug = False
git_version = "minitorch"
