"""Two questions to a conjugation grid of 20 verbs × 3 persons × 5 tenses: one cannot be answered, one can.

    python examples/grammar.py

1. Given the verb and the person, which tense? Every verb and person occurs in every tense, so the input
   says nothing about the answer. The network learns its 60 training cards by heart, as far as they do not
   contradict each other. On 30 new ones it does worse than guessing, which would be right one time in five:
   each card exists once, so a new card that repeats a known question has another answer than the known one.
   Only four in ten ask something never asked before, and of these one in five comes out right: 8 %.
2. Given the letters of the form itself, "she has written", which tense? That can be learned.
"""

import minitorch as torch
from minitorch import nn
from minitorch.app.data import PERSONS, TENSES, conjugations, verbs

LETTERS = " abcdefghijklmnopqrstuvwxyz"


def one_hot_card(form):
    """Verb and person as 20 + 3 zeros and ones."""
    card = torch.zeros(23)
    card[verbs().index(form.verb)] = 1.0
    card[20 + PERSONS.index(form.person)] = 1.0
    return card


def letters_card(form):
    """The form's letters, written flush right, 27 zeros and ones for each of 16 places."""
    card = torch.zeros(16, 27)
    for place, letter in enumerate(form.text.rjust(16)):
        card[place, LETTERS.index(letter)] = 1.0
    return card.flatten()


def train(model, cards, tenses, steps):
    """Fit the model to the cards."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(steps):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(cards), tenses)
        loss.backward()
        optimizer.step()


def accuracy(model, cards, tenses):
    """Return the share of cards whose tense the model names."""
    with torch.no_grad():
        return (model(cards).argmax(1) == tenses).float().mean().item()


def main(steps=200, seed=0, show=print):
    """Ask both questions; return the accuracies on cards not trained on."""
    torch.manual_seed(seed)
    forms = [conjugations()[i] for i in torch.randperm(300).tolist()]
    tenses = torch.tensor([TENSES.index(form.tense) for form in forms])
    found = []
    for question, encode, training, validation in [
        ("verb and person → tense", one_hot_card, 60, 30),
        ("letters → tense", letters_card, 240, 60),
    ]:
        cards = torch.stack([encode(form) for form in forms[: training + validation]])
        model = nn.Sequential(nn.Linear(cards.shape[1], 64), nn.ReLU(), nn.Linear(64, 5))
        train(model, cards[:training], tenses[:training], steps)
        known = accuracy(model, cards[:training], tenses[:training])
        new = accuracy(model, cards[training:], tenses[training : training + validation])
        show(f"{question:24} {known:4.0%} of the training cards, {new:4.0%} of new ones (guessing: 20%)")
        found.append(new)
    return found


if __name__ == "__main__":
    main()
