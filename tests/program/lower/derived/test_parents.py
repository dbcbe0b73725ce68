"""GPU threads along the third level of a tensor: parents are tracked, or looked up on request."""

from __future__ import annotations

import numpy as np
import pytest

import openwork as ow

pytestmark = pytest.mark.needs_cc
TILES = (
    "split(p,block,tile,256), split(tile,thread,entry,8), "
    "parallelize(block,GPUBlock,IgnoreRaces), parallelize(thread,GPUThread,Atomics)"
)


def operands() -> dict[str, ow.Tensor]:
    rng = np.random.default_rng(0)
    where = rng.integers(0, [9, 40, 30], (900, 3)).T
    where[0][where[0] == 4] = 5  # a slice without entries
    X = ow.tensor((where, rng.standard_normal(900)), shape=(9, 40, 30), format=ow.CSF(3), name="X")
    C, D = (ow.tensor(rng.standard_normal((n, 4)), name=name) for n, name in ((40, "C"), (30, "D")))
    return {"X": X, "C": C, "D": D}


@pytest.mark.parametrize(("option", "steps"), [("", 3), (",parents=stored", 1)])
def test_parents_are_tracked_unless_they_are_stored(option: str, steps: int) -> None:
    """Tracked, an `if` for each level says whether the next segment begins (thesis, figure 3-3)."""
    text = "R(i,r) = X(i,j,k) * C(j,r) * D(k,r)"
    stmt = ow.parse(text, R=ow.empty((9, 4), name="R"), **operands())
    fused = f"fuse(i,j,f), fuse(f,k,g), pos(g,p,X{option}), {TILES}"
    kernel = stmt.schedule(fused).compile(target="cuda-emulated")
    np.testing.assert_allclose(kernel().to_numpy(), stmt.compile()().to_numpy())
    along = kernel.source.rpartition("positions of X")[2]
    assert along.count("gallop_") == steps - 1
    assert ("_of3_1[" in along) == bool(option)
