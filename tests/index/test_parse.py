"""The parser: what it reads, and everything it refuses at once."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings, strategies as st

from openwork.algebra import operators as ops
from openwork.algebra.types import FLOAT64, as_dtype
from openwork.errors import ParseError
from openwork.format.formats import dense
from openwork.index.build import access, indices
from openwork.index.checks import MAX_DEPTH
from openwork.index.nodes import (
    Access,
    Apply,
    Assignment,
    Cast,
    IndexVar,
    Literal,
    Reduce,
    TensorVar,
)
from openwork.index.parse import MAX_NESTING, parse_assignment
from openwork.index.show import show
from openwork.index.terms import Term
from openwork.tensor.statement import assign
from openwork.tree import walk

Read = Callable[[str], Assignment]
i, j, k = indices("i j k")


def assigned(lhs: Term, rhs: object, op: ops.Op | None = None) -> Assignment:
    return assign(lhs, rhs, op).assignment


def refused(read: Read, text: str) -> ParseError:
    with pytest.raises(ParseError) as caught:
        read(text)
    return caught.value


def codes(error: ParseError) -> list[str]:
    """The code in front of each fault of the message."""
    return [line[:4] for line in str(error).splitlines() if line[:1] == "E" and line[4:5] == ":"]


# What is read.


def test_an_assignment(read: Read, tensors: dict[str, TensorVar]) -> None:
    A, x, y = tensors["A"], tensors["x"], tensors["y"]
    expected = assigned(access(y, i), access(A, (i, j)) * access(x, j))
    assert read("y(i) = A(i,j) * x(j)") == expected
    assert read("y[i]=A[i,j]*x[j]") == expected
    assert read("  y ( i )\n  = A(i , j)\n  * x(j)\n") == expected


@pytest.mark.parametrize(
    ("sign", "op"),
    [
        ("=", None),
        ("+=", ops.ADD),
        ("*=", ops.MUL),
        ("min=", ops.MIN),
        ("max=", ops.MAX),
        ("|=", ops.BITWISE_OR),
        ("&=", ops.BITWISE_AND),
        ("^=", ops.BITWISE_XOR),
        ("or=", ops.OR),
        ("min_plus.mul=", ops.MIN_PLUS.mul),
        ("min =", ops.MIN),
    ],
)
def test_assignment_signs(sign: str, op: object, read: Read) -> None:
    assert read(f"y(i) {sign} x(i)").op == op


@pytest.mark.parametrize(
    ("text", "meaning"),
    [
        ("s + s * s", "s + (s * s)"),
        ("s - s - s", "(s - s) - s"),
        ("s / s * s", "(s / s) * s"),
        ("-s ** 2", "-(s ** 2)"),
        ("-s * s", "(-s) * s"),
        ("2 ** 3 ** s", "2 ** (3 ** s)"),
        ("2 ** -s", "2 ** (-s)"),
        ("s < s + 1", "s < (s + 1)"),
        ("i | i ^ i & i", "i | (i ^ (i & i))"),
        ("i & i < i", "(i & i) < i"),
        ("i & i + i", "i & (i + i)"),
        ("i & i << i", "i & (i << i)"),
        ("i << i + i", "i << (i + i)"),
        ("i << i >> i", "(i << i) >> i"),
        ("i + i // i", "i + (i // i)"),
        ("i * i // i % i / i", "(((i * i) // i) % i) / i"),
        ("~i ** 2", "~(i ** 2)"),
        ("~i & i", "(~i) & i"),
        ("~-i", "~(-i)"),
        ("2 ** ~i", "2 ** (~i)"),
        ("i==i", "eq(i, i)"),
        ("i!=i", "ne(i, i)"),
        ("((s))", "s"),
        ("s()", "s"),
        ("pow(s, 2)", "s ** 2"),
        ("add(s, 2)", "s + 2"),
        ("logical_and(s, s)", "and(s, s)"),
        ("bitwise_and(i, i)", "i & i"),
        ("remainder(floor_divide(i, 2), 3)", "i // 2 % 3"),
        ("ow.sqrt(s)", "sqrt(s)"),
        ("sum(j, k, A(j,k))", "sum(j, sum(k, A(j,k)))"),
        ("min(s, 2)", "minimum(s, 2)"),
    ],
)
def test_precedence_and_synonyms(text: str, meaning: str, read: Read) -> None:
    assert read(f"s = {text}") == read(f"s = {meaning}")


@pytest.mark.parametrize(
    ("text", "literal"),
    [
        ("2", Literal(2)),
        ("007", Literal(7)),
        ("2.", Literal(2.0)),
        (".5", Literal(0.5)),
        ("1e3", Literal(1000.0)),
        ("1E-3", Literal(0.001)),
        ("-2", Literal(-2)),
        ("(-2)", Literal(-2)),
        ("3j", Literal(3j)),
        ("-inf", Literal(float("-inf"))),
        ("nan", Literal(float("nan"))),
        ("True", Literal(True)),
        ("complex(1, -2)", Literal(complex(1, -2))),
        ("float32(0.1)", Literal(0.10000000149011612, as_dtype("float32"))),
        ("float32(2)", Literal(2.0, as_dtype("float32"))),
        ("int8(-128)", Literal(-128, as_dtype("int8"))),
        ("uint64(18446744073709551615)", Literal(2**64 - 1, as_dtype("uint64"))),
        ("-9223372036854775808", Literal(-(2**63))),
        ("bool(1)", Literal(True, as_dtype("bool"))),
    ],
)
def test_numbers(text: str, literal: Literal, read: Read) -> None:
    assert read(f"c(i) = {text}").rhs == literal


def test_min_reduces_when_a_variable_comes_first(read: Read) -> None:
    reduction = read("y(i) = min(j, A(i,j))").rhs
    assert isinstance(reduction, Reduce)
    assert (reduction.op, reduction.var) == (ops.MIN, j.node)
    elementwise = read("y(i) = min(x(i), j)").rhs
    assert isinstance(elementwise, Apply)
    assert isinstance(read("y(i) = minimum(j, x(i))").rhs, Apply)


def test_casts(read: Read) -> None:
    assert isinstance(read("y(i) = float32(x(i))").rhs, Cast)
    assert read("y(i) = cast(int8, 3.5)").rhs == Cast(as_dtype("int8"), Literal(3.5))


def test_every_node_knows_its_place(read: Read) -> None:
    text = "y(i) = sqrt(A(i,j)) * x(j) + -z(i)"
    places = set()
    for node in walk(read(text)):
        if isinstance(node, (Access, Apply, Reduce)) and node.span is not None:
            places.add(node.span.text[node.span.start : node.span.stop])
    assert places >= {"sqrt(A(i,j))", "A(i,j)", "sqrt(A(i,j)) * x(j)", "-z(i)", text[7:], "y(i)"}


def test_the_text_names_the_tensor() -> None:
    """`parse("y(i) = P(i)", P=q)`: the statement calls it P, whatever its own name is."""
    q = TensorVar("q", dense(1), FLOAT64, shape=(3,))
    read = parse_assignment("y(i) = P(i)", {"y": q, "P": q})
    assert str(read) == "y[i] = P[i]"


def test_orders_up_to_six() -> None:
    Z = TensorVar("Z", dense(6), FLOAT64, shape=(2,) * 6)
    assert show(parse_assignment("Z(a,b,c,d,e,f) = 1", {"Z": Z})) == "Z(a,b,c,d,e,f) = 1"


# What is refused.


def test_bad_characters(read: Read) -> None:
    assert str(refused(read, "y(i) = x(i) $$ ? 2")) == (
        "E101: `$$` is not index notation\n"
        "  y(i) = x(i) $$ ? 2\n"
        "              ^^\n"
        "E101: `?` is not index notation\n"
        "  y(i) = x(i) $$ ? 2\n"
        "                 ^\n"
        "  hint: select(condition, yes, no) chooses\n"
        "E102: expected an operator or the end, found `2`\n"
        "  y(i) = x(i) $$ ? 2\n"
        "                   ^"
    )


def test_something_missing(read: Read) -> None:
    assert str(refused(read, "y(i) = A(i,j")) == (
        "E102: expected `,` or `)`, found the end of the text\n  y(i) = A(i,j\n              ^"
    )


def test_unknown_names(read: Read, tensors: dict[str, TensorVar]) -> None:
    assert str(refused(read, "y(i) = Axx(i,j) * sqtr(x(j))")) == (
        "E103: no tensor or function is called Axx\n"
        "  y(i) = Axx(i,j) * sqtr(x(j))\n"
        "         ^^^\n"
        f"  hint: the tensors are {', '.join(sorted(tensors))}\n"
        "E103: no tensor or function is called sqtr\n"
        "  y(i) = Axx(i,j) * sqtr(x(j))\n"
        "                    ^^^^\n"
        "  hint: did you mean sqrt?"
    )


def test_wrong_number_of_variables(read: Read) -> None:
    assert str(refused(read, "y(i,j) = A(i) * s(i) + x")) == (
        "E104: y has 1 mode, but 2 index variables are given\n"
        "  y(i,j) = A(i) * s(i) + x\n"
        "  ^^^^^^\n"
        "  hint: write y(i)\n"
        "E104: A has 2 modes, but 1 index variable is given\n"
        "  y(i,j) = A(i) * s(i) + x\n"
        "           ^^^^\n"
        "  hint: write A(i,j)\n"
        "E104: s has 0 modes, but 1 index variable is given\n"
        "  y(i,j) = A(i) * s(i) + x\n"
        "                  ^^^^\n"
        "  hint: write s\n"
        "E104: x has 1 mode, but 0 index variables are given\n"
        "  y(i,j) = A(i) * s(i) + x\n"
        "                         ^\n"
        "  hint: write x(i)"
    )


def test_operators_that_the_types_do_not_have(read: Read) -> None:
    assert str(refused(read, "m(i) = -m(i)")) == (
        "E108: neg is not defined for bool\n"
        "  m(i) = -m(i)\n"
        "         ^^^^^\n"
        "  hint: for a bool, use ow.logical_not(e), or cast it: ow.cast('int8', e)"
    )


def test_faults_of_every_kind_come_together(read: Read) -> None:
    error = refused(read, "q(i) = A(i) * sqrt(, 2) @ foo(j) + max(x(i 2), z(i))")
    assert codes(error) == ["E103", "E104", "E102", "E101", "E102"]
    assert error.code == "E103"
    assert len(error.faults) == 5


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", ["E102"]),
        ("y(i)", ["E102"]),
        ("y(i) =", ["E102"]),
        ("= x(i)", ["E102"]),
        ("2 = x(i)", ["E102"]),
        ("y(i) == x(i)", ["E102"]),
        ("y(i) -= x(i)", ["E102"]),
        ("y(i) /= x(i)", ["E102"]),
        ("y(i) foo= x(i)", ["E103"]),
        ("y(i) = x(i) x(i)", ["E102"]),
        ("y(i) = x(i) + * x(i)", ["E102"]),
        ("y(i) = (x(i)", ["E102"]),
        ("y(i) = x(i))", ["E102"]),
        ("y(i) = x(i]", ["E102"]),
        ("y(i) = ()", ["E102"]),
        ("y(i) = (x(i), 2)", ["E102"]),
        ("y(i+1) = x(i)", ["E102"]),
        ("y(2) = x(i)", ["E102"]),
        ("y(i) = x(i*i)", ["E104"]),
        ("y(i) = x(i,)", ["E102"]),
        ("y(i) = x(i) < 1 < 2", ["E102"]),
        ("y(i) = sqrt(x(i), 2)", ["E102"]),
        ("y(i) = min(x(i))", ["E102"]),
        ("y(i) = sum(x(i))", ["E102"]),
        ("y(i) = sum()", ["E102"]),
        ("y(i) = sum(x(i), 2)", ["E102"]),
        ("y(i) = sum[j]", ["E103"]),
        ("y(i) = cast(x(i))", ["E102"]),
        ("y(i) = cast(3, x(i))", ["E102"]),
        ("y(i) = cast(float8, x(i))", ["E103"]),
        ("y(i) = cast(float32 x(i))", ["E102"]),
        ("y(i) = reduce(foo, j, x(j))", ["E103"]),
        ("y(i) = reduce(sub, j, x(j))", ["E111"]),
        ("y(i) = reduce(max, x(j))", ["E102"]),
        ("y(i) = index(i, j)", ["E102"]),
        ("y(i) = complex(x(i), 2)", ["E102"]),
        ("y(i) = complex(2j, 1)", ["E102"]),
        ("y(i) = int8(300)", ["E108"]),
        ("y(i) = int8(2.5)", ["E108"]),
        ("y(i) = uint8(-1)", ["E108"]),
        ("y(i) = int8(inf)", ["E108"]),
        ("y(i) = int8(nan)", ["E108"]),
        ("y(i) = float32(2j)", ["E108"]),
        ("y(i) = bool(2)", ["E108"]),
        ("y(i) = 18446744073709551616", ["E101"]),
        ("y(i) = -18446744073709551615", ["E101"]),
        ("y(i) = " + "9" * 5000, ["E101"]),
        ("y(i) = floor(c(i))", ["E108"]),
        ("y(i) = a.b", ["E103"]),
        ("y(i) = x(ow.i)", ["E103"]),
        ("y(i) = blend(x(i), 2)", ["E102"]),
    ],
)
def test_refusals(text: str, wanted: list[str], read: Read) -> None:
    assert codes(refused(read, text)) == wanted


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("y(i) -= x(i)", "write += and negate the right side"),
        ("y(i) = x(i) < 1 < 2", "join two comparisons with &"),
        ("y(i) = int8(300)", "cast(int8, 300) converts it"),
        ("y(i) = sum(x(i))", "for example sum(j, A(i,j))"),
        ("y(i) = reduce(max, x(j))", "for example reduce(max, j, A(i,j))"),
        ("y(i) = cast(float46, x(i))", "did you mean float64?"),
        ("y(i+1) = x(i)", "results are indexed by variables alone"),
        ("y(2) = x(i)", "results are indexed by variables alone"),
    ],
)
def test_hints(text: str, hint: str, read: Read) -> None:
    assert refused(read, text).hint == hint


def test_nothing_to_choose_from() -> None:
    with pytest.raises(ParseError) as caught:
        parse_assignment("y = 1", {})
    assert caught.value.hint is None


@pytest.mark.parametrize(
    "text",
    [
        "s = " + "(" * 100_000,
        "s = " + "(" * 500 + "s" + ")" * 500,
        "s = " + "-" * 100_000 + "s",
        "s = " + "s**" * 1000 + "s",
        "s = " + "sqrt(" * 1000 + "s" + ")" * 1000,
        "s = " + "s+" * 100_000 + "s",
        "s(" * 5000,
        "(" * 5000 + "= s",
    ],
)
def test_absurd_nesting(text: str, read: Read) -> None:
    assert refused(read, text).code in ("E102", "E104")


def test_just_not_too_deep(read: Read) -> None:
    nested = "s = " + "(" * (MAX_NESTING - 1) + "s" + ")" * (MAX_NESTING - 1)
    assert show(read(nested)) == "s = s"
    long = "s = " + " + ".join(["s"] * MAX_DEPTH)
    assert show(read(long)) == long
    assert refused(read, long + " + s").message == f"this is nested more than {MAX_DEPTH} deep"


def test_little_stack_left(read: Read) -> None:
    """Deep inside a recursion the parser may run out of stack; that, too, is a ParseError."""
    text = "s = " + "sqrt(" * 60 + "s" + ")" * 60

    def descend(depth: int) -> None:
        if depth > 0:
            descend(depth - 1)
        else:
            read(text)

    outcomes = set()
    for depth in range(0, sys.getrecursionlimit(), 25):
        try:
            descend(depth)
        except ParseError as error:
            outcomes.add(error.code)
        except RecursionError:
            break
    assert outcomes <= {"E102"}


PIECES = st.sampled_from(
    [
        *("y(i)", "A(i,j)", "x(j)", "s", "=", "+=", "min=", "(", ")", "[", "]", ",", "+", "-"),
        *(
            "*",
            "/",
            "**",
            "<",
            "==",
            "&",
            "|",
            "^",
            "~",
            "%",
            "//",
            "<<",
            ">>",
            " ",
            "2",
            "2.5",
            "1e999",
            "3j",
            "inf",
            "nan",
        ),
        *("sqrt(", "sum(j,", "min(", "cast(", "reduce(", "float32(", "complex(", "index(", "i"),
        *("select(", "ow.", ".", "$", "\n", "either(", "True", "m(i)", "c(i)", "é", "²", "\x00"),
    ]
)


@given(text=st.text() | st.lists(PIECES, max_size=25).map("".join))
@settings(max_examples=250)
@example(text="y(i) = sum(index(")
@example(text="y(i)=cast(")
@example(text="y(i)=1e999999")
def test_nothing_but_parse_errors(text: str, read: Read) -> None:
    for prefix in ("", "y(i) = "):
        try:
            node = read(prefix + text)
        except ParseError as error:
            assert error.faults
            assert str(error).startswith(error.code)
        else:
            assert read(show(node)) == node


def test_variables_are_whatever_is_no_tensor(read: Read) -> None:
    assert read("y(i) = q").rhs == IndexVar("q")
