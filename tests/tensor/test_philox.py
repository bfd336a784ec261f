"""Random numbers as a GPU draws them: its kernel, compiled for this processor, beside the lines that say what it draws."""

import ctypes
import shutil
import subprocess

import numpy as np
import pytest

from minitorch.tensor import philox

# CUDA's words in C++, and all threads one after the other.
BEFORE = """
#include <cmath>
#define __device__
#define __global__
struct Place { unsigned int x, y; };
static Place blockIdx, threadIdx, blockDim;
static void sincospi(double x, double* sine, double* cosine) {
    const double pi = 3.141592653589793;
    *sine = sin(x * pi); *cosine = cos(x * pi);
}
"""
AFTER = """
extern "C" void run(int told, KIND* out, long long count, wide seed, wide first, long long threads, long long rounds) {
    const wide both[2] = {seed, first};
    blockDim.x = 256;
    for (blockIdx.y = 0; blockIdx.y < rounds; ++blockIdx.y)
        for (blockIdx.x = 0; blockIdx.x < threads / 256; ++blockIdx.x)
            for (threadIdx.x = 0; threadIdx.x < 256; ++threadIdx.x)
                if (told) draw_told(out, count, both, 0, threads, 0.7f);
                else draw(out, count, seed, first, threads, 0.7f);
}
"""


@pytest.mark.skipif(shutil.which("g++") is None, reason="there is no C++ compiler")
@pytest.mark.parametrize("beside", [1, 2, 4])
@pytest.mark.parametrize("kind", philox.KINDS)
def test_the_kernel_draws_what_the_lines_say(kind, beside, tmp_path):
    if beside > philox.numbers_of(kind):
        pytest.skip("a thread draws fewer at once")
    (tmp_path / "kernel.cpp").write_text(BEFORE + philox.source(kind, beside) + AFTER)
    library = tmp_path / "kernel.so"
    subprocess.run(
        ["g++", "-shared", "-fPIC", "-O1", "-o", str(library), str(tmp_path / "kernel.cpp")],
        check=True,
        capture_output=True,
    )
    run = ctypes.CDLL(str(library)).run
    seed, offset = 2**40 + 5, 8
    for count in (beside, 1000, 4096, 20_000 + 4 // beside):
        plan = philox.layout(count, philox.numbers_of(kind), 2048, beside)
        expected = philox.draw(kind, seed, offset, count, plan, 0.7)
        for told in (0, 1):
            room = np.zeros(count + 8, expected.dtype)
            start = -room.ctypes.data % 16 // room.itemsize
            found = room[start : start + count]
            numbers = [
                ctypes.c_longlong(each) for each in (count, seed, offset // 4, plan.threads, plan.rounds)
            ]
            run(told, ctypes.c_void_p(found.ctypes.data), *numbers)
            if kind.startswith("normals"):
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
            else:
                np.testing.assert_array_equal(found, expected)
            assert not room[:start].any()
            assert not room[start + count :].any()
