"""An interpreter of programs that checks what C takes on trust.

It is slow and means the same as the C text, but every access is held against the bounds of its
array, nothing is read that was not written, what a loop claims is put to the test (the iterations
of a `simd` loop and the parts of a parallel one run in a random order, and no part may touch what
another has written), and index arithmetic must stay within int64. A breach is an `InternalError`
that names the array.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from openwork.algebra.operators import Op
from openwork.algebra.types import number
from openwork.errors import InternalError
from openwork.program import nodes as p
from openwork.program.assemble import ROOM
from openwork.program.memory import HELPERS, Array, Memory, OutOfMemory
from openwork.tree import walk

Value = Callable[[], Any]
Index = Callable[[], int]
Action = Callable[[], object]

OK, NO_MEMORY = 0, 1
_MOST_TURNS = 1_000_000  # of a while loop; what is interpreted is tiny
_WHOLE = ("bool", "int32", "int64")
_BINARY: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "min": min, "max": max,
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def interpret(
    program: p.Program, arrays: Sequence[Array | None], sizes: Sequence[int], seed: int = 0
) -> tuple[int, list[Array]]:
    """Run `program` as its C function would.

    Args:
        program: what to run.
        arrays: the array of each argument, None for those that the program makes itself.
        sizes: how many threads, how many entries to make room for, and then the extents.
        seed: decides the order in which the parts of parallel loops run.

    Returns:
        The status that the C function would return, and if it is 0 the arrays that were made.
    """
    with np.errstate(all="ignore"):
        machine = _Machine(program, arrays, sizes, seed)
        run = machine.stmt(program.body)
        try:
            run()
        except _Failed as failed:
            return failed.status, []
        except OutOfMemory:
            return NO_MEMORY, []
        return OK, machine.made()


class _Failed(Exception):
    """The program gave up."""

    def __init__(self, status: int) -> None:
        self.status = status


class _Machine:
    """The state of one run. Nodes become closures over it, once, and are then called."""

    def __init__(
        self, program: p.Program, arrays: Sequence[Array | None], sizes: Sequence[int], seed: int
    ) -> None:
        self.program, self.threads = program, sizes[0]
        names = (ROOM.name, *(size.name for size in program.sizes))
        self.scalars: dict[str, Any] = dict(zip(names, sizes[1:], strict=True))
        self.memory: dict[str, Memory] = {}
        self.part: int | None = None
        self.locals = {n.array.name for n in walk(program.body) if isinstance(n, p.Local)}
        self.shuffle = random.Random(seed).shuffle  # noqa: S311 - an order, not a secret
        for argument, array in zip(program.arguments, arrays, strict=True):
            name, type = argument.array.name, argument.array.type
            if argument.role == "made":
                continue
            if array is None or array.dtype != np.dtype(type):
                found = "no array" if array is None else f"an array of {array.dtype}"
                raise InternalError(f"{name} has the type {type}, but {found} was given")
            known = np.ones(len(array), dtype=bool)
            self.memory[name] = Memory(name, array, known, argument.role == "operand")

    def made(self) -> list[Array]:
        """The arrays to hand back."""
        return [
            self.array(argument.array).hand_back(self.index(argument.count)())
            for argument in self.program.arguments
            if argument.role == "made" and argument.count is not None
        ]

    def array(self, array: p.Array) -> Memory:
        """The memory behind `array`, which must exist by now."""
        if array.name not in self.memory:
            raise InternalError(f"{array.name} is not allocated yet, or freed already")
        return self.memory[array.name]

    # -- expressions ----------------------------------------------------------------------------

    def expr(self, e: p.Expr) -> Value:
        """`e` as a function that gives its value."""
        match e:
            case p.Name(name=name):
                scalars = self.scalars
                return lambda: scalars[name]
            case p.Value(value=value):
                dtype = np.dtype(e.type)
                constant = np.array(number(value, dtype), dtype)[()]
                return lambda: constant
            case p.Load(array=array, index=index):
                at = self.index(index)
                return lambda: self.array(array).load(at(), self.part)
            case p.Binary():
                return self._binary(e)
            case p.Apply(op=op, args=args):
                return self._apply(op, args, e.type)
            case p.Convert(expr=inner):
                whence = self.expr(inner)
                return lambda: _convert(whence(), inner.type, e.type)
            case p.Helper():
                return self._helper(e)
        raise InternalError(f"{type(e).__name__} is no expression of a program")

    def index(self, e: p.Expr) -> Index:
        """`e` as a function that gives a Python integer."""
        if e.type not in _WHOLE:
            raise InternalError(f"a {e.type} stands where an index is needed")
        value = self.expr(e)
        return lambda: int(value())

    def _binary(self, e: p.Binary) -> Index:
        left, right = self.index(e.left), self.index(e.right)
        match e.sign:
            case "&&":
                return lambda: bool(left() and right())
            case "||":
                return lambda: bool(left() or right())
            case "/" | "%":
                return lambda: _divide(e.sign, left(), right())
        if e.sign not in _BINARY:
            raise InternalError(f"{e.sign} is no operator of a program")
        compute = _BINARY[e.sign]
        return lambda: _int64(compute(left(), right()))

    def _apply(self, op: Op, args: tuple[p.Expr, ...], type: str) -> Value:
        values = [self.expr(arg) for arg in args]
        types, to = [np.dtype(arg.type) for arg in args], np.dtype(type)

        def run() -> Any:
            given = [np.asarray(v(), dtype=t) for v, t in zip(values, types, strict=True)]
            return np.asarray(op.ufunc(*given)).astype(to)[()]

        return run

    def _helper(self, call: p.Helper) -> Value:
        if call.name not in HELPERS:
            raise InternalError(f"no helper {call.name}")
        helper = HELPERS[call.name]
        args = [self._argument(arg) for arg in call.args]
        if call.name == "find":  # it may enlarge the table, and then the mask is another
            return lambda: self._find(call, *(arg() for arg in args))
        return lambda: helper(self.part, *(arg() for arg in args))

    def _argument(self, arg: p.Expr | p.Array) -> Value:
        return (lambda: self.array(arg)) if isinstance(arg, p.Array) else self.index(arg)

    def _find(self, call: p.Helper, *args: Any) -> int:
        mask = call.args[1]
        if not isinstance(mask, p.Name):
            raise InternalError("find needs the name of a mask")
        slot, self.scalars[mask.name] = HELPERS["find"](self.part, *args)
        return int(slot)

    # -- statements -----------------------------------------------------------------------------

    def stmt(self, s: p.Stmt) -> Action:
        """`s` as a function that does it."""
        match s:
            case p.Block(body=body):
                parts = [self.stmt(each) for each in body if not isinstance(each, p.Comment)]
                return lambda: _run_all(parts)
            case p.Declare(name=name, value=value):
                return self._set(name, self.expr(value))
            case p.Set(name=name, value=value, op=op):
                applied = None if op is None else self._apply(op, (name, value), name.type)
                return self._set(name, applied or self.expr(value))
            case p.Store():
                return self._store(s)
            case p.For():
                return self._parallel(s) if s.parallel else self._for(s)
            case p.While(condition=condition, body=inner):
                return self._while(self.index(condition), self.stmt(inner))
            case p.If(condition=condition, then=then, otherwise=otherwise):
                holds, yes = self.index(condition), self.stmt(then)
                no = self.stmt(p.Block(()) if otherwise is None else otherwise)
                return lambda: yes() if holds() else no()
            case p.Local(array=array, count=count):
                return lambda: self._allocate(array, count, zeroed=False)
            case p.Allocate() | p.Grow() | p.Free():
                return self._memory(s)
            case p.Prefetch(array=array, index=index):
                at = self.index(index)
                return lambda: self.array(array).check(at())
            case p.Fail(status=status):
                return lambda: _fail(status)
            case p.Do(call=call):
                return self._helper(call)
            case p.Comment():
                return lambda: None
        raise InternalError(f"{type(s).__name__} is no statement of a program")

    def _set(self, name: p.Name, value: Value) -> Action:
        scalars, key, make = self.scalars, name.name, np.dtype(name.type).type

        def run() -> None:
            scalars[key] = make(value())

        return run

    def _store(self, s: p.Store) -> Action:
        at, dtype = self.index(s.index), np.dtype(s.array.type)
        value = self.expr(s.value)
        if s.op is not None:
            value = self._apply(s.op, (p.Load(s.array, s.index), s.value), s.array.type)
        narrows = s.op is None and s.value.type != s.array.type

        def run() -> None:
            new = value()
            if narrows and int(new) != int(np.asarray(new).astype(dtype)):
                raise InternalError(f"{new} does not fit {s.array.name}, which is {dtype}")
            self.array(s.array).store(at(), new, self.part)

        return run

    def _while(self, condition: Index, body: Action) -> Action:
        def run() -> None:
            turns = 0
            while condition():
                body()
                turns += 1
                if turns > _MOST_TURNS:
                    raise InternalError("a while loop does not end")

        return run

    def _for(self, s: p.For) -> Action:
        begin, end, body, var = self.index(s.begin), self.index(s.end), self.stmt(s.body), s.var

        def shuffled() -> None:
            order = list(range(begin(), end()))
            self.shuffle(order)
            for self.scalars[var.name] in order:
                body()

        def run() -> None:
            at = begin()
            while at < end():  # evaluated again each time, as in C
                self.scalars[var.name] = at
                body()
                at += 1

        return shuffled if s.simd else run

    # -- parallel loops -------------------------------------------------------------------------

    def _parallel(self, s: p.For) -> Action:
        _check_private_scalars(s)
        begin, end, body = self.index(s.begin), self.index(s.end), self.stmt(s.body)
        private = [self.stmt(each) for each in s.private]
        cleanup = [self.stmt(each) for each in s.cleanup]

        def run() -> None:
            cuts = self._cuts(s, begin(), end())
            parts = list(range(self.threads))
            self.shuffle(parts)
            for part in parts:
                with self._as_part(part):
                    _run_all(private)
                    for self.scalars[s.var.name] in range(cuts[part], cuts[part + 1]):
                        body()
                    _run_all(cleanup)
            for memory in self.memory.values():
                memory.writers.clear()

        return run

    def _cuts(self, s: p.For, begin: int, end: int) -> list[int]:
        """Where the parts begin: with as many iterations each, or as many positions below them."""
        end = max(begin, end)
        parts = range(self.threads + 1)
        if s.balance is None or begin >= end:
            return [begin + (end - begin) * part // self.threads for part in parts]
        pos = self.array(s.balance.pos).first(end + 1, None)
        work = [last - pos[begin] + row - begin for row, last in enumerate(pos)]
        goals = [work[end] * part // self.threads for part in parts]
        cuts = [next(row for row in range(begin, end + 1) if work[row] >= goal) for goal in goals]
        if cuts != sorted(cuts) or (cuts[0], cuts[-1]) != (begin, end):
            raise InternalError(f"{s.balance.pos.name} cuts the loop into {cuts}")
        return cuts

    @contextmanager
    def _as_part(self, part: int) -> Iterator[None]:
        before = set(self.memory)
        self.part = part
        yield
        self.part = None
        for name in set(self.memory) - before:
            if name not in self.locals:
                raise InternalError(f"{name} belongs to one thread and is never freed")
            del self.memory[name]

    # -- memory ---------------------------------------------------------------------------------

    def _memory(self, s: p.Allocate | p.Grow | p.Free) -> Action:
        match s:
            case p.Allocate(array=array, count=count):
                size = self.index(count)
                return lambda: self._allocate(array, size(), s.zeroed)
            case p.Free(array=array):
                return lambda: self._free(self.array(array))
            case p.Grow(capacity=capacity, needed=needed):
                enough, per = self.index(needed), [self.index(g.per) for g in s.arrays]
                return lambda: self._grow(s, capacity.name, enough(), [each() for each in per])

    def _allocate(self, array: p.Array, count: int, zeroed: bool) -> None:
        name, dtype = array.name, np.dtype(array.type)
        self.memory[name] = Memory.allocate(name, dtype, count, zeroed, self.part)

    def _free(self, memory: Memory) -> None:
        memory.check_moved_by(self.part)
        del self.memory[memory.name]

    def _grow(self, s: p.Grow, capacity: str, needed: int, per: list[int]) -> None:
        old = int(self.scalars[capacity])
        if needed <= old:
            return
        new = self.scalars[capacity] = max(needed, 2 * old)
        for growing, each in zip(s.arrays, per, strict=True):
            memory = self.array(growing.array)
            memory.resize(_int64(new * each + growing.extra), self.part)
            if growing.zeroed:
                memory.clear(old * each + growing.extra if old else 0)


def _run_all(actions: Sequence[Action]) -> None:
    for action in actions:
        action()


def _fail(status: int) -> None:
    raise _Failed(status)


def _int64(value: int) -> int:
    if not -(2**63) <= value < 2**63:
        raise InternalError(f"index arithmetic overflows: {value}")
    return value


def _divide(sign: str, left: int, right: int) -> int:
    if left < 0 or right <= 0:
        raise InternalError(f"index arithmetic has no {left} {sign} {right}")
    return left // right if sign == "/" else left % right


def _convert(value: Any, source: str, to: str) -> Any:
    array = np.asarray(value, dtype=source)
    if array.dtype.kind == "c" and not to.startswith(("complex", "bool")):
        array = array.real
    return array.astype(to)[()]


def _check_private_scalars(loop: p.For) -> None:
    """What the threads of a loop assign, each must have declared for itself."""
    nodes = [node for stmt in (*loop.private, loop.body, *loop.cleanup) for node in walk(stmt)]
    own = {n.name.name for n in nodes if isinstance(n, p.Declare)}
    assigned = {n.name.name for n in nodes if isinstance(n, p.Set)}
    assigned |= {n.capacity.name for n in nodes if isinstance(n, p.Grow)}
    for name in sorted(assigned - own):
        raise InternalError(f"{name} is assigned by all threads of the loop over {loop.var.name}")
