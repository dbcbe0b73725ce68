"""Presence at run time: what to compute where operands may be absent, without telling cases apart.

A sum of n sparse operands has 2^n - 1 cases. Beyond a few, one piece of code serves them all: each
operand has a condition under which it is present, and

    sum = -0.0;  if (A is present) sum += A[p];  if (B is present) sum += B[q];  ...

The operators' laws say what an absent argument does, exactly as they do in a lattice.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import combinations

from openwork.algebra.operators import ADD
from openwork.algebra.types import named, number
from openwork.errors import InternalError, ScheduleError
from openwork.frozen import frozen
from openwork.index import nodes as index
from openwork.index.absence import applied, without
from openwork.index.nodes import Absent, Access
from openwork.loops.absent import reads_of
from openwork.loops.nodes import Assign, Forall, Sequence as Then, Stmt, Where
from openwork.program import nodes as p
from openwork.program.elements import converted
from openwork.program.lower.base.scope import Scope
from openwork.program.nodes import Binary, Declare, Expr, If, Name, Set, Value, block
from openwork.tree import Node, substitute, walk

# When something is present: always, never, or if one of some conditions holds.
When = bool | tuple[Expr, ...]
Known = Mapping[Access, When]

# Lowers an expression whose operands are all present; parameters stand for computed values.
Lowered = Callable[[index.Expr, Mapping[int, Expr]], Expr]

_MOST_ARGUMENTS = 8
_COMPUTED = 1000  # parameters from here on stand for values that are computed already


def either(one: When, other: When) -> When:
    """When one or the other holds."""
    if isinstance(one, bool) or isinstance(other, bool):
        return True if one is True or other is True else other if one is False else one
    return tuple(dict.fromkeys((*one, *other)))


def both(one: When, other: When) -> When:
    """When both hold."""
    if isinstance(one, bool):
        return other if one else False
    if isinstance(other, bool):
        return one if other else False
    return one if one == other else (Binary("&&", _any(one), _any(other)),)


def condition(when: When) -> Expr | None:
    """The condition as an expression; None: always."""
    if isinstance(when, bool):
        return None if when else Value(False, "bool")
    return _any(when)


def _any(conditions: tuple[Expr, ...]) -> Expr:
    """One of `conditions` holds; balanced, because there can be hundreds."""
    if len(conditions) == 1:
        return conditions[0]
    half = len(conditions) // 2
    return Binary("||", _any(conditions[:half]), _any(conditions[half:]))


def known(perhaps: Mapping[Access, Expr]) -> dict[Access, When]:
    """The conditions of a scope's operands."""
    return {access: (when,) for access, when in perhaps.items()}


def works(stmt: Stmt, given: Known) -> When:
    """When anything is left of `stmt`; `given`: when those operands are present that may not be."""
    match stmt:
        case Assign(lhs=lhs, rhs=rhs):
            place = given.get(lhs, True)
            rhs = without(rhs, ())  # folds constants, as a lattice does
            found = states(rhs, given)[id(rhs)] if given else State()
            return both(place, found.present) if _is_idle(stmt, found) else place
        case Forall(body=body):
            return works(body, given)
        case Where(consumer=consumer, producer=producer, temporary=temporary):
            made = works(producer, given)
            reads = {} if made is True else dict.fromkeys(reads_of(consumer, temporary), made)
            return works(consumer, {**given, **reads})
        case Then(first=first, then=then):
            return either(works(first, given), works(then, given))
    raise InternalError(f"no rule of presence for {stmt}")


@frozen
class State:
    """When an expression is present, and its value where it is not."""

    present: When = True
    absent: Absent | None = None


def dispensable(stmt: Stmt, perhaps: Mapping[Access, Expr]) -> bool:
    """Whether two operands are each enough for `stmt` to have work, so that it needs none."""
    when = works(stmt, known(perhaps))
    return when is True or (when is not False and len(set(when) & set(perhaps.values())) > 1)


def _is_idle(stmt: Assign, right: State) -> bool:
    """Whether nothing is to be done where the right-hand side is absent."""
    lhs, op = stmt.lhs, stmt.op
    nothing = lhs.tensor.fill if op is None else op.identity_of(lhs.dtype)
    absent = right.absent
    return absent is not None and number(absent.value, lhs.dtype) == number(nothing, lhs.dtype)


def states(expr: index.Expr, given: Known) -> dict[int, State]:
    """The state of every expression in `expr`, by its `id`."""
    found: dict[int, State] = {}
    for node in reversed(list(walk(expr))):  # what is below comes first
        if isinstance(node, index.Expr) and id(node) not in found:
            found[id(node)] = _state(node, given, found)
    return found


def _state(node: index.Expr, given: Known, found: Mapping[int, State]) -> State:
    match node:
        case Access() if given.get(node, True) is not True:
            return State(given[node], Absent(number(node.tensor.fill, node.dtype), node.dtype))
        case Absent():
            return State(False, node)
        case index.Cast(to=to, expr=inner) if found[id(inner)].absent is not None:
            state = found[id(inner)]
            absent = without(index.Cast(to, state.absent or inner), ())
            return State(state.present, absent if isinstance(absent, Absent) else None)
        case index.Apply(args=args) if any(found[id(arg)].absent is not None for arg in args):
            return _applied_state(node, [found[id(arg)] for arg in args])
    return State()


def _applied_state(node: index.Apply, args: list[State]) -> State:
    present: When = False
    absent: Absent | None = None
    enough: list[set[int]] = []
    for some, left in _outcomes(node, args):
        if not isinstance(left, Absent):
            if any(fewer <= set(some) for fewer in enough):
                continue
            enough.append(set(some))
            when: When = True
            for n in some:
                when = both(when, args[n].present)
            present = either(present, when)
        elif absent is None:
            absent = left
        elif absent.value != left.value:
            raise ScheduleError(
                f"{node} has different values where different operands are absent, and too many "
                "operands to tell all cases apart",
                code="E319",
                hint="compute a part of the statement into a tensor of its own first",
            )
    return State(True) if absent is None else State(present, absent)


def _outcomes(node: index.Apply, args: list[State]) -> list[tuple[tuple[int, ...], index.Expr]]:
    """What is left of an application for each set of present arguments, the smallest first.

    A set has only arguments that may be absent. Parameters stand for arguments, by their place.
    """
    loose = [n for n, state in enumerate(args) if state.absent is not None]
    if len(loose) > _MOST_ARGUMENTS:
        raise ScheduleError(
            f"{node.op} has {len(loose)} arguments that may be absent",
            code="E319",
            hint="compute a part of the statement into a tensor of its own first",
        )
    made: list[tuple[tuple[int, ...], index.Expr]] = []
    for size in range(len(loose) + 1):
        for some in combinations(loose, size):
            given = tuple(
                _standing(n, arg, args[n].absent if n not in some else None)
                for n, arg in enumerate(node.args)
            )
            made.append((some, applied(node, given)))
    return made


def _standing(n: int, arg: index.Expr, absent: Absent | None) -> index.Expr:
    """What stands for argument `n`: its value where it is absent, else a parameter."""
    if absent is not None:
        return absent
    plain = isinstance(arg, (index.Literal, index.IndexVar)) or isinstance(arg.kind, type)
    return arg if plain else index.Parameter(n, arg.dtype)


@dataclass
class Valued:
    """Computes the value of an expression some of whose operands may be absent."""

    given: Known
    lower: Lowered
    scope: Scope
    base: str  # of the names of sums
    values: dict[int, Expr] = field(default_factory=dict)  # of parameters
    states: dict[int, State] = field(default_factory=dict)

    def value(self, stmt: Assign) -> tuple[list[p.Stmt], Expr]:
        """Code, and the value that is assigned, wherever there is work."""
        expr = without(stmt.rhs, ())
        self.states = states(expr, self.given)
        code, left = self._left(expr, sure=True)
        right = self.states[id(expr)]
        test = condition(right.present)
        if right.absent is None or test is None or _is_idle(stmt, right):
            return code, self.lower(left, self.values)
        name = self._named(self.base, expr.dtype.name)
        absent = Declare(name, Value(right.absent.value, name.type))
        return [absent, If(test, block(*code, self._set(name, left)))], name

    def _parameter(self, value: Name) -> index.Parameter:
        """An expression that stands for a computed value."""
        number = _COMPUTED + len(self.values)
        self.values[number] = value
        return index.Parameter(number, named(value.type))

    def _named(self, base: str, type: str) -> Name:
        name, self.scope = self.scope.fresh(base, type, lasting=True)
        return name

    def _loose(self, expr: index.Expr) -> bool:
        return self.states[id(expr)].absent is not None

    def _left(self, expr: index.Expr, sure: bool) -> tuple[list[p.Stmt], index.Expr]:
        """Code, and what gives the value where `expr` is present.

        `sure`: the code runs only where it is; else the code is safe whatever is present.
        """
        match expr:
            case index.Cast(to=to, expr=inner):
                code, left = self._left(inner, sure)
                return code, index.Cast(to, left)
            case index.Apply():
                spine = self._spine(expr)
                sure = sure or not self._loose(expr)
                return self._sum(spine) if spine else self._cases(expr, sure)
        return [], expr

    def _outcomes(self, node: index.Apply) -> list[tuple[tuple[int, ...], index.Expr]]:
        return _outcomes(node, [self.states[id(arg)] for arg in node.args])

    def _cases(self, node: index.Apply, sure: bool) -> tuple[list[p.Stmt], index.Expr]:
        """An application, by which of its arguments are present."""
        outcomes = [(n, left) for n, left in self._outcomes(node) if not isinstance(left, Absent)]
        code: list[p.Stmt] = []
        table: dict[Node, Node] = {}
        for n, arg in enumerate(node.args):
            more, left = self._left(arg, sure and all(n in some for some, _ in outcomes))
            code += more
            table[index.Parameter(n, arg.dtype)] = left
        left_over = [(some, substitute(left, table)) for some, left in outcomes]
        (least, value), *larger = left_over
        if not larger:
            return code, value
        name = self._named(self.base, node.dtype.name)
        chain: p.Block | p.If = self._set(name, value)
        test = None if sure else condition(self._all(node, least))
        if test is not None:
            chain = If(test, chain)
        for some, value in larger:
            test = condition(self._all(node, some))
            chain = (
                self._set(name, value) if test is None else If(test, self._set(name, value), chain)
            )
        return [*code, Declare(name, _zero(name.type)), chain], self._parameter(name)

    def _all(self, node: index.Apply, some: tuple[int, ...]) -> When:
        """When these arguments are all present."""
        when: When = True
        for n in some:
            when = both(when, self.states[id(node.args[n])].present)
        return when

    def _set(self, name: Name, value: index.Expr) -> p.Block:
        return block(Set(name, converted(self.lower(value, self.values), name.type)))

    def _spine(self, node: index.Expr) -> list[index.Apply]:
        """Nested applications, the innermost first, whose first argument is a sum so far.

        Each keeps the sum as it is where its second argument is absent.
        """
        found: list[index.Apply] = []
        while isinstance(node, index.Apply) and self._continues(node):
            found.append(node)
            node = node.args[0]
        return found[::-1]

    def _continues(self, node: index.Apply) -> bool:
        if len(node.args) != 2 or node.args[0].dtype != node.dtype or not self._loose(node.args[1]):
            return False
        before: tuple[int, ...] = (0,) if self._loose(node.args[0]) else ()
        outcomes = dict(self._outcomes(node))
        after = (1,) in outcomes and isinstance(outcomes[1,], Absent)
        return not after and outcomes[before] == _standing(0, node.args[0], None)

    def _sum(self, spine: list[index.Apply]) -> tuple[list[p.Stmt], index.Expr]:
        """sum = 0; if (A is present) sum = A; if (B is present) sum = any ? sum + B : B; ..."""
        first, dtype = spine[0].args[0], spine[0].dtype
        name = self._named(self.base, dtype.name)
        code, left = self._left(first, sure=True)
        begun: Name | None = None
        if not self._loose(first):
            value = converted(self.lower(left, self.values), dtype.name)
            code = [*code, Declare(name, value)]
        else:
            start, found = self._neutral(spine), block(*code, self._set(name, left))
            code = [Declare(name, _zero(dtype.name) if start is None else start)]
            if start is None:
                begun = self._named(f"{name.name}_any", "bool")
                code.append(Declare(begun, Value(False, "bool")))
                found = block(found, Set(begun, Value(True, "bool")))
            code.append(self._if_present(first, found))
        so_far = self._parameter(name)
        for node in spine:
            second = node.args[1]
            inside, left = self._left(second, sure=True)
            step: p.Stmt = self._set(name, index.Apply(node.op, (so_far, left)))
            if node.op.definition is None and left.dtype == dtype:
                step = Set(name, self.lower(left, self.values), node.op)
            if begun is not None and self._loose(node.args[0]):
                alone = dict(self._outcomes(node))[1,]
                alone = substitute(alone, {index.Parameter(1, second.dtype): left})
                step = block(
                    If(begun, block(step), self._set(name, alone)),
                    None if node is spine[-1] else Set(begun, Value(True, "bool")),
                )
            code.append(self._if_present(second, block(*inside, step)))
        return code, so_far

    def _if_present(self, expr: index.Expr, body: p.Block) -> p.Stmt:
        test = condition(self.states[id(expr)].present)
        return body if test is None else If(test, body)

    def _neutral(self, spine: list[index.Apply]) -> Value | None:
        """What a sum can begin with, if adding the first term to it gives exactly that term."""
        dtype, absent = spine[0].dtype, self.states[id(spine[0].args[0])].absent
        if absent is None or absent.value != 0 or any(node.op != ADD for node in spine):
            return None
        if dtype.kind not in "fiu":
            return None
        return Value(-0.0 if dtype.kind == "f" else 0, dtype.name)


def _zero(type: str) -> Value:
    return Value(number(0, named(type)), type)
