"""Formats under schedules that once gave a wrong answer, a crash or an internal error."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

import openwork as ow
from openwork.runtime.host import launch

D2 = np.array([[0.0, 2, 0, 3, 0], [0, 0, 0, 0, 0], [4, 5, 0, 0, 6], [0, 0, 7, 0, 0]])
D3 = np.arange(24.0).reshape(3, 4, 2) % 5


def run(text: str, schedule: str = "", **tensors: ow.Tensor) -> np.ndarray:
    stmt = ow.parse(text, **tensors)
    result: np.ndarray = (stmt.schedule(schedule) if schedule else stmt).compile()().to_numpy()
    return result


@pytest.mark.parametrize("name", ["min_plus", "max_plus"])
def test_what_is_out_of_reach_stays_so(name: str) -> None:
    """Integers have no infinity; the one that stands for it is not added to."""
    limits = np.iinfo(np.int64)
    far = limits.max if name == "min_plus" else limits.min
    given = np.array([[3, far, 2], [far, far, far], [far, 5, -4]])
    A = ow.tensor(given, name="A")
    x = ow.tensor(np.array([-7, 2, far]), name="x")
    y = ow.empty((3,), dtype="int64", name="y")
    stmt = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=x, semiring=name)
    assert stmt.compile()().to_numpy().tolist() == [-4, far, 7]


CSR = ow.tensor(D2, format=ow.CSR, name="B")


@pytest.mark.parametrize("schedule", ["", "prefetch(X(j,k),j,4)"])
def test_rows_are_asked_for_within_a_strided_run(schedule: str) -> None:
    # Positions count from zero in each of its runs, and were clamped to how many there are in all.
    a = sparse.random(40, 30, 0.3, format="csr", random_state=1)
    X = ow.tensor(np.ones((30, 32)), name="X")
    A = ow.tensor(a, format=ow.SELL(2), name="A")
    stmt = ow.parse("Y(i,k) = A(i,j) * X(j,k)", A=A, X=X, Y=ow.empty((40, 32), name="Y"))
    kernel = stmt.schedule(schedule).compile() if schedule else stmt.compile()
    assert "A2_size" not in kernel.source and "_ahead" in kernel.source
    np.testing.assert_allclose(kernel().to_numpy(), a @ np.ones((30, 32)))


@pytest.mark.parametrize("schedule", ["", "stream(Y)", "parallelize(kk,CPUThread,NoRaces)"])
def test_what_lies_beyond_the_shape_stays_out_of_copies_in_another_order(schedule: str) -> None:
    # Rows of the copy had entries for all of a block, also where the mode has ended: each wrote
    # into the rows after it, and the last beyond the result.
    d = np.zeros((3, 6, 1))
    d[[0, 0, 0, 1, 2, 2], [0, 2, 5, 3, 1, 5], 0] = 4.0, -2.5, -2.5, 1.5, -4.0, 1.0
    levels = [ow.Hashed, ow.Dense, ow.Compressed, ow.Dense]
    D = ow.tensor(
        sparse.coo_array(d), format=ow.Format(levels, order=(0, 1, 2, 2), tiles=(0, 0, 3)), name="D"
    )
    # It stores k outside of j, so that D has to.
    blocks = ow.Format([ow.Compressed, ow.Compressed, ow.Dense], order=(0, 1, 0), tiles=(3, 0))
    E = ow.tensor(np.ones((1, 6)), format=blocks, name="E")
    Y = ow.empty((3, 1), dtype="complex128")
    stmt = ow.parse("Y(i,k) = sum(j, D(i,j,k) * E(k,j))", Y=Y, D=D, E=E)
    kernel = (stmt.schedule(schedule) if schedule else stmt).compile()
    assert kernel.explain().count("converted") == 1
    room = np.full(9, -1.0 + 0j)
    kernel(out=ow.tensor(room[3:6].reshape(3, 1)))
    assert np.array_equal(room[3:6], d.sum(axis=1).ravel())
    assert (room[:3] == -1.0).all() and (room[6:] == -1.0).all()


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    "strategy", ["", *(f"assemble({s})" for s in ("append", "count", "serial"))]
)
def test_rows_that_blocks_have_beyond_the_shape_are_closed(
    strategy: str, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where runs begin that nobody visits, was never written.
    monkeypatch.setattr(launch, "SERIAL_BELOW", -1)
    levels = [ow.Compressed, ow.Compressed, ow.Dense, ow.Compressed]
    b = np.arange(1.0, 36.0).reshape(5, 7) % 4
    Y = ow.empty((5, 7), format=ow.Format(levels, order=(0, 1, 0, 1), tiles=(3, 3)), name="Y")
    stmt = ow.parse("Y(i,j) = B(i,j) + 1", B=ow.tensor(b, name="B"), Y=Y)
    kernel = (stmt.schedule(strategy) if strategy else stmt).compile()
    ow.set_num_threads(threads)
    try:
        for _ in range(3):  # in memory that has been used
            assert np.array_equal(kernel().to_numpy(), b + 1)
    finally:
        ow.set_num_threads(None)


def test_fused_positions_of_blocks_that_reach_beyond_the_shape() -> None:
    """Tuples are numbered by what a block has within the shape, at both ends of a window."""
    numbers = np.random.default_rng(9)
    dense = np.where(numbers.random((5, 5)) < 0.7, numbers.integers(1, 9, (5, 5)), 0).astype(float)
    format = ow.Format([ow.Compressed] * 3, order=(1, 0, 1), tiles=(0, 2))
    D = ow.tensor(dense, name="D").to(format).rename("D")
    x = ow.tensor(np.arange(1.0, 6.0), name="x")
    stmt = ow.parse("Y(l) = sum(j, D(l,j) + x(l))", Y=ow.empty((5,), name="Y"), D=D, x=x)
    kernel = stmt.schedule("fuse(l,jj,f), pos(f,p,D(l,jb,jj)), split(p,a,b,1)").compile()
    ends = [line for line in kernel.source.splitlines() if "_from = A_crd2" in line]
    assert ends and all("_end" in line and "* 2" not in line for line in ends)  # else beyond rows
    expected = dense.sum(axis=1) + 5 * np.arange(1.0, 6.0)
    np.testing.assert_allclose(kernel().to_numpy(), expected)


@pytest.mark.parametrize("text", ["y += x", "y min= x", "y += x * x"])
def test_scalars_are_combined(text: str) -> None:
    """Operands of whole sums have levels."""
    x, y = ow.tensor(np.array(3.0), name="x"), ow.tensor(np.array(4.0), name="y")
    expected = {"y += x": 7.0, "y min= x": 3.0, "y += x * x": 13.0}
    assert ow.parse(text, x=x, y=y).compile()(out=y).to_numpy() == expected[text]
