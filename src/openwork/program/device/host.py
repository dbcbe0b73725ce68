"""Splits a program with GPU loops into kernels and the host's steps around them.

The host evaluates what it can: sizes, numbers of tiles, checks of bounds. Every other statement
goes into a kernel: each loop over blocks gets its own, along with the statements that depend on it
through a variable. Kernels run one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import cast

from openwork.program import nodes as p
from openwork.program.contract import NO_ROOM
from openwork.program.device.kernels import each_kernel, with_body
from openwork.program.device.units import Distribution, Geometry, geometries_of
from openwork.program.gpu_nodes import (
    LENGTHS,
    STATUS,
    Ask,
    DeviceProgram,
    Kernel,
    Launch,
    Scan,
)
from openwork.program.nodes import Array, Expr, Name, Value, block, compare
from openwork.program.simplify.dead import without_dead
from openwork.tree import Node, bottom_up, map_children, replace, walk

# Threads per block for a loop without dependences, each of which takes one iteration.
_USUAL_THREADS = 256


def on_device(program: p.Program) -> DeviceProgram:
    """`program` as kernels and host steps."""
    return _Host(program).made()


def with_statuses(device: DeviceProgram) -> DeviceProgram:
    """`device` where failing kernels leave a status; the host reads it, and may try again."""
    return each_kernel(
        device, lambda kernel: without_dead(cast(p.Block, bottom_up(_status)(kernel.body)))
    )


def without_unread(program: p.Program) -> p.Program:
    """`program` without inspectors whose results are never read."""
    return replace(program, body=_without_unread(without_dead(program.body)))


def _without_unread(body: p.Block) -> p.Block:
    kept = {s.array for s in body.body if isinstance(s, p.Allocate) and s.kept}
    read = {n.array for n in walk(body) if isinstance(n, p.Load)}
    read |= {n for h in walk(body) if isinstance(h, p.Helper) for n in h.args if n in kept}
    unread = kept - read
    if not unread:
        return body

    def is_for_nobody(s: p.Stmt) -> bool:
        made = [n.array for n in walk(s) if isinstance(n, (p.Allocate, p.Store))]
        return bool(made) and set(made) <= unread

    # Another array may have been filled from the removed one, and is now unread, too.
    return _without_unread(block(*(s for s in body.body if not is_for_nobody(s))))


@dataclass
class _Host:
    """The state of one program's translation for a GPU."""

    program: p.Program
    known: set[str] = field(default_factory=set)  # scalars that the host has
    sunk: dict[str, p.Declare] = field(default_factory=dict)  # scalars that kernels compute
    kernels: list[Kernel] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    rooms: list[Name] = field(default_factory=list)

    def made(self) -> DeviceProgram:
        self.known = {name.name for name in self.program.sizes} | {"room"}
        checks, whole = _checks_first(self.program)
        body = (*checks, *whole.body)
        grown = {
            g.array.name for n in walk(self.program.body) if isinstance(n, p.Grow) for g in n.arrays
        }
        made = [a for a in self.program.arguments if a.role == "made"]
        body = (*body, *self._lengths(made))
        if grown:
            body = _with_rooms(body, grown)
            self.rooms = [
                s.name
                for s in self.program.body.body
                if isinstance(s, p.Declare) and _is_room(s.name, self.program)
            ]
            self.known |= {room.name for room in self.rooms}
            body = tuple(s for s in body if not (isinstance(s, p.Declare) and s.name in self.rooms))
        host = self._sequence(body)
        return DeviceProgram(
            self.program, host, tuple(self.kernels), tuple(self.rooms), tuple(self.notes)
        )

    def _lengths(self, made: list[p.Argument]) -> list[p.Stmt]:
        counts = [a.count for a in made if a.count is not None]
        return [p.Store(LENGTHS, Value(n), count) for n, count in enumerate(counts)]

    # -- what runs where ------------------------------------------------------------------------

    def _sequence(self, stmts: tuple[p.Stmt, ...]) -> p.Block:
        """Host steps, and kernels for the rest."""
        done: list[p.Stmt] = []
        waiting: list[p.Stmt] = []  # statements of an unfinished kernel
        open_names: set[str] = set()

        def flush() -> None:
            if waiting:
                done.append(self._launch(tuple(waiting)))
                waiting.clear()

        for s, later in zip(map(_outside, stmts), _named_later(stmts), strict=True):
            if isinstance(s, (Scan, Ask)):
                flush()
            known = isinstance(s, p.Declare)  # on the host, even if a kernel is unfinished
            if (known or not waiting) and self._for_host(s):
                done += self._on_host(s)
                continue
            if not waiting and isinstance(s, p.Declare) and s.fixed:
                self.sunk[s.name.name] = s
                continue
            if waiting and not open_names and not (_is_serial(s) and _all_serial(waiting)):
                flush()
                if self._for_host(s):
                    done += self._on_host(s)
                    continue
                if isinstance(s, p.Declare) and s.fixed:
                    self.sunk[s.name.name] = s
                    continue
            if isinstance(s, p.Allocate):
                done.append(s)
                continue
            waiting.append(s)
            declared = {x.name.name for x in waiting if isinstance(x, p.Declare)}
            open_names = declared & later
        flush()
        return block(*done)

    def _for_host(self, s: p.Stmt) -> bool:
        match s:
            case p.Declare(value=value, fixed=True):
                return self._evaluates(value)
            case p.Allocate() | p.Free() | p.Comment() | Scan() | Ask():
                return True
            case p.Store(array=array, index=index, value=value):
                return array == LENGTHS and self._evaluates(index) and self._evaluates(value)
            case p.If(condition=condition) if _is_check(s):
                return self._evaluates(condition)
            case p.If(condition=condition):
                return _has_blocks(s) and self._evaluates(condition)
            case p.For(begin=begin, end=end, unit=""):
                return _has_blocks(s) and self._evaluates(begin) and self._evaluates(end)
        return False

    def _on_host(self, s: p.Stmt) -> list[p.Stmt]:
        match s:
            case p.Declare(name=name):
                self.known.add(name.name)
            case Ask(names=names):
                self.known |= {name.name for name in names}
            case p.For(var=var, body=body):
                self.known.add(var.name)
                return [replace(s, body=self._sequence(_body(body)), polls=False, simd=False)]
            case p.If(condition=condition, then=then, otherwise=otherwise) if not _is_check(s):
                other = None if otherwise is None else self._sequence(_body(otherwise))
                return [p.If(condition, self._sequence(_body(then)), other)]
        return [s]

    def _evaluates(self, e: Node) -> bool:
        """Whether the host can evaluate an expression: it knows sizes and index arrays."""
        index = {a.array for a in self.program.arguments if a.role == "operand" and a.level >= 0}
        for node in walk(e):
            if isinstance(node, Name) and node.name not in self.known:
                return False
            if isinstance(node, Array) and node not in index:
                return False
            if isinstance(node, p.Apply):
                return False
            if isinstance(node, p.Helper) and not node.facts.on_host:
                return False
        return True

    # -- kernels --------------------------------------------------------------------------------

    def _launch(self, stmts: tuple[p.Stmt, ...]) -> Launch:
        """A separate kernel for `stmts`."""
        stmts = tuple(_shared_out(s) for s in stmts)
        geometries = geometries_of(stmts)
        several = len(stmts) > 1 or _among_others(stmts)
        stmts = self._with_sunk(stmts)
        if several and any(map(_has_blocks, stmts)):
            self.notes.append("one block: later statements depend on these loops")
        alone = sum(_has_blocks(s) for s in stmts) == 1

        def exact(loop: p.For) -> bool:
            return alone and self._count(loop.begin, loop.end) is not None

        for geometry in geometries:
            work = Distribution(geometry, exact, one_block=several)
            body = work.body(stmts)
            if geometry.synchronizes(body):
                break
        if work.scratch:  # scratch memory is for a grid that may be smaller
            work = Distribution(geometry, lambda loop: False, one_block=several)
            body = work.body(stmts)
        loops = [n for s in stmts for n in walk(s) if isinstance(n, (p.For, p.While))]
        if loops and not any(isinstance(n, p.For) and n.unit for n in loops):
            self.notes.append("one thread: the schedule maps these loops to no unit")
        kernel = self._kernel(body, work, geometry)
        self.kernels.append(kernel)
        return Launch(kernel.name)

    def _with_sunk(self, stmts: tuple[p.Stmt, ...]) -> tuple[p.Stmt, ...]:
        """The statements, after the declarations they need that the host cannot evaluate."""
        needed: list[p.Declare] = []
        used = {name for s in stmts for name in p.names_in(s)}
        for name, declaration in reversed(self.sunk.items()):
            if name in used:
                needed.insert(0, declaration)
                used |= p.names_in(declaration.value)
        return (*needed, *stmts)

    def _kernel(self, body: p.Block, work: Distribution, geometry: Geometry) -> Kernel:
        grid = [self._count(*ends) for ends in work.grid[:2]]
        x, y, *_ = (*grid, Value(1), Value(1))
        kernel = Kernel(
            name=f"kernel_{len(self.kernels) + 1}",
            body=body,
            warps=geometry.warps,
            lanes=geometry.lanes,
            grid=(x, y),
            scratch=tuple(work.scratch),
            resident=geometry.resident,
            counters=tuple(work.counters),
            turns=work.turns,
        )
        return with_body(kernel, body)

    def _count(self, begin: Expr, end: Expr) -> Expr | None:
        count = end if begin == Value(0) else end - begin
        return count if self._evaluates(count) else None


def _body(s: p.Stmt) -> tuple[p.Stmt, ...]:
    return s.body if isinstance(s, p.Block) else (s,)


def _named_later(stmts: tuple[p.Stmt, ...]) -> list[frozenset[str]]:
    """The names in all statements after each."""
    found, later = list[frozenset[str]](), frozenset[str]()
    for s in reversed(stmts):
        found.append(later)
        later |= p.names_in(s)
    return found[::-1]


def _outside(s: p.Stmt) -> p.Stmt:
    """Registers exist within one thread of one kernel; between kernels data lies in memory."""
    return p.Allocate(s.array, Value(s.count)) if isinstance(s, p.Local) else s


def _has_blocks(s: Node) -> bool:
    return any(isinstance(n, p.For) and n.unit == "block" for n in walk(s))


def _among_others(stmts: tuple[p.Stmt, ...]) -> bool:
    """Whether loops over blocks have siblings or an outer loop: blocks cannot synchronize there."""
    work = [s for s in stmts if not (isinstance(s, p.Declare) and s.fixed)]
    if not any(map(_has_blocks, work)):
        return False
    match work:
        case [p.Block(body=body)]:
            return _among_others(body)
        case [p.If(then=then, otherwise=otherwise)]:
            return any(_among_others((s,)) for s in (then, otherwise) if s is not None)
        case [p.For(unit="block")]:
            return False
    return True


def _is_serial(s: p.Stmt) -> bool:
    """Whether `s` has no loop for GPU units."""
    return not any(isinstance(n, p.For) and (n.unit or n.simd) for n in walk(s))


def _all_serial(stmts: list[p.Stmt]) -> bool:
    return all(map(_is_serial, stmts))


def _is_check(s: p.If) -> bool:
    return any(isinstance(n, p.Fail) for n in walk(s)) and not any(
        isinstance(n, (p.For, p.While, p.Store)) for n in walk(s)
    )


def _checks_first(program: p.Program) -> tuple[list[p.Stmt], p.Block]:
    """The checks that depend only on sizes, to run before any kernel, and the rest."""
    sizes = {name.name for name in program.sizes}
    table = {n.name: n.value for n in walk(program.body) if isinstance(n, p.Declare) and n.fixed}
    found: list[p.Stmt] = []

    def spelled(node: Node) -> Node:
        if isinstance(node, Name) and node in table and node.name not in sizes:
            return spelled(table[node])
        return map_children(node, spelled)

    def rule(node: Node) -> Node | None:
        if not isinstance(node, p.If) or not _is_check(node):
            return None
        condition = cast(Expr, spelled(node.condition))
        if (
            any(isinstance(n, p.Load) for n in walk(condition))
            or not p.names_in(condition) <= sizes
        ):
            return None
        match node:
            case p.If(then=p.Block(body=(p.Fail(goes_on=True),)), otherwise=p.Block() as rest):
                found.append(replace(node, condition=condition, otherwise=None))
                return rest
        found.append(replace(node, condition=condition))
        return p.Block(())

    body = cast(p.Block, bottom_up(rule)(program.body))
    return list(dict.fromkeys(found)), body


def _shared_out(s: p.Stmt) -> p.Stmt:
    """Distribute a loop without dependences that has no unit over all threads."""
    if isinstance(s, p.For) and s.simd and not s.unit and _is_serial(s.body):
        n = _USUAL_THREADS
        run = Name(f"{s.var.name}_run")
        first = s.begin + run * n
        last = p.arithmetic("min", first + n, s.end)
        inner = replace(s, begin=first, end=last, by=p.Unit("thread", most=n))
        runs = (s.end - s.begin + (n - 1)) / n
        return p.For(run, Value(0), runs, block(inner), by=p.Unit("block"))
    return s


def _status(node: Node) -> Node | None:
    """Failures and growing lists on a GPU: set a status; the host reads it, and tries again."""
    match node:
        case p.Fail(status=status, goes_on=goes_on):
            told = p.Store(STATUS, Value(0), p.Convert(Value(status), "int32"))
            return told if goes_on else block(told, p.Fail(0))
        case p.Grow(capacity=capacity, needed=needed):
            full = p.Convert(Value(NO_ROOM), "int32")
            stop = block(p.Store(STATUS, Value(0), full), p.Fail(0))
            return p.If(compare("<", capacity, needed), stop)
    return None


def _is_room(name: Name, program: p.Program) -> bool:
    return any(isinstance(n, p.Grow) and n.capacity == name for n in walk(program.body))


def _with_rooms(body: tuple[p.Stmt, ...], grown: set[str]) -> tuple[p.Stmt, ...]:
    """Allocate growing lists at the capacity that the host has set."""
    rooms = {
        g.array.name: (n.capacity, g)
        for s in body
        for n in walk(s)
        if isinstance(n, p.Grow)
        for g in n.arrays
    }
    done: list[p.Stmt] = []
    for s in body:
        if isinstance(s, p.Allocate) and s.array.name in grown:
            capacity, g = rooms[s.array.name]
            s = replace(s, count=capacity * g.per + g.extra, zeroed=g.zeroed)
        done.append(s)
    return tuple(done)
