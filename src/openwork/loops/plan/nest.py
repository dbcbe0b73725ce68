"""Loop nests: find loops, replace them, and tell which variables are known where."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property

from openwork.errors import ScheduleError
from openwork.frozen import frozen
from openwork.index.nodes import Access, IndexVar
from openwork.loops.fresh import fresh_name
from openwork.loops.nodes import (
    Assign,
    Forall,
    Sequence as Then,
    Stmt,
    SuchThat,
    Where,
    nest_of,
    relations_of,
)
from openwork.loops.plan.plan import Plan
from openwork.loops.provenance import Provenance
from openwork.loops.relations import Relation
from openwork.tree import replace, walk


@frozen
class Path:
    """An assignment and the loops around it, from the outermost in."""

    loops: tuple[Forall, ...]
    assign: Assign

    @cached_property
    def variables(self) -> tuple[IndexVar, ...]:
        """The variables of the loops."""
        return tuple([loop.var for loop in self.loops])

    @cached_property
    def accesses(self) -> tuple[Access, ...]:
        """What the assignment reads and writes."""
        found = (n for n in walk(self.assign) if isinstance(n, Access))
        return tuple(dict.fromkeys(found))


def provenance_of(plan: Plan) -> Provenance:
    """What the variables of the plan's loops derive from."""
    return Provenance(relations_of(plan.loops))


def paths(stmt: Stmt, around: tuple[Forall, ...] = ()) -> Iterator[Path]:
    """Every assignment of `stmt`, with the loops around it."""
    match stmt:
        case SuchThat(body=body):
            yield from paths(body, around)
        case Forall(body=body):
            yield from paths(body, (*around, stmt))
        case Assign():
            yield Path(around, stmt)
        case Where(consumer=consumer, producer=producer):
            yield from paths(producer, around)
            yield from paths(consumer, around)
        case Then(first=first, then=then):
            yield from paths(first, around)
            yield from paths(then, around)


def loops_of(plan: Plan) -> list[Forall]:
    """All loops, outermost first."""
    found, waiting = [], [nest_of(plan.loops)]
    while waiting:
        match waiting.pop():
            case Forall(body=body) as loop:
                found.append(loop)
                waiting.append(body)
            case Where(consumer=consumer, producer=producer):
                waiting += [producer, consumer]
            case Then(first=first, then=then):
                waiting += [then, first]
    return found


def loop_variables(plan: Plan) -> list[IndexVar]:
    """The variables of all loops, each once."""
    return list(dict.fromkeys(loop.var for loop in loops_of(plan)))


def find_loops(plan: Plan, var: IndexVar) -> list[Forall]:
    """The loops over `var`; a workspace's producer and consumer may both have one.

    Raises:
        ScheduleError: E301 if there is none.
    """
    found = [loop for loop in loops_of(plan) if loop.var == var]
    if not found:
        relations = relations_of(plan.loops)
        made = next((r for r in relations if var in r.parents), None)
        why = f"; it was replaced by {made}" if made is not None else ""
        names = ", ".join(map(str, loop_variables(plan)))
        raise ScheduleError(
            f"there is no loop over {var}{why}",
            code="E301",
            hint=f"the loops are {names or 'none'}",
        )
    return found


def untagged(plan: Plan, var: IndexVar) -> None:
    """Raise if the loop over `var` is parallel: it is not transformed further."""
    for loop in find_loops(plan, var):
        check_untagged(loop)


def check_untagged(loop: Forall) -> None:
    """Raise if a loop is parallel already."""
    if loop.tag is not None:
        raise ScheduleError(
            f"{loop.var} is already parallel ({loop.tag})",
            code="E310",
            hint=f"transform {loop.var} first, and parallelize the result",
        )


def new_variables(plan: Plan, *variables: IndexVar) -> None:
    """Raise unless `variables` are new, and different."""
    provenance = provenance_of(plan)
    taken = provenance.variables | set(loop_variables(plan))
    taken |= {n for n in walk(plan.assignment) if isinstance(n, IndexVar)}
    taken |= {block.var for block in plan.blocks}
    for n, var in enumerate(variables):
        if var in variables[:n]:
            raise ScheduleError(
                f"{var} is named twice", code="E302", hint="give each new loop another name"
            )
        if var in taken:
            raise ScheduleError(
                f"{var} is already a variable of the statement",
                code="E302",
                hint="give the new loop another name",
            )


def fresh_variable(plan: Plan, base: str) -> IndexVar:
    """A variable that the statement does not have yet."""
    taken = {n.name for n in walk(plan.loops) if isinstance(n, IndexVar)}
    taken |= {n.name for n in walk(plan.assignment) if isinstance(n, IndexVar)}
    return IndexVar(fresh_name(base, taken))


# Larger numbers would overflow index arithmetic, or make a loop endless.
MOST, MOST_PARTS = 2**40, 2**20


def positive(value: object, what: str, most: int = MOST) -> int:
    """`value` if it is a positive whole number."""
    if isinstance(value, int) and not isinstance(value, bool) and value > most:
        raise ScheduleError(
            f"{what} is {value}, but can be {most} at most", code="E303", hint="such as 32"
        )
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ScheduleError(
            f"{what} is {value!r}, but must be a positive whole number",
            code="E303",
            hint="such as 32",
        )
    return value


def rewrite(plan: Plan, change: Callable[[Forall], Stmt | None], *more: Relation) -> Plan:
    """The plan with loops replaced where `change` gives something, and relations added.

    Inner loops are replaced first.
    """

    def rewritten(stmt: Stmt) -> Stmt:
        match stmt:
            case Forall(body=body):
                inner = rewritten(body)
                loop = stmt if inner is body else replace(stmt, body=inner)
                return change(loop) or loop
            case Where(consumer=consumer, producer=producer):
                return replace(stmt, consumer=rewritten(consumer), producer=rewritten(producer))
            case Then(first=first, then=then):
                return Then(rewritten(first), rewritten(then))
        return stmt

    return with_nest(plan, rewritten(nest_of(plan.loops)), *more)


def with_nest(plan: Plan, body: Stmt, *more: Relation) -> Plan:
    """The plan with other loops, and relations added."""
    relations = (*relations_of(plan.loops), *more)
    return replace(plan, loops=SuchThat(body, relations) if relations else body)


def completed(provenance: Provenance, variables: Sequence[IndexVar]) -> dict[IndexVar, int]:
    """For every variable that loops over `variables` make known, the index of the loop."""
    known: dict[IndexVar, int] = {}
    for n, var in enumerate(variables):
        fresh = [var]
        while fresh:
            at = fresh.pop()
            if at in known:
                continue
            known[at] = n
            relation = provenance.above.get(at)
            if relation is not None and all(child in known for child in relation.children):
                fresh += relation.parents
    return known
