"""Functions of functions: learning to learn, gradients per example, averages of weights, equations solved by nets."""


def learning_to_learn(torch):
    """MAML twice: by autograd.grad with create_graph, and by torch.func with vmap over the tasks."""
    nn, F = torch.nn, torch.nn.functional
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    weights = list(net.parameters())
    optimizer = torch.optim.Adam(weights, lr=1e-2)

    def predict(x, w):
        return F.linear(torch.tanh(F.linear(x, w[0], w[1])), w[2], w[3])

    printed = []
    for _ in range(4):
        losses = []
        for _ in range(3):
            height, shift = torch.empty(1).uniform_(0.1, 5.0), torch.empty(1).uniform_(0, 3.14)
            x = torch.empty(10, 1).uniform_(-5, 5)
            y, fast = height * torch.sin(x + shift), weights
            for _ in range(2):
                slopes = torch.autograd.grad(F.mse_loss(predict(x[:5], fast), y[:5]), fast, create_graph=True)
                fast = [w - 0.01 * g for w, g in zip(fast, slopes, strict=True)]
            losses.append(F.mse_loss(predict(x[5:], fast), y[5:]))
        loss = torch.stack(losses).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        printed.append(loss.item())

    func = torch.func

    def loss_of(parameters, x, y):
        return F.mse_loss(func.functional_call(net, parameters, (x,)), y)

    def after_a_step(parameters, x1, y1, x2, y2):
        slopes = func.grad(loss_of)(parameters, x1, y1)
        return loss_of({k: p - 0.1 * slopes[k] for k, p in parameters.items()}, x2, y2)

    tasks = [torch.randn(4, 5, 1) for _ in range(4)]
    losses = func.vmap(after_a_step, in_dims=(None, 0, 0, 0, 0))(dict(net.named_parameters()), *tasks)
    net.zero_grad()
    losses.mean().backward()
    return [*printed, *losses.tolist(), *(p.grad.norm().item() for p in net.parameters())]


def derivatives_as_functions(torch):
    """Gradients per example, jacobians by rows and columns, hessians, products with vectors, an ensemble in one call."""
    from_func, nn, F = torch.func, torch.nn, torch.nn.functional
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 4))
    parameters = {k: v.detach() for k, v in net.named_parameters()}
    images, labels = torch.randn(5, 1, 6, 6), torch.randint(4, (5,))

    def loss_of(parameters, image, label):
        out = from_func.functional_call(net, parameters, (image.unsqueeze(0),))
        return F.cross_entropy(out, label.unsqueeze(0))

    each = from_func.vmap(from_func.grad(loss_of), in_dims=(None, 0, 0))(parameters, images, labels)
    printed = [v.flatten(1).norm(dim=1) for v in each.values()]
    w, b, x = torch.randn(5, 3), torch.randn(5), torch.randn(3)

    def predict(x):
        return torch.tanh(w @ x + b)

    out, pull = from_func.vjp(predict, x)
    (rows,) = from_func.vmap(pull)(torch.eye(5))
    columns = from_func.vmap(lambda v: from_func.jvp(predict, (x,), (v,))[1], out_dims=1)(torch.eye(3))
    printed += [out, rows, columns, from_func.jacrev(predict)(x), from_func.jacfwd(predict)(x)]

    def energy(x):
        return predict(x).pow(2).sum()

    printed += [
        from_func.hessian(energy)(x),
        from_func.jvp(from_func.grad(energy), (x,), (torch.ones(3),))[1],
    ]
    slope, value = from_func.grad_and_value(energy)(x)
    models = [nn.Linear(3, 2) for _ in range(4)]
    state = from_func.stack_module_state(models)
    together = from_func.vmap(
        lambda p, b, x: from_func.functional_call(models[0], (p, b), (x,)), in_dims=(0, 0, None)
    )
    printed += [slope, value, together(*state, torch.ones(2, 3))]
    return [v for each in printed for v in each.detach().flatten().tolist()]


def averaged_weights(torch):
    """Stochastic weight averaging and moving averages by swa_utils, with batch norm statistics taken afterwards."""
    nn, swa = torch.nn, torch.optim.swa_utils
    torch.manual_seed(0)
    x, y = torch.randn(64, 10), torch.randn(64, 1)
    data = torch.utils.data.TensorDataset(x, y)
    loader = torch.utils.data.DataLoader(data, batch_size=16, shuffle=True)
    model = nn.Sequential(nn.Linear(10, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20)
    averaged, late = swa.AveragedModel(model), swa.SWALR(optimizer, swa_lr=0.05, anneal_epochs=3)
    moving = swa.AveragedModel(model, multi_avg_fn=swa.get_ema_multi_avg_fn(0.9), use_buffers=True)
    printed = []
    for epoch in range(8):
        for xb, yb in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(xb), yb)
            loss.backward()
            optimizer.step()
            moving.update_parameters(model)
        if epoch > 3:
            averaged.update_parameters(model)
            late.step()
        else:
            schedule.step()
        printed += [loss.item(), optimizer.param_groups[0]["lr"]]
    swa.update_bn(loader, averaged)
    for each in (averaged, moving):
        each.eval()
        printed += [nn.functional.mse_loss(each(x), y).item(), each.n_averaged.item()]
    return printed


def messages_on_a_graph(torch):
    """Graph convolution, attention over edges and pooling, by scatter_add_, index_add_ and scatter_reduce."""
    nn, F = torch.nn, torch.nn.functional
    torch.manual_seed(42)
    count = 30
    edges = torch.cat([torch.randint(0, count, (2, 90)), torch.arange(count).repeat(2, 1)], dim=1)
    x, y = torch.randn(count, 8), torch.randint(0, 3, (count,))

    class Convolution(nn.Module):
        def __init__(self, inputs, outputs):
            super().__init__()
            self.lin = nn.Linear(inputs, outputs)

        def forward(self, x, edges):
            source, target = edges
            degree = torch.zeros(x.size(0)).scatter_add_(0, target, torch.ones(target.size(0)))
            scale = degree.pow(-0.5)
            scale[scale == float("inf")] = 0
            x = self.lin(x)
            messages = x[source] * (scale[source] * scale[target]).unsqueeze(-1)
            return torch.zeros_like(x).index_add_(0, target, messages)

    class Attention(nn.Module):
        def __init__(self, inputs, outputs, heads=2):
            super().__init__()
            self.lin, self.heads = nn.Linear(inputs, outputs * heads, bias=False), heads
            self.a = nn.Parameter(torch.empty(1, heads, 2 * outputs))
            nn.init.xavier_uniform_(self.a.data, gain=1.414)

        def forward(self, x, edges):
            source, target = edges
            h = self.lin(x).view(x.size(0), self.heads, -1)
            scores = F.leaky_relu((torch.cat([h[source], h[target]], -1) * self.a).sum(-1), 0.2)
            place = target[:, None].expand(-1, self.heads)
            top = torch.full((x.size(0), self.heads), -1e9).scatter_reduce(0, place, scores, reduce="amax")
            weights = torch.exp(scores - top[target])
            weights = weights / (
                torch.zeros(x.size(0), self.heads).index_add(0, target, weights)[target] + 1e-16
            )
            weights = F.dropout(weights, 0.3, self.training)
            out = torch.zeros_like(h)
            out.index_add_(0, target, h[source] * weights.unsqueeze(-1))
            return F.elu(out.mean(1))

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second, self.last = Convolution(8, 16), Attention(16, 16), Convolution(16, 3)

        def forward(self, x, edges):
            x = F.dropout(F.relu(self.first(x, edges)), p=0.5, training=self.training)
            return F.log_softmax(self.last(self.second(x, edges), edges), dim=1)

    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    chosen = torch.zeros(count, dtype=torch.bool)
    chosen[torch.randperm(count)[:20]] = True
    printed = []
    for _ in range(8):
        model.train()
        optimizer.zero_grad()
        loss = F.nll_loss(model(x, edges)[chosen], y[chosen])
        loss.backward()
        optimizer.step()
        model.eval()
        right = model(x, edges).max(dim=1)[1][~chosen].eq(y[~chosen]).sum()
        printed += [loss.item(), int(right) / int((~chosen).sum())]
    return printed


def burgers_equation(torch):
    """A net that satisfies a differential equation: third derivatives in all, Adam, then LBFGS with a line search."""
    nn = torch.nn
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(2, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 1))
    viscosity = nn.Parameter(torch.tensor([0.01]))
    parameters = [*net.parameters(), viscosity]
    start, inside = torch.rand(20, 1) * 2 - 1, torch.rand(30, 2) * 2 - 1
    wanted = -torch.sin(3.14159 * start)

    def loss_of():
        x, t = inside[:, :1].clone().requires_grad_(), inside[:, 1:].clone().requires_grad_()
        u = net(torch.cat([x, t], dim=1))
        ones = torch.ones_like(u)
        u_x, u_t = torch.autograd.grad(u, (x, t), ones, create_graph=True)
        (u_xx,) = torch.autograd.grad(u_x, x, ones, create_graph=True, only_inputs=True)
        loss = ((net(torch.cat([start, torch.zeros_like(start)], 1)) - wanted) ** 2).mean()
        loss += ((u_t + u * u_x - viscosity * u_xx) ** 2).mean()
        return loss

    adam = torch.optim.Adam(parameters, 1e-3)
    printed = []
    for _ in range(5):
        adam.zero_grad()
        loss = loss_of()
        loss.backward()
        adam.step()
        printed += [loss.item(), viscosity.item()]
    quasi_newton = torch.optim.LBFGS(parameters, max_iter=4, line_search_fn="strong_wolfe")

    def closure():
        quasi_newton.zero_grad()
        loss = loss_of()
        loss.backward()
        return loss

    quasi_newton.step(closure)
    return [*printed, loss_of().item()]
