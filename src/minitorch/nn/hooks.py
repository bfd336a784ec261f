"""What listens to modules. Enters: a module's call. Leaves: the call with its hooks before, after and on the way back.

Hooks of one module live in its own dictionaries; those of every module (register_module_*) in `everywhere`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from minitorch.autograd import Function
from minitorch.engine.modes import observed
from minitorch.tensor import HookHandle, Tensor

everywhere: dict[
    int, tuple[str, Any]
] = {}  # for every module: the dictionary it would stand in, and the hook


def add_hook(hooks: dict[Any, Any], hook: Any, first: bool = False) -> HookHandle:
    """Add a hook, after those there are or before them; return what removes it."""
    handle = HookHandle(hooks, hook)
    if first:
        others = [(number, other) for number, other in hooks.items() if number != handle._number]
        for number, other in others:  # a dictionary keeps the order of insertion
            del hooks[number]
            hooks[number] = other
    return handle


def _hooks_of(module: Any, kind: str) -> dict[int, Any]:
    """Return the hooks of a kind as they are now, those of every module first."""
    own = getattr(module, kind)
    return (
        {n: hook for n, (where, hook) in everywhere.items() if where == kind} | own
        if everywhere
        else dict(own)
    )


def call_with_hooks(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Run forward with everything that listens before, after, and on the way back."""
    finished: set[Any] = set()
    try:
        for hook, with_kwargs, _ in _hooks_of(module, "_forward_pre_hooks").values():
            hook = observed(hook)
            answer = hook(module, args, kwargs) if with_kwargs else hook(module, args)
            if answer is None:
                continue
            if not with_kwargs:
                args = answer if isinstance(answer, tuple) else (answer,)
            elif isinstance(answer, tuple) and len(answer) == 2:
                args, kwargs = answer
            else:
                raise RuntimeError(
                    f"forward pre-hook must return None or a tuple of (new_args, new_kwargs), but got {answer}."
                )
        listener = None
        if _hooks_of(module, "_backward_hooks") or _hooks_of(module, "_backward_pre_hooks"):
            listener = _BackwardListener(module)
            args = listener.around_inputs(args)
        output = observed(module.forward)(*args, **kwargs)
        forward_hooks = _hooks_of(module, "_forward_hooks")
        for number, (hook, with_kwargs, _) in forward_hooks.items():
            finished.add(number)
            given = (module, args, kwargs, output) if with_kwargs else (module, args, output)
            answer = observed(hook)(*given)
            output = output if answer is None else answer
        return output if listener is None else listener.around_outputs(output)
    except Exception:
        for number, (hook, with_kwargs, always) in _hooks_of(module, "_forward_hooks").items():
            if always and number not in finished:
                observed(hook)(*((module, args, kwargs, None) if with_kwargs else (module, args, None)))
        raise


class _BackwardListener:
    """Stands at a module's entrance and exit, and shows its backward hooks the gradients that pass.

    Two identities with a derivative of their own do it: the one at the exit is differentiated first and keeps
    the outputs' gradients, the one at the entrance sees the inputs' and runs the hooks.
    """

    def __init__(self, module: Any) -> None:
        self.module = module
        self.grad_output: tuple[Any, ...] = ()
        self.count = 0
        self.places: list[int] = []  # which inputs are Tensors that require grad

    def around_inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.count = len(args)
        self.places = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
        if not self.places:
            return args
        passed = _Passage.apply(self.entrance, *(args[i] for i in self.places))
        renewed = list(args)
        for place, tensor in zip(self.places, passed, strict=True):
            renewed[place] = tensor
        return tuple(renewed)

    def around_outputs(self, output: Any) -> Any:
        alone = isinstance(output, Tensor)
        parts = [output] if alone else list(output) if isinstance(output, (tuple, list)) else []
        places = [i for i, p in enumerate(parts) if isinstance(p, Tensor) and p.requires_grad]
        if not places:
            return output
        for place, tensor in zip(places, _Passage.apply(self.exit, *(parts[i] for i in places)), strict=True):
            parts[place] = tensor
        if alone:
            return parts[0]
        return type(output)(*parts) if hasattr(output, "_fields") else type(output)(parts)

    def exit(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in _hooks_of(self.module, "_backward_pre_hooks").values():
            gradients = _replaced(gradients, observed(hook)(self.module, gradients), "grad_output")
        self.grad_output = gradients
        if not self.places:
            self.run((None,) * self.count)
        return gradients

    def entrance(self, gradients: tuple[Any, ...]) -> tuple[Any, ...]:
        everything: list[Any] = [None] * self.count
        for place, gradient in zip(self.places, gradients, strict=True):
            everything[place] = gradient
        answer = self.run(tuple(everything))
        return tuple(answer[place] for place in self.places)

    def run(self, grad_input: tuple[Any, ...]) -> tuple[Any, ...]:
        for hook in _hooks_of(self.module, "_backward_hooks").values():
            answer = observed(hook)(self.module, grad_input, self.grad_output)
            grad_input = _replaced(grad_input, answer, "grad_input")
        return grad_input


def _replaced(gradients: tuple[Any, ...], answer: Any, name: str) -> tuple[Any, ...]:
    if answer is None:
        return gradients
    new = tuple(answer) if isinstance(answer, (tuple, list)) else (answer,)
    if len(new) != len(gradients):
        raise RuntimeError(
            f"Backward hook returned an invalid number of {name}, got {len(new)}, but expected {len(gradients)}"
        )
    return new


class _Passage(Function):
    """Hands Tensors through; on the way back a listener sees, and may replace, all their gradients at once."""

    @staticmethod
    def forward(ctx: Any, listener: Callable[..., Any], *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.listener = listener
        return tensors

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Any, ...]:
        return (None, *ctx.listener(gradients))


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> HookHandle:
    """Call hook(module, args) before every module's forward; what it returns replaces the arguments."""
    return add_hook(everywhere, ("_forward_pre_hooks", (hook, False, False)))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> HookHandle:
    """Call hook(module, args, output) after every module's forward; what it returns replaces the output.

    >>> handle = register_module_forward_hook(lambda module, args, output: print(type(module).__name__))
    >>> net = minitorch.nn.Sequential(minitorch.nn.Linear(2, 1), minitorch.nn.Tanh())
    >>> _ = net(minitorch.zeros(2))
    Linear
    Tanh
    Sequential
    >>> handle.remove()
    """
    return add_hook(everywhere, ("_forward_hooks", (hook, with_kwargs, always_call)))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> HookHandle:
    """Call hook(module, grad_output) before any module is differentiated; what it returns replaces it."""
    return add_hook(everywhere, ("_backward_pre_hooks", hook))


def register_module_full_backward_hook(hook: Callable[..., Any]) -> HookHandle:
    """Call hook(module, grad_input, grad_output) when any module's inputs' gradients were computed."""
    return add_hook(everywhere, ("_backward_hooks", hook))


register_module_backward_hook = register_module_full_backward_hook


# --- what a module is given ------------------------------------------------------------------------------

registrations: dict[int, Any] = {}  # of every module: (of parameters, buffers or modules, the hook)


def registered(module: Any, kind: str, name: str, value: Any) -> Any:
    """Return what hooks make of a parameter, a buffer or a child that a module is about to have."""
    for of, hook in list(registrations.values()):
        if of == kind and (answer := observed(hook)(module, name, value)) is not None:
            value = answer
    return value


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> HookHandle:
    """Call hook(module, name, parameter) whenever any module is given one; what it returns takes its place.

    >>> handle = register_module_parameter_registration_hook(lambda module, name, parameter: print(name))
    >>> layer = minitorch.nn.Linear(2, 1)
    weight
    bias
    >>> handle.remove()
    """
    return add_hook(registrations, ("parameter", hook))


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> HookHandle:
    """Call hook(module, name, buffer) whenever any module is given one; what it returns takes its place."""
    return add_hook(registrations, ("buffer", hook))


def register_module_module_registration_hook(hook: Callable[..., Any]) -> HookHandle:
    """Call hook(module, name, child) whenever any module is given one; what it returns takes its place."""
    return add_hook(registrations, ("module", hook))
