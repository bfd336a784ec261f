"""The torch face: programs that import torch, run as they are. Each program is a process, so each asks many things."""

import os
import subprocess
import sys
import textwrap

import pytest

import minitorch
from minitorch.app.command import main
from pytorch import torch
from ranks import finish, start

ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1"}


def run(*words, folder, **options):
    """Run `python -m minitorch run WORDS` in a folder."""
    return subprocess.run(
        [sys.executable, "-m", "minitorch", "run", *map(str, words)],
        cwd=folder, capture_output=True, text=True, env=ENVIRONMENT, timeout=120, **options,
    )  # fmt: skip


def write(folder, name, text):
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def test_torch_is_minitorch(tmp_path):
    write(
        tmp_path,
        "program.py",
        """
        import importlib, importlib.metadata, importlib.util, os, sys
        import torch
        import torch.nn as nn, torch.nn.functional as F
        import torch.distributions, torch.fft, torch.func, torch.nn.modules.batchnorm, torch.version
        from torch import Tensor, optim
        from torch.nn.parameter import Parameter
        from torch.optim.lr_scheduler import StepLR
        from torch.utils.data.dataloader import DataLoader
        import minitorch

        assert nn.Linear is minitorch.nn.Linear and F is minitorch.nn.functional is torch.nn.functional
        assert torch.nn is minitorch.nn and nn.__spec__.name == "minitorch.nn" and Tensor is minitorch.Tensor
        assert DataLoader is minitorch.utils.data.DataLoader and torch.optim is optim is minitorch.optim
        assert torch.__version__ == importlib.metadata.version("torch") == "2.13.0+minitorch"
        assert torch.__version__ >= (2, 1) and torch.version.cuda is None
        assert importlib.util.find_spec("torch") is not None is not importlib.util.find_spec("torch.nn")
        assert importlib.util.find_spec("torch.nonsense") is None
        x = torch.ones(2, requires_grad=True)
        x.sum().backward()
        assert isinstance(x.grad, Tensor) and x.dtype is torch.float32 is torch.float is torch.get_default_dtype()
        assert isinstance(x.dtype, torch.dtype) and str(x.shape) == "torch.Size([2])" and torch.long is torch.int64
        assert torch.promote_types(torch.int8, torch.float32) is torch.float32 is torch.result_type(x, 1)
        for name, words in (("relux", "relu"), ("onnx", "state_dict"), ("course", "'course'")):
            try:
                getattr(torch, name)
            except AttributeError as error:
                assert name in str(error) and words in str(error), error
            else:
                raise AssertionError(name)
        for name in ("torch.onnx", "torch.ao.quantization", "torch._inductor", "torch.nonsense", "torch.proof"):
            try:
                importlib.import_module(name)
            except ModuleNotFoundError as error:
                assert name[:8] in str(error)
            else:
                raise AssertionError(name)
        minitorch.install_as_torch()  # again: nothing happens
        assert sys.argv == ["program.py", "--lr", "0.1", "-h"] and __name__ == "__main__"
        assert sys.path[0] == os.getcwd() == os.path.dirname(__file__) and sys.modules["__main__"].x is x
        print("done")

        def fails():
            raise ValueError("so it is")

        fails()
        """,
    )
    done = run("program.py", "--lr", "0.1", "-h", folder=tmp_path)
    assert done.stdout == "done\n", done.stderr
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback")
    assert done.stderr.endswith("ValueError: so it is\n")
    assert done.stderr.count("File ") == 2  # no frame but the program's own


def test_a_module_and_code_and_exit_codes(tmp_path):
    write(
        tmp_path, "part.py", "import sys, torch\nprint(sys.argv[0] == __file__, sys.argv[1:])\nsys.exit(7)\n"
    )
    done = run("-m", "part", "-x", folder=tmp_path)
    assert (done.stdout, done.returncode) == ("True ['-x']\n", 7), done.stderr
    done = run(
        "-c", "import sys, torch; print(torch.ones(1), sys.argv, sys.path[0] == '')", "a", folder=tmp_path
    )
    assert (done.stdout, done.returncode) == ("tensor([1.]) ['-c', 'a'] True\n", 0), done.stderr
    done = run("none.py", folder=tmp_path)
    assert done.returncode == 2
    assert "none.py" in done.stderr
    write(tmp_path, "wrong.py", "import torch\nx = = 1\n")
    done = run("wrong.py", folder=tmp_path)
    assert done.returncode == 1
    assert "SyntaxError" in done.stderr
    assert "wrong.py" in done.stderr


@pytest.mark.parametrize(("words", "says"), [([], "missing"), (["--lr"], "--lr")])
def test_a_wrong_command_line_says_so(words, says, capsys):
    assert main(["run", *words]) == 2
    assert says in capsys.readouterr().err


def test_the_real_torch_stays_if_it_was_first():
    with pytest.raises(RuntimeError, match=f"imported already.*{torch.__version__.partition('+')[0]}"):
        minitorch.install_as_torch()
    assert sys.modules["torch"] is torch


WORKERS = """
import os
import torch
from torch.utils.data import DataLoader, Dataset

class Squares(Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, i):
        assert "minitorch" in torch.__version__ and torch.ones(1).dtype is torch.float32
        return torch.tensor(float(i * i)), os.getpid()

if __name__ == "__main__":
    for context in ("fork", "spawn"):
        ((squares, processes),) = DataLoader(Squares(), 4, num_workers=1, multiprocessing_context=context)
        print(squares.tolist(), bool((processes != os.getpid()).all()))
"""


def test_workers_have_the_face_too(tmp_path):
    write(tmp_path, "workers.py", WORKERS)
    done = run("workers.py", folder=tmp_path)
    assert done.stdout == "[0.0, 1.0, 4.0, 9.0] True\n" * 2, done.stderr


RANKS = """
import os
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
dist.init_process_group("mpi", rank=rank, world_size=world)
assert (rank, world) == (dist.get_rank(), dist.get_world_size()) and int(os.environ["LOCAL_RANK"]) == rank
model = DistributedDataParallel(torch.nn.Linear(2, 1))
model(torch.ones(1, 2) * (rank + 1)).sum().backward()
assert model.module.weight.grad.tolist() == [[1.5, 1.5]], model.module.weight.grad
if rank == 0:
    print("trained by", world)
dist.destroy_process_group()
"""


def test_ranks_have_the_face_too(tmp_path):
    write(tmp_path, "train.py", RANKS)
    code, said, _ = finish(start(2, "-m", "minitorch", "run", tmp_path / "train.py"))
    assert code == 0, said
    assert "trained by 2" in said
