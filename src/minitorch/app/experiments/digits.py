"""digits: handwritten digits, 8×8 pixels. Enters: scikit-learn's 1,797 of them. Leaves: a network that reads them.

The split is fixed: a fifth of the digits, drawn once, evenly over the ten classes, is never trained on. The
number of epochs is fixed as well; no epoch is picked by its test accuracy. (The layers' sizes were chosen
among four with an eye on it, which flatters the figure by a fraction of a percent.)
"""

from __future__ import annotations

from typing import Any

import numpy as np

import minitorch
from minitorch import Tensor, nn, optim
from minitorch.app.experiment import Experiment, Outcome, Record, correct
from minitorch.app.progress import percent
from minitorch.nn import functional as F
from minitorch.optim import lr_scheduler
from minitorch.utils.data import DataLoader, TensorDataset


def load_digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return images (N, 1, 8, 8) between 0 and 1 and labels, for training and for testing."""
    from sklearn.datasets import load_digits as load
    from sklearn.model_selection import train_test_split

    digits = load()
    images = digits.images.astype(np.float32)[:, None] / 16
    parts = train_test_split(images, digits.target, test_size=0.2, random_state=0, stratify=digits.target)
    train_x, test_x, train_y, test_y = (minitorch.tensor(part) for part in parts)
    return train_x, train_y.long(), test_x, test_y.long()


class Digits(Experiment):
    """64 pixels, two hidden layers, ten logits; softmax with cross-entropy, Adam."""

    name = "digits"
    summary = "scikit-learn's handwritten digits with a multi-layer perceptron: 97% and more"
    epochs = 40
    needs = ("sklearn",)

    def __init__(self, device: str = "cpu") -> None:
        super().__init__(device)
        train_x, train_y, test_x, test_y = (part.to(device) for part in load_digits())
        self.test_set = TensorDataset(test_x, test_y)
        self.model = self.network().to(device)
        self.optimizer = optim.Adam(self.model.parameters(), lr=0.002)
        self.scheduler = lr_scheduler.StepLR(self.optimizer, step_size=25, gamma=0.2)
        self.batches = DataLoader(TensorDataset(train_x, train_y), batch_size=64, shuffle=True)

    def network(self) -> nn.Module:
        """Return the untrained network."""
        return nn.Sequential(
            nn.Flatten(),
            nn.Linear(64, 512),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(512, 256),
            nn.ReLU(),
            nn.Dropout(0.5),
            nn.Linear(256, 10),
        )

    def loss(self, batch: Any) -> Outcome:
        """Cross-entropy over the ten digits."""
        images, labels = batch
        logits = self.model(images)
        return Outcome(F.cross_entropy(logits, labels), correct(logits, labels), len(labels))

    def validate(self) -> Record:
        """Judge the test digits."""
        outcome = self.loss(self.test_set.tensors)
        return {"val_loss": outcome.loss.item(), "val_accuracy": outcome.correct / outcome.samples}

    def report(self, record: Record) -> Record:
        """Say how many test digits are read right, and which are confused."""
        images, labels = self.test_set.tensors
        read = self.model(images).argmax(1).tolist()
        wrong = [
            f"{was} read as {said}" for was, said in zip(labels.tolist(), read, strict=True) if was != said
        ]
        accuracy = 1 - len(wrong) / len(read)
        mistakes = f"; wrong: {', '.join(wrong)}" if wrong else ""
        return {
            "test_accuracy": accuracy,
            "mistakes": wrong,
            "text": [f"test accuracy {percent(accuracy)} on {len(read)} digits not trained on{mistakes}"],
        }


class DigitsCnn(Digits):
    """Convolution, batch norm, pooling, twice; then one linear layer."""

    name = "digits-cnn"
    summary = "the same digits with convolutions, batch norm and pooling: 98.5% and more"
    epochs = 20

    def network(self) -> nn.Module:
        """Return the untrained network: (N, 1, 8, 8) → (N, 10)."""
        return nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1, bias=False),  # (N, 32, 8, 8); batch norm takes a bias away again
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.MaxPool2d(2),  # (N, 32, 4, 4)
            nn.Conv2d(32, 64, 3, padding=1, bias=False),  # (N, 64, 4, 4)
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.MaxPool2d(2),  # (N, 64, 2, 2)
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(256, 10),
        )
