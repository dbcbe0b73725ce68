"""Naturals as index arithmetic: places in flat memory, and lengths, without sums of lengths.

A sum has a closed form, or running sums that the host computes once, or a loop where it is needed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from openwork.algebra.operators import SELECT
from openwork.errors import PatternError
from openwork.loops.fresh import take_name
from openwork.program import nodes as p
from openwork.program.elements import converted
from openwork.program.expressions import Role, arithmetic, compare
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.algebra import closed, mentions, offsets_in, pieces_before, refined
from openwork.skeletons.language.nodes import ArrayType, Nat, nat
from openwork.skeletons.lower.context import Context
from openwork.skeletons.lower.lowered import TERM, Prefix
from openwork.skeletons.lower.memory import Path, size
from openwork.skeletons.lower.values import Code, Env, Number, View

# The arrays around a value: each with an index, and with the pairs around it.
Chain = list[tuple[ArrayType, Nat, Path]]


def place_of(low: Context, chain: Chain, path: Path) -> Nat:
    """Where in its buffer the element with these indices is."""
    if low.spelled == "nested":
        return n.atom(Code("@".join(f"({i})" if len(i.terms) > 1 else str(i)
                                    for _, i, _ in chain) or "0", p.Value(0)))  # fmt: skip
    place = nat(0)

    def adding(count: Nat, high: Nat, body: Callable[[Nat], Nat]) -> Nat:
        return total(low, count, high, body)

    for array, index, around in chain:
        rest = path[len(around) :]
        place += total(
            low,
            array.length,
            index,
            lambda k, a=array, rest=rest: size(a.at(k), rest, adding),  # type: ignore[misc]
        )
    return place


def total(
    low: Context, count: Nat, high: Nat, body: Callable[[Nat], Nat], computed: bool = False
) -> Nat:
    """The sum of `body(k)` for k below `high`, which is at most `count`, without a sum.

    `computed`: code is made of it, so that it cannot stay a part of an outer sum.
    """
    low.probing += 1
    try:
        var = f"{TERM}{low.probing}"
        one = body(n.named(var))
    finally:
        low.probing -= 1
    if not mentions(one, var):
        return one * high
    whole = n.sum_over(var, nat(0), high, one)
    if low.spelled == "sums":
        return whole
    if not (low.probing or low.spelled or computed):
        low.note("flat", f"what comes before {high} is {whole}")
    pieces = pieces_before(whole, within=high != count)
    if pieces is not None:
        low.note("sums", f"{whole} is {pieces}")
        return pieces
    if low.sums == "closed" or low.spelled in ("closed", "refined"):
        form = closed(whole)
        if not n.has_sums(form):
            return form if low.spelled == "closed" else _refined(low, whole, form)
    if low.probing and not computed:  # a part of an outer sum, which is removed as a whole
        return whole
    if low.sums != "loop" and not (depends(low, one, var) or depends(low, count)):
        return _prefix(low, cast(Nat, n.substituted(one, {var: n.named(TERM)})), count, high)
    return _looped(low, whole, high, lambda k: cast(Nat, n.substituted(one, {var: k})))


def _refined(low: Context, whole: Nat, form: Nat) -> Nat:
    """A closed form in which the first offset is 0."""
    begins = offsets_in(form)
    if not low.spelled:
        low.offsets |= begins
        low.note("sums", f"{whole} is {form}")
        if begins:
            told = ", ".join(f"{name}@0 is 0" for name in sorted(begins))
            low.note("refined", f"{told}, which each call checks")
    return refined(form, list(begins))


def depends(low: Context, value: Nat, var: str = "") -> bool:
    """Whether a natural depends on a loop of the program, apart from `var`."""
    known = {*low.signature.nats, var}
    return any(
        isinstance(a, Code)
        or (isinstance(a, n.Named) and a.name not in known and "'" not in a.name)
        for a in n.walk_all(value)
    )


def _prefix(low: Context, one: Nat, count: Nat, high: Nat) -> Nat:
    known = low.prefixes.get((one, count))
    if known is None:
        name = take_name(f"offsets{len(low.prefixes)}", low.taken)
        known = Prefix(p.Array(name, "int64", Role.NUMBER, name), one, count)
        low.prefixes[one, count] = known
        low.env = {**low.env, f"#{name}": _numbers(low, known.array, count + 1)}
        shown = n.substituted(one, {TERM: n.named("k")})
        of_lists = any(isinstance(a, n.ToNat) and one == n.atom(a) for a in one.atoms)
        low.note("sums", f"those of {shown} are computed once on the host, and kept: {name}"
                 + ", the offsets that CSR has" * of_lists)  # fmt: skip
    return n.atom(n.ToNat(n.At(n.Var(f"#{known.array.name}"), n.OfNat(high))))


def _numbers(low: Context, array: p.Array, length: Nat) -> View:
    return View(nat(0), length, lambda i: Number(p.Load(array, code(low, i))), length)


def _looped(low: Context, whole: Nat, high: Nat, body: Callable[[Nat], Nat]) -> Nat:
    """A sum that a loop computes where it is needed."""
    known = low.sums_here.get(whole)
    if known is not None:
        return known
    low.note("sums", f"{whole} is computed by a loop wherever it is needed")
    name, var = p.Name(low.fresh("before")), p.Name(low.fresh("k"))
    low.out.append(p.Declare(name, p.Value(0)))
    with low.block() as inner:
        index = low.variable(var)
        inner.append(p.Set(name, name + code(low, body(index))))
    low.out.append(p.For(var, p.Value(0), code(low, high), p.block(*inner)))
    low.sums_here[whole] = n.atom(Code(name.name, name))
    return low.sums_here[whole]


def code(low: Context, value: Nat) -> p.Expr:
    """A natural as index arithmetic."""
    if low.spelled:
        return (
            p.Name(str(value).replace("#", ""))
            if value.constant is None
            else p.Value(value.constant)
        )
    lone = value.terms
    if len(lone) == 1 and lone[0][1] == 1 and len(lone[0][0]) == 1:
        return _atom(low, lone[0][0][0])
    ordered = sorted(value.terms, key=lambda t: (t[1] < 0, not t[0], len(t[0]) == 1))
    done: p.Expr | None = None
    for monomial, times in ordered:
        part: p.Expr = p.Value(abs(times)) if not monomial or abs(times) != 1 else p.Value(1)
        factors = [converted(_atom(low, a), p.INDEX) for a in monomial]
        for factor in factors:
            part = arithmetic("*", factor, part)
        if done is None:
            done = part if times > 0 else arithmetic("-", p.Value(0), part)
        else:
            done = arithmetic("+" if times > 0 else "-", done, part)
    return p.Value(0) if done is None else done


def _atom(low: Context, a: n.Atom) -> p.Expr:
    match a:
        case Code(expr=expr):
            return expr
        case n.Named(name=name):
            # In a trial, of which only lengths and types matter, positions are mere names.
            return low.scalars.get(name) or p.Name(name) if low.trying else low.scalars[name]
        case n.ToNat(expr=expr):
            arrays = {v.name for v in n.walk_all(expr) if isinstance(v, n.Var)}
            for name in sorted(arrays.intersection(low.signature.params)):
                low.note("program", f"toNat is inlined: it reads {name} where it is needed")
            return low.computed(expr, low.env)
        case n.Choice(condition=condition, then=then, otherwise=otherwise):
            one, other = code(low, then), code(low, otherwise)
            if (condition.sign, condition.left, condition.right) == ("<=", then, otherwise):
                return arithmetic("min", one, other)
            left, right = code(low, condition.left), code(low, condition.right)
            test = compare(condition.sign, left, right)
            both = (converted(one, p.INDEX), converted(other, p.INDEX))
            return p.Apply(SELECT, (test, *both), p.INDEX)
        case n.Quotient(sign=sign, left=left, right=right):
            return arithmetic(sign, code(low, left), code(low, right))
        case n.Sum(low=first, high=last, var=var, body=body):

            def at(k: Nat) -> Nat:
                return cast(Nat, n.substituted(body, {var: k + first}))

            return code(low, total(low, last - first, last - first, at, computed=True))
    raise PatternError(f"{a} cannot be computed", code="E707")


def resolved(low: Context, value: Nat, env: Env) -> Nat:
    """A natural of an expression, whose `toNat` may read local variables."""
    table: dict[n.Node, n.Node] = {}
    for a in n.walk_all(value):
        if isinstance(a, n.ToNat):
            names = {v.name for v in n.walk_all(a.expr) if isinstance(v, n.Var)}
            if any(env.get(v) is not low.env.get(v) for v in names):
                table[a] = low.declared(low.computed(a.expr, env))
    if not table:
        return value

    def change(node: n.Node) -> n.Node:
        return table.get(node) or n.changed(node, change)

    return cast(Nat, change(value))
