"""What the tests of index notation share: some tensors, a reader, and random assignments."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import strategies as st

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op
from openwork.algebra.types import SUPPORTED, as_dtype, number
from openwork.errors import ParseError
from openwork.format.formats import CSF, CSR, dense
from openwork.index.build import operator
from openwork.index.nodes import (
    Access,
    Assignment,
    Cast,
    Expr,
    IndexVar,
    Literal,
    Reduce,
    TensorVar,
    apply,
    check_condition,
)
from openwork.index.parse import parse_assignment
from openwork.index.words import SEMIRING_OPERATORS

EITHER = operator(
    "either",
    lambda a, b: a + b - a * b,
    identity=0,
    annihilator=1,
    commutative=True,
    associative=True,
)
BLEND = operator("blend", lambda a, b, t: a * (1 - t) + b * t)


def _tensor(name: str, order: int, dtype: str, sparse: bool = False) -> TensorVar:
    form = (CSR if order == 2 else CSF(order)) if sparse else dense(order)
    return TensorVar(name, form, as_dtype(dtype), shape=(5,) * order)


TENSORS = {
    t.name: t
    for t in (
        *(_tensor("A", 2, "float64", True), _tensor("B", 2, "float64", True)),
        *(_tensor("C", 2, "float64"), _tensor("T", 3, "float64", True)),
        *(_tensor(name, 1, "float64") for name in "xyzd"),
        *(_tensor("s", 0, "float64"), _tensor("f", 1, "float32"), _tensor("F", 2, "float32")),
        *(_tensor("n", 1, "int32"), _tensor("N", 2, "int8"), _tensor("U", 1, "uint64")),
        *(_tensor("m", 1, "bool"), _tensor("M", 2, "bool", True), _tensor("c", 1, "complex128")),
        *(_tensor("g", 1, "complex64"), _tensor("k64", 1, "int64")),
    )
}
# Names that mean something else as well: functions, constants, types, index variables.
AWKWARD = {
    t.name: t
    for t in (
        *(_tensor("sum", 1, "float64"), _tensor("min", 2, "float64"), _tensor("inf", 0, "float64")),
        *(_tensor("float32", 1, "float32"), _tensor("i", 0, "float64"), _tensor("j", 1, "int64")),
        *(_tensor("complex", 0, "float64"), _tensor("either", 1, "float64")),
    )
}
OPERATORS = {"either": EITHER, "blend": BLEND}


@pytest.fixture(scope="session")
def tensors() -> dict[str, TensorVar]:
    return TENSORS


@pytest.fixture(scope="session")
def operators() -> dict[str, Op]:
    return OPERATORS


@pytest.fixture(scope="session")
def read() -> Callable[[str], Assignment]:
    """`read(text)` parses with the tensors and operators above."""
    return lambda text: parse_assignment(text, TENSORS, OPERATORS)


VARIABLES = st.sampled_from([IndexVar(name) for name in ("i", "j", "k", "l", "exp", "inf", "x1")])
REDUCERS = st.sampled_from(
    [ops.ADD, ops.MUL, ops.MIN, ops.MAX, ops.AND, ops.OR, ops.XOR, EITHER]
    + [ops.BITWISE_AND, ops.BITWISE_OR, ops.BITWISE_XOR]
    + [op for op in SEMIRING_OPERATORS.values() if op.associates and op.identity is not None]
)
APPLIED = [*ops.BUILTIN.values(), *SEMIRING_OPERATORS.values(), *OPERATORS.values()]
REALS = st.floats() | st.integers(-(2**63), 2**64 - 1) | st.integers(-3, 3)


@st.composite
def literals(draw: st.DrawFn) -> Expr:
    value = draw(REALS | st.booleans() | st.complex_numbers() | st.sampled_from([2j, -2j, -0.0]))
    if draw(st.booleans()):
        return Literal(value)
    dtype = SUPPORTED[draw(st.sampled_from(list(SUPPORTED)))]
    if dtype.kind in "iu":
        value = draw(st.integers(-100, 100))
    if isinstance(value, complex) and dtype.kind != "c":
        value = value.real
    return Literal(number(value, dtype), dtype)


@st.composite
def accesses(draw: st.DrawFn, tensors: dict[str, TensorVar]) -> Access:
    tensor = tensors[draw(st.sampled_from(sorted(tensors)))]
    return Access(tensor, tuple(draw(VARIABLES) for _ in range(tensor.ndim)))


def _nodes(inner: st.SearchStrategy[Expr]) -> st.SearchStrategy[Expr]:
    @st.composite
    def node(draw: st.DrawFn) -> Expr:
        kind = draw(st.sampled_from(["apply", "apply", "apply", "cast", "reduce"]))
        first = draw(inner)
        if kind == "cast":
            return Cast(SUPPORTED[draw(st.sampled_from(list(SUPPORTED)))], first)
        if kind == "reduce":
            made: Expr = Reduce(draw(REDUCERS), draw(VARIABLES), first)
        else:
            op = draw(st.sampled_from(APPLIED))
            args = (first, *(draw(inner) for _ in range(op.arity - 1)))
            try:
                if op.selects:
                    check_condition(first)
                return apply(op, *args)
            except ParseError:  # not defined for these types, or numbers
                return first
        try:
            _ = made.kind
        except ParseError:
            return first
        return made

    return node()


@st.composite
def _assignments(draw: st.DrawFn) -> Assignment:
    tensors = draw(st.sampled_from([TENSORS, {**TENSORS, **AWKWARD}]))
    leaves = accesses(tensors) | VARIABLES | literals()
    rhs = draw(st.recursive(leaves, _nodes, max_leaves=10))
    return Assignment(draw(accesses(tensors)), rhs, draw(st.none() | REDUCERS))


@pytest.fixture(scope="session")
def assignments() -> st.SearchStrategy[Assignment]:
    """Random assignments of every kind of node."""
    return _assignments()
