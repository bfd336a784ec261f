"""Modes and classes that see torch's functions, names of results, sparse gradients: printed alike under PyTorch."""

import subprocess
import sys
import textwrap

from pytorch import torch
from under_both import printed_by_both

PROGRAM = textwrap.dedent(
    """
    import pickle
    import warnings
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.nn.functional import linear as early, relu
    from torch.autograd import profiler
    from torch.autograd.grad_mode import no_grad
    from torch.cuda.amp import GradScaler, autocast
    from torch.cuda.amp.grad_scaler import GradScaler as Same
    from torch.functional import einsum
    from torch.nn.common_types import _size_2_t
    from torch.optim.adamw import AdamW
    from torch.nn.utils import prune
    from torch.overrides import TorchFunctionMode
    from torch.utils import model_zoo

    warnings.simplefilter("ignore")  # PyTorch's, about its sparse tensors
    torch.manual_seed(0)
    print(Same is GradScaler, AdamW is torch.optim.AdamW, einsum("i,i->", torch.ones(2), torch.ones(2)), no_grad is torch.no_grad)
    TABLE = {torch.Tensor.mul: "mul", torch.add: "add", F.relu: "relu", torch.Tensor.exp: "exp"}

    class Log(TorchFunctionMode):
        def __init__(self):
            super().__init__()
            self.seen, self.known = [], []
        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.seen.append(func.__name__)
            self.known.append(func in TABLE or func is torch.Tensor.matmul or func is F.linear)
            return func(*args, **(kwargs or {}))

    x = torch.randn(3, 4, requires_grad=True)
    with Log() as log:
        y = early(x, torch.ones(2, 4))
        z = relu(y)
        ((z * 2 + 1 - y / 3).sum().exp(), F.softmax(z, -1), torch.cat([z, z]), z @ z.t(), -z, z == z, z[0], z.view(-1))
        (torch.matmul(z, z.t()), z.mean(dim=0), F.dropout(z, 0.5), torch.zeros(3), torch.randn(2), 2 * z, z**2, z.float())
        z += 1
        (torch.arange(3), torch.where(z > 0, z, -z), torch.einsum("ij->i", z), torch.add(z, 1), abs(z), z % 2, z // 2)
    print(log.seen, log.known)
    print(x + 1 is not None, "not seen outside", len(log.seen))
    model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), nn.LayerNorm(3), nn.Dropout(0.1), nn.Linear(3, 2))
    with Log() as log:
        F.cross_entropy(model(x), torch.tensor([0, 1, 1]))
    print(log.seen)
    with Log() as outer, Log() as inner:
        x + 1
        F.gelu(x)
    print(outer.seen, inner.seen)

    class Doubled(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is torch.ones or func is F.relu else result

    try:
        with Doubled():
            print(torch.ones(2), F.relu(torch.ones(2)))
            raise KeyError
    except KeyError:
        print("left", torch.ones(2), F.relu(torch.ones(2)))

    class Logged(torch.Tensor):
        seen = []
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            Logged.seen.append(func.__name__)
            return super().__torch_function__(func, types, args, kwargs or {})

    image = torch.ones(2, 4).as_subclass(Logged)
    Logged.seen.clear()
    out = F.layer_norm(F.relu(F.linear(image, torch.ones(3, 4))), (3,))
    kinds = [type(t).__name__ for t in (out, nn.Linear(3, 1)(out), torch.zeros_like(out), F.relu(torch.ones(1)))]
    print(kinds, Logged.seen, pickle.loads(pickle.dumps(F.relu)) is F.relu)
    with Log() as log:
        F.gelu(image)
    print(log.seen)

    # results with names
    v = torch.tensor([[1.0, 3.0], [2.0, 0.0]])
    print(v.max(1), v.sort(1), torch.topk(v, 1), torch.median(v, 0), torch.aminmax(v), torch.linalg.slogdet(v), v.cummin(0))
    print(isinstance(v.min(0), torch.return_types.min), type(v.mode(0)).__name__, torch.return_types.sort.n_fields)
    print(pickle.loads(pickle.dumps(v.max(1))).values)

    # autocast takes the wider of what index_copy is given
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = torch.mm(torch.ones(1, 3), torch.ones(3, 3))
        print(half.dtype, torch.zeros(3, 3).index_copy(0, torch.tensor([0]), half).dtype)

    # arguments of distributions are looked at
    whole = torch.distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
    print(whole.log_prob(torch.ones(2)), torch.distributions.Wishart(torch.tensor(3.0), torch.eye(2)).mean)

    # what backward(create_graph=True) leaves is no view
    layer = nn.Linear(3, 2)
    (layer(torch.ones(4, 3)) ** 3).sum().backward(create_graph=True)
    print(layer.weight.grad.requires_grad, [p.grad.detach_().requires_grad for p in layer.parameters()])
    view = (torch.ones(4, requires_grad=True) * 2)[:2]
    try:
        view.detach_()
    except RuntimeError:
        print("views are not detached in place")

    # a graph convolution over a sparse adjacency, as written years ago; word vectors with sparse gradients
    class GraphConvolution(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.weight = nn.Parameter(torch.FloatTensor(inputs, outputs))
            nn.init.xavier_uniform_(self.weight)
        def forward(self, x, adj):
            return torch.spmm(adj, torch.mm(x, self.weight))

    places = torch.LongTensor([[0, 1, 2, 3, 0, 1], [1, 2, 3, 0, 0, 1]])
    adj = torch.sparse.FloatTensor(places, torch.FloatTensor([0.5, 1.0, 0.5, 1.0, 0.5, 0.25]), torch.Size([4, 4]))
    first, second = GraphConvolution(3, 5), GraphConvolution(5, 2)
    optimizer = torch.optim.Adam([*first.parameters(), *second.parameters()], lr=0.01, weight_decay=5e-4)
    features = torch.randn(4, 3)
    for _ in range(3):
        optimizer.zero_grad()
        out = F.log_softmax(second(F.dropout(F.relu(first(features, adj)), 0.5), adj), dim=1)
        loss = F.nll_loss(out, torch.tensor([0, 1, 0, 1]))
        loss.backward()
        optimizer.step()
        print(f"{loss.item():.4f}")
    words, contexts = nn.Embedding(7, 3, sparse=True), nn.Embedding(7, 3, sparse=True)
    optimizer = torch.optim.SparseAdam([*words.parameters(), *contexts.parameters()], lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        score = (words(torch.tensor([0, 3, 3])) * contexts(torch.tensor([1, 2, 5]))).sum(1)
        loss = -F.logsigmoid(score).mean()
        loss.backward()
        print(words.weight.grad.is_sparse, words.weight.grad._nnz(), f"{loss.item():.4f}")
        optimizer.step()
    print(words.weight.grad, words.weight.grad.coalesce().indices(), adj.layout == torch.sparse_coo, adj.layout)
    """
)


def test_programs_print_the_same_under_both(tmp_path):
    ours, errors, theirs = printed_by_both(PROGRAM, tmp_path)
    assert (ours, errors) == (theirs, "")
    assert torch.ones(1).item() == 1  # and PyTorch itself has its own functions again


def test_a_profile_names_functions_and_gradients(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(
        textwrap.dedent(
            """
            import minitorch, torch
            from torch import nn
            from torch.profiler import profile, record_function

            model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))
            step = minitorch.compile(lambda x: model(x).exp().sum())
            step(torch.ones(2, 4))
            with profile() as measured:
                with record_function("forward"):
                    loss = model(torch.ones(2, 4)).sum()
                loss.backward()
                step(torch.ones(2, 4))  # as it is: every op of it is seen
            found = {each.key: each for each in measured.key_averages()}
            assert found["aten::linear"].count == 4 and found["LinearBackward0"].count == 2 and "aten::exp" in found
            whole = found["forward"]
            assert whole.cpu_time_total > whole.self_cpu_time_total > 0 and found["aten::relu"].self_cpu_time_total > 0
            table = measured.key_averages().table(sort_by="self_cpu_time_total", row_limit=5)
            assert "aten::linear" in table and len(table.splitlines()) == 7
            before = len(measured.found)
            model(torch.ones(2, 4)).sum().backward()
            assert minitorch.engine.modes.current() is minitorch.engine.modes.USUAL
            assert len(measured.found) == before and torch.Tensor.add.__class__.__name__ == "function"
            with torch.autograd.profiler.profile() as measured:
                torch.ones(3) * 2
            assert [each.key for each in measured.key_averages()] == ["aten::ones", "aten::mul"]
            """
        )
    )
    words = [sys.executable, "-m", "minitorch", "run", str(path)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert (ran.returncode, ran.stderr) == (0, "")
