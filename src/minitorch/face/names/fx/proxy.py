"""torch.fx.proxy: another address of Proxy."""

from minitorch.face.names.fx import Proxy

__all__ = ["Proxy"]
