"""The state of the interpreter, and its evaluation of expressions.

Nodes are compiled once into functions without arguments, which are then called.
"""

from __future__ import annotations

import operator
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from openwork.algebra.operators import Op
from openwork.algebra.types import is_complex, is_signed, number
from openwork.errors import InternalError
from openwork.program import nodes as p
from openwork.program.contract import ROOM, THREADS
from openwork.program.elements import applied
from openwork.program.interpret.memory import HELPERS, Array, Memory
from openwork.tree import walk

Value = Callable[[], Any]
Index = Callable[[], int]
Action = Callable[[], object]

_BINARY: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "min": min, "max": max,
    "<": operator.lt, "<=": operator.le, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


class Machine:
    """The state of one run: scalars, memory, and the current part of a parallel loop."""

    def __init__(
        self, program: p.Program, arrays: Sequence[Array | None], sizes: Sequence[int], seed: int
    ) -> None:
        self.program, self.threads = program, sizes[0]
        names = (ROOM.name, *(size.name for size in program.sizes))
        self.scalars: dict[str, Any] = dict(zip(names, sizes[1:], strict=True))
        self.scalars[THREADS.name] = self.threads
        self.memory: dict[str, Memory] = {}
        self.shelves: dict[str, list[Memory | None]] = {}
        self.part: int | None = None
        self.locals = {n.array.name for n in walk(program.body) if isinstance(n, p.Local)}
        self.random = random.Random(seed)  # noqa: S311 - an order, not a secret
        for argument, array in zip(program.arguments, arrays, strict=True):
            name, type = argument.array.name, argument.array.type
            if argument.role == "made":
                continue
            if array is None or array.dtype != np.dtype(type):
                found = "no array" if array is None else f"an array of {array.dtype}"
                raise InternalError(f"{name} has the type {type}, but {found} was given")
            known = np.ones(len(array), dtype=bool)
            self.memory[name] = Memory(name, array, known, argument.role == "operand")

    def array(self, array: p.Array) -> Memory:
        """The memory behind `array`, which must exist by now."""
        if array.name not in self.memory:
            raise InternalError(f"{array.name} is not allocated yet, or freed already")
        return self.memory[array.name]

    def expr(self, e: p.Expr) -> Value:
        """`e` as a function that returns its value."""
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
            case p.Apply(op=op, args=args) if op.selects and e.type == p.INDEX:
                test, yes, no = (self.index(arg) for arg in args)
                return lambda: int64(yes() if test() else no())  # loads only what it selects
            case p.Apply(op=op, args=args):
                return self.apply(op, args, e.type)
            case p.Convert(expr=inner):
                whence = self.expr(inner)
                return lambda: _convert(whence(), inner.type, e.type)
            case p.Helper():
                return self.helper(e)
        raise InternalError(f"{type(e).__name__} is no expression of a program")

    def index(self, e: p.Expr) -> Index:
        """`e` as a function that returns a Python integer."""
        if not is_signed(e.type) and e.type != "bool":
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
        return lambda: int64(compute(left(), right()))

    def apply(self, op: Op, args: tuple[p.Expr, ...], type: str) -> Value:
        """An operator of the algebra on `args`."""
        values = [self.expr(arg) for arg in args]
        types, to = [np.dtype(arg.type) for arg in args], np.dtype(type)

        def run() -> Any:
            given = [np.asarray(v(), dtype=t) for v, t in zip(values, types, strict=True)]
            return np.asarray(op.ufunc(*given)).astype(to)[()]

        return run

    def combiner(self, op: Op, type: str) -> Callable[[Any, Any], Any]:
        """`op` as a function of two elements of `type`."""
        old, given = p.Name("the old", type), p.Name("the given", type)  # not names of a program
        new, make = self.expr(applied(op, old, given)), np.dtype(type).type

        def combine(a: Any, b: Any) -> Any:
            self.scalars[old.name], self.scalars[given.name] = make(a), make(b)
            return new()

        return combine

    def helper(self, call: p.Helper) -> Value:
        """A call of a helper."""
        if call.name not in HELPERS:
            raise InternalError(f"no helper {call.name}")
        helper = HELPERS[call.name]
        args = [self._argument(arg) for arg in call.args]
        if call.facts.grows:  # which changes the mask
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


def int64(value: int) -> int:
    """`value` itself, which must be an int64."""
    if not -(2**63) <= value < 2**63:
        raise InternalError(f"index arithmetic overflows: {value}")
    return value


def _divide(sign: str, left: int, right: int) -> int:
    if left < 0 or right <= 0:
        raise InternalError(f"index arithmetic has no {left} {sign} {right}")
    return left // right if sign == "/" else left % right


def _convert(value: Any, source: str, to: str) -> Any:
    array = np.asarray(value, dtype=source)
    if is_complex(source) and not (is_complex(to) or to == "bool"):
        array = array.real
    return array.astype(to)[()]
