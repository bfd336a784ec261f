"""The module that programs know as torch. Enters: minitorch. Leaves: its names, with PyTorch's version and dtypes.

Names are resolved in this order: this file's own, the addresses of `names/`, minitorch's. What neither has is an
AttributeError that says what there is instead (absent.py).
"""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import minitorch
from minitorch.engine import dtypes
from minitorch.face import checkpoints, extras
from minitorch.face.absent import absence
from minitorch.face.version import TorchVersion
from minitorch.tensor import storage
from minitorch.tensor.torch_types import DTYPES, dtype, shown

VERSION = "2.13.0+minitorch"
# Where the addresses lie that exist only under this face.
NAMES = "minitorch.face.names"
# Rooms and names of minitorch that PyTorch has not, or that are something else there.
HIDDEN = {
    "app", "backward", "compiler", "course", "creation", "dtypes", "engine", "explore", "face", "functions",
    "install_as_torch", "is_lazy", "lazy", "memory", "op", "ops", "proof", "serialization", "set_lazy", "settings",
    "tensor", "version", "vision",
}  # fmt: skip

# Names of torch itself that are another address's.
ALIASES = {
    "DisableTorchFunction": "_C",
    "DisableTorchFunctionSubclass": "_C",
    "Future": "futures",
    "ScriptModule": "jit",
    "ScriptFunction": "jit",
}


def get_default_dtype() -> dtype:
    """Return the dtype that Python floats become."""
    return shown(dtypes.get_default_dtype())


def promote_types(type1: Any, type2: Any) -> dtype:
    """Return the dtype that can hold both."""
    return shown(dtypes.promote_types(type1, type2))


def result_type(tensor1: Any, tensor2: Any) -> dtype:
    """Return the dtype in which two tensors, or a tensor and a number, are computed together."""
    return shown(minitorch.result_type(tensor1, tensor2))


def typename(thing: Any) -> str:
    """Return the name of a thing's type, as PyTorch writes it."""
    if isinstance(thing, minitorch.Tensor):
        return str(thing.type())
    kind = type(thing)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def make_torch(spec: importlib.machinery.ModuleSpec, site: Path) -> ModuleType:
    """Return the module torch, filled."""
    torch = ModuleType("torch", minitorch.__doc__)
    names = vars(torch)
    names.update({k: v for k, v in vars(minitorch).items() if k[:1] != "_" and k not in HIDDEN})
    names["tensor"] = minitorch.tensor
    for name, value in vars(minitorch).items():
        if isinstance(value, np.dtype):
            names[name] = shown(value)
    names.update({each.name: each for each in DTYPES.values()})
    names.update({k: v for k, v in vars(extras).items() if getattr(v, "__module__", "") == extras.__name__})
    names.update(extras.FOREACH | extras.ABSENT_DTYPES | extras.QSCHEMES)
    names["chalf"] = names["complex32"]
    del names["bfloat16"]  # which a package has, and is looked for at first use
    names.update({name: getattr(extras, name) for name in extras.__all__})
    names.update({name: getattr(storage, name) for name in ("TypedStorage", "UntypedStorage")})
    names.update({each.__name__: each for each in storage.STORAGES.values()})
    names.update(Storage=names["FloatStorage"], StorageBase=storage.UntypedStorage)
    names.update(
        save=checkpoints.save, load=checkpoints.load, PyTorchFileReader=checkpoints.PyTorchFileReader
    )
    names.update(
        dtype=dtype,
        get_default_dtype=get_default_dtype,
        promote_types=promote_types,
        result_type=result_type,
        typename=typename,
        __version__=TorchVersion(VERSION),
        __path__=[],
        __file__=str(site / "torch" / "__init__.py"),
        __spec__=spec,
    )

    def find(name: str) -> Any:
        if name.startswith("__") and name not in ("__config__", "__future__"):
            raise AttributeError(f"module 'torch' has no attribute {name!r}")
        found = _found(name)
        if found is None:
            raise absence("torch", name, dir(torch))
        names[name] = found
        return found

    names["torch"] = torch  # `import torch.torch` is written here and there
    names["__getattr__"] = find
    names["__dir__"] = lambda: sorted({*names, *(n for n in dir(minitorch) if n not in HIDDEN)})
    return torch


def _found(name: str) -> Any:
    """Return an address of PyTorch's by its name, or a name of minitorch; None if neither is there."""
    if importlib.util.find_spec(f"{NAMES}.{name}") is not None:
        return importlib.import_module(f"torch.{name}")
    if name in ALIASES:
        return getattr(importlib.import_module(f"{NAMES}.{ALIASES[name]}"), name)
    found = None if name in HIDDEN else getattr(minitorch, name, None)
    if name == "bfloat16" and not isinstance(found, np.dtype):
        return extras.ABSENT_DTYPES[name]
    return shown(found) if isinstance(found, np.dtype) else found
