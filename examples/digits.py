"""Read handwritten digits with a multi-layer perceptron: about 98% right after a few seconds.

    pip install '.[app]'
    python examples/digits.py

Nothing here is special to minitorch: with "torch" for "minitorch" in the imports it runs on PyTorch.
"""

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import minitorch as torch
from minitorch import nn
from minitorch.utils.data import DataLoader, TensorDataset


def load():
    """Return a training set and a test set; a fifth of the 1,797 digits is for testing only."""
    digits = load_digits()
    images = digits.data.astype(np.float32) / 16  # (1797, 64), from 0 to 1
    labels = digits.target.astype(np.int64)
    parts = train_test_split(images, labels, test_size=0.2, random_state=0, stratify=labels)
    train_x, test_x, train_y, test_y = map(torch.tensor, parts)
    return TensorDataset(train_x, train_y), TensorDataset(test_x, test_y)


def accuracy(model, dataset):
    """Return the share of images that the model reads right."""
    images, labels = dataset.tensors
    model.eval()
    with torch.no_grad():
        return (model(images).argmax(1) == labels).float().mean().item()


def main(epochs=30, seed=0, show=print):
    """Train, and return the accuracy on the test set."""
    torch.manual_seed(seed)
    train_set, test_set = load()
    model = nn.Sequential(
        nn.Linear(64, 512),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(512, 256),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(256, 10),
    )
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.002)

    for epoch in range(1, epochs + 1):
        model.train()
        for images, labels in DataLoader(train_set, batch_size=64, shuffle=True):
            optimizer.zero_grad()  # or backward() would add to the gradients of the step before
            loss = criterion(model(images), labels)
            loss.backward()
            optimizer.step()
        if epoch % 5 == 0 or epoch == epochs:
            show(f"epoch {epoch:3}  loss {loss.item():.4f}  test accuracy {accuracy(model, test_set):.3f}")
    return accuracy(model, test_set)


if __name__ == "__main__":
    main()
