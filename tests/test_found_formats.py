"""Formats under schedules that once gave a wrong answer, a crash or an internal error."""

from __future__ import annotations

from typing import Any

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


@pytest.mark.parametrize("schedule", ["fuse(k,i,f)", "fuse(k,i,f), pos(f,p,C(i,k))"])
def test_coordinates_that_need_a_parent_nobody_else_asks_for(schedule: str) -> None:
    C = ow.tensor(D2, format=ow.Format([ow.Range, ow.Range], order=(1, 0)), name="C")
    got = run("y(i) = sum(k, C(i,k))", schedule, y=ow.empty((4,), name="y"), C=C)
    assert np.array_equal(got, D2.sum(axis=1))


def test_a_loop_within_blocks_below_a_fused_one() -> None:
    levels = [ow.Compressed, ow.Compressed, ow.Lengths, ow.Compressed, ow.Range]
    C = ow.tensor(D3, format=ow.Format(levels, order=(0, 1, 2, 0, 2), tiles=(2, 0, 2)), name="C")
    schedule = (
        "precompute(C(kb,kk,i,jb,jj),[kk,jj],[kk,jj_5]), fuse(kb,i,kbi), "
        "precompute(w(kk,jj),jj,jjw), unroll(kbi,3)"
    )
    got = run("y(j) = C(k,i,j)", schedule, y=ow.empty((2,), name="y"), C=C)
    assert np.array_equal(got, D3.sum(axis=(0, 1)))


def test_blocks_taken_apart_store_no_more_than_before() -> None:
    nan = float("nan")
    A = ow.tensor(
        (np.array([[0, 3, 5]]), np.array([1.5, 2.0, -4.0])), shape=(6,), name="A",
        format=ow.Format([ow.Dense, ow.Compressed], order=(0, 0), tiles=(2,)),
    )  # fmt: skip
    B = ow.tensor(np.array([1.0, nan, nan, 1.0, nan, 1.0]), name="B")
    c = np.array([0.0, 3, 0, 0, 0, 2])
    C = ow.tensor(c, format=ow.Format([ow.Compressed]), name="C")
    y = ow.empty((6,), format=ow.Format([ow.Compressed]), name="y")
    got = run("y(i) = A(i) * B(i) + C(i)", y=y, A=A, B=B, C=C)
    assert np.array_equal(got, np.array([1.5, 3, 0, 2, 0, -2]))


def test_dense_operands_seen_through_blocks_have_positions_to_count() -> None:
    C = ow.tensor(D3, name="C")
    y = ow.empty((2, 3), format=ow.Format([ow.Lengths, ow.Sliced(2), ow.Compressed], (0, 1, 1),
                 tiles=(0, 3)), name="y")  # fmt: skip
    schedule = "pos(i,ip,C(jb,jj,i,k)), fuse(k,jb,kjb)"
    got = run("y(k,j) = sum(i, C(j,i,k))", schedule, y=y, C=C)
    assert np.array_equal(got, D3.sum(axis=1).T)


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


def test_a_pattern_that_is_not_walked_where_the_result_is_written() -> None:
    a = np.array([[0.0, 1, 0, 2], [3, 0, 0, 0], [0, 4, 1, 0]])
    b = D3[:2]
    A = ow.tensor(a, format=ow.CSR, name="A")
    B = ow.tensor(b, format=ow.Format([ow.Compressed, ow.Dense, ow.Dense]), name="B")
    y = ow.empty((3, 4), format=ow.CSR, name="y")
    got = run("y(i,j) = B(k,j,l) * A(i,j) + A(i,j)", "order(k,i,l,j)", y=y, A=A, B=B)
    assert np.array_equal(got, b.sum(axis=(0, 2)) * a + a)


def test_work_beside_an_operand_without_entries() -> None:
    d = D2 % 4
    C = ow.tensor(np.zeros(5), format=ow.Format([ow.Compressed]), name="C")
    D = ow.tensor(d, format=ow.DCSR, name="D")
    schedule = "pos(k,kp,C(k)), split(kp,kp0,kp1,16), precompute(C(k) * C(k),kp0,kp0)"
    got = run("y = C(k) * C(k) + D(l,k)", schedule, y=ow.empty((), name="y"), C=C, D=D)
    assert got == d.sum()


def test_a_workspace_over_positions_of_another_operand() -> None:
    A, B = ow.tensor(D2[:3, :3], format=ow.CSR, name="A"), ow.tensor(D2.T[:3, :3], name="B")
    schedule = "pos(j,jp,A(i,j)), precompute(B(j,i),jp,jpw)"
    got = run("y(j) = A(i,j) * B(j,i)", schedule, y=ow.empty((3,), name="y"), A=A, B=B)
    assert np.array_equal(got, (D2[:3, :3] * D2[:3, :3]).sum(axis=0))


@pytest.mark.parametrize("size", [2, 4, 5, 7])
def test_runs_of_one_in_runs_that_may_be_short(size: int) -> None:
    d = np.arange(size) + 1.0
    schedule = "divide(j,j0,j1,3), split(j1,j10,j11,1), fuse(j0,j10,f)"
    D, y = ow.tensor(d, name="D"), ow.empty((size,), format="Compressed(0)", name="y")
    assert np.array_equal(run("y(j) = D(j) - 1", schedule, y=y, D=D), d - 1)


def test_bounds_of_a_result_in_blocks() -> None:
    b, a = D2[:3, :4] + 1, D2[:4, :3]
    y = ow.empty((4, 4), name="y", format=ow.Format(
        [ow.Bitmap, ow.Compressed(unique=False), ow.Singleton], order=(0, 1, 0), tiles=(2, 0)
    ))  # fmt: skip
    A, B = ow.tensor(a, name="A"), ow.tensor(b, name="B")
    got = run("y(j,k) = B(i,k) * A(j,i) - B(i,k) * B(i,k)", y=y, A=A, B=B)
    assert np.array_equal(got, a @ b - (b * b).sum(axis=0))


CSR = ow.tensor(D2, format=ow.CSR, name="B")


@pytest.mark.parametrize(
    ("text", "schedule"),
    [
        # A bitmap cannot be searched for a part of a run.
        ("z(k) = sum(j, M(k,j))", "divide(k,k0,k1,2), divide(k1,a,b,2,balance=nnz)"),
        # Coordinates in no order cannot be merged with those of a workspace.
        ("y(i) = L(i) - L(i) * L(i)", "precompute(L(i) * L(i),i,iw)"),
        # Below which row positions lie is not known where nothing reads their operand.
        ("y(j) = sum(k, B(k,j))", "pos(j,jp,B(k,j)), precompute(B(k,j),[k,jp],[k_2,jp_2])"),
        # How far a run goes is not known outside of it.
        ("z(k) = sum(j, B(k,j))",
         "divide(k,k0,k1,2,balance=nnz), split(k1,a,b,2), reorder(a,k0,b)"),
    ],
)  # fmt: skip
def test_what_is_not_known_there_is_refused(text: str, schedule: str) -> None:
    y, z = ow.empty((5,), name="y"), ow.empty((4,), name="z")
    M = ow.tensor(D2, format=ow.Format([ow.Bitmap, ow.Compressed]), name="M")
    levels, values = [([0, 2], [3, 1])], np.array([2.0, 5])
    L = ow.from_arrays(ow.Format([ow.Compressed(ordered=False)]), (5,), levels, values, name="L")
    known = {"y": y, "z": z, "B": CSR, "M": M, "L": L}
    tensors = {n: t for n, t in known.items() if f"{n}(" in text}
    with pytest.raises(ow.ScheduleError):
        ow.parse(text, **tensors).schedule(schedule)


@pytest.mark.parametrize(
    "schedule",
    [
        "precompute(A(j) * 3,p,p)",
        "precompute(A(j) * 3,p,pw)",
        "precompute(A(j) * 3,p,p), precompute(A(j) * 3,p,pw)",
        "split(p,p0,p1,2), precompute(A(j) * 3,p1,p1w)",
    ],
)
@pytest.mark.parametrize("kind", [ow.Sliced(2), ow.Padded])
def test_workspaces_over_positions_of_strided_runs(schedule: str, kind: Any) -> None:
    a = np.array([1, 0, 3, 0, 5], "int8")
    A = ow.tensor(a, format=ow.Format([kind]), name="A")
    stmt = ow.parse("Y(j) = A(j) * 3", A=A, Y=ow.empty((5,), dtype="int8", name="Y"))
    made = stmt.schedule(f"pos(j,p,A(j)), {schedule}").compile()()
    np.testing.assert_array_equal(made.to_numpy(), a * 3)


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


def test_positions_of_rows_in_another_order_are_found_by_their_coordinates() -> None:
    b, a = np.array([0.0, 2.0, 0.0, 3.0, 1.0, 0.0, 4.0]), np.arange(7.0)
    B = ow.tensor(b, format=ow.Format([ow.Permuted(3)]), name="B")
    stmt = ow.parse("Y(i) = B(i) * A(i)", B=B, A=ow.tensor(a, name="A"), Y=ow.empty((7,), name="Y"))
    text = "divide(i,i0,i1,5), pos(i1,p,B(i)), precompute(A(i),p,pw), divide(p,p0,p1,5)"
    np.testing.assert_array_equal(stmt.schedule(text).compile()().to_numpy(), a * b)


@pytest.mark.parametrize("schedule", ["fuse(k,l,kl)", "pos(m,p,A(l,m,k)), fuse(k,l,kl), stream(Y)"])
def test_pairs_that_a_list_has_more_than_once_are_not_walked_as_they_come(schedule: str) -> None:
    # Each of them was taken for all there is of its row.
    a = np.arange(1.0, 13.0).reshape(2, 3, 2)
    A = ow.tensor(a, format=ow.COO(3, order=(2, 0, 1)), name="A")
    stmt = ow.parse("Y(k,l) = A(l,m,k) * A(l,m,k)", A=A, Y=ow.empty((2, 2), name="Y"))
    made = stmt.schedule(schedule).compile()()
    np.testing.assert_array_equal(made.to_numpy(), (a * a).sum(axis=1).T)


@pytest.mark.parametrize("text", ["y(i) = b(j) * A(j) * b(i)", "y(i) = b(i) * A(j) * b(j)"])
def test_a_vector_seen_in_blocks_and_as_it_is(text: str) -> None:
    a, b = np.array([1.0, 0, 2, 0, 3]), np.arange(1.0, 6)
    blocks = ow.Format([ow.Compressed(unique=False), ow.Singleton], order=(0, 0), tiles=(3,))
    tensors = {"A": ow.tensor(a, format=blocks), "b": ow.tensor(b), "y": ow.empty((5,))}
    assert np.array_equal(run(text, **tensors), (a @ b) * b)


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
    stmt = ow.parse("Y(i,k) = sum(j, D(i,j,k))", Y=ow.empty((3, 1), dtype="complex128"), D=D)
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


def test_rows_that_turn_out_to_be_left_out_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    # That a level has gaps is known after some of its rows were closed.
    monkeypatch.setattr(launch, "SERIAL_BELOW", -1)
    rng = np.random.default_rng(4)
    a, c, d = (rng.integers(0, 2, (3,) * n).astype(float) for n in (2, 2, 4))
    levels = [ow.Compressed, ow.Dense, ow.Compressed, ow.Compressed]
    Y = ow.empty((3,) * 4, format=ow.Format(levels, order=(2, 1, 0, 3)), name="Y")
    A, C = ow.tensor(a, format=ow.DCSR, name="A"), ow.tensor(c, name="C")
    levels = [ow.Compressed, ow.Dense, ow.Dense, ow.Compressed]
    D = ow.tensor(d, format=ow.Format(levels, order=(3, 1, 2, 0)), name="D")
    got = run(
        "Y(k,j,m,i) = A(m,m) + j * D(j,k,m,i) * C(k,i)", "assemble(append)", Y=Y, A=A, C=C, D=D
    )
    expected = np.einsum("j,jkmi,ki->kjmi", np.arange(3), d, c) + np.diag(a)[None, None, :, None]
    assert np.array_equal(got, expected)


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
