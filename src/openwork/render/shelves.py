"""Shelves in C: arrays of arrays, which the function empties where it ends."""

from __future__ import annotations

from collections.abc import Iterator

from openwork.program import nodes as p
from openwork.render.allocation import NO_MEMORY
from openwork.render.spelling import CTYPES
from openwork.render.writer import Writer, indent
from openwork.tree import walk


def shelved(w: Writer, s: p.Shelf | p.Put | p.Take) -> list[str]:
    """What is done with a shelf."""
    name, shelf = s.array.name, f"{s.array.name}_shelf"
    match s:
        case p.Shelf(count=count):
            failed = [f"status = {NO_MEMORY};", w.leave()]
            return [
                f"{shelf}_count = {w.text(count)};",
                f"{shelf} = __builtin_calloc((size_t){shelf}_count, sizeof *{shelf});",
                f"if (!{shelf}) {{",
                *indent(failed),
                "}",
            ]
        case p.Put(number=number):
            return [f"{shelf}[{w.text(number)}] = {name};", f"{name} = 0;"]
        case p.Take(number=number, into=into):
            at = f"{shelf}[{w.text(number)}]"
            target = f"{CTYPES[s.array.type]} *{name}" if into is None else into.name
            return [f"{target} = {at};", f"{at} = 0;"]


def _shelves(body: p.Stmt) -> Iterator[p.Array]:
    return (s.array for s in walk(body) if isinstance(s, p.Shelf))


def declared_shelves(body: p.Stmt) -> list[str]:
    """Empty at first, so that they can always be freed."""
    lines = []
    for array in _shelves(body):
        lines.append(f"{CTYPES[array.type]} **{array.name}_shelf = 0;")
        lines.append(f"int64_t {array.name}_shelf_count = 0;")
    return lines


def emptied_shelves(body: p.Stmt) -> list[str]:
    """What was left on shelves is freed, and the shelves are."""
    lines = []
    for array in _shelves(body):
        shelf = f"{array.name}_shelf"
        lines.append(f"for (int64_t n = 0; {shelf} && n < {shelf}_count; n++)")
        lines.append(f"  __builtin_free({shelf}[n]);")
        lines.append(f"__builtin_free({shelf});")
    return lines
