"""Batches: threads that share a row load several entries each before they add them.

    for (n = 0; n < rounds; n++) {    unroll 8
      p = begin + 4 * n + turn;
      if (p < end) sum += A[p] * B[crd[p]];
    }
    =>
    at = begin + turn;
    while (at + 28 < end) {
      for (n = 0; n < 8; n++) { p = at + 4 * n; sum += A[p] * B[crd[p]]; }    unrolled
      at += 32;
    }
    if (at < end)
      for (n = 0; n < 8; n++) {    unrolled
        p = min(at + 4 * n, end - 1);
        term = A[p] * B[crd[p]];
        if (at + 4 * n < end) sum += term;
      }

Compilers load a whole batch at once where no branch is in the way. In the last batch, loads past
the end repeat the last entry, so that the rest of a row waits for memory once, too. Sums keep their
order. A thread that has a row to itself gains nothing: for most rows the repeated loads cost more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import cast

from openwork.frozen import frozen
from openwork.loops.fresh import take_name
from openwork.program import nodes as p
from openwork.program.device.kernels import each_kernel
from openwork.program.device.wide_loads import terms
from openwork.program.gpu_nodes import THREAD, DeviceProgram, Kernel, LoadVector, MakeVector
from openwork.program.nodes import (
    Binary,
    Declare,
    Expr,
    Name,
    Stmt,
    Value,
    arithmetic,
    block,
    compare,
    statements,
)
from openwork.program.simplify.bounds import Bounds
from openwork.tree import Node, map_children, walk

_LEAST = 4  # iterations that are worth a batch


def with_batches(device: DeviceProgram) -> DeviceProgram:
    """`device` with unrolled loops in batches."""
    written = frozenset(name for kernel in device.kernels for name in kernel.written)
    return each_kernel(device, lambda kernel: _batched(kernel, written))


def _batched(kernel: Kernel, written: frozenset[str]) -> p.Block:
    if not any(isinstance(n, p.For) and n.unroll >= _LEAST for n in walk(kernel.body)):
        return kernel.body
    bounds = _bounds(kernel)
    taken = {n.name for n in walk(kernel.body) if isinstance(n, Name)}
    local = {n.array.name for n in walk(kernel.body) if isinstance(n, p.Local)}
    local |= {n.vector.name for n in walk(kernel.body) if isinstance(n, (LoadVector, MakeVector))}

    def changed(node: Node) -> Node:
        if isinstance(node, Expr):
            return node
        if isinstance(node, p.For) and node.unroll >= _LEAST and node.by is None:
            run = _run(node, bounds)
            if run is not None and _only_adds(run.body, local, written):
                return _in_batches(run, node, taken)
        return map_children(node, changed)

    return cast(p.Block, changed(kernel.body))


def _bounds(kernel: Kernel) -> Bounds:
    """What is known of the names of a kernel that never change, wherever they are known."""
    bounds = Bounds(frozenset(a.name for a in kernel.arrays) - kernel.written)
    bounds.at_most(Value(0), THREAD)
    for s in statements(kernel.body):
        match s:
            case Declare(name=name, value=value, fixed=True):
                bounds.define(name, value)
            case p.For(var=var, begin=begin, once=True):
                bounds.define(var, begin)
    return bounds


@frozen
class _Run:
    """for (var = begin; var < end; var += step) body"""

    var: Name
    begin: Expr
    end: Expr
    step: int
    body: tuple[Stmt, ...]


def _run(loop: p.For, bounds: Bounds) -> _Run | None:
    """The entries that a thread takes of those it shares with others, every so many-th.

    The loop counts them, `for (n = 0; n < rounds; n++) { at = begin + 4 * n; if (at < end) ..`.
    """
    body = _statements(loop.body)
    match body:
        case (
            p.If(
                condition=Binary(sign="<", left=place, right=end),
                then=p.Block(body=(Declare(name=at, value=value), *rest)),
                otherwise=None,
            ),
        ) if loop.begin == Value(0) and loop.step is None and value == place:
            found = _stepped(place, loop.var)
            used = loop.var in walk(block(*rest))
            if found is None or used or not bounds.proves(end, _with(place, loop.var, loop.end)):
                return None
            begin, step = found
            return _Run(at, begin, end, step, tuple(rest))
    return None


def _stepped(value: Expr, var: Name) -> tuple[Expr, int] | None:
    """What `value` is where `var` is 0, and what it gains by each step of `var`, if it does."""
    steps: list[int] = []
    rest: Expr = Value(0)
    for term in terms(value):
        match term:
            case Binary(sign="*", left=Name() as left, right=Value(value=int(step))) if left == var:
                steps.append(step)
            case _ if var in walk(term):
                return None
            case _:
                rest = rest + term
    return (rest, steps[0]) if len(steps) == 1 and steps[0] > 0 else None


def _with(e: Expr, var: Name, value: Expr) -> Expr:
    """`e` with `value` in place of `var`."""

    def node(each: Node) -> Node:
        return value if each == var else map_children(each, node)

    return cast(Expr, node(e))


def _only_adds(body: tuple[Stmt, ...], local: set[str], written: frozenset[str]) -> bool:
    """Whether `body` loads what nobody writes, and adds to registers; what it adds comes last."""
    adds = False
    for s in body:
        if isinstance(s, (Declare, LoadVector)) and not adds:
            if isinstance(s, Declare) and not s.fixed:
                return False
        elif _adds(s, local):
            adds = True
        elif not isinstance(s, p.Comment):
            return False
    loaded = {n.array.name for s in body for n in walk(s) if isinstance(n, (p.Load, LoadVector))}
    helped = any(isinstance(n, p.Helper) for s in body for n in walk(s))
    return adds and not helped and not loaded & (written - local)


def _statements(body: Stmt) -> tuple[Stmt, ...]:
    return body.body if isinstance(body, p.Block) else (body,)


def _adds(s: Stmt, local: set[str]) -> bool:
    """Whether `s` updates registers, maybe several in an unrolled loop."""
    match s:
        case p.For(unrolled=True, body=body):
            return all(_adds(each, local) for each in _statements(body))
        case p.Set(op=op):
            return op is not None
        case p.Store(array=array, op=op):
            return op is not None and array.name in local
    return False


def _in_batches(run: _Run, loop: p.For, taken: set[str]) -> p.Block:
    """The loop, `loop.unroll` iterations at a time."""
    count, step = loop.unroll, run.step

    def fresh(base: str) -> Name:
        return Name(take_name(f"{run.var.name}_{base}", taken))

    named: Stmt | None = None
    if not isinstance(run.end, (Name, Value)):
        named = Declare(fresh("end"), run.end, fixed=True)
        run = replace(run, end=named.name)
    at, turn, now = fresh("first"), fresh("turn"), fresh("now")
    own = at + turn * step
    whole = block(Declare(run.var, own, fixed=True), *run.body)
    last = [
        Declare(now, own, fixed=True),
        Declare(run.var, arithmetic("min", now, run.end - 1), fixed=True),
        *_guarded(run.body, compare("<", now, run.end), fresh),
    ]

    def each(body: p.Block) -> p.For:
        return p.For(turn, Value(0), Value(count), body, unrolled=True)

    return block(
        p.Comment(loop.comment) if loop.comment else None,
        named,
        Declare(at, run.begin),
        p.While(
            compare("<", at + (count - 1) * step, run.end),
            block(each(whole), p.Set(at, at + count * step)),
        ),
        p.If(compare("<", at, run.end), each(block(*last))),
    )


def _guarded(body: tuple[Stmt, ...], inside: Expr, fresh: Callable[[str], Name]) -> Iterator[Stmt]:
    """`body` with all loads, where only updates `inside` the loop's range take place."""
    updates: list[Stmt] = []
    for s in body:
        if isinstance(s, p.Set):
            term = Name(fresh("term").name, s.value.type)
            yield Declare(term, s.value, fixed=True)
            updates.append(replace(s, value=term))
        elif isinstance(s, (p.For, p.Store)):
            updates.append(s)
        else:
            yield s
    yield p.If(inside, block(*updates))
