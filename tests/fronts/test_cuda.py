"""What programs ask of GPUs where there is none, beside PyTorch's names; and on GPUs that do not exist."""

import ctypes
import importlib
import sys

import pytest

import minitorch
import standin_cupy
from minitorch.cuda import management
from pytorch import torch

# What PyTorch has and this library has not, by address: docs/coming-from-pytorch.md says so.
STORAGES = {
    f"{kind}Storage"
    for kind in ["BFloat16", "Bool", "Byte", "Char", "ComplexDouble", "ComplexFloat", "Double", "Float"]
}
STORAGES |= {f"{kind}Storage" for kind in ["Half", "Int", "Long", "Short"]}
HOST = {"host_memory_stats", "host_memory_stats_as_nested_dict", "reset_accumulated_host_memory_stats"}
ALLOCATORS = {"CUDAPluggableAllocator", "caching_allocator_disabled", "caching_allocator_enable"}
ALLOCATORS |= {"change_current_allocator", "reset_peak_host_memory_stats", *HOST}
ABSENT = {
    "cuda": {"BFloat16Tensor", "GreenContext", "cudaStatus", "current_solver_handle", "jiterator", "nccl", "sparse",
             "tunable", *ALLOCATORS, *STORAGES},
    "cuda.memory": ALLOCATORS,
    "cuda.random": set(),
    "cuda.graphs": set(),
    "cuda.nvtx": {"range_start", "range_end"},
    "cuda.profiler": set(),
    "cuda.amp": set(),
    "amp": set(),
    "backends.cuda": {"blas_workspace_size", "cuBLASModule", "cuFFTPlanCache", "cuFFTPlanCacheAttrContextProp",
                      "cuFFTPlanCacheManager", "cublas_workspace_size", "cublaslt_workspace_size",
                      "is_ck_sdpa_available", "preferred_rocm_fa_library"},
    "accelerator": {"Graph"},
    "cpu": {"Event", "StreamContext", "get_capabilities"},
}  # fmt: skip


@pytest.mark.parametrize("address", ABSENT)
def test_names_of_pytorch(address):
    theirs = importlib.import_module(f"torch.{address}")
    mine = minitorch
    for part in address.split("."):
        mine = getattr(mine, part)
    names = getattr(theirs, "__all__", [name for name in vars(theirs) if name[0] != "_"])
    assert {name for name in names if not hasattr(mine, name)} <= ABSENT[address]


@pytest.fixture
def cupy(monkeypatch):
    return standin_cupy.installed(monkeypatch)


@pytest.mark.skipif(minitorch.cuda.is_available(), reason="a GPU is here")
def test_without_a_gpu():
    m = minitorch
    assert m.version.cuda is None
    assert m.accelerator.current_accelerator() is None
    assert m.get_device_module() is m.cpu
    assert m.backends.cudnn.version() is None
    assert not m.backends.cudnn.is_available()
    assert not m.backends.cuda.is_built()
    assert m.cuda.default_generators == ()
    assert m.cuda.get_arch_list() == []
    assert m.cuda.memory.memory_allocated() == m.accelerator.memory_allocated() == 0
    assert m.cuda.amp.common.amp_definitely_not_available()
    for ask in (
        *(
            m.cuda.utilization,
            m.cuda.temperature,
            m.cuda.power_draw,
            m.cuda.clock_rate,
            m.cuda.list_gpu_processes,
        ),
        *(m.cuda.CUDAGraph, m.cuda.mem_get_info, m.cuda.cudart, lambda: m.cuda._sleep(1), m.cuda.MemPool),
        lambda: m.cuda.make_graphed_callables(m.nn.Linear(1, 1), (m.ones(1, 1),)),
    ):
        with pytest.raises(RuntimeError, match="cuda: .*GPU"):
            ask()
    with pytest.raises(NotImplementedError, match="max_memory_allocated"):
        m.cuda.memory_snapshot()
    with pytest.warns(UserWarning, match="not told"):
        m.cuda.set_sync_debug_mode("warn")


def test_attention_kernels_are_remembered():
    for lib in (minitorch, torch):
        cuda = lib.backends.cuda
        assert all((cuda.flash_sdp_enabled(), cuda.math_sdp_enabled(), cuda.mem_efficient_sdp_enabled()))
        cuda.enable_mem_efficient_sdp(False)
        assert not cuda.mem_efficient_sdp_enabled()
        cuda.enable_mem_efficient_sdp(True)
        with lib.nn.attention.sdpa_kernel(lib.nn.attention.SDPBackend.MATH):
            assert (cuda.math_sdp_enabled(), cuda.flash_sdp_enabled(), cuda.cudnn_sdp_enabled()) == (
                True,
                False,
                False,
            )
        assert cuda.flash_sdp_enabled()
    with minitorch.backends.cuda.sdp_kernel(enable_flash=False):
        assert not minitorch.backends.cuda.flash_sdp_enabled()
    assert minitorch.backends.cpu.get_cpu_capability() in ("AVX512", "AVX2", "DEFAULT")
    assert minitorch.backends.cuda.preferred_linalg_library("cusolver") == "cusolver"
    with pytest.raises(RuntimeError, match="not 'mine'"):
        minitorch.backends.cuda.preferred_linalg_library("mine")
    minitorch.backends.cuda.preferred_linalg_library("default")


def test_generators_that_go_on_from_another():
    drawn = []
    for kind in (minitorch, torch):
        first = kind.Generator().manual_seed(4)
        second = first.clone_state()
        drawn += [kind.rand(2, generator=each).tolist() for each in (first, second)]
    assert drawn[0] == drawn[1] == drawn[2] == drawn[3]
    first = minitorch.Generator().manual_seed(5)
    second.manual_seed(5)
    other = minitorch.Generator()
    other.graphsafe_set_state(first)
    assert minitorch.rand(2, generator=other).tolist() == torch.rand(2, generator=second).tolist()


def test_with_gpus(cupy):
    m = minitorch
    cupy.cuda.runtime.runtimeGetVersion = lambda: 13000
    assert m.version.cuda == "13.0"
    assert m.accelerator.current_accelerator() == "cuda"
    assert m.get_device_module() is m.cuda
    assert m.get_device_module("cpu") is m.cpu
    with pytest.raises(RuntimeError, match="get_device_module"):
        m.get_device_module("xpu")
    assert m.cuda.get_arch_list() == ["sm_90"]
    assert m.cuda.get_gencode_flags() == "-gencode compute=compute_90,code=sm_90"
    assert len(m.cuda.default_generators) == 2
    assert repr(m.cuda.get_device_properties(1)).startswith(
        "_CudaDeviceProperties(name='Stand-in 1', major=9"
    )
    with m.accelerator.device_index(1):
        assert m.accelerator.current_device_index() == 1
    storage = m.ones(2, device="cuda:1").untyped_storage()
    assert (storage.get_device(), m.ones(2).untyped_storage().get_device()) == (1, -1)
    assert storage.to(device="cpu").device == "cpu"
    assert m.ones(2).untyped_storage().pin_memory().is_pinned()
    side = m.cuda.Stream()
    assert side.__cuda_stream__() == (0, side.cuda_stream)
    assert ctypes.c_void_p(side.cuda_stream).value == side._as_parameter_.value


def test_figures_of_the_drivers_library(cupy, monkeypatch):
    cupy.cuda.runtime.deviceGetPCIBusId = lambda number: f"0000:0{number}:00.0"

    class Library:
        """Writes a figure into what it is given."""

        asked = None

        def nvmlDeviceGetHandleByPciBusId_v2(self, address, handle):
            self.asked = address
            return 0

        def nvmlDeviceGetUtilizationRates(self, handle, rates):
            rates._obj.gpu, rates._obj.memory = 71, 12
            return 0

        def nvmlDeviceGetTemperature(self, handle, kind, answer):
            answer._obj.value = 40 + kind
            return 0

        def nvmlDeviceGetPowerUsage(self, handle, answer):
            return 3

        def nvmlDeviceGetComputeRunningProcesses_v3(self, handle, count, processes):
            if count._obj.value < 100:
                return 7
            processes._obj[0].pid, processes._obj[0].used = 42, 3 << 20
            count._obj.value = 1
            return 0

    library = Library()
    monkeypatch.setattr(management, "_library", lambda: library)
    cuda = minitorch.cuda
    assert (cuda.utilization(1), cuda.memory_usage(), cuda.temperature()) == (71, 12, 40)
    cuda.utilization(1)
    assert library.asked == b"0000:01:00.0"
    with pytest.raises(RuntimeError, match="nvmlDeviceGetPowerUsage .*failed with status 3"):
        cuda.power_draw()
    assert cuda.list_gpu_processes().splitlines() == [
        "GPU:0",
        "process         42 uses        3.000 MB GPU memory",
    ]


def test_addresses_can_be_imported():
    from minitorch.cuda.graphs import CUDAGraph
    from minitorch.cuda.memory import memory_allocated
    from minitorch.cuda.random import manual_seed
    from minitorch.cuda.streams import Stream

    assert (CUDAGraph, Stream) == (minitorch.cuda.CUDAGraph, minitorch.cuda.Stream)
    assert (memory_allocated, manual_seed) == (minitorch.cuda.memory_allocated, minitorch.cuda.manual_seed)
    assert sys.modules["minitorch.accelerator.memory"] is minitorch.accelerator
