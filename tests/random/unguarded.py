"""Updates that threads make of one place without keeping apart, found in the program itself.

A lost update shows only now and then: under the emulator never, since a thread runs until it waits.
"""

from __future__ import annotations

from collections.abc import Iterator

from openwork.program import nodes as p
from openwork.tree import Node, walk


def unguarded_updates(program: p.Program) -> list[str]:
    """Updates in loops that threads share, not atomic, at places that do not depend on the loop."""
    loops = [n for n in walk(program.body) if isinstance(n, p.For) and not _is_once(n)]
    return [found for n in loops if n.by is not None for found in _updates(n, n.by)]


def _is_once(loop: p.For) -> bool:
    return loop.begin == p.Value(0) and loop.end == p.Value(1)


def _updates(loop: p.For, by: p.Threads | p.Unit) -> Iterator[str]:
    inside = [n for part in (*by.private, loop.body) for n in walk(part)]
    own = {c.array.name for c in by.copies} | {r.name.name for r in loop.reductions}
    own |= {n.array.name for n in inside if isinstance(n, (p.Local, p.Allocate, p.Take))}
    varying = _varying(loop, inside, own)
    for store in inside:
        if not isinstance(store, p.Store) or store.atomic or store.array.name in own:
            continue
        reads = any(isinstance(n, p.Load) and n.array == store.array for n in walk(store.value))
        if (store.op is not None or reads) and not _names(store.index) & varying:
            yield f"{store.array.name}[{store.index}], by {loop.unit or 'threads'} {loop.var.name}"


def _varying(loop: p.For, inside: list[Node], own: set[str]) -> set[str]:
    """Names that may differ from one iteration of `loop` to another."""
    varying = {loop.var.name} | {n.name.name for n in inside if isinstance(n, p.Set)}
    while True:
        new = set()
        for n in inside:
            if isinstance(n, p.Declare) and (_names(n.value) & varying or _loads(n.value) & own):
                new.add(n.name.name)
            if isinstance(n, p.For) and (_names(n.begin) | _names(n.end)) & varying:
                new.add(n.var.name)
        if new <= varying:
            return varying
        varying |= new


def _names(node: Node) -> set[str]:
    return {n.name for n in walk(node) if isinstance(n, p.Name)}


def _loads(node: Node) -> set[str]:
    return {n.array.name for n in walk(node) if isinstance(n, p.Load)}
