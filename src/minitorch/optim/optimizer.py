"""What all optimisers share: parameter groups, state, state_dict, hooks, and the loop over parameters.

Enters: parameters whose `.grad` a backward has filled. Leaves: the same parameters, changed in place.

An optimiser here is a rule for one array: given the parameter, its gradient and what is remembered
from the steps before, all of them NumPy arrays, write the new parameter into the old one's memory.
Since every element is treated alone, a large parameter is walked through in blocks that fit the
processor's cache: the ten or so NumPy calls of a rule then find their operands there.
"""

from __future__ import annotations

import copy
import functools
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import numpy as np

from minitorch.autograd import enable_grad
from minitorch.creation import full_like, zeros_like
from minitorch.engine import capturing
from minitorch.engine.dtypes import float32, float64, get_default_dtype
from minitorch.engine.modes import observed
from minitorch.engine.node import new_tensor
from minitorch.engine.recording import changeable, changed, made, recorder, refuse_inside_recording
from minitorch.engine.recording import number as only_number
from minitorch.engine.watch import touch
from minitorch.functions import sparse_coo_tensor
from minitorch.nn.hooks import add_hook
from minitorch.nn.module import zero_gradient
from minitorch.ops import native
from minitorch.ops.fast import SMALL
from minitorch.ops.pieces import share, threads
from minitorch.ops.sparse import Coo
from minitorch.optim.captured import told_numbers
from minitorch.tensor import HookHandle, Tensor
from minitorch.tensor.convert import as_tensor

Array = np.ndarray
State = dict[str, Any]


class _RequiredParameter:
    """Stands in an optimiser's defaults for an option that every group must set itself."""

    def __repr__(self) -> str:
        return "<required parameter>"


required = _RequiredParameter()
# PyTorch's names in annotations of what an optimiser is given.
ParamsT = _params_t = Any

# Elements a rule works on at a time: few enough that five arrays of float32 fit a core's cache, enough that
# calling NumPy costs nothing beside the arithmetic. Measured: twice as fast as in one go at 16 million elements.
# Threads that share blocks take larger ones: between two calls they wait for Python's lock.
BLOCK, SHARED_BLOCK = 65536, 4 * 65536


def _instead(given: Any, optimizer: str) -> str:
    """Name what was given for parameters, and say what to write instead."""
    if callable(getattr(given, "parameters", None)):
        return f"a {type(given).__name__} itself; write {optimizer}(model.parameters(), …)"
    if callable(given) and not isinstance(given, type):
        called = getattr(given, "__name__", "parameters")
        return f"the method {called} itself; call it: {optimizer}(model.{called}(), …)"
    if isinstance(given, dict):
        return f"a dict; write {optimizer}(list(its.values()), …), or [dict] for one group of parameters"
    return type(given).__name__


def register_optimizer_step_pre_hook(hook: Callable[..., Any]) -> HookHandle:
    """Call `hook(optimizer, args, kwargs)` before each step of any optimiser; it may return new (args, kwargs)."""
    return add_hook(Optimizer._every_pre_hooks, hook)


def register_optimizer_step_post_hook(hook: Callable[..., Any]) -> HookHandle:
    """Call `hook(optimizer, args, kwargs)` after each step of any optimiser."""
    return add_hook(Optimizer._every_post_hooks, hook)


def _with_hooks(step: Callable[..., Any]) -> Callable[..., Any]:
    """Return a `step` that calls the optimiser's hooks before and after."""

    @functools.wraps(step)
    def stepping(self: Optimizer, *args: Any, **kwargs: Any) -> Any:
        if self._in_step:  # super().step(): the hooks run around the outermost one
            return observed(step)(self, *args, **kwargs)
        if self._opt_called is False:
            self._opt_called = True
        self._in_step = True
        try:
            for hook in (*self._every_pre_hooks.values(), *self._step_pre_hooks.values()):
                answer = observed(hook)(self, args, kwargs)
                if answer is None:
                    continue
                if not isinstance(answer, tuple) or len(answer) != 2:
                    raise RuntimeError(f"a step pre-hook must return None or (args, kwargs), got {answer!r}")
                args, kwargs = answer
            result = observed(step)(self, *args, **kwargs)
            for hook in (*self._step_post_hooks.values(), *self._every_post_hooks.values()):
                observed(hook)(self, args, kwargs)
            if (active := recorder()) is not None:
                active.stepped()
            return result
        finally:
            self._in_step = False

    return stepping


class ParameterGroup(dict[str, Any]):
    """The options of some parameters. Compiled steps are told when one changes; the learning rate they read anew."""

    def __setitem__(self, key: str, value: Any) -> None:
        if key != "lr":
            changed()
        super().__setitem__(key, value)

    def update(self, *args: Any, **options: Any) -> None:
        """Set several options."""
        changed()
        super().update(*args, **options)


class Optimizer:
    """The base of all optimisers; a subclass defines `step`.

    params: Tensors, or pairs (name, Tensor), or dicts: parameter groups with their own options.
    defaults: the options of groups that do not set them.

    >>> class SignDescent(Optimizer):
    ...     def __init__(self, params, lr=0.1):
    ...         super().__init__(params, {"lr": lr})
    ...     def step(self, closure=None):
    ...         with minitorch.no_grad():
    ...             for group in self.param_groups:
    ...                 for p in group["params"]:
    ...                     p.sub_(group["lr"] * minitorch.tensor(np.sign(p.grad)))
    >>> w = minitorch.tensor([1.0, -1.0], requires_grad=True)
    >>> (w * w).sum().backward()
    >>> SignDescent([w]).step(); w
    tensor([ 0.9000, -0.9000], requires_grad=True)
    """

    # What lr_scheduler asks for: None until a scheduler is there, then whether step() was called since.
    _opt_called: bool | None = None
    # Of all optimisers' steps.
    _every_pre_hooks: ClassVar[dict[int, Callable[..., Any]]] = {}
    _every_post_hooks: ClassVar[dict[int, Callable[..., Any]]] = {}

    def __new__(cls, *args: Any, **options: Any) -> Any:
        """Make what every optimiser has, also one that wraps another and does not call this class's __init__."""
        made = super().__new__(cls)
        made._make_hooks()
        return made

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        name = type(self).__name__
        if isinstance(params, Tensor):
            raise TypeError(
                f"{name}: params must be a list of Tensors or dicts, got one Tensor; write [tensor]"
            )
        if isinstance(params, (set, frozenset)):
            raise TypeError(f"{name}: params must be in a fixed order, got a set; write a list")
        if not isinstance(params, Iterable) or isinstance(params, dict):
            raise TypeError(f"{name}: params must be a list of Tensors, got {_instead(params, name)}")
        self.defaults = defaults
        self.state: defaultdict[Any, State] = made(defaultdict(dict))
        self.param_groups: list[ParameterGroup] = []
        groups = list(params)
        if not groups:
            raise ValueError(f"{name}: got an empty parameter list; does the model have parameters?")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        for group in groups:
            self.add_param_group(group)

    def _make_hooks(self) -> None:
        self._scratch: dict[Any, Array] = {}
        self._in_step = False
        self._step_pre_hooks: dict[int, Callable[..., Any]] = {}
        self._step_post_hooks: dict[int, Callable[..., Any]] = {}
        self._state_dict_pre_hooks: dict[int, Callable[..., Any]] = {}
        self._state_dict_post_hooks: dict[int, Callable[..., Any]] = {}
        self._load_pre_hooks: dict[int, Callable[..., Any]] = {}
        self._load_post_hooks: dict[int, Callable[..., Any]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        # A user's own optimiser overrides `step`, and its hooks shall run all the same.
        super().__init_subclass__(**options)
        if "step" in vars(cls):
            cls.step = _with_hooks(vars(cls)["step"])  # type: ignore[method-assign]

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("_") or name == "__class__":
            changed()
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        changed()
        super().__delattr__(name)

    # --- parameter groups -----------------------------------------------------------------------

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters with their own options; what is not set comes from the defaults.

        >>> a, b = minitorch.zeros(1, requires_grad=True), minitorch.zeros(2, requires_grad=True)
        >>> optimizer = minitorch.optim.SGD([a], lr=0.1)
        >>> optimizer.add_param_group({"params": [b], "lr": 0.01})
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.1, 0.01]
        """
        name = type(self).__name__
        if not isinstance(param_group, dict):
            raise TypeError(f"{name}: a parameter group must be a dict, got {type(param_group).__name__}")
        if "params" not in param_group:
            raise KeyError(f"{name}: a parameter group needs the key 'params', got {sorted(param_group)}")
        group = dict(param_group)
        given = group["params"]
        if isinstance(given, (set, frozenset)):
            raise TypeError(f"{name}: params must be in a fixed order, got a set; write a list")
        entries = [given] if isinstance(given, Tensor) else list(given)
        named = [entry for entry in entries if isinstance(entry, tuple)]
        if named and len(named) != len(entries):
            raise ValueError(f"{name}: either all parameters of a group have names or none")
        group["params"] = [entry[1] if isinstance(entry, tuple) else entry for entry in entries]
        if named:
            group["param_names"] = [entry[0] for entry in entries]
        if self.param_groups and ("param_names" in group) != ("param_names" in self.param_groups[0]):
            raise ValueError(f"{name}: either the parameters of all groups have names or none")
        self._check_parameters(group["params"])
        for option, value in self.defaults.items():
            if value is required and option not in group:
                raise ValueError(
                    f"parameter group didn't specify a value of required optimization parameter {option}"
                )
            group.setdefault(option, value)
        self.param_groups.append(made(ParameterGroup(group)))
        changed()

    def _check_parameters(self, params: list[Any]) -> None:
        name = type(self).__name__
        seen = {id(p) for group in self.param_groups for p in group["params"]}
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError(f"{name}: can only optimise Tensors, got {_instead(p, name)}")
            if not p.is_leaf:
                raise ValueError(
                    f"{name}: can't optimise a non-leaf Tensor (shape {p.shape}, made by {p._op!r}): a step would be "
                    "undone by the next forward; pass the leaf it was computed from, or x.detach().requires_grad_()"
                )
            if not getattr(p._data.flags, "writeable", True):
                raise ValueError(
                    f"{name}: a parameter of shape {p.shape} shares memory that is read-only; clone it"
                )
            if id(p) in seen:
                raise ValueError(
                    f"{name}: a parameter of shape {p.shape} appears twice (some parameters appear in more than one "
                    "parameter group, or twice in one); each may be given once only"
                )
            seen.add(id(p))

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters: None, or zeros if asked for.

        >>> w = minitorch.ones(2, requires_grad=True); w.sum().backward()
        >>> minitorch.optim.SGD([w]).zero_grad(); print(w.grad)
        None
        """
        for group in self.param_groups:
            for p in group["params"]:
                zero_gradient(p, set_to_none)

    # --- the step -------------------------------------------------------------------------------

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change the parameters once. A closure is called first, and its loss returned."""
        raise NotImplementedError(f"{type(self).__name__}: define step(self, closure=None)")

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call `hook(optimizer, args, kwargs)` before each step; it may return new (args, kwargs).

        >>> w = minitorch.ones(2, requires_grad=True)
        >>> optimizer = minitorch.optim.SGD([w])
        >>> handle = optimizer.register_step_pre_hook(lambda *_: print("before"))
        >>> optimizer.step()
        before
        """
        return add_hook(self._step_pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> HookHandle:
        """Call `hook(optimizer, args, kwargs)` after each step.

        >>> w = minitorch.ones(2, requires_grad=True)
        >>> optimizer = minitorch.optim.SGD([w])
        >>> handle = optimizer.register_step_post_hook(lambda *_: print("after"))
        >>> optimizer.step(); handle.remove(); optimizer.step()
        after
        """
        return add_hook(self._step_post_hooks, hook)

    # --- saving ---------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the state and the options, parameters named by their number, in PyTorch's layout.

        The Tensors in it are the optimiser's own: write copy.deepcopy(…) to keep them as they are now.

        >>> w = minitorch.ones(2, requires_grad=True); w.sum().backward()
        >>> optimizer = minitorch.optim.SGD([w], lr=0.1, momentum=0.9); optimizer.step()
        >>> saved = optimizer.state_dict()
        >>> saved["state"]
        {0: {'momentum_buffer': tensor([1., 1.])}}
        >>> saved["param_groups"][0]["lr"], saved["param_groups"][0]["params"]
        (0.1, [0])
        """
        refuse_inside_recording("optimizer.state_dict()")
        for hook in tuple(self._state_dict_pre_hooks.values()):
            hook(self)
        number: dict[int, int] = {}
        for group in self.param_groups:
            for p in group["params"]:
                number[id(p)] = len(number)
        groups = [
            {k: v for k, v in group.items() if k != "params"}
            | {"params": [number[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        state = {number.get(id(p), p): values for p, values in self.state.items()}
        saved = {"state": state, "param_groups": groups}
        for hook in tuple(self._state_dict_post_hooks.values()):
            saved = hook(self, saved) or saved
        return saved

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state that state_dict returned, here or in PyTorch; everything is copied.

        >>> w = minitorch.ones(2, requires_grad=True)
        >>> optimizer = minitorch.optim.Adam([w], lr=0.1)
        >>> optimizer.load_state_dict(minitorch.optim.Adam([w], lr=0.5).state_dict())
        >>> optimizer.param_groups[0]["lr"]
        0.5
        """
        saved = dict(state_dict)
        for hook in tuple(self._load_pre_hooks.values()):
            saved = hook(self, saved) or saved
        name = type(self).__name__
        for key in ("state", "param_groups"):
            if key not in saved:
                raise KeyError(f"{name}.load_state_dict: the key {key!r} is missing; found {sorted(saved)}")
        ours, theirs = self.param_groups, saved["param_groups"]
        if len(ours) != len(theirs):
            raise ValueError(
                f"{name}.load_state_dict: the loaded state dict has a different number of parameter groups: "
                f"{len(theirs)}, this optimiser has {len(ours)}"
            )
        for i, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            if len(mine["params"]) != len(other["params"]):
                raise ValueError(
                    f"{name}.load_state_dict: parameter group {i} doesn't match the size of the optimiser's group: "
                    f"{len(other['params'])} parameters saved, {len(mine['params'])} here"
                )
        parameter: dict[Any, Tensor] = {}
        groups: list[ParameterGroup] = []
        for mine, other in zip(ours, theirs, strict=True):
            parameter.update(zip(other["params"], mine["params"], strict=True))
            kept = {"param_names": mine["param_names"]} if "param_names" in mine else {}
            loaded = {k: _copied(v, None) for k, v in other.items() if k != "params"}
            groups.append(ParameterGroup({"params": mine["params"], **kept, **loaded}))
        state: defaultdict[Any, State] = defaultdict(dict)
        for key, values in saved["state"].items():
            if key not in parameter:
                state[key] = values
                continue
            p = parameter[key]
            for entry, value in values.items():
                state[p][entry] = _copied(value, p)
                self._check_state(p, f"state[{key}][{entry!r}]", state[p][entry])
        # Only now, when nothing can fail any more, is anything replaced.
        self.state, self.param_groups = state, groups
        for hook in tuple(self._load_post_hooks.values()):
            hook(self)

    def _check_state(self, p: Tensor, entry: str, value: Any) -> None:
        """Refuse loaded state that cannot belong to a parameter."""

    def register_state_dict_pre_hook(self, hook: Callable[..., Any], prepend: bool = False) -> HookHandle:
        """Call `hook(optimizer)` before state_dict is made."""
        return add_hook(self._state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook: Callable[..., Any], prepend: bool = False) -> HookHandle:
        """Call `hook(optimizer, state_dict)` on what state_dict is about to return; it may return another."""
        return add_hook(self._state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> HookHandle:
        """Call `hook(optimizer, state_dict)` before it is loaded; it may return another one."""
        return add_hook(self._load_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(
        self, hook: Callable[..., Any], prepend: bool = False
    ) -> HookHandle:
        """Call `hook(optimizer)` after a state_dict was loaded."""
        return add_hook(self._load_post_hooks, hook, prepend)

    def __getstate__(self) -> dict[str, Any]:
        refuse_inside_recording("a copy of an optimizer")
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._make_hooks()
        self.__dict__.update(state)

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines += [""] * (i > 0)
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join([*lines, ")"])


# Options that must not be negative where an optimiser has them, and what messages call them.
_NOT_NEGATIVE = {
    "momentum": "momentum",
    "lr_decay": "lr_decay",
    "weight_decay": "weight_decay",
    "initial_accumulator_value": "initial_accumulator_value",
    "eps": "epsilon value",
    "alpha": "alpha",
    "momentum_decay": "momentum_decay",
}


class ElementwiseOptimizer(Optimizer):
    """An optimiser that treats every element of every parameter alone: all but LBFGS.

    A subclass says what it remembers of a parameter (`_remembers`), which numbers its rule needs in this
    step (`_numbers`), and the rule itself (`_rule`), written on arrays in place.
    """

    _options = ""  # their names, in the order of PyTorch's checkpoints
    _remembers: tuple[
        str, ...
    ] = ()  # the state that begins as zeros, in the order in which the rule takes it
    _scratches = 1  # how many arrays the rule needs to write intermediate results to
    _whole = False  # whether the rule needs the whole parameter, and not a block of it
    _takes_sparse = False  # whether the rule may be applied to the rows alone that a sparse gradient names

    def __init__(self, params: Any, defaults: dict[str, Any]) -> None:
        name = type(self).__name__
        check_lr(name, defaults["lr"])
        for key, spoken in _NOT_NEGATIVE.items():
            if key in defaults and not isinstance(defaults[key], tuple):
                check(name, number(defaults[key]) >= 0, spoken, defaults[key], "a number ≥ 0")
        check_betas(name, defaults.get("betas", ()))
        if defaults.get("differentiable", False):
            raise ValueError(
                f"{name}: differentiable=True is not supported: steps write into the parameters; to differentiate "
                "through training, write the update as p = p - lr * g with autograd.grad(…, create_graph=True)"
            )
        super().__init__(params, defaults)

    def _given(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Return the options among the arguments of an __init__, as its locals() hold them."""
        return {name: arguments[name] for name in self._options.split() if name in arguments}

    def _remembered(self, group: ParameterGroup) -> tuple[str, ...]:
        """Return the names of the state that the rule changes, where options add to it."""
        return self._remembers

    def _begin(self, p: Tensor, group: ParameterGroup) -> State:
        """Return the state of a parameter that is updated for the first time."""
        return {"step": zero_step(), **{name: zeros_like(p) for name in self._remembered(group)}}

    def _prepare(self, p: Tensor, state: State, group: ParameterGroup) -> tuple[list[Array], Any]:
        """Return the arrays of the state that the rule changes, and the numbers of this step."""
        numbers = self._numbers(advance(state), state, group)
        return [state[name]._data for name in self._remembered(group)], numbers

    def _numbers(self, t: float, state: State, group: ParameterGroup) -> tuple[float, ...]:
        """Return the numbers of the rule in step t."""
        raise NotImplementedError

    def _rule(self, x: Array, g: Array, memory: list[Array], numbers: Any, *scratch: Array) -> None:
        """Write the new parameter into x and the new state into memory; g is not to be written to."""
        raise NotImplementedError

    def _check_state(self, p: Tensor, entry: str, value: Any) -> None:
        if isinstance(value, Tensor) and value.ndim and value.shape != p.shape:
            raise ValueError(
                f"{type(self).__name__}.load_state_dict: {entry} has shape {value.shape}, but the parameter "
                f"has {p.shape}; was it saved with another model?"
            )

    def _decay(self, group: ParameterGroup) -> tuple[float, float]:
        """Return the L2 weight decay added to the gradient, and the factor parameters shrink by."""
        decay = option(group, "weight_decay") if "weight_decay" in group else 0.0
        if decay and group.get("decoupled_weight_decay", False):
            return 0.0, 1 - option(group, "lr") * decay
        return decay, 1.0

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Change every parameter that has a gradient. A closure is called first, and its loss returned."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        active, capture = recorder(), capturing.current()
        self._refuse_results()
        for group in self.param_groups:
            decay, shrink = self._decay(group)
            maximize = group.get("maximize", False)
            there: dict[
                Any, list[list[Array]]
            ] = {}  # what kernels of a device change together, by its numbers
            for p in group["params"]:
                # Read only, so an array the engine shares with other nodes will do.
                g = p._grad
                if g is None:
                    continue
                if g.__class__ is Coo:
                    self._sparse_step(p, -g if maximize else g, group, bool(decay) or shrink != 1.0)
                    touch(p._data)
                    continue
                if capture is not None and native.is_of_device(p._data):
                    self._capture(capture, p, g, group)
                    touch(p._data)
                    continue
                state = self.state.get(p, {})
                if not state:
                    begin = functools.partial(self._begin, p, group)
                    state = begin() if active is None else active.beforehand(self.state, begin)
                memory, numbers = self._prepare(p, state, group)
                if state:
                    self.state[p] = state
                x = p._data
                options = numbers, decay, shrink, maximize
                if active is None and x.__class__ is Array and x.size < native.LARGE and x.dtype.kind == "f":
                    self._update(*options, True, (x, g, *memory))
                elif active is None and not self._whole and native.is_of_device(x):
                    there.setdefault((numbers, x.dtype), []).append([x, g, *memory])
                elif active is not None or self._whole or not self._by_kernel(*options, [x, g, *memory]):
                    update = functools.partial(self._update, *options, active is None)
                    blocks = [(x, g, *memory)] if self._whole else _blocks(x, g, memory)
                    if len(blocks) > 1 and active is None:
                        share(update, blocks)
                    else:
                        for block in blocks:
                            update(block)
                # A graph recorded before this step must not be differentiated with the new values.
                touch(x)
            for (numbers, _), sets in there.items():
                rule = _in_one_go(type(self)._rule, maximize, bool(decay), shrink != 1.0, self._scratches)
                native.update_there(rule, sets, (decay, shrink, *numbers))
        return loss

    def _refuse_results(self) -> None:
        """Raise, before anything is changed, if what is to be changed was computed from something else."""
        for group in self.param_groups:
            for p in group["params"]:
                if p._grad is not None and not p.is_leaf:
                    raise RuntimeError(
                        f"{type(self).__name__}.step: a parameter of shape {p.shape} is no leaf any more"
                    )

    def _by_kernel(
        self, numbers: Any, decay: float, shrink: float, maximize: bool, arrays: list[Array]
    ) -> bool:
        """Change a large parameter by one kernel; return whether that was done."""
        rule = _in_one_go(type(self)._rule, maximize, bool(decay), shrink != 1.0, self._scratches)
        return arrays[0].size >= native.LARGE and native.update(rule, arrays, (decay, shrink, *numbers))

    def _capture(self, capture: capturing.Capture, p: Tensor, g: Array, group: ParameterGroup) -> None:
        """Write a parameter's step into a CUDA graph that a program captures, where the library's own kernels run."""
        name, state = type(self).__name__, self.state.get(p, {})
        if self._whole:
            raise RuntimeError(f"{name}.step: its rule cannot be captured; call it after graph.replay()")

        def found(options: dict[str, Any]) -> tuple[list[Array], tuple[Any, ...]]:
            memory, numbers = self._prepare(p, state, options)  # type: ignore[arg-type]
            return memory, (*self._decay(options), *numbers)  # type: ignore[arg-type]

        decay, shrink = self._decay(group)
        maximize = group.get("maximize", False)
        rule = _in_one_go(type(self)._rule, maximize, bool(decay), shrink != 1.0, self._scratches)
        memory, numbers = told_numbers(capture, name, state, group, found)
        rule([p._data, g, *memory], numbers)

    def _sparse_step(self, p: Tensor, g: Coo, group: ParameterGroup, decays: bool) -> None:
        """Apply the rule to the rows that a sparse gradient names, where the optimiser is one of those that may."""
        name = type(self).__name__
        if not self._takes_sparse:
            raise RuntimeError(
                f"{name} does not support sparse gradients, please consider SparseAdam instead"
            )
        if decays:
            raise RuntimeError(f"{name}: weight_decay is not compatible with sparse gradients")
        state = self.state.get(p) or self._begin(p, group)
        memory, numbers = self._prepare(p, state, group)
        if state:
            self.state[p] = state
        once = g.coalesce()
        rows = tuple(once.indices)
        whole = [p._data, *memory]
        x, *parts = (a[rows] for a in whole)
        self._rule(x, once.values, parts, numbers, *(np.empty_like(x) for _ in range(self._scratches)))
        for array, part in zip(whole, (x, *parts), strict=True):
            array[rows] = part

    def _update(
        self, numbers: Any, decay: float, shrink: float, maximize: bool, plain: bool, block: tuple[Array, ...]
    ) -> None:
        """Change one block, of the parameter, its gradient and its state. plain: nobody records it."""
        x, g, *memory = block
        first = (
            [x] if not (maximize or decay) else []
        )  # (an array for the changed gradient: not needed, then)
        count = self._scratches + 1 - len(first)
        if plain and x.size >= SMALL:
            scratch = first + [self._room(x, i) for i in range(count)]
        else:  # what is written into a part of a room would be written down as the whole; and small ones cost less anew
            scratch = first + [np.empty_like(x) for _ in range(count)]
        if maximize:
            g = np.negative(g, out=scratch[0])
        if decay:
            g = np.add(g, np.multiply(x, decay, out=scratch[1]), out=scratch[0])
        if shrink != 1.0:
            x *= shrink
        self._rule(x, g, memory, numbers, *scratch[1:])

    def _room(self, like: Array, index: int) -> Array:
        """Return memory to work in, of an array's shape and dtype: a thread's own, the same in every step."""
        key = (threading.get_ident(), type(like), like.dtype, index)
        room = self._scratch.get(key)
        if room is None or room.size < like.size:
            room = np.empty_like(like, shape=(like.size,))
            self._scratch[key] = room
        return room[: like.size].reshape(like.shape)


@functools.cache
def _in_one_go(
    rule: Callable[..., None], maximize: bool, decays: bool, shrinks: bool, scratches: int
) -> Callable[[list[Array], tuple[Any, ...]], None]:
    """Return what a step does to one parameter as a function: of arrays, of which it changes some, and numbers.

    On a device it becomes one kernel; here the same is done in blocks that fit the cache.
    """

    def update(arrays: list[Array], numbers: tuple[Any, ...]) -> None:
        x, g, *memory = arrays
        decay, shrink, *others = numbers
        scratch = [np.empty_like(x) for _ in range(scratches + 1)]
        if maximize:
            g = np.negative(g, out=scratch[0])
        if decays:
            g = np.add(g, np.multiply(x, decay, out=scratch[1]), out=scratch[0])
        if shrinks:
            x *= shrink
        rule(None, x, g, memory, tuple(others), *scratch[1:])

    return update


def _blocks(x: Array, g: Array, memory: list[Array]) -> list[tuple[Array, ...]]:
    """Split arrays of one shape into flat pieces that fit the cache, where their memory allows it."""
    arrays = (x, g, *memory)
    if x.dtype.kind == "c":
        arrays = tuple(as_reals(a) for a in arrays)
        x = arrays[0]
    length = BLOCK if threads() == 1 else SHARED_BLOCK
    if x.size <= length or type(x) is not np.ndarray or not all(a.flags.c_contiguous for a in arrays):
        return [arrays]
    flat = [a.reshape(-1) for a in arrays]
    return [tuple(a[start : start + length] for a in flat) for start in range(0, x.size, length)]


def as_reals(x: Array) -> Array:
    """Return complex numbers as pairs of reals along a last axis, in the same memory: to an optimiser they are two.

    >>> as_reals(np.array([1 + 2j]))
    array([[1., 2.]])
    """
    real = x.real
    return np.lib.stride_tricks.as_strided(real, (*x.shape, 2), (*x.strides, real.itemsize))


def full_for(p: Tensor, value: float) -> Tensor:
    """Return a parameter's state that begins with a number; of complex numbers both parts do."""
    return full_like(p, complex(value, value) if p._data.dtype.kind == "c" else value)


def number(value: Any) -> float:
    """Return an option that may be a Python number or a Tensor of one element as a Python float."""
    return float(value.item()) if isinstance(value, Tensor) else float(value)


def option(group: ParameterGroup, name: str) -> float:
    """Return a number of a parameter group for this step; a compiled step reads it anew at every call."""
    value = changeable(group, name)
    return only_number(value._data) if isinstance(value, Tensor) else value


def check(name: str, condition: bool, option: str, value: Any, expected: str) -> None:
    """Refuse an option outside its range."""
    if not condition:
        raise ValueError(f"{name}: invalid {option}: {value}; expected {expected}")


def check_lr(name: str, lr: Any) -> None:
    """Refuse a learning rate that is no number or negative."""
    if isinstance(lr, Tensor):
        if lr.numel() != 1:
            raise ValueError(f"{name}: a Tensor as learning rate must have one element, got shape {lr.shape}")
    elif isinstance(lr, (str, bytes)) or not hasattr(lr, "__float__"):
        raise TypeError(f"{name}: the learning rate must be a number, got {type(lr).__name__}")
    # Not `lr < 0`: a nan shall be refused too.
    check(name, number(lr) >= 0, "learning rate", lr, "a number ≥ 0")


def check_betas(name: str, betas: Any) -> None:
    """Refuse decay rates outside [0, 1)."""
    for i, beta in enumerate(betas):
        check(name, 0 <= number(beta) < 1, f"beta parameter at index {i}", beta, "0 ≤ beta < 1")


def zero_step() -> Tensor:
    """Return the count of steps before the first: kept as a Tensor, as PyTorch's checkpoints have it."""
    return new_tensor(np.zeros((), dtype=scalar_dtype()))


def scalar_dtype() -> Any:
    """Return the dtype of single numbers in the state."""
    return float64 if get_default_dtype() == float64 else float32


def advance(state: State) -> float:
    """Count one step more, and return the count."""
    state["step"]._data += 1
    return only_number(state["step"]._data)


# --- steps that several rules share; s is memory for intermediate results -----------------------


def average(mean: Array, new: Array, weight: float, s: Array) -> None:
    """Mix a new value into a running average:  mean ← mean + weight·(new - mean)."""
    np.subtract(new, mean, out=s)
    s *= weight
    mean += s


def average_square(mean: Array, new: Array, beta: float, s: Array) -> None:
    """Mix a new square into a running average:  mean ← β·mean + (1 - β)·new²."""
    np.multiply(new, new, out=s)
    s *= 1 - beta
    mean *= beta
    mean += s


def descend(x: Array, rate: float, direction: Array, v: Array, eps: float, s: Array) -> None:
    """Take a step scaled element by element:  x ← x - rate·direction/(√v + eps)."""
    np.sqrt(v, out=s)
    s += eps
    np.divide(direction, s, out=s)
    s *= rate
    x -= s


def _copied(value: Any, p: Tensor | None) -> Any:
    """Return a copy; an array in the state of p as a Tensor of p's dtype, where p is; single numbers in their own."""
    if isinstance(value, dict):
        return {k: _copied(v, p) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_copied(v, p) for v in value)
    if not hasattr(value, "__array__"):
        return copy.deepcopy(value)
    if getattr(value, "is_sparse", False):  # a momentum of sparse gradients
        indices, values = (np.array(part.cpu().numpy()) for part in (value._indices(), value._values()))
        return sparse_coo_tensor(indices, values, tuple(value.shape))
    # Another library's tensor (PyTorch's, from its checkpoint) is read through its own numpy().
    array = np.array(value.detach().cpu().numpy() if hasattr(value, "detach") else value)
    if p is None:
        return as_tensor(array)
    if array.ndim and array.dtype.kind == "f":
        array = array.astype(p.dtype)
    # (Single numbers, a count of steps, stay on the host: nobody shall wait for them.)
    return as_tensor(array).to(p.device) if array.ndim else as_tensor(array)
