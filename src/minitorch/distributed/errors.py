"""What goes wrong between ranks. Enters: nothing. Leaves: PyTorch's names for it, all of them RuntimeErrors."""

from __future__ import annotations


class DistError(RuntimeError):
    """Something went wrong between ranks."""


class DistBackendError(DistError):
    """A collective failed: ranks do not agree, one has ended, one does not answer."""


class DistNetworkError(DistError):
    """The network failed."""


class DistStoreError(DistError):
    """A store failed."""


MISSING = (
    "minitorch.distributed runs on MPI, and mpi4py is not installed; in minitorch's folder: pip install '.[mpi]' "
    "(on a cluster: pip install mpi4py, built against the site's own MPI), then start the program with "
    "mpirun -n 2 python script.py"
)
