"""Parallel loops in the interpreter: the parts run one after another, in random order.

No part may access what another has written, unless both use atomic updates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from openwork.errors import InternalError
from openwork.program import nodes as p
from openwork.program.interpret.machine import Action, Machine
from openwork.program.interpret.memory import Memory
from openwork.tree import walk


def parallel(m: Machine, s: p.For, by: p.Threads, stmt: Callable[[p.Stmt], Action]) -> Action:
    """`s` as a function that executes it; `stmt` gives those of statements inside."""
    _check_private_scalars(s, by)
    begin, end, body = m.index(s.begin), m.index(s.end), stmt(s.body)
    private, cleanup = stmt(p.Block(by.private)), stmt(p.Block(by.cleanup))
    owned = [_reduced(m, reduction) for reduction in s.reductions]
    owned += [_copied(m, copy) for copy in by.copies]

    def run() -> None:
        shares = _shares(m, by, begin(), end())
        if s.simd:
            for share in shares:
                m.random.shuffle(share)
        combine = [own() for own in owned]
        parts = list(range(m.threads))
        m.random.shuffle(parts)
        for part in parts:
            with _as_part(m, part):
                leave = [enter(part) for enter, _ in combine]
                private()
                if by.limit is not None:
                    m.scalars[s.var.name], m.scalars[by.limit.name] = _ends(shares[part])
                    body()
                else:
                    for m.scalars[s.var.name] in shares[part]:
                        body()
                cleanup()
                for each in leave:
                    each()
        for memory in m.memory.values():
            memory.forget_threads()
        for _, finish in combine:
            finish()

    return run


# What is combined after a loop: a function that enters a part and returns one that leaves it, and
# a function that runs at the end.
_Owned = Callable[[], tuple[Callable[[int], Action], Action]]


def _reduced(m: Machine, reduction: p.Reduction) -> _Owned:
    """Each part has a private scalar; in the end they are combined in the order of the parts."""
    name, type = reduction.name.name, reduction.name.type
    identity, combine = m.expr(reduction.identity), m.combiner(reduction.op, type)

    def start() -> tuple[Callable[[int], Action], Action]:
        outer, found = m.scalars[name], dict[int, Any]()

        def enter(part: int) -> Action:
            m.scalars[name] = identity()
            return lambda: found.update({part: m.scalars[name]})

        def finish() -> None:
            result = outer
            for part in range(m.threads):
                result = combine(result, found[part])
            m.scalars[name] = np.dtype(type).type(result)

        return enter, finish

    return start


def _copied(m: Machine, copy: p.Copy) -> _Owned:
    """Each part has a private array; in the end they are combined in the order of the parts."""
    name, dtype = copy.array.name, np.dtype(copy.array.type)
    count, identity = m.index(copy.count), m.expr(copy.identity)
    combine = m.combiner(copy.op, copy.array.type)

    def start() -> tuple[Callable[[int], Action], Action]:
        whole, size, copies = m.array(copy.array), count(), dict[int, Memory]()

        def enter(part: int) -> Action:
            own = copies[part] = Memory.allocate(name, dtype, size, zeroed=False, owner=part)
            own.clear(0, identity())
            m.memory[name] = own
            return lambda: m.memory.update({name: whole})

        def finish() -> None:
            for part in range(m.threads):
                for at in range(size):
                    new = combine(whole.load(at, None), copies[part].load(at, part))
                    whole.store(at, new, None)

        if m.threads == 1:
            return lambda part: lambda: None, lambda: None
        return enter, finish

    return start


def _shares(m: Machine, by: p.Threads, begin: int, end: int) -> list[list[int]]:
    """The iterations of each part, in the order in which it executes them."""
    shares: list[list[int]] = [[] for _ in range(m.threads)]
    if by.chunk is None:
        cuts = _cuts(m, by.balance, begin, end)
        shares = [list(range(cuts[part], cuts[part + 1])) for part in range(m.threads)]
    else:
        takers = shares[: by.turns]
        for start in range(begin, end, by.chunk):
            m.random.choice(takers).extend(range(start, min(start + by.chunk, end)))
    return shares


def _ends(share: list[int]) -> tuple[int, int]:
    """Where a range of iterations begins and ends."""
    return (share[0], share[-1] + 1) if share else (0, 0)


def _cuts(m: Machine, balance: p.Balance | None, begin: int, end: int) -> list[int]:
    """Where the parts begin: with equally many iterations, or equally many positions below them."""
    end = max(begin, end)
    parts = range(m.threads + 1)
    if balance is None or begin >= end:
        return [begin + (end - begin) * part // m.threads for part in parts]
    count = balance.count
    first, last = (begin, end) if count is None else (0, m.index(count)())
    pos = m.array(balance.pos).first(last + 1, None)
    work = [stop - pos[first] + row - first for row, stop in enumerate(pos)]
    goals = [work[last] * part // m.threads for part in parts]
    cuts = [next(row for row in range(first, last + 1) if work[row] >= goal) for goal in goals]
    if count is not None:
        cuts = [-(-cut // balance.length) for cut in cuts]
    if cuts != sorted(cuts) or (cuts[0], cuts[-1]) != (begin, end):
        raise InternalError(f"{balance.pos.name} cuts the loop into {cuts}")
    return cuts


@contextmanager
def _as_part(m: Machine, part: int) -> Iterator[None]:
    before = set(m.memory)
    m.part = part
    yield
    m.part = None
    for name in set(m.memory) - before:
        if name not in m.locals:
            raise InternalError(f"{name} belongs to one thread and is never freed")
        del m.memory[name]


def _check_private_scalars(loop: p.For, by: p.Threads) -> None:
    """Check that each thread of a loop has declared the scalars it assigns."""
    nodes = [node for stmt in (*by.private, loop.body, *by.cleanup) for node in walk(stmt)]
    own = {n.name.name for n in nodes if isinstance(n, p.Declare)}
    own |= {reduction.name.name for reduction in loop.reductions}
    assigned = {n.name.name for n in nodes if isinstance(n, p.Set)}
    assigned |= {n.capacity.name for n in nodes if isinstance(n, p.Grow)}
    for name in sorted(assigned - own):
        raise InternalError(f"{name} is assigned by all threads of the loop over {loop.var.name}")
