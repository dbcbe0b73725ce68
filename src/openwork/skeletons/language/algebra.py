"""The algebra of naturals: closed forms of sums, the refinement of offsets, and what can be proved.

A sum telescopes where its terms come in pairs `f(i+1) - f(i)`; constant, linear, quadratic and
cubic terms have the well-known formulas; the lengths of the pieces of a split add up to what was
split. What is left stays a sum, each of one term.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from openwork.skeletons.language.nodes import (
    At,
    Atom,
    Choice,
    Monomial,
    Named,
    Nat,
    OfNat,
    Quotient,
    Sum,
    ToNat,
    Var,
    atom,
    changed,
    divided,
    has_sums,
    lesser,
    names_of,
    nat,
    substituted,
    sum_over,
    walk_all,
)
from openwork.tree import Node


def mentions(node: Node, name: str) -> bool:
    """Whether a natural variable occurs in a node."""
    return name in names_of(node)


def closed(value: Nat) -> Nat:
    """A natural whose sums have closed forms, as far as there are any."""
    return _closed(value) if has_sums(value) else value


@lru_cache(maxsize=4096)
def _closed(value: Nat) -> Nat:
    def change(node: Node) -> Node:
        new = changed(node, change)
        if isinstance(new, Sum):
            return closed_sum(new)
        return new

    done = change(value)
    assert isinstance(done, Nat)  # noqa: S101 - naturals become naturals
    return done


def closed_sum(s: Sum) -> Nat:
    """The closed form of one sum."""
    known = _pieces(s)
    if known is not None:
        return known
    total, left = nat(0), dict[Monomial, int]()
    for monomial, times in s.body.terms:
        inner = tuple(a for a in monomial if mentions(a, s.var))
        free = Nat(((tuple(a for a in monomial if a not in inner), times),))
        if all(a == Named(s.var) for a in inner) and len(inner) < len(_POWERS):
            form = _POWERS[len(inner)]
            total += free * (form(s.high) - form(s.low))
        else:
            left[monomial] = times
    total += _telescoped(s, left)
    for monomial, times in left.items():
        inner = tuple(a for a in monomial if mentions(a, s.var))
        free = Nat(((tuple(a for a in monomial if a not in inner), times),))
        body = Nat(((inner, 1),))
        total += free * sum_over(s.var, s.low, s.high, body)
    return total


def _at(value: Nat, var: str, index: Nat) -> Nat:
    made = substituted(value, {var: index})
    assert isinstance(made, Nat)  # noqa: S101 - naturals become naturals
    return made


_POWERS = (
    lambda n: n,
    lambda n: divided(n * n - n, nat(2)),
    lambda n: divided(n * (n - 1) * (2 * n - 1), nat(6)),
    lambda n: divided(n * n * (n - 1) * (n - 1), nat(4)),
)


def _telescoped(s: Sum, left: dict[Monomial, int]) -> Nat:
    """Pairs `f(i+1) - f(i)` of the terms in `left`, which are taken out: `f(high) - f(low)`."""
    total = nat(0)
    for monomial in list(left):
        here = Nat(((monomial, 1),))
        after = _at(here, s.var, atom(Named(s.var)) + 1)
        if len(after.terms) != 1 or after.terms[0][1] != 1:
            continue
        other = after.terms[0][0]
        if other not in left or monomial not in left or left[other] * left[monomial] >= 0:
            continue
        sign = 1 if left[other] > 0 else -1
        times = sign * min(abs(left[other]), abs(left[monomial]))
        total += (_at(here, s.var, s.high) - _at(here, s.var, s.low)) * times
        for each, change in ((other, -times), (monomial, times)):
            left[each] += change
            if not left[each]:
                del left[each]
    return total


def pieces_before(value: Nat, within: bool) -> Nat | None:
    """A sum of the lengths of the pieces of a split, if this is one: what lies before a piece.

    `within`: there is such a piece, so that all before it are whole.
    """
    match value.terms:
        case (((Sum() as s,), 1),):
            return _pieces(s, within)
    return None


def _pieces(s: Sum, within: bool = False) -> Nat | None:
    match s.body.terms:
        case (((Choice(condition=c, then=size, otherwise=rest),), 1),):
            whole = rest + size * atom(Named(s.var))
            if c.sign != "<=" or (c.left, c.right) != (size, rest) or mentions(whole, s.var):
                return None
            if s.low.terms or mentions(size, s.var):
                return None
            if s.high == divided(whole + size - 1, size):
                return whole
            return s.high * size if within else lesser(s.high * size, whole)
    return None


def refined(value: Nat, offsets: Sequence[str]) -> Nat:
    """A natural without the first element of arrays of `offsets`, which is 0."""

    def change(node: Node) -> Node:
        match node:
            case ToNat(expr=At(array=Var(name=name), index=OfNat(nat=index))) if (
                name in offsets and not index.terms
            ):
                return nat(0)
        return changed(node, change)

    done = change(value)
    assert isinstance(done, Nat)  # noqa: S101 - naturals become naturals
    return done


def offsets_in(value: Nat) -> set[str]:
    """The arrays whose first element occurs in a natural: assumed to be 0."""
    return {
        n.expr.array.name
        for n in walk_all(value)
        if isinstance(n, ToNat)
        and isinstance(n.expr, At)
        and isinstance(n.expr.array, Var)
        and n.expr.index == OfNat(nat(0))
    }


def proves(
    low: Nat, high: Nat, bounds: Mapping[str, Nat], facts: Sequence[Nat] = (), tries: int = 12
) -> bool:
    """Whether `low <= high` holds, where variables are naturals, those of `bounds` below these.

    `facts`: what is known not to be negative. Nothing is known of `toNat`, which reads data.
    """
    if has_sums(high) and _adds_up(high - low, bounds, facts, tries):
        return True  # whose closed form may have differences
    apart = closed(high - low)
    if any(_adds_up(apart - given, bounds, facts, tries) for given in (nat(0), *facts)):
        return True
    if not tries:
        return False
    for a in apart.atoms:
        if isinstance(a, Choice):
            return all(
                proves(nat(0), _for(apart, a, value), bounds, (*facts, fact), tries - 1)
                for value, fact in _cases(a)
            )
    for a in apart.atoms:
        if isinstance(a, Quotient):
            less = _without_quotient(apart, a, bounds, facts, tries)
            if any(proves(nat(0), each, bounds, facts, tries - 1) for each in less):
                return True
    for name, bound in reversed(list(bounds.items())):  # inner ones first: others bound them
        mine = [(m, times > 0) for m, times in apart.terms if Named(name) in m]
        others = {a for m, _ in mine for a in m} - {Named(name)}
        inside = any(mentions(a, name) and a != Named(name) for a in apart.atoms)
        signs = {sign for _, sign in mine}
        if inside or len(signs) != 1:
            continue  # neither rising nor falling, as far as one can tell
        if not all(_is_natural(a, bounds, facts, tries) for a in others):
            continue
        worst = nat(0) if signs == {True} else bound - 1
        return proves(nat(0), _at(apart, name, worst), bounds, facts, tries - 1)
    return False


def _without_quotient(
    value: Nat, q: Quotient, bounds: Mapping[str, Nat], facts: Sequence[Nat], tries: int
) -> list[Nat]:
    """Naturals without a quotient that is taken away: if one is not negative, `value` is not.

    What is divided by is positive, which is proved elsewhere, or checked.

        l % r <= r - 1, and l % r <= l
        l / r <= l, and c * (l / r) <= x if c * l <= r * x
        l / r <= x  <=>  l <= r * x + r - 1
    """
    taken = [(m, times) for m, times in value.terms if q in m]
    others = {a for m, _ in taken for a in m} - {q}
    if any(times > 0 or m.count(q) > 1 for m, times in taken):
        return []
    if not all(_is_natural(a, bounds, facts, tries) for a in others):
        return []
    if not proves(nat(0), q.left, bounds, facts, tries - 1):
        return [_for(value, q, q.right - 1)] if q.sign == "%" else []
    if q.sign == "%":
        return [_for(value, q, q.right - 1), _for(value, q, q.left)]
    less = [_for(value, q, q.left)]
    if len(taken) == 1 and not others:
        (_, times), *_ = taken
        room = q.right * (value - atom(q) * times) + q.left * times
        less.append(room + q.right - 1 if times == -1 else room)
    return less


def _adds_up(value: Nat, bounds: Mapping[str, Nat], facts: Sequence[Nat], tries: int) -> bool:
    """Whether a polynomial only adds what is not negative."""
    return all(times >= 0 for _, times in value.terms) and all(
        _is_natural(a, bounds, facts, tries) for a in value.atoms
    )


def _is_natural(a: Atom, bounds: Mapping[str, Nat], facts: Sequence[Nat], tries: int) -> bool:
    """Whether an atom is never negative; users write differences, and these may be."""
    if isinstance(a, Named):
        return True
    if not tries:
        return False

    def natural(value: Nat, *more: Nat) -> bool:
        return proves(nat(0), value, bounds, (*facts, *more), tries - 1)

    match a:
        case Choice():
            return all(natural(value, fact) for value, fact in _cases(a))
        case Quotient(left=left, right=right):
            return natural(right) and natural(left, right - 1)
        case Sum(var=var, low=low, high=high, body=body):
            inner = {**bounds, var: high}
            return (
                natural(low)
                and proves(low, high, bounds, facts, tries - 1)
                and proves(nat(0), body, inner, facts, tries - 1)
            )
    return False


def falling_sum(value: Nat, bounds: Mapping[str, Nat], facts: Sequence[Nat] = ()) -> Sum | None:
    """A sum in a natural of which nothing proves that it goes up: `0 <= low <= high`.

    Closed forms are those of such sums: for others they would be less than no terms.
    """

    def within(part: Nat, *more: Nat, **inner: Nat) -> Sum | None:
        return falling_sum(part, {**bounds, **inner}, (*facts, *more))

    for a in value.atoms:
        found = None
        match a:
            case Sum(var=var, low=low, high=high, body=body):
                if not (proves(nat(0), low, bounds, facts) and proves(low, high, bounds, facts)):
                    return a
                mine = atom(Named(var))
                found = within(low) or within(high) or within(body, mine - low, **{var: high})
            case Choice(condition=c, then=then, otherwise=otherwise):
                (_, holds), (_, fails) = _cases(a)
                found = within(c.left) or within(c.right)
                found = found or within(then, holds) or within(otherwise, fails)
            case Quotient(left=left, right=right):
                found = within(left) or within(right)
            case ToNat(expr=expr):
                inside = (part for part in walk_all(expr) if isinstance(part, Nat))
                found = next(filter(None, map(within, inside)), None)
        if found is not None:
            return found
    return None


def _cases(a: Choice) -> tuple[tuple[Nat, Nat], tuple[Nat, Nat]]:
    """What a choice may be, each with what is not negative then."""
    gap = a.condition.right - a.condition.left
    if a.condition.sign == "==":
        return (a.then, nat(0)), (a.otherwise, nat(0))
    strict = 1 if a.condition.sign == "<" else 0
    return (a.then, gap - strict), (a.otherwise, gap * -1 - (1 - strict))


def _for(value: Nat, old: Atom, new: Nat) -> Nat:
    total = nat(0)
    for monomial, times in value.terms:
        made = nat(times)
        for a in monomial:
            made *= new if a == old else atom(a)
        total += made
    return total


def difference(one: Nat, other: Nat) -> Nat:
    """What tells two lengths apart, after simplification; 0 if they are equal."""
    return closed(one - other)
