"""Data sets, samplers and the DataLoader: beside PyTorch's where there is something to compare."""

import collections
import gc
import math
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback

import numpy as np
import pytest

import minitorch
from minitorch.utils import data
from minitorch.utils.data import DataLoader
from pytorch import torch

# Newer Pythons warn of every fork beside BLAS's threads; here the children use none of them.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


class Squares(data.Dataset):
    def __init__(self, n=10):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        if not 0 <= index < self.n:
            raise IndexError(index)
        return index, float(index) ** 2


class Stream(data.IterableDataset):
    """Numbers, each worker its share."""

    def __init__(self, n=10):
        self.n = n

    def __iter__(self):
        worker = data.get_worker_info()
        start, by = (0, 1) if worker is None else (worker.id, worker.num_workers)
        return iter(range(start, self.n, by))

    def __len__(self):
        return self.n


class Noise(data.Dataset):
    """Random numbers drawn where the sample is made, as in augmentation."""

    def __len__(self):
        return 12

    def __getitem__(self, index):
        time.sleep(0.001 * (index % 3))
        return minitorch.rand(2)


class Fails(data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 5:
            raise CustomError("the fifth sample is broken", 42)
        return index


class CustomError(Exception):
    def __init__(self, text, code):
        super().__init__(text, code)
        self.code = code


class Unpicklable(Exception):
    def __init__(self, text):
        super().__init__(text)
        self.lock = threading.Lock()


class FailsOddly(Fails):
    def __getitem__(self, index):
        raise Unpicklable("cannot travel")


class Slow(data.Dataset):
    def __len__(self):
        return 100

    def __getitem__(self, index):
        time.sleep(1 if index >= 2 else 0)
        return index


class Dies(data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return index


class Where(data.Dataset):
    """Samples that say where they were made."""

    def __len__(self):
        return 8

    def __getitem__(self, index):
        worker = data.get_worker_info()
        return os.getpid(), threading.get_ident(), worker.id, worker.num_workers, worker.seed


MODES = {"threads": {}, "fork": {"multiprocessing_context": "fork"}}
every_mode = pytest.mark.parametrize("mode", MODES.values(), ids=MODES)


def plain(value):
    """Any batch, of either library, as lists; with dtypes and kinds of containers."""
    if hasattr(value, "detach"):
        return (str(value.dtype).removeprefix("torch."), value.tolist())
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return type(value).__name__, [plain(v) for v in value]
    return value


def workers_now():
    threads = [t for t in threading.enumerate() if t.name.startswith("minitorch-data")]
    return threads + multiprocessing.active_children()


@pytest.fixture(autouse=True)
def _nobody_is_left_behind():
    yield
    if workers_now():
        gc.collect()
    assert workers_now() == []


# --- data sets --------------------------------------------------------------------------------------


def test_tensor_dataset():
    x, y = minitorch.arange(6.0).reshape(3, 2), minitorch.tensor([7, 8, 9])
    pairs = data.TensorDataset(x, y)
    assert len(pairs) == 3
    assert plain(pairs[1]) == ("tuple", [("float32", [2.0, 3.0]), ("int64", 8)])
    assert plain(pairs[1:]) == ("tuple", [("float32", [[2.0, 3.0], [4.0, 5.0]]), ("int64", [8, 9])])
    with pytest.raises(ValueError, match="size mismatch"):
        data.TensorDataset(x, y[:2])
    with pytest.raises(TypeError, match="ndarray"):
        data.TensorDataset(np.ones(3))
    with pytest.raises(ValueError, match="at least one"):
        data.TensorDataset()
    with pytest.raises(ValueError, match="0-d"):
        data.TensorDataset(minitorch.tensor(1.0))


def test_concat_chain_and_sums():
    both = Squares(3) + Squares(2)
    assert [both[i][0] for i in range(-5, 5)] == [0, 1, 2, 0, 1] * 2
    for index in (5, -6):
        with pytest.raises(IndexError, match="out of range"):
            both[index]
    assert list(Stream(2) + Stream(3)) == [0, 1, 0, 1, 2]
    assert len(Stream(2) + Stream(3)) == 5
    assert len(data.ConcatDataset([[], "ab", []])) == 2
    with pytest.raises(ValueError, match="empty"):
        data.ConcatDataset([])
    with pytest.raises(TypeError, match="ChainDataset"):
        data.ConcatDataset([Stream()])
    with pytest.raises(TypeError, match="ConcatDataset"):
        data.ChainDataset([Squares()])


def test_subset_and_stack():
    odd = data.Subset(Squares(), [1, 3, 5])
    assert len(odd) == 3
    assert odd[1] == (3, 9.0)
    assert data.Subset(odd, [2, 0])[0] == (5, 25.0)
    assert odd.__getitems__([2, 0]) == [(5, 25.0), (1, 1.0)]
    assert data.StackDataset(odd, "abc")[2] == ((5, 25.0), "c")
    assert data.StackDataset(a=odd, b="abc").__getitems__([0]) == [{"a": (1, 1.0), "b": "a"}]
    assert data.StackDataset(odd, "abc").__getitems__([2, 1]) == [((5, 25.0), "c"), ((3, 9.0), "b")]
    assert len(data.StackDataset(odd, "abc")) == 3
    for wrong in (lambda: data.StackDataset(odd, "ab"), lambda: data.StackDataset()):
        with pytest.raises(ValueError, match="StackDataset"):
            wrong()
    with pytest.raises(ValueError, match="not both"):
        data.StackDataset(odd, b="abc")


def test_a_subset_of_ones_own_keeps_its_samples():
    class Negative(data.Subset):
        def __getitem__(self, index):
            return -super().__getitem__(index)[0]

    batches = DataLoader(Negative(Squares(), [1, 2, 3]), batch_size=3)
    assert next(iter(batches)).tolist() == [-1, -2, -3]


@pytest.mark.parametrize(
    "lengths", [[6, 3, 1], [10, 0, 0], [0.5, 0.25, 0.25], [0.33, 0.33, 0.34], [1 / 3] * 3, [0.7, 0.3]]
)
@pytest.mark.parametrize("seeded", [True, False])
def test_random_split_equals_pytorchs(lengths, seeded):
    parts = []
    for library, module in ((minitorch, data), (torch, torch.utils.data)):
        library.manual_seed(3)
        generator = {"generator": library.Generator().manual_seed(7)} if seeded else {}
        split = module.random_split(range(10), lengths, **generator)
        parts.append([list(part.indices) for part in split] + [library.rand(1).item()])
    assert parts[0] == parts[1]


def test_random_split_refuses_what_does_not_sum_up():
    for lengths in ([3, 3], [0.5, 0.6], [3.5, 6.5]):
        with pytest.raises(ValueError, match="do not sum"):
            data.random_split(range(10), lengths)
    with pytest.raises(ValueError, match="between 0 and 1"):
        data.random_split(range(10), [1.5, -0.5])
    with pytest.warns(UserWarning, match="index 2 is 0"):
        data.random_split(range(2), [0.4, 0.4, 0.2])


def test_classes_without_their_methods_say_so():
    for make in (
        lambda: data.Dataset()[0],
        lambda: iter(data.IterableDataset()),
        lambda: iter(data.Sampler()),
    ):
        with pytest.raises(NotImplementedError, match="define"):
            make()


# --- samplers -----------------------------------------------------------------------------------

WEIGHTS = [0.1, 0.0, 3.0, 1.5, 0.7, 0.7]
SAMPLERS = {
    "sequential": lambda m, g: m.SequentialSampler(range(7)),
    "random": lambda m, g: m.RandomSampler(range(7), generator=g),
    "random few": lambda m, g: m.RandomSampler(range(7), num_samples=3, generator=g),
    "random many": lambda m, g: m.RandomSampler(range(7), num_samples=23, generator=g),
    "random twice": lambda m, g: m.RandomSampler(range(7), num_samples=14, generator=g),
    "replacement": lambda m, g: m.RandomSampler(range(7), True, generator=g),
    "replacement many": lambda m, g: m.RandomSampler(range(7), True, 77, generator=g),
    "replacement 64": lambda m, g: m.RandomSampler(range(7), True, 64, generator=g),
    "subset": lambda m, g: m.SubsetRandomSampler([3, 1, 8, 9], generator=g),
    "weighted": lambda m, g: m.WeightedRandomSampler(WEIGHTS, 50, generator=g),
    "weighted once": lambda m, g: m.WeightedRandomSampler(WEIGHTS, 1, generator=g),
    "weighted without replacement": lambda m, g: m.WeightedRandomSampler(WEIGHTS, 4, False, generator=g),
    "batches": lambda m, g: m.BatchSampler(m.RandomSampler(range(7), generator=g), 3, False),
    "batches complete": lambda m, g: m.BatchSampler(m.RandomSampler(range(7), generator=g), 3, True),
}


@pytest.mark.parametrize("make", SAMPLERS.values(), ids=SAMPLERS)
@pytest.mark.parametrize("seeded", [True, False])
def test_samplers_draw_what_pytorchs_draw(make, seeded):
    drawn = []
    for library, module in ((minitorch, data), (torch, torch.utils.data)):
        library.manual_seed(11)
        generator = library.Generator().manual_seed(5) if seeded else None
        sampler = make(module, generator)
        # Two epochs: also the state a generator is left in must be the same.
        drawn.append([list(sampler), list(sampler), len(sampler), library.rand(1).item()])
    assert drawn[0] == drawn[1]


def test_multinomial_equals_pytorchs():
    weights = np.array([[0.1, 2.0, 0.0, 1.0, 0.4], [1.0, 1.0, 1.0, 1.0, 1.0]])
    for dtype in (np.float64, np.float32):
        for count, replacement in ((1, True), (1, False), (2, False), (40, True)):
            drawn = []
            for library in (minitorch, torch):
                library.manual_seed(2)
                w = library.tensor(weights.astype(dtype))
                rows = library.multinomial(w, count, replacement).tolist()
                drawn.append((rows, library.multinomial(w[0], count, replacement).tolist()))
            assert drawn[0] == drawn[1]
    for wrong, count, match in [
        ([0.0, 0.0], 1, "sum to 0"),
        ([-1.0, 2.0], 1, "negative"),
        ([float("nan"), 2.0], 1, "nan"),
        ([1.0, 2.0], 3, "without replacement"),
        ([1.0, 2.0], 0, "0 samples"),
        ([1, 2], 1, "floating-point"),
        ([[[1.0]]], 1, "axes"),
    ]:
        with pytest.raises(RuntimeError, match=match):
            minitorch.multinomial(minitorch.tensor(wrong), count)


def test_samplers_refuse_bad_arguments():
    for make in (
        lambda: data.RandomSampler([]),
        lambda: data.RandomSampler("ab", num_samples=0),
        lambda: data.RandomSampler("ab", num_samples=2.5),
        lambda: data.WeightedRandomSampler([1.0], 0),
        lambda: data.WeightedRandomSampler([1.0], True),
        lambda: data.WeightedRandomSampler([1.0], 1, replacement="yes"),
        lambda: data.WeightedRandomSampler([[1.0]], 1),
        lambda: data.BatchSampler([0, 1], 0, False),
        lambda: data.BatchSampler([0, 1], 2.0, False),
        lambda: data.BatchSampler([0, 1], 2, "no"),
    ):
        with pytest.raises(ValueError, match=r"should be|shape"):
            make()
    with pytest.raises(TypeError, match="replacement"):
        data.RandomSampler("ab", replacement=1)


# --- collate --------------------------------------------------------------------------------------

Point = collections.namedtuple("Point", "x y")


def numbers(library):
    tensor = library.tensor
    return {
        "ints": [1, 2],
        "floats": [1.5, 2.0],
        "bools": [True, False],
        "strings": ["a", "b"],
        "bytes": [b"a", b"b"],
        "tensors": [tensor([1.0, 2.0]), tensor([3.0, 4.0])],
        "int tensors": [tensor(1), tensor(2)],
        "arrays": [np.arange(3.0), np.arange(3.0) + 1],
        "float32 arrays": [np.ones((2, 1), np.float32), np.zeros((2, 1), np.float32)],
        "0-d arrays": [np.array(1.5), np.array(2.5)],
        "scalars": [np.float32(1.5), np.float32(2.5)],
        "int scalars": [np.int16(1), np.int16(2)],
        "tuples": [(1, "a", tensor([1.0])), (2, "b", tensor([2.0]))],
        "lists": [[1, 2.0], [3, 4.0]],
        "dicts": [{"x": 1, "y": "a"}, {"x": 2, "y": "b"}],
        "ordered": [collections.OrderedDict(x=1.0), collections.OrderedDict(x=2.0)],
        "named": [Point(1, (2.0, "a")), Point(3, (4.0, "b"))],
        "nested": [{"x": [(1, {"y": np.ones(2)})]}, {"x": [(2, {"y": np.zeros(2)})]}],
        "range": [range(2), range(2)],
        "empty tuples": [(), ()],
    }


@pytest.mark.parametrize("case", numbers(torch))
def test_default_collate_equals_pytorchs(case):
    ours = data.default_collate(numbers(minitorch)[case])
    theirs = torch.utils.data.default_collate(numbers(torch)[case])
    assert type(ours).__name__ == type(theirs).__name__
    assert plain(ours) == plain(theirs)


@pytest.mark.parametrize("case", numbers(torch))
def test_default_convert_equals_pytorchs(case):
    for ours, theirs in zip(numbers(minitorch)[case], numbers(torch)[case], strict=True):
        mine, other = data.default_convert(ours), torch.utils.data.default_convert(theirs)
        assert type(mine).__name__ == type(other).__name__
        assert plain(mine) == plain(other)


def test_what_cannot_be_collated():
    for wrong, error, match in [
        ([object(), object()], TypeError, "object"),
        ([None, None], TypeError, "NoneType"),
        ([{1, 2}], TypeError, "set"),
        ([np.array(["a"]), np.array(["b"])], TypeError, "<U1"),
        ([[1, 2], [3]], RuntimeError, "equal size"),
        ([minitorch.zeros(2), minitorch.zeros(3)], RuntimeError, "equal size"),
        ([np.zeros(2), np.zeros(3)], RuntimeError, "equal size"),
        ([{"a": 1}, {"b": 1}], KeyError, "differ"),
    ]:
        with pytest.raises(error, match=match):
            data.default_collate(wrong)


def test_default_convert_leaves_arrays_of_text():
    words = np.array(["a", "b"])
    assert data.default_convert(words) is words


# --- DataLoader: the same batches as PyTorch's ------------------------------------------------------


OPTIONS = {
    "plain": {},
    "batches": {"batch_size": 4},
    "complete": {"batch_size": 4, "drop_last": True},
    "whole": {"batch_size": 50},
    "none": {"batch_size": None},
    "shuffled": {"batch_size": 3, "shuffle": True},
    "shuffled complete": {"batch_size": 3, "shuffle": True, "drop_last": True},
    "shuffled samples": {"batch_size": None, "shuffle": True},
    "sampler": {"batch_size": 3, "sampler": [4, 1, 1, 7, 9]},
    "batch sampler": {"batch_sampler": [[1, 2], [5], [0, 9, 3]]},
    "collate": {"batch_size": 4, "collate_fn": len},
}


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
@pytest.mark.parametrize("seeded", [True, False])
def test_batches_equal_pytorchs(options, seeded):
    class TorchSquares(torch.utils.data.Dataset):
        __len__ = Squares.__len__
        __init__ = Squares.__init__
        __getitem__ = Squares.__getitem__

    seen = []
    for library, module, squares in ((minitorch, data, Squares), (torch, torch.utils.data, TorchSquares)):
        library.manual_seed(21)
        generator = library.Generator().manual_seed(4) if seeded else None
        loader = module.DataLoader(squares(), generator=generator, **options)
        epochs = [[plain(batch) for batch in loader] for _ in range(3)]
        # … and the random numbers after it too.
        seen.append((epochs, len(loader), library.rand(1).item()))
    assert seen[0] == seen[1]


@every_mode
@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_workers_change_nothing(options, mode):
    minitorch.manual_seed(21)
    loader = DataLoader(Squares(), **options)
    expected = [[plain(batch) for batch in loader] for _ in range(2)]
    minitorch.manual_seed(21)
    loader = DataLoader(Squares(), num_workers=3, **options, **mode)
    assert [[plain(batch) for batch in loader] for _ in range(2)] == expected
    assert len(loader) == len(expected[0])


@pytest.mark.parametrize(
    "wrap", [lambda d: d, lambda d: data.Subset(data.Subset(d, range(1, 20)), [3, 1, 8, 5, 2])]
)
def test_rows_taken_at_once_are_rows_stacked(wrap):
    minitorch.manual_seed(0)
    x = minitorch.randn(20, 3)
    whole = wrap(data.TensorDataset(x, minitorch.arange(20), x > 0))
    one_by_one = data.StackDataset(whole)  # not a TensorDataset, so samples are stacked
    for options in ({"batch_size": 4}, {"batch_size": 4, "shuffle": True}):
        minitorch.manual_seed(1)
        fast = [plain(batch) for batch in DataLoader(whole, **options)]
        minitorch.manual_seed(1)
        assert fast == [plain(batch[0]) for batch in DataLoader(one_by_one, **options)]


def test_training_data_that_requires_grad_stays_in_the_graph():
    x = minitorch.ones(4, 2, requires_grad=True)
    for (batch,) in DataLoader(data.TensorDataset(x), batch_size=2):
        (batch * 3).sum().backward()
    np.testing.assert_array_equal(x.grad, np.full((4, 2), 3.0))


@every_mode
def test_iterable_datasets(mode):
    assert [b.tolist() for b in DataLoader(Stream(7), batch_size=3)] == [[0, 1, 2], [3, 4, 5], [6]]
    assert [b.tolist() for b in DataLoader(Stream(7), batch_size=3, drop_last=True)] == [[0, 1, 2], [3, 4, 5]]
    assert list(DataLoader(Stream(3), batch_size=None)) == [0, 1, 2]
    two = DataLoader(Stream(7), batch_size=3, num_workers=2, **mode)
    for _ in range(2):
        assert [b.tolist() for b in two] == [[0, 2, 4], [1, 3, 5], [6]]
    three = DataLoader(Stream(4), batch_size=None, num_workers=3, persistent_workers=True, **mode)
    for _ in range(3):
        assert list(three) == [0, 1, 2, 3]
    assert len(DataLoader(Stream(7), batch_size=3)) == 3
    assert len(DataLoader(Stream(7), batch_size=3, drop_last=True)) == 2
    assert len(DataLoader(Stream(7), batch_size=None)) == 7


def test_iterable_batches_equal_pytorchs():
    class TorchStream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(range(11))

    for options in ({"batch_size": 4}, {"batch_size": 4, "drop_last": True}, {"batch_size": None}):
        seen = []
        for library, module, stream in (
            (minitorch, data, Stream(11)),
            (torch, torch.utils.data, TorchStream()),
        ):
            library.manual_seed(0)
            seen.append(([plain(b) for b in module.DataLoader(stream, **options)], library.rand(1).item()))
        assert seen[0] == seen[1]


# --- DataLoader: workers ----------------------------------------------------------------------------


def test_threads_and_processes_are_what_they_say():
    threads = list(DataLoader(Where(), batch_size=None, num_workers=2))
    assert {pid for pid, *_ in threads} == {os.getpid()}
    assert len({thread for _, thread, *_ in threads}) == 2
    assert [worker for _, _, worker, *_ in threads] == [0, 1] * 4
    assert {count for _, _, _, count, _ in threads} == {2}
    processes = list(DataLoader(Where(), batch_size=None, num_workers=2, multiprocessing_context="fork"))
    assert len({pid for pid, *_ in processes} - {os.getpid()}) == 2
    assert [worker for _, _, worker, *_ in processes] == [0, 1] * 4
    assert data.get_worker_info() is None


@pytest.mark.slow
def test_another_start_method():
    loader = DataLoader(
        Squares(5), batch_size=2, num_workers=1, multiprocessing_context=multiprocessing.get_context("spawn")
    )
    assert [plain(batch) for batch in loader] == [plain(batch) for batch in DataLoader(Squares(5), 2)]


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")  # PyTorch, on few cores
def test_random_numbers_in_workers_are_reproducible_and_pytorchs():
    def epochs(**options):
        minitorch.manual_seed(5)
        loader = DataLoader(Noise(), batch_size=2, num_workers=3, **options)
        return [[b.tolist() for b in loader] for _ in range(2)]

    threads = epochs()
    assert threads == epochs() == epochs(multiprocessing_context="fork")
    assert threads[0] != threads[1]
    assert len({str(batch) for batch in threads[0]}) == 6

    class TorchNoise(torch.utils.data.Dataset):
        __len__ = Noise.__len__

        def __getitem__(self, index):
            return torch.rand(2)

    torch.manual_seed(5)
    loader = torch.utils.data.DataLoader(TorchNoise(), 2, num_workers=3, multiprocessing_context="fork")
    assert threads == [[b.tolist() for b in loader] for _ in range(2)]


def test_a_thread_with_its_own_stream_leaves_the_common_one_alone():
    minitorch.manual_seed(0)
    expected = minitorch.rand(4).tolist()
    drawn = {}

    def draw(seed):
        minitorch.random.use_own_stream(seed)
        state = minitorch.get_rng_state()
        drawn[seed] = minitorch.randn(3).tolist()
        minitorch.set_rng_state(state)
        assert minitorch.randn(3).tolist() == drawn[seed]
        assert minitorch.initial_seed() == seed

    minitorch.manual_seed(0)
    first = minitorch.rand(2).tolist()
    threads = [threading.Thread(target=draw, args=(seed,)) for seed in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert first + minitorch.rand(2).tolist() == expected
    for seed, values in drawn.items():
        minitorch.manual_seed(seed)
        assert minitorch.randn(3).tolist() == values


@every_mode
def test_persistent_workers(mode):
    loader = DataLoader(
        Where(), batch_size=None, num_workers=2, persistent_workers=True, prefetch_factor=3, **mode
    )
    epochs = [[(pid, thread) for pid, thread, *_ in loader] for _ in range(3)]
    assert epochs[0] == epochs[1] == epochs[2]
    for _ in loader:
        break
    assert [(pid, thread) for pid, thread, *_ in loader] == epochs[0]
    assert len(workers_now()) == (2 if not mode else 4)
    del loader


@every_mode
def test_worker_init_fn(mode):
    class Offset(Squares):
        offset = 0

        def __getitem__(self, index):
            return data.get_worker_info().dataset.offset

    dataset = Offset()

    def init(worker):
        minitorch.rand(1)
        data.get_worker_info().dataset.offset = 7

    assert list(DataLoader(dataset, None, num_workers=2, worker_init_fn=init, **mode)) == [7] * 10

    def broken(worker):
        raise ValueError("no such file")

    with pytest.raises(ValueError, match="no such file"):
        next(iter(DataLoader(dataset, None, num_workers=2, worker_init_fn=broken, **mode)))


@every_mode
def test_exceptions_in_workers_come_with_their_traceback(mode):
    loader = DataLoader(Fails(), batch_size=2, num_workers=2, **mode)
    iterator = iter(loader)
    assert next(iterator).tolist() == [0, 1]
    assert next(iterator).tolist() == [2, 3]
    with pytest.raises(CustomError, match="fifth sample") as caught:
        next(iterator)
    assert caught.value.code == 42
    text = "".join(traceback.format_exception(caught.value))
    assert "in __getitem__" in text
    assert 'raise CustomError("the fifth sample is broken", 42)' in text
    assert "DataLoader worker" in text
    assert next(iterator).tolist() == [6, 7]  # the others are not lost
    with pytest.raises(StopIteration):
        next(iterator)
    del caught


@every_mode
def test_exceptions_that_cannot_be_pickled(mode):
    error = RuntimeError if mode else Unpicklable
    with pytest.raises(error, match="cannot travel") as caught:
        next(iter(DataLoader(FailsOddly(), num_workers=1, **mode)))
    assert "in __getitem__" in "".join(traceback.format_exception(caught.value))
    del caught


def test_batches_that_cannot_be_pickled():
    class Locks(Squares):
        def __getitem__(self, index):
            return threading.Lock()

    loader = DataLoader(Locks(), batch_size=None, num_workers=1, multiprocessing_context="fork")
    with pytest.raises(TypeError, match="pickle"):
        next(iter(loader))
    assert type(next(iter(DataLoader(Locks(), batch_size=None, num_workers=1)))).__name__ == "lock"


def test_datasets_that_cannot_be_pickled_get_a_hint():
    class Local(Squares):
        pass

    loader = DataLoader(Local(), num_workers=1, multiprocessing_context="spawn")
    with pytest.raises((AttributeError, pickle.PicklingError)) as caught:
        iter(loader)
    assert "use threads" in "".join(caught.value.__notes__)
    del caught


@pytest.mark.parametrize("options", [{"num_workers": 0}, {"num_workers": 1}])
def test_a_dataset_that_raises_stop_iteration_does_not_end_the_loop_silently(options):
    class Stops(Squares):
        def __getitem__(self, index):
            return next(iter([]))

    with pytest.raises(RuntimeError, match="StopIteration"):
        list(DataLoader(Stops(), **options))


def test_a_worker_that_is_killed_is_noticed():
    loader = DataLoader(Dies(), batch_size=2, num_workers=2, multiprocessing_context="fork")
    with pytest.raises(RuntimeError, match=r"exited unexpectedly, with exit code -9"):
        list(loader)


@pytest.mark.slow
@every_mode
def test_timeout(mode, monkeypatch):
    monkeypatch.setattr("minitorch.utils.data.worker.PATIENCE", 0.2)
    iterator = iter(DataLoader(Slow(), batch_size=2, num_workers=1, timeout=60, **mode))
    assert next(iterator).tolist() == [0, 1]
    assert iterator._timeout == 60
    iterator._timeout = 0.2  # short only now: on a busy machine even the first batch takes its time
    with pytest.raises(RuntimeError, match=r"timed out after 0\.2 seconds"):
        next(iterator)
    del iterator
    gc.collect()
    for worker in workers_now():  # a thread cannot be ended; it goes when its sample is made
        worker.join(10)


@every_mode
@pytest.mark.parametrize("leave", ["break", "exception", "del", "next"])
def test_clean_shutdown(mode, leave):
    loader = DataLoader(Squares(1000), batch_size=2, num_workers=2, **mode)
    if leave == "break":
        for _ in loader:
            assert len(workers_now()) >= 2
            break
    elif leave == "exception":
        try:
            for _ in loader:
                raise ZeroDivisionError
        except ZeroDivisionError:
            pass
    elif leave == "next":
        next(iter(loader))
    else:
        iterator = iter(loader)
        next(iterator)
        del iterator
    assert workers_now() == []


def test_shutdown_from_a_cycle_found_by_the_collector():
    loader = DataLoader(Squares(100), batch_size=2, num_workers=2)
    iterator = iter(loader)
    cycle = [iterator]
    cycle.append(cycle)
    next(iterator)
    del iterator, cycle
    gc.collect()
    assert workers_now() == []


SCRIPT = """
    import sys, time
    from minitorch.utils.data import DataLoader, Dataset

    class Numbers(Dataset):
        def __len__(self):
            return 10_000
        def __getitem__(self, index):
            return index

    if __name__ == "__main__":
        mode = {{}} if {mode!r} == "threads" else {{"multiprocessing_context": {mode!r}}}
        loader = DataLoader(Numbers(), batch_size=2, num_workers=2, persistent_workers={persistent}, **mode)
        iterator = iter(loader)
        next(iterator)
        workers = [worker.process.pid for worker in iterator._crew.workers if worker.process]
        print(*workers, flush=True)
        {then}
"""


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["threads", "fork"])
@pytest.mark.parametrize("persistent", [True, False])
@pytest.mark.parametrize("then", ["pass", "sys.exit(0)", "raise ValueError('by design')"])
def test_the_program_ends_cleanly_in_the_middle_of_an_epoch(tmp_path, mode, persistent, then):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT.format(mode=mode, persistent=persistent, then=then)))
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60, check=False)
    if "raise" in then:
        assert done.returncode == 1
        assert done.stderr.rstrip().endswith("ValueError: by design")
        assert done.stderr.count("Traceback") == 1
    else:
        assert (done.returncode, done.stderr) == (0, "")
    assert not any(alive(int(pid)) for pid in done.stdout.split())


@pytest.mark.slow
def test_workers_end_when_the_program_is_killed(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT.format(mode="fork", persistent=False, then="time.sleep(60)")))
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, text=True)
    workers = [int(pid) for pid in process.stdout.readline().split()]
    assert len(workers) == 2
    assert all(alive(pid) for pid in workers)
    process.kill()
    process.wait()
    process.stdout.close()
    for _ in range(100):
        if not any(alive(pid) for pid in workers):
            return
        time.sleep(0.1)
    raise AssertionError("the workers outlived their parent")


def test_interrupting_the_program(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT.format(mode="fork", persistent=False, then="time.sleep(60)")))
    process = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    workers = [int(pid) for pid in process.stdout.readline().split()]
    time.sleep(0.5)  # a worker that is still being forked would say so on its way out
    os.killpg(process.pid, signal.SIGINT)  # as Ctrl-C in a terminal does: all processes at once
    _, text = process.communicate(timeout=30)
    assert text.rstrip().endswith("KeyboardInterrupt")
    assert text.count("Traceback") == 1  # the workers say nothing
    assert not any(alive(pid) for pid in workers)


def alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0] != "Z"


def test_large_tasks_and_batches_do_not_block():
    big = data.TensorDataset(minitorch.zeros(200_000, 4))
    loader = DataLoader(
        big,
        batch_size=100_000,
        shuffle=True,
        num_workers=1,
        prefetch_factor=2,
        multiprocessing_context="fork",
    )
    assert [batch[0].shape for batch in loader] == [(100_000, 4), (100_000, 4)]


def test_only_as_much_is_fetched_ahead_as_asked_for():
    made = []

    class Counts(Squares):
        def __getitem__(self, index):
            made.append(index)
            return index

    iterator = iter(DataLoader(Counts(100), batch_size=1, num_workers=2, prefetch_factor=3))
    next(iterator)
    for _ in range(500):
        if len(made) == 7:
            break
        time.sleep(0.01)
    time.sleep(0.05)
    assert sorted(made) == list(range(7))
    del iterator


# --- DataLoader: arguments --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"num_workers": -1}, ValueError),
        ({"num_workers": 1.5}, ValueError),
        ({"timeout": -1}, ValueError),
        ({"prefetch_factor": 2}, ValueError),
        ({"prefetch_factor": -2, "num_workers": 1}, ValueError),
        ({"persistent_workers": True}, ValueError),
        ({"multiprocessing_context": "fork"}, ValueError),
        ({"multiprocessing_context": "threads", "num_workers": 1}, ValueError),
        ({"multiprocessing_context": 3, "num_workers": 1}, TypeError),
        ({"sampler": [0, 1], "shuffle": True}, ValueError),
        ({"batch_sampler": [[0]], "shuffle": True}, ValueError),
        ({"batch_sampler": [[0]], "batch_size": 2}, ValueError),
        ({"batch_sampler": [[0]], "drop_last": True}, ValueError),
        ({"batch_sampler": [[0]], "sampler": [0]}, ValueError),
        ({"batch_size": None, "drop_last": True}, ValueError),
        ({"batch_size": 0}, ValueError),
        ({"batch_size": 2.5}, ValueError),
        ({"shuffle": "yes"}, ValueError),
    ],
)
def test_bad_arguments(options, error):
    with pytest.raises(error, match=r"should|exclusive|needs|must"):
        DataLoader(Squares(), **options)


@pytest.mark.parametrize("options", [{"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}])
def test_an_iterable_dataset_has_its_own_order(options):
    with pytest.raises(ValueError, match="its own order"):
        DataLoader(Stream(), **options)


def test_what_is_no_dataset():
    with pytest.raises(TypeError, match="IterableDataset"):
        DataLoader(iter([1, 2]))
    with pytest.raises(ValueError, match="empty"):
        DataLoader([], shuffle=True)
    assert list(DataLoader([])) == []
    assert [batch.tolist() for batch in DataLoader([3, 1, 2], batch_size=2)] == [[3, 1], [2]]


def test_what_is_fixed_at_the_start():
    loader = DataLoader(Squares(), batch_size=2)
    for name in ("batch_size", "sampler", "drop_last", "dataset"):
        with pytest.raises(ValueError, match="after DataLoader is initialized"):
            setattr(loader, name, None)


def test_loaders_can_be_pickled_and_nested_loops_are_independent():
    loader = pickle.loads(pickle.dumps(DataLoader(Squares(3), batch_size=2)))
    pairs = [(a[0].tolist(), b[0].tolist()) for a in loader for b in loader]
    assert pairs == [([0, 1], [0, 1]), ([0, 1], [2]), ([2], [0, 1]), ([2], [2])]
    assert len(iter(loader)) == 2


def test_the_length_is_that_of_pytorchs():
    for n in (0, 1, 9, 10):
        for size in (1, 3, 10, 11):
            for drop_last in (True, False):
                expected = n // size if drop_last else math.ceil(n / size)
                assert len(DataLoader(range(n), size, drop_last=drop_last)) == expected
