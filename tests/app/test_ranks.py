"""`minitorch train --ranks`: one rank's training by several, gone on with by another number of them."""

import json
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import minitorch
from faults import surroundings
from minitorch.app import command, ranks
from minitorch.app.experiment import Outcome
from minitorch.app.experiments import ALL
from minitorch.app.train import Run
from minitorch.utils.data import DataLoader, TensorDataset


def train(out, *words):
    done = subprocess.run(
        [sys.executable, "-m", "minitorch", "train", "xor", "--out", str(out), *words],
        env=surroundings(), capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_ranks_train_what_one_rank_trains_and_go_on_by_another_number(tmp_path):
    pytest.importorskip("mpi4py")
    code, said, error = train(tmp_path, "--ranks", "3", "--epochs", "2", "--json")
    assert code == 0, error
    events = [json.loads(line) for line in said.splitlines()]
    assert [event["event"] for event in events] == ["start", "epoch", "epoch", "end"], "one rank speaks"
    code, said, error = train(tmp_path, "--ranks", "2", "--epochs", "4")
    assert code == 0, error
    assert "continues after epoch 2" in said
    one = Run(ALL["xor"], tmp_path / "alone", epochs=4)
    one.go()
    kept = minitorch.load(tmp_path / "xor" / "checkpoint.npz")
    assert kept["epoch"] == 4
    for name, weight in one.model.state_dict().items():
        np.testing.assert_allclose(kept["model"][name].data, weight.data, rtol=1e-5, atol=1e-6)
    for mine, theirs in zip(one.history, kept["history"], strict=True):
        np.testing.assert_allclose(mine["loss"], theirs["loss"], rtol=1e-5)
    logs = sorted(path.name for path in (tmp_path / "xor" / "ranks").iterdir())
    assert logs == ["rank-0.log", "rank-1.log", "rank-2.log"]
    assert "epoch 2" in (tmp_path / "xor" / "ranks" / "rank-2.log").read_text()


@pytest.mark.parametrize("rows", [1, 7, 12])
def test_parts_of_a_loaders_batches_make_up_the_batches(rows):
    class Part(ranks.Team):
        def __init__(self, rank):
            self.rank, self.size = rank, 3

    def loader():
        minitorch.manual_seed(0)
        return DataLoader(TensorDataset(minitorch.arange(rows)), batch_size=5, shuffle=True)

    whole = [batch[0].tolist() for batch in loader()]
    parts = [[batch[0].tolist() for batch, _ in Part(rank).batches(loader())] for rank in range(3)]
    assert [sum(pieces, []) for pieces in zip(*parts, strict=True)] == whole  # noqa: RUF017
    several = [[cut.tolist() for cut, _ in Part(rank).batches([minitorch.arange(rows)])] for rank in range(3)]
    assert [sum(pieces, []) for pieces in zip(*several, strict=True)] == [list(range(rows))]  # noqa: RUF017


def test_losses_are_weighed_by_samples(monkeypatch):
    # Two ranks, of which this one has 3 of 4 samples, and one right; the other's loss is 5.
    def all_reduce(sums):
        sums += minitorch.tensor([5.0, 1.0, 1.0], dtype=minitorch.float64)

    monkeypatch.setattr(ranks.distributed, "all_reduce", all_reduce)
    monkeypatch.setattr(ranks.distributed, "get_world_size", lambda: 2)
    loss = minitorch.tensor(2.0, requires_grad=True)
    here, whole = ranks.weighed(Outcome(loss, 1, 3))
    assert here.item() == 2 * 2.0 * 3 / 4
    assert (whole.loss.item(), whole.correct, whole.samples) == ((2 * 3 + 5) / 4, 2, 4)
    _, whole = ranks.weighed(Outcome(minitorch.tensor(float("nan")), 0, 0))
    assert whole.loss.item() == 5


def test_what_ranks_need_is_said(capsys, monkeypatch, tmp_path):
    assert command.main(["train", "xor", "--hostfile", str(tmp_path / "none")]) == 2
    assert "give --ranks N too" in capsys.readouterr().err
    monkeypatch.setattr(ranks, "mpirun", lambda: None)
    assert command.main(["train", "xor", "--ranks", "2", "--out", str(tmp_path)]) == 2
    assert "pip install '.[mpi]'" in capsys.readouterr().err


def test_the_command_that_starts_ranks(monkeypatch, tmp_path):
    monkeypatch.setattr(ranks, "mpirun", lambda: "/bin/mpirun")
    monkeypatch.setattr(ranks.os, "cpu_count", lambda: 4)
    words = ranks.command(4, ["-m", "minitorch"])
    assert words[:5] == ["/bin/mpirun", "-n", "4", "--bind-to", "none"]
    assert words[-3:] == [sys.executable, "-m", "minitorch"]
    assert "--oversubscribe" not in words
    assert "--oversubscribe" in ranks.command(5, [])
    assert ranks.command(8, [], tmp_path)[5:7] == ["--hostfile", str(tmp_path)]
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert ranks.surroundings(2)["OMP_NUM_THREADS"] == "2"


def test_who_has_failed_is_read_from_what_was_said():
    assert ranks.who_failed("all is well") == ""
    left = "The first process to do so was:\n\n   Process name: [prterun-vm-29930@1,1]\n   Exit code:    4\n"
    assert ranks.who_failed(left) == "rank 1 ended with exit code 4"


def test_options_to_go_on_name_the_ranks():
    chosen = SimpleNamespace(
        ranks=4,
        hostfile="hosts",
        seed=3,
        epochs=None,
        compile=True,
        json=False,
        device="cpu",
        out=command.Path("runs"),
    )
    assert command._options_to_resume(chosen) == [
        "--ranks",
        "4",
        "--hostfile",
        "hosts",
        "--seed",
        "3",
        "--compile",
    ]
    assert command._options_to_resume(chosen, ranks=False) == ["--seed", "3", "--compile"]
