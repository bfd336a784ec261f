"""Sizes that vary, compiled against eager. Enters: nothing. Leaves: a table of times, as ratios, and compilations.

    python benchmarks/shapes.py               all
    python benchmarks/shapes.py batches       400 batch sizes in random order, each three times, compiling included
    python benchmarks/shapes.py generation    150 tokens by a GPT, the text one longer each time
    python benchmarks/shapes.py epochs        epochs with a smaller last batch
    python benchmarks/shapes.py static        the program for all sizes against the one for a size, at that size

Each compares with the eager function in the same process, in turns, and takes the best of some rounds (but for what is
compiled, which happens once). Code that was compiled before is found on disk: MINITORCH_CACHE names the folder.
"""

import itertools
import random
import sys
import time

import minitorch as mt
from minitorch import nn, optim

F = nn.functional
BLOCK, WIDTH, HEADS, WORDS = 256, 64, 4, 65


def classifier(*widths):
    """Return a step of training."""
    layers = [layer for a, b in itertools.pairwise(widths) for layer in (nn.Linear(a, b), nn.ReLU())]
    return training(nn.Sequential(*layers[:-1]))


def training(model):
    """Return a step of training of a classifier."""
    optimizer = optim.SGD(model.parameters(), lr=0.01)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


class Block(nn.Module):
    """A transformer's block."""

    def __init__(self):
        super().__init__()
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        batch, time_, width = x.shape
        parts = self.qkv(self.before(x)).split(width, dim=2)
        q, k, v = (p.view(batch, time_, HEADS, width // HEADS).transpose(1, 2) for p in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, time_, width))
        return x + self.down(F.gelu(self.up(self.after(x))))


class GPT(nn.Module):
    """A small GPT."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(4)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, text):
        x = self.words(text) + self.places(mt.arange(text.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def seconds(run):
    """Return how long something takes."""
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def row(name, eager, compiled, note):
    """Print a row of the table."""
    print(f"{name:34} {eager:9.3f} s {compiled:9.3f} s {eager / compiled:7.2f}×   {note}", flush=True)


def batches():
    """400 batch sizes in random order, three times."""
    x, y = mt.randn(1000, 64), mt.randint(0, 10, (1000,))
    sizes = random.Random(0).sample(range(2, 1000), 400)
    eager, compiled = classifier(64, 256, 10), mt.compile(classifier(64, 256, 10))

    def through(step):
        for n in sizes:
            step(x[:n], y[:n])

    # In turns: nothing is compiled twice.
    times = [(seconds(lambda: through(eager)), seconds(lambda: through(compiled))) for _ in range(3)]
    note = f"{compiled.compilations} compilations"
    row("400 batch sizes, with compiling", times[0][0], times[0][1], note)
    row("the same three times", sum(t for t, _ in times), sum(t for _, t in times), note)
    row("once compiled", min(t for t, _ in times), min(t for _, t in times[1:]), note)


def generation():
    """150 tokens, each from all before it."""
    model = GPT().eval()
    compiled = mt.compile(model)
    start = mt.zeros(1, 1, dtype=mt.int64)

    def generate(network):
        text = start
        with mt.no_grad():
            for _ in range(150):
                word = network(text[:, -BLOCK:])[:, -1].argmax(-1, keepdim=True)
                text = mt.cat([text, word], dim=1)

    times = [(seconds(lambda: generate(model)), seconds(lambda: generate(compiled))) for _ in range(4)]
    note = f"{compiled.compilations} compilations"
    row("150 growing lengths, with compiling", times[0][0], times[0][1], note)
    row("once compiled", min(t for t, _ in times), min(t for _, t in times[1:]), note)


def epochs():
    """Epochs of 1000 examples in batches of 64, the last of 40."""
    x, y = mt.randn(1000, 64), mt.randint(0, 10, (1000,))
    eager, compiled = classifier(64, 256, 10), mt.compile(classifier(64, 256, 10))

    def epoch(step):
        for i in range(0, 1000, 64):
            step(x[i : i + 64], y[i : i + 64])

    times = [(seconds(lambda: epoch(eager)), seconds(lambda: epoch(compiled))) for _ in range(30)]
    note = f"{compiled.compilations} compilations"
    row("30 epochs, a smaller last batch", sum(t for t, _ in times), sum(t for _, t in times), note)
    row("an epoch, once compiled", min(t for t, _ in times), min(t for _, t in times), note)


class Recurrent(nn.Module):
    """An LSTM and a classifier of its last state."""

    def __init__(self):
        super().__init__()
        self.lstm, self.head = nn.LSTM(32, 64, batch_first=True), nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.lstm(x)[0][:, -1])


def static():
    """The program for all sizes at the size that another is compiled for."""

    def predict(model):
        optimizer = optim.SGD(model.parameters(), lr=0.01)

        def step(text):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(text[:, :-1]).reshape(-1, WORDS), text[:, 1:].reshape(-1))
            loss.backward()
            optimizer.step()
            return loss

        return step

    convolution = lambda: nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 64, 10),
    )  # fmt: skip
    labels = lambda n: mt.randint(0, 10, (n,))
    cases = {
        "MLP": (lambda: classifier(256, 512, 10), lambda n: (mt.randn(n, 256), labels(n))),
        "GPT": (lambda: predict(GPT()), lambda n: (mt.randint(0, WORDS, (n // 16, 65)),)),
        "CNN": (lambda: training(convolution()), lambda n: (mt.randn(n // 2, 3, 16, 16), labels(n // 2))),
        "LSTM": (lambda: training(Recurrent()), lambda n: (mt.randn(n, 20, 32), labels(n))),
    }
    print("\nseconds of the program for one size, of that for all, and their ratio")
    for name, (make, arguments) in cases.items():
        one, every = mt.compile(make(), dynamic=False), mt.compile(make())
        for n in (48, 80, 96, 112):
            every(*arguments(n))
        given = arguments(128)
        for _ in range(4):
            one(*given), every(*given)
        times = [(seconds(lambda: one(*given)), seconds(lambda: every(*given))) for _ in range(60)]  # noqa: B023
        fixed, varying = (min(column) for column in zip(*times, strict=True))
        print(f"{name:34} {fixed:11.6f} {varying:11.6f} {varying / fixed:7.2f}", flush=True)


def main(names):
    """Run what is asked for."""
    every = {function.__name__: function for function in (batches, generation, epochs, static)}
    print(f"{'':34} {'eager':>11} {'compiled':>11} {'faster':>8}")
    for name in names or every:
        every[name]()


if __name__ == "__main__":
    main(sys.argv[1:])
