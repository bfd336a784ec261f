"""First lessons: regression by hand and by nn, autograd tours, custom functions, hooks, tensors and their in-place forms."""

import math


def linear_regression(torch):
    """A cubic fitted to a sine by hand-written gradient descent, and least squares through .data and .grad."""
    torch.manual_seed(42)
    dtype, device = torch.float, torch.device("cpu")
    x = torch.linspace(-math.pi, math.pi, 200, device=device, dtype=dtype)
    y = torch.sin(x)
    a, b, c, d = (torch.randn((), device=device, dtype=dtype, requires_grad=True) for _ in range(4))
    printed = []
    for t in range(200):
        y_pred = a + b * x + c * x**2 + d * x**3
        loss = (y_pred - y).pow(2).sum()
        if t % 10 == 9:
            printed.append(loss.item())
        loss.backward()
        with torch.no_grad():
            a -= 1e-5 * a.grad
            b -= 1e-5 * b.grad
            c -= 1e-5 * c.grad
            d -= 1e-5 * d.grad
            a.grad = None
            b.grad = None
            c.grad = None
            d.grad = None
    w = torch.randn(5, 1, requires_grad=True)
    bias = torch.zeros(1, requires_grad=True)
    X = torch.randn(30, 5)
    Y = X @ torch.tensor([[1.0], [2.0], [-1.0], [0.5], [3.0]]) + 0.7
    for _ in range(20):
        loss = ((X.mm(w) + bias - Y) ** 2).mean()
        loss.backward()
        w.data = w.data - 0.05 * w.grad.data
        bias.data.sub_(0.05 * bias.grad)
        w.grad.zero_()
        bias.grad.data.zero_()
        printed.append(loss.item())
    return [*printed, a.item(), b.item(), c.item(), d.item(), *w.flatten().tolist(), bias.item()]


def logistic_regression(torch):
    """By nn with an update under no_grad, and by hand beside the analytic gradient."""
    nn = torch.nn
    torch.manual_seed(1)
    X = torch.randn(64, 4)
    y = (X[:, 0] - X[:, 1] > 0).float().view(-1, 1)
    model = nn.Linear(4, 1)
    printed = []
    for _ in range(25):
        loss = nn.BCEWithLogitsLoss()(model(X), y)
        model.zero_grad()
        loss.backward()
        with torch.no_grad():
            for param in model.parameters():
                param -= 0.5 * param.grad
        accuracy = ((torch.sigmoid(model(X)) > 0.5).float() == y).float().mean()
        printed += [
            loss.item(),
            accuracy.item(),
            model.weight.grad.norm().item(),
            model.weight.grad.abs().max().item(),
        ]

    # By hand, with the analytic gradient beside it.
    w = torch.zeros(4, 1, dtype=torch.float64, requires_grad=True)
    Xd, yd = X.double(), y.double()
    for _ in range(20):
        p = torch.sigmoid(Xd @ w)
        loss = -(yd * p.log() + (1 - yd) * (1 - p).log()).mean()
        loss.backward()
        by_hand = Xd.t() @ (p - yd) / len(Xd)
        assert torch.allclose(by_hand.detach(), torch.as_tensor(w.grad))
        w.data -= 1.0 * w.grad
        w.grad = None
        printed.append(loss.item())
    return printed


def autograd_tour(torch):
    """Custom Functions, hooks, non-scalar backward, higher derivatives, jacobians, gradcheck, Variable."""
    torch.manual_seed(2)
    Function = torch.autograd.Function

    class MyReLU(Function):
        @staticmethod
        def forward(ctx, input):
            ctx.save_for_backward(input)
            return input.clamp(min=0)

        @staticmethod
        def backward(ctx, grad_output):
            (input,) = ctx.saved_tensors
            grad_input = grad_output.clone()
            grad_input[input < 0] = 0
            return grad_input

    class LegendrePolynomial3(Function):
        @staticmethod
        def forward(ctx, input):
            ctx.save_for_backward(input)
            return 0.5 * (5 * input**3 - 3 * input)

        @staticmethod
        def backward(ctx, grad_output):
            (input,) = ctx.saved_tensors
            return grad_output * 1.5 * (5 * input**2 - 1)

    N, D_in, H, D_out = 8, 10, 6, 3
    x, y = torch.randn(N, D_in), torch.randn(N, D_out)
    w1 = torch.randn(D_in, H, requires_grad=True)
    w2 = torch.randn(H, D_out, requires_grad=True)
    printed = []
    for _ in range(20):
        relu = MyReLU.apply
        y_pred = relu(x.mm(w1)).mm(w2)
        loss = (y_pred - y).pow(2).sum()
        printed.append(loss.item())
        loss.backward()
        with torch.no_grad():
            w1 -= 1e-3 * w1.grad
            w2 -= 1e-3 * w2.grad
            w1.grad.zero_()
            w2.grad.zero_()
    P3 = LegendrePolynomial3.apply
    t = torch.linspace(-1, 1, 5, requires_grad=True)
    P3(t).sum().backward()
    printed += t.grad.tolist()

    # Non-scalar backward, accumulation, detach, hooks, higher order, jacobians.
    x = torch.randn(3, requires_grad=True)
    y = x * 2
    while y.data.norm() < 1000:
        y = y * 2
    y.backward(torch.tensor([0.1, 1.0, 0.0001], dtype=torch.float))
    printed += x.grad.tolist()
    x.grad.zero_()
    seen = []
    h = x.register_hook(lambda g: seen.append(g.norm().item()))
    (x**3).sum().backward()
    h.remove()
    printed += seen + x.grad.tolist() + [x.grad.std().item(), x.grad.var().item()]
    (first,) = torch.autograd.grad((x**4).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    printed += second.tolist()
    J = torch.autograd.functional.jacobian(lambda v: torch.stack([v.sin().sum(), v.prod()]), torch.randn(3))
    Hs = torch.autograd.functional.hessian(lambda v: (v**3).sum() + v.prod(), torch.randn(3))
    printed += J.flatten().tolist() + Hs.flatten().tolist()
    assert torch.autograd.gradcheck(P3, (torch.randn(4, dtype=torch.double, requires_grad=True),))
    Variable = torch.autograd.Variable
    v = Variable(torch.ones(2, 2), requires_grad=True)
    out = ((v + 2) * (v + 2) * 3).mean()
    out.backward()
    return printed + v.grad.view(-1).tolist()


def hooks_and_statistics(torch):
    """Activation statistics by hooks, gradient norms, freezing, parameter groups, a schedule with warm-up."""
    nn = torch.nn
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(6, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 2))
    for name, p in model.named_parameters():
        if "weight" in name:
            nn.init.xavier_normal_(p, gain=nn.init.calculate_gain("tanh"))
        else:
            p.data.zero_()
    stats = []
    handles = []
    for layer in model:
        if isinstance(layer, nn.Tanh):
            handles.append(
                layer.register_forward_hook(lambda m, i, o: stats.append((o.mean().item(), o.std().item())))
            )
            handles.append(
                layer.register_full_backward_hook(
                    lambda m, gi, go: stats.append((go[0].std().item(), gi[0].abs().max().item()))
                )
            )
    for p in model[0].parameters():
        p.requires_grad = False
    optimizer = torch.optim.SGD(
        [{"params": model[2].parameters(), "lr": 0.05}, {"params": model[4].parameters()}], lr=0.1, momentum=0.9, nesterov=True
    )  # fmt: skip
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=5)
    cool = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, cool], milestones=[5])
    printed = []
    for i in range(20):
        x = torch.randn(16, 6)
        target = (x.sum(1) > 0).long()
        if i == 10:
            for p in model[0].parameters():
                p.requires_grad = True
            optimizer.add_param_group({"params": model[0].parameters(), "lr": 0.01})
        loss = nn.functional.cross_entropy(model(x), target)
        optimizer.zero_grad()
        loss.backward()
        total_norm = 0.0
        for p in model.parameters():
            if p.grad is not None:
                total_norm += p.grad.data.norm(2).item() ** 2
        printed += [loss.item(), total_norm**0.5, optimizer.param_groups[0]["lr"]]
        optimizer.step()
        if i != 10:
            schedule.step()
    for handle in handles:
        handle.remove()
    vector = nn.utils.parameters_to_vector(model.parameters())
    return printed + [v for pair in stats for v in pair] + [vector.norm().item()]


def tensor_tour(torch):
    """What a first notebook does with tensors: creation, views, in-place forms, indexing, statistics."""
    torch.manual_seed(4)
    printed = []

    def show(*values):
        for v in values:
            printed.extend(torch.as_tensor(v).double().flatten().tolist())

    x = torch.empty(2, 3).uniform_(-1, 1)
    show(
        x,
        x.t(),
        x.new_ones(2, dtype=torch.double),
        torch.randn_like(x, dtype=torch.float),
        x.size(0),
        x.shape.numel(),
    )
    y = torch.rand(2, 3)
    result = torch.empty(2, 3).copy_(torch.add(x, y))
    y.add_(x).mul_(2).clamp_(min=0.1).sqrt_()
    show(result, y, y.numpy(), y[:, 1], y.view(-1, 2), y.view(6).tolist(), y.item() if y.numel() == 1 else 0)
    b = torch.from_numpy(x.numpy())
    b.add_(1)
    show(x, b, torch.is_tensor(b), b.is_contiguous(), b.type(torch.LongTensor), b.long(), b.int().float())
    m = torch.arange(12).reshape(3, 4)
    show(
        m[1],
        m[:, -1],
        m[m > 5],
        m[[0, 2]],
        m[..., ::2],
        m.T,
        m.sum(dim=0),
        m.float().mean(1, keepdim=True),
        m.max(),
        m.argmax(),
    )
    values, indices = m.float().max(dim=1)
    show(
        values,
        indices,
        m.float().std(0),
        m.float().var(unbiased=False),
        m.sort(descending=True)[0],
        m.cumsum(0),
        m.prod(),
    )
    z = torch.zeros(3, 5).scatter_(1, torch.tensor([[1], [4], [0]]), 1.0)
    z[0, 0] += 3
    z[1:, 2:] = torch.tensor([7.0, 8.0, 9.0])
    z.masked_fill_(z == 9, -1.0)
    z[:, 3].fill_(0.5)
    show(
        z,
        z.nonzero(),
        z.tril(),
        z.triu(1),
        torch.where(z > 0, z, torch.zeros_like(z)),
        z.ne(0).sum(),
        z.unique(),
    )
    show(
        torch.cat([x, y]),
        torch.stack([x, y], dim=1),
        torch.chunk(m, 2, dim=1)[1],
        m.split([1, 3], dim=1)[1],
        x.repeat(2, 2),
    )
    show(
        x.expand(4, 2, 3),
        x.unsqueeze(0).squeeze(),
        x.permute(1, 0),
        x.flatten(),
        torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")[1],
    )
    show(
        torch.einsum("ij,kj->ik", x, y),
        x @ y.T,
        torch.mm(x, y.t()),
        torch.dot(x[0], y[0]),
        torch.outer(x[0], y[0]),
        torch.bmm(x[None], y.T[None]),
    )
    show(
        torch.eye(3),
        torch.full((2,), 3.5),
        torch.linspace(0, 1, 5),
        torch.logspace(0, 2, 3),
        torch.randperm(6),
        torch.randint(3, 9, (4,)),
    )
    show(
        torch.bernoulli(torch.full((8,), 0.4)),
        torch.normal(0.0, 1.0, size=(4,)),
        torch.normal(torch.arange(3.0), 0.1),
        torch.multinomial(torch.ones(5), 3),
    )
    show(
        torch.floor(x * 3),
        torch.round(x * 3),
        torch.fmod(m, 5),
        m % 5,
        m // 4,
        torch.pow(x.abs(), 0.3),
        torch.exp(x),
        torch.log1p(x.abs()),
    )
    show(
        torch.quantile(x, 0.4),
        x.median(),
        x.norm(),
        x.norm(p=1),
        torch.linalg.norm(x, dim=1),
        torch.allclose(x, x + 1e-9),
        x.eq(b).all(),
    )
    show(
        torch.bincount(torch.tensor([0, 1, 1, 3])),
        torch.histc(x, 4, -1, 2),
        torch.unique(torch.tensor([3, 1, 3])),
        torch.searchsorted(torch.tensor([1.0, 3.0]), torch.tensor([2.0])),
    )
    show(
        torch.cdist(x, y),
        torch.cov(x),
        torch.tensor([[1.0, 2.0], [3.0, 4.0]]).inverse(),
        torch.det(torch.eye(2) * 3),
        torch.trace(m.float()[:, :3]),
    )
    t = torch.zeros(4)
    t.random_(0, 10)
    show(
        t,
        t.exponential_(),
        t.normal_(1, 2),
        t.bernoulli_(0.3),
        t.geometric_(0.4),
        torch.zeros(2, 2).fill_(3).neg_().abs_().pow_(2).exp_().log_(),
    )
    show(
        torch.finfo(torch.float32).max > 1e38,
        torch.iinfo(torch.int64).max == 2**63 - 1,
        torch.get_default_dtype() == torch.float32,
    )
    g = torch.Generator()
    g.manual_seed(99)
    show(
        torch.rand(3, generator=g),
        torch.randn(20, generator=g),
        torch.randint(0, 5, (3,), generator=g),
        torch.randperm(4, generator=g),
    )
    state = torch.get_rng_state()
    first = torch.rand(2)
    torch.set_rng_state(state)
    show(first == torch.rand(2))
    return printed
