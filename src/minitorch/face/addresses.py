"""Addresses of PyTorch's whose names stand in another module here. Enters: an address. Leaves: that module's."""

from __future__ import annotations

# Below torch; "" is torch itself. (An address that is also the name of a function, as nn.utils.weight_norm, is not
# among them: importing it as a module would hide the function.)
ADDRESSES = {
    "autograd.anomaly_mode": "autograd",
    "autograd.grad_mode": "autograd",
    "autograd.profiler_legacy": "profiler",
    "autograd.profiler_util": "profiler",
    "distributed.distributed_c10d": "distributed",
    "functional": "",
    "multiprocessing.spawn": "multiprocessing",
    "nn.modules.channelshuffle": "nn.vision",
    "nn.parallel.replicate": "nn.parallel",
    "optim.adadelta": "optim.adagrad",
    "optim.adamax": "optim.adam",
    "optim.adamw": "optim.adam",
    "optim.nadam": "optim.adam",
    "optim.radam": "optim.adam",
    "optim.rprop": "optim.rmsprop",
    "profiler.profiler": "profiler",
    "signal.windows.windows": "signal.windows",
}
