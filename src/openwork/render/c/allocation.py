"""Memory in C: allocating, growing and freeing arrays, and handling of failures."""

from __future__ import annotations

from collections.abc import Iterator

from openwork.program import nodes as p
from openwork.program.contract import NO_MEMORY
from openwork.render.c.dialect import CTYPES
from openwork.render.c.writer import CWriter
from openwork.render.precedence import PLUS, paren
from openwork.render.writer import indent
from openwork.tree import Node, walk


def may_fail(node: Node) -> bool:
    """Whether anything below `node` can fail the kernel."""
    return any(
        isinstance(n, (p.Fail, p.Allocate, p.Grow, p.Shelf))
        or (isinstance(n, p.Helper) and n.facts.grows)
        for n in walk(node)
    )


def owned_arrays(body: p.Stmt, by: p.Threads) -> list[p.Array]:
    """The arrays that each thread of a loop over `body` allocates for itself."""
    nodes = [n for s in (*by.private, body, *by.cleanup) for n in p.statements(s)]
    return list(dict.fromkeys(n.array for n in nodes if isinstance(n, p.Allocate)))


def private_arrays(by: p.Threads) -> list[p.Array]:
    """Those of them that live throughout the loop, and are freed in its cleanup."""
    return [s.array for s in by.private if isinstance(s, p.Allocate)]


def local_arrays(body: p.Stmt) -> list[p.Array]:
    """The arrays that the function allocates, apart from those of single threads."""
    private = {
        array
        for loop in p.statements(body)
        if isinstance(loop, p.For) and isinstance(loop.by, p.Threads)
        for array in owned_arrays(loop.body, loop.by)
    }
    arrays = [s.array for s in p.statements(body) if isinstance(s, p.Allocate)]
    return [array for array in dict.fromkeys(arrays) if array not in private]


def memory(w: CWriter, s: p.Allocate) -> str:
    """The call that allocates; it sets the status on failure."""
    helper = w.use("zeros" if s.zeroed else "room_for", "")
    return f"{helper}({w.text(s.count)}, sizeof({CTYPES[s.array.type]}), &status)"


def allocate(w: CWriter, s: p.Allocate) -> list[str]:
    """Allocate an array, which was declared empty so that it can always be freed."""
    if s.count == p.Value(0):
        return []  # it grows later
    return [f"{s.array.name} = {memory(w, s)};"]


def sequence(w: CWriter, body: tuple[p.Stmt, ...]) -> list[str]:
    """Statements in order; adjacent allocations are checked together."""
    lines: list[str] = []
    allocated = False
    for n, s in enumerate(body):
        text = w.stmt(s)
        lines += text
        allocated |= isinstance(s, p.Allocate) and bool(text)
        if allocated and (n + 1 == len(body) or not isinstance(body[n + 1], p.Allocate)):
            lines.append(f"if (status) {w.leave()}")
            allocated = False
    return lines


def free(w: CWriter, array: p.Array) -> list[str]:
    """Free an array; if the end of the function frees it again, it is set to empty."""
    lines = [f"__builtin_free({array.name});"]
    return lines if array in w.private_arrays else [*lines, f"{array.name} = 0;"]


def check_found(w: CWriter, name: p.Name, value: p.Expr) -> list[str]:
    """Check a lookup: the table may have failed to grow."""
    if not (isinstance(value, p.Helper) and value.facts.grows):
        return []
    return [f"if ({name.name} < 0) {{", f"  status = {NO_MEMORY};", f"  {w.leave()}", "}"]


def grow(w: CWriter, s: p.Grow) -> list[str]:
    """Grow the arrays to at least twice their size."""
    cap, needed = s.capacity.name, w.expr(s.needed)
    lines = [f"const int64_t old = {cap};"] if any(g.zeroed for g in s.arrays) else []
    lines.append(f"{cap} = {w.use('larger', '')}({cap}, {needed[0]});")
    for g in s.arrays:
        lines += _regrow(w, g, cap)
    lines.append(f"if (status) {w.leave()}")
    return [f"if ({paren(needed, PLUS)} > {cap}) {{", *indent(lines), "}"]


def _regrow(w: CWriter, g: p.Growing, cap: str) -> list[str]:
    name, ctype = g.array.name, CTYPES[g.array.type]

    def length(count: str) -> str:
        product = p.arithmetic("*", p.Name(count), g.per)
        return w.text(p.arithmetic("+", product, p.Value(g.extra)))

    resize = w.use("resize", "")
    lines = [f"{name} = {resize}({name}, {length(cap)}, sizeof({ctype}), &status);"]
    if g.zeroed:
        start = f"old ? {length('old')} : 0"
        clear = f"for (int64_t n = {start}; n < {length(cap)}; n++) {name}[n] = 0;"
        lines += [f"if (status) {w.leave()}", clear]
    return lines


def shelved(w: CWriter, s: p.Shelf | p.Put | p.Take) -> list[str]:
    """Operations on a shelf."""
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
    return (s.array for s in p.statements(body) if isinstance(s, p.Shelf))


def declared_shelves(body: p.Stmt) -> list[str]:
    """Declare shelves, empty at first, so that they can always be freed."""
    lines = []
    for array in _shelves(body):
        lines.append(f"{CTYPES[array.type]} **{array.name}_shelf = 0;")
        lines.append(f"int64_t {array.name}_shelf_count = 0;")
    return lines


def emptied_shelves(body: p.Stmt) -> list[str]:
    """Free the shelves, and any arrays left on them."""
    lines = []
    for array in _shelves(body):
        shelf = f"{array.name}_shelf"
        lines.append(f"for (int64_t n = 0; {shelf} && n < {shelf}_count; n++)")
        lines.append(f"  __builtin_free({shelf}[n]);")
        lines.append(f"__builtin_free({shelf});")
    return lines
