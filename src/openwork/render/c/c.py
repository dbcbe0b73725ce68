"""Programs as C. Spelling, and nothing else: an unknown node is our own mistake.

Every kernel is one function `int32_t kernel(void **arrays, int64_t *sizes)`:

    arrays[0]      the interrupt flag that long loops poll
    arrays[1 + n]  the n-th argument of the program; kernels put arrays they make back here
    sizes[0]       how many threads to use
    sizes[1]       how many entries to make room for at first
    sizes[2 + n]   the n-th extent; after them, the lengths of the arrays that were made

It returns 0, or 1 when memory ran out, 2 when it was interrupted, 3 when a position did not fit
its array's type, 4 when a bound that a schedule promised does not hold, 5 when an integer was
raised to a negative power.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from openwork.errors import InternalError
from openwork.program import nodes as p
from openwork.program.contract import (
    FIRST_ARRAY,
    FIRST_SIZE,
    INTERRUPTED,
    NEGATIVE_POWER,
    NO_MEMORY,
    OK,
)
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
from openwork.render.c.loops import for_loop, while_loop
from openwork.render.c.stores import store
from openwork.render.c.threads import SHARES, fails_late, parallel_for, streams
from openwork.render.c.vectors import in_vectors, local, sum_lanes
from openwork.render.spelling import CTYPES
from openwork.render.writer import NEGATIVE, Helpers, Writer, indent, names_type, remark
from openwork.tree import walk

_TYPEDEFS = {
    name: f"typedef __{name.upper()}_TYPE__ {name}_t;"
    for name in (f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u"))
}


def render(program: p.Program, name: str = "kernel") -> str:
    """The C text of `program`, complete in itself."""
    return render_all({name: program})


def render_all(programs: Mapping[str, p.Program]) -> str:
    """One C file with a function for each of `programs`, under their names."""
    helpers: Helpers = {}
    functions = [_Renderer(program, helpers).function(name) for name, program in programs.items()]
    text = "\n".join([*helpers.values(), *functions])
    types = [d for n, d in _TYPEDEFS.items() if names_type(text, n)]
    size = ["typedef __SIZE_TYPE__ size_t;"] if "size_t" in text else []
    return "\n".join([*types, *size, "", text, ""])


@dataclass
class _Renderer(Writer):
    """Statements, and the function around them."""

    def stmt(self, s: p.Stmt) -> list[str]:
        """`s` as lines."""
        match s:
            case p.Block(body=body):
                return sequence(self, body)
            case p.Declare(name=name, value=value, fixed=fixed):
                const = "const " if fixed else ""
                line = f"{const}{CTYPES[name.type]} {name.name} = {self.text(value)};"
                return [line, *check_found(self, name, value)]
            case p.Set(name=name, value=value, op=op):
                return [f"{self.update(name, value, op)};"]
            case p.Store():
                return store(self, s)
            case p.For():
                return parallel_for(self, s) if s.parallel else for_loop(self, s, s.begin, s.end)
            case p.While():
                return while_loop(self, s)
            case p.Break():
                return ["break;"]
            case p.If():
                return self._if(s)
            case p.Local():
                return local(self, s)
            case InVectors():
                return in_vectors(self, s)
            case SumLanes():
                return sum_lanes(self, s)
            case p.Allocate():
                return allocate(self, s)
            case p.Grow():
                return grow(self, s)
            case p.Free(array=array):
                return free(self, array)
            case p.Shelf() | p.Put() | p.Take():
                return shelved(self, s)
            case p.Prefetch(array=array, index=index, lines=lines, written=True):
                ask = self.use("write_soon", "")
                return [f"{ask}(&{array.name}[{self.text(index)}], {lines});"]
            case p.Prefetch(array=array, index=index, lines=1, gather=gather):
                ask = self.use("ask_for", "")
                if gather:
                    ask = self.use("gather_soon", "")
                return [f"{ask}(&{array.name}[{self.text(index)}]);"]
            case p.Prefetch(array=array, index=index, lines=lines):
                ask = self.use("ask_for_lines", "")
                return [f"{ask}(&{array.name}[{self.text(index)}], {lines});"]
            case p.Fail(status=status):
                return [f"status = {status};", self.leave()]
            case p.Do(call=call):
                return [f"{self.call(call)};"]
            case p.Comment(text=text):
                return remark(text)
        raise InternalError(f"C has no spelling for {type(s).__name__}")

    def _if(self, s: p.If) -> list[str]:
        lines = [f"if ({self.text(s.condition)}) {{", *indent(self.stmt(s.then))]
        match s.otherwise:
            case None:
                return [*lines, "}"]
            case p.If() as other:
                first, *rest = self._if(other)
                return [*lines, f"}} else {first}", *rest]
            case other:
                return [*lines, "} else {", *indent(self.stmt(other)), "}"]

    @cached_property
    def local_arrays(self) -> list[p.Array]:
        """The arrays that the function allocates, those of single threads aside."""
        return local_arrays(self.program.body)

    # -- the function ---------------------------------------------------------------------------

    def function(self, name: str) -> str:
        body = self.stmt(self.program.body)
        made = [a for a in self.program.arguments if a.role == "made"]
        tail = self._hand_back(made, powers=any(f"&{NEGATIVE})" in line for line in body))
        used = set(re.findall(r"[A-Za-z_]\w*", "\n".join([*body, *tail])))
        lines = [
            *self._arguments(used),
            # Empty at first, so that they can always be freed.
            *(f"{CTYPES[array.type]} *{array.name} = 0;" for array in self.local_arrays),
            *declared_shelves(self.program.body),
            *(["int32_t status = 0;"] if "status" in used else []),
            *(["int32_t failed = 0;"] if "failed" in used else []),
            *([f"int32_t {NEGATIVE} = 0;"] if NEGATIVE in used else []),
            *body,
            *tail,
        ]
        title = [f"// {line}" for line in self.program.title.splitlines()]
        head = f"int32_t {name}(void **arrays, int64_t *sizes) {{"
        return "\n".join([*title, head, *indent(lines), "}", ""])

    def _arguments(self, used: set[str]) -> list[str]:
        lines = []
        if "stop" in used:
            lines.append("const volatile int32_t *stop = arrays[0];")
        if used & {"threads", "shares"}:
            lines.append("const int64_t threads = sizes[0];")
        if "shares" in used:
            lines.append(f"const int64_t shares = threads > 1 ? {SHARES} * threads : 1;")
        if "room" in used:
            lines.append("const int64_t room = sizes[1];")
        for n, size in enumerate(self.program.sizes):
            if size.name in used:
                lines.append(f"const int64_t {size.name} = sizes[{FIRST_SIZE + n}];")
        for n, argument in enumerate(self.program.arguments):
            array = argument.array
            if argument.role == "made" or array.name not in used:
                continue
            const = "const " if argument.role == "operand" else ""
            lines.append(
                f"{const}{CTYPES[array.type]} *restrict {array.name} = arrays[{FIRST_ARRAY + n}];"
            )
        return lines

    def _hand_back(self, made: list[p.Argument], powers: bool) -> list[str]:
        """The end of the function: give memory back, and hand over what was made.

        `powers`: integers may have been raised to negative powers.
        """
        nodes = list(walk(self.program.body))
        polls = any(isinstance(n, (p.For, p.While)) and n.polls for n in nodes)
        parallel = [n for n in nodes if isinstance(n, p.For) and n.parallel]
        late = any(fails_late(self.program, loop) for loop in parallel)
        fence = []
        if streams(self.program.body, by_threads=False):
            fence = [f"{self.use('fence', '')}();"]
        if "done" not in self.jumps and not late and not powers:
            status = f"*stop ? {INTERRUPTED} : {OK}" if polls else f"{OK}"
            return [*fence, f"return {status};"]
        lines = [f"if (failed) status = {NO_MEMORY};"] if late else []
        if powers:
            lines.append(f"if ({NEGATIVE}) status = {NEGATIVE_POWER};")
        if polls:
            lines.append(f"if (*stop) status = {INTERRUPTED};")
        if "done" in self.jumps:
            lines.append("done:;" if fence else "done:")
        lines += fence
        results = [argument.array for argument in made]
        freed = [array for array in self.local_arrays if array not in results]
        lines += [f"__builtin_free({array.name});" for array in freed]
        lines += emptied_shelves(self.program.body)
        if made:
            lines += self._results()
        return [*lines, "return status;"]

    def _results(self) -> list[str]:
        first = FIRST_SIZE + len(self.program.sizes)
        hand: list[str] = []
        drop: list[str] = []
        for n, argument in enumerate(self.program.arguments):
            if argument.role == "made" and argument.count is not None:
                name, place = argument.array.name, first + len(drop)
                hand.append(f"arrays[{FIRST_ARRAY + n}] = {name};")
                hand.append(f"sizes[{place}] = {self.text(argument.count)};")
                drop.append(f"__builtin_free({name});")
        return [f"if (status == {OK}) {{", *indent(hand), "} else {", *indent(drop), "}"]
