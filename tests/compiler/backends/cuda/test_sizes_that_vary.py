"""Sizes that vary on a GPU: one program serves all of them, its kernels are told the sizes.

Everything is compared with the same program at one size, or with the same lines run eagerly on the CPU.
"""

import contextlib
import dataclasses
import shutil
import subprocess
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

import minitorch as mt
import random_shapes
import some_gpu
from compiled import BACKENDS
from minitorch import nn
from minitorch.compiler.backends.cuda import (
    arrangement,
    backend,
    finding_attention,
    lower,
    products,
    transposed,
)
from minitorch.compiler.backends.cuda.backend import CudaBackend
from minitorch.compiler.backends.cuda.devices import Cuda, Emulated, Launch
from minitorch.compiler.backends.cuda.products import LibraryProduct
from minitorch.compiler.backends.cuda.ptx import ptx
from minitorch.compiler.backends.cuda.words import SIZE, Kernel
from minitorch.compiler.call import record
from minitorch.compiler.ir import builder as b
from minitorch.compiler.ir.program import Program, interpret
from minitorch.compiler.ir.sizes import Symbol
from random_ir import close, given
from small_nets import ConvNet, Recurrent
from some_gpu import REAL, gpu, numbers, there
from varying import CASES, RandomVarying, arrays_for, fixed, varying

F = nn.functional
SIZES = ((2, 2), (6, 5), (3, 17), (40, 3), (2, 33))

pytestmark = [
    pytest.mark.skipif("native" not in BACKENDS, reason="llvmlite is not installed"),
    pytest.mark.usefixtures(gpu.__name__),
]


def made_by(backwards=False, **figures):
    """The backend, with other figures to decide by. Kernels run on this processor, unless there is a GPU."""
    made = CudaBackend(None if REAL else Emulated(backwards))
    made.machine = dataclasses.replace(
        made.machine, figures=dataclasses.replace(made.machine.figures, **figures)
    )
    return made


@pytest.fixture
def for_small_sizes(monkeypatch):
    """Small sizes are enough for what is done with large ones: a library, tiles, rows that are kept."""
    for room, name in (
        (lower, "LEAST_MULTIPLICATIONS"),
        (products, "LEAST_FOR_A_LIBRARY"),
        (lower, "LEAST_WORTH_PACKING"),
        (transposed, "LEAST_ELEMENTS"),
        (arrangement, "BUSY_THREADS"),
        (arrangement, "LEAST_THREADS_THAT_KEEP"),
    ):
        monkeypatch.setattr(room, name, 8)
    return {"serial_elements": 16, "column_bytes": 64, "most_blocks": 5, "alone_from": 8}


@pytest.mark.parametrize("name", CASES)
def test_each_primitive_at_many_sizes(name):
    runs = made_by().compile(varying(CASES[name]), {})
    assert not runs.report.undecided
    for n, m in SIZES:
        one = fixed(CASES[name], n, m)
        arrays = arrays_for(one)
        for want, found in zip(interpret(one, arrays), runs(arrays), strict=True):
            close(found, np.asarray(want), f"{name} at {n}, {m}")


@pytest.mark.parametrize(
    "name", ["sums", "layer_norm", "products", "attention", "convolution_of_a_batch", "permutes"]
)
def test_what_is_done_with_large_sizes(name, for_small_sizes):
    runs = made_by(True, **for_small_sizes).compile(varying(CASES[name]), {})
    for n, m in SIZES:
        one = fixed(CASES[name], n, m)
        arrays = arrays_for(one)
        for want, found in zip(interpret(one, arrays), runs(arrays), strict=True):
            close(found, np.asarray(want), f"{name} at {n}, {m}")
    if name == "products":
        assert any(isinstance(task.kernel, LibraryProduct) for task in runs.tasks)


@pytest.mark.parametrize("seed", range(8))
def test_random_programs_are_right_at_every_size(seed, for_small_sizes):
    """Where the same program for one size gives what NumPy gives (but for rounding), so does the one for all."""
    random = RandomVarying(seed)
    runs = made_by(seed % 2 == 1, **for_small_sizes).compile(random.program, random.updates)
    for n, m in SIZES[1:]:
        one = random.program.at({random.n: n, random.m: m})
        arrays = arrays_for(one, seed)
        want = interpret(one, [array.copy() for array in arrays])
        found = runs(arrays)
        for i, expected in enumerate(want):
            close(arrays[random.updates[i]] if i in random.updates else found[i], expected, f"at {n}, {m}")


def test_products_of_batches_from_the_last_to_the_first(for_small_sizes):
    n = Symbol("s0", 6)
    x, y = given((n.size, 8, 5)), given((5, 7))
    program = Program([x, y], [b.matmul(b.flip(x, (0,)), y)])
    for runs, length in ((made_by(**for_small_sizes).compile(program, {}), 4), (None, 3)):
        one = program.at({n: length})
        arrays = arrays_for(one)
        run = runs or made_by(**for_small_sizes).compile(one, {})
        close(run(arrays)[0], interpret(one, arrays)[0], f"at {length}")


def test_sizes_that_the_kernels_are_not_made_for_have_their_own(monkeypatch):
    n = Symbol("s0", 9)
    x = given((n.size, 5))
    program = Program([x], [b.map_values("tanh", b.crop(x, 0, 3, n.size - 3)), b.reduce("add", x, (0, 1))])
    monkeypatch.setattr(backend, "MOST_COUNTED", 200)
    runs = made_by().compile(program, {})
    for length, own in (
        (9, 0),
        (3, 1),
        (4, 1),
        (41, 2),
        (3, 2),
        (40, 2),
    ):  # (3: nothing is left; 41: too many)
        arrays = arrays_for(program.at({n: length}))
        for want, found in zip(interpret(program, arrays), runs(arrays), strict=True):
            close(found, np.asarray(want), f"at {length}")
        assert len(runs._own) == own


def test_memory_grows_and_few_sizes_are_kept_ready(monkeypatch):
    monkeypatch.setattr(backend, "MOST_SIZES", 4)
    n = Symbol("s0", 5)
    x = given((n.size, 40))
    soft = b.map_values("exp", b.map_values("subtract", x, b.reduce("maximum", x, (0,), True)))
    program = Program([x], [b.map_values("divide", soft, b.reduce("add", soft, (0,), True))])
    runs = made_by(serial_elements=16).compile(program, {})
    for length in (*range(2, 60, 7), *range(50, 2, -6), 500, 3, 500):
        arrays = arrays_for(program.at({n: length}))
        close(runs(arrays)[0], interpret(program, arrays)[0], f"at {length}")
        assert len(runs._sized) <= 4


@pytest.mark.parametrize("processor", ["sm_80", "sm_90"])
def test_ptx(processor, tmp_path, for_small_sizes):
    runs = made_by(**for_small_sizes).compile(varying(CASES["attention"]), {})
    code = ptx(runs.text(), processor)
    assert f".target {processor}".encode() in code
    assembler = shutil.which("ptxas")
    if assembler is not None:
        (tmp_path / "a.ptx").write_bytes(code)
        command = [assembler, f"-arch={processor}", "-o", str(tmp_path / "a.cubin"), str(tmp_path / "a.ptx")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("length", [3, 40, 9000])
@pytest.mark.parametrize("kind", ["f4", "i8"])
def test_any_number_of_rows_sorted(length, kind):
    n = Symbol("s0", 4)

    def program(n):
        x = given((n, length), np.dtype(kind))
        places = b.Value("argsort", (x,), {"axis": 1}, x.shape, np.dtype(np.int64))
        return Program([x], [b.Value("sort", (x,), {"axis": 1}, x.shape, x.dtype), places])

    runs = made_by().compile(program(n.size), {})
    assert all(task.kernel is not None for task in runs.tasks)
    for rows in (4, 2, 7):
        one = program(rows)
        arrays = arrays_for(one)
        arrays[0][0, 1:3] = arrays[0][0, 0]  # some are equal, and stay in their order
        order = np.argsort(arrays[0], 1, kind="stable")
        for want, found in zip([np.sort(arrays[0], 1), order], runs(arrays), strict=True):
            np.testing.assert_array_equal(found, want)


@pytest.mark.parametrize(("rows", "length"), [(3, 20), (2, 300), (70, 5)])
def test_running_sums_of_any_length_are_a_teams(rows, length):
    n, m = Symbol("s0", rows), Symbol("s1", length)

    def program(n, m):
        x = given((n, m))
        return Program([x], [b.scan("add", x, 1), b.scan("maximum", x, 0)])

    runs = made_by().compile(program(n.size, m.size), {})
    kernels = [each.kernel for task in runs.tasks for each in (task.kernel.parts or [task])]
    assert all("to a row" in kernel.note for kernel in kernels)
    for sizes in ((rows, length), (2, 2), (5, 257), (3, 2100), (33, 64)):
        one = program(*sizes)
        arrays = arrays_for(one)
        for want, found in zip(interpret(one, arrays), runs(arrays), strict=True):
            close(found, np.asarray(want), f"at {sizes}")


def test_numbers_of_sizes_are_computed_where_they_are_used():
    """A mean's 1 / n: neither is anybody waited for because of it, nor does it lie in memory."""
    n = Symbol("s0", 40)

    def program(n):
        x = given((n, 24))
        count = b.cast(b.size(n * 24), np.float32)
        loss = b.map_values("divide", b.reduce("add", b.map_values("square", x), (0, 1)), count)
        slope = b.map_values("divide", b.constant(np.float32(2)), count)
        return Program([x], [loss, b.map_values("multiply", x, slope)])

    runs = made_by().compile(program(n.size), {})
    assert len(runs.tasks) == len(made_by().compile(program(40), {}).tasks) == 1
    for length in (40, 3, 61):
        one = program(length)
        arrays = arrays_for(one)
        for want, found in zip(interpret(one, arrays), runs(arrays), strict=True):
            close(found, np.asarray(want), f"at {length}")


def test_a_number_of_sizes_that_is_a_result_or_a_factor_lies_in_memory():
    n = Symbol("s0", 40)

    def program(n):
        x, count = given((n, 4)), b.cast(b.size(n * 3), np.float32)
        half = b.map_values("multiply", count, b.constant(np.float32(0.5)))
        row = b.expand(b.reshape(half, (1, 1)), (1, n))
        return Program([x], [count, b.matmul(row, x), b.map_values("add", x, half)])

    runs = made_by().compile(program(n.size), {})
    for length in (40, 3, 61):
        one = program(length)
        arrays = arrays_for(one)
        for want, found in zip(interpret(one, arrays), runs(arrays), strict=True):
            close(found, np.asarray(want), f"at {length}")


@pytest.mark.parametrize("rows", [(40, 3), (300, 41), (41, 700)])
def test_rows_that_are_kept_and_summed_by_blocks(rows, monkeypatch):
    """Some blocks, and some teams of a block, may have no row: they keep what others do, and add nothing."""
    monkeypatch.setattr(arrangement, "LEAST_THREADS_THAT_KEEP", 8)
    first, n = rows[0], Symbol("s0", rows[0])

    def program(n):
        x = given((n, 40))
        soft = b.map_values("exp", b.map_values("subtract", x, b.reduce("maximum", x, (1,), True)))
        made = b.map_values("divide", soft, b.reduce("add", soft, (1,), True))
        every = b.reduce("add", b.map_values("square", made), (0, 1))
        return Program([x], [made, b.reduce("add", b.reduce("maximum", made, (1,)), (0,)), every])

    runs = made_by().compile(program(n.size), {})
    assert any(getattr(task.kernel, "kept", 0) for task in runs.tasks)
    for length in (first, *rows[1:], 17, 1000):
        one = program(length)
        arrays = arrays_for(one)
        for want, found in zip(interpret(one, arrays), runs(arrays), strict=True):
            close(found, np.asarray(want), f"at {length}")


@pytest.mark.parametrize("rows", [500, 9000, 20000])
def test_a_loss_of_many_rows_goes_through_them_once(rows):
    """How many targets count is known before the rows, and waits for none of them."""
    logits, targets = given((rows, 30)), given((rows,), np.int64)
    count = b.cast(
        b.reduce("add", b.map_values("not_equal", targets, b.constant(np.int64(-1))), (0,)), np.float32
    )
    soft = b.map_values("exp", b.map_values("subtract", logits, b.reduce("maximum", logits, (1,), True)))
    sums = b.reduce("add", soft, (1,), True)
    loss = b.map_values("divide", b.reduce("add", b.map_values("log", sums), (0, 1)), count)
    slope = b.map_values("divide", b.constant(np.float32(1)), count)
    program = Program(
        [logits, targets], [loss, b.map_values("multiply", b.map_values("divide", soft, sums), slope)]
    )
    made = made_by(serial_elements=1 << 13).compile(program, {})
    assert sum(rows * 30 * 4 <= sum(each.nbytes for each in set(task.touches)) for task in made.tasks) == 1


@pytest.mark.parametrize("perhaps_once", [False, True])
def test_what_may_run_only_once_becomes_a_graph_the_second_time(perhaps_once):
    noted = []
    usual = SimpleNamespace(ptr=0)
    graph = SimpleNamespace(launch=lambda: noted.append("graph"))

    class Capturing(contextlib.nullcontext):
        begin_capture, end_capture = staticmethod(lambda: None), staticmethod(lambda: graph)

    cuda = SimpleNamespace(Stream=lambda non_blocking: Capturing(), get_current_stream=lambda: usual)
    device = Cuda()
    device.__dict__["cupy"] = SimpleNamespace(cuda=cuda)
    kernel = Kernel([], ["a", (SIZE, 7)], 3, 32, 0, {}, sizes=1)

    def function(blocks, threads, operands, shared, stream):
        noted.append(("launched" if stream is usual else "captured", blocks[0], *map(int, operands)))

    run = device.sequence([Launch(function, kernel, [1, 0])], None, np.array([5, 4096]), (), perhaps_once)
    for _ in range(3):
        run()
    captured = [("captured", 3, 4096, 5), "graph", "graph"]
    assert noted == ([("launched", 3, 4096, 5), *captured] if perhaps_once else [*captured, "graph"])


# --- functions of tensors on a GPU ------------------------------------------------------------------------------------


class Gpt(nn.Module):
    def __init__(self, block=64):
        super().__init__()
        self.tokens, self.places = nn.Embedding(11, 8), nn.Embedding(block, 8)
        self.block = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True, norm_first=True)
        self.norm, self.head = nn.LayerNorm(8), nn.Linear(8, 11, bias=False)

    def forward(self, tokens):
        at = mt.arange(tokens.shape[1], device=tokens.device)
        mask = at.reshape(1, tokens.shape[1]) > at.reshape(tokens.shape[1], 1)
        return self.head(self.norm(self.block(self.tokens(tokens) + self.places(at), src_mask=mask)))


class Padded(nn.Module):
    """Rows of which each has a length, and the rest is masked."""

    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
        self.out = nn.Linear(8, 3)

    def forward(self, x):
        lengths = (x[:, :, 0] > 0).sum(1) + 1
        at = mt.arange(x.shape[1], device=x.device).reshape(1, x.shape[1])
        beyond = at >= lengths.reshape(x.shape[0], 1)
        kept = (~beyond).to(x.dtype).unsqueeze(2)
        return self.out((self.layer(x, src_key_padding_mask=beyond) * kept).sum(1) / kept.sum(1))


def normal(*shape):
    return np.random.default_rng(shape).normal(size=shape).astype(np.float32)


MODELS = {
    "an MLP": (
        lambda: nn.Sequential(nn.Linear(9, 33), nn.ReLU(), nn.Linear(33, 3)),
        lambda n, _: normal(n, 9),
    ),
    "a convolution": (ConvNet, lambda n, _: normal(n, 2, 8, 8)),
    "an LSTM": (Recurrent, lambda n, _: normal(n, 4, 3)),
    "padded rows": (Padded, lambda n, m: normal(n, m, 8)),
}


def trained(model, batch, sizes, on_device):
    batches = [(batch(n, m), np.arange(n) % 3) for n, m in sizes]
    optimizer = lambda parameters: mt.optim.SGD(parameters, lr=0.1, momentum=0.9)
    losses, state, step = some_gpu.trained(model, optimizer, batches, on_device)
    return [*losses, *state], step


@pytest.mark.parametrize(
    ("name", "most_here"),
    [*((name, 1 << 23) for name in MODELS), *((name, 0) for name in ("a convolution", "padded rows"))],
)
def test_training_on_batches_of_any_size(name, most_here, monkeypatch):
    monkeypatch.setattr(record, "MOST_HERE", most_here)  # (0: recordings compute on the device)
    sizes = [(7, 4), (5, 6), (5, 3), (11, 13), (13, 7), (2, 2), (7, 4), (19, 5)]
    found, step = trained(*MODELS[name], sizes, True)
    expected, _ = trained(*MODELS[name], sizes, False)
    for a, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=2e-3, atol=2e-4)
    assert step.compilations <= 3
    assert step.cache.eager_calls == 0
    assert "sizes that vary: s0" in str(step.explain())


def test_a_smaller_last_batch_and_batches_of_one_and_none():
    net = nn.Linear(6, 4)
    on_host = nn.Linear(6, 4)
    on_host.load_state_dict(net.state_dict())
    net.to("cuda")
    run = mt.compile(lambda x: net(x).tanh().sum(0))
    for n in (8, 8, 3, 8, 3, 1, 0, 8, 5, 0, 1):
        x = mt.tensor(normal(n, 6))
        found = run(x.to("cuda"))
        assert there(found)
        np.testing.assert_allclose(numbers(found), numbers(on_host(x).tanh().sum(0)), rtol=1e-4, atol=1e-5)
    assert run.compilations == 4  # 8, any, 1 and 0
    assert run.cache.eager_calls == 0


def test_generation_over_growing_lengths():
    mt.manual_seed(0)
    here = Gpt().eval()
    net = Gpt().eval()
    net.load_state_dict(here.state_dict())
    net.to("cuda")
    run = mt.compile(lambda tokens: net(tokens)[:, -1].argmax(1))
    tokens = mt.tensor([[1, 2], [3, 4]])
    with mt.no_grad():
        for _ in range(12):
            following = run(tokens.to("cuda"))
            np.testing.assert_array_equal(numbers(following), numbers(here(tokens)[:, -1].argmax(1)))
            tokens = mt.cat([tokens, following.to("cpu").reshape(2, 1)], 1)
    assert run.compilations <= 3
    assert run.cache.eager_calls == 0


def test_gradients_outside_and_an_index_out_of_range():
    table = mt.tensor(normal(7, 3)).to("cuda").requires_grad_()
    run = mt.compile(lambda i: table[i] * 2)
    for n in (4, 6, 9, 5):
        i = mt.arange(n) % 7
        run(i.to("cuda")).sum().backward()
        expected = np.bincount(numbers(i), minlength=7)[:, None] * np.full(3, 2.0)
        np.testing.assert_allclose(numbers(table.grad), expected)
        table.grad = None
    if not REAL:  # (which tells of it at the next call)
        with pytest.raises(IndexError, match="out of bounds|outside"):
            run(mt.tensor([0, 7, 1]).to("cuda"))


class Heads(nn.Module):
    """Attention of heads that tensor cores multiply, causal or with keys that are padding, in float32 or bfloat16."""

    def __init__(self, size, kind):
        super().__init__()
        self.size, self.kind = size, kind
        self.parts, self.out = nn.Linear(24, 6 * size), nn.Linear(2 * size, 3)

    def forward(self, x):
        batch, length, _ = x.shape
        with mt.autocast(x.device.type, dtype=mt.bfloat16, enabled=self.kind == "bfloat16"):
            parts = self.parts(x).split(2 * self.size, dim=2)
            q, k, v = (part.view(batch, length, 2, self.size).transpose(1, 2) for part in parts)
            mask = (x[:, None, None, :, 0] > -1) if self.kind == "padded" else None
            seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
            made = self.out(seen.transpose(1, 2).reshape(batch, length, 2 * self.size))
        return made.float().mean(1)


@pytest.mark.parametrize(
    ("size", "kind"), [(32, "causal"), (64, "padded"), (64, "bfloat16"), (128, "bfloat16"), (128, "causal")]
)
def test_attention_of_any_length(size, kind, monkeypatch):
    if kind == "bfloat16":
        pytest.importorskip("ml_dtypes")
    if size == 128 and not REAL:
        pytest.skip("this processor would take long")
    monkeypatch.setattr(finding_attention, "LEAST_SCORES", 1)
    before = mt.get_float32_matmul_precision()
    mt.set_float32_matmul_precision("high")
    try:
        sizes = [
            (3, 21),
            (2, 33),
            (2, 70),
            (3, 5),
            (2, 64),
            *([(7, 300), (2, 1025), (33, 129)] if REAL else []),
        ]
        found, step = trained(lambda: Heads(size, kind), lambda n, m: normal(n, m, 24), sizes, True)
        expected, _ = trained(lambda: Heads(size, kind), lambda n, m: normal(n, m, 24), sizes, False)
    finally:
        mt.set_float32_matmul_precision(before)
    slack = 20 if kind == "bfloat16" else 4 if REAL else 1
    for a, e in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, e, rtol=2e-3 * slack, atol=5e-4 * slack)
    assert step.compilations <= 3
    assert step.cache.eager_calls == 0
    text = str(step.explain()).partition("sizes that vary: s0")[2]
    assert "gradients of keys and values of attention, tiles of" in text


@pytest.mark.parametrize(
    ("length", "function"),
    [(150, lambda x: x.sort(1)[0]), (150, lambda x: x.argsort(1)), (70_000, lambda x: x.cumsum(1))],
)
def test_rows_of_one_length_that_begin_somewhere_else(length, function):
    """The last three rows, of as many as there are."""
    run = mt.compile(lambda x: function(x[-3:]), fullgraph=True)
    for n in (6, 4, 9, 5):
        x = mt.tensor(normal(n, length))
        found = run(x.to("cuda"))
        np.testing.assert_allclose(numbers(found), function(x[-3:]).numpy(), rtol=1e-4, atol=1e-3)
    assert run.compilations == 2  # of the first length, and of all


def test_a_step_of_training_at_random_sizes():
    """In which something may be empty that a function of NumPy's is given."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not random_shapes.difference(55, "native", device="cuda")[0]
