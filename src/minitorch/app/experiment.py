"""What an experiment is. Enters: nothing. Leaves: a model, its data, its loss, and what to say at the end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, NamedTuple, Protocol

from minitorch import Tensor, nn, optim

Record = dict[str, Any]


class Outcome(NamedTuple):
    """What one batch gave: its loss, and how many of its samples were right.

    The counts stay Tensors until somebody asks: a compiled step knows no numbers while it is recorded.
    """

    loss: Tensor
    right: Tensor
    seen: int | Tensor

    @property
    def correct(self) -> int:
        """How many were right."""
        return int(self.right)

    @property
    def samples(self) -> int:
        """How many there were."""
        return int(self.seen)


class Batches(Protocol):
    """An epoch of batches, such as a DataLoader."""

    def __iter__(self) -> Iterator[Any]: ...

    def __len__(self) -> int: ...


class Experiment:
    """Something to train. A subclass makes model, optimizer and data, and says how a batch is judged.

    All randomness comes from minitorch's generator, which is seeded before __init__ runs: the same
    seed gives the same training.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    epochs: ClassVar[int]
    goal: ClassVar[str] = ""  # what `finished` waits for, in words
    needs: ClassVar[tuple[str, ...]] = ()  # packages beyond NumPy and SciPy

    model: nn.Module
    optimizer: optim.Optimizer
    scheduler: Any = None
    batches: Batches

    def __init__(self, device: str = "cpu") -> None:
        self.device = device

    def loss(self, batch: Any) -> Outcome:
        """Judge the model on one batch."""
        raise NotImplementedError

    def validate(self) -> Record:
        """Judge the model on data it was not trained on: val_loss and val_accuracy, say."""
        return {}

    def finished(self, record: Record) -> bool:
        """Say whether the goal is reached, so that the epochs left can be saved."""
        return False

    def report(self, record: Record) -> Record:
        """Say what came out, given the last epoch's record: 'text' for a person, numbers for a program."""
        return {}


def correct(logits: Tensor, targets: Tensor) -> Tensor:
    """Count the rows whose largest logit is at the target.

    >>> correct(Tensor([[0.0, 1.0], [2.0, 1.0]]), Tensor([1, 1]))
    tensor(1)
    """
    return (logits.detach().argmax(1) == targets).sum()
