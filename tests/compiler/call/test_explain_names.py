"""explain() calls tensors by the names that the function has for them."""

import minitorch as mt
from minitorch import nn, optim


def test_parameters_have_their_names():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    scale = mt.ones(2)

    def step(x):
        loss = (model(x) * scale).sum()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    compiled = mt.compile(step, backend="numpy")
    for _ in range(3):
        compiled(mt.ones(5, 3))
    said = str(compiled.explain())
    assert "model.0.weight float32[4×3]" in said
    assert "model.2.bias float32[2]" in said
    assert "a tensor float32" not in said


def test_a_compiled_module_is_explained_too():
    module = mt.compile(nn.Linear(3, 4), backend="numpy")
    module(mt.ones(5, 3))
    assert module.explain().programs
