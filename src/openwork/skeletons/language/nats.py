"""Naturals: polynomials over atoms, so that equal ones are equal trees wherever algebra can tell.

    n ::= number | name | n + n | n * n | sum(k, n, n, n) | (n < n ? n : n) | n / n | n % n
        | toNat(e)

`toNat` of a sum is the sum of its parts: lengths are checked where data comes in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import count
from operator import is_
from typing import Any

from openwork.frozen import frozen
from openwork.tree import Node, children, map_children

_SUMS = count()  # names of variables while a sum is made

Monomial = tuple["Atom", ...]


class Atom(Node):
    """What polynomials are made of."""

    @property
    def key(self) -> str:
        """Its text, by which the factors and terms of a polynomial are sorted."""
        known: str | None = self.__dict__.get("_key")
        if known is None:
            known = self.__dict__["_key"] = str(self)
        return known


@frozen(repr=False)
class Nat(Node):
    """A natural number: a polynomial, as sorted monomials with their coefficients."""

    terms: tuple[tuple[Monomial, int], ...]

    def __add__(self, other: Nat | int) -> Nat:
        if not isinstance(other, Nat | int):
            return NotImplemented
        more = nat(other).terms
        if not (self.terms and more):
            return Nat(self.terms or more)
        return _gathered([*self.terms, *more])

    def __mul__(self, other: Nat | int) -> Nat:
        if not isinstance(other, Nat | int):
            return NotImplemented
        others = nat(other)
        if others.constant is not None:
            factor = others.constant
            return Nat(tuple([(a, m * factor) for a, m in self.terms] if factor else ()))
        pairs = [(a, m, b, n) for a, m in self.terms for b, n in others.terms]
        return _gathered([(_product(a, b), m * n) for a, m, b, n in pairs])

    __radd__ = __add__
    __rmul__ = __mul__

    def __sub__(self, other: Nat | int) -> Nat:
        if not isinstance(other, Nat | int):
            return NotImplemented
        return self + nat(other) * -1

    def __rsub__(self, other: Nat | int) -> Nat:
        return nat(other) - self

    def __floordiv__(self, other: Nat | int) -> Nat:
        return divided(self, nat(other))

    def __mod__(self, other: Nat | int) -> Nat:
        return remainder(self, nat(other))

    def __lt__(self, other: Nat | int) -> Condition:
        return Condition("<", self, nat(other))

    def __le__(self, other: Nat | int) -> Condition:
        return Condition("<=", self, nat(other))

    def __gt__(self, other: Nat | int) -> Condition:
        return Condition("<", nat(other), self)

    def __ge__(self, other: Nat | int) -> Condition:
        return Condition("<=", nat(other), self)

    @property
    def constant(self) -> int | None:
        """Its value, if it is a number."""
        match self.terms:
            case ():
                return 0
            case (((), number),):
                return number
        return None

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """The atoms of all monomials, each once; cached on the node."""
        known: tuple[Atom, ...] | None = self.__dict__.get("_atoms")
        if known is None:
            found = dict.fromkeys(a for monomial, _ in self.terms for a in monomial)
            known = self.__dict__["_atoms"] = tuple(found)
        return known

    def __str__(self) -> str:
        first = sorted(self.terms, key=lambda term: (term[1] < 0, not term[0]))
        text = ""
        for monomial, times in first:
            factors = [a.key for a in monomial]
            if abs(times) != 1 or not factors:
                factors.insert(0, str(abs(times)))
            sign = "-" if times < 0 else "+"
            product = "*".join(factors)
            if text:
                text += f" {sign} {product}"
            else:
                text = product if times > 0 else f"-{product}"
        return text or "0"


@frozen(repr=False)
class Named(Atom):
    """A variable over naturals."""

    name: str

    def __str__(self) -> str:
        return self.name


@frozen(repr=False)
class ToNat(Atom):
    """The value of an integer expression, as a natural."""

    expr: Any

    def __str__(self) -> str:
        return f"toNat({self.expr})"


@frozen(repr=False)
class Sum(Atom):
    """The sum of `body` for `var` from `low` up to `high`, which is excluded."""

    var: str
    low: Nat
    high: Nat
    body: Nat

    def __str__(self) -> str:
        return f"sum({self.var}, {self.low}, {self.high}, {self.body})"


@frozen(repr=False)
class Condition(Node):
    """A comparison of two naturals: `<`, `<=` or `==`."""

    sign: str
    left: Nat
    right: Nat

    def __str__(self) -> str:
        return f"{self.left} {self.sign} {self.right}"


@frozen(repr=False)
class Choice(Atom):
    """One natural or another."""

    condition: Condition
    then: Nat
    otherwise: Nat

    def __str__(self) -> str:
        return f"({self.condition} ? {self.then} : {self.otherwise})"


@frozen(repr=False)
class Quotient(Atom):
    """A quotient rounded down (`/`), or its remainder (`%`)."""

    sign: str
    left: Nat
    right: Nat

    def __str__(self) -> str:
        left, right = (_operand(part) for part in (self.left, self.right))
        return f"({left} {self.sign} {right})"


def _operand(value: Nat) -> str:
    """What is divided, or divides; in parentheses, unless it is a number or an atom."""
    match value.terms:
        case (((), times),) if times >= 0:
            return str(times)
        case (((one,), 1),):
            return one.key
    return f"({value})" if value.terms else "0"


def nat(value: Nat | int) -> Nat:
    """A number or a natural, as a natural."""
    if isinstance(value, Nat):
        return value
    return Nat(((((), int(value)),)) if value else ())


def atom(value: Atom) -> Nat:
    """A natural of one atom."""
    return Nat((((value,), 1),))


def named(name: str) -> Nat:
    """A variable as a natural."""
    return atom(Named(name))


def _product(one: Monomial, other: Monomial) -> Monomial:
    if not (one and other):
        return one or other
    return tuple(sorted((*one, *other), key=lambda a: a.key))


def _gathered(terms: Iterable[tuple[Monomial, int]]) -> Nat:
    found: dict[Monomial, int] = {}
    for monomial, times in terms:
        found[monomial] = found.get(monomial, 0) + times
    left = [(m, n) for m, n in found.items() if n]
    if len(left) < 2:
        return Nat(tuple(left))
    return Nat(tuple(sorted(left, key=lambda term: [a.key for a in term[0]])))


def _whole(value: Nat, by: Nat) -> Nat | None:
    """`value / by`, if every term of it is a multiple of the single term `by`."""
    if len(by.terms) != 1:
        return None
    (factors, times), *_ = by.terms
    done = []
    for monomial, number in value.terms:
        left = list(monomial)
        for factor in factors:
            if factor not in left:
                return None
            left.remove(factor)
        if number % times:
            return None
        done.append((tuple(left), number // times))
    return _gathered(done)


def _parted(value: Nat, by: Nat) -> tuple[Nat, Nat]:
    """The terms of `value` that `by` divides, divided, and the others."""
    whole, rest = nat(0), nat(0)
    for term in value.terms:
        one = Nat((term,))
        quotient = _whole(one, by)
        if quotient is None:
            rest += one
        else:
            whole += quotient
    return whole, rest


def _reduced(value: Nat, by: int) -> tuple[Nat, Nat]:
    """Multiples of `by`, and a rest with coefficients below it; slightly negative ones stay."""
    rest = [(m, n if -by < 2 * n < 0 else n % by) for m, n in value.terms]
    whole = [(m, (n - r) // by) for (m, n), (_, r) in zip(value.terms, rest, strict=True)]
    return _gathered(whole), _gathered(rest)


def divided(value: Nat, by: Nat) -> Nat:
    """The quotient, rounded down."""
    one, other = value.constant, by.constant
    if one is not None and other:
        return nat(one // other)
    whole, rest = _parted(value, by)
    if other is not None and other > 0:
        more, rest = _reduced(rest, other)
        whole += more
    if any(n < 0 for _, n in rest.terms):  # C rounds towards zero: nothing below zero is divided
        return atom(Quotient("/", value, by))
    small = rest.constant is not None and other is not None and 0 <= rest.constant < other
    if not rest.terms or small:
        return whole
    return whole + atom(Quotient("/", rest, by))


def remainder(value: Nat, by: Nat) -> Nat:
    """The remainder of the quotient."""
    one, other = value.constant, by.constant
    if one is not None and other:
        return nat(one % other)
    _, rest = _parted(value, by)
    if other is not None and other > 0:
        rest = _reduced(rest, other)[1]
    if any(n < 0 for _, n in rest.terms):
        return atom(Quotient("%", value, by))
    if not rest.terms:
        return rest
    if rest.constant is not None and other is not None and 0 <= rest.constant < other:
        return rest
    return atom(Quotient("%", rest, by))


def chosen(condition: Condition, then: Nat | int, otherwise: Nat | int) -> Nat:
    """`then` if the condition holds, else `otherwise`; decided here where both are numbers."""
    then, otherwise = nat(then), nat(otherwise)
    apart = (condition.right - condition.left).constant
    if then == otherwise:
        return then
    if apart is not None:
        holds = {"<": apart > 0, "<=": apart >= 0, "==": apart == 0}[condition.sign]
        return then if holds else otherwise
    return atom(Choice(condition, then, otherwise))


def lesser(one: Nat | int, other: Nat | int) -> Nat:
    """The smaller of two naturals."""
    return chosen(nat(one) <= nat(other), one, other)


def summed(low: Nat, high: Nat, body: Callable[[Nat], Nat]) -> Nat:
    """A sum as it stands: of `body(k)` for `k` from `low` up to `high`, which is excluded."""
    mine = f"${next(_SUMS)}"
    return sum_over(mine, low, high, body(named(mine)))


@lru_cache(maxsize=4096)
def sum_over(var: str, low: Nat, high: Nat, body: Nat) -> Nat:
    """A sum over a variable, which gets a name that follows from the rest: equal sums are equal."""
    if not body.terms:
        return body
    taken = (names_of(body) - {var}) | {a.var for a in walk_all(body) if isinstance(a, Sum)}
    name = "k'"  # which no user writes
    while name in taken:
        name += "'"
    return atom(Sum(name, low, high, body if name == var else _renamed(body, var, name)))


def _renamed(value: Nat, old: str, new: str) -> Nat:
    def change(node: Node) -> Node:
        if old not in names_of(node):
            return node
        return Named(new) if isinstance(node, Named) else changed(node, change)

    return change(value)  # type: ignore[return-value]


def walk_all(node: Node) -> Iterable[Node]:
    """`node` and everything below it, polynomials included; parents first."""
    waiting = [node]
    while waiting:
        node = waiting.pop()
        yield node
        waiting += (node.atoms if isinstance(node, Nat) else children(node))[::-1]


def has_sums(node: Node) -> bool:
    """Whether a sum occurs in a node; cached on it."""
    known: bool | None = node.__dict__.get("_has_sums")
    if known is None:
        below = node.atoms if isinstance(node, Nat) else children(node)
        known = isinstance(node, Sum) or any(map(has_sums, below))
        node.__dict__["_has_sums"] = known
    return known


def changed(node: Node, change: Callable[[Node], Node]) -> Node:
    """`node` with `change` applied to each child; polynomials and `toNat` are computed anew."""
    if isinstance(node, Nat):
        table = {a: change(a) for a in node.atoms}
        if all(table[a] is a for a in table):
            return node
        terms: list[tuple[Monomial, int]] = []
        for monomial, times in node.terms:
            parts = [table[a] for a in monomial]
            if all(map(is_, parts, monomial)):
                terms.append((monomial, times))
                continue
            alone = sorted((a for a in parts if isinstance(a, Atom)), key=lambda a: a.key)
            made = Nat(((tuple(alone), times),))
            for part in parts:
                if isinstance(part, Nat):
                    made *= part
            terms += made.terms
        return _gathered(terms)
    new = map_children(node, change)
    if new is node:
        return node
    match new:
        case ToNat(expr=expr):
            return expr.as_nat()  # type: ignore[no-any-return]
        case Choice(condition=condition, then=then, otherwise=otherwise):
            return chosen(condition, then, otherwise)
        case Quotient(sign=sign, left=left, right=right):
            return divided(left, right) if sign == "/" else remainder(left, right)
    return new


def names_of(node: Node) -> frozenset[str]:
    """The natural variables in a node; cached on it."""
    known: frozenset[str] | None = node.__dict__.get("_nats")
    if known is None:
        below = node.atoms if isinstance(node, Nat) else children(node)
        own = {node.name} if isinstance(node, Named) else set[str]()
        known = node.__dict__["_nats"] = frozenset(own.union(*map(names_of, below)))
    return known
