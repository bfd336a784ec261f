"""PyTorch as the tests import it: `from pytorch import torch`. Where it is not installed, a stand-in that skips.

A test that asks the stand-in for anything is skipped, and a file that asks at its top is skipped as a whole. So what
needs no PyTorch runs without it, and no test has to be marked.
"""

import pytest

REASON = "compares with PyTorch, which is not installed"


class Missing:
    """In the place of PyTorch: every name skips the test that uses it."""

    def __getattr__(self, name):
        if name.startswith("__"):  # pytest, copy and inspect ask every object for these
            raise AttributeError(name)
        pytest.skip(REASON, allow_module_level=True)


try:
    import torch
    import torch.distributions
    import torch.utils.checkpoint
    import torch.utils.data
except ImportError:
    torch = Missing()
else:
    torch.set_num_threads(1)  # the tensors are tiny: threads would only wait for each other
    if not torch.cuda.is_available():
        # A seed is also put down for each kind of device that may come, beside the stack it was given from, formatted.
        torch.manual_seed = torch.random.manual_seed = lambda seed: torch.default_generator.manual_seed(
            int(seed)
        )
