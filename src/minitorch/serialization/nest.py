"""Nests of containers, and the arrays in them.

Enters: dicts, lists and tuples of Tensors, arrays, numbers and strings. Leaves: the arrays by name, and
a skeleton that JSON can write: the same nest with a name wherever an array was. And back.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from minitorch.creation import tensor
from minitorch.engine import dtypes
from minitorch.engine.dtypes import kind_of
from minitorch.nn.parameter import Parameter
from minitorch.tensor import Tensor

# What a file may hold: bools, integers, floats, complex numbers. No objects: they would need pickle.
KINDS = "biufc"

Arrays = dict[str, np.ndarray]


def of_bfloat16(bits: np.ndarray) -> np.ndarray:
    """Return the numbers that 16 bits each are as bfloat16; where there is no such dtype, as float32, exactly."""
    if isinstance(dtypes.bfloat16, np.dtype):
        return bits.view(dtypes.bfloat16)
    return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)  # of which they are the upper half


def take_apart(nest: Any) -> tuple[Arrays, Any]:
    """Split a nest into arrays by name and a skeleton.

    A flat dict of Tensors, such as a state dict, needs no skeleton: it is the arrays by name.

    >>> take_apart({"w": Tensor([1.0, 2.0])})
    ({'w': array([1., 2.], dtype=float32)}, None)
    >>> take_apart([Tensor([1.0]), 0.5])
    ({'0': array([1.], dtype=float32)}, {'version': 1, 'nest': {'list': [{'tensor': '0'}, 0.5]}})
    """
    arrays: Arrays = {}
    if isinstance(nest, Mapping) and nest and all(_is_plain_entry(k, v) for k, v in nest.items()):
        return {name: _host_array(tensor, f"[{name!r}]") for name, tensor in nest.items()}, None
    skeleton = _take_apart(nest, "", "", arrays, set())
    return arrays, {"version": 1, "nest": skeleton}


def put_together(arrays: Arrays, skeleton: Any) -> Any:
    """Rebuild a nest from arrays and skeleton; undoes take_apart.

    >>> put_together(*take_apart({"step": 3, "lrs": (0.1, None), 0: Tensor([1.0])}))
    {'step': 3, 'lrs': (0.1, None), 0: tensor([1.])}
    """
    if skeleton is None:
        return {name: tensor(array) for name, array in arrays.items()}
    if not isinstance(skeleton, dict) or skeleton.get("version") != 1 or "nest" not in skeleton:
        raise RuntimeError("its skeleton is of a version this minitorch does not know")
    return _put_together(skeleton["nest"], arrays)


def _is_plain_entry(key: Any, value: Any) -> bool:
    return (
        isinstance(key, str)
        and isinstance(value, Tensor)
        and not isinstance(value, Parameter)
        and not value.requires_grad
    )


def _host_array(tensor: Tensor, place: str) -> np.ndarray:
    return _checked(tensor.detach().cpu().numpy(), place)


def _checked(array: np.ndarray, place: str) -> np.ndarray:
    if kind_of(array.dtype) not in KINDS:
        raise TypeError(
            f"save: the array at obj{place} holds {array.dtype}; only bools and numbers can be saved"
        )
    return array


def _take_apart(value: Any, place: str, name: str, arrays: Arrays, parents: set[int]) -> Any:
    # place: where we are, as a person would write it after `obj`; name: the same, as an array's name.
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        return _put_array(value, place, name, arrays)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"float": repr(float(value))}
    if isinstance(value, complex):
        return {"complex": [repr(value.real), repr(value.imag)]}
    if not isinstance(value, (Mapping, list, tuple)):
        raise TypeError(_cannot_save(value, place))
    if id(value) in parents:
        raise ValueError(f"save: obj{place} contains itself; a file cannot")
    parents = parents | {id(value)}
    if isinstance(value, Mapping):
        pairs = []
        for key, inner in value.items():
            if isinstance(key, (Tensor, np.ndarray)):
                raise TypeError(
                    f"save: a key of obj{place} is a {type(key).__name__}; use strings or numbers"
                )
            inner_name = f"{name}.{key}" if name else str(key)
            pairs.append(
                [
                    _take_apart(key, f"{place} (the key {key!r})", f"{inner_name}.key", arrays, parents),
                    _take_apart(inner, f"{place}[{key!r}]", inner_name, arrays, parents),
                ]
            )
        return {"dict": pairs}
    items = [
        _take_apart(inner, f"{place}[{i}]", f"{name}.{i}" if name else str(i), arrays, parents)
        for i, inner in enumerate(value)
    ]
    return {"list" if isinstance(value, list) else "tuple": items}


def _put_array(value: Any, place: str, name: str, arrays: Arrays) -> dict[str, Any]:
    name = name or "value"
    while name in arrays:  # {"a.b": x, "a": {"b": y}} gives the same name twice
        name += "'"
    if isinstance(value, np.generic):
        arrays[name] = _checked(np.asarray(value), place)
        return {"scalar": name}
    if isinstance(value, np.ndarray):
        arrays[name] = _checked(value, place)
        return {"array": name}
    arrays[name] = _host_array(value, place)
    if isinstance(value, Parameter):
        return {"parameter": name, "requires_grad": bool(value.requires_grad)}
    if value.requires_grad:
        return {"tensor": name, "requires_grad": True}
    return {"tensor": name}


def _cannot_save(value: Any, place: str) -> str:
    kind = type(value).__name__
    advice = (
        "save its state_dict() and build it anew before load_state_dict()"
        if hasattr(value, "state_dict")
        else "only Tensors, arrays, numbers, strings, None, and dicts, lists and tuples of these can be saved"
    )
    return f"save: obj{place} is a {kind}; {advice}"


def _put_together(skeleton: Any, arrays: Arrays) -> Any:
    if skeleton is None or isinstance(skeleton, (bool, str, int, float)):
        return skeleton
    if not isinstance(skeleton, dict) or not skeleton:
        raise RuntimeError(f"its skeleton has {type(skeleton).__name__} where a nest was expected")
    tag, content = next(iter(skeleton.items()))
    if tag in ("list", "tuple", "dict") and not isinstance(content, list):
        raise RuntimeError(f"its skeleton has a {tag} without entries")
    match tag:
        case "list":
            return [_put_together(each, arrays) for each in content]
        case "tuple":
            return tuple(_put_together(each, arrays) for each in content)
        case "dict":
            return dict(_pair(each, arrays) for each in content)
        case "float":
            return float(content)
        case "complex":
            real, imaginary = content
            return complex(float(real), float(imaginary))
    if not isinstance(content, str) or content not in arrays:
        raise RuntimeError(f"its skeleton names {tag} {content!r}, which the file does not hold")
    array = arrays[content]
    requires_grad = skeleton.get("requires_grad") is True
    match tag:
        case "array":
            return array
        case "scalar":
            return array[()]
        case "tensor":
            return tensor(array, requires_grad=requires_grad)
        case "parameter":
            return Parameter(tensor(array), requires_grad=requires_grad)
    raise RuntimeError(f"its skeleton has a {tag!r}, which this minitorch does not know")


def _pair(entry: Any, arrays: Arrays) -> tuple[Any, Any]:
    key, value = entry
    return _put_together(key, arrays), _put_together(value, arrays)
