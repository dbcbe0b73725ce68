"""Windows and constants over listed coordinates: what lies before and behind is not walked."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import openwork as ow

DENSE = np.where(np.random.default_rng(5).random((23, 23)) < 0.3, 1.0, 0) * np.arange(1, 24)
CASES: dict[str, Any] = {
    "y(i) = A(i, j(5,12))": DENSE[:, 5:12].sum(1),
    "y(i) = A(i(2,5), j)": DENSE[2:5].sum(1),
    "y(i) = A(i, 3)": DENSE[:, 3],
    "y(j) = A(3, j)": DENSE[3],
    "s = A(3, 4)": DENSE[3, 4],
    "B(i,j) = A(i(2,20,3), j(4,15))": DENSE[2:20:3, 4:15],
    "y(i) = A(i,3) + A(3,i)": DENSE[:, 3] + DENSE[3],
    "y(i) = A(i,3) * A(i,j(2,9))": DENSE[:, 3] * DENSE[:, 2:9].sum(1),
    "y(i) = max(j, A(i,j(5,12)))": DENSE[:, 5:12].max(1),
    "s = A(i(0,1), j(22,23))": DENSE[0, 22],
}
FORMATS = ["CSR", "CSC", "DCSR", "DCSC", "COO(2)", "BSR(2,2)", "ELL", "LIL", "DIA", "dense(2)"]


@pytest.mark.needs_cc
@pytest.mark.parametrize("format", FORMATS)
def test_they_are_as_in_numpy(format: str) -> None:
    A = ow.tensor(DENSE, name="A").to(format)
    for text, expected in CASES.items():
        made = ow.compute(text, A=A)
        np.testing.assert_array_equal(made.to_numpy(), expected, err_msg=text)


def source(text: str, format: str) -> str:
    """The kernel's own code, without what it calls."""
    A = ow.tensor(DENSE, name="A").to(format)
    made = ow.parse(text, A=A).compile().source
    return made[made.index("kernel(void") :]


@pytest.mark.parametrize(
    ("format", "text"),
    [("CSR", "y(i) = A(i, 3)"), ("DCSR", "y(j) = A(3, j)"), ("CSC", "y(j) = A(3, j)")],
)
def test_a_constant_is_searched_for(format: str, text: str) -> None:
    made = source(text, format)
    assert re.search(r"search_int32\(B_crd\d, .*, 3\);", made) and "in order" not in made


def test_a_dense_mode_is_not_searched() -> None:
    for format, text in [("CSR", "y(j) = A(3, j)"), ("CSC", "y(i) = A(i, 3)")]:
        made = source(text, format)
        assert "search" not in made and "lower_bound" not in made and "_pos2[3]" in made


def test_entries_of_a_row_that_is_found_are_counted_once() -> None:
    made = source("y(j) = A(3, j)", "COO(2)")
    assert not re.search(r"for \([^;]*;[^;]*lower_bound", made)


@pytest.mark.needs_cc
def test_what_an_absent_row_is_subtracted_from() -> None:
    """A window of one row was taken for the only row that counts, and the difference was lost."""
    given = {
        "T0": ow.tensor(
            np.array([[6], [-3], [3], [0]]),
            format="Lengths(1/3), Compressed(bits=8)(0), Bitmap(1%3)",
        ),
        "T1": ow.tensor(np.array([0, 5, 5, 2, 0]), format="Range(0)"),
        "R2": ow.tensor(np.array([4])),
        "T3": ow.tensor(np.zeros(4, "int64")),
        "T4": ow.tensor(np.array([[-1, 5, 6]])),
    }
    text = "Y(j) = sum(i, T0(i(2,3),i) & ((T1(R2(i)) * T3(2)) - T4(i,j)))"
    made = ow.parse(text, **given, Y=ow.empty(3, dtype="int64")).compile()()
    np.testing.assert_array_equal(made.to_numpy(), [1, 3, 2])
