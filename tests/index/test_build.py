"""Expressions as Python calls, operators and semirings of the user."""

from __future__ import annotations

import copy
import inspect
import math
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op
from openwork.algebra.types import FLOAT64, INT64, as_dtype
from openwork.errors import InternalError, ParseError
from openwork.format.formats import CSR, dense
from openwork.index import build, functions
from openwork.index.build import access, index, indices, operator, semiring, under
from openwork.index.define import evaluate
from openwork.index.einstein import explicit
from openwork.index.functions import cast, select, sqrt
from openwork.index.nodes import (
    Access,
    Apply,
    Assignment,
    Cast,
    Expr,
    IndexVar,
    Literal,
    Parameter,
    Reduce,
    TensorVar,
)
from openwork.index.show import show as show_node
from openwork.index.terms import Term, Variable, as_expr

Read = Callable[[str], Assignment]
i, j, k = indices("i j k")
A = TensorVar("A", CSR, FLOAT64, shape=(3, 4))
x = TensorVar("x", dense(1), FLOAT64, shape=(4,))
a, b = access(A, (i, j)), access(x, j)


def same(one: object, *others: object) -> bool:
    """Whether terms, nodes and numbers are the same expression."""
    return all(as_expr(one) == as_expr(other) for other in others)


def show(expr: Term | Assignment) -> str:
    return show_node(expr.node if isinstance(expr, Term) else expr)


def assignment_of(lhs: Term, rhs: Term) -> Assignment:
    result = as_expr(lhs)
    assert isinstance(result, Access)
    return Assignment(result, as_expr(rhs))


def refused(make: Callable[[], object]) -> ParseError:
    with pytest.raises(ParseError) as caught:
        make()
    return caught.value


# Variables and accesses.


def test_indices() -> None:
    assert [var.node for var in indices("i j k")] == [IndexVar("i"), IndexVar("j"), IndexVar("k")]
    assert indices("i, j,k") == indices(" i j\tk ")
    assert indices("i") == (index("i"),)
    assert indices("") == ()


@pytest.mark.parametrize("name", ["1i", "i+j", "", "a.b", 3])
def test_names_that_are_none(name: Any) -> None:
    error = refused(lambda: index(name))
    assert (error.code, error.message) == (
        "E101",
        f"{name!r} is not the name of an index variable",
    )


def test_indices_of_no_text() -> None:
    not_a_text: Any = ["i", "j"]
    assert refused(lambda: indices(not_a_text)).code == "E101"
    assert refused(lambda: indices("i 2")).code == "E101"


def test_access() -> None:
    assert same(access(x, i), access(x, [i]), access(x, (i,)), access(x, IndexVar("i")))
    error = refused(lambda: access(A, (i,)))
    assert str(error) == "E104: A has 2 modes, but 1 index variable is given"
    wrong: Any = (i, 2.5)
    error = refused(lambda: access(A, wrong))
    assert (error.code, error.message) == (
        "E112",
        "A is indexed with 2.5, which is not an index variable",
    )


# Functions.


@pytest.mark.parametrize(
    ("function", "op"),
    [
        *((f, op) for name, op in ops.BUILTIN.items() if (f := getattr(functions, name, None))),
        (functions.abs_, ops.ABS),
        (functions.minimum, ops.MIN),
        (functions.maximum, ops.MAX),
        (functions.logical_and, ops.AND),
        (functions.logical_or, ops.OR),
        (functions.logical_xor, ops.XOR),
        (functions.logical_not, ops.NOT),
    ],
)
def test_functions_apply_their_operator(function: Callable[..., Term], op: Op) -> None:
    n = access(TensorVar("n", dense(1), INT64, shape=(4,)), j)
    args = ((n, i, 2) if is_bitwise(op) else (a, b, 2))[: op.arity]
    assert same(function(*args), Apply(op, tuple(map(as_expr, args))))


def is_bitwise(op: Op) -> bool:
    """Whether `op` is one of bits, which floats have not."""
    return op.symbol in ("&", "|", "^", "~", "<<", ">>")


def test_every_builtin_has_a_function() -> None:
    spelled = {"abs", "and", "or", "xor", "not", "add", "sub", "mul", "div", "neg", "min", "max"}
    assert {name for name in ops.BUILTIN if not hasattr(functions, name)} == spelled


def test_every_public_function_is_documented() -> None:
    for module in (build, functions):
        for name in module.__all__:
            assert inspect.getdoc(getattr(module, name)), name


def test_python_operators() -> None:
    assert same(abs(a), functions.abs_(a))
    assert same(a**2, functions.pow(a, 2))
    assert same(a == 2, functions.eq(a, 2))
    assert same(a != 2, functions.ne(a, 2))
    assert same(+a, a)


@pytest.mark.parametrize(
    ("made", "op", "args"),
    [
        (i & 3, ops.BITWISE_AND, (i, 3)), (3 & i, ops.BITWISE_AND, (3, i)),
        (i | 3, ops.BITWISE_OR, (i, 3)), (3 | i, ops.BITWISE_OR, (3, i)),
        (i ^ 3, ops.BITWISE_XOR, (i, 3)), (3 ^ i, ops.BITWISE_XOR, (3, i)),
        (i << 3, ops.LEFT_SHIFT, (i, 3)), (3 << i, ops.LEFT_SHIFT, (3, i)),
        (i >> 3, ops.RIGHT_SHIFT, (i, 3)), (3 >> i, ops.RIGHT_SHIFT, (3, i)),
        (i // 3, ops.FLOOR_DIVIDE, (i, 3)), (3 // i, ops.FLOOR_DIVIDE, (3, i)),
        (i % 3, ops.REMAINDER, (i, 3)), (3 % i, ops.REMAINDER, (3, i)),
        (i**3, ops.POW, (i, 3)), (3**i, ops.POW, (3, i)), (~i, ops.INVERT, (i,)),
        (i == j, ops.EQ, (i, j)), (i != j, ops.NE, (i, j)), (i == 1.5, ops.EQ, (i, 1.5)),
        (np.int64(3) == i, ops.EQ, (np.int64(3), i)),
        (np.float64(3) != i, ops.NE, (np.float64(3), i)),
    ],
)  # fmt: skip
def test_every_sign_builds_an_expression(made: object, op: Op, args: tuple[object, ...]) -> None:
    assert isinstance(made, Term)
    assert same(made, Apply(op, tuple(map(as_expr, args))))


# What users hold.


def test_variables_of_one_name_are_one_object() -> None:
    assert indices("i j") == (i, j)
    assert index("i") is i
    assert {i: 1, j: 2}[index("i")] == 1
    assert i in (i, j)
    assert copy.deepcopy([i, a])[0] is copy.copy(i) is pickle.loads(pickle.dumps(i)) is i  # noqa: S301
    assert (i.name, str(i), repr(i), repr(a)) == (
        "i",
        "i",
        "<index variable i>",
        "A(i,j)",
    )


@pytest.mark.parametrize(
    "decide",
    [
        lambda: bool(a == 0), lambda: bool(i), lambda: not a, lambda: a == 0 and b == 0,
        lambda: 0 < i < 3, lambda: 1 if a != b else 0, lambda: a in [b, a], lambda: (i,) == (j,),
    ],
)  # fmt: skip
def test_expressions_have_no_truth_value(decide: Callable[[], object]) -> None:
    error = refused(decide)
    assert error.code == "E112"
    assert "no truth value" in error.message
    assert "ow.select" in str(error.hint)


@pytest.mark.parametrize("condition", [True, False, np.True_, np.bool_(False)])
def test_conditions_that_python_has_decided(condition: Any) -> None:
    for make in (lambda: select(condition, a, b), lambda: select(condition, 1.0, 0.0)):
        error = refused(make)
        assert (error.code, error.message) == ("E112", f"the condition is the constant {condition}")


@pytest.mark.parametrize("other", ["i", None, np.ones(3), object(), [1, 2]])
def test_comparing_with_what_is_no_element(other: Any) -> None:
    assert refused(lambda: a == other).code == "E112"
    assert refused(lambda: a != other).code == "E112"


def test_nodes_compare_by_structure() -> None:
    assert a.node == access(A, (i, j)).node
    assert hash(a.node) == hash(access(A, (i, j)).node)
    assert isinstance(i, Variable)
    assert i.node == IndexVar("i")


def test_numbers_become_literals() -> None:
    assert same(sqrt(2), Apply(ops.SQRT, (Literal(2),)))
    two = as_expr(np.float32(2))
    assert same(functions.maximum(a, np.float32(2)), Apply(ops.MAX, (a.node, two)))


def test_types_are_checked_at_once() -> None:
    mask = access(TensorVar("m", dense(1), as_dtype("bool"), shape=(4,)), j)
    assert refused(lambda: -mask).code == "E108"
    assert refused(lambda: functions.floor(cast("complex64", a))).code == "E108"


def test_what_cannot_stand_in_an_expression() -> None:
    assert refused(lambda: sqrt("2")).code == "E112"
    assert refused(lambda: sqrt(np.ones(3))).code == "E112"
    assert refused(lambda: a * 10**30).code == "E112"
    assert refused(lambda: bool(a < b)).code == "E112"


def test_cast() -> None:
    assert same(cast("float32", a), cast(np.float32, a), Cast(as_dtype("float32"), a.node))
    assert same(cast(complex, 2), Cast(as_dtype("complex128"), Literal(2)))


class Whole:
    """A stand-in for a tensor that computes with itself."""

    def __openwork_apply__(self, op: Op, args: tuple[object, ...]) -> str:
        return f"{op}{len(args)}"

    def __openwork_access__(self, variables: tuple[IndexVar, ...]) -> Expr:
        return access(TensorVar("w", dense(0), FLOAT64), variables).node


def test_whole_tensors_compute_by_themselves() -> None:
    assert functions.maximum(2, Whole()) == "max2"
    assert show(functions.maximum(a, Whole())) == "max(A(i,j), w)"


# Reductions.


def reduced(op: Op, var: Variable, expr: object) -> Reduce:
    return Reduce(op, var.node, as_expr(expr))


def test_sums() -> None:
    assert same(build.sum(j, a), reduced(ops.ADD, j, a))
    both = reduced(ops.ADD, i, reduced(ops.ADD, j, a))
    assert same(build.sum(i, j, a), build.sum((i, j), a), build.sum([i], j, a), both)


def test_other_reductions() -> None:
    assert same(build.prod(j, a), reduced(ops.MUL, j, a))
    assert same(build.any(j, a), reduced(ops.OR, j, a))
    assert same(build.all(j, a), reduced(ops.AND, j, a))
    assert build.any(j, a).dtype == as_dtype("bool")
    for spec in (ops.XOR, "xor", functions.logical_xor):
        assert same(build.reduce(spec, j, a), reduced(ops.XOR, j, a))
    for spec in (ops.BITWISE_XOR, "bitwise_xor", "^", functions.bitwise_xor):
        assert same(build.reduce(spec, j, i), reduced(ops.BITWISE_XOR, j, i))
    assert same(build.reduce(build.sum, j, a), build.sum(j, a))


def test_min_and_max() -> None:
    assert same(build.min(j, a), reduced(ops.MIN, j, a))
    assert same(build.max((i, j), a), reduced(ops.MAX, i, reduced(ops.MAX, j, a)))
    assert same(build.min(a, j), Apply(ops.MIN, (a.node, j.node)))
    assert same(build.max(2, a), Apply(ops.MAX, (Literal(2), a.node)))
    assert same(functions.minimum(j, a), Apply(ops.MIN, (j.node, a.node)))


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: build.sum(a), "E112"),
        (lambda: build.sum(), "E112"),
        (lambda: build.sum(a, j), "E112"),
        (lambda: build.sum(j, a, b), "E112"),
        (lambda: build.min(a), "E102"),
        (lambda: build.min(a, b, 2), "E102"),
        (lambda: build.min(), "E102"),
        (lambda: build.reduce("-", j, a), "E111"),
        (lambda: build.reduce("nothing", j, a), "E103"),
        (lambda: build.reduce(math.hypot, j, a), "E103"),
    ],
)
def test_reductions_that_are_none(make: Callable[[], object], code: str) -> None:
    assert refused(make).code == code


def test_the_message_of_a_sum_over_nothing() -> None:
    assert str(refused(lambda: build.sum(a, b))) == (
        "E112: sum runs over index variables, not over A(i,j)\n"
        "  hint: for example ow.sum(j, A[i, j])"
    )


# Operators of the user.


def test_an_operator() -> None:
    length = operator(
        "length", lambda p, q: sqrt(p * p + q * q), commutative=True, associative=True
    )
    applied = length(a, 2)
    assert same(applied, Apply(length, (a.node, Literal(2))))
    assert (applied.dtype, length(i, j).dtype) == (FLOAT64, FLOAT64)
    assert show(applied) == "length(A(i,j), 2)"
    np.testing.assert_array_equal(length.ufunc(np.array([3, 5]), np.array([4, 12])), [5, 13])
    assert length.arity == 2


def test_operators_compare_by_definition() -> None:
    def make(factor: int) -> Op:
        return operator("scaled", lambda p: p * factor)

    assert make(2) == make(2)
    assert make(2) != make(3)
    assert hash(make(2)) == hash(make(2))


def test_operators_of_operators() -> None:
    square = operator("square", lambda p: p * p)
    fourth = operator("fourth", lambda p: square(square(p)))
    assert fourth(i).dtype == INT64
    np.testing.assert_array_equal(fourth.ufunc(np.arange(4)), [0, 1, 16, 81])


def test_any_number_of_arguments() -> None:
    clip = operator("clip", lambda v, low, high: build.min(build.max(v, low), high))
    assert clip.arity == 3
    np.testing.assert_array_equal(clip.ufunc(np.arange(5), 1, 3), [1, 1, 2, 3, 3])


LAWS: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "either": (lambda p, q: p + q - p * q, dict(identity=0, annihilator=1, associative=True)),
    "least": (lambda p, q: select(p < q, p, q), dict(identity=math.inf, annihilator=-math.inf)),
    "first": (lambda p, q: p, dict(associative=True)),
    "minus": (lambda p, q: p - q, dict(right_identity=0)),
    "over": (lambda p, q: p / (1 + q * q), dict(left_annihilator=0, right_identity=0)),
    "capped": (lambda p, q: build.min(p + q, 1), dict(identity=0, domain=(0, 0.25, 1))),
    "both": (functions.logical_and, dict(identity=True, annihilator=False, domain=(False, True))),
    "plain": (lambda p: p + 1, {}),
}


@pytest.mark.parametrize("name", LAWS)
def test_laws_that_hold(name: str) -> None:
    function, laws = LAWS[name]
    assert operator(f"{name}_", function, **laws).name == f"{name}_"


@pytest.mark.parametrize(
    ("function", "laws", "message"),
    [
        (
            lambda p, q: (p + q) / 2,
            dict(identity=0),
            "identity 0 of f is false: f(-2.5, 0) is -1.25, not -2.5",
        ),
        (
            lambda p, q: p - q,
            dict(identity=0),
            "identity 0 of f is false: f(0, -2.5) is 2.5, not -2.5",
        ),
        (
            lambda p, q: p + q,
            dict(annihilator=0),
            "annihilator 0 of f is false: f(-2.5, 0) is -2.5, not 0.0",
        ),
        (
            lambda p, q: p * q,
            dict(right_identity=2),
            "right_identity 2 of f is false: f(-2.5, 2) is -5.0, not -2.5",
        ),
        (
            lambda p, q: p + q,
            dict(left_annihilator=0),
            "left_annihilator 0 of f is false: f(0, -2.5) is -2.5, not 0.0",
        ),
        (
            lambda p, q: p - q,
            dict(commutative=True),
            "commutative law of f is false: f(-1.0, -2.5) is 1.5, not -1.5",
        ),
        (
            lambda p, q: p - q,
            dict(associative=True),
            "associative law of f is false: f(f(-2.5, -2.5), -2.5) is 2.5, not -2.5",
        ),
        (
            lambda p, q: sqrt(p * p + q * q),
            dict(identity=0),
            "identity 0 of f is false: f(-2.5, 0) is 2.5, not -2.5",
        ),
        (
            lambda p, q: 3,
            dict(identity=0),
            "identity 0 of f is false: f(-2.5, 0) is 3, not -2.5",
        ),
        (
            lambda p: p,
            dict(identity=0),
            "f takes 1 argument: only operators of two arguments have laws",
        ),
    ],
)
def test_laws_that_are_false(
    function: Callable[..., Any], laws: dict[str, Any], message: str
) -> None:
    error = refused(lambda: operator("f", function, **laws))
    assert (error.code, error.message) == ("E111", message)


@pytest.mark.parametrize(
    ("name", "function", "code"),
    [
        ("min", lambda p, q: p, "E111"),
        ("float32", lambda p: p, "E111"),
        ("sum", lambda p: p, "E111"),
        ("a b", lambda p: p, "E111"),
        ("f", lambda p: p * i, "E112"),
        ("f", lambda p: p * a, "E112"),
        ("f", lambda p: build.sum(i, p), "E112"),
        ("f", lambda p: None, "E112"),
        ("f", lambda p: 1 if p > 0 else 0, "E112"),
        ("f", lambda *p: p[0], "E112"),
        ("f", lambda: 2, "E112"),
        ("f", 3, "E112"),
    ],
)
def test_definitions_that_are_none(name: str, function: Any, code: str) -> None:
    assert refused(lambda: operator(name, function)).code == code


def test_optional_arguments_are_constants() -> None:
    scaled = operator("scaled", lambda p, factor=3: p * factor)
    assert (scaled.arity, scaled.ufunc(2)) == (1, 6)


@pytest.mark.parametrize("dtype", ["int8", "uint16", "int64", "float32", "float64", "complex64"])
@pytest.mark.parametrize(
    "function",
    [
        lambda p, q: p * q + 1,
        lambda p, q: p / (q + 2.5),
        lambda p, q: sqrt(functions.abs_(p)) + cast("int16", 3),
        lambda p, q: select(functions.eq(p, q), p, q * np.float32(0.5)),
        lambda p, q: functions.exp(functions.real(p)) * 2,
        lambda p, q: functions.logical_and(p, q),
    ],
)
def test_values_have_the_type_of_the_expression(dtype: str, function: Callable[..., Any]) -> None:
    """The evaluator and the type rules say the same, NumPy's half precision included."""
    op = operator("f", function)
    vector = TensorVar("v", dense(1), as_dtype(dtype), shape=(3,))
    expected = op(access(vector, i), access(vector, i)).dtype
    values = np.array([1, 2, 3], dtype)
    assert op.ufunc(values, values).dtype == expected


def test_typed_literals_in_definitions() -> None:
    assert evaluate(Literal(2, as_dtype("int8")), ()).dtype == as_dtype("int8")
    last = (Term(Parameter(0)) & 1).node
    assert evaluate(last, (np.array([2, 3]),)).tolist() == [0, 1]
    with pytest.raises(InternalError):
        evaluate(i.node, ())


@given(p=st.integers(-50, 50), q=st.integers(-50, 50))
@settings(max_examples=50)
def test_definitions_compute_what_they_say(p: int, q: int) -> None:
    distance = operator("distance", lambda u, v: functions.abs_(u - v) * 2 + build.max(u, v))
    assert distance.ufunc(np.array(p), np.array(q)) == abs(p - q) * 2 + max(p, q)


# Semirings.


def test_a_semiring() -> None:
    bottleneck = semiring("bottleneck", build.max, "min", 0)
    assert (bottleneck.add.identity, bottleneck.mul.annihilator) == (0, 0)
    tropical = semiring("tropical", "min", "+", math.inf)
    assert (tropical.add, tropical.mul) == (ops.MIN_PLUS.add, ops.MIN_PLUS.mul)
    known = semiring("mine", ops.MAX_PLUS.add, ops.MAX_PLUS.mul, -math.inf)
    assert (known.add, known.mul) == (ops.MAX_PLUS.add, ops.MAX_PLUS.mul)


@pytest.mark.parametrize(
    ("add", "mul", "zero", "message"),
    [
        ("min", "*", 0, "identity 0 of min is false: min(0.25, 0) is 0.0, not 0.25"),
        ("+", "+", 0, "annihilator 0 of add is false: add(0.25, 0) is 0.25, not 0.0"),
        (
            "-",
            "*",
            0,
            "semiring bad: sub and mul must take two arguments, and sub must be associative",
        ),
        (
            "+",
            "sqrt",
            0,
            "semiring bad: add and sqrt must take two arguments, and add must be associative",
        ),
    ],
)
def test_semirings_that_are_none(add: str, mul: str, zero: float, message: str) -> None:
    error = refused(lambda: semiring("bad", add, mul, zero))
    assert (error.code, error.message) == ("E111", message)


def test_under_min_plus(read: Read) -> None:
    shortest = under(ops.MIN_PLUS, read("y(i) = A(i,j) * x(j) + z(i)"))
    assert show(shortest) == ("y(i) = min(min(j, min_plus.mul(A(i,j), x(j))), z(i))")
    tensors = {n.tensor.name: n.tensor.fill for n in _accesses(shortest)}
    assert tensors == dict.fromkeys("yAxz", math.inf)
    assert explicit(shortest) is shortest


def _accesses(assignment: Assignment) -> list[Any]:
    def visit(expr: Expr) -> list[Any]:
        match expr:
            case Apply(args=args):
                return [each for arg in args for each in visit(arg)]
            case Reduce(expr=inner) | Cast(expr=inner):
                return visit(inner)
            case Literal() | IndexVar():
                return []
        return [expr]

    return [assignment.lhs, *visit(assignment.rhs)]


@pytest.mark.parametrize(
    ("ring", "text", "meaning"),
    [
        (ops.MAX_PLUS, "y(i) += x(i) * z(i)", "y(i) max= max_plus.mul(x(i), z(i))"),
        (ops.OR_AND, "m(i) = M(i,j) * m(j)", "m(i) = any(j, and(M(i,j), m(j)))"),
        (
            ops.MAX_TIMES,
            "y(i) = A(i,j) * x(j)",
            "y(i) = reduce(max_times.add, j, A(i,j) * x(j))",
        ),
        (ops.MAX_TIMES, "y(i) += x(i)", "y(i) max_times.add= x(i)"),
        (ops.MIN_PLUS, "y(i) = sum(j, A(i,j))", "y(i) = min(j, A(i,j))"),
        (ops.MIN_PLUS, "y(i) = max(j, A(i,j))", "y(i) = max(j, A(i,j))"),
        (ops.PLUS_TIMES, "y(i) = A(i,j) - x(j) / 2", "y(i) = A(i,j) - x(j) / 2"),
    ],
)
def test_under(ring: ops.Semiring, text: str, meaning: str, read: Read) -> None:
    assert show(under(ring, read(text))) == meaning


@pytest.mark.parametrize(
    "text", ["x(i) - z(i)", "x(i) / z(i)", "-x(i)", "x(i) // z(i)", "x(i) % 2"]
)
def test_semirings_have_no_inverse(text: str, read: Read) -> None:
    error = refused(lambda: under(ops.MIN_PLUS, read(f"y(i) = {text}")))
    assert error.code == "E111"
    assert error.hint == "min_plus has only + (min) and * (add)"


def test_the_message_of_a_missing_inverse(read: Read) -> None:
    assert str(refused(lambda: under(ops.MIN_PLUS, read("y(i) = x(i) - z(i)")))) == (
        "E111: min_plus has no -\n"
        "  y(i) = x(i) - z(i)\n"
        "         ^^^^^^^^^^^\n"
        "  hint: min_plus has only + (min) and * (add)"
    )


def test_zero_in_the_type_of_the_tensor() -> None:
    n = TensorVar("n", CSR, as_dtype("int8"), shape=(3, 4))
    y = TensorVar("y", dense(1), as_dtype("int16"), shape=(3,))
    shortest = under(ops.MIN_PLUS, assignment_of(access(y, i), access(n, (i, j))))
    fills = [each.tensor.fill for each in _accesses(shortest)]
    assert fills == [32767, 127]


def test_fills_of_the_users_stay() -> None:
    filled = TensorVar("A", CSR, FLOAT64, fill=5.0, shape=(3, 4))
    y = TensorVar("y", dense(1), FLOAT64, fill=7.0, shape=(3,))
    Z = TensorVar("Z", CSR, FLOAT64, fill=7.0, shape=(3, 4))
    into_dense = under(ops.MIN_PLUS, assignment_of(access(y, i), access(filled, (i, j))))
    assert [each.tensor.fill for each in _accesses(into_dense)] == [7.0, 5.0]
    into_sparse = under(ops.MIN_PLUS, assignment_of(access(Z, (i, j)), access(filled, (i, j))))
    assert [each.tensor.fill for each in _accesses(into_sparse)] == [math.inf, 5.0]


def test_a_semiring_by_its_name() -> None:
    assert semiring("min_second").mul.name == "second"
    for wrong in (("nosuch",), ("widest", max)):
        with pytest.raises(ParseError, match="E111"):
            semiring(*wrong)
