"""Rewriting bytecode. Enters: a code object. Leaves: one that does the same and asks a hook wherever it would look at,
or change, something that may be another thing at the next call.

An instruction that loads a global, an attribute or an item, iterates, compares, calls, imports or stores becomes a call
of a function of hooks.py with the instruction's own operands. Names of local variables, constants and jumps stay as
they are; so do line numbers, hence tracebacks and breakpoints.
"""

from __future__ import annotations

import inspect
import sys
import types
import weakref
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import Any

from minitorch.compiler.trace.observe.observer import unobserved

SUPPORTED = (3, 11) <= sys.version_info[:2] <= (3, 13)
_SINCE_12 = sys.version_info >= (3, 12)
_SINCE_13 = sys.version_info >= (3, 13)
# How the cell itself is loaded, not what is in it.
_LOAD_CELL = "LOAD_FAST" if _SINCE_13 else "LOAD_CLOSURE"

EXPANDED: Any = object()  # marks a call by f(*args, **options)

# Instructions that take everything out of their topmost operand.
_TAKES_ALL = {
    "UNPACK_SEQUENCE", "LIST_EXTEND", "SET_UPDATE", "DICT_UPDATE", "DICT_MERGE", "GET_YIELD_FROM_ITER",
}  # fmt: skip
_MAKES_CONTAINER = {"BUILD_LIST", "BUILD_MAP", "BUILD_SET", "BUILD_CONST_KEY_MAP"}
# Not understood: a run that comes across one of these is not recorded.
_REFUSED = {
    "LOAD_BUILD_CLASS", "BEFORE_ASYNC_WITH", "GET_AITER", "GET_ANEXT", "GET_AWAITABLE", "IMPORT_STAR",
    "MATCH_CLASS", "MATCH_MAPPING", "MATCH_SEQUENCE", "MATCH_KEYS", "SETUP_ANNOTATIONS",
}  # fmt: skip


def require_bytecode() -> None:
    """Raise an error, if what this needs is not there."""
    if find_spec("bytecode") is None:
        raise ImportError(
            "compile: needs the package bytecode, to observe what a function reads; in this repository's folder write: "
            "pip install '.[compile]'"
        )


class Rewriter:
    """Instruments code, each piece once. hooks: the functions that rewritten code calls, by name."""

    def __init__(self, hooks: dict[str, Callable[..., Any]]) -> None:
        self.hooks = hooks
        # By the id of code: the new code, as long as the old one is there. (New code must not hold what holds the old
        # one, its globals say: neither would ever go.)
        self._made: dict[int, tuple[types.CodeType, Any]] = {}
        self._results: dict[int, Any] = {}

    def is_instrumented(self, code: types.CodeType) -> bool:
        """Tell whether code was made here."""
        return id(code) in self._results

    def instrumented(self, code: types.CodeType) -> types.CodeType:
        """Return code that reports what it does."""
        if id(code) in self._results:
            return code
        key = id(code)
        made = self._made.get(key)
        if made is None:
            with unobserved():
                new = self._rewrite(code)
            made = self._made[key] = (new, weakref.ref(code, lambda _: self._made.pop(key, None)))
            number = id(new)
            self._results[number] = weakref.ref(new, lambda _: self._results.pop(number, None))
        return made[0]

    def _rewrite(self, code: types.CodeType) -> types.CodeType:
        from bytecode import Bytecode  # an extra, and 40 ms: only who compiles pays for it

        bytecode = Bytecode.from_code(code)
        bytecode[:] = list(_Body(self, code, list(bytecode)).rewritten())
        return bytecode.to_code()


class _Body:
    """The instructions of one piece of code, being rewritten."""

    def __init__(self, rewriter: Rewriter, code: types.CodeType, body: list[Any]) -> None:
        from bytecode import CellVar, FreeVar, Instr

        self.rewriter, self.code, self.body = rewriter, code, body
        self.hooks = rewriter.hooks
        self._instr, self._cell, self._free = Instr, CellVar, FreeVar
        self._where: Any = None

    # --- words of the new code ------------------------------------------------------------------------

    def _do(self, name: str, *argument: Any) -> Any:
        return self._instr(name, *argument, location=self._where)

    def _constant(self, thing: Any) -> Any:
        return self._do("LOAD_CONST", thing)

    def _call(self, count: int) -> list[Any]:
        """Call with the function and its first argument below `count` further ones."""
        return (
            [self._do("CALL", count)] if _SINCE_12 else [self._do("PRECALL", count), self._do("CALL", count)]
        )

    def _of_one(self, hook: str, *constants: Any) -> list[Any]:
        """Replace the topmost operand by hook(operand, *constants)."""
        start = [self._constant(self.hooks[hook]), self._do("SWAP", 2)]
        return start + [self._constant(c) for c in constants] + self._call(len(constants))

    def _of_two(self, hook: str, *constants: Any) -> list[Any]:
        """Replace the two topmost operands by hook(lower, upper, *constants)."""
        start = [self._constant(self.hooks[hook]), self._do("SWAP", 3), self._do("SWAP", 2)]
        return start + [self._constant(c) for c in constants] + self._call(1 + len(constants))

    def _of_none(self, hook: str, first: Any, *constants: Any) -> list[Any]:
        """Push hook(first, *constants)."""
        start = [self._constant(self.hooks[hook]), self._constant(first)]
        return start + [self._constant(c) for c in constants] + self._call(len(constants))

    def _look(self, hook: str) -> list[Any]:
        """Let a hook see the topmost operand."""
        return [self._do("COPY", 1), *self._of_one(hook), self._do("POP_TOP")]

    def _called(self) -> list[Any]:
        """Make what is on top be called through the hook: (hook, it) in place of (it, nothing)."""
        return [self._constant(self.hooks["call"]), self._do("SWAP", 2)]

    # --- instruction by instruction -------------------------------------------------------------------

    def rewritten(self) -> Iterator[Any]:
        """Yield the new instructions."""
        body = self.body
        index = 0
        while index < len(body):
            each = body[index]
            index += 1
            if not isinstance(each, self._instr):
                yield each
                continue
            self._where = each.location
            if self._is_bare_super(index - 1):
                yield from self._super()
                index += 1 if _SINCE_12 else 2  # past the call
                continue
            yield from self._one(each, index)

    def _one(self, each: Any, following: int) -> list[Any]:
        name, argument = each.name, each.arg
        method = getattr(self, f"_on_{name.lower()}", None)
        if method is not None:
            return method(each, argument)
        if name in _TAKES_ALL:
            return [*self._of_one("whole"), each]
        if name in _MAKES_CONTAINER:
            return [each, *self._look("made")]
        if name in _REFUSED:
            return [*self._of_none("refuse", f"{name.lower()} is not understood"), self._do("POP_TOP"), each]
        if name == "TO_BOOL":
            return self._of_one("truth")
        if not _SINCE_13 and (
            name == "UNARY_NOT" or (name.startswith("POP_JUMP") and name.endswith(("TRUE", "FALSE")))
        ):
            return [*self._of_one("truth"), each]
        if name == "LOAD_CONST" and isinstance(argument, types.CodeType):
            follower = self.body[following] if following < len(self.body) else None
            if getattr(follower, "name", "") == "MAKE_FUNCTION":
                return [self._constant(self.rewriter.instrumented(argument))]
        return [each]

    def _on_resume(self, each: Any, argument: Any) -> list[Any]:
        if argument or not self.code.co_flags & inspect.CO_VARKEYWORDS:
            return [each]
        # The dict that f(**options) gets is a new one.
        code = self.code
        has_args = bool(code.co_flags & inspect.CO_VARARGS)
        name = code.co_varnames[code.co_argcount + code.co_kwonlyargcount + has_args]
        is_cell = name in code.co_cellvars
        get = self._do("LOAD_DEREF", self._cell(name)) if is_cell else self._do("LOAD_FAST", name)
        return [each, get, *self._of_one("made"), self._do("POP_TOP")]

    def _on_unpack_ex(self, each: Any, argument: Any) -> list[Any]:
        found = [self._do("COPY", (argument & 0xFF) + 1), *self._of_one("made"), self._do("POP_TOP")]
        return [*self._of_one("whole"), each, *found]

    def _on_load_global(self, each: Any, argument: Any) -> list[Any]:
        is_called, name = argument if isinstance(argument, tuple) else (False, argument)
        found = self._of_none("global_", name)
        return found + self._called() if is_called else found

    def _on_load_name(self, each: Any, argument: Any) -> list[Any]:
        return [*self._of_none("refuse", "the body of a class is not understood"), self._do("POP_TOP"), each]

    def _on_store_global(self, each: Any, argument: Any) -> list[Any]:
        return [*self._of_one("store_global", argument), self._do("POP_TOP")]

    def _on_delete_global(self, each: Any, argument: Any) -> list[Any]:
        return [*self._of_none("refuse", "deleting a global is not understood"), self._do("POP_TOP"), each]

    def _on_load_deref(self, each: Any, argument: Any) -> list[Any]:
        if argument.name in self.code.co_cellvars:
            return [each]  # this frame's own
        cell = [self._constant(self.hooks["cell"]), self._do(_LOAD_CELL, argument)]
        return [*cell, self._constant(argument.name), *self._call(1)]

    def _on_store_deref(self, each: Any, argument: Any) -> list[Any]:
        if argument.name in self.code.co_cellvars:
            return [each]
        start = [
            self._constant(self.hooks["store_cell"]),
            self._do("SWAP", 2),
            self._do(_LOAD_CELL, argument),
        ]
        return [*start, *self._call(1), self._do("POP_TOP")]

    def _on_push_null(self, each: Any, argument: Any) -> list[Any]:
        # In place of nothing beside the function: the hook, which gets the function as its first argument.
        return self._called() if _SINCE_13 else [self._constant(self.hooks["call"])]

    def _on_load_attr(self, each: Any, argument: Any) -> list[Any]:
        is_called, name = argument if isinstance(argument, tuple) else (False, argument)
        found = self._of_one("attribute", name)
        return found + self._called() if is_called else found

    def _on_load_method(self, each: Any, argument: Any) -> list[Any]:
        return self._of_one("attribute", argument) + self._called()

    def _on_load_super_attr(self, each: Any, argument: Any) -> list[Any]:
        # Operands: super itself, the class, the object. In place of it: the attribute of what super() gives.
        is_called, name = bool(argument[0]), argument[-1]
        start = [self._do("BUILD_TUPLE", 3), *self._of_one("super_of"), *self._of_one("attribute", name)]
        return start + self._called() if is_called else start

    def _on_call_function_ex(self, each: Any, argument: Any) -> list[Any]:
        return [self._constant(EXPANDED), *self._call(3 if argument & 1 else 2)]

    def _on_binary_subscr(self, each: Any, argument: Any) -> list[Any]:
        return self._of_two("item")

    def _on_binary_slice(self, each: Any, argument: Any) -> list[Any]:
        return [self._do("BUILD_SLICE", 2), *self._of_two("item")]

    def _on_store_slice(self, each: Any, argument: Any) -> list[Any]:
        return [self._do("BUILD_SLICE", 2), *self._on_store_subscr(each, argument)]

    def _on_store_subscr(self, each: Any, argument: Any) -> list[Any]:
        return [self._do("BUILD_TUPLE", 3), *self._of_one("store_item"), self._do("POP_TOP")]

    def _on_delete_subscr(self, each: Any, argument: Any) -> list[Any]:
        return [*self._of_two("delete_item"), self._do("POP_TOP")]

    def _on_store_attr(self, each: Any, argument: Any) -> list[Any]:
        return [*self._of_two("store_attribute", argument), self._do("POP_TOP")]

    def _on_delete_attr(self, each: Any, argument: Any) -> list[Any]:
        return [*self._of_one("delete_attribute", argument), self._do("POP_TOP")]

    def _on_contains_op(self, each: Any, argument: Any) -> list[Any]:
        return self._of_two("contains", bool(argument))

    def _on_is_op(self, each: Any, argument: Any) -> list[Any]:
        return self._of_two("identical", bool(argument))

    def _on_compare_op(self, each: Any, argument: Any) -> list[Any]:
        name, _, cast = argument.name.lower().partition("_")
        compared = self._of_two("compare", name)
        return (
            [*compared, self._do("TO_BOOL")] if cast else compared
        )  # (from 3.13 on jumps take nothing but bools)

    def _on_binary_op(self, each: Any, argument: Any) -> list[Any]:
        return self._of_two("binary", argument.name.lower())

    def _on_unary_negative(self, each: Any, argument: Any) -> list[Any]:
        return self._of_one("unary", "neg")

    def _on_unary_invert(self, each: Any, argument: Any) -> list[Any]:
        return self._of_one("unary", "invert")

    def _on_unary_positive(self, each: Any, argument: Any) -> list[Any]:
        return self._of_one("unary", "pos")

    def _on_call_intrinsic_1(self, each: Any, argument: Any) -> list[Any]:
        return self._of_one("unary", "pos") if argument.name == "INTRINSIC_UNARY_POSITIVE" else [each]

    def _on_get_iter(self, each: Any, argument: Any) -> list[Any]:
        return self._of_one("iterator")

    def _on_import_name(self, each: Any, argument: Any) -> list[Any]:
        return self._of_two("import_", argument)

    def _on_import_from(self, each: Any, argument: Any) -> list[Any]:
        return [self._do("COPY", 1), *self._of_one("imported", argument)]

    def _on_before_with(self, each: Any, argument: Any) -> list[Any]:
        return [*self._of_one("enter"), self._do("UNPACK_SEQUENCE", 2)]

    def _on_push_exc_info(self, each: Any, argument: Any) -> list[Any]:
        return [each, *self._look("caught")]

    def _on_format_value(self, each: Any, argument: Any) -> list[Any]:
        conversion, has_spec = argument & 3, bool(argument & 4)
        how = ("", "s", "r", "a")[conversion]
        return self._of_two("format_", how) if has_spec else self._of_one("format_", "", how)

    def _on_convert_value(self, each: Any, argument: Any) -> list[Any]:
        return self._of_one("format_", "", ("", "s", "r", "a")[int(argument)])

    def _on_format_simple(self, each: Any, argument: Any) -> list[Any]:
        return self._of_one("format_", "", "")

    def _on_format_with_spec(self, each: Any, argument: Any) -> list[Any]:
        return self._of_two("format_", "")

    def _on_build_string(self, each: Any, argument: Any) -> list[Any]:
        return [self._do("BUILD_TUPLE", argument), *self._of_one("joined")]

    def _on_jump_if_true_or_pop(self, each: Any, argument: Any) -> list[Any]:
        jump = self._do("POP_JUMP_FORWARD_IF_TRUE", argument)
        return [self._do("COPY", 1), *self._of_one("truth"), jump, self._do("POP_TOP")]

    def _on_jump_if_false_or_pop(self, each: Any, argument: Any) -> list[Any]:
        jump = self._do("POP_JUMP_FORWARD_IF_FALSE", argument)
        return [self._do("COPY", 1), *self._of_one("truth"), jump, self._do("POP_TOP")]

    def _on_make_function(self, each: Any, argument: Any) -> list[Any]:
        seen = [self._do("COPY", 1), *self._of_one("made", self.code.co_cellvars), self._do("POP_TOP")]
        return [each, *seen]

    _on_set_function_attribute = _on_make_function

    # --- super() without arguments --------------------------------------------------------------------

    def _is_bare_super(self, index: int) -> bool:
        each = self.body[index]
        if (
            each.name != "LOAD_GLOBAL"
            or each.arg != (True, "super")
            or "__class__" not in self.code.co_freevars
        ):
            return False
        after = [getattr(i, "name", "") for i in self.body[index + 1 : index + 3]]
        is_call = after[:1] == ["CALL"] if _SINCE_12 else after == ["PRECALL", "CALL"]
        return is_call and self.body[index + 1].arg == 0

    def _super(self) -> list[Any]:
        first = self.code.co_varnames[0]
        get = (
            self._do("LOAD_DEREF", self._cell(first))
            if first in self.code.co_cellvars
            else self._do("LOAD_FAST", first)
        )
        parts = [
            self._constant(super),
            self._do("LOAD_DEREF", self._free("__class__")),
            get,
            self._do("BUILD_TUPLE", 3),
        ]
        return [*parts, *self._of_one("super_of")]
