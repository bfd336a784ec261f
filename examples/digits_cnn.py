"""Read handwritten digits with convolutions: about 99% right.

    pip install '.[app]'
    python examples/digits_cnn.py

A convolution looks at 3×3 pixels at a time and uses the same weights everywhere, so that a stroke is
recognised wherever it is. Pooling keeps the strongest answer of each 2×2 patch. Batch norm keeps the
numbers between layers at a size that is easy to learn from.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import minitorch as torch
from minitorch import nn
from minitorch.optim.lr_scheduler import CosineAnnealingLR
from minitorch.utils.data import DataLoader, TensorDataset


class DigitReader(nn.Module):
    """(N, 1, 8, 8) → (N, 10) logits."""

    def __init__(self):
        super().__init__()
        self.strokes = nn.Sequential(
            nn.Conv2d(1, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.shapes = nn.Sequential(
            nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.decide = nn.Sequential(nn.Flatten(), nn.Dropout(0.3), nn.Linear(64 * 2 * 2, 10))

    def forward(self, images):
        """Look for strokes, then for shapes made of strokes, then decide."""
        x = self.strokes(images)  # (N, 32, 4, 4)
        x = self.shapes(x)  # (N, 64, 2, 2)
        return self.decide(x)


def main(epochs=20, seed=0, width=None, show=print):
    """Train, and return the accuracy on the test set; `width` takes only that many training images."""
    torch.manual_seed(seed)
    digits = load_digits()
    images = digits.images.astype(np.float32)[:, None] / 16  # (1797, 1, 8, 8)
    labels = digits.target.astype(np.int64)
    parts = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    train_x, test_x, train_y, test_y = map(torch.tensor, parts)
    train_set = TensorDataset(train_x[:width], train_y[:width])

    model = DigitReader()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    scheduler = CosineAnnealingLR(optimizer, T_max=epochs)
    for epoch in range(1, epochs + 1):
        model.train()
        for batch, answers in DataLoader(train_set, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(batch), answers)
            loss.backward()
            optimizer.step()
        scheduler.step()

        model.eval()  # batch norm now uses the averages it has collected, dropout keeps everything
        with torch.no_grad():
            accuracy = (model(test_x).argmax(1) == test_y).float().mean().item()
        show(f"epoch {epoch:3}  loss {loss.item():.4f}  test accuracy {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
