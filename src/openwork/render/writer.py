"""What C and CUDA have in common: expressions, updates, calls of helpers, in a given dialect."""

from __future__ import annotations

import re
from dataclasses import dataclass

from openwork.algebra.operators import Op
from openwork.algebra.types import is_complex, is_float
from openwork.errors import InternalError
from openwork.program import nodes as p
from openwork.program.elements import applied
from openwork.render.dialect import Dialect
from openwork.render.helpers import Library
from openwork.render.precedence import (
    AND,
    ATOM,
    CHOICE,
    EQUAL,
    LESS,
    OR,
    PLUS,
    TIMES,
    Spelled,
    paren,
)
from openwork.render.spelling import constant, convert, operator

_SIGNS = {
    "+": PLUS, "-": PLUS, "*": TIMES, "/": TIMES, "%": TIMES,
    "<": LESS, "<=": LESS, "==": EQUAL, "!=": EQUAL, "&&": AND, "||": OR,
}  # fmt: skip

_TURNED = {"<": ">", "<=": ">="}

Helpers = dict[tuple[str, str], str]


@dataclass
class Writer:
    """Spells what C and CUDA have in common; subclasses add what only one of them has.

    `helpers` collects the texts of the functions that are called.
    """

    dialect: Dialect
    library: Library
    helpers: Helpers

    # -- expressions ----------------------------------------------------------------------------

    def expr(self, e: p.Expr | p.Array) -> Spelled:
        """An expression, and how tightly it binds."""
        match e:
            case p.Name(name=name) | p.Array(name=name):
                return name, ATOM
            case p.Value():
                return constant(e.value, e.type, self.dialect)
            case p.Load(array=array, index=index):
                return f"{array.name}[{self.text(index)}]", ATOM
            case p.Binary():
                return self._binary(e)
            case p.Apply(op=op, args=args):
                spelled, types = [self.expr(arg) for arg in args], [arg.type for arg in args]
                return operator(op, spelled, types, e.type, self.dialect, self.use)
            case p.Convert(expr=inner):
                return convert(self.expr(inner), inner.type, e.type, self.dialect, self.use)
            case p.Helper():
                return self.call(e), ATOM
        raise InternalError(f"{self.dialect.name} has no spelling for {type(e).__name__}")

    def text(self, e: p.Expr | p.Array) -> str:
        """An expression on its own."""
        return self.expr(e)[0]

    def _binary(self, e: p.Binary) -> Spelled:
        if e.sign in ("min", "max"):
            return self._lesser(e)
        sign, left, right = e.sign, e.left, e.right
        if sign in _TURNED and isinstance(left, p.Value) and not isinstance(right, p.Value):
            sign, left, right = _TURNED[sign], right, left  # a constant comes second
        level = _SIGNS[e.sign]
        one, other = self.expr(left), self.expr(right)
        return f"{paren(one, level)} {sign} {paren(other, level + 1)}", level

    def _lesser(self, e: p.Binary) -> Spelled:
        """The lesser or the greater: a choice between names, a call where one is computed."""
        left, right = self.expr(e.left), self.expr(e.right)
        if all(isinstance(side, (p.Name, p.Value)) for side in (e.left, e.right)):
            sign = "<" if e.sign == "min" else ">"
            return f"{left[0]} {sign} {right[0]} ? {left[0]} : {right[0]}", CHOICE
        return (
            f"{self.use('lesser' if e.sign == 'min' else 'greater', '')}({left[0]}, {right[0]})",
            ATOM,
        )

    # -- helpers --------------------------------------------------------------------------------

    def call(self, call: p.Helper) -> str:
        """A call of a helper."""
        place = call.facts.typed_by
        typed = call.args[place].type if place is not None else ""
        args = [self.text(arg) for arg in call.args]
        if call.facts.grows:
            args[:2] = [f"&{arg}" for arg in args[:2]]
        return f"{self.use(call.name, typed)}({', '.join(args)})"

    def use(self, name: str, type: str) -> str:
        """Emit a helper, and return the name to call it by."""
        if name in self.library.needs:
            self.use(self.library.needs[name], type)
        if (name, type) not in self.helpers:
            self.helpers[name, type] = self.library.text(name, type)
        return f"{name}_{type}" if type else name

    # -- statements -----------------------------------------------------------------------------

    def simple(self, s: p.Stmt) -> list[str]:
        """A statement that is one line in either language."""
        match s:
            case p.Declare(name=name, value=value, fixed=fixed):
                const = "const " if fixed else ""
                line = f"{const}{self.dialect.scalar(name.type)} {name.name} = {self.text(value)};"
                return [line]
            case p.Set(name=name, value=value, op=op):
                return [f"{self.update(name, value, op)};"]
            case p.Break():
                return ["break;"]
            case p.Do(call=call):
                return [f"{self.call(call)};"]
            case p.Comment(text=text):
                return remark(text)
        raise InternalError(f"{self.dialect.name} has no spelling for {type(s).__name__}")

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
    """Whether `text` names the type `type`_t; a plain search first saves time."""
    return f"{type}_t" in text and re.search(rf"\b{type}_t\b", text) is not None
