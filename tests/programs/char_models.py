"""Character-level models as lecture notebooks write them: bigrams by counting, an MLP, backprop by hand, RNN cells."""

WORDS = [
    "emma",
    "olivia",
    "ava",
    "isabella",
    "sophia",
    "charlotte",
    "mia",
    "amelia",
    "harper",
    "evelyn",
    "abigail",
    "emily",
    "ella",
    "avery",
]


def vocabulary():
    chars = sorted(set("".join(WORDS)))
    stoi = {s: i + 1 for i, s in enumerate(chars)}
    stoi["."] = 0
    return stoi


def bigram(torch):
    """Counts, probabilities, sampling; then the same by gradient descent on a table of logits."""
    F = torch.nn.functional
    stoi = vocabulary()
    n = len(stoi)
    N = torch.zeros((n, n), dtype=torch.int32)
    xs, ys = [], []
    for w in WORDS:
        chs = ["."] + list(w) + ["."]
        for a, b in zip(chs, chs[1:], strict=False):
            N[stoi[a], stoi[b]] += 1
            xs.append(stoi[a])
            ys.append(stoi[b])
    P = (N + 1).float()
    P /= P.sum(1, keepdim=True)
    g = torch.Generator().manual_seed(2147483647)
    printed = []
    for _ in range(5):
        ix = 0
        while True:
            ix = torch.multinomial(P[ix], num_samples=1, replacement=True, generator=g).item()
            printed.append(float(ix))
            if ix == 0:
                break
    log_likelihood = 0.0
    for a, b in zip(xs, ys, strict=True):
        log_likelihood += torch.log(P[a, b])
    printed.append((-log_likelihood / len(xs)).item())

    xs, ys = torch.tensor(xs), torch.tensor(ys)
    W = torch.randn((n, n), generator=g, requires_grad=True)
    for _ in range(25):
        xenc = F.one_hot(xs, num_classes=n).float()
        logits = xenc @ W
        counts = logits.exp()
        probs = counts / counts.sum(1, keepdims=True)
        loss = -probs[torch.arange(xs.nelement()), ys].log().mean() + 0.01 * (W**2).mean()
        W.grad = None
        loss.backward()
        W.data += -50 * W.grad
        printed.append(loss.item())
    return printed


def build(torch, block):
    stoi = vocabulary()
    X, Y = [], []
    for w in WORDS:
        context = [0] * block
        for ch in w + ".":
            X.append(context)
            Y.append(stoi[ch])
            context = context[1:] + [stoi[ch]]
    return torch.tensor(X), torch.tensor(Y), len(stoi)


def mlp(torch):
    """An MLP with a batch norm written by hand, its statistics, and the update-to-data ratios of a notebook."""
    F = torch.nn.functional
    X, Y, n = build(torch, 3)
    g = torch.Generator().manual_seed(2147483647)
    C = torch.randn((n, 6), generator=g)
    W1 = torch.randn((18, 40), generator=g) * (5 / 3) / (18**0.5)
    W2 = torch.randn((40, n), generator=g) * 0.01
    b2 = torch.randn(n, generator=g) * 0
    bngain, bnbias = torch.ones((1, 40)), torch.zeros((1, 40))
    bnmean_running, bnstd_running = torch.zeros((1, 40)), torch.ones((1, 40))
    parameters = [C, W1, W2, b2, bngain, bnbias]
    printed = [float(sum(p.nelement() for p in parameters))]
    for p in parameters:
        p.requires_grad = True
    for i in range(40):
        ix = torch.randint(0, X.shape[0], (16,), generator=g)
        emb = C[X[ix]]
        hpreact = emb.view(emb.shape[0], -1) @ W1
        bnmeani = hpreact.mean(0, keepdim=True)
        bnstdi = hpreact.std(0, keepdim=True)
        hpreact = bngain * (hpreact - bnmeani) / bnstdi + bnbias
        with torch.no_grad():
            bnmean_running = 0.999 * bnmean_running + 0.001 * bnmeani
            bnstd_running = 0.999 * bnstd_running + 0.001 * bnstdi
        h = torch.tanh(hpreact)
        logits = h @ W2 + b2
        loss = F.cross_entropy(logits, Y[ix])
        for p in parameters:
            p.grad = None
        loss.backward()
        lr = 0.1 if i < 30 else 0.01
        for p in parameters:
            p.data += -lr * p.grad
        with torch.no_grad():
            ud = [((lr * p.grad).std() / p.data.std()).log10().item() for p in parameters[:3]]
        printed += [loss.item(), *ud]
    for p in parameters:
        t = p.grad
        printed += [t.std().item(), t.mean().item(), t.abs().max().item()]

    @torch.no_grad()
    def evaluate(x, y):
        h = torch.tanh(bngain * (C[x].view(x.shape[0], -1) @ W1 - bnmean_running) / bnstd_running + bnbias)
        return F.cross_entropy(h @ W2 + b2, y).item()

    return [*printed, evaluate(X, Y), float(h.abs().gt(0.97).float().mean())]


def backprop_by_hand(torch):
    """Every gradient of the MLP by hand, compared with .grad."""
    F = torch.nn.functional
    X, Y, vocab_size = build(torch, 3)
    n_embd, n_hidden, n = 10, 32, 16
    g = torch.Generator().manual_seed(2147483647)
    C = torch.randn((vocab_size, n_embd), generator=g)
    W1 = torch.randn((n_embd * 3, n_hidden), generator=g) * (5 / 3) / ((n_embd * 3) ** 0.5)
    b1 = torch.randn(n_hidden, generator=g) * 0.1
    W2 = torch.randn((n_hidden, vocab_size), generator=g) * 0.1
    b2 = torch.randn(vocab_size, generator=g) * 0.1
    bngain = torch.randn((1, n_hidden)) * 0.1 + 1.0 if False else torch.ones((1, n_hidden)) * 1.1
    bnbias = torch.full((1, n_hidden), 0.1)
    parameters = [C, W1, b1, W2, b2, bngain, bnbias]
    for p in parameters:
        p.requires_grad = True
    ix = torch.randint(0, X.shape[0], (n,), generator=g)
    Xb, Yb = X[ix], Y[ix]
    emb = C[Xb]
    embcat = emb.view(emb.shape[0], -1)
    hprebn = embcat @ W1 + b1
    bnmeani = 1 / n * hprebn.sum(0, keepdim=True)
    bndiff = hprebn - bnmeani
    bndiff2 = bndiff**2
    bnvar = 1 / (n - 1) * (bndiff2).sum(0, keepdim=True)
    bnvar_inv = (bnvar + 1e-5) ** -0.5
    bnraw = bndiff * bnvar_inv
    hpreact = bngain * bnraw + bnbias
    h = torch.tanh(hpreact)
    logits = h @ W2 + b2
    logit_maxes = logits.max(1, keepdim=True).values
    norm_logits = logits - logit_maxes
    counts = norm_logits.exp()
    counts_sum = counts.sum(1, keepdims=True)
    counts_sum_inv = counts_sum**-1
    probs = counts * counts_sum_inv
    logprobs = probs.log()
    loss = -logprobs[range(n), Yb].mean()
    for p in parameters:
        p.grad = None
    steps = [logprobs, probs, counts, counts_sum, counts_sum_inv, norm_logits, logit_maxes, logits, h, hpreact,
             bnraw, bnvar_inv, bnvar, bndiff2, bndiff, hprebn, bnmeani, embcat, emb]  # fmt: skip
    for t in steps:
        t.retain_grad()
    loss.backward()

    dlogprobs = torch.zeros_like(logprobs)
    dlogprobs[range(n), Yb] = -1.0 / n
    dprobs = (1.0 / probs) * dlogprobs
    dcounts_sum_inv = (counts * dprobs).sum(1, keepdim=True)
    dcounts = counts_sum_inv * dprobs
    dcounts_sum = (-(counts_sum**-2)) * dcounts_sum_inv
    dcounts += torch.ones_like(counts) * dcounts_sum if not dcounts.requires_grad else 0
    dcounts_total = (
        dcounts.detach() + (torch.ones_like(counts) * dcounts_sum).detach() * dcounts.requires_grad
    )
    dnorm_logits = counts.detach() * dcounts_total
    dlogits = dnorm_logits.clone()
    dlogit_maxes = (-dnorm_logits).sum(1, keepdim=True)
    dlogits += F.one_hot(logits.max(1).indices, num_classes=logits.shape[1]) * dlogit_maxes
    dh = dlogits @ W2.T
    dW2 = h.T @ dlogits
    db2 = dlogits.sum(0)
    dhpreact = (1.0 - h**2) * dh
    dbngain = (bnraw * dhpreact).sum(0, keepdim=True)
    dbnraw = bngain * dhpreact
    dbnbias = dhpreact.sum(0, keepdim=True)
    dbndiff = bnvar_inv * dbnraw
    dbnvar_inv = (bndiff * dbnraw).sum(0, keepdim=True)
    dbnvar = (-0.5 * (bnvar + 1e-5) ** -1.5) * dbnvar_inv
    dbndiff2 = (1.0 / (n - 1)) * torch.ones_like(bndiff2) * dbnvar
    dbndiff = dbndiff + (2 * bndiff) * dbndiff2
    dhprebn = dbndiff.clone()
    dbnmeani = (-dbndiff).sum(0)
    dhprebn = dhprebn + 1.0 / n * (torch.ones_like(hprebn) * dbnmeani)
    dembcat = dhprebn @ W1.T
    dW1 = embcat.T @ dhprebn
    db1 = dhprebn.sum(0)
    demb = dembcat.view(emb.shape)
    dC = torch.zeros_like(C)
    for k in range(Xb.shape[0]):
        for j in range(Xb.shape[1]):
            dC[Xb[k, j]] += demb[k, j].detach()
    found = []

    def cmp(dt, t):
        exact = torch.all(dt == t.grad).item()
        approximate = torch.allclose(dt, torch.as_tensor(t.grad), atol=1e-6)
        maxdiff = (dt - t.grad).abs().max().item()
        found.append(float(approximate) + 0.0 * exact)
        assert maxdiff < 1e-6

    for dt, t in [
        (dlogprobs, logprobs), (dprobs, probs), (dcounts_sum_inv, counts_sum_inv), (dcounts_sum, counts_sum),
        (dnorm_logits, norm_logits), (dlogit_maxes, logit_maxes), (dlogits, logits), (dh, h), (dW2, W2), (db2, b2),
        (dhpreact, hpreact), (dbngain, bngain), (dbnbias, bnbias), (dbnraw, bnraw), (dbnvar_inv, bnvar_inv),
        (dbnvar, bnvar), (dbndiff2, bndiff2), (dbndiff, bndiff), (dhprebn, hprebn), (dembcat, embcat), (dW1, W1),
        (db1, b1), (demb, emb), (dC, C),
    ]:  # fmt: skip
        cmp(dt, t)
    # The short form: softmax minus one-hot.
    dshort = F.softmax(logits, 1)
    dshort = dshort - F.one_hot(Yb, vocab_size).to(dshort.dtype)
    dshort = dshort / n
    found.append((dshort - dlogits).abs().max().item() < 1e-6)
    return [float(v) for v in found] + [loss.item(), dC.norm().item(), dW1.sum().item()]


def recurrent(torch):
    """RNN, GRU and LSTM: cells by hand, nn's cells and nn's layers, with a sampling loop."""
    nn, F = torch.nn, torch.nn.functional
    torch.manual_seed(7)
    stoi = vocabulary()
    n = len(stoi)

    class RNNCell(nn.Module):
        def __init__(self, n_embd, n_hidden):
            super().__init__()
            self.xh_to_h = nn.Linear(n_embd + n_hidden, n_hidden)

        def forward(self, xt, hprev):
            return F.tanh(self.xh_to_h(torch.cat([xt, hprev], dim=1)))

    class GRUCell(nn.Module):
        def __init__(self, n_embd, n_hidden):
            super().__init__()
            self.xh_to_z = nn.Linear(n_embd + n_hidden, n_hidden)
            self.xh_to_r = nn.Linear(n_embd + n_hidden, n_hidden)
            self.xh_to_hbar = nn.Linear(n_embd + n_hidden, n_hidden)

        def forward(self, xt, hprev):
            xh = torch.cat([xt, hprev], dim=1)
            r = F.sigmoid(self.xh_to_r(xh))
            xhr = torch.cat([xt, r * hprev], dim=1)
            hbar = F.tanh(self.xh_to_hbar(xhr))
            z = F.sigmoid(self.xh_to_z(xh))
            return (1 - z) * hprev + z * hbar

    class Model(nn.Module):
        def __init__(self, kind):
            super().__init__()
            self.wte = nn.Embedding(n, 8)
            self.start = nn.Parameter(torch.zeros(1, 16))
            self.cell = {"rnn": RNNCell, "gru": GRUCell, "nngru": nn.GRUCell, "nnrnn": nn.RNNCell}[kind](
                8, 16
            )
            self.lm_head = nn.Linear(16, n)

        def forward(self, idx, targets=None):
            b, t = idx.size()
            emb = self.wte(idx)
            h = self.start.expand((b, -1))
            hiddens = []
            for i in range(t):
                h = self.cell(emb[:, i, :], h)
                hiddens.append(h)
            logits = self.lm_head(torch.stack(hiddens, 1))
            loss = None
            if targets is not None:
                loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
            return logits, loss

    class Names(torch.utils.data.Dataset):
        def __init__(self):
            self.longest = max(map(len, WORDS))

        def __len__(self):
            return len(WORDS)

        def __getitem__(self, idx):
            ix = torch.tensor([stoi[c] for c in WORDS[idx]], dtype=torch.long)
            x = torch.zeros(self.longest + 1, dtype=torch.long)
            y = torch.zeros(self.longest + 1, dtype=torch.long)
            x[1 : 1 + len(ix)] = ix
            y[: len(ix)] = ix
            y[len(ix) + 1 :] = -1
            return x, y

    printed = []
    data = Names()
    sampler = torch.utils.data.RandomSampler(data, replacement=True, num_samples=int(1e10))
    for kind in ("rnn", "gru", "nngru", "nnrnn"):
        model = Model(kind)
        optimizer = torch.optim.AdamW(
            model.parameters(), lr=5e-3, weight_decay=0.01, betas=(0.9, 0.99), eps=1e-8
        )
        batches = iter(torch.utils.data.DataLoader(data, sampler=sampler, batch_size=5, num_workers=0))
        for _ in range(20):
            X, Y = next(batches)
            _, loss = model(X, Y)
            model.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            printed.append(loss.item())
        with torch.inference_mode():
            idx = torch.zeros(2, 1, dtype=torch.long)
            for _ in range(6):
                logits, _ = model(idx)
                idx = torch.cat((idx, torch.multinomial(F.softmax(logits[:, -1, :], -1), 1)), dim=1)
        printed += [float(v) for v in idx.view(-1).tolist()]

    class Layers(nn.Module):
        def __init__(self, kind):
            super().__init__()
            self.embed = nn.Embedding(n, 8)
            self.rnn = getattr(nn, kind)(8, 16, num_layers=2, dropout=0.2, batch_first=True)
            self.out = nn.Linear(16, n)

        def forward(self, x, hidden=None):
            out, hidden = self.rnn(self.embed(x), hidden)
            return self.out(out.contiguous().view(-1, 16)), hidden

        def init_hidden(self, batch):
            weight = next(self.parameters()).data
            made = weight.new(2, batch, 16).zero_()
            return torch.as_tensor(made)

    for kind in ("LSTM", "GRU"):
        model = Layers(kind)
        optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
        hidden = model.init_hidden(5)
        hidden = (hidden, hidden.clone()) if kind == "LSTM" else hidden
        batches = iter(torch.utils.data.DataLoader(data, sampler=sampler, batch_size=5))
        for _ in range(20):
            X, Y = next(batches)
            hidden = tuple(h.data for h in hidden) if kind == "LSTM" else hidden.data
            hidden = tuple(map(torch.as_tensor, hidden)) if kind == "LSTM" else torch.as_tensor(hidden)
            model.zero_grad()
            out, hidden = model(X, hidden)
            loss = nn.CrossEntropyLoss(ignore_index=-1)(out, Y.view(-1))
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            printed.append(loss.item())
    return printed
