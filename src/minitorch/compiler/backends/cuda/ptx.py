"""PTX, what NVIDIA's driver reads. Enters: LLVM text for a GPU. Leaves: PTX, from the disk if it was made before.

The driver assembles one module at a time. Where NVIDIA's assembler is installed (with CUDA, or as a wheel that JAX and
Triton bring too), modules are assembled by it, side by side, and the disk keeps what it made.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from minitorch.compiler.backends.cuda.words import TRIPLE
from minitorch.compiler.backends.llvm import object_cache
from minitorch.compiler.backends.llvm.machine import emitted
from minitorch.compiler.backends.llvm.target import Target, require_llvmlite

OPTIMIZATION = 3


def ptx(text: str, processor: str) -> bytes:
    """Return a module as PTX for a processor, sm_80 say."""
    key = object_cache.key(text, Target(processor, "", TRIPLE), OPTIMIZATION)
    path = object_cache.file_for(key)
    code = object_cache.read(path, key)
    if code is None:
        code = _made(text, processor)
        object_cache.write(path, key, code)
    return code


def assembled(text: str, processor: str) -> bytes | None:
    """Return a module as a processor's own code; None if there is no assembler, or it does not know the processor."""
    program = assembler()
    if program is None:
        return None
    key = object_cache.key(text, Target(processor, "assembled", TRIPLE), OPTIMIZATION)
    path = object_cache.file_for(key)
    code = object_cache.read(path, key)
    if code is not None:
        return code
    with tempfile.TemporaryDirectory() as folder:
        given, made = Path(folder, "module.ptx"), Path(folder, "module.cubin")
        given.write_bytes(_made(text, processor))
        command = [program, f"-arch={processor}", "-o", str(made), str(given)]
        if subprocess.run(command, capture_output=True, check=False).returncode:
            return None
        code = made.read_bytes()
    object_cache.write(path, key, code)
    return code


@functools.cache
def assembler() -> str | None:
    """Return where NVIDIA's assembler is; None if it is not installed."""
    toolkits = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    found = shutil.which("ptxas") or shutil.which("ptxas", path=os.pathsep.join(f"{t}/bin" for t in toolkits))
    for folder in sys.path if found is None else ():
        for pattern in ("nvidia/*/bin/ptxas", "triton/backends/nvidia/bin/ptxas"):
            found = found or next(map(str, sorted(Path(folder or ".").glob(pattern))), None)
    return found


def _made(text: str, processor: str) -> bytes:
    llvm, machine = require_llvmlite(), _machine(processor, threading.get_ident())
    module = llvm.parse_assembly(text, llvm.create_context())
    module.triple = TRIPLE
    module.data_layout = str(machine.target_data)
    module.verify()
    return emitted(machine, module, as_text=True)


@functools.lru_cache(maxsize=64)
def _machine(processor: str, thread: int) -> Any:
    """Return what makes code for a processor, in one thread."""
    llvm = require_llvmlite()
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(TRIPLE).create_target_machine(cpu=processor, opt=OPTIMIZATION)
