"""save and load themselves. Enters: a nest and a path or file. Leaves: the file; the nest again."""

from __future__ import annotations

import functools
import io
import json
import os
import tokenize
import warnings
import zipfile
import zlib
from collections.abc import Callable
from pickle import UnpicklingError
from typing import IO, Any

from minitorch.nn.parameter import Parameter
from minitorch.serialization import npz, pytorch, safetensors
from minitorch.serialization.archive import open_archive
from minitorch.serialization.atomic import atomically
from minitorch.serialization.nest import put_together, take_apart
from minitorch.tensor import Tensor
from minitorch.tensor.devices import default_device, get_default_device, has_gpu
from minitorch.tensor.storage import UntypedStorage
from minitorch.tensor.torch_types import pytorchs

Place = str | os.PathLike[str] | IO[bytes]

# What a damaged or hostile file can make the readers of zip, JSON and .npy raise.
DAMAGE = (
    RuntimeError,
    ValueError,
    KeyError,
    IndexError,
    TypeError,
    AttributeError,
    EOFError,
    OverflowError,
    RecursionError,
    SyntaxError,
    NotImplementedError,
    tokenize.TokenError,
    zipfile.BadZipFile,
    zlib.error,
)


def save(obj: Any, f: Place) -> None:
    """Write a nest of Tensors to a file: whole, or not at all.

    obj: Tensors, arrays, numbers, strings, None, and dicts, lists and tuples of these, nested as you like;
        a state dict is the usual one.
    f: a path, or a file open for writing. A path that ends in .safetensors gives that format; any other
        gives .npz: np.load can read its arrays. Neither contains pickle.

    >>> import io
    >>> file = io.BytesIO()
    >>> minitorch.save({"weight": minitorch.ones(2), "epoch": 3}, file)
    >>> minitorch.load(io.BytesIO(file.getvalue()))
    {'weight': tensor([1., 1.]), 'epoch': 3}
    """
    arrays, skeleton = take_apart(obj)
    if not isinstance(f, (str, os.PathLike)):
        npz.write(f, arrays, skeleton)
        return
    suffix = os.path.splitext(os.fspath(f))[1]
    form = safetensors if suffix == ".safetensors" else npz
    with atomically(f) as file:
        form.write(file, arrays, skeleton)


def load(
    f: Place,
    map_location: Any = None,
    pickle_module: Any = None,
    *,
    weights_only: bool = True,
    mmap: bool = False,
) -> Any:
    """Read what save wrote, a .safetensors or .npz file of others, or a checkpoint that PyTorch wrote.

    The file's content tells its format. No code in the file is ever run; one that is damaged, or that
    wants anything but Tensors, numbers, strings and containers, is refused with an error that says why.

    map_location: the device for all Tensors; without it, the default device, wherever they were saved from (under
        PyTorch's types: where they were saved from, if that is there). The forms PyTorch takes are accepted: a name, a
        dict of names, a function of a storage and its place.
    weights_only: what False would allow in PyTorch, running code of the file, never happens here; what needs no
        code is read either way. pickle_module and mmap are accepted too.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "model.safetensors")
    ...     minitorch.save({"weight": minitorch.zeros(2, 2)}, path)
    ...     minitorch.load(path)
    {'weight': tensor([[0., 0.],
            [0., 0.]])}
    """
    place = functools.partial(place_for, map_location)
    if isinstance(f, (str, os.PathLike)):
        with open(f, "rb") as file:
            return _read(file, os.fspath(f), place)
    return _read(f, getattr(f, "name", "the file"), place)


def _read(file: IO[bytes], name: Any, place: Callable[[str], Any]) -> Any:
    if not file.seekable() or file.tell() != 0:
        file = io.BytesIO(file.read())
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    start = file.read(16)
    file.seek(0)
    try:
        return _read_as_it_is(file, size, start, place)
    except UnpicklingError as error:
        raise UnpicklingError(f"{error} (in {name})") from None
    except DAMAGE as error:
        said = (
            str(error) if isinstance(error, RuntimeError) else f"damaged or not a checkpoint: {_said(error)}"
        )
        raise RuntimeError(f"load: cannot read {name}: {said}") from error


def _said(error: Exception) -> str:
    return "its JSON is broken" if isinstance(error, json.JSONDecodeError) else f"{error}"


def _read_as_it_is(file: IO[bytes], size: int, start: bytes, place: Callable[[str], Any]) -> Any:
    if not size:
        raise RuntimeError("it is empty")
    if start.startswith(b"PK\x03\x04"):
        with open_archive(file, size) as archive:
            if pytorch.is_checkpoint(archive):
                nest, widened = pytorch.read(archive, place)
                _tell_of_bfloat16(widened)
                return nest
            return _moved(put_together(*npz.read(archive)), place("cpu"))
    if safetensors.looks_like(start):
        arrays, skeleton, names = safetensors.read(file, size)
        _tell_of_bfloat16(len(names))
        return _moved(put_together(arrays, skeleton), place("cpu"))
    if start.startswith(b"\x80"):
        raise RuntimeError(
            "it is a bare pickle (or a checkpoint from before PyTorch 1.6), which can run any code and is not read; "
            "if you trust it: torch.save(torch.load(old), new) writes today's format"
        )
    if start.startswith(b"\x93NUMPY"):
        raise RuntimeError("it is a single array; read it with np.load")
    raise RuntimeError(
        f"it is neither .npz nor .safetensors nor a PyTorch checkpoint; it begins with {start!r}"
    )


def _tell_of_bfloat16(count: int) -> None:
    if count:
        warnings.warn(
            f"load: {count} bfloat16 arrays became float32, without loss; with the package ml_dtypes they stay",
            stacklevel=5,
        )


def place_for(map_location: Any, location: str) -> Any:
    """Return where Tensors of a file shall be that were saved from a place."""
    saved_from = location if location.startswith("cuda") and has_gpu() else "cpu"
    if isinstance(map_location, dict):  # {"cuda:0": "cpu"}: where things were → where they shall be
        return map_location.get(location, saved_from)
    if callable(
        map_location
    ):  # lambda storage, location: storage.cuda(1), and whatever else returns a storage
        return getattr(map_location(UntypedStorage(1), location), "device", saved_from)
    if map_location is None:
        return saved_from if pytorchs.on and saved_from != "cpu" else get_default_device()
    return map_location


def _moved(nest: Any, device: Any) -> Any:
    if device == "cpu" and default_device() is None:
        return nest
    if isinstance(nest, Parameter):
        return Parameter(nest.detach().to(device), requires_grad=nest.requires_grad)
    if isinstance(nest, Tensor):
        return nest.detach().to(device).requires_grad_(nest.requires_grad)
    if isinstance(nest, dict):
        return {key: _moved(value, device) for key, value in nest.items()}
    if isinstance(nest, (list, tuple)):
        return type(nest)(_moved(value, device) for value in nest)
    return nest
