"""Programs as C. It only spells; an unknown node is an internal error.

Every kernel is one function `int32_t kernel(void **arrays, int64_t *sizes)`:

    arrays[0]      the interrupt flag that long loops poll
    arrays[1 + n]  the n-th argument of the program; kernels return the arrays they make here
    sizes[0]       the number of threads
    sizes[1]       the number of entries to reserve memory for at first
    sizes[2 + n]   the n-th extent; after them, the lengths of the arrays that were made

It returns a status of `program/contract.py`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from openwork.program import nodes as p
from openwork.program.contract import (
    FIRST_ARRAY,
    FIRST_SIZE,
    INTERRUPTED,
    NEGATIVE_POWER,
    NO_MEMORY,
    OK,
)
from openwork.program.remarks import CANONICAL, spoken, title
from openwork.program.vectorize import InVectors, SumLanes
from openwork.render.c.allocation import (
    allocate,
    check_found,
    declared_shelves,
    emptied_shelves,
    free,
    grow,
    local_arrays,
    sequence,
    shelved,
)
from openwork.render.c.dialect import CTYPES, C
from openwork.render.c.helpers import LIBRARY
from openwork.render.c.loops import for_loop, while_loop
from openwork.render.c.stores import store
from openwork.render.c.threads import SHARES, fails_late, parallel_for, streams
from openwork.render.c.vectors import in_vectors, local, sum_lanes
from openwork.render.c.writer import NEGATIVE, CWriter
from openwork.render.writer import Helpers, indent, names_type

_TYPEDEFS = {
    name: f"typedef __{name.upper()}_TYPE__ {name}_t;"
    for name in (f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u"))
}


def render(program: p.Program, name: str = "kernel", words: Mapping[str, str] = CANONICAL) -> str:
    """The self-contained C text of `program`; its comments use `words` for names of the code."""
    return render_all({name: program}, words)


def render_all(programs: Mapping[str, p.Program], words: Mapping[str, str] = CANONICAL) -> str:
    """One C file with a function for each of `programs`, under their names."""
    helpers: Helpers = {}
    functions = []
    for name, program in programs.items():
        used, body = _rendered(program)
        helpers |= used
        head = f"int32_t {name}(void **arrays, int64_t *sizes) {{"
        functions += [*title(program.title, words), head, *body, "}", ""]
    text = "\n".join([*helpers.values(), *functions])
    types = [d for n, d in _TYPEDEFS.items() if names_type(text, n)]
    size = ["typedef __SIZE_TYPE__ size_t;"] if "size_t" in text else []
    return spoken("\n".join([*types, *size, "", text, ""]), words)


def _rendered(program: p.Program) -> tuple[Helpers, list[str]]:
    """The helpers and the body of `program`; cached on it, for those who compile many."""
    known: tuple[Helpers, list[str]] | None = program.__dict__.get("_c")
    if known is None:
        helpers: Helpers = {}
        body = indent(_body(CWriter(C, LIBRARY, helpers, program, statement)))
        known = program.__dict__["_c"] = helpers, body
    return known


def statement(w: CWriter, s: p.Stmt) -> list[str]:
    """`s` as lines."""
    match s:
        case p.Block(body=body):
            return sequence(w, body)
        case p.Declare(name=name, value=value):
            return [*w.simple(s), *check_found(w, name, value)]
        case p.Store():
            return store(w, s)
        case p.For(by=p.Threads() as threads):
            return parallel_for(w, s, threads)
        case p.For():
            return for_loop(w, s, s.begin, s.end)
        case p.While():
            return while_loop(w, s)
        case p.If():
            return _if(w, s)
        case p.Local():
            return local(w, s)
        case InVectors():
            return in_vectors(w, s)
        case SumLanes():
            return sum_lanes(w, s)
        case p.Allocate():
            return allocate(w, s)
        case p.Grow():
            return grow(w, s)
        case p.Free(array=array):
            return free(w, array)
        case p.Shelf() | p.Put() | p.Take():
            return shelved(w, s)
        case p.Prefetch():
            return [_prefetch(w, s)]
        case p.Fail(status=status):
            return [f"status = {status};", w.leave()]
    return w.simple(s)


def _prefetch(w: CWriter, s: p.Prefetch) -> str:
    place = f"&{s.array.name}[{w.text(s.index)}]"
    if s.written:
        return f"{w.use('write_soon', '')}({place}, {s.lines});"
    if s.lines == 1:
        return f"{w.use('gather_soon' if s.gather else 'ask_for', '')}({place});"
    return f"{w.use('ask_for_lines', '')}({place}, {s.lines});"


def _if(w: CWriter, s: p.If) -> list[str]:
    lines = [f"if ({w.text(s.condition)}) {{", *indent(w.stmt(s.then))]
    match s.otherwise:
        case None:
            return [*lines, "}"]
        case p.If() as other:
            first, *rest = _if(w, other)
            return [*lines, f"}} else {first}", *rest]
        case other:
            return [*lines, "} else {", *indent(w.stmt(other)), "}"]


# -- the function -------------------------------------------------------------------------------


def _body(w: CWriter) -> list[str]:
    body = w.stmt(w.program.body)
    made = [a for a in w.program.arguments if a.role == "made"]
    tail = _hand_back(w, made)
    used = set(re.findall(r"[A-Za-z_]\w*", "\n".join([*body, *tail])))
    return [
        *_arguments(w, used),
        # Empty at first, so that they can always be freed.
        *(f"{CTYPES[array.type]} *{array.name} = 0;" for array in local_arrays(w.program.body)),
        *declared_shelves(w.program.body),
        *(["int32_t status = 0;"] if "status" in used else []),
        *(["int32_t failed = 0;"] if "failed" in used else []),
        *([f"int32_t {NEGATIVE} = 0;"] if NEGATIVE in used else []),
        *body,
        *tail,
    ]


def _arguments(w: CWriter, used: set[str]) -> list[str]:
    lines = []
    if "stop" in used:
        lines.append("const volatile int32_t *stop = arrays[0];")
    if used & {"threads", "shares"}:
        lines.append("const int64_t threads = sizes[0];")
    if "shares" in used:
        lines.append(f"const int64_t shares = threads > 1 ? {SHARES} * threads : 1;")
    if "room" in used:
        lines.append("const int64_t room = sizes[1];")
    for n, size in enumerate(w.program.sizes):
        if size.name in used:
            lines.append(f"const int64_t {size.name} = sizes[{FIRST_SIZE + n}];")
    for n, argument in enumerate(w.program.arguments):
        array = argument.array
        if argument.role == "made" or array.name not in used:
            continue
        const = "const " if argument.role == "operand" else ""
        lines.append(
            f"{const}{CTYPES[array.type]} *restrict {array.name} = arrays[{FIRST_ARRAY + n}];"
        )
    return lines


def _hand_back(w: CWriter, made: list[p.Argument]) -> list[str]:
    """The end of the function: free memory, and return the arrays that were made."""
    nodes = p.statements(w.program.body)
    polls = any(isinstance(n, (p.For, p.While)) and n.polls for n in nodes)
    late = any(
        fails_late(w.program, n, n.by)
        for n in nodes
        if isinstance(n, p.For) and isinstance(n.by, p.Threads)
    )
    fence = []
    if streams(w.program.body, by_threads=False):
        fence = [f"{w.use('fence', '')}();"]
    if "done" not in w.jumps and not late and not w.checks_powers:
        status = f"*stop ? {INTERRUPTED} : {OK}" if polls else f"{OK}"
        return [*fence, f"return {status};"]
    lines = [f"if (failed) status = {NO_MEMORY};"] if late else []
    if w.checks_powers:
        lines.append(f"if ({NEGATIVE}) status = {NEGATIVE_POWER};")
    if polls:
        lines.append(f"if (*stop) status = {INTERRUPTED};")
    if "done" in w.jumps:
        lines.append("done:;" if fence else "done:")
    lines += fence
    results = [argument.array for argument in made]
    freed = [array for array in local_arrays(w.program.body) if array not in results]
    lines += [f"__builtin_free({array.name});" for array in freed]
    lines += emptied_shelves(w.program.body)
    if made:
        lines += _results(w)
    return [*lines, "return status;"]


def _results(w: CWriter) -> list[str]:
    first = FIRST_SIZE + len(w.program.sizes)
    hand: list[str] = []
    drop: list[str] = []
    for n, argument in enumerate(w.program.arguments):
        if argument.role == "made" and argument.count is not None:
            name, place = argument.array.name, first + len(drop)
            hand.append(f"arrays[{FIRST_ARRAY + n}] = {name};")
            hand.append(f"sizes[{place}] = {w.text(argument.count)};")
            drop.append(f"__builtin_free({name});")
    return [f"if (status == {OK}) {{", *indent(hand), "} else {", *indent(drop), "}"]
