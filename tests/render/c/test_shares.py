"""How threads share iterations: evenly, each its own first, and every share once."""

from __future__ import annotations

import ctypes
import random

import numpy as np
import pytest

from openwork.render.c.helpers import LIBRARY
from openwork.render.c.threads import SHARES
from openwork.runtime.host.library import load

pytestmark = pytest.mark.needs_cc

_DRIVER = """\
typedef __INT32_TYPE__ int32_t;
typedef __INT64_TYPE__ int64_t;
%s
%s
static taken_shares taken[64];
int64_t kernel(int64_t threads, int64_t shares, int64_t part, int64_t *turn) {
  return next_share(taken, threads, shares, part, turn);
}
void cuts(const int32_t *pos, int64_t rows, int64_t shares, int64_t *found) {
  for (int64_t n = 0; n <= shares; n++) found[n] = cut_int32(pos, 0, rows, n, shares);
}
// %s
"""


def driver(mark: str) -> ctypes.CDLL:
    """A library of its own for each test, because shares are counted in it."""
    texts = (LIBRARY.text("next_share", ""), LIBRARY.text("cut", "int32"))
    library = load(_DRIVER % (*texts, mark))
    library.kernel.restype = ctypes.c_int64
    return library


@pytest.mark.parametrize("seed", range(5))
def test_every_share_is_taken_once_and_ones_own_first(seed: int) -> None:
    library, threads = driver(f"shares {seed}"), 5
    draw = random.Random(seed)
    turns = [ctypes.c_int64(0) for _ in range(threads)]
    taken: list[list[int]] = [[] for _ in range(threads)]
    busy = list(range(threads))
    while busy:
        # Some threads are much faster than others.
        part = min(draw.choice(busy), draw.choice(busy))
        arguments = (ctypes.c_int64(n) for n in (threads, SHARES * threads, part))
        share = library.kernel(*arguments, ctypes.byref(turns[part]))
        if share < 0:
            busy.remove(part)
        else:
            taken[part].append(share)
    assert sorted(share for each in taken for share in each) == list(range(SHARES * threads))
    for part, shares in enumerate(taken):
        own = [share for share in shares if share // SHARES == part]
        assert own == shares[: len(own)] and own == sorted(own)
    assert any(len(shares) > SHARES for shares in taken)


@pytest.mark.parametrize("rows", [37, 4_000, 100_000])
def test_shares_have_equal_work(rows: int) -> None:
    """However little work there is: two threads once shared a million entries, and no fewer."""
    library, shares = driver("cuts"), 2 * SHARES
    pos = np.arange(rows + 1, dtype=np.int32) * 7
    found = np.zeros(shares + 1, np.int64)
    addresses = (ctypes.c_void_p(array.ctypes.data) for array in (pos, found))
    library.cuts(next(addresses), ctypes.c_int64(rows), ctypes.c_int64(shares), next(addresses))
    assert (found[0], found[-1]) == (0, rows)
    assert np.ptp(np.diff(found)) <= 1
