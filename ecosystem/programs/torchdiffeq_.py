import torch
from one import trained
from torchdiffeq import odeint, odeint_adjoint


class Field(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))

    def forward(self, t, y):
        return self.net(y)


def try_solvers():
    field, y, t = Field(), torch.tensor([[2.0, 0.0]]), torch.linspace(0.0, 1.0, 5)
    return [
        odeint(field, y, t, method=method)
        for method in ("dopri5", "rk4", "euler", "midpoint", "dopri8", "adaptive_heun", "bosh3")
    ]


def try_training():
    field, y, t = Field(), torch.tensor([[2.0, 0.0]]), torch.linspace(0.0, 1.0, 5)
    return [
        trained(field, lambda s=s: s(field, y, t, method="rk4").square().mean())
        for s in (odeint, odeint_adjoint)
    ]
