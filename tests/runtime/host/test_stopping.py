"""Ctrl-C in kernels of many shapes: each is left within half a second, by one thread and by two."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import openwork as ow

pytestmark = [
    pytest.mark.optimized,
    pytest.mark.needs_cc,
    pytest.mark.skipif(os.name != "posix", reason="no POSIX signals here"),
]

# Each statement would take minutes. What it needs of memory is small.
SETUP = """
import os, signal, threading, time
import numpy as np, scipy.sparse as sp, openwork as ow
rng = np.random.default_rng(0)
many, few = 200_000, 3
f, i, j, k, l, p, p0, p1 = ow.indices("f i j k l p p0 p1")
def vector(name, n): return ow.tensor(rng.random(n), name=name)
def listed(name, n, count):
    at = np.sort(rng.choice(n, count, replace=False))
    return ow.tensor((at[None], rng.random(count)), shape=(n,), name=name, format="Compressed")
def rows(name, m, n, each, format=ow.CSR):
    at = np.sort(rng.integers(0, n, (m, each)), axis=1)
    begin = np.arange(0, m * each + 1, each)
    made = sp.csr_array((rng.random(m * each), at.ravel(), begin), (m, n))
    made.sum_duplicates()
    return ow.tensor(made, name=name, format=format)
def result(*shape, **more): return ow.empty(shape, name="R", **more)
"""
KERNELS = {
    "dense loops": "ow.assign(result()[()], vector('x', many)[i] * vector('y', many)[j])",
    "three dense loops": """ow.assign(
        result(few)[i], vector('x', few)[i] * vector('y', many)[j] * vector('z', many)[k])""",
    "a dense product": """ow.assign(
        result(4, 40_000)[i, k],
        ow.tensor(rng.random((4, 400)), name='A')[i, j]
        * ow.tensor(rng.random((400, 40_000)), name='B')[j, k] * vector('z', many)[l])""",
    "a long dense loop inside": """ow.assign(
        result(few)[k], vector('v', few)[k] * vector('w', 9000)[l] * vector('x', 100 * many)[i])""",
    "stored entries": """ow.assign(
        result()[()], listed('x', many, 90_000)[i] * listed('y', many, 90_000)[j])""",
    "entries that meet": """ow.assign(result(few)[k], vector('v', few)[k] * vector('w', many)[l]
        * (listed('x', many, 90_000)[i] * listed('y', many, 90_000)[i]))""",
    "entries of either": """ow.assign(result(50, many, format=ow.CSR)[i, j],
        rows('A', 50, many, 90_000)[i, j] * vector('x', many)[k]
        + rows('B', 50, many, 90_000)[i, j] * vector('y', many)[l])""",
    "rows": "ow.assign(result(2000)[i], rows('A', 2000, 2000, 1000)[i, j] * vector('x', many)[k])",
    "one long row": """ow.assign(result(1)[i], rows('A', 1, 100 * many, 20 * many)[i, j]
        * vector('x', 100 * many)[j] * vector('y', 3000)[k]).reorder(k, i, j)""",
    "rows of columns": """ow.assign(
        result(2000, 64)[i, k], rows('A', 2000, 2000, 1000)[i, j]
        * ow.tensor(rng.random((2000, 64)), name='B')[j, k] * vector('z', 9000)[l])""",
    "a sampled product": """ow.assign(
        result(500, 500, format=ow.CSR)[i, j],
        rows('A', 500, 500, 200)[i, j] * vector('x', many)[k] * vector('y', many)[k])""",
    "a sparse product": """ow.assign(
        result(few, 1000, format=ow.CSR)[i, k], rows('A', few, 20_000, 20_000)[i, j]
        * rows('B', 20_000, 1000, 400)[j, k] * vector('z', 3000)[l])""",
    "fused loops": """(lambda A: ow.assign(result(2000)[i], A[i, j] * vector('x', many)[k])
        .fuse(i, j, f).pos(f, p, A[i, j]).split(p, p0, p1, 4096))(rows('A', 2000, 2000, 1000))""",
    "elements": """ow.assign(result(4, 50 * many)[i, j],
        vector('x', 4)[i] ** vector('y', 50 * many)[j] + vector('x2', 4)[i] ** 0.3)""",
}
STOP = """
def left_after(kernel):
    # Seconds from the signal to the exception.
    sent = []
    def kick():
        time.sleep(0.05)
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)
    timer = threading.Thread(target=kick)
    try:
        timer.start()
        kernel()
        return 99.0
    except KeyboardInterrupt:
        return time.perf_counter() - sent[0]
    finally:
        timer.join()
for name, text in kernels.items():
    kernel = eval(text).compile(optimize=False)  # else steps would be over soon
    for threads in (1, 2):
        ow.set_num_threads(threads)
        late = left_after(kernel)
        if late > 0.25:  # somebody else may have had the processor for a moment
            late = min(late, left_after(kernel))
        print(name, threads, late, sep="|", flush=True)
"""


@pytest.fixture(scope="module")
def seconds() -> dict[str, list[float]]:
    """How long each kernel took to be left, by one thread and by two."""
    answer = subprocess.run(
        [sys.executable, "-c", f"{SETUP}kernels = {KERNELS!r}\n{STOP}"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert answer.returncode == 0, answer.stdout + answer.stderr
    found: dict[str, list[float]] = {}
    for line in answer.stdout.splitlines():
        name, _, late = line.split("|")
        found.setdefault(name, []).append(float(late))
    return found


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_is_left_soon(name: str, seconds: dict[str, list[float]]) -> None:
    assert max(seconds[name]) < 0.5


@pytest.mark.parametrize("count", [1000, 1 << 17])
def test_long_runs_that_are_merged_look_at_the_flag(count: int) -> None:
    """Steps of a merge are dear enough as it is: short runs are left alone."""
    (i,) = ow.indices("i")
    at = np.arange(count) * 2
    a, b = (
        ow.tensor(((at + shift)[None], np.ones(count)), shape=(2 * count + 1,), name=name)
        for shift, name in enumerate("ab")
    )
    kernel = ow.assign(ow.empty((), name="s")[()], a[i] * b[i]).compile()
    steps = kernel.source.partition("// i of a and b, in order")[2]
    assert ("if (*stop) break;" in steps) == (count > 1000)
