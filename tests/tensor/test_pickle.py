"""Pickles and copies: of everything that a user can hold, also for other processes."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import openwork as ow
from openwork.format.levels.compressed import CompressedLevel
from openwork.index.terms import unwrapped

A0 = np.array([[1.0, 0.0, 2.0], [0.0, 0.0, 3.0], [4.0, 5.0, 0.0]])
X0 = np.array([1.0, 2.0, 3.0])
i, j, k, i0, i1 = ow.indices("i j k i0 i1")


@dataclass(frozen=True, repr=False)
class Sparse(CompressedLevel):
    """A level of the user's own."""


def again(obj: Any) -> Any:
    return pickle.loads(pickle.dumps(obj))  # noqa: S301


def halves(tensors: Any, parts: int) -> list[int]:
    return [0, 1, 3]


either = ow.operator(
    "either", lambda a, b: a + b - a * b, identity=0, annihilator=1,
    commutative=True, associative=True,
)  # fmt: skip
twice = ow.operator("twice", lambda a: either(a, a) + 0 * a)
A = ow.tensor(A0, format=ow.CSR, name="A")
x, y = ow.tensor(X0, name="x"), ow.empty(3, name="y")
C = ow.empty((3, 3), format=ow.CSR, name="C")
P = ow.placeholder("P", 2, format=ow.CSR)
widest = ow.semiring("widest", ow.max, ow.min, 0)
own = ow.semiring("own", either, ow.operator("scaled", lambda a, b: a * b, annihilator=0), 0)
product = ow.assign(y[i], A[i, j] * x[j])

VALUES = {
    **{name: value for name in ow.__all__ if type(value := getattr(ow, name)) is not ModuleType},
    "either": either,
    "twice": twice,
    "widest": widest,
    "own": own,
    "index": i,
    "expression": either(A[i, j], x[j]) + ow.select(A[i, j] < 2.0, 1.0, np.float32(2)),
    "deep": sum((x[i] for _ in range(150)), start=x[i]),
    "level": ow.Compressed(bits=8),
    "formats": (ow.CSR, ow.BSR(2, 3), ow.SELL(2, 4), ow.Format([ow.Dense, Sparse()])),
    "loops": product.loops,
    "legal": product.legal(),
    "facts": A.facts,
}
STATEMENTS = {
    "plain": product,
    "accumulating": ow.assign(y[i], A[i, j] * x[j], ow.ADD),
    "min_plus": ow.assign(y[i], A[i, j] * x[j], semiring="min_plus"),
    "max_plus": ow.assign(y[i], A[i, j] * x[j], semiring=ow.MAX_PLUS),
    "max_times": ow.assign(y[i], A[i, j] * x[j], semiring="max_times"),
    "own": ow.assign(y[i], A[i, j] * x[j], semiring=own),
    "operator": ow.assign(y[i], ow.reduce(either, j, twice(A[i, j]) * x[j])),
    "sparse result": ow.assign(C[i, k], A[i, j] * A[j, k]),
    "level": ow.assign(y[i], A.to(ow.Format([ow.Dense, Sparse()]))[i, j] * x[j]),
    "scheduled": product.split(i, i0, i1, 2).parallelize(i0, "CPUThread"),
    "reordered": ow.assign(C[i, k], A[i, j] * A[j, k]).order(i, j, k),
    "precomputed": product.precompute(A[i, j] * x[j], j, "jw"),
    "divided": product.divide(i, i0, i1, 2, split_points=halves),
}


@pytest.mark.parametrize("name", VALUES)
def test_values(name: str) -> None:
    value = VALUES[name]
    for made in (again(value), copy.copy(value), copy.deepcopy(value)):
        assert unwrapped(made) == unwrapped(value)


@pytest.mark.parametrize("name", STATEMENTS)
def test_statements_and_kernels(name: str) -> None:
    stmt = STATEMENTS[name]
    expected = stmt.compile()().to_numpy()
    for made in (again(stmt), copy.copy(stmt), copy.deepcopy(stmt)):
        assert made == stmt
        assert str(made.loops) == str(stmt.loops)
        np.testing.assert_array_equal(made.compile()().to_numpy(), expected)
    kernel = stmt.compile()
    for made in (again(kernel), copy.copy(kernel), copy.deepcopy(kernel)):
        assert (repr(made), made.source) == (repr(kernel), kernel.source)
        np.testing.assert_array_equal(made().to_numpy(), expected)


def test_operators_that_are_built_in_stay_the_same_object() -> None:
    assert again(ow.ADD) is ow.ADD
    assert str(again(ow.sum(j, A[i, j]))) == str(ow.sum(j, A[i, j]))
    big = np.iinfo("int64").max
    assert again(ow.MIN_PLUS).mul(np.array([big]), np.array([1])).tolist() == [big]
    np.testing.assert_array_equal(again(either)(X0, X0), either(X0, X0))


def test_placeholders_and_kernels_for_them() -> None:
    made = again(P)
    assert repr(made) == repr(P) == repr(copy.copy(P)) == repr(copy.deepcopy(P))
    kernel = again(ow.assign(y[i], P[i, j] * x[j]).compile())
    np.testing.assert_array_equal(kernel(P=A).to_numpy(), A0 @ X0)
    with pytest.raises(ow.ShapeError, match="E203"):
        kernel()


@pytest.mark.parametrize("op", [None, ow.ADD], ids=["assigned", "accumulated"])
def test_a_pickled_statement_computes_nothing_that_is_recorded(op: Any) -> None:
    z = ow.tensor(X0, name="z")
    z[i] = z[i] + P[i, j] * x[j] if op else P[i, j] * x[j]
    before = X0 if op else 0
    for kernel in (again(z.statement.compile()), again(z.statement).compile()):
        np.testing.assert_array_equal(kernel(P=A).to_numpy(), before + A0 @ X0)


def test_symbolic_plans() -> None:
    plan = STATEMENTS["sparse result"].compile().symbolic()
    for made in (again(plan), copy.deepcopy(plan)):
        assert repr(made) == repr(plan)
        np.testing.assert_array_equal(made(A=2 * A).to_numpy(), 4 * (A0 @ A0))


def test_kernels_for_a_gpu() -> None:
    kernel = again(product.compile("cuda-emulated"))
    np.testing.assert_array_equal(kernel().to_numpy(), A0 @ X0)


def test_errors() -> None:
    with pytest.raises(ow.ParseError) as caught:
        ow.parse("y(i) = A(i,j) * q(j)", y=y, A=A)
    made = again(caught.value)
    assert type(made) is ow.ParseError
    assert (str(made), made.code, made.span, made.hint) == (
        str(caught.value), "E103", caught.value.span, caught.value.hint,
    )  # fmt: skip
    assert made.faults == caught.value.faults


def test_functions_that_cannot_be_pickled_are_named() -> None:
    stmt = product.divide(i, i0, i1, 2, split_points=lambda tensors, parts: [0, 1, 3])
    with pytest.raises((pickle.PicklingError, AttributeError), match="lambda"):
        pickle.dumps(stmt)


COPIES: dict[str, Callable[[ow.Tensor], ow.Tensor]] = {
    "copy": lambda T: T.copy(),
    "copy.copy": copy.copy,
    "copy.deepcopy": copy.deepcopy,
    "pickle": again,
}


@pytest.mark.parametrize("way", COPIES)
@pytest.mark.parametrize("format", [ow.dense(2), ow.CSR, ow.COO(2), ow.BSR(2, 2)], ids=repr)
def test_copies_of_tensors_have_memory_of_their_own(way: str, format: Any) -> None:
    T = ow.tensor(A0.copy(), format=format, name="T")
    made = COPIES[way](T)
    assert (made.name, made.format, made.dtype, made.fill) == ("T", format, T.dtype, 0)
    arrays = [[*(a for level in t.storage.levels for a in level.values()), t.storage.values]
              for t in (T, made)]  # fmt: skip
    assert len(arrays[0]) == len(arrays[1])
    assert not any(np.shares_memory(mine, its) for mine in arrays[0] for its in arrays[1])
    made.storage.values[:] = 7
    np.testing.assert_array_equal(T.to_numpy(), A0)


def test_deep_copies_keep_what_is_shared() -> None:
    first, second = copy.deepcopy([A, A])
    assert first is second
    assert first is not A


def test_another_process(tmp_path: Path) -> None:
    """One that is started anew, where strings hash differently."""
    statements = {n: s for n, s in STATEMENTS.items() if n not in ("level", "divided")}
    given = {
        "kernels": [stmt.compile() for stmt in statements.values()],
        "statements": list(statements.values()),
        "expected": [stmt.compile()().to_numpy() for stmt in statements.values()],
        "plan": STATEMENTS["sparse result"].compile().symbolic(),
        "keys": {A.facts: 1, ow.CSR: 2, either: 3, A[i, j]: 4},
    }
    (tmp_path / "all.pickle").write_bytes(pickle.dumps(given))
    program = """
import pickle, sys, numpy as np, openwork as ow
given = pickle.load(open(sys.argv[1], "rb"))
for kernel, stmt, expected in zip(given["kernels"], given["statements"], given["expected"]):
    np.testing.assert_array_equal(kernel().to_numpy(), expected)
    np.testing.assert_array_equal(stmt.compile()().to_numpy(), expected)
assert given["plan"]().nnz == given["plan"].result_nnz
assert all(given["keys"][key] for key in list(given["keys"])) and given["keys"][ow.CSR] == 2
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path / "all.pickle")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
