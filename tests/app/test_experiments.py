"""The experiments: the grid is right, training learns what can be learned, repeats itself, and leaks nothing."""

import gc
import json
import math
import tracemalloc
from collections import Counter

import numpy as np
import pytest

import minitorch
from minitorch import nn, optim
from minitorch.app import data
from minitorch.app.experiment import Experiment, Outcome
from minitorch.app.experiments import ALL, find, listing
from minitorch.app.experiments.gpt import Gpt, MiniGpt, choose
from minitorch.app.experiments.grammar import UNSEEN_VERBS, GrammarForms, GrammarOneHot, spelled
from minitorch.app.experiments.xor import Xor
from minitorch.app.train import CannotTrain, Run, TrainingReport, refuse_stale_gradients, step

CLOCKS = ("seconds", "samples_per_second")


def without_clocks(history):
    return [{k: v for k, v in record.items() if k not in CLOCKS} for record in history]


# --- the grid ---------------------------------------------------------------------------------------


def test_the_grid_has_20_verbs_3_persons_5_tenses():
    forms = data.conjugations()
    assert len(forms) == 300
    assert len(data.verbs()) == 20
    cells = Counter((f.verb, f.tense, f.person) for f in forms)
    assert set(cells.values()) == {1}
    assert {f.tense for f in forms} == set(data.TENSES)
    assert {f.person for f in forms} == set(data.PERSONS)


PAST_AND_PARTICIPLE = {
    "have": ("had", "had"),
    "do": ("did", "done"),
    "go": ("went", "gone"),
    "see": ("saw", "seen"),
    "take": ("took", "taken"),
    "write": ("wrote", "written"),
    "speak": ("spoke", "spoken"),
    "eat": ("ate", "eaten"),
    "give": ("gave", "given"),
    "make": ("made", "made"),
    "find": ("found", "found"),
    "sing": ("sang", "sung"),
    "study": ("studied", "studied"),
    "plan": ("planned", "planned"),
}
THIRD = {"have": "has", "do": "does", "go": "goes", "study": "studies", "be": "is"}


def test_the_grid_follows_the_rules_of_english():
    grid = {(f.verb, f.tense, f.person): f.text for f in data.conjugations()}
    assert [grid["be", "present", p] for p in data.PERSONS] == ["am", "are", "is"]
    assert [grid["be", "past", p] for p in data.PERSONS] == ["was", "were", "was"]
    for verb in data.verbs():
        past, participle = PAST_AND_PARTICIPLE.get(verb, (verb + "ed", verb + "ed"))
        if verb == "be":
            participle = "been"
        for person in data.PERSONS:
            third = person == "he/she"
            assert grid[verb, "future", person] == f"will {verb}"
            assert grid[verb, "present perfect", person] == f"{'has' if third else 'have'} {participle}"
            assert grid[verb, "past perfect", person] == f"had {participle}"
            if verb != "be":
                assert grid[verb, "past", person] == past
                assert grid[verb, "present", person] == (THIRD.get(verb, verb + "s") if third else verb)


def test_the_language():
    sentences = data.sentences()
    assert len(sentences) == len(set(sentences)) == 2400
    assert all(s.endswith(".") and s.count(".") == 1 and "\n" not in s for s in sentences)


# --- what is learned --------------------------------------------------------------------------------


def test_xor_gets_below_its_goal(tmp_path):
    report = Run(Xor, tmp_path).go()
    assert report["loss"] < 0.01
    assert [round(y) for y in report["outputs"]] == [0, 1, 1, 0]
    assert report["epochs"] < Xor.epochs  # and stops there


def test_grammar_onehot_memorises_and_falls_below_chance(tmp_path):
    run = Run(GrammarOneHot, tmp_path)
    assert len(run.experiment.train_set) == 60
    assert run.experiment.train_set.tensors[0].shape == (60, 23)
    assert len(run.experiment.held_out[1]) == 30
    report = run.go()
    assert report["memorising_ceiling"] < 1  # equal questions with different answers
    assert report["accuracy"] > report["memorising_ceiling"] - 0.06
    assert report["val_accuracy"] < 0.2
    assert "nothing here to learn" in " ".join(report["text"])


def test_what_a_memoriser_gets_on_new_cards():
    """By construction of the split: wrong wherever the question is known, one in five elsewhere."""
    experiment = GrammarOneHot()
    answers = {}
    for question, tense in zip(*(t.tolist() for t in experiment.train_set.tensors), strict=True):
        answers.setdefault(tuple(question), set()).add(tense)
    asked_before = [
        tense in answers[tuple(question)]
        for question, tense in zip(*(t.tolist() for t in experiment.held_out), strict=True)
        if tuple(question) in answers
    ]
    assert asked_before == [False] * (30 - experiment.never_asked())
    report = experiment.report({})
    assert report["memoriser_on_new_cards"] == experiment.never_asked() / 30 / 5
    assert "the 19 new cards of 30" in report["text"][2]
    assert "7.3% is to be expected" in report["text"][2]
    # over all splits
    assert round(math.comb(295, 60) / math.comb(299, 60) / 5, 2) == 0.08


@pytest.mark.slow
def test_grammar_forms_reads_new_forms_and_new_verbs(tmp_path):
    run = Run(GrammarForms, tmp_path)
    trained = {tuple(row) for row in run.experiment.train_set.tensors[0].tolist()}
    for held_out in (run.experiment.new_forms, run.experiment.new_verbs):
        assert not trained & {tuple(row) for row in held_out[0].tolist()}
    unseen = {
        tuple(spelled(f"{pronoun} {f.text}"))
        for f in data.conjugations()
        if f.verb in UNSEEN_VERBS
        for pronoun in data.PRONOUNS[f.person]
    }
    assert unseen == {tuple(row) for row in run.experiment.new_verbs[0].tolist()}
    report = run.go()
    assert report["val_accuracy"] > 0.85
    assert report["new_verbs_accuracy"] > 0.7


@pytest.mark.slow
def test_digits_to_97_percent(tmp_path):
    pytest.importorskip("sklearn")
    assert Run(ALL["digits"], tmp_path).go()["test_accuracy"] >= 0.97


@pytest.mark.slow
def test_digits_cnn_to_98_5_percent(tmp_path):
    pytest.importorskip("sklearn")
    assert Run(ALL["digits-cnn"], tmp_path, epochs=12).go()["test_accuracy"] >= 0.985


@pytest.mark.slow
def test_gpt_learns_and_writes(tmp_path, monkeypatch):
    monkeypatch.setattr(Gpt, "samples", 8)
    run = Run(Gpt, tmp_path, epochs=1)
    first = run.experiment.loss(run.experiment.held_out).loss.item()
    report = run.go()
    assert run.history[-1]["val_loss"] < first - 1
    assert 0 <= report["grammatical"] <= 1
    assert len(report["sentences"]) == 8
    assert run.experiment.known < set(data.sentences())


def test_a_gpt_does_not_see_the_future():
    minitorch.manual_seed(0)
    model = MiniGpt(10, 6, width=8, heads=2, layers=2)
    text = minitorch.randint(0, 10, (1, 6))
    other = text.clone()
    other[0, 4] = (text[0, 4] + 1) % 10
    before, after = model(text).detach(), model(other).detach()
    assert np.array_equal(before.data[:, :4], after.data[:, :4])
    assert not np.allclose(before.data[:, 4], after.data[:, 4])


def test_sampling_with_temperature_and_top_k():
    minitorch.manual_seed(0)
    logits = minitorch.tensor([[2.0, 1.0, 0.0, -1.0]]).expand(4000, 4)
    for temperature in (0.5, 1.0, 2.0):
        drawn = np.bincount(choose(logits, temperature).numpy(), minlength=4) / 4000
        expected = (logits[0] / temperature).softmax(0).numpy()
        np.testing.assert_allclose(drawn, expected, atol=0.03)
    assert set(choose(logits, 1.0, top_k=2).tolist()) == {0, 1}
    assert set(choose(logits, 5.0, top_k=1).tolist()) == {0}
    assert set(choose(logits, 0.0).tolist()) == {0}
    with pytest.raises(ValueError, match="top_k 1 or more"):
        choose(logits, 1.0, top_k=0)
    with pytest.raises(ValueError, match="temperature"):
        choose(logits, -1.0)


def test_every_experiment_is_listed_and_found():
    names = [name for name, _ in listing()]
    assert names == ["xor", "grammar", "grammar-onehot", "grammar-forms", "digits", "digits-cnn", "gpt"]
    assert [each.name for each in find("grammar")] == ["grammar-onehot", "grammar-forms"]
    with pytest.raises(KeyError, match="did you mean digits-cnn"):
        find("digits-cn")


# --- the loop ---------------------------------------------------------------------------------------


class Small(Experiment):
    """A line to be fitted, small enough for tests of the loop."""

    name = "small"
    summary = "a line"
    epochs = 4

    def __init__(self, device="cpu"):
        super().__init__(device)
        self.model = nn.Sequential(nn.Linear(2, 4), nn.Dropout(0.1), nn.Linear(4, 1))
        self.optimizer = optim.SGD(self.model.parameters(), lr=0.05, momentum=0.9)
        self.scheduler = optim.lr_scheduler.StepLR(self.optimizer, 2, 0.5)
        x = minitorch.randn(20, 2)
        set_ = minitorch.utils.data.TensorDataset(x, x.sum(1, keepdim=True))
        self.batches = minitorch.utils.data.DataLoader(set_, batch_size=5, shuffle=True)

    def loss(self, batch):
        x, y = batch
        return Outcome(nn.functional.mse_loss(self.model(x), y), 0, len(x))


def test_gradients_are_zero_at_the_start_of_each_step(tmp_path):
    seen = []

    class Watched(Small):
        def loss(self, batch):
            grads = [p.grad for p in self.model.parameters()]
            seen.append(all(g is None or not g.any() for g in grads))
            return super().loss(batch)

    run = Run(Watched, tmp_path)
    run.go()
    assert len(seen) == 16
    assert all(seen)
    # and this is no accident of gradients that are never set
    assert all(p.grad is not None and p.grad.any() for p in run.experiment.model.parameters())


def test_stale_gradients_are_noticed_and_explained(monkeypatch):
    experiment = Small()
    batch = next(iter(experiment.batches))
    monkeypatch.setattr(experiment.optimizer, "zero_grad", lambda: None)  # the beginner's bug
    step(experiment, batch)
    before = {k: v.numpy().copy() for k, v in experiment.model.state_dict().items()}
    with pytest.raises(RuntimeError, match=r"0\.weight\.grad still holds .* optimizer\.zero_grad\(\)"):
        step(experiment, batch)
    after = experiment.model.state_dict()
    assert all(np.array_equal(before[k], after[k].numpy()) for k in before)  # the step was not taken
    experiment.model.zero_grad()
    refuse_stale_gradients(experiment.model)
    for p in experiment.model.parameters():  # gradients of zeros are as good as none
        p.grad = np.zeros_like(p.data)
    refuse_stale_gradients(experiment.model)


def test_a_parameter_the_optimizer_does_not_know_is_noticed():
    experiment = Small()
    experiment.optimizer = optim.SGD(experiment.model[0].parameters(), lr=0.05)
    batch = next(iter(experiment.batches))
    step(experiment, batch)
    with pytest.raises(RuntimeError, match=r"2\.weight\.grad still holds"):
        step(experiment, batch)


def test_a_nan_stops_the_run(tmp_path):
    class Broken(Small):
        def loss(self, batch):
            outcome = super().loss(batch)
            return outcome._replace(loss=outcome.loss * math.nan)

    with pytest.raises(CannotTrain, match="became nan in epoch 1"):
        Run(Broken, tmp_path).go()


@pytest.mark.slow
@pytest.mark.parametrize("make", [Small, Xor, GrammarOneHot, GrammarForms])
def test_the_same_seed_gives_the_same_run(tmp_path, make):
    histories = []
    for i, seed in enumerate((5, 5, 6)):
        minitorch.rand(i)  # what was drawn before does not matter
        run = Run(make, tmp_path / str(i), seed=seed, epochs=3)
        run.go()
        histories.append(without_clocks(run.history))
    assert histories[0] == histories[1] != histories[2]


@pytest.mark.slow
@pytest.mark.parametrize("make", [Small, GrammarForms])
def test_a_run_in_two_parts_is_a_run_in_one(tmp_path, make):
    whole = Run(make, tmp_path / "whole", epochs=4)
    whole.go()
    Run(make, tmp_path / "parts", epochs=2).go()
    minitorch.manual_seed(99)
    second = Run(make, tmp_path / "parts", epochs=4)
    assert second.resumed
    assert second.epoch == 2
    second.go()
    assert without_clocks(second.history) == without_clocks(whole.history)
    ours, theirs = second.experiment.model.state_dict(), whole.experiment.model.state_dict()
    assert all(np.array_equal(ours[k].numpy(), theirs[k].numpy()) for k in theirs)
    lines = (tmp_path / "parts" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3, 4]


def test_metrics_are_repaired_when_a_run_goes_on(tmp_path):
    Run(Small, tmp_path, epochs=2).go()
    with open(tmp_path / "metrics.jsonl", "a") as file:
        file.write('{"epoch": 3, "lo')  # killed in the middle of a line
    (tmp_path / ".checkpoint.npz.1.abc.part").write_bytes(b"half")
    Run(Small, tmp_path, epochs=3).go()
    lines = (tmp_path / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3]
    assert not list(tmp_path.glob(".*.part"))


def test_another_seed_or_a_broken_checkpoint_is_explained(tmp_path):
    Run(Small, tmp_path, epochs=1).go()
    with pytest.raises(CannotTrain, match="seed 0; continue it with that seed"):
        Run(Small, tmp_path, seed=1)
    with pytest.raises(CannotTrain, match="holds a run of small"):
        Run(Xor, tmp_path)
    (tmp_path / "checkpoint.npz").write_bytes(b"PK\x03\x04 not really")
    with pytest.raises(CannotTrain, match="start anew with --fresh"):
        Run(Small, tmp_path)


def test_the_plot_is_a_picture(tmp_path):
    pytest.importorskip("matplotlib")
    report = Run(Small, tmp_path, epochs=2).go()
    assert (tmp_path / "curves.png").read_bytes().startswith(b"\x89PNG")
    assert report["plot"] == str(tmp_path / "curves.png")


@pytest.mark.slow
def test_memory_stays_flat_over_200_steps():
    minitorch.manual_seed(0)
    experiment = GrammarForms()
    batch = next(iter(experiment.batches))
    for _ in range(5):
        step(experiment, batch)
    gc.collect()
    gc.disable()
    try:
        tracemalloc.start()
        garbage, counts, sizes = [], [], []
        for number in range(200):
            step(experiment, batch)
            if number in (20, 199):
                garbage.append(gc.collect())  # it also empties Python's free lists, which grow up to a limit
                counts.append(sum(issubclass(type(o), minitorch.Tensor) for o in gc.get_objects()))
                sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
        gc.enable()
    assert garbage[1] == 0  # no step leaves anything to the collector
    assert counts[0] == counts[1]
    assert sizes[1] < sizes[0] + 20_000, sizes


def test_a_report_in_a_notebook(tmp_path):
    report = TrainingReport(
        experiment="<xor>", epochs=3, stopped_by="", loss=0.123456789, samples=["a\nb"], plot=None
    )
    shown = report._repr_html_()
    assert "&lt;xor&gt;" in shown
    assert "0.123457" in shown
    assert "stopped_by" not in shown
    assert "<img" not in shown
    picture = tmp_path / "curves.png"
    picture.write_bytes(b"\x89PNG")
    report["plot"] = str(picture)
    assert "data:image/png;base64,iVBORw==" in report._repr_html_()
    assert report["loss"] == 0.123456789
