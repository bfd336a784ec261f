"""torch.library: operators of one's own. Enters: a function. Leaves: it, as torch.ops.NAMESPACE.NAME.

What the function computes with torch's own operators is differentiated through, and recorded by torch.compile; shapes
without values (`register_fake`) and other devices' kernels are asked for by nobody here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

# By "namespace::name"; torch.ops finds them here.
DEFINED: dict[str, CustomOp] = {}


class CustomOp:
    """An operator: a function that can be called, also as `op.default`."""

    def __init__(self, name: str, function: Callable[..., Any] | None = None) -> None:
        self._name, self.function = name, function
        self.__name__ = name.partition("::")[2]
        self.backward: Any = None
        self.setup_context: Any = None
        DEFINED[name] = self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Compute it."""
        if self.function is None:
            raise NotImplementedError(f"{self._name}: it was defined, and no function was given for the CPU")
        if self.backward is not None:
            return _with_gradient(self, args, kwargs)
        return self.function(*args, **kwargs)

    @property
    def default(self) -> CustomOp:
        """Itself: there is one overload."""
        return self

    def register_kernel(self, device_types: Any, func: Any = None, /) -> Any:
        """Take a function for a device; the CPU's is used."""

        def take(given: Any) -> Any:
            if device_types in ("cpu", None) or "cpu" in device_types:
                self.function = given
            return given

        return take if func is None else take(func)

    def register_fake(self, fn: Any, /) -> Any:
        """Take what computes shapes alone; nobody asks for it here."""
        return fn

    def register_autograd(self, backward: Any, /, *, setup_context: Any = None) -> None:
        """Take the derivative: backward(ctx, *gradients), after setup_context(ctx, inputs, output)."""
        self.backward, self.setup_context = backward, setup_context

    def register_vmap(self, func: Any = None) -> Any:
        """Take a batched form; vmap finds its own."""
        return func


def _with_gradient(op: CustomOp, args: Any, kwargs: Any) -> Any:
    from minitorch.autograd import Function

    class Differentiable(Function):
        @staticmethod
        def forward(ctx: Any, *given: Any) -> Any:
            output = op.function(*given, **kwargs)  # type: ignore[misc]
            if op.setup_context is not None:
                op.setup_context(ctx, given, output)
            return output

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return op.backward(ctx, *gradients)

    return Differentiable.apply(*args)


def custom_op(
    name: str, fn: Any = None, /, *, mutates_args: Any = (), device_types: Any = None, schema: Any = None,
    tags: Any = None,
) -> Any:  # fmt: skip
    """Make an operator of a function: `@custom_op("mine::square", mutates_args=())`."""
    return (lambda function: CustomOp(name, function)) if fn is None else CustomOp(name, fn)


def triton_op(name: str, fn: Any = None, /, **options: Any) -> Any:
    """Refuse: kernels of Triton are a GPU's."""
    raise NotImplementedError(
        f"triton_op: {name}: there is no Triton here; write the function with torch's operators"
    )


def define(qualname: str, schema: str = "", *, lib: Any = None, tags: Any = ()) -> Any:
    """Name an operator, whose functions follow by `impl`."""
    name = qualname.partition("(")[0]
    if name not in DEFINED:
        CustomOp(name)
    return None if schema else lambda fn: fn


def impl(qualname: str, types: Any, func: Any = None, *, lib: Any = None) -> Any:
    """Give an operator its function for a device."""

    def take(function: Any) -> Any:
        op = DEFINED.get(qualname) or CustomOp(qualname)
        op.register_kernel(tuple(t.lower() for t in ([types] if isinstance(types, str) else types)), function)
        if types in ("CompositeExplicitAutograd", "CompositeImplicitAutograd", "default"):
            op.function = function
        return function

    return take if func is None else take(func)


def register_fake(
    op: Any, func: Any = None, /, *, lib: Any = None, _stacklevel: int = 1, **options: Any
) -> Any:
    """Take what computes an operator's shapes alone; nobody asks for it here."""
    return (lambda fn: fn) if func is None else func


impl_abstract = register_fake
register_vmap = register_kernel = register_fake


def register_autograd(op: Any, backward: Any, /, *, setup_context: Any = None, lib: Any = None) -> None:
    """Give an operator its derivative."""
    DEFINED[op if isinstance(op, str) else op._name].register_autograd(backward, setup_context=setup_context)


class Library:
    """Operators of one namespace."""

    def __init__(self, ns: str, kind: str = "DEF", dispatch_key: str = "") -> None:
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Name an operator by its schema."""
        name = schema.partition("(")[0].strip()
        define(f"{self.ns}::{name}", schema)
        return name

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", **options: Any) -> None:
        """Give an operator its function for a device."""
        key = dispatch_key or self.dispatch_key or "default"
        impl(f"{self.ns}::{str(op_name).partition('::')[2] or op_name}", key, fn)


def wrap_triton(kernel: Any) -> Any:
    """Return a kernel as it is."""
    return kernel


def infer_schema(function: Any, **options: Any) -> str:
    """Return a name for a function's arguments."""
    return f"{getattr(function, '__name__', 'op')}(...)"
