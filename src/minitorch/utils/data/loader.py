"""DataLoader: batches of a data set, in order or shuffled, fetched ahead by workers if asked for.

Enters: a data set. Leaves: batches, the same ones in the same order for the same seed.
"""

from __future__ import annotations

import itertools
import multiprocessing
import queue
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from minitorch.random import Generator
from minitorch.tensor.devices import has_gpu
from minitorch.utils.data.collate import default_collate, default_convert, pinned
from minitorch.utils.data.dataset import IterableDataset
from minitorch.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler, random_seed
from minitorch.utils.data.worker import Crew, End, Failure, Fetcher, Job, Reset, Worker, shut_down


class _BaseDataLoaderIter:
    """PyTorch's class of a loader's iterators, which programs ask for; here an iterator is a generator."""


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """Likewise."""


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Likewise."""


class DataLoader:
    """Iterates over a data set in batches.

    batch_size: samples per batch; None gives the samples as they are.
    shuffle: visit them in a new random order each epoch; the same order as PyTorch for the same seed.
    sampler, batch_sampler: an order of your own, of indices or of lists of indices.
    drop_last: leave an incomplete last batch out.
    collate_fn: makes a batch of a list of samples; default_collate stacks them.
    num_workers: how many workers fetch ahead, `prefetch_factor` batches each (2 by default).
    multiprocessing_context: None, and the workers are threads; "fork", "spawn", "forkserver" or a
        context of the multiprocessing module, and they are processes. Threads start at once and
        copy nothing, and NumPy and files let them run side by side; processes are for data sets that
        spend their time in Python itself.
    worker_init_fn: called with its number in each worker at its start.
    generator: where the order is drawn from, and the workers' seeds; the default one if None.
    timeout: raise an error if a batch takes longer, in seconds; 0 waits forever.
    persistent_workers: keep the workers from one epoch to the next.
    pin_memory: put batches into pinned memory, from which x.to("cuda", non_blocking=True) does not wait; without a GPU
        they stay where they are.
    pin_memory_device, in_order: accepted for PyTorch's sake; batches are always in order.

    Each worker draws random numbers from a stream of its own, seeded anew each epoch, so that
    what minitorch's random functions give inside a data set does not depend on which thread is faster.

    >>> x, y = minitorch.arange(5.0), minitorch.arange(5)
    >>> loader = DataLoader(minitorch.utils.data.TensorDataset(x, y), batch_size=2)
    >>> for inputs, labels in loader:
    ...     print(inputs, labels)
    tensor([0., 1.]) tensor([0, 1])
    tensor([2., 3.]) tensor([2, 3])
    tensor([4.]) tensor([4])
    """

    _made = False

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        self.dataset = dataset
        self._iterable = isinstance(dataset, IterableDataset)
        self._check_workers(
            num_workers, timeout, prefetch_factor, persistent_workers, multiprocessing_context
        )
        self._check_order(batch_size, shuffle, sampler, batch_sampler, drop_last)
        self.num_workers = num_workers
        self.prefetch_factor = 2 if num_workers and prefetch_factor is None else prefetch_factor
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = (
            multiprocessing.get_context(multiprocessing_context)
            if isinstance(multiprocessing_context, str)
            else multiprocessing_context
        )
        self.generator = generator
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.shuffle = bool(shuffle)
        if sampler is None:
            if self._iterable:
                sampler = _Forever()
            elif shuffle:
                sampler = RandomSampler(dataset, generator=generator)
            else:
                sampler = SequentialSampler(dataset)
        self.sampler = sampler
        if batch_sampler is not None:
            batch_size, drop_last = None, False
        elif batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.batch_size = batch_size
        self.batch_sampler = batch_sampler
        self.drop_last = drop_last
        if collate_fn is None:
            collate_fn = default_convert if batch_sampler is None else default_collate
        self.collate_fn = collate_fn
        self._iterator: _ByWorkers | None = None
        self._made = True

    def _check_workers(
        self, num_workers: int, timeout: float, prefetch_factor: int | None, persistent: bool, context: Any
    ) -> None:
        if not isinstance(num_workers, int) or num_workers < 0:
            raise ValueError(f"DataLoader: num_workers should be a whole number ≥ 0, got {num_workers!r}")
        if timeout < 0:
            raise ValueError(f"DataLoader: timeout should be ≥ 0 seconds, got {timeout}")
        if num_workers == 0:
            for option, value in (
                ("prefetch_factor", prefetch_factor),
                ("persistent_workers", persistent),
                ("multiprocessing_context", context),
            ):
                if value:
                    raise ValueError(f"DataLoader: {option} needs num_workers > 0")
        elif prefetch_factor is not None and prefetch_factor < 1:
            raise ValueError(f"DataLoader: prefetch_factor should be at least 1, got {prefetch_factor}")
        if isinstance(context, str):
            if context not in multiprocessing.get_all_start_methods():
                raise ValueError(
                    f"DataLoader: multiprocessing_context should be one of {multiprocessing.get_all_start_methods()}, "
                    f"or None for threads; got {context!r}"
                )
        elif context is not None and not isinstance(context, multiprocessing.context.BaseContext):
            raise TypeError(
                "DataLoader: multiprocessing_context should be a name or a multiprocessing context, got "
                f"{type(context).__name__}"
            )

    def _check_order(
        self, batch_size: int | None, shuffle: bool | None, sampler: Any, batch_sampler: Any, drop_last: bool
    ) -> None:
        if shuffle not in (None, True, False):
            raise ValueError(f"DataLoader: shuffle should be a boolean, got {shuffle!r}")
        if self._iterable:
            for option, value in (
                ("shuffle", shuffle),
                ("sampler", sampler),
                ("batch_sampler", batch_sampler),
            ):
                if value:
                    raise ValueError(f"DataLoader: an IterableDataset has its own order: leave {option} out")
        elif not hasattr(self.dataset, "__getitem__"):
            raise TypeError(
                f"DataLoader: {type(self.dataset).__name__} has no __getitem__; data that is only iterated over "
                "must be an IterableDataset"
            )
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: sampler option is mutually exclusive with shuffle")
        if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
            raise ValueError(
                "DataLoader: batch_sampler option is mutually exclusive with batch_size, shuffle, sampler and drop_last"
            )
        if batch_size is None and drop_last:
            raise ValueError("DataLoader: batch_size=None makes no batches, so drop_last must be False")

    def __setattr__(self, name: str, value: Any) -> None:
        if self._made and name in (
            "batch_size",
            "batch_sampler",
            "sampler",
            "drop_last",
            "dataset",
            "persistent_workers",
        ):
            raise ValueError(
                f"DataLoader: {name} should not be set after DataLoader is initialized; make a new one"
            )
        super().__setattr__(name, value)

    @property
    def _index_sampler(self) -> Iterable[Any]:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __iter__(self) -> Iterator[Any]:
        if self.num_workers == 0:
            return _Directly(self)
        if not self.persistent_workers:
            return _ByWorkers(self)
        if self._iterator is None:
            self._iterator = _ByWorkers(self)
        else:
            self._iterator.begin_epoch(self)
        return self._iterator

    def __len__(self) -> int:
        if not self._iterable:
            return len(self._index_sampler)  # type: ignore[arg-type]
        length = len(self.dataset)
        if self.batch_size is None:
            return length
        return length // self.batch_size if self.drop_last else -(-length // self.batch_size)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_iterator": None}


class _Forever:
    """The indices of an iterable data set, which has none."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class _Directly:
    """An epoch without workers: each batch is fetched when it is wanted."""

    def __init__(self, loader: DataLoader) -> None:
        # Nobody here needs a seed. It is drawn all the same: so is PyTorch's, and the order comes after.
        random_seed(loader.generator)
        self._length = lambda: len(loader)
        self._fetch = Fetcher(
            loader.dataset, loader.collate_fn, loader.batch_sampler is not None, loader.drop_last
        )
        self._indices = iter(loader._index_sampler)
        self._pins = loader.pin_memory and has_gpu()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        batch = self._fetch(next(self._indices))
        if isinstance(batch, End):
            raise StopIteration
        return pinned(batch) if self._pins else batch

    def __len__(self) -> int:
        return self._length()


class _ByWorkers:
    """Epochs fetched by workers, which take turns: batch after batch comes from worker after worker.

    Each worker answers its tasks in order, so whose turn it was is all that needs to be remembered for the
    batches to come out in order.
    """

    def __init__(self, loader: DataLoader) -> None:
        job = Job(
            dataset=loader.dataset,
            collate_fn=loader.collate_fn,
            batched=loader.batch_sampler is not None,
            drop_last=loader.drop_last,
            num_workers=loader.num_workers,
            base_seed=random_seed(loader.generator),
            worker_init_fn=loader.worker_init_fn,
        )
        self._crew = Crew(job, loader.multiprocessing_context)
        # At the end of the loop, at a break or an exception in it, when the iterator is forgotten, and at
        # the end of the program: the workers go when the iterator does. They hold no reference to it.
        self._end = weakref.finalize(self, shut_down, self._crew)
        self._waiting: deque[Worker] = deque()
        self._timeout = loader.timeout or None
        self._persistent = loader.persistent_workers
        self._pins = loader.pin_memory and has_gpu()
        self._ahead = (loader.prefetch_factor or 2) * loader.num_workers
        self._begin(loader)

    def begin_epoch(self, loader: DataLoader) -> None:
        """Begin another epoch with the same workers."""
        for worker in self._waiting:  # of an epoch that was left before its end
            worker.answers.get()
        self._waiting.clear()
        for worker in self._crew.workers:
            worker.tasks.put((Reset(),))
        for worker in self._crew.workers:
            worker.answers.get()
        self._begin(loader)

    def _begin(self, loader: DataLoader) -> None:
        self._length = lambda: len(loader)
        self._indices = iter(loader._index_sampler)
        self._turn = deque(self._crew.workers)
        for _ in range(self._ahead):
            self._hand_out()

    def _hand_out(self) -> None:
        """Give the next task to the worker whose turn it is."""
        if not self._turn:
            return
        try:
            task = next(self._indices)
        except StopIteration:
            return
        worker = self._turn[0]
        self._turn.rotate(-1)
        worker.tasks.put((task,))
        self._waiting.append(worker)

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        while self._waiting:
            worker = self._waiting[0]
            try:
                answer = worker.answers.get(timeout=self._timeout)
            except queue.Empty:
                raise RuntimeError(
                    f"DataLoader timed out after {self._timeout} seconds, waiting for {worker.thread.name}"
                ) from None
            self._waiting.popleft()
            if isinstance(answer, End):
                if worker in self._turn:
                    self._turn.remove(worker)
                self._hand_out()
                continue
            self._hand_out()
            if isinstance(answer, Failure):
                answer.raise_again()
            return pinned(answer) if self._pins else answer
        if not self._persistent:
            self._end()
        raise StopIteration

    def __len__(self) -> int:
        return self._length()
