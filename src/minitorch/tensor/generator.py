"""The only source of randomness: MT19937, drawn from as PyTorch's CPU generator is; on a GPU Philox, as PyTorch's CUDA
generator is.

Enters: how many numbers, and of which dtype. Leaves: arrays of random numbers. The same seed gives the same
numbers as PyTorch: bit for bit for uniforms and integers, to rounding for normals.
"""

from __future__ import annotations

import ctypes
import math
import secrets
from contextvars import ContextVar
from typing import Any, Protocol

import numpy as np

from minitorch.engine import capturing, gpu, meta
from minitorch.engine.dtypes import float32, float64, is_bfloat16
from minitorch.engine.modes import current
from minitorch.engine.node import new_tensor
from minitorch.engine.recording import drawing, recorder, refuse_inside_recording, replayed
from minitorch.tensor import philox
from minitorch.tensor.devices import CPU, META, gpu_of, numbered
from minitorch.tensor.devices import device as Device
from minitorch.tensor.torch_types import pytorchs

# A CPU generator's state as PyTorch lays it out: how many words of the block are left, the next one's place, the words,
# and the second of a pair of normals, where one waits.
_PYTORCHS = np.dtype(
    [
        ("seed", "<u8"), ("left", "<i4"), ("seeded", "<i4"), ("next", "<u8"), ("words", "<u8", 624), ("x", "<f8"),
        ("normal", "<f8"), ("rho", "<f8"), ("has_normal", "<i8"), ("single", "<f4"), ("has_single", "<i4"),
    ]
)  # fmt: skip
FEW = 256  # numbers that NumPy draws as fast as anybody


class NativeSource(Protocol):
    """Whoever draws the same stream faster than NumPy does."""

    def fill(self, dtype: np.dtype, state: int, out: int, count: int) -> None:
        """Draw uint32 words, or float32 or float64 uniforms, into the memory at `out`; the state is at an address."""


_native: list[NativeSource] = []


def draw_natively(source: NativeSource) -> None:
    """Let all generators draw by this from now on; the numbers are the same. (The compiler gives its machine code.)"""
    _native[:] = [source]


def _of_bytes(state: np.ndarray) -> dict[str, Any]:
    """Return what PyTorch's bytes of a CPU generator's state say."""
    if state.dtype != np.uint8 or state.size != _PYTORCHS.itemsize:
        raise TypeError(
            f"the state of a CPU generator is a dict, or {_PYTORCHS.itemsize} bytes (uint8) as PyTorch has them; got "
            f"{state.dtype} of shape {state.shape}"
        )
    found = np.ascontiguousarray(state).reshape(-1).view(_PYTORCHS)[0]
    place = 625 - int(found["left"])
    bits = {"bit_generator": "MT19937", "state": {"key": found["words"].astype(np.uint32), "pos": place}}
    normal = float(found["normal"]) if found["has_normal"] else None
    return {"seed": int(found["seed"]), "bits": bits, "next_normal": normal}


class Generator:
    """A stream of random numbers with its own state.

    >>> Generator().manual_seed(0).uniforms(2, float32).round(4)
    array([0.4963, 0.7682], dtype=float32)
    """

    # Of which rows, of how many, draws for a batch are: (first, count, all). None: of all (distributed/shards.py).
    rows: tuple[int, int, int] | None = None

    def __new__(cls, device: Any = "cpu") -> Generator:
        """Make one for a device: on a GPU another kind of stream."""
        where = gpu_of(device) if cls is Generator else None
        if where is None:
            return object.__new__(cls)
        return object.__new__(DeviceGenerator if where.type == "cuda" else MetaGenerator)

    def __init__(self, device: Any = "cpu") -> None:
        self.device = Device(device)
        self.manual_seed(67280421310721)

    def manual_seed(self, seed: int) -> Generator:
        """Start the stream anew from a seed."""
        seed = int(seed)
        if not -(2**63) <= seed < 2**64:
            raise RuntimeError(f"manual_seed: {seed} does not fit 64 bits")
        self._start(seed % 2**64)
        return self

    @replayed
    def _start(self, seed: int) -> None:
        self._seed = seed
        legacy = np.random.MT19937()
        legacy._legacy_seeding(seed % 2**32)
        self._bits = legacy
        self._next_normal: float | None = None

    def seed(self) -> int:
        """Start the stream anew from a seed nobody can guess, and return it."""
        refuse_inside_recording("the seed of a random generator")
        chosen = secrets.randbits(63)
        self.manual_seed(chosen)
        return chosen

    def initial_seed(self) -> int:
        """Return the seed the stream was last started from."""
        refuse_inside_recording("the seed of a random generator")
        return self._seed

    def clone_state(self) -> Generator:
        """Return a generator that goes on from the same state, by itself.

        >>> first = Generator().manual_seed(1)
        >>> first.clone_state().uniforms(1, float32) == first.uniforms(1, float32)
        array([ True])
        """
        made = Generator(self.device)
        made.set_state(self.get_state())
        return made

    graphsafe_get_state = clone_state

    def graphsafe_set_state(self, state: Generator) -> None:
        """Go on from where another generator is."""
        self.set_state(state.get_state())

    def get_state(self) -> Any:
        """Return everything that determines the numbers to come; give it to set_state. Under PyTorch's types it is
        PyTorch's: a Tensor of 5056 bytes.
        """
        refuse_inside_recording("the state of a random generator")
        bits = self._bits.state
        if not pytorchs.on:
            return {"seed": self._seed, "bits": bits, "next_normal": self._next_normal}
        made = np.zeros(1, _PYTORCHS)
        place, normal = bits["state"]["pos"], self._next_normal
        made["seed"], made["seeded"], made["words"] = self._seed, 1, bits["state"]["key"]
        made["left"], made["next"] = 625 - place, place
        made["has_normal"], made["normal"] = normal is not None, normal or 0.0
        return new_tensor(made.view(np.uint8))

    def set_state(self, state: Any) -> None:
        """Continue from a state that get_state, or PyTorch's, returned."""
        refuse_inside_recording("the state of a random generator")
        if not isinstance(state, dict):
            state = _of_bytes(np.array(state.cpu() if hasattr(state, "cpu") else state))
        self._seed = state["seed"]
        self._bits.state = state["bits"]
        self._next_normal = state["next_normal"]

    @drawing
    def words(self, count: int) -> np.ndarray:
        """Draw `count` raw 32-bit words."""
        if _native and count >= FEW:
            return self._drawn_natively(count, np.dtype(np.uint32))
        return self._bits.random_raw(count).astype(np.uint32) if count else np.empty(0, np.uint32)

    def _drawn_natively(self, count: int, dtype: np.dtype) -> np.ndarray:
        out, bits = np.empty(count, dtype), self._bits
        with bits.lock:
            _native[0].fill(dtype, bits.ctypes.state_address, out.ctypes.data, count)
        return out

    @drawing
    def words64(self, count: int) -> np.ndarray:
        """Draw `count` 64-bit words, each from two of 32 bits, the first one high."""
        pairs = self.words(2 * count).astype(np.uint64).reshape(count, 2)
        return (pairs[:, 0] << np.uint64(32)) | pairs[:, 1]

    @drawing
    def permutation(self, count: int) -> np.ndarray:
        """Draw an order of 0, 1, … count - 1, by exchanging each with one behind it (Fisher and Yates)."""
        order = list(range(count))
        for i, word in enumerate(self.words(max(count - 1, 0)).tolist()):
            j = i + word % (count - i)
            order[i], order[j] = order[j], order[i]
        return np.array(order, dtype=np.int64)

    @drawing
    def uniforms(self, count: int, dtype: Any) -> np.ndarray:
        """Draw from [0, 1): 24 random bits for float32, 53 for float64."""
        if _native and count >= FEW and dtype in (float32, float64):
            return self._drawn_natively(count, dtype)
        if dtype == float64:
            return (self.words64(count) & np.uint64(2**53 - 1)).astype(np.float64) * 2.0**-53
        drawn = (self.words(count) & np.uint32(2**24 - 1)).astype(np.float32) * np.float32(2.0**-24)
        if dtype == float32:
            return drawn
        rounded = drawn.astype(dtype)
        rounded[rounded == 1] = 0  # in half precision the largest ones round to 1, which is outside
        return rounded

    @drawing
    def uniforms_of_rows(self, count: int, length: int, dtype: Any) -> np.ndarray:
        """Draw from [0, 1) for an array whose first axis has some length.

        Where that counts the rows of a part of a batch, the whole batch's are drawn, and those of this part returned:
        what every rank drops is what one rank would drop.
        """
        if self.rows is None or not self.rows[1] or length % self.rows[1]:
            return self.uniforms(count, dtype)
        first, mine, total = self.rows
        size = count // mine
        return self.uniforms(size * total, dtype)[first * size : (first + mine) * size]

    @drawing
    def normals(self, count: int, dtype: Any, contiguous: bool = True) -> np.ndarray:
        """Draw from the standard normal distribution, by Box and Muller's transformation.

        contiguous: whether they go into contiguous memory: PyTorch draws them in blocks then, where there are enough.
        """
        if count >= 16 and contiguous:
            return self._normals_in_blocks(count, dtype)
        return np.array([self.one_normal() for _ in range(count)], dtype=dtype)

    def normals_into(self, array: Any, mean: float, std: float) -> np.ndarray:
        """Draw normal numbers one after the other, as many and in the way in which PyTorch fills an array with them."""
        if (level := current().level) is not None:
            return level.draw(self, Generator.normals_into, (array, mean, std))
        kind = array.dtype
        if is_bfloat16(kind):
            kind = float32  # rounded at the end
        if array.size < 16 or not array.flags.c_contiguous:
            kind = np.dtype(np.float64)  # one at a time, and rounded at the end
        drawn = self.normals(array.size, kind, bool(array.flags.c_contiguous))
        return drawn * kind.type(std) + kind.type(mean)

    def one_normal(self) -> float:
        """Draw one normal number."""
        # Two uniforms give two normals; the second is kept for the next call.
        if self._next_normal is not None:
            kept, self._next_normal = self._next_normal, None
            return kept
        u, v = self.uniforms(2, float64)
        radius, angle = math.sqrt(-2 * math.log1p(-v)), 2 * math.pi * u
        self._next_normal = radius * math.sin(angle)
        return radius * math.cos(angle)

    @drawing
    def gammas(self, shapes: np.ndarray) -> np.ndarray:
        """Draw a standard gamma number for each shape, by Marsaglia and Tsang's rejection (2000)."""
        return np.array([self._one_gamma(float(shape)) for shape in shapes])

    def _one_gamma(self, shape: float) -> float:
        scale = 1.0
        if shape < 1:
            if shape == 0:
                return 0.0
            scale = (1 - self.uniforms(1, float64)[0]) ** (1 / shape)
            shape += 1
        d = shape - 1 / 3
        c = 1 / math.sqrt(9 * d)
        while True:
            x = self.one_normal()
            y = 1 + c * x
            if y <= 0:
                continue
            v = y**3
            u = 1 - self.uniforms(1, float64)[0]
            if u < 1 - 0.0331 * x**4 or math.log(u) < 0.5 * x * x + d * (1 - v + math.log(v)):
                return float(scale * d * v)

    @drawing
    def poissons(self, rates: np.ndarray) -> np.ndarray:
        """Draw a Poisson number for each rate."""
        if not (rates >= 0).all():
            raise RuntimeError("poisson: a rate is not negative")
        return np.array([self._one_poisson(float(rate)) for rate in rates], np.int64)

    def _one_poisson(self, rate: float) -> int:
        if rate < 10:
            # Multiply uniforms until they fall below exp(-rate).
            count, product, limit = 0, 1.0, math.exp(-rate)
            while rate:
                product *= self.uniforms(1, float64)[0]
                if product <= limit:
                    break
                count += 1
            return count
        # Transformed rejection (Hörmann, 1993).
        b = 0.931 + 2.53 * math.sqrt(rate)
        a = -0.059 + 0.02483 * b
        inverse_alpha, limit = 1.1239 + 1.1328 / (b - 3.4), 0.9277 - 3.6224 / (b - 2)
        while True:
            u, v = self.uniforms(1, float64)[0] - 0.5, self.uniforms(1, float64)[0]
            room = 0.5 - abs(u)
            count = math.floor((2 * a / room + b) * u + rate + 0.43)
            if room >= 0.07 and v <= limit:
                return count
            if count < 0 or (room < 0.013 and v > room):
                continue
            chance = math.log(v) + math.log(inverse_alpha) - math.log(a / (room * room) + b)
            if chance <= -rate + count * math.log(rate) - math.lgamma(count + 1):
                return count

    @drawing
    def binomials(self, counts: np.ndarray, chances: np.ndarray) -> np.ndarray:
        """Draw, for each count and probability, how many succeed."""
        pairs = zip(counts, chances, strict=True)
        return np.array([self._one_binomial(float(count), float(chance)) for count, chance in pairs])

    def _one_binomial(self, count: float, chance: float) -> float:
        if count <= 0 or chance <= 0:
            return 0.0
        if chance >= 1:
            return count
        if chance > 0.5:
            return count - self._one_binomial(count, 1 - chance)
        if count * chance >= 10:
            return self._binomial_by_rejection(count, chance)
        # Geometric waiting times between successes, until they pass the count.
        successes, waited, log_failure = 0, 0.0, math.log1p(-chance)
        while True:
            u = self.uniforms(1, float64)[0]
            waited += math.ceil(math.log(u) / log_failure) if u else math.inf
            if waited > count:
                return float(successes)
            successes += 1

    def _binomial_by_rejection(self, count: float, chance: float) -> float:
        # Transformed rejection (Hörmann, 1993).
        spread = math.sqrt(count * chance * (1 - chance))
        b = 1.15 + 2.53 * spread
        a = -0.0873 + 0.0248 * b + 0.01 * chance
        c, limit = count * chance + 0.5, 0.92 - 4.2 / b
        odds, alpha = chance / (1 - chance), (2.83 + 5.1 / b) * spread
        m = math.floor((count + 1) * chance)
        while True:
            u, v = self.uniforms(1, float64)[0] - 0.5, self.uniforms(1, float64)[0]
            room = 0.5 - abs(u)
            k = math.floor((2 * a / room + b) * u + c)
            if room >= 0.07 and v <= limit:
                return float(k)
            if k < 0 or k > count:
                continue
            v = math.log(v * alpha / (a / (room * room) + b))
            upper = (
                (m + 0.5) * math.log((m + 1) / (odds * (count - m + 1)))
                + (count + 1) * math.log((count - m + 1) / (count - k + 1))
                + (k + 0.5) * math.log(odds * (count - k + 1) / (k + 1))
                + _stirling_error(m)
                + _stirling_error(count - m)
                - _stirling_error(k)
                - _stirling_error(count - k)
            )
            if v <= upper:
                return float(k)

    def _normals_in_blocks(self, count: int, dtype: Any) -> np.ndarray:
        # Blocks of 16 uniforms become 16 normals: the first half radii, the second half angles. When
        # the count is no multiple of 16, the last 16 are drawn anew.
        kind = float64 if dtype == float64 else float32
        whole = count - count % 16
        out = np.empty(count, kind)
        # Half precision draws no numbers for the elements that are drawn anew anyway.
        drawn = self.uniforms(whole if dtype.itemsize == 2 else count, kind)
        out[:whole] = _box_muller(drawn[:whole])
        if whole != count:
            out[-16:] = _box_muller(self.uniforms(16, kind))
        return out.astype(dtype, copy=False)


def _stirling_error(k: float) -> float:
    """log k! less Stirling's approximation of it, in the form for k + 1."""
    if k <= 9:
        return math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi))
    square = (k + 1) ** 2
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1)


def _box_muller(uniforms: np.ndarray) -> np.ndarray:
    blocks = uniforms.reshape(-1, 2, 8)
    kind = uniforms.dtype.type
    radius = np.sqrt(kind(-2) * np.log(kind(1) - blocks[:, 0]))
    angle = kind(2 * math.pi) * blocks[:, 1]
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1).reshape(-1)


# --- on a GPU --------------------------------------------------------------------------------------------------


class DeviceGenerator(Generator):
    """A stream of random numbers on a GPU: Philox, in PyTorch's layout (philox.py).

    All that it keeps is `state`: its seed, and how many words of every thread's stream are used up.
    """

    def __init__(self, device: Any = "cuda") -> None:
        self.state = np.zeros(2, np.uint64)
        super().__init__(numbered(Device(device)))
        with gpu.working_on(self.device.index, "Generator") as cupy:
            found = cupy.cuda.runtime.getDeviceProperties(self.device.index)
        blocks = found["maxThreadsPerMultiProcessor"] // philox.THREADS_OF_A_BLOCK
        self._most_threads = found["multiProcessorCount"] * blocks * philox.THREADS_OF_A_BLOCK

    @replayed
    def _start(self, seed: int) -> None:
        self._seed = seed
        self.state[:] = seed, 0

    def get_state(self) -> Any:
        """Return the 16 bytes of its seed and its offset."""
        refuse_inside_recording("the state of a random generator")
        made = self.state.view(np.uint8).copy()
        return new_tensor(made) if pytorchs.on else made

    def set_state(self, state: Any) -> None:
        """Continue from a state that get_state returned."""
        refuse_inside_recording("the state of a random generator")
        self.state[:] = np.frombuffer(np.asarray(state, np.uint8).tobytes(), np.uint64)
        self._seed = int(self.state[0])

    def get_offset(self) -> int:
        """Return how many words of every thread's stream are used up."""
        refuse_inside_recording("the state of a random generator")
        return int(self.state[1])

    def set_offset(self, offset: int) -> None:
        """Continue from an offset, a multiple of 4."""
        refuse_inside_recording("the state of a random generator")
        if offset < 0 or offset % philox.WORDS:
            raise RuntimeError(f"set_offset: expects a multiple of {philox.WORDS}, got {offset}")
        self.state[1] = offset

    def _draw(self, kind: str, count: int, beside: int = 1, keep: float = 1.0) -> Any:
        """Draw numbers of one of Philox's kinds, and move on. keep: with which probability something is kept."""
        plan = philox.layout(max(count, 1), philox.numbers_of(kind), self._most_threads, beside)
        capture = capturing.current()
        with gpu.working_on(self.device.index, f"{count:,} random numbers") as cupy:
            if capture is not None:
                return capture.of(self, lambda: _InGraph(self, capture)).draw(cupy, kind, count, plan, keep)
            seed, offset = (int(each) for each in self.state)
            drawn = philox.draw_there(cupy, kind, seed, offset, count, plan, keep)
        if count:
            self.state[1] = offset + plan.words
        return drawn

    @drawing
    def words(self, count: int) -> Any:
        """Draw `count` raw 32-bit words."""
        return self._draw("words", count)

    @drawing
    def words64(self, count: int) -> Any:
        """Draw `count` 64-bit words, each from two of 32 bits, the first one high."""
        return self._draw("words64", count)

    @drawing
    def permutation(self, count: int) -> Any:
        """Draw an order of 0, 1, … count - 1: that of random keys. (Other orders than PyTorch's.)"""
        return self._draw("words64", count).argsort().astype(np.int64, copy=False)

    @drawing
    def fractions(self, count: int, dtype: Any, beside: int = 1) -> Any:
        """Draw from (0, 1], in float32 or float64. beside: how many of a thread's numbers lie side by side."""
        return self._draw("fractions64" if dtype == float64 else "fractions", count, beside)

    @drawing
    def uniforms(self, count: int, dtype: Any) -> Any:
        """Draw from [0, 1): what was 1 is 0."""
        drawn = self._draw("fractions64" if dtype == float64 else "fractions", count).astype(
            dtype, copy=False
        )
        return np.where(drawn == 1, 0.0, drawn).astype(dtype, copy=False)

    @drawing
    def uniforms_of_rows(self, count: int, length: int, dtype: Any) -> Any:
        """Draw from (0, 1], in float32, as PyTorch's dropout does: four, or two, of a thread's side by side."""
        return self._draw("fractions", count, _of_a_row(count))

    @drawing
    def kept(self, count: int, keep: float) -> Any:
        """Draw which elements stay, each with a probability: where those numbers are below it."""
        return self._draw("kept", count, _of_a_row(count), keep)

    @drawing
    def normals(self, count: int, dtype: Any, contiguous: bool = True) -> Any:
        """Draw from the standard normal distribution, by Box and Muller's transformation."""
        return self._draw("normals64" if dtype == float64 else "normals", count).astype(dtype, copy=False)

    def normals_into(self, array: Any, mean: float, std: float) -> Any:
        """Draw normal numbers for an array."""
        kind = float64 if array.dtype == float64 else float32
        return self.normals(array.size, kind) * float(std) + float(mean)

    def one_normal(self) -> float:
        """Draw one normal number."""
        return float(self.normals(1, float64)[0])

    def _on_host(self) -> Generator:
        """Return a stream of the CPU's that begins where this one is, and move on: for draws by rejection."""
        seed, offset = (int(each) for each in self.state)
        self.state[1] += np.uint64(philox.WORDS)
        first, second, *_ = philox.philox(seed, np.uint64(offset // philox.WORDS), np.uint64(0))
        return Generator().manual_seed(int(first) << 31 ^ int(second))

    @drawing
    def gammas(self, shapes: Any) -> Any:
        """Draw a standard gamma number for each shape, on the CPU."""
        return gpu.sent(self._on_host().gammas(gpu.on_host(shapes)), self.device.index)

    @drawing
    def poissons(self, rates: Any) -> Any:
        """Draw a Poisson number for each rate, on the CPU."""
        return gpu.sent(self._on_host().poissons(gpu.on_host(rates)), self.device.index)

    @drawing
    def binomials(self, counts: Any, chances: Any) -> Any:
        """Draw, for each count and probability, how many succeed, on the CPU."""
        return gpu.sent(
            self._on_host().binomials(gpu.on_host(counts), gpu.on_host(chances)), self.device.index
        )


def _of_a_row(count: int) -> int:
    """Return how many of a thread's numbers lie side by side in what is dropped."""
    return 4 if count % 4 == 0 else 2 if count % 2 == 0 else 1


class _InGraph:
    """A generator in a captured graph: kernels look up where it is, and each replay moves it on by what they draw."""

    def __init__(self, source: DeviceGenerator, capture: capturing.Capture) -> None:
        self._source, self._words = source, 0
        self._told, self._host = capture.cells(2, np.uint64)
        capture.before_replay(self._tell)

    def draw(self, cupy: Any, kind: str, count: int, plan: philox.Layout, keep: float) -> Any:
        """Draw numbers of one of Philox's kinds, at each replay others."""
        drawn = philox.draw_told(cupy, kind, self._told, self._words, count, plan, keep)
        self._words += plan.words if count else 0
        return drawn

    def _tell(self) -> None:
        seed, offset = (int(each) for each in self._source.state)
        self._host[:] = seed, offset // philox.WORDS
        self._source.state[1] = offset + self._words


class MetaGenerator(Generator):
    """Draws nothing, for tensors on 'meta': arrays of as many numbers, without them. No other stream moves on."""

    def __init__(self, device: Any = "meta") -> None:
        super().__init__(META)

    def fractions(self, count: int, dtype: Any, beside: int = 1) -> Any:
        """Return as many fractions."""
        return meta.empty((count,), dtype)

    def uniforms(self, count: int, dtype: Any) -> Any:
        """Return as many uniform numbers."""
        return meta.empty((count,), dtype)

    def normals(self, count: int, dtype: Any, contiguous: bool = True) -> Any:
        """Return as many normal numbers."""
        return meta.empty((count,), dtype)

    def uniforms_of_rows(self, count: int, length: int, dtype: Any) -> Any:
        """Return as many uniform numbers."""
        return meta.empty((count,), dtype)

    def words(self, count: int) -> Any:
        """Return as many words."""
        return meta.empty((count,), np.uint32)

    def words64(self, count: int) -> Any:
        """Return as many words of 64 bits."""
        return meta.empty((count,), np.uint64)

    def permutation(self, count: int) -> Any:
        """Return an order of as many."""
        return meta.empty((count,), np.int64)

    def normals_into(self, array: Any, mean: float, std: float) -> Any:
        """Return as many as an array has."""
        return meta.empty((array.size,), array.dtype)

    def gammas(self, shapes: Any) -> Any:
        """Return as many as there are shapes."""
        return meta.like(shapes)

    def poissons(self, rates: Any) -> Any:
        """Return as many as there are rates."""
        return meta.like(rates)

    def binomials(self, counts: Any, chances: Any) -> Any:
        """Return as many as there are counts."""
        return meta.like(counts)

    def one_normal(self) -> float:
        """Return a number."""
        return 0.0


meta_generator = MetaGenerator()
device_generators: dict[
    int, DeviceGenerator
] = {}  # each GPU's own, by its number, made when it is first asked for
_seed_of_devices: list[int] = []  # of those that are made from now on


@replayed
def seed_devices(seed: int) -> None:
    """Start the streams of all GPUs anew from a seed."""
    _seed_of_devices[:] = [seed]
    for each in device_generators.values():
        each.manual_seed(seed)


def generator_of(where: Device) -> Generator:
    """Return the generator of a device's random numbers."""
    if where.type == "cpu":
        return default_generator
    if where.type == "meta":
        return meta_generator
    number = numbered(where).index
    assert number is not None
    if number not in device_generators:

        def begin() -> dict[str, Any]:
            made = DeviceGenerator(Device("cuda", number))
            made.manual_seed(_seed_of_devices[0] if _seed_of_devices else secrets.randbits(63))
            return {"generator": made}

        active = recorder()
        made = begin() if active is None else active.beforehand(device_generators, begin)
        device_generators[number] = made["generator"]
    return device_generators[number]


def source_for(generator: Generator | None, where: Device, name: str) -> Generator:
    """Return who draws numbers for a tensor on a device: the generator that was given, or the device's own."""
    if generator is None:
        return default_generator if where is CPU else generator_of(where)
    if where.type == "meta":
        return meta_generator
    if generator.device.type != where.type:
        raise RuntimeError(
            f"{name}: a generator on '{generator.device}' draws no numbers on '{where}'; write "
            f"Generator(device={str(where)!r})"
        )
    return generator


# A thread that works beside others (a DataLoader's worker) draws from a stream of its own: from one
# that all share, who gets which number would depend on who comes first.
_own_stream: ContextVar[Generator | None] = ContextVar("minitorch_own_stream", default=None)


class _OfTheStream:
    """An attribute that lives in the stream the calling thread draws from."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return getattr(_own_stream.get() or instance._common, self._name)

    def __set__(self, instance: Any, value: Any) -> None:
        setattr(_own_stream.get() or instance._common, self._name, value)


class DefaultGenerator(Generator):
    """The generator of all random functions: one stream for the program, or the thread's own."""

    _bits: Any = _OfTheStream()
    _seed: Any = _OfTheStream()
    _next_normal: Any = _OfTheStream()

    def __init__(self) -> None:
        self.device = CPU
        self._common = Generator()


default_generator = DefaultGenerator()
default_generator.seed()


def use_own_stream(seed: int) -> None:
    """Let the calling thread draw from a stream of its own from now on, started from a seed.

    >>> import threading
    >>> def draw():
    ...     use_own_stream(0)
    ...     print(default_generator.uniforms(2, float32).round(4))
    >>> thread = threading.Thread(target=draw); thread.start(); thread.join()
    [0.4963 0.7682]
    """
    _own_stream.set(Generator().manual_seed(seed))


MT19937_BYTES = 624 * 4 + 4  # its words, and where it is among them


class StreamState:
    """Where a generator of random numbers is.

    The 2,500 bytes of its state are copied as they lie there: get_state(), which makes a dict of them, takes 75 µs.
    """

    __slots__ = ("bits", "next_normal", "raw", "seed", "stream")

    def __init__(self, stream: Any) -> None:
        self.stream, self.seed = stream, stream._seed
        self.bits: Any = None
        self.next_normal: Any = None
        if isinstance(stream, DeviceGenerator):
            self.raw = stream.state.tobytes()
            return
        self.bits, self.next_normal = stream._bits, stream._next_normal
        self.raw = ctypes.string_at(self.bits.ctypes.state_address, MT19937_BYTES)

    def restore(self) -> None:
        """Put it back."""
        stream = self.stream
        if isinstance(stream, DeviceGenerator):
            stream.state[:], stream._seed = np.frombuffer(self.raw, np.uint64), self.seed
            return
        stream._bits, stream._next_normal, stream._seed = self.bits, self.next_normal, self.seed
        ctypes.memmove(self.bits.ctypes.state_address, self.raw, MT19937_BYTES)

    def holds(self) -> bool:
        """Tell whether the generator is still there."""
        now = StreamState(self.stream)
        return (now.bits, now.raw, now.next_normal) == (self.bits, self.raw, self.next_normal)
