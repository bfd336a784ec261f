"""CUDA graphs captured by hand, on a real GPU: a replay does what the block does. Skipped where there is none."""

import numpy as np
import pytest

import minitorch
from minitorch import nn

cupy = pytest.importorskip("cupy")
if not minitorch.cuda.is_available():
    pytest.skip("there is no GPU", allow_module_level=True)

cuda = minitorch.cuda


@pytest.fixture(autouse=True)
def kernels_of_our_own():
    """Products by kernels of our own, which can be captured: CuPy's cannot."""
    pytest.importorskip("llvmlite")
    minitorch.set_native_ops(True)
    yield
    minitorch.set_native_ops(False)


def warmed_up(block, times=4):
    side = cuda.Stream()
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        for _ in range(times):
            block()
    cuda.current_stream().wait_stream(side)


def model_of(dropout=0.0):
    minitorch.manual_seed(0)
    layers = (nn.Linear(12, 32), nn.GELU(), nn.LayerNorm(32), nn.Dropout(dropout), nn.Linear(32, 5))
    return nn.Sequential(*layers).cuda()


def batches(count):
    source = np.random.default_rng(0)
    return [
        (
            minitorch.tensor(source.standard_normal((16, 12), np.float32)).cuda(),
            minitorch.tensor(source.integers(0, 5, 16)).cuda(),
        )
        for _ in range(count)
    ]


def test_values_are_computed_anew_from_what_lies_in_the_inputs():
    x = minitorch.ones(1000, device="cuda")
    block = lambda: (x * 2 + 1).exp().sum()
    warmed_up(block)
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        assert cuda.is_current_stream_capturing()
        out = block()
    assert not cuda.is_current_stream_capturing()
    for value in (0.5, -1.0):
        x.fill_(value)
        junk = [minitorch.rand(1000, device="cuda") for _ in range(50)]  # what takes memory that is free
        graph.replay()
        del junk
        assert out.item() == pytest.approx(1000 * np.exp(2 * value + 1), rel=1e-4)
    with pytest.raises(RuntimeError, match="captured something already"), cuda.stream(cuda.Stream()):
        graph.capture_begin()


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW"])
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_whole_training_step(kind, dropout):
    options = {"momentum": 0.9} if kind == "SGD" else {}

    def losses(captured):
        model = model_of(dropout)
        optimizer = getattr(minitorch.optim, kind)(model.parameters(), lr=1e-2, **options)
        data = batches(10)
        x, labels = data[0][0].clone(), data[0][1].clone()
        minitorch.manual_seed(1)

        def step():
            optimizer.zero_grad(set_to_none=True)
            loss = nn.functional.cross_entropy(model(x), labels)
            loss.backward()
            optimizer.step()
            return loss

        graph = cuda.CUDAGraph()
        if captured:
            warmed_up(step)
            optimizer.zero_grad(set_to_none=True)
            with cuda.graph(graph):
                loss = step()
        else:
            for _ in range(4):
                step()
        found = []
        for number, (images, wanted) in enumerate(data):
            x.copy_(images)
            labels.copy_(wanted)
            if number == 7:
                optimizer.param_groups[0]["lr"] = 1e-3
            if captured:
                graph.replay()
            else:
                loss = step()
            found.append(loss.item())
        return (
            found,
            [p.detach().cpu().numpy() for p in model.parameters()],
            minitorch.rand(1, device="cuda").item(),
        )

    (mine, weights, drawn), (other, expected, wanted) = losses(True), losses(False)
    np.testing.assert_allclose(mine, other, rtol=1e-4)
    for a, b in zip(weights, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    assert drawn == wanted


def test_what_cannot_be_captured_is_refused():
    x = minitorch.ones(8, device="cuda")
    warmed_up(lambda: x + 1)
    with pytest.raises(RuntimeError, match="could not be captured"), cuda.graph(cuda.CUDAGraph()):
        (x + 1).sum().item()
    with pytest.raises(RuntimeError, match="CUDAGraph"), cuda.graph(cuda.CUDAGraph()):
        x + minitorch.ones(8).to("cuda")
    with pytest.raises(RuntimeError, match="CUDAGraph"), cuda.graph(cuda.CUDAGraph()):
        minitorch.tensor([1.0, 2.0], device="cuda") + 1
    with pytest.raises(ValueError, match="mine"), cuda.graph(cuda.CUDAGraph()):
        raise ValueError("mine")
    assert (x + 1).sum().item() == 16  # nothing is captured any more


def test_products_of_cupys_own_are_refused():
    minitorch.set_native_ops(False)
    x = minitorch.ones(8, 8, device="cuda")
    with pytest.raises(RuntimeError, match="could not be captured.*llvmlite"), cuda.graph(cuda.CUDAGraph()):
        x @ x
    assert (x @ x).sum().item() == 512


def test_a_compiled_function_inside():
    x = minitorch.ones(64, device="cuda")
    function = minitorch.compile(lambda x: (x * 2).tanh())
    warmed_up(lambda: function(x))
    graph = cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="CUDAGraph"), cuda.graph(graph):
        function(x)


def test_graphs_that_share_memory():
    x = minitorch.ones(256, 256, device="cuda")
    warmed_up(lambda: (x @ x, x.tanh()))
    first, second = cuda.CUDAGraph(), cuda.CUDAGraph()
    with cuda.graph(first):
        a = x @ x
    with cuda.graph(second, pool=first.pool(), stream=cuda.Stream()):
        b = a.tanh() * 0 + a
    x.fill_(2.0)
    first.replay()
    second.replay()
    assert b.cpu().numpy().tolist() == np.full((256, 256), 1024.0).tolist()
    first.reset()
    with pytest.raises(RuntimeError, match="nothing was captured"):
        first.replay()


def test_convolutions():
    layer, x = nn.Conv2d(16, 16, 3, padding=1).cuda(), minitorch.randn(8, 16, 32, 32).cuda()
    warmed_up(lambda: layer(x).relu().sum())
    graph = cuda.CUDAGraph()
    with cuda.graph(graph):
        out = layer(x).relu()
    x.copy_(minitorch.randn(8, 16, 32, 32).cuda())
    graph.replay()
    np.testing.assert_allclose(
        out.detach().cpu().numpy(), layer(x).relu().detach().cpu().numpy(), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("training", [True, False])
def test_functions_as_graphs(training):
    plain, model = model_of().train(training), model_of().train(training)
    sample = batches(1)[0][0].requires_grad_()
    made = cuda.make_graphed_callables(model, (sample,))
    assert made is model
    for x, labels in batches(3):
        grads = []
        for each in (plain, made):
            given = x.clone().requires_grad_()
            each.zero_grad()
            nn.functional.cross_entropy(each(given), labels).backward()
            grads.append([np.asarray(g.get()) for g in (given.grad, *(p.grad for p in each.parameters()))])
        for mine, other in zip(*grads, strict=True):
            np.testing.assert_allclose(mine, other, rtol=1e-3, atol=1e-6)
    made.train(not training)  # as before
    np.testing.assert_allclose(made(x).detach().cpu().numpy(), plain(x).detach().cpu().numpy(), rtol=1e-4)
    squared = cuda.make_graphed_callables(lambda a, b: (a * b, a - b), (sample, sample.clone().detach()))
    product, difference = squared(x, x + 1)
    np.testing.assert_allclose(difference.detach().cpu().numpy(), -1, rtol=1e-4)
    assert product.shape == x.shape
