"""From patterns to loops: arrays are views, and loops are made where a result is needed.

A result is written element by element, a reduction adds up element by element; both ask a view for
its loop. Everything between the data and there is arithmetic on places.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import cast

from openwork.algebra.operators import SELECT, Op
from openwork.algebra.types import SUPPORTED, Kind, number
from openwork.errors import PatternError
from openwork.loops.fresh import take_name
from openwork.program import nodes as p
from openwork.program.contract import BROKEN_BOUND
from openwork.program.elements import converted
from openwork.program.expressions import Role, arithmetic, compare
from openwork.program.show import show_expr
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.algebra import closed, mentions, offsets_in, pieces_before, refined
from openwork.skeletons.language.check import pieces_of
from openwork.skeletons.language.nodes import (
    ArrayType,
    Expr,
    Fn,
    Nat,
    PairType,
    Scalar,
    Signature,
    Type,
    nat,
)
from openwork.skeletons.lower.arrays import Split, slid, split
from openwork.skeletons.lower.lowered import TERM, InRange, Lowered, Prefix
from openwork.skeletons.lower.memory import Buffer, Path, buffers_of, is_record, size
from openwork.skeletons.lower.reduce import reduced
from openwork.skeletons.lower.units import BY_THREADS, unit_of
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

POLLS = 512  # iterations between two looks at the flag of Ctrl-C


@dataclass
class Lowering:
    """Lowers one program. `sums`: how sums of lengths are removed. `gpu`: for which units.

    `spelled`: naturals as text, to show a stage that no kernel is made from: "nested", "sums" or
    "closed".
    """

    signature: Signature
    result: Type
    sums: str = "closed"
    gpu: bool = False
    spelled: str = ""

    out: list[p.Stmt] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    scalars: dict[str, p.Name] = field(default_factory=dict)
    inside: tuple[str, ...] = ()
    prefixes: dict[tuple[Nat, Nat], Prefix] = field(default_factory=dict)
    sums_here: dict[Nat, Nat] = field(default_factory=dict)
    offsets: set[str] = field(default_factory=set)
    indices: list[InRange] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    loads: dict[p.Array, tuple[Buffer, Path]] = field(default_factory=dict)
    spans: list[tuple[Nat, Nat]] = field(default_factory=list)
    probing: int = 0
    trying: int = 0
    guarded: bool = False
    env: dict[str, Value] = field(default_factory=dict)

    def lowered(self) -> Lowered:
        """The whole program."""
        s = self.signature
        self.taken |= {*s.nats, *s.params}  # so that no loop is called like a natural
        sizes = tuple(p.Name(take_name(f"n{k}_size", self.taken)) for k in range(len(s.nats)))
        self.scalars = dict(zip(s.nats, sizes, strict=True))
        inputs: list[Buffer] = []
        for k, (name, type) in enumerate(zip(s.params, s.types, strict=True)):
            mine = list(buffers_of(name if self.spelled else f"a{k}", name, type))
            inputs += mine
            for b in mine:
                self.loads |= {f.array: (b, place) for place, f in b.fields.items()}
        table = {(b.owner, b.path): b for b in inputs}
        self.env = {
            name: self._read(type, [], (), lambda path, name=name: table[name, path])  # type: ignore[misc]
            for name, type in zip(s.params, s.types, strict=True)
        }
        outputs = list(buffers_of("r", "", self.result))
        places = {b.path: b for b in outputs}
        value = self.expr(s.body, self.env)
        write(self, value, self.result, [], (), places)
        return Lowered(
            p.block(*self.out), sizes, inputs, outputs, list(self.prefixes.values()),
            self.offsets, self.indices, self.notes, self.guarded,
        )  # fmt: skip

    # -- memory ---------------------------------------------------------------------------------

    def _read(
        self, type: Type, chain: list[tuple[ArrayType, Nat]], path: Path,
        buffer: Callable[[Path], Buffer],
    ) -> Value:  # fmt: skip
        """The value of a parameter, or of a part of it: `chain` are the indices so far."""
        if is_record(type):
            return self._record(type, buffer(path), self.place(chain, path), ())
        if isinstance(type, PairType):
            return Two(
                self._read(type.first, chain, (*path, 1), buffer),
                self._read(type.second, chain, (*path, 2), buffer),
            )
        array = cast(ArrayType, type)
        if is_record(array.element) and self.spelled != "nested":
            begin = self.place(chain, path)
            mine = buffer(path)
            return View(
                begin, begin + array.length,
                lambda place: self._record(array.element, mine, place, ()), array.length,
            )  # fmt: skip
        return View(
            nat(0), array.length,
            lambda i: self._read(array.at(i), [*chain, (array, i)], path, buffer), array.length,
        )  # fmt: skip

    def _record(self, type: Type, buffer: Buffer, place: Nat, path: Path) -> Value:
        if isinstance(type, PairType):
            return Two(
                self._record(type.first, buffer, place, (*path, 1)),
                self._record(type.second, buffer, place, (*path, 2)),
            )
        at = buffer.fields[path]
        if self.spelled == "nested":
            parts = "".join(f".{step}" for step in path)
            return Number(p.Name(f"{buffer.owner}@{place}{parts}", at.array.type))
        return Number(p.Load(at.array, at.place(self.code(place))))

    def place(self, chain: list[tuple[ArrayType, Nat]], path: Path) -> Nat:
        """Where in its buffer the element with these indices is."""
        if self.spelled == "nested":
            return n.atom(Code("@".join(f"({i})" if len(i.terms) > 1 else str(i)
                                        for _, i in chain) or "0", p.Value(0)))  # fmt: skip
        place, rest = nat(0), path
        for array, index in chain:
            place += self.total(
                array.length,
                index,
                lambda k, a=array: size(a.at(k), rest, self.total),  # type: ignore[misc]
            )
        return place

    def total(
        self, count: Nat, high: Nat, body: Callable[[Nat], Nat], computed: bool = False
    ) -> Nat:
        """The sum of `body(k)` for k below `high`, which is at most `count`, without a sum.

        `computed`: code is made of it, so that it cannot stay a part of an outer sum.
        """
        self.probing += 1
        try:
            var = f"{TERM}{self.probing}"
            one = body(n.named(var))
        finally:
            self.probing -= 1
        if not mentions(one, var):
            return one * high
        whole = n.sum_over(var, nat(0), high, one)
        if self.spelled == "sums":
            return whole
        pieces = pieces_before(whole, within=high != count)
        if pieces is not None:
            return pieces
        if self.sums == "closed" or self.spelled in ("closed", "refined"):
            form = closed(whole)
            if not any(isinstance(a, n.Sum) for a in n.walk_all(form)):
                return form if self.spelled == "closed" else self._refined(whole, form)
        if self.probing and not computed:  # a part of an outer sum, which is removed as a whole
            return whole
        if self.sums != "loop" and not (self._depends(one, var) or self._depends(count)):
            return self._prefix(cast(Nat, n.substituted(one, {var: n.named(TERM)})), count, high)
        return self._looped(whole, high, lambda k: cast(Nat, n.substituted(one, {var: k})))

    def _refined(self, whole: Nat, form: Nat) -> Nat:
        """A closed form in which the first offset is 0."""
        begins = offsets_in(form)
        if not self.spelled:
            self.offsets |= begins
            self.note(f"{whole} is {form}")
            if begins:
                told = ", ".join(f"{name}@0 is 0" for name in sorted(begins))
                self.note(f"{told}, which each call checks")
        return refined(form, list(begins))

    def _depends(self, value: Nat, var: str = "") -> bool:
        """Whether a natural depends on a loop of the program, apart from `var`."""
        known = {*self.signature.nats, var}
        return any(
            isinstance(a, Code)
            or (isinstance(a, n.Named) and a.name not in known and "'" not in a.name)
            for a in n.walk_all(value)
        )

    def _prefix(self, one: Nat, count: Nat, high: Nat) -> Nat:
        known = self.prefixes.get((one, count))
        if known is None:
            name = take_name(f"offsets{len(self.prefixes)}", self.taken)
            known = Prefix(p.Array(name, "int64", Role.NUMBER, name), one, count)
            self.prefixes[one, count] = known
            self.env = {**self.env, f"#{name}": self._numbers(known.array, count + 1)}
            shown = n.substituted(one, {TERM: n.named("k")})
            self.note(f"sums of {shown} are computed once on the host, and kept: {name}")
        return n.atom(n.ToNat(n.At(n.Var(f"#{known.array.name}"), n.OfNat(high))))

    def _numbers(self, array: p.Array, length: Nat) -> View:
        return View(nat(0), length, lambda i: Number(p.Load(array, self.code(i))), length)

    def _looped(self, whole: Nat, high: Nat, body: Callable[[Nat], Nat]) -> Nat:
        """A sum that a loop computes where it is needed."""
        known = self.sums_here.get(whole)
        if known is not None:
            return known
        self.note(f"{whole} is computed by a loop wherever it is needed")
        name, var = p.Name(self.fresh("before")), p.Name(self.fresh("k"))
        self.out.append(p.Declare(name, p.Value(0)))
        with self.block() as inner:
            index = self.variable(var)
            inner.append(p.Set(name, name + self.code(body(index))))
        self.out.append(p.For(var, p.Value(0), self.code(high), p.block(*inner)))
        self.sums_here[whole] = n.atom(Code(name.name, name))
        return self.sums_here[whole]

    # -- naturals -------------------------------------------------------------------------------

    def code(self, value: Nat) -> p.Expr:
        """A natural as index arithmetic."""
        if self.spelled:
            return (
                p.Name(str(value).replace("#", ""))
                if value.constant is None
                else p.Value(value.constant)
            )
        lone = value.terms
        if len(lone) == 1 and lone[0][1] == 1 and len(lone[0][0]) == 1:
            return self._atom(lone[0][0][0])
        ordered = sorted(value.terms, key=lambda t: (t[1] < 0, not t[0], len(t[0]) == 1))
        done: p.Expr | None = None
        for monomial, times in ordered:
            part: p.Expr = p.Value(abs(times)) if not monomial or abs(times) != 1 else p.Value(1)
            factors = [converted(self._atom(a), p.INDEX) for a in monomial]
            for factor in factors:
                part = arithmetic("*", factor, part)
            if done is None:
                done = part if times > 0 else arithmetic("-", p.Value(0), part)
            else:
                done = arithmetic("+" if times > 0 else "-", done, part)
        return p.Value(0) if done is None else done

    def _atom(self, a: n.Atom) -> p.Expr:
        match a:
            case Code(expr=expr):
                return expr
            case n.Named(name=name):
                # In a trial, of which only lengths and types matter, positions are mere names.
                return self.scalars.get(name) or p.Name(name) if self.trying else self.scalars[name]
            case n.ToNat(expr=expr):
                return self.number(self.expr(expr, self.env)).expr
            case n.Choice(condition=condition, then=then, otherwise=otherwise):
                one, other = self.code(then), self.code(otherwise)
                if (condition.sign, condition.left, condition.right) == ("<=", then, otherwise):
                    return arithmetic("min", one, other)
                left, right = self.code(condition.left), self.code(condition.right)
                test = compare(condition.sign, left, right)
                both = (converted(one, p.INDEX), converted(other, p.INDEX))
                return p.Apply(SELECT, (test, *both), p.INDEX)
            case n.Quotient(sign=sign, left=left, right=right):
                return arithmetic(sign, self.code(left), self.code(right))
            case n.Sum(low=low, high=high, var=var, body=body):

                def at(k: Nat) -> Nat:
                    return cast(Nat, n.substituted(body, {var: k + low}))

                return self.code(self.total(high - low, high - low, at, computed=True))
        raise PatternError(f"{a} cannot be computed", code="E707")

    def resolved(self, value: Nat, env: Env) -> Nat:
        """A natural of an expression, whose `toNat` may read local variables."""
        table: dict[n.Node, n.Node] = {}
        for a in n.walk_all(value):
            if isinstance(a, n.ToNat):
                names = {v.name for v in n.walk_all(a.expr) if isinstance(v, n.Var)}
                if any(env.get(v) is not self.env.get(v) for v in names):
                    table[a] = self._declared(self.number(self.expr(a.expr, env)).expr)
        if not table:
            return value

        def change(node: n.Node) -> n.Node:
            return table.get(node) or n.changed(node, change)

        return cast(Nat, change(value))

    def _declared(self, value: p.Expr) -> Code:
        name = p.Name(self.fresh("j"))
        self.out.append(p.Declare(name, value, fixed=True))
        return Code(name.name, name)

    # -- statements -----------------------------------------------------------------------------

    def fresh(self, base: str) -> str:
        return take_name(base, self.taken)

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    @contextmanager
    def block(self) -> Iterator[list[p.Stmt]]:
        """Statements inside a loop, which are collected in a list."""
        outer, sums = self.out, self.sums_here
        self.out, self.sums_here = [], dict(sums)
        try:
            yield self.out
        finally:
            self.out, self.sums_here = outer, sums

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Whatever is lowered here leaves no trace."""
        kept = (
            self.taken.copy(), self.indices.copy(), self.notes.copy(), self.spans.copy(),
            self.guarded,
        )  # fmt: skip
        self.trying += 1
        try:
            with self.block():
                yield
        finally:
            self.trying -= 1
        (self.taken, self.indices, self.notes, self.spans, self.guarded) = kept

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Sums have closed forms here, whatever the program has."""
        sums, self.sums = self.sums, "closed"
        try:
            yield
        finally:
            self.sums = sums

    def variable(self, var: p.Name) -> Nat:
        self.scalars[var.name] = var
        return n.named(var.name)

    def each(
        self, view: View, body: Callable[[Nat, Value], None],
        reductions: tuple[p.Reduction, ...] | None = None, indexed: bool = True,
    ) -> None:  # fmt: skip
        """A loop over the elements of a view; `body` gets the index and the element."""
        if view.outer is not None:
            return self._each_of_joined(view.outer, body, reductions, indexed)
        if view.step != nat(1) and (indexed or not self.gpu):  # C counts in steps of one
            view = view.from_zero()
        if view.how == "Global":
            return self._each_of_grid(view, body)
        var = p.Name(self.fresh("i"))
        how = view.how
        in_order = reductions == ()
        if in_order and how not in ("", "Seq"):
            raise PatternError(
                f"map{how} computes elements in parallel, and the reduction takes them in order",
                code="E708", hint="reduce with an operator that has an identity, or mapSeq",
            )  # fmt: skip
        if not how and not self.gpu and not self.inside and not in_order:
            how = "Threads"
        by = unit_of(how, view.length, self.inside, self.gpu, bool(reductions))
        spans, inside = self.spans, self.inside
        self.spans, self.inside = [], (*self.inside, how or "Seq")
        with self.block() as inner:
            place = self.variable(var)
            body(view.index(place), view.at(place))
        mine, self.spans, self.inside = self.spans, [*spans, (view.begin, view.end)], inside
        if isinstance(by, p.Threads):
            by = self._balanced(by, mine, var.name)
        nested = any(isinstance(s, (p.For, p.While, p.If)) for s in inner)
        alone = how in ("", "Vector") or (how == "Threads" and bool(reductions))
        simd = alone and not (nested or in_order or self.gpu)
        if reductions is None or (not simd and by is None):
            reductions = ()
        polls = POLLS if how == "Threads" and not simd else 0
        step = None if view.step == nat(1) else self.code(view.step)
        unroll = 2 if self.gpu and inside[-1:] in (("Lane",), ("Local",)) and not nested else 0
        self.out.append(
            p.For(
                var, self.code(view.begin), self.code(view.end), p.block(*inner), by=by,
                simd=simd, polls=polls, reductions=reductions, step=step, unroll=unroll,
            )
        )  # fmt: skip

    def _balanced(self, by: p.Threads, spans: Iterable[tuple[Nat, Nat]], var: str) -> p.Threads:
        """Threads take equal work, if the loop inside runs from one offset to the next."""
        for begin, _ in spans:
            match begin.terms:
                case (
                    ((n.ToNat(expr=n.At(array=n.Var(name=name), index=n.OfNat(nat=index))),), 1),
                ):
                    view = self.env[name]
                    if index == n.named(var) and isinstance(view, View):
                        with self.trial():
                            load = cast(p.Load, cast(Number, view.get(index)).expr)
                        if load.index == p.Name(var):
                            return p.Threads(p.Balance(load.array))
        return by

    def _each_of_joined(
        self, outer: View, body: Callable[[Nat, Value], None],
        reductions: tuple[p.Reduction, ...] | None, indexed: bool,
    ) -> None:  # fmt: skip
        def length(k: Nat) -> Nat:
            with self.trial():
                return cast(View, outer.get(k)).length

        def rows(o: Nat, row: Value) -> None:
            before = self.total(outer.length, o, length) if indexed else nat(0)
            self.each(
                cast(View, row), lambda k, value: body(before + k, value), reductions, indexed
            )

        self.each(outer, rows, reductions, indexed)

    def _each_of_grid(self, view: View, body: Callable[[Nat, Value], None]) -> None:
        """A thread of the whole grid for each element."""
        per = nat(BY_THREADS)
        view = view.from_zero()
        block, thread = p.Name(self.fresh("b")), p.Name(self.fresh("t"))
        self.inside, inside = (*self.inside, "Global"), self.inside
        with self.block() as inner:
            index = self.variable(block) * per + self.variable(thread)
            with self.block() as guarded:
                body(index, view.at(index))
            there = compare("<", self.code(index), self.code(view.length))
            inner.append(p.If(there, p.block(*guarded)))
        self.inside = inside
        unit_of("Workgroup", view.length, inside, self.gpu, False)
        threads = p.For(
            thread, p.Value(0), p.Value(BY_THREADS), p.block(*inner),
            by=p.Unit("thread", most=BY_THREADS),
        )  # fmt: skip
        count = self.code(n.divided(view.length + per - 1, per))
        self.out.append(p.For(block, p.Value(0), count, p.block(threads), by=p.Unit("block")))

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
                return env[name] if name in env else self.env[name]
            case n.Literal(value=value, type=type):
                if type:
                    return Number(p.Value(number(value, SUPPORTED[type]), type))
                kind = WEAK[type_of(value)]
                return Number(p.Value(value, kind), weak=not isinstance(value, bool))
            case n.OfNat(nat=value):
                code = self.code(self.resolved(value, env))
                return Number(converted(code, p.INDEX), weak=True)
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
                each, count = inner, self.resolved(length, env)
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
            return self._element(view, self.resolved(n.to_nat(index), env))
        found = self.number(self.expr(index, env)).expr
        at = self._declared(found) if not self.spelled else Code(
            show_expr(found), found
        )  # fmt: skip
        if (
            isinstance(found, p.Load)
            and found.array in self.loads
            and not self._depends(view.length)
        ):
            buffer, place = self.loads[found.array]
            fact = InRange(buffer.name, buffer.owner, place, view.length)
            if fact not in self.indices:
                self.indices.append(fact)
        else:
            self._guard(at, view.length)
        return self._element(view, n.atom(at))

    def _guard(self, at: Code, length: Nat) -> None:
        """Stop the kernel where a computed index is out of range."""
        self.guarded = True
        low = compare("<", at.expr, p.Value(0))
        high = compare("<=", self.code(length), at.expr)
        stop = p.block(p.Fail(BROKEN_BOUND))
        self.out.append(p.If(compare("||", low, high), stop))

    def _element(self, view: View, index: Nat) -> Value:
        if view.outer is None:
            return view.get(index)
        outer = view.outer
        with self.trial():
            row = cast(View, outer.get(n.named(TERM)))
        if mentions(row.length, TERM):
            raise PatternError(
                "an element of joined rows of different lengths cannot be found by its index",
                code="E710",
                hint="index the rows before they are joined",
            )
        inner = cast(View, outer.get(n.divided(index, row.length)))
        return inner.get(n.remainder(index, row.length))

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
                return split(view, self.resolved(piece, env))
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
            case Number(expr=p.Apply() | p.Convert() as expr) if not self.spelled:
                name = p.Name(self.fresh("v"), expr.type)
                self.out.append(p.Declare(name, expr, fixed=True))
                return Number(name, value.weak)
        return value

    def _join(self, view: View) -> Value:
        if isinstance(view, Split) and not view.how:
            return cast(View, view.base)  # pieces after one another are the whole

        def length(k: Nat) -> Nat:
            with self.trial():
                return cast(View, view.get(k)).length

        whole = closed(n.summed(nat(0), view.length, length))
        made = View(nat(0), whole, lambda i: self._element(made, i), whole, outer=view)
        return self._flat(view, whole) or made

    def _flat(self, view: View, whole: Nat) -> View | None:
        """Rows that lie next to each other in memory, as one array; None if they do not."""
        row = n.named(f"{TERM}row")
        if view.how or view.outer is not None:
            return None
        with self.trial(), self.closing():
            found = cast(View, view.get(row))
            if found.outer is not None or found.step != nat(1):
                return None
            place = n.named(f"{TERM}place")
            value = found.at(place)
            used = {name for v in numbers_in(value) for name in p.names_in(v)}
            if not numbers_in(value) or f"{TERM}row" in used or self.out:
                return None  # made by statements of its row, or of this trial
            self.probing += 1  # the rows before this one, added up
            before = closed(n.summed(nat(0), row, lambda k: cast(View, view.get(k)).length))
            self.probing -= 1
        if closed(found.begin - before).terms:
            return None
        begin = cast(Nat, n.substituted(found.begin, {f"{TERM}row": nat(0)}))
        return View(begin, begin + whole, found.at, whole)

    def _transpose(self, view: View) -> View:
        var = n.named(TERM)
        with self.trial():
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


def _kind(a: Number) -> Kind:
    """The type of an argument, as operators ask for it."""
    weak: Kind = float if a.expr.type.startswith("float") else int
    return weak if a.weak else SUPPORTED[a.expr.type]
