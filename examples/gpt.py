"""A small language model that learns 1,200 sentences and then writes its own.

    python examples/gpt.py

The language: a time, a pronoun, a verb in the tense that fits the time, a complement: "yesterday she wrote a
letter." All 2,400 sentences are known, so what the model writes can be checked.
"""

import minitorch as torch
import minitorch.nn.functional as F
from minitorch import nn
from minitorch.app.data import sentences
from minitorch.utils.data import DataLoader, TensorDataset

ALPHABET = sorted({"\n", *"".join(sentences())})  # "\n" begins and ends a sentence
LENGTH = max(map(len, sentences())) + 1


class Block(nn.Module):
    """Causal attention, then a small network, each added to what was there."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        """(N, T, width) → (N, T, width)."""
        n, t, width = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)  # (N, heads, T, width / heads)
        x = x + self.out(seen.transpose(1, 2).reshape(n, t, width))
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """(N, T) characters → (N, T, characters) logits of the next one."""

    def __init__(self, width=64, heads=4, layers=2):
        super().__init__()
        self.character, self.position = nn.Embedding(len(ALPHABET), width), nn.Embedding(LENGTH, width)
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, len(ALPHABET))
        for name, parameter in self.named_parameters():  # small weights: it begins without an opinion
            if parameter.dim() == 2:
                nn.init.normal_(parameter, 0.0, 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)

    def forward(self, text):
        """Predict the next character at every place."""
        x = self.character(text) + self.position(torch.arange(text.shape[1]))
        return self.head(self.norm(self.blocks(x)))

    @torch.no_grad()
    def write(self, count, temperature=0.8, top_k=10):
        """Draw `count` sentences, one character at a time."""
        text = torch.full((count, 1), ALPHABET.index("\n"), dtype=torch.int64)
        while text.shape[1] <= LENGTH:
            logits = self(text)[:, -1] / temperature
            least = logits.topk(top_k, dim=-1)[0][:, -1:]
            chances = logits.masked_fill(logits < least, -torch.inf).softmax(-1)
            # A uniform number falls into one of the chances laid end to end.
            following = (chances.cumsum(-1) < torch.rand(count, 1)).sum(-1).clamp(max=len(ALPHABET) - 1)
            text = torch.cat([text, following.reshape(-1, 1)], 1)
        return ["".join(ALPHABET[i] for i in row[1:]).split("\n")[0] for row in text.tolist()]


def encode(lines):
    """Sentences as characters and next characters; -100 is ignored by the loss."""
    text = torch.full((len(lines), LENGTH), ALPHABET.index("\n"), dtype=torch.int64)
    following = torch.full((len(lines), LENGTH), -100, dtype=torch.int64)
    for row, line in enumerate(lines):
        numbers = torch.tensor([ALPHABET.index(c) for c in f"\n{line}\n"])
        text[row, : len(line) + 1], following[row, : len(line) + 1] = numbers[:-1], numbers[1:]
    return text, following


def main(epochs=20, width=64, known=1200, count=100, seed=0, show=print):
    """Train, write, and return the share of written sentences that are in the language."""
    torch.manual_seed(seed)
    training = [sentences()[i] for i in torch.randperm(len(sentences())).tolist()[:known]]
    model = GPT(width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for epoch in range(1, epochs + 1):
        for text, following in DataLoader(TensorDataset(*encode(training)), batch_size=32, shuffle=True):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(text).flatten(0, 1), following.flatten())
            loss.backward()
            optimizer.step()
        show(f"epoch {epoch:3}  loss {loss.item():.4f}")
    written = model.write(count)
    right = [line for line in written if line in sentences()]
    new = [line for line in right if line not in training]
    show(
        f"{len(right)} of {count} sentences are in the language, {len(new)} of them were not in the training set:"
    )
    show("\n".join(new[:8]))
    return len(right) / count


if __name__ == "__main__":
    main()
