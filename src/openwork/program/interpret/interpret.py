"""An interpreter of programs that checks what C takes on trust.

It is slow and has the semantics of the C text, but checks bounds of every access, reads of
uninitialized memory, overflow of int64 index arithmetic, and the promises of loops: the iterations
of a `simd` loop, or of one for units of a GPU, and the parts of a parallel one run in a random
order, and no part may access what another has written. A violation is an `InternalError` that names
the array.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from openwork.algebra.operators import ADD
from openwork.errors import InternalError
from openwork.frozen import frozen
from openwork.program import nodes as p
from openwork.program.contract import NO_MEMORY, OK
from openwork.program.interpret.machine import Action, Index, Machine, Value, int64
from openwork.program.interpret.memory import Array, Memory, OutOfMemory
from openwork.program.interpret.threads import parallel
from openwork.program.vectorize import InVectors, SumLanes

_MOST_TURNS = 1_000_000  # of a while loop; interpreted programs are tiny


def interpret(
    program: p.Program, arrays: Sequence[Array | None], sizes: Sequence[int], seed: int = 0
) -> tuple[int, list[Array]]:
    """Run `program` as its C function would.

    Args:
        program: what to run.
            arrays: the array of each argument, None for those that the program allocates itself.
            sizes: the number of threads, the expected entries, and then the extents.
            seed: determines the order in which the parts of parallel loops run.

    Returns:
            The status that the C function would return, and if it is 0 the arrays it made.
    """
    with np.errstate(all="ignore"):
        machine = Machine(program, arrays, sizes, seed)
        run = _Statements(machine).stmt(program.body)
        try:
            run()
        except _Failed as failed:
            return failed.status, []
        except OutOfMemory:
            return NO_MEMORY, []
        if any(memory is not None for shelf in machine.shelves.values() for memory in shelf):
            raise InternalError("an array was left on a shelf")
        return OK, _made(machine)


class _Failed(Exception):
    """The program failed."""

    def __init__(self, status: int) -> None:
        self.status = status


class _Break(Exception):
    """The innermost loop exits."""


def _made(m: Machine) -> list[Array]:
    """The arrays to return."""
    return [
        m.array(argument.array).hand_back(m.index(argument.count)())
        for argument in m.program.arguments
        if argument.role == "made" and argument.count is not None
    ]


@frozen
class _Statements:
    """Turns statements into functions that execute them on a machine."""

    m: Machine

    def stmt(self, s: p.Stmt) -> Action:
        """`s` as a function that executes it."""
        match s:
            case p.Block(body=body):
                parts = [self.stmt(each) for each in body if not isinstance(each, p.Comment)]
                return lambda: _run_all(parts)
            case p.Declare(name=name, value=value):
                return self._set(name, self.m.expr(value))
            case p.Set(name=name, value=value, op=op):
                applied = None if op is None else self.m.apply(op, (name, value), name.type)
                return self._set(name, applied or self.m.expr(value))
            case p.Store():
                return self._store(s)
            case p.For(by=p.Threads() as threads):
                return parallel(self.m, s, threads, self.stmt)
            case p.For():
                return self._for(s)
            case p.While(condition=condition, body=inner):
                return self._while(self.m.index(condition), self.stmt(inner))
            case p.Break():
                return _leave_loop
            case p.If(condition=condition, then=then, otherwise=otherwise):
                holds, yes = self.m.index(condition), self.stmt(then)
                no = self.stmt(p.Block(()) if otherwise is None else otherwise)
                return lambda: yes() if holds() else no()
            case InVectors(var=var, count=count, body=inner):
                return self._for(p.For(var, p.Value(0), p.Value(count), inner))
            case SumLanes(name=name, array=array, count=count):
                return self._sum_lanes(name, array, count)
            case p.Local(array=array, count=count):
                return lambda: self._allocate(array, count, zeroed=False)
            case p.Allocate() | p.Grow() | p.Free():
                return self._memory(s)
            case p.Shelf() | p.Put() | p.Take():
                return self._shelved(s)
            case p.Prefetch(array=array, index=index):
                at = self.m.index(index)
                return lambda: self.m.array(array).check(at())
            case p.Fail(status=status):
                return lambda: _fail(status)
            case p.Do(call=call):
                return self.m.helper(call)
            case p.Comment():
                return lambda: None
        raise InternalError(f"{type(s).__name__} is no statement of a program")

    def _set(self, name: p.Name, value: Value) -> Action:
        scalars, key, make = self.m.scalars, name.name, np.dtype(name.type).type

        def run() -> None:
            scalars[key] = make(value())

        return run

    def _store(self, s: p.Store) -> Action:
        at, dtype = self.m.index(s.index), np.dtype(s.array.type)
        if s.atomic:
            return self._update(s, at, self.m.expr(s.value))
        value = self.m.expr(s.value)
        if s.op is not None:
            value = self.m.apply(s.op, (p.Load(s.array, s.index), s.value), s.array.type)
        narrows = s.op is None and s.value.type != s.array.type

        def run() -> None:
            new = value()
            if narrows and int(new) != int(np.asarray(new).astype(dtype)):
                raise InternalError(f"{new} does not fit {s.array.name}, which is {dtype}")
            self.m.array(s.array).store(at(), new, self.m.part)

        return run

    def _update(self, s: p.Store, at: Index, value: Value) -> Action:
        """An update that other parts of a parallel loop may make as well."""
        combine = None if s.op is None else self.m.combiner(s.op, s.array.type)
        kind = "=" if s.op is None else s.op.name

        def run() -> None:
            memory, index, new = self.m.array(s.array), at(), value()
            if combine is not None:
                new = combine(memory.peek(index), new)
            memory.update(index, new, self.m.part, kind)

        return run

    def _while(self, condition: Index, body: Action) -> Action:
        def run() -> None:
            turns = 0
            while condition():
                body()
                turns += 1
                if turns > _MOST_TURNS:
                    raise InternalError("a while loop does not end")

        return lambda: _until_left(run)

    def _for(self, s: p.For) -> Action:
        begin, end, body, var = self.m.index(s.begin), self.m.index(s.end), self.stmt(s.body), s.var
        step = self.m.index(p.Value(1) if s.step is None else s.step)

        def shuffled() -> None:
            order = list(range(begin(), end(), step()))
            self.m.random.shuffle(order)
            for self.m.scalars[var.name] in order:
                body()

        def run() -> None:
            at = begin()
            while at < end():  # evaluated again each time, as in C
                self.m.scalars[var.name] = at
                body()
                at += step()

        return shuffled if s.simd or s.by is not None else lambda: _until_left(run)

    def _sum_lanes(self, name: p.Name, array: p.Array, count: int) -> Action:
        """Add the elements in order; C may choose another one."""
        at = p.Name(f"{name.name}_lane")
        added = p.Set(name, p.Load(array, at), ADD)
        return self._for(p.For(at, p.Value(0), p.Value(count), added))

    # -- memory ---------------------------------------------------------------------------------

    def _memory(self, s: p.Allocate | p.Grow | p.Free) -> Action:
        match s:
            case p.Allocate(array=array, count=count):
                size = self.m.index(count)
                return lambda: self._allocate(array, size(), s.zeroed)
            case p.Free(array=array):
                return lambda: self._free(self.m.array(array))
            case p.Grow(capacity=capacity, needed=needed):
                enough, per = self.m.index(needed), [self.m.index(g.per) for g in s.arrays]
                return lambda: self._grow(s, capacity.name, enough(), [each() for each in per])

    def _shelved(self, s: p.Shelf | p.Put | p.Take) -> Action:
        match s:
            case p.Shelf(array=array, count=count):
                size = self.m.index(count)
                return lambda: self.m.shelves.update({array.name: [None] * size()})
            case p.Put(array=array, number=number):
                at = self.m.index(number)
                return lambda: self._put(self.m.array(array), at())
            case p.Take(array=array, number=number, into=into):
                at = self.m.index(number)
                return lambda: self._take(array.name, at(), (into or array).name)

    def _put(self, memory: Memory, number: int) -> None:
        memory.check_moved_by(self.m.part)
        shelf = self.m.shelves[memory.name]
        if not 0 <= number < len(shelf) or shelf[number] is not None:
            raise InternalError(f"the shelf of {memory.name} has no free place {number}")
        shelf[number] = memory
        empty = Memory.allocate(memory.name, memory.data.dtype, 0, False, self.m.part)
        self.m.memory[memory.name] = empty

    def _take(self, name: str, number: int, into: str) -> None:
        shelf = self.m.shelves[name]
        memory = shelf[number] if 0 <= number < len(shelf) else None
        if memory is None:
            raise InternalError(f"the shelf of {name} has nothing at {number}")
        if into in self.m.memory and len(self.m.memory[into].data):
            raise InternalError(f"{into} is not empty, and would be lost")
        shelf[number] = None
        memory.name, memory.owner = into, self.m.part
        self.m.memory[into] = memory

    def _allocate(self, array: p.Array, count: int, zeroed: bool) -> None:
        name, dtype = array.name, np.dtype(array.type)
        self.m.memory[name] = Memory.allocate(name, dtype, count, zeroed, self.m.part)

    def _free(self, memory: Memory) -> None:
        memory.check_moved_by(self.m.part)
        del self.m.memory[memory.name]

    def _grow(self, s: p.Grow, capacity: str, needed: int, per: list[int]) -> None:
        old = int(self.m.scalars[capacity])
        if needed <= old:
            return
        new = self.m.scalars[capacity] = max(needed, 2 * old)
        for growing, each in zip(s.arrays, per, strict=True):
            memory = self.m.array(growing.array)
            memory.resize(int64(new * each + growing.extra), self.m.part)
            if growing.zeroed:
                memory.clear(old * each + growing.extra if old else 0)


def _run_all(actions: Sequence[Action]) -> None:
    for action in actions:
        action()


def _leave_loop() -> None:
    raise _Break


def _until_left(loop: Action) -> None:
    """Run `loop`, which may exit early."""
    with suppress(_Break):
        loop()


def _fail(status: int) -> None:
    raise _Failed(status)
