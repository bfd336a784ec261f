"""How `import torchvision` finds minitorch.vision where the real one is absent. Enters: an address. Leaves: a module.

Asked last, after all other finders: a torchvision that is installed is found before. The modules are the same objects
under both names; PyTorch's file names that differ (`torchvision.transforms.transforms`) are told here.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import sys
from collections.abc import Iterable, Sequence
from types import ModuleType
from typing import Any

ROOM = "minitorch.vision"
# torchvision's address → ours, where they differ.
ELSEWHERE = {
    "datasets.utils": "datasets.files",
    "datasets.vision": "datasets.base",
    "datasets.fakedata": "datasets.fake",
    "models._api": "models.registry",
    "models.mobilenet": "models.mobilenetv3",
    "ops.stochastic_depth": "ops.misc",
    "ops.focal_loss": "ops.losses",
    "transforms.transforms": "transforms.classes",
    "transforms.autoaugment": "transforms.augment",
}


class VisionFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds torchvision and what is below it, in minitorch.vision."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Return how to load an address; None for what is not torchvision's, and for what there is not."""
        root, _, address = fullname.partition(".")
        if root != "torchvision":
            return None
        name = f"{ROOM}.{ELSEWHERE.get(address, address)}" if address else ROOM
        try:
            found = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise  # it is there, and what it needs is not
            return None
        spec = importlib.machinery.ModuleSpec(fullname, self, origin=getattr(found, "__file__", None))
        spec.loader_state = found
        if hasattr(found, "__path__"):
            spec.submodule_search_locations = []
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        """Return the module of minitorch that has another name already."""
        module: ModuleType = spec.loader_state
        spec.loader_state = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Leave it as it is: it has run. The importing has given it another spec, and it gets its own back."""
        if module.__spec__ is not None:
            module.__spec__ = module.__spec__.loader_state

    def find_distributions(self, context: Any = None) -> Iterable[importlib.metadata.Distribution]:
        """Say that torchvision is installed, to whoever asks importlib.metadata."""
        wanted = None if context is None else context.name
        return [VisionDistribution()] if wanted in (None, "torchvision") else []

    def invalidate_caches(self) -> None:
        """Do nothing: nothing is kept."""


class VisionDistribution(importlib.metadata.Distribution):
    """What importlib.metadata is told of torchvision: its name and version."""

    def read_text(self, filename: str) -> str | None:
        """Return the text of a file of metadata."""
        if filename != "METADATA":
            return None
        version = importlib.import_module(ROOM).__version__
        return f"Metadata-Version: 2.1\nName: torchvision\nVersion: {version}\nSummary: minitorch.vision\n"

    def locate_file(self, path: Any) -> Any:
        """Return where a file of it lies."""
        return importlib.import_module(ROOM).__path__[0]


def offer_torchvision() -> None:
    """From now on `import torchvision` gives minitorch.vision, unless another is installed."""
    sys.meta_path.append(VisionFinder())
