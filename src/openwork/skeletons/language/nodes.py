"""The language of patterns: types, expressions and functions, which spell themselves.

T ::= float32 | ... | (T, T) | [T]_n | [i -> T]_n
e ::= name | number | e @ e | (e, e) | e.1 | e.2 | e op e | f(e) | e :>> f | e : T
f ::= fun(x => e) | nFun(n => e) | map(f) | reduce(f, e) | split(n) | join | transpose | ...
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache, reduce
from typing import cast

from openwork.algebra.operators import ADD, FLOOR_DIVIDE, MUL, REMAINDER, SUB, Op as Op
from openwork.algebra.types import Number
from openwork.frozen import frozen
from openwork.skeletons.language.nats import (
    Atom as Atom,
    Choice as Choice,
    Condition as Condition,
    Monomial as Monomial,
    Named as Named,
    Nat as Nat,
    Quotient as Quotient,
    Sum as Sum,
    ToNat as ToNat,
    atom as atom,
    changed as changed,
    chosen as chosen,
    divided as divided,
    has_sums as has_sums,
    lesser as lesser,
    named as named,
    names_of as names_of,
    nat as nat,
    remainder as remainder,
    sum_over as sum_over,
    summed as summed,
    walk_all as walk_all,
)
from openwork.tree import Node as Node, children as children


class Type(Node):
    """The type of data."""


@frozen(repr=False)
class Scalar(Type):
    """A number; a Python number in a program has the type "~int" or "~float", which gives way."""

    name: str

    def __str__(self) -> str:
        return self.name.removeprefix("~")


@frozen(repr=False)
class PairType(Type):
    """Two things."""

    first: Type
    second: Type

    def __str__(self) -> str:
        return f"({self.first}, {self.second})"


@frozen(repr=False)
class ArrayType(Type):
    """An array of `length` elements, whose type may depend on their position `var`."""

    element: Type
    length: Nat
    var: str = ""

    def at(self, index: Nat) -> Type:
        """The type of the element at `index`."""
        made = substituted(self.element, {self.var: index}) if self.var else self.element
        return cast(Type, made)

    def __str__(self) -> str:
        arrow = f"{self.var} -> " if self.var else ""
        return f"[{arrow}{self.element}]_{subscript(self.length)}"


def subscript(length: Nat) -> str:
    """A length below a bracket."""
    text = str(length)
    alone = len(length.atoms) == 1 and len(length.terms) == 1 and isinstance(length.atoms[0], Named)
    return text if text.isdigit() or (alone and text == length.atoms[0].key) else f"{{{text}}}"


def array_type(element: Type, length: Nat, var: str = "") -> ArrayType:
    """An array; the variable is dropped where the element does not mention it."""
    return ArrayType(element, length, var if var in names_of(element) else "")


class Expr(Node):
    """An expression."""

    def as_nat(self) -> Nat:
        """An integer expression as a natural."""
        return to_nat(self)

    def __str__(self) -> str:
        return show(self)


class Fn(Node):
    """A function."""

    def __str__(self) -> str:
        return show_fn(self)


@frozen(repr=False)
class Var(Expr):
    """A variable."""

    name: str


@frozen(repr=False)
class Literal(Expr):
    """A number, of a type or of the type that its surroundings ask for."""

    value: Number
    type: str = ""

    __hash__ = Node.__hash__

    def __eq__(self, other: object) -> bool:
        """1, 1.0 and True are three literals, and so are 0.0 and -0.0."""
        if not isinstance(other, Literal):
            return False
        return (repr(self.value), self.type) == (repr(other.value), other.type)


@frozen(repr=False)
class OfNat(Expr):
    """A natural as a number."""

    nat: Nat


@frozen(repr=False)
class At(Expr):
    """`array @ index`"""

    array: Expr
    index: Expr

    def __post_init__(self) -> None:
        """An index that naturals alone make up is one."""
        if not isinstance(self.index, OfNat) and is_natural(self.index):
            object.__setattr__(self, "index", OfNat(to_nat(self.index)))


@frozen(repr=False)
class Pair(Expr):
    """`(first, second)`"""

    first: Expr
    second: Expr


@frozen(repr=False)
class Part(Expr):
    """`pair.1` or `pair.2`"""

    pair: Expr
    which: int


@frozen(repr=False)
class Apply(Expr):
    """A scalar operator."""

    op: Op
    args: tuple[Expr, ...]


@frozen(repr=False)
class Call(Expr):
    """A function applied to an expression."""

    fn: Fn
    arg: Expr


@frozen(repr=False)
class Zip(Expr):
    """Two arrays as an array of pairs."""

    first: Expr
    second: Expr


@frozen(repr=False)
class Generate(Expr):
    """The array of `fn(0)`, `fn(1)`, ... of `length` elements."""

    length: Nat
    fn: NFun


@frozen(repr=False)
class Noted(Expr):
    """`expr : type`"""

    expr: Expr
    type: Type


@frozen(repr=False)
class Fun(Fn):
    """`fun(param => body)`; the body is an expression, or another function of one more argument."""

    param: str
    body: Expr | Fn
    type: Type | None = None


@frozen(repr=False)
class NFun(Fn):
    """`nFun(param => body)`: a function of a natural."""

    param: str
    body: Expr


@frozen(repr=False)
class Operator(Fn):
    """A scalar operator as a function of its arguments, or of a pair of them."""

    op: Op


@frozen(repr=False)
class Map(Fn):
    """A function for each element; `how`: on which unit."""

    fn: Fn
    how: str = ""


@frozen(repr=False)
class Reduce(Fn):
    """All elements combined, from `init` on; in any order, unless `how` is "Seq"."""

    fn: Fn
    init: Expr
    how: str = ""


@frozen(repr=False)
class Split(Fn):
    """Pieces of `size` elements; the last has what is left."""

    size: Nat


@frozen(repr=False)
class Join(Fn):
    """Pieces after one another."""


@frozen(repr=False)
class Transpose(Fn):
    """Columns of rows; after a split, every `size`-th element."""


@frozen(repr=False)
class Slide(Fn):
    """Windows of `size` elements, each `step` further on."""

    size: Nat
    step: Nat


@frozen(repr=False)
class Compose(Fn):
    """Functions one after the other."""

    fns: tuple[Fn, ...]


@frozen(repr=False)
class Signature(Node):
    """A program: its naturals, its parameters with their types, and what it computes."""

    nats: tuple[str, ...]
    params: tuple[str, ...]
    types: tuple[Type, ...]
    body: Expr

    def __str__(self) -> str:
        text = "".join(f"nFun {n}.\n" for n in self.nats)
        for name, type in zip(self.params, self.types, strict=True):
            text += f"fun {name}: {type}.\n"
        return f"{text}{self.body}"


def substituted(node: Node, nats: Mapping[str, Nat], exprs: Mapping[str, Expr] = {}) -> Node:
    """`node` with naturals and expressions in place of variables.

    No natural is captured: a variable that is bound inside gets another name where a natural
    mentions its own. Names of parameters of functions are all different.
    """
    if mentioned(node).isdisjoint((*nats, *exprs)):
        return node
    if exprs:
        return _substituted(node, nats, exprs)
    return _known_substituted(node, tuple(nats.items()))


@lru_cache(maxsize=8192)
def _known_substituted(node: Node, nats: tuple[tuple[str, Nat], ...]) -> Node:
    """The same types and bodies get the same variables again and again while one is lowered."""
    return _substituted(node, dict(nats), {})


def _substituted(node: Node, nats: Mapping[str, Nat], exprs: Mapping[str, Expr]) -> Node:
    wanted = {*nats, *exprs}

    def change(n: Node) -> Node:
        if wanted.isdisjoint(mentioned(n)):
            return n
        if isinstance(n, Named):
            return nats.get(n.name, n)
        if isinstance(n, Var):
            return exprs.get(n.name, n)
        if isinstance(n, ArrayType) and n.var and any(n.var in names_of(v) for v in nats.values()):
            n = _with_another_variable(n, nats)
        if isinstance(n, NFun) and any(n.param in names_of(v) for v in nats.values()):
            n = _with_another_parameter(n, nats)
        if isinstance(n, Sum):
            return _with_another_sum(n, nats, exprs)
        return changed(n, change)

    return change(node)


def mentioned(node: Node) -> frozenset[str]:
    """The variables in a node; cached on it."""
    known: frozenset[str] | None = node.__dict__.get("_named")
    if known is None:
        below = node.atoms if isinstance(node, Nat) else children(node)
        own = {node.name} if isinstance(node, Named | Var) else set[str]()
        known = frozenset(own.union(*map(mentioned, below)))
        node.__dict__["_named"] = known
    return known


def _with_another_sum(s: Sum, nats: Mapping[str, Nat], exprs: Mapping[str, Expr]) -> Nat:
    low, high = (cast(Nat, substituted(end, nats, exprs)) for end in (s.low, s.high))
    if s.var in nats or any(s.var in mentioned(v) for v in (*nats.values(), *exprs.values())):
        return summed(
            low, high, lambda k: cast(Nat, substituted(s.body, {**nats, s.var: k}, exprs))
        )
    return sum_over(s.var, low, high, cast(Nat, substituted(s.body, nats, exprs)))


def _with_another_variable(type: ArrayType, nats: Mapping[str, Nat]) -> ArrayType:
    var = _another(type.var, type, nats)
    return ArrayType(type.at(named(var)), type.length, var)


def _with_another_parameter(fn: NFun, nats: Mapping[str, Nat]) -> NFun:
    param = _another(fn.param, fn, nats)
    return NFun(param, cast("Expr", substituted(fn.body, {fn.param: named(param)})))


def _another(name: str, node: Node, nats: Mapping[str, Nat]) -> str:
    """A name that neither a node nor naturals mention."""
    taken = {each for v in nats.values() for each in names_of(v)} | names_of(node)
    while name in taken:
        name += "'"
    return name


def to_nat(expr: Expr) -> Nat:
    """An integer expression as a natural: arithmetic is done on naturals."""
    match expr:
        case OfNat(nat=value):
            return value
        case Literal(value=int(value)):
            return nat(value)
        case Noted(expr=inner):
            return to_nat(inner)
        case Apply(op=op, args=(left, right)) if op in _ON_NATS:
            return _ON_NATS[op](to_nat(left), to_nat(right))
    return atom(ToNat(expr))


_ON_NATS: dict[Op, Callable[[Nat, Nat], Nat]] = {
    ADD: lambda a, b: a + b,
    SUB: lambda a, b: a - b,
    MUL: lambda a, b: a * b,
    FLOOR_DIVIDE: lambda a, b: a // b,
    REMAINDER: lambda a, b: a % b,
}


def is_natural(expr: Expr) -> bool:
    """Whether an expression is known without data: made of naturals and numbers alone."""
    match expr:
        case OfNat() | Literal(value=int()):
            return True
        case Apply(op=op, args=args) if op in _ON_NATS:
            return all(map(is_natural, args))
    return False


# -- text ---------------------------------------------------------------------------------------

_TIGHT = {"||": 1, "&&": 2, "==": 3, "!=": 3, "<": 4, "<=": 4, ">": 4, ">=": 4}
_TIGHT |= {"|": 5, "^": 5, "&": 5, "<<": 6, ">>": 6, "+": 7, "-": 7, "*": 8, "/": 8}
_TIGHT |= {"//": 8, "%": 8}
_PIPE, _UNARY, _POWER, _POSTFIX = 0, 9, 10, 11


def show(e: Expr, tight: int = -1) -> str:
    """An expression in the paper's text, in ASCII; in parentheses, if it binds less than asked."""
    text, mine = _shown(e)
    return f"({text})" if mine < tight else text


def _shown(e: Expr) -> tuple[str, int]:
    match e:
        case Var(name=name):
            return name, _POSTFIX
        case Literal(value=value, type=type):
            digits = str(value).lower() if isinstance(value, bool) else repr(value)
            digits = {"inf": "infinity", "-inf": "-infinity"}.get(digits, digits)
            if type:
                return f"{type}({digits})", _POSTFIX
            return digits, _UNARY if digits.startswith("-") else _POSTFIX
        case OfNat(nat=value):
            plain = len(value.terms) == 1 and isinstance((*value.atoms, None)[0], Named)
            return (str(value), _POSTFIX) if plain and str(value).isidentifier() else (
                f"nat({value})", _POSTFIX
            )  # fmt: skip
        case At(array=array, index=index):
            return f"{show(array, _POSTFIX)}@{_shown_index(index)}", _POSTFIX
        case Pair(first=first, second=second):
            return f"({show(first)}, {show(second)})", _POSTFIX
        case Part(pair=pair, which=which):
            text = show(pair, _POSTFIX)  # of `xs@i.1` the part is that of the index
            return f"({text}).{which}" if isinstance(pair, At) else f"{text}.{which}", _POSTFIX
        case Apply(op=op, args=(left, right)) if op.symbol in _TIGHT:
            mine = _TIGHT[op.symbol]
            return f"{show(left, mine)} {op.symbol} {show(right, mine + 1)}", mine
        case Apply(op=op, args=args):
            return f"{op.name}({', '.join(map(show, args))})", _POSTFIX
        case Zip(first=first, second=second):
            return f"zip({show(first)}, {show(second)})", _POSTFIX
        case Generate(length=length, fn=fn):
            return f"generate({length}, {fn})", _POSTFIX
        case Call(fn=fn, arg=arg):
            return f"{show(arg, _PIPE)} :>> {show_fn(fn)}", _PIPE
        case Noted(expr=inner, type=type):
            return f"({show(inner, _PIPE)} : {type})", _POSTFIX
    return type_name(e), _POSTFIX


def _shown_index(index: Expr) -> str:
    """An index behind `@`; in parentheses, unless it is a number, a name, or `nat(...)`."""
    if not isinstance(index, OfNat):
        return show(index) if isinstance(index, Var) else f"({show(index)})"
    value = index.nat
    if any(isinstance(a, ToNat | Sum | Choice | Quotient) for a in value.atoms):
        return show(index)  # those of naturals have a text of their own
    alone = (value.constant or 0) > 0 or value in (nat(0), *map(atom, value.atoms))
    return str(value) if alone else f"({value})"


def type_name(node: Node) -> str:
    """What kind of node this is."""
    return type(node).__name__


def show_fn(f: Fn) -> str:
    """A function in the paper's text."""
    match f:
        case Fun(param=param, body=body, type=kind):
            noted = "" if kind is None else f": {kind}"
            return f"fun({param}{noted} => {body})"
        case NFun(param=param, body=body):
            return f"nFun({param} => {body})"
        case Operator(op=op):
            return op.symbol if op.arity == 2 and op.symbol in _TIGHT else op.name
        case Map(fn=fn, how=how):
            return f"map{how}({fn})"
        case Reduce(fn=fn, init=init, how=how):
            return f"reduce{how}({fn}, {init})"
        case Split(size=size):
            return f"split({size})"
        case Slide(size=size, step=step):
            return f"slide({size}, {step})"
        case Join():
            return "join"
        case Transpose():
            return "transpose"
        case Compose(fns=fns):
            return " :>> ".join(map(str, fns))
    return type_name(f)


def composed(*fns: Fn) -> Fn:
    """Functions one after the other, as one."""
    flat = [g for f in fns for g in (f.fns if isinstance(f, Compose) else (f,))]
    return flat[0] if len(flat) == 1 else Compose(tuple(flat))


def piped(arg: Expr, *fns: Fn) -> Expr:
    """An expression through functions."""
    flat = [g for f in fns for g in (f.fns if isinstance(f, Compose) else (f,))]
    return reduce(lambda e, f: Call(f, e), flat, arg)
