"""Races that the emulator sees: in arrays and in shared memory, and what is none."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

import openwork as ow
from openwork.errors import ToolchainError
from openwork.runtime.gpu import emulator

pytestmark = pytest.mark.needs_cc

RACES = {
    "lost": "y[0] += 1;",
    "different": "y[0] = t;",
    "read": "y[t] = 1; y[t + 64] = y[63 - t];",
    "before": "y[t + 64] = y[63 - t]; y[t] = 1;",
    "mixed": "if (t) atomicAdd(&y[0], 1.0); else y[0] = 5;",
    "shuffled": "s[t] = t; __shfl_sync(~0u, t, 0); y[t] = s[t ^ 1];",
    "one warp": "s[t] = t; __syncwarp(); y[t] = s[63 - t];",
    "other lanes": "s[t] = t; if (t % 32 < 16) __syncwarp(0xffffu); y[t] = s[t ^ 16];",
}
RIGHT = {
    "own": "y[t] += 1; y[t] += 2;",
    "same": "y[0] = 5;",
    "atomic": "atomicAdd(&y[0], 1.0);",
    "asked": "double old = y[0]; atomicAdd(&y[0], old);",
    "barrier": "s[t] = t; __syncthreads(); y[t] = s[63 - t];",
    "turns": "if (t == 0) y[0] = 1; __syncthreads(); if (t == 1) y[0] += 1;",
    "warp": "s[t] = t; __syncwarp(); y[t] = s[t ^ 1];",
    "told": (
        "s[t] = t; if (t % 32 < 16) __syncwarp(0xffffu);"
        "const unsigned m = t % 32 < 8 ? 0xff0000ffu : t % 32 > 23 ? 0xff0000ffu : 0;"
        "if (m) __syncwarp(m); if (t % 32 > 23) y[t] = s[t - 16];"
    ),
    "read by all": "y[64 + t] = y[0] + y[1];",
}
OVER = {"lost": "y[0] += 1;", "read": "if (b) y[b] = y[0]; else y[0] = 1;"}
APART = {"own": "y[b] = 1;", "atomic": "atomicAdd(&y[0], 1.0);", "shared": "s[0] = b; y[b] = s[0];"}


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    texts, patch = [], pytest.MonkeyPatch()
    for kind, group in (("r", RACES), ("o", RIGHT), ("b", OVER), ("a", APART)):
        for n, body in enumerate(group.values()):
            texts.append(
                f"static __global__ void {kind}{n}(double *y) {{ __shared__ double s[64]; "
                f"const int t = threadIdx.x, b = blockIdx.x; {body} }}\n"
                f'extern "C" int run_{kind}{n}(double *y, int x, int threads) {{ '
                f"return emulated::launch(x, 1, threads, 0, "
                f"[](void *y) {{ {kind}{n}((double *)y); }}, y); }}"
            )
    patch.setattr(emulator, "races", True)
    made = emulator.load_emulated("\n".join([emulator.header(), *texts]))
    patch.undo()
    return made


def run(library: ctypes.CDLL, name: str, blocks: int, threads: int) -> str:
    y = np.zeros(128)
    library.emulated_watch(ctypes.c_void_p(y.ctypes.data), ctypes.c_size_t(y.nbytes), 8)
    pointer = y.ctypes.data_as(ctypes.POINTER(ctypes.c_double))
    failed = getattr(library, f"run_{name}")(pointer, blocks, threads)
    library.emulated_forget()
    return library.emulated_message().decode() if failed else ""


@pytest.mark.parametrize("name", RACES)
def test_threads_that_do_not_meet(library: ctypes.CDLL, name: str) -> None:
    assert "a race: it " in run(library, f"r{list(RACES).index(name)}", 1, 64)


@pytest.mark.parametrize("name", RIGHT)
def test_threads_that_meet_or_keep_apart(library: ctypes.CDLL, name: str) -> None:
    assert run(library, f"o{list(RIGHT).index(name)}", 1, 64) == ""


@pytest.mark.parametrize("name", OVER)
def test_blocks_never_meet(library: ctypes.CDLL, name: str) -> None:
    assert "of block 0 has" in run(library, f"b{list(OVER).index(name)}", 2, 1)


@pytest.mark.parametrize("name", APART)
def test_blocks_that_keep_apart(library: ctypes.CDLL, name: str) -> None:
    assert run(library, f"a{list(APART).index(name)}", 3, 1) == ""


@pytest.mark.parametrize(("race", "seen"), [("IgnoreRaces", True), ("Atomics", False)])
def test_a_schedule_that_races(race: str, seen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulator, "races", True)
    A = ow.tensor(np.ones((8, 2)), name="A")
    stmt = ow.parse("y(i) = A(j,i)", y=ow.empty((2,), name="y"), A=A).order("j", "i")
    kernel = stmt.parallelize("j", "GPUThread", race).compile(target="cuda-emulated")
    if seen:
        with pytest.raises(ToolchainError, match=r"E608.*a race: it \w+ byte 0"):
            kernel()
        return
    np.testing.assert_array_equal(kernel().to_numpy(), [8, 8])


@pytest.mark.parametrize("reduction", ["segment", "parallel"])
def test_threads_past_the_end_do_not_look_at_what_others_write(
    reduction: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They took the last row once more, and read what a thread of their group was writing."""
    monkeypatch.setattr(emulator, "races", True)
    A = ow.tensor(np.ones((5, 3)), name="A")
    stmt = ow.parse("y(j) = A(j,k)", y=ow.empty((5,), name="y"), A=A).split("k", "k0", "k1", 2)
    stmt = stmt.order("k0", "j", "k1")
    over = "j" if reduction == "segment" else "k1"
    stmt = stmt.parallelize(over, "GPUGroup", group_size=4, reduction=reduction)
    np.testing.assert_array_equal(stmt.compile(target="cuda-emulated")().to_numpy(), np.full(5, 3))
