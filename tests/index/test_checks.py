"""What is refused before anything is compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from openwork.algebra import operators as ops
from openwork.algebra.types import as_dtype
from openwork.errors import ParseError, ShapeError, UserError
from openwork.format.formats import CSR, dense
from openwork.index.build import access, indices, under
from openwork.index.checks import MAX_DEPTH, check, extents
from openwork.index.einstein import explicit
from openwork.index.nodes import Assignment, TensorVar
from openwork.index.parse import parse_assignment
from openwork.index.terms import Term
from openwork.tensor.statement import assign

Read = Callable[[str], Assignment]
i, j = indices("i j")


def assigned(lhs: Term, rhs: object, op: ops.Op | None = None) -> Assignment:
    return assign(lhs, rhs, op).assignment


def vector(name: str, size: int | None, dtype: str = "float64", source: object = None) -> TensorVar:
    return TensorVar(name, dense(1), as_dtype(dtype), shape=(size,), source=source)


def matrix(name: str, *shape: int | None) -> TensorVar:
    return TensorVar(name, CSR, as_dtype("float64"), shape=shape)


def statement(text: str, *tensors: TensorVar) -> Assignment:
    return parse_assignment(text, {t.name: t for t in tensors})


def refused(assignment: Assignment) -> UserError:
    with pytest.raises(UserError) as caught:
        check(assignment)
    return caught.value


@pytest.mark.parametrize(
    "text",
    [
        "y(i) = A(i,j) * x(j)",
        "y(i) += A(i,j) * x(j) + z(i)",
        "C(i,j) = x(i) + z(j)",
        "C(i,j) = A(i,k) * A(k,j)",
        "y(i) = x(i) + x(i)",
        "s = 2",
        "y(i) = i",
        "y(i) = A(i,i)",
        "y(i) min= min(j, F(i,j))",
        "C(i,j) = A(i,j) * (i * 5 + j)",
        "y(i) = m(i)",
        "f(i) = x(i)",
        "n(i) = k64(i)",
        "U(i) = 3",
        "y(i) = 2 ** 3",
    ],
)
def test_sound_statements_come_back(text: str, read: Read) -> None:
    assignment = read(text)
    assert check(assignment) is assignment
    check(explicit(assignment))


# Extents.


def test_extents_of_all_variables() -> None:
    known = extents(
        statement("y(i) = A(i,j) * x(j)", vector("y", 3), matrix("A", 3, 4), vector("x", 4))
    )
    assert known == {i.node: 3, j.node: 4}


def test_unknown_extents_wait_for_data() -> None:
    tensors = vector("y", None), matrix("A", None, None), vector("x", 4)
    assignment = statement("y(i) = A(i,j) * x(j)", *tensors)
    assert extents(check(assignment)) == {i.node: None, j.node: 4}


def test_zero_is_an_extent() -> None:
    assignment = statement("y(i) = A(i,j)", vector("y", 3), matrix("A", 3, 0))
    assert extents(check(assignment)) == {i.node: 3, j.node: 0}
    clash = statement("y(i) = A(i,j) * x(j)", vector("y", 3), matrix("A", 3, 0), vector("x", 4))
    assert refused(clash).code == "E201"


def test_extents_that_disagree() -> None:
    tensors = vector("y", 5), matrix("A", 3, 4), vector("x", 6)
    error = refused(statement("y(i) = A(i,j) * x(j)", *tensors))
    assert isinstance(error, ShapeError)
    assert str(error) == (
        "E201: i has extent 5 in mode 0 of y, but 3 in mode 0 of A\n"
        "  y(i) = A(i,j) * x(j)\n"
        "         ^^^^^^\n"
        "  hint: y has shape (5,), A has shape (3, 4)\n"
        "E201: j has extent 4 in mode 1 of A, but 6 in mode 0 of x\n"
        "  y(i) = A(i,j) * x(j)\n"
        "                  ^^^^\n"
        "  hint: A has shape (3, 4), x has shape (6,)"
    )


def test_a_diagonal_needs_a_square() -> None:
    error = refused(statement("y(i) = A(i,i)", vector("y", None), matrix("A", 3, 4)))
    assert error.message == "i has extent 3 in mode 0 of A, but 4 in mode 1 of A"
    assert error.hint == "A has shape (3, 4)"


def test_the_same_variable_in_two_sums_has_one_extent() -> None:
    tensors = vector("y", 3), matrix("A", 3, 4), matrix("B", 3, 5)
    assert refused(statement("y(i) = A(i,j) + B(i,j)", *tensors)).code == "E201"


def test_a_variable_that_indexes_nothing() -> None:
    error = refused(statement("y(i) = x(i) * k", vector("y", 3), vector("x", 3)))
    assert str(error) == (
        "E106: nothing gives k an extent: it indexes no tensor\n"
        "  y(i) = x(i) * k\n"
        "  ^^^^^^^^^^^^^^^\n"
        "  hint: index a tensor with k, or, if k is a scalar, pass it as a tensor"
    )
    assert refused(statement("y(i) = sum(k, x(i))", vector("y", 3), vector("x", 3))).code == "E106"


def test_a_result_without_a_shape() -> None:
    error = refused(statement("A(i,j) = x(i)", matrix("A", None, None), vector("x", 3)))
    assert str(error) == (
        "E106: nothing gives j an extent: only A(i,j) is indexed by it\n"
        "  A(i,j) = x(i)\n"
        "  ^^^^^^\n"
        "  hint: give A a shape"
    )


# The result.


def test_the_result_is_not_read() -> None:
    error = refused(statement("y(i) = y(i) + 1", vector("y", 3)))
    assert isinstance(error, ParseError)
    assert str(error) == (
        "E107: y is read on the right, but it holds the result\n"
        "  y(i) = y(i) + 1\n"
        "         ^^^^\n"
        "  hint: write y(i) += ... to add to it, or assign to a second tensor"
    )


def test_the_same_data_under_another_name_is_not_read_either() -> None:
    data = object()
    tensors = vector("y", 3, source=data), vector("x", 3, source=data)
    assert refused(statement("y(i) = 2 * x(i)", *tensors)).code == "E107"


def test_a_result_with_a_repeated_variable() -> None:
    error = refused(statement("A(i,i) = x(i)", matrix("A", 3, 3), vector("x", 3)))
    assert str(error) == (
        "E107: the result A(i,i) uses i twice\n"
        "  A(i,i) = x(i)\n"
        "  ^^^^^^\n"
        "  hint: use a different variable for each mode of the result"
    )


# Names.


def test_two_tensors_with_one_name() -> None:
    y = vector("y", 3)
    one, other = access(vector("x", 3), i), access(vector("x", 3, "float32"), i)
    error = refused(assigned(access(y, i), one + other))
    assert str(error) == (
        "E109: two different tensors are called x\n"
        "  hint: give one of them another name: ow.tensor(..., name=...)"
    )


def test_alike_tensors_with_different_data() -> None:
    y, x = vector("y", 3), vector("x", 3, source=object())
    same = assigned(access(y, i), access(x, i) + access(replace(x), i))
    assert check(same) is same
    other = replace(x, source=object())
    assert refused(assigned(access(y, i), access(x, i) + access(other, i))).code == "E109"


# Element types.


def test_information_is_not_lost_silently() -> None:
    error = refused(statement("n(i) = x(i) * 2", vector("n", 3, "int32"), vector("x", 3)))
    assert str(error) == (
        "E108: n holds int32, but the right side is float64\n"
        "  n(i) = x(i) * 2\n"
        "  ^^^^^^^^^^^^^^^\n"
        "  hint: cast it, which may lose information: ow.cast('int32', ...)"
    )


@pytest.mark.parametrize(
    ("dtype", "text", "fits"),
    [
        ("float32", "x(i)", True),
        ("float32", "x(i) * 1j", False),
        ("int8", "k(i)", True),
        ("uint8", "k(i)", False),
        ("int8", "x(i)", False),
        ("int8", "cast(int8, x(i))", True),
        ("bool", "k(i)", False),
        ("bool", "x(i) > 0", True),
        ("int8", "x(i) > 0", True),
        ("float64", "i", True),
        ("uint8", "3", True),
        ("uint8", "3 * 4 + 1", True),
        ("uint8", "300", False),
        ("uint8", "-1", False),
        ("int8", "2.5", False),
        ("int8", "int8(2)", True),
        ("bool", "1", False),
        ("bool", "True", True),
        ("float32", "2.5", True),
        ("float32", "2j", False),
        ("complex64", "2j", True),
        ("int8", "3 / 4", False),
    ],
)
def test_what_fits(dtype: str, text: str, fits: bool) -> None:
    tensors = vector("r", 3, dtype), vector("x", 3), vector("k", 3, "int64")
    assignment = statement(f"r(i) = {text}", *tensors)
    if fits:
        assert check(assignment) is assignment
    else:
        assert refused(assignment).code == "E108"


def test_numbers_that_do_not_fit_are_named() -> None:
    error = refused(statement("r(i) = 300", vector("r", 3, "uint8")))
    assert error.message == "uint8 cannot hold 300"


@pytest.mark.parametrize(
    ("dtype", "text", "fits"),
    [
        ("uint8", "r(i) += 1", True),
        ("int8", "r(i) += 0.5", False),
        ("int8", "r(i) *= x(i)", False),
        ("float32", "r(i) += x(i)", True),
        ("float32", "r(i) or= x(i)", True),
        ("float32", "r(i) |= x(i)", False),
        ("int8", "r(i) min= k(i)", True),
    ],
)
def test_compound_assignments_fit(dtype: str, text: str, fits: bool) -> None:
    tensors = vector("r", 3, dtype), vector("x", 3), vector("k", 3, "int64")
    assignment = statement(text, *tensors)
    if fits:
        assert check(assignment) is assignment
    else:
        assert refused(assignment).code == "E108"


# Depth, which only Python's operators can exceed: the parser has its own limit.


def test_expressions_of_any_depth_are_answered() -> None:
    y, x = vector("y", 3), vector("x", 3)
    rhs = access(x, i)
    for _ in range(5000):
        rhs = rhs + access(x, i)
    error = refused(assigned(access(y, i), rhs))
    assert (error.code, error.message) == (
        "E102",
        f"the expression is nested more than {MAX_DEPTH} deep",
    )


def test_what_the_parser_reads_is_not_too_deep() -> None:
    text = "y(i) = " + " + ".join(["x(i)"] * MAX_DEPTH)
    check(explicit(statement(text, vector("y", 3), vector("x", 3))))


def test_shared_parts_are_cheap() -> None:
    y = vector("y", 3)
    rhs = 2 * i
    for _ in range(12):
        rhs = rhs * rhs
    check(assigned(access(y, i), rhs))


def test_under_a_semiring() -> None:
    tensors = vector("y", 3), matrix("A", 3, 4), vector("x", 4)
    assignment = under(ops.MIN_PLUS, statement("y(i) = A(i,j) * x(j)", *tensors))
    assert extents(check(assignment)) == {i.node: 3, j.node: 4}
