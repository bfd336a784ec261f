"""What programs written for a GPU expect, on GPUs that do not exist (tests/support/standin_cupy.py)."""

import io
import warnings
import zipfile

import numpy as np
import pytest

import minitorch
import standin_cupy
from minitorch import nn
from minitorch.engine import gpu
from minitorch.tensor import generator, philox
from minitorch.tensor.torch_types import use_pytorchs_types
from pytorch import torch
from standin import DeviceArray

CREATED = {
    "tensor": lambda **o: minitorch.tensor([[1.0, 2.0]], **o),
    "as_tensor": lambda **o: minitorch.as_tensor(np.ones((2, 2)), **o),
    "asarray": lambda **o: minitorch.asarray([1, 2], **o),
    "zeros": lambda **o: minitorch.zeros(2, 3, **o),
    "ones": lambda **o: minitorch.ones((2, 3), dtype=minitorch.int64, **o),
    "empty": lambda **o: minitorch.empty(3, **o).fill_(2),
    "full": lambda **o: minitorch.full((2,), 7, **o),
    "eye": lambda **o: minitorch.eye(3, **o),
    "arange": lambda **o: minitorch.arange(1, 7, 2, **o),
    "linspace": lambda **o: minitorch.linspace(0, 1, 5, **o),
    "logspace": lambda **o: minitorch.logspace(0, 1, 5, **o),
    "scalar_tensor": lambda **o: minitorch.scalar_tensor(3, **o),
    "zeros_like": lambda **o: minitorch.zeros_like(minitorch.tensor([1.0, 2.0], device="cuda"), **o),
    "new_zeros": lambda **o: minitorch.tensor([1.0], device="cuda").new_zeros(2, **o),
    "new_full": lambda **o: minitorch.tensor([1.0], device="cuda").new_full((2,), 3.0, **o),
    "new_tensor": lambda **o: minitorch.tensor([1.0], device="cuda").new_tensor([1, 2], **o),
    "tril_indices": lambda **o: minitorch.tril_indices(3, 3, **o),
    "hann_window": lambda **o: minitorch.hann_window(4, **o),
}
DRAWN = {
    "rand": lambda **o: minitorch.rand(3, 5, **o),
    "randn": lambda **o: minitorch.randn(7, **o),
    "randint": lambda **o: minitorch.randint(0, 10, (8,), **o),
    "randperm": lambda **o: minitorch.randperm(9, **o),
    "normal": lambda **o: minitorch.normal(1.0, 2.0, (4,), **o),
    "rand_like": lambda **o: minitorch.rand_like(minitorch.zeros(3, device="cuda:1"), **o),
}


@pytest.fixture
def cupy(monkeypatch):
    return standin_cupy.installed(monkeypatch)


@pytest.mark.parametrize("name", CREATED)
def test_tensors_are_made_on_a_device(cupy, name):
    expected = CREATED[name](device="cpu").numpy()
    for device in ("cuda", minitorch.device("cuda", 1), "cuda:1"):
        made = CREATED[name](device=device)
        number = 0 if device == "cuda" else 1
        assert isinstance(made._data, DeviceArray)
        assert made.device == f"cuda:{number}"
        assert made.get_device() == number
        assert made.is_cuda
        np.testing.assert_array_equal(made.cpu().numpy(), expected)
        assert made.dtype == expected.dtype


@pytest.mark.parametrize("name", CREATED)
def test_the_default_device(cupy, name):
    if name.startswith(("new_", "zeros_like")):  # where the other tensor is
        with minitorch.device("cuda:1"):
            assert CREATED[name]().device == "cuda:0"
            assert minitorch.ones_like(minitorch.ones(1, device="cpu")).is_cpu
        return
    with minitorch.device("cuda:1"):
        assert CREATED[name]().device == "cuda:1"
        with minitorch.device("cpu"):
            assert CREATED[name]().is_cpu
        assert CREATED[name](device="cpu").is_cpu
    assert CREATED[name]().is_cpu
    minitorch.set_default_device("cuda")
    try:
        assert CREATED[name]().device == "cuda:0" == minitorch.get_default_device()
    finally:
        minitorch.set_default_device(None)
    assert CREATED[name]().is_cpu
    assert minitorch.get_default_device() == "cpu"


def test_nothing_is_drawn_or_made_on_the_host_for_a_device(cupy):
    (
        minitorch.zeros(100, device="cuda"),
        minitorch.full((9,), 1.0, device="cuda"),
        minitorch.rand(50, device="cuda"),
    )
    nn.Dropout(0.5)(minitorch.ones(30, device="cuda"))
    assert cupy.copies == []


def test_modules_are_made_and_moved_there(cupy):
    minitorch.manual_seed(0)
    layer = nn.Linear(3, 2, device="cuda:1")
    assert layer.weight.device == layer.bias.device == "cuda:1"
    with minitorch.device("cuda"):
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    assert {t.device for t in model.state_dict().values()} == {"cuda:0"}
    assert {t.device for t in model.to("cuda:1", non_blocking=True).state_dict().values()} == {"cuda:1"}
    assert {t.device for t in model.cuda(0).parameters()} == {"cuda:0"}
    x = minitorch.randn(5, 3, device="cuda")
    model(x).sum().backward()
    assert all(isinstance(p.grad, DeviceArray) for p in model.parameters())


def test_moving(cupy):
    x = minitorch.tensor([1.0, 2.0], requires_grad=True)
    there = x.to("cuda:1", non_blocking=True)
    assert there.device == "cuda:1"
    assert there.to("cuda:1") is there
    assert there.to("cuda").device == "cuda:0"  # the GPU in use
    assert x.to(1).device == "cuda:1"
    assert x.to("cuda", minitorch.float64, True).dtype == minitorch.float64
    (there.to("cuda:0") * 3).sum().cpu().backward()
    np.testing.assert_array_equal(x.grad, [3, 3])
    assert repr(minitorch.zeros(2, device="cuda")) == "tensor([0., 0.], device='cuda:0')"
    assert minitorch.zeros(2, device="cuda").type() == "torch.cuda.FloatTensor"
    with pytest.raises(RuntimeError, match=r"no 'cuda:5': the last of 2 GPUs is 'cuda:1'"):
        x.to("cuda:5")
    assert minitorch.Tensor([1.0], device="cuda").device == "cuda:0"


def test_waiting_for_a_copy_or_not(cupy):
    x = minitorch.ones(3).pin_memory()
    x.to("cuda"), x.to("cuda", non_blocking=True)
    assert [blocking for _, blocking in cupy.copies] == [True, False]


def test_pinned_memory(cupy):
    x = minitorch.tensor([1.0, 2.0])
    pinned = x.pin_memory()
    assert not x.is_pinned()
    assert pinned.is_pinned()
    assert pinned.pin_memory() is pinned
    assert pinned.tolist() == [1.0, 2.0]
    assert minitorch.zeros(3, pin_memory=True).is_pinned()
    with pytest.raises(RuntimeError, match="on 'cuda:0'"):
        x.cuda().pin_memory()
    data = minitorch.utils.data.TensorDataset(minitorch.arange(4.0), minitorch.arange(4))
    for workers in (0, 2):
        loader = minitorch.utils.data.DataLoader(data, batch_size=2, pin_memory=True, num_workers=workers)
        assert all(part.is_pinned() for batch in loader for part in batch)


# --- random numbers ---


@pytest.mark.parametrize("name", DRAWN)
def test_draws_there_follow_the_seed(cupy, name):
    device = "cuda:1" if name == "rand_like" else "cuda"
    minitorch.manual_seed(3)
    first, second = DRAWN[name](device=device), DRAWN[name](device=device)
    assert first.device.type == "cuda"
    assert isinstance(first._data, DeviceArray)
    assert first.tolist() != second.tolist()
    minitorch.manual_seed(3)
    assert DRAWN[name](device=device).tolist() == first.tolist()
    with minitorch.device(device):
        minitorch.cuda.manual_seed_all(3)
        assert DRAWN[name]().tolist() == first.tolist()


def test_numbers_of_pytorchs_cuda_generator(cupy):
    # torch.manual_seed(0); torch.rand(3, device="cuda"), and torch.randn: as PyTorch prints them everywhere.
    minitorch.manual_seed(0)
    assert minitorch.rand(3, device="cuda").cpu().numpy().round(4).tolist() == pytest.approx(
        [0.3990, 0.5167, 0.0249]
    )
    minitorch.manual_seed(0)
    drawn = minitorch.randn(4, device="cuda").cpu().numpy()
    np.testing.assert_allclose(drawn, [-0.9247, -0.4253, -2.6438, 0.1452], atol=1e-4)


def test_the_offset_counts_what_every_thread_drew(cupy):
    source = minitorch.Generator("cuda").manual_seed(7)
    minitorch.rand(3000001, generator=source, device="cuda")
    assert source.get_offset() == 12
    assert source.initial_seed() == 7
    state = source.get_state()
    assert state.view(np.uint64).tolist() == [7, 12]
    first = minitorch.rand(5, generator=source, device="cuda")
    source.set_state(state)
    assert minitorch.rand(5, generator=source, device="cuda").tolist() == first.tolist()
    with pytest.raises(RuntimeError, match="multiple of 4"):
        source.set_offset(3)


def test_numbers_beside_each_other_and_far_apart():
    # The layouts draw the same numbers, in another order.
    far, near = (philox.layout(2048, 4, 256, beside) for beside in (1, 4))
    a, b = (philox.draw("words", 5, 0, 2048, plan) for plan in (far, near))
    assert a.tolist() != b.tolist()
    assert sorted(a.tolist()) == sorted(b.tolist())
    assert far == philox.Layout(256, 2, 4, 1)
    assert a[256] == b[1]


def test_fills_and_distributions_there(cupy):
    minitorch.manual_seed(1)
    x = minitorch.empty(4001, device="cuda")
    assert abs(x.uniform_(-1, 3).mean().item() - 1) < 0.1
    assert x.min().item() >= -1
    assert x.max().item() < 3
    assert abs(x.normal_(2, 3).std().item() - 3) < 0.2
    assert abs(x.bernoulli_(0.25).mean().item() - 0.25) < 0.05
    assert abs(x.exponential_(4.0).mean().item() - 0.25) < 0.03
    assert abs(x.geometric_(0.5).mean().item() - 2) < 0.2
    assert x.random_(5).max().item() == 4
    assert x.cauchy_().isfinite().all()
    assert (x.log_normal_() > 0).all()
    rates = minitorch.full((2000,), 4.0, device="cuda")
    assert abs(minitorch.poisson(rates).mean().item() - 4) < 0.3
    assert abs(minitorch.distributions.Gamma(rates, 2.0).sample().mean().item() - 2) < 0.2
    chances = minitorch.tensor([[0.0, 1.0, 3.0]], device="cuda")
    assert abs((chances.multinomial(1000, replacement=True) == 2).float().mean().item() - 0.75) < 0.06
    nn.init.trunc_normal_(x), nn.init.kaiming_uniform_(x.view(1, -1)), nn.init.orthogonal_(x[:12].view(3, 4))
    assert x.is_cuda
    with pytest.raises(RuntimeError, match=r"rand: a generator on 'cpu' draws no numbers on 'cuda'"):
        minitorch.rand(3, device="cuda", generator=minitorch.Generator())


def test_states_of_generators(cupy):
    minitorch.manual_seed(5)
    minitorch.rand(3, device="cuda:1")
    state = minitorch.cuda.get_rng_state("cuda:1")
    assert state.dtype == np.uint8
    assert state.shape == (16,)
    before = minitorch.rand(4, device="cuda:1")
    minitorch.cuda.set_rng_state(state, 1)
    assert minitorch.rand(4, device="cuda:1").tolist() == before.tolist()
    everything = minitorch.cuda.get_rng_state_all()
    with minitorch.random.fork_rng():
        minitorch.rand(3, device="cuda:1")
    assert [s.tolist() for s in minitorch.cuda.get_rng_state_all()] == [s.tolist() for s in everything]
    minitorch.cuda.set_rng_state_all(everything)
    minitorch.cuda.manual_seed(11)
    assert minitorch.cuda.initial_seed() == 11
    assert generator.device_generators[1].initial_seed() == 5
    minitorch.cuda.seed_all()
    assert minitorch.cuda.initial_seed() == generator.device_generators[1].initial_seed() != 11


# --- streams, events, memory ---


def test_streams_and_events(cupy):
    side = minitorch.cuda.Stream()
    assert minitorch.cuda.current_stream() == minitorch.cuda.default_stream() != side
    with minitorch.cuda.stream(side):
        assert minitorch.cuda.current_stream() == side
    side.wait_stream(minitorch.cuda.current_stream())
    assert side.stream.log == [("wait", cupy.cuda.Stream.null)]
    side.synchronize()
    x = minitorch.ones(2, device="cuda")
    x.record_stream(side)
    assert gpu._used_elsewhere[-1][1] is x._data
    begin, end = (minitorch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record(), end.record(side)
    assert begin.elapsed_time(end) >= 0
    assert end.query()
    assert side.query()
    with pytest.raises(RuntimeError, match="enable_timing=True"):
        begin.elapsed_time(side.record_event())
    minitorch.cuda.synchronize(), minitorch.cuda.synchronize("cuda:1")
    with minitorch.cuda.device(1):
        assert minitorch.cuda.current_device() == 1
        assert minitorch.zeros(1, device="cuda").device == "cuda:1"
    with minitorch.cuda.device_of(minitorch.zeros(1, device="cuda:1")):
        assert minitorch.cuda.current_device() == 1
    assert minitorch.cuda.current_device() == 0


def test_memory_and_properties(cupy):
    cuda = minitorch.cuda
    cupy.used, cupy.taken = 100, 400
    assert (cuda.memory_allocated(), cuda.memory_reserved(), cuda.max_memory_allocated()) == (100, 400, 400)
    cuda.reset_peak_memory_stats()
    (counter,) = cupy.cuda.MemoryHook.active
    counter.malloc_postprocess(device_id=0, size=50, mem_size=64, mem_ptr=0, pmem_id=0)
    counter.free_postprocess(device_id=0, mem_size=64, mem_ptr=0, pmem_id=0)
    assert cuda.max_memory_allocated() == 164
    assert cuda.memory_stats()["allocated_bytes.all.peak"] == 164
    counter.__exit__()
    cuda.memory._peaks.clear()
    cuda.empty_cache()
    assert cuda.memory_reserved() == 100
    assert "allocated_bytes.all.current" in cuda.memory_summary()
    assert cuda.get_device_name(1) == "Stand-in 1"
    assert cuda.get_device_capability() == (9, 0)
    assert cuda.get_device_properties("cuda:0").total_memory == cuda.mem_get_info()[1] == 1 << 34
    assert cuda.device_count() == 2
    assert cuda.is_available()


# --- errors ---


def test_mixed_devices_are_named(cupy):
    here, there = minitorch.ones(3), minitorch.ones(3, device="cuda:1")
    with pytest.raises(RuntimeError, match=r"add\(.*'cpu' and 'cuda:1'\. Write x\.to\('cuda:1'\)"):
        here + there
    with pytest.raises(RuntimeError, match=r"matmul.*same device"):
        there @ here
    with pytest.raises(RuntimeError, match="same device"):
        minitorch.where(there > 0, here, there)


def test_a_number_on_the_cpu_goes_along(cupy):
    there = minitorch.tensor([1.0, 2.0], device="cuda", requires_grad=True)
    scale = minitorch.tensor(3.0, requires_grad=True)
    for product in (there * scale, scale * there):
        there.grad = scale.grad = None
        product.sum().backward()
        assert isinstance(there.grad, DeviceArray)
        assert isinstance(scale.grad, np.ndarray)
        assert (there.grad.host.tolist(), scale.grad.tolist()) == ([3.0, 3.0], 3.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda x, n: minitorch.where(x > 1, n, x),
        lambda x, n: minitorch.where(n > 1, x, x * 2),
        lambda x, n: x.masked_fill(x > 1, n),
        lambda x, n: x.clamp(-n, n),
        lambda x, n: minitorch.lerp(x, x * 2, n),
        lambda x, n: minitorch.maximum(x, n),
    ],
)
def test_a_number_on_the_cpu_goes_along_with_several(cupy, call):
    found = []
    for device in ("cuda", "cpu"):
        x = minitorch.tensor([0.5, 2.0, 3.0], device=device, requires_grad=True)
        number = minitorch.tensor(1.5, requires_grad=True)
        call(x, number).sum().backward()
        found.append([x.grad.get() if device == "cuda" else x.grad, number.grad])
    for mine, other in zip(*found, strict=True):
        assert (mine is None) == (other is None)
        assert other is None or np.array_equal(mine, other)


@pytest.mark.parametrize("base", [2, True, 2.0])
def test_a_number_to_whole_powers_there(cupy, base):
    exponents = [3, 0, 5] if base is True else [3, -1, 5]
    for given in (base, minitorch.tensor(base)):
        there = given ** minitorch.tensor(exponents, device="cuda")
        here = given ** minitorch.tensor(exponents)
        assert (there.device, there.dtype, there.tolist()) == ("cuda:0", here.dtype, here.tolist())


def test_out_of_memory_says_what_was_asked_and_loses_nothing(cupy):
    x = minitorch.ones(1000, device="cuda", requires_grad=True)
    y = (x * 2).sum()
    cupy.limit = 2000
    for make in (lambda: minitorch.zeros(10**6, device="cuda"), lambda: minitorch.ones(1000).to("cuda")):
        with pytest.raises(
            minitorch.cuda.OutOfMemoryError, match=r"out of memory.*bytes.*Free are 2,000 of 17,179"
        ):
            make()
    cupy.limit = 1 << 30
    y.backward()
    assert x.grad.host.tolist() == [2.0] * 1000


def test_memory_that_runs_out_inside_an_op_or_a_rule(cupy):
    def full(*args):
        raise standin_cupy.OutOfMemoryError("Out of memory allocating 9 bytes (allocated so far: 0 bytes).")

    x = minitorch.ones(3, device="cuda", requires_grad=True)

    class Full(minitorch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            full()

    out = Full.apply(x)
    with pytest.raises(minitorch.cuda.OutOfMemoryError, match=r"backward: .*allocating 9 bytes"):
        out.sum().backward()
    assert x.grad is None


def test_programs_that_catch_runtime_errors(cupy):
    cupy.limit = 10
    with pytest.raises(RuntimeError, match="CUDA out of memory"):
        minitorch.empty(100, device="cuda")


# --- other libraries, files ---


def test_dlpack_both_ways_shares_memory(cupy):
    x = minitorch.arange(3.0, device="cuda")
    assert x.__dlpack_device__() == (2, 0)
    array = cupy.from_dlpack(x)
    array[0] = 7.0
    assert x.tolist() == [7.0, 1.0, 2.0]
    back = minitorch.from_dlpack(array)
    back[1] = 8.0
    assert back.is_cuda
    assert x.tolist() == [7.0, 8.0, 2.0]


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_checkpoints_from_and_to_a_device(cupy, tmp_path, suffix):
    path = tmp_path / f"model{suffix}"
    saved = {"w": minitorch.arange(3.0, device="cuda"), "b": minitorch.ones(2)}
    minitorch.save(saved, path)
    assert minitorch.load(path)["w"].is_cpu
    places = {
        "cuda": "cuda:0",
        "cuda:1": "cuda:1",
        minitorch.device("cuda", 1): "cuda:1",
        (lambda storage, location: storage.cuda(1)): "cuda:1",
        (lambda storage, location: storage): "cpu",
    }
    for wanted, found in places.items():
        loaded = minitorch.load(path, map_location=wanted)
        assert loaded["w"].device == loaded["b"].device == found
        assert loaded["w"].tolist() == [0, 1, 2]
    with minitorch.device("cuda:1"):
        assert minitorch.load(path)["w"].device == "cuda:1"
        assert minitorch.load(path, map_location="cpu")["w"].is_cpu
    file = io.BytesIO()
    model = nn.Linear(2, 2, device="cuda")
    optimizer = minitorch.optim.Adam(model.parameters())
    model(minitorch.ones(1, 2, device="cuda")).sum().backward()
    optimizer.step()
    minitorch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    for where in ("cuda", "cpu"):
        found = minitorch.load(io.BytesIO(file.getvalue()), map_location=where)
        model.load_state_dict(found["model"]), optimizer.load_state_dict(found["optimizer"])
        assert model.weight.is_cuda
        state = optimizer.state[model.weight]
        assert (state["exp_avg"].device, state["step"].device) == ("cuda:0", "cpu")
        optimizer.step()
        assert state["step"].item() == 2


def test_checkpoints_of_pytorchs_come_back_to_where_they_were(cupy, tmp_path):
    """Under PyTorch's types: its files say where each tensor was."""
    torch.save({"w": torch.nn.Parameter(torch.arange(3.0)), "b": torch.ones(2)}, tmp_path / "here.pt")
    path = tmp_path / "there.pt"
    with zipfile.ZipFile(tmp_path / "here.pt") as read, zipfile.ZipFile(path, "w") as written:
        for name in read.namelist():
            content = read.read(name)
            if name.endswith("data.pkl"):  # as a GPU would have saved it
                content = content.replace(b"X\x03\0\0\0cpu", b"X\x06\0\0\0cuda:1")
            written.writestr(name, content)
    assert minitorch.load(path)["w"].is_cpu  # to the default device
    use_pytorchs_types()
    try:
        back = minitorch.load(path)
        assert (str(back["w"].device), back["w"].requires_grad, back["w"].tolist()) == (
            "cuda:1",
            True,
            [0, 1, 2],
        )
        places = {
            "cpu": "cpu",
            "cuda": "cuda:0",
            (lambda storage, location: storage): "cpu",
            (lambda storage, location: storage.cuda(0) if location == "cuda:1" else storage): "cuda:0",
        }
        for wanted, found in [
            *places.items(),
            ({"cuda:1": "cuda:0"}, "cuda:0"),
            ({"cuda:0": "cpu"}, "cuda:1"),
        ]:
            back = minitorch.load(path, map_location=wanted)
            assert str(back["w"].device) == str(back["b"].device) == found
    finally:
        use_pytorchs_types(False)


# Under autocast, on a GPU: what PyTorch computes in float32 there, and what not.
WIDE = [
    "x.exp()", "x.expm1()", "x.log()", "x.log1p()", "x.log2()", "x.log10()", "x.rsqrt()", "x.reciprocal()", "x.tan()",
    "x.sinh()", "x.cosh()", "x.asin()", "x.acos()", "x.erfinv()", "x ** 2", "x ** 0.5", "2 ** x", "x.pow(3)", "x.square()",
    "x.sum()", "x.sum(0)", "x.prod()", "x.cumsum(0)", "x.cumprod(0)", "x.norm()", "x.logsumexp(0)", "x.softmax(0)",
    "x.log_softmax(0)", "F.softplus(x)", "F.layer_norm(x, (2,))", "F.group_norm(x[None], 2)", "F.mse_loss(x, x)",
    "F.cosine_similarity(x, x)", "F.normalize(x)", "F.cross_entropy(x, x)", "x + x.float()", "m.cat([x, x.float()])",
]  # fmt: skip
NARROW = [
    "x @ x", "x + x", "x * 2", "x.mean()", "x.sqrt()", "x.tanh()", "x.sigmoid()", "x.relu()", "F.gelu(x)", "F.silu(x)",
    "x.float() @ x", "m.bmm(x[None], x[None])", "F.linear(x.float(), x.float())", "x.max()", "x.abs()", "x.std()",
    "m.einsum('ij,jk->ik', x.float(), x)", "F.scaled_dot_product_attention(x[None], x[None], x[None])",
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("line", WIDE + NARROW)
def test_what_autocast_computes_in_float32_there(cupy, line, dtype):
    x = minitorch.tensor([[0.5, 0.25], [0.75, 0.5]], device="cuda", dtype=getattr(minitorch, dtype))
    x.requires_grad_()
    with minitorch.autocast("cuda", dtype=x.dtype):
        found = eval(line, {"x": x, "m": minitorch, "F": nn.functional})
    assert found.dtype == ("float32" if line in WIDE else x.dtype)
    found.float().sum().backward()
    assert x.grad.dtype == x.dtype


def test_what_autocast_refuses_there(cupy):
    x = minitorch.tensor([0.5], device="cuda")
    with minitorch.autocast("cuda"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        nn.functional.binary_cross_entropy(x, x)
    with minitorch.autocast("cuda", enabled=False):
        assert nn.functional.binary_cross_entropy(x, x).item() == pytest.approx(0.6931, abs=1e-3)


def test_a_step_with_a_scaler(cupy):
    """The scale lies on the device, and losses in half precision are scaled in float32."""
    model = nn.Linear(3, 2, device="cuda")
    optimizer, scaler = minitorch.optim.Adam(model.parameters()), minitorch.amp.GradScaler(init_scale=4.0)
    before = model.weight.tolist()
    for factor, scale, counted in ((float("inf"), 2.0, 0), (1.0, 2.0, 1)):
        loss = model(minitorch.ones(1, 3, device="cuda")).mean() * factor
        scaled = scaler.scale(loss.half())
        assert (str(scaled.dtype), scaled.is_cuda) == ("float32", True)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        assert (scaler.get_scale(), scaler.state_dict()["_growth_tracker"]) == (scale, counted)
        assert (model.weight.tolist() == before) == (counted == 0)


def test_a_scaler_of_parameters_on_two_devices(cupy):
    """And a scale that leaves float32's range stays what it is, as in PyTorch."""
    weights = [nn.Parameter(minitorch.ones(2, device=device)) for device in ("cuda:0", "cuda:1", "cpu")]
    optimizer, scaler = minitorch.optim.SGD(weights, lr=1e38), minitorch.amp.GradScaler(init_scale=3e38)
    scaler.set_growth_interval(1)
    for factor, left in ((1e-38, False), (float("inf"), True)):
        before = [w.tolist() for w in weights]
        optimizer.zero_grad()
        for w in weights:
            scaler.scale(w.sum() * (factor if w is weights[1] else 1e-38)).backward()
        scaler.step(optimizer)
        scaler.update()
        assert ([w.tolist() for w in weights] == before) == left
        assert scaler.get_scale() == pytest.approx(1.5e38 if left else 3e38)


def test_writing_across_devices(cupy):
    here, there = minitorch.tensor([1.0, 2.0]), minitorch.tensor([3.0, 4.0], device="cuda")
    assert minitorch.zeros(2).copy_(there, non_blocking=True).tolist() == [3.0, 4.0]
    assert minitorch.zeros(2, device="cuda").copy_(here).tolist() == [1.0, 2.0]
    there[0] = here[1]
    assert there.tolist() == [2.0, 4.0]


def test_graphs_are_captured_in_a_stream_of_their_own(cupy):
    with pytest.raises(RuntimeError, match=r"default stream.*with torch.cuda.graph\(g\)"):
        minitorch.cuda.CUDAGraph().capture_begin()
    with pytest.raises(RuntimeError, match="nothing was captured"):
        minitorch.cuda.CUDAGraph().replay()
    with pytest.raises(RuntimeError, match="sample_args must be Tensors alone"):
        minitorch.cuda.make_graphed_callables(nn.Linear(1, 1), (3,))


def test_autocast_there(cupy):
    with minitorch.autocast("cuda", dtype=minitorch.float16):
        product = minitorch.ones(2, 2, device="cuda") @ minitorch.ones(2, 2, device="cuda")
    assert product.dtype == minitorch.float16
    assert product.is_cuda


def test_storages_there(cupy):
    x = minitorch.arange(4.0, device="cuda")
    storage = x.untyped_storage()
    assert storage.is_cuda
    assert storage.device == "cuda:0"
    assert storage.nbytes() == 16
    assert not storage.cpu().is_cuda
    assert storage.cuda(1).device == "cuda:1"


def test_a_compiled_function_heeds_the_default_device(cupy):
    pytest.importorskip("llvmlite")
    made = minitorch.compile(lambda x: x + minitorch.ones(2))
    assert made(minitorch.ones(2)).tolist() == [2.0, 2.0] == made(minitorch.ones(2)).tolist()
    with (
        warnings.catch_warnings(),
        minitorch.device("cuda"),
        pytest.raises(RuntimeError, match="same device"),
    ):
        warnings.simplefilter("ignore")  # it runs eagerly
        made(minitorch.ones(2, device="cpu"))


# Functions that make numbers, windows or places of their own beside a tensor.
MADE_BESIDE = {
    "left shift": lambda x: x.int() << 2,
    "right shift": lambda x: minitorch.bitwise_right_shift(x.long() * 8, 1),
    "quantile": lambda x: minitorch.quantile(x, 0.25, dim=1),
    "nanquantile": lambda x: minitorch.nanquantile(x, 0.5),
    "stft": lambda x: minitorch.stft(x.reshape(-1), 4, return_complex=False),
    "istft": lambda x: minitorch.istft(minitorch.stft(x.reshape(-1), 4, return_complex=True), 4),
    "gradient": lambda x: minitorch.gradient(x, spacing=0.5)[0],
    "combinations": lambda x: minitorch.combinations(x[0], 2),
    "histogram": lambda x: minitorch.histogram(x, 4, range=(-1.0, 1.0)).hist,
    "histogramdd": lambda x: minitorch.histogramdd(x[:, :2], [2, 2]).hist,
    "unique": lambda x: minitorch.unique(x.round(), return_inverse=True, return_counts=True)[1],
    "unique counts": lambda x: minitorch.unique_consecutive(x.round(), return_counts=True)[1],
    "nonzero of a number": lambda x: x[0, 0].nonzero(),
    "geqrf": lambda x: minitorch.geqrf(x)[0],
    "where": lambda x: minitorch.where(True, x, 0.0),
    "matrix_power": lambda x: (x @ x.T).matrix_power(0),
    "cholesky_ex": lambda x: minitorch.linalg.cholesky_ex(x @ x.T).info,
    "matrix_rank": lambda x: minitorch.linalg.matrix_rank(x[:, :0]),
    "lstsq": lambda x: minitorch.linalg.lstsq(x, x[:, :1], driver="gels").rank,
    "ldl": lambda x: minitorch.linalg.ldl_solve(*minitorch.linalg.ldl_factor(x @ x.T), x),
    "inv_ex": lambda x: minitorch.linalg.inv_ex(x[:0, :0])[0],
}


@pytest.mark.parametrize("name", MADE_BESIDE)
def test_what_a_function_makes_lies_beside_its_tensor(cupy, name):
    x = minitorch.tensor(np.random.default_rng(0).normal(size=(5, 6)))
    found, expected = MADE_BESIDE[name](x.to("cuda")), MADE_BESIDE[name](x)
    assert found.device.type == "cuda"
    np.testing.assert_allclose(found.cpu().numpy(), expected.numpy(), rtol=1e-12)


def test_complex_numbers_are_drawn_there(cupy):
    for draw in (minitorch.rand, minitorch.randn):
        assert draw(3, dtype=minitorch.complex64, device="cuda").is_cuda


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_embeddings_stay_on_a_device(cupy, mode):
    table, index, offsets = (
        np.random.default_rng(0).normal(size=(7, 3)),
        np.array([1, 2, 4, 5, 0]),
        np.array([0, 2, 3]),
    )
    found = []
    for device in ("cuda", "cpu"):
        weight = minitorch.tensor(table, device=device, requires_grad=True)
        places = (minitorch.tensor(each, device=device) for each in (index, offsets))
        out = nn.functional.embedding_bag(next(places), weight, next(places), mode=mode, padding_idx=4)
        (out * out).sum().backward()
        assert out.device.type == device
        found.append(
            [out.cpu().tolist(), weight.grad.get().tolist() if device == "cuda" else weight.grad.tolist()]
        )
    np.testing.assert_allclose(*[f[0] for f in found])
    np.testing.assert_allclose(*[f[1] for f in found])


@pytest.mark.parametrize("first", [True, False])
def test_a_checkpoint_draws_the_same_numbers_again(cupy, first):
    """Also where the GPU's generator is made by the function itself."""
    gradients = []
    for run in (lambda f, x: f(x), minitorch.autograd.checkpoint):
        generator.device_generators.clear()
        minitorch.manual_seed(3)
        if first:
            minitorch.rand(5, device="cuda")
        x = minitorch.ones(40, device="cuda", requires_grad=True)
        run(lambda x: nn.functional.dropout(x, 0.5) * minitorch.rand(40, device="cuda"), x).sum().backward()
        gradients.append((x.grad.host.tolist(), minitorch.rand(2, device="cuda").tolist()))
    assert gradients[0] == gradients[1]


def test_data_parallel_brings_inputs_to_the_module(cupy):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = nn.Parameter(minitorch.tensor([2.0]))

        def forward(self, pair, *, shift=None):
            return pair[0] * self.factor + pair[1] + (0 if shift is None else shift["by"])

    net = nn.DataParallel(Scaled().to("cuda"))
    x = minitorch.ones(3)
    out = net((x, 1.0), shift={"by": x})
    assert (str(out.device), out.tolist()) == ("cuda:0", [4.0, 4.0, 4.0])
    assert nn.DataParallel(Scaled())([x, x]).tolist() == [3.0] * 3
    assert nn.DataParallel(nn.Identity())(x) is x


def test_autocast_is_one_for_each_kind_of_device(cupy):
    """As in PyTorch: tensors elsewhere are computed as they are, and one kind is switched off without the other."""
    here, there = minitorch.ones(2, 2), minitorch.ones(2, 2, device="cuda")
    dtypes = lambda: tuple(str(np.dtype((x @ x).dtype)) for x in (here, there))
    enabled = lambda: tuple(map(minitorch.is_autocast_enabled, ("cpu", "cuda")))
    with minitorch.autocast("cuda", dtype=minitorch.float16):
        assert (dtypes(), enabled()) == (("float32", "float16"), (False, True))
        half = here.half()
        assert half.exp().dtype == np.float16
        assert there.half().exp().dtype == np.float32
        assert nn.functional.mse_loss(half, half).dtype == np.float16
        with minitorch.autocast("cpu", dtype=minitorch.bfloat16):
            assert (dtypes(), enabled()) == (("bfloat16", "float16"), (True, True))
            with minitorch.autocast("cuda", enabled=False):
                assert (dtypes(), enabled()) == (("bfloat16", "float32"), (True, False))
            assert minitorch.get_autocast_dtype("cpu") == minitorch.bfloat16
        assert dtypes() == ("float32", "float16")
    with minitorch.autocast("cpu", dtype=minitorch.float16):
        assert (dtypes(), enabled()) == (("float16", "float32"), (True, False))
        assert there.half().exp().dtype == np.float16
    assert (dtypes(), enabled()) == (("float32", "float32"), (False, False))
