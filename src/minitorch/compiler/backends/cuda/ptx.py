"""PTX, what NVIDIA's driver reads. Enters: LLVM text for a GPU. Leaves: PTX, from the disk if it was made before."""

from __future__ import annotations

import functools
import threading
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
