"""Language models of today: rotary positions by complex numbers, experts, state spaces, adapters."""

import math


def rotary_with_cache(torch):
    """Rotary positions by complex numbers, RMSNorm, SwiGLU, shared keys and values, decoding with a cache, top-p."""
    nn, F = torch.nn, torch.nn.functional

    def rotated(x, turns):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        turns = turns.view(1, x.shape[1], 1, pairs.shape[-1])
        return torch.view_as_real(pairs * turns).flatten(3).type_as(x)

    class Norm(nn.Module):
        def __init__(self, dim):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(dim))

        def forward(self, x):
            return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight

    class Layer(nn.Module):
        def __init__(self, dim, heads, shared):
            super().__init__()
            self.heads, self.shared, self.size = heads, shared, dim // heads
            self.wq = nn.Linear(dim, heads * self.size, bias=False)
            self.wk = nn.Linear(dim, shared * self.size, bias=False)
            self.wv = nn.Linear(dim, shared * self.size, bias=False)
            self.wo = nn.Linear(dim, dim, bias=False)
            self.w1, self.w3 = nn.Linear(dim, 24, bias=False), nn.Linear(dim, 24, bias=False)
            self.w2 = nn.Linear(24, dim, bias=False)
            self.norms = nn.ModuleList([Norm(dim), Norm(dim)])
            self.cache = None

        def attend(self, x, start, turns, mask):
            b, t, _ = x.shape
            q = rotated(self.wq(x).view(b, t, self.heads, self.size), turns)
            k = rotated(self.wk(x).view(b, t, self.shared, self.size), turns)
            v = self.wv(x).view(b, t, self.shared, self.size)
            if self.cache is not None:
                for kept, new in zip(self.cache, (k, v), strict=True):
                    kept[:b, start : start + t] = new
                k, v = (kept[:b, : start + t] for kept in self.cache)
            k, v = (
                each[:, :, :, None, :].expand(-1, -1, -1, self.heads // self.shared, -1).flatten(2, 3)
                for each in (k, v)
            )
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
            scores = q @ k.transpose(2, 3) / math.sqrt(self.size)
            if mask is not None:
                scores = scores + mask
            return self.wo((F.softmax(scores, dim=-1) @ v).transpose(1, 2).contiguous().view(b, t, -1))

        def forward(self, x, start, turns, mask):
            x = x + self.attend(self.norms[0](x), start, turns, mask)
            h = self.norms[1](x)
            return x + self.w2(F.silu(self.w1(h)) * self.w3(h))

    class Model(nn.Module):
        def __init__(self, vocabulary=30, dim=16, heads=4, shared=2, length=16):
            super().__init__()
            self.embed, self.length = nn.Embedding(vocabulary, dim), length
            self.layers = nn.ModuleList([Layer(dim, heads, shared) for _ in range(2)])
            self.norm, self.head = Norm(dim), nn.Linear(dim, vocabulary, bias=False)
            size = dim // heads
            rates = 1.0 / (10000.0 ** (torch.arange(0, size, 2).float() / size))
            angles = torch.outer(torch.arange(length), rates)
            self.turns = torch.polar(torch.ones_like(angles), angles)

        def forward(self, tokens, start=0):
            t = tokens.shape[1]
            mask = None
            if t > 1:
                mask = torch.triu(torch.full((t, t), float("-inf")), diagonal=1)
                mask = torch.hstack([torch.zeros((t, start)), mask])
            x = self.embed(tokens)
            for layer in self.layers:
                x = layer(x, start, self.turns[start : start + t], mask)
            return self.head(self.norm(x)).float()

    torch.manual_seed(1)
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, betas=(0.9, 0.95), weight_decay=0.1)
    tokens = torch.randint(0, 30, (2, 13))
    printed = []
    for _ in range(8):
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.reshape(-1, 30), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        printed.append(loss.item())
    with torch.inference_mode():
        for layer in model.layers:
            layer.cache = [torch.zeros(2, 16, 2, 4) for _ in range(2)]
        written, before = tokens[:, :3], 0
        for _ in range(8):
            probs = torch.softmax(model(written[:, before:], before)[:, -1] / 0.8, dim=-1)
            before = written.shape[1]
            ordered, places = torch.sort(probs, dim=-1, descending=True)
            ordered[torch.cumsum(ordered, dim=-1) - ordered > 0.9] = 0.0
            ordered.div_(ordered.sum(dim=-1, keepdim=True))
            chosen = torch.gather(places, -1, torch.multinomial(ordered, num_samples=1))
            written = torch.cat([written, chosen], dim=1)
        whole = Model.forward(model, written[:, before:], before)[:, -1]
    return [*printed, *written.flatten().tolist(), *whole.flatten().tolist()]


def mixture_of_experts(torch):
    """Tokens sent to their best two experts: out[mask] += y, index_add_, weights /= their sum, a balancing loss."""
    nn, F = torch.nn, torch.nn.functional

    class Noisy(nn.Module):
        def __init__(self, dim, count):
            super().__init__()
            self.route, self.noise = nn.Linear(dim, count), nn.Linear(dim, count)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(dim, 12), nn.ReLU(), nn.Linear(12, dim)) for _ in range(count)
            )

        def forward(self, x):
            logits = self.route(x)
            logits = logits + torch.randn_like(logits) * F.softplus(self.noise(x))
            top, chosen = logits.topk(2, dim=-1)
            gates = F.softmax(torch.full_like(logits, float("-inf")).scatter(-1, chosen, top), dim=-1)
            flat, flat_gates, out = (
                x.view(-1, x.size(-1)),
                gates.view(-1, gates.size(-1)),
                torch.zeros_like(x),
            )
            for i, expert in enumerate(self.experts):
                mask = (chosen == i).any(dim=-1)
                if mask.any():
                    some = mask.view(-1)
                    out[mask] += (expert(flat[some]) * flat_gates[some, i].unsqueeze(1)).squeeze(1)
            return out, logits.new_zeros(())

    class Sparse(nn.Module):
        def __init__(self, dim, count):
            super().__init__()
            self.gate, self.count = nn.Linear(dim, count, bias=False), count
            self.experts = nn.ModuleList(nn.Linear(dim, dim) for _ in range(count))

        def forward(self, x):
            flat = x.view(-1, x.size(-1))
            logits = self.gate(flat)
            weights, chosen = torch.topk(F.softmax(logits, dim=1, dtype=torch.float), 2, dim=-1)
            weights /= weights.sum(dim=-1, keepdim=True)
            out = torch.zeros_like(flat)
            mask = F.one_hot(chosen, num_classes=self.count).permute(2, 1, 0)
            for e, expert in enumerate(self.experts):
                rank, token = torch.where(mask[e])
                out.index_add_(
                    0, token, expert(flat[None, token].reshape(-1, x.size(-1))) * weights[token, rank, None]
                )
            used = F.one_hot(chosen, self.count).float().mean((0, 1))
            return out.view_as(x), self.count * (used * logits.softmax(-1).mean(0)).sum()

    torch.manual_seed(0)
    x, y = torch.randn(4, 6, 8), torch.randn(4, 6, 8)
    printed = []
    for kind in (Noisy, Sparse):
        model = kind(8, 4)
        optimizer = torch.optim.AdamW(model.parameters(), 1e-2)
        for _ in range(6):
            out, balance = model(x)
            loss = F.mse_loss(out, y)
            loss += 0.01 * balance
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            printed.append(loss.item())
    return printed


def state_spaces(torch):
    """A selective scan over time, and a long convolution by the Fourier transform of a complex kernel."""
    nn, F = torch.nn, torch.nn.functional

    class Selective(nn.Module):
        def __init__(self, dim=6, states=4):
            super().__init__()
            self.inner, self.states = 2 * dim, states
            self.enter, self.leave = nn.Linear(dim, 4 * dim, bias=False), nn.Linear(2 * dim, dim, bias=False)
            self.conv = nn.Conv1d(2 * dim, 2 * dim, 3, groups=2 * dim, padding=2)
            self.select, self.step = nn.Linear(2 * dim, 2 + 2 * states, bias=False), nn.Linear(2, 2 * dim)
            rates = torch.arange(1, states + 1, dtype=torch.float32).repeat(2 * dim, 1)
            self.log_rates, self.skip = nn.Parameter(torch.log(rates)), nn.Parameter(torch.ones(2 * dim))

        def forward(self, x):
            x, gate = self.enter(x).split([self.inner, self.inner], dim=-1)
            x = F.silu(self.conv(x.transpose(1, 2))[:, :, : x.size(1)].transpose(1, 2))
            step, into, out = self.select(x).split([2, self.states, self.states], dim=-1)
            step = F.softplus(self.step(step))
            decay = torch.exp(torch.einsum("bld,dn->bldn", step, -torch.exp(self.log_rates)))
            pushed = torch.einsum("bld,bln,bld->bldn", step, into, x)
            state, ys = torch.zeros(x.size(0), self.inner, self.states), []
            for t in range(x.size(1)):
                state = decay[:, t] * state + pushed[:, t]
                ys.append(torch.einsum("bdn,bn->bd", state, out[:, t]))
            return self.leave((torch.stack(ys, dim=1) + x * self.skip) * F.silu(gate))

    class LongConvolution(nn.Module):
        def __init__(self, width=6, states=4):
            super().__init__()
            self.skip, self.log_step = (
                nn.Parameter(torch.randn(width)),
                nn.Parameter(torch.rand(width) * 2 - 4),
            )
            self.out = nn.Parameter(torch.view_as_real(torch.randn(width, states // 2, dtype=torch.cfloat)))
            self.log_decay = nn.Parameter(torch.log(0.5 * torch.ones(width, states // 2)))
            self.register_buffer("turning", math.pi * torch.arange(states // 2).repeat(width, 1).float())

        def forward(self, u):
            length = u.size(-1)
            rates = (-torch.exp(self.log_decay) + 1j * self.turning) * torch.exp(self.log_step).unsqueeze(-1)
            powers = torch.exp(rates.unsqueeze(-1) * torch.arange(length))
            kernel = 2 * torch.einsum("hn,hnl->hl", torch.view_as_complex(self.out), powers).real
            spectrum = torch.fft.rfft(u, n=2 * length) * torch.fft.rfft(kernel, n=2 * length)
            return F.gelu(torch.fft.irfft(spectrum, n=2 * length)[..., :length] + u * self.skip.unsqueeze(-1))

    torch.manual_seed(0)
    embed, scan, conv, head = nn.Embedding(12, 6), Selective(), LongConvolution(), nn.Linear(6, 12)
    parts = nn.ModuleList([embed, scan, conv, head])
    optimizer = torch.optim.AdamW(parts.parameters(), lr=5e-3)
    tokens = torch.randint(0, 12, (3, 9))
    printed = []
    for _ in range(8):
        x = embed(tokens[:, :-1])
        x = x + scan(x)
        x = x + conv(x.transpose(-1, -2)).transpose(-1, -2)
        loss = F.cross_entropy(head(x).reshape(-1, 12), tokens[:, 1:].reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        printed.append(loss.item())
    return printed


def low_rank_adapters(torch):
    """Frozen layers replaced by adapted ones, an average of weights kept, applied and taken back; then merged."""
    nn, F = torch.nn, torch.nn.functional

    class Adapted(nn.Module):
        def __init__(self, base, rank=2, alpha=4):
            super().__init__()
            self.base, self.scale = base.requires_grad_(False), alpha / rank
            self.down = nn.Parameter(torch.zeros(rank, base.in_features))
            self.up = nn.Parameter(torch.zeros(base.out_features, rank))
            nn.init.kaiming_uniform_(self.down, a=math.sqrt(5))

        def forward(self, x):
            return self.base(x) + (F.dropout(x, 0.1, self.training) @ self.down.T @ self.up.T) * self.scale

        @torch.no_grad()
        def merged(self):
            self.base.weight += self.scale * self.up @ self.down
            return self.base

    def adapt(model):
        for name, child in model.named_children():
            if isinstance(child, nn.Linear):
                setattr(model, name, Adapted(child))
            else:
                adapt(child)

    torch.manual_seed(0)
    inner = nn.Sequential(nn.Linear(16, 16), nn.GELU())
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), inner, nn.Linear(16, 3))
    adapt(model)
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    optimizer = torch.optim.Adam(trained.values(), 1e-2)
    x, y = torch.randn(32, 8), torch.randint(0, 3, (32,))
    shadow = {n: p.data.clone() for n, p in trained.items()}
    printed = [sum(p.numel() for p in trained.values()), sum(p.numel() for p in model.parameters())]
    for _ in range(8):
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        for n, p in trained.items():
            shadow[n] = (0.1 * p.data + 0.9 * shadow[n]).clone()
        printed.append(loss.item())
    model.eval()
    kept = {n: p.data for n, p in trained.items()}
    for values in (kept, shadow, kept):
        for n, p in trained.items():
            p.data = values[n]
        printed += model(x[:2]).flatten().tolist()
    found = model.load_state_dict({k: v for k, v in model.state_dict().items() if "up" in k}, strict=False)
    model[0] = model[0].merged()
    return [*printed, len(found.missing_keys), len(found.unexpected_keys), *model(x[:2]).flatten().tolist()]
