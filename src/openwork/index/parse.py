"""Text to index notation: `y(i) = A(i,j) * x(j)`.

    assignment  access sign expression      sign: = += *= |= &= ^= min= max= or an operator's name
    expression  unary { infix unary }       == != < <= > >= | ^ & << >> + - * / // %, loosest
                                            first, as in Python
    unary       "-" unary | "~" unary | atom [ "**" unary ]
    atom        number | access | variable | "(" expression ")" | word "(" arguments ")"
    access      tensor | tensor "(" coordinates ")" | tensor "[" coordinates "]"
    coordinate  variable | window | expression     linear in one variable, or a tensor of integers
    window      variable "(" number "," number [ "," number ] ")"

The parser collects faults. After one in a name or a number of variables it goes on; after a syntax
fault it goes on behind the enclosing bracket.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn, TypeVar

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op
from openwork.algebra.types import Number
from openwork.errors import Fault, ParseError, Span, UserError
from openwork.frozen import frozen
from openwork.index import select
from openwork.index.calls import NAMED_FIRST, call, did_you_mean
from openwork.index.checks import MAX_DEPTH, wrong_order
from openwork.index.nodes import (
    Access,
    Affine,
    Assignment,
    Expr,
    IndexVar,
    Literal,
    TensorVar,
    apply,
)
from openwork.index.show import COMPARISON, LEVELS
from openwork.index.words import (
    ASSIGNMENT_SIGNS,
    CONSTANTS,
    FUNCTIONS,
    PREFIX,
    RESERVED,
    SEMIRING_OPERATORS,
)

T = TypeVar("T")
_INFIX: dict[str, Op] = {
    op.symbol: op for op in ops.BUILTIN.values() if op.symbol is not None and op.arity == 2
}
MAX_NESTING = 64  # brackets and signs within each other
_CLOSER = {"(": ")", "[": "]"}
_INTEGERS = range(-(2**63), 2**64)
_INDEXING = "results are indexed by variables alone"
_TOO_LARGE = "no element type holds this number"


_TOKEN = re.compile(
    r"(?P<space>\s+)"
    r"|(?P<number>(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?j?)"
    r"|(?P<name>[^\W\d]\w*(?:\.[^\W\d]\w*)*)"
    r"|(?P<sign>\*\*|//|<<|>>|<=|>=|==|!=|[-+*/%()\[\],<>=&|^~])"
)


@frozen
class Token:
    """A word, a number, a sign, or the end of the text."""

    kind: str  # "number", "name", "sign" or "end"
    text: str
    start: int
    stop: int

    def __str__(self) -> str:
        return "the end of the text" if self.kind == "end" else f"`{self.text}`"


class Faults:
    """The faults found so far in one text, each with its code."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.found: list[tuple[str, Fault]] = []

    def add(self, code: str, message: str, start: int, stop: int, hint: str | None = None) -> None:
        """Record a fault in `text[start:stop]`."""
        self.found.append((code, Fault(message, Span(self.text, start, stop), hint)))

    def error(self) -> ParseError:
        """One error for all faults, in the order of the text; its code is the first one's."""
        ordered = sorted(self.found, key=lambda each: each[1].span.start if each[1].span else 0)
        (code, first), *rest = ordered
        error = ParseError(
            first.message,
            code=code,
            span=first.span,
            hint=first.hint,
            more=tuple(fault for _, fault in rest),
        )
        error.args = ("\n".join(f"{code}: {fault}" for code, fault in ordered),)
        return error


def tokens(text: str, faults: Faults) -> list[Token]:
    """The tokens of `text`, the end included; characters that belong to none are faults.

    >>> [token.text for token in tokens("y(i) += 2.5 * x(i)", Faults(""))]
    ['y', '(', 'i', ')', '+', '=', '2.5', '*', 'x', '(', 'i', ')', '']
    """
    found: list[Token] = []
    at = 0
    bad: int | None = None  # where a run of characters that belong to no token begins
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            bad = at if bad is None else bad
            at += 1
            continue
        if bad is not None:
            _strange(bad, at, faults)
            bad = None
        if match.lastgroup is not None and match.lastgroup != "space":
            found.append(Token(match.lastgroup, match.group(), at, match.end()))
        at = match.end()
    if bad is not None:
        _strange(bad, len(text), faults)
    return [*found, Token("end", "", len(text), len(text))]


def _strange(start: int, stop: int, faults: Faults) -> None:
    found = faults.text[start:stop]
    faults.add("E101", f"`{found}` is not index notation", start, stop, _OTHERWISE.get(found))


# What stands elsewhere for what index notation writes otherwise.
_OTHERWISE = {
    "@": "a product of matrices is A(i,k) * B(k,j)",
    ":": "a variable runs over a whole mode: A(i,j)",
    "'": "a transpose has its variables the other way: A(j,i)",
    "!": "`~` negates a condition",
    "?": "select(condition, yes, no) chooses",
}


def parse_assignment(
    text: str,
    tensors: Mapping[str, TensorVar],
    operators: Mapping[str, Op] | None = None,
) -> Assignment:
    """Read an assignment.

    Args:
        text: such as `"y(i) = A(i,j) * x(j)"`; `A[i,j]` is read as well.
        tensors: what each name in the text stands for. All other names are index variables.
        operators: user-defined operators by the name the text calls them.

    Raises:
        ParseError: with every fault that was found, and carets beneath each.

    >>> from openwork.algebra.types import FLOAT64
    >>> from openwork.format.formats import CSR, dense
    >>> A = TensorVar("A", CSR, FLOAT64, shape=(3, 4))
    >>> x, y = (TensorVar(n, dense(1), FLOAT64, shape=(None,)) for n in "xy")
    >>> print(parse_assignment("y(i) = A(i,j) * x(j)", {"A": A, "x": x, "y": y}))
    y[i] = mul(A[i, j], x[j])
    >>> parse_assignment("y(i) = A(i) * z(j)", {"A": A, "x": x, "y": y})
    Traceback (most recent call last):
    ...
    openwork.errors.ParseError: E104: A has 2 modes, but 1 index variable is given
      y(i) = A(i) * z(j)
             ^^^^
      hint: write A(i,j)
    E103: no tensor or function is called z
      y(i) = A(i) * z(j)
                    ^
      hint: the tensors are A, x, y
    """
    parser = _Parser(text, tensors, operators or {})
    try:
        assignment = parser.assignment()
    except RecursionError:
        parser.faults.add("E102", "the text is nested too deeply", 0, len(text))
        assignment = None
    if assignment is None or parser.faults.found:
        raise parser.faults.error()
    return assignment


@frozen
class _Piece:
    """An expression with its place in the text."""

    expr: Expr
    start: int
    stop: int
    depth: int = 1
    is_number: bool = False  # written as a number, so that a minus before it belongs to it


def _nothing(start: int, stop: int) -> _Piece:
    """A placeholder for a faulty expression, so that parsing can go on."""
    return _Piece(Literal(0), start, stop)


class SyntaxFault(Exception):
    """Parsing cannot go on here; the fault is recorded."""


class TooDeep(Exception):
    """Parsing cannot go on at all; the fault is recorded."""


class _Parser:
    """A recursive-descent parser: a place in the tokens, and a method per rule of the grammar."""

    def __init__(
        self, text: str, tensors: Mapping[str, TensorVar], operators: Mapping[str, Op]
    ) -> None:
        self.text = text
        self.faults = Faults(text)
        self.tokens = tokens(text, self.faults)
        self.at = 0
        self.nesting = 0
        self.tensors = tensors
        self.operators = {**FUNCTIONS, **SEMIRING_OPERATORS, **operators}

    # Moving on.

    @property
    def token(self) -> Token:
        """The next token."""
        return self.tokens[self.at]

    def next(self) -> Token:
        """Read one token; the end stays where it is."""
        token = self.token
        self.at += token.kind != "end"
        return token

    def sees(self, *signs: str) -> bool:
        """Whether one of `signs` comes next."""
        return self.token.kind == "sign" and self.token.text in signs

    def accepts(self, *signs: str) -> bool:
        """Read one of `signs` if it comes next."""
        seen = self.sees(*signs)
        self.at += seen
        return seen

    def unexpected(self, wanted: str, hint: str | None = None) -> NoReturn:
        """Record that something else was found in place of `wanted`."""
        token = self.token
        self.faults.add("E102", f"expected {wanted}, found {token}", token.start, token.stop, hint)
        raise SyntaxFault

    def too_deep(self, start: int, stop: int, most: int) -> NoReturn:
        """Record that the text is nested more than `most` deep."""
        hint = "compute part of it in a separate statement"
        self.faults.add("E102", f"this is nested more than {most} deep", start, stop, hint)
        raise TooDeep

    def skip_to(self, *signs: str) -> None:
        """Move to the next of `signs` that is in no bracket opened from here on, or to the end."""
        depth = 0
        while self.token.kind != "end" and not (depth == 0 and self.sees(*signs)):
            depth += self.sees("(", "[")
            depth -= self.sees(")", "]") and depth > 0
            self.at += 1

    def list_of(
        self, opener: Token, item: Callable[[], T], hint: str | None = None
    ) -> tuple[list[T] | None, int]:
        """Items between commas up to the bracket that closes `opener`, and where that ends.

        None instead of the items when one of them was at fault.
        """
        closer = _CLOSER[opener.text]
        items: list[T] = []
        sound, nesting = True, self.nesting
        more = not self.sees(closer)
        while more:
            try:
                items.append(item())
                if not self.sees(",", closer):
                    self.unexpected(
                        f"`,` or `{closer}`", hint if self.token.kind != "end" else None
                    )
            except SyntaxFault:
                sound, self.nesting = False, nesting
                self.skip_to(",", closer)
                if self.token.kind == "end":
                    raise
            more = self.accepts(",")
        return items if sound else None, self.next().stop

    # Statements.

    def assignment(self) -> Assignment | None:
        """The whole text; None when a fault leaves nothing to return."""
        try:
            lhs, op = self.left_side()
            rhs = self.expression()
            if self.token.kind != "end":
                self.unexpected("an operator or the end", self.between())
        except (SyntaxFault, TooDeep):
            return None
        if not isinstance(lhs, Access):
            return None
        return Assignment(lhs, rhs.expr, op, span=Span(self.text, 0, len(self.text)))

    def between(self) -> str | None:
        """What to write where there is no operator between two expressions."""
        token = self.token
        if token.text in ("and", "or"):
            return f"conditions are joined with {'&' if token.text == 'and' else '|'}"
        if token.text == "if":
            return "select(condition, yes, no) chooses"
        return "a product is written with *" if token.kind == "name" or self.sees("(") else None

    def left_side(self) -> tuple[Expr | None, Op | None]:
        """The result's access and the assignment sign, up to and with `=`."""
        try:
            if self.token.kind != "name":
                self.unexpected("the result", hint="for example y(i) = A(i,j) * x(j)")
            return self.result(self.next()), self.assignment_sign()
        except SyntaxFault:
            self.skip_to("=")
            if not self.accepts("="):
                raise
            return None, None

    def result(self, name: Token) -> Expr | None:
        if name.text in self.tensors:
            return self.access(name, self.variable, _INDEXING).expr
        self.unknown(name, "no tensor is called", self.tensors)
        if self.sees("(", "["):
            self.list_of(self.next(), self.variable, _INDEXING)
        return None

    def assignment_sign(self) -> Op | None:
        if self.accepts("="):
            return None
        sign = self.token
        followed = self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        if followed.kind != "sign" or followed.text != "=" or self.sees("=="):
            hint = "the assignment signs are = += *= |= &= ^= min= max="
            if "->" in self.text:
                hint = f'ow.einsum("{self.text}", ...) takes this text'
            elif "=" not in self.text:
                hint = "a statement assigns: y(i) = A(i,j) * x(j)"
            self.unexpected("`=`", hint)
        self.at += 2
        if sign.kind == "name":
            return self.operator(sign)
        if sign.text not in ASSIGNMENT_SIGNS:
            negated = "write += and negate the right side" if sign.text == "-" else None
            self.faults.add(
                "E102", f"`{sign.text}=` does not assign", sign.start, followed.stop, negated
            )
        return ASSIGNMENT_SIGNS.get(sign.text)

    # Expressions.

    def expression(self, level: int = COMPARISON) -> _Piece:
        left = self.unary()
        while self.token.kind == "sign" and LEVELS.get(self.token.text, 0) >= level:
            sign = self.next()
            mine = LEVELS[sign.text]
            right = self.expression(mine + 1)
            left = self.apply(_INFIX[sign.text], [left, right], left.start, right.stop)
            if mine == COMPARISON and LEVELS.get(self.token.text) == COMPARISON:
                self.unexpected("the end of the comparison", hint="join two comparisons with &")
        return left

    def unary(self) -> _Piece:
        self.nesting += 1
        if self.nesting > MAX_NESTING:
            self.too_deep(self.token.start, self.token.stop, MAX_NESTING)
        if self.sees("-"):
            sign = self.next()
            piece = self.negated(self.unary(), sign.start)
        elif self.sees("~"):
            sign, inner = self.next(), self.unary()
            piece = self.apply(ops.INVERT, [inner], sign.start, inner.stop)
        else:
            piece = self.atom()
            if self.accepts("**"):
                right = self.unary()
                piece = self.apply(ops.POW, [piece, right], piece.start, right.stop)
        self.nesting -= 1
        return piece

    def negated(self, piece: _Piece, start: int) -> _Piece:
        if not (piece.is_number and isinstance(piece.expr, Literal)):
            return self.apply(ops.NEG, [piece], start, piece.stop)
        value = -piece.expr.value
        if isinstance(value, int) and value not in _INTEGERS:
            self.faults.add("E101", _TOO_LARGE, start, piece.stop)
        return _Piece(Literal(value), start, piece.stop)

    def atom(self) -> _Piece:
        token = self.token
        if token.kind == "number":
            self.next()
            return _Piece(Literal(self.number(token)), token.start, token.stop, is_number=True)
        if token.kind == "name":
            return self.named(self.next())
        if not self.accepts("("):
            self.unexpected("a tensor, a variable, a number or `(`")
        inner, stop = self.list_of(token, self.expression)
        if inner is not None and len(inner) == 1:
            return replace(inner[0], start=token.start, stop=stop, is_number=False)
        if inner is not None:
            self.faults.add("E102", "expected one expression in the brackets", token.start, stop)
        return _nothing(token.start, stop)

    def number(self, token: Token) -> Number:
        text = token.text
        if text.endswith("j"):
            return complex(0.0, float(text[:-1]))
        if not text.isdecimal():
            return float(text)
        text = text.lstrip("0") or "0"
        if len(text) > 20 or int(text) not in _INTEGERS:
            self.faults.add("E101", _TOO_LARGE, token.start, token.stop)
            return 0
        return int(text)

    # Names.

    def named(self, name: Token) -> _Piece:
        """A tensor, a word, or else an index variable."""
        text = name.text.removeprefix(PREFIX)
        if name.text in self.tensors:
            return self.access(name)
        if self.sees("("):
            return self.call(name)
        if text in CONSTANTS:
            plain = not isinstance(CONSTANTS[text], bool)
            return _Piece(Literal(CONSTANTS[text]), name.start, name.stop, is_number=plain)
        if not self.sees("[") and "." not in name.text:
            return _Piece(IndexVar(name.text), name.start, name.stop)
        self.unknown(name, "no tensor is called", self.tensors)
        stop = self.list_of(self.next(), self.expression)[1] if self.sees("[") else name.stop
        return _nothing(name.start, stop)

    def access(
        self,
        name: Token,
        item: Callable[[], Expr | Affine] | None = None,
        hint: str = select.HINT,
    ) -> _Piece:
        """An element of a tensor; `item` reads a coordinate."""
        tensor = self.tensors[name.text]
        given: list[Expr | Affine] | None = []
        stop = name.stop
        if self.sees("(", "["):
            given, stop = self.list_of(self.next(), item or self.coordinate, hint)
        if given is None:
            return _nothing(name.start, stop)
        if len(given) != tensor.ndim:
            named = ",".join("ijklmnop"[: tensor.ndim])
            hint = f"write {name.text}({named})" if named else f"write {name.text}"
            self.faults.add("E104", wrong_order(tensor, len(given)), name.start, stop, hint)
            return _nothing(name.start, stop)
        if tensor.name != name.text:  # the text has its own name for the tensor
            tensor = replace(tensor, name=name.text)
        span = Span(self.text, name.start, stop)
        return self.checked(lambda: select.element(tensor, given, span), span, 1)

    def coordinate(self) -> Expr | Affine:
        """A coordinate of an element that is read."""
        token, after = self.token, self.tokens[min(self.at + 1, len(self.tokens) - 1)]
        if token.kind == "name" and "." not in token.text and after.kind == "sign":
            if after.text in (",", ")", "]"):
                return IndexVar(self.next().text)
            known = token.text in self.tensors or token.text in self.operators
            if after.text == "(" and not known and token.text not in RESERVED:
                var = IndexVar(self.next().text)
                bounds, stop = self.list_of(self.next(), self.expression)
                span = Span(self.text, token.start, stop)
                exprs = [bound.expr for bound in bounds or ()]
                return self.made(lambda: select.window(var, exprs, span), span) or var
        return self.expression().expr

    def made(self, make: Callable[[], T], span: Span) -> T | None:
        """What `make` returns; None where it raises, which is recorded."""
        try:
            return make()
        except UserError as error:
            self.faults.add(error.code, error.message, span.start, span.stop, error.hint)
            return None

    def variable(self) -> IndexVar:
        if self.token.kind != "name" or "." in self.token.text:
            self.unexpected("an index variable", hint=_INDEXING)
        return IndexVar(self.next().text)

    def operator(self, name: Token) -> Op | None:
        """The operator that a word names where no arguments follow it."""
        op = self.operators.get(name.text.removeprefix(PREFIX))
        if op is None:
            self.unknown(name, "no operator is called", self.operators)
        return op

    def unknown(self, name: Token, message: str, known: Iterable[str]) -> None:
        """Record a name that is not `known`, with the nearest one that is."""
        hint = did_you_mean(name.text, known)
        if hint is None:
            hint = f"the tensors are {', '.join(sorted(self.tensors))}" if self.tensors else None
        self.faults.add("E103", f"{message} {name.text}", name.start, name.stop, hint)

    # Words with arguments.

    def call(self, name: Token) -> _Piece:
        """A function, a reduction, a conversion, or one of the special forms."""
        text = name.text.removeprefix(PREFIX)
        known = text in self.operators or text in RESERVED
        if not known:
            names = (*self.tensors, *self.operators, *RESERVED)
            self.unknown(name, "no tensor or function is called", names)
        opener = self.next()
        first = self.word(NAMED_FIRST[text]) if known and text in NAMED_FIRST else None
        args, stop = self.list_of(opener, self.expression)
        if not known or args is None:
            return _nothing(name.start, stop)
        span = Span(self.text, name.start, stop)
        depth = 1 + max((arg.depth for arg in args), default=0)
        return self.checked(
            lambda: call(text, first, [arg.expr for arg in args], self.operators, span), span, depth
        )

    def word(self, what: str) -> str:
        """The name that comes first in a form's arguments, with the comma behind it."""
        if self.token.kind != "name":
            self.unexpected(what)
        text = self.next().text
        if not self.accepts(",") and not self.sees(")"):
            self.unexpected("`,`")
        return text

    # Nodes.

    def apply(self, op: Op, args: Sequence[_Piece], start: int, stop: int) -> _Piece:
        span = Span(self.text, start, stop)
        depth = 1 + max(arg.depth for arg in args)
        return self.checked(lambda: apply(op, *(arg.expr for arg in args), span=span), span, depth)

    def checked(self, make: Callable[[], Expr], span: Span, depth: int) -> _Piece:
        """A new node, unless it would be too deep or its arguments do not fit."""
        if depth > MAX_DEPTH:
            self.too_deep(span.start, span.stop, MAX_DEPTH)

        def typed() -> Expr:
            expr = make()
            _ = expr.kind
            return expr

        expr = self.made(typed, span)
        if expr is None:
            return _nothing(span.start, span.stop)
        return _Piece(expr, span.start, span.stop, depth)
