"""Whole training steps, eager and compiled: layers, losses and optimisers, over several steps with new numbers.

After each step the loss, and at the end parameters, gradients, buffers and the optimiser's state, are the same.
"""

import numpy as np
import pytest

import minitorch
import minitorch.nn.functional as F
from compiled import BACKENDS, assert_same, compiled, put_off_audits
from minitorch import nn, optim
from minitorch.compiler.call.compiled import CompileError
from minitorch.proof.table import bools, distinct, integers, normal, positive, unit

STEPS = 4
# A slope that is 0 in mathematics (of a factor that a normalisation takes out again) is rounding error alone.
NOISE = 1e-12
# (Layers are made of the table's cases, which are run unfused and on a device too.)
every_backend = pytest.mark.parametrize("backend", [b for b in BACKENDS if b != "unfused"])
by_plain_and_native = pytest.mark.parametrize("backend", [b for b in BACKENDS if b in ("numpy", "native")])
pytestmark = pytest.mark.filterwarnings("ignore:.*:UserWarning")


class Scaled(nn.Module):
    """What is trained: a layer's parameters, and a factor on each float it is given."""

    def __init__(self, layer, call, count):
        super().__init__()
        self.layer = layer
        self.call = call
        self.scale = nn.Parameter(minitorch.ones(count))

    def forward(self, *inputs):
        scaled = [x * self.scale[i] if x.dtype.kind == "f" else x for i, x in enumerate(inputs)]
        found = self.layer(*scaled) if self.call is None else self.call(self.layer, *scaled)
        outputs = flat(found)
        total = 0
        for out in outputs:
            if out.dtype.kind == "f":
                weights = minitorch.cos(1.0 + 1.7 * minitorch.arange(out.numel(), dtype=out.dtype)).reshape(
                    out.shape
                )
                total = total + (out * weights).sum() / max(out.numel(), 1)
        return total


def flat(outputs):
    if isinstance(outputs, (tuple, list)):
        return [o for part in outputs for o in flat(part)]
    return [outputs] if isinstance(outputs, minitorch.Tensor) else []


def train(build, make_optimizer, inputs, backend, steps=STEPS):
    """Run some steps; return the losses, the model and the optimiser."""
    minitorch.manual_seed(3)
    model = build().double()
    optimizer = make_optimizer(model.parameters())

    def step(*tensors):
        optimizer.zero_grad()
        loss = model(*tensors)
        loss.backward()
        optimizer.step()
        return loss.detach()

    run = step if backend is None else compiled(step, backend)
    losses = []
    for trial in range(steps):
        rng = np.random.default_rng(trial)
        losses.append(run(*(minitorch.tensor(make(rng)) for make in inputs)).numpy())
        if backend not in (None, "native"):
            put_off_audits(run)
    if backend is not None:
        assert run.cache.eager_because is None, run.cache.eager_because
        assert 1 <= run.compilations <= 2, run.cache.reasons
    return losses, model, optimizer


def assert_same_training(build, make_optimizer, inputs, backend, steps=STEPS):
    mine, my_model, my_optimizer = train(build, make_optimizer, inputs, backend, steps)
    other, model, optimizer = train(build, make_optimizer, inputs, None, steps)
    for i, (a, b) in enumerate(zip(mine, other, strict=True)):
        assert_same(a, b, f"loss of step {i}", 10, NOISE)
    theirs = dict(model.named_parameters())
    for name, p in my_model.named_parameters():
        assert_same(p, theirs[name], name, 10, NOISE)
        assert (p.grad is None) == (theirs[name].grad is None)
        if p.grad is not None:
            assert_same(p.grad, theirs[name].grad, f"gradient of {name}", 10, NOISE)
    for (name, a), (_, b) in zip(my_model.named_buffers(), model.named_buffers(), strict=True):
        assert_same(a, b, name, 10, NOISE)
    states = [o.state_dict()["state"] for o in (my_optimizer, optimizer)]
    assert states[0].keys() == states[1].keys()
    for key, state in states[1].items():
        for name, b in state.items():
            a = states[0][key][name]
            assert type(a) is type(b), f"state {name}: {type(a)}, eager {type(b)}"
            if isinstance(b, (minitorch.Tensor, np.ndarray)):
                assert_same(a, b, f"state {name}", 10, NOISE)
            else:
                assert a == b, f"state {name}"


# --- layers ---------------------------------------------------------------------------------------------

LAYERS = []


def layer(name, build, *inputs, call=None):
    LAYERS.append(pytest.param(build, inputs, call, id=name))


for _name in (
    "ReLU", "SELU", "SiLU", "Mish", "Hardsigmoid", "Hardswish", "Sigmoid", "LogSigmoid", "Tanh", "Tanhshrink",
    "Softsign", "LeakyReLU", "ELU", "CELU", "GELU", "Hardshrink", "Softshrink", "Softplus", "GLU", "Hardtanh",
    "ReLU6", "PReLU",
):  # fmt: skip
    layer(_name, getattr(nn, _name), normal(3, 4))
layer("ReLU-inplace", lambda: nn.ReLU(inplace=True), normal(3, 4))
layer("RReLU-eval", lambda: nn.RReLU().eval(), normal(3, 4))
layer("GELU-tanh", lambda: nn.GELU("tanh"), normal(3, 4))
layer("Threshold", lambda: nn.Threshold(0.1, 0.2), normal(3, 4))
for _name in ("Softmax", "Softmin", "LogSoftmax"):
    layer(_name, lambda n=_name: getattr(nn, n)(1), normal(3, 4))
layer("Softmax2d", nn.Softmax2d, normal(2, 3, 2, 2))
layer("gumbel_softmax", nn.Identity, normal(3, 4), call=lambda _, x: F.gumbel_softmax(x))
layer("gumbel_softmax-hard", nn.Identity, normal(3, 4), call=lambda _, x: F.gumbel_softmax(x, hard=True))
layer("Linear", lambda: nn.Linear(4, 3), normal(5, 4))
layer("Linear-3d", lambda: nn.Linear(4, 3, bias=False), normal(2, 5, 4))
layer("Bilinear", lambda: nn.Bilinear(3, 4, 2), normal(5, 3), normal(5, 4))
layer("Flatten", lambda: nn.Sequential(nn.Flatten(), nn.Unflatten(1, (4, 3))), normal(2, 3, 4))
layer("CosineSimilarity", nn.CosineSimilarity, normal(3, 4), normal(3, 4))
layer("PairwiseDistance", nn.PairwiseDistance, normal(3, 4), normal(3, 4))
layer("pdist", nn.Identity, distinct(4, 3), call=lambda _, x: F.pdist(x))
layer("normalize", nn.Identity, normal(4, 3), call=lambda _, x: F.normalize(x))
for _name in ("Dropout", "Dropout1d", "Dropout2d", "AlphaDropout", "FeatureAlphaDropout"):
    layer(_name, getattr(nn, _name), normal(2, 3, 4) if _name != "Dropout2d" else normal(2, 3, 4, 2))
layer("Dropout3d", nn.Dropout3d, normal(2, 3, 2, 2, 2))
layer("Embedding", lambda: nn.Embedding(7, 3), integers(7, 4, 2))
layer("Embedding-padding", lambda: nn.Embedding(7, 3, padding_idx=1), integers(7, 4, 2))
layer("Embedding-max_norm", lambda: nn.Embedding(7, 3, max_norm=0.5), integers(7, 4, 2))
layer("Embedding-frequency", lambda: nn.Embedding(7, 3, scale_grad_by_freq=True), integers(7, 4, 2))
layer("one_hot", lambda: nn.Linear(4, 2), integers(4, 5), call=lambda m, i: m(F.one_hot(i, 4).double()))
layer("BatchNorm1d", lambda: nn.BatchNorm1d(3), normal(5, 3))
layer("BatchNorm1d-average", lambda: nn.BatchNorm1d(3, momentum=None), normal(5, 3, 2))
layer("BatchNorm2d", lambda: nn.BatchNorm2d(2, affine=False), normal(3, 2, 2, 2))
layer("BatchNorm3d", lambda: nn.BatchNorm3d(2, track_running_stats=False), normal(2, 2, 2, 2, 2))
layer("BatchNorm-eval", lambda: nn.BatchNorm1d(3).eval(), normal(5, 3))
layer("InstanceNorm1d", lambda: nn.InstanceNorm1d(3, affine=True, track_running_stats=True), normal(2, 3, 4))
layer("InstanceNorm2d", lambda: nn.InstanceNorm2d(3), normal(2, 3, 2, 3))
layer("InstanceNorm3d", lambda: nn.InstanceNorm3d(1), normal(2, 1, 2, 3, 2))
layer("LayerNorm", lambda: nn.LayerNorm((3, 4)), normal(2, 3, 4))
layer("RMSNorm", lambda: nn.RMSNorm(4), normal(2, 3, 4))
layer("GroupNorm", lambda: nn.GroupNorm(2, 4), normal(2, 4, 3))
layer("LocalResponseNorm", lambda: nn.LocalResponseNorm(2), normal(2, 4, 3, 3))
for _d, _shape in ((1, (6,)), (2, (5, 4)), (3, (3, 4, 3))):
    _x = normal(2, 2, *_shape)
    layer(f"Conv{_d}d", lambda d=_d: getattr(nn, f"Conv{d}d")(2, 4, 2, stride=2, padding=1, groups=2), _x)
    layer(
        f"Conv{_d}d-reflect",
        lambda d=_d: getattr(nn, f"Conv{d}d")(2, 3, 2, padding=1, padding_mode="reflect"),
        _x,
    )
    layer(
        f"ConvTranspose{_d}d",
        lambda d=_d: getattr(nn, f"ConvTranspose{d}d")(2, 3, 3, stride=2, padding=1),
        _x,
    )
    layer(
        f"MaxPool{_d}d",
        lambda d=_d: getattr(nn, f"MaxPool{d}d")(2, stride=1, padding=1),
        distinct(2, 2, *_shape),
    )
    layer(f"AvgPool{_d}d", lambda d=_d: getattr(nn, f"AvgPool{d}d")(2, padding=1), _x)
    layer(f"LPPool{_d}d", lambda d=_d: getattr(nn, f"LPPool{d}d")(3, 2), positive(2, 2, *_shape))
    for _size in (1, 2, 4):
        layer(
            f"AdaptiveAvgPool{_d}d-{_size}", lambda d=_d, s=_size: getattr(nn, f"AdaptiveAvgPool{d}d")(s), _x
        )
    layer(
        f"AdaptiveMaxPool{_d}d", lambda d=_d: getattr(nn, f"AdaptiveMaxPool{d}d")(2), distinct(2, 2, *_shape)
    )
    layer(
        f"MaxUnpool{_d}d",
        lambda d=_d: nn.ModuleList(
            [getattr(nn, f"MaxPool{d}d")(2, return_indices=True), getattr(nn, f"MaxUnpool{d}d")(2)]
        ),
        distinct(1, 2, *(2 * (n // 2) for n in _shape)),
        call=lambda pair, x: pair[1](*pair[0](x)),
    )
    for _kind in ("Constant", "Zero", "Reflection", "Replication", "Circular"):
        _more = (0.5,) if _kind == "Constant" else ()
        layer(f"{_kind}Pad{_d}d", lambda d=_d, k=_kind, m=_more: getattr(nn, f"{k}Pad{d}d")(1, *m), _x)
layer("Unfold", lambda: nn.Unfold((2, 3), padding=1, stride=2), normal(2, 2, 4, 5))
layer("Fold", lambda: nn.Fold((4, 5), 2), normal(2, 4, 12))
for _mode in ("nearest", "nearest-exact", "bilinear", "bicubic", "area"):
    layer(
        f"interpolate-{_mode}",
        nn.Identity,
        normal(1, 2, 3, 4),
        call=lambda _, x, m=_mode: F.interpolate(x, (5, 3), mode=m),
    )
layer(
    "Upsample", lambda: nn.Upsample(scale_factor=2.0, mode="bilinear", align_corners=True), normal(1, 2, 3, 4)
)
layer("Upsample-linear", lambda: nn.Upsample(5, mode="linear"), normal(1, 2, 3))
layer("Upsample-trilinear", lambda: nn.Upsample(3, mode="trilinear"), normal(1, 1, 2, 2, 2))
layer(
    "antialias",
    nn.Identity,
    normal(1, 2, 6, 6),
    call=lambda _, x: F.interpolate(x, (3, 4), mode="bilinear", antialias=True),
)
layer("PixelShuffle", lambda: nn.Sequential(nn.PixelShuffle(2), nn.PixelUnshuffle(2)), normal(1, 4, 2, 3))
layer("ChannelShuffle", lambda: nn.ChannelShuffle(2), normal(1, 4, 2, 3))
for _mode in ("bilinear", "nearest", "bicubic"):
    for _padding in ("zeros", "border", "reflection"):
        layer(
            f"grid_sample-{_mode}-{_padding}", nn.Identity, normal(2, 2, 3, 4), unit(2, 2, 3, 2),
            call=lambda _, x, g, m=_mode, p=_padding: F.grid_sample(x, 1.3 * g, m, p, align_corners=False),
        )  # fmt: skip
layer(
    "affine_grid", nn.Identity, unit(2, 2, 3), normal(2, 1, 3, 3),
    call=lambda _, t, x: F.grid_sample(x, F.affine_grid(t, (2, 1, 2, 2), align_corners=False), align_corners=False),
)  # fmt: skip
for _name in ("RNN", "LSTM", "GRU"):
    layer(_name, lambda n=_name: getattr(nn, n)(3, 4), normal(5, 2, 3))
    layer(
        f"{_name}-deep",
        lambda n=_name: getattr(nn, n)(3, 4, num_layers=2, bidirectional=True, batch_first=True, dropout=0.3),
        normal(2, 5, 3),
    )
    layer(f"{_name}Cell", lambda n=_name: getattr(nn, f"{n}Cell")(3, 4), normal(2, 3))
layer("RNN-relu", lambda: nn.RNN(3, 4, nonlinearity="relu"), normal(5, 2, 3))
layer("LSTM-projected", lambda: nn.LSTM(3, 4, proj_size=2), normal(5, 2, 3))
layer(
    "attention",
    nn.Identity,
    normal(2, 4, 3),
    normal(2, 5, 3),
    normal(2, 5, 2),
    call=lambda _, *qkv: F.scaled_dot_product_attention(*qkv),
)
layer(
    "attention-causal",
    nn.Identity,
    normal(2, 4, 3),
    normal(2, 4, 3),
    normal(2, 4, 2),
    call=lambda _, *qkv: F.scaled_dot_product_attention(*qkv, is_causal=True),
)
layer(
    "attention-mask",
    nn.Identity,
    normal(4, 3),
    normal(5, 3),
    normal(5, 2),
    bools(4, 5),
    call=lambda _, q, k, v, m: F.scaled_dot_product_attention(q, k, v, m),
)
layer(
    "attention-dropout",
    nn.Identity,
    normal(4, 3),
    normal(5, 3),
    normal(5, 2),
    call=lambda _, *qkv: F.scaled_dot_product_attention(*qkv, dropout_p=0.3),
)
layer(
    "MultiheadAttention",
    lambda: nn.MultiheadAttention(4, 2, dropout=0.1),
    normal(3, 2, 4),
    call=lambda a, x: a(x, x, x),
)
layer(
    "MultiheadAttention-other",
    lambda: nn.MultiheadAttention(
        4, 2, kdim=3, vdim=5, add_bias_kv=True, add_zero_attn=True, batch_first=True
    ),
    normal(2, 3, 4),
    normal(2, 4, 3),
    normal(2, 4, 5),
)
layer(
    "MultiheadAttention-masks",
    lambda: nn.MultiheadAttention(4, 2, batch_first=True),
    normal(2, 3, 4),
    bools(3, 3),
    call=lambda a, x, m: a(x, x, x, attn_mask=m & ~minitorch.eye(3, dtype=bool)),
)
layer(
    "TransformerEncoderLayer", lambda: nn.TransformerEncoderLayer(4, 2, 6, batch_first=True), normal(2, 3, 4)
)
layer(
    "TransformerEncoder",
    lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 6, norm_first=True, activation="gelu"), 2),
    normal(3, 2, 4),
)
layer(
    "TransformerDecoder",
    lambda: nn.TransformerDecoder(nn.TransformerDecoderLayer(4, 2, 6), 2),
    normal(3, 2, 4),
    normal(2, 2, 4),
)
layer("Transformer", lambda: nn.Transformer(4, 2, 1, 1, 6), normal(3, 2, 4), normal(2, 2, 4))

# --- losses ---------------------------------------------------------------------------------------------


def probabilities(*shape):
    return lambda rng: rng.uniform(0.1, 0.9, size=shape)


def signs(*shape):
    return lambda rng: rng.choice([-1.0, 1.0], size=shape)


for _reduction in ("mean", "sum", "none"):
    for _name in ("L1Loss", "MSELoss", "SmoothL1Loss", "HuberLoss", "PoissonNLLLoss"):
        layer(
            f"{_name}-{_reduction}",
            lambda n=_name, r=_reduction: getattr(nn, n)(reduction=r),
            normal(3, 4),
            normal(3, 4),
        )
    layer(
        f"CrossEntropyLoss-{_reduction}",
        lambda r=_reduction: nn.CrossEntropyLoss(reduction=r),
        normal(3, 4),
        integers(4, 3),
    )
    layer(f"NLLLoss-{_reduction}", lambda r=_reduction: nn.NLLLoss(reduction=r), normal(3, 4), integers(4, 3))
    layer(
        f"BCELoss-{_reduction}",
        lambda r=_reduction: nn.BCELoss(reduction=r),
        probabilities(3, 4),
        probabilities(3, 4),
        call=lambda loss, x, y: loss(minitorch.sigmoid(x), y.detach()),
    )
layer(
    "CrossEntropyLoss-all",
    lambda: nn.CrossEntropyLoss(minitorch.tensor([0.5, 1.0, 2.0, 1.5]), ignore_index=2, label_smoothing=0.1),
    normal(3, 4),
    integers(4, 3),
)
layer("CrossEntropyLoss-images", nn.CrossEntropyLoss, normal(2, 4, 3), integers(4, 2, 3))
layer("CrossEntropyLoss-probabilities", nn.CrossEntropyLoss, normal(2, 4), probabilities(2, 4))
layer(
    "NLLLoss-weighted",
    lambda: nn.NLLLoss(minitorch.tensor([0.5, 1.0, 2.0, 1.5]), ignore_index=1),
    normal(3, 4),
    integers(4, 3),
)
layer(
    "BCEWithLogitsLoss",
    lambda: nn.BCEWithLogitsLoss(pos_weight=minitorch.tensor([0.5, 1.0, 2.0, 1.5])),
    normal(3, 4),
    probabilities(3, 4),
)
layer("KLDivLoss", lambda: nn.KLDivLoss(reduction="batchmean"), normal(3, 4), probabilities(3, 4))
layer("KLDivLoss-log", lambda: nn.KLDivLoss(reduction="sum", log_target=True), normal(3, 4), normal(3, 4))
layer(
    "PoissonNLLLoss-full",
    lambda: nn.PoissonNLLLoss(log_input=False, full=True),
    positive(3, 4),
    positive(3, 4),
)
layer("GaussianNLLLoss", lambda: nn.GaussianNLLLoss(full=True), normal(3, 4), normal(3, 4), positive(3, 1))
layer(
    "HingeEmbeddingLoss",
    nn.HingeEmbeddingLoss,
    normal(3, 4),
    signs(3, 4),
    call=lambda loss, x, y: loss(x, y.detach().sign()),
)
layer("MarginRankingLoss", nn.MarginRankingLoss, normal(4), normal(4), signs(4))
layer(
    "CosineEmbeddingLoss",
    nn.CosineEmbeddingLoss,
    normal(3, 4),
    normal(3, 4),
    signs(3),
    call=lambda loss, a, b, y: loss(a, b, y.detach().sign()),
)
layer("SoftMarginLoss", nn.SoftMarginLoss, normal(3, 4), signs(3, 4))
layer(
    "MultiLabelMarginLoss",
    nn.MultiLabelMarginLoss,
    normal(2, 4),
    lambda rng: np.array([[rng.integers(4), -1, 0, 1], [0, 3, -1, rng.integers(4)]]),
)
layer("MultiLabelSoftMarginLoss", nn.MultiLabelSoftMarginLoss, normal(3, 4), probabilities(3, 4))
layer("MultiMarginLoss", lambda: nn.MultiMarginLoss(p=2), normal(3, 4), integers(4, 3))
layer("TripletMarginLoss", lambda: nn.TripletMarginLoss(swap=True), normal(3, 4), normal(3, 4), normal(3, 4))
layer(
    "TripletMarginWithDistanceLoss",
    nn.TripletMarginWithDistanceLoss,
    normal(3, 4),
    normal(3, 4),
    normal(3, 4),
)
layer(
    "CTCLoss",
    nn.CTCLoss,
    normal(6, 2, 5),
    lambda rng: rng.integers(1, 5, size=(2, 3)),
    call=lambda loss, x, y: loss(minitorch.log_softmax(x, 2), y, (6, 5), (3, 2)),
)
layer(
    "CTCLoss-lengths",
    nn.CTCLoss,
    normal(6, 2, 5),
    lambda rng: rng.integers(1, 5, size=(2, 3)),
    lambda rng: rng.integers(1, 4, size=2),
    lambda rng: rng.integers(5, 7, size=2),
    call=lambda loss, x, y, n, t: loss(minitorch.log_softmax(x, 2), y, t, n),
)
layer(
    "CTCLoss-joined",
    nn.CTCLoss,
    normal(6, 2, 5),
    lambda rng: rng.integers(1, 5, size=5),
    call=lambda loss, x, y: loss(minitorch.log_softmax(x, 2), y, (6, 5), (3, 2)),
)
layer(
    "CTCLoss-sum",
    lambda: nn.CTCLoss(blank=2, reduction="sum", zero_infinity=True),
    normal(6, 2, 5),
    lambda rng: rng.choice([0, 1, 3, 4], size=(2, 3)),
    call=lambda loss, x, y: loss(minitorch.log_softmax(x, 2), y, (6, 5), (3, 2)),
)


@by_plain_and_native
@pytest.mark.parametrize(("build", "inputs", "call"), LAYERS)
def test_layers_and_losses_train_the_same(build, inputs, call, backend):
    assert_same_training(
        lambda: Scaled(build(), call, max(len(inputs), 1)),
        lambda parameters: optim.SGD(parameters, lr=0.05, momentum=0.9),
        inputs,
        backend,
    )


# --- optimisers -----------------------------------------------------------------------------------------

OPTIMISERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "SGD-momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "SGD-nesterov": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "SGD-dampened": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.3, maximize=True),
    "Adam": lambda p: optim.Adam(p, lr=0.01),
    "Adam-all": lambda p: optim.Adam(
        p, lr=0.01, amsgrad=True, maximize=True, weight_decay=0.1, betas=(0.8, 0.9)
    ),
    "AdamW": lambda p: optim.AdamW(p, lr=0.01),
    "AdamW-amsgrad": lambda p: optim.AdamW(p, lr=0.01, amsgrad=True),
    "Adamax": lambda p: optim.Adamax(p, weight_decay=0.1),
    "NAdam": lambda p: optim.NAdam(p, lr=0.01),
    "NAdam-decoupled": lambda p: optim.NAdam(p, lr=0.01, weight_decay=0.1, decoupled_weight_decay=True),
    "RAdam": lambda p: optim.RAdam(p, lr=0.01),
    "RAdam-decoupled": lambda p: optim.RAdam(p, lr=0.01, weight_decay=0.1, decoupled_weight_decay=True),
    "RMSprop": lambda p: optim.RMSprop(p),
    "RMSprop-all": lambda p: optim.RMSprop(p, momentum=0.9, centered=True, weight_decay=0.1),
    "Rprop": lambda p: optim.Rprop(p),
    "Adagrad": lambda p: optim.Adagrad(p, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.1),
    "Adadelta": lambda p: optim.Adadelta(p, weight_decay=0.1),
    "groups": lambda p: (lambda ps: optim.SGD([{"params": ps[:1], "lr": 0.3}, {"params": ps[1:]}], lr=0.1))(
        list(p)
    ),
}


def network():
    return Scaled(nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)), None, 1)


@every_backend
@pytest.mark.parametrize("name", OPTIMISERS)
def test_optimisers_step_the_same(name, backend):
    # RAdam's rule changes after its fifth step: so more steps than that.
    assert_same_training(network, OPTIMISERS[name], [normal(6, 4)], backend, steps=9)


@every_backend
def test_clipped_gradients_train_the_same(backend):
    def clipping(parameters):
        parameters = list(parameters)
        optimizer = optim.SGD(parameters, lr=0.1)
        plain = optimizer.step

        def step():
            nn.utils.clip_grad_norm_(parameters, 0.05)
            nn.utils.clip_grad_value_(parameters, 0.02)
            plain()

        optimizer.step = step
        return optimizer

    assert_same_training(network, clipping, [normal(6, 4)], backend)


def test_rrelu_is_refused_while_training():
    # It draws as many numbers as there are negative elements, so that its numbers are PyTorch's.
    with pytest.raises(CompileError, match="needs a number that is only known|as many random numbers"):
        minitorch.compile(nn.RReLU(), backend="numpy", fullgraph=True)(minitorch.tensor([-1.0, 2.0]))


def test_lbfgs_is_refused():
    model = nn.Linear(2, 1)
    optimizer = optim.LBFGS(model.parameters())
    x = minitorch.tensor([[1.0, 2.0]])

    def loss():
        optimizer.zero_grad()
        value = model(x).square().sum()
        value.backward()
        return value

    with pytest.raises(CompileError, match="needs a number that is only known"):
        minitorch.compile(lambda: optimizer.step(loss), backend="numpy", fullgraph=True)()
