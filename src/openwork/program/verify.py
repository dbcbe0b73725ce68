"""The rules of the program representation: run after every stage.

Every name is declared before it is used, no declaration shadows another, only what is not fixed is
assigned, element types agree, and an array has one role. Parallel loops do not nest, a loop uses a
reduction variable only to reduce into it, and only plain loops have a break.
"""

from __future__ import annotations

from typing import Self

from openwork.algebra.types import is_signed
from openwork.errors import InternalError
from openwork.program import nodes as p
from openwork.program.contract import ROOM, THREADS
from openwork.program.gpu_nodes import Ask, ByOne, Scan
from openwork.program.vectorize import InVectors, SumLanes
from openwork.tree import Node, children, walk


def verify(program: p.Program) -> None:
    """Raise `InternalError` if `program` breaks a rule."""
    scalars = {name.name: False for name in (*program.sizes, ROOM, THREADS)}
    arrays = {a.array.name: a.array.role for a in program.arguments if a.role != "made"}
    known = Known(scalars, arrays)
    known.statement(program.body)
    for argument in program.arguments:
        if argument.count is not None:
            known.expression(argument.count)
            known.array(argument.array)


class Known:
    """The names declared so far, True for those that may be assigned, and the enclosing loops."""

    def __init__(
        self,
        scalars: dict[str, bool],
        arrays: dict[str, p.Role],
        loops: tuple[p.For | p.While, ...] = (),
    ) -> None:
        self.scalars, self.arrays, self.loops = dict(scalars), dict(arrays), loops
        self.shelves: set[str] = set()

    def inner(self, *loop: p.For | p.While) -> Self:
        """The knowledge inside a statement, which ends with it."""
        known = type(self)(self.scalars, self.arrays, (*self.loops, *loop))
        known.shelves = self.shelves
        return known

    def declare(self, name: p.Name, fixed: bool) -> None:
        """Declare a scalar."""
        if name.name in self.scalars or name.name in self.arrays:
            raise InternalError(f"{name.name} is declared twice")
        self.scalars[name.name] = not fixed

    def make(self, array: p.Array) -> None:
        """Declare an array."""
        if array.name in self.arrays or array.name in self.scalars:
            raise InternalError(f"array {array.name} is declared twice")
        self.arrays[array.name] = array.role

    def array(self, array: p.Array) -> None:
        """Check a use of an array."""
        role = self.arrays.get(array.name)
        if role is None:
            raise InternalError(f"array {array.name} is used before it exists")
        if role is not array.role:
            raise InternalError(f"array {array.name} holds {role.value} and {array.role.value}")

    def expression(self, node: Node) -> None:
        """Check the names and arrays used in an expression, or in a part of a statement."""
        if p.names_in(node) <= self.scalars.keys() and p.arrays_in(node) <= self.arrays.items():
            return
        for part in walk(node):
            if isinstance(part, p.Name):
                if part.name not in self.scalars:
                    raise InternalError(f"{part.name} is used before it is declared")
            elif isinstance(part, p.Array):
                self.array(part)

    def statement(self, node: p.Stmt) -> None:
        """Check a statement, and declare what it makes."""
        match node:
            case p.Block(body=body):
                for stmt in body:
                    self.statement(stmt)
            case p.Declare(name=name, value=value, fixed=fixed):
                self.expression(value)
                _agree(name.type, value)
                self.declare(name, fixed)
            case p.Set(name=name, value=value):
                self.expression(value)
                self.expression(name)
                _agree(name.type, value)
                if not self.scalars[name.name]:
                    raise InternalError(f"{name.name} is fixed, but assigned")
            case p.Store(array=array, index=index, value=value):
                for part in (array, index, value):
                    self.expression(part)
                _agree(array.type, value)
            case p.Local(array=array):
                self.make(array)
            case p.Allocate(array=array, count=count):
                self.expression(count)
                if array.name in self.arrays:
                    raise InternalError(f"array {array.name} is allocated twice")
                self.arrays[array.name] = array.role
            case _:
                self.other(node)

    def other(self, node: p.Stmt) -> None:
        """Check the less common statements."""
        match node:
            case p.For():
                self._for(node)
            case p.While(condition=condition, body=body):
                self.expression(condition)
                self.inner(node).statement(body)
            case p.Break():
                if not self.loops or _is_shared(self.loops[-1]):
                    raise InternalError("only a plain loop can be left early")
            case p.If(condition=condition, then=then, otherwise=otherwise):
                self.expression(condition)
                self.inner().statement(then)
                if otherwise is not None:
                    self.inner().statement(otherwise)
            case p.Grow(capacity=capacity, needed=needed, arrays=arrays):
                for part in (capacity, needed, *arrays):
                    self.expression(part)
            case p.Prefetch(array=array, index=index):
                self.array(array)
                self.expression(index)
            case p.Free(array=array):
                self.array(array)
            case p.Shelf() | p.Put() | p.Take():
                self._shelved(node)
            case p.Do(call=call):
                self.expression(call)
            case Scan(array=array):
                self.array(array)
            case Ask(names=names, array=array, index=index):
                self.array(array)
                self.expression(index)
                for name in names:
                    self.declare(name, fixed=True)
            case ByOne(body=body):
                self.inner().statement(body)
            case InVectors(var=var, body=body):
                inner = self.inner()
                inner.declare(var, fixed=True)
                inner.statement(body)
            case SumLanes(name=name, array=array):
                self.expression(name)
                self.array(array)
                if not self.scalars[name.name]:
                    raise InternalError(f"{name.name} is fixed, but summed into")
            case p.Comment() | p.Fail():
                pass
            case _:
                raise InternalError(f"{type(node).__name__} is no statement of a program")

    def _shelved(self, node: p.Shelf | p.Put | p.Take) -> None:
        match node:
            case p.Shelf(array=array, count=count):
                self.expression(count)
                if array.name in self.shelves or self.loops:
                    raise InternalError(f"there is a shelf of {array.name} already, or in a loop")
                self.shelves.add(array.name)
            case p.Put(array=array, number=number):
                self._shelf(array, number)
                self.array(array)
            case p.Take(array=array, number=number, into=into):
                self._shelf(array, number)
                if into is not None:
                    self.array(into)
                elif array.name in self.arrays:
                    raise InternalError(f"array {array.name} is taken twice")
                else:
                    self.arrays[array.name] = array.role

    def _shelf(self, array: p.Array, number: p.Expr) -> None:
        self.expression(number)
        if array.name not in self.shelves:
            raise InternalError(f"there is no shelf of {array.name}")

    def _for(self, loop: p.For) -> None:
        for part in (loop.begin, loop.end, loop.step):
            if part is not None:
                self.expression(part)
        if isinstance(loop.by, p.Threads):
            self._threads(loop.by, loop.var.name)
        for reduction in loop.reductions:
            self._reduction(reduction, loop)
        for copy in () if loop.by is None else loop.by.copies:
            self.expression(copy)
            _agree(copy.array.type, copy.identity)
            if loop.unit in ("warp", "thread"):
                raise InternalError(f"{copy.array.name} is copied by a loop of one block")
        inner, (before, after) = self.inner(loop), _around(loop)
        for stmt in before:
            inner.statement(stmt)
        inner.declare(loop.var, fixed=True)
        if isinstance(loop.by, p.Threads) and loop.by.limit is not None:
            inner.declare(loop.by.limit, fixed=True)
        inner.statement(loop.body)
        for stmt in after:
            inner.statement(stmt)

    def _threads(self, by: p.Threads, var: str) -> None:
        if by.balance is not None:
            self.expression(by.balance)
        if any(map(_is_shared, self.loops)):
            raise InternalError(f"the loop over {var} is parallel inside another")
        if by.chunk is not None and (by.chunk < 1 or by.balance or by.limit):
            raise InternalError(f"the loop over {var} has no chunks of {by.chunk}")
        if by.turns is not None and (by.turns < 1 or by.chunk is None):
            raise InternalError(f"the loop over {var} has no chunks that {by.turns} could take")

    def _reduction(self, reduction: p.Reduction, loop: p.For) -> None:
        if reduction.width:
            self.expression(p.Load(reduction.array, p.Value(0)))
            return
        self.expression(reduction)
        name = reduction.name
        _agree(name.type, reduction.identity)
        if not self.scalars[name.name]:
            raise InternalError(f"{name.name} is fixed, but reduced")
        before, after = _around(loop)
        if any(_uses(s, name) for s in (*before, loop.body, *after)):
            raise InternalError(f"{name.name} is reduced, but used otherwise")


def _is_shared(loop: p.For | p.While) -> bool:
    """Whether iterations of `loop` may run concurrently."""
    return isinstance(loop, p.For) and (loop.simd or isinstance(loop.by, p.Threads))


def _around(loop: p.For) -> tuple[tuple[p.Stmt, ...], tuple[p.Stmt, ...]]:
    """What each thread executes before and after its iterations."""
    match loop.by:
        case p.Threads(private=private, cleanup=cleanup):
            return private, cleanup
        case p.Unit(private=private):
            return private, ()
    return (), ()


def _uses(node: Node, name: p.Name) -> bool:
    """Whether `node` uses `name` other than in `name = op(name, value)`."""
    if node == p.Set(name, p.Value(True, "bool")):
        return False  # it sets a flag
    if isinstance(node, p.Set) and node.name == name:
        # A user-defined operator is inlined into the value, which then contains the old value.
        return (node.op is None) != (name in walk(node.value))
    if isinstance(node, (p.Reduction, SumLanes)):  # of an inner loop, which may be in vectors
        return False
    return node == name or any(_uses(child, name) for child in children(node))


def _agree(type: str, value: p.Expr) -> None:
    integers = is_signed(type) and (is_signed(value.type) or value.type == "bool")
    if value.type != type and not integers:
        raise InternalError(f"a {value.type} is stored as {type}")
