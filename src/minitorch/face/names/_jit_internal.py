"""torch._jit_internal: another address of torch.jit's decorators."""

from typing import Any, Final

from minitorch.face.names.jit import export, ignore, is_scripting, unused

__all__ = ["Final", "boolean_dispatch", "export", "ignore", "is_scripting", "unused"]


def boolean_dispatch(
    arg_name: str,
    arg_index: int,
    default: bool,
    if_true: Any,
    if_false: Any,
    module_name: Any,
    func_name: Any,
) -> Any:
    """Return a function that is one of two, by an argument."""

    def choose(*args: Any, **kwargs: Any) -> Any:
        given = kwargs.get(arg_name, args[arg_index] if len(args) > arg_index else default)
        return (if_true if given else if_false)(*args, **kwargs)

    return choose
