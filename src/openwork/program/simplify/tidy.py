"""Tidying: a program as a reader wants it, without what is known to be so.

One walk over the finished program. At each point it knows which names stand for which expressions,
and which inequalities hold (`bounds.py`):

    const lo = first;  s            =>  s, with `first` for `lo`
    const lo = p * 64;  ... p * 64 + 64 ...  =>  const lo = p * 64;  ... lo + 64 ...
    min(a, b)                       =>  a                      where a <= b
    if (c) s                        =>  s                      where c holds
    if (i < min(a, b)) s            =>  if (i < b) s           where i < a
    if (a) { if (b) s }             =>  if (a && b) s
    if (e < n) { const p = e; s }   =>  const p = e;  if (p < n) { s }
    if (c) { if (g) s } else { if (g) t }  =>  if (g) { if (c) s else t }
    for (i = e; at most once)  s    =>  const i = e;  if (i < end) s
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import cached_property
from operator import is_
from typing import TypeVar, cast

from openwork.program import nodes as p
from openwork.program.gpu_nodes import (
    BLOCK_X,
    BLOCK_Y,
    BUILTIN,
    LANE,
    THREAD,
    WARP,
    Kernel,
    LoadVector,
    MakeVector,
)
from openwork.program.nodes import Binary, Expr, Name, Value, arithmetic, block, compare
from openwork.program.simplify.bounds import WHOLE, Bounds, Sum, negated
from openwork.program.simplify.dead import without_dead
from openwork.program.vectorize import InVectors
from openwork.tree import Node, map_children, replace, walk

# The index of a thread keeps the name that the loop gives it.
_INDICES = BUILTIN | {LANE.name, WARP.name}


def tidy(program: p.Program) -> p.Program:
    """`program`, tidied."""
    unchanging = {a.array.name for a in program.arguments if a.role == "operand"}
    known = _Known(
        Bounds(frozenset(unchanging)), {n.name for n in program.sizes} | {"room", "threads"}
    )
    for size in program.sizes:
        known.bounds.at_most(Value(0), size)
    body = _Tidy(program.body).block(program.body, known)
    return program if body is program.body else replace(program, body=without_dead(body))


def tidy_kernel(kernel: Kernel, sizes: Iterable[Name]) -> p.Block:
    """The body of a kernel, tidied; `sizes` are never negative."""
    unchanging = frozenset(a.name for a in kernel.arrays) - kernel.written
    known = _Known(Bounds(unchanging), {n.name for n in kernel.scalars} | BUILTIN)
    bounds = known.bounds
    for name, count in (
        (THREAD, Value(kernel.threads)),
        (BLOCK_X, kernel.grid[0]),
        (BLOCK_Y, kernel.grid[1]),
    ):
        bounds.at_most(Value(0), name)
        if count is not None:
            bounds.at_most(name, count, 1)
    for size in sizes:
        bounds.at_most(Value(0), size)
    return without_dead(_Tidy(kernel.body).block(kernel.body, known))


class _Known:
    """What is known at a point: the names that never change, and what they stand for."""

    def __init__(self, bounds: Bounds, fixed: set[str]) -> None:
        self.bounds, self.fixed = bounds, fixed
        self.renamed: dict[str, Expr] = {}
        self.named: dict[Expr, Name] = {}

    def inner(self) -> _Known:
        """A copy for the statements inside one."""
        made = _Known(self.bounds.inner(), set(self.fixed))
        made.renamed, made.named = dict(self.renamed), dict(self.named)
        return made

    def lasts(self, e: Node) -> bool:
        """Whether the value of an expression never changes."""
        match e:
            case Name(name=name):
                return name in self.fixed
            case Value():
                return True
            case Binary(left=left, right=right):
                return self.lasts(left) and self.lasts(right)
            case p.Load(array=array, index=index):
                return array.name in self.bounds.unchanging and self.lasts(index)
        return False

    def may_prove(self, gap: Sum) -> bool:
        """Whether bounds are known at all: there are none of what may change."""
        for atom in gap[0]:
            if isinstance(atom, Name) and atom.name not in self.fixed:
                return False
            if isinstance(atom, p.Load) and atom.array.name not in self.bounds.unchanging:
                return False
        return True

    def learn(self, condition: Expr) -> None:
        """Learn the parts of a condition that holds, as far as they last."""
        if isinstance(condition, Binary) and condition.sign == "&&":
            self.learn(condition.left)
            self.learn(condition.right)
        elif self.lasts(condition):
            self.bounds.learn(condition)

    def define(self, name: Name, value: Expr) -> None:
        """Learn what a name that never changes stands for."""
        self.fixed.add(name.name)
        lasts = self.lasts(value)
        self.bounds.define(name, value if lasts and name.type == p.INDEX else None)
        position = isinstance(value, p.Load) and value.array.role is p.Role.POSITION
        if lasts and (
            position or (isinstance(value, (Binary, p.Load)) and name.type == value.type)
        ):
            self.named.setdefault(value, name)


class _Tidy:
    """The walk."""

    def __init__(self, body: p.Block) -> None:
        self.body = self.here = body
        # How often a block declares each name; the block, so that its identity stays its own.
        self.declared: dict[int, tuple[p.Block, Counter[str]]] = {}

    def _alone(self, name: str) -> bool:
        """Whether the block around declares a name once, at most: no scope has it twice."""
        known = self.declared.get(id(self.here))
        if known is None:
            names = [_declared(n) for n in walk(self.here) if isinstance(n, _DECLARING)]
            known = self.declared[id(self.here)] = (self.here, Counter(names))
        return known[1][name] <= 1

    @cached_property
    def used(self) -> Counter[str]:
        """How often each name stands somewhere; its declaration is one of them."""
        return Counter([n.name for n in walk(self.body) if isinstance(n, Name)])

    # -- expressions ----------------------------------------------------------------------------

    def expr(self, e: Expr, known: _Known) -> Expr:
        """An expression."""
        if isinstance(e, Name):
            return known.renamed.get(e.name, e)
        if isinstance(e, Value):
            return e
        if isinstance(e, Binary):
            left, right = self.expr(e.left, known), self.expr(e.right, known)
            if left is not e.left or right is not e.right:
                made = arithmetic(e.sign, left, right) if e.type == p.INDEX else None
                if made is not None and not isinstance(made, Binary):
                    return made
                e = made or Binary(e.sign, left, right)
            return self._binary(e, known)
        e = map_children(e, lambda n: self.part(n, known))
        if isinstance(e, p.Load) and e.array.role is p.Role.POSITION:
            return known.named.get(e, e)
        return e

    def part(self, node: Node, known: _Known) -> Node:
        """A part of a statement: an expression, or whatever holds some."""
        if isinstance(node, Expr):
            return self.expr(node, known)
        if isinstance(node, p.Stmt):
            return self.node(node, known)
        return (
            node if isinstance(node, p.Array) else map_children(node, lambda n: self.part(n, known))
        )

    def _binary(self, e: Binary, known: _Known) -> Expr:
        if e.sign == "&&":
            return _both(e.left, e.right, e)
        if e.sign in ("<", "<=") and {e.left.type, e.right.type} <= WHOLE:
            less = int(e.sign == "<")
            gap = known.bounds.difference(e.right, e.left, less)
            if not known.may_prove(gap):
                return _shorter(e, known)
            if known.bounds.nonnegative(gap):
                return Value(True, "bool")
            if known.bounds.nonnegative(negated(gap, 1)):
                return Value(False, "bool")
            return _shorter(e, known)
        name = known.named.get(e)
        if name is not None:
            return name
        if e.sign == "-" and e.type == p.INDEX:
            return _cancelled(e, known)
        if e.sign in ("min", "max"):
            gap = known.bounds.difference(e.right, e.left)
            if not known.may_prove(gap):
                return e
            if known.bounds.nonnegative(gap):
                return e.left if e.sign == "min" else e.right
            if known.bounds.nonnegative(negated(gap, 0)):
                return e.right if e.sign == "min" else e.left
        return e

    # -- statements -----------------------------------------------------------------------------

    def node(self, node: p.Stmt, known: _Known) -> p.Stmt:
        """A statement; what it declares is known inside it only."""
        match node:
            case p.Block():
                return self.block(node, known.inner())
            case p.If():
                return block(*self._if(node, known))
            case p.For() | InVectors():
                return self._loop(node, known)
            case p.While(body=body):
                condition = self.expr(node.condition, known)
                inside = known.inner()
                inside.learn(condition)
                return _with(node, condition=condition, body=self.block(_block(body), inside))
        return map_children(node, lambda n: self.part(n, known))

    def block(self, body: p.Block, known: _Known) -> p.Block:
        """Statements in order; `known` learns from them."""
        done: list[p.Stmt] = []
        around, self.here = self.here, body
        for s in body.body:
            done += self._stmt(s, known, done)
        self.here = around
        same = len(done) == len(body.body) and all(map(is_, done, body.body))
        return body if same else p.Block(tuple(done))

    def _stmt(self, s: p.Stmt, known: _Known, done: list[p.Stmt]) -> list[p.Stmt]:
        """`s`, after the statements `done` of the same block."""
        match s:
            case p.Declare(name=name, fixed=True):
                value = self.expr(s.value, known)
                if isinstance(value, Name) and self._passed_on(value, name, known, done):
                    return []
                if _renames(name, value) and known.lasts(value):
                    known.renamed[name.name] = value
                    known.bounds.define(name, value)
                    return []
                known.define(name, value)
                return [_with(s, value=value)]
            case p.If():
                return self._if(s, known)
            case p.While():
                new = self.node(s, known)
                never = isinstance(new, p.While) and new.condition == Value(False, "bool")
                return [] if never else [new]
            case p.For(once=True) | p.For(by=None, unrolled=False, step=None) if once := self._once(
                s, known
            ):
                return once
        return [self.node(s, known)]

    def _once(self, s: p.For, known: _Known) -> list[p.Stmt] | None:
        """for (i = e; at most once) s => const i = e; if (i < end) s"""
        alone = self._alone(s.var.name)
        if not s.once and not (alone and self._is_single(s, known)):
            return None
        if any(isinstance(n, p.Break) for n in walk(s.body)):
            return None
        told: list[p.Stmt] = [p.Comment(s.comment)] if s.comment else []
        inside = p.If(compare("<", s.var, s.end), block(s.body))
        if alone:
            here = p.Declare(s.var, s.begin, fixed=True)
            return [*told, *self._stmt(here, known, []), *self._if(inside, known)]
        begin = self.expr(s.begin, known)
        if not isinstance(begin, Name) or not known.lasts(begin):
            return None
        # Another loop has the same name: this one goes by the name of its only value.
        within = known.inner()
        within.renamed[s.var.name] = begin
        return [*told, *self._if(inside, within)]

    def _is_single(self, s: p.For, known: _Known) -> bool:
        """Whether a loop certainly has at most one iteration."""
        begin, end = self.expr(s.begin, known), self.expr(s.end, known)
        return known.lasts(end) and known.bounds.proves(end, begin + 1)

    def _passed_on(self, one: Name, other: Name, known: _Known, done: list[p.Stmt]) -> bool:
        """const a = e; const b = a; => const b = e; where nothing else uses a"""
        last = done[-1] if done else None
        if not (isinstance(last, p.Declare) and last.fixed and last.name == one):
            return False
        if self.used[one.name] != 2 or one.type != other.type:
            return False
        done[-1] = replace(last, name=other)
        known.renamed[one.name] = other
        known.named = {e: other if name == one else name for e, name in known.named.items()}
        known.define(other, last.value)
        return True

    def _if(self, s: p.If, known: _Known) -> list[p.Stmt]:
        before, s = self._named_first(s, known)
        condition = self.expr(s.condition, known)
        holds = known.inner()
        holds.learn(condition)
        then = self.block(_block(s.then), holds)
        other = None if s.otherwise is None else self._other(s.otherwise, known.inner())
        if condition == Value(True, "bool") and self._fits(then):
            return [*before, *then.body]
        if condition == Value(False, "bool") and (other is None or self._fits(block(other))):
            return [*before, *(() if other is None else block(other).body)]
        made = _with(s, condition=condition, then=then, otherwise=other)
        return [*before, _merged(made)]

    def _other(self, s: p.Stmt, known: _Known) -> p.Stmt:
        """What happens otherwise; a test on its own stays one, and is written `else if`."""
        body = self.block(block(s), known)
        return body.body[0] if isinstance(s, p.If) and len(body.body) == 1 else body

    def _fits(self, body: p.Block) -> bool:
        """Whether a block may become a part of the one around: its names are its own."""
        names = (_declared(s) for s in body.body if not isinstance(s, (p.For, InVectors)))
        return all(self._alone(name) for name in names if name)

    def _named_first(self, s: p.If, known: _Known) -> tuple[list[p.Stmt], p.If]:
        """A name for what the condition computes is declared before it."""
        match s.then:
            case p.Block(body=(p.Declare(name=name, value=Binary() as value, fixed=True), *rest)):
                once = self._alone(name.name) and s.otherwise is None
                if once and _is_safe(value) and value in set(walk(s.condition)):
                    declared = self._stmt(s.then.body[0], known, [])
                    return declared, replace(s, then=p.Block(tuple(rest)))
        return [], s

    def _loop(self, s: p.For | InVectors, known: _Known) -> p.Stmt:
        inside = known.inner()
        if isinstance(s, InVectors):
            inside.fixed.add(s.var.name)
            inside.bounds.define(s.var, None)
            return _with(s, body=self.block(_block(s.body), inside))
        begin, end = (self.expr(e, known) for e in (s.begin, s.end))
        inside.fixed.add(s.var.name)
        inside.bounds.define(s.var, None)
        for one, other, less in ((begin, s.var, 0), (s.var, end, 1)):
            if known.lasts(other if one is s.var else one):
                inside.bounds.at_most(one, other, less)
        by = None if s.by is None else map_children(s.by, lambda n: self.part(n, inside))
        body = self.block(_block(s.body), inside)
        if (
            isinstance(s.by, p.Threads)
            and s.by.balance is not None
            and s.by.balance.count is not None
        ):
            end = known.bounds.value_of(end)  # the balance tells where the loop ends, by itself
        step = None if s.step is None else self.expr(s.step, known)
        return _with(s, begin=begin, end=end, by=by, body=body, step=step)


S = TypeVar("S", bound=p.Stmt)


def _with(s: S, **parts: object) -> S:
    """`s` with other parts; itself if they are the same."""
    if all(getattr(s, name) is part for name, part in parts.items()):
        return s
    return cast(S, replace(cast(p.Declare, s), **parts))  # type: ignore[arg-type]


_DECLARING = (p.Declare, p.For, InVectors, p.Local, LoadVector, MakeVector)


def _declared(s: Node) -> str:
    """The name that a statement declares; "" for none."""
    match s:
        case p.Declare(name=name) | p.For(var=name) | InVectors(var=name):
            return name.name
        case p.Local(array=array) | LoadVector(vector=array) | MakeVector(vector=array):
            return array.name
    return ""


def _is_safe(e: Expr) -> bool:
    """Whether an expression may be computed wherever its names are known."""
    match e:
        case Name() | Value():
            return True
        case Binary(sign="+" | "-" | "*" | "min" | "max", left=left, right=right):
            return _is_safe(left) and _is_safe(right)
    return False


def _renames(name: Name, value: Expr) -> bool:
    if isinstance(value, Name):
        return value.type == name.type and value.name not in _INDICES
    return isinstance(value, Value) and value.type == name.type


def _shorter(e: Binary, known: _Known) -> Expr:
    """i < min(a, b) => i < b where i < a; a + 1 <= b => a < b"""
    left, right, less = e.left, e.right, int(e.sign == "<")
    limit = known.bounds.value_of(right)
    if isinstance(limit, Binary) and limit.sign == "min":
        for one, other in ((limit.left, limit.right), (limit.right, limit.left)):
            if known.bounds.proves(left, one, less):
                return compare(e.sign, left, other)
    match e:
        case Binary(
            sign="<=", left=Binary(sign="+", left=first, right=Value(value=1)), right=right
        ):
            return compare("<", first, right)
    return e


def _cancelled(e: Binary, known: _Known) -> Expr:
    """q - a - b => c where q = a + b + c"""
    atoms, constant = known.bounds.difference(e.left, e.right)
    match [*atoms.items()]:
        case []:
            return Value(constant)
        case [(Name() as left, 1)] if not constant:
            return left
    return e


def _both(left: Expr, right: Expr, whole: Expr | None = None) -> Expr:
    """true && c => c, c && true => c, false && c => false"""
    yes, no = Value(True, "bool"), Value(False, "bool")
    if left == yes or right == no:
        return right
    if right == yes or left == no:
        return left
    return Binary("&&", left, right) if whole is None else whole


def _merged(s: p.If) -> p.If:
    """if (a) { if (b) s } => if (a && b) s; a test that both branches begin with comes first"""
    match s:
        case p.If(then=p.Block(body=(p.If(otherwise=None) as inner,)), otherwise=None):
            return p.If(_both(s.condition, inner.condition), inner.then)
        case p.If(
            then=p.Block(body=(p.If(otherwise=None) as one,)),
            otherwise=p.Block(body=(p.If(otherwise=None) as other,)),
        ) if one.condition == other.condition:
            return p.If(one.condition, block(p.If(s.condition, one.then, other.then)))
    return s


def _block(s: p.Stmt) -> p.Block:
    return s if isinstance(s, p.Block) else p.Block((s,))
