"""Module: what every layer and model is. Enters: parameters, buffers and other Modules, by plain assignment.

Leaves: a callable that knows everything it is made of: `parameters()`, `state_dict()`, `to()`, hooks.
A Module is a tree. Assigning a Parameter, a Module or (after register_buffer) a Tensor to an attribute
files it in one of three dictionaries; everything below walks these.
"""

from __future__ import annotations

import functools
import html
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar

import numpy as np

from minitorch import creation
from minitorch.engine.backward import own_gradient
from minitorch.engine.dtypes import kind_of
from minitorch.engine.modes import no_grad, observed
from minitorch.engine.node import new_tensor
from minitorch.engine.recording import changed, compilers, recordings
from minitorch.nn.hooks import add_hook, call_with_hooks, everywhere, registered, registrations
from minitorch.nn.hooks import register_module_backward_hook as register_module_backward_hook
from minitorch.nn.hooks import (
    register_module_buffer_registration_hook as register_module_buffer_registration_hook,
)
from minitorch.nn.hooks import register_module_forward_hook as register_module_forward_hook
from minitorch.nn.hooks import register_module_forward_pre_hook as register_module_forward_pre_hook
from minitorch.nn.hooks import register_module_full_backward_hook as register_module_full_backward_hook
from minitorch.nn.hooks import (
    register_module_full_backward_pre_hook as register_module_full_backward_pre_hook,
)
from minitorch.nn.hooks import (
    register_module_module_registration_hook as register_module_module_registration_hook,
)
from minitorch.nn.hooks import (
    register_module_parameter_registration_hook as register_module_parameter_registration_hook,
)
from minitorch.nn.loading import EXTRA_STATE, IncompatibleKeys, load_all, plan_own
from minitorch.nn.parameter import Buffer, Parameter
from minitorch.tensor import HookHandle, Tensor
from minitorch.tensor.torch_types import is_dtype

__all__ = ["Module"]

_COMPILED = "_compiled_call_impl"  # the attribute with what compile() has made of a module's call

Self = TypeVar("Self", bound="Module")


class Members(dict[str, Any]):
    """The parameters, buffers or children of a Module, by name. Compiled functions are told when one changes."""

    __slots__ = ()


def _telling(name: str) -> Any:
    method = getattr(dict, name)

    @functools.wraps(method)
    def change(self: Members, *args: Any, **options: Any) -> Any:
        changed()
        return method(self, *args, **options)

    return change


for _name in ("__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update"):
    setattr(Members, _name, _telling(_name))


class Module:
    """The base class of all layers and models. Subclasses make their parts in __init__ and compute in forward.

    >>> import minitorch.nn as nn
    >>> class Net(nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.hidden = nn.Linear(23, 64)
    ...         self.out = nn.Linear(64, 5)
    ...     def forward(self, x):
    ...         return self.out(self.hidden(x).relu())
    >>> net = Net()
    >>> net(minitorch.zeros(4, 23)).shape
    (4, 5)
    >>> [name for name, _ in net.named_parameters()]
    ['hidden.weight', 'hidden.bias', 'out.weight', 'out.bias']
    >>> net
    Net(
      (hidden): Linear(in_features=23, out_features=64, bias=True)
      (out): Linear(in_features=64, out_features=5, bias=True)
    )
    """

    _version = 1  # of the state dict's layout; a class that changes it raises this number
    training: bool
    _parameters: dict[str, Parameter | None]
    _buffers: dict[str, Tensor | None]
    _modules: dict[str, Module | None]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or kwargs:
            raise TypeError(
                f"{type(self).__name__}.__init__: nn.Module takes no arguments, got {args or ''}{kwargs or ''}; "
                "keep them in your own __init__ and call super().__init__()"
            )
        start = super().__setattr__
        start("training", True)
        start("_parameters", Members())
        start("_buffers", Members())
        start("_non_persistent_buffers_set", set())
        start("_modules", Members())
        for hooks in _HOOKS:
            start(hooks, {})

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output; every subclass defines its own."""
        raise NotImplementedError(
            f'Module [{type(self).__name__}] is missing the required "forward" function'
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run forward, and the hooks around it."""
        own = self.__dict__
        if _COMPILED in own:
            return own[_COMPILED](*args, **kwargs)
        try:
            hooked = (
                own["_forward_hooks"]
                or own["_forward_pre_hooks"]
                or own["_backward_hooks"]
                or own["_backward_pre_hooks"]
                or everywhere
            )
        except KeyError:
            raise AttributeError(
                _not_begun(self, f"cannot call {type(self).__name__} before Module.__init__() call")
            ) from None
        if not hooked:
            return (observed(self.forward) if recordings else self.forward)(*args, **kwargs)
        return call_with_hooks(self, args, kwargs)

    def _call_impl(self, *args: Any, **kwargs: Any) -> Any:
        return call_with_hooks(self, args, kwargs)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != _COMPILED}

    # --- attributes -----------------------------------------------------------------------------

    def __setattr__(self, name: str, value: Any) -> None:
        changed()
        own = self.__dict__
        if isinstance(value, Parameter):
            if "_parameters" not in own:
                raise AttributeError(
                    _not_begun(self, "cannot assign parameters before Module.__init__() call")
                )
            self._forget(name, "_parameters")
            self.register_parameter(name, value)
            return
        if name in own.get("_parameters", ()):
            if value is not None:
                raise TypeError(_cannot_assign(value, name, "parameter", "minitorch.nn.Parameter"))
            own["_parameters"][name] = None
            return
        if isinstance(value, Module):
            if "_modules" not in own:
                raise AttributeError(_not_begun(self, "cannot assign module before Module.__init__() call"))
            self._forget(name, "_modules")
            own["_modules"][name] = registered(self, "module", name, value) if registrations else value
            return
        if name in own.get("_modules", ()):
            if value is not None:
                raise TypeError(_cannot_assign(value, name, "child module", "minitorch.nn.Module"))
            own["_modules"][name] = registered(self, "module", name, None) if registrations else None
            return
        if isinstance(value, Buffer) and name not in own.get("_buffers", ()):
            if "_buffers" not in own:
                raise AttributeError(_not_begun(self, "cannot assign buffer before Module.__init__() call"))
            self._forget(name, "_buffers")
            self.register_buffer(name, value, value.persistent)
            return
        if name in own.get("_buffers", ()):
            if value is not None and not isinstance(value, Tensor):
                raise TypeError(_cannot_assign(value, name, "buffer", "minitorch.Tensor"))
            own["_buffers"][name] = registered(self, "buffer", name, value) if registrations else value
            return
        super().__setattr__(name, value)

    def _forget(self, name: str, but: str) -> None:
        """Remove what a name stood for, everywhere but in one dictionary (where its place is kept)."""
        own = self.__dict__
        own.pop(name, None)
        own["_non_persistent_buffers_set"].discard(name)
        for kind in ("_parameters", "_buffers", "_modules"):
            if kind != but:
                own[kind].pop(name, None)

    def __getattr__(self, name: str) -> Any:
        # Python asks here only after it found nothing in the usual places.
        own = self.__dict__
        for kind in ("_parameters", "_buffers", "_modules"):
            if kind in own and name in own[kind]:
                return own[kind][name]
        missing = f"{type(self).__name__!r} object has no attribute {name!r}"
        raise AttributeError(_not_begun(self, missing) if "_modules" not in own else missing)

    def __delattr__(self, name: str) -> None:
        changed()
        own = self.__dict__
        for kind in ("_parameters", "_buffers", "_modules"):
            if name in own.get(kind, ()):
                del own[kind][name]
                own["_non_persistent_buffers_set"].discard(name)
                return
        super().__delattr__(name)

    def __dir__(self) -> list[str]:
        names = {*super().__dir__(), *self._parameters, *self._buffers, *self._modules}
        return sorted(name for name in names if not name[:1].isdigit())

    def _check_name(self, name: Any, kind: str, known: Mapping[str, Any]) -> None:
        if not isinstance(name, str):
            raise TypeError(f"{kind} name should be a string. Got {type(name).__name__}")
        if hasattr(self, name) and name not in known:
            raise KeyError(f"attribute '{name}' already exists")
        if "." in name:
            raise KeyError(f'{kind} name can\'t contain ".", got: "{name}"')
        if name == "":
            raise KeyError(f'{kind} name can\'t be empty string ""')

    def register_parameter(self, name: str, param: Parameter | None) -> None:
        """Add a parameter under a name; None holds the place of one that is left out (no bias).

        >>> m = Module(); m.register_parameter("scale", minitorch.nn.Parameter(minitorch.ones(1)))
        >>> m.scale.shape
        (1,)
        """
        changed()
        if "_parameters" not in self.__dict__:
            raise AttributeError(_not_begun(self, "cannot assign parameter before Module.__init__() call"))
        self._check_name(name, "parameter", self._parameters)
        if param is not None and not isinstance(param, Parameter):
            raise TypeError(_cannot_assign(param, name, "parameter", "minitorch.nn.Parameter"))
        if param is not None and not param.is_leaf:
            raise ValueError(
                f"cannot assign a computed Tensor to parameter '{name}': parameters are leaves; compute what "
                "depends on others in forward()"
            )
        if registrations and param is not None:
            param = registered(self, "parameter", name, param)
        self._parameters[name] = param

    def register_buffer(self, name: str, tensor: Tensor | None, persistent: bool = True) -> None:
        """Add a Tensor that is part of the state but not learned (a running mean, a mask).

        persistent: whether it belongs into state_dict().

        >>> m = Module(); m.register_buffer("steps", minitorch.tensor(0))
        >>> m.state_dict()["steps"]
        tensor(0)
        """
        changed()
        if "_buffers" not in self.__dict__:
            raise AttributeError(_not_begun(self, "cannot assign buffer before Module.__init__() call"))
        self._check_name(name, "buffer", self._buffers)
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(_cannot_assign(tensor, name, "buffer", "minitorch.Tensor"))
        self._buffers[name] = registered(self, "buffer", name, tensor) if registrations else tensor
        (self._non_persistent_buffers_set.discard if persistent else self._non_persistent_buffers_set.add)(
            name
        )

    def add_module(self, name: str, module: Module | None) -> None:
        """Add a child under a name, as `self.name = module` would.

        >>> m = Module(); m.add_module("layer", minitorch.nn.Identity())
        >>> m.layer
        Identity()
        """
        changed()
        if module is not None and not isinstance(module, Module):
            raise TypeError(f"{type(module).__name__} is not a Module subclass")
        self._check_name(name, "module", self._modules)
        self._modules[name] = registered(self, "module", name, module) if registrations else module

    def register_module(self, name: str, module: Module | None) -> None:
        """Do what add_module does, by its other name."""
        changed()
        self.add_module(name, module)

    # --- walking the tree -----------------------------------------------------------------------

    def named_modules(
        self, memo: set[Module] | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """Yield (name, module) for this module and everything below it, parents first.

        >>> [name for name, _ in minitorch.nn.Sequential(minitorch.nn.ReLU()).named_modules()]
        ['', '0']
        """
        seen = set() if memo is None else memo
        if self in seen:
            return
        if remove_duplicate:
            seen.add(self)
        yield prefix, self
        for name, child in self._modules.items():
            if child is not None:
                yield from child.named_modules(seen, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self, remove_duplicate: bool = True) -> Iterator[Module]:
        """Yield this module and everything below it, each once unless remove_duplicate is False."""
        for _, module in self.named_modules(remove_duplicate=remove_duplicate):
            yield module

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield (name, module) for the modules directly below, each once."""
        seen = set()
        for name, child in self._modules.items():
            if child is not None and child not in seen:
                seen.add(child)
                yield name, child

    def children(self) -> Iterator[Module]:
        """Yield the modules directly below, each once."""
        for _, child in self.named_children():
            yield child

    def _named_members(
        self, kind: str, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen = set()
        homes = (
            self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate)
            if recurse
            else [(prefix, self)]
        )
        for path, module in homes:
            for name, member in getattr(module, kind).items():
                if member is None or member in seen:
                    continue
                if remove_duplicate:
                    seen.add(member)
                yield f"{path}.{name}" if path else name, member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """Yield (name, parameter); a parameter that is shared comes once.

        >>> [name for name, _ in minitorch.nn.Linear(2, 3).named_parameters(prefix="out")]
        ['out.weight', 'out.bias']
        """
        return self._named_members("_parameters", prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """Yield the parameters, for an optimiser.

        >>> sum(p.numel() for p in minitorch.nn.Linear(2, 3).parameters())
        9
        """
        for _, parameter in self.named_parameters(recurse=recurse):
            yield parameter

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """Yield (name, buffer)."""
        return self._named_members("_buffers", prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """Yield the buffers."""
        for _, buffer in self.named_buffers(recurse=recurse):
            yield buffer

    def get_submodule(self, target: str) -> Module:
        """Return the module at a dotted path; '' is this one.

        >>> minitorch.nn.Sequential(minitorch.nn.ReLU()).get_submodule("0")
        ReLU()
        """
        module: Any = self
        for name in target.split(".") if target else ():
            if not hasattr(module, name):
                raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
            module = getattr(module, name)
            if not isinstance(module, Module):
                raise AttributeError(f"`{name}` is not an nn.Module")
        return module

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Put a module at a dotted path; with strict, only where there is one already.

        >>> net = minitorch.nn.Sequential(minitorch.nn.ReLU())
        >>> net.set_submodule("0", minitorch.nn.Tanh()); net[0]
        Tanh()
        """
        if not target:
            raise ValueError("set_submodule: the path must not be empty")
        if not isinstance(module, Module):
            raise ValueError(f"set_submodule: {type(module).__name__} is not a Module")
        path, _, name = target.rpartition(".")
        parent = self.get_submodule(path)
        if strict and not isinstance(getattr(parent, name, None), Module):
            raise AttributeError(f"{type(parent).__name__} has no module `{name}`")
        setattr(parent, name, module)

    def _get_member(self, target: str, kind: str, what: str) -> Any:
        path, _, name = target.rpartition(".")
        module = self.get_submodule(path)
        if not hasattr(module, name):
            raise AttributeError(f"{type(module).__name__} has no attribute `{name}`")
        if name not in module.__dict__[kind]:
            raise AttributeError(f"`{name}` is not {what}")
        return getattr(module, name)

    def get_parameter(self, target: str) -> Parameter:
        """Return the parameter at a dotted path."""
        return self._get_member(target, "_parameters", "an nn.Parameter")

    def get_buffer(self, target: str) -> Tensor:
        """Return the buffer at a dotted path."""
        return self._get_member(target, "_buffers", "a buffer")

    def apply(self: Self, fn: Callable[[Module], None]) -> Self:
        """Call a function on everything below and then on this module; to initialise weights, for instance.

        >>> seen = []
        >>> _ = minitorch.nn.Sequential(minitorch.nn.ReLU()).apply(lambda m: seen.append(type(m).__name__))
        >>> seen
        ['ReLU', 'Sequential']
        """
        for child in self.children():
            child.apply(fn)
        fn(self)
        return self

    # --- modes ----------------------------------------------------------------------------------

    def train(self: Self, mode: bool = True) -> Self:
        """Switch this module and everything below to training (dropout drops, batch norm learns)."""
        if not isinstance(mode, bool):
            raise ValueError("training mode is expected to be boolean")
        self.training = mode
        for child in self.children():
            child.train(mode)
        return self

    def eval(self: Self) -> Self:
        """Switch this module and everything below to evaluation.

        >>> minitorch.nn.Dropout().eval().training
        False
        """
        return self.train(False)

    def requires_grad_(self: Self, requires_grad: bool = True) -> Self:
        """Set requires_grad on every parameter: False freezes a part of a model."""
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of every parameter, or fill them with zeros."""
        for parameter in self.parameters():
            zero_gradient(parameter, set_to_none)

    # --- dtype and device -----------------------------------------------------------------------

    def _apply(self: Self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """Replace every parameter's, gradient's and buffer's array by what `fn` makes of it."""
        if recurse:
            for child in self.children():
                child._apply(fn)
        with no_grad():
            for parameter in self._parameters.values():
                if parameter is None:
                    continue
                gradient = own_gradient(parameter)
                new = fn(parameter.detach())
                if new._data is not parameter._data:
                    parameter.data = new._data
                if gradient is not None:
                    parameter.grad = fn(new_tensor(gradient))
            for name, buffer in self._buffers.items():
                if buffer is not None:
                    self._buffers[name] = fn(buffer)
                    changed()
        return self

    def to(self: Self, *args: Any, **kwargs: Any) -> Self:
        """Move to a device or dtype, in place: to("cuda"), to(minitorch.float64), to(other_tensor).

        Only floating-point parameters and buffers change their dtype.

        >>> minitorch.nn.Linear(2, 3).to(minitorch.float64).weight.dtype
        dtype('float64')
        """
        device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
        non_blocking = kwargs.pop("non_blocking", False)
        kwargs.pop("memory_format", None)  # a hint about speed alone
        if kwargs:
            raise TypeError(f"to: unknown argument {next(iter(kwargs))!r}; there are device and dtype")
        for each in args:
            if isinstance(each, Tensor):
                device, dtype = each.device, each.dtype
            elif is_dtype(each):
                dtype = each
            elif isinstance(each, str):
                device = each
            elif isinstance(each, int) and not isinstance(each, bool):
                device = f"cuda:{each}"
            elif isinstance(each, bool):
                non_blocking = each
            elif each is not None:
                raise TypeError(f"to: expected a device, a dtype or a Tensor, got {each!r}")
        if dtype is not None and kind_of(np.dtype(dtype)) not in "fc":
            raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, but got {dtype}")
        return self._apply(
            lambda t: t.to(
                device=device,
                dtype=dtype if dtype is not None and kind_of(t.dtype) in "fc" else None,
                non_blocking=non_blocking,
            )
        )

    def to_empty(self: Self, *, device: Any, recurse: bool = True) -> Self:
        """Move to a device without copying the values: they are whatever is in memory."""
        return self._apply(lambda t: t.new_empty(t.shape, device=device), recurse)

    def share_memory(self: Self) -> Self:
        """Return itself: threads share its memory as it is."""
        return self

    def compile(self, *args: Any, **kwargs: Any) -> None:
        """Compile what a call of this module does, by minitorch.compile with these options. Copies are not compiled.

        >>> net = minitorch.nn.Linear(2, 1); net.compile(backend="numpy")
        >>> net(minitorch.ones(3, 2)).shape
        (3, 1)
        """
        vars(self)[_COMPILED] = compilers[0](self._call_impl, *args, **kwargs)

    def _as_floats(self: Self, dtype: Any) -> Self:
        return self._apply(lambda t: t.to(dtype) if kind_of(t.dtype) == "f" else t)

    def float(self: Self) -> Self:
        """Cast floating-point parameters and buffers to float32."""
        return self._as_floats(np.float32)

    def double(self: Self) -> Self:
        """Cast floating-point parameters and buffers to float64."""
        return self._as_floats(np.float64)

    def bfloat16(self: Self) -> Self:
        """Cast floating-point parameters and buffers to bfloat16."""
        return self._apply(lambda t: t.bfloat16() if kind_of(t.dtype) == "f" else t)

    def half(self: Self) -> Self:
        """Cast floating-point parameters and buffers to float16."""
        return self._as_floats(np.float16)

    def type(self: Self, dst_type: Any) -> Self:
        """Cast all parameters and buffers to a dtype."""
        return self._apply(lambda t: t.to(dtype=dst_type))

    def cpu(self: Self) -> Self:
        """Move all parameters and buffers to the computer's own memory."""
        return self._apply(lambda t: t.cpu())

    def cuda(self: Self, device: Any = None) -> Self:
        """Move all parameters and buffers to the GPU."""
        return self._apply(lambda t: t.cuda(device))

    # --- state ----------------------------------------------------------------------------------

    def get_extra_state(self) -> Any:
        """Return what else belongs into state_dict; define it together with set_extra_state."""
        raise RuntimeError("get_extra_state is not defined by this module")

    def set_extra_state(self, state: Any) -> None:
        """Take back what get_extra_state returned."""
        raise RuntimeError("set_extra_state is not defined by this module")

    def _defines(self, method: str) -> bool:
        return getattr(type(self), method) is not getattr(Module, method)

    def _save_to_state_dict(self, destination: dict[str, Any], prefix: str, keep_vars: bool) -> None:
        """Put this module's own parameters and buffers, without its children's, into a dictionary."""
        for name, member in self._own_state().items():
            if member is not None:
                destination[prefix + name] = member if keep_vars else member.detach()
        if self._defines("get_extra_state"):
            destination[prefix + EXTRA_STATE] = self.get_extra_state()

    def _own_state(self) -> dict[str, Any]:
        hidden = self._non_persistent_buffers_set
        return {**self._parameters, **{k: v for k, v in self._buffers.items() if k not in hidden}}

    def state_dict(
        self, *, destination: dict[str, Any] | None = None, prefix: str = "", keep_vars: bool = False
    ) -> dict[str, Any]:
        """Return every parameter and persistent buffer by its dotted name. Values share memory with the model.

        keep_vars: give the Parameters themselves, not their values cut off from the graph.

        >>> list(minitorch.nn.Sequential(minitorch.nn.Linear(2, 3)).state_dict())
        ['0.weight', '0.bias']
        """
        if destination is None:
            destination = OrderedDict()
            destination._metadata = OrderedDict()  # type: ignore[attr-defined]
        metadata = {"version": self._version}
        if hasattr(destination, "_metadata"):
            destination._metadata[prefix[:-1]] = metadata
        for hook in tuple(self._state_dict_pre_hooks.values()):
            hook(self, prefix, keep_vars)
        self._save_to_state_dict(destination, prefix, keep_vars)
        for name, child in self._modules.items():
            if child is not None:
                child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
        for hook in tuple(self._state_dict_hooks.values()):
            answer = hook(self, destination, prefix, metadata)
            destination = destination if answer is None else answer
        return destination

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        """Check this module's own entries and plan their writing; note what is missing or does not fit."""
        for hook in tuple(self._load_state_dict_pre_hooks.values()):
            hook(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)
        plan_own(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def _assign(self, name: str, given: Any, value: Any) -> None:
        """Put a loaded value in a member's place, instead of copying into it."""
        changed()
        old = self._parameters.get(name)
        tensor = given if isinstance(given, Tensor) else creation.tensor(value)
        if old is None:
            self._buffers[name] = tensor
        elif isinstance(tensor, Parameter):
            self._parameters[name] = tensor.requires_grad_(old.requires_grad)  # type: ignore[assignment]
        else:
            self._parameters[name] = Parameter(tensor, old.requires_grad)

    def load_state_dict(
        self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> IncompatibleKeys:
        """Take over the values of a state dict: Tensors, NumPy arrays or PyTorch's tensors.

        strict: refuse missing and unexpected keys. assign: put the given tensors in the place of the old ones
        (keeping their dtype) instead of copying into these. When anything does not fit nothing is loaded.

        >>> minitorch.nn.Linear(1, 1).load_state_dict({"weight": np.ones((1, 1)), "bias": np.zeros(1)})
        <All keys matched successfully>
        """
        if not isinstance(state_dict, Mapping):
            raise TypeError(f"Expected state_dict to be dict-like, got {type(state_dict)}.")
        return load_all(self, state_dict, strict, assign)

    # --- hooks ----------------------------------------------------------------------------------

    def register_forward_pre_hook(
        self, hook: Callable[..., Any], *, prepend: bool = False, with_kwargs: bool = False
    ) -> HookHandle:
        """Call hook(module, args) before forward; what it returns replaces the arguments.

        with_kwargs: call hook(module, args, kwargs), which returns None or both.

        >>> layer = minitorch.nn.Identity()
        >>> handle = layer.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
        >>> layer(minitorch.tensor([1.0]))
        tensor([2.])
        """
        return add_hook(self._forward_pre_hooks, (hook, with_kwargs, False), prepend)

    def register_forward_hook(
        self,
        hook: Callable[..., Any],
        *,
        prepend: bool = False,
        with_kwargs: bool = False,
        always_call: bool = False,
    ) -> HookHandle:
        """Call hook(module, args, output) after forward; what it returns replaces the output.

        with_kwargs: call hook(module, args, kwargs, output). always_call: also when forward raised.

        >>> layer = minitorch.nn.Identity()
        >>> handle = layer.register_forward_hook(lambda module, args, output: output * 10)
        >>> layer(minitorch.tensor([1.0]))
        tensor([10.])
        """
        return add_hook(self._forward_hooks, (hook, with_kwargs, always_call), prepend)

    def register_full_backward_hook(self, hook: Callable[..., Any], prepend: bool = False) -> HookHandle:
        """Call hook(module, grad_input, grad_output) when the inputs' gradients were computed.

        What it returns replaces grad_input.

        >>> layer = minitorch.nn.Linear(2, 1)
        >>> handle = layer.register_full_backward_hook(lambda m, grad_in, grad_out: print(grad_out[0]))
        >>> layer(minitorch.zeros(2, requires_grad=True)).sum().backward()
        tensor([1.])
        """
        return add_hook(self._backward_hooks, hook, prepend)

    register_backward_hook = register_full_backward_hook

    def register_full_backward_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> HookHandle:
        """Call hook(module, grad_output) before the module is differentiated; what it returns replaces it."""
        return add_hook(self._backward_pre_hooks, hook, prepend)

    def register_state_dict_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call hook(module, prefix, keep_vars) before state_dict() reads the module."""
        return add_hook(self._state_dict_pre_hooks, hook)

    def register_state_dict_post_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call hook(module, state_dict, prefix, local_metadata) after state_dict(); it changes it in place."""
        return add_hook(self._state_dict_hooks, hook)

    def _register_state_dict_hook(self, hook: Callable[..., Any]) -> HookHandle:
        return add_hook(self._state_dict_hooks, hook)

    def register_load_state_dict_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call hook(module, state_dict, prefix, local_metadata, strict, missing, unexpected, errors) before loading.

        It may rename or convert entries of state_dict, which is a copy, in place.
        """
        return add_hook(self._load_state_dict_pre_hooks, hook)

    def _register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], with_module: bool = False
    ) -> HookHandle:
        """Do what register_load_state_dict_pre_hook does, by default for a hook that is not given the module."""
        plain = hook if with_module else lambda module, *args: hook(*args)
        return self.register_load_state_dict_pre_hook(plain)

    def register_load_state_dict_post_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call hook(module, incompatible_keys) after loading; it may change the lists in place."""
        return add_hook(self._load_state_dict_post_hooks, hook)

    # --- how it looks ---------------------------------------------------------------------------

    def _get_name(self) -> str:
        return type(self).__name__

    def extra_repr(self) -> str:
        """Return what stands between the parentheses of a layer's printed form."""
        return ""

    def __repr__(self) -> str:
        extra = self.extra_repr()
        head = extra.split("\n") if extra else []
        children = [f"({name}): {indented(repr(child))}" for name, child in self._modules.items()]
        if not children and len(head) <= 1:
            return f"{self._get_name()}({extra})"
        return "\n  ".join([f"{self._get_name()}(", *head, *children]) + "\n)"

    def _repr_html_(self) -> str:
        """Return a table for notebooks: every module, its own parameters, and how many numbers they hold in all."""
        rows = []
        for name, module in self.named_modules():
            own = {key: p for key, p in module._parameters.items() if p is not None}
            shapes = ", ".join(f"{key} {'×'.join(map(str, p.shape)) or 'scalar'}" for key, p in own.items())
            cells = (name or "–", f"{module._get_name()}({module.extra_repr()})", shapes)
            count = sum(p.numel() for p in module.parameters())
            rows.append("".join(f"<td>{html.escape(cell)}</td>" for cell in cells) + f"<td>{count:,}</td>")
        head = "".join(f"<th>{word}</th>" for word in ("name", "module", "parameters", "numbers"))
        return f"<table><tr>{head}</tr>{''.join(f'<tr>{row}</tr>' for row in rows)}</table>"


_HOOKS = (
    "_forward_hooks",
    "_forward_pre_hooks",
    "_backward_hooks",
    "_backward_pre_hooks",
    "_state_dict_hooks",
    "_state_dict_pre_hooks",
    "_load_state_dict_pre_hooks",
    "_load_state_dict_post_hooks",
)


def indented(text: str) -> str:
    """Indent every line but the first by two spaces.

    >>> indented("a\\nb")
    'a\\n  b'
    """
    return text.replace("\n", "\n  ")


def _not_begun(module: Module, problem: str) -> str:
    name = type(module).__name__
    return f"{problem}. Write super().__init__() as the first line of {name}.__init__, before anything is assigned"


def _cannot_assign(value: Any, name: str, kind: str, expected: str) -> str:
    return f"cannot assign '{type(value).__name__}' as {kind} '{name}' ({expected} or None expected)"


def zero_gradient(tensor: Tensor, set_to_none: bool) -> None:
    """Forget a gradient, or fill it with zeros: the very array, so that whoever holds it sees them."""
    if set_to_none:
        tensor.grad = None  # without looking at it: a step that is recorded must not rely on there being one
        return
    gradient: Any = own_gradient(tensor)
    if gradient is not None:
        gradient[...] = 0
