"""torch._subclasses: tensors without values, which are absent: every tensor has its values."""

from minitorch.face.names._subclasses.fake_tensor import FakeTensor, FakeTensorMode

__all__ = ["FakeTensor", "FakeTensorMode"]
