"""How `import torch` finds minitorch. Enters: an address below torch. Leaves: the module that stands for it.

The modules are the same objects under both names: `torch.nn.Linear is minitorch.nn.Linear`. Only `torch` itself is a
module of its own (torch_module.py), with minitorch's names, PyTorch's version and PyTorch's dtypes in it.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from minitorch.face.absent import instead_of
from minitorch.face.torch_module import HIDDEN, NAMES, VERSION, make_torch
from minitorch.face.torchvision import offer_torchvision
from minitorch.tensor.torch_types import use_pytorchs_types

# Processes that are spawned get a copy of sys.path, and here they find a torch that installs this one.
SITE = Path(__file__).parent / "site"


def install_as_torch() -> None:
    """From now on `import torch`, here and in packages, gives minitorch, with PyTorch's types. For the whole process.

    >>> minitorch.install_as_torch()                               # doctest: +SKIP
    >>> import torch                                               # doctest: +SKIP
    >>> torch.__version__, torch.nn.Linear is minitorch.nn.Linear  # doctest: +SKIP
    ('2.13.0+minitorch', True)
    """
    if any(isinstance(finder, TorchFinder) for finder in sys.meta_path):
        return
    if "torch" in sys.modules:
        raise RuntimeError(
            "install_as_torch: PyTorch itself is imported already (torch "
            f"{getattr(sys.modules['torch'], '__version__', '?')}), and a process has one torch. Call it before "
            "anything imports torch, or start the program with: minitorch run SCRIPT"
        )
    use_pytorchs_types()
    finder = TorchFinder()
    sys.meta_path.insert(0, finder)
    sys.path.insert(min(1, len(sys.path)), str(SITE))
    importlib.invalidate_caches()
    importlib.import_module("torch")
    importlib.import_module("torch.autograd.profiler")  # which programs use without importing it
    offer_torchvision()


def module_of(address: str) -> ModuleType | None:
    """Return the module that stands for an address below torch ("nn.functional"); None if there is none."""
    hidden = address.partition(".")[0] in HIDDEN
    for name in (*(() if hidden else (f"minitorch.{address}",)), f"{NAMES}.{address}"):
        if name in sys.modules:
            return sys.modules[name]
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # it is there, and what it needs is not
    return None


class TorchFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds torch and what is below it, and says that it is installed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return how to load an address; None for what is not torch's, and for what there is not."""
        root, _, address = fullname.partition(".")
        if root != "torch":
            return None
        found = module_of(address) if address else None
        if address and found is None and instead_of(fullname) is None:
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self, origin=getattr(found, "__file__", "minitorch"))
        spec.loader_state = found
        if not address or hasattr(found, "__path__"):
            spec.submodule_search_locations = []
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return torch, or the module of minitorch that has another name already."""
        if spec.name == "torch":
            return make_torch(spec, SITE)
        if spec.loader_state is None:
            raise ModuleNotFoundError(
                f"No module named {spec.name!r}: {instead_of(spec.name)}", name=spec.name
            )
        module: ModuleType = spec.loader_state
        spec.loader_state = getattr(module, "__spec__", None)
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave it as it is: it has run. The importing has given it another spec, and it gets its own back."""
        spec = module.__spec__
        if spec is not None and spec.name != "torch":
            module.__spec__ = spec.loader_state

    def find_distributions(self, context: Any = None) -> Iterable[importlib.metadata.Distribution]:
        """Say that torch is installed, to whoever asks importlib.metadata."""
        wanted = None if context is None else context.name
        return [TorchDistribution()] if wanted in (None, "torch") else []

    def invalidate_caches(self) -> None:
        """Do nothing: nothing is kept."""


class TorchDistribution(importlib.metadata.Distribution):
    """What importlib.metadata is told of torch: its name and version."""

    def read_text(self, filename: str) -> str | None:
        """Return the text of a file of metadata."""
        if filename != "METADATA":
            return None
        return f"Metadata-Version: 2.1\nName: torch\nVersion: {VERSION}\nSummary: minitorch, under the name of torch\n"

    def locate_file(self, path: Any) -> Any:
        """Return where a file of it lies."""
        return SITE / path
