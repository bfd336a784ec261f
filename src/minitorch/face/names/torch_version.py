"""torch.torch_version: the type of torch.__version__."""

from minitorch.face.version import TorchVersion

__all__ = ["TorchVersion"]
