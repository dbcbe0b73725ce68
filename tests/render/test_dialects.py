"""What C and CUDA share is spelled by the dialect alone: nothing of one is left in the other."""

from __future__ import annotations

import re

import pytest

from openwork.algebra.operators import ABS, CONJ, IMAG, REAL, SQRT, Op
from openwork.errors import InternalError
from openwork.program import nodes as p
from openwork.render.c.dialect import C
from openwork.render.c.helpers import LIBRARY as C_LIBRARY
from openwork.render.cuda.dialect import CUDA
from openwork.render.cuda.helpers import LIBRARY as CUDA_LIBRARY
from openwork.render.dialect import Dialect
from openwork.render.helpers import Library, helper_text
from openwork.render.searches import SEARCHES
from openwork.render.writer import Writer

PLAIN = ("clear",)
KEYED = (*SEARCHES, "note", "order_keys", "find", "sort_pairs")
INTEGERS = ("int8", "int64", "uint8", "uint64")
CALLED = {
    INTEGERS: ("min", "max", "pow", "floor_divide", "remainder", "left_shift", "right_shift"),
    ("int32", "int64"): ("add_inf", "add_minus_inf"),
    ("float32", "float64"): ("min", "max", "floor_divide", "remainder"),
    ("complex64", "complex128"): ("min", "max", "lt", "le", "gt", "ge", "pow"),
}
ONLY_C = re.compile(r"\b(_Bool|_Complex|__real__|__imag__|__builtin_\w+|static inline)\b")
ONLY_CUDA = re.compile(r"\b(__device__|index_t|Complex<)")


def texts(d: Dialect) -> dict[str, str]:
    """The helpers that both have, for types of every kind."""
    found = {name: helper_text(name, "", d) for name in PLAIN}
    found |= {f"{name} {t}": helper_text(name, t, d) for name in KEYED for t in ("int32", "int64")}
    for types, names in CALLED.items():
        found |= {f"{name} {t}": helper_text(name, t, d) for name in names for t in types}
    return found


@pytest.mark.parametrize(("d", "foreign"), [(C, ONLY_CUDA), (CUDA, ONLY_C)], ids=["C", "CUDA"])
def test_helpers_have_nothing_of_the_other_dialect(d: Dialect, foreign: re.Pattern[str]) -> None:
    for name, text in texts(d).items():
        assert foreign.search(text) is None, f"{name}:\n{text}"
        assert "$" not in text, f"{name}:\n{text}"


@pytest.mark.parametrize(
    ("op", "type", "in_c", "in_cuda"),
    [
        (SQRT, "float32", "__builtin_sqrtf(x)", "sqrtf(x)"),
        (SQRT, "complex64", "__builtin_csqrtf(x)", "csqrt(x)"),
        (ABS, "complex128", "__builtin_cabs(x)", "cabs(x)"),
        (REAL, "complex128", "__real__ x", "x.re"),
        (IMAG, "complex64", "__imag__ x", "x.im"),
        (CONJ, "complex64", "~x", "Complex<float>(x.re, -x.im)"),
    ],
)
def test_operators(op: Op, type: str, in_c: str, in_cuda: str) -> None:
    half = {"complex64": "float32", "complex128": "float64"}
    result = half.get(type, type) if op in (ABS, REAL, IMAG) else type
    call = p.Apply(op, (p.Name("x", type),), result)
    assert Writer(C, C_LIBRARY, {}).text(call) == in_c
    assert Writer(CUDA, CUDA_LIBRARY, {}).text(call) == in_cuda


@pytest.mark.parametrize(
    ("source", "to", "in_c", "in_cuda"),
    [
        ("int64", "float32", "(float)x", "(float)x"),
        ("complex64", "bool", "x != 0", "nonzero(x)"),
        ("complex64", "float64", "(double)x", "(double)x.re"),
        ("float32", "complex128", "(double _Complex)x", "Complex<double>((double)x)"),
    ],
)
def test_conversions(source: str, to: str, in_c: str, in_cuda: str) -> None:
    convert = p.Convert(p.Name("x", source), to)
    assert Writer(C, C_LIBRARY, {}).text(convert) == in_c
    assert Writer(CUDA, CUDA_LIBRARY, {}).text(convert) == in_cuda


@pytest.mark.parametrize(
    ("value", "type", "in_c", "in_cuda"),
    [
        (True, "bool", "1", "true"),
        (-float("inf"), "float32", "-__builtin_inff()", "-__int_as_float(0x7f800000)"),
        (1j, "complex64", "__builtin_complex(0.0f, 1.0f)", "Complex<float>(0.0f, 1.0f)"),
        (-(2**63), "int64", "(-9223372036854775807 - 1)", "(-9223372036854775807 - 1)"),
    ],
)
def test_constants(value: complex, type: str, in_c: str, in_cuda: str) -> None:
    assert Writer(C, C_LIBRARY, {}).text(p.Value(value, type)) == in_c
    assert Writer(CUDA, CUDA_LIBRARY, {}).text(p.Value(value, type)) == in_cuda


@pytest.mark.parametrize(("d", "library"), [(C, C_LIBRARY), (CUDA, CUDA_LIBRARY)])
def test_an_unknown_node_is_our_mistake(d: Dialect, library: Library) -> None:
    w = Writer(d, library, {})
    with pytest.raises(InternalError, match=f"{d.name} has no spelling for Shelf"):
        w.simple(p.Shelf(p.Array("a", "int64"), p.Value(1)))
    with pytest.raises(InternalError, match="no helper nothing"):
        w.use("nothing", "")


def test_helpers_bring_what_they_call() -> None:
    w = Writer(CUDA, CUDA_LIBRARY, {})
    assert w.use("of_block", "") == "of_block"
    assert [name for name, _ in w.helpers] == ["shuffle", "of_lanes", "of_block"]
