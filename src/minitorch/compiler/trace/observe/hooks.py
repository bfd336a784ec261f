"""What instrumented code calls in place of its instructions. Enters: operands. Leaves: what the instruction gives, and
what was looked at or changed, told to the thread's Observer (observer.py). Where nobody observes, the bare instruction.

The instructions on names, attributes, items and operators have files of their own; here are the others, and all of them
in one table.
"""

from __future__ import annotations

import sys
from typing import Any

from minitorch.compiler.trace.deferred import deferred
from minitorch.compiler.trace.observe.attributes import attribute, delete_attribute, store_attribute
from minitorch.compiler.trace.observe.instrument import EXPANDED, Rewriter
from minitorch.compiler.trace.observe.items import delete_item, item, iterator, store_item, whole
from minitorch.compiler.trace.observe.methods import NODE
from minitorch.compiler.trace.observe.names import cell, global_, import_, imported, store_cell, store_global
from minitorch.compiler.trace.observe.observer import current_observer
from minitorch.compiler.trace.observe.operators import binary, compare, contains, identical, truth, unary
from minitorch.compiler.trace.varying import as_number


def call(function: Any, *args: Any, **options: Any) -> Any:
    """Call something."""
    if args and args[-1] is EXPANDED:
        args, options = args[0], dict(whole(args[1])) if len(args) > 2 else {}
        args = tuple(_each_of(args))
    o = current_observer()
    if o is not None:
        return o.calls(function, args, options)
    if id(function) in _OF_THE_FRAME:
        frame = sys._getframe(1)
        if function is globals or function is locals:
            return frame.f_globals if function is globals else frame.f_locals
        if len(args) == 1:
            args = (*args, frame.f_globals, frame.f_locals)
    return function(*args, **options)


_OF_THE_FRAME = {id(each) for each in (globals, locals, eval, exec)}  # they look at who calls them


def _each_of(args: Any) -> Any:
    return args if type(args) is tuple else iterator(args)


def super_of(parts: tuple[Any, Any, Any]) -> Any:
    """Make a super object."""
    made, kind, thing = parts
    return made(kind, thing)


def enter(manager: Any) -> tuple[Any, Any]:
    """Enter a with block; return its value, and what leaves it."""
    kind = type(manager)
    o = current_observer()
    if o is None:
        enters, leaves = kind.__enter__, kind.__exit__
        value = enters(manager)
    else:
        enters, leaves = attribute(kind, "__enter__"), attribute(kind, "__exit__")
        value = o.calls(enters, (manager,), {})

    def leave(*error: Any) -> Any:
        return call(leaves, manager, *error)

    return value, leave


def caught(error: BaseException) -> None:
    """Be told that an error is about to be handled."""
    o = current_observer()
    if o is not None:
        o.caught(error)


def refuse(why: str) -> None:
    """Refuse an instruction that is not understood."""
    o = current_observer()
    if o is not None:
        raise o.refuse(why)


def made(thing: Any, cells: tuple[str, ...] = ()) -> None:
    """Something was made. cells: of a function, those of its variables that live in the frame which makes it."""
    o = current_observer()
    if o is not None:
        o.made(thing)
        if cells and thing.__closure__:
            for name, each in zip(thing.__code__.co_freevars, thing.__closure__, strict=True):
                if name in cells:
                    o.made(each)


_CONVERSIONS: dict[str, Any] = {"": lambda thing: thing, "s": str, "r": repr, "a": ascii}


def format_(thing: Any, spec: str, how: str) -> str:
    """Format a part of a text."""
    if current_observer() is None:
        return format(_CONVERSIONS[how](thing), spec)
    if isinstance(thing, NODE) and not how and thing.ndim == 0:
        thing = thing.item()  # what its own __format__ shows
    return deferred(lambda value, form: format(_CONVERSIONS[how](value), form), as_number(thing), spec)


def joined(parts: tuple[str, ...]) -> str:
    """Join the parts of a text."""
    return deferred(lambda *texts: "".join(texts), *parts)


HOOKS = {
    function.__name__: function
    for function in (
        global_, store_global, cell, store_cell, import_, imported, attribute, store_attribute, delete_attribute, item,
        store_item, delete_item, whole, truth, contains, identical, compare, binary, iterator, call, super_of, enter,
        caught, refuse, made, format_, joined, unary,
    )
}  # fmt: skip
rewriter = Rewriter(HOOKS)
