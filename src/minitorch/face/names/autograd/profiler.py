"""torch.autograd.profiler: the old address of torch.profiler."""

from minitorch.face.names.profiler import EventList, FunctionEventAvg, emit_nvtx, profile, record_function

__all__ = ["EventList", "FunctionEventAvg", "emit_nvtx", "profile", "record_function"]
