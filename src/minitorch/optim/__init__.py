"""Optimisers, and schedules for their learning rates. Enters: parameters. Leaves: better ones."""

from minitorch.optim import lr_scheduler, swa_utils
from minitorch.optim.adafactor import Adafactor
from minitorch.optim.adagrad import Adadelta, Adagrad
from minitorch.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from minitorch.optim.asgd import ASGD
from minitorch.optim.lbfgs import LBFGS
from minitorch.optim.muon import Muon
from minitorch.optim.optimizer import Optimizer
from minitorch.optim.rmsprop import RMSprop, Rprop
from minitorch.optim.sgd import SGD
from minitorch.optim.sparse_adam import SparseAdam

__all__ = [
    "ASGD", "LBFGS", "SGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "Muon", "NAdam", "Optimizer",
    "RAdam", "RMSprop", "Rprop", "SparseAdam", "lr_scheduler", "swa_utils",
]  # fmt: skip
