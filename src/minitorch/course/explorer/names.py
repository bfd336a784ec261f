"""What tensors are called, and in which module they belong. Enters: a graph, and modules or variables. Leaves: names.

A graph knows no modules. But parameters have names ("encoder.0.weight"): a node that uses one belongs to "encoder.0",
and a node between two modules belongs to what they have in common ("encoder").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from minitorch.course.explorer.record import Recorded
from minitorch.nn import Module
from minitorch.testing.fields import is_tensor


def names_in(space: Mapping[str, Any] | Module | None) -> dict[int, str]:
    """Return names of tensors by identity: a module's parameters, or variables and the parameters of modules there."""
    found: dict[int, str] = {}
    if isinstance(space, Module):
        return {id(tensor): name for name, tensor in _state(space)}
    for name, value in (space or {}).items():
        if name.startswith("_"):
            continue
        if isinstance(value, Module):
            for inner, tensor in _state(value):
                found.setdefault(id(tensor), f"{name}.{inner}")
        elif is_tensor(value):
            found.setdefault(id(value), name)
        elif isinstance(value, (list, tuple)) and len(value) < 1000:
            for i, each in enumerate(value):
                if is_tensor(each):
                    found.setdefault(id(each), f"{name}[{i}]")
    return found


def _state(module: Module) -> Iterable[tuple[str, Any]]:
    yield from module.named_parameters()
    yield from module.named_buffers()


def boxes(nodes: list[Recorded], names: Mapping[int, str]) -> list[str]:
    """Return the module of every node, as a path with dots; empty for what belongs to none."""
    own: list[str | None] = [None] * len(nodes)
    for node in nodes:
        name = names.get(id(node.tensor), "")
        if not node.parents and "." in name:
            own[node.number] = name.rpartition(".")[0]
    for node in nodes:
        paths = [own[p] for p in node.parents if not nodes[p].parents and own[p] is not None]
        if node.parents and paths:
            own[node.number] = _common(paths)  # it uses a parameter
    # What lies between modules: the common part of the nearest ones before and after.
    before: list[str | None] = [None] * len(nodes)
    for node in nodes:
        near = [before[p] for p in node.parents if nodes[p].parents]
        before[node.number] = own[node.number] if own[node.number] is not None else _common(near)
    after: list[str | None] = [None] * len(nodes)
    for node in reversed(nodes):
        reached = own[node.number] if own[node.number] is not None else after[node.number]
        for parent in node.parents:
            after[parent] = reached if after[parent] is None else _common([after[parent], reached])
    return [known if known is not None else _between(before[i], after[i]) for i, known in enumerate(own)]


def _between(before: str | None, after: str | None) -> str:
    return "" if before is None or after is None else _common([before, after]) or ""


def _common(paths: Iterable[str | None]) -> str | None:
    known = [path.split(".") for path in paths if path is not None]
    if not known:
        return None
    shared = []
    for parts in zip(*known, strict=False):
        if len(set(parts)) > 1:
            break
        shared.append(parts[0])
    return ".".join(shared)
