"""Schedules that once gave a wrong answer or an internal error: random ones found them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.random.test_property import several_threads

import openwork as ow
from openwork.errors import ScheduleError

__all__ = ["several_threads"]  # the fixture


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
    with pytest.raises(ScheduleError, match="f merges A in order, but"):
        stmt.schedule("precompute(min(A(i,j), A(i,j)),f,fw)")


def test_factors_leave_a_sum_only_by_default() -> None:
    """The literal sum has inf * 0 among its terms, and is NaN; inf * (0 + 1) is not."""
    S = ow.tensor(np.array([[np.inf]]), format=ow.CSR, name="S")
    U = ow.tensor(np.array([[0.0, 1.0]]), name="U")
    C = ow.empty((1, 1), format=ow.CSR)
    stmt = ow.parse("C(i,j) = S(i,j) * U(i,k) * U(j,k)", S=S, U=U, C=C)
    assert np.isinf(stmt.compile()().to_numpy()).all()
    assert np.isnan(stmt.order("i", "j", "k").compile()().to_numpy()).all()
