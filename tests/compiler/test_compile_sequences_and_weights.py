"""Packed sequences, weights computed from others, and averaged models inside compiled functions."""

import pytest

import minitorch as mt
from minitorch import nn, optim
from minitorch.optim.swa_utils import AveragedModel, get_ema_avg_fn, get_ema_multi_avg_fn
from scenarios import both, plain

pack, pad = nn.utils.rnn.pack_padded_sequence, nn.utils.rnn.pad_packed_sequence


def runs(f):
    return sum(p.calls for p in f.cache.all())


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
@pytest.mark.parametrize("lengths", [[4, 3, 1], "a tensor"])
def test_a_step_on_packed_sequences(compile, kind, lengths):
    def scenario(compile):
        rnn = kind(3, 4, batch_first=True, bidirectional=kind is nn.GRU)
        optimizer = optim.SGD(rnn.parameters(), lr=0.1)
        given = mt.tensor([2, 4, 1]) if lengths == "a tensor" else lengths

        @compile
        def step(x):
            out, state = rnn(pack(x, given, batch_first=True, enforce_sorted=lengths != "a tensor"))
            out, back = pad(out, batch_first=True)
            loss = (out**2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss, out, state, back

        results = [step(mt.randn(3, 4, 3)) for _ in range(4)]
        if compile is not plain:
            assert runs(step) >= 2
        return results, list(rnn.parameters())

    both(scenario, compile)


@pytest.mark.parametrize("as_tensor", [False, True])
def test_lengths_that_change(compile, as_tensor):
    def scenario(compile):
        rnn = nn.GRU(3, 4, batch_first=True)

        @compile
        def run(x, lengths):
            out, last = rnn(pack(x, lengths, batch_first=True, enforce_sorted=False))
            return pad(out, batch_first=True), last

        counts = ([4, 3, 1], [4, 3, 1], [2, 4, 1], [2, 4, 1], [4, 3, 1], [1, 1, 1])
        given = mt.tensor if as_tensor else list
        results = [run(mt.randn(3, 4, 3), given(lengths)) for lengths in counts]
        if compile is not plain:
            assert run.compilations == 3
        return results

    both(scenario, compile)


def test_captured_lengths_that_are_written_into(compile):
    def scenario(compile):
        lengths = mt.tensor([3, 2])
        run = compile(lambda x: pad(pack(x, lengths, batch_first=True), batch_first=True))
        results = []
        for i in range(6):
            if i == 3:
                lengths[1] = 1
            results.append(run(mt.randn(2, 3)))
        return results

    both(scenario, compile)


def test_a_packed_sequence_as_an_argument(compile):
    def scenario(compile):
        rnn = nn.LSTM(3, 4, batch_first=True)
        run = compile(lambda packed: rnn(packed)[1])
        counts = ([4, 3, 1], [4, 3, 1], [4, 2, 2], [4, 2, 2])
        return [run(pack(mt.randn(3, 4, 3), lengths, batch_first=True)) for lengths in counts]

    both(scenario, compile)


@pytest.mark.filterwarnings("ignore:compile")
@pytest.mark.parametrize(
    "wrap",
    [
        nn.utils.spectral_norm,
        nn.utils.weight_norm,
        nn.utils.parametrizations.spectral_norm,
        nn.utils.parametrizations.weight_norm,
        nn.utils.parametrizations.orthogonal,
    ],
    ids=["old spectral", "old weight", "spectral", "weight", "orthogonal"],
)
def test_computed_weights(compile, wrap):
    def scenario(compile):
        layer = wrap(nn.Linear(3, 3))
        optimizer = optim.SGD(layer.parameters(), lr=0.1)

        @compile
        def step(x):
            loss = (layer(x) ** 2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        results = [step(mt.randn(4, 3)) for _ in range(5)]
        if compile is not plain and "parametrizations" in wrap.__module__:
            assert runs(step) >= 2
        return results, list(layer.state_dict().values())

    both(scenario, compile)


@pytest.mark.parametrize(
    "how",
    [
        {},
        {"avg_fn": get_ema_avg_fn(0.9)},
        {"multi_avg_fn": get_ema_multi_avg_fn(0.9)},
        {"multi_avg_fn": get_ema_multi_avg_fn(0.9), "use_buffers": True},
    ],
    ids=["equal", "fading", "fading lists", "buffers"],
)
def test_averaged_models(compile, how):
    def scenario(compile):
        model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
        averaged = AveragedModel(model, **how)
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        @compile
        def step(x):
            loss = (model(x) ** 2 + model[0](x)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            averaged.update_parameters(model)
            return loss

        results = [step(mt.randn(4, 3)) for _ in range(6)]
        if compile is not plain:
            assert step.compilations <= 3
            assert runs(step) >= 2
        return results, list(averaged.state_dict().values()), averaged(mt.ones(2, 3))

    both(scenario, compile)
