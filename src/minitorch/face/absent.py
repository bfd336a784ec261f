"""What of PyTorch there is not, and what there is instead. Enters: a name. Leaves: a sentence for the error."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

# By address below torch; what is below one of these is absent for the same reason.
ABSENT = {
    "lobpcg": "torch.linalg.eigh gives all eigenvalues of a symmetric matrix",
    "mps": "there are the CPU and, with CuPy, CUDA",
    "quantize_per_tensor": "quantised tensors are absent; compute in float32",
    "quantize_per_channel": "quantised tensors are absent; compute in float32",
    "fake_quantize_per_tensor_affine": "quantised tensors are absent; compute in float32",
    "fake_quantize_per_channel_affine": "quantised tensors are absent; compute in float32",
    "sparse_csc_tensor": "there are sparse_coo_tensor and sparse_csr_tensor",
    "sparse_bsr_tensor": "there are sparse_coo_tensor and sparse_csr_tensor",
    "sparse_bsc_tensor": "there are sparse_coo_tensor and sparse_csr_tensor",
    "sparse_compressed_tensor": "there are sparse_coo_tensor and sparse_csr_tensor",
    "_inductor": "torch.compile is minitorch's own compiler; its settings are the arguments of torch.compile",
    "_functorch": "torch.func has grad, vmap, jvp, vjp, jacrev, jacfwd, hessian and functional_call",
    "ao": "quantised tensors are absent; compute in float32",
    "distributed.fsdp": "there is torch.nn.parallel.DistributedDataParallel",
    "distributed.pipelining": "there is torch.nn.parallel.DistributedDataParallel",
    "distributed.rpc": "there are torch.distributed's collectives, send and recv",
    "export": "torch.save(model.state_dict()) keeps a model; torch.compile makes native code of it",
    "onnx": "torch.save(model.state_dict()) keeps a model; ONNX files are not written",
    "package": "torch.save(model.state_dict()) keeps a model",
    "quantization": "quantised tensors are absent; compute in float32",
    "utils.cpp_extension": "there is no C++ to extend; write minitorch.op(forward, rules…) in NumPy",
}


def instead_of(fullname: str) -> str | None:
    """Return what there is instead of an address of PyTorch's ("torch.onnx"); None if nothing is known of it.

    >>> instead_of("torch.ao.quantization")
    'quantised tensors are absent; compute in float32'
    """
    parts = fullname.removeprefix("torch.").split(".")
    for count in range(len(parts), 0, -1):
        if (found := ABSENT.get(".".join(parts[:count]))) is not None:
            return found
    return None


def absence(module: str, name: str, known: Iterable[str]) -> AttributeError:
    """Return the error for a name that a module does not have: it names it, and what is near or instead.

    >>> absence("torch", "softmx", ["softmax", "relu"])
    AttributeError("module 'torch' (minitorch under that name) has no attribute 'softmx'; there is 'softmax'")
    """
    instead = instead_of(f"{module}.{name}")
    near = difflib.get_close_matches(name, known, 1, 0.75)
    said = f": {instead}" if instead else f"; there is {near[0]!r}" if near else ""
    return AttributeError(
        f"module {module!r} (minitorch under that name) has no attribute {name!r}{said}", name=name
    )
