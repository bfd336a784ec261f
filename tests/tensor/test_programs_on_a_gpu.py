"""What programs written for a GPU expect, on a real one, beside PyTorch's. Skipped where there is none."""

import numpy as np
import pytest

import minitorch
from minitorch import nn
from minitorch.tensor import philox
from pytorch import torch
from small_nets import training_step

cupy = pytest.importorskip("cupy")
if not minitorch.cuda.is_available() or not torch.cuda.is_available():
    pytest.skip("there is no GPU, or PyTorch finds none", allow_module_level=True)

SIZES = (1, 5, 257, 1000, 1002, 100003, 3000001)
# Which are the same bit for bit, and which to rounding.
EXACT = {
    "rand": lambda t, n: t.rand(n, device="cuda"),
    "rand64": lambda t, n: t.rand(n, device="cuda", dtype=t.float64),
    "rand16": lambda t, n: t.rand(n, device="cuda", dtype=t.float16),
    "randint": lambda t, n: t.randint(3, 1000, (n,), device="cuda"),
    "wide randint": lambda t, n: t.randint(0, 1 << 40, (n,), device="cuda"),
    "middle randint": lambda t, n: t.randint(0, 1 << 30, (n,), device="cuda"),
    "uniform_": lambda t, n: t.empty(n, device="cuda").uniform_(-3, 5),
    "bernoulli_": lambda t, n: t.empty(n, device="cuda").bernoulli_(0.3),
    "random_": lambda t, n: t.empty(n, device="cuda").random_(100),
    "dropout": lambda t, n: t.nn.functional.dropout(t.ones(n, device="cuda"), 0.25),
    "rand_like": lambda t, n: t.rand_like(t.ones(n, device="cuda")),
}
ROUNDED = {
    "randn": lambda t, n: t.randn(n, device="cuda"),
    "randn64": lambda t, n: t.randn(n, device="cuda", dtype=t.float64),
    "normal_": lambda t, n: t.empty(n, device="cuda").normal_(1, 3),
    "exponential_": lambda t, n: t.empty(n, device="cuda").exponential_(2.0),
    "geometric_": lambda t, n: t.empty(n, device="cuda").geometric_(0.3),
    "log_normal_": lambda t, n: t.empty(n, device="cuda").log_normal_(),
    "normal": lambda t, n: t.normal(t.zeros(n, device="cuda"), 2.0),
}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("name", [*EXACT, *ROUNDED])
def test_the_same_numbers_as_pytorchs_cuda_generator(name, size):
    call = (EXACT | ROUNDED)[name]
    torch.manual_seed(7)
    minitorch.manual_seed(7)
    for _ in range(2):  # the second draw begins where the first ended
        mine, theirs = call(minitorch, size).cpu().numpy(), call(torch, size).cpu().numpy()
        assert mine.dtype == theirs.dtype
        if name in EXACT:
            np.testing.assert_array_equal(mine, theirs)
        else:
            np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)
    assert minitorch.cuda.get_rng_state().tolist() == torch.cuda.get_rng_state().tolist()


@pytest.mark.parametrize("kind", philox.KINDS)
@pytest.mark.parametrize("beside", [1, 2, 4])
def test_the_kernel_draws_what_the_lines_say(kind, beside):
    if beside > philox.numbers_of(kind):
        pytest.skip("a thread draws fewer at once")
    for count in (1, 1000, 2_000_003):
        plan = philox.layout(count, philox.numbers_of(kind), 132 * 2048, beside)
        there = philox.draw_there(cupy, kind, 2**40 + 5, 8, count, plan).get()
        here = philox.draw(kind, 2**40 + 5, 8, count, plan)
        if kind.startswith("normals"):
            np.testing.assert_allclose(there, here, rtol=1e-4, atol=1e-5)
        else:
            np.testing.assert_array_equal(there, here)


def test_memory_shared_with_pytorch():
    theirs = torch.arange(3.0, device="cuda")
    mine = minitorch.from_dlpack(theirs)
    mine[0] = 7.0
    assert theirs.tolist() == [7.0, 1.0, 2.0]
    back = torch.from_dlpack(mine)
    back += 1
    assert mine.tolist() == [8.0, 2.0, 3.0]
    assert back.data_ptr() == theirs.data_ptr() == mine.data_ptr()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):  # which is told to wait for what was asked for before
        assert torch.from_dlpack(minitorch.ones(1 << 22, device="cuda") * 3).sum().item() == 3 * 2**22


def test_streams_events_and_timing():
    cuda = minitorch.cuda
    x = minitorch.rand(1 << 24, device="cuda")
    begin, end = (cuda.Event(enable_timing=True) for _ in range(2))
    side = cuda.Stream()
    begin.record()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        assert cuda.current_stream() == side
        y = x * 2
        end.record()
    cuda.current_stream().wait_stream(side)
    assert bool((y == x * 2).all())
    assert 0 < begin.elapsed_time(end) < 10_000
    cuda.synchronize()
    assert side.query()
    assert end.query()
    with pytest.raises(RuntimeError, match="enable_timing"):
        begin.elapsed_time(side.record_event())


def test_memory_figures():
    cuda = minitorch.cuda
    cuda.empty_cache()
    before = cuda.memory_allocated()
    cuda.reset_peak_memory_stats()
    x = minitorch.zeros(1 << 20, device="cuda")
    assert cuda.memory_allocated() - before == 1 << 22
    y = x + 1
    del y
    assert cuda.max_memory_allocated() - before == 1 << 23
    assert cuda.memory_reserved() >= cuda.memory_allocated()
    free, total = cuda.mem_get_info()
    assert 0 < free < total == cuda.get_device_properties().total_memory
    assert cuda.get_device_name() == torch.cuda.get_device_name()
    assert cuda.get_device_capability() == torch.cuda.get_device_capability()


def test_out_of_memory():
    x = minitorch.ones(3, device="cuda", requires_grad=True)
    y = (x * 2).sum()
    with pytest.raises(
        minitorch.cuda.OutOfMemoryError, match=r"zeros\(1125899906842624,\).*CUDA out of memory.*Free are"
    ):
        minitorch.zeros(1 << 50, device="cuda", dtype=minitorch.uint8)
    wide = minitorch.ones(1, 1, device="cuda").expand(1 << 20, 1 << 20)
    with pytest.raises(minitorch.cuda.OutOfMemoryError, match=r"(add|exp).*out of memory"):
        wide + 1
    y.backward()
    assert x.grad.get().tolist() == [2.0] * 3


def test_mixed_devices():
    here, there = minitorch.ones(3), minitorch.ones(3, device="cuda")
    for mix in (
        lambda: here + there,
        lambda: there @ here,
        lambda: minitorch.cat([here, there]),
        lambda: minitorch.where(there > 0, here, there),
        lambda: nn.Linear(3, 2)(there),
    ):
        with pytest.raises(RuntimeError, match="Expected all tensors to be on the same device"):
            mix()
    scale = minitorch.tensor(3.0, requires_grad=True)
    (there * scale).sum().backward()
    assert scale.grad.tolist() == 3.0


def test_pinned_memory():
    x = minitorch.arange(1000.0).pin_memory()
    assert x.is_pinned()
    assert not minitorch.ones(3).is_pinned()
    assert x.to("cuda", non_blocking=True).cpu().tolist() == list(range(1000))
    loader = minitorch.utils.data.DataLoader(
        minitorch.utils.data.TensorDataset(minitorch.arange(6.0)), batch_size=2, pin_memory=True
    )
    assert [batch.is_pinned() for (batch,) in loader] == [True] * 3


def trained(device, steps=5):
    minitorch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 5)).to(device)
    optimizer = minitorch.optim.AdamW(model.parameters(), lr=1e-2)
    x, labels = minitorch.randn(32, 20).to(device), minitorch.randint(0, 5, (32,)).to(device)
    step = training_step(model, optimizer)
    return model, optimizer, [step(x, labels).item() for _ in range(steps)]


def test_training_as_on_the_cpu():
    np.testing.assert_allclose(trained("cuda")[2], trained("cpu")[2], rtol=1e-4)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_autocast(dtype):
    if dtype == "bfloat16" and not minitorch.cuda.is_bf16_supported():
        pytest.skip("this CuPy has no bfloat16")
    minitorch.manual_seed(0)
    layer, x = nn.Linear(64, 32, device="cuda"), minitorch.randn(16, 64, device="cuda")
    with minitorch.autocast("cuda", dtype=getattr(minitorch, dtype)):
        out = layer(x)
    assert out.dtype == getattr(minitorch, dtype)
    assert out.is_cuda
    out.float().sum().backward()
    np.testing.assert_allclose(out.float().cpu().detach().numpy(), layer(x).cpu().detach().numpy(), atol=0.05)
    assert layer.weight.grad.dtype == np.float32


def test_checkpoints(tmp_path):
    model, optimizer, _ = trained("cuda", 2)
    minitorch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "x.npz")
    for place, found in (("cpu", "cpu"), ("cuda:0", "cuda:0"), (None, "cpu")):
        loaded = minitorch.load(tmp_path / "x.npz", map_location=place)
        assert {t.device for t in loaded["model"].values()} == {found}
    torch.save({"w": torch.ones(3, device="cuda")}, tmp_path / "y.pt")
    assert minitorch.load(tmp_path / "y.pt", map_location="cuda")["w"].is_cuda
    assert minitorch.load(tmp_path / "y.pt", map_location="cpu")["w"].is_cpu


def test_default_devices_and_modules():
    with minitorch.device("cuda"):
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.1), nn.Linear(4, 1))
        out = model(minitorch.randn(8, 3))
    assert out.device == "cuda:0" == model[0].weight.device
    out.sum().backward()
    assert repr(minitorch.zeros(2, device="cuda")) == "tensor([0., 0.], device='cuda:0')"
