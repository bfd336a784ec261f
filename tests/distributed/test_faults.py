"""A rank that fails: all others end, soon, with words that name it; no process stays; checkpoints stay whole."""

import re
import time

import pytest

from faults import left_over, train_and_kill
from minitorch.app.ranks import who_failed
from ranks import SUPPORT, finish, start


def ends(how, timeout=60):
    """Let rank 1 of 3 fail in some way; return what was said, after checking that all have ended in time."""
    code, said, _ = finish(start(3, SUPPORT / "rank_faults.py", how, timeout))
    ended = time.time()
    assert code != 0, said
    began = re.search(r"now (\d+\.\d+)", said)
    if began:
        assert ended - float(began[1]) < 10, said
    left = 10 - (ended - float(began[1])) if began else 10
    assert left_over(re.findall(r"pid of rank \d+: (\d+)", said), time.monotonic() + left) == []
    return said


def test_a_rank_that_raises_ends_all_and_is_named():
    said = ends("raise")
    assert "rank 1 of 3 failed: ValueError: this rank has had enough" in said
    assert who_failed(said) == "rank 1 failed: ValueError: this rank has had enough"


def test_a_rank_that_is_killed_ends_all_and_is_named():
    assert who_failed(ends("kill")) == "rank 1 was ended by signal 9 (Killed)"


def test_a_rank_that_leaves_early_is_named():
    assert re.search(
        r"waits in all_reduce .* for rank 1, which has come to the end of its program", ends("exit")
    )


def test_a_rank_that_hangs_is_named_when_the_time_is_up():
    said = ends("hang", timeout=3)
    assert re.search(r"rank [02] has waited 3 s in all_reduce", said), said
    assert "rank 1 does not answer: it computes, or hangs" in said


def test_ranks_in_different_collectives_are_named():
    said = ends("other")
    assert re.search(r"rank [02] waits in all_reduce .*, rank 1 in broadcast", said) or re.search(
        r"rank 1 waits in broadcast .*, rank [02] in all_reduce", said
    ), said


def test_a_rank_that_computes_ends_too():
    assert "rank 1 of 3 failed: ValueError" in ends("compute")


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_a_run_whose_rank_is_killed_goes_on_from_its_checkpoint(tmp_path, seed):
    assert train_and_kill(tmp_path, seed) == ""
