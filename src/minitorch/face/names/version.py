"""torch.version: which one this is. Enters: nothing. Leaves: numbers, and None for what is not there."""

from minitorch.face.torch_module import VERSION
from minitorch.face.version import TorchVersion
from minitorch.version import __getattr__ as __getattr__
from minitorch.version import debug as debug
from minitorch.version import git_version as git_version
from minitorch.version import hip as hip
from minitorch.version import rocm as rocm
from minitorch.version import xpu as xpu

__version__ = TorchVersion(VERSION)
