import numpy as np
import torch
from skorch import NeuralNetClassifier, NeuralNetRegressor


class Net(torch.nn.Module):
    def __init__(self, width=8, out=2):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, width), torch.nn.Linear(width, out)

    def forward(self, X):
        return self.b(self.a(X).relu())


def try_classifier():
    x = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    y = (x[:, 0] > 0).astype(np.int64)
    net = NeuralNetClassifier(
        Net,
        criterion=torch.nn.CrossEntropyLoss,
        max_epochs=3,
        lr=0.1,
        verbose=0,
        iterator_train__shuffle=True,
    )
    net.fit(x, y)
    return [
        [row["train_loss"] for row in net.history],
        [row["valid_loss"] for row in net.history],
        torch.tensor(net.predict_proba(x)),
    ]


def try_regressor():
    x = np.random.default_rng(0).normal(size=(40, 4)).astype(np.float32)
    net = NeuralNetRegressor(Net, module__out=1, max_epochs=3, lr=0.1, verbose=0, optimizer=torch.optim.Adam)
    net.fit(x, x[:, :1])
    return [row["train_loss"] for row in net.history]
