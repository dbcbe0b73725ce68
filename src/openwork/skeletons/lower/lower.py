"""From patterns to loops: arrays are views, and loops are made where a result is needed.

A result is written element by element, a reduction adds up element by element; both ask a view for
its loop. Everything between the data and there is arithmetic on places.
"""

from __future__ import annotations

from typing import cast

from openwork.algebra.operators import Op
from openwork.algebra.types import SUPPORTED, Kind, number
from openwork.errors import PatternError
from openwork.program import nodes as p
from openwork.program.contract import BROKEN_BOUND
from openwork.program.elements import converted
from openwork.program.expressions import compare
from openwork.program.show import show_expr
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.algebra import closed, mentions
from openwork.skeletons.language.check import pieces_of
from openwork.skeletons.language.nodes import (
    Expr,
    Fn,
    Nat,
    Scalar,
    Signature,
    Type,
    nat,
)
from openwork.skeletons.lower.arrays import Split, slid, split
from openwork.skeletons.lower.context import Context
from openwork.skeletons.lower.lowered import STAGES, TERM, InRange, Lowered
from openwork.skeletons.lower.memory import Buffer, buffers_of
from openwork.skeletons.lower.naturals import code, depends, resolved
from openwork.skeletons.lower.read import read
from openwork.skeletons.lower.reduce import reduced
from openwork.skeletons.lower.values import (
    WEAK,
    Code,
    Env,
    Late,
    Number,
    Two,
    Value,
    View,
    numbers_in,
    type_of,
    zipped,
)
from openwork.skeletons.lower.write import write
from openwork.tree import Node, bottom_up, replace


class Lowering:
    """Lowers one program.

    Args:
        signature: the program.
        result: its type.
        sums: how sums of lengths are removed.
        gpu: for which units.
        spelled: naturals as text, to show a stage: see `Context`.
    """

    def __init__(
        self, signature: Signature, result: Type, sums: str = "closed", gpu: bool = False,
        spelled: str = "",
    ) -> None:  # fmt: skip
        def computed(e: Expr, env: Env) -> p.Expr:
            return self.number(self.expr(e, env)).expr

        self.result = result
        units = {f.how for f in n.walk_all(signature.body) if isinstance(f, n.Map)}
        free, unitless = "Threads" not in units, units <= {"", "Seq"}
        self.context = Context(signature, computed, sums, gpu, spelled, free, unitless)

    def lowered(self) -> Lowered:
        """The whole program."""
        low, s = self.context, self.context.signature
        low.taken |= {*s.nats, *s.params}  # so that no loop is called like a natural
        sizes = tuple(p.Name(low.fresh(f"n{k}_size")) for k in range(len(s.nats)))
        low.scalars = dict(zip(s.nats, sizes, strict=True))
        inputs: list[Buffer] = []
        for k, (name, type) in enumerate(zip(s.params, s.types, strict=True)):
            mine = list(buffers_of(name if low.spelled else f"a{k}", name, type))
            inputs += mine
            for b in mine:
                low.loads |= {f.array: (b, place) for place, f in b.fields.items()}
        table = {(b.owner, b.path): b for b in inputs}
        low.env = {
            name: read(low, type, [], (), lambda path, name=name: table[name, path])  # type: ignore[misc]
            for name, type in zip(s.params, s.types, strict=True)
        }
        outputs = list(buffers_of("r", "", self.result))
        places = {b.path: b for b in outputs}
        value = self.expr(s.body, low.env)
        write(self, value, self.result, [], (), places)
        told = sorted(low.notes, key=lambda note: STAGES.index(note[0]))
        notes = [f"{stage}: {text}" for stage, text in told]
        body = p.block(*low.out)
        if low.gpu and low.guarded:
            body = cast(p.Block, bottom_up(_rest_in_else)(body))
        return Lowered(
            body, sizes, inputs, outputs, list(low.prefixes.values()),
            low.offsets, low.indices, notes, low.guarded,
        )  # fmt: skip

    # -- expressions ----------------------------------------------------------------------------

    def number(self, value: Value) -> Number:
        """A value as a number; a reduction is computed here."""
        if isinstance(value, Late):
            value = reduced(self, value)
        assert isinstance(value, Number)  # noqa: S101 - the checker knows
        return value

    def pair(self, value: Value) -> Two:
        """A value as a pair."""
        if isinstance(value, Late):
            value = reduced(self, value)
        assert isinstance(value, Two)  # noqa: S101 - the checker knows
        return value

    def expr(self, e: Expr, env: Env) -> Value:
        """The value of an expression."""
        match e:
            case n.Var(name=name):
                return env[name] if name in env else self.context.env[name]
            case n.Literal(value=value, type=type):
                if type:
                    return Number(p.Value(number(value, SUPPORTED[type]), type))
                kind = WEAK[type_of(value)]
                return Number(p.Value(value, kind), weak=not isinstance(value, bool))
            case n.OfNat(nat=value):
                made = code(self.context, resolved(self.context, value, env))
                return Number(converted(made, p.INDEX), weak=True)
            case n.Pair(first=first, second=second):
                return Two(self.expr(first, env), self.expr(second, env))
            case n.Part(pair=pair, which=which):
                both = self.pair(self.expr(pair, env))
                return both.first if which == 1 else both.second
            case n.Apply(op=op, args=args):
                return self.applied(op, [self.number(self.expr(a, env)) for a in args])
            case n.At(array=array, index=index):
                return self._at(cast(View, self.expr(array, env)), index, env)
            case n.Zip(first=first, second=second):
                one, other = self.expr(first, env), self.expr(second, env)
                return zipped(cast(View, one), cast(View, other))
            case n.Generate(length=length, fn=inner):
                each, count = inner, resolved(self.context, length, env)
                return View(nat(0), count, lambda i: self._generated(each, i, env), count)
            case n.Noted(expr=inner, type=type):
                return self._noted(self.expr(inner, env), type)
            case n.Call(fn=fn, arg=arg):
                return self.called(fn, self.expr(arg, env), env)
        raise PatternError(f"{e} cannot be compiled", code="E710")

    def _noted(self, value: Value, type: Type) -> Value:
        if isinstance(type, Scalar):
            return Number(converted(self.number(value).expr, type.name))
        return value

    def _generated(self, fn: n.NFun, i: Nat, env: Env) -> Value:
        return self.expr(cast(Expr, n.substituted(fn.body, {fn.param: i})), env)

    def applied(self, op: Op, args: list[Number]) -> Number:
        """A scalar operator."""
        kinds: list[Kind] = [
            (float if a.expr.type.startswith("float") else int)
            if a.weak
            else SUPPORTED[a.expr.type]
            for a in args
        ]
        weak = all(a.weak for a in args)
        if weak:
            kinds = [SUPPORTED[a.expr.type] for a in args]
        exprs = tuple(
            converted(a.expr, op.argument_type(kinds, k).name) for k, a in enumerate(args)
        )
        result = op.result(kinds).name
        return Number(p.Apply(op, exprs, result), weak=weak and result != "bool")

    def _at(self, view: View, index: Expr, env: Env) -> Value:
        if n.is_natural(index):
            return self._element(view, resolved(self.context, n.to_nat(index), env))
        found = self.number(self.expr(index, env)).expr
        at = self.context.declared(found) if not self.context.spelled else Code(
            show_expr(found), found
        )  # fmt: skip
        if self.context.spelled == "nested" and isinstance(found, p.Name) and "@" in found.name:
            pass  # data, which is checked before the call
        elif (
            isinstance(found, p.Load)
            and found.array in self.context.loads
            and not depends(self.context, view.length)
        ):
            buffer, place = self.context.loads[found.array]
            fact = InRange(buffer.name, buffer.owner, place, view.length)
            if fact not in self.context.indices:
                self.context.indices.append(fact)
        else:
            self._guard(at, view.length)
        return self._element(view, n.atom(at))

    def _guard(self, at: Code, length: Nat) -> None:
        """Stop the kernel where a computed index is out of range; a GPU skips what follows."""
        self.context.guarded = True
        low = compare("<", at.expr, p.Value(0))
        high = compare("<=", code(self.context, length), at.expr)
        stop = p.block(p.Fail(BROKEN_BOUND, goes_on=self.context.gpu))
        self.context.out.append(p.If(compare("||", low, high), stop))

    def _element(self, view: View, index: Nat) -> Value:
        if view.outer is None:
            return view.get(index)
        outer = view.outer
        with self.context.trial():
            row = cast(View, outer.get(n.named(TERM)))
        size = row.length
        pieces = pieces_of(closed(size), TERM) if mentions(size, TERM) else None
        if pieces is not None:
            size, _ = pieces  # of a split: all but the last are as long
        elif mentions(size, TERM):
            raise PatternError(
                "an element of joined rows of different lengths cannot be found by its index",
                code="E710",
                hint="index the rows before they are joined",
            )
        inner = cast(View, outer.get(n.divided(index, size)))
        return inner.get(n.remainder(index, size))

    # -- functions ------------------------------------------------------------------------------

    def called(self, fn: Fn, value: Value, env: Env) -> Value:
        """A function applied to a value."""
        match fn:
            case n.Fun(param=param, body=body):
                return self.expr(cast(Expr, body), {**env, param: self.bound(value)})
            case n.Operator(op=op):
                if op.arity == 2:
                    both = self.pair(value)
                    return self.applied(op, [self.number(both.first), self.number(both.second)])
                return self.applied(op, [self.number(value)])
            case n.Compose(fns=fns):
                for each in fns:
                    value = self.called(each, value, env)
                return value
        view = cast(View, value)
        match fn:
            case n.Map(fn=inner, how=how):
                return view.mapped(lambda element: self.called(inner, element, env), how)
            case n.Reduce(fn=inner, init=init, how=how):
                return Late(inner, self.expr(init, env), view, how, env)
            case n.Split(size=piece):
                return split(view, resolved(self.context, piece, env))
            case n.Join():
                return self._join(view)
            case n.Transpose():
                return self._transpose(view)
            case n.Slide(size=window, step=step):
                return slid(view, window, step)
        raise PatternError(f"{fn} cannot be compiled", code="E710")

    def bound(self, value: Value) -> Value:
        """A value that has a name: it is computed once."""
        match value:
            case Late():
                return reduced(self, value)
            case Two(first=first, second=second):
                return Two(self.bound(first), self.bound(second))
            case Number(expr=p.Apply() | p.Convert() as expr) if not self.context.spelled:
                name = p.Name(self.context.fresh("v"), expr.type)
                self.context.out.append(p.Declare(name, expr, fixed=True))
                return Number(name, value.weak)
        return value

    def _join(self, view: View) -> Value:
        if isinstance(view, Split) and not view.how:
            return cast(View, view.base)  # pieces after one another are the whole

        def length(k: Nat) -> Nat:
            with self.context.trial():
                return cast(View, view.get(k)).length

        whole = closed(n.summed(nat(0), view.length, length))
        made = View(nat(0), whole, lambda i: self._element(made, i), whole, outer=view)
        return self._flat(view, whole) or made

    def _flat(self, view: View, whole: Nat) -> View | None:
        """Rows that lie next to each other in memory, as one array; None if they do not."""
        row = n.named(f"{TERM}row")
        if view.how or view.outer is not None:
            return None
        with self.context.trial(), self.context.closing():
            found = cast(View, view.get(row))
            if found.outer is not None or found.step != nat(1):
                return None
            place = n.named(f"{TERM}place")
            value = found.at(place)
            used = {name for v in numbers_in(value) for name in p.names_in(v)}
            if not numbers_in(value) or f"{TERM}row" in used or self.context.out:
                return None  # made by statements of its row, or of this trial
            self.context.probing += 1  # the rows before this one, added up
            before = closed(n.summed(nat(0), row, lambda k: cast(View, view.get(k)).length))
            self.context.probing -= 1
        if closed(found.begin - before).terms:
            return None
        begin = cast(Nat, n.substituted(found.begin, {f"{TERM}row": nat(0)}))
        return View(begin, begin + whole, found.at, whole)

    def _transpose(self, view: View) -> View:
        var = n.named(TERM)
        with self.context.trial():
            row = cast(View, view.get(var))
        if mentions(row.length, TERM):
            if isinstance(view, Split):
                return view.strided()
            known = pieces_of(closed(row.length), TERM)
            if known is None:
                raise PatternError("rows of these lengths cannot be transposed", code="E710")
            size, whole = known

            def lane(j: Nat) -> View:
                count = n.divided(whole - j + size - 1, size)
                return View(nat(0), count, lambda i: cast(View, view.get(i)).get(j), count)

            return View(nat(0), size, lane, size)
        return View(
            nat(0), row.length,
            lambda j: view.mapped(lambda r: cast(View, r).get(j), ""), row.length,
        )  # fmt: skip


def _rest_in_else(node: Node) -> p.Block | None:
    """{ if (c) fail; rest } => { if (c) fail; else { rest } }

    Lanes combine their sums together: none of them may return before.
    """
    for k, s in enumerate(node.body if isinstance(node, p.Block) else ()):
        match s:
            case p.If(then=p.Block(body=(p.Fail(goes_on=True),)), otherwise=None):
                before, rest = node.body[:k], p.Block(node.body[k + 1 :])  # type: ignore[attr-defined]
                return p.Block((*before, replace(s, otherwise=_rest_in_else(rest) or rest)))
    return None
