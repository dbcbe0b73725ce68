"""Numbers are NumPy's: random expressions, evaluated by NumPy itself and by compiled kernels.

One text of Python is evaluated three times: with NumPy's arrays, with accesses to tensors, and, as
index notation, by the parser, so that precedence is Python's as well. Element types, values and
what is refused have to agree, at every place where all operands have entries.
`OPENWORK_FUZZ_CASES` says how many cases, `OPENWORK_FUZZ_SEED` which.
"""

from __future__ import annotations

import ast
import os
import random
import re
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from tests.random.test_property import Batch

import openwork as ow
from openwork.algebra.types import NAMES, computed
from openwork.index.checks import extents
from openwork.index.einstein import explicit
from openwork.runtime.reference import evaluate, to_masked
from openwork.runtime.storage import Array

pytestmark = pytest.mark.optimized

CASES = int(os.environ.get("OPENWORK_FUZZ_CASES", "200"))
SEED = int(os.environ.get("OPENWORK_FUZZ_SEED", "0"))
CHUNKS = 4
BATCH = 200  # kernels that are compiled together
EAGER = 40  # one case in so many is also computed operator by operator

_COMPARE = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
_BITS = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.BitAnd, ast.BitOr, ast.LShift, ast.RShift)
_DIVIDE = (ast.FloorDiv, ast.Mod)
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult)
_NUMBERS = (
    0,
    1,
    2,
    3,
    5,
    7,
    8,
    31,
    64,
    127,
    128,
    200,
    255,
    300,
    2**31,
    2**40,
    2**63,
    0.5,
    2.5,
    True,
)
_LENGTH = 12

_OURS = {
    name: getattr(ow, name)
    for name in ("abs", "minimum", "maximum", "select", "lt", "le", "gt", "ge", "eq", "ne")
}
_NUMPYS = {
    **{"abs": np.abs, "minimum": np.minimum, "maximum": np.maximum},
    **{"select": np.where, "power": np.power},
}


@dataclass(frozen=True)
class Case:
    """A text of Python over the arrays, and where each array has entries."""

    text: str
    arrays: dict[str, Array]
    present: dict[str, Array]

    @property
    def everywhere(self) -> Array:
        """Where all operands have entries."""
        used = [self.present[name] for name in _names(self.text)]
        return np.logical_and.reduce(used)

    def tensors(self) -> dict[str, ow.Tensor]:
        made = {}
        for name, array in self.arrays.items():
            stored = np.flatnonzero(self.present[name])
            format = "Dense" if self.present[name].all() and name != "c" else "Compressed"
            entries = (stored[None], array[stored])
            made[name] = ow.tensor(entries, shape=array.shape, format=format, name=name)
        return made


def _names(text: str) -> set[str]:
    return {n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name)} & set("abc")


class _Draw:
    """Draws an expression; `kind` tells the element type that a part of it has, by NumPy."""

    def __init__(self, rng: random.Random, arrays: dict[str, Array]) -> None:
        self.rng, self.arrays = rng, arrays

    def kind(self, node: ast.expr) -> str:
        try:
            return str(np.asarray(_evaluated(_text(node), self.arrays)).dtype.kind)
        except (TypeError, OverflowError, ValueError):
            return "?"

    def leaf(self) -> ast.expr:
        return ast.Name(self.rng.choice("abc"))

    def number(self) -> ast.expr:
        value = self.rng.choice(_NUMBERS)
        node: ast.expr = ast.Constant(value)
        negative = self.rng.random() < 0.2 and value not in (0, True)
        return ast.UnaryOp(ast.USub(), node) if negative else node

    def sub(self, depth: int) -> ast.expr:
        return self.tree(depth - 1) if depth > 0 and self.rng.random() < 0.6 else self.leaf()

    def pair(self, depth: int) -> tuple[ast.expr, ast.expr]:
        left, right = self.sub(depth), self.sub(depth)
        if self.rng.random() < 0.3:
            return (self.number(), right) if self.rng.random() < 0.4 else (left, self.number())
        return left, right

    def tree(self, depth: int) -> ast.expr:
        rng, (left, right) = self.rng, self.pair(depth)
        form = rng.choices(("bits", "compare", "divide", "power", "sum", "one", "select", "least"),
                           (8, 5, 5, 3, 3, 4, 2, 1))[0]  # fmt: skip
        if form == "compare":
            return ast.Compare(left, [rng.choice(_COMPARE)()], [right])
        if form == "select":
            condition = ast.Compare(left, [rng.choice(_COMPARE)()], [right])
            left, right = self.sub(depth), self.sub(depth)
            # NumPy's `where` wraps a number that does not fit, unasked; we refuse it.
            fits = ast.Constant(rng.choice((0, 1, True, 0.5)))
            return _call("select", condition, left, fits if rng.random() < 0.3 else right)
        if form == "least":
            return _call(rng.choice(("minimum", "maximum")), left, right)
        if form == "one":
            sign = rng.choice((ast.Invert, ast.Invert, ast.USub))
            inner = self.sub(depth)
            # The modulus of a complex number is rounded.
            signed = rng.random() < 0.8 or self.kind(inner) == "c"
            return ast.UnaryOp(sign(), inner) if signed else _call("abs", inner)
        operators = {"bits": _BITS, "divide": _DIVIDE, "power": (ast.Pow,), "sum": _ARITHMETIC}
        made = ast.BinOp(left, rng.choice(operators[form])(), right)
        # Floats are rounded by powers, and sums of products in C: only integers are exact.
        inexact = form in ("power", "sum") and self.kind(made) in "fc"
        return ast.BinOp(left, rng.choice(_DIVIDE)(), right) if inexact else made

    def root(self) -> ast.expr:
        if self.rng.random() < 0.06:  # any power, whose rounding nothing builds on
            exponent = self.number() if self.rng.random() < 0.5 else self.leaf()
            return ast.BinOp(self.leaf(), ast.Pow(), exponent)
        return self.tree(self.rng.choice((0, 1, 1, 2, 2)))


def _call(name: str, *args: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name), list(args), [])


def _text(node: ast.expr) -> str:
    return ast.unparse(ast.fix_missing_locations(ast.Expression(node)))


def _is_turned(text: str) -> bool:
    compared = [n.left for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Compare)]
    return any(isinstance(left, (ast.Constant, ast.UnaryOp)) for left in compared)


class _Called(ast.NodeTransformer):
    """Comparisons as calls: whole tensors are compared by functions."""

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        left, right = self.visit(node.left), self.visit(node.comparators[0])
        names = dict(zip(_COMPARE, ("lt", "le", "gt", "ge", "eq", "ne"), strict=True))
        return _call(names[type(node.ops[0])], left, right)


class _Powers(ast.NodeTransformer):
    """Powers as calls: NumPy's `b ** 2` squares bools as int8, where `np.power` has int64."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        left, right = self.visit(node.left), self.visit(node.right)
        if isinstance(node.op, ast.Pow):
            return _call("power", left, right)
        return ast.BinOp(left, node.op, right)


def _evaluated(text: str, names: dict[str, Any], functions: dict[str, Any] = _NUMPYS) -> Any:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return eval(text, {**functions, **names})  # noqa: S307 - a text that was drawn above


def _values(rng: random.Random, name: str) -> Array:
    """Small numbers, and those at the ends of the type."""
    dtype = np.dtype(name)
    if dtype.kind == "b":
        return np.array([rng.random() < 0.6 for _ in range(_LENGTH)])
    if dtype.kind in "iu":
        low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
        ends = (low, low + 1, high, high - 1, 8 * dtype.itemsize, 8 * dtype.itemsize - 1)
        small = (0, 1, 2, 3, 5, -1 if low else 1, -3 if low else 7)
        drawn = [rng.choice(small if rng.random() < 0.7 else ends) for _ in range(_LENGTH)]
        if rng.random() < 0.5:  # exponents
            drawn = [abs(v) for v in drawn if abs(v) <= high] or [1]
        return np.array((drawn * _LENGTH)[:_LENGTH], dtype)
    reals = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, -2.5, 3.0, 7.25, float("inf"), float("nan"), 1e10)
    real = np.array([rng.choice(reals) for _ in range(_LENGTH)])
    if dtype.kind == "c":
        real = real + 1j * np.array([rng.choice((0.0, 1.0, -2.0)) for _ in range(_LENGTH)])
    with np.errstate(over="ignore"):
        return real.astype(dtype)


def case_of(seed: int) -> Case:
    """The case with this seed."""
    rng = random.Random(seed)
    exact = [n for n in NAMES if np.dtype(n).kind in "biu"]
    first = rng.choice(exact if rng.random() < 0.75 else NAMES)
    alike = rng.random() < 0.5
    types = [first, *(first if alike or rng.random() < 0.3 else rng.choice(exact if rng.random() < 0.7 else NAMES) for _ in "bc")]  # fmt: skip # noqa: E501
    arrays = {name: _values(rng, dtype) for name, dtype in zip("abc", types, strict=True)}
    drawer = _Draw(rng, arrays)
    text = _text(drawer.root())
    while not _names(text):
        text = _text(drawer.root())
    present = {name: np.ones(_LENGTH, bool) for name in "abc"}
    if rng.random() < 0.5:
        for name in rng.sample("abc", rng.choice((1, 2, 3))):
            present[name] = np.array([rng.random() < 0.7 for _ in range(_LENGTH)])
            arrays[name] = np.where(present[name], arrays[name], np.zeros((), arrays[name].dtype))
    return Case(text, arrays, present)


def expected(case: Case) -> Array | Exception:
    """NumPy's answer."""
    try:
        text = ast.unparse(_Powers().visit(ast.parse(case.text)))
        # Numbers of half precision are computed in single.
        wide = {name: array.astype(computed(array.dtype)) for name, array in case.arrays.items()}
        return np.asarray(_evaluated(text, wide))
    except (TypeError, OverflowError, ValueError) as error:
        return error


def term_of(case: Case, tensors: dict[str, ow.Tensor]) -> Any:
    """The expression that Python builds; the parser has to read the same from the text."""
    i = ow.index("i")
    accesses = {name: tensor[i] for name, tensor in tensors.items()}
    term = _evaluated(case.text, accesses, _OURS)
    y = ow.empty((_LENGTH,), dtype=term.dtype, name="y")
    statement = ow.assign(y[i], term)
    text = re.sub(r"\b[abc]\b", r"\g<0>(i)", case.text)
    read = ow.parse(f"y(i) = {text}", y=y, **{n: tensors[n] for n in _names(case.text)})
    # Python turns `2 < a` around, and nothing else.
    assert read == statement or _is_turned(case.text), f"{read} is not {statement}"
    return read


def check(values: Array, wanted: Array, at: Array, text: str) -> None:
    """Fail unless `values` are those `wanted` where it matters, with the sign of zeros."""
    made = computed(values.dtype)  # what is only copied stays in half precision
    assert made == wanted.dtype, f"element type {values.dtype}, NumPy has {wanted.dtype}"
    got, want = values[at], np.broadcast_to(wanted, values.shape)[at]
    if wanted.dtype.kind in "fc" and "**" in text:
        rtol = 1e-4 if wanted.dtype in (np.float32, np.complex64) else 1e-9
        finite = np.isfinite(want)
        np.testing.assert_array_equal(np.isfinite(got), finite)
        np.testing.assert_allclose(got[finite], want[finite], rtol=rtol)
        return
    np.testing.assert_array_equal(got, want)
    # Which of 0.0 and -0.0 is the greater one differs between processors, for NumPy, too.
    if wanted.dtype.kind == "f" and "imum" not in text:
        number = ~np.isnan(want)
        np.testing.assert_array_equal(np.signbit(got)[number], np.signbit(want)[number])


def run(seeds: range) -> tuple[list[str], int]:
    """What differs from NumPy among the cases of `seeds`, and how many both refuse."""
    batch, waiting, failures, refused = Batch(), [], [], 0
    for seed in seeds:
        case = case_of(seed)
        wanted = expected(case)
        try:
            tensors = case.tensors()
            statement = term_of(case, tensors)
            kernel = statement.compile(loader=batch)
        except ow.OpenworkError as error:
            refused += isinstance(wanted, Exception)
            if not isinstance(wanted, Exception):
                failures.append(f"seed {seed}: {case}\nonly we refuse it: {error}")
            continue
        except AssertionError as error:
            failures.append(f"seed {seed}: {case}\n{error}")
            continue
        waiting.append((seed, case, wanted, tensors, statement, kernel))
    for seed, case, wanted, tensors, statement, kernel in waiting:
        try:
            refused += _compared(seed, case, wanted, tensors, statement, kernel)
        except AssertionError as error:
            failures.append(f"seed {seed}: {case}\n{error}")
    return failures, refused


def _compared(
    seed: int, case: Case, wanted: Any, tensors: dict[str, Any], statement: Any, kernel: Any
) -> bool:
    """Compare one case; whether it is refused."""
    if isinstance(wanted, Exception):
        # Where entries are absent, or a branch is not taken, nothing is raised to a power.
        lazy = "select" in case.text or not case.everywhere.all()
        lazy |= isinstance(wanted, OverflowError)  # NumPy cannot compare a bool with 2**63
        try:
            kernel()
        except ow.DataError:
            return True
        assert lazy, f"only NumPy refuses it: {wanted}"
        return False
    at = case.everywhere
    check(kernel().to_numpy(), wanted, at, case.text)
    used = {name: to_masked(tensors[name].storage) for name in _names(case.text)}
    assignment = explicit(statement.assignment)
    known = {var: n for var, n in extents(assignment).items() if n is not None}
    check(evaluate(assignment, used, known).values, wanted, at, case.text)
    if seed % EAGER == 0:
        called = ast.unparse(_Called().visit(ast.parse(case.text)))
        check(_evaluated(called, tensors, _OURS).to_numpy(), wanted, at, case.text)
    return False


@pytest.mark.fuzz
@pytest.mark.needs_cc
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_numbers_are_numpys(chunk: int) -> None:
    share = CASES // CHUNKS
    failures: list[str] = []
    refused = 0
    for start in range(SEED + chunk * share, SEED + (chunk + 1) * share, BATCH):
        stop = min(start + BATCH, SEED + (chunk + 1) * share)
        found, none = run(range(start, stop))
        failures += found
        refused += none
    print(f"{share} cases, {refused} refused by both, {len(failures)} differ")
    if failures:
        count = f"{len(failures)} of {share} cases differ from NumPy"
        pytest.fail("\n".join([count, *failures[:5]]), pytrace=False)
