"""Random numbers as a GPU draws them: Philox, laid out as PyTorch's CUDA generator lays them out.

Enters: a seed, an offset and how many numbers. Leaves: arrays of them. Philox (Salmon and others, 2011) has no state
that goes on: its n-th block of four words is a function of n and the seed, so thousands of threads draw at once, each
from a stream of its own, of which the offset says how much is used up. The lines below say what is drawn, on arrays
of any kind; where there is a GPU, a kernel of the same formulas draws it in one go, and a test holds the two together.
"""

from __future__ import annotations

import functools
import math
from typing import Any, NamedTuple

import numpy as np

THREADS_OF_A_BLOCK = 256
WORDS = 4  # that one step of Philox gives; offsets count words

_LOW, _UP = np.uint64(2**32 - 1), np.uint64(32)
_MULTIPLIERS = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
_KEY_STEPS = 0x9E3779B9, 0xBB67AE85  # the golden ratio's, and √3's, first bits


def philox(seed: int, block: Any, stream: Any) -> list[Any]:
    """Return four 32-bit words (as uint64) for each block of each stream: Philox 4×32 of ten rounds.

    >>> [hex(int(word)) for word in philox(0, np.uint64(0), np.uint64(0))]
    ['0x6627e8d5', '0xe169c58d', '0xbc57ac4c', '0x9b00dbd8']
    """
    words = [block & _LOW, block >> _UP, stream & _LOW, stream >> _UP]
    keys = [seed % 2**32, seed >> 32]
    for _ in range(10):
        a, b = words[0] * _MULTIPLIERS[0], words[2] * _MULTIPLIERS[1]
        first, second = (np.uint64(key) for key in keys)
        words = [(b >> _UP) ^ words[1] ^ first, b & _LOW, (a >> _UP) ^ words[3] ^ second, a & _LOW]
        keys = [(key + step) % 2**32 for key, step in zip(keys, _KEY_STEPS, strict=True)]
    return words


class Layout(NamedTuple):
    """Who draws which of `count` numbers: `threads` streams, `rounds` blocks of each, a block giving `each` numbers.

    Number s of block b of stream t goes to place ((b·each/beside + s/beside)·threads + t)·beside + s % beside: `beside`
    numbers of a block lie side by side.
    """

    threads: int
    rounds: int
    each: int
    beside: int = 1

    @property
    def words(self) -> int:
        """How many words of every stream it uses up."""
        return self.rounds * WORDS


def layout(count: int, each: int, most_threads: int, beside: int = 1) -> Layout:
    """Return PyTorch's layout: blocks of 256 threads, as many as the GPU runs at once, again and again.

    >>> layout(1000, 4, 270336)
    Layout(threads=1024, rounds=1, each=4, beside=1)
    """
    threads = min(-(-count // THREADS_OF_A_BLOCK) * THREADS_OF_A_BLOCK, most_threads)
    return Layout(threads, -(-count // (threads * each)), each, beside)


# --- what becomes of the four words ---------------------------------------------------------------------------

_STEP = np.float32(2**-32)
_TURN = np.float32(2**-32) * np.float32(2 * math.pi)


def _fraction(word: Any) -> Any:
    """(0, 1] in float32."""
    return word.astype(np.float32) * _STEP + _STEP / np.float32(2)


def _fine(low: Any, high: Any) -> Any:
    """53 bits of two words."""
    return (low ^ (high << np.uint64(21))).astype(np.float64)


def _normal_pair(x: Any, y: Any) -> list[Any]:
    """Box and Muller's transformation, in float32."""
    radius = np.sqrt(np.float32(-2) * np.log(_fraction(x)))
    angle = y.astype(np.float32) * _TURN + _TURN / np.float32(2)
    return [radius * np.sin(angle), radius * np.cos(angle)]


def _fine_normal_pair(x: Any, y: Any, z: Any, w: Any) -> list[Any]:
    """The same in float64."""
    radius = np.sqrt(-2.0 * np.log(_fine(x, y) * 2.0**-53 + 2.0**-54))
    angle = (_fine(z, w) * 2.0**-52 + 2.0**-53) * math.pi
    return [radius * np.sin(angle), radius * np.cos(angle)]


# By name: their dtype, and how four words become two or four of them.
KINDS: dict[str, tuple[Any, Any]] = {
    "words": (np.uint32, lambda x, y, z, w: [x, y, z, w]),
    "words64": (np.uint64, lambda x, y, z, w: [(x << _UP) | y, (z << _UP) | w]),
    "fractions": (np.float32, lambda x, y, z, w: [_fraction(each) for each in (x, y, z, w)]),
    "fractions64": (
        np.float64,
        lambda x, y, z, w: [_fine(a, b) * 2.0**-53 + 2.0**-54 for a, b in ((x, y), (z, w))],
    ),
    "normals": (np.float32, lambda x, y, z, w: [*_normal_pair(x, y), *_normal_pair(z, w)]),
    "normals64": (np.float64, lambda x, y, z, w: _fine_normal_pair(x, y, z, w)),
    # Which elements stay, each with some probability: fractions below it.
    "kept": (np.bool_, lambda x, y, z, w: [_fraction(each) for each in (x, y, z, w)]),
}


def numbers_of(kind: str) -> int:
    """Return how many numbers of a kind a block gives."""
    return 16 // max(4, np.dtype(KINDS[kind][0]).itemsize)


def draw(kind: str, seed: int, offset: int, count: int, plan: Layout, keep: float = 1.0) -> np.ndarray:
    """Return numbers of a kind, by NumPy. offset: how many words of every stream were used up before.

    keep: with which probability something is kept.

    >>> draw("fractions", 0, 0, 3, layout(3, 4, 1 << 18)).round(4)    # torch.rand(3, device="cuda") after a seed of 0
    array([0.399 , 0.5167, 0.0249], dtype=float32)
    """
    dtype, make = KINDS[kind]
    blocks = np.arange(plan.rounds, dtype=np.uint64)[:, None] + np.uint64(offset // WORDS)
    streams = np.arange(plan.threads, dtype=np.uint64)[None]
    made = make(
        *(np.broadcast_to(word, (plan.rounds, plan.threads)) for word in philox(seed, blocks, streams))
    )
    if kind == "kept":
        made = [fraction < np.float32(keep) for fraction in made]
    places = np.stack(made, axis=1).reshape(plan.rounds, plan.each // plan.beside, plan.beside, plan.threads)
    return places.transpose(0, 1, 3, 2).reshape(-1)[:count].astype(dtype, copy=False)


# --- the same as a kernel -------------------------------------------------------------------------------------

_KERNEL = """
typedef unsigned int word; typedef unsigned long long wide;

__device__ inline float fraction(word x) { return x * 2.3283064e-10f + 2.3283064e-10f / 2.0f; }
__device__ inline double fine(word low, word high) { return (double)((wide)low ^ ((wide)high << 21)); }
__device__ inline void pair(word x, word y, float* out) {
    float radius = sqrtf(-2.0f * logf(fraction(x)));
    const float turn = 2.3283064e-10f * 6.2831855f;
    sincosf(y * turn + turn / 2.0f, out, out + 1);
    out[0] *= radius; out[1] *= radius;
}
__device__ inline void make(word* w, word* out, float) { for (int i = 0; i < 4; ++i) out[i] = w[i]; }
__device__ inline void make(word* w, bool* out, float keep) {
    for (int i = 0; i < 4; ++i) out[i] = fraction(w[i]) < keep;
}
__device__ inline void make(word* w, wide* out, float) {
    for (int i = 0; i < 2; ++i) out[i] = ((wide)w[2 * i] << 32) | w[2 * i + 1];
}
__device__ inline void make(word* w, float* out, float) {
    if (NORMAL) { pair(w[0], w[1], out); pair(w[2], w[3], out + 2); }
    else for (int i = 0; i < 4; ++i) out[i] = fraction(w[i]);
}
__device__ inline void make(word* w, double* out, float) {
    const double step = 1.1102230246251565e-16;
    if (NORMAL) {
        double radius = sqrt(-2.0 * log(fine(w[0], w[1]) * step + step / 2.0));
        sincospi(fine(w[2], w[3]) * (2.0 * step) + step, out, out + 1);
        out[0] *= radius; out[1] *= radius;
    } else for (int i = 0; i < 2; ++i) out[i] = fine(w[2 * i], w[2 * i + 1]) * step + step / 2.0;
}

// What a thread draws, mostly 16 bytes: written at once where all of it lies side by side.
struct alignas(EACH * sizeof(KIND)) Drawn { KIND each[EACH]; };

__device__ inline void draw_block(KIND* out, long long count, wide seed, wide first, long long threads, float keep) {
    const long long stream = blockIdx.x * (long long)blockDim.x + threadIdx.x, block = blockIdx.y;
    const wide at = first + block;
    word w[4] = {(word)at, (word)(at >> 32), (word)stream, (word)(stream >> 32)};
    word a = (word)seed, b = (word)(seed >> 32);
    for (int round = 0; round < 10; ++round) {
        const wide p = (wide)w[0] * 0xD2511F53u, q = (wide)w[2] * 0xCD9E8D57u;
        const word up = (word)(q >> 32) ^ w[1] ^ a, other = (word)(p >> 32) ^ w[3] ^ b;
        w[0] = up; w[1] = (word)q; w[2] = other; w[3] = (word)p;
        a += 0x9E3779B9u; b += 0xBB67AE85u;
    }
    Drawn made;
    make(w, made.each, keep);
    if (BESIDE == EACH && (block * threads + stream + 1) * EACH <= count) {
        reinterpret_cast<Drawn*>(out)[block * threads + stream] = made;
        return;
    }
#pragma unroll
    for (int s = 0; s < EACH; ++s) {
        const long long place = ((block * (EACH / BESIDE) + s / BESIDE) * threads + stream) * BESIDE + s % BESIDE;
        if (place < count) out[place] = made.each[s];
    }
}

extern "C" __global__ void draw(KIND* out, long long count, wide seed, wide first, long long threads, float keep) {
    draw_block(out, count, seed, first, threads, keep);
}

// The same, where the seed and the first block are looked up: a captured kernel's arguments never change.
extern "C" __global__ void draw_told(KIND* out, long long count, const wide* told, wide first, long long threads,
                                     float keep) {
    draw_block(out, count, told[0], told[1] + first, threads, keep);
}
"""
_TYPES = {
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
    "float32": "float",
    "float64": "double",
    "bool": "bool",
}


def source(kind: str, beside: int) -> str:
    """Return the text of the kernels that draw numbers of a kind, so many of a thread's side by side."""
    names = {"KIND": _TYPES[np.dtype(KINDS[kind][0]).name], "EACH": numbers_of(kind), "BESIDE": beside}
    defined = [f"#define {name} {text}" for name, text in names.items()]
    defined.append(f"#define NORMAL {int(kind.startswith('normals'))}")
    return "\n".join([*defined, _KERNEL])


@functools.cache
def _kernel(cupy: Any, kind: str, beside: int, name: str) -> Any:
    return cupy.RawKernel(source(kind, beside), name)


def draw_there(
    cupy: Any, kind: str, seed: int, offset: int, count: int, plan: Layout, keep: float = 1.0
) -> Any:
    """Return the same numbers on a GPU, where one kernel draws them all."""
    return _drawn_there(cupy, kind, "draw", (np.uint64(seed), np.uint64(offset // WORDS)), count, plan, keep)


def draw_told(cupy: Any, kind: str, told: Any, offset: int, count: int, plan: Layout, keep: float) -> Any:
    """Return numbers on a GPU. told: an array there, of the seed and of the block that `offset` is counted from."""
    return _drawn_there(cupy, kind, "draw_told", (told, np.uint64(offset // WORDS)), count, plan, keep)


def _drawn_there(
    cupy: Any, kind: str, kernel: str, start: tuple[Any, Any], count: int, plan: Layout, keep: float
) -> Any:
    out = cupy.empty(count, KINDS[kind][0])
    if count:
        blocks = (plan.threads // THREADS_OF_A_BLOCK, plan.rounds)
        given = (out, count, *start, plan.threads, np.float32(keep))
        _kernel(cupy, kind, plan.beside, kernel)(blocks, (THREADS_OF_A_BLOCK,), given)
    return out
