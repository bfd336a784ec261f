"""Ints that vary, among the arguments or read by the function: one program for all, guards on ranges; never wrong."""

import copy
import math
import warnings

import numpy as np
import pytest

import minitorch as mt
from minitorch import nn

F = nn.functional
VALUES = (5, 7, 9, 3, 2, 12, 1, 0, 20, 8, 29, 4, 17)
# 5, one program for 2 and more, 1, and 0; what Python compares, or an end of the array, makes further ones.
FEW = 4
mask = mt.tril(mt.ones(32, 32))
table = list(range(40))


def cosines(*shape):
    return mt.arange(math.prod(shape)).reshape(*shape).float().cos()


x = cosines(6, 30)

CASES = {
    "slice": (lambda x, n: x[:, :n] * 2, FEW),
    "slice_from": (lambda x, n: x[:, n:] * 2, FEW + 1),  # up to the last but one, and the last
    "slice_from_the_end": (lambda x, n: x[:, -n - 1 :] * 2, FEW + 1),
    "index": (lambda x, n: x[:, n] * 2, FEW),
    "narrow": (lambda x, n: x.narrow(1, n, 1) * 2, FEW),
    "gather": (lambda x, n: x[:, mt.arange(n)] * 2, FEW),
    "arange": (lambda x, n: (mt.arange(n) * 2, mt.arange(n, n + 4)), FEW),
    "zeros": (lambda x, n: (mt.zeros(n, 3) + n, mt.full((2,), n), mt.eye(n)), FEW),
    "arithmetic": (lambda x, n: (x * n, x + n / 3, x * 0.9**n, x * (n // 2), x * (n % 3), x / (n + 1)), FEW),
    "of_ints": (lambda x, n: ((x * 9).long() * n, (x * 9).int() + n, (x > 0) * n), FEW),
    "of_math": (lambda x, n: x * math.sqrt(n) + math.cos(n), FEW),
    "returned": (lambda x, n: (x * 2, n, n + 1, [n // 2], {"n": n}, n / 2, f"{n} rows"), FEW),
    "window": (lambda x, n: x[:, : n + 1].unfold(1, 2, 1) if n else x, FEW),
    "rolled": (lambda x, n: x.roll(n, 1), FEW + 1),
    "triangle": (lambda x, n: (x.tril(n), x.triu(-n)), FEW),
    "padded": (lambda x, n: F.pad(x, (n, 2)), FEW + 1),  # (it asks whether both ends get as much)
    "expanded": (lambda x, n: x[:, None].expand(6, n, 30) * 2, FEW),
    "largest": (lambda x, n: x.topk(n)[0], FEW),
    "compared": (lambda x, n: x * 2 if n > 8 else x * 3, FEW + 1),
    "even_or_odd": (lambda x, n: x * 2 if n % 2 else x * 3, FEW + 1),
    "clamped": (lambda x, n: x[:, : min(n, 10)] * max(n, 6), FEW + 3),
    "mask": (lambda x, n: x[:, :n].masked_fill(mask[:6, :n] == 0, -1.0), FEW),
    "written": (lambda x, n: _written(x, n), FEW + 1),
    "pieces": (lambda x, n: x.split([n, 30 - n], 1)[1] * 2, FEW + 2),
}


def _written(x, n):
    x = x.clone()
    x[:, n] = 0.5
    x[:, :n] *= 2
    return x


def same(got, want):
    if isinstance(want, (tuple, list)):
        assert len(got) == len(want)
        for a, b in zip(got, want, strict=True):
            same(a, b)
    elif isinstance(want, mt.Tensor):
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-4, atol=1e-5)
    else:
        assert got == want
        assert type(got) is type(want)


@pytest.mark.parametrize("name", CASES)
def test_an_int_that_varies_has_one_program(name):
    function, most = CASES[name]
    compiled = mt.compile(function, backend="numpy")
    for n in VALUES:
        same(compiled(x, n), function(x, n))
    assert compiled.compilations <= most
    assert compiled.cache.eager_calls == 0
    assert not compiled.explain().fixed_sizes


@pytest.mark.parametrize("name", ["slice", "index", "arithmetic", "written", "mask", "padded", "gather"])
def test_machine_code_is_right_for_every_int(name):
    pytest.importorskip("llvmlite")
    function, most = CASES[name]
    compiled = mt.compile(function)
    for n in (*VALUES, *VALUES):
        same(compiled(x, n), function(x, n))
    assert compiled.compilations <= most


def test_an_int_and_a_length_that_are_equal_are_one_size_until_they_differ(compile):
    function = compile(lambda x, n: x[:n] + mt.arange(n)[:, None])
    for n in (4, 6, 9, 3):
        same(function(cosines(n, 2), n), cosines(n, 2) + mt.arange(n)[:, None])
    assert function.compilations == 2
    for n, k in ((6, 4), (9, 2), (5, 3), (8, 7)):
        same(function(cosines(n, 2), k), cosines(n, 2)[:k] + mt.arange(k)[:, None])
    assert function.compilations == 3


def test_ints_anywhere_among_the_arguments_vary(compile):
    function = compile(lambda x, where, *, more: x[:, where["from"] : where["from"] + more[0]] * more[1])
    for start, count, factor in ((5, 7, 2), (6, 8, 2), (7, 5, 3), (9, 4, 5), (12, 11, 8)):
        got = function(x, {"from": start}, more=(count, factor))
        same(got, x[:, start : start + count] * factor)
    assert function.compilations == 3  # the factor varies later than the others


@pytest.mark.parametrize("function", [
    lambda x, n: sum(x[:, i] for i in range(n)) + x[:, 0],
    lambda x, n: x * table[n],
    lambda x, n: x.reshape(6, 30)[:, :: n + 1] * len([0] * n),
])  # fmt: skip
def test_where_the_number_itself_is_needed_there_are_few_programs_and_the_line_is_named(function):
    compiled = mt.compile(function, backend="numpy")
    for n in (3, 4, 3, 4, 5):
        same(compiled(x, n), function(x, n))
    assert compiled.compilations <= 3
    assert "int 0 among the arguments cannot vary: test_ints_that_vary.py" in str(
        compiled.explain().fixed_sizes
    )


image, line = cosines(1, 2, 24, 24), cosines(2, 3, 40)
NEEDED = {
    "slice_step": lambda n: line[:, :, ::n],
    "window": lambda n: line.unfold(2, n, 1).mean(-1),
    "window_step": lambda n: line.unfold(2, 3, n).sum(-1),
    "pool": lambda n: F.max_pool2d(image, n, stride=1),
    "adaptive_pool": lambda n: F.adaptive_avg_pool2d(image, n),
    "linspace": lambda n: mt.linspace(0, 1, n) * 2,
    "hann_window": lambda n: mt.hann_window(n),
    "interpolate": lambda n: F.interpolate(image, size=(n, n), mode="bilinear"),
    "stride": lambda n: F.conv1d(line, line[:, :, :3], stride=n),
    "dilation": lambda n: F.conv1d(line, line[:, :, :2], dilation=n),
    "loop": lambda n: sum(line * i for i in range(n)),
}


@pytest.mark.parametrize("name", NEEDED)
def test_what_needs_the_number_is_right_for_each_and_says_so_when_it_is_not_compiled(name):
    function = NEEDED[name]
    compiled = mt.compile(function, backend="numpy")
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        for n in (2, 3, 5, 4, 7, 6, 3, 8, 9, 5, 10, 11, 12, 2, 13, 14, 4, 15, 16, 17):
            same(compiled(n), function(n))
    assert compiled.compilations <= 8
    assert compiled.cache.eager_calls > 0
    assert "run as they are, not compiled" in str([warning.message for warning in told])
    assert str(compiled.cache.eager_calls) in str(compiled.explain())


def test_images_of_any_size_are_made_larger_by_one_program(compile):
    def enlarged(x):
        return mt.cat([x, F.interpolate(F.max_pool2d(x, 2), scale_factor=2)], 1)

    function = compile(enlarged)
    for n, m in ((6, 8), (10, 4), (4, 4), (12, 6), (8, 14)):
        same(function(cosines(1, 2, n, m)), enlarged(cosines(1, 2, n, m)))
    assert function.compilations == 2


def test_large_and_negative_ints_are_right(compile):
    def function(x, n):
        return x + (n * n) % 7, n * n * n, x[:, n:] if -9 < n < 0 else x

    compiled = compile(function)
    for n in (10**6, 10**9, 2**31 - 1, 2**31, 2**40, 5, -3, -5, -(2**35), 10**6 + 1):
        same(compiled(x, n), function(x, n))


def test_bools_are_no_ints(compile):
    function = compile(lambda x, n: (x * 2, n))
    for n in (True, False, 3, 4, True, 1, 0):
        same(function(x, n), (x * 2, n))


def test_an_index_out_of_range_is_the_functions_own_error_and_changes_nothing(compile):
    function = compile(lambda x, n: x[:, n] * 2)
    for n in (3, 5):
        function(x, n)
    for n in (30, 40, 30):
        with pytest.raises(IndexError, match="out of bounds|out of range"):
            function(x, n)
    for n in range(2, 29):
        same(function(x, n), x[:, n] * 2)
    assert function.compilations == 2


def test_dynamic_true_and_false(compile):
    function = lambda x, n: x[:, :n] * 2
    always, never = compile(function, dynamic=True), compile(function, dynamic=False)
    for n in (5, 7, 3):
        same(always(x, n), function(x, n))
        same(never(x, n), function(x, n))
    assert (always.compilations, never.compilations) == (1, 3)


def test_a_table_of_ints_is_no_size(compile):
    function = compile(lambda x, places: x * sum(places))
    for k in (3, 4, 3):
        same(function(x, list(range(k, k + 20))), x * sum(range(k, k + 20)))
    assert function.compilations == 2
    assert "more than 16 ints" in str(function.explain().fixed_sizes)


class Cached(nn.Module):
    """Attention's keys, one more at each call, at a place that the module counts."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.register_buffer("keys", mt.zeros(2, 40, 3))
        self.place = 0

    def forward(self, k):
        place = self.place
        self.keys[:, place] = self.linear(k).detach()
        seen = self.keys[:, : place + 1]
        self.place = place + 1
        positions = mt.arange(place + 1) / (place + 1)
        return (seen * positions[:, None]).sum(1) + seen.shape[1]


def test_a_cache_that_is_filled_at_a_counted_place_has_one_program(compile):
    mt.manual_seed(0)
    module = Cached()
    other = copy.deepcopy(module)
    step = compile(module.forward)
    for i in range(34):
        k = cosines(2, 3) * i
        same(step(k).detach(), other(k).detach())
        same(module.keys, other.keys)
        assert module.place == other.place == i + 1
    assert step.compilations <= 3  # for 1, for 2 and more
    assert "place of" in str(step.explain())


def test_a_place_given_as_an_argument_writes_there(compile):
    @compile
    def write(keys, k, place):
        keys[:, place] = k
        return keys[:, : place + 1].sum(1)

    keys, want = mt.zeros(2, 20, 3), np.zeros((2, 20, 3), np.float32)
    for place in (0, 1, 2, 3, 4, 5, 11, 17, 6):
        want[:, place] = place + 1
        got = write(keys, mt.full((2, 3), place + 1.0), place)
        np.testing.assert_allclose(got.numpy(), want[:, : place + 1].sum(1))
        np.testing.assert_array_equal(keys.numpy(), want)
    assert write.compilations == 3


def test_gradients_for_every_int(compile):
    weight = nn.Parameter(cosines(6, 30))

    @compile
    def loss(n, k):
        part = weight[:, k : k + n] * mt.arange(n)
        return (part.tanh() * n).mean()

    for n, k in ((4, 3), (6, 5), (9, 2), (2, 11), (20, 9), (1, 4), (7, 0), (11, 8)):
        weight.grad = None
        loss(n, k).backward()
        got = weight.grad
        weight.grad = None
        ((weight[:, k : k + n] * mt.arange(n)).tanh() * n).mean().backward()
        np.testing.assert_allclose(got, weight.grad, rtol=1e-4, atol=1e-6)
    assert loss.compilations <= 6


def test_counters_that_the_function_reads_vary_by_themselves(compile):
    counts = {"rows": 2}

    @compile
    def rows(x):
        counts["rows"] += 1
        return x[:, : counts["rows"]] * counts["rows"], mt.ones(counts["rows"])

    for i in range(3, 12):
        got, ones = rows(x)
        same((got, ones), (x[:, :i] * i, mt.ones(i)))
    assert rows.compilations <= 2
    counts["rows"] = 40  # beyond the array's end
    assert rows(x)[0].shape == (6, 30)
    counts["rows"] = 2
    assert rows(x)[1].shape == (3,)
    assert rows.compilations <= 3
