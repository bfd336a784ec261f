"""Workers: threads, or processes, that fetch batches ahead of the loop that uses them.

Enters: tasks, each the indices of one batch. Leaves: for each task one answer, in the worker's order.

Every worker is a thread with a queue of tasks and a queue of answers. In thread mode it fetches the
batch itself. In process mode it asks a process of its own, over a pipe, and waits: while it waits
others run, one question at a time can never fill a pipe from both ends, and a process that dies is
noticed by the thread that waits for it.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import queue
import random
import signal
import threading
import traceback
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import numpy as np

from minitorch.random import manual_seed, use_own_stream
from minitorch.utils.data.collate import default_collate
from minitorch.utils.data.dataset import IterableDataset, rows, samples

# How long a worker may take to finish what it is doing, once nobody wants it any more.
PATIENCE = 5.0


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker knows of itself: its number, how many there are, its seed, and its data set."""

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: ContextVar[WorkerInfo | None] = ContextVar("minitorch_worker_info", default=None)


def get_worker_info() -> WorkerInfo | None:
    """Return the worker this runs in, to give each worker its share; None outside of workers.

    >>> class Numbers(minitorch.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         worker = get_worker_info()
    ...         return iter(range(worker.id, 6, worker.num_workers))
    >>> [batch.tolist() for batch in minitorch.utils.data.DataLoader(Numbers(), batch_size=3, num_workers=2)]
    [[0, 2, 4], [1, 3, 5]]
    """
    return _info.get()


class End:
    """The answer of a worker whose IterableDataset has nothing more to give."""


class Reset:
    """The task to begin a new epoch."""


@dataclass
class Failure:
    """The answer of a worker that could not fetch a batch."""

    error: BaseException

    def raise_again(self) -> None:
        """Raise the worker's exception where the batch was wanted."""
        try:
            raise self.error
        finally:
            del self.error  # or the traceback would hold this frame, and this frame the traceback


class Fetcher:
    """Turns a task into a batch: indices of a data set, or the next samples of an iterable one."""

    def __init__(
        self, dataset: Any, collate_fn: Callable[[Any], Any], batched: bool, drop_last: bool
    ) -> None:
        self._dataset = dataset
        self._collate = collate_fn
        self._batched = batched
        self._drop_last = drop_last
        self._iterator: Any = None

    def reset(self) -> None:
        """Begin a new epoch."""
        self._iterator = None

    def __call__(self, task: Any) -> Any:
        """Return the batch, or End."""
        if isinstance(self._dataset, IterableDataset):
            return self._next(task)
        try:
            if not self._batched:
                return self._collate(self._dataset[task])
            if self._collate is default_collate and (batch := rows(self._dataset, task)) is not None:
                return batch
            return self._collate(samples(self._dataset, task))
        except StopIteration as error:
            # It would end the caller's loop, and nobody would know that batches are missing.
            raise RuntimeError(
                f"DataLoader: {type(self._dataset).__name__} raised StopIteration at {task}"
            ) from error

    def _next(self, task: Any) -> Any:
        if self._iterator is None:
            self._iterator = iter(self._dataset)
        found = list(itertools.islice(self._iterator, len(task) if self._batched else 1))
        if found and not self._batched:
            return self._collate(found[0])
        if not found or (self._drop_last and len(found) < len(task)):
            return End()
        return self._collate(found)


@dataclass
class Job:
    """Everything a worker is told at its start; processes receive it pickled, unless they are forked."""

    dataset: Any
    collate_fn: Callable[[Any], Any]
    batched: bool
    drop_last: bool
    num_workers: int
    base_seed: int
    worker_init_fn: Callable[[int], None] | None

    def begin(self, worker_id: int, process: bool) -> Callable[[Any], Any]:
        """Set a worker up, and return what answers its tasks."""
        seed = self.base_seed + worker_id
        if process:
            manual_seed(seed % 2**64)
            random.seed(seed)
            # Not that anyone should still use it, but who does must not draw the same in every worker.
            np.random.seed(np.random.SeedSequence(seed).generate_state(4))  # noqa: NPY002
        else:
            use_own_stream(seed % 2**64)
        _info.set(WorkerInfo(worker_id, self.num_workers, seed, self.dataset))
        place = f"DataLoader worker {'process' if process else 'thread'} {worker_id}"
        fetch = Fetcher(self.dataset, self.collate_fn, self.batched, self.drop_last)
        unfit: list[BaseException] = []
        if self.worker_init_fn is not None:
            try:
                self.worker_init_fn(worker_id)
            except BaseException as error:
                unfit += [RuntimeError(f"{place}: worker_init_fn failed"), error]

        def answer(task: Any) -> Any:
            try:
                if unfit:
                    # The error itself is handed out once and let go: its traceback will hold the caller's
                    # frames, and with them the iterator, which must not live as long as this worker.
                    raise unfit.pop() if len(unfit) > 1 else RuntimeError(*unfit[0].args)
                if isinstance(task, Reset):
                    return fetch.reset()
                return fetch(task)
            except BaseException as error:
                return Failure(_portable(error, place) if process else _noted(error, f"Raised in {place}."))

        return answer


def _noted(error: BaseException, note: str) -> BaseException:
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)
    return error


def _portable(error: BaseException, place: str) -> BaseException:
    """Return an exception that can be pickled, with its traceback, which cannot, as a note."""
    text = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    return _noted(error, f"Raised in {place}. Original traceback:\n{text}")


@dataclass
class Worker:
    """A worker's two queues, its thread, and in process mode its process."""

    tasks: queue.SimpleQueue[Any]
    answers: queue.SimpleQueue[Any]
    thread: threading.Thread
    process: Any = None


class Crew:
    """The workers of one DataLoader iterator."""

    def __init__(self, job: Job, context: Any) -> None:
        self.owner = os.getpid()
        self.stopped = threading.Event()
        self.workers: list[Worker] = []
        remote: list[Any] = [None] * job.num_workers
        try:
            if context is not None:
                # All processes before any thread: a fork copies the memory, but not the threads.
                for i in range(job.num_workers):
                    remote[i] = _start_process(job, i, context)
            for i, pair in enumerate(remote):
                tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
                answers: queue.SimpleQueue[Any] = queue.SimpleQueue()
                thread = threading.Thread(
                    target=_work,
                    args=(job, i, pair, tasks, answers, self.stopped),
                    name=f"minitorch-data-worker-{i}",
                    daemon=True,
                )
                self.workers.append(Worker(tasks, answers, thread, pair and pair[0]))
                thread.start()
        except BaseException:
            shut_down(self)
            for pair in remote:
                if pair is not None:
                    pair[0].terminate()
            raise


def shut_down(crew: Crew) -> None:
    """End all workers of a crew: they finish the batch they are at, or are ended if that takes too long."""
    if crew.owner != os.getpid() or crew.stopped.is_set():
        return  # a copy in a forked process has no workers to end
    crew.stopped.set()
    for worker in crew.workers:
        worker.tasks.put(None)
    for worker in crew.workers:
        # The garbage collector may call this from a worker's own thread.
        if worker.thread is not threading.current_thread() and worker.thread.ident is not None:
            worker.thread.join(PATIENCE)
    for worker in crew.workers:
        if worker.process is not None and worker.process.is_alive():
            worker.process.terminate()
            worker.process.join(PATIENCE)


def _work(
    job: Job,
    worker_id: int,
    remote: tuple[Any, Connection] | None,
    tasks: queue.SimpleQueue[Any],
    answers: queue.SimpleQueue[Any],
    stopped: threading.Event,
) -> None:
    """The life of a worker's thread."""
    answer = job.begin(worker_id, process=False) if remote is None else _asking(worker_id, *remote)
    while (message := tasks.get()) is not None and not stopped.is_set():
        answers.put(answer(message[0]))
    if remote is not None:
        process, pipe = remote
        with contextlib.suppress(OSError):
            pipe.send(None)
        process.join(PATIENCE)
        pipe.close()


# --- processes ----------------------------------------------------------------------------------


def _start_process(job: Job, worker_id: int, context: Any) -> tuple[Any, Connection]:
    ours, theirs = context.Pipe()
    process = context.Process(
        target=_live,
        args=(job, worker_id, theirs, os.getpid()),
        name=f"minitorch-data-worker-{worker_id}",
        daemon=True,
    )
    try:
        process.start()
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        error.add_note(
            "DataLoader: a worker process that is not forked receives the data set, collate_fn and worker_init_fn "
            "pickled: define them at the top of a module, or leave multiprocessing_context out to use threads."
        )
        raise
    theirs.close()
    return process, ours


def _asking(worker_id: int, process: Any, pipe: Connection) -> Callable[[Any], Any]:
    """Return what answers tasks by asking the process at the other end of a pipe."""

    def ask(task: Any) -> Any:
        with contextlib.suppress(OSError, EOFError):
            pipe.send((task,))
            if pipe in wait([pipe, process.sentinel]):
                return pipe.recv()
        process.join(PATIENCE)
        return Failure(
            RuntimeError(
                f"DataLoader worker process {worker_id} (pid {process.pid}) exited unexpectedly, with exit code "
                f"{process.exitcode}; a negative code is the signal that ended it (-9: killed, perhaps out of memory)"
            )
        )

    return ask


def _live(job: Job, worker_id: int, pipe: Connection, parent: int) -> None:
    """The life of a worker process."""
    # Ctrl-C reaches every process of a terminal; the parent decides what to do about it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answer = job.begin(worker_id, process=True)
    with contextlib.suppress(EOFError, OSError):
        while True:
            while not pipe.poll(1.0):
                if os.getppid() != parent:
                    return  # the parent was killed and could not say goodbye
            message = pipe.recv()
            if message is None:
                return
            result = answer(message[0])
            try:
                pipe.send(result)
            except (pickle.PicklingError, AttributeError, TypeError) as error:
                pipe.send(
                    Failure(_portable(error, f"DataLoader worker process {worker_id}, sending its batch"))
                )
