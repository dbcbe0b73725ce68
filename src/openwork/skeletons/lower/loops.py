"""Loops over the elements of a view, each by its unit."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from openwork.errors import PatternError
from openwork.program import nodes as p
from openwork.program.expressions import compare
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.nodes import Nat, nat
from openwork.skeletons.lower.context import Context
from openwork.skeletons.lower.naturals import code, total
from openwork.skeletons.lower.units import BY_THREADS, unit_of
from openwork.skeletons.lower.values import Number, Value, View

POLLS = 512  # iterations between two looks at the flag of Ctrl-C


def each(
    low: Context, view: View, body: Callable[[Nat, Value], None],
    reductions: tuple[p.Reduction, ...] | None = None, indexed: bool = True,
) -> None:  # fmt: skip
    """A loop over the elements of a view; `body` gets the index and the element."""
    if view.outer is not None:
        return _each_of_joined(low, view.outer, body, reductions, indexed)
    if view.step != nat(1) and (indexed or not low.gpu):  # C counts in steps of one
        view = view.from_zero()
    how = view.how
    if low.gpu and low.unitless and reductions is None and not (how or low.inside):
        how = "Global"  # `generate`, which no rule promotes
    in_order = reductions == ()
    if in_order and how not in ("", "Seq"):
        raise PatternError(
            f"map{how} computes elements in parallel, and the reduction takes them in order",
            code="E708", hint="reduce with an operator that has an identity, or mapSeq",
        )  # fmt: skip
    if how == "Global" and low.gpu:
        return _each_of_grid(low, view, body, reductions or ())
    var = p.Name(low.fresh("i"))
    if low.free and not (how or low.gpu or low.inside or in_order):
        how = "Threads"
    by = unit_of(how, view.length, low.inside, low.gpu, bool(reductions))
    spans, inside = low.spans, low.inside
    low.spans, low.inside, first = [], (*low.inside, how or "Seq"), len(low.notes)
    with low.block() as inner:
        place = low.variable(var)
        body(view.index(place), view.at(place))
    mine, low.spans, low.inside = low.spans, [*spans, (view.begin, view.end)], inside
    if isinstance(by, p.Threads):
        by = _balanced(low, by, mine, var.name)
    nested = any(isinstance(s, (p.For, p.While, p.If)) for s in inner)
    alone = how in ("", "Vector") or (how == "Threads" and bool(reductions))
    simd = alone and not (nested or in_order or low.gpu)
    if reductions is None or (not simd and by is None):
        reductions = ()
    polls = POLLS if how == "Threads" and not simd else 0
    step = None if view.step == nat(1) else code(low, view.step)
    told = _told(by, simd)
    if told:
        low.note("loops", f"{view.length} elements by {told}", first)
    unroll = 2 if low.gpu and inside[-1:] in (("Lane",), ("Local",)) and not nested else 0
    low.out.append(
        p.For(
            var, code(low, view.begin), code(low, view.end), p.block(*inner), by=by,
            simd=simd, polls=polls, reductions=reductions, step=step, unroll=unroll,
        )
    )  # fmt: skip


def _told(by: p.Threads | p.Unit | None, simd: bool) -> str:
    """Who executes a loop; "" for one iteration after the other."""
    match by:
        case p.Threads(balance=balance):
            return "threads" + (", which take equal work" if balance is not None else "")
        case p.Unit(kind=name, group=group):
            return f"{name}s" + (f", and their results by groups of {group}" if group else "")
    return "vectors" if simd else ""


def _balanced(low: Context, by: p.Threads, spans: Iterable[tuple[Nat, Nat]], var: str) -> p.Threads:
    """Threads take equal work, if the loop inside runs from one offset to the next."""
    for begin, _ in spans:
        match begin.terms:
            case (((n.ToNat(expr=n.At(array=n.Var(name=name), index=n.OfNat(nat=index))),), 1),):
                view = low.env[name]
                if index == n.named(var) and isinstance(view, View):
                    with low.trial():
                        load = cast(p.Load, cast(Number, view.get(index)).expr)
                    if load.index == p.Name(var):
                        return p.Threads(p.Balance(load.array))
    return by


def _each_of_joined(
    low: Context, outer: View, body: Callable[[Nat, Value], None],
    reductions: tuple[p.Reduction, ...] | None, indexed: bool,
) -> None:  # fmt: skip
    def length(k: Nat) -> Nat:
        with low.trial():
            return cast(View, outer.get(k)).length

    def rows(o: Nat, row: Value) -> None:
        before = total(low, outer.length, o, length) if indexed else nat(0)
        each(low, cast(View, row), lambda k, value: body(before + k, value), reductions, indexed)

    each(low, outer, rows, reductions, indexed)


def _each_of_grid(
    low: Context, view: View, body: Callable[[Nat, Value], None],
    reductions: tuple[p.Reduction, ...],
) -> None:  # fmt: skip
    """A thread of the whole grid for each element; the threads of a block combine their sums."""
    per = nat(BY_THREADS)
    view = view.from_zero()
    block, thread = p.Name(low.fresh("b")), p.Name(low.fresh("t"))
    low.inside, inside = (*low.inside, "Global"), low.inside
    with low.block() as inner:
        number = code(low, low.variable(block) * per + low.variable(thread))
        name = p.Name(low.fresh("i"))
        inner.append(p.Declare(name, number, fixed=True))
        index = low.variable(name)
        with low.block() as guarded:
            body(index, view.at(index))
        there = compare("<", code(low, index), code(low, view.length))
        inner.append(p.If(there, p.block(*guarded)))
    low.inside = inside
    unit_of("Workgroup", view.length, inside, low.gpu, False)
    threads = p.For(
        thread, p.Value(0), p.Value(BY_THREADS), p.block(*inner),
        by=p.Unit("thread", most=BY_THREADS), reductions=reductions,
    )  # fmt: skip
    count = code(low, n.divided(view.length + per - 1, per))
    low.note("loops", f"{view.length} elements by blocks of {BY_THREADS} threads")
    low.out.append(p.For(block, p.Value(0), count, p.block(threads), by=p.Unit("block")))
