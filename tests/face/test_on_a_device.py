"""Programs under the torch face on a GPU that does not exist: files, and PyTorch's old names of types."""

import os
import subprocess
import sys
from pathlib import Path

SUPPORT = Path(__file__).parents[1] / "support"
PROGRAM = """
import io
import pytest, standin_cupy
standin_cupy.installed(pytest.MonkeyPatch())
import minitorch
minitorch.install_as_torch()
import torch
from torch import nn


def saved(thing):
    file = io.BytesIO()
    torch.save(thing, file)

    def read(**options):
        file.seek(0)
        return torch.load(file, **options)

    return read


# A buffer of one number keeps its shape.
net = nn.BatchNorm1d(4).cuda()
nn.BatchNorm1d(4).cuda().load_state_dict(saved(net.state_dict())())

# What needs code of the file lies where it was, or where map_location says.
read = saved({"model": nn.GRU(3, 4).cuda(), "args": slice(1, 2)})
where = lambda **options: str(read(weights_only=False, **options)["model"].weight_ih_l0.device)
assert where() == "cuda:0"
assert where(map_location="cpu") == "cpu"
assert where(map_location=torch.device("cuda", 1)) == "cuda:1"
assert where(map_location={"cuda:0": "cuda:1"}) == "cuda:1"
assert where(map_location=lambda storage, location: storage) == "cpu"

# Views share memory again.
x = torch.arange(6.0, device="cuda")
for options in ({}, {"map_location": "cpu"}, {"weights_only": False}):
    whole, part, turned, again = saved([x, x[2:4], x.view(2, 3).t(), x])(**options)
    assert turned.stride() == (1, 3)
    part.zero_()
    assert whole.tolist() == again.tolist() == [0, 1, 0, 0, 4, 5]
    assert turned.tolist() == [[0, 0], [1, 4], [0, 5]]
    turned[0, 1] = 9
    assert whole[3] == 9

# Old names say where tensors lie, too.
c = torch.ones(2)
for there in (c.type_as(x), c.type("torch.cuda.FloatTensor"), c.type(x.type()), c.type(torch.cuda.FloatTensor)):
    assert there.is_cuda and there.dtype == torch.float32
assert c.cuda().type(torch.cuda.LongTensor).type() == "torch.cuda.LongTensor"
for here in (x.type("torch.FloatTensor"), x.type_as(c), x.type(torch.FloatTensor)):
    assert here.is_cpu and here.dtype == torch.float32
assert x.type(torch.float64).is_cuda
torch.set_default_tensor_type("torch.cuda.DoubleTensor")
assert torch.zeros(2).is_cuda and torch.zeros(2).dtype == torch.float64
torch.set_default_tensor_type(torch.FloatTensor)
assert torch.zeros(2).is_cpu and torch.zeros(2).dtype == torch.float32

# Gradients are added up where they are.
p = torch.ones(3, device="cuda", requires_grad=True)
flat = torch.zeros(3, device="cuda")
p.grad = flat
for _ in range(2):
    (p * 2).sum().backward()
assert flat.tolist() == [4, 4, 4]
assert p.grad is flat
try:
    p.grad = torch.ones(3)
except RuntimeError as error:
    assert "different device" in str(error) and "grad.to('cuda:0')" in str(error), error
else:
    raise AssertionError("a gradient on the CPU was taken by a tensor on a GPU")
"""


def test_programs_under_the_face_on_a_device():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
