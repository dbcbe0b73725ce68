"""Sentences of the papers that commands take: orders of some loops, positions of positions."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import openwork as ow
from openwork.runtime.host import launch

pytestmark = pytest.mark.needs_cc

rng = np.random.default_rng(3)


def _random(*shape: int) -> ow.Tensor:
    dense = rng.random(shape) * (rng.random(shape) < 0.3)
    return ow.tensor(dense, format=ow.CSR if len(shape) == 2 else ow.CSF(len(shape)))


A, B = _random(30, 20), _random(30, 20)
x, y = ow.tensor(rng.random(20)), ow.empty(30)
D, C = ow.tensor(rng.random((20, 6))), ow.empty((30, 6))
X, M = _random(7, 8, 9), ow.empty((7, 6))
F, G = ow.tensor(rng.random((8, 6))), ow.tensor(rng.random((9, 6)))

STATEMENTS = {
    "spmv": ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=x),
    "sum": ow.parse("y(i) = A(i,j) * x(j) + B(i,j) * x(j)", y=y, A=A, B=B, x=x),
    "spmm": ow.parse("C(i,k) = A(i,j) * D(j,k)", C=C, A=A, D=D),
    "mttkrp": ow.parse("M(i,r) = X(i,k,l) * F(k,r) * G(l,r)", M=M, X=X, F=F, G=G),
}
THREADS = "CPUThread,NoRaces"


@pytest.fixture(autouse=True)
def really_parallel(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small kernels run on several threads too."""
    monkeypatch.setattr(launch, "SERIAL_BELOW", -1)
    ow.set_num_threads(3)
    yield
    ow.set_num_threads(None)


LEGAL = [
    # An order of some loops
    ("spmm", "order(k,j)"),
    ("spmm", "order(k,i)"),
    ("spmm", "split(k,k0,k1,4), order(k0,j)"),
    ("mttkrp", "order(i,k,l,r), order(r,k)"),
    # Positions after coordinates and cuts (thesis, 5.1)
    ("spmv", "pos(j,p,A), coord(p,c), pos(c,q,A)"),
    ("spmv", "pos(j,p,A), coord(p,c), split(c,c0,c1,4), pos(c1,q,A)"),
    ("spmv", "pos(j,p,A), split(p,p0,p1,4), coord(p1,c), pos(c,q,A), divide(q,q0,q1,3)"),
    ("spmv", "pos(j,p,A), split(p,p0,p1,4), coord(p1,c), split(c,c0,c1,5), pos(c1,q,A)"),
    ("sum", "pos(j,p,A), split(p,p0,p1,4), coord(p1,c), pos(c,q,B), split(q,q0,q1,3)"),
    ("sum", "pos(j,p,A), split(p,p0,p1,4), coord(p1,c), split(c,c0,c1,5), pos(c1,q,B)"),
    # Only the first variable of a fusion is in coordinate space (thesis, 5.4)
    ("spmv", "pos(j,p,A), fuse(i,p,f), split(f,f0,f1,7), parallelize(f0,CPUThread,Atomics)"),
    ("spmm", "pos(j,p,A), fuse(i,p,f), split(f,f0,f1,7), parallelize(f0,CPUThread,Atomics)"),
    ("mttkrp", "order(i,k,l,r), fuse(k,l,kl), pos(kl,p,X), fuse(i,p,f), divide(f,f0,f1,3)"),
    # Parallel loops before others change
    ("spmm", f"parallelize(i,{THREADS}), split(k,k0,k1,4), order(i,k0,j,k1), unroll(k1)"),
    ("spmm", f"parallelize(i,{THREADS}), split(j,j0,j1,4), order(j0,i)"),
    ("spmm", f"parallelize(i,{THREADS}), bound(i,b,30,MaxExact), pos(b,p,A), coord(p,c)"),
    ("spmm", f"parallelize(i,{THREADS}), precompute(A(i,j)*D(j,k),k,kw)"),
    ("spmm", "parallelize(k,CPUVector,NoRaces), fuse(i,j,f), pos(f,p,A), split(p,p0,p1,9)"),
]


@pytest.mark.parametrize(("name", "text"), LEGAL)
def test_schedules_change_no_answer(name: str, text: str) -> None:
    stmt = STATEMENTS[name]
    scheduled = stmt.schedule(text)
    np.testing.assert_allclose(scheduled.compile()().to_numpy(), stmt.compile()().to_numpy())
    assert stmt.schedule(scheduled.commands) == scheduled


def _variables(stmt: ow.Statement) -> str:
    lines = str(stmt.loops).splitlines()
    return " ".join(line.split()[1].strip(":") for line in lines if "forall" in line)


@pytest.mark.parametrize(
    ("text", "loops"),
    [
        ("order(k,j)", "i k j"),
        ("order(k,i)", "k i j"),  # k, j, i would leave the order of A's levels
        ("order(k)", "i j k"),
        ("split(k,k0,k1,4), order(k0,j)", "i k0 j k1"),
        ("split(j,j0,j1,4), order(j0,i)", "j0 i j1 k"),
    ],
)
def test_loops_that_an_order_does_not_name_stay(text: str, loops: str) -> None:
    assert _variables(STATEMENTS["spmm"].schedule(text)) == loops


def test_a_first_order_of_some_loops_converts_nothing_more() -> None:
    """Where A has to be converted in any case, it is."""
    columns = A.to(ow.CSC)
    stmt = ow.parse("C(i,k) = A(i,j) * D(j,k)", C=C, A=columns, D=D)
    want = stmt.compile()().to_numpy()
    for text in ("order(k,i)", "order(j,k)", "order(k,j)"):
        np.testing.assert_allclose(stmt.schedule(text).compile()().to_numpy(), want)


def test_positions_of_positions_are_what_they_were() -> None:
    """pos, coord and pos again make the same code as none of them."""
    plain = _code(STATEMENTS["spmv"].schedule("unroll(i,1)"))
    there_and_back = STATEMENTS["spmv"].schedule("unroll(i,1), pos(j,p,A), coord(p,c), pos(c,q,A)")
    assert _code(there_and_back) == plain


def _code(stmt: ow.Statement) -> list[str]:
    """The lines of a kernel without the comment that has the loops."""
    return [line for line in stmt.compile().source.splitlines() if not line.startswith("//")]


def test_a_fusion_with_positions_is_one_of_coordinates_and_then_positions() -> None:
    tail = "split(f,f0,f1,7), parallelize(f0,CPUThread,Atomics)"
    one = STATEMENTS["spmm"].schedule(f"pos(j,p,A), fuse(i,p,f), {tail}")
    other = STATEMENTS["spmm"].schedule(f"fuse(i,j,f_coord), pos(f_coord,f,A), {tail}")
    assert str(one.loops) == str(other.loops)
    assert one.compile().source == other.compile().source


@pytest.mark.parametrize("kind", ["MaxExact", "BoundType::MaxExact", ow.BoundType.MaxExact])
def test_a_bound_in_both_spellings_of_the_thesis(kind: str | ow.BoundType) -> None:
    spmm = STATEMENTS["spmm"]
    assert spmm.bound("k", "kb", kind, 6) == spmm.bound("k", "kb", 6, kind)
    assert spmm.bound("k", "kb", kind, 6).commands == "bound(k,kb,6,MaxExact)"


def test_enumerators_as_the_thesis_writes_them() -> None:
    text = "parallelize(i, ParallelUnit::CPUThread, OutputRaceStrategy::NoRaces)"
    assert STATEMENTS["spmv"].schedule(text).commands == f"parallelize(i,{THREADS})"
