"""Index notation as text, and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op
from openwork.algebra.types import FLOAT64, as_dtype
from openwork.errors import InternalError
from openwork.format.formats import dense
from openwork.index import build, functions
from openwork.index.build import access, indices
from openwork.index.nodes import (
    Absent,
    Access,
    Apply,
    Assignment,
    Cast,
    Expr,
    Literal,
    Parameter,
    TensorVar,
)
from openwork.index.parse import parse_assignment
from openwork.index.show import show
from openwork.index.terms import Term, as_expr
from openwork.tensor.statement import assign
from openwork.tree import Node, walk

i, j = indices("i j")
X = TensorVar("x", dense(1), FLOAT64, shape=(5,))
S = TensorVar("s", dense(0), FLOAT64)
x, s = access(X, i), access(S, ())
n = access(TensorVar("n", dense(1), as_dtype("int8"), shape=(5,)), i)
TWO, MINUS = Literal(2), Literal(-2)


@pytest.mark.parametrize(
    "text",
    [
        "y(i) = A(i,j) * x(j) + z(i)",
        "y(i) = A(i,j) * x(j) + z(i) + 0",
        "y(i) = x(i) - (z(i) - d(i))",
        "y(i) = x(i) - z(i) - d(i)",
        "y(i) = -x(i) * z(i)",
        "y(i) = -(x(i) * z(i))",
        "y(i) = x(i) / (z(i) / d(i)) * 2",
        "y(i) = (-x(i)) ** 2 ** x(i)",
        "y(i) = -x(i) ** 2",
        "s = x(i) * y(i)",
        "y(i) += s * x(i)",
        "y(i) min= min(j, A(i,j))",
        "y(i) max= max(A(i,j), 0)",
        "y(i) *= 2.0",
        "m(i) |= M(i,j) & m(j) | n(j) > 3",
        "m(i) &= (n(i) > 3) ^ m(i)",
        "n(i) ^= ~n(i) & 7 << n(j) % 4 | N(i,j) // 3 >> 1",
        "m(i) or= or(x(i), n(i))",
        "y(i) either= x(i)",
        "y(i) = select(x(i) < 0.5, 1, sqrt(abs(x(i))))",
        "y(i) = float32(x(i)) + float32(2.5) + cast(int8, 3.5)",
        "c(i) = c(i) * 2.0j + complex(1.0, 2.0)",
        "y(i) = minimum(i, 3) + inf - nan",
        "y(i) = reduce(xor, j, M(i,j))",
        "y(i) = blend(x(i), z(i), 0.5)",
        "T(i,j,k) = A(i,j) * (i * 5 + j)",
        "y(i) = x(i) - (-2) + (-x(i))",
    ],
)
def test_text_is_kept(text: str, read: Callable[[str], Assignment]) -> None:
    assert show(read(text)) == text


@pytest.mark.parametrize(
    ("expr", "text"),
    [
        (Apply(ops.NEG, (TWO,)), "-(2)"),
        (MINUS, "-2"),
        (Apply(ops.NEG, (MINUS,)), "-(-2)"),
        (Apply(ops.POW, (MINUS, TWO)), "(-2) ** 2"),
        (-(2**x), "-2 ** x(i)"),
        (-2 * x, "-2 * x(i)"),
        (x * -2, "x(i) * (-2)"),
        (functions.elements(ops.NEG, -x), "-(-x(i))"),
        ((x < 1) & (x > 0), "(x(i) < 1) & (x(i) > 0)"),
        (functions.lt(x < 1, x), "(x(i) < 1) < x(i)"),
        (functions.eq(x, s + 1), "x(i) == s + 1"),
        (x != s, "x(i) != s"),
        (functions.logical_and(x, s), "and(x(i), s)"),
        (~n, "~n(i)"),
        (~-n, "~(-n(i))"),
        (-~n, "-(~n(i))"),
        (Apply(ops.INVERT, (TWO,)), "~2"),
        (Apply(ops.INVERT, (MINUS,)), "~(-2)"),
        ((~n) ** 2, "(~n(i)) ** 2"),
        (~(n**2), "~n(i) ** 2"),
        (n & ~n, "n(i) & ~n(i)"),
        (n << 1 + n, "n(i) << 1 + n(i)"),
        ((n << 1) + n, "(n(i) << 1) + n(i)"),
        (n & 3 << n, "n(i) & 3 << n(i)"),
        ((n & 3) << n, "(n(i) & 3) << n(i)"),
        (n >> (n >> 1), "n(i) >> (n(i) >> 1)"),
        (n // 2 % 3 * n, "n(i) // 2 % 3 * n(i)"),
        (n // (2 % n), "n(i) // (2 % n(i))"),
        (x**s**2, "x(i) ** s ** 2"),
        ((x**s) ** 2, "(x(i) ** s) ** 2"),
        (as_expr(np.float32(0.1)), "float32(0.10000000149011612)"),
        (as_expr(np.bool_(True)), "bool(True)"),
        (Cast(as_dtype("int8"), TWO), "cast(int8, 2)"),
        (Cast(as_dtype("int8"), as_expr(np.int16(2))), "int8(int16(2))"),
        (Literal(2j), "2.0j"),
        (Literal(-2j), "-2.0j"),
        (Literal(complex(0.0, -2.0)), "complex(0.0, -2.0)"),
        (Literal(complex(float("nan"), float("-inf"))), "complex(nan, -inf)"),
        (as_expr(np.complex64(1 + 2j)), "complex64(complex(1.0, 2.0))"),
        (Literal(float("-inf")), "-inf"),
        (Literal(-0.0), "-0.0"),
        (build.min(i, x), "min(i, x(i))"),
        (functions.minimum(i, x), "minimum(i, x(i))"),
        (build.min(x, i), "min(x(i), i)"),
        (build.any(j, x), "any(j, x(i))"),
        (functions.logical_not(x), "not(x(i))"),
        (Apply(ops.MIN_PLUS.mul, (x.node, s.node)), "min_plus.mul(x(i), s)"),
        (build.reduce(ops.MAX_TIMES.add, i, x), "reduce(max_times.add, i, x(i))"),
        (Apply(replace(ops.ADD, annihilator=7), (x.node, s.node)), "add(x(i), s)"),
        (Absent(0.0, FLOAT64), "absent(0.0)"),
        (Parameter(1), "$1"),
        (X, "x"),
    ],
)
def test_expressions(expr: Node | Term, text: str) -> None:
    assert show(expr.node if isinstance(expr, Term) else expr) == text


def test_names_that_mean_something_else_are_told_apart() -> None:
    """A tensor's name wins in the text, so other meanings of it are spelled differently."""
    named = {n: TensorVar(n, dense(o), FLOAT64, shape=(5,) * o) for n, o in [("sum", 1), ("i", 0)]}
    node = assign(access(named["i"], ()), build.sum(i, access(named["sum"], i) * i)).assignment
    assert show(node) == "i = ow.sum(index(i), sum(i) * index(i))"
    assert parse_assignment(show(node), named) == node


def test_an_index_variable_called_inf_is_no_number() -> None:
    assert show((indices("inf")[0] + 1).node) == "index(inf) + 1"


@dataclass(frozen=True)
class Foreign(Node):
    """A node of another representation."""


@dataclass(frozen=True)
class ForeignExpr(Expr):
    """An expression that the printer does not know."""


@pytest.mark.parametrize("node", [Foreign(), ForeignExpr()])
def test_unknown_nodes_are_our_fault(node: Node) -> None:
    with pytest.raises(InternalError, match="no text for Foreign"):
        show(node)


@given(data=st.data())
@settings(max_examples=60)
def test_round_trip(
    data: st.DataObject, assignments: st.SearchStrategy[Assignment], operators: dict[str, Op]
) -> None:
    assignment = data.draw(assignments)
    tensors = {n.tensor.name: n.tensor for n in walk(assignment) if isinstance(n, Access)}
    text = show(assignment)
    again = parse_assignment(text, tensors, operators)
    assert again == assignment, text
    assert show(again) == text
