"""Records become numbers: a program over elements of entry types, without any of them.

A scalar of an entry type is a scalar for each of its numbers, and an operator on records is the
formula of `algebra.meaning`, number by number. Arrays in memory hold records where their placement
says, record after record if there is none; arrays that are meant to stay in registers are split,
one for each number of a record. No later pass knows entry types or layouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from openwork.algebra.entries import NAMED, Entry
from openwork.algebra.meaning import Meaning, conversion, meaning
from openwork.algebra.operators import Op
from openwork.algebra.overloads import Overloaded
from openwork.algebra.types import is_record, named, size_of
from openwork.errors import InternalError, ScheduleError
from openwork.format.layouts import Bits, Placement, Together
from openwork.loops.fresh import take_name
from openwork.program import nodes as p
from openwork.program.elements import converted
from openwork.program.lower.record_sums import SumOfProducts, Terms, sum_of_products
from openwork.program.nodes import Expr, Load, Name, Stmt, Store, Value, block
from openwork.tree import Node, map_children, replace, walk

_VECTOR = 16  # bytes of the vectors that every processor has
_LINE = 64  # bytes of a cache line


def without_records(program: p.Program, vectors: bool = False) -> p.Program:
    """`program` with numbers in place of records.

    `vectors`: sums of products may be vectors of terms, see `record_sums`.

    sum += A[p] * x[j]   =>   sum_w += A[4 * p] * x[4 * j] - ...; sum_x += ...
    """
    names = [node for node in walk(program) if isinstance(node, (Name, p.Array))]
    if not any(is_record(node.type) or _is_placed(node) for node in names):
        return program
    split = {
        node.array.name
        for node in walk(program)
        if isinstance(node, p.Local) and is_record(node.array.type)
    }
    expansion = _Expansion(split, {node.name for node in names}, vectors)
    body = cast(p.Block, expansion.statement(program.body))
    arguments = tuple(_argument(each) for each in program.arguments)
    return replace(program, arguments=arguments, body=body)


def _is_placed(node: Name | p.Array) -> bool:
    return isinstance(node, p.Array) and node.placement is not None


def _changes(array: p.Array) -> bool:
    """Whether elements of an array lie elsewhere than at their own place."""
    return is_record(array.type) or array.placement is not None


def _argument(argument: p.Argument) -> p.Argument:
    array, count = argument.array, argument.count
    if not _changes(array):
        return argument
    room = None if count is None else _where(array).room(count)
    return replace(argument, array=_flat(array), count=room)


def _flat(array: p.Array) -> p.Array:
    """An array of elements as the array of their numbers."""
    type = NAMED[array.type].scalar if is_record(array.type) else array.type
    if isinstance(array.placement, Bits):
        type = array.placement.words
    return replace(array, type=type, placement=None)


def _where(array: p.Array) -> Placement:
    """Where the numbers of an array's elements lie."""
    if array.placement is not None:
        return array.placement
    size = NAMED[array.type].size if is_record(array.type) else 1
    return Together(size, size)


def _addresses(array: p.Array, place: Expr) -> list[Expr]:
    """The address of each number of an element."""
    where = _where(array)
    return [where.at(place, n, array.stride) for n in range(where.size)]


@dataclass(eq=False)
class _Number(Overloaded[Any]):
    """A number of a record while a formula runs: operators on it build larger ones.

    `expr`: the number as an expression, once it is built; before, it is `op` of `args`, each with
    the type that it is converted to. `uses`: how often it occurs.
    """

    type: str
    expr: Expr | None = None
    op: Op | None = None
    args: tuple[tuple[_Number | Value, str], ...] = ()
    uses: int = 0

    def __openwork_apply__(self, op: Op, args: Sequence[object]) -> _Number:
        """`op` in the type of the widest argument."""
        types = [named(arg.type) for arg in args if isinstance(arg, _Number)]
        types *= 2 if len(types) < op.arity else 1
        given: list[tuple[_Number | Value, str]] = []
        for n, arg in enumerate(args):
            type = op.argument_type(types, n).name
            if isinstance(arg, _Number):
                arg.uses += 1
            given.append((arg if isinstance(arg, _Number) else Value(cast(Any, arg), type), type))
        return _Number(op.result(types).name, op=op, args=tuple(given))


@dataclass
class _Expansion:
    """The rewriting of one program.

    `split`: arrays that stay in registers. `taken`: names that the program uses. `vectors`: whether
    sums may be vectors; `terms`: those of the loops around, by the update in the loop.
    """

    split: set[str]
    taken: set[str]
    vectors: bool = False
    terms: dict[Stmt, Terms] = field(default_factory=dict)
    names: dict[tuple[str, str], tuple[Name, ...]] = field(default_factory=dict)

    # -- expressions ----------------------------------------------------------------------------

    def scalars(self, name: Name) -> tuple[Name, ...]:
        """The scalars in place of one that holds a record."""
        known = self.names.get((name.name, name.type))
        if known is None:
            entry = NAMED[name.type]
            words = (take_name(f"{name.name}_{each}", self.taken) for each in entry.fields)
            known = tuple(Name(word, entry.scalar) for word in words)
            self.names[name.name, name.type] = known
        return known

    def arrays(self, array: p.Array) -> list[p.Array]:
        """The arrays in place of one of records that stays in registers."""
        return [
            replace(array, name=each.name, type=each.type)
            for each in self.scalars(Name(array.name, array.type))
        ]

    def plain(self, e: Expr, code: list[Stmt] | None = None) -> Expr:
        """An expression that is no record, without the records inside it.

        `code`: where to declare what is used several times; None if it must not be evaluated
        unconditionally.
        """
        match e:
            case p.Apply(args=args) if any(is_record(arg.type) for arg in args):
                return self._applied(e, code)[0]
            case Load(array=p.Array(placement=Bits() as where)):
                op, other = where.read
                word = self.places(e, code)[0]
                return converted(p.Apply(op, (word, Value(other, word.type)), word.type), e.type)
            case Load(array=array) if array.placement is not None:
                return self.places(e, code)[0]
            case p.Helper(args=(p.Array(placement=Together() as where) as array, *rest)):
                given = (cast(Expr, self._node(each, code)) for each in rest)
                return p.Helper(f"{e.name}_every", (_flat(array), Value(where.step), *given))
            case p.Helper(args=(p.Array(placement=Bits() as where) as array, *rest)):
                given = (cast(Expr, self._node(each, code)) for each in rest)
                return p.Helper(f"{e.name}_masked", (_flat(array), Value(where.mask), *given))
            case p.Apply() if e.op.selects:
                code = None
            case p.Binary(sign="&&" | "||"):
                code = None

        return map_children(e, lambda node: self._node(node, code))

    def _node(self, node: Node, code: list[Stmt] | None) -> Node:
        return self.plain(node, code) if isinstance(node, Expr) else node

    def numbers(self, e: Expr, code: list[Stmt] | None) -> list[Expr]:
        """The numbers of a record."""
        entry = NAMED[e.type]
        match e:
            case Name():
                return list(self.scalars(e))
            case Value(value=value):
                return [Value(each, entry.scalar) for each in entry.numbers(complex(value))]
            case Load():
                return list(self.places(e, code))
            case p.Convert(expr=inner) if is_record(inner.type):
                given = NAMED[inner.type]
                if given.family != entry.family:
                    numbers = self._once("code", given, self.numbers(inner, code), code)
                    return self._traced(conversion(given, entry), [numbers], code)
                return [converted(each, entry.scalar) for each in self.numbers(inner, code)]
            case p.Apply(op=op, args=(condition, yes, no)) if op.selects:
                test = self.plain(condition, code)
                branches = zip(self.numbers(yes, None), self.numbers(no, None), strict=True)
                return [p.Apply(op, (test, *pair), entry.scalar) for pair in branches]
            case p.Apply():
                return self._applied(e, code)
        raise InternalError(f"{e} is no record")

    def places(self, e: Load, code: list[Stmt] | None) -> list[Load]:
        """Where the numbers of a record in an array lie."""
        at = self.plain(e.index, code)
        if e.array.name in self.split:
            return [Load(array, at) for array in self.arrays(e.array)]
        return [Load(_flat(e.array), each) for each in _addresses(e.array, at)]

    def _applied(self, e: p.Apply, code: list[Stmt] | None) -> list[Expr]:
        """The numbers of an operator's result."""
        rule = meaning(e.op.name, tuple(named(arg.type) for arg in e.args))
        given = []
        for arg, to in zip(e.args, rule.arguments, strict=True):
            arg = converted(arg, to.name)
            stem = arg.array.stem if isinstance(arg, Load) else "term"
            if is_record(arg.type):
                given.append(self._once(stem, NAMED[arg.type], self.numbers(arg, code), code))
            else:
                given.append(self._once(stem, None, [self.plain(arg, code)], code))
        return self._traced(rule, given, code)

    def _once(
        self, stem: str, entry: Entry | None, numbers: list[Expr], code: list[Stmt] | None
    ) -> list[Expr]:
        """Numbers that a formula may use several times, declared unless they are at hand."""
        if code is None:
            return numbers
        fields = ("val",) if entry is None else entry.fields
        made: list[Expr] = []
        for each, number in zip(fields, numbers, strict=True):
            if isinstance(number, (Name, Value)):
                made.append(number)
                continue
            name = Name(take_name(f"{stem}_{each}", self.taken), number.type)
            code.append(p.Declare(name, number, fixed=True))
            made.append(name)
        return made

    def _traced(
        self, rule: Meaning, given: list[list[Expr]], code: list[Stmt] | None
    ) -> list[Expr]:
        """The formula of an operator on symbols; what it uses several times is declared."""
        made = rule.formula(*([_Number(e.type, e) for e in numbers] for numbers in given))
        type = rule.result.scalar if isinstance(rule.result, Entry) else rule.result.name
        for number in made:
            if isinstance(number, _Number):
                number.uses += 1
        return [
            converted(self._built(number, code), type)
            if isinstance(number, _Number)
            else Value(number, type)
            for number in made
        ]

    def _built(self, number: _Number, code: list[Stmt] | None) -> Expr:
        """The expression of a number in a formula."""
        if number.expr is None and number.op is not None:
            args = (
                converted(self._built(arg, code), type) if isinstance(arg, _Number) else arg
                for arg, type in number.args
            )
            number.expr = p.Apply(number.op, tuple(args), number.type)
            if number.uses > 1 and code is not None:
                name = Name(take_name("part", self.taken), number.type)
                code.append(p.Declare(name, number.expr, fixed=True))
                number.expr = name
        if number.expr is None:
            raise InternalError("a number of a formula has no expression")
        return number.expr

    # -- statements -----------------------------------------------------------------------------

    def statement(self, s: Stmt) -> Stmt:
        """A statement, with what has to be declared before it."""
        code: list[Stmt] = []
        made = self._statement(s, code)
        return block(*code, *made) if code or len(made) != 1 else made[0]

    def _statement(self, s: Stmt, code: list[Stmt]) -> list[Stmt]:
        match s:
            case p.Declare(name=name, value=value, fixed=fixed) if is_record(name.type):
                numbers = self.numbers(value, code)
                pairs = zip(self.scalars(name), numbers, strict=True)
                return [p.Declare(each, number, fixed) for each, number in pairs]
            case p.Set() | p.For() if s in self.terms:
                return [self._products(self.terms[s], code)]
            case p.Set(name=name, value=value, op=op) if is_record(name.type):
                numbers = self._updated(op, self.scalars(name), value, code)
                rest = _kept(op, NAMED[name.type])
                pairs = zip(self.scalars(name), numbers, strict=True)
                return [p.Set(each, number, rest) for each, number in pairs]
            case Store(array=array, index=index) if is_record(array.type):
                return self._store(s, self.places(Load(array, index), code), code)
            case p.Local(array=array) if is_record(array.type):
                return [replace(s, array=each) for each in self.arrays(array)]
            case p.Allocate(array=array, count=count) if is_record(array.type):
                wide = self.plain(count, code) * NAMED[array.type].size
                return [replace(s, array=_flat(array), count=wide)]
            case p.Prefetch(array=array, index=index) if _changes(array):
                return self._prefetched(s, self.plain(index, code))
            case p.Do(call=p.Helper(args=args)) if any(is_record(arg.type) for arg in args):
                return [self._moved(s, code)]
            case p.For():
                sums = sum_of_products(s, self.split) if self.vectors else None
                return [self._loop(s, code)] if sums is None else self._in_terms(s, sums, code)
            case p.While():
                return [replace(s, condition=self.plain(s.condition), body=self.statement(s.body))]
        return [self._other(s, code)]

    def _other(self, s: Stmt, code: list[Stmt]) -> Stmt:
        """A statement that is one statement in any case."""

        def change(node: Node) -> Node:
            match node:
                case Stmt():
                    return self.statement(node)
                case Expr():
                    return self.plain(node, code)
                case p.Array() if is_record(node.type):
                    return _flat(node)
                case p.Growing(array=array) if is_record(array.type):
                    size = NAMED[array.type].size
                    per, extra = self.plain(node.per) * size, node.extra * size
                    return replace(node, array=_flat(array), per=per, extra=extra)
            return node

        return map_children(s, change)

    def _updated(
        self, op: Op | None, old: Sequence[Expr], value: Expr, code: list[Stmt]
    ) -> list[Expr]:
        """The numbers to store for `old op= value`; sums are left to the store."""
        made, entry = self.numbers(value, code), NAMED[value.type]
        reads = any(node in old for number in made for node in walk(number))
        if op is not None and _kept(op, entry) is None:
            rule = meaning(op.name, (entry, entry))
            made, reads = self._traced(rule, [list(old), made], code), True
        # Nothing may change before all is read.
        return self._once("new", entry, made, code) if reads else made

    def _store(self, s: Store, places: list[Load], code: list[Stmt]) -> list[Stmt]:
        entry = NAMED[s.array.type]
        rest = _kept(s.op, entry)
        if s.atomic and rest is None:
            raise ScheduleError(
                f"{s.op} of {entry} cannot be atomic: it mixes the numbers of a record",
                code="E308",
                hint="use another race strategy than Atomics, such as Temporary",
            )
        numbers = self._updated(s.op, places, s.value, code)
        return [
            replace(s, array=place.array, index=place.index, value=number, op=rest)
            for place, number in zip(places, numbers, strict=True)
        ]

    def _prefetched(self, s: p.Prefetch, place: Expr) -> list[Stmt]:
        """Prefetch a record: where its numbers are together at once, else each of them."""
        where, array = _where(s.array), _flat(s.array)
        addresses = _addresses(s.array, place)
        if isinstance(where, Together):
            lines = -(-where.step * size_of(array.type) // _LINE)
            return [replace(s, array=array, index=addresses[0], lines=max(s.lines, lines))]
        return [replace(s, array=array, index=each) for each in addresses]

    def _moved(self, s: p.Do, code: list[Stmt]) -> Stmt:
        """A call that moves records: places and counts are in numbers."""
        to, begin, source, count = s.call.args
        if (
            s.call.name != "put_at"
            or not isinstance(to, p.Array)
            or not isinstance(source, p.Array)
        ):
            raise InternalError(f"{s.call.name} takes no records")
        size = NAMED[to.type].size
        numbers = [self.plain(cast(Expr, each), code) * size for each in (begin, count)]
        args = (_flat(to), numbers[0], _flat(source), numbers[1])
        return p.Do(replace(s.call, args=args))

    def _loop(self, s: p.For, code: list[Stmt]) -> Stmt:
        """A loop, whose reductions and private copies are of numbers."""
        made = cast(p.For, self._other(replace(s, reductions=(), by=None), code))
        reductions = [each for reduction in s.reductions for each in self._reduced(reduction)]
        by = s.by
        if by is not None:
            copies = tuple(self._copy(each) for each in by.copies)
            private = tuple(self.statement(each) for each in by.private)
            by = replace(by, copies=copies, private=private)
        if isinstance(by, p.Threads):
            cleanup = tuple(self.statement(each) for each in by.cleanup)
            balance = by.balance and map_children(by.balance, self._expression)
            by = replace(by, cleanup=cleanup, balance=balance)
        alone = not reductions and by is None and _sums_short_records(s.body)
        return replace(made, reductions=tuple(reductions), by=by, alone=alone)

    def _in_terms(self, s: p.For, sums: SumOfProducts, code: list[Stmt]) -> list[Stmt]:
        """A loop that sums products of numbers, with what is before and after it."""
        made = sums.terms(self.taken)
        self.terms[sums.update] = made
        loop = self._loop(s, code)
        del self.terms[sums.update]
        total = sums.total
        if isinstance(total, Name):
            return [*made.zeros(), loop, *made.added_to(self.scalars(total))]
        return [*made.zeros(), loop, *made.added_beside(self.arrays(total))]

    def _products(self, terms: Terms, code: list[Stmt]) -> Stmt:
        """The products of numbers of one iteration, added to their terms."""
        sums = terms.sums
        other = converted(sums.other, sums.factor.name)
        stem = sums.other.array.stem if isinstance(sums.other, Load) else "term"
        numbers = self._once(stem, sums.factor, self.numbers(other, code), code)
        return terms.grown(numbers, _flat(sums.vector.array), self.plain(sums.vector.index, code))

    def _expression(self, node: Node) -> Node:
        return self.plain(node) if isinstance(node, Expr) else node

    def _reduced(self, r: p.Reduction) -> list[p.Reduction]:
        if not is_record(r.name.type):
            return [r]
        identities = self.numbers(r.identity, None)
        pairs = zip(self.scalars(r.name), identities, strict=True)
        if _kept(r.op, NAMED[r.name.type]) is None:
            raise ScheduleError(
                f"{r.op} of {NAMED[r.name.type]} cannot be reduced in parallel: it mixes the "
                "numbers of a record",
                code="E308",
                hint="parallelize a loop that the result has, too",
            )
        return [replace(r, name=each, identity=cast(Value, number)) for each, number in pairs]

    def _copy(self, copy: p.Copy) -> p.Copy:
        array = copy.array
        if not is_record(array.type):
            return copy
        entry = NAMED[array.type]
        identities = set(entry.numbers(complex(copy.identity.value)))
        if _kept(copy.op, entry) is None or len(identities) > 1:
            raise ScheduleError(
                f"{copy.op} of {entry} has no private copies: it mixes the numbers of a record",
                code="E308",
                hint="parallelize a loop that the result has, too",
            )
        identity = Value(identities.pop(), entry.scalar)
        where = _where(array)
        count = array.stride * entry.size if where.strided else where.room(self.plain(copy.count))
        return replace(copy, array=_flat(array), count=count, identity=identity)


def _sums_short_records(body: Stmt) -> bool:
    """Whether a loop's body adds to a record that is shorter than a vector, and has no loop.

    To fill their vectors, compilers would take the numbers of several iterations together, and
    then add them one by one. Measured with gcc 12: that takes up to 2.5 times as long.
    """
    inside = list(walk(body))
    return not any(isinstance(node, (p.For, p.While)) for node in inside) and any(
        isinstance(node, p.Set)
        and is_record(node.name.type)
        and node.op is not None
        and NAMED[node.name.type].itemsize < _VECTOR
        for node in inside
    )


def _kept(op: Op | None, entry: Entry) -> Op | None:
    """The operator, if it works number by number."""
    return op if op is not None and op.adds and entry.sum is None else None
