"""What a program asks of a device's own array library. Enters: a program on `DeviceArray`s. Leaves: what that computed.

Kernels of our own leave nothing to it; views are made by it, and take no kernel.
"""

from contextlib import contextmanager

import numpy as np

from standin import DeviceArray

OPERATORS = [
    f"__{before}{name}__"
    for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul")
    for before in ("", "r", "i")
    if before != "i" or name in ("add", "sub", "mul")
] + [
    f"__{name}__" for name in ("and", "or", "xor", "eq", "ne", "lt", "le", "gt", "ge", "neg", "invert", "abs")
]
WAITS = ("get", "__bool__", "__float__", "__index__")


def _arrays(things):
    for each in things:
        if isinstance(each, DeviceArray):
            yield each
        elif isinstance(each, tuple | list):
            yield from _arrays(each)


def _is_view(found, operands):
    results = list(_arrays([found]))
    given = list(_arrays(operands))
    return bool(results) and all(
        any(np.may_share_memory(result.host, each.host) for each in given) for result in results
    )


@contextmanager
def asked(monkeypatch):
    """A list of what was computed by the device's library, or waited for, while this is open."""
    noted = []

    def noting(name, function, of=lambda *args: args):
        def run(*args, **options):
            found = function(*args, **options)
            if not _is_view(found, of(*args)):
                noted.append(name if isinstance(name, str) else name(*args))
            return found

        return run

    attribute = DeviceArray.__getattr__

    def looked_up(self, name):
        found = attribute(self, name)
        return noting(name, found, lambda *args: (self, *args)) if callable(found) else found

    with monkeypatch.context() as patched:
        patched.setattr(DeviceArray, "__getattr__", looked_up)
        ufunc, function = DeviceArray.__array_ufunc__, DeviceArray.__array_function__
        by_name = noting(lambda self, ufunc, *rest: ufunc.__name__, ufunc, lambda *args: ())
        patched.setattr(DeviceArray, "__array_ufunc__", by_name)
        by_name = noting(
            lambda self, function, *rest: function.__name__,
            function,
            lambda self, f, types, args, kwargs: args,
        )
        patched.setattr(DeviceArray, "__array_function__", by_name)
        for name in (*OPERATORS, *WAITS, "__getitem__", "__setitem__"):
            patched.setattr(DeviceArray, name, noting(name, getattr(DeviceArray, name)))
        yield noted
