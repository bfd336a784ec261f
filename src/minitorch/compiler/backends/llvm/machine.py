"""Machine code. Enters: a module as LLVM text, a target. Leaves: addresses of its functions, ready to call.

Object code is kept on disk (`object_cache.py`), because making it takes milliseconds to seconds and loading it
a fraction of one.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import mmap
import os
import re
import sys
import threading
import weakref
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from minitorch.compiler.backends.llvm import object_cache
from minitorch.compiler.backends.llvm.target import Target, require_llvmlite

# Of instruction selection and register allocation (see `object_code`): harder tries take up to a fifth longer, and make
# kernels that are written out as these no faster.
OPTIMIZATION = 1

# A line break first, and not `^`: the search then jumps from one to the next.
_DEFINED = re.compile(r"\ndefine [^@\n]*@([\w.$]+)")
_DECLARED = re.compile(r"\ndeclare [^@\n]*@([\w.$]+)")
# Arithmetic that may become a call of libm's function of the same name.
_INTRINSIC = re.compile(r"llvm\.([a-z0-9]+)\.(?:v\d+)?f(32|64)")


class MachineCode:
    """Functions in memory. They may be called as long as this object lives, and not a moment longer."""

    def __init__(self, addresses: Mapping[str, int], owner: Any) -> None:
        self._addresses = dict(addresses)
        self._owner = owner  # unloads the code when nobody holds it any more

    def address(self, name: str) -> int:
        """Return where a function begins."""
        return self._addresses[name]


def compile_module(
    text: str, target: Target, names: Iterable[str], *, optimization: int = OPTIMIZATION
) -> MachineCode:
    """Make the machine code of a module and load it, from the disk if it was made before.

    names: the functions whose addresses are wanted; each must be defined in the text.
    optimization: 0 to 3, how hard LLVM tries when it chooses instructions and registers.
    """
    names = list(names)
    undefined = set(names).difference(_DEFINED.findall("\n" + text))
    if undefined:
        raise LookupError(f"the module does not define {', '.join(sorted(undefined))}")
    key = object_cache.key(text, target, optimization)
    loaded = _loaded.get((key, tuple(names)))
    if loaded is None:
        imports = externals(text)
        path = object_cache.file_for(key)
        code = object_cache.read(path, key)
        if code is not None:
            with contextlib.suppress(RuntimeError):  # readable, and yet not loadable: make it anew
                loaded = _link(code, names, imports)
        if loaded is None:
            code = object_code(text, target, optimization)
            loaded = _link(code, names, imports)
            object_cache.write(path, key, code)
        _loaded[key, tuple(names)] = loaded
    return loaded


def compile_functions(
    texts: Sequence[str], target: Target, name: str, *, optimization: int = OPTIMIZATION
) -> list[MachineCode]:
    """Make the machine code of several modules that each define a function of this name, side by side.

    One module for each function, so that whichever programs have it in common make it once, in memory and on disk;
    and the processor's cores share the work.
    """

    def make(text: str) -> MachineCode:
        return compile_module(text, target, [name], optimization=optimization)

    workers = min(len(texts), cores())
    if workers <= 1:
        return [make(text) for text in texts]
    with ThreadPoolExecutor(workers) as pool:
        # The long ones first, so that no core is left alone with one at the end.
        order = sorted(range(len(texts)), key=lambda i: -len(texts[i]))
        made = dict(zip(order, pool.map(make, [texts[i] for i in order]), strict=True))
    return [made[i] for i in range(len(texts))]


def kept_under(text: str, target: Target, optimization: int = OPTIMIZATION) -> tuple[str, tuple[str, ...]]:
    """Return the key under which a module's object code is kept, and the names of the functions that it imports."""
    return object_cache.key(text, target, optimization), tuple(sorted(externals(text)))


def load_functions(kept: Sequence[tuple[str, tuple[str, ...]]], name: str) -> list[MachineCode] | None:
    """Load modules that `compile_functions` made before, by what `kept_under` says of them; None if one is missing."""
    codes = []
    for key, imports in kept:
        loaded = _loaded.get((key, (name,)))
        if loaded is None:
            code = object_cache.read(object_cache.file_for(key), key)
            found = {each: symbol(each) for each in imports}
            if code is None or None in found.values():
                return None
            try:
                loaded = _link(code, [name], {each: address for each, address in found.items() if address})
            except RuntimeError:
                return None  # readable, and yet not loadable: it is made anew
            _loaded[key, (name,)] = loaded
        codes.append(loaded)
    return codes


def cores() -> int:
    """Return how many processors this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Code that is in memory already, by key and names.
_loaded: weakref.WeakValueDictionary[tuple[str, tuple[str, ...]], MachineCode] = weakref.WeakValueDictionary()


# --- making it --------------------------------------------------------------------------------------------


def object_code(text: str, target: Target, optimization: int = OPTIMIZATION) -> bytes:
    """Return the object file of a module. No pass over the text runs: what is written is what is selected."""
    machine = target_machine(target, optimization)
    return emitted(machine, _parse(text, machine, target))


def emitted(machine: Any, module: Any, *, as_text: bool = False) -> bytes:
    """Return a module's object file (as_text: its code in the target's own language), made beside other threads'.

    llvmlite lets one thread at a time into LLVM. Making code needs no such care where, as here, every module has a
    context and every thread a target machine of its own, and it is nearly all of the time: so its function is called
    by itself. A llvmlite that keeps it elsewhere makes the same code, one module after the other.
    """
    ffi = require_llvmlite().ffi
    unlocked = getattr(ffi.lib.LLVMPY_TargetMachineEmitToMemory, "_cfn", None)
    if unlocked is None:
        return machine.emit_assembly(module).encode() if as_text else machine.emit_object(module)
    with ffi.OutputString() as problem:
        buffer = unlocked(machine, module, int(not as_text), problem)
        if not buffer:
            raise RuntimeError(f"LLVM could not make code: {problem}")
    try:
        return ctypes.string_at(ffi.lib.LLVMPY_GetBufferStart(buffer), ffi.lib.LLVMPY_GetBufferSize(buffer))
    finally:
        ffi.lib.LLVMPY_DisposeMemoryBuffer(buffer)


def assembly(text: str, target: Target, optimization: int = OPTIMIZATION) -> str:
    """Return a module as the processor's instructions, to be read by people."""
    machine = target_machine(target, optimization)
    return machine.emit_assembly(_parse(text, machine, target))


# A target machine serves many modules, one at a time: every thread has its own.
_machines = threading.local()


def target_machine(target: Target, optimization: int = OPTIMIZATION) -> Any:
    """Return this thread's code generator of LLVM for a target.

    Position-independent code: a constant is then an operand of the instruction that needs it, and not
    first an address of 64 bits in a register of its own.
    """
    made: dict[Any, Any] = _machines.__dict__
    key = (target, optimization)
    if key not in made:
        llvm = require_llvmlite()
        made[key] = llvm.Target.from_triple(target.triple).create_target_machine(
            cpu=target.name,
            features=target.features,
            opt=optimization,
            reloc="pic",
            codemodel="small",
            jit=True,
        )
    return made[key]


def _parse(text: str, machine: Any, target: Target) -> Any:
    module = require_llvmlite().parse_assembly(text, require_llvmlite().create_context())
    module.triple = target.triple
    module.data_layout = str(machine.target_data)
    module.verify()
    return module


# --- loading it -------------------------------------------------------------------------------------------

LINKED_TOGETHER = 32  # modules that share a linker
_library_number = itertools.count().__next__
_linking = threading.Lock()
_linkers: list[Any] = []  # the one in use


def _linker(number: int) -> Any:
    """LLVM's linker in memory: it puts a module's code and constants side by side.

    It keeps something (8 kB) of every module that was ever linked; so there is a new one now and then (1 ms), and the
    old one goes with the last of its modules.
    """
    if not _linkers or number % LINKED_TOGETHER == 0:
        _linkers[:] = [
            require_llvmlite().create_lljit_compiler(
                use_jit_link=sys.platform != "win32", suppress_errors=True
            )
        ]
    return _linkers[0]


def _link(code: bytes, names: list[str], imports: Mapping[str, int]) -> MachineCode:
    builder = require_llvmlite().JITLibraryBuilder().add_object_img(code)
    for name in names:
        builder.export_symbol(name)
    for name, address in imports.items():
        builder.import_symbol(name, address)
    try:
        with _linking:
            number = _library_number()
            tracker = builder.link(_linker(number), f"minitorch{number}")
    except RuntimeError as error:
        known = ", ".join(sorted(imports)) or "none"
        raise RuntimeError(
            f"the code does not load: {error}. It may need a function that is not among those given to it ({known})"
        ) from None
    return MachineCode({name: tracker[name] for name in names}, tracker)


def externals(text: str) -> dict[str, int]:
    """Return the address of every function that a module calls and does not define.

    A declared one that is nowhere to be found raises LookupError. LLVM would say nothing, and the call
    would crash. Functions that instructions turn into (llvm.sin → sin, frem → fmod, copies → memcpy)
    are given where they exist; should one be needed and missing, loading fails.
    """
    all_declared = set(_DECLARED.findall("\n" + text))
    declared = {name for name in all_declared if not name.startswith("llvm.")}
    found: dict[str, int] = {}
    for name in sorted(declared):
        address = symbol(name)
        if address is None:
            raise LookupError(f"the function {name!r} was not found in the C library, libm or Python")
        found[name] = address
    implied = {"memcpy", "memmove", "memset"}
    for name in all_declared:
        if intrinsic := _INTRINSIC.fullmatch(name):
            implied.add(intrinsic[1] + ("f" if intrinsic[2] == "32" else ""))
    if "frem " in text:
        implied |= {"fmod", "fmodf"}
    for name in implied - declared:
        address = symbol(name)
        if address is not None:
            found[name] = address
    return found


@functools.lru_cache(maxsize=4096)
def symbol(name: str) -> int | None:
    """Return the address of a function of the C library, libm or Python; None if there is none."""
    for library in _libraries():
        with contextlib.suppress(AttributeError):
            return ctypes.cast(getattr(library, name), ctypes.c_void_p).value
    return None


@functools.cache
def _libraries() -> list[Any]:
    if sys.platform == "win32":
        places: list[str | None] = ["ucrtbase", "vcruntime140", "kernel32"]
    elif sys.platform == "darwin":
        places = [None, "/usr/lib/libSystem.B.dylib"]
    else:
        places = [None, "libm.so.6", "libc.so.6", "libm.so"]
    libraries: list[Any] = []
    for place in places:
        with contextlib.suppress(OSError):
            libraries.append(ctypes.CDLL(place))
    return [*libraries, ctypes.pythonapi]


def discard(memory: np.ndarray) -> None:
    """Give the system the pages of an array's own memory, where that is known to work. Its content is lost."""
    address = symbol("madvise") if sys.platform == "linux" else None
    first = -(-memory.ctypes.data // mmap.PAGESIZE) * mmap.PAGESIZE
    last = (memory.ctypes.data + memory.nbytes) // mmap.PAGESIZE * mmap.PAGESIZE
    if address is not None and last > first:
        ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)(address)(
            first, last - first, mmap.MADV_DONTNEED
        )
