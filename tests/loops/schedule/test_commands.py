"""Every command: the loops it gives, the answer that stays, the text that reads back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openwork as ow
from openwork.loops.schedule.command import COMMANDS
from openwork.tensor.statement import Statement

needs_cc = pytest.mark.needs_cc
i, j, k, l = ow.indices("i j k l")
_rng = np.random.default_rng(7)


def _sparse(shape: tuple[int, ...], density: float = 0.5) -> Any:
    return _rng.integers(1, 9, shape) * (_rng.random(shape) < density) * 1.0


A = ow.tensor(_sparse((6, 8)), format=ow.CSR, name="A")
C = ow.tensor(_sparse((6, 8)), format=ow.CSR, name="C")
K = ow.tensor(_sparse((6, 8)), format=ow.CSC, name="K")
B = ow.tensor(_sparse((8, 5)), format=ow.CSR, name="B")
E = ow.tensor(_sparse((8, 5), 1.0), name="E")
T = ow.tensor(_sparse((3, 4, 5)), format=ow.CSF(3), name="T")
x = ow.tensor(_sparse((8,), 1.0), name="x")
y = ow.empty((6,), name="y")
s = ow.empty((), name="s")
Y = ow.empty((6, 5), name="Y")
S = ow.empty((6, 8), format=ow.CSR, name="S")
P = ow.empty((6, 5), format=ow.CSR, name="P")

a, c, e, b = A.to_numpy(), C.to_numpy(), E.to_numpy(), B.to_numpy()
SPMV, SPMM = ow.assign(y[i], A[i, j] * x[j]), ow.assign(Y[i, k], A[i, j] * E[j, k])
SPGEMM = ow.assign(P[i, k], A[i, j] * B[j, k])
INNER, SUM = ow.assign(s[()], A[i, j] * C[i, j]), ow.assign(S[i, j], A[i, j] + C[i, j])
COLUMNS = ow.assign(y[i], K[i, j] * x[j])
CSF = ow.assign(s[()], T[i, j, k])
ANSWERS = {
    SPMV: a @ x.to_numpy(),
    SPMM: a @ e,
    SPGEMM: a @ b,
    INNER: (a * c).sum(),
    SUM: a + c,
    COLUMNS: K.to_numpy() @ x.to_numpy(),
    CSF: T.to_numpy().sum(),
}


def halves(tensors: Any, parts: int) -> list[int]:
    """Cuts for any kernel of ours: the first part takes half of the rows."""
    rows = tensors["A"].shape[0]
    return [0, rows // 2, *[rows] * (parts - 1)]


THREAD, VECTOR = ow.ParallelUnit.CPUThread, ow.ParallelUnit.CPUVector
RACE, BOUND = ow.OutputRaceStrategy, ow.BoundType
Change = Callable[[Statement], Statement]
# (statement, method, text, loops)
CHANGES: list[tuple[Statement, Change, str, str]] = [
    (SPMV, lambda t: t.split(i, "i0", "i1", 4), "split(i,i0,i1,4)",
     """forall i0:
          forall i1:
            forall j:
              y(i) += A(i,j) * x(j)
        such that split(i, i0, i1, 4)"""),
    (SPMV, lambda t: t.split(j, "j0", "j1", 3), "split(j,j0,j1,3)",
     """forall i:
          forall j0:
            forall j1:
              y(i) += A(i,j) * x(j)
        such that split(j, j0, j1, 3)"""),
    (SPMV, lambda t: t.divide(i, "i0", "i1", 4), "divide(i,i0,i1,4)",
     """forall i0:
          forall i1:
            forall j:
              y(i) += A(i,j) * x(j)
        such that divide(i, i0, i1, 4)"""),
    (SPMV, lambda t: t.divide(i, "i0", "i1", 4, balance="nnz"), "divide(i,i0,i1,4,balance=nnz)",
     """forall i0:
          forall i1:
            forall j:
              y(i) += A(i,j) * x(j)
        such that pos(i, i_pos, A[i, j]),
          divide(i_pos, i0, i1, 4, balanced by A)"""),
    (SPMV, lambda t: t.divide(i, "i0", "i1", 3, split_points=halves),
     "divide(i,i0,i1,3,split_points=halves)",
     """forall i0:
          forall i1:
            forall j:
              y(i) += A(i,j) * x(j)
        such that divide(i, i0, i1, 3, at given points)"""),
    (SPMV, lambda t: t.fuse(i, j, "f"), "fuse(i,j,f)",
     """forall f:
          y(i) += A(i,j) * x(j)
        such that fuse(i, j, f)"""),
    (SPMM, lambda t: t.reorder(k, j), "reorder(k,j)",
     """forall i:
          forall k:
            forall j:
              Y(i,k) += A(i,j) * E(j,k)"""),
    (SPMM, lambda t: t.reorder(k, i, j), "reorder(k,i,j)",
     """forall k:
          forall i:
            forall j:
              Y(i,k) += A(i,j) * E(j,k)"""),
    (SPMM, lambda t: t.order(i, k, j), "order(i,k,j)",
     """forall i:
          forall k:
            forall j:
              Y(i,k) += A(i,j) * E(j,k)"""),
    (SPMV, lambda t: t.pos(j, "p", A[i, j]), "pos(j,p,A(i,j))",
     """forall i:
          forall p:
            y(i) += A(i,j) * x(j)
        such that pos(j, p, A[i, j])"""),
    (SPMV, lambda t: t.pos(j, "p", A).coord("p", "q"), "pos(j,p,A(i,j)), coord(p,q)",
     """forall i:
          forall q:
            y(i) += A(i,j) * x(j)
        such that pos(j, p, A[i, j]),
          coord(p, q)"""),
    (SPMV, lambda t: t.bound(i, "ib", 6, BOUND.MaxExact), "bound(i,ib,6,MaxExact)",
     """forall ib:
          forall j:
            y(i) += A(i,j) * x(j)
        such that bound(i, ib, 6, MaxExact)"""),
    (SPMV, lambda t: t.unroll(i), "unroll(i)",
     """forall i:  [unroll]
          forall j:
            y(i) += A(i,j) * x(j)"""),
    (SPMV, lambda t: t.unroll(j, 4), "unroll(j,4)",
     """forall i:
          forall j:  [unroll 4]
            y(i) += A(i,j) * x(j)"""),
    (SPMV, lambda t: t.precompute(A[i, j] * x[j], j, "jw"), "precompute(A(i,j) * x(j),j,jw)",
     """forall i:
          forall j:
            y(i) += w(j)
          where
            forall jw:
              w(jw) = A(i,j) * x(j)
        such that precompute(j, jw)"""),
    (SPMM, lambda t: t.precompute(A[i, j] * E[j, k], [i, k], ["iw", "kw"], "acc"),
     "precompute(A(i,j) * E(j,k),[i,k],[iw,kw],acc)",
     """forall i:
          forall k:
            Y(i,k) = acc(i,k)
        where
          forall iw:
            forall j:
              forall kw:
                acc(iw,kw) += A(i,j) * E(j,k)
        such that precompute(i, iw),
          precompute(k, kw)"""),
    (SPMV, lambda t: t.parallelize(i, THREAD, RACE.NoRaces), "parallelize(i,CPUThread,NoRaces)",
     """forall i:  [CPUThread, NoRaces]
          forall j:
            y(i) += A(i,j) * x(j)"""),
    (SPMV, lambda t: t.parallelize(i, THREAD, chunk=8), "parallelize(i,CPUThread,NoRaces,chunk=8)",
     """forall i:  [CPUThread, NoRaces, 8 at a time]
          forall j:
            y(i) += A(i,j) * x(j)"""),
    (SPMV, lambda t: t.divide(i, "turn", "i1", 3, assign="stride"),
     "divide(i,turn,i1,3,assign=stride)",
     """forall turn:
          forall i1:
            forall j:
              y(i) += A(i,j) * x(j)
        such that divide(i, turn, i1, 3, assign=stride)"""),
    (SPMV, lambda t: t.divide(i, "turn", "i1", 3, assign="dynamic", chunk=2)
     .parallelize("turn", THREAD),
     "divide(i,turn,i1,3,assign=dynamic,chunk=2), parallelize(turn,CPUThread,NoRaces)",
     """forall turn:  [CPUThread, NoRaces]
          forall i1:
            forall j:
              y(i) += A(i,j) * x(j)
        such that divide(i, turn, i1, 3, assign=dynamic, chunk=2)"""),
    (SPMV, lambda t: t.parallelize(j, VECTOR, RACE.ParallelReduction),
     "parallelize(j,CPUVector,ParallelReduction)",
     """forall i:
          forall j:  [CPUVector, ParallelReduction]
            y(i) += A(i,j) * x(j)"""),
    (SPMV, lambda t: t.parallelize(j, THREAD, RACE.Atomics), "parallelize(j,CPUThread,Atomics)",
     """forall i:
          forall j:  [CPUThread, Atomics]
            y(i) += A(i,j) * x(j)"""),
    (INNER, lambda t: t.mergeby(j, "gallop"), "mergeby(j,gallop)",
     """forall i:
          forall j:  [gallop]
            s += A(i,j) * C(i,j)"""),
    (INNER, lambda t: t.mergeby(j, "two_finger"), "mergeby(j,two_finger)",
     """forall i:
          forall j:
            s += A(i,j) * C(i,j)"""),
    (SPMV, lambda t: t.prefetch(x, j, 16), "prefetch(x(j),j,16)",
     """forall i:
          forall j:  [prefetch x[j] 16 ahead]
            y(i) += A(i,j) * x(j)"""),
    (SUM, lambda t: t.assemble("count"), "assemble(count)",
     """forall i:
          forall j:
            S(i,j) = A(i,j) + C(i,j)"""),
    (SPMV, lambda t: t.stream(y), "stream(y)",
     """forall i:
          forall j:
            y(i) += A(i,j) * x(j)"""),
    (SPMV, lambda t: t.fuse(i, j, "f").pos("f", "p", A).split("p", "p0", "p1", 4)
        .parallelize("p0", THREAD, RACE.Atomics),
     "fuse(i,j,f), pos(f,p,A(i,j)), split(p,p0,p1,4), parallelize(p0,CPUThread,Atomics)",
     """forall p0:  [CPUThread, Atomics]
          forall p1:
            y(i) += A(i,j) * x(j)
        such that fuse(i, j, f),
          pos(f, p, A[i, j]),
          split(p, p0, p1, 4)"""),
    (SPGEMM, lambda t: t.split(k, "k0", "k1", 2), "split(k,k0,k1,2)",
     """forall i:
          forall k0:
            forall k1:
              P(i,k) = w(k)
          where
            forall j:
              forall k0:
                forall k1:
                  w(k) += A(i,j) * B(j,k)
        such that split(k, k0, k1, 2)"""),
    (SUM, lambda t: t.split(i, "i0", "i1", 4).unroll("i1"), "split(i,i0,i1,4), unroll(i1)",
     """forall i0:
          forall i1:  [unroll]
            forall j:
              S(i,j) = A(i,j) + C(i,j)
        such that split(i, i0, i1, 4)"""),
]  # fmt: skip
IDS = [text for _, _, text, _ in CHANGES]
each = pytest.mark.parametrize(("stmt", "method", "text", "loops"), CHANGES, ids=IDS)


@each
def test_loops_and_text(stmt: Statement, method: Change, text: str, loops: str) -> None:
    before = str(stmt.loops), hash(stmt)
    new = method(stmt)
    assert str(new.loops) == "\n".join(
        line.removeprefix(" " * 8) for line in f"{' ' * 8}{loops}".splitlines()
    )
    assert new.commands == text
    assert stmt.schedule(text, halves=halves) == new  # methods and text say the same
    assert stmt.schedule(new.commands, halves=halves) == new  # and it reads back
    assert hash(stmt.schedule(text, halves=halves)) == hash(new)
    assert new != stmt
    assert (str(stmt.loops), hash(stmt), stmt.commands) == (*before, "")


@needs_cc
@each
def test_the_answer_stays(stmt: Statement, method: Change, text: str, loops: str) -> None:
    kernel = method(stmt).compile()
    np.testing.assert_array_equal(kernel().to_numpy(), ANSWERS[stmt])
    explained = kernel.explain()
    for command in method(stmt)._commands:
        assert f"  schedule: {command}\n" in explained


def test_every_command_is_here() -> None:
    written = {command.name for stmt, method, _, _ in CHANGES for command in method(stmt)._commands}
    assert written == set(COMMANDS)


# -- ways to say the same -----------------------------------------------------------------------

SAME: list[tuple[str, str]] = [
    ("split(i,i0,i1,4)", " split ( i , i0 ,i1, 4 ) ; "),
    ("split(i,i0,i1,4)", "split(i,i0,i1,factor=4)"),
    ("split(i,i0,i1,4)", "split(factor=4, i1=i1, i0=i0, i=i)"),
    ("split(i,i0,i1,4)", "split(i,i0,i1,0004)"),
    ("split(i,i0,i1,4), unroll(i1)", "split(i,i0,i1,4)\nunroll(i1)"),
    ("split(i,i0,i1,4), unroll(i1)", "split(i,i0,i1,4); .unroll(i1),\n"),
    ("split(i,i0,i1,4), unroll(i1)", "split(i,i0,i1,4) unroll(i1)"),
    ("split(i,i0,i1,4), unroll(i1)", "split(i,i0,i1,4).unroll(i1)"),
    ("split(i,i0,i1,4), unroll(i1)", "split(i,i0,i1,4)\n  .unroll(i1)\n"),
    ("divide(i,i0,i1,4,balance=nnz)", 'divide(i,i0,i1,4,balance="nnz")'),
    ("divide(i,i0,i1,4,balance=nnz)", "divide(i,i0,i1,4,'nnz')"),
    ("divide(i,i0,i1,3,split_points=halves)", "divide(i,i0,i1,3, split_points = halves)"),
    ("pos(j,p,A(i,j))", "pos(j,p,A)"),
    ("pos(j,p,A(i,j))", "pos(j, p, A[i, j])"),
    ("reorder(i,j)", "reorder([i,j])"),
    ("order(i,j)", "order({i, j})"),
    ("unroll(i,4)", "unroll(i,factor=4)"),
    ("parallelize(i,CPUThread,NoRaces,chunk=8)", "parallelize(i,CPUThread,NoRaces,8)"),
    ("precompute(A(i,j) * x(j),j,jw)", "precompute(A(i,j)*x(j), [j], [jw])"),
    ("precompute(A(i,j) * x(j),j,jw,w)", "precompute(A(i,j)*x(j),j,jw,workspace=w)"),
    ("prefetch(x(j),j,16)", "prefetch(x,j,16)"),
    ("stream(y)", "stream(y(i))"),
    ("mergeby(j,two_finger)", 'mergeby(j,"two_finger")'),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_in_other_words(one: str, other: str) -> None:
    new = SPMV.schedule(other, halves=halves)
    assert new.commands == one
    assert new == SPMV.schedule(one, halves=halves)


def test_names_enums_and_tensors_are_interchangeable() -> None:
    assert SPMV.split("i", "a", "b", 4) == SPMV.split(i, *ow.indices("a b"), np.int32(4))
    assert SPMV.parallelize(i, "CPUThread", "NoRaces") == SPMV.parallelize(i, THREAD)
    for unit in (THREAD, VECTOR):
        for race in ow.OutputRaceStrategy:
            one = SPMV.parallelize(i, unit, race)
            assert one == SPMV.parallelize("i", unit.value, race.value)
            assert one == SPMV.schedule(one.commands)
    for kind in ow.BoundType:
        one = SPMV.bound(i, "b", 4, kind)
        assert one == SPMV.bound("i", "b", "4", kind.value) == SPMV.schedule(one.commands)
    assert SPMV.pos(j, "p", A) == SPMV.pos(j, "p", A[i, j]) == SPMV.pos("j", "p", "A")
    assert SPMV.prefetch(x, j, 8) == SPMV.prefetch(x[j], "j", 8) == SPMV.prefetch("x", j, 8)
    assert SPMV.stream(y) == SPMV.stream(y[i]) == SPMV.stream("y")
    assert SPMM.reorder(k, j) == SPMM.reorder([k, j]) == SPMM.reorder(("k", "j"))
    made = SPMV.precompute("A(i,j) * x(j)", "j", "jw")
    assert made == SPMV.precompute(A[i, j] * x[j], [j], ("jw",))
    assert SPMV.precompute(A[i, j] * x[j], j, "jw", ow.empty((8,), name="W")).commands.endswith(
        ",jw,W)"
    )


def test_statements_differ_by_their_schedules() -> None:
    one, two = SPMV.split(i, "a", "b", 4), SPMV.split(i, "a", "b", 5)
    assert one != two
    assert len({SPMV, one, two, SPMV.split(i, "a", "b", 4)}) == 3
    assert one != COLUMNS.split(i, "a", "b", 4)
    other = SPMV.divide(i, "a", "b", 3, split_points=lambda t, n: [0, 1, 2, 6])
    assert other != SPMV.divide(i, "a", "b", 3, split_points=halves)


def test_branches_of_one_statement_are_apart() -> None:
    base = SPMV.split(i, "i0", "i1", 4)
    left, right = base.unroll("i1"), base.parallelize("i0", THREAD)
    assert base.commands == "split(i,i0,i1,4)"
    assert left.commands == "split(i,i0,i1,4), unroll(i1)"
    assert right.commands == "split(i,i0,i1,4), parallelize(i0,CPUThread,NoRaces)"
    assert "unroll" not in str(right.loops)
    assert "[" not in str(base.loops)


EXPRESSIONS = [
    (ow.assign(y[i], (A[i, j] + C[i, j]) * x[j]), "precompute((A(i,j) + C(i,j)) * x(j),j,jw)"),
    (ow.assign(y[i], A[i, j] * x[j] * 2), "precompute(A(i,j) * x(j) * 2,j,jw)"),
    (ow.assign(y[i], ow.sqrt(A[i, j]) * x[j]), "precompute(sqrt(A(i,j)),j,jw)"),
    (ow.assign(y[i], -A[i, j] * x[j]), "precompute(-A(i,j),j,jw)"),
    (ow.assign(y[i], A[i, j] * ow.maximum(x[j], 0)), "precompute(maximum(x(j), 0),j,jw)"),
    (ow.assign(y[i], A[i, j] * j), "precompute(A(i,j) * j,j,jw)"),
]


@needs_cc
@pytest.mark.parametrize(("stmt", "text"), EXPRESSIONS)
def test_expressions_read_back(stmt: Statement, text: str) -> None:
    made = stmt.schedule(text)
    assert stmt.schedule(made.commands) == made
    assert made.schedule("") == made
    # Not bit by bit: a product that is stored first is not contracted into a fused multiply-add.
    expected = stmt.compile()().to_numpy()
    np.testing.assert_allclose(made.compile()().to_numpy(), expected, rtol=1e-14)


def test_own_operators_read_back() -> None:
    twice = ow.operator("twice", lambda v: v + v)
    stmt = ow.assign(y[i], twice(A[i, j]) * x[j])
    made = stmt.precompute(twice(A[i, j]), j, "jw")
    assert made.commands == "precompute(twice(A(i,j)),j,jw)"
    assert stmt.schedule(made.commands) == made


def test_semirings_read_back() -> None:
    stmt = ow.assign(y[i], A[i, j] * x[j], semiring="min_plus")
    made = stmt.schedule("fuse(i,j,f), pos(f,p,A), split(p,p0,p1,4)")
    assert stmt.schedule(made.commands) == made


# -- what is legal ------------------------------------------------------------------------------


@pytest.mark.parametrize("stmt", [SPMV, SPMM, INNER, SUM, SPGEMM, COLUMNS, CSF], ids=str)
def test_options_are_legal(stmt: Statement) -> None:
    options = stmt.legal()
    texts = [str(option) for option in options]
    assert len(set(texts)) == len(texts)
    for option, text in zip(options, texts, strict=True):
        new = stmt.schedule(text)
        assert new.commands == text
        assert new._commands == (option.command,)
        assert text.startswith(f"{option.name}(")
        assert option.loops or option.name in ("stream", "assemble")


FRESH = {"i": ("i0", "i1", "ip"), "j": ("j0", "j1", "jp"), "k": ("k0", "k1", "kp")}


def _possible(stmt: Statement, names: str, operands: str) -> set[str]:
    """All commands of a kind that could be asked for."""
    found = {f"stream({stmt.assignment.lhs.tensor.name})"}
    found |= {f"assemble({strategy})" for strategy in ("count", "append", "serial", "twice")}
    for n in names:
        n0, n1, np_ = FRESH[n]
        found |= {f"split({n},{n0},{n1},4)", f"divide({n},{n0},{n1},3)", f"unroll({n})"}
        found |= {f"unroll({n},4)", f"mergeby({n},gallop)", f"coord({n},{n}c)"}
        found.add(f"divide({n},{n0},{n1},3,balance=nnz)")
        for unit in (THREAD, VECTOR):
            for race in ow.OutputRaceStrategy:
                found.add(f"parallelize({n},{unit.value},{race.value})")
        for m in names:
            found |= {f"fuse({n},{m},{n}{m})", f"reorder({n},{m})"}
            found |= {f"reorder({n},{m},{o})" for o in names}
        for operand in operands.split():
            found |= {f"pos({n},{np_},{operand})", f"prefetch({operand},{n},8)"}
    return found


@pytest.mark.parametrize(
    ("stmt", "names", "operands"),
    [
        (SPMV, "ij", "A(i,j) x(j)"),
        (SPMM, "ijk", "A(i,j) E(j,k)"),
        (INNER, "ij", "A(i,j) C(i,j)"),
        (SUM, "ij", "A(i,j) C(i,j)"),
        (COLUMNS, "ij", "K(i,j) x(j)"),
        (CSF, "ijk", "T(i,j,k)"),
    ],
    ids=str,
)
def test_options_are_all_that_is_legal(stmt: Statement, names: str, operands: str) -> None:
    """Of everything that could be asked for, those are listed that raise nothing."""
    listed = {str(option) for option in stmt.legal()}
    reordered = {str(stmt.schedule(text).loops) for text in listed if text.startswith("reorder")}
    assert not any("IgnoreRaces" in text for text in listed)
    for text in sorted(_possible(stmt, names, operands)):
        try:
            new = stmt.schedule(text)
        except ow.ScheduleError:
            assert text not in listed
            continue
        trivial = new.loops == stmt._base.loops and not text.startswith(("stream", "assemble"))
        if "IgnoreRaces" in text or trivial:
            continue
        if text.startswith("reorder"):  # longer ones are listed if no shorter one says the same
            assert str(new.loops) in reordered, text
        else:
            assert text in listed, text


def test_options_name_the_loops_of_precompute() -> None:
    made = next(option for option in SPMV.legal() if option.name == "precompute")
    assert made.loops


def test_ignored_races_are_accepted_but_not_listed() -> None:
    stmt = SPMV.parallelize(j, THREAD, RACE.IgnoreRaces)
    assert stmt.commands == "parallelize(j,CPUThread,IgnoreRaces)"
    assert "IgnoreRaces" not in " ".join(map(str, SPMV.legal()))


def test_options_after_commands() -> None:
    stmt = SPMV.split(i, "i0", "i1", 4).parallelize("i0", THREAD)
    texts = {str(option) for option in stmt.legal()}
    assert not any(text.startswith(("split(i0,", "fuse(i0,", "parallelize(i0,")) for text in texts)
    assert "unroll(i1)" in texts
    assert "split(i1,i10,i11,4)" in texts
    for text in texts:
        stmt.schedule(text)


# -- one kernel, many operands ------------------------------------------------------------------

SHAPES = [(6, 8), (1, 8), (6, 1), (1, 1), (9, 3), (0, 8), (6, 0), (0, 0), (40, 50)]
MANY = [
    "split(i,i0,i1,4), parallelize(i0,CPUThread,NoRaces)",
    "split(j,j0,j1,3), unroll(j1)",
    "divide(i,i0,i1,3,balance=nnz)",
    "divide(i,i0,i1,3,split_points=halves), parallelize(i0,CPUThread,NoRaces)",
    "fuse(i,j,f), pos(f,p,A), divide(p,p0,p1,4), parallelize(p0,CPUThread,Temporary)",
    "pos(j,p,A), split(p,p0,p1,4), parallelize(p1,CPUVector,ParallelReduction)",
    "precompute(A(i,j)*x(j),[i,j],[iw,jw])",
    "prefetch(x,j,4), stream(y), unroll(j,2)",
    "bound(i,b,100,MaxConstraint), split(b,b0,b1,3)",
]


@needs_cc
@pytest.mark.parametrize("text", MANY)
def test_other_operands(text: str) -> None:
    kernel = SPMV.schedule(text, halves=halves).compile()
    for shape in SHAPES:
        for density in (0.0, 0.3, 1.0):
            matrix, vector = _sparse(shape, density), _sparse((shape[1],), 1.0)
            out = ow.empty((shape[0],))
            kernel(A=ow.tensor(matrix, format=ow.CSR), x=ow.tensor(vector), out=out)
            np.testing.assert_array_equal(out.to_numpy(), matrix @ vector, err_msg=str(shape))
    np.testing.assert_array_equal(kernel().to_numpy(), ANSWERS[SPMV])


@needs_cc
def test_sparse_results_of_other_shapes() -> None:
    for text in ("split(i,i0,i1,4)", "split(j,j0,j1,3)", "pos(j,p,C), divide(p,p0,p1,2)"):
        kernel = SUM.schedule(text).compile()
        for shape in SHAPES:
            one, two = _sparse(shape, 0.3), _sparse(shape, 0.1)
            given = {n: ow.tensor(v, format=ow.CSR) for n, v in (("A", one), ("C", two))}
            out = kernel(**given, out=ow.empty(shape, format=ow.CSR))
            np.testing.assert_array_equal(out.to_numpy(), one + two)


@needs_cc
def test_split_points_are_asked_for_all_operands() -> None:
    asked: list[tuple[tuple[int, ...], int]] = []

    def cuts(tensors: Any, parts: int) -> Any:
        assert set(tensors) == {"A", "x"}
        asked.append((tensors["A"].shape, parts))
        return halves(tensors, parts)

    kernel = SPMV.divide(i, "i0", "i1", 5, split_points=cuts).compile()
    assert asked == []
    kernel()
    kernel(A=_csr(3), out=ow.empty((3,)))
    kernel(A=_csr(4), out=ow.empty((4,)))
    assert asked == [((6, 8), 5), ((3, 8), 5), ((4, 8), 5)]


def _csr(rows: int) -> ow.Tensor:
    return ow.tensor(_sparse((rows, 8)), format=ow.CSR)


def test_without_a_schedule_nothing_is_explained_as_one() -> None:
    assert SPMV.commands == ""
    assert "schedule:" not in SPMV.compile().explain()


def test_conversions_are_still_explained() -> None:
    stmt = ow.assign(S[i, j], A[i, j] + K[i, j])
    converted = "  K: converted from ow.CSC to ow.CSR before each call"
    assert converted in stmt.compile().explain()
    scheduled = stmt.unroll(i, 2).compile().explain()
    assert converted in scheduled
    assert "  schedule: unroll(i,2)\n" in scheduled


@needs_cc
def test_a_workspace_of_one_number() -> None:
    made = SPMV.precompute(A[i, j] * x[j], [], [])
    assert str(made.loops).splitlines() == [
        "forall i:",
        "  y(i) = w",
        "  where",
        "    forall j:",
        "      w += A(i,j) * x(j)",
    ]
    np.testing.assert_array_equal(made.compile()().to_numpy(), ANSWERS[SPMV])


def test_empty_lists_read_back() -> None:
    made = SPMV.precompute(A[i, j] * x[j], [], [])
    assert made.commands == "precompute(A(i,j) * x(j),[],[])"
    assert SPMV.schedule(made.commands) == made


def test_the_strategy_may_be_left_out() -> None:
    loops = SPMV.parallelize(i, THREAD, RACE.NoRaces).loops
    assert SPMV.schedule("parallelize(i,CPUThread)").loops == loops
    assert SPMV.parallelize(i, "CPUThread", None).loops == loops  # type: ignore[arg-type]
    made = SPMV.schedule("parallelize(i,CPUThread,chunk=8)")
    assert made.loops == SPMV.parallelize(i, THREAD, chunk=8).loops
    assert SPMV.schedule(made.commands) == made


def test_text_has_the_default_of_the_method() -> None:
    assert SPMV.schedule("parallelize(i,CPUThread)") == SPMV.parallelize(i, "CPUThread")


def test_the_result_may_be_an_access_in_text() -> None:
    assert SPMV.schedule("stream(y(i))") == SPMV.stream(y[i])


def test_functions_without_names_read_back() -> None:
    made = SPMV.divide(i, "i0", "i1", 3, split_points=lambda t, n: [0, 1, 2, 6])
    name = made.commands.partition("split_points=")[2].rstrip(")")
    assert name.isidentifier()
    assert SPMV.schedule(made.commands, **{name: made._commands[0].arguments[5]}) == made


# -- what the C text has ------------------------------------------------------------------------

FIGURE_6_1 = "fuse(i,j,f), pos(f,p,A), split(p,p0,p1,16), parallelize(p0,CPUThread,Atomics)"
POLLING = [
    "",
    "split(i,i0,i1,32)",
    "split(j,j0,j1,4)",
    "fuse(i,j,f), pos(f,p,A)",
    "fuse(i,j,f)",
    FIGURE_6_1,
    "unroll(i,2)",
    "divide(i,i0,i1,3,balance=nnz)",
    "divide(i,i0,i1,3,assign=stride)",
    "divide(i,i0,i1,3,assign=dynamic,chunk=2), parallelize(i0,CPUThread,NoRaces)",
    "parallelize(i,CPUThread,NoRaces,chunk=8)",
    "precompute(A(i,j)*x(j),j,jw)",
    "parallelize(i,CPUVector,NoRaces)",
]


@needs_cc
@pytest.mark.parametrize("text", POLLING)
def test_loops_in_loops_can_be_interrupted(text: str) -> None:
    """The outermost loop looks at the flag that Ctrl-C sets; a loop alone does between runs."""
    stmt = SPMV.schedule(text)
    source = stmt.compile().source
    alone = str(stmt.loops).count("forall") == 1
    assert alone == text.endswith(("f)", "pos(f,p,A)"))
    assert "*stop) break;" in source


@needs_cc
def test_streams_call_a_helper() -> None:
    call = "  stream_float64(&R_vals[i], "
    assert call in SPMV.stream(y).compile().source
    assert call in SPMV.schedule("split(i,i0,i1,4), stream(y)").compile().source
    assert "stream_float64(" not in SPMV.compile().source
