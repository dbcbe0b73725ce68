"""The rules of the program representation: run after every stage.

Every name is declared before it is used, no declaration shadows another, only what is not fixed is
assigned, and the types of elements agree.
"""

from __future__ import annotations

from openwork.errors import InternalError
from openwork.program import nodes as p
from openwork.program.assemble import ROOM
from openwork.tree import Node, children

_INTEGERS = ("int32", "int64", "int128")


def verify(program: p.Program) -> None:
    """Raise `InternalError` if `program` breaks a rule."""
    scalars = {name.name: False for name in (*program.sizes, ROOM)}
    arrays = {a.array.name for a in program.arguments if a.role != "made"}
    known = _Known(scalars, arrays)
    known.statement(program.body)
    for argument in program.arguments:
        if argument.count is not None:
            known.expression(argument.count)
            known.array(argument.array)


class _Known:
    """The names declared so far; True marks those that may be assigned."""

    def __init__(self, scalars: dict[str, bool], arrays: set[str]) -> None:
        self.scalars, self.arrays = dict(scalars), set(arrays)

    def inner(self) -> _Known:
        return _Known(self.scalars, self.arrays)

    def declare(self, name: p.Name, fixed: bool) -> None:
        if name.name in self.scalars or name.name in self.arrays:
            raise InternalError(f"{name.name} is declared twice")
        self.scalars[name.name] = not fixed

    def array(self, array: p.Array) -> None:
        if array.name not in self.arrays:
            raise InternalError(f"array {array.name} is used before it exists")

    def expression(self, node: Node) -> None:
        match node:
            case p.Name(name=name):
                if name not in self.scalars:
                    raise InternalError(f"{name} is used before it is declared")
            case p.Array():
                self.array(node)
            case _:
                for child in children(node):
                    self.expression(child)

    def statement(self, node: p.Stmt) -> None:
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
                if array.name in self.arrays or array.name in self.scalars:
                    raise InternalError(f"array {array.name} is declared twice")
                self.arrays.add(array.name)
            case p.Allocate(array=array, count=count):
                self.expression(count)
                if array.name in self.arrays:
                    raise InternalError(f"array {array.name} is allocated twice")
                self.arrays.add(array.name)
            case _:
                self._nested(node)

    def _nested(self, node: p.Stmt) -> None:
        match node:
            case p.For(var=var, begin=begin, end=end, body=body):
                self.expression(begin)
                self.expression(end)
                inner = self.inner()
                for stmt in node.private:
                    inner.statement(stmt)
                inner.declare(var, fixed=True)
                inner.statement(body)
            case p.While(condition=condition, body=body):
                self.expression(condition)
                self.inner().statement(body)
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
            case p.Do(call=call):
                self.expression(call)
            case p.Comment() | p.Fail():
                pass
            case _:
                raise InternalError(f"{type(node).__name__} is no statement of a program")


def _agree(type: str, value: p.Expr) -> None:
    integers = type in _INTEGERS and value.type in (*_INTEGERS, "bool")
    if value.type != type and not integers:
        raise InternalError(f"a {value.type} is stored as {type}")
