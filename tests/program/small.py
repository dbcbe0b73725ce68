"""Small programs, written by hand from the nodes: what the tests of programs and texts share.

Loops are made by the functions here, so that a field of `For` that moves is changed in one place.
"""

from __future__ import annotations

import re
from dataclasses import fields
from typing import Any

from openwork.algebra import operators as ops
from openwork.program import nodes as p

I, J, N = p.Name("i"), p.Name("j"), p.Name("n")
TOTAL = p.Name("total", "float64")
X, Y = p.Array("x", "float64"), p.Array("y", "float64")
CRD, KEYS, WORK = p.Array("crd", "int32"), p.Array("keys", "int64"), p.Array("work", "float64")
TABLE, SLOTS = p.Array("table", "int64"), p.Array("slots", "int64")
MARKS = p.Array("marks", "uint64")
LISTED = p.Array("listed", "uint8")
SUMS = p.Array("sums", "float64")
VALS = p.Array("A_vals", "float64", p.Role.VALUE, "A")  # an operand's, which may be loaded ahead
ZERO, ONE, TWO = (p.Value(float(number), "float64") for number in range(3))
MASK, COUNT, ROOM, SLOT = p.Name("mask"), p.Name("count"), p.Name("capacity"), p.Name("slot")


def loop(body: p.Stmt, begin: object = 0, end: object = N, **more: Any) -> p.For:
    """`for (i = begin; i < end; i++) body`"""
    return p.For(I, p.expr(begin), p.expr(end), p.block(body), **more)


def shared(body: p.Stmt, **more: Any) -> p.For:
    """The same, by threads."""
    return loop(body, by=p.Threads(**_of(p.Threads, more)), **more)


def vectorized(body: p.Stmt, **more: Any) -> p.For:
    """The same, in any order."""
    return loop(body, simd=True, **more)


def written_out(at: p.Name, count: int, body: p.Stmt) -> p.For:
    """`for (at = 0; at < count; at++) body`, written out."""
    return p.For(at, p.Value(0), p.Value(count), p.block(body), unrolled=True)


def unit(var: p.Name, unit: str, end: object, body: p.Stmt, **more: Any) -> p.For:
    """A loop that the blocks, warps or threads of a GPU take."""
    by = p.Unit(unit, **_of(p.Unit, more))
    return p.For(var, p.Value(0), p.expr(end), p.block(body), by=by, **more)


def _of(kind: type[p.Threads | p.Unit], more: dict[str, Any]) -> dict[str, Any]:
    """The fields of `kind`, taken out of `more`."""
    return {f.name: more.pop(f.name) for f in fields(kind) if f.name in more}


def add(left: p.Expr, right: p.Expr) -> p.Expr:
    """The sum of two elements."""
    return p.Apply(ops.ADD, (left, right), left.type)


def times(left: p.Expr, right: p.Expr) -> p.Expr:
    """The product of two elements."""
    return p.Apply(ops.MUL, (left, right), left.type)


def program(*body: p.Stmt, made: dict[p.Array, p.Expr] | None = None) -> p.Program:
    """A program over operands x, crd and A, and a result y of n elements."""
    arguments = [
        p.Argument(X, "x", -1, "values", "operand"),
        p.Argument(CRD, "x", 0, "crd", "operand"),
        p.Argument(Y, "y", -1, "values", "result"),
        p.Argument(VALS, "A", -1, "values", "operand"),
    ]
    for array, count in (made or {}).items():
        arguments.append(p.Argument(array, "z", -1, "values", "made", count))
    return p.Program(tuple(arguments), (N,), p.block(*body))


DOUBLE = p.Store(Y, I, times(X[I], TWO))


def code(text: str) -> str:
    """C or CUDA without its comments, and without lines that hold nothing else."""
    return "\n".join(line for line in re.sub(r"//.*", "", text).splitlines() if line.strip())
