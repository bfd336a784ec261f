"""Files that torch.save writes under the face: PyTorch reads them, and the face reads PyTorch's."""

import subprocess
import sys

import numpy as np
import pytest

from pytorch import torch

PROGRAM = """
import io, sys, torch
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
(model(torch.randn(4, 3)) * torch.arange(8.0).reshape(4, 2) ** 2).sum().backward()
optimizer.step()
base = torch.arange(6.0).reshape(2, 3)
torch.save(
    {
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 3, "base": base, "row": base[1],
        "turned": base.t(), "parameter": model[0].weight, "integers": torch.tensor([1, 2]), "bools": torch.tensor([True]),
        "sparse": torch.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 3)), "empty": torch.zeros(0, 3), "complex": torch.ones(2, dtype=torch.complex64), "graph": model[0].weight * 2, "float64": torch.float64,
    },
    "ours.pt",
)
torch.save(model, "whole.pt")
try:
    torch.load("whole.pt")
except Exception as error:
    assert type(error).__name__ == "UnpicklingError" and "Sequential" in str(error), error
else:
    raise AssertionError("a file with classes in it was read without being asked to")
again = torch.load("whole.pt", weights_only=False)
model.eval(), again.eval()
assert torch.equal(again(torch.ones(1, 3)), model(torch.ones(1, 3)))
memory = io.BytesIO()
torch.save(model.state_dict(), memory)
memory.seek(0)
assert list(torch.load(memory)) == list(model.state_dict())
theirs = torch.load("theirs.pt")
theirs["row"][0] = 7.0
assert theirs["sparse"].is_sparse and theirs["sparse"].to_dense().tolist() == [[0.0, 5.0]], theirs["sparse"]
assert torch.load("ours.pt", weights_only=False)["sparse"]._values().tolist() == [1.0, 2.0]
print(theirs["base"].tolist(), theirs["half"].dtype, sorted(torch.PyTorchFileReader("ours.pt").get_all_records())[:2])
"""


def test_files_go_both_ways(tmp_path):
    base = torch.arange(4.0).reshape(2, 2)
    sparse = torch.tensor([[0.0, 5.0]]).to_sparse()
    torch.save({"base": base, "row": base[1], "half": base.half(), "sparse": sparse}, tmp_path / "theirs.pt")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "minitorch", "run", "-c", PROGRAM],
        cwd=tmp_path, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout == "[[0.0, 1.0], [7.0, 3.0]] torch.float16 ['byteorder', 'data.pkl']\n"

    ours = torch.load(tmp_path / "ours.pt")  # without running code
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    (model(torch.randn(4, 3)) * torch.arange(8.0).reshape(4, 2) ** 2).sum().backward()
    optimizer.step()
    for name, value in model.state_dict().items():
        np.testing.assert_allclose(ours["model"][name], value, rtol=1e-5, atol=1e-6)
    model.load_state_dict(ours["model"])
    optimizer.load_state_dict(ours["optimizer"])
    assert isinstance(ours["parameter"], torch.nn.Parameter)
    assert ours["sparse"].to_dense().tolist() == [[0.0, 1.0, 0.0], [2.0, 0.0, 0.0]]
    assert ours["graph"].requires_grad
    assert (ours["epoch"], ours["float64"], ours["empty"].shape) == (3, torch.float64, (0, 3))
    assert (ours["integers"].dtype, ours["bools"].dtype, ours["complex"].dtype) == (
        torch.int64,
        torch.bool,
        torch.complex64,
    )
    ours["row"][0] = 9.0  # they share their memory, as they did
    assert ours["base"].tolist() == [[0.0, 1.0, 2.0], [9.0, 4.0, 5.0]]
    assert ours["turned"][0, 1] == 9.0
    with pytest.raises(Exception, match="Weights only load failed"):
        torch.load(tmp_path / "whole.pt")
