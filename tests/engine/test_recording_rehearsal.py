"""A program is tried in one thread; what others do meanwhile is meant."""

from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context

import pytest

from interrupted import Interrupted
from minitorch.engine import recording
from minitorch.engine.recording import is_rehearsing, rehearsal
from minitorch.ops.native import busy


def test_only_the_thread_that_tries_a_program_rehearses():
    with ThreadPoolExecutor(1) as other:
        with rehearsal(), rehearsal():
            assert is_rehearsing()
            assert not other.submit(is_rehearsing).result()
        assert not is_rehearsing()


@pytest.mark.parametrize(("name", "method"), [("_rehearsing", "set"), ("busy", "append"), ("busy", "remove")])
def test_ctrl_c_leaves_nobody_rehearsing(monkeypatch, name, method):
    before = busy[:]

    def interrupted():
        with monkeypatch.context() as patched:
            patched.setattr(recording, name, Interrupted(getattr(recording, name), method))
            with pytest.raises(KeyboardInterrupt), rehearsal():
                pass
        return is_rehearsing(), busy

    assert copy_context().run(interrupted) == (False, before)
