"""What all parts of the C renderer share: expressions, updates, helpers, and the way out."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property

from openwork.algebra.operators import Op
from openwork.algebra.types import is_complex, is_float
from openwork.errors import InternalError
from openwork.program import nodes as p
from openwork.program.elements import applied
from openwork.program.powers import may_be_negative
from openwork.render.c.helpers import helper_text
from openwork.render.c.store_helpers import vector_kind
from openwork.render.spelling import (
    AND,
    ATOM,
    CHOICE,
    CTYPES,
    EQUAL,
    LESS,
    OR,
    PLUS,
    TIMES,
    Spelled,
    constant,
    convert,
    operator,
    paren,
)
from openwork.tree import walk

_SIGNS = {
    "+": PLUS, "-": PLUS, "*": TIMES, "/": TIMES, "%": TIMES,
    "<": LESS, "<=": LESS, "==": EQUAL, "!=": EQUAL, "&&": AND, "||": OR,
}  # fmt: skip

NEGATIVE = "negative"  # the flag of integers to negative powers

Helpers = dict[tuple[str, str], str]


@dataclass
class Writer:
    """Writes one program; `helpers` collects what it calls.

    What fails jumps to the label `exit`: the end of the function, or of a thread's part of a loop.
    `jumps` are the labels that something jumps to.
    """

    program: p.Program
    helpers: Helpers
    exit: str = "done"
    jumps: set[str] = field(default_factory=set)

    @cached_property
    def private_arrays(self) -> frozenset[p.Array]:
        """The arrays that the threads of a loop have throughout, and free when they are done."""
        loops = [n for n in walk(self.program.body) if isinstance(n, p.For)]
        setup = (s for loop in loops for s in loop.private)
        return frozenset(s.array for s in setup if isinstance(s, p.Allocate))

    def stmt(self, s: p.Stmt) -> list[str]:
        """A statement, as lines; the renderer itself knows them all."""
        raise NotImplementedError

    def leave(self) -> str:
        """The jump to where a failure is dealt with, whose status is set by now."""
        self.jumps.add(self.exit)
        return f"goto {self.exit};"

    def expr(self, e: p.Expr | p.Array) -> Spelled:
        """An expression, and how tightly it binds."""
        match e:
            case p.Name(name=name) | p.Array(name=name):
                return name, ATOM
            case p.Value():
                return constant(e.value, e.type)
            case p.Load(array=array, index=index) if array.vectors:
                place = paren(self.expr(index), TIMES)
                lanes = f"LANES_{vector_kind(array.type, array.vectors)}"
                return f"{array.name}[{place} / {lanes}][{place} % {lanes}]", ATOM
            case p.Load(array=array, index=index):
                return f"{array.name}[{self.text(index)}]", ATOM
            case p.Binary():
                return self._binary(e)
            case p.Apply() if may_be_negative(e):
                return self._checked_power(e), ATOM
            case p.Apply(op=op, args=args):
                types = [arg.type for arg in args]
                return operator(op, [self.expr(a) for a in args], types, e.type, self.use)
            case p.Convert(expr=inner):
                return convert(self.expr(inner), inner.type, e.type)
            case p.Helper():
                return self.call(e), ATOM
        raise InternalError(f"C has no spelling for {type(e).__name__}")

    def text(self, e: p.Expr | p.Array) -> str:
        """An expression that stands alone."""
        return self.expr(e)[0]

    def _binary(self, e: p.Binary) -> Spelled:
        left, right = self.expr(e.left), self.expr(e.right)
        if e.sign in ("min", "max"):
            sign = "<" if e.sign == "min" else ">"
            a, b = paren(left, PLUS), paren(right, PLUS)
            return f"{a} {sign} {b} ? {a} : {b}", CHOICE
        level = _SIGNS[e.sign]
        return f"{paren(left, level)} {e.sign} {paren(right, level + 1)}", level

    def _checked_power(self, e: p.Apply) -> str:
        self.use("pow", e.type)
        args = ", ".join(map(self.text, e.args))
        return f"{self.use('checked_pow', e.type)}({args}, &{NEGATIVE})"

    def call(self, call: p.Helper) -> str:
        """A call of a helper."""
        place = call.facts.typed_by
        typed = call.args[place].type if place is not None else ""
        args = [self.text(arg) for arg in call.args]
        if call.facts.grows:
            args[:2] = [f"&{arg}" for arg in args[:2]]
        if call.name == "in_turn":
            args[2:] = [str(len(args) - 2), f"(int64_t *[]){{{', '.join(args[2:])}}}"]
        return f"{self.use(call.name, typed)}({', '.join(args)})"

    def use(self, name: str, type: str) -> str:
        """Have a helper emitted, and the name to call it by."""
        if name in ("resize", "room_for", "zeros"):
            self.use("huge", "")
        if (name, type) not in self.helpers:
            self.helpers[name, type] = helper_text(name, type, CTYPES.get(type, ""))
        return f"{name}_{type}" if type else name

    def update(self, place: p.Expr, value: p.Expr, op: Op | None) -> str:
        """`place = value`, or `place = op(place, value)`."""
        target = self.text(place)
        if op is None:
            match value:
                case p.Binary(sign="+", left=left, right=p.Value(value=1)) if left == place:
                    return f"{target}++"
                case p.Binary(sign="+", left=left, right=right) if left == place:
                    return f"{target} += {self.text(right)}"
            return f"{target} = {self.text(value)}"
        if op.name in ("add", "sub", "mul") and (is_float(place.type) or is_complex(place.type)):
            return f"{target} {op.symbol}= {self.text(value)}"
        return f"{target} = {self.text(applied(op, place, value))}"


def indent(lines: list[str]) -> list[str]:
    """`lines` one level further in; directives and labels stay at the margin."""
    at_margin = ("#", "done:", "leave_")
    return [line if line.startswith(at_margin) else f"  {line}" for line in lines]


def remark(text: str) -> list[str]:
    """`text` as a comment line, if there is any."""
    return [f"// {text}"] if text else []


def names_type(text: str, type: str) -> bool:
    """Whether `text` names the type `type`_t; to look for a plain string first takes no time."""
    return f"{type}_t" in text and re.search(rf"\b{type}_t\b", text) is not None
