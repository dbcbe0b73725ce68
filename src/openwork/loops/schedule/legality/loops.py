"""Legality of every loop nest, checked after each command, with errors in the user's terms.

Storage is traversed in the order of its levels, positions are counted below known parents, results
are appended to in order, and parallel iterations do not race.
"""

from __future__ import annotations

from openwork.errors import ScheduleError
from openwork.format.levels import KeyLevel
from openwork.index.nodes import Access, IndexVar
from openwork.loops.absent import vanishes
from openwork.loops.nodes import Stmt
from openwork.loops.plan.assembly import Append, Shared
from openwork.loops.plan.nest import Path, completed, paths, provenance_of
from openwork.loops.plan.pieces import atoms, whole
from openwork.loops.plan.plan import Plan
from openwork.loops.plan.sorted import rises
from openwork.loops.plan.undealt import undealt
from openwork.loops.provenance import Provenance
from openwork.loops.relations import Coord, Cut, Pos
from openwork.loops.schedule.legality.parallel import check_tags, merged
from openwork.tree import walk


def check_nest(plan: Plan) -> Plan:
    """`plan`, if its loops can be lowered and give the answer of the statement.

    Raises:
        ScheduleError: E304 for storage out of order, E305 for positions whose parents are unknown,
            E312 for a result out of order, E307 for races, E308 for loops that cannot be parallel,
            E313 for a result that is assembled in pieces that cannot be cut, E315 for loops of a
            GPU that are not nested as its units are; E306 and E308 for values that are dealt out
            in loops that are apart or cannot share them.
    """
    _check_loops(undealt(plan))
    return plan


def _check_loops(plan: Plan) -> None:
    provenance = provenance_of(plan)
    for path in paths(plan.loops):
        known = completed(provenance, path.variables)
        _check_storage(path, known)
        _check_blocks(plan, path, known, provenance)
        _check_positions(plan, path, known, provenance)
        _check_places(plan, path, provenance)
        _check_runs(plan, path, known, provenance)
        _check_order(path, known, provenance)
        _check_coordinates(path, provenance)
        if isinstance(plan.assembly, Append) and path.assign.lhs.tensor == plan.result:
            _check_append(path, provenance)
        check_tags(plan, path, provenance)
    _check_pieces(plan)


def _check_pieces(plan: Plan) -> None:
    """A result that is assembled in pieces has an outermost loop that can be cut."""
    if not isinstance(plan.assembly, Append) or plan.assembly.strategy == "serial":
        return
    fault = whole(plan)
    if fault is not None:
        raise ScheduleError(
            f"{plan.result} cannot be assembled in pieces: {fault}",
            code="E313",
            hint="keep a loop over its first mode outermost, or use assemble(serial)",
        )


def _check_storage(path: Path, known: dict[IndexVar, int]) -> None:
    for access in path.accesses:
        variables = access.level_vars
        for n, kind in enumerate(access.tensor.format.levels):
            for outer in variables[:n] if not kind.locates else ():
                inner = variables[n]
                twice = (
                    inner in variables[:n]
                )  # A[i, j, i]: its place at the last level is looked up
                if not twice and known.get(outer, 0) > known.get(inner, 0):
                    raise ScheduleError(
                        f"{access.tensor} is stored with {outer} outside of {inner}, but the loops "
                        f"bind {inner} first: {', '.join(map(str, path.variables))}",
                        code="E304",
                        hint=f"keep {outer} outside of {inner}, or store {access.tensor} in the "
                        "other order",
                    )


def _check_blocks(
    plan: Plan, path: Path, known: dict[IndexVar, int], provenance: Provenance
) -> None:
    """The extent of a block is known only once the block is known."""
    for block in plan.blocks:
        within = [n for n, v in enumerate(path.variables) if block.inner in provenance.roots(v)]
        if within and known.get(block.outer, within[0]) >= within[0]:
            raise ScheduleError(
                f"{block.inner} runs within a block of {block.var}, but which one is not known "
                f"there: {', '.join(map(str, path.variables))}",
                code="E304",
                hint=f"keep {block.outer} outside of {block.inner}",
            )


def _check_positions(
    plan: Plan, path: Path, known: dict[IndexVar, int], provenance: Provenance
) -> None:
    """Positions are counted below parents that are known, and strided ones drive alone."""
    for n, var in enumerate(path.variables):
        for outer in _runs_above(var, provenance):
            if known.get(outer, n) >= n:
                raise ScheduleError(
                    f"{var} counts positions within a run of {outer}, which is not known there: "
                    f"{', '.join(map(str, path.variables))}",
                    code="E305",
                    hint=f"keep {var} inside of {outer}",
                )
        for pos in provenance.spaces(var):
            access = pos.access
            variables = provenance.underived(pos.parent)
            first = access.level_vars.index(variables[0])
            for outer in access.level_vars[:first]:
                if outer in variables:
                    continue
                if known.get(outer, n) >= n:
                    raise ScheduleError(
                        f"{var} counts positions of {access.tensor} below one {outer}, which is "
                        f"not known there: {', '.join(map(str, path.variables))}",
                        code="E305",
                        hint=f"keep {var} inside of {outer}, or fuse {outer} with "
                        f"{variables[0]} first",
                    )
            above = [known[outer] for outer in access.level_vars[:first] if outer not in variables]
            if above and not any(node == access for node in walk(path.loops[max(above)].body)):
                raise ScheduleError(
                    f"{var} counts positions of {access.tensor} in loops that do not read it",
                    code="E305",
                    hint=f"precompute inside of {access.level_vars[first - 1]}, or fuse it with "
                    f"{variables[0]} before pos",
                )


def _check_places(plan: Plan, path: Path, provenance: Provenance) -> None:
    """Stored places that are in no order decide alone where there is work, in whatever order."""
    for loop in path.loops:
        for pos in provenance.spaces(loop.var):
            if not _scattered(pos, provenance):
                continue
            name, why = pos.access.tensor, None
            if not vanishes(loop.body, pos.access, provenance):
                why = "there is also work where it has no entry"
            elif isinstance(plan.assembly, Append) and path.assign.lhs.tensor == plan.result:
                why = f"{plan.result} is sparse and appended to in order"
            elif provenance.space(loop.var) != pos:
                why = f"{loop.var} goes back to them"
            if why is not None:
                raise ScheduleError(
                    f"{pos.child} counts places of {name}, which do not come in the order of its "
                    f"coordinates, but {why}",
                    code="E305",
                    hint=f"leave out pos, or store {name} with runs one after another: .to(ow.CSR)",
                )


def _scattered(pos: Pos, provenance: Provenance) -> bool:
    """Whether positions of several levels are places that are not in the order of coordinates."""
    variables = provenance.underived(pos.parent)
    last = pos.access.tensor.format.levels[pos.access.level_vars.index(variables[-1])]
    return len(variables) > 1 and not last.contiguous


def _runs_above(var: IndexVar, provenance: Provenance) -> list[IndexVar]:
    """What counts the runs in which `var` went to positions, or back to coordinates."""
    found: list[IndexVar] = []
    for at in provenance.ancestors(var):
        relation = provenance.above.get(at)
        if isinstance(relation, (Pos, Coord)):
            for inner in provenance.ancestors(relation.parent):
                above = provenance.above.get(inner)
                if isinstance(above, Cut) and above.inner == inner:
                    found.append(above.outer)
    return found


def _check_runs(plan: Plan, path: Path, known: dict[IndexVar, int], provenance: Provenance) -> None:
    """A run of positions, or one between split points, is entered before it is traversed."""
    order = {var: n for n, var in enumerate(path.variables)}
    for relation in provenance.cuts:
        outer, inner = relation.outer, relation.inner
        within = [n for n, v in enumerate(path.variables) if inner in provenance.ancestors(v)]
        if outer not in known or not within or known[outer] < within[0]:
            continue
        roots = provenance.roots(relation.parent)
        for access in path.accesses:
            hashed = access.tensor.ndim > 1 and not access.tensor.format.is_dense
            if hashed and any(
                isinstance(kind, KeyLevel) and var in roots
                for kind, var in zip(access.tensor.format.levels, access.level_vars, strict=True)
            ):
                raise ScheduleError(
                    f"{inner} cannot come outside of {outer}: {access.tensor} lists its keys, and "
                    "cannot be searched for one",
                    code="E304",
                    hint=f"keep {outer} outside of {inner}",
                )
        pos = provenance.space(relation.parent)
        body = path.loops[order.get(inner, known.get(inner, within[0]))].body
        alone = pos is None or drives_alone(pos, body, provenance, _alike(plan))
        if not relation.even or not alone:
            why = (
                "runs are of different lengths"
                if not relation.even
                else f"{pos and pos.access.tensor} does not decide alone where there is work"
            )
            raise ScheduleError(
                f"{inner} cannot come outside of {outer}: {why}",
                code="E304",
                hint=f"keep {outer} outside of {inner}",
            )


def _check_order(path: Path, known: dict[IndexVar, int], provenance: Provenance) -> None:
    """Unsorted coordinates are neither merged nor cut: no part of them can be searched for.

    Those of a result are only written: it may be computed in order.
    """
    read = (a for a in path.accesses if a != path.assign.lhs)
    loose = [a for a in read if not rises(a.tensor.format)]
    for n, loop in enumerate(path.loops if loose else ()):
        together = merged(loop, path.loops[:n], provenance)
        if set(together) & set(loose):
            raise ScheduleError(
                f"{loop.var} merges {' and '.join(str(a.tensor) for a in together)} in order, but "
                f"the coordinates of {next(a for a in together if a in loose).tensor} are unsorted",
                code="E304",
                hint="sort them first: .to(ow.CSR)",
            )
    for access in loose:
        for kind, var in zip(access.tensor.format.levels, access.level_vars, strict=True):
            for relation in provenance.cuts if not kind.ordered else ():
                if (
                    (relation.outer in known or relation.inner in known)
                    and var in provenance.roots(relation.parent)
                    and provenance.space(relation.parent) is None
                ):
                    raise ScheduleError(
                        f"{relation.parent} cannot be cut: the coordinates that {access.tensor} "
                        f"stores for {var} are unsorted",
                        code="E304",
                        hint=f"cut the positions of {access.tensor}, pos({var},...), or sort it",
                    )


def _check_coordinates(path: Path, provenance: Provenance) -> None:
    """A tensor that is indexed by positions is not accessed from runs of coordinates."""
    back = [
        relation
        for var in path.variables
        for above in provenance.ancestors(var)
        if above != var and isinstance(relation := provenance.above.get(above), Coord)
    ]
    for access in path.accesses if back else ():
        for relation in back:
            counted = {provenance.same_values(v) for v in provenance.ancestors(relation.parent)}
            for var in access.vars:
                if provenance.space(var) is not None and provenance.same_values(var) in counted:
                    raise ScheduleError(
                        f"{access.tensor} is indexed by the positions {var}, which runs of the "
                        f"coordinates {relation.child} do not know",
                        code="E305",
                        hint=f"leave {relation.child} whole, or use coord before precompute",
                    )


def _alike(plan: Plan) -> tuple[Access, Access] | None:
    """A result and the operand whose pattern it shares: traversing one traverses both."""
    shared = plan.assembly if isinstance(plan.assembly, Shared) else None
    return None if shared is None else (plan.assignment.lhs, shared.operand)


def drives_alone(
    pos: Pos, body: Stmt, provenance: Provenance, alike: tuple[Access, Access] | None = None
) -> bool:
    """Whether there is work only where the operand of `pos` has entries, and no other is sparse.

    `alike`: accesses that have their entries at the same places.
    """
    variables = set(provenance.underived(pos.parent))
    walked = set(alike) if alike is not None and pos.access in alike else {pos.access}
    others = {node for node in walk(body) if isinstance(node, Access)} - walked
    sparse = any(
        var in variables and not kind.locates
        for access in others
        for kind, var in zip(access.tensor.format.levels, access.level_vars, strict=True)
    )
    return not sparse and vanishes(body, pos.access, provenance)


def _check_append(path: Path, provenance: Provenance) -> None:
    """A sparse result is appended to in the order of its levels."""
    result = path.assign.lhs
    levels = result.tensor.format.levels
    depth = max(n + 1 for n, kind in enumerate(levels) if not kind.full)
    place = {var: n for n, var in enumerate(result.level_vars)}
    latest: tuple[int, ...] = (-1,)
    for var in (atom for loop in path.variables for atom in atoms(loop, provenance)):
        mine = tuple(place.get(u, -1) for u in provenance.underived(var))
        if -1 in mine:
            raise _out_of_order(result, f"{var} is reduced around it")
        rises = max(latest) < min(mine) or min(max(latest), min(mine)) >= depth
        if mine != latest and not (rises and mine == tuple(sorted(mine))):
            raise _out_of_order(result, f"{var} comes after a variable further in")
        again = [n for n in mine[:-1] if not levels[n].full]
        if any(levels[n + 1].full for n in again):  # else the row is continued
            raise _out_of_order(result, f"{var} may leave a row and come back to it")
        latest = mine
    for relation in provenance.cuts:
        outer = _leaves(relation.outer, path, provenance)
        inner = _leaves(relation.inner, path, provenance)
        if outer and inner and max(outer) > min(inner):
            raise _out_of_order(result, f"{relation.inner} comes before {relation.outer}")


def _leaves(var: IndexVar, path: Path, provenance: Provenance) -> list[int]:
    """Where the loops are that derive from `var`."""
    loops = enumerate(path.variables)
    return [n for n, loop in loops if loop != var and var in provenance.ancestors(loop)] or [
        n for n, loop in enumerate(path.variables) if loop == var
    ]


def _out_of_order(result: Access, why: str) -> ScheduleError:
    return ScheduleError(
        f"{result.tensor} is sparse and appended to in order, but {why}",
        code="E312",
        hint=f"keep the loops in the order of {result.tensor}'s levels, or make the result dense",
    )
