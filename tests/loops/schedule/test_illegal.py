"""What a schedule cannot say: every refusal, with its code, its words, and a way out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import openwork as ow
from openwork.loops.schedule.command import COMMANDS
from openwork.tensor.statement import Statement

i, j, k = ow.indices("i j k")
_rng = np.random.default_rng(0)


def _sparse(shape: tuple[int, ...], density: float = 0.5) -> Any:
    return _rng.random(shape) * (_rng.random(shape) < density)


# 19 entries; its rows hold 3, 5, 4, 2, 3 and 2 of them
PATTERN = np.array([[n < count for n in range(8)] for count in (3, 5, 4, 2, 3, 2)]) * 1.5

A = ow.tensor(PATTERN, format=ow.CSR, name="A")
C = ow.tensor(_sparse((6, 8)), format=ow.CSR, name="C")
K = ow.tensor(_sparse((6, 8)), format=ow.CSC, name="K")
B = ow.tensor(_sparse((8, 5)), format=ow.CSR, name="B")
D = ow.tensor(_rng.random((6, 8)), name="D")
E = ow.tensor(_rng.random((8, 5)), name="E")
Q = ow.tensor(np.eye(6), format=ow.CSR, name="Q")
T = ow.tensor(_sparse((3, 4, 5)), format=ow.CSF(3), name="T")
U = ow.tensor(_sparse((3, 4, 5)), format=ow.CSF(3), name="U")
V = ow.tensor(_sparse((3, 4, 5)), format=ow.Format([ow.Dense, ow.Compressed, ow.Compressed]),
              name="V")  # fmt: skip
F = ow.tensor(_rng.random((3, 4, 5)), name="F")
x = ow.tensor(_rng.random(8), name="x")
z = ow.tensor(_rng.random(4), name="z")
y = ow.empty((6,), name="y")
s = ow.empty((), name="s")
Y = ow.empty((6, 5), name="Y")
Z = ow.empty((6, 8), name="Z")
R = ow.empty((3, 4, 5), name="R")
S = ow.empty((6, 8), format=ow.CSR, name="S")
P = ow.empty((6, 5), format=ow.CSR, name="P")
HYPER = ow.empty((6, 8), format=ow.DCSR, name="O")

# a or else b: associates, but does not commute
OR_ELSE = ow.operator(
    "or_else", lambda a, b: ow.select(ow.ne(a, 0), a, b), identity=0, associative=True
)

STATEMENTS: dict[str, Statement] = {
    "spmv": ow.assign(y[i], A[i, j] * x[j]),
    "spmv by columns": ow.assign(y[i], K[i, j] * x[j]),
    "dense": ow.assign(y[i], D[i, j] * x[j]),
    "spmm": ow.assign(Y[i, k], A[i, j] * E[j, k]),
    "spgemm": ow.assign(P[i, k], A[i, j] * B[j, k]),
    "sum": ow.assign(S[i, j], A[i, j] + C[i, j]),
    "dense sum": ow.assign(Z[i, j], A[i, j] + C[i, j]),
    "half sum": ow.assign(Z[i, j], A[i, j] + D[i, j]),
    "inner": ow.assign(s[()], A[i, j] * C[i, j]),
    "rows of both": ow.assign(y[i], A[i, j] * C[i, j]),
    "rows of three": ow.assign(y[i], A[i, j] * C[i, j] * D[i, j]),
    "twice": ow.assign(y[i], A[i, j] * D[i, k] * A[i, k]),
    "masked": ow.assign(Z[i, j], A[i, j] * D[i, j]),
    "hypersparse sum": ow.assign(HYPER[i, j], A[i, j] + C[i, j]),
    "sum and max": ow.assign(y[i], ow.sum(j, D[i, j] * x[j]) * ow.max(j, D[i, j] * x[j])),
    "diagonal": ow.assign(y[i], Q[i, i]),
    "scaled": ow.assign(S[i, j], A[i, j] * D[i, j]),
    "apart": ow.assign(y[i], A[i, j] * z[k]),
    "csf": ow.assign(s[()], T[i, j, k]),
    "or else": ow.assign(y[i], ow.reduce(OR_ELSE, j, D[i, j])),
    "or else of all": ow.assign(s[()], ow.reduce(OR_ELSE, i, ow.reduce(OR_ELSE, j, D[i, j]))),
}


def thirds(tensors: Any, parts: int) -> list[int]:
    return [0, 2, 4, 6]


POSITIVE = "but must be a positive whole number"
NOT_KNOWN = (
    "begins and ends is known only inside the kernel, so it cannot be cut at points that are "
    "computed before"
)
COUNTS = "so its work cannot be balanced"
WHILE = "in a while loop, whose iterations depend on each other"
ONE_THREAD = "is sparse and appended to in order, which only one thread can do"
APPENDED = "is sparse and appended to in order, but"
AHEAD = "cannot be located ahead of a loop over"
SAME = "write to the same entries of y, so NoRaces does not hold"
WITHIN = "is already a variable of the statement"
PARALLEL = "is already parallel (CPUThread, NoRaces)"

# (statement, schedule, code, message)
ILLEGAL: list[tuple[str, str, str, str]] = [
    # 301: no such loop
    ("spmv", "split(z,a,b,4)", "E301", "there is no loop over z"),
    ("spmv", "divide(z,a,b,4)", "E301", "there is no loop over z"),
    ("spmv", "fuse(z,j,f)", "E301", "there is no loop over z"),
    ("spmv", "fuse(i,z,f)", "E301", "there is no loop over z"),
    ("spmv", "pos(z,p,A)", "E301", "there is no loop over z"),
    ("spmv", "coord(z,c)", "E301", "there is no loop over z"),
    ("spmv", "bound(z,b,4,MaxExact)", "E301", "there is no loop over z"),
    ("spmv", "unroll(z)", "E301", "there is no loop over z"),
    ("spmv", "reorder(i,z)", "E301", "there is no loop over z"),
    ("spmv", "order(i,j,z)", "E301", "there is no loop over z"),
    ("spmv", "parallelize(z,CPUThread,NoRaces)", "E301", "there is no loop over z"),
    ("inner", "mergeby(z,gallop)", "E301", "there is no loop over z"),
    ("spmv", "prefetch(x,z,4)", "E301", "there is no loop over z"),
    ("spmv", "split(i,a,b,4), split(i,c,d,4)", "E301",
     "there is no loop over i; it was replaced by split(i, a, b, 4)"),
    ("spmv", "fuse(i,j,f), unroll(j)", "E301",
     "there is no loop over j; it was replaced by fuse(i, j, f)"),
    ("spmv", "pos(j,p,A), unroll(j)", "E301",
     "there is no loop over j; it was replaced by pos(j, p, A[i, j])"),
    # 302: names
    ("spmv", "split(i,i,b,4)", "E302", f"i {WITHIN}"),
    ("spmv", "split(i,a,j,4)", "E302", f"j {WITHIN}"),
    ("spmv", "split(i,a,a,4)", "E302", "a is named twice"),
    ("spmv", "divide(i,a,a,4)", "E302", "a is named twice"),
    ("spmm", "precompute(A(i,j)*E(j,k),[i,k],[w,w])", "E302", "w is named twice"),
    ("spmv", "divide(i,j,b,4)", "E302", f"j {WITHIN}"),
    ("spmv", "divide(i,j,b,4,balance=nnz)", "E302", f"j {WITHIN}"),
    ("spmv", "fuse(i,j,i)", "E302", f"i {WITHIN}"),
    ("spmv", "pos(j,i,A)", "E302", f"i {WITHIN}"),
    ("spmv", "pos(j,p,A), coord(p,j)", "E302", f"j {WITHIN}"),
    ("spmv", "bound(i,j,4,MaxExact)", "E302", f"j {WITHIN}"),
    ("spmv", "split(i,a,b,4), split(j,i,c,2)", "E302", f"i {WITHIN}"),
    ("spmv", "precompute(A(i,j)*x(j),j,i)", "E302", f"i {WITHIN}"),
    # 303: numbers and choices
    ("spmv", "split(i,a,b,0)", "E303", f"the split factor is 0, {POSITIVE}"),
    ("spmv", "split(i,a,b,-4)", "E303", f"the split factor is -4, {POSITIVE}"),
    ("spmv", "split(i,a,b,1099511627777)", "E303",
     "the split factor is 1099511627777, but can be 1099511627776 at most"),
    ("spmv", "divide(i,a,b,1048577)", "E303",
     "the number of parts is 1048577, but can be 1048576 at most"),
    ("spmv", "divide(i,a,b,0)", "E303", f"the number of parts is 0, {POSITIVE}"),
    ("spmv", "unroll(i,0)", "E303", f"the unroll factor is 0, {POSITIVE}"),
    ("spmv", "prefetch(x,j,0)", "E303", f"the prefetch distance is 0, {POSITIVE}"),
    ("spmv", "parallelize(i,CPUThread,NoRaces,chunk=0)", "E303", f"the chunk is 0, {POSITIVE}"),
    ("spmv", "bound(i,b,-1,MinExact)", "E303",
     "the bound is -1, but must be a whole number of at least 0"),
    ("spmv", "bound(i,b,0,Divisible)", "E303",
     "the bound is 0, but must be a whole number of at least 1"),
    ("spmv", "divide(i,a,b,3,balance=rows)", "E303", "there is no balance 'rows'"),
    ("spmv", "divide(i,a,b,3,assign=random)", "E303", "values cannot be assigned by 'random'"),
    ("spmv", "divide(i,a,b,3,balance=nnz,assign=stride)", "E303",
     "a loop is cut by balance or by assign, not by both"),
    ("spmv", "divide(i,a,b,3,assign=stride,chunk=2)", "E303",
     "only values that are assigned dynamically are taken in chunks"),
    ("spmv", "divide(i,a,b,3,assign=dynamic,chunk=0)", "E303", f"the chunk is 0, {POSITIVE}"),
    ("spmv", "divide(i,a,b,3,assign=dynamic,chunk=2), parallelize(a,CPUThread,chunk=2)", "E303",
     "a takes 2 values at a time already"),
    ("spmv", "parallelize(i,GPUBlock,threads=48)", "E303", "a block cannot have 48 threads"),
    ("spmv", "parallelize(i,GPUBlock,threads=2048)", "E303", "a block cannot have 2048 threads"),
    ("spmv", "parallelize(i,GPUThread,threads=64)", "E303",
     "i is for GPUThread, which has no launch bounds"),
    ("spmv", "parallelize(i,CPUThread,blocks_per_sm=2)", "E303",
     "i is for CPUThread, which has no launch bounds"),
    ("spmv", "parallelize(i,GPUBlock,threads=512,blocks_per_sm=5)", "E303",
     "5 blocks cannot be on a multiprocessor at the same time"),
    ("spmv", "parallelize(i,GPUBlock,resident=512,blocks_per_sm=2)", "E303",
     "launch bounds are given in threads and in blocks"),
    ("spmv", "divide(i,a,b,3,balance=nnz,split_points=thirds)", "E303",
     "a loop is cut by balance or by split_points, not by both"),
    ("spmv", "divide(i,a,b,3,split_points=fourths)", "E303",
     "split_points is 'fourths', which cannot be called"),
    ("spmv", "mergeby(i,fast)", "E303", "there is no merge strategy 'fast'"),
    ("spmv", "reorder()", "E303", "reorder takes two loops or more"),
    ("spmv", "reorder(i)", "E303", "reorder takes two loops or more"),
    ("spmv", "reorder(i,i)", "E303", "a loop is named twice"),
    ("spmv", "order(i,j,i)", "E303", "a loop is named twice"),
    ("spmv", "precompute(A(i,j)*x(j),[i,j],[iw])", "E303",
     "precompute has 2 loops but 1 new ones"),
    # 304: storage out of order (thesis 5.3: tensors are not iterated out of order)
    ("spmv", "reorder(j,i)", "E304",
     "A is stored with i outside of j, but the loops bind j first: j, i"),
    ("spmv", "order(j,i)", "E304",
     "A is stored with i outside of j, but the loops bind j first: j, i"),
    ("spmv by columns", "reorder(i,j)", "E304",
     "K is stored with j outside of i, but the loops bind i first: i, j"),
    ("spmm", "reorder(j,i)", "E304",
     "A is stored with i outside of j, but the loops bind j first: j, i, k"),
    ("csf", "reorder(k,i,j)", "E304",
     "T is stored with i outside of k, but the loops bind k first: k, i, j"),
    ("csf", "split(i,a,b,2), reorder(a,j,b)", "E304",
     "T is stored with i outside of j, but the loops bind j first: a, j, b, k"),
    ("spmv", "split(i,a,b,2), split(j,c,d,2), order(c,d,a,b)", "E304",
     "A is stored with i outside of j, but the loops bind j first: c, d, a, b"),
    ("sum", "reorder(j,i)", "E304",
     "S is stored with i outside of j, but the loops bind j first: j, i"),
    ("rows of both", "pos(j,p,A), split(p,a,b,4), reorder(b,a)", "E304",
     "b cannot come outside of a: A does not decide alone where there is work"),
    ("spmv", "divide(i,a,b,3,balance=nnz), reorder(b,a)", "E304",
     "b cannot come outside of a: runs are of different lengths"),
    ("spmv", "divide(i,a,b,3,split_points=thirds), reorder(b,a)", "E304",
     "b cannot come outside of a: runs are of different lengths"),
    # 305: positions (thesis 5.1, 5.2, 5.4)
    ("spmv", "pos(j,p,A), pos(p,q,A)", "E305", "p already counts positions of A"),
    ("spmv", "pos(j,p,A), split(p,a,b,4), pos(b,q,A)", "E305", "b already counts positions of A"),
    ("spmv", "pos(j,p,q)", "E305", "the statement does not read q"),
    ("spmv", "pos(j,p,y)", "E305", "the statement does not read y"),
    ("spmv", "pos(j,p,A(j,i))", "E305", "the statement does not read A(j,i)"),
    ("spmv", "prefetch(x(i),j,16)", "E305", "the statement does not read x(i)"),
    ("twice", "pos(j,p,A)", "E305", "A is accessed in 2 ways"),
    ("spmv", "pos(i,p,x)", "E305", "x is not indexed by i: it is x[j]"),
    ("spmv", "fuse(i,j,f), pos(f,p,x)", "E305", "x is not indexed by i: it is x[j]"),
    ("diagonal", "pos(i,p,Q)", "E305",
     "Q[i, i] has one variable twice, so its positions are not a run"),
    ("dense", "reorder(j,i), fuse(j,i,f), pos(f,p,D)", "E305",
     "D does not store j, i one below the other: its levels are i, j"),
    ("spmv", "split(j,a,b,4), pos(a,p,A)", "E305",
     "a has no run of positions in A: a counts runs of j"),
    ("spmv", "split(i,a,b,4), fuse(a,b,f), pos(f,p,A)", "E305",
     "f has no run of positions in A: a counts runs of i"),
    ("spmv", "split(j,a,b,4), reorder(a,i), fuse(i,b,f), pos(f,p,A)", "E305",
     "f has no run of positions in A: b is only a part of j"),
    ("spmv", "fuse(i,j,f), split(f,a,b,4), pos(b,p,A)", "E305",
     "b has no run of positions in A: f fuses i and j"),
    ("spmv", "fuse(i,j,f), pos(f,p,A), coord(p,c), pos(c,q,A)", "E305",
     "c has no run of positions in A: c went from positions of several levels back to coordinates"),
    ("spmv", "pos(j,p,A), split(p,a,b,4), reorder(a,i,b)", "E305",
     "a counts positions of A below one i, which is not known there: a, i, b"),
    ("csf", "pos(k,p,T), split(p,a,b,2), reorder(a,j)", "E305",
     "a counts positions of T below one j, which is not known there: i, a, j, b"),
    ("spmv", "coord(j,c)", "E305", "j is already in coordinate space"),
    ("spmv", "pos(j,p,A), coord(p,c), coord(c,d)", "E305", "c is already in coordinate space"),
    ("spmv", "pos(j,p,A), split(p,a,b,4), coord(a,c)", "E305",
     "a counts runs of positions, which have no coordinates"),
    ("spmv", "pos(i,p,A), fuse(p,j,f)", "E305", "p counts positions of A, which cannot be fused"),
    ("spmv", "pos(j,p,A), split(p,a,b,4), fuse(i,a,f)", "E305",
     "a counts only some positions of A, which cannot be fused"),
    ("spmm", "order(i,k,j), pos(j,p,A), fuse(k,p,f)", "E305",
     "p counts positions of A, which are not below one k"),
    ("spmv", "divide(j,a,b,3,balance=nnz)", "E305",
     f"no operand stores a run of entries below each value of j, {COUNTS}"),
    ("dense", "divide(i,a,b,3,balance=nnz)", "E305",
     f"no operand stores a run of entries below each value of i, {COUNTS}"),
    ("spmv", "fuse(i,j,f), divide(f,a,b,3,balance=nnz)", "E305",
     f"no operand stores a run of entries below each value of f, {COUNTS}"),
    ("spmv", "split(i,a,b,4), divide(a,c,d,3,balance=nnz)",
        "E305",
        "the work of a cannot be balanced: a counts runs of i",
    ),
    ("spmv", "divide(i,a,b,4,balance=nnz), divide(a,c,d,3,balance=nnz)",
     "E305", "the work of a cannot be balanced: a counts runs of i_pos"),
    ("spmv", "divide(i,a,b,4,balance=nnz), divide(b,c,d,3,balance=nnz)",
     "E305", "the work of b cannot be balanced: b counts places in a run of i_pos"),
    (
        "spmv",
        "pos(j,p,A), divide(p,c,d,3,balance=nnz)",
        "E305",
        "the work of p cannot be balanced: A stores no run of entries below each of its positions",
    ),
    ("spmv", "split(i,a,b,4), divide(b,c,d,3,split_points=thirds)", "E305",
     f"where b {NOT_KNOWN}"),
    ("spmv", "pos(j,p,A), divide(p,c,d,3,split_points=thirds)", "E305", f"where p {NOT_KNOWN}"),
    ("spmv", "split(i,a,b,2), fuse(b,j,f), divide(f,c,d,3,split_points=thirds)", "E305",
     f"where f {NOT_KNOWN}"),
    ("spmv", "pos(i,p,A), coord(p,q), divide(q,c,d,3,split_points=thirds)", "E305",
     f"where q {NOT_KNOWN}"),
    (
        "spmv",
        "split(j,a,b,4), pos(b,p,A), reorder(p,a)",
        "E305",
        "p counts positions within a run of a, which is not known there: i, p, a",
    ),
    (
        "sum and max",
        "precompute(D(i,j)*x(j),j,jw)",
        "E309",
        "D(i,j) * x(j) is computed in 2 places",
    ),
    # 306: not nested so
    ("spmv", "divide(i,a,b,3,assign=dynamic), order(a,j,b)", "E306",
     "which values a takes is known only while it runs, so the loop over b has to be directly "
     "inside of it"),
    ("spmv", "divide(i,a,b,3,assign=dynamic), split(b,c,d,2)", "E306",
     "split(b, c, d, 2) changes what a takes while it runs"),
    ("spmv", "divide(i,a,b,3,assign=dynamic), precompute(A(i,j)*x(j),[b,j],[b,j])", "E306",
     "which values a takes is known only while it runs, so the loop over b has to be directly "
     "inside of it"),
    ("spmv", "divide(i,a,b,3,assign=dynamic), precompute(A(i,j)*x(j),[b,a,j],[b,a,j])", "E306",
     "w has an element for each turn of a, but which values a turn takes is known only "
     "while it runs"),
    ("spmv", "fuse(j,i,f)", "E306", "i is not directly inside of j"),
    ("spmv", "fuse(i,i,f)", "E306", "i is not directly inside of i"),
    ("spmm", "fuse(i,k,f)", "E306", "k is not directly inside of i"),
    ("spgemm", "fuse(i,k,f)", "E306", "k is not directly inside of i"),
    ("spgemm", "fuse(j,k,f)", "E306", "k also has a loop that is not inside of j"),
    ("spmm", "reorder(k,i)", "E306", "k, i are not directly inside each other"),
    ("spgemm", "reorder(k,i)", "E306", "k, i are not directly inside each other"),
    ("spmm", "order()", "E303", "order names no loop"),
    ("or else of all", "reorder(j,i)", "E306",
     "or_else does not commute, so the loop over i cannot move"),
    # 307: races (thesis 5.7)
    ("spmv", "parallelize(j,CPUThread,NoRaces)", "E307", f"iterations of j {SAME}"),
    ("spmv", "parallelize(j,CPUVector,NoRaces)", "E307", f"iterations of j {SAME}"),
    ("spmv", "fuse(i,j,f), parallelize(f,CPUThread,NoRaces)", "E307", f"iterations of f {SAME}"),
    ("spmv", "fuse(i,j,f), pos(f,p,A), split(p,a,b,4), parallelize(a,CPUThread,NoRaces)", "E307",
     f"iterations of a {SAME}"),
    ("spmv", "split(j,a,b,4), parallelize(b,CPUThread,NoRaces)", "E307",
     f"iterations of b {SAME}"),
    ("spmv by columns", "parallelize(j,CPUThread,NoRaces)", "E307", f"iterations of j {SAME}"),
    ("spgemm", "parallelize(j,CPUThread,Atomics)", "E307",
     "iterations of j would race for the list of keys of w"),
    ("spgemm", "parallelize(j,CPUThread,IgnoreRaces)", "E307",
     "iterations of j would race for the list of keys of w"),
    *(
        ("or else", f"parallelize(j,CPUThread,{race})", "E307",
         "or_else does not commute, so its terms cannot be combined in any order")
        for race in ("Atomics", "Temporary", "ParallelReduction")
    ),
    *(
        (
            "masked",
            f"precompute(A(i,j),j,jw), parallelize(jw,{how})",
            "E307",
            "iterations of jw would race for the list of keys of w",
        )
        for how in ("CPUThread,NoRaces", "CPUThread,Atomics", "CPUVector,NoRaces")
    ),
    (
        "masked",
        "precompute(A(i,j),j,jw), split(jw,a,b,100), parallelize(a,CPUThread,NoRaces)",
        "E307",
        "iterations of a would race for the list of keys of w",
    ),
    # 308: loops that cannot be shared, merged or prefetched
    ("sum", "parallelize(i,CPUThread,Atomics)", "E308", f"S {ONE_THREAD}"),
    ("sum", "parallelize(i,CPUThread,NoRaces,4)", "E308", f"S {ONE_THREAD}"),
    ("sum", "parallelize(j,CPUVector,NoRaces)", "E308", f"S {ONE_THREAD}"),
    ("spgemm", "parallelize(i,CPUThread,Temporary)", "E308", f"P {ONE_THREAD}"),
    ("spmm", "parallelize(i,CPUThread,NoRaces), parallelize(k,CPUThread,NoRaces)", "E308",
     "k is inside of i, and both are for CPUThread"),
    ("spmm", "parallelize(k,CPUThread,NoRaces), parallelize(i,CPUThread,NoRaces)", "E308",
     "k is inside of i, and both are for CPUThread"),
    ("inner", "parallelize(j,CPUThread,Atomics)", "E308", f"j traverses A and C {WHILE}"),
    ("inner", "parallelize(j,CPUVector,ParallelReduction)", "E308", f"j traverses A and C {WHILE}"),
    ("dense sum", "parallelize(j,CPUThread,NoRaces)", "E308", f"j traverses A and C {WHILE}"),
    ("half sum", "parallelize(j,CPUThread,NoRaces)", "E308", f"j traverses A {WHILE}"),
    ("spmv", "mergeby(j,gallop)", "E308",
     "j does not intersect several sparse operands, so there is nothing to gallop over"),
    ("sum", "mergeby(j,gallop)", "E308",
     "j does not intersect several sparse operands, so there is nothing to gallop over"),
    ("inner", "mergeby(i,gallop)", "E308",
     "i does not intersect several sparse operands, so there is nothing to gallop over"),
    ("spmv", "prefetch(A,j,16)", "E308", f"A {AHEAD} j"),
    ("spmv", "prefetch(x,i,16)", "E308", f"x {AHEAD} i"),
    ("rows of three", "prefetch(D,j,16)", "E308", f"D {AHEAD} j"),
    ("apart", "order(i,k,j), prefetch(z,j,16)", "E308", "z[k] does not change with j"),
    # 309: precompute
    ("spmv", "precompute(A(i,j)+x(j),j,jw)", "E309", "A(i,j) + x(j) is not part of the statement"),
    ("spmv", "precompute(2,j,jw)", "E309", "2 is not part of the statement"),
    ("spmv", "precompute(A(i,j)*x(j),z,zw)", "E309",
     "A(i,j) * x(j) is not directly inside of a loop over z"),
    ("spgemm", "precompute(A(i,j)*B(j,k),i,iw)", "E309",
     "A(i,j) * B(j,k) is not directly inside of a loop over i"),
    ("spmv", "precompute(x(j),i,iw)", "E309", "x(j) changes with j, which is inside of i"),
    ("scaled", "precompute(A(i,j)*D(i,j),j,jw)", "E309",
     "S has the pattern of A, which would no longer decide where it is written"),
    ("rows of both", "pos(j,p,A), precompute(A(i,j),p,pw)", "E309",
     "p counts positions of A, but there is work elsewhere too, or another sparse operand"),
    ("spmv", "precompute(A(i,j)*x(j),j,jw,x)", "E309", "the statement already has a tensor x"),
    ("spmv", "precompute(A(i,j)*x(j),j,jw,A)", "E309", "the statement already has a tensor A"),
    ("masked", "split(j,a,b,4), precompute(A(i,j),[a,b],[aw,bw])", "E309",
     "A(i,j) has no entry at some j, which a workspace over a, b does not record"),
    # 310: parallel loops stay as they are
    *(
        ("spmv", f"parallelize(i,CPUThread,NoRaces), {command}", "E310", f"i {PARALLEL}")
        for command in (
            "split(i,a,b,4)",
            "divide(i,a,b,4)",
            "divide(i,a,b,4,balance=nnz)",
            "fuse(i,j,f)",
            "parallelize(i,CPUVector,NoRaces)",
        )
    ),
    ("spmv", "parallelize(j,CPUVector,ParallelReduction), fuse(i,j,f)", "E310",
     "j is already parallel (CPUVector, ParallelReduction)"),
    # 311: no command
    ("spmv", "stream(x)", "E311", "x is not the result"),
    # 312: appended out of order
    ("sum", "split(j,a,b,4), reorder(b,a)", "E312", f"S {APPENDED} b comes before a"),
    ("sum", "split(i,a,b,4), reorder(b,a)", "E312", f"S {APPENDED} b comes before a"),
    ("sum", "split(i,a,b,2), split(j,c,d,2), reorder(a,c,b,d)", "E312",
     f"S {APPENDED} b comes after a variable further in"),
]  # fmt: skip


def refused(
    call: Callable[[], Any], code: str, message: str, family: type = ow.ScheduleError
) -> ow.OpenworkError:
    """The error that `call` raises, which must say just this."""
    with pytest.raises(ow.OpenworkError) as caught:
        call()
    error = caught.value
    assert (type(error), error.code, error.message) == (family, code, message)
    assert error.hint
    assert str(error).startswith(f"{code}: {message}")
    return error


@pytest.mark.parametrize(("name", "text", "code", "message"), ILLEGAL)
def test_illegal(name: str, text: str, code: str, message: str) -> None:
    stmt = STATEMENTS[name]
    before = str(stmt.loops)
    error = refused(lambda: stmt.schedule(text, thirds=thirds), code, message)
    last = text.split(", ")[-1]
    assert error.span is not None  # the caret is under the command that was refused
    assert error.span.text[error.span.start : error.span.stop] == last
    assert str(stmt.loops) == before
    assert stmt.commands == ""


def test_every_code_is_refused_somewhere() -> None:
    assert {code for _, _, code, _ in ILLEGAL} == {f"E3{n:02}" for n in range(1, 13)}


# -- text ---------------------------------------------------------------------------------------

ORDINARY = "split takes i, i0, i1, factor"
# (text, message, what the carets are under)
TEXTS: list[tuple[str, str, str]] = [
    ("splitt(i,a,b,4)", "there is no command splitt", "splitt(i,a,b,4)"),
    ("SPLIT(i,a,b,4)", "there is no command SPLIT", "SPLIT(i,a,b,4)"),
    ("unroll(i), __class__(i)", "there is no command __class__", "__class__(i)"),
    ("split()", ORDINARY, "split()"),
    ("split(i,a,b)", ORDINARY, "split(i,a,b)"),
    ("split(i,a,b,4,5)", ORDINARY, "split(i,a,b,4,5)"),
    ("split(i,a,b,4,factor=4)", ORDINARY, "split(i,a,b,4,factor=4)"),
    ("split(i,a,b,4,size=4)", ORDINARY, "split(i,a,b,4,size=4)"),
    ("split(i = i,a,b,4)", ORDINARY, "split(i = i,a,b,4)"),
    ("reorder(i,j,by=rows)", "reorder takes loops, ...", "reorder(i,j,by=rows)"),
    ("unroll(i,2,3)", "unroll takes i, [factor]", "unroll(i,2,3)"),
    ("stream()", "stream takes result", "stream()"),
    ("precompute(,j,jw)", "precompute has an empty argument", "precompute(,j,jw)"),
    ("split(i,,a,b,4)", "split has an empty argument", "split(i,,a,b,4)"),
    ("split(i,a,b,4,)", "split has an empty argument", "split(i,a,b,4,)"),
    ("reorder(,)", "reorder has an empty argument", "reorder(,)"),
    ("split(i,a,b,factor=4,factor=5)", "split has factor twice", "split(i,a,b,factor=4,factor=5)"),
    ("split(i,a,b,four)", "'four' is not a whole number", "split(i,a,b,four)"),
    ("split(i,a,b,4.0)", "'4.0' is not a whole number", "split(i,a,b,4.0)"),
    ("split(i,a,b,1e3)", "'1e3' is not a whole number", "split(i,a,b,1e3)"),
    ("split(i,a,b,0x10)", "'0x10' is not a whole number", "split(i,a,b,0x10)"),
    ("split(i,a,b,²)", "'²' is not a whole number", "split(i,a,b,²)"),
    ("bound(i,b,x,MaxExact)", "'x' is not a whole number", "bound(i,b,x,MaxExact)"),
    ("split(1,a,b,4)", "'1' is not an index variable", "split(1,a,b,4)"),
    ("split(i==i,a,b,4)", "'i==i' is not an index variable", "split(i==i,a,b,4)"),
    ("reorder(i,[j])", "['j'] is not an index variable", "reorder(i,[j])"),
    ("parallelize(i,GPU,NoRaces)", "there is no ParallelUnit GPU", "parallelize(i,GPU,NoRaces)"),
    ("parallelize(i,cputhread,NoRaces)", "there is no ParallelUnit cputhread",
     "parallelize(i,cputhread,NoRaces)"),
    ("parallelize(i,CPUThread,Races)", "there is no OutputRaceStrategy Races",
     "parallelize(i,CPUThread,Races)"),
    ("bound(i,b,4,Max)", "there is no BoundType Max", "bound(i,b,4,Max)"),
    ("unroll(i), garbage, unroll(j)", "this is not a command", "garbage"),
    ("42", "this is not a command", "42"),
    ("split", "this is not a command", "split"),
    ("()", "this is not a command", "()"),
    ("split(i,a,b,4", "this is not a command", "split(i,a,b,4"),
    ("split i,a,b,4)", "this is not a command", "split i"),
    ("split[i,a,b,4]", "this is not a command", "split[i,a,b,4]"),
    ("split(i,a,b,4]", "this is not a command", "split(i,a,b,4]"),
    ("split(i,a,b,4) # four", "this is not a command", "# four"),
    ("unroll(i) unrol(j)", "there is no command unrol", "unrol(j)"),
    ("unroll(i).unroll(j,)", "unroll has an empty argument", "unroll(j,)"),
    ("unroll(i)\nsplit(i,a\n", "this is not a command", "split(i,a"),
    ("unroll(i);;\n  frobnicate(i)", "there is no command frobnicate", "frobnicate(i)"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "message", "piece"), TEXTS)
def test_text_that_is_no_schedule(text: str, message: str, piece: str) -> None:
    error = refused(lambda: STATEMENTS["spmv"].schedule(text), "E311", message)
    assert error.span is not None
    assert text[error.span.start : error.span.stop] == piece
    line = next(line for line in text.splitlines() if piece in line)
    carets = " " * line.index(piece) + "^" * len(piece)
    assert f"  {line}\n  {carets}\n  hint: " in str(error)


@pytest.mark.parametrize("text", ["", " ", "\n\n", ",", ".", " ; \n , "])
def test_text_that_says_nothing_does_nothing(text: str) -> None:
    stmt = STATEMENTS["spmv"]
    assert stmt.schedule(text) == stmt


@pytest.mark.parametrize("text", [None, 4, 1.5, b"unroll(i)", [], ["unroll(i)"], {}, object])
def test_a_schedule_is_a_text(text: Any) -> None:
    refused(lambda: STATEMENTS["spmv"].schedule(text), "E311", f"{text!r} is not a text")


@pytest.mark.parametrize(
    "text", ["(" * 20_000, ")" * 20_000, "x" * 100_000, "split(" + "[" * 9_000 + "i"]
)
def test_long_garbage_is_refused(text: str) -> None:
    refused(lambda: STATEMENTS["spmv"].schedule(text), "E311", "this is not a command")


def test_long_text_is_read() -> None:
    stmt = STATEMENTS["spmv"].schedule("unroll(i,4),\n" * 500 + "unroll(j,2)")
    assert str(stmt.loops).splitlines()[0] == "forall i:  [unroll 4]"
    refused(
        lambda: STATEMENTS["spmv"].schedule("unroll(i),\n" * 500 + "unroll(q)"),
        "E301",
        "there is no loop over q",
    )


def test_hints_name_what_there_is() -> None:
    stmt = STATEMENTS["spmv"]

    def hint(text: str) -> str:
        with pytest.raises(ow.ScheduleError) as caught:
            stmt.schedule(text)
        return str(caught.value.hint)

    assert hint("spilt(i)") == f"the commands are {', '.join(COMMANDS)}"
    assert hint("split(i)") == "write split(i, i0, i1, factor)"
    assert hint("unroll(z)") == "the loops are i, j"
    assert hint("pos(j,p,q)") == "it reads A(i,j), x(j)"
    assert hint("parallelize(i,GPU,NoRaces)") == (
        "there are CPUThread, CPUVector, GPUBlock, GPUWarp, GPUThread, GPUGroup"
    )
    assert hint("mergeby(j,fast)") == "the strategies are two_finger and gallop"
    assert hint("order()") == "order(i, j)"
    assert hint("stream(x)") == "stream(y)"


# -- Python values ------------------------------------------------------------------------------

NUMBERS = [0, -1, -(2**70), True, False, 2.0, 0.5, float("nan"), 4 + 0j, np.float64(4), b"4"]
NUMBERS += [np.array([4]), np.array([1, 2])]
NUMBERS += [np.bool_(True), [], [4], (4,), {}, {4}, "four", object]  # type: ignore[list-item]
TAKE_NUMBERS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "split": ("the split factor", lambda n: STATEMENTS["spmv"].split(i, "a", "b", n)),
    "divide": ("the number of parts", lambda n: STATEMENTS["spmv"].divide(i, "a", "b", n)),
    "unroll": ("the unroll factor", lambda n: STATEMENTS["spmv"].unroll(i, n)),
    "prefetch": ("the prefetch distance", lambda n: STATEMENTS["spmv"].prefetch(x, j, n)),
    "chunk": ("the chunk", lambda n: STATEMENTS["spmv"].parallelize(i, "CPUThread", chunk=n)),
}


@pytest.mark.parametrize("number", NUMBERS, ids=repr)
@pytest.mark.parametrize("command", TAKE_NUMBERS)
def test_what_is_no_positive_whole_number(command: str, number: Any) -> None:
    what, call = TAKE_NUMBERS[command]
    if isinstance(number, str):
        refused(lambda: call(number), "E311", f"{number!r} is not a whole number")
    else:
        refused(lambda: call(number), "E303", f"{what} is {number!r}, {POSITIVE}")


@pytest.mark.parametrize("kind", ow.BoundType)
@pytest.mark.parametrize("number", [-1, 1.0, True, "one"], ids=repr)
def test_what_is_no_bound(number: Any, kind: ow.BoundType) -> None:
    stmt = STATEMENTS["spmv"]
    least = 1 if kind is ow.BoundType.Divisible else 0
    message = f"the bound is {number!r}, but must be a whole number of at least {least}"
    if isinstance(number, str):
        refused(lambda: stmt.bound(i, "b", number, kind), "E311", "'one' is not a whole number")
    else:
        refused(lambda: stmt.bound(i, "b", number, kind), "E303", message)


WHOLE = [4, "4", np.int8(4), np.uint64(4), np.array(4)]


@pytest.mark.parametrize("number", WHOLE, ids=repr)
def test_whole_numbers_of_all_kinds(number: Any) -> None:
    assert STATEMENTS["spmv"].split(i, "a", "b", number).commands == "split(i,a,b,4)"


class NoEquality:
    """Cannot be compared, and has no hash."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")

    def __repr__(self) -> str:
        return "NoEquality()"


WEIRD: list[Any] = [
    1,
    1.5,
    b"i",
    "",
    "i j",
    "1i",
    "i!",
    {},
    {"j"},
    object,
    ow.ADD,
    ow.CSR,
    slice(1),
]
WEIRD += [NoEquality(), ..., A, lambda: 1]


@pytest.mark.parametrize("value", WEIRD, ids=lambda v: type(v).__name__)
def test_what_is_no_variable(value: Any) -> None:
    stmt, message = STATEMENTS["spmv"], f"{value!r} is not an index variable"
    refused(lambda: stmt.split(value, "a", "b", 4), "E311", message)
    refused(lambda: stmt.split(i, value, "b", 4), "E311", message)
    refused(lambda: stmt.fuse(i, j, value), "E311", message)
    refused(lambda: stmt.reorder(i, value), "E311", message)
    refused(lambda: stmt.order(i, value), "E311", message)
    refused(lambda: stmt.precompute("A(i,j)*x(j)", value, "jw"), "E311", message)
    refused(lambda: stmt.precompute("A(i,j)*x(j)", j, [value]), "E311", message)


@pytest.mark.parametrize("value", [1, b"CPUThread", "", [], {}, object, ow.CSR], ids=repr)
def test_what_is_no_choice(value: Any) -> None:
    stmt = STATEMENTS["spmv"]
    refused(lambda: stmt.parallelize(i, value), "E311", f"there is no ParallelUnit {value}")
    refused(
        lambda: stmt.parallelize(i, "CPUThread", value),
        "E311",
        f"there is no OutputRaceStrategy {value}",
    )
    refused(lambda: stmt.bound(i, "b", 4, value), "E311", f"there is no BoundType {value}")
    word = str(value).strip("\"'")
    refused(
        lambda: stmt.divide(i, "a", "b", 3, balance=value), "E303", f"there is no balance {word!r}"
    )
    refused(lambda: stmt.mergeby(i, value), "E303", f"there is no merge strategy {word!r}")


def test_units_of_another_command_are_no_units() -> None:
    stmt = STATEMENTS["spmv"]
    refused(
        lambda: stmt.parallelize(i, ow.OutputRaceStrategy.NoRaces),
        "E311",
        "there is no ParallelUnit NoRaces",
    )
    refused(
        lambda: stmt.bound(i, "b", 4, ow.ParallelUnit.CPUThread),
        "E311",
        "there is no BoundType CPUThread",
    )


@pytest.mark.parametrize(
    "value",
    [1, 1.5, b"A", "", [], {}, {"A"}, ow.CSR, ow.ADD, NoEquality(), np.array([1, 2])],
    ids=repr,
)
def test_what_is_no_operand(value: Any) -> None:
    stmt = STATEMENTS["spmv"]
    what = value if isinstance(value, str) or value is ow.ADD else type(value).__name__
    message = f"the statement does not read {what}"
    refused(lambda: stmt.pos(j, "p", value), "E305", message)
    refused(lambda: stmt.prefetch(value, j, 4), "E305", message)


def test_operands_of_other_statements() -> None:
    stmt = STATEMENTS["spmv"]
    refused(lambda: stmt.pos(j, "p", C), "E305", f"the statement does not read {C}")
    refused(lambda: stmt.pos(j, "p", A[j, i]), "E305", f"the statement does not read {A[j, i]}")
    refused(lambda: stmt.prefetch(y, i, 4), "E305", f"the statement does not read {y}")


@pytest.mark.parametrize("value", [1, 1.5, b"A", [], {}, ow.CSR], ids=repr)
def test_what_is_no_expression(value: Any) -> None:
    stmt = STATEMENTS["spmv"]
    refused(lambda: stmt.precompute(value, j, "jw"), "E311", f"{value!r} is not an expression")


@pytest.mark.parametrize("value", [1, 1.5, b"w", [], {}, ow.CSR, i], ids=repr)
def test_what_is_no_workspace(value: Any) -> None:
    refused(
        lambda: STATEMENTS["spmv"].precompute("A(i,j)*x(j)", j, "jw", value),
        "E311",
        f"{value!r} is not a tensor",
    )


@pytest.mark.parametrize(
    "given",
    [
        ow.empty((3, 3), name="W"),
        ow.empty((8,), dtype="float32", name="W"),
        ow.empty((8,), format=ow.Format([ow.Compressed]), name="W"),
    ],
    ids=["order", "type", "format"],
)
def test_a_workspace_that_does_not_fit(given: Any) -> None:
    refused(
        lambda: STATEMENTS["spmv"].precompute("A(i,j)*x(j)", j, "jw", given),
        "E309",
        "the workspace W must be dense, of float64 and with 1 mode",
    )
    refused(
        lambda: STATEMENTS["spmv"].precompute("A(i,j)*x(j)", j, "jw", x),
        "E309",
        "the statement already has a tensor x",
    )


@pytest.mark.parametrize("value", [1, "", "thirds", [], [0, 2, 4, 6], np.arange(3)], ids=repr)
def test_split_points_are_a_function(value: Any) -> None:
    refused(
        lambda: STATEMENTS["spmv"].divide(i, "a", "b", 3, split_points=value),
        "E303",
        f"split_points is {value!r}, which cannot be called",
    )


def test_other_refusals_of_values() -> None:
    stmt = STATEMENTS["spmv"]
    refused(lambda: stmt.stream(x), "E311", "x is not the result")
    refused(lambda: stmt.stream(A[i, j]), "E311", "A is not the result")
    refused(lambda: stmt.precompute("A(i,j)*x(j)", [], "jw"), "E303",
            "precompute has 0 loops but 1 new ones")  # fmt: skip
    refused(lambda: stmt.precompute("A(i,j)", [], []), "E309",
            "no loop is over A(i,j) alone, so there is nothing to compute ahead")  # fmt: skip


@pytest.mark.parametrize("name", ["", "A(i,j)", "a,b", "w w"])
def test_the_name_of_a_workspace(name: str) -> None:
    refused(
        lambda: STATEMENTS["spmv"].precompute("A(i,j)*x(j)", j, "jw", name),
        "E311",
        f"{name!r} is not a name for a workspace",
    )


@pytest.mark.parametrize("var", [i, j, "j"], ids=["i", "j", "text"])
def test_an_index_variable_is_no_part_to_precompute(var: Any) -> None:
    refused(
        lambda: STATEMENTS["spmv"].precompute(var, j, "jw"),
        "E309",
        f"{var} is an index variable, which needs no workspace",
    )


PRECOMPUTE = "precompute takes expr, i, ip, [workspace]"
NOTHING: dict[str, tuple[Callable[[Statement], Any], str]] = {
    "split loop": (lambda t: t.split(None, "a", "b", 4), ORDINARY),
    "split outer": (lambda t: t.split(i, None, "b", 4), ORDINARY),
    "split factor": (lambda t: t.split(i, "a", "b", None), ORDINARY),
    "pos access": (lambda t: t.pos(j, "p", None), "pos takes i, p, access, [parents]"),
    "prefetch access": (lambda t: t.prefetch(None, j, 4), "prefetch takes access, i, distance"),
    "unit": (
        lambda t: t.parallelize(i, None),
        "parallelize takes i, unit, [race], [chunk], [group_size], [reduction], [resident], "
        "[writes], [threads], [blocks_per_sm]",
    ),
    "bound value": (lambda t: t.bound(i, "b", None, "MinExact"), "bound takes i, ib, value, kind"),
    "bound kind": (lambda t: t.bound(i, "b", 3, None), "bound takes i, ib, value, kind"),
    "stream": (lambda t: t.stream(None), "stream takes result"),
    "assemble": (lambda t: t.assemble(None), "assemble takes strategy"),
    "expression": (lambda t: t.precompute(None, j, "jw"), PRECOMPUTE),
    "precompute over": (lambda t: t.precompute("A(i,j)*x(j)", None, "jw"), PRECOMPUTE),
}


@pytest.mark.parametrize("what", NOTHING)
def test_none_is_no_argument(what: str) -> None:
    call, message = NOTHING[what]
    refused(lambda: call(STATEMENTS["spmv"]), "E311", message)


MOST, MOST_PARTS = 2**40, 2**20


@pytest.mark.parametrize("command", [*TAKE_NUMBERS, "bound"])
def test_numbers_that_are_too_large(command: str) -> None:
    what, call = TAKE_NUMBERS.get(
        command, ("the bound", lambda n: STATEMENTS["spmv"].bound(i, "b", n, "MaxConstraint"))
    )
    most = MOST_PARTS if command == "divide" else MOST
    assert f"{most}" in call(most).commands
    for number in (most + 1, 2**63, 2**64 + 1, 10**30):
        message = f"{what} is {number}, but can be {most} at most"
        refused(lambda n=number: call(n), "E303", message)


@pytest.mark.needs_cc
def test_unrolling_more_than_a_compiler_takes() -> None:
    np.testing.assert_allclose(
        STATEMENTS["spmv"].unroll(i, 70_000).compile()().to_numpy(), PATTERN @ x.to_numpy()
    )


# (expression, what is wrong with it)
BAD_EXPRESSIONS = {
    "A(i,j)*": "expected a tensor, a variable, a number or `(`, found the end of the text",
    "A(i,j)*q(j)": "no tensor or function is called q",
    "A(i)": "A has 2 modes, but 1 index variable is given",
    '"A(i,j)*x(j)"': '`"` is not index notation',
    "A(i,j) x(j)": "expected an operator or the end, found `x`",
    "A(i,j)*x(j)$": "`$` is not index notation",
}


@pytest.mark.parametrize("expr", BAD_EXPRESSIONS)
def test_the_caret_of_an_expression_is_in_the_users_text(expr: str) -> None:
    stmt, message = STATEMENTS["spmv"], f"{expr} is not an expression: {BAD_EXPRESSIONS[expr]}"
    command = f"precompute({expr},j,jw)"
    text = f"unroll(i,2), {command}"
    error = refused(lambda: stmt.schedule(text), "E311", message)
    assert error.span is not None
    assert error.span.text == text
    assert text[error.span.start : error.span.stop] == command
    assert refused(lambda: stmt.precompute(expr, j, "jw"), "E311", message).span is None


# -- promises that data breaks ------------------------------------------------------------------

HOLDS = "i has extent 6"
ROWS = "the data breaks a bound of the schedule: bound"
FUSED = "fuse(i,j,f), "
# y(i) = A(i,j) * x(j); (schedule, message, or None where the promise holds)
BOUNDS: list[tuple[str, str | None]] = [
    ("bound(i,b,6,MaxExact)", None),
    ("bound(i,b,7,MaxExact)", f"bound(i, b, 7, MaxExact) does not hold: {HOLDS}"),
    ("bound(i,b,0,MaxExact)", f"bound(i, b, 0, MaxExact) does not hold: {HOLDS}"),
    ("bound(i,b,6,MaxConstraint)", None),
    ("bound(i,b,5,MaxConstraint)", f"bound(i, b, 5, MaxConstraint) does not hold: {HOLDS}"),
    ("bound(i,b,0,MinExact)", None),
    ("bound(i,b,1,MinExact)", f"bound(i, b, 1, MinExact) does not hold: {HOLDS}"),
    ("bound(i,b,0,MinConstraint)", None),
    ("bound(i,b,1,MinConstraint)", f"bound(i, b, 1, MinConstraint) does not hold: {HOLDS}"),
    ("bound(i,b,3,Divisible)", None),
    ("bound(i,b,4,Divisible)", f"bound(i, b, 4, Divisible) does not hold: {HOLDS}"),
    ("bound(i,b,6,MaxExact), bound(b,c,4,Divisible)",
     f"bound(b, c, 4, Divisible) does not hold: {HOLDS}"),
    # derived: the last run of a split is short, and a bound says nothing else
    ("split(i,u,v,3), bound(v,b,3,MaxExact)", None),
    ("split(i,u,v,4), bound(v,b,4,MaxExact)", f"{ROWS}(v, b, 4, MaxExact)"),
    ("split(i,u,v,4), bound(v,b,4,MaxConstraint)", None),
    ("split(i,u,v,4), bound(v,b,3,MaxConstraint)", f"{ROWS}(v, b, 3, MaxConstraint)"),
    ("split(i,u,v,4), bound(v,b,1,MinExact)", f"{ROWS}(v, b, 1, MinExact)"),
    ("split(i,u,v,4), bound(v,b,1,MinConstraint)", f"{ROWS}(v, b, 1, MinConstraint)"),
    ("split(i,u,v,4), bound(v,b,2,Divisible)", None),
    ("split(i,u,v,4), bound(v,b,4,Divisible)", f"{ROWS}(v, b, 4, Divisible)"),
    ("split(i,u,v,4), bound(u,b,2,MaxExact)", None),
    ("split(i,u,v,4), bound(u,b,3,MaxExact)", f"{ROWS}(u, b, 3, MaxExact)"),
    ("divide(i,u,v,4), bound(u,b,4,MaxExact)", None),
    ("divide(i,u,v,4), bound(v,b,1,MaxConstraint)", f"{ROWS}(v, b, 1, MaxConstraint)"),
    # fused
    (FUSED + "bound(f,b,48,MaxExact)", None),
    (FUSED + "bound(f,b,47,MaxExact)", f"{ROWS}(f, b, 47, MaxExact)"),
    (FUSED + "bound(f,b,47,MaxConstraint)", f"{ROWS}(f, b, 47, MaxConstraint)"),
    (FUSED + "bound(f,b,1,MinExact)", f"{ROWS}(f, b, 1, MinExact)"),
    (FUSED + "bound(f,b,1,MinConstraint)", f"{ROWS}(f, b, 1, MinConstraint)"),
    (FUSED + "bound(f,b,16,Divisible)", None),
    (FUSED + "bound(f,b,7,Divisible)", f"{ROWS}(f, b, 7, Divisible)"),
    # positions: of each row, and of all
    ("pos(j,p,A), bound(p,b,5,MaxConstraint)", None),
    ("pos(j,p,A), bound(p,b,4,MaxConstraint)", f"{ROWS}(p, b, 4, MaxConstraint)"),
    ("pos(j,p,A), bound(p,b,3,MaxExact)", f"{ROWS}(p, b, 3, MaxExact)"),
    ("pos(j,p,A), bound(p,b,1,MinExact)", f"{ROWS}(p, b, 1, MinExact)"),
    ("pos(j,p,A), bound(p,b,0,MinConstraint)", None),
    ("pos(j,p,A), bound(p,b,2,Divisible)", f"{ROWS}(p, b, 2, Divisible)"),
    (FUSED + "pos(f,p,A), bound(p,b,19,MaxExact)", None),
    (FUSED + "pos(f,p,A), bound(p,b,20,MaxExact)", f"{ROWS}(p, b, 20, MaxExact)"),
    (FUSED + "pos(f,p,A), bound(p,b,18,MaxConstraint)", f"{ROWS}(p, b, 18, MaxConstraint)"),
    (FUSED + "pos(f,p,A), bound(p,b,1,MinExact)", f"{ROWS}(p, b, 1, MinExact)"),
    (FUSED + "pos(f,p,A), bound(p,b,1,MinConstraint)", f"{ROWS}(p, b, 1, MinConstraint)"),
    (FUSED + "pos(f,p,A), bound(p,b,2,Divisible)", f"{ROWS}(p, b, 2, Divisible)"),
    (FUSED + "pos(f,p,A), split(p,u,v,4), bound(v,b,4,MaxExact)", f"{ROWS}(v, b, 4, MaxExact)"),
]  # fmt: skip


@pytest.mark.needs_cc
@pytest.mark.parametrize(("text", "message"), BOUNDS)
def test_bounds_are_checked(text: str, message: str | None) -> None:
    kernel = STATEMENTS["spmv"].schedule(text).compile()
    if message is None:
        np.testing.assert_allclose(kernel().to_numpy(), PATTERN @ x.to_numpy())
    else:
        refused(kernel, "E507", message, ow.DataError)


@pytest.mark.needs_cc
def test_a_bound_is_checked_at_every_call() -> None:
    kernel = STATEMENTS["spmv"].bound(i, "b", 3, "Divisible").compile()
    for rows in (6, 7, 3, 8, 0):
        given = {"A": ow.tensor(np.ones((rows, 8)), format=ow.CSR), "out": ow.empty((rows,))}
        if rows % 3 == 0:
            np.testing.assert_allclose(kernel(**given).to_numpy(), [x.to_numpy().sum()] * rows)
        else:
            message = f"bound(i, b, 3, Divisible) does not hold: i has extent {rows}"
            refused(lambda given=given: kernel(**given), "E507", message, ow.DataError)


@pytest.mark.needs_cc
def test_a_broken_bound_leaves_the_kernel_usable() -> None:
    kernel = STATEMENTS["spmv"].schedule("pos(j,p,A), bound(p,b,5,MaxConstraint)").compile()
    full = ow.tensor(np.ones((6, 8)), format=ow.CSR)
    for _ in range(2):
        message = f"{ROWS}(p, b, 5, MaxConstraint)"
        refused(lambda: kernel(A=full), "E507", message, ow.DataError)
        np.testing.assert_allclose(kernel().to_numpy(), PATTERN @ x.to_numpy())


@pytest.mark.needs_cc
def test_more_pairs_than_can_be_counted() -> None:
    H = ow.placeholder("H", order=2, format=ow.DCSR)
    kernel = ow.assign(s[()], H[i, j]).schedule("fuse(i,j,f)").compile()
    one = [np.array([0, 1]), np.array([5])]
    wide = ow.from_arrays(ow.DCSR, (2**31, 2**31), [one, one], [2.0])
    pairs = 2**62
    message = f"f would iterate over {pairs} pairs, which overflows 64 bits"
    refused(lambda: kernel(H=wide), "E507", message, ow.DataError)


def _fails(tensors: Any, parts: int) -> Any:
    raise ZeroDivisionError("no parts")


GAVE = "split_points of i returned"
CUTS: list[tuple[Callable[..., Any], str]] = [
    (lambda t, n: [0, 6], f"{GAVE} [0 6]"),
    (lambda t, n: [0, 1, 2, 3, 6], f"{GAVE} [0 1 2 3 6]"),
    (lambda t, n: [], f"{GAVE} []"),
    (lambda t, n: [0, 4, 2, 6], f"{GAVE} [0 4 2 6]"),
    (lambda t, n: np.array([0, 4, 2, 6], np.uint64), f"{GAVE} [0 4 2 6]"),
    (lambda t, n: [0.0, 2.0, 4.0, 6.0], f"{GAVE} [0. 2. 4. 6.]"),
    (lambda t, n: [0, 2, 4, 5], f"{GAVE} [0 2 4 5]"),
    (lambda t, n: [0, 2, 4, 7], f"{GAVE} [0 2 4 7]"),
    (lambda t, n: [1, 2, 4, 6], f"{GAVE} [1 2 4 6]"),
    (lambda t, n: [0, -1, 4, 6], f"{GAVE} [ 0 -1  4  6]"),
    (lambda t, n: [[0, 2, 4, 6]], f"{GAVE} [[0 2 4 6]]"),
    (lambda t, n: [False, True, True, True], f"{GAVE} [False  True  True  True]"),
    (lambda t, n: [0, 2, 2**70, 6], f"{GAVE} [0 2 {2**70} 6]"),
    (lambda t, n: None, f"{GAVE} None"),
    (lambda t, n: "0246", f"{GAVE} '0246'"),
    (_fails, "split_points of i failed: ZeroDivisionError: no parts"),
    (lambda t, n: t["nobody"], "split_points of i failed: KeyError: 'nobody'"),
    (lambda: [0, 2, 4, 6],
     "split_points of i failed: TypeError: <lambda>() takes 0 positional arguments but 2 were "
     "given"),
]  # fmt: skip


@pytest.mark.needs_cc
@pytest.mark.parametrize("cut", CUTS, ids=lambda cut: cut[1][len(GAVE) :])
def test_split_points_that_do_not_cut(cut: tuple[Callable[..., Any], str]) -> None:
    function, message = cut
    kernel = STATEMENTS["spmv"].divide(i, "a", "b", 3, split_points=function).compile()
    error = refused(kernel, "E508", message, ow.DataError)
    assert error.hint == "it must return 4 increasing integers from 0 to 6"


@pytest.mark.needs_cc
def test_split_points_of_positions_end_at_the_last() -> None:
    fused = STATEMENTS["spmv"].fuse(i, j, "f").pos("f", "p", A)
    kernel = fused.divide("p", "a", "b", 2, split_points=lambda t, n: [0, 9, 48]).compile()
    error = refused(kernel, "E508", "split_points of p returned [ 0  9 48]", ow.DataError)
    assert error.hint == "it must return 3 increasing integers from 0 to 19"


@pytest.mark.needs_cc
def test_errors_of_ours_pass_through_split_points() -> None:
    def shapes(tensors: Any, parts: int) -> Any:
        return tensors["A"] + tensors["x"] if ow.tensor(np.ones(3)) @ np.ones(4) else None

    kernel = STATEMENTS["spmv"].divide(i, "a", "b", 3, split_points=shapes).compile()
    with pytest.raises(ow.ShapeError):
        kernel()


@pytest.mark.parametrize(("var", "fused"), [("b", ""), ("f", "fuse(b,j,f), ")])
def test_a_part_of_a_level_without_stored_coordinates_is_not_searched_for(
    var: str, fused: str
) -> None:
    """Nor where the part is fused with what is below it."""
    B = ow.tensor(PATTERN, format=ow.Format([ow.Range, ow.Compressed]), name="B")
    stmt = ow.assign(y[i], B[i, j] * x[j])
    problem = "a part of the run of a level Range cannot be searched for"
    message = f"{var} has no run of positions in B: {problem}"
    text = f"divide(i,a,b,2), {fused}pos({var},p,B(i,j))"
    refused(lambda: stmt.schedule(text), "E305", message)


# -- known faults -------------------------------------------------------------------------------


def test_hints_of_expressions_name_what_there_is() -> None:
    message = "f(A(i,j)) is not an expression: no tensor or function is called f"
    error = refused(lambda: STATEMENTS["spmv"].precompute("f(A(i,j))", j, "jw"), "E311", message)
    assert error.hint == "the tensors are A, x, y"


def test_a_tensor_may_be_called_precomputed() -> None:
    named = ow.tensor(PATTERN, format=ow.CSR, name="precomputed")
    stmt = ow.assign(y[i], named[i, j] * x[j])
    made = stmt.precompute(named[i, j] * x[j], j, "jw")
    assert stmt.schedule(made.commands) == made


def test_large_numbers_are_the_same_in_text() -> None:
    number = 10**19
    message = f"the split factor is {number}, but can be {MOST} at most"
    refused(lambda: STATEMENTS["spmv"].split(i, "a", "b", number), "E303", message)
    refused(lambda: STATEMENTS["spmv"].schedule(f"split(i,a,b,{number})"), "E303", message)
