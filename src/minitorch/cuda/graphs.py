"""CUDA graphs that a program captures by hand. Enters: what is asked for in a stream. Leaves: the same, in one launch.

While a graph is captured, kernels are written down and not run. Three things make that safe here: everything that is
made meanwhile lies in a pool of the graph's own, which nobody else takes memory from; numbers that the host computes
anew for each run (random streams, an optimiser's counts) lie in cells that are told before each replay; and a graph in
which something would be read from the host's memory is refused, as nobody knows what lies there later.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Callable
from typing import Any, ClassVar

from minitorch.autograd import Function, enable_grad
from minitorch.autograd import grad as gradients
from minitorch.creation import ones_like
from minitorch.engine import capturing, gpu
from minitorch.tensor import Tensor

DRIVER = "libcuda.so.1"
_MEMCPY, _HOST_FUNCTION = 1, 3  # what the driver calls nodes of a graph
LEAST_WARM_UPS = 7  # an op has its kernel after three calls, and what follows it may begin to count only then
_ON_DEVICE = (2, 3)  # what it calls memory there, and memory that is managed
WARM_UP = (
    "run the block some times (seven, say) before it is captured, in `with torch.cuda.stream(torch.cuda.Stream()):`, "
    "with tensors of the same shapes: kernels are made by then"
)


class _Memcpy(ctypes.Structure):
    """The driver's description of a copy."""

    _fields_ = (
        *((f"_source{i}", ctypes.c_size_t) for i in range(4)),
        ("source_kind", ctypes.c_uint),
        ("source_host", ctypes.c_void_p),
        ("source_device", ctypes.c_void_p),
        *((f"_from{i}", ctypes.c_size_t) for i in range(4)),
        *((f"_target{i}", ctypes.c_size_t) for i in range(4)),
        ("target_kind", ctypes.c_uint),
        ("target_host", ctypes.c_void_p),
        ("target_device", ctypes.c_void_p),
        *((f"_to{i}", ctypes.c_size_t) for i in range(7)),
    )


class CUDAGraph:
    """What was asked for in a stream, captured between capture_begin() and capture_end(): replay() runs it again.

    It reads and writes the memory that it read and wrote then: give it new inputs by `x.copy_(…)`. Random numbers are
    others at each replay, as if the block had run; the steps of an optimiser are counted, and a learning rate that
    was changed holds. `with torch.cuda.graph(g):` captures a block.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self._cupy = gpu.library()
        self._pool: Any = None
        self._capture: capturing.Capture | None = None
        self._graph: Any = None  # CuPy's
        self._stream: Any = None  # in which it was captured
        self._allocator: Any = None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Write down what is asked for in the current stream from now on. pool: another graph's memory to share."""
        if self._capture is not None:
            raise RuntimeError(
                "CUDAGraph: it has captured something already; make a new one, or call reset()"
            )
        stream = self._cupy.cuda.get_current_stream()
        if not stream.ptr:
            raise RuntimeError(
                "CUDAGraph: the default stream cannot be captured; write `with torch.cuda.graph(g):`, or "
                "capture in `with torch.cuda.stream(torch.cuda.Stream()):`"
            )
        self._pool = self._cupy.cuda.MemoryPool() if pool is None else getattr(pool, "pool", pool)
        self._allocator = self._cupy.cuda.using_allocator(self._pool.malloc)
        self._stream, self._capture = stream, capturing.Capture(self._cupy)
        # (Relaxed: memory that the pool has not yet may be asked for meanwhile.)
        stream.begin_capture()
        self._allocator.__enter__()
        capturing.begin(self._capture)

    def capture_end(self) -> None:
        """Stop writing down, and make it ready to run."""
        try:
            graph = self._stopped()
        except self._cupy.cuda.runtime.CUDARuntimeError as error:
            self.reset()
            raise _refusal(error) from error
        try:
            self._check(graph)
        except RuntimeError:
            self.reset()
            raise
        self._graph = graph

    def _stopped(self) -> Any:
        if self._capture is None or self._allocator is None:
            raise RuntimeError("CUDAGraph.capture_end: nothing is being captured; call capture_begin() first")
        capturing.end(self._capture)
        allocator, self._allocator = self._allocator, None
        allocator.__exit__(None, None, None)
        return self._stream.end_capture()

    def _check(self, graph: Any) -> None:
        """Refuse a graph that reads or writes the host's memory: arrays there may be gone when it is replayed."""
        for kind, source, target in _nodes(graph, self._cupy.cuda.runtime):
            if kind == _HOST_FUNCTION:
                raise RuntimeError(
                    "CUDAGraph: the host was asked to run something in between; do it after replay()"
                )
            if kind == _MEMCPY and not (source and target):
                raise RuntimeError(
                    "CUDAGraph: something was copied "
                    + ("from the GPU to the host" if source else "from the host to the GPU")
                    + " while it was captured (a tensor made of numbers, x.to('cuda'), x.cpu(), or a kernel that was "
                    "made only then). Make tensors before, copy_ into them before each replay, and " + WARM_UP
                )

    def replay(self) -> None:
        """Run it again, in the current stream."""
        if self._graph is None or self._capture is None:
            raise RuntimeError(
                "CUDAGraph.replay: nothing was captured; write `with torch.cuda.graph(g):` first"
            )
        self._capture.tell()
        self._graph.launch()

    def reset(self) -> None:
        """Forget what was captured, and give its memory back."""
        if self._allocator is not None:
            with contextlib.suppress(self._cupy.cuda.runtime.CUDARuntimeError):
                self._stopped()
        self._graph = self._capture = self._pool = self._stream = None

    def pool(self) -> Any:
        """Return the memory that it uses, for another graph that never runs at the same time."""
        if self._pool is None:
            raise RuntimeError("CUDAGraph.pool: nothing was captured yet")
        return self._pool

    def enable_debug_mode(self) -> None:
        """Do nothing: a graph can always be written down."""

    def debug_dump(self, debug_path: str) -> None:
        """Write it in Graphviz's language."""
        if self._graph is None:
            raise RuntimeError("CUDAGraph.debug_dump: nothing was captured")
        with open(debug_path, "w", encoding="utf-8") as file:
            file.write(self._graph.debug_dot_str())


def _refusal(error: BaseException) -> RuntimeError:
    """Return what to say when the driver did not let something be captured."""
    return RuntimeError(
        f"CUDAGraph: the block could not be captured ({error}). Something in it waited for the GPU or asked for a "
        "number (.item(), print(x), `if x:`, x.cpu(), indexing by a mask), or a kernel was made only then, or a "
        "library computed that cannot be captured (products by CuPy, where llvmlite is not installed: "
        f"pip install '.[cuda]'): leave that out, and {WARM_UP}"
    )


def _nodes(graph: Any, runtime: Any) -> list[tuple[int, bool, bool]]:
    """Return what a graph does: each node's kind, and of a copy whether it is from, and to, a GPU's memory."""
    driver, handle = ctypes.CDLL(DRIVER), ctypes.c_void_p(graph.graph)
    if not graph.graph:
        raise RuntimeError("CUDAGraph: this CuPy does not say what was captured; version 14 does")

    def call(name: str, *arguments: Any) -> None:
        if status := getattr(driver, name)(*arguments):
            raise RuntimeError(f"CUDAGraph: {name} of the driver failed with status {status}")

    count = ctypes.c_size_t()
    call("cuGraphGetNodes", handle, None, ctypes.byref(count))
    nodes = (ctypes.c_void_p * max(1, count.value))()
    call("cuGraphGetNodes", handle, nodes, ctypes.byref(count))
    found = []
    for node in nodes[: count.value]:
        kind, copy = ctypes.c_int(), _Memcpy()
        call("cuGraphNodeGetType", ctypes.c_void_p(node), ctypes.byref(kind))
        if kind.value == _MEMCPY:
            call("cuGraphMemcpyNodeGetParams", ctypes.c_void_p(node), ctypes.byref(copy))
        source = _is_there(copy.source_kind, copy.source_host, copy.source_device, runtime)
        target = _is_there(copy.target_kind, copy.target_host, copy.target_device, runtime)
        found.append((kind.value, source, target))
    return found


def _is_there(kind: int, host: int | None, device: int | None, runtime: Any) -> bool:
    """Tell whether one end of a copy is a GPU's memory. kind: the driver's word; 4 is any, by its address."""
    if kind in (1, 4):
        return int(runtime.pointerGetAttributes((host if kind == 1 else device) or 0).type) in _ON_DEVICE
    return True


class graph:
    """A context in which what is asked for is captured as a CUDAGraph, and not run.

    pool: another graph's memory (`g.pool()`) to share. stream: which to capture in; if left out, one that all graphs
    of a GPU are captured in. (Libraries keep memory to work in for each stream: so it is kept once.)
    """

    _streams: ClassVar[dict[int, Any]] = {}  # by the GPU's number

    def __init__(
        self, cuda_graph: CUDAGraph, pool: Any = None, stream: Any = None, capture_error_mode: str = "global"
    ) -> None:
        self.cuda_graph, self._given = cuda_graph, (pool, capture_error_mode)
        cupy = gpu.library()
        number = int(cupy.cuda.Device().id)
        if stream is None and number not in self._streams:
            self._streams[number] = cupy.cuda.Stream(non_blocking=True)
        self._stream = self._streams[number] if stream is None else stream.stream

    def __enter__(self) -> None:
        cupy = gpu.library()
        cupy.cuda.Device().synchronize()
        gc.collect()
        self._stream.__enter__()
        try:
            self.cuda_graph.capture_begin(*self._given)
        except BaseException:
            self._stream.__exit__(None, None, None)
            raise

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        try:
            if error is None:
                self.cuda_graph.capture_end()
                return
            self.cuda_graph.reset()
            if isinstance(error, gpu.library().cuda.runtime.CUDARuntimeError) or "captur" in str(error):
                raise _refusal(error) from error
        finally:
            self._stream.__exit__(None, None, None)


def graph_pool_handle() -> Any:
    """Return memory for graphs that never run at the same time: `graph(g, pool=…)`."""
    return gpu.library().cuda.MemoryPool()


def is_current_stream_capturing() -> bool:
    """Tell whether what is asked for is being captured as a graph.

    >>> is_current_stream_capturing()
    False
    """
    return gpu.gpu_count() > 0 and bool(gpu.library().cuda.get_current_stream().is_capturing())


# --- functions as graphs -----------------------------------------------------------------------------------------


def make_graphed_callables(
    callables: Any,
    sample_args: Any,
    num_warmup_iters: int = 3,
    allow_unused_input: bool = False,
    pool: Any = None,
) -> Any:
    """Return functions or Modules (a tuple of them, or one) whose forward and backward are replayed as CUDA graphs.

    sample_args: their arguments, Tensors of the shapes and with the requires_grad that later ones have. A Module is
    returned itself; in the other mode than now (train, eval) it computes as before.
    """
    several = isinstance(callables, tuple)
    functions = callables if several else (callables,)
    samples = sample_args if several else (sample_args,)
    if not all(isinstance(each, Tensor) for arguments in samples for each in arguments):
        raise RuntimeError("make_graphed_callables: sample_args must be Tensors alone, as later arguments")
    memory = graph_pool_handle() if pool is None else pool
    made = [
        _graphed(function, tuple(arguments), num_warmup_iters, allow_unused_input, memory)
        for function, arguments in zip(functions, samples, strict=True)
    ]
    return tuple(made) if several else made[0]


class _Pass(Function):
    """A function whose forward and whose backward are graphs; what is handed out are copies of what they write."""

    @staticmethod
    def forward(ctx: Any, captured: Any, *inputs: Any) -> Any:
        """Replay the forward graph on new inputs."""
        ctx.captured = captured
        for static, given in zip(captured.inputs, inputs, strict=False):
            if static.data_ptr() != given.data_ptr():
                static.copy_(given)
        captured.forward.replay()
        return tuple(each.detach().clone() for each in captured.outputs)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """Replay the backward graph on new gradients."""
        captured = ctx.captured
        for static, given in zip(captured.seeds, grads, strict=True):
            if static is not None and given is not None:
                static.copy_(given)
        captured.backward.replay()
        return None, *(None if each is None else each.detach().clone() for each in captured.grads)


class _Captured:
    """A function's graphs, and the tensors that they read and write. inputs: its arguments, then its parameters."""

    def __init__(self, function: Callable[..., Any], arguments: Any, unused: bool, memory: Any) -> None:
        parameters = tuple(function.parameters()) if hasattr(function, "parameters") else ()
        with enable_grad():
            self.forward, self.backward = CUDAGraph(), CUDAGraph()
            self.arguments, self.inputs = arguments, (*arguments, *parameters)
            with graph(self.forward, pool=memory):
                found = function(*arguments)
            self.is_tuple = isinstance(found, (tuple, list))
            self.kind = type(found)
            self.outputs = tuple(found) if self.is_tuple else (found,)
            self.seeds = [ones_like(each) if each.requires_grad else None for each in self.outputs]
            with graph(self.backward, pool=memory):
                self.grads = _gradients_of(self.outputs, self.inputs, self.seeds, unused)

    def __call__(self, *arguments: Any) -> Any:
        """Run it on new arguments."""
        found = _Pass.apply(self, *arguments, *self.inputs[len(self.arguments) :])
        return self.kind(found) if self.is_tuple else found[0]


def _gradients_of(outputs: Any, inputs: Any, seeds: Any, unused: bool) -> list[Any]:
    wanted = [each for each in inputs if each.requires_grad]
    pairs = [(each, seed) for each, seed in zip(outputs, seeds, strict=True) if seed is not None]
    if not wanted or not pairs:
        return [None] * len(inputs)
    roots, given = zip(*pairs, strict=True)
    found = iter(gradients(roots, wanted, given, allow_unused=unused))
    return [next(found) if each.requires_grad else None for each in inputs]


def _graphed(function: Any, arguments: Any, warm_ups: int, unused: bool, memory: Any) -> Any:
    if any(
        getattr(function, name, None) for name in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks")
    ):
        raise RuntimeError(
            "make_graphed_callables: a Module with hooks cannot be captured; remove them first"
        )
    cupy = gpu.library()
    parameters = tuple(function.parameters()) if hasattr(function, "parameters") else ()
    cupy.cuda.Device().synchronize()
    with cupy.cuda.Stream(non_blocking=True), enable_grad():
        for _ in range(max(warm_ups, LEAST_WARM_UPS)):
            found = function(*arguments)
            outputs = tuple(found) if isinstance(found, (tuple, list)) else (found,)
            seeds = [ones_like(each) if each.requires_grad else None for each in outputs]
            _gradients_of(outputs, (*arguments, *parameters), seeds, unused)
            del found, outputs, seeds
    cupy.cuda.Device().synchronize()
    captured = _Captured(function, arguments, unused, memory)
    if not hasattr(function, "forward"):
        return captured
    plain, training = function.forward, function.training

    def forward(*given: Any) -> Any:
        return (captured if function.training == training else plain)(*given)

    function.forward = forward
    return function
