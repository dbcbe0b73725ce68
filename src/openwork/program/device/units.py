"""Kernels: how the loops of one launch are distributed over blocks, warps and threads.

Every thread executes the whole body. A loop for a unit begins at the unit's index and strides by
the number of units. Every thread executes code outside of thread loops, but only one stores. A
barrier separates a store from another thread's load.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from openwork.algebra.types import size_of
from openwork.frozen import frozen
from openwork.loops.fresh import take_name
from openwork.program import nodes as p
from openwork.program.device.groups import Lasts, converged, last_stores
from openwork.program.device.ownership import Ownership, clears, ownership
from openwork.program.effects import Touched, independent, touched
from openwork.program.gpu_nodes import (
    BLOCK_X,
    BLOCK_Y,
    GRID_X,
    GRID_Y,
    LANE,
    MOST_SHARED,
    THREAD,
    WARP,
    Address,
    Barrier,
    ByOne,
    Combine,
    Scratch,
    Shared,
    Together,
)
from openwork.program.nodes import Array, Expr, Name, Value, block, compare
from openwork.tree import Node, children, map_children, replace, walk

MOST_THREADS, MOST_RESIDENT, MOST_BLOCKS_Y = 1024, 2048, 65535
MOST_NAMED = 15  # barriers for a part of a block
_USUAL_THREADS, _USUAL_WARPS, _WARP = 256, 8, 32


@frozen
class Geometry:
    """The shape of a block: `warps` units of `lanes` threads.

    `resident`: threads that should be resident on a multiprocessor (launch bounds).
    """

    warps: int
    lanes: int
    resident: int = 0

    @property
    def threads(self) -> int:
        """The threads of a block."""
        return self.warps * self.lanes

    @property
    def within_warps(self) -> bool:
        """Whether a unit is a part of a hardware warp, whose threads can synchronize."""
        return self.lanes <= _WARP and self.lanes == _power(self.lanes)

    @property
    def of_warps(self) -> bool:
        """Whether a unit is several hardware warps, with a barrier of its own."""
        return self.lanes % _WARP == 0 and self.warps <= MOST_NAMED

    def synchronizes(self, body: Node) -> bool:
        """Whether the threads of a unit can synchronize as `body` does."""
        if self.within_warps:
            return True
        meets = (Barrier, Together)
        nodes = list(walk(body))
        helps = any(
            isinstance(n, p.Helper) and n.facts.collective and n.args[-1] == Value(self.lanes)
            for n in nodes
        )
        return not helps and (self.of_warps or not any(isinstance(n, meets) for n in nodes))


def geometries_of(stmts: tuple[p.Stmt, ...]) -> tuple[Geometry, ...]:
    """The geometries that suit the loops of a launch.

    The first has a thread for each iteration of the loops for warps and threads, however many. The
    threads of the last can always synchronize: a unit is within a hardware warp, and its threads
    may have several iterations each.
    """
    loops = [pair for s in stmts for pair in _shared_loops(s)]
    warps, threads = ([x for x in loops if x[1].kind == kind] for kind in ("warp", "thread"))
    if _needs_one_thread(stmts):
        return (Geometry(1, 1),)
    if warps:  # thread loops outside of warp loops use all threads of the block
        threads = [x for w, _ in warps for x in _shared_loops(w) if x[1].kind == "thread"]
    combines = any(loop.reductions or by.group for loop, by in threads)
    usual = _WARP if warps else _USUAL_THREADS
    asked = max([_asked(loop, by, usual) for loop, by in threads], default=1)
    group = max([by.group for _, by in threads], default=0)
    lanes = asked
    if warps or (combines and lanes <= _WARP):
        lanes = max(min(_power(lanes), _WARP), group)
    elif combines:
        lanes = -(-lanes // _WARP) * _WARP
    if lanes > MOST_THREADS:
        lanes = _USUAL_THREADS
    units = max([by.count or by.most or _USUAL_WARPS for _, by in warps], default=1)
    grouped = any(by.group for _, by in loops)
    # Whole groups, wherever they begin.
    count = -(-units * lanes // _WARP) * _WARP // lanes if grouped else units
    given = max([by.threads for _, by in loops], default=0)
    if given:
        return (_with_bounds(_of_threads(given, lanes, bool(warps)), loops),)
    safe = Geometry(max(1, min(count, MOST_THREADS // lanes)), lanes)
    exact = Geometry(units, -(-asked // max(1, group)) * max(1, group))
    whole = exact.threads % max([1, *(by.group for _, by in loops)]) == 0
    if warps and exact.lanes != lanes and exact.threads <= MOST_THREADS and whole:
        return _with_bounds(exact, loops), _with_bounds(safe, loops)
    return (_with_bounds(safe, loops),)


def _asked(loop: p.For, by: p.Unit, usual: int) -> int:
    """The threads that a loop for threads has work for."""
    own, beside = by.count or by.most or usual, _beside(loop)
    return min(_power(own), _WARP // beside) * beside if beside else own


def _beside(loop: p.For) -> int:
    """The size of the groups that run inside of a loop for threads; 0 if there are none."""
    inner = _shared_loops(loop.body) if loop.unit == "thread" else []
    return max([by.group for _, by in inner if by.kind == "thread"], default=0)


def _of_threads(given: int, lanes: int, in_warps: bool) -> Geometry:
    """A block of `given` threads, whole warps; in units of `lanes`, if it has units."""
    if not in_warps:
        return Geometry(1, given)
    lanes = min(lanes, given)
    return Geometry(given // lanes, lanes)


def _with_bounds(geometry: Geometry, loops: list[tuple[p.For, p.Unit]]) -> Geometry:
    """`geometry` with launch bounds, given in threads or in blocks."""
    resident = max([by.resident for _, by in loops], default=0)
    together = max([by.together for _, by in loops], default=0)
    blocks = min(together, MOST_RESIDENT // geometry.threads)
    return replace(geometry, resident=resident or blocks * geometry.threads)


def _shared_loops(node: Node) -> list[tuple[p.For, p.Unit]]:
    """The loops in `node` that GPU units execute, with their units."""
    loops = (n for n in walk(node) if isinstance(n, p.For))
    return [(loop, loop.by) for loop in loops if isinstance(loop.by, p.Unit)]


def _power(n: int) -> int:
    return 1 << max(0, n - 1).bit_length()


def _needs_one_thread(stmts: tuple[p.Stmt, ...]) -> bool:
    """Whether key lists are built outside of thread loops: then one thread executes everything."""

    def makes_lists(node: Node, inside: bool) -> bool:
        together = any(isinstance(n, p.Helper) and n.facts.collective for n in children(node))
        inside = inside or together
        lists = isinstance(node, p.Helper) and not node.facts.reads
        if (lists or isinstance(node, (p.Grow, p.Do))) and not inside:
            return True
        within = inside or isinstance(node, ByOne)
        within = within or (isinstance(node, p.For) and node.unit == "thread")
        return any(makes_lists(child, within) for child in children(node))

    return any(makes_lists(s, False) for s in stmts)


@dataclass
class Distribution:
    """Builds the body of a kernel from the statements of a launch."""

    geometry: Geometry
    exact: Callable[[p.For], bool]  # whether there is a block for each iteration
    scratch: list[Scratch] = field(default_factory=list)
    counters: list[Array] = field(default_factory=list)
    offsets: dict[str, Expr] = field(default_factory=dict)
    shared: list[Shared] = field(default_factory=list)
    sums: dict[Name, Shared] = field(default_factory=dict)  # where warps combine their sums
    grid: list[tuple[Expr, Expr]] = field(default_factory=list)
    local: set[str] = field(default_factory=set)
    taken: set[str] = field(default_factory=set)
    turns: int = 0  # how many blocks there are, if the schedule says so
    one_block: bool = False
    planes: int = 1  # dimensions of the grid
    sole: bool = False  # whether one loop over blocks has all others inside
    owners: Ownership = field(default_factory=Ownership)
    blank: dict[Name, Value] = field(default_factory=dict)  # scalars that hold a constant
    unread: set[str] = field(default_factory=set)  # workspaces that nothing accesses
    # Threads of the loop around groups that all run the same here, and whether all of a unit do.
    apart: tuple[int, bool] = (0, True)

    def body(self, stmts: tuple[p.Stmt, ...]) -> p.Block:
        """The whole body."""
        self.planes = max(_planes(s) for s in stmts)
        self.sole = sum(map(_outermost, stmts)) == 1
        self.owners = ownership(stmts)
        self.unread = _only_allocated(stmts)
        self.taken |= {name for s in stmts for name in p.names_in(s)}
        done = self._sequence(stmts, ())
        lanes = self.geometry.lanes
        lane = THREAD % lanes if self.geometry.warps > 1 else THREAD
        declared = [
            p.Declare(WARP, THREAD / lanes, fixed=True),
            p.Declare(LANE, lane, fixed=True),
            *self._own_parts(),
        ]
        moved = cast(p.Block, _moved(done, self.offsets))
        used = {n for n in walk(moved) if isinstance(n, Name)} | self._hidden(moved)
        parts = (n for d in declared[2:] if d.name in used for n in walk(d.value))
        used |= {n for n in parts if isinstance(n, Name)}
        memory = (*self.sums.values(), *self.shared)
        return block(*memory, *(d for d in declared if d.name in used), moved)

    def _own_parts(self) -> list[p.Declare]:
        """Name where this unit's part of each array begins, which the body says many times."""
        declared: list[p.Declare] = []
        for array, first in self.offsets.items():
            name = Name(self._fresh(f"{array}_begin"))
            declared.append(p.Declare(name, first, fixed=True))
            self.offsets[array] = name
        return declared

    def _hidden(self, body: Node) -> set[Name]:
        """Names that collective operations use implicitly."""
        return {LANE} if any(isinstance(n, (Combine, Together)) for n in walk(body)) else set()

    # -- statements -----------------------------------------------------------------------------

    def _sequence(self, stmts: tuple[p.Stmt, ...], active: tuple[str, ...]) -> p.Block:
        """Statements in order, with barriers between conflicting ones."""
        done: list[p.Stmt] = []
        before = Touched()
        alone = self._alone(active)
        blank: dict[Name, Value] = {}
        for s in stmts:
            self.blank = blank
            now = self._touched(s, active)
            if not alone and before.meets(now):
                done.append(self._barrier(active))
                before = Touched()
            before = before.and_then(now)
            done += self._stmt(s, active).body
            blank = _still_blank(blank, s)
        return block(*done)

    def _touched(self, s: p.Stmt, active: tuple[str, ...]) -> Touched:
        """What `s` accesses of arrays that threads share, but for elements that belong to one."""
        return touched(s).without(self.local | self._own(active))

    def _own(self, active: tuple[str, ...]) -> set[str]:
        """The arrays whose elements each belong to one of the threads that meet at a barrier."""
        return set(self.owners.lanes if "warp" in active else self.owners.threads)

    def _alone(self, active: tuple[str, ...]) -> bool:
        """Whether each thread runs on its own here."""
        g = self.geometry
        return ("thread" in active or g.lanes == 1) and ("warp" in active or g.warps == 1)

    def _repeats(self, active: tuple[str, ...]) -> bool:
        """Whether several threads run the same here."""
        return not self._alone(active) or self.apart[0] > 0

    def _barrier(self, active: tuple[str, ...]) -> Barrier:
        g = self.geometry
        alone = g.warps == 1 and not g.within_warps
        return Barrier(g.lanes if "warp" in active and not alone else None)

    def _stmt(self, s: p.Stmt, active: tuple[str, ...]) -> p.Block:
        match s:
            case p.Block(body=body):
                return self._sequence(body, active)
            case p.For(by=p.Unit() as by):
                return self._unit(s, by, active)
            case p.For() if not self._alone(active) and clears(s) and self._owned(s):
                return self._clear(s, active)
            case p.For(simd=True) if not self._alone(active) and independent(s):
                return self._unit(s, p.Unit("thread"), active)
            case p.For(unrolled=True) if self._repeats(active) and self._only_stores(s.body):
                return self._by_one(s, active)
            case p.For() | p.While():
                inner = self._sequence((s.body,), active)
                around = () if self._alone(active) else self._around(s.body, active)
                whole = block(inner, *around)
                if isinstance(s, p.While):
                    return block(replace(s, body=whole, polls=False))
                return block(replace(s, body=whole, polls=0, simd=False))
            case p.If(condition=condition, then=then, otherwise=otherwise):
                other = None if otherwise is None else self._sequence((otherwise,), active)
                return block(p.If(condition, self._sequence((then,), active), other))
            case p.Store(array=array, atomic=True) if array.name in self.local:
                return block(replace(s, atomic=False))
            case p.Store(array=array) if array.name not in self.local:
                return self._by_one(s, active)
            case ByOne(body=body):
                return self._by_one(body, active)
            case p.Do(call=call) if call.facts.collective:
                return block(p.Do(self._collective(call, active)))
            case p.Set(value=p.Helper() as call) if call.facts.collective:
                return block(replace(s, value=self._collective(call, active)))
            case p.Local(array=array, apiece=True):
                self.local.add(array.name)
                return block(s)
            case p.Local(array=array, count=count):
                return self._workspace(p.Allocate(array, Value(count)), active)
            case p.Allocate():
                return self._workspace(s, active)
            case p.Free():
                return block()
        return block(s)

    def _collective(self, call: p.Helper, active: tuple[str, ...]) -> p.Helper:
        """A collective call, with the number of participating threads."""
        lanes = 1 if self._alone(active) else self.geometry.lanes if "warp" in active else 0
        return replace(call, args=(*call.args, Value(lanes)))

    def _owned(self, loop: p.For) -> bool:
        """Whether all elements that the loop clears belong to threads, by one formula."""
        stores = [n for n in walk(loop.body) if isinstance(n, p.Store)]
        return len({self.owners.threads.get(s.array.name) for s in stores} | {None}) == 2 and all(
            s.array.name in self.owners.threads for s in stores
        )

    def _clear(self, loop: p.For, active: tuple[str, ...]) -> p.Block:
        """Let each thread clear the elements that belong to it."""
        store = next(n for n in walk(loop.body) if isinstance(n, p.Store))
        owners = self.owners.threads[store.array.name]
        count = int(loop.end.value.real) if isinstance(loop.end, Value) else None
        if len(owners) == 1 and owners[0].kind == "thread" and owners[0].begin == Value(0):
            match owners[0].steps:
                case ():
                    loop = replace(loop, unrolled=False)
                    return self._unit(loop, p.Unit("thread", most=count), active)
                case (("/", Value(value=each)),) if count and count % each.real == 0:
                    return self._clear_runs(loop, count, int(each.real), active)
        mine: list[Expr] = []
        for owner in owners:
            unit = p.Unit(owner.kind)
            first, units, _ = self._share(loop, unit, ("warp",) if owner.in_warp else ())
            mine.append(compare("==", owner.iteration(loop.var) % units, first))
        whether = p.every(mine)
        body = loop.body if whether is None else block(p.If(whether, loop.body))
        return block(replace(loop, body=body, simd=False))

    def _clear_runs(self, loop: p.For, count: int, each: int, active: tuple[str, ...]) -> p.Block:
        """Let each thread clear runs of `each` adjacent elements."""
        run, part = (Name(self._fresh(f"{loop.var.name}_{what}")) for what in ("run", "part"))
        at = p.Declare(loop.var, run * each + part, fixed=True)
        inner = p.For(part, Value(0), Value(each), block(at, loop.body), unrolled=True)
        runs = p.For(run, Value(0), Value(count // each), block(inner), loop.comment)
        return self._unit(runs, p.Unit("thread", most=count // each), active)

    def _only_stores(self, body: p.Stmt) -> bool:
        """Whether `body` only stores to memory that threads share."""
        inner = [n for n in walk(body) if isinstance(n, p.Stmt)]
        return all(isinstance(n, (p.Block, p.Declare, p.Store)) for n in inner) and not any(
            isinstance(n, p.Store) and n.array.name in self.local for n in inner
        )

    def _around(self, body: p.Stmt, active: tuple[str, ...]) -> tuple[p.Stmt, ...]:
        """A barrier between two iterations, if they conflict."""
        all_of_it = self._touched(body, active)
        return (self._barrier(active),) if all_of_it.meets(all_of_it) else ()

    def _by_one(self, s: p.Stmt, active: tuple[str, ...]) -> p.Block:
        """Let only the first of the converged threads execute `s`."""
        first: list[Expr] = []
        g = self.geometry
        own = {x.array.name for x in self.shared} | {x.array.name for x in self.scratch}
        stores = {n.array.name for n in walk(s) if isinstance(n, p.Store)}
        if self.planes > 1 and active.count("block") == 1 and not stores <= own:
            first.append(compare("==", BLOCK_Y, 0))
        if self.apart[0]:
            first.append(compare("<", LANE, self.apart[0]))
        if self._alone(active):
            whether = p.every(first)
            return block(s if whether is None else p.If(whether, block(s)))
        if "warp" not in active and "thread" not in active:
            first.append(compare("==", THREAD, 0))
        elif "thread" not in active:
            first.append(compare("==", LANE, 0))
        elif "warp" not in active and g.warps > 1:
            first.append(compare("==", WARP, 0))
        whether = p.every(first)
        return block(s) if whether is None else block(p.If(whether, block(s)))

    # -- memory ---------------------------------------------------------------------------------

    def _workspace(self, s: p.Allocate, active: tuple[str, ...]) -> p.Block:
        """Place a workspace: in registers of a thread, in shared memory, or in global memory."""
        if s.array.name in self.unread:
            return block()
        count = int(s.count.value.real) if isinstance(s.count, Value) else None
        if self._alone(active) and count is not None and count <= _MOST_REGISTERS and not s.zeroed:
            self.local.add(s.array.name)
            return block(p.Local(s.array, count))
        units = "thread" if self._alone(active) else "warp" if "warp" in active else "block"
        copies = self.geometry.warps if units == "warp" else 1
        size = (count or 0) * copies * _bytes(s.array.type)
        used = sum(x.count * _bytes(x.array.type) for x in self.shared)
        if count is not None and units != "thread" and size + used <= MOST_SHARED and not s.zeroed:
            before = [x for x in self.shared if x.array == s.array]
            self.shared = [x for x in self.shared if x.array != s.array]
            most = max([count * copies, *(x.count for x in before)])
            self.shared.append(Shared(s.array, most))
            if copies > 1:
                self.offsets[s.array.name] = WARP * count
            return block()
        self.scratch.append(Scratch(s.array, s.count, units, s.zeroed))
        self.offsets[s.array.name] = self._number(units) * s.count
        return block()

    def _number(self, unit: str) -> Expr:
        """The index of this unit among all units of the grid."""
        number: Expr = BLOCK_Y * GRID_X + BLOCK_X if self.planes > 1 else BLOCK_X
        if unit == "warp":
            number = number * self.geometry.warps + WARP
        if unit == "thread":
            number = number * self.geometry.threads + THREAD
        return number

    # -- loops ----------------------------------------------------------------------------------

    def _unit(self, loop: p.For, by: p.Unit, active: tuple[str, ...]) -> p.Block:
        chunk = 0 if self.one_block or by.kind != "block" else by.chunk
        self.turns = max(self.turns, 0 if self.one_block else by.turns)
        first, count, once = (Value(0), Value(1), False) if chunk else self._share(loop, by, active)
        inside = (*active, by.kind)
        if by.kind == "thread" and "warp" not in active:
            inside = (*active, "warp", "thread")
        private = [t for s in by.private for t in self._stmt(s, inside).body]
        lasts = self._lasts(loop, by, active)
        if lasts is None and by.group > 1 and self.geometry.threads > 1 and not loop.reductions:
            body = converged(loop, by, first, count, once, self._fresh)
            return block(*private, self._sequence(body.body, inside))
        if lasts is not None:
            loop = replace(loop, body=lasts.body)
        own, loop = self._own_sums(loop, by, of_block="warp" not in active)
        around, self.apart = self.apart, self._apart(loop)
        body = self._sequence((loop.body,), inside)
        self.apart = around
        if not self._alone(inside) and not once:
            # Iterations are independent of each other, but share the memory of their workspaces.
            memory = {s.array.name for s in self.shared} | {s.array.name for s in self.scratch}
            inner = touched(loop.body)
            again = (inner.first | inner.many | inner.updated) & (memory - self._own(inside))
            body = block(body, *([self._barrier(inside)] if again else []))
        if chunk:
            return self._in_chunks(loop, chunk, by.turns, private, body)
        begin = loop.begin + first
        if first == BLOCK_X and once and self.sole:  # the grid has exactly these blocks
            here = p.Declare(loop.var, begin, fixed=True)
            return block(*private, *own.before, _told(loop), here, body, *own.after)
        plain = replace(
            loop, begin=begin, step=count, once=once, body=body, by=None, reductions=(),
            simd=False, polls=0,
        )  # fmt: skip
        if lasts is not None:
            return block(*private, lasts.around(plain, loop.begin, first, self._fresh))
        return block(*private, *own.before, plain, *own.after)

    def _lasts(self, loop: p.For, by: p.Unit, active: tuple[str, ...]) -> Lasts | None:
        """The last stores of the threads of a loop, if groups of them can combine these."""
        g = self.geometry
        if by.kind != "thread" or loop.reductions or (self.planes > active.count("block")):
            return None
        lanes = g.lanes if "warp" in active else g.threads
        group = by.group or (_WARP if lanes % _WARP == 0 else lanes)
        if group < 2 or group != _power(group) or lanes % group:
            return None
        return last_stores(loop.body, group, self._fresh)

    def _in_chunks(
        self, loop: p.For, chunk: int, turns: int, private: list[p.Stmt], body: p.Block
    ) -> p.Block:
        """Blocks take the next iterations from a counter until there are none.

        for (first = next(); first < end; first = next())
          for (var = first; var < min(first + chunk, end); var++) body
        """
        counter = Array(self._fresh("chunks"), "uint64")
        first = Name(self._fresh(f"{loop.var.name}_chunk"))
        self.counters.append(counter)
        count = loop.end - loop.begin
        chunks = (count + (chunk - 1)) / chunk
        self.grid.append((Value(0), Value(turns) if turns else chunks))
        taken = loop.begin + p.Helper("next_chunk", (counter, Value(chunk), count))
        last = Name(f"{first.name}_end")
        stop = p.Declare(last, p.arithmetic("min", first + chunk, loop.end), fixed=True)
        inner = replace(loop, begin=first, end=last, body=body, by=None, simd=False, polls=0)
        return block(
            *private,
            p.Declare(first, taken),
            p.While(compare("<", first, loop.end), block(stop, inner, p.Set(first, taken))),
            p.Do(p.Helper("end_chunks", (counter,))),
        )

    def _share(self, loop: p.For, by: p.Unit, active: tuple[str, ...]) -> tuple[Expr, Expr, bool]:
        """The first iteration of a unit, the number of units, and whether one round suffices."""
        g = self.geometry
        if by.kind == "block":
            if self.one_block:
                return Value(0), Value(1), False
            at = active.count("block")
            self.grid.append((Value(0), Value(by.turns)) if by.turns else (loop.begin, loop.end))
            if by.turns:
                return (BLOCK_X, GRID_X, False) if at == 0 else (BLOCK_Y, GRID_Y, False)
            if at == 0:
                return BLOCK_X, GRID_X, self.exact(loop)
            few = 0 < (by.most or 0) <= MOST_BLOCKS_Y
            return BLOCK_Y, GRID_Y, few and self.exact(loop)
        if by.kind == "warp":
            number = WARP if g.warps > 1 else Value(0)
            return number, Value(g.warps), (by.most or g.warps + 1) <= g.warps
        if self.apart[0]:
            return LANE / self.apart[0], Value(by.group), (by.most or by.group + 1) <= by.group
        if lanes := self._apart(loop)[0]:
            return LANE % lanes, Value(lanes), (by.most or lanes + 1) <= lanes
        if g.warps > 1 and "warp" not in active:
            # A thread loop outside of warp loops uses all threads of the block.
            return THREAD, Value(g.threads), (by.most or g.threads + 1) <= g.threads
        return LANE, Value(g.lanes), (by.most or g.lanes + 1) <= g.lanes

    def _apart(self, loop: p.For) -> tuple[int, bool]:
        """How far apart the threads of groups inside of `loop` are, and whether no thread between
        them is idle; 0 if there are no groups."""
        beside = _beside(loop)
        lanes = self.geometry.lanes // beside if beside else 0
        return lanes, (loop.begin, loop.end) == (Value(0), Value(lanes)) or not beside

    def _own_sums(self, loop: p.For, by: p.Unit, of_block: bool) -> tuple[Own, p.For]:
        """A reduction: each thread has a private sum, and then all are combined.

        `of_block`: there is no warp loop around, so that a thread loop uses the whole block.
        """
        before: list[p.Stmt] = []
        after: list[p.Stmt] = []
        table: dict[Node, Node] = {}
        g = self.geometry
        stride, whole = max(1, self.apart[0]), self.apart[1]
        lanes = (g.lanes if stride == 1 else by.group) if by.kind == "thread" else 1
        lanes = self._apart(loop)[0] or lanes
        units = g.warps if by.kind == "warp" or of_block else 1
        alone = by.kind == "block" or lanes * units == 1
        for r in loop.reductions if not alone else ():
            # A sum that has not begun is each thread's own: to combine it with 0 adds nothing.
            begins = not r.width and _same(self.blank.get(r.name), r.identity)
            own = r.name if begins else Name(self._fresh(f"{r.name.name}_own"), r.name.type)
            combined: list[p.Stmt] = []
            if lanes > 1:
                sums = self._sums(own, g.threads // _WARP) if lanes > _WARP else None
                group = Together(own, r.op, r.identity, lanes, 0, sums, stride, whole)
                combined.append(group)
            if units > 1:
                sums = self._sums(own, units)
                combined.append(Together(own, r.op, r.identity, g.lanes, units, sums))
            if r.width:
                at = Name(self._fresh(f"{r.name.name}_at"))
                mine, back = p.Declare(own, p.Load(r.array, at)), p.Store(r.array, at, own)
                each = block(mine, *combined, back)
                after.append(p.For(at, Value(0), Value(r.width), each, unrolled=True))
                continue
            if begins:
                after += combined
                continue
            table[r.name] = own
            before.append(p.Declare(own, r.identity))
            after += [*combined, p.Set(r.name, own, r.op)]
        body = cast(p.Stmt, _renamed(loop.body, table)) if table else loop.body
        return Own(before, after), replace(loop, body=body)

    def _sums(self, name: Name, count: int) -> Array:
        """Shared memory in which the threads of a block combine `name`, at every place alike."""
        known = self.sums.get(name)
        array = known.array if known else Array(self._fresh(f"{name.name}_sums"), name.type)
        self.sums[name] = Shared(array, max(count, known.count if known else 0))
        return array

    def _fresh(self, base: str) -> str:
        return take_name(base, self.taken)


@frozen
class Own:
    """Code before and after a loop whose threads have private sums."""

    before: list[p.Stmt]
    after: list[p.Stmt]


_MOST_REGISTERS = 256  # elements of a workspace that may stay in registers


def _only_allocated(stmts: tuple[p.Stmt, ...]) -> set[str]:
    """The arrays that are allocated, and perhaps freed, but never accessed."""
    nodes = [n for s in stmts for n in walk(s)]
    named = Counter(n.name for n in nodes if isinstance(n, Array))
    named -= Counter(n.array.name for n in nodes if isinstance(n, (p.Allocate, p.Free)))
    return {n.array.name for n in nodes if isinstance(n, p.Allocate)} - set(named)


def _bytes(type: str) -> int:
    return size_of(type)


def _planes(node: Node) -> int:
    """The nesting depth of loops for blocks."""
    if isinstance(node, p.Expr):
        return 0
    mine = isinstance(node, p.For) and node.unit == "block"
    return int(mine) + max(map(_planes, children(node)), default=0)


def _still_blank(blank: dict[Name, Value], s: p.Stmt) -> dict[Name, Value]:
    """The scalars that certainly hold the same constant in all threads after `s`."""
    match s:
        case (
            p.Declare(name=name, value=Value() as value)
            | p.Set(name=name, value=Value() as value, op=None)
        ):
            return {**blank, name: value}
    if not blank:
        return blank
    set_here = {n.name for n in walk(s) if isinstance(n, (p.Set, p.Reduction, Together))}
    return {name: value for name, value in blank.items() if name not in set_here}


def _same(one: Value | None, other: Value) -> bool:
    """Whether two constants are the same to the bit: 0 and -0 are not."""
    return one is not None and (one.type, repr(one.value)) == (other.type, repr(other.value))


def _outermost(node: Node) -> int:
    """The number of loops for blocks that are inside no other."""
    if isinstance(node, p.For) and node.unit == "block":
        return 1
    return sum(map(_outermost, children(node)))


def _told(loop: p.For) -> p.Comment | None:
    return p.Comment(loop.comment) if loop.comment else None


def _moved(node: Node, offsets: dict[str, Expr]) -> Node:
    """Offset every access by the begin of the unit's own part of the array."""
    if not offsets:
        return node
    node = map_children(node, lambda n: _moved(n, offsets))
    match node:
        case p.Load(array=array) | p.Store(array=array) if array.name in offsets:
            return replace(node, index=offsets[array.name] + node.index)
        case Combine(array=array) if array.name in offsets:
            return replace(node, base=offsets[array.name])
        case p.Helper(args=args) if any(isinstance(a, Array) and a.name in offsets for a in args):
            moved = tuple(
                Address(a, offsets[a.name]) if isinstance(a, Array) and a.name in offsets else a
                for a in args
            )
            return replace(node, args=moved)
    return node


def _renamed(node: Node, table: dict[Node, Node]) -> Node:
    return table.get(node) or map_children(node, lambda n: _renamed(n, table))
