"""Hypothesis profiles: default, and intense (`pytest --hypothesis-profile=intense`); Ctrl-C; `compile`."""

import functools
import signal

import pytest
from hypothesis import HealthCheck, settings

import minitorch
from compiled import BACKENDS
from minitorch.compiler.backends.llvm import linked
from minitorch.compiler.call import function, when_needed

collect_ignore = ["support"]  # helpers, without doctests
collect_ignore_glob = ["*conftest.py"]  # not for doctests: there are several modules of this name

# The suite runs on shared, noisy machines: an example's time says nothing.
common = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow, HealthCheck.data_too_large]}
# The suite draws the same examples everywhere: who runs it sees what its author saw. "intense" looks for new ones.
settings.register_profile("default", max_examples=40, derandomize=True, **common)
settings.register_profile("intense", max_examples=5000, **common)
settings.load_profile("default")

# A shell starts what runs in its background deaf to Ctrl-C, and whatever that starts is deaf as well. The programs that
# the tests interrupt must hear it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# When an op becomes a kernel depends on what has run before in the process: tests of it switch them on.
minitorch.set_native_ops(False)
# And programs are scheduled anew, whatever an earlier run has left on the disk.
linked.enabled = False
# And made native, and verified, at their first call (tests/compiler/call/test_when_needed.py aside): most are called once.
when_needed.enabled = False


@pytest.fixture(autouse=True)
def every_warning_anew():
    """What compile says once in a process it says once in a test."""
    function._warned.clear()


@pytest.fixture(params=[b for b in BACKENDS if b != "unfused"])
def compile(request):
    """Give minitorch.compile with each backend in turn."""
    return functools.partial(minitorch.compile, backend=request.param)
