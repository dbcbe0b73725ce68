"""Rewrite rules as data: each is a law of the patterns, with the condition under which it holds.

A program is pipelines: data, and functions that it goes through. A rule replaces a few functions
next to each other. Whatever a rule makes is checked again: a rewrite that changes the type of the
program, or breaks the nesting of units, is none.

    map(f) :>> map(g)             =>  map(f :>> g)
    map(f)                        =>  split(k) :>> map(map(f)) :>> join
    map(f) :>> split(k)          <=>  split(k) :>> map(map(f))
    map(map(f)) :>> transpose     =>  transpose :>> map(map(f))
    reduce(op, e)                 =>  split(k) :>> map(reduce(op, 1)) :>> reduce(op, e)
    reduce(op, e)                 =>  split(k) :>> transpose :>> map(reduce(op, 1)) :>> ...
    map(f) :>> reduce(op, e)      =>  reduceSeq(fun(a => fun(x => op(a, f(x)))), e)
    map(f)                        =>  mapThreads(f), mapWorkgroup(f), ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from openwork.frozen import frozen
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.nodes import Expr, Fn, Nat
from openwork.tree import Node

Fns = tuple[Fn, ...]


@frozen
class Rule:
    """`width` functions next to each other become others; `law` and `condition` say which.

    `becomes`: the functions in their place for a size of pieces, or None.
    """

    name: str
    law: str
    condition: str
    width: int
    becomes: Callable[[Fns, Nat], Fns | None]
    sized: bool = False


def _fused(fns: Fns, _: Nat) -> Fns | None:
    match fns:
        case n.Map(fn=f, how=one), n.Map(fn=g, how=other) if one == other:
            return (n.Map(n.composed(f, g), one),)
    return None


def _split_join(fns: Fns, size: Nat) -> Fns | None:
    match fns:
        case (n.Map(fn=f, how=""),):
            return n.Split(size), n.Map(n.Map(f)), n.Join()
    return None


def _split_first(fns: Fns, _: Nat) -> Fns | None:
    match fns:
        case n.Map(fn=f, how=how), n.Split() as split:
            return split, n.Map(n.Map(f, how))
    return None


def _map_first(fns: Fns, _: Nat) -> Fns | None:
    match fns:
        case n.Split() as split, n.Map(fn=n.Map(fn=f, how=how), how=""):
            return n.Map(f, how), split
    return None


def _transpose_first(fns: Fns, _: Nat) -> Fns | None:
    match fns:
        case n.Map(fn=n.Map(fn=f, how=inner), how=outer), n.Transpose() if inner == outer:
            return n.Transpose(), n.Map(n.Map(f, inner), outer)
    return None


def identity_of(fn: Fn) -> Expr | None:
    """The identity of an operator that may be combined in any order, as a number."""
    match fn:
        case n.Operator(op=op) if op.associates and op.commutes and op.identity is not None:
            return n.Literal(op.identity)
    return None


def _partial(fns: Fns, size: Nat) -> Fns | None:
    match fns:
        case (n.Reduce(fn=fn, how="") as whole,):
            one = identity_of(fn)
            if one is not None:
                return n.Split(size), n.Map(n.Reduce(fn, one)), whole
    return None


def _strided(fns: Fns, size: Nat) -> Fns | None:
    match fns:
        case (n.Reduce(fn=fn, how="") as whole,):
            one = identity_of(fn)
            if one is not None:
                return n.Split(size), n.Transpose(), n.Map(n.Reduce(fn, one)), whole
    return None


def _fold(fns: Fns, _: Nat) -> Fns | None:
    match fns:
        case n.Map(fn=f, how="" | "Seq"), n.Reduce(fn=n.Operator(op=op), init=init) if (
            op.arity == 2
        ):
            value = n.Call(f, n.Var("x#0"))
            body = n.Apply(op, (n.Var("a#0"), value))
            return (n.Reduce(n.Fun("a#0", n.Fun("x#0", body)), init, "Seq"),)
    return None


def _split_then_join(fns: Fns, _: Nat) -> Fns | None:
    match fns:
        case n.Split(), n.Join():
            return ()
    return None


def _promoted(how: str) -> Callable[[Fns, Nat], Fns | None]:
    def becomes(fns: Fns, _: Nat) -> Fns | None:
        match fns:
            case (n.Map(fn=f, how=""),):
                return (n.Map(f, how),)
        return None

    return becomes


UNITS = ("Threads", "Vector", "Seq", "Global", "Workgroup", "Local", "Warp", "Lane")
RULES: tuple[Rule, ...] = (
    Rule("map fusion", "map(f) :>> map(g) => map(f :>> g)", "both maps run on one unit", 2, _fused),
    Rule(
        "split-join", "map(f) => split(k) :>> map(map(f)) :>> join",
        "the type of the result stays the same", 1, _split_join, sized=True,
    ),
    Rule(
        "split before map", "map(f) :>> split(k) => split(k) :>> map(map(f))", "always", 2,
        _split_first,
    ),
    Rule(
        "map before split", "split(k) :>> map(map(f)) => map(f) :>> split(k)", "always", 2,
        _map_first,
    ),
    Rule(
        "transpose before map", "map(map(f)) :>> transpose => transpose :>> map(map(f))",
        "both maps run on one unit", 2, _transpose_first,
    ),
    Rule(
        "partial reduce", "reduce(op, e) => split(k) :>> map(reduce(op, 1)) :>> reduce(op, e)",
        "op is associative and commutative, with the identity 1", 1, _partial, sized=True,
    ),
    Rule(
        "strided reduce",
        "reduce(op, e) => split(k) :>> transpose :>> map(reduce(op, 1)) :>> reduce(op, e)",
        "op is associative and commutative, with the identity 1", 1, _strided, sized=True,
    ),
    Rule(
        "fold", "map(f) :>> reduce(op, e) => reduceSeq(fun(a => fun(x => op(a, f(x)))), e)",
        "the map is not parallel", 2, _fold,
    ),
    Rule("split and join", "split(k) :>> join => nothing", "always", 2, _split_then_join),
    *(
        Rule(f"map{how}", f"map(f) => map{how}(f)", "the units around nest so", 1, _promoted(how))
        for how in UNITS
    ),
)  # fmt: skip


def rewritten(node: Node, rule: Rule, size: Nat) -> Iterator[tuple[Fns, Fns, Node]]:
    """Everywhere that a rule applies: what it replaces, by what, and the whole afterwards."""
    chain, wrap = _pipeline(node)
    for at in range(len(chain) - rule.width + 1):
        old = chain[at : at + rule.width]
        new = rule.becomes(old, size)
        if new is not None:
            yield old, new, wrap((*chain[:at], *new, *chain[at + rule.width :]))
    for at, fn in enumerate(chain):
        for old, new, inner in _below(fn, rule, size):
            yield old, new, wrap((*chain[:at], inner, *chain[at + 1 :]))  # type: ignore[arg-type]
    source = _source(node)
    if source is not None and chain:
        for old, new, inner in rewritten(source, rule, size):
            yield old, new, n.piped(inner, *chain)  # type: ignore[arg-type]
    elif source is not None:
        yield from _below(source, rule, size)


def _below(node: Node, rule: Rule, size: Nat) -> Iterator[tuple[Fns, Fns, Node]]:
    """The same for what is inside a node, apart from its own pipeline."""
    for name in ("fn", "body", "init", "first", "second", "array", "index", "pair", "expr"):
        child = getattr(node, name, None)
        if isinstance(child, Expr | Fn):
            for old, new, inner in rewritten(child, rule, size):
                yield old, new, replace(node, **{name: inner})  # type: ignore[type-var]
    args: tuple[Node, ...] = getattr(node, "args", ())
    for k, child in enumerate(args):
        for old, new, inner in rewritten(child, rule, size):
            yield old, new, replace(node, args=(*args[:k], inner, *args[k + 1 :]))  # type: ignore[type-var]


def _pipeline(node: Node) -> tuple[Fns, Callable[[Sequence[Fn]], Node]]:
    """The functions of a pipeline, and what makes a node of others."""
    if isinstance(node, Fn):
        fns = node.fns if isinstance(node, n.Compose) else (node,)
        return fns, lambda made: n.composed(*made) if made else n.Fun("x#0", n.Var("x#0"))
    source, chain = node, list[Fn]()
    while isinstance(source, n.Call):
        chain.insert(0, source.fn)
        source = source.arg
    return tuple(chain), lambda made: n.piped(source, *made)  # type: ignore[arg-type]


def _source(node: Node) -> Node | None:
    if isinstance(node, Fn):
        return None
    while isinstance(node, n.Call):
        node = node.arg
    return node


# -- the default for a GPU ----------------------------------------------------------------------

ROWS_PER_WORKGROUP, LANES, THREADS = 8, 32, 256


def has_units(body: Expr) -> bool:
    """Whether some map is parallel already."""
    return any(isinstance(f, n.Map) and f.how not in ("", "Seq") for f in n.walk_all(body))


def for_gpu(body: Expr) -> Expr:
    """A program without units for a GPU: a warp for each row with a sum, else a thread for each
    element; sums of everything by the threads of one block."""
    if has_units(body):
        return body
    chain, wrap = _pipeline(body)
    done: list[Fn] = []
    for fn in chain:
        mapped = any(isinstance(f, n.Map) and f.how for f in done)
        match fn:
            case n.Map(fn=f, how="") if not mapped and _is_last_map(chain, fn):
                lanes = _in_lanes(f)
                if lanes == f:
                    done.append(n.Map(f, "Global"))
                else:
                    rows = n.Map(n.Map(lanes, "Warp"), "Workgroup")
                    done += [n.Split(n.nat(ROWS_PER_WORKGROUP)), rows, n.Join()]
            case n.Reduce() if fn is chain[-1]:
                found = _strided((fn,), n.nat(THREADS))
                done += [fn] if found is None else _on(found, "Local")
            case _:
                done.append(fn)
    made = wrap(done)
    return made if isinstance(made, Expr) else body


def _is_last_map(chain: Fns, fn: Fn) -> bool:
    """Whether only joins and the like follow a map, so that its loop is the outermost."""
    after = chain[chain.index(fn) + 1 :]
    return not any(isinstance(f, n.Map | n.Reduce | n.Split | n.Transpose | n.Slide) for f in after)


def _on(fns: Fns, how: str) -> list[Fn]:
    return [n.Map(f.fn, how) if isinstance(f, n.Map) else f for f in fns]


def _in_lanes(f: Fn) -> Fn:
    """The function of a row, whose outermost sums are taken by the lanes of a warp."""
    match f:
        case n.Reduce():
            found = _strided((f,), n.nat(LANES))
            return f if found is None else n.composed(*_on(found, "Lane"))
        case n.Compose(fns=fns):
            return n.composed(*fns[:-1], _in_lanes(fns[-1]))
        case n.Fun(body=n.Call(fn=fn, arg=arg)):
            inner = _in_lanes(fn)
            return f if inner == fn else replace(f, body=n.piped(arg, inner))
    return f
