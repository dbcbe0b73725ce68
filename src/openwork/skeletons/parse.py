"""The paper's text, in ASCII or in its own symbols: `nFun N. fun lengths: [int]_N. ...`

What programs print is read back to the same program. Both ways to write a head are read,
`fun x: T. body` and `fun(x: T => body)`.
"""

from __future__ import annotations

import re
from itertools import count
from typing import NamedTuple, NoReturn

from openwork.algebra.operators import BUILTIN, Op
from openwork.errors import PatternError, Span
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.check import HOLE
from openwork.skeletons.language.names import tidied, tidied_type
from openwork.skeletons.language.nodes import Expr, Fn, Nat, Scalar, Signature, Type
from openwork.skeletons.program import Program, not_too_deep

_SYMBOLS = {
    "⇒": "=>", "↦": "->", "→": "->", "·": "*", "\u00d7": "*", "≤": "<=", "≥": ">=",
    "Σ": "sum_", "∑": "sum_", "\u2212": "-",
}  # fmt: skip
_TOKEN = re.compile(
    r"\s*(?:(?P<number>\d+\.\d+(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+)|(?P<word>[A-Za-z]\w*'*)"
    r"|(?P<sign>:>>|\]_|=>|->|<=|>=|==|!=|//|<<|>>|\*\*|[-+*/%<>@.,:;?(){}\[\]^_=&|~]))"
)
_PART = re.compile(r"\s*(?P<number>[12])")  # behind a dot: in `p.1.2` there is no fraction
_SCALARS = {"float": "float32", "double": "float64", "int": "int32", "long": "int64"}
_SCALARS |= {name: name for name in ("float32", "float64", "int32", "int64", "bool")}
_BINARY = {op.symbol: op for op in BUILTIN.values() if op.arity == 2 and op.symbol}
_LEVELS = (("==", "!="), ("<", "<=", ">", ">="), ("|", "^", "&"), ("<<", ">>"), ("+", "-"),
           ("*", "/", "//", "%"))  # fmt: skip
_MAPS = ("", "Seq", "Threads", "Vector", "Global", "Workgroup", "Local", "Warp", "Lane")
_FNS = {f"map{how}": how for how in _MAPS}
_FN_WORDS = {*_FNS, "reduce", "reduceSeq", "split", "join", "transpose", "slide", "fun", "nFun"}
_NUMBERS = count(1)


class Token(NamedTuple):
    """A piece of the text, and where it is."""

    kind: str
    text: str
    start: int


def parse(text: str) -> Program:
    """The program that a text means.

    Raises:
        PatternError: E701 if it is no program, E702 to E707 if its types do not agree.

    >>> parse("nFun n. fun x: [float]_n. x :>> reduce(+, 0)").type
    'nFun n. (x: [float32]_n) -> float32'
    """
    if not isinstance(text, str):
        raise PatternError(f"{text!r} is no text", code="E701")
    with not_too_deep():
        return Program(tidied(Reader(_in_ascii(text)).program()))


def type_from(text: str) -> Type:
    """The type that a text means, by itself: names in it are naturals, or arrays behind `@`.

    Raises:
        PatternError: E701 if it is no type.
    """
    with not_too_deep():
        reader = Reader(_in_ascii(text), free=True)
        found = reader.type()
        if reader.here.kind != "end":
            reader.wrong("expected the end of the type")
    return tidied_type(found)


def _in_ascii(text: str) -> str:
    for symbol, ascii in _SYMBOLS.items():
        text = text.replace(symbol, ascii)
    return text


class Reader:
    """Reads a program, and checks nothing but its grammar and its names.

    `free`: names that nothing introduces are naturals.
    """

    def __init__(self, text: str, free: bool = False) -> None:
        self.text, self.at, self.free = text, 0, free
        self.tokens = self._tokens()
        self.nats: list[str] = []
        self.params: list[str] = []
        self.types: list[Type] = []
        self.scope: dict[str, Nat] = {}
        self.locals: dict[str, str] = {}

    def _tokens(self) -> list[Token]:
        found, place = list[Token](), 0
        end = len(self.text.rstrip())
        while place < end:
            after_dot = bool(found) and found[-1].text == "."
            match = (after_dot and _PART.match(self.text, place)) or _TOKEN.match(self.text, place)
            if match is None:
                span = Span(self.text, place, place + 1)
                raise PatternError("a character that no program has", code="E701", span=span)
            kind = match.lastgroup or ""
            found.append(Token(kind, match[kind], match.start(kind)))
            place = match.end()
        return [*found, Token("end", "", end)]

    # -- tokens ---------------------------------------------------------------------------------

    @property
    def here(self) -> Token:
        return self.tokens[self.at]

    def ahead(self, text: str, by: int = 0) -> bool:
        place = self.at + by
        return place < len(self.tokens) and self.tokens[place].text == text

    def take(self, *texts: str) -> bool:
        if self.here.text in texts and self.here.kind != "end":
            self.at += 1
            return True
        return False

    def need(self, *texts: str) -> str:
        found = self.here.text
        if not self.take(*texts):
            self.wrong(f"expected {' or '.join(map(repr, texts))}")
        return found

    def word(self, what: str) -> str:
        found = self.here
        if found.kind != "word":
            self.wrong(f"expected {what}")
        self.at += 1
        return found.text

    def wrong(self, message: str, hint: str | None = None) -> NoReturn:
        token = self.here
        found = f"found {token.text!r}" if token.text else "the text ends here"
        span = Span(self.text, token.start, token.start + max(1, len(token.text)))
        raise PatternError(f"{message}, {found}", code="E701", span=span, hint=hint)

    # -- programs -------------------------------------------------------------------------------

    def program(self) -> Signature:
        body = self.head()
        if self.here.kind != "end":
            self.wrong("expected the end of the program")
        return Signature(tuple(self.nats), tuple(self.params), tuple(self.types), body)

    def head(self) -> Expr:
        """`nFun N.` and `fun x: T.`, or their forms in parentheses, and then the body."""
        if self.here.text in ("nFun", "nfun"):
            self.at += 1
            closes = self.take("(")
            name = self.word("a natural")
            self.nats.append(name)
            self.scope[name] = n.named(name)
            return self.rest(closes)
        if self.here.text == "fun" and self._is_head():
            self.at += 1
            closes = self.take("(")
            name = self.word("a parameter")
            self.need(":")
            self.types.append(self.type())
            self.params.append(name)
            self.locals[name] = name
            return self.rest(closes)
        return self.pipe()

    def _is_head(self) -> bool:
        place = 2 if self.ahead("(", 1) else 1
        return self.ahead(":", place + 1)

    def rest(self, closes: bool) -> Expr:
        self.need("=>", ".")
        body = self.head()
        if closes:
            self.need(")")
        return body

    # -- types and naturals ---------------------------------------------------------------------

    def type(self) -> Type:
        if self.take("("):
            first = self.type()
            self.need(",")
            second = self.type()
            self.need(")")
            return n.PairType(first, second)
        if self.take("["):
            return self.array()
        name = self.word("a type")
        if name not in _SCALARS:
            self.at -= 1
            self.wrong("expected a type", f"numbers are {', '.join(_SCALARS)}")
        return Scalar(_SCALARS[name])

    def array(self) -> Type:
        var, outer = "", dict(self.scope)
        if self.here.kind == "word" and (self.ahead("->", 1) or self.ahead("=>", 1)):
            base = self.word("a position")
            self.at += 1
            var = f"{base}#{next(_NUMBERS)}"
            self.scope[base] = n.named(var)
        element = self.type()
        self.scope = outer
        if self.take(";"):
            length = self.nat()
            self.need("]")
        elif self.take("]_"):
            length = self.below()
        else:
            self.need("]")
            length = n.named(f"{HOLE}{next(_NUMBERS)}")
        return n.array_type(element, length, var)

    def below(self) -> Nat:
        """A natural below a bracket: one word or number, or anything in braces."""
        if self.take("{"):
            length = self.nat()
            self.need("}")
            return length
        return self.natural()

    def nat(self) -> Nat:
        total = self.product()
        while self.here.text in ("+", "-"):
            sign = self.need("+", "-")
            other = self.product()
            total = total + other if sign == "+" else total - other
        return total

    def product(self) -> Nat:
        made = self.natural()
        while self.here.text in ("*", "/", "//", "%"):
            sign = self.need("*", "/", "//", "%")
            other = self.natural()
            made = made * other if sign == "*" else made % other if sign == "%" else made // other
        return made

    def natural(self) -> Nat:
        token = self.here
        if token.kind == "number" and token.text.isdigit():
            self.at += 1
            return n.nat(int(token.text))
        if self.take("-"):
            return self.natural() * -1
        if self.take("("):
            return self.choice()
        if token.text == "toNat" and self.ahead("(", 1):
            self.at += 2
            found = n.to_nat(self.pipe())
            self.need(")")
            return found
        if token.text in ("sum", "sum_"):
            return self.sum()
        name = self.word("a natural")
        if name not in self.scope:
            if self.free:
                return n.named(name)
            self.at -= 1
            span = Span(self.text, token.start, token.start + len(name))
            raise PatternError(
                f"{name} is no natural of this program", code="E702", span=span,
                hint=f"nFun {name}. ..., or toNat({name}) of an integer",
            )  # fmt: skip
        return self.scope[name]

    def choice(self) -> Nat:
        first = self.nat()
        if self.take(")"):
            return first
        sign = self.need("<", "<=", ">", ">=", "==")
        second = self.nat()
        self.need("?")
        then = self.nat()
        self.need(":")
        otherwise = self.nat()
        self.need(")")
        swaps = sign in (">", ">=")
        left, right = (second, first) if swaps else (first, second)
        return n.chosen(n.Condition(sign.replace(">", "<"), left, right), then, otherwise)

    def sum(self) -> Nat:
        """`sum(k, low, high, body)` without `high`; the paper's sum includes it."""
        paper = self.need("sum", "sum_") == "sum_"
        self.need("{" if paper else "(")
        base = self.word("a variable")
        self.need("=" if paper else ",")
        low = self.nat()
        if paper:
            self.need("}")
            self.need("^")
            self.need("{")
        else:
            self.need(",")
        high = self.nat() + (1 if paper else 0)
        self.need("}" if paper else ",")
        outer, var = dict(self.scope), f"{base}#{next(_NUMBERS)}"
        self.scope[base] = n.named(var)
        body = self.product() if paper else self.nat()
        self.scope = outer
        if not paper:
            self.need(")")

        def at(k: Nat) -> Nat:
            made = n.substituted(body, {var: k})
            assert isinstance(made, Nat)  # noqa: S101 - naturals become naturals
            return made

        return n.summed(low, high, at)

    # -- expressions ----------------------------------------------------------------------------

    def pipe(self) -> Expr:
        made = self.binary(0)
        while self.take(":>>"):
            made = n.piped(made, self.fn_alone())
        return made

    def binary(self, level: int) -> Expr:
        if level == len(_LEVELS):
            return self.unary()
        made = self.binary(level + 1)
        while self.here.text in _LEVELS[level] and self.here.kind == "sign":
            sign = self.need(*_LEVELS[level])
            made = n.Apply(_BINARY[sign], (made, self.binary(level + 1)))
        return made

    def unary(self) -> Expr:
        if self.take("-"):
            if self.here.kind == "number" or self.ahead("infinity"):
                value = self.postfix()
                if isinstance(value, n.Literal):
                    return n.Literal(-value.value, value.type)
                return n.Apply(BUILTIN["neg"], (value,))
            return n.Apply(BUILTIN["neg"], (self.unary(),))
        made = self.postfix()
        if self.take("**"):
            made = n.Apply(_BINARY["**"], (made, self.unary()))
        return made

    def postfix(self) -> Expr:
        made = self.atom()
        while True:
            if self.ahead(".") and self.tokens[self.at + 1].text in ("1", "2"):
                made = n.Part(made, int(self.tokens[self.at + 1].text))
                self.at += 2
            elif self.take("@"):
                made = n.At(made, self.index())
            else:
                return made

    def index(self) -> Expr:
        made = self.atom()
        while self.ahead(".") and self.tokens[self.at + 1].text in ("1", "2"):
            made = n.Part(made, int(self.tokens[self.at + 1].text))
            self.at += 2
        return made

    def atom(self) -> Expr:
        token = self.here
        if token.kind == "number":
            self.at += 1
            return n.Literal(int(token.text) if token.text.isdigit() else float(token.text))
        if self.take("("):
            return self.parenthesis()
        if token.kind != "word":
            self.wrong("expected an expression")
        if token.text in _FN_WORDS:
            return self.applied(self.fn())
        self.at += 1
        name = token.text
        if name in ("true", "false"):
            return n.Literal(name == "true")
        if name == "infinity":
            return n.Literal(float("inf"))
        if self.ahead("(") and name not in self.locals:
            return self.call(token)
        if name in self.scope:
            return n.OfNat(self.scope[name])
        return n.Var(self.locals.get(name, name))

    def parenthesis(self) -> Expr:
        first = self.pipe()
        if self.take(","):
            first = n.Pair(first, self.pipe())
        elif self.take(":"):
            first = n.Noted(first, self.type())
        self.need(")")
        return first

    def applied(self, fn: Fn) -> Expr:
        """`f(e)`: a function applied to an expression."""
        self.need("(")
        made = n.piped(self.pipe(), fn)
        self.need(")")
        return made

    def call(self, token: Token) -> Expr:
        """A word with arguments."""
        name = token.text
        self.need("(")
        if name == "nat":
            value = self.nat()
            self.need(")")
            return n.OfNat(value)
        if name in ("generate", "iota"):
            length = self.nat()
            if name == "iota":
                self.need(")")
                var = f"i#{next(_NUMBERS)}"
                return n.Generate(length, n.NFun(var, n.OfNat(n.named(var))))
            self.need(",")
            fn = self.fn()
            self.need(")")
            if not isinstance(fn, n.NFun):
                self.wrong("generate needs a function of a natural, nFun(i => ...)")
            return n.Generate(length, fn)
        args = [self.pipe()]
        while self.take(","):
            args.append(self.pipe())
        self.need(")")
        if name == "zip":
            if len(args) < 2:
                self.wrong("zip needs two arrays or more", "zip(xs, ys)")
            made = args[-1]
            for each in reversed(args[:-1]):
                made = n.Zip(each, made)
            return made
        if name in _SCALARS and len(args) == 1:
            (arg,) = args
            if isinstance(arg, n.Literal):
                return n.Literal(arg.value, _SCALARS[name])
        op: Op | None = BUILTIN.get(name)
        if op is None:
            span = Span(self.text, token.start, token.start + len(name))
            raise PatternError(f"there is no function {name}", code="E702", span=span)
        return n.Apply(op, tuple(args))

    # -- functions ------------------------------------------------------------------------------

    def fn(self) -> Fn:
        """A function, or several one after the other."""
        made = [self.fn_alone()]
        while self.take(":>>"):
            made.append(self.fn_alone())
        return n.composed(*made)

    def fn_alone(self) -> Fn:
        token = self.here
        if token.text in _BINARY and token.kind == "sign":
            self.at += 1
            return n.Operator(_BINARY[token.text])
        if self.take("("):
            made = self.fn()
            self.need(")")
            return made
        if token.kind == "word" and self.ahead("=>", 1):
            return self.lambda_(closes=False)
        name = self.word("a function")
        if name in ("join", "transpose"):
            if self.take("("):
                self.need(")")
            return n.Join() if name == "join" else n.Transpose()
        if name in ("fun", "nFun", "nfun"):
            self.need("(")
            return self.lambda_(closes=True, natural=name != "fun")
        if name in BUILTIN and not self.ahead("("):
            return n.Operator(BUILTIN[name])
        if name not in _FN_WORDS:
            self.at -= 1
            self.wrong("expected a function", "map, reduce, split, join, fun(x => ...), +")
        self.need("(")
        made = self.pattern(name)
        self.need(")")
        return made

    def pattern(self, name: str) -> Fn:
        if name in _FNS:
            return n.Map(self.fn(), _FNS[name])
        if name in ("reduce", "reduceSeq"):
            fn = self.fn()
            if not self.take(","):
                self.wrong("expected ','", f"{name} starts from a value: {name}(+, 0)")
            return n.Reduce(fn, self.pipe(), name.removeprefix("reduce"))
        size = self.nat()
        if name == "split":
            return n.Split(size)
        step = self.nat() if self.take(",") else n.nat(1)
        return n.Slide(size, step)

    def lambda_(self, closes: bool, natural: bool = False) -> Fn:
        base = self.word("a parameter")
        name = f"{base}#{next(_NUMBERS)}"
        type = self.type() if self.take(":") else None
        self.need("=>")
        scope, known = dict(self.scope), dict(self.locals)
        if natural:
            self.scope[base] = n.named(name)
            self.locals.pop(base, None)
        else:
            self.locals[base] = name
            self.scope.pop(base, None)
        body: Expr | Fn
        inner = self.here.text == "fun" and not self._is_applied()
        body = self.fn_alone() if inner else self.pipe()
        self.scope, self.locals = scope, known
        if closes:
            self.need(")")
        if natural:
            if isinstance(body, Fn):
                self.wrong("nFun gives an expression")
            return n.NFun(name, body)
        return n.Fun(name, body, type)

    def _is_applied(self) -> bool:
        """Whether the function that begins here has an argument after it."""
        depth = 0
        for k in range(self.at + 1, len(self.tokens)):
            text = self.tokens[k].text
            depth += (text == "(") - (text == ")")
            if depth == 0:
                return self.tokens[k + 1].text == "("
        return False
