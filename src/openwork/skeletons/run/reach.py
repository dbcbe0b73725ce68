"""How large index arithmetic gets in a call: whether 32 bits hold it.

Arrays of fewer than 2**31 elements do not suffice: where row i of a triangle begins is
`(i*i + i) / 2`, and the product may be larger than any array.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from openwork.algebra.operators import SELECT
from openwork.program import nodes as p
from openwork.tree import Node, children

_MANY = 2**62  # larger than anything that is asked for


def reach(program: p.Program, sizes: Mapping[str, int], held: Callable[[str], int]) -> int:
    """No int64 number that a program computes is larger than this.

    Args:
        program: loops over indices; other 64-bit arithmetic is none of its business.
        sizes: the values of its sizes.
        held: the largest magnitude in an array of integers.
    """
    work = _Reach(sizes, held)
    work.visit(program.body)
    return work.most


class _Reach:
    def __init__(self, sizes: Mapping[str, int], held: Callable[[str], int]) -> None:
        self.known, self.held, self.most = dict(sizes), held, 0

    def visit(self, node: Node) -> None:
        """A statement, and those in it."""
        match node:
            case p.For(var=var, begin=begin, end=end, step=step):
                bounds = self.of(begin) + self.of(end)
                self.known[var.name] = bounds + (0 if step is None else self.of(step))
                self.most = max(self.most, self.known[var.name])
                self.visit(node.body)
            case p.Declare(name=name, value=value):
                self.known[name.name] = self.of(value)
            case p.Set(name=name, value=value):
                self.of(value)
                if name.type == p.INDEX:  # a sum of lengths, of as many as there are
                    self.most = _MANY
            case p.Expr():
                self.of(node)
            case _:
                for child in children(node):
                    self.visit(child)

    def of(self, e: p.Expr) -> int:
        """The largest magnitude of an expression."""
        found = min(self._of(e), _MANY)
        if e.type == p.INDEX:
            self.most = max(self.most, found)
        return found

    def _of(self, e: p.Expr) -> int:
        match e:
            case p.Value(value=int(value)):
                return abs(value)
            case p.Name(name=name):
                return self.known.get(name, _MANY)
            case p.Load(array=array, index=index):
                self.of(index)
                return self.held(array.name) if array.type in ("int32", "int64") else _MANY
            case p.Binary(sign="/", left=left, right=p.Value(value=int(by))) if by > 0:
                return self.of(left) // by
            case p.Binary(sign=sign, left=left, right=right):
                return _combined(sign, self.of(left), self.of(right))
            case p.Convert(expr=expr):
                return self.of(expr)
            case p.Apply(op=op, args=(test, one, other)) if op == SELECT:
                self.of(test)
                return max(self.of(one), self.of(other))
        for child in children(e):
            self.visit(child)
        return _MANY


def _combined(sign: str, one: int, other: int) -> int:
    match sign:
        case "+" | "-":
            return one + other
        case "*":
            return one * other
        case "/":
            return one
        case "%":
            return min(one, other)
        case "min" | "max":
            return max(one, other)
    return 1  # comparisons
