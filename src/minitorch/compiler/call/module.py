"""A compiled Module. Enters: a Module. Leaves: one that computes the same with its forward compiled."""

from __future__ import annotations

from typing import Any

from minitorch.compiler.call.function import CompiledFunction
from minitorch.nn.module import Module
from minitorch.nn.parameter import is_lazy

# What it has of its own; all other attributes are those of the Module inside.
_OWN = {"_orig_mod", "compiled", "training", "waits"}


def _has_lazy_layers(module: Module) -> bool:
    return any(is_lazy(each) for each in (*module.parameters(), *module.buffers()))


class CompiledModule(Module):
    """Looks and behaves like the Module inside it (`_orig_mod`); calling it runs a compiled forward.

    Its state dict's keys begin with '_orig_mod.', as PyTorch's do.
    """

    def __init__(
        self,
        module: Module,
        backend: str,
        verify: bool,
        fullgraph: bool = False,
        dynamic: bool | None = None,
    ) -> None:
        super().__init__()
        self._orig_mod = module
        self.__dict__["compiled"] = CompiledFunction(
            module.__call__, backend, verify, None, fullgraph, dynamic
        )
        self.__dict__["waits"] = True  # perhaps: until a call finds no layer without shapes

    def forward(self, *args: Any, **options: Any) -> Any:
        """Run the compiled forward; where lazy layers still wait for shapes, the forward as it is."""
        if self.__dict__["waits"]:
            self.__dict__["waits"] = _has_lazy_layers(self._orig_mod)
            if self.__dict__["waits"]:
                return self._orig_mod(*args, **options)
        return self.compiled(*args, **options)

    def explain(self, html: str | None = None) -> Any:
        """Tell what was made of the forward; see CompiledFunction.explain."""
        return self.compiled.explain(html)

    @property
    def compilations(self) -> int:
        """How many programs were compiled so far."""
        return self.compiled.compilations

    def train(self, mode: bool = True) -> CompiledModule:
        """Switch between training and evaluation."""
        self._orig_mod.train(mode)
        self.__dict__["training"] = mode
        return self

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            if name == "_orig_mod":
                raise
            return getattr(self._orig_mod, name)

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _OWN or "_modules" not in self.__dict__ or "_orig_mod" not in self._modules:
            super().__setattr__(name, value)
        else:
            setattr(self._orig_mod, name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self._orig_mod, name)

    def __getitem__(self, key: Any) -> Any:
        return self._orig_mod[key]  # type: ignore[index]

    def __setitem__(self, key: Any, value: Any) -> None:
        self._orig_mod[key] = value

    def __iter__(self) -> Any:
        return iter(self._orig_mod)

    def __getstate__(self) -> dict[str, Any]:
        state = self.__dict__.copy()
        compiled = self.compiled
        state["compiled"] = (compiled.backend, compiled.verify, None, compiled.fullgraph, compiled.dynamic)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__dict__["compiled"] = CompiledFunction(self._orig_mod.__call__, *state["compiled"])
