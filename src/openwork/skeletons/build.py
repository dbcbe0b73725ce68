"""Programs of patterns as Python: types, naturals, expressions and functions from lambdas."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, NoReturn, cast

import numpy as np

from openwork.algebra.operators import SELECT, Op
from openwork.algebra.overloads import Overloaded
from openwork.algebra.types import SUPPORTED
from openwork.errors import PatternError
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.check import HOLE
from openwork.skeletons.language.names import tidied
from openwork.skeletons.language.nodes import Expr, Fn, Nat, Scalar, Signature, Type
from openwork.skeletons.program import Program, not_too_deep
from openwork.tree import Node, children

_numbers = count(1)

float32, float64 = Scalar("float32"), Scalar("float64")
int32, int64, bool_ = Scalar("int32"), Scalar("int64"), Scalar("bool")
_SCALARS = ("float32", "float64", "int32", "int64", "bool")


class Term(Overloaded[Any]):
    """An expression as users hold it."""

    __slots__ = ("node",)

    def __init__(self, node: Expr) -> None:
        self.node = node

    def __openwork_apply__(self, op: Op, args: Sequence[object]) -> Any:
        return Term(n.Apply(op, tuple([as_expr(a) for a in args])))

    def __getitem__(self, index: object) -> Term:
        return Term(n.At(self.node, as_expr(index)))

    @property
    def first(self) -> Term:
        """The first part of a pair."""
        return Term(n.Part(self.node, 1))

    @property
    def second(self) -> Term:
        """The second part of a pair."""
        return Term(n.Part(self.node, 2))

    def __rshift__(self, other: object) -> Any:
        return Term(n.piped(self.node, as_fn(other)))

    def typed(self, type: object) -> Term:
        """The expression, annotated with a type."""
        return Term(n.Noted(self.node, as_type(type)))

    def __bool__(self) -> bool:
        raise PatternError(
            f"nobody knows yet whether {self.node} holds", code="E706",
            hint="sk.where(condition, then, otherwise) chooses for each element",
        )  # fmt: skip

    def __iter__(self) -> NoReturn:
        raise PatternError(
            f"nobody knows yet what {self.node} holds", code="E706",
            hint="x >> sk.map(lambda element: ...), or .first and .second of a pair",
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"<{self.node}>"


class Function:
    """A function as users hold it; `f >> g` is one after the other."""

    __slots__ = ("node",)

    def __init__(self, node: Fn) -> None:
        self.node = node

    def __rshift__(self, other: object) -> Function:
        return Function(n.composed(self.node, as_fn(other)))

    def __call__(self, value: object) -> Term:
        return Term(n.piped(as_expr(value), self.node))

    def __repr__(self) -> str:
        return f"<{self.node}>"


class Typed:
    """An array type as users hold it: naturals may refer to its elements, as `lengths[i]`."""

    def __init__(self, type: Type) -> None:
        self.type, self.key = type, f"?{next(_numbers)}"

    def __getitem__(self, index: object) -> Term:
        return Term(n.At(n.Var(self.key), as_expr(index)))

    def __repr__(self) -> str:
        return str(self.type)


def nats(names: str) -> Any:
    """Naturals: `N, M = sk.nats("N M")`; a single one for a single name."""
    words = str(names).replace(",", " ").split() or [""]
    for name in words:
        _is_name(name)
    found = [n.named(name) for name in words]
    return found[0] if len(found) == 1 else tuple(found)


def _is_name(name: object) -> None:
    if not (isinstance(name, str) and name.isidentifier()):
        raise PatternError(f"{name!r} is no name", code="E702", hint="letters and digits")


def array(*arguments: object) -> Typed:
    """`array(N, T)` is `[T]_N`; `array(N, lambda i: T)` is `[i -> T]_N`; `array(T)` leaves the
    length to be inferred."""
    if len(arguments) == 1:
        return Typed(n.ArrayType(as_type(arguments[0]), n.named(f"{HOLE}{next(_numbers)}")))
    if len(arguments) != 2:
        raise PatternError("an array type has a length and a type of elements", code="E706")
    length, element = arguments
    if callable(element) and not isinstance(element, Typed):
        (base,) = _parameters(element, 1)
        var = f"{base}#{next(_numbers)}"
        return Typed(n.array_type(as_type(element(n.named(var))), as_nat(length), var))
    return Typed(n.ArrayType(as_type(element), as_nat(length)))


def pair(first: object, second: object) -> Any:
    """A pair of types, or of expressions."""
    if isinstance(first, Term) or isinstance(second, Term):
        return Term(n.Pair(as_expr(first), as_expr(second)))
    return Typed(n.PairType(as_type(first), as_type(second)))


def to_nat(value: object) -> Nat:
    """An integer expression as a natural."""
    return n.to_nat(as_expr(value))


def where(condition: object, then: object, otherwise: object) -> Any:
    """One value or another: a natural, `sk.where(i < n, 1, 0)`, or an element."""
    if isinstance(condition, Term):
        return SELECT(condition, then, otherwise)
    if not isinstance(condition, n.Condition):
        raise PatternError(
            f"sk.where chooses by a comparison, not by {condition!r}", code="E706",
            hint="sk.where(i < n, 1, 0), or sk.where(element > 0, element, 0)",
        )  # fmt: skip
    return n.chosen(condition, as_nat(then), as_nat(otherwise))


def total(low: object, high: object, body: Callable[[Nat], object]) -> Nat:
    """The sum of `body(k)` for k from `low` up to `high`, which is excluded."""
    return n.summed(as_nat(low), as_nat(high), lambda k: as_nat(body(k)))


def zip(first: object, second: object) -> Term:
    """Two arrays of one length as an array of pairs."""
    return Term(n.Zip(as_expr(first), as_expr(second)))


def map(fn: object) -> Function:
    """A function for each element of an array."""
    return Function(n.Map(as_fn(fn)))


def _map(how: str) -> Callable[[object], Function]:
    def made(fn: object) -> Function:
        return Function(n.Map(as_fn(fn), how))

    made.__doc__ = f"`map`, whose elements are computed by {how}."
    made.__name__ = f"map{how}"
    return made


mapSeq, mapThreads, mapVector = _map("Seq"), _map("Threads"), _map("Vector")
mapGlobal, mapWorkgroup, mapLocal = _map("Global"), _map("Workgroup"), _map("Local")
mapWarp, mapLane = _map("Warp"), _map("Lane")


def reduce(fn: object, init: object) -> Function:
    """All elements combined by an operator or a function of two arguments, in any order."""
    return Function(n.Reduce(as_fn(fn, 2), as_expr(init)))


def reduceSeq(fn: object, init: object) -> Function:
    """All elements combined, from the first to the last."""
    return Function(n.Reduce(as_fn(fn, 2), as_expr(init), "Seq"))


def split(size: object) -> Function:
    """Pieces of `size` elements; the last has what is left."""
    return Function(n.Split(as_nat(size)))


def slide(size: object, step: object = 1) -> Function:
    """Windows of `size` elements, each `step` further on."""
    return Function(n.Slide(as_nat(size), as_nat(step)))


join, transpose = Function(n.Join()), Function(n.Transpose())


def generate(length: object, fn: Callable[[Nat], object]) -> Term:
    """The array of `fn(0)`, `fn(1)`, ..."""
    (base,) = _parameters(fn, 1)
    name = f"{base}#{next(_numbers)}"
    body = as_expr(fn(n.named(name)))
    return Term(n.Generate(as_nat(length), n.NFun(name, body)))


def iota(length: object) -> Term:
    """The array of 0, 1, 2, ..."""
    return generate(length, lambda i: i)


def program(
    params: Mapping[str, object], fn: Callable[..., object], nats: str | None = None
) -> Program:
    """A program: its parameters with their types, and a function of them.

    Args:
        params: types by name; a type may refer to the elements of another.
        fn: a function of as many terms.
        nats: the order of the naturals; as they occur, if it is left out.

    Raises:
        PatternError: E702 to E707 where types do not agree.

    >>> n = nats("n")
    >>> types = {"x": array(n, float64), "y": array(n, float64)}
    >>> print(program(types, lambda x, y: zip(x, y) >> map(lambda t: t.first * t.second)).type)
    nFun n. (x: [float64]_n) -> (y: [float64]_n) -> [float64]_n
    """
    if not isinstance(params, Mapping):
        raise PatternError(f"{params!r} are no parameters", code="E706", hint="types by name")
    names = list(params)
    for name in names:
        _is_name(name)
    with not_too_deep():
        return _program(names, params, _taking(fn, len(names)), nats)


def _program(
    names: list[str], params: Mapping[str, object], fn: Callable[..., object], nats: str | None
) -> Program:
    keys = {t.key: n.Var(name) for name, t in params.items() if isinstance(t, Typed)}
    types = [cast(Type, n.substituted(as_type(t), {}, keys)) for t in params.values()]
    body = as_expr(fn(*(Term(n.Var(name)) for name in names)))
    body = cast(Expr, n.substituted(body, {}, keys))
    return Program(tidied(Signature(_free(types, body, nats), tuple(names), tuple(types), body)))


def _free(types: list[Type], body: Expr, given: str | None) -> tuple[str, ...]:
    """The naturals that nothing binds, as they occur."""
    if given is not None:
        return tuple(given.replace(",", " ").split())
    found = [name for node in (*types, body) for name in _names(node)]
    return tuple(dict.fromkeys(name for name in found if not {*"#?$.'"} & {*name}))


def _names(node: Node) -> list[str]:
    """The naturals in a node, those of outer lengths first."""
    if isinstance(node, n.ArrayType):
        return [*_names(node.length), *_names(node.element)]
    if isinstance(node, n.Named):
        return [node.name]
    below = node.atoms if isinstance(node, Nat) else children(node)
    return [name for child in below for name in _names(child)]


def _taking(fn: object, count: int) -> Callable[..., object]:
    """A function of so many arguments."""
    try:
        inspect.signature(cast(Callable[..., object], fn)).bind(*range(count))
    except (TypeError, ValueError) as error:
        message = f"{fn!r} is no function of {count} terms: {error}"
        raise PatternError(message, code="E706") from None
    return cast(Callable[..., object], fn)


def _parameters(fn: object, wanted: int) -> list[str]:
    """The names of a function's parameters."""
    try:
        names = list(inspect.signature(cast(Callable[..., object], fn)).parameters)
    except (TypeError, ValueError):
        raise PatternError(f"{fn!r} is no function", code="E706") from None
    if len(names) not in (wanted, 1):
        raise PatternError(f"a function takes {wanted} arguments, not {len(names)}", code="E706")
    return names


def as_fn(value: object, arity: int = 1) -> Fn:
    """A function from Python's: a pattern, an operator, a lambda over terms."""
    if isinstance(value, Function):
        return value.node
    if isinstance(value, Fn):
        return value
    if isinstance(value, Op):
        return n.Operator(value)
    if not callable(value):
        raise PatternError(
            f"{value!r} is no function", code="E706", hint="a lambda, a pattern, or sk.add"
        )
    names = [f"{name}#{next(_numbers)}" for name in _parameters(value, arity)]
    body: Expr | Fn
    result = value(*(Term(n.Var(name)) for name in names))
    body = result.node if isinstance(result, Function) else as_expr(result)
    if isinstance(body, Fn):
        raise PatternError("a function that gives a function", code="E706",
                           hint="apply it: sk.map(lambda row: row >> f)")  # fmt: skip
    for name in reversed(names):
        body = n.Fun(name, body)
    return cast(Fn, body)


def as_nat(value: object) -> Nat:
    """A natural from a number, a natural, or an integer expression."""
    if isinstance(value, Nat):
        return value
    if isinstance(value, Term):
        return n.to_nat(value.node)
    if isinstance(value, int | np.integer) and not isinstance(value, bool):
        return n.nat(int(value))
    raise PatternError(f"{value!r} is no natural", code="E707", hint="sk.nats, or sk.to_nat")


def as_type(value: object) -> Type:
    """A type from Python's: `sk.float32`, `sk.array`, `sk.pair`, or the name of a scalar."""
    if isinstance(value, Typed):
        return value.type
    if isinstance(value, Type):
        return value
    if isinstance(value, str) and value in _SCALARS:
        return Scalar(value)
    raise PatternError(
        f"{value!r} is no type", code="E703", hint=f"{', '.join(_SCALARS)}, sk.array, sk.pair"
    )


def as_expr(value: object) -> Expr:
    """An expression from Python's: terms, naturals, numbers, tuples of two."""
    if isinstance(value, Term):
        return value.node
    if isinstance(value, Expr):
        return value
    if isinstance(value, Nat):
        return n.OfNat(value)
    if isinstance(value, Typed):
        return n.Var(value.key)
    if isinstance(value, tuple) and len(value) == 2:
        return n.Pair(as_expr(value[0]), as_expr(value[1]))
    if isinstance(value, np.generic) and str(value.dtype) in SUPPORTED:
        return n.Literal(value.item(), str(value.dtype))
    if isinstance(value, bool | float | int):
        return n.Literal(value)
    if isinstance(value, Function | Op) or callable(value):
        raise PatternError("a function stands where a value is needed", code="E706")
    raise PatternError(f"{type(value).__name__} cannot stand in a program", code="E706")
