"""Runs one program of programs/, with whichever torch there is. Enters: its name. Leaves: its numbers, as JSON.

`python one.py NAME` runs it on PyTorch, `minitorch run one.py NAME` on minitorch.
"""

import importlib.util
import json
import sys
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
import torch  # noqa: E402


def numbers(value):
    """Return what a program gives as lists of floats; of much, a weighed sum and the first few."""
    if isinstance(value, dict):
        return {str(k): numbers(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [numbers(v) for v in value]
    if isinstance(value, torch.Tensor):
        flat = value.detach().double().flatten()
        weights = torch.cos(torch.arange(flat.numel(), dtype=torch.float64))
        return {"shape": list(value.shape), "sum": float((flat * weights).sum()), "first": flat[:4].tolist()}
    return float(value) if isinstance(value, (int, float)) else str(value)


def trained(model, loss_of, steps=3, optimizer=None):
    """Train a few steps; return the losses, and each parameter's gradient's size in the last."""
    optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.01)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    size = sum(float(p.grad.double().abs().sum()) for p in model.parameters() if p.grad is not None)
    return {"losses": losses, "gradients": size}


if __name__ == "__main__":
    path = Path(__file__).parent / "programs" / f"{sys.argv[1]}.py"
    spec = importlib.util.spec_from_file_location(sys.argv[1], path)
    module = importlib.util.module_from_spec(spec)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    spec.loader.exec_module(module)
    for name, function in list(vars(module).items()):
        if name.startswith("try_"):
            torch.manual_seed(0)
            try:
                found = numbers(function())
            except Exception as error:
                if "--raise" in sys.argv:
                    raise
                found = f"{type(error).__name__}: {error}"
            print(json.dumps([name[4:], found]), flush=True)
