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

# However memory is laid out.
a = torch.arange(24.0, device="cuda").view(2, 3, 4)
for laid_out in (a.transpose(0, 1).clone(), a.transpose(0, 1) + 1, a[:, 1:, ::2], a[0, 0, 0], a.transpose(0, 1).clone()[1:]):
    again = saved(laid_out)()
    assert again.stride() == laid_out.stride() and torch.equal(again, laid_out)
expanded = a[0, 0, :1].expand(3)
assert torch.equal(saved(expanded)(), expanded)
strided = a.as_strided((3,), (2,), 3)
assert strided.storage_offset() == 3 and torch.equal(saved(strided)(), strided)
assert saved(nn.Linear(2, 2))(weights_only=False, map_location="meta").weight.is_cpu  # (as ever)

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

torch.set_default_device("meta")
torch.set_default_tensor_type("torch.DoubleTensor")
assert torch.zeros(2).is_meta and torch.zeros(2).dtype == torch.float64
torch.set_default_device("cpu")
torch.set_default_tensor_type(torch.FloatTensor)
sparse = torch.eye(3, device="cuda").to_sparse()
assert sparse.type() == "torch.cuda.sparse.FloatTensor" and torch.ones(1).type(sparse.type()).is_cuda

# Gradients are added up where they are.
p = torch.ones(3, device="cuda", requires_grad=True)
flat = torch.zeros(3, device="cuda")
p.grad = flat
for _ in range(2):
    (p * 2).sum().backward()
assert flat.tolist() == [4, 4, 4]
assert p.grad is flat
for tensor, gradient in (
    (p, torch.ones(3)), (torch.ones(3, requires_grad=True), flat), (p, torch.ones(3, device="cuda:1")),
    (p, torch.ones(3).to_sparse()),
):
    try:
        tensor.grad = gradient
    except RuntimeError as error:
        assert "different device" in str(error) and f"grad.to('{tensor.device}')" in str(error), error
    else:
        raise AssertionError("a gradient on another device was taken")
p.grad = torch.zeros(1, device="cuda").expand(3)  # which nobody may write into
(p * 2).sum().backward()
assert p.grad.tolist() == [2, 2, 2]
for device in ("cpu", "cuda"):
    x, w = (torch.ones(3, device=device, requires_grad=True) for _ in range(2))
    (x * 2).sum().backward()
    y = (w * x.grad).sum()
    (x * 5).sum().backward()
    try:
        y.backward()
    except RuntimeError as error:
        assert "x.grad += …" in str(error), error
    else:
        raise AssertionError("a gradient was added up behind a graph's back")
"""


def test_programs_under_the_face_on_a_device():
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(SUPPORT), os.environ.get("PYTHONPATH", "")])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
