"""Index notation as text, which `parse_assignment` reads back to the same nodes."""

from __future__ import annotations

import math

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op
from openwork.algebra.types import Number
from openwork.errors import InternalError
from openwork.frozen import frozen
from openwork.index.nodes import (
    Absent,
    Access,
    Apply,
    Assignment,
    Cast,
    Expr,
    IndexVar,
    Literal,
    Parameter,
    Reduce,
    Selected,
    TensorVar,
)
from openwork.index.words import ASSIGNMENT_SIGNS, CONSTANTS, PREFIX, REDUCTION_WORD, infix, word
from openwork.tree import Node, walk

# How tightly a sign binds, as in Python.
COMPARISON, UNARY, POWER, ATOM = 1, 8, 9, 10
LEVELS: dict[str, int] = {
    **dict.fromkeys(("==", "!=", "<", "<=", ">", ">="), COMPARISON),
    **{"|": 2, "^": 3, "&": 4, "<<": 5, ">>": 5, "+": 6, "-": 6},
    **{"*": 7, "/": 7, "//": 7, "%": 7, "**": POWER},
}


def show(node: Node) -> str:
    """The text of an expression or an assignment.

    >>> from openwork.algebra.types import FLOAT64
    >>> from openwork.format.formats import CSR
    >>> i, j = IndexVar("i"), IndexVar("j")
    >>> A = Access(TensorVar("A", CSR, FLOAT64, shape=(2, 3)), (i, j))
    >>> show(Apply(ops.MUL, (Apply(ops.ADD, (A, Literal(1))), Reduce(ops.ADD, i, A))))
    '(A(i,j) + 1) * sum(i, A(i,j))'
    """
    tensors = frozenset(n.tensor.name for n in walk(node) if isinstance(n, (Access, Selected)))
    printer = _Printer(tensors)
    match node:
        case Assignment(lhs=lhs, op=op, rhs=rhs):
            return f"{printer.access(lhs)} {printer.sign(op)} {printer.expr(rhs)}"
        case TensorVar(name=name):
            return name
        case Expr():
            return printer.expr(node)
    raise InternalError(f"no text for {type(node).__name__}")


@frozen
class _Printer:
    """Prints one statement; `tensors` are the names that its tensors have taken."""

    tensors: frozenset[str]

    def expr(self, expr: Expr, level: int = 0) -> str:
        """The text of `expr`, in parentheses if it binds less tightly than `level`."""
        match expr:
            case Access():
                return self.access(expr)
            case Selected():
                return self.selected(expr)
            case IndexVar(name=name):
                taken = name in self.tensors or name in CONSTANTS
                return f"{self.word('index')}({name})" if taken else name
            case Literal(typed=None, value=value):
                return _enclosed(self.number(value), level)
            case Literal(typed=typed, value=value):
                return f"{self.word(str(typed))}({self.number(value)})"
            case Cast(to=to, expr=Literal(typed=None) as inner):
                return f"{self.word('cast')}({to}, {self.expr(inner)})"
            case Cast(to=to, expr=inner):
                return f"{self.word(str(to))}({self.expr(inner)})"
            case Apply():
                return self.apply(expr, level)
            case Reduce(op=op, var=var, expr=inner):
                return f"{self.reduction(op)}{self.expr(var)}, {self.expr(inner)})"
            case Absent(value=value):
                return f"absent({self.number(value)})"
            case Parameter(position=position):
                return f"${position}"
        raise InternalError(f"no text for {type(expr).__name__}")

    def access(self, access: Access) -> str:
        """`A(i,j)`, or `s` for a scalar."""
        name = access.tensor.name
        return f"{name}({','.join(v.name for v in access.vars)})" if access.vars else name

    def selected(self, node: Selected) -> str:
        """`x(i+1)`, or `border(x(i+1), 0)`."""
        inside = ",".join(
            self.access(c) if isinstance(c, Access) else str(c) for c in node.coordinates
        )
        text = f"{node.tensor.name}({inside})"
        if node.border is None:
            return text
        return f"{self.word('border')}({text}, {self.number(node.border)})"

    def apply(self, node: Apply, level: int) -> str:
        """An operator with its arguments: infix where it has a sign, a function otherwise."""
        sign = infix(node.op)
        if sign is None:
            first = node.args[0] if node.args else None
            name = word(node.op)
            if node.op in (ops.MIN, ops.MAX) and isinstance(first, IndexVar):
                name += "imum"  # min(i, e) would be the least e over all i
            return f"{self.word(name)}({', '.join(map(self.expr, node.args))})"
        if len(node.args) == 1:
            # A number right behind a minus would be read as a negative number.
            number = sign == "-" and isinstance(node.args[0], Literal)
            inner = ATOM + 1 if number else UNARY + 1
            text = sign + self.expr(node.args[0], inner)
            return f"({text})" if level > UNARY else text
        mine = LEVELS[sign]
        left, right = (mine + 1, mine) if sign == "**" else (mine, mine + 1)
        if mine == COMPARISON:
            left = right = mine + 1
        before, after = self.expr(node.args[0], left), self.expr(node.args[1], right)
        if after.startswith("-"):
            after = f"({after})"
        text = f"{before} {sign} {after}"
        return f"({text})" if level > mine else text

    def reduction(self, op: Op) -> str:
        """The beginning of a reduction, up to its variable."""
        if op in REDUCTION_WORD:
            return f"{self.word(REDUCTION_WORD[op])}("
        return f"{self.word('reduce')}({word(op)}, "

    def sign(self, op: Op | None) -> str:
        """The assignment sign."""
        if op is None:
            return "="
        known = op.symbol is not None and ASSIGNMENT_SIGNS.get(op.symbol) == op
        return f"{op.symbol if known else word(op)}="

    def word(self, name: str) -> str:
        """`name`, told apart from a tensor of the same name."""
        return PREFIX + name if name in self.tensors else name

    def number(self, value: Number) -> str:
        """A number, so that reading it gives the same value with the same sign of zero."""
        if not isinstance(value, complex):
            text = repr(value)
            bare = text.lstrip("-")
            if bare in self.tensors:  # a tensor named inf or nan
                return text[: len(text) - len(bare)] + PREFIX + bare
            return text
        real, imag = value.real, value.imag
        negative = math.copysign(1.0, imag) < 0
        if real == 0 and math.isfinite(imag) and (math.copysign(1.0, real) < 0) == negative:
            return f"{imag!r}j"
        return f"{self.word('complex')}({self.number(real)}, {self.number(imag)})"


def _enclosed(number: str, level: int) -> str:
    negative = number.startswith("-")
    return f"({number})" if level > ATOM or (negative and level > UNARY) else number
