"""Training by several ranks: one rank's losses and weights, and PyTorch's where they differ from these."""

import numpy as np
import pytest

import minitorch
from minitorch import nn
from minitorch.engine.hooks import on_complete
from ranks import run_ranks


@pytest.mark.slow
@pytest.mark.parametrize(
    ("count", "cases"), [(2, []), (3, ["uneven", "SGD, dropout"]), (4, ["cnn, batch", "gpt, AdamW"])]
)
def test_ranks_train_as_one_rank(count, cases):
    said = run_ranks(count, "rank_training.py", *cases)
    assert said.count("all is as by one rank") == count


@pytest.mark.slow
def test_collectives_inside_compiled_functions():
    said = run_ranks(3, "rank_compiled.py")
    assert said.count("compiled is as uncompiled") == 3, said
    assert "rank 1 has its own error" in said


@pytest.mark.slow
def test_data_parallel_is_pytorchs(tmp_path):
    pytest.importorskip("torch")
    said = run_ranks(2, "rank_pytorch.py", tmp_path / "meeting")
    assert said.count("all is as in PyTorch") == 2, said


def test_a_leafs_gradient_is_told_as_soon_as_it_is_complete():
    layers = [nn.Linear(3, 3) for _ in range(4)]
    order = []
    for i, layer in enumerate(layers):
        for parameter in layer.parameters():
            on_complete(
                parameter, lambda leaf, g, i=i: order.append((i, leaf.grad is None, g.shape == leaf.shape))
            )
    x = minitorch.ones(1, 3, requires_grad=True)
    x.register_hook(lambda g: order.append("input"))
    y = x
    for layer in layers:
        y = layer(y)
    y.sum().backward()
    # The last layer first, and all before any gradient is in its place.
    assert [step[0] for step in order if step != "input"] == [3, 3, 2, 2, 1, 1, 0, 0]
    assert all(step == "input" or step[1:] == (True, True) for step in order)
    assert layers[0].weight.grad.shape == (3, 3)


def test_shared_leaves_are_complete_when_the_last_use_has_given():
    w = minitorch.ones(2, requires_grad=True)
    seen = []
    on_complete(w, lambda leaf, g: seen.append(g.copy()))
    (w * 2 + (w * 3).exp() * w).sum().backward()
    assert len(seen) == 1
    np.testing.assert_array_equal(seen[0], w.grad)


def test_dropout_for_a_part_of_a_batch_is_the_batchs():
    from minitorch.distributed.shards import drawn_together, shard_of

    minitorch.manual_seed(0)
    x = minitorch.ones(7, 5)
    whole = nn.functional.dropout(x)
    state = minitorch.get_rng_state()
    parts = []
    for rank in range(3):
        minitorch.manual_seed(0)
        shard = shard_of(7, rank, 3)
        with drawn_together(shard):
            parts.append(nn.functional.dropout(x[shard.first : shard.first + shard.mine]))
        assert str(minitorch.get_rng_state()) == str(state)
    assert minitorch.cat(parts).equal(whole)


def test_sync_batch_norm_alone_is_batch_norm():
    minitorch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Sequential(nn.BatchNorm2d(2)))
    x = minitorch.randn(3, 1, 5, 5)
    twin = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Sequential(nn.BatchNorm2d(2)))
    twin.load_state_dict(net.state_dict())
    made = nn.SyncBatchNorm.convert_sync_batchnorm(twin)
    assert isinstance(made[1], nn.SyncBatchNorm)
    assert isinstance(made[2][0], nn.SyncBatchNorm)
    assert made(x).equal(net(x))
    assert list(made.state_dict()) == list(net.state_dict())
