"""Whole training steps, eager, on a device: kernels of our own compute them, and a device's array library next to nothing.

What that computes takes the host several times as long to launch; what the host waits for, it cannot launch meanwhile.
"""

import importlib.util
from pathlib import Path

import numpy as np
import pytest

import minitorch
from asked_of_device import asked
from compiled import BACKENDS
from minitorch import nn
from minitorch.compiler.backends.cuda import finding_attention
from minitorch.compiler.call import eager_backend
from minitorch.engine.gpu import on_host
from minitorch.ops import native
from minitorch.tensor.devices import has_gpu
from standin import DeviceArray
from standin_cupy import installed
from standin_kernels import StandinLauncher

pytestmark = [
    pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed"),
    pytest.mark.skipif(has_gpu(), reason="it is about the stand-in's arrays"),
]
ROOT = Path(__file__).parents[3]
# What a step leaves to the device's library, at most, by the benchmark's rows.
LEFT = {
    "grammar": ["ones_like"],
    "wide": ["ones_like"],
    "block": ["ones_like"],
    "block bfloat16": ["ones_like"],
    # The rows of two tables, and zeros for their gradients.
    "gpt": ["__getitem__", "__getitem__", "ones_like", "zeros_like", "zeros_like"],
    # A state of zeros; and both biases get the gradient of their sum.
    "lstm": ["copy", "copy", "ones_like", "zeros_like"],
    "conv": ["ones_like"],
    "cross-entropy": ["ones_like"],
}


@pytest.fixture
def launcher(monkeypatch):
    """A GPU that does not exist, with kernels that this processor runs."""
    installed(monkeypatch)
    found = StandinLauncher()
    eager_backend.use(found)
    monkeypatch.setattr(finding_attention, "LEAST_SCORES", 1)
    monkeypatch.setattr(minitorch.backends.cuda.matmul, "allow_tf32", True)
    native.meet(DeviceArray)
    minitorch.set_native_ops(True)
    yield found
    native.forget(DeviceArray)
    minitorch.set_native_ops(False)
    eager_backend.forget()


@pytest.fixture
def benchmark(monkeypatch):
    """The GPU's benchmark, with small steps."""
    spec = importlib.util.spec_from_file_location("minitorch_small_gpu_bench", ROOT / "benchmarks" / "gpu.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(__import__("sys").modules, spec.name, module)
    spec.loader.exec_module(module)
    for name, small in {"TOKENS": 50, "WIDTH": 64, "DEPTH": 2, "HEADS": 2, "BLOCK_HEADS": 2}.items():
        monkeypatch.setattr(module, name, small)
    shapes = {
        "block": (2, 24, 64),
        "gpt": (2, 24),
        "lstm": (16, 4, 8),
        "conv": (2, 8, 8, 8),
        "cross-entropy": (64, 50),
    }
    module.SHAPES |= {**shapes, "block bfloat16": shapes["block"]}
    module.LAYERS |= {"grammar": (60, 23, 64, 5), "wide": (64, 32, 64, 10)}
    return module


def losses_of(benchmark, row, count, device, monkeypatch):
    """A row's step, and what it gives a few times."""
    monkeypatch.setattr(benchmark, "DEVICE", device)
    step, _ = benchmark.step_of(minitorch, row)
    return step, [float(on_host(step()._data)) for _ in range(count)]


@pytest.mark.parametrize("row", LEFT)
def test_a_step_is_computed_by_kernels_after_three(row, launcher, benchmark, monkeypatch):
    """So many runs PyTorch's programs make before they capture a graph."""
    if "bfloat16" in row:
        pytest.importorskip("ml_dtypes")
    step, found = losses_of(benchmark, row, 3, "cuda", monkeypatch)
    with asked(monkeypatch) as noted:
        step()
    assert sorted(noted) == LEFT[row]
    _, expected = losses_of(benchmark, row, 3, "cpu", monkeypatch)
    np.testing.assert_allclose(found, expected, rtol=2e-2 if "bfloat16" in row else 1e-4)


@pytest.mark.parametrize("row", LEFT)
def test_kernels_that_are_there_are_found_at_once(row, launcher, benchmark, monkeypatch):
    """Of arrays in the order of their axes, looks at others, and gradients of several results."""
    if "bfloat16" in row:
        pytest.importorskip("ml_dtypes")
    step, _ = losses_of(benchmark, row, 6, "cuda", monkeypatch)
    (compute,), searched = native._offered_there, []

    def noting(function, *given):
        searched.append(function.__name__)
        return compute(function, *given)

    monkeypatch.setattr(native, "_offered_there", [noting])
    step()
    assert not searched


@pytest.mark.parametrize(("name", "count"), [("SGD", 1), ("Adam", 1), ("RMSprop", 1)])
def test_small_parameters_are_changed_by_one_kernel(name, count, launcher):
    shapes = [(3, 4), (7,), (3, 4), (2, 3, 5), (300, 20)]
    optimizer = getattr(minitorch.optim, name)

    def trained(device):
        minitorch.manual_seed(0)
        given = [minitorch.randn(*shape).to(device).requires_grad_() for shape in shapes]
        steps = optimizer(given, lr=0.1)
        for _ in range(4):
            steps.zero_grad()
            sum((p * p).sum() for p in given).backward()
            launched = launcher.launched
            steps.step()
        return [on_host(p._data) for p in given], launcher.launched - launched

    (found, launched), (expected, _) = trained("cuda"), trained("cpu")
    assert launched == count
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


def test_large_parameters_are_changed_by_kernels_of_their_own(launcher, monkeypatch):
    monkeypatch.setattr(native, "LARGE_ALONE", 100)
    given = [minitorch.ones(n, device="cuda", requires_grad=True) for n in (30, 99, 100, 400)]
    steps = minitorch.optim.SGD(given, lr=0.5)
    for _ in range(3):
        steps.zero_grad()
        sum((p * p).sum() for p in given).backward()
        launched = launcher.launched
        steps.step()
    assert launcher.launched - launched == 3
    assert all((on_host(p._data) == 0).all() for p in given)


def test_parameters_of_one_memory_are_changed_one_after_the_other(launcher):
    """What one changes, another one reads, as its gradient: in one kernel nobody could tell which it would find."""

    def trained(device):
        first = minitorch.ones(5, device=device, requires_grad=True)
        second = minitorch.full((5,), 3.0, device=device, requires_grad=True)
        steps = minitorch.optim.SGD([first, second], lr=0.5)
        for _ in range(4):
            first._grad, second._grad = minitorch.full((5,), 0.25, device=device)._data, first._data
            steps.step()
        return [on_host(p._data) for p in (first, second)]

    for mine, other in zip(trained("cuda"), trained("cpu"), strict=True):
        np.testing.assert_array_equal(mine, other)


@pytest.mark.parametrize("name", ["SGD", "Adam", "Adagrad"])
@pytest.mark.parametrize("shapes", [[(0,), (3,)], [(3,), (0, 5), (0,)], [(0,)]])
def test_parameters_without_elements_are_left_alone(name, shapes, launcher):
    given = [minitorch.ones(*shape, device="cuda", requires_grad=True) for shape in shapes]
    steps = getattr(minitorch.optim, name)(given, lr=0.1)
    scaler = minitorch.amp.GradScaler("cuda", init_scale=4.0)
    for _ in range(5):
        for p in given:
            p.grad = minitorch.ones(*p.shape, device="cuda")
        scaler.scale(minitorch.ones(1, device="cuda"))
        scaler.step(steps)
        scaler.update()
    assert all((on_host(p._data) < 1).all() for p in given)


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_parameters_that_overlap_are_changed_one_after_the_other(name, launcher):
    def trained(device):
        memory = minitorch.arange(12.0).to(device)
        given = [memory[:8].detach().requires_grad_(), memory[4:].detach().requires_grad_()]
        steps = getattr(minitorch.optim, name)(given, lr=0.1, weight_decay=0.5)
        for _ in range(5):
            for p in given:
                p._grad = minitorch.ones(8, device=device)._data
            steps.step()
        return on_host(memory._data)

    np.testing.assert_allclose(trained("cuda"), trained("cpu"), rtol=1e-5)


def test_one_tensor_for_both_averages(launcher):
    draw = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)

    def moved(device):
        both = minitorch.ones(3, device=device)
        for _ in range(5):
            minitorch.nn.functional.batch_norm(minitorch.tensor(draw).to(device), both, both, training=True)
        return on_host(both._data)

    np.testing.assert_allclose(moved("cuda"), moved("cpu"), rtol=1e-5)


def test_batch_norm_counts_and_moves_its_averages_by_kernels(launcher, monkeypatch):
    draw = np.random.default_rng(0).normal(size=(3, 4, 5, 2)).astype(np.float32)

    def trained(device):
        layer, images = minitorch.nn.BatchNorm2d(4).to(device), minitorch.tensor(draw).to(device)
        seen = layer.num_batches_tracked.reshape(1)  # (a view)
        for _ in range(4):
            layer(images)
        with asked(monkeypatch) as noted:
            layer(images)
        assert not (noted and device == "cuda")
        return [on_host(each._data) for each in (seen, layer.running_mean, layer.running_var)]

    found, expected = trained("cuda"), trained("cpu")
    assert found[0] == expected[0] == 5
    for mine, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


def test_numbers_that_differ_between_parameters(launcher):
    """Parameters that came later have made fewer steps, and Adam's numbers are others."""

    def trained(device):
        minitorch.manual_seed(0)
        first, second = (minitorch.randn(6).to(device).requires_grad_() for _ in range(2))
        steps = minitorch.optim.Adam([first], lr=0.1)
        for i in range(6):
            if i == 2:
                steps.add_param_group({"params": [second]})
            steps.zero_grad()
            ((first * first).sum() + (second * second * second).sum()).backward()
            steps.step()
        return [on_host(p._data) for p in (first, second)]

    for mine, other in zip(trained("cuda"), trained("cpu"), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


def test_nothing_is_changed_if_one_parameter_is_no_leaf():
    first, second = (minitorch.ones(2, requires_grad=True) for _ in range(2))
    steps = minitorch.optim.Adam([first, second], lr=0.1)
    first._grad = second._grad = np.ones(2, np.float32)
    second._operation = (first * 2)._operation
    with pytest.raises(RuntimeError, match="no leaf any more"):
        steps.step()
    assert (first.data == 1).all()
    assert not steps.state


def convolutions(device):
    """A step of a conv net with pooling, whose gradients are clipped; its loss, and the norm they had."""
    minitorch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2)]
    layers += [nn.Conv2d(8, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(3, stride=2, padding=1)]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))
    images, labels = minitorch.randn(4, 3, 12, 12), minitorch.randint(0, 5, (4,))
    model, images, labels = model.to(device), images.to(device), labels.to(device)
    optimizer = minitorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step():
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(images), labels, label_smoothing=0.1)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        return loss, norm

    return step


def encoder(device):
    """A step of a transformer's encoder, of sequences that are padded; it drops, and its gradients are clipped."""
    minitorch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.1, batch_first=True)
    model = nn.TransformerEncoder(layer, 2).to(device)
    x, padding = minitorch.randn(4, 12, 32).to(device), (minitorch.arange(12) > 8).expand(4, 12).to(device)
    optimizer = minitorch.optim.AdamW(model.parameters())

    def step():
        optimizer.zero_grad()
        loss = (model(x, src_key_padding_mask=padding) ** 2).mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss, norm

    return step


@pytest.mark.parametrize("order", [0, 0.5, 1, 2, 3, float("inf"), float("-inf")])
@pytest.mark.parametrize(
    "dtypes",
    [
        ("float32",),
        ("float32", "float64"),
        ("bfloat16", "float32"),
        ("float16", "float32"),
        ("bfloat16",),
        ("float16",),
    ],
    ids="-".join,
)
def test_gradients_have_one_norm_whatever_they_are_of(launcher, dtypes, order):
    """As many as are no single kernel's; in the widest of their dtypes, and halves in float32 on the way."""
    pytest.importorskip("ml_dtypes")
    draw, kinds = np.random.default_rng(0), [np.dtype(getattr(minitorch, name)) for name in dtypes]
    for count in (2, 100):
        arrays = [(300 * draw.normal(size=(2, 3))).astype(kinds[i % len(kinds)]) for i in range(count)]
        norms = np.array([np.linalg.norm(each.astype(np.float64).reshape(-1), order) for each in arrays])
        with np.errstate(over="ignore"):
            wanted = np.linalg.norm(norms, order).astype(np.result_type(*kinds))
        for _ in range(3):
            given = [minitorch.tensor(each).to("cuda") for each in arrays]
            found = on_host(nn.utils.get_total_norm(given, order)._data)
            assert found.dtype == wanted.dtype
            rough = {2: 1e-2, 4: 1e-5, 8: 1e-9}[wanted.dtype.itemsize]
            np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=rough)


def test_pooling_and_clipping_are_kernels(launcher, monkeypatch):
    on_device, here = convolutions("cuda"), convolutions("cpu")
    for _ in range(6):
        found, expected = on_device(), here()
        for mine, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(on_host(mine._data), other._data, rtol=1e-4)
    with asked(monkeypatch) as noted:
        on_device()
    # Gradients of convolutions are copied, running averages written.
    assert set(noted) <= {"__setitem__", "copy", "ones_like"}


def test_an_encoder_with_padding_leaves_little_to_the_library(launcher, monkeypatch):
    """The host waits for nothing, and no weights of attention are written."""
    step = encoder("cuda")
    for _ in range(6):
        loss, norm = step()
    assert np.isfinite([on_host(each._data) for each in (loss, norm)]).all()
    with asked(monkeypatch) as noted:
        step()
    assert set(noted) <= {"add", "astype", "copy", "ones_like", "where"}
    assert len(noted) < 12
