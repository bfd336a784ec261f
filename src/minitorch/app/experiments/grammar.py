"""grammar: what a network can and cannot learn from a conjugation grid. Enters: the grid. Leaves: two models.

`grammar-onehot` is given a verb and a person and asked for the tense. But every verb and person occurs in
every tense: the question contains nothing about the answer. The network can learn its training cards by
heart, as far as they do not contradict each other. It is here to show that falling loss is not learning, and
that a split is part of a measurement: on new cards the network is not right one time in five, as guessing is,
but less than one time in ten. Each card exists once, so a new card that asks what a training card asked
expects another answer, and who knows the old one by heart is certainly wrong. Luck is left for questions never
asked before, which are four new cards in ten, (295 choose 60) / (299 choose 60): 0.41 · 1/5 = 8 %.

`grammar-forms` is given the characters of the form itself, "she has written", and asked for tense and
person. This can be learned, and is tested on forms it has not seen, and on verbs it has never seen in any
form: there it has to do with "will", "has" and "-ed", and an irregular past such as "sang" can only be guessed.
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
from minitorch.utils.data import DataLoader, TensorDataset

SPLIT_SEED = 0  # which cards are for training is fixed; --seed changes the network, not the task


def _shuffled(count: int) -> list[int]:
    generator = minitorch.Generator().manual_seed(SPLIT_SEED)
    return minitorch.randperm(count, generator=generator).tolist()


class GrammarOneHot(Experiment):
    """One-hot verb and one-hot person, 23 inputs; logits over 5 tenses; 60 cards to train, 30 to validate."""

    name = "grammar-onehot"
    summary = "verb and person → tense: only memorised, never learned; new cards fall below chance"
    epochs = 40

    def __init__(self, device: str = "cpu") -> None:
        super().__init__(device)
        forms = data.conjugations()
        cards = _shuffled(len(forms))[:90]
        inputs = minitorch.stack([self.encode(forms[i]) for i in cards]).to(device)
        targets = minitorch.tensor([data.TENSES.index(forms[i].tense) for i in cards]).to(device)
        self.train_set = TensorDataset(inputs[:60], targets[:60])
        self.held_out = inputs[60:], targets[60:]
        self.model = nn.Sequential(nn.Linear(23, 64), nn.ReLU(), nn.Linear(64, 5)).to(device)
        self.optimizer = optim.Adam(self.model.parameters(), lr=0.01)
        self.batches = DataLoader(self.train_set, batch_size=20, shuffle=True)

    @staticmethod
    def encode(form: data.Form) -> Tensor:
        """Write a card's question as 20 + 3 zeros and ones."""
        question = minitorch.zeros(23)
        question[data.verbs().index(form.verb)] = 1.0
        question[20 + data.PERSONS.index(form.person)] = 1.0
        return question

    def loss(self, batch: Any) -> Outcome:
        """Cross-entropy over the five tenses."""
        inputs, targets = batch
        logits = self.model(inputs)
        return Outcome(F.cross_entropy(logits, targets), correct(logits, targets), len(targets))

    def validate(self) -> Record:
        """Judge the 30 cards held out."""
        outcome = self.loss(self.held_out)
        return {"val_loss": outcome.loss.item(), "val_accuracy": outcome.correct / outcome.samples}

    def ceiling(self) -> float:
        """Return the best training accuracy any network can reach: equal questions get one answer."""
        inputs, targets = self.train_set.tensors
        answers: dict[bytes, list[int]] = {}
        for question, answer in zip(inputs.numpy(), targets.tolist(), strict=True):
            answers.setdefault(question.tobytes(), []).append(answer)
        return sum(max(given.count(t) for t in given) for given in answers.values()) / len(targets)

    def never_asked(self) -> int:
        """Count the new cards whose question no training card asks; each other one expects an answer not yet seen."""
        asked = {question.tobytes() for question in self.train_set.tensors[0].numpy()}
        return sum(question.tobytes() not in asked for question in self.held_out[0].numpy())

    def report(self, record: Record) -> Record:
        """Say what it learned, and what not."""
        known, new = record.get("accuracy", 0.0), record.get("val_accuracy", 0.0)
        cards, never_asked = len(self.held_out[1]), self.never_asked()
        by_heart = never_asked / cards / len(data.TENSES)
        return {
            "accuracy": known,
            "val_accuracy": new,
            "memorising_ceiling": self.ceiling(),
            "memoriser_on_new_cards": by_heart,
            "text": [
                f"training cards: {percent(known)} right (by heart; {percent(self.ceiling())} can be, as some cards "
                "ask the same and expect different answers)",
                f"new cards: {percent(new)} right. A verb and a person say nothing about the tense, so there is "
                "nothing here to learn, and guessing would give 20.0%.",
                f"why less than guessing: each card exists once, so the {cards - never_asked} new cards of {cards} "
                "that ask what a training card asked expect another answer, and what was learned by heart is wrong "
                f"there. Luck is left for the other {never_asked}, one in five: {percent(by_heart)} is to be expected.",
            ],
        }


# Never seen in training in any form: two regular verbs, two irregular ones.
UNSEEN_VERBS = ("walk", "play", "sing", "take")
LENGTH = 24
ALPHABET = " ^$abcdefghijklmnopqrstuvwxyzI"


def spelled(text: str) -> list[int]:
    """Write a form as character numbers, between a start and an end mark, padded with spaces.

    >>> spelled("I am")[:7]
    [1, 29, 0, 3, 15, 2, 0]
    """
    return [ALPHABET.index(character) for character in f"^{text}$".ljust(LENGTH)]


class Reader(nn.Module):
    """Embed characters, look for short patterns anywhere, keep the strongest of each, answer two questions."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(len(ALPHABET), 16)
        self.patterns = nn.Conv1d(16, 64, kernel_size=5, padding=2)
        self.dropout = nn.Dropout(0.2)
        self.tense = nn.Linear(64, len(data.TENSES))
        self.person = nn.Linear(64, len(data.PERSONS))

    def forward(self, characters: Tensor) -> tuple[Tensor, Tensor]:
        """Characters (N, LENGTH) → logits over tenses (N, 5) and persons (N, 3)."""
        embedded = self.embedding(characters).transpose(1, 2)  # (N, 16, LENGTH)
        found = F.relu(self.patterns(embedded)).amax(2)  # (N, 64)
        found = self.dropout(found)
        return self.tense(found), self.person(found)


class GrammarForms(Experiment):
    """The characters of a conjugated form with its pronoun → tense and person."""

    name = "grammar-forms"
    summary = '"she has written" → tense and person: can be learned, also for new verbs'
    epochs = 40

    def __init__(self, device: str = "cpu") -> None:
        super().__init__(device)
        cards = [(form, pronoun) for form in data.conjugations() for pronoun in data.PRONOUNS[form.person]]
        order = _shuffled(len(cards))
        known = [cards[i] for i in order if cards[i][0].verb not in UNSEEN_VERBS]
        held_out = len(known) // 5
        self.train_set = TensorDataset(*self.encode(known[held_out:]))
        self.new_forms = self.encode(known[:held_out])
        self.new_verbs = self.encode([card for card in cards if card[0].verb in UNSEEN_VERBS])
        self.model = Reader().to(device)
        self.optimizer = optim.Adam(self.model.parameters(), lr=0.005)
        self.batches = DataLoader(self.train_set, batch_size=32, shuffle=True)

    def encode(self, cards: list[tuple[data.Form, str]]) -> tuple[Tensor, Tensor, Tensor]:
        """Write cards as characters, tenses and persons."""
        characters = [spelled(f"{pronoun} {form.text}") for form, pronoun in cards]
        tenses = [data.TENSES.index(form.tense) for form, _ in cards]
        persons = [data.PERSONS.index(form.person) for form, _ in cards]
        return tuple(minitorch.tensor(np.array(x)).to(self.device) for x in (characters, tenses, persons))  # type: ignore[return-value]

    def loss(self, batch: Any) -> Outcome:
        """Cross-entropy of both answers; a card is right when both are."""
        characters, tenses, persons = batch
        by_tense, by_person = self.model(characters)
        loss = F.cross_entropy(by_tense, tenses) + F.cross_entropy(by_person, persons)
        right = (by_tense.detach().argmax(1) == tenses) & (by_person.detach().argmax(1) == persons)
        return Outcome(loss, right.sum(), len(tenses))

    def validate(self) -> Record:
        """Judge new forms of known verbs, and verbs never seen."""
        forms, verbs = self.loss(self.new_forms), self.loss(self.new_verbs)
        return {
            "val_loss": forms.loss.item(),
            "val_accuracy": forms.correct / forms.samples,
            "new_verbs_accuracy": verbs.correct / verbs.samples,
        }

    def report(self, record: Record) -> Record:
        """Say how well it reads, and show where it fails."""
        cards = [
            (form, pronoun)
            for form in data.conjugations()
            for pronoun in data.PRONOUNS[form.person]
            if form.verb in UNSEEN_VERBS
        ]
        characters, tenses, persons = self.encode(cards)
        by_tense, by_person = (logits.argmax(1) for logits in self.model(characters))
        wrong = [
            f"{pronoun} {form.text} (read as {data.TENSES[tense]})"
            for (form, pronoun), tense, person in zip(
                cards, by_tense.tolist(), by_person.tolist(), strict=True
            )
            if (data.TENSES[tense], data.PERSONS[person]) != (form.tense, form.person)
        ]
        new_forms, new_verbs = record.get("val_accuracy", 0.0), record.get("new_verbs_accuracy", 0.0)
        return {
            "val_accuracy": new_forms,
            "tense_accuracy_on_new_verbs": float((by_tense == tenses).float().mean().item()),
            "person_accuracy_on_new_verbs": float((by_person == persons).float().mean().item()),
            "new_verbs_accuracy": new_verbs,
            "wrong_on_new_verbs": wrong,
            "text": [
                f"new forms of known verbs: {percent(new_forms)} right in tense and person",
                f"verbs never seen ({', '.join(UNSEEN_VERBS)}): {percent(new_verbs)} right",
                *(
                    [f"  wrong there: {', '.join(wrong[:4])}{' …' if len(wrong) > 4 else ''}"]
                    if wrong
                    else []
                ),
            ],
        }
