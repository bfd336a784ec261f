"""Optimisers, and schedules for their learning rates. Enters: parameters. Leaves: better ones."""

from minitorch.optim import lr_scheduler, swa_utils
from minitorch.optim.adagrad import Adadelta, Adagrad
from minitorch.optim.adam import Adam, Adamax, AdamW, NAdam, RAdam
from minitorch.optim.lbfgs import LBFGS
from minitorch.optim.optimizer import Optimizer
from minitorch.optim.rmsprop import RMSprop, Rprop
from minitorch.optim.sgd import SGD

__all__ = [
    "LBFGS", "SGD", "Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "NAdam", "Optimizer", "RAdam",
    "RMSprop", "Rprop", "lr_scheduler", "swa_utils",
]  # fmt: skip
