"""Schedules that once gave a wrong answer or an internal error: random ones found them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.test_property import Batch, answer, case_of, compare, several_threads, statement_of

import openwork as ow
from openwork.errors import ScheduleError

__all__ = ["several_threads"]  # the fixture

# What was wrong, the statement by its seed, and the schedule.
FOUND = [
    ("a workspace over some of the runs of runs", 81071664,
     "unroll(i), divide(i,i0,i1,2), divide(i1,i10,i11,3), order(i11,i0,i10), "
     "precompute(A(i),[i0,i11],[i0w,i11w])"),
    ("a position split within a coordinate split", 17,
     "pos(k,kp,A(k,l)), split(l,l0,l1,7), divide(l0,l00,l01,3), pos(l1,l1p,A(k,l))"),
    ("the loops of a workspace under a stride", 146,
     "precompute(tanh(D(i)),i,iw), divide(iw,iw0,iw1,3), reorder(iw1,iw0), fuse(iw1,iw0,f)"),
    ("runs of runs of positions", 184,
     "pos(j,jp,C(j)), divide(jp,jp0,jp1,2), divide(jp1,jp10,jp11,3)"),
    ("a diagonal below a fused level", 488, "fuse(j,k,jk)"),
    ("a workspace that was not cleared", 1344, "precompute(A(i),i,iw)"),
    ("strided runs of an uneven division", 1683,
     "divide(m,m0,m1,5,balance=nnz), divide(m1,m10,m11,5), reorder(m11,m10,k), unroll(i)"),
    ("a full level below a tracked one", 3337,
     "fuse(l,k,lk), pos(i,ip,C(l,i,k)), divide(ip,ip0,ip1,3,balance=nnz)"),
    ("a run that is not complete though one is its factor", 5812,
     "pos(i,ip,B(i)), split(ip,ip0,ip1,1), divide(ip0,ip00,ip01,5)"),
    ("an operand that is absent, but walked", 10608,
     "divide(j,j0,j1,2), pos(j1,j1p,B(j,k,m)), divide(j1p,j1p0,j1p1,5)"),
    ("no run for an operand without entries", 20461,
     "pos(i,ip,C(i)), divide(ip,ip0,ip1,3), split(ip1,ip10,ip11,2)"),
    ("strided coordinates of positions", 21176,
     "pos(i,ip,B(i)), coord(ip,ipc), divide(ipc,ipc0,ipc1,1), reorder(ipc1,ipc0)"),
    ("three operands of which two meet", 21761, "fuse(i,k,ik)"),
    ("vector lanes that would share a workspace", 21822,
     "parallelize(j,CPUThread,Temporary), parallelize(i,CPUVector,Temporary), "
     "parallelize(k,CPUVector,Temporary), precompute(A(j,i,k),k,kw)"),
    ("tiles of columns within a stretch of pairs", 33635,
     "fuse(j,i,ji), split(ji,ji0,ji1,3), fuse(ji0,ji1,f), precompute(B(j,i),f,fw)"),
    ("rows of a sparse result that no run visits", 104102,
     "fuse(l,i,li), split(li,li0,li1,2)"),
    ("threads over the places in a run, outside of the runs", 500188,
     "split(k,k0,k1,16), parallelize(k1,CPUThread,Temporary), reorder(k1,k0), split(k0,a,b,3)"),
    ("clones of a vector loop that share a workspace", 5010208,
     "assemble(append), divide(k,k0,k1,5), parallelize(k0,CPUVector,ParallelReduction), "
     "bound(i,i_a,0,MinExact), "
     "precompute(imag(min(select(D, C(k,i,j), A(k,j)), B(k,j,i) * A(k,j))),k1,k1w)"),
    ("parents of positions where a mode is empty", 5010068,
     "fuse(i,k,ik), divide(l,l0,l1,3), fuse(ik,j,ikj), pos(l1,l1p,A(i,k,j,l))"),
    ("what was known before a run was", 300194,
     "split(j,j0,j1,3), divide(j1,j10,j11,3), fuse(j0,j10,f), split(j11,j110,j111,1)"),
    ("what of two variables is absent where both are", 2004088,
     "precompute(max(B(k), min(A(j), A(j))),[j,k],[jw,kw])"),
    ("what of one variable is absent where another is", 2004088,
     "precompute(max(B(k), min(A(j), A(j))),k,kw)"),
    ("an operand beside a workspace over its positions", 2006391,
     "split(i,i0,i1,5), pos(i1,i1p,A(i)), precompute(A(i) * A(i) * A(i),i1p,i1pw), coord(i1p,c)"),
    ("runs of positions that a workspace is indexed by", 2009639,
     "pos(i,ip,A(i)), precompute(A(i) * i,ip,ipw), split(ip,ip0,ip1,4)"),
    ("what is absent together with another operand", 6001746, "precompute(C(l),[l,m],[l,mw])"),
    ("sums taken before a result has its pattern", 6002961, "order(j,i)"),
    ("sums taken before positions are counted", 6001937, "order(j,i), pos(i,ip,C(i,j))"),
    ("a workspace of a workspace that has another identity", 2018904,
     "split(m,m0,m1,2), fuse(k,i,ki), precompute(C(i,n,m,k),m0,a), precompute(w(m0),m0,b)"),
    ("what is absent together with two others", 2018326,
     "precompute(B(i,k),i,iw), precompute(C(i,k),i,iw_2)"),
    ("coordinates of no run of positions at all", 8003647,
     "pos(n,np,B(n)), split(np,np0,np1,7), coord(np1,c), "
     "precompute(min(min_plus.mul(B(n), A), min_plus.mul(min_plus.mul(B(n), A), B(n))),c,cw)"),
    ("a sum of what is no product, factored by default", 9001891, ""),
    ("a sum divided by zero, in place of a sum of infinite terms", 2008303,
     "precompute(3 * B(j,i),i,iw)"),
]  # fmt: skip
REFUSED = [
    ("a row of a sparse result left and entered again", 130, "fuse(i,j,f), split(f,f0,f1,1)"),
    ("a sparse result in strides", 20230,
     "split(i,i0,i1,3), divide(i0,i00,i01,3), divide(i00,a,b,1), reorder(i1,i01,b)"),
    ("a list of keys that threads would write at once", 4012,
     "precompute(B(k,j,l),l,lw), split(lw,lw0,lw1,1), fuse(k,j,f), "
     "parallelize(lw0,CPUThread,ParallelReduction)"),
    ("a workspace that loses which keys there are", 102134,
     "precompute(B(k),k,kw), precompute(B(k),kw,kww)"),
    ("a fused workspace that loses which pairs there are", 2004088,
     "fuse(j,k,jk), precompute(max(B(k), min(A(j), A(j))),jk,jkw)"),
    ("numbers of runs taken for positions", 2014850,
     "divide(i,i0,i1,5,balance=nnz), divide(i0,i00,i01,3,balance=nnz)"),
    ("positions of runs of runs of pairs", 2021070,
     "fuse(i,k,f), precompute(B(i),f,w), split(w,w0,w1,1), split(w1,a,b,7), pos(b,p,A(i,k))"),
    ("runs of coordinates of a workspace over positions", 2006391,
     "pos(i,ip,A(i)), precompute(A(i) * A(i) * A(i),ip,ipw), coord(ip,c), split(c,c0,c1,2)"),
]  # fmt: skip


@pytest.mark.needs_cc
@pytest.mark.usefixtures("several_threads")
@pytest.mark.parametrize(("name", "seed", "schedule"), FOUND, ids=[f[0] for f in FOUND])
def test_what_was_wrong_is_right(name: str, seed: int, schedule: str) -> None:
    case = case_of(seed, unusual=False)
    stmt = statement_of(case).schedule(schedule)
    assert statement_of(case).schedule(stmt.commands).loops == stmt.loops  # text reads back
    result = answer(stmt.compile(loader=Batch()))
    assert not isinstance(result, Exception), f"{case.text}: {result!r}"
    compare(case, result)


@pytest.mark.parametrize(("name", "seed", "schedule"), REFUSED, ids=[r[0] for r in REFUSED])
def test_what_cannot_be_is_refused(name: str, seed: int, schedule: str) -> None:
    with pytest.raises(ScheduleError):
        statement_of(case_of(seed, unusual=False)).schedule(schedule)


def test_a_function_of_written_numbers_is_a_written_number() -> None:
    # Where C has no entry, so has `(C - 1) * imag(1.0)`, which is 0 there: nothing is computed, and
    # D / 0 does not turn the product into NaN.
    D = ow.tensor(np.array([0.0, 3.0]), format=ow.CSF(1), name="D")
    C = ow.tensor(np.array([[0.0, 0.0], [0.0, -2.0]]), format=ow.CSR, name="C")
    for zero in ("imag(1.0)", "0.0", "float64(imag(1.0))"):
        text = f"Y(i,k) = (D(i) / C(i,k)) * ((-1 + C(i,k)) * {zero})"
        found = ow.parse(text, D=D, C=C, Y=ow.empty((2, 2))).compile()()
        np.testing.assert_array_equal(found.to_numpy(), np.zeros((2, 2)))


def test_a_sum_over_nothing_is_a_number_where_no_entry_can_be_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENWORK_CHECK", "1")  # with the reference's answer
    A, C = (ow.tensor(np.zeros(shape), name=name) for name, shape in (("A", 0), ("C", (2, 0))))
    D = ow.tensor(np.array([0.0, 3.0]), format=ow.CSF(1), name="D")
    text = "Y(i) = max(j, A(j)) * (D(i) + sum(j, C(i,j)))"
    stmt = ow.parse(text, A=A, C=C, D=D, Y=ow.empty((2,)))
    np.testing.assert_array_equal(stmt.compile()().to_numpy(), [np.nan, -np.inf])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Y = sum(i, B(i) / A(i)) * min(i, sqrt(abs(B(i))))", np.nan),  # B is there, 0 / 0 is NaN
        ("Y = sum(i, B(i) * A(i)) * min(i, sqrt(abs(B(i))))", 0.0),
        ("Y = (sum(i, B(i) / A(i)) + sum(i, B(i) * A(i))) * min(i, B(i))", np.nan),
    ],
)
def test_a_sum_over_nothing_of_what_is_there_without_entries(text: str, expected: float) -> None:
    B = ow.tensor(np.zeros(0), name="B")
    A = ow.tensor(np.zeros(0), format="Compressed", name="A")
    stmt = ow.parse(text, A=A, B=B, Y=ow.empty(()))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENWORK_CHECK", "1")  # with the reference's answer
        np.testing.assert_array_equal(stmt.compile()().to_numpy(), expected)


@pytest.mark.parametrize("c_format", [ow.DCSR, ow.dense(2), ow.Format([ow.Compressed, ow.Dense])])
@pytest.mark.parametrize(
    "inner", [[ow.Compressed] * 2, [ow.Dense] * 2, [ow.Dense, ow.Compressed]], ids=str
)
def test_a_workspace_over_positions_of_what_its_values_do_not_need(
    inner: list[ow.Level], c_format: ow.Format
) -> None:
    # `C >= B` is there without B, but the workspace has places for positions of B alone.
    c = np.array([[0, 1.0], [0, 0], [2, 0], [0, 3], [0, 0]])
    b = np.arange(30).reshape(3, 2, 5) % 4 - 1.0
    b[1] = 0
    B = ow.tensor(b, format=ow.Format([ow.Compressed, *inner]), name="B")
    C = ow.tensor(c, format=c_format, name="C")
    text = "Y = j ** 1 * (C(j,i) >= B(l,i,j)) * B(l,i,j) ** 3"
    stmt = ow.parse(text, B=B, C=C, Y=ow.empty((), name="Y")).schedule(
        "pos(l,lp,B(l,i,j)), precompute(j ** 1 * (C(j,i) >= B(l,i,j)),[i,j,lp],[iw,jw,lw])"
    )
    expected = (np.arange(5) * (b <= c.T) * b**3).sum()
    np.testing.assert_allclose(stmt.compile()().to_numpy(), expected)


def test_a_written_branch_that_an_absent_condition_picks_is_absent() -> None:
    """Whether the other branch has an entry cannot matter."""
    b, c = np.array([0.0, 0, 2, 0]), np.array([0.0, 3, 5, 0])
    B, C = (ow.tensor(x, format="Compressed") for x in (b, c))
    y = ow.parse("y(i) = select(1 >= B(i), 0, C(i)) / B(i)", B=B, C=C, y=ow.empty((4,)))
    assert np.array_equal(y.compile()().to_numpy(), [0, 0, 2.5, 0])


@pytest.mark.parametrize("count", [0, 2])
@pytest.mark.parametrize(
    "text",
    [
        "precompute(A(i,k) / A(i,k),k,kw)",
        "precompute(A(i,k) / A(i,k),k,kw), precompute(w1(k),k,kw2)",
        "precompute(A(i,k) / A(i,k),[i,k],[iw,kw])",
    ],
)
def test_a_sum_of_nothing_stays_absent_through_a_workspace(text: str, count: int) -> None:
    """A dense workspace has an entry everywhere, so that 0 / 0 was computed."""
    entries = np.array([range(count)] * 2, int).reshape(2, count), np.ones(count)
    A = ow.tensor(entries, shape=(3, 3), format=ow.CSR)
    B = ow.tensor(np.zeros(3), format=ow.Format([ow.Compressed]))
    stmt = ow.parse("Y = (B(j) - A(i,k) / A(i,k)) / B(j)", Y=ow.empty(()), A=A, B=B)
    plain = stmt.compile()().to_numpy()
    np.testing.assert_array_equal(stmt.schedule(text).compile()().to_numpy(), plain)
    assert (plain == 0) == (count == 0)


@pytest.mark.parametrize("levels", [[ow.Dense], [ow.Hashed]])
def test_coordinates_in_no_order_are_not_merged_by_a_fused_loop_either(levels: list[Any]) -> None:
    """Only entries that happened to come in order met their places in the workspace."""
    rows = [np.array([0, 2]), np.array([0, 1])] if levels == [ow.Hashed] else ()
    runs = np.array([0, 3, 6]), np.array([2, 1, 0, 2, 1, 0])
    format = ow.Format([*levels, ow.Compressed(ordered=False)])
    A = ow.from_arrays(format, (2, 3), [rows, runs], np.arange(6.0), name="A")
    stmt = ow.parse("y(j) = sum(i, A(i,j) + min(A(i,j), A(i,j)))", A=A, y=ow.empty(3)).fuse(
        "i", "j", "f"
    )
    np.testing.assert_array_equal(stmt.compile()().to_numpy(), [14, 10, 6])
    with pytest.raises(ScheduleError, match="f walks A in order, but"):
        stmt.schedule("precompute(min(A(i,j), A(i,j)),f,fw)")
