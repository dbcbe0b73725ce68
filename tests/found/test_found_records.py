"""Statements over records that once gave a wrong answer or an internal error."""

from __future__ import annotations

import numpy as np
import pytest
from tests.random.entries import PATH

import openwork as ow
from openwork.algebra.entries import Entry

pytestmark = pytest.mark.usefixtures("compared_with_the_reference")

entry = ow.entry


def sparse(kind: Entry, shape: tuple[int, ...], name: str, fill: float = 0) -> ow.Tensor:
    """Every other element is stored."""
    coords = np.indices(shape).reshape(len(shape), -1)[:, ::2]
    values = np.arange(coords.shape[1] * kind.size, dtype=float) % 5
    records = values.reshape(coords.shape[1], *kind.shape)
    format = ow.CSF(len(shape))
    return ow.tensor(
        (coords, records), shape=shape, dtype=kind, format=format, fill=fill, name=name
    )


@pytest.mark.needs_cc
@pytest.mark.parametrize("condition", ["A(i) == B(i)", "A(i) != B(i)"])
def test_a_branch_of_records_picked_by_an_absent_condition(condition: str) -> None:
    kind = entry.complex()
    A, B = sparse(kind, (5,), "A"), sparse(kind, (5,), "B")
    y = ow.empty(5, dtype=kind, name="y")
    ow.parse(f"y(i) = select({condition}, A(i), A(i) * B(i))", A=A, B=B, y=y).compile()()


@pytest.mark.needs_cc
def test_a_sum_of_records_that_may_be_absent() -> None:
    """It began with a number."""
    A, B = sparse(entry.block(2, 2), (3,), "A"), sparse(entry.vector(2), (3,), "B")
    y = ow.empty((), dtype=entry.vector(2), name="y")
    ow.parse("y = (A(i) * A(i) - conj(A(i))) * sum(i, B(i) - B(i))", y=y, A=A, B=B).compile()()


@pytest.mark.needs_cc
@pytest.mark.parametrize("text", ["y(i) = A(i) * b(i)", "y(i) = b(i) * A(i)"])
def test_one_times_a_number_is_a_record(text: str) -> None:
    """Where the quaternion is absent and one, the product was the number in every component."""
    Q = entry.quaternion()
    A = sparse(Q, (4,), "A", fill=1)
    b = ow.tensor(np.arange(1.0, 5.0), name="b")
    made = ow.parse(text, y=ow.empty(4, dtype=Q, name="y"), A=A, b=b).compile()()
    np.testing.assert_array_equal(made.to_numpy()[1], [2, 0, 0, 0])


@pytest.mark.needs_cc
@pytest.mark.parametrize("schedule", ["", "split(i,i0,i1,2)"])
def test_the_zero_of_a_users_type_is_not_that_of_memory(schedule: str) -> None:
    A, y = sparse(PATH, (3, 2), "A"), ow.empty(2, dtype=PATH, name="y")
    made = ow.parse("y(j) = A(i,j)", y=y, A=A).schedule(schedule).compile()()
    assert np.isinf(made.to_numpy()[1]).all()


def test_the_type_of_a_tensor_of_numbers_is_not_weak() -> None:
    """NumPy says that its float64 equals Python's float, which has the precision beside it."""
    q = ow.tensor(np.ones((2, 4)), dtype=entry.quaternion("float32"), name="q")
    wide = ow.tensor(np.ones(2), name="wide")
    assert (wide * q).dtype == entry.quaternion("float64")
    assert (q * 2.5).dtype == entry.quaternion("float32")


@pytest.mark.needs_cc
def test_absent_elements_that_are_a_users_one() -> None:
    A, B = sparse(PATH, (4,), "A", fill=1), sparse(PATH, (4,), "B", fill=1)
    y = ow.empty(4, dtype=PATH, name="y")
    made = ow.parse("y(i) = A(i) * B(i) + A(i)", y=y, A=A, B=B).compile()()
    np.testing.assert_array_equal(made.to_numpy()[1], [0, 0])


@pytest.mark.needs_cc
def test_a_sum_of_vectors_over_nothing() -> None:
    kind = entry.vector(2)
    A, B = ow.tensor(np.ones((3, 0, 2)), dtype=kind, name="A"), sparse(kind, (3,), "B")
    y = ow.empty(3, dtype=kind, name="y")
    ow.parse("y(i) = sum(j, A(i,j)) + B(i)", y=y, A=A, B=B).compile()()


def test_products_that_do_not_commute_are_not_reduced() -> None:
    """A reordered or parallel loop would have multiplied in another order."""
    A = sparse(entry.quaternion(), (3, 4), "A")
    y = ow.empty(3, dtype=entry.quaternion(), name="y")
    with pytest.raises(ow.ParseError, match="E111: mul of quaternion<float64> depends on the ord"):
        ow.parse("y(i) = prod(j, A(i,j))", y=y, A=A)


@pytest.mark.parametrize("text", ["A(i) / 2", "2 * A(i)", "-A(i)"])
def test_what_is_not_added_by_fields_has_no_multiples(text: str) -> None:
    A, y = sparse(PATH, (3,), "A"), ow.empty(3, dtype=PATH, name="y")
    with pytest.raises(ow.ParseError, match="E108"):
        ow.parse(f"y(i) = {text}", y=y, A=A)


@pytest.mark.needs_cc
def test_a_dot_product_with_a_permuted_vector() -> None:
    """Vectors were loaded from where the first lane is, and could reach beyond the array."""
    rng = np.random.default_rng(0)
    kept = rng.permutation(40).astype(np.int32)
    x, dense = np.arange(1.0, 41.0), ow.tensor(rng.integers(0, 5, 40) / 2, name="x")
    format = ow.Format([ow.Permuted(3)])
    levels = [{"rank": np.argsort(kept).astype(np.int32), "kept": kept}]
    A = ow.from_arrays(format, (40,), levels, x[kept], name="A")
    np.testing.assert_array_equal(A.to_numpy(), x)
    made = ow.parse("s = A(i) * x(i)", s=ow.empty((), name="s"), A=A, x=dense).compile()()
    assert made.item() == x @ dense.to_numpy()
