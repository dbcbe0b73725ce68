"""Parallel loops in C.

The parts of a loop, one per thread, are the iterations of an outer loop:

    #pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)
    for (int64_t part = 0; part < threads; part++) {
      private declarations and allocations of the thread
      its iterations: a contiguous range, shares of all iterations, or the next chunk
    leave_1:
      cleanup
    }
    combine the threads' results

Equal work does not take equal time where rows differ in cache hits, or where a core is busy with
something else. So the range of a thread is cut into shares. A thread takes its own first: in the
next call, their data is still in its cache. Then it takes what is left of other threads' shares.
Only where threads' results are combined does a thread keep to its range, so that a result never
depends on who was fast.

A thread must not jump out of its part. A failure jumps to the end of the part instead, and the
function returns after the loop.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from openwork.program import nodes as p
from openwork.program.contract import INTERRUPTED, NO_MEMORY
from openwork.program.lower.base.workspace import is_blank
from openwork.render.c.allocation import (
    may_fail,
    memory,
    owned_arrays,
    private_arrays,
    sequence,
)
from openwork.render.c.dialect import CTYPES
from openwork.render.c.loops import for_loop
from openwork.render.c.stores import is_streamed
from openwork.render.c.writer import CWriter
from openwork.render.writer import indent
from openwork.tree import children

SHARES = 8  # of the range of a thread, where any thread may take any of them

_PRAGMA = "#pragma omp parallel for schedule(static, 1) num_threads((int)threads) if (threads > 1)"
_PART = p.Name("part")
_PARTS = "for (int64_t part = 0; part < threads; part++)"


def fails_late(program: p.Program, s: p.For, by: p.Threads) -> bool:
    """Whether `s` can fail only in its first allocations, and no later code depends on it.

    Then the function may report the failure at its end.
    """
    simple = all(isinstance(each, (p.Allocate, p.Declare)) for each in by.private)
    first = bool(by.private) and simple and not by.copies
    return first and not may_fail(s.body) and _last(program, s)


def parallel_for(w: CWriter, s: p.For, by: p.Threads) -> list[str]:
    """`s`, shared by threads, as described above."""
    late = fails_late(w.program, s, by)
    guarded = not late and bool(by.copies or any(map(may_fail, (*by.private, s.body))))
    before = _shared(w, s, by)
    part = _guarded_part(w, s, by) if guarded else _part(w, s, by, late)
    after = [line for copy in by.copies for line in _merged(w, copy)]
    if guarded:
        after += _leave_if(w, "failed", "failed")
    for reduction in s.reductions:
        own = p.Array(f"{reduction.name.name}_parts", reduction.name.type)
        after.append(f"{_PARTS} {w.update(reduction.name, own[_PART], reduction.op)};")
    if s.polls and not _last(w.program, s):
        after += _leave_if(w, "*stop", str(INTERRUPTED))
    fence = [f"{w.use('fence', '')}();"] if streams(w.program.body, by_threads=False) else []
    lines = [*fence, *before, _remark(s, by), _PRAGMA, f"{_PARTS} {{", *indent(part), "}", *after]
    # No jump may pass by an array that is as long as there are threads; so it has its own scope.
    return ["{", *indent(lines), "}"] if before else lines


def streams(s: p.Stmt, by_threads: bool) -> bool:
    """Whether `s` has streaming stores, in parallel loops or outside of them."""
    if not any(map(is_streamed, p.statements(s))):
        return False
    if isinstance(s, p.For) and isinstance(s.by, p.Threads) and not by_threads:
        return False
    inner = (child for child in children(s) if isinstance(child, p.Stmt))
    return is_streamed(s) or any(streams(child, by_threads) for child in inner)


def _last(program: p.Program, s: p.For) -> bool:
    """Whether the program has no more work after `s`."""
    return any(each is s for each in _last_in(program.body))


def _last_in(stmt: p.Stmt) -> Iterator[p.Stmt]:
    """The statements of `stmt` that may be its last work."""
    match stmt:
        case p.Block(body=body):
            for n, each in enumerate(body):
                if not any(map(_works, body[n + 1 :])):
                    yield from _last_in(each)
        case p.If(then=then, otherwise=otherwise):
            yield from _last_in(then)
            yield from _last_in(p.Block(()) if otherwise is None else otherwise)
        case _:
            yield stmt


def _works(stmt: p.Stmt) -> bool:
    return any(isinstance(n, (p.For, p.While, p.Allocate, p.Grow)) for n in p.statements(stmt))


def _remark(s: p.For, by: p.Threads) -> str:
    if by.chunk is not None:
        who = "threads" if by.turns is None else f"{by.turns} threads"
        return f"// {who} take {by.chunk} iterations at a time"
    what = "shares" if _in_shares(s, by) else "parts"
    return f"// threads take contiguous {what}" + (" with equal work" if by.balance else "")


def _in_shares(s: p.For, by: p.Threads) -> bool:
    """Whether any thread may execute any iteration: nothing is combined in a fixed order."""
    return not (by.copies or s.reductions or by.chunk is not None)


def _leave_if(w: CWriter, condition: str, status: str) -> list[str]:
    return [f"if ({condition}) {{", f"  status = {status};", f"  {w.leave()}", "}"]


# -- what threads share -------------------------------------------------------------------------


def _shared(w: CWriter, s: p.For, by: p.Threads) -> list[str]:
    """Shared variables: what is next to be taken, and where each thread leaves its results."""
    lines = []
    if _in_shares(s, by):
        w.use("next_share", "")
        lines.append(f"taken_shares {_taken(s)}[threads];")
        lines.append(f"{_PARTS} {_taken(s)}[part].count = 0;")
    if by.chunk is not None:
        var = s.var.name
        lines.append(f"int64_t {var}_next_chunk = {w.text(s.begin)};")
        lines.append(f"const int64_t {var}_chunks_end = {w.text(s.end)};")
    for reduction in s.reductions:
        name = reduction.name
        lines.append(f"{CTYPES[name.type]} {name.name}_parts[threads];")
    for copy in by.copies:
        array = copy.array
        lines.append(f"const int64_t {array.name}_count = {w.text(copy.count)};")
        lines.append(f"{CTYPES[array.type]} *{array.name}_copies[threads];")
    return lines


def _merged(w: CWriter, copy: p.Copy) -> list[str]:
    """Each thread combines a range of elements from all copies, one copy after the other."""
    name, type = copy.array.name, copy.array.type
    own, at = p.Array(f"{name}_own", type), p.Name(f"{name}_at")
    cut = w.use("cut_even", "")
    combine = w.update(copy.array[at], own[at], copy.op)
    from_one = [
        f"const {CTYPES[type]} *restrict {own.name} = {name}_copies[other];",
        f"for (int64_t {at.name} = {name}_first; {at.name} < {name}_limit; {at.name}++)",
        f"  {combine};",
    ]
    from_all = [
        f"const int64_t {name}_first = {cut}(0, {name}_count, part, threads);",
        f"const int64_t {name}_limit = {cut}(0, {name}_count, part + 1, threads);",
        "for (int64_t other = 0; other < threads; other++) {",
        *indent(from_one),
        "}",
    ]
    return [
        "if (threads > 1) {",
        "  if (!failed) {",
        "    // their copies are combined in order",
        _PRAGMA,
        f"    {_PARTS} {{",
        *indent(indent(indent(from_all))),
        "    }",
        "  }",
        f"  {_PARTS} __builtin_free({name}_copies[part]);",
        "}",
    ]


# -- what each thread does ----------------------------------------------------------------------


def _part(w: CWriter, s: p.For, by: p.Threads, late: bool) -> list[str]:
    """A thread's part in which nothing fails, except perhaps its first allocations."""
    cuts = [] if _in_shares(s, by) else _cuts(w, s, by, "part", "threads")
    private = [line for stmt in by.private for line in _private(w, stmt)]
    cleanup, loop = _cleanup(w, s, by), _iterations(w, s, by)
    if late:
        private.insert(0, "int32_t status = 0;")
        failed = ["#pragma omp atomic write", f"failed = {NO_MEMORY};"]
        loop = ["if (status == 0) {", *indent(loop), "} else {", *indent(failed), "}"]
    return [*cuts, *private, *loop, *cleanup]


def _private(w: CWriter, s: p.Stmt) -> list[str]:
    if isinstance(s, p.Allocate):
        return [f"{CTYPES[s.array.type]} *{s.array.name} = {memory(w, s)};"]
    return w.stmt(s)


def _guarded_part(w: CWriter, s: p.For, by: p.Threads) -> list[str]:
    """A thread's part in which anything may fail, which then jumps to the end of the part."""
    outside, w.exit = w.exit, f"leave_{len(w.jumps | {w.exit})}"
    owned = owned_arrays(s.body, by)
    cuts = [] if _in_shares(s, by) else _cuts(w, s, by, "part", "threads")
    lines = [
        *cuts,
        "int32_t status = 0;",
        *(f"{CTYPES[array.type]} *{array.name} = 0;" for array in owned),
        *_copies(w, by),
        *sequence(w, by.private),
        *_iterations(w, s, by),
    ]
    if w.exit in w.jumps:
        lines.append(f"{w.exit}:;")
    w.exit = outside
    throughout = private_arrays(by)
    report = ["#pragma omp atomic write", "failed = status;"]
    return [
        *lines,
        *_cleanup(w, s, by),
        *(f"__builtin_free({array.name});" for array in owned if array not in throughout),
        "if (status) {",
        *indent(report),
        "}",
    ]


def _copies(w: CWriter, by: p.Threads) -> list[str]:
    """The thread's private arrays, initialized, under the names of the shared ones."""
    lines, fill = [], []
    for copy in by.copies:
        name, ctype = copy.array.name, CTYPES[copy.array.type]
        blank = is_blank(copy.identity)
        own = memory(w, p.Allocate(copy.array, p.Name(f"{name}_count"), zeroed=blank))
        lines.append(f"{name}_copies[part] = threads > 1 ? {own} : {name};")
        fill.append(f"{ctype} *restrict {name} = {name}_copies[part];")
        if not blank:
            at = f"{name}_at"
            loop = f"for (int64_t {at} = 0; {at} < {name}_count; {at}++)"
            fill.append("if (threads > 1)")
            fill.append(f"  {loop} {name}[{at}] = {w.text(copy.identity)};")
    return [*lines, f"if (status) {w.leave()}", *fill] if lines else []


def _iterations(w: CWriter, s: p.For, by: p.Threads) -> list[str]:
    """The loop over the iterations of a part, with the thread's private reductions around it."""
    first, limit = _range(s, by)
    seen = by.chunk is not None and by.chunk <= s.polls  # the flag is checked before each chunk
    if by.limit is None:
        loop = for_loop(w, replace(s, polls=0) if seen else s, first, limit)
    else:
        loop = w.stmt(s.body)
    if by.chunk is not None:
        chunks_end = p.Name(f"{s.var.name}_chunks_end")
        taken = f"__atomic_fetch_add(&{s.var.name}_next_chunk, {by.chunk}, __ATOMIC_RELAXED)"
        limited = w.text(p.arithmetic("min", first + by.chunk, chunks_end))
        loop = [
            "for (;;) {" if by.turns is None else f"while (part < {by.turns}) {{",
            f"  const int64_t {first.name} = {taken};",
            f"  if ({first.name} >= {chunks_end.name}{' || *stop' if s.polls else ''}) break;",
            f"  const int64_t {limit.name} = {limited};",
            *indent(loop),
            "}",
        ]
    elif _in_shares(s, by):
        turn, share = f"{s.var.name}_turn", f"{s.var.name}_share"
        taken = f"next_share({_taken(s)}, threads, shares, part, &{turn})"
        loop = [
            f"int64_t {turn} = 0, {share};",
            f"while (({share} = {taken}) >= 0) {{",
            *indent([*_cuts(w, s, by, share, "shares"), *loop]),
            "}",
        ]
    start = [f"{CTYPES[r.name.type]} {r.name.name} = {w.text(r.identity)};" for r in s.reductions]
    return [*start, *loop, *(f"{r.name.name}_parts[part] = {r.name.name};" for r in s.reductions)]


def _cuts(w: CWriter, s: p.For, by: p.Threads, part: str, parts: str) -> list[str]:
    """Where one of `parts` begins and ends; chunks need no cuts."""
    if by.chunk is not None:
        return []
    begin, end, balance = w.text(s.begin), w.text(s.end), by.balance
    if balance is not None:
        cut = f"{w.use('cut', balance.pos.type)}({balance.pos.name}, "
    else:
        cut = f"{w.use('cut_even', '')}("
    found = []
    for side, at in zip(_range(s, by), (part, f"{part} + 1"), strict=True):
        value = f"{cut}{begin}, {end}, {at}, {parts})"
        if balance is not None and balance.count is not None:
            # The cut between single segments, rounded up to a whole iteration.
            run = f"{cut}0, {w.text(balance.count)}, {at}, {parts})"
            value = f"({run} + {balance.length - 1}) / {balance.length}"
        found.append(f"const int64_t {side.name} = {value};")
    return found


def _range(s: p.For, by: p.Threads) -> tuple[p.Name, p.Name]:
    """The names of the first iteration of a part, and of one past its last."""
    if by.limit is not None:
        return s.var, by.limit
    return p.Name(f"{s.var.name}_first"), p.Name(f"{s.var.name}_limit")


def _taken(s: p.For) -> str:
    """The array that counts how many of each thread's shares are taken."""
    return f"{s.var.name}_taken"


def _cleanup(w: CWriter, s: p.For, by: p.Threads) -> list[str]:
    """Fence streaming stores, and free memory."""
    fence = [f"{w.use('fence', '')}();"] if streams(s.body, by_threads=True) else []
    return [*fence, *(line for stmt in by.cleanup for line in w.stmt(stmt))]
