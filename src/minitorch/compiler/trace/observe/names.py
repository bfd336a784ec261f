"""Names in instrumented code: globals, variables that are closed over, modules. Enters: a name. Leaves: its value."""

from __future__ import annotations

import sys
from typing import Any

from minitorch.compiler.trace.observe.attributes import attribute, note_store
from minitorch.compiler.trace.observe.items import item
from minitorch.compiler.trace.observe.observer import MISSING, current_observer


def global_(name: str) -> Any:
    """Load a global, or a builtin."""
    o = current_observer()
    space = sys._getframe(1).f_globals
    found = space.get(name, MISSING)
    if o is not None:
        found = o.fact(name, "item", space, name, found)
    if found is MISSING:
        builtin = space["__builtins__"]
        builtin = builtin if isinstance(builtin, dict) else builtin.__dict__
        found = builtin.get(name, MISSING)
        if o is not None:
            o.fact(name, "item", builtin, name, found)
        if found is MISSING:
            raise NameError(f"name {name!r} is not defined")
    return found


def store_global(value: Any, name: str) -> None:
    """Store a global."""
    space = sys._getframe(1).f_globals
    if (o := current_observer()) is not None:
        note_store(o, "space", space, name, value, space.get(name, MISSING))
    space[name] = value


def cell(holder: Any, name: str) -> Any:
    """Load a variable that is closed over."""
    try:
        found = holder.cell_contents
    except ValueError:
        raise NameError(
            f"cannot access free variable {name!r} where it is not associated with a value in enclosing scope"
        ) from None
    o = current_observer()
    if o is not None and o.is_outside(holder):
        return o.fact(name, "cell", holder, None, found)
    return found


def store_cell(value: Any, holder: Any) -> None:
    """Store a variable that is closed over."""
    o = current_observer()
    if o is not None and o.is_outside(holder):
        try:
            before = holder.cell_contents
        except ValueError:
            before = MISSING
        o.wrote("cell", holder, None, value, lambda: _restore_cell(holder, before))
    holder.cell_contents = value


def _restore_cell(holder: Any, before: Any) -> None:
    if before is MISSING:
        del holder.cell_contents
    else:
        holder.cell_contents = before


def import_(level: int, names: Any, name: str) -> Any:
    """Import a module."""
    o = current_observer()
    space = sys._getframe(1).f_globals
    if o is None:
        return __import__(name, space, None, names, level)
    with o.paused():
        module = __import__(name, space, None, names, level)
    home = getattr(module, "__name__", name)
    o.fact(f"the module {home}", "item", sys.modules, home, module)
    return module


def imported(module: Any, name: str) -> Any:
    """Return what a module has under a name, or its part of that name."""
    try:
        return attribute(module, name)
    except AttributeError:
        home = getattr(module, "__name__", "<unknown module name>")
        if (
            part := item(sys.modules, f"{home}.{name}") if f"{home}.{name}" in sys.modules else None
        ) is not None:
            return part
        file = getattr(module, "__file__", None) or "unknown location"
        text = f"cannot import name {name!r} from {home!r} ({file})"
        raise ImportError(text, name=home, path=getattr(module, "__file__", None)) from None
