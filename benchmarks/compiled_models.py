"""The models of compiled.py in PyTorch's spelling, for PyTorch and minitorch alike, and by hand for JAX.

A task is a function without arguments that does one step and leaves its result ready. Shapes can be given, so
that neighbours of the published ones can be tried as well: 'mlp:batch=60,sizes=23-64-5'.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

Step = Callable[[], Any]

# name → (kind, options)
TASKS: dict[str, tuple[str, dict[str, Any]]] = {
    "XOR 4×2-8-1, SGD": ("mlp", {"batch": 4, "sizes": (2, 8, 1), "loss": "mse", "act": "tanh"}),
    "grammar MLP 60×23-64-5, SGD": ("mlp", {"batch": 60, "sizes": (23, 64, 5)}),
    "digits MLP 128×64-256-10, SGD": ("mlp", {"batch": 128, "sizes": (64, 256, 10)}),
    "digits MLP 128×64-256-10, Adam": ("mlp", {"batch": 128, "sizes": (64, 256, 10), "optimiser": "Adam"}),
    "GPT 4 layers, 4 heads, width 128, context 64, batch 12, AdamW": ("gpt", {}),
    "transformer block 4×256×384, 6 heads, SGD": (
        "block",
        {"batch": 4, "length": 256, "width": 384, "heads": 6},
    ),
    "CNN 1-32-64, 9216-128-10, batch 32, SGD": ("cnn", {"batch": 32}),
    "softmax 8192×1024": ("softmax", {"shape": (8192, 1024)}),
    "layer norm 8192×1024": ("layer_norm", {"shape": (8192, 1024)}),
    "gelu 16M": ("gelu", {"shape": (16 * 1024 * 1024,)}),
    "cross-entropy, forward and backward, 4096×32000": ("cross_entropy", {"shape": (4096, 32000)}),
}
# Not in the published table: the same reasons must make these fast.
NEIGHBOURS: dict[str, tuple[str, dict[str, Any]]] = {
    "MLP 100×30-50-50-7, Adam": ("mlp", {"batch": 100, "sizes": (30, 50, 50, 7), "optimiser": "Adam"}),
    "MLP 32×784-128-10, SGD": ("mlp", {"batch": 32, "sizes": (784, 128, 10)}),
    "MLP 17×13-31-3, float64": ("mlp", {"batch": 17, "sizes": (13, 31, 3), "dtype": "float64"}),
    "MLP 64×20-100-100-2, batch norm": ("mlp", {"batch": 64, "sizes": (20, 100, 100, 2), "norm": True}),
    "LSTM 16×20×32, hidden 64": ("lstm", {"batch": 16, "length": 20, "inputs": 32, "hidden": 64}),
    "GPT 2 layers, width 96, context 48, batch 7": (
        "gpt", {"layers": 2, "heads": 3, "width": 96, "length": 48, "batch": 7}
    ),
    "LSTM 32×50×128, hidden 128": ("lstm", {"batch": 32, "length": 50, "inputs": 128, "hidden": 128}),
    "MLP 256×1024-1024-10, Adam": ("mlp", {"batch": 256, "sizes": (1024, 1024, 10), "optimiser": "Adam"}),
    "VAE 128×784-400-20, Adam": ("vae", {"batch": 128, "sizes": (784, 400, 20)}),
    "transposed convolutions 32×64×7×7-32-1, SGD": ("decoder", {"batch": 32}),
    "encoder layer 32×50×128, dropout 0.1, SGD": ("encoder", {"dropout": 0.1}),
    "encoder layer 32×50×128, no dropout, SGD": ("encoder", {"dropout": 0.0}),
    "softmax 3000×700": ("softmax", {"shape": (3000, 700)}),
    "layer norm 5000×384": ("layer_norm", {"shape": (5000, 384)}),
    "cross-entropy, forward and backward, 768×65": ("cross_entropy", {"shape": (768, 65)}),
}  # fmt: skip


# --- PyTorch's spelling -----------------------------------------------------------------------------------


def torch_like(torch: Any, compile: Callable[[Any], Any], kind: str, options: dict[str, Any]) -> Step:
    """Return a step in PyTorch's spelling, for PyTorch itself or minitorch."""
    return globals()[f"_{kind}"](torch, compile, **options)


def _training(
    torch: Any, compile: Any, model: Any, loss_of: Any, inputs: Any, optimiser: str, lr: float
) -> Step:
    opt = getattr(torch.optim, optimiser)(model.parameters(), lr=lr)

    @compile
    def step(*batch: Any) -> Any:
        opt.zero_grad()
        loss = loss_of(model, *batch)
        loss.backward()
        opt.step()
        return loss

    return lambda: step(*inputs)


def _mlp(
    torch: Any, compile: Any, batch: int, sizes: Any, loss: str = "cross_entropy", act: str = "relu",
    optimiser: str = "SGD", dtype: str = "float32", norm: bool = False,
) -> Step:  # fmt: skip
    nn, F = torch.nn, torch.nn.functional
    torch.manual_seed(0)
    layers = []
    for n, m in itertools.pairwise(sizes):
        layers += [
            nn.Linear(n, m),
            *([nn.BatchNorm1d(m)] if norm else []),
            nn.Tanh() if act == "tanh" else nn.ReLU(),
        ]
    model = nn.Sequential(*(layers[: -2 if norm else -1]))
    x = torch.randn(batch, sizes[0])
    y = torch.rand(batch, sizes[-1]) if loss == "mse" else torch.randint(0, sizes[-1], (batch,))
    if dtype == "float64":
        model, x = model.double(), x.double()
    if loss == "mse":
        return _training(torch, compile, model, lambda m, x, y: F.mse_loss(m(x), y), (x, y), optimiser, 0.1)
    return _training(torch, compile, model, lambda m, x, y: F.cross_entropy(m(x), y), (x, y), optimiser, 0.01)


def _block_module(torch: Any, width: int, heads: int) -> Any:
    nn, F = torch.nn, torch.nn.functional

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.project = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            n, t, c = x.shape
            q, k, v = self.qkv(self.norm1(x)).split(c, dim=2)
            q, k, v = (part.view(n, t, heads, c // heads).permute(0, 2, 1, 3) for part in (q, k, v))
            seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.project(seen.permute(0, 2, 1, 3).reshape(n, t, c))
            return x + self.down(F.gelu(self.up(self.norm2(x))))

    return Block()


def _gpt(
    torch: Any, compile: Any, layers: int = 4, heads: int = 4, width: int = 128, length: int = 64, batch: int = 12,
    characters: int = 65,
) -> Step:  # fmt: skip
    nn, F = torch.nn, torch.nn.functional
    torch.manual_seed(0)

    class Gpt(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.token, self.place = nn.Embedding(characters, width), nn.Embedding(length, width)
            self.blocks = nn.Sequential(*(_block_module(torch, width, heads) for _ in range(layers)))
            self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, characters, bias=False)

        def forward(self, text: Any) -> Any:
            x = self.token(text) + self.place(torch.arange(text.shape[1]))
            return self.head(self.norm(self.blocks(x)))

    model = Gpt()
    text = torch.randint(0, characters, (batch, length))
    goal = torch.randint(0, characters, (batch, length))

    def loss(m: Any, text: Any, goal: Any) -> Any:
        return F.cross_entropy(m(text).view(-1, characters), goal.view(-1))

    return _training(torch, compile, model, loss, (text, goal), "AdamW", 1e-3)


def _block(torch: Any, compile: Any, batch: int, length: int, width: int, heads: int) -> Step:
    torch.manual_seed(0)
    model = _block_module(torch, width, heads)
    x = torch.randn(batch, length, width)
    return _training(torch, compile, model, lambda m, x: (m(x) ** 2).mean(), (x,), "SGD", 1e-3)


def _cnn(torch: Any, compile: Any, batch: int) -> Step:
    nn, F = torch.nn, torch.nn.functional
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 32, 3), nn.ReLU(), nn.Conv2d(32, 64, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(9216, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip
    x, y = torch.randn(batch, 1, 28, 28), torch.randint(0, 10, (batch,))
    return _training(torch, compile, model, lambda m, x, y: F.cross_entropy(m(x), y), (x, y), "SGD", 0.01)


def _lstm(torch: Any, compile: Any, batch: int, length: int, inputs: int, hidden: int) -> Step:
    nn, F = torch.nn, torch.nn.functional
    torch.manual_seed(0)

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lstm, self.head = nn.LSTM(inputs, hidden, batch_first=True), nn.Linear(hidden, 10)

        def forward(self, x: Any) -> Any:
            return self.head(self.lstm(x)[0][:, -1])

    x, y = torch.randn(batch, length, inputs), torch.randint(0, 10, (batch,))
    return _training(torch, compile, Reader(), lambda m, x, y: F.cross_entropy(m(x), y), (x, y), "Adam", 1e-3)


def _vae(torch: Any, compile: Any, batch: int, sizes: tuple[int, int, int]) -> Step:
    nn, F = torch.nn, torch.nn.functional
    torch.manual_seed(0)
    inputs, hidden, latent = sizes

    class Vae(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode = nn.Sequential(nn.Linear(inputs, hidden), nn.ReLU(), nn.Linear(hidden, 2 * latent))
            self.decode = nn.Sequential(nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, inputs))

    def loss(m: Any, x: Any) -> Any:
        code = m.encode(x)
        mean, log_variance = code[:, :latent], code[:, latent:]
        drawn = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        again = F.binary_cross_entropy_with_logits(m.decode(drawn), x, reduction="sum")
        return again - 0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()

    return _training(torch, compile, Vae(), loss, (torch.rand(batch, inputs),), "Adam", 1e-3)


def _decoder(torch: Any, compile: Any, batch: int) -> Step:
    nn = torch.nn
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.ConvTranspose2d(64, 32, 4, stride=2, padding=1), nn.ReLU(),
        nn.ConvTranspose2d(32, 1, 4, stride=2, padding=1),
    )  # fmt: skip
    x, y = torch.randn(batch, 64, 7, 7), torch.rand(batch, 1, 28, 28)
    return _training(torch, compile, model, lambda m, x, y: ((m(x) - y) ** 2).mean(), (x, y), "SGD", 0.01)


def _encoder(torch: Any, compile: Any, dropout: float) -> Step:
    torch.manual_seed(0)
    model = torch.nn.TransformerEncoderLayer(128, 4, 512, dropout, batch_first=True)
    x = torch.randn(32, 50, 128)
    return _training(torch, compile, model, lambda m, x: (m(x) ** 2).mean(), (x,), "SGD", 1e-3)


def _softmax(torch: Any, compile: Any, shape: Any) -> Step:
    x = torch.randn(*shape)
    f = compile(lambda x: torch.softmax(x, -1))
    return lambda: f(x)


def _layer_norm(torch: Any, compile: Any, shape: Any) -> Step:
    x, w, b = torch.randn(*shape), torch.randn(shape[-1]), torch.randn(shape[-1])
    f = compile(lambda x, w, b: torch.nn.functional.layer_norm(x, (shape[-1],), w, b))
    return lambda: f(x, w, b)


def _gelu(torch: Any, compile: Any, shape: Any) -> Step:
    x = torch.randn(*shape)
    f = compile(lambda x: torch.nn.functional.gelu(x))
    return lambda: f(x)


def _cross_entropy(torch: Any, compile: Any, shape: Any) -> Step:
    x = torch.randn(*shape, requires_grad=True)
    y = torch.randint(0, shape[1], (shape[0],))

    @compile
    def step(x: Any, y: Any) -> Any:
        x.grad = None
        loss = torch.nn.functional.cross_entropy(x, y)
        loss.backward()
        return loss

    return lambda: step(x, y)


# --- JAX --------------------------------------------------------------------------------------------------


def jax_step(kind: str, options: dict[str, Any]) -> Step | None:
    """Return a step in JAX: jit over the whole of it, arguments donated; None where it was not written."""
    make = globals().get(f"_jax_{kind}")
    return None if make is None else make(**options)


def _jax_training(
    loss: Any, params: Any, inputs: Any, optimiser: str, lr: float, dtype: str = "float32"
) -> Step:
    import jax
    import jax.numpy as jnp

    if optimiser == "SGD":

        def update(params: Any, state: Any, *batch: Any) -> Any:
            value, g = jax.value_and_grad(loss)(params, *batch)
            return jax.tree.map(lambda p, g: p - lr * g, params, g), state, value

        state: Any = ()
    else:
        decay = 0.01 if optimiser == "AdamW" else 0.0

        def update(params: Any, state: Any, *batch: Any) -> Any:
            value, g = jax.value_and_grad(loss)(params, *batch)
            m, v, t = state
            t = t + 1
            m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
            v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)
            rate = lr * jnp.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            params = jax.tree.map(
                lambda p, m, v: p * (1 - lr * decay) - rate * m / (jnp.sqrt(v) + 1e-8), params, m, v
            )
            return params, (m, v, t), value

        zeros = jax.tree.map(jnp.zeros_like, params)
        state = (zeros, jax.tree.map(jnp.zeros_like, params), jnp.zeros(()))
    jitted = jax.jit(update, donate_argnums=(0, 1))
    held = [params, state]

    def step() -> Any:
        held[0], held[1], value = jitted(held[0], held[1], *inputs)
        return value.block_until_ready()

    return step


def _jax_mlp(
    batch: int, sizes: Any, loss: str = "cross_entropy", act: str = "relu", optimiser: str = "SGD",
    dtype: str = "float32", norm: bool = False,
) -> Step:  # fmt: skip
    import jax
    import jax.numpy as jnp

    if dtype == "float64":
        jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(0)
    kind = np.dtype(dtype)
    params = [
        [jnp.asarray(rng.normal(size=(n, m)) / math.sqrt(n), kind), jnp.zeros(m, kind)]
        + ([jnp.ones(m, kind), jnp.zeros(m, kind)] if norm and m != sizes[-1] else [])
        for n, m in itertools.pairwise(sizes)
    ]
    x = jnp.asarray(rng.normal(size=(batch, sizes[0])), kind)
    classes = jnp.asarray(rng.integers(0, sizes[-1], batch))
    y = jnp.asarray(rng.random((batch, sizes[-1])), kind) if loss == "mse" else classes

    def compute(params: Any, x: Any, y: Any) -> Any:
        for i, layer in enumerate(params):
            x = x @ layer[0] + layer[1]
            if len(layer) == 4:
                x = (x - x.mean(0)) / jnp.sqrt(x.var(0) + 1e-5) * layer[2] + layer[3]
            if i < len(params) - 1:
                x = jnp.tanh(x) if act == "tanh" else jax.nn.relu(x)
        if loss == "mse":
            return ((x - y) ** 2).mean()
        return -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean()

    return _jax_training(compute, params, (x, y), optimiser, 0.01)


def _jax_block_params(rng: Any, width: int) -> Any:
    import jax.numpy as jnp

    def linear(n: int, m: int) -> Any:
        return [jnp.asarray(rng.normal(size=(n, m)) / math.sqrt(n), jnp.float32), jnp.zeros(m)]

    ones = lambda: [jnp.ones(width), jnp.zeros(width)]
    return {
        "norm1": ones(), "norm2": ones(), "qkv": linear(width, 3 * width), "project": linear(width, width),
        "up": linear(width, 4 * width), "down": linear(4 * width, width),
    }  # fmt: skip


def _jax_norm(x: Any, p: Any) -> Any:
    import jax.numpy as jnp

    mean = x.mean(-1, keepdims=True)
    return (x - mean) / jnp.sqrt(((x - mean) ** 2).mean(-1, keepdims=True) + 1e-5) * p[0] + p[1]


def _jax_block_forward(p: Any, x: Any, heads: int) -> Any:
    import jax
    import jax.numpy as jnp

    n, t, c = x.shape
    q, k, v = jnp.split(_jax_norm(x, p["norm1"]) @ p["qkv"][0] + p["qkv"][1], 3, axis=2)
    q, k, v = (a.reshape(n, t, heads, c // heads).transpose(0, 2, 1, 3) for a in (q, k, v))
    scores = q @ k.transpose(0, 1, 3, 2) / math.sqrt(c // heads)
    scores = jnp.where(jnp.tril(jnp.ones((t, t), bool)), scores, -jnp.inf)
    seen = (jax.nn.softmax(scores) @ v).transpose(0, 2, 1, 3).reshape(n, t, c)
    x = x + seen @ p["project"][0] + p["project"][1]
    hidden = jax.nn.gelu(_jax_norm(x, p["norm2"]) @ p["up"][0] + p["up"][1], approximate=False)
    return x + hidden @ p["down"][0] + p["down"][1]


def _jax_block(batch: int, length: int, width: int, heads: int) -> Step:
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    x = jnp.asarray(rng.normal(size=(batch, length, width)), jnp.float32)
    loss = lambda p, x: (_jax_block_forward(p, x, heads) ** 2).mean()
    return _jax_training(loss, _jax_block_params(rng, width), (x,), "SGD", 1e-3)


def _jax_gpt(
    layers: int = 4, heads: int = 4, width: int = 128, length: int = 64, batch: int = 12, characters: int = 65
) -> Step:
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    normal = lambda *shape: jnp.asarray(rng.normal(size=shape) * 0.02, jnp.float32)
    params = {
        "token": normal(characters, width), "place": normal(length, width), "head": normal(width, characters),
        "norm": [jnp.ones(width), jnp.zeros(width)], "blocks": [_jax_block_params(rng, width) for _ in range(layers)],
    }  # fmt: skip
    text, goal = (jnp.asarray(rng.integers(0, characters, (batch, length))) for _ in range(2))

    def loss(p: Any, text: Any, goal: Any) -> Any:
        x = p["token"][text] + p["place"][jnp.arange(length)]
        for block in p["blocks"]:
            x = _jax_block_forward(block, x, heads)
        logp = jax.nn.log_softmax(_jax_norm(x, p["norm"]) @ p["head"])
        return -jnp.take_along_axis(logp, goal[..., None], -1).mean()

    return _jax_training(loss, params, (text, goal), "AdamW", 1e-3)


def _jax_cnn(batch: int) -> Step:
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    normal = lambda *shape: jnp.asarray(rng.normal(size=shape) * 0.05, jnp.float32)
    params = [normal(32, 1, 3, 3), jnp.zeros(32), normal(64, 32, 3, 3), jnp.zeros(64)]
    params += [normal(9216, 128), jnp.zeros(128), normal(128, 10), jnp.zeros(10)]
    x, y = normal(batch, 1, 28, 28), jnp.asarray(rng.integers(0, 10, batch))
    conv = lambda x, w, b: jax.lax.conv(x, w, (1, 1), "VALID") + b[:, None, None]

    def loss(p: Any, x: Any, y: Any) -> Any:
        h = jax.nn.relu(conv(jax.nn.relu(conv(x, p[0], p[1])), p[2], p[3]))
        h = jax.lax.reduce_window(h, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID").reshape(
            batch, -1
        )
        h = jax.nn.relu(h @ p[4] + p[5]) @ p[6] + p[7]
        return -jnp.take_along_axis(jax.nn.log_softmax(h), y[:, None], 1).mean()

    return _jax_training(loss, params, (x, y), "SGD", 0.01)


def _jax_function(f: Any, *arrays: Any) -> Step:
    import jax

    jitted = jax.jit(f)
    return lambda: jax.block_until_ready(jitted(*arrays))


def _jax_softmax(shape: Any) -> Step:
    import jax

    return _jax_function(lambda x: jax.nn.softmax(x, -1), jax.random.normal(jax.random.key(0), shape))


def _jax_layer_norm(shape: Any) -> Step:
    import jax
    import jax.numpy as jnp

    x = jax.random.normal(jax.random.key(0), shape)
    return _jax_function(lambda x, w, b: _jax_norm(x, (w, b)), x, jnp.ones(shape[-1]), jnp.zeros(shape[-1]))


def _jax_gelu(shape: Any) -> Step:
    import jax

    return _jax_function(
        lambda x: jax.nn.gelu(x, approximate=False), jax.random.normal(jax.random.key(0), shape)
    )


def _jax_cross_entropy(shape: Any) -> Step:
    import jax
    import jax.numpy as jnp

    x = jax.random.normal(jax.random.key(0), shape)
    y = jax.random.randint(jax.random.key(1), (shape[0],), 0, shape[1])
    loss = lambda x, y: -jnp.take_along_axis(jax.nn.log_softmax(x), y[:, None], 1).mean()
    return _jax_function(jax.value_and_grad(loss), x, y)
