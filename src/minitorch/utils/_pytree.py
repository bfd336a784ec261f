"""Trees: nests of containers with anything at their ends. Enters: a nest. Leaves: its ends and how it was built.

Tuples, lists, dicts, named tuples, OrderedDict, defaultdict and deque are containers; others are
registered. Everything else, None too, is an end.
`tree_flatten` and `tree_unflatten` undo each other; the rest is made of them.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

PyTree = Any
FlattenFn = UnflattenFn = ToDumpableContextFn = FromDumpableContextFn = Callable[..., Any]
DumpableContext = Any
Context = Any
KeyPath = tuple[Any, ...]
FlattenFunc = Callable[[Any], tuple[list[Any], Context]]
UnflattenFunc = Callable[[Any, Context], Any]


class NodeDef(NamedTuple):
    """How a kind of container is taken apart and put together."""

    type: Any
    flatten_fn: FlattenFunc
    unflatten_fn: UnflattenFunc
    flatten_with_keys_fn: Any = None


@dataclass(frozen=True)
class SequenceKey:
    """A place in a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: Any) -> Any:
        """Return what is there."""
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """A key of a mapping."""

    key: Any

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Any) -> Any:
        """Return what is there."""
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """An attribute's name."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, thing: Any) -> Any:
        """Return what is there."""
        return getattr(thing, self.name)


SUPPORTED_NODES: dict[Any, NodeDef] = {}


def register_pytree_node(
    cls: Any, flatten_fn: FlattenFunc, unflatten_fn: UnflattenFunc, *,
    serialized_type_name: Any = None, to_dumpable_context: Any = None, from_dumpable_context: Any = None,
    flatten_with_keys_fn: Any = None,
) -> None:  # fmt: skip
    """Make a class a container. flatten_fn gives its parts and a context; unflatten_fn takes both.

    >>> class Pair:
    ...     def __init__(self, a, b): self.a, self.b = a, b
    >>> register_pytree_node(Pair, lambda p: ([p.a, p.b], None), lambda parts, _: Pair(*parts))
    >>> tree_map(lambda n: n + 1, Pair(1, [2])).b
    [3]
    >>> _ = SUPPORTED_NODES.pop(Pair)
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"register_pytree_node: {cls} is registered already")
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)


_register_pytree_node = register_pytree_node


def _keyed(values: Sequence[Any]) -> list[tuple[Any, Any]]:
    return [(SequenceKey(i), value) for i, value in enumerate(values)]


def _mapped(mapping: Any) -> list[tuple[Any, Any]]:
    return [(MappingKey(key), value) for key, value in mapping.items()]


def _dict_flatten(mapping: dict[Any, Any]) -> tuple[list[Any], Context]:
    return list(mapping.values()), list(mapping)


def _dict_unflatten(values: Any, context: Context) -> dict[Any, Any]:
    return dict(zip(context, values, strict=True))


def _dict_flatten_with_keys(mapping: dict[Any, Any]) -> tuple[list[tuple[Any, Any]], Context]:
    return _mapped(mapping), list(mapping)


_BUILTIN = (
    (tuple, lambda t: (list(t), None), lambda parts, _: tuple(parts), lambda t: (_keyed(t), None)),
    (list, lambda t: (list(t), None), lambda parts, _: list(parts), lambda t: (_keyed(t), None)),
    (dict, _dict_flatten, _dict_unflatten, _dict_flatten_with_keys),
    (
        OrderedDict,
        _dict_flatten,
        lambda parts, keys: OrderedDict(zip(keys, parts, strict=True)),
        _dict_flatten_with_keys,
    ),
    (
        defaultdict,
        lambda t: (list(t.values()), [t.default_factory, list(t)]),
        lambda parts, context: defaultdict(context[0], zip(context[1], parts, strict=True)),
        lambda t: (_mapped(t), [t.default_factory, list(t)]),
    ),
    (
        deque,
        lambda t: (list(t), t.maxlen),
        lambda parts, longest: deque(parts, maxlen=longest),
        lambda t: (_keyed(t), t.maxlen),
    ),
)  # fmt: skip
for _cls, _apart, _together, _with_keys in _BUILTIN:
    register_pytree_node(_cls, _apart, _together, flatten_with_keys_fn=_with_keys)

# All classes of named tuples are one kind, whose context is the class.
SUPPORTED_NODES[NamedTuple] = NodeDef(
    NamedTuple,
    lambda t: (list(t), type(t)),
    lambda parts, cls: cls(*parts),
    lambda t: ([(GetAttrKey(name), getattr(t, name)) for name in t._fields], type(t)),
)


def _get_node_type(tree: Any) -> Any:
    """Return which kind of container a thing is; its own class where it is none."""
    cls = type(tree)
    if cls not in SUPPORTED_NODES and isinstance(tree, tuple) and hasattr(cls, "_fields"):
        return NamedTuple
    return cls


def _is_leaf(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


@dataclass
class TreeSpec:
    """How a tree was built: the kind of its container, the kind's context, and the specs of its parts.

    >>> tree_structure((1, [2])).num_leaves
    2
    """

    type: Any
    context: Context
    children_specs: list[TreeSpec] = field(default_factory=list)

    @property
    def num_leaves(self) -> int:
        """The number of its ends."""
        return sum(each.num_leaves for each in self.children_specs)

    @property
    def num_children(self) -> int:
        """The number of its parts."""
        return len(self.children_specs)

    @property
    def num_nodes(self) -> int:
        """The number of containers and ends."""
        return 1 + sum(each.num_nodes for each in self.children_specs)

    def is_leaf(self) -> bool:
        """Tell whether it is an end."""
        return False

    def children(self) -> list[TreeSpec]:
        """Return the specs of its parts."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """Return the spec of one part."""
        return self.children_specs[index]

    def unflatten(self, leaves: Any) -> Any:
        """Put ends together."""
        return tree_unflatten(leaves, self)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """Return what a tree has where this one has its ends; the tree must begin as this one."""
        if self.is_leaf():
            return [tree]
        if _get_node_type(tree) is not self.type:
            raise ValueError(f"tree: expected a {self.type}, got {type(tree)}")
        parts, context = SUPPORTED_NODES[self.type].flatten_fn(tree)
        if len(parts) != self.num_children or context != self.context:
            raise ValueError(f"tree: {tree!r} is built otherwise than {self}")
        return [
            end
            for spec, part in zip(self.children_specs, parts, strict=True)
            for end in spec.flatten_up_to(part)
        ]

    def __hash__(self) -> int:
        return hash((self.type, str(self.context), tuple(self.children_specs)))


class LeafSpec(TreeSpec):
    """How an end was built: not at all."""

    def __init__(self) -> None:
        super().__init__(None, None, [])

    @property
    def num_leaves(self) -> int:
        """One."""
        return 1

    def is_leaf(self) -> bool:
        """Tell that it is an end."""
        return True

    def __repr__(self) -> str:
        return "*"

    __hash__ = TreeSpec.__hash__


def treespec_leaf() -> LeafSpec:
    """Return the spec of an end."""
    return LeafSpec()


def tree_flatten(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], TreeSpec]:
    """Return the ends of a tree in order, and how it was built.

    >>> ends, spec = tree_flatten({"a": 1, "b": (2, [3, None])})
    >>> ends, tree_unflatten([10, 20, 30, 40], spec)
    ([1, 2, 3, None], {'a': 10, 'b': (20, [30, 40])})
    """
    if _is_leaf(tree, is_leaf):
        return [tree], LeafSpec()
    kind = _get_node_type(tree)
    parts, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    ends: list[Any] = []
    specs = []
    for part in parts:
        inner, spec = tree_flatten(part, is_leaf)
        ends += inner
        specs.append(spec)
    return ends, TreeSpec(kind, context, specs)


def tree_unflatten(leaves: Any, treespec: TreeSpec) -> Any:
    """Put ends together as a spec says."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError(f"tree_unflatten: expected a TreeSpec, got {type(treespec).__name__}")
    leaves = list(leaves)
    if len(leaves) != treespec.num_leaves:
        raise ValueError(
            f"tree_unflatten: {len(leaves)} ends for a tree of {treespec.num_leaves}: {treespec}"
        )
    return _built(iter(leaves), treespec)


def _built(ends: Iterator[Any], spec: TreeSpec) -> Any:
    if spec.is_leaf():
        return next(ends)
    parts = [_built(ends, each) for each in spec.children_specs]
    return SUPPORTED_NODES[spec.type].unflatten_fn(parts, spec.context)


def tree_iter(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> Iterator[Any]:
    """Give the ends of a tree one by one."""
    yield from tree_flatten(tree, is_leaf)[0]


def tree_leaves(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> list[Any]:
    """Return the ends of a tree.

    >>> tree_leaves([1, {"a": (2, 3)}])
    [1, 2, 3]
    """
    return tree_flatten(tree, is_leaf)[0]


def tree_structure(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> TreeSpec:
    """Return how a tree was built."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """Return a tree of what a function makes of each end; of the ends of several trees that are built alike.

    >>> tree_map(lambda a, b: a + b, [1, (2,)], [10, (20,)])
    [11, (22,)]
    """
    ends, spec = tree_flatten(tree, is_leaf)
    others = [spec.flatten_up_to(each) for each in rests]
    return tree_unflatten(map(func, ends, *others), spec)


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """Call a function for each end, and return the tree as it was."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


def _is_chosen(chosen: Any, end: Any) -> bool:
    if isinstance(chosen, (type, tuple)) or hasattr(chosen, "__args__"):
        return isinstance(end, chosen)
    return bool(chosen(end))


def map_only(type_or_types_or_pred: Any) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """Decorate a function that shall see only ends of some types; others stay."""

    def decorate(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda end: func(end) if _is_chosen(type_or_types_or_pred, end) else end

    return decorate


def tree_map_only(
    type_or_types_or_pred: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Any = None
) -> Any:
    """Map only the ends of some types; others stay.

    >>> tree_map_only(int, lambda n: -n, [1, "a"])
    [-1, 'a']
    """
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Any, func: Callable[[Any], Any], tree: Any, is_leaf: Any = None
) -> Any:
    """Call a function for each end of some types, and return the tree as it was."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Tell whether something holds of every end."""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Tell whether something holds of some end."""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(types: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Tell whether something holds of every end of some types."""
    return all(pred(end) for end in tree_iter(tree, is_leaf) if _is_chosen(types, end))


def tree_any_only(types: Any, pred: Callable[[Any], bool], tree: Any, is_leaf: Any = None) -> bool:
    """Tell whether something holds of some end of some types."""
    return any(pred(end) for end in tree_iter(tree, is_leaf) if _is_chosen(types, end))


def _with_paths(tree: Any, path: KeyPath, is_leaf: Any) -> Iterator[tuple[KeyPath, Any]]:
    if _is_leaf(tree, is_leaf):
        yield path, tree
        return
    node = SUPPORTED_NODES[_get_node_type(tree)]
    if node.flatten_with_keys_fn is not None:
        parts = node.flatten_with_keys_fn(tree)[0]
    else:
        parts = _keyed(node.flatten_fn(tree)[0])
    for key, part in parts:
        yield from _with_paths(part, (*path, key), is_leaf)


def tree_flatten_with_path(tree: Any, is_leaf: Any = None) -> tuple[list[tuple[KeyPath, Any]], TreeSpec]:
    """Return the ends with the keys that lead to each, and how the tree was built.

    >>> [(keystr(path), end) for path, end in tree_flatten_with_path({"a": [1, 2]})[0]]
    [("['a'][0]", 1), ("['a'][1]", 2)]
    """
    return list(_with_paths(tree, (), is_leaf)), tree_structure(tree, is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: Any = None) -> list[tuple[KeyPath, Any]]:
    """Return the ends with the keys that lead to each."""
    return tree_flatten_with_path(tree, is_leaf)[0]


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: Any = None) -> Any:
    """Return a tree of what a function makes of each end and the keys that lead to it."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    others = [spec.flatten_up_to(each) for each in rests]
    return tree_unflatten(
        [func(path, end, *more) for (path, end), *more in zip(pairs, *others, strict=True)], spec
    )


def keystr(kp: KeyPath) -> str:
    """Return keys as they are written in Python."""
    return "".join(str(key) for key in kp)


def key_get(obj: Any, kp: KeyPath) -> Any:
    """Return what keys lead to."""
    for key in kp:
        obj = key.get(obj)
    return obj


def _broadcast_to_and_flatten(tree: Any, treespec: TreeSpec, is_leaf: Any = None) -> list[Any] | None:
    """Return one value for each end of a tree, from a tree that it begins with; None if it does not."""
    if treespec.is_leaf():
        return [tree]
    if _is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    if _get_node_type(tree) is not treespec.type:
        return None
    parts, context = SUPPORTED_NODES[treespec.type].flatten_fn(tree)
    if len(parts) != treespec.num_children or context != treespec.context:
        return None
    found: list[Any] = []
    for part, spec in zip(parts, treespec.children_specs, strict=True):
        inner = _broadcast_to_and_flatten(part, spec, is_leaf)
        if inner is None:
            return None
        found += inner
    return found


PyTreeSpec = TreeSpec


def tree_is_leaf(tree: Any, is_leaf: Callable[[Any], bool] | None = None) -> bool:
    """Tell whether a thing is an end: no container that is known.

    >>> tree_is_leaf(1), tree_is_leaf([1])
    (True, False)
    """
    return _is_leaf(tree, is_leaf)


def is_namedtuple_class(cls: Any) -> bool:
    """Tell whether a class is a named tuple's."""
    return (
        isinstance(cls, type) and issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)
    )


def is_namedtuple_instance(obj: Any) -> bool:
    """Tell whether a thing is a named tuple."""
    return is_namedtuple_class(type(obj))


def is_namedtuple(obj: Any) -> bool:
    """Tell whether a thing, or a class, is a named tuple."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Tell whether a class is one of Python's own tuples with names (time.struct_time)."""
    return (
        isinstance(cls, type)
        and issubclass(cls, tuple)
        and all(isinstance(getattr(cls, name, None), int) for name in ("n_fields", "n_sequence_fields"))
    )


def is_structseq_instance(obj: Any) -> bool:
    """Tell whether a thing is one of Python's own tuples with names."""
    return is_structseq_class(type(obj))


def is_structseq(obj: Any) -> bool:
    """Tell whether a thing, or a class, is one of Python's own tuples with names."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def treespec_pprint(treespec: TreeSpec) -> str:
    """Return a tree's form as text, a star for each end."""
    return str(tree_unflatten(["*"] * treespec.num_leaves, treespec)).replace("'*'", "*")
