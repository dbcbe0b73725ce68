"""The verifier of loops catches nests that break its rules."""

from __future__ import annotations

import numpy as np
import pytest

import openwork as ow
from openwork.algebra.operators import ADD
from openwork.errors import InternalError
from openwork.format.formats import dense
from openwork.index.nodes import Access, IndexVar, Reduce, TensorVar
from openwork.loops.nodes import Assign, Forall, Stmt, Where
from openwork.loops.verify import verify_loops

i, j = IndexVar("i"), IndexVar("j")
FLOAT64 = np.dtype("float64")
A = Access(TensorVar("A", dense(2), FLOAT64, 0, (2, 3)), (i, j))
y = Access(TensorVar("y", dense(1), FLOAT64, 0, (2,)), (i,))
t = Access(TensorVar("t", dense(0), FLOAT64), ())
KNOWN = frozenset({"A", "y"})
PRODUCER = Forall(j, Assign(t, A, ADD))
GOOD = Forall(i, Where(Assign(y, t), PRODUCER, t.tensor))

WRONG: dict[str, Stmt] = {
    "j is used outside of its loop": Forall(i, Assign(y, A)),
    "i is bound twice": Forall(i, Forall(i, Assign(y, A))),
    "t is used before it is made": Forall(i, Assign(y, t)),
    "a reduction is left": Forall(i, Assign(y, Reduce(ADD, j, A))),
    "is not what its producer writes": Forall(i, Where(Assign(y, t), Assign(y, t), t.tensor)),
    "has the name of another tensor": Forall(i, Where(Assign(y, A), Assign(y, A), y.tensor)),
}


def test_good_loops_pass() -> None:
    verify_loops(GOOD, KNOWN)


@pytest.mark.parametrize("message", [m for m in WRONG if not m.startswith("a reduction")])
def test_wrong_loops_are_caught(message: str) -> None:
    with pytest.raises(InternalError, match=message):
        verify_loops(WRONG[message], KNOWN)


def test_a_reduction_inside_an_expression_is_caught() -> None:
    with pytest.raises(InternalError):
        verify_loops(WRONG["a reduction is left"], KNOWN)


def test_the_loops_of_a_statement_are_verified() -> None:
    x = ow.tensor(np.ones(3), name="x")
    statement = ow.parse("s = x(i) * x(i)", s=ow.empty((), name="s"), x=x)
    assert "forall i" in str(statement.loops)
