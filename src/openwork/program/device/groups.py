"""Loops whose threads combine their stores: whole groups stay converged.

A loop of a group combines all stores; any other the last store of each thread, if it is marked.

Threads past the end of the data repeat the last iteration and store nothing (the zero extension of
segment groups). So all threads of a group reach each store, combine their values, and as few as
possible of them write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from openwork.algebra.types import SUPPORTED
from openwork.errors import InternalError
from openwork.frozen import frozen
from openwork.program import nodes as p
from openwork.program.gpu_nodes import Combine
from openwork.program.nodes import (
    Binary,
    Declare,
    Expr,
    Name,
    Set,
    Value,
    arithmetic,
    block,
    compare,
)
from openwork.tree import Node, children, map_children, replace, walk

Fresh = Callable[[str], str]


def converged(
    loop: p.For, by: p.Unit, first: Expr, count: Expr, once: bool, fresh: Fresh
) -> p.Block:
    """The loop, where thread `first` of `count` takes its iterations, with converged groups.

    for (base = begin; base < end; base += count) {
      in = base + first < end;
      var = min(base + first, end - 1);
      body, in which stores are combined
    }
    """
    base, inside = Name(fresh(f"{loop.var.name}_base")), Name(fresh("in_range"), "bool")
    own = base + first
    last = arithmetic("-", loop.end, Value(1))
    body = _Collective(loop, by, inside, fresh).block(loop.body)
    rounds = replace(
        loop, var=base, by=None, reductions=(), simd=False, polls=0, step=count, once=once,
        body=block(
            Declare(inside, compare("<", own, loop.end), fixed=True),
            Declare(loop.var, arithmetic("min", own, last), fixed=True),
            body,
        ),
    )  # fmt: skip
    return block(rounds)


@frozen
class Lasts:
    """The last stores of threads, which each hold an index and a value after the loop's body."""

    body: p.Stmt
    before: tuple[p.Stmt, ...]
    after: tuple[p.Stmt, ...]

    def around(self, loop: p.For, begin: Expr, first: Expr, fresh: Fresh) -> p.Block:
        """The loop, in which thread `first` takes the first iteration from `begin` on.

        All threads take part in each of its rounds.
        """
        if loop.once:
            return block(*self.before, loop, *self.after)
        base = Name(fresh(f"{loop.var.name}_base"))
        own = replace(loop, begin=base + first, step=None, once=True, comment="")
        inner = block(*self.before, own, *self.after)
        return block(replace(loop, var=base, begin=begin, body=inner))


def last_stores(body: p.Stmt, group: int, fresh: Fresh) -> Lasts | None:
    """Those in `body`, to be combined in segments within `group` threads; None if there are none.

    Each must be reached at most once: not in a loop, and not one after another.
    """
    found = [n for n in walk(body) if isinstance(n, p.Store) and n.last]
    arrays = {s.array for s in found}
    if len(arrays) != 1 or not all(map(_combines, found)) or _lasts(body) is not True:
        return None
    (array,), op = arrays, found[0].op
    if op is None or any(s.op != op for s in found):
        return None
    index, value = Name(fresh(f"{array.name}_place")), Name(fresh(f"{array.name}_part"), array.type)
    identity = Value(op.identity_of(SUPPORTED[array.type]), array.type)

    def held(node: Node) -> Node:
        if isinstance(node, p.Store) and node.last:
            return block(Set(index, node.index), Set(value, node.value))
        return map_children(node, held)

    combine = Combine(array, index, value, op, group, "segment", identity)
    before = (Declare(index, Value(-1)), Declare(value, identity))
    return Lasts(cast(p.Stmt, held(body)), before, (combine,))


def _lasts(s: Node) -> bool | None:
    """Whether at most one marked store in `s` is reached, and once; None if there is none."""
    match s:
        case p.Store(last=True):
            return True
        case p.Block(body=body):
            found = [each for each in map(_lasts, body) if each is not None]
            return found[0] if len(found) == 1 else (None if not found else False)
        case p.If(then=then, otherwise=otherwise):
            pair = [_lasts(then), None if otherwise is None else _lasts(otherwise)]
            return None if pair == [None, None] else False not in pair
    return None if not any(isinstance(n, p.Store) and n.last for n in walk(s)) else False


class _Collective:
    """The body of a loop whose threads combine their stores."""

    def __init__(self, loop: p.For, by: p.Unit, inside: Name, fresh: Fresh) -> None:
        self.by, self.inside, self.fresh = by, inside, fresh
        self.varying = {loop.var.name} | {
            n.name.name for n in walk(loop.body) if isinstance(n, Set)
        }
        self.written = {n.array for n in walk(loop.body) if isinstance(n, p.Store) and not n.atomic}

    def block(self, body: p.Stmt) -> p.Block:
        """Statements that all threads of a group reach."""
        parts: list[p.Stmt] = []
        for s in body.body if isinstance(body, p.Block) else (body,):
            parts += self._stmt(s)
        return block(*parts)

    def _stmt(self, s: p.Stmt) -> list[p.Stmt]:
        match s:
            case p.Declare(name=name, value=value):
                if self._varies(value):
                    self.varying.add(name.name)
                if any(isinstance(n, p.Load) and n.array in self.written for n in walk(value)):
                    # Threads past the end have the index of a thread that may be writing there.
                    none = Value(SUPPORTED[name.type].type(0).item(), name.type)
                    return [Declare(name, none), p.If(self.inside, block(Set(name, value)))]
                return [s]
            case p.Store() if _combines(s):
                code, combine, store = self._combine(s)
                return [*code, p.If(self.inside, store), combine]
            case p.For(begin=begin, end=end) if not (self._varies(begin) or self._varies(end)):
                return [replace(s, body=self.block(s.body))]
            case p.If(condition=condition):
                return self._if(s, Binary("&&", self.inside, condition))
            case p.Store() | p.While() | p.For():
                # Divergent stores are not combined.
                return [p.If(self.inside, block(s))]
        return [s]

    def _if(self, s: p.If, condition: Expr) -> list[p.Stmt]:
        """A divergent store: its values are held until the group has converged again."""
        before: list[p.Stmt] = []
        after: list[p.Stmt] = []

        def kept(node: p.Stmt) -> p.Stmt:
            if isinstance(node, p.Block):
                return block(*map(kept, node.body))
            if isinstance(node, p.If):
                other = None if node.otherwise is None else kept(node.otherwise)
                return p.If(node.condition, kept(node.then), other)
            if isinstance(node, p.Store) and _combines(node):
                code, combine, store = self._combine(node)
                before.extend(code)
                after.append(combine)
                return store
            if isinstance(node, p.For) and (only := _only_store(node)) is not None:
                hold, combine_each, held = self._combine_each(only, node)
                before.extend(hold)
                after.append(combine_each)
                return held
            return node

        if s.otherwise is None:
            made = p.If(condition, kept(s.then))
        else:
            made = p.If(self.inside, block(kept(s)))
        return [*before, made, *after]

    def _combine(self, s: p.Store) -> tuple[list[p.Stmt], Combine, p.Block]:
        """Declare a thread's index and value; the node that combines them; code to set them."""
        if s.op is None:
            raise InternalError("only reductions are combined")
        index = Name(self.fresh(f"{s.array.name}_place"))
        value = Name(self.fresh(f"{s.array.name}_part"), s.array.type)
        identity = Value(s.op.identity_of(SUPPORTED[s.array.type]), s.array.type)
        code: list[p.Stmt] = [Declare(index, Value(-1)), Declare(value, identity)]
        group, reduction = self.by.group, self.by.reduction
        combine = Combine(s.array, index, value, s.op, group, reduction, identity)
        return code, combine, block(Set(index, s.index), Set(value, s.value))

    def _combine_each(self, s: p.Store, loop: p.For) -> tuple[list[p.Stmt], p.For, p.Stmt]:
        """The same for a store in an unrolled loop: indices and values are arrays in registers."""
        code, combine, _ = self._combine(s)
        count = _written_out(loop)
        at = Name(self.fresh(f"{loop.var.name}_at"))
        index, value = (n.name for n in code if isinstance(n, Declare))
        places = p.Array(f"{index.name}s", "int64", p.Role.POSITION)
        parts = p.Array(f"{value.name}s", value.type)
        clear = block(p.Store(places, at, Value(-1)), p.Store(parts, at, combine.identity))
        held = block(p.Store(places, loop.var, s.index), p.Store(parts, loop.var, s.value))

        def kept(node: Node) -> Node:
            return held if node is s else map_children(node, kept)

        before = [p.Local(places, count), p.Local(parts, count), _each(at, count, clear)]
        taken = Declare(index, p.Load(places, at)), Declare(value, p.Load(parts, at))
        each = _each(at, count, block(*taken, combine))
        return before, each, replace(loop, body=cast(p.Stmt, kept(loop.body)))

    def _varies(self, node: Node) -> bool:
        """Whether an expression may differ between threads."""
        if isinstance(node, Name) and node.name in self.varying:
            return True
        return any(self._varies(child) for child in children(node))


def _each(at: Name, count: int, body: p.Block) -> p.For:
    return p.For(at, Value(0), Value(count), body, unrolled=True)


def _written_out(loop: p.For) -> int:
    """How many iterations an unrolled loop from zero on has; 0 for any other."""
    counted = loop.unrolled and loop.begin == Value(0) and isinstance(loop.end, Value)
    return int(cast(Value, loop.end).value.real) if counted else 0


def _only_store(loop: p.For) -> p.Store | None:
    """The one store that groups can combine in an unrolled loop without loops inside."""
    nodes = list(walk(loop.body)) if _written_out(loop) else []
    found = [n for n in nodes if isinstance(n, p.Store) and _combines(n)]
    loops = any(isinstance(n, (p.For, p.While)) for n in nodes)
    return found[0] if len(found) == 1 and not loops else None


def _combines(s: p.Store) -> bool:
    """Whether groups can combine what `s` stores: it must be a built-in reduction."""
    return s.atomic and s.op is not None and s.op.definition is None
