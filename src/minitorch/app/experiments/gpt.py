"""gpt: a small language model, character by character. Enters: sentences of the grid. Leaves: new sentences.

Trained on half of the 2,400 sentences of minitorch.app.data. As the language is finite, each generated
sentence can be told right from wrong, and new from copied: both shares are measured and reported.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import minitorch
from minitorch import Tensor, nn, optim
from minitorch.app import data
from minitorch.app.experiment import Experiment, Outcome, Record, correct
from minitorch.app.progress import percent
from minitorch.nn import functional as F
from minitorch.optim import lr_scheduler
from minitorch.utils.data import DataLoader, TensorDataset

END = "\n"  # begins and ends every sentence
IGNORED = -100


class Block(nn.Module):
    """Look back at earlier characters (causal attention), then think about what was found."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_attention = nn.LayerNorm(width)
        self.query_key_value = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.norm_think = nn.LayerNorm(width)
        self.think = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: Tensor) -> Tensor:
        """(N, T, width) → (N, T, width); position t sees positions up to t only."""
        count, length, width = x.shape
        split = self.query_key_value(self.norm_attention(x)).reshape(count, length, 3, self.heads, -1)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)  # each (N, heads, T, width / heads)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.project(seen.transpose(1, 2).reshape(count, length, width))
        return x + self.think(self.norm_think(x))


class MiniGpt(nn.Module):
    """Characters in, logits of the next character out, at every position."""

    def __init__(
        self, characters: int, length: int, width: int = 64, heads: int = 4, layers: int = 2
    ) -> None:
        super().__init__()
        self.length = length
        self.character = nn.Embedding(characters, width)
        self.position = nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, characters)
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:  # small weights: it begins without an opinion, and learns faster
                nn.init.normal_(parameter, 0.0, 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, text: Tensor) -> Tensor:
        """(N, T) → (N, T, characters)."""
        places = minitorch.arange(text.shape[1]).to(text.device)
        return self.head(self.norm(self.blocks(self.character(text) + self.position(places))))

    @minitorch.no_grad()
    def generate(self, start: Tensor, end: int, temperature: float = 1.0, top_k: int | None = None) -> Tensor:
        """Continue (N, 1) by one character at a time until all rows have ended or are full.

        temperature: below 1 prefers the likely, above 1 the unlikely; 0 always takes the likeliest.
        top_k: choose only among the k likeliest characters.
        """
        text, ended = start, np.zeros(len(start), bool)
        while text.shape[1] <= self.length and not ended.all():
            logits = self(text)[:, -1]
            following = choose(logits, temperature, top_k)
            following = minitorch.where(minitorch.tensor(ended).to(text.device), end, following)
            ended |= (following == end).cpu().numpy()
            text = minitorch.cat([text, following.reshape(-1, 1)], 1)
        return text


def choose(logits: Tensor, temperature: float = 1.0, top_k: int | None = None) -> Tensor:
    """Draw one index from each row of logits.

    >>> choose(Tensor([[0.0, 5.0, 1.0], [9.0, 0.0, 0.0]]), temperature=0).tolist()
    [1, 0]
    """
    if temperature < 0 or (top_k is not None and top_k < 1):
        raise ValueError(
            f"choose: temperature must be 0 or more, top_k 1 or more; got {temperature} and {top_k}"
        )
    if temperature == 0:
        return logits.argmax(-1)
    if top_k is not None and top_k < logits.shape[-1]:
        least = logits.topk(top_k, dim=-1)[0][:, -1:]
        logits = logits.masked_fill(logits < least, -float("inf"))
    # The largest of logit + Gumbel noise is a draw from the softmax.
    uniform = minitorch.rand(*logits.shape).clamp(1e-12, 1 - 1e-7).to(logits.device)
    return (logits / temperature - (-uniform.log()).log()).argmax(-1)


class Gpt(Experiment):
    """Predict each next character of the grid's sentences; then write some."""

    name = "gpt"
    summary = "a character-level mini-GPT learns the grid's language, then writes sentences of its own"
    epochs = 20
    samples = 200
    temperature = 0.8
    top_k = 10

    def __init__(self, device: str = "cpu") -> None:
        super().__init__(device)
        everything = data.sentences()
        order = minitorch.randperm(len(everything), generator=minitorch.Generator().manual_seed(0)).tolist()
        half = len(everything) // 2
        self.known = {everything[i] for i in order[:half]}
        self.alphabet = sorted({END, *"".join(everything)})
        self.length = max(map(len, everything)) + 1
        self.train_set = TensorDataset(*self.encode([everything[i] for i in order[:half]]))
        self.held_out = self.encode([everything[i] for i in order[half : half + 200]])
        self.model = MiniGpt(len(self.alphabet), self.length).to(device)
        self.optimizer = optim.AdamW(self.model.parameters(), lr=3e-3, weight_decay=0.01)
        self.scheduler = lr_scheduler.StepLR(self.optimizer, step_size=12, gamma=0.3)
        self.batches = DataLoader(self.train_set, batch_size=32, shuffle=True)

    def encode(self, sentences: list[str]) -> tuple[Tensor, Tensor]:
        """Write sentences as characters (N, T) and next characters (N, T), ignored after the end."""
        texts = np.full((len(sentences), self.length), self.alphabet.index(END))
        following = np.full((len(sentences), self.length), IGNORED)
        for row, sentence in enumerate(sentences):
            numbers = [self.alphabet.index(character) for character in f"{END}{sentence}{END}"]
            texts[row, : len(numbers) - 1] = numbers[:-1]
            following[row, : len(numbers) - 1] = numbers[1:]
        return minitorch.tensor(texts).to(self.device), minitorch.tensor(following).to(self.device)

    def loss(self, batch: Any) -> Outcome:
        """Cross-entropy of the next character; accuracy counts characters."""
        text, following = batch
        logits = self.model(text).flatten(0, 1)
        targets = following.flatten()
        loss = F.cross_entropy(logits, targets, ignore_index=IGNORED)
        return Outcome(loss, correct(logits, targets), (targets != IGNORED).sum())

    def validate(self) -> Record:
        """Judge sentences it was not trained on."""
        outcome = self.loss(self.held_out)
        return {"val_loss": outcome.loss.item(), "val_accuracy": outcome.correct / outcome.samples}

    def write(self, count: int, temperature: float = 1.0, top_k: int | None = None) -> list[str]:
        """Let the model write sentences."""
        end = self.alphabet.index(END)
        start = minitorch.full((count, 1), end, dtype=minitorch.int64).to(self.device)
        rows = self.model.generate(start, end, temperature, top_k).tolist()
        return ["".join(self.alphabet[i] for i in row[1:]).split(END)[0] for row in rows]

    def report(self, record: Record) -> Record:
        """Measure how many of its sentences are in the language, and how many of those are new."""
        written = self.write(self.samples, self.temperature, self.top_k)
        language = set(data.sentences())
        right = [sentence for sentence in written if sentence in language]
        new = [sentence for sentence in right if sentence not in self.known]
        wrong = [sentence for sentence in written if sentence not in language]
        share, share_new = len(right) / len(written), len(new) / max(len(right), 1)
        return {
            "grammatical": share,
            "new_among_grammatical": share_new,
            "temperature": self.temperature,
            "top_k": self.top_k,
            "val_accuracy": record.get("val_accuracy"),
            "sentences": written[:20],
            "text": [
                f"{len(written)} sentences written (temperature {self.temperature}, top-k {self.top_k}): "
                f"{percent(share)} are in the grammar, {percent(share_new)} of these were not in the training set",
                *(f"  {sentence}" for sentence in dict.fromkeys(new[:5])),
                *([f"  not in the grammar: {wrong[0]}"] if wrong else []),
            ],
        }
