"""In which module a node belongs. Enters: a graph, and what its tensors are called. Leaves: a path for each node.

A graph knows no modules. But parameters have names ("encoder.0.weight"): a node that uses one belongs to "encoder.0",
and a node between two modules belongs to what they have in common ("encoder").
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from minitorch.course.explorer.record import Recorded


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
