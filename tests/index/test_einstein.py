"""The Einstein convention: where sums go, and where they are refused."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openwork.algebra import operators as ops
from openwork.algebra.types import as_dtype
from openwork.errors import ParseError
from openwork.format.formats import dense
from openwork.index.build import access, indices
from openwork.index.checks import MAX_DEPTH
from openwork.index.einstein import explicit, free_vars, insert_sums
from openwork.index.nodes import (
    Access,
    Apply,
    Assignment,
    Cast,
    Expr,
    IndexVar,
    Literal,
    Reduce,
    TensorVar,
)
from openwork.index.show import show
from openwork.index.terms import Term
from openwork.tensor.statement import assign
from openwork.tree import walk

Read = Callable[[str], Assignment]
i, j, k = indices("i j k")


def assigned(lhs: Term, rhs: object, op: ops.Op | None = None) -> Assignment:
    return assign(lhs, rhs, op).assignment


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        # One term.
        ("y(i) = A(i,j) * x(j)", "sum(j, A(i,j) * x(j))"),
        ("y(i) = A(i,j)", "sum(j, A(i,j))"),
        ("y(i) = A(i,j) * x(j) * z(i)", "sum(j, A(i,j) * x(j) * z(i))"),
        ("y(i) = z(i) * (A(i,j) * x(j))", "sum(j, z(i) * (A(i,j) * x(j)))"),
        ("y(i) = 2 * A(i,j)", "sum(j, 2 * A(i,j))"),
        ("y(i) = A(i,i)", "A(i,i)"),
        ("s = A(i,i)", "sum(i, A(i,i))"),
        ("C(i,j) = x(i) * z(j)", "x(i) * z(j)"),
        ("C(i,j) = A(i,k) * B(k,j)", "sum(k, A(i,k) * B(k,j))"),
        ("s = A(j,i) * x(i) * z(j)", "sum(j, sum(i, A(j,i) * x(i) * z(j)))"),
        ("y(i) = A(i,j) * j", "sum(j, A(i,j) * j)"),
        ("s = 2", "2"),
        # Terms, each by itself.
        ("y(i) = A(i,j) * x(j) + z(i)", "sum(j, A(i,j) * x(j)) + z(i)"),
        ("y(i) = A(i,j) * x(j) + z(i) + 0", "sum(j, A(i,j) * x(j)) + z(i) + 0"),
        ("y(i) = 0 + (z(i) + A(i,j) * x(j))", "0 + (z(i) + sum(j, A(i,j) * x(j)))"),
        ("y(i) = A(i,j) - B(i,j) * 2", "sum(j, A(i,j)) - sum(j, B(i,j) * 2)"),
        ("y(i) = A(i,j) + B(i,k)", "sum(j, A(i,j)) + sum(k, B(i,k))"),
        ("y(i) = -(A(i,j) + z(i))", "-(sum(j, A(i,j)) + z(i))"),
        ("y(i) = -A(i,j) * x(j)", "sum(j, -A(i,j) * x(j))"),
        # Sums inside products.
        (
            "y(i) = (A(i,j) * x(j) + d(i)) * z(i)",
            "(sum(j, A(i,j) * x(j)) + d(i)) * z(i)",
        ),
        ("y(i) = z(i) * -(A(i,j) + 1)", "z(i) * (-(sum(j, A(i,j)) + 1))"),
        ("y(i) = (A(i,j) + B(i,j)) * z(i)", "(sum(j, A(i,j)) + sum(j, B(i,j))) * z(i)"),
        ("y(i) = (A(i,j) + d(i)) * x(j)", "sum(j, (A(i,j) + d(i)) * x(j))"),
        ("y(i) = (A(i,j) + 1) * (B(i,j) + 1)", "sum(j, (A(i,j) + 1) * (B(i,j) + 1))"),
        (
            "y(i) = (A(i,j) * B(j,k) + d(i)) * x(j)",
            "sum(j, (sum(k, A(i,j) * B(j,k)) + d(i)) * x(j))",
        ),
        (
            "y(i) = ((A(i,j) + 1) * d(i) + 2) * z(i)",
            "((sum(j, A(i,j)) + 1) * d(i) + 2) * z(i)",
        ),
        # Quotients.
        ("y(i) = A(i,j) * x(j) / d(i)", "sum(j, A(i,j) * x(j) / d(i))"),
        ("y(i) = A(i,j) / x(j)", "sum(j, A(i,j) / x(j))"),
        ("y(i) = (A(i,j) + z(i)) / d(i)", "(sum(j, A(i,j)) + z(i)) / d(i)"),
        ("y(i) = (A(i,j) + z(i)) / x(j)", "sum(j, (A(i,j) + z(i)) / x(j))"),
        # Functions.
        ("y(i) = exp(A(i,j)) * x(j)", "sum(j, exp(A(i,j)) * x(j))"),
        ("y(i) = exp(A(i,j)) * exp(B(i,j))", "sum(j, exp(A(i,j)) * exp(B(i,j)))"),
        ("y(i) = select(A(i,j) > 0, 1, 0) * x(j)", "sum(j, select(A(i,j) > 0, 1, 0) * x(j))"),
        ("y(i) = sqrt(x(i)) * A(i,j)", "sum(j, sqrt(x(i)) * A(i,j))"),
        ("y(i) = sqrt(x(i))", "sqrt(x(i))"),
        ("c(i) = conj(A(i,j)) * c(j)", "sum(j, conj(A(i,j)) * c(j))"),
        ("y(i) = real(A(i,j))", "sum(j, real(A(i,j)))"),
        ("y(i) = real(A(i,j) + z(i))", "real(sum(j, A(i,j)) + z(i))"),
        # Casts are looked through.
        ("y(i) = float64(A(i,j)) * x(j)", "sum(j, float64(A(i,j)) * x(j))"),
        ("y(i) = float64(A(i,j) * x(j))", "sum(j, float64(A(i,j) * x(j)))"),
        ("y(i) = float64(A(i,j) * x(j) + z(i))", "float64(sum(j, A(i,j) * x(j)) + z(i))"),
        ("y(i) = float64(A(i,j) + 1) * z(i)", "float64(sum(j, A(i,j)) + 1) * z(i)"),
        # Sums that are written out already.
        ("y(i) = sum(j, A(i,j) * x(j))", "sum(j, A(i,j) * x(j))"),
        ("y(i) = exp(sum(j, A(i,j))) + z(i)", "exp(sum(j, A(i,j))) + z(i)"),
        ("y(i) = sum(j, A(i,j) * B(j,k)) * z(i)", "sum(j, sum(k, A(i,j) * B(j,k))) * z(i)"),
        ("y(i) = sum(j, A(i,j) + T(i,j,k))", "sum(j, A(i,j) + sum(k, T(i,j,k)))"),
        ("y(i) = sum(j, A(i,j)) + x(j)", "sum(j, A(i,j)) + sum(j, x(j))"),
        ("y(i) = max(j, A(i,j)) * x(k)", "sum(k, max(j, A(i,j)) * x(k))"),
        ("y(i) = sum(j, A(i,j)) * sum(j, B(i,j))", "sum(j, A(i,j)) * sum(j, B(i,j))"),
    ],
)
def test_where_sums_go(text: str, meaning: str, read: Read) -> None:
    lhs = text.split(" = ")[0]
    assert show(explicit(read(text))) == f"{lhs} = {meaning}"


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("y(i) += A(i,j) * x(j) + z(i)", "y(i) += sum(j, A(i,j) * x(j)) + z(i)"),
        ("y(i) min= A(i,j)", "y(i) min= min(j, A(i,j))"),
        ("y(i) min= A(i,j) + z(i)", "y(i) min= min(j, A(i,j) + z(i))"),
        ("y(i) max= exp(A(i,j))", "y(i) max= max(j, exp(A(i,j)))"),
        ("s max= A(i,j)", "s max= max(i, max(j, A(i,j)))"),
        ("m(i) |= M(i,j) & m(j)", "m(i) |= reduce(bitwise_or, j, M(i,j) & m(j))"),
        ("m(i) or= M(i,j)", "m(i) or= any(j, M(i,j))"),
        ("y(i) *= A(i,j)", "y(i) *= prod(j, A(i,j))"),
        ("y(i) min= sum(j, A(i,j))", "y(i) min= sum(j, A(i,j))"),
        ("y(i) either= A(i,j)", "y(i) either= reduce(either, j, A(i,j))"),
        ("y(i) min= x(i)", "y(i) min= x(i)"),
    ],
)
def test_compound_assignments(text: str, meaning: str, read: Read) -> None:
    assert show(explicit(read(text))) == meaning


def test_six_variables(read: Read) -> None:
    text = "s = T(a,b,c) * T(d,e,f)"
    inner = "T(a,b,c) * T(d,e,f)"
    for name in "fedcba":
        inner = f"sum({name}, {inner})"
    assert show(explicit(read(text))) == f"s = {inner}"


# Refusals.


@pytest.mark.parametrize(
    ("text", "one", "other"),
    [
        ("exp(A(i,j))", "sum(j, exp(A(i,j)))", "exp(sum(j, A(i,j)))"),
        ("sqrt(A(i,j) * x(j) + z(i))", None, "sqrt(sum(j, A(i,j) * x(j) + z(i)))"),
        ("A(i,j) ** 2", "sum(j, A(i,j) ** 2)", "sum(j, A(i,j)) ** 2"),
        ("A(i,j) > 0", "sum(j, A(i,j) > 0)", "sum(j, A(i,j)) > 0"),
        ("A(i,j) > x(j)", "sum(j, A(i,j) > x(j))", "sum(j, A(i,j)) > sum(j, x(j))"),
        ("select(A(i,j) > 0, 1, 0)", None, "select(sum(j, A(i,j) > 0), 1, 0)"),
        ("max(A(i,j), 0)", "sum(j, max(A(i,j), 0))", "max(sum(j, A(i,j)), 0)"),
        ("z(i) / x(j)", "sum(j, z(i) / x(j))", "z(i) / sum(j, x(j))"),
        ("1 / (A(i,j) + d(i))", None, "1 / sum(j, A(i,j) + d(i))"),
        ("exp(A(i,j)) * z(i)", "sum(j, exp(A(i,j)) * z(i))", "exp(sum(j, A(i,j)))"),
        ("max(k, T(i,j,k))", "sum(j, max(k, T(i,j,k)))", "max(k, sum(j, T(i,j,k)))"),
        ("either(A(i,j), 0)", None, "either(sum(j, A(i,j)), 0)"),
        ("abs(A(i,j))", "sum(j, abs(A(i,j)))", "abs(sum(j, A(i,j)))"),
        ("z(i) + exp(A(i,j))", "sum(j, exp(A(i,j)))", "exp(sum(j, A(i,j)))"),
        ("(exp(A(i,j)) + 1) * z(i)", "sum(j, exp(A(i,j)))", "exp(sum(j, A(i,j)))"),
        ("A(i,k) * exp(A(i,j)) * x(k)", None, "exp(sum(j, A(i,j)))"),
    ],
)
def test_ambiguous(text: str, one: str | None, other: str, read: Read) -> None:
    with pytest.raises(ParseError) as caught:
        explicit(read(f"y(i) = {text}"))
    assert caught.value.code == "E105"
    assert caught.value.message == "it is not clear where to sum over j"
    assert caught.value.hint == f"write {one or f'sum(j, {text})'} or {other}"
    assert caught.value.span is not None


def test_ambiguous_shows_the_place(read: Read) -> None:
    with pytest.raises(ParseError) as caught:
        explicit(read("y(i) = z(i) + exp(A(i,j)) * z(i)"))
    assert str(caught.value) == (
        "E105: it is not clear where to sum over j\n"
        "  y(i) = z(i) + exp(A(i,j)) * z(i)\n"
        "                ^^^^^^^^^^^\n"
        "  hint: write sum(j, exp(A(i,j)) * z(i)) or exp(sum(j, A(i,j)))"
    )


@pytest.mark.parametrize(
    ("text", "message", "hint"),
    [
        (
            "y(i) = sum(i, A(i,j))",
            "i is reduced here, but it is also a variable of the result",
            "rename it in sum(i, A(i,j))",
        ),
        (
            "y(i) = sum(j, A(i,j) * sum(j, x(j)))",
            "j is reduced here, but it is also a variable of a reduction around this one",
            "rename it in sum(j, x(j))",
        ),
        (
            "y(i) = sum(j, A(i,j)) * x(j)",
            "j is reduced here, but it is also a variable of a reduction around this one",
            "rename it in sum(j, A(i,j))",
        ),
        (
            "y(i) min= sum(j, A(i,j)) * x(j)",
            "j is reduced here, but it is also a variable of a reduction around this one",
            "rename it in sum(j, A(i,j))",
        ),
    ],
)
def test_shadowed_variables(text: str, message: str, hint: str, read: Read) -> None:
    with pytest.raises(ParseError) as caught:
        explicit(read(text))
    assert (caught.value.code, caught.value.message) == ("E105", message)
    assert caught.value.hint == hint


def test_an_operator_that_cannot_reduce(read: Read, tensors: dict[str, TensorVar]) -> None:
    assignment = assigned(access(tensors["y"], i), access(tensors["A"], (i, j)), ops.SUB)
    with pytest.raises(ParseError) as caught:
        explicit(assignment)
    assert caught.value.code == "E111"


# Element types of accumulators.


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("y(i) = F(i,j)", "sum(j, float64(F(i,j)))"),
        ("y(i) = F(i,j) * f(j)", "sum(j, float64(F(i,j) * f(j)))"),
        ("f(i) = F(i,j)", "sum(j, F(i,j))"),
        ("f(i) = A(i,j)", "sum(j, A(i,j))"),
        ("n(i) = N(i,j)", "sum(j, int32(N(i,j)))"),
        ("n(i) = M(i,j)", "sum(j, int32(M(i,j)))"),
        ("y(i) = M(i,j)", "sum(j, float64(M(i,j)))"),
        ("f(i) = n(j) * x(i)", "sum(j, n(j) * x(i))"),
        ("f(i) = sum(j, n(j))", "sum(j, float64(n(j)))"),
        # A Python number has no type of its own.
        ("f(i) = sum(j, 1)", "sum(j, cast(float32, 1))"),
        # Real sums stay real.
        ("c(i) = F(i,j)", "sum(j, float64(F(i,j)))"),
        ("g(i) = F(i,j)", "sum(j, F(i,j))"),
        ("c(i) = F(i,j) * g(j)", "sum(j, complex128(F(i,j) * g(j)))"),
        # uint64 and int64 would meet in float64.
        ("k64(i) = U(j) * m(i)", "sum(j, U(j) * m(i))"),
        # A result of lower kind does not widen the sum.
        ("n(i) = F(i,j)", "sum(j, F(i,j))"),
        ("y(i) = min(j, F(i,j))", "min(j, float64(F(i,j)))"),
        ("y(i) = exp(sum(j, F(i,j)))", "exp(sum(j, float64(F(i,j))))"),
        ("s = F(i,j)", "sum(i, sum(j, float64(F(i,j))))"),
        # Truth values stay truth values.
        ("y(i) = any(j, A(i,j))", "any(j, bool(A(i,j)))"),
        ("y(i) = any(j, M(i,j))", "any(j, M(i,j))"),
        ("y(i) = reduce(either, j, M(i,j))", None),
        ("y(i) = reduce(either, j, F(i,j))", "reduce(either, j, float64(F(i,j)))"),
    ],
)
def test_accumulators(text: str, meaning: str | None, read: Read) -> None:
    lhs = text.split(" = ")[0]
    if meaning is None:  # a + b - a * b: NumPy does not subtract truth values
        with pytest.raises(ParseError, match="E108"):
            explicit(read(text))
    else:
        assert show(explicit(read(text))) == f"{lhs} = {meaning}"


def test_insert_sums_leaves_types_alone(read: Read) -> None:
    assert show(insert_sums(read("y(i) = F(i,j)"))) == "y(i) = sum(j, F(i,j))"


# Free variables.


def test_free_vars_in_the_order_of_use(read: Read) -> None:
    expr = read("s = A(k,j) * sum(i, B(i,j)) + i * l").rhs
    assert free_vars(expr) == tuple(map(IndexVar, "kjil"))
    assert free_vars(Literal(2)) == ()


# Properties.


@given(data=st.data())
@settings(max_examples=60)
def test_explicit_is_idempotent(
    data: st.DataObject, assignments: st.SearchStrategy[Assignment]
) -> None:
    assignment = data.draw(assignments)
    try:
        once = explicit(assignment)
    except ParseError as error:
        assert error.code in ("E105", "E108")
        return
    assert explicit(once) is once
    assert set(free_vars(once.rhs)) <= set(assignment.lhs.vars)


def test_nothing_to_do_changes_nothing(read: Read) -> None:
    assignment = read("y(i) = x(i) + 2 * z(i)")
    assert explicit(assignment) is assignment


def test_places_survive(read: Read) -> None:
    assignment = explicit(read("y(i) = (A(i,j) * x(j) + d(i)) * z(i)"))
    for node in walk(assignment.rhs):
        if isinstance(node, (Access, Apply, Reduce)):
            assert node.span is not None


def test_long_sums(tensors: dict[str, TensorVar]) -> None:
    x, y = tensors["x"], tensors["y"]
    rhs = access(x, j)
    for _ in range(MAX_DEPTH - 1):
        rhs = rhs + access(x, j)
    assert show(explicit(assigned(access(y, i), rhs))).count("sum(j, x(j))") == MAX_DEPTH


def _value(expr: Expr, at: dict[IndexVar, int], data: dict[str, np.ndarray]) -> float:
    """The value of an expression of products and sums at one point, straight from the nodes."""
    match expr:
        case Access(tensor=tensor, vars=variables):
            return float(data[tensor.name][tuple(at[v] for v in variables)])
        case Reduce(var=var, expr=inner):
            return sum(_value(inner, {**at, var: n}, data) for n in range(3))
        case Cast(expr=inner):
            return _value(inner, at, data)
        case Apply(op=op, args=args):
            return float(op.ufunc(*(_value(arg, at, data) for arg in args)))
    raise AssertionError(expr)


@st.composite
def _products(draw: st.DrawFn) -> tuple[str, list[list[tuple[str, str]]]]:
    """A sum of products as text, and as lists of (tensor, variables)."""
    factor = st.sampled_from([("A", "ij"), ("B", "jk"), ("x", "j"), ("z", "i"), ("d", "k")])
    terms = draw(st.lists(st.lists(factor, min_size=1, max_size=3), min_size=1, max_size=4))
    text = " + ".join(" * ".join(f"{t}({','.join(v)})" for t, v in term) for term in terms)
    return text, terms


@given(case=_products())
@settings(max_examples=60)
def test_sums_of_products_agree_with_einsum(
    case: tuple[str, list[list[tuple[str, str]]]], read: Read
) -> None:
    text, terms = case
    rng = np.random.default_rng(0)
    data = {name: rng.integers(-3, 4, (3, 3)) for name in "AB"}
    data |= {name: rng.integers(-3, 4, 3) for name in "xzd"}
    rhs = explicit(read(f"y(i) = {text}")).rhs
    expected = np.zeros(3)
    for term in terms:
        operands = [data[name] for name, _ in term]
        subscripts = ",".join(v for _, v in term)
        with_i = "i" if "i" in subscripts else ""
        expected = expected + np.einsum(f"{subscripts}->{with_i}", *operands)
    got = [_value(rhs, {i.node: n}, data) for n in range(3)]
    np.testing.assert_array_equal(got, expected)


def test_variables_of_size_zero_are_summed_all_the_same() -> None:
    T = TensorVar("T", dense(2), as_dtype("float64"), shape=(3, 0))
    y = TensorVar("y", dense(1), as_dtype("float64"), shape=(3,))
    assert str(explicit(assigned(access(y, i), access(T, (i, j))))) == "y[i] = sum(j, T[i, j])"
