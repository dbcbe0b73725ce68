"""Programs as C. Spelling, and nothing else: an unknown node is our own mistake.

Every kernel is one function `int32_t kernel(void **arrays, int64_t *sizes)`:

    arrays[0]      the interrupt flag that long loops poll
    arrays[1 + n]  the n-th argument of the program; kernels put arrays they make back here
    sizes[0]       how many threads to use
    sizes[1]       how many entries to make room for at first
    sizes[2 + n]   the n-th extent; after them, the lengths of the arrays that were made

It returns 0, or 1 when memory ran out, 2 when it was interrupted, 3 when a position did not fit
its array's type.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from openwork.algebra.operators import Op
from openwork.errors import InternalError
from openwork.program import nodes as p
from openwork.render.helpers import helper_text
from openwork.render.spelling import (
    AND,
    ATOM,
    CHOICE,
    CTYPES,
    EQUAL,
    LESS,
    OR,
    PLUS,
    TIMES,
    Spelled,
    constant,
    convert,
    is_complex,
    is_float,
    operator,
    paren,
)
from openwork.tree import walk

OK, NO_MEMORY, INTERRUPTED, OVERFLOWED = 0, 1, 2, 3
FIRST_ARRAY, FIRST_SIZE = 1, 2

_SIGNS = {
    "+": PLUS, "-": PLUS, "*": TIMES, "/": TIMES, "%": TIMES,
    "<": LESS, "<=": LESS, "==": EQUAL, "!=": EQUAL, "&&": AND, "||": OR,
}  # fmt: skip
# Helpers that exist for several element types, and the argument that tells which.
_TYPED_BY = {"search": 0, "find": 2, "sort_pairs": 0}
_TYPEDEFS = {
    name: f"typedef __{name.upper()}_TYPE__ {name}_t;"
    for name in (f"{sign}int{bits}" for bits in (8, 16, 32, 64) for sign in ("", "u"))
}


Helpers = dict[tuple[str, str], str]


def render(program: p.Program, name: str = "kernel") -> str:
    """The C text of `program`, complete in itself."""
    return render_all({name: program})


def render_all(programs: Mapping[str, p.Program]) -> str:
    """One C file with a function for each of `programs`, under their names."""
    helpers: Helpers = {}
    functions = [_Renderer(program, helpers).function(name) for name, program in programs.items()]
    text = "\n".join([*helpers.values(), *functions])
    types = [d for n, d in _TYPEDEFS.items() if re.search(rf"\b{n}_t\b", text)]
    size = ["typedef __SIZE_TYPE__ size_t;"] if "size_t" in text else []
    return "\n".join([*types, *size, "", text, ""])


@dataclass
class _Renderer:
    program: p.Program
    helpers: Helpers
    fails: bool = False  # some allocation can fail and jump to the end

    # -- expressions ----------------------------------------------------------------------------

    def expr(self, e: p.Expr | p.Array) -> Spelled:
        match e:
            case p.Name(name=name) | p.Array(name=name):
                return name, ATOM
            case p.Value():
                return constant(e.value, e.type)
            case p.Load(array=array, index=index):
                return f"{array.name}[{self.text(index)}]", ATOM
            case p.Binary():
                return self._binary(e)
            case p.Apply(op=op, args=args):
                types = [arg.type for arg in args]
                return operator(op, [self.expr(a) for a in args], types, e.type, self.use)
            case p.Convert(expr=inner):
                return convert(self.expr(inner), inner.type, e.type)
            case p.Helper():
                return self._call(e), ATOM
        raise InternalError(f"C has no spelling for {type(e).__name__}")

    def text(self, e: p.Expr | p.Array) -> str:
        return self.expr(e)[0]

    def _binary(self, e: p.Binary) -> Spelled:
        left, right = self.expr(e.left), self.expr(e.right)
        if e.sign in ("min", "max"):
            sign = "<" if e.sign == "min" else ">"
            a, b = paren(left, PLUS), paren(right, PLUS)
            return f"{a} {sign} {b} ? {a} : {b}", CHOICE
        level = _SIGNS[e.sign]
        return f"{paren(left, level)} {e.sign} {paren(right, level + 1)}", level

    def _call(self, call: p.Helper) -> str:
        place = _TYPED_BY.get(call.name)
        typed = call.args[place].type if place is not None else ""
        args = [self.text(arg) for arg in call.args]
        if call.name == "find":  # it may enlarge the table
            args[:2] = [f"&{arg}" for arg in args[:2]]
        return f"{self.use(call.name, typed)}({', '.join(args)})"

    def use(self, name: str, type: str) -> str:
        """Have a helper emitted, and the name to call it by."""
        if name in ("resize", "room_for", "zeros"):
            self.use("huge", "")
        if (name, type) not in self.helpers:
            self.helpers[name, type] = helper_text(name, type, CTYPES.get(type, ""))
        return f"{name}_{type}" if type else name

    # -- statements -----------------------------------------------------------------------------

    def stmt(self, s: p.Stmt) -> list[str]:
        match s:
            case p.Block(body=body):
                return self._block(body)
            case p.Declare(name=name, value=value, fixed=fixed):
                const = "const " if fixed else ""
                line = f"{const}{CTYPES[name.type]} {name.name} = {self.text(value)};"
                return [line, *self._check_found(name, value)]
            case p.Set(name=name, value=value, op=op):
                return [f"{self._update(name, value, op)};"]
            case p.Store(array=array, index=index, value=value, op=op):
                return [f"{self._update(p.Load(array, index), value, op)};"]
            case p.For():
                return self._parallel_for(s) if s.parallel else self._for(s, s.begin, s.end)
            case p.While(condition=condition, body=body, comment=comment):
                return [
                    *_remark(comment),
                    *self._loop(f"while ({self.text(condition)})", body, s.polls),
                ]
            case p.If():
                return self._if(s)
            case p.Local(array=array, count=count):
                return [f"{CTYPES[array.type]} {array.name}[{count}];"]
            case p.Allocate():
                return self._allocate(s)
            case p.Grow():
                return self._grow(s)
            case p.Prefetch(array=array, index=index):
                return [f"__builtin_prefetch(&{array.name}[{self.text(index)}]);"]
            case p.Free(array=array):
                return [f"__builtin_free({array.name});"]
            case p.Fail(status=status):
                self.fails = True
                return [f"status = {status};", "goto done;"]
            case p.Do(call=call):
                return [f"{self._call(call)};"]
            case p.Comment(text=text):
                return _remark(text)
        raise InternalError(f"C has no spelling for {type(s).__name__}")

    def _check_found(self, name: p.Name, value: p.Expr) -> list[str]:
        if not (isinstance(value, p.Helper) and value.name == "find"):
            return []
        self.fails = True
        return [f"if ({name.name} < 0) {{", f"  status = {NO_MEMORY};", "  goto done;", "}"]

    def _update(self, place: p.Expr, value: p.Expr, op: Op | None) -> str:
        target = self.text(place)
        if op is None:
            match value:
                case p.Binary(sign="+", left=left, right=p.Value(value=1)) if left == place:
                    return f"{target}++"
                case p.Binary(sign="+", left=left, right=right) if left == place:
                    return f"{target} += {self.text(right)}"
            return f"{target} = {self.text(value)}"
        if op.name in ("add", "sub", "mul") and (is_float(place.type) or is_complex(place.type)):
            return f"{target} {op.symbol}= {self.text(value)}"
        return f"{target} = {self.text(p.Apply(op, (place, value), place.type))}"

    def _loop(self, head: str, body: p.Stmt, polls: bool) -> list[str]:
        poll = ["if (*stop) break;"] if polls else []
        return [f"{head} {{", *_indent([*poll, *self.stmt(body)]), "}"]

    def _for(self, s: p.For, begin: p.Expr, end: p.Expr) -> list[str]:
        var = s.var.name
        head = f"for (int64_t {var} = {self.text(begin)}; {var} < {self.text(end)}; {var}++)"
        pragma = ["#pragma omp simd"] if s.simd else []
        if s.unrolled:
            pragma = [f"#pragma GCC unroll {self.text(end)}"]
        return [*_remark(s.comment), *pragma, *self._loop(head, s.body, s.polls)]

    def _parallel_for(self, s: p.For) -> list[str]:
        """A loop over parts, a thread for each, around the loop over the part's iterations."""
        begin, end = self.text(s.begin), self.text(s.end)
        bounds = [p.Name(f"{s.var.name}_{side}") for side in ("first", "limit")]
        cuts = []
        for bound, part in zip(bounds, ("part", "part + 1"), strict=True):
            if s.balance is not None:
                cut = f"{self.use('cut', s.balance.pos.type)}({s.balance.pos.name}, "
            else:
                cut = f"{self.use('cut_even', '')}("
            cuts.append(f"const int64_t {bound.name} = {cut}{begin}, {end}, {part}, threads);")
        private = [line for stmt in s.private for line in self._private(stmt)]
        cleanup = [line for stmt in s.cleanup for line in self.stmt(stmt)]
        loop = self._for(s, bounds[0], bounds[1])
        if private:
            private.insert(0, "int32_t status = 0;")
            loop = ["if (status == 0) {", *_indent(loop), "} else {", "  failed = 1;", "}"]
        return [
            "// threads take contiguous parts" + (" with equal work" if s.balance else ""),
            "#pragma omp parallel for schedule(static, 1) "
            "num_threads((int)threads) if (threads > 1)",
            "for (int64_t part = 0; part < threads; part++) {",
            *_indent([*cuts, *private, *loop, *cleanup]),
            "}",
        ]

    def _private(self, s: p.Stmt) -> list[str]:
        if isinstance(s, p.Allocate):
            return [f"{CTYPES[s.array.type]} *{s.array.name} = {self._memory(s)};"]
        return self.stmt(s)

    def _if(self, s: p.If) -> list[str]:
        lines = [f"if ({self.text(s.condition)}) {{", *_indent(self.stmt(s.then))]
        match s.otherwise:
            case None:
                return [*lines, "}"]
            case p.If() as other:
                first, *rest = self._if(other)
                return [*lines, f"}} else {first}", *rest]
            case other:
                return [*lines, "} else {", *_indent(self.stmt(other)), "}"]

    # -- memory ---------------------------------------------------------------------------------

    def _block(self, body: tuple[p.Stmt, ...]) -> list[str]:
        """Statements in order; neighbouring allocations are checked together."""
        lines: list[str] = []
        allocated = False
        for n, s in enumerate(body):
            text = self.stmt(s)
            lines += text
            allocated |= isinstance(s, p.Allocate) and bool(text)
            if allocated and (n + 1 == len(body) or not isinstance(body[n + 1], p.Allocate)):
                lines.append("if (status) goto done;")
                allocated = False
        return lines

    def _memory(self, s: p.Allocate) -> str:
        helper = self.use("zeros" if s.zeroed else "room_for", "")
        return f"{helper}({self.text(s.count)}, sizeof({CTYPES[s.array.type]}), &status)"

    def _allocate(self, s: p.Allocate) -> list[str]:
        if s.count == p.Value(0):
            return []  # declared empty at the top of the function, and grown later
        self.fails = True
        return [f"{s.array.name} = {self._memory(s)};"]

    def _grow(self, s: p.Grow) -> list[str]:
        self.fails = True
        cap, needed = s.capacity.name, self.expr(s.needed)
        lines = [f"const int64_t old = {cap};"] if any(g.zeroed for g in s.arrays) else []
        lines.append(f"{cap} = {self.use('larger', '')}({cap}, {needed[0]});")
        for g in s.arrays:
            lines += self._regrow(g, cap)
        lines.append("if (status) goto done;")
        return [f"if ({paren(needed, PLUS)} > {cap}) {{", *_indent(lines), "}"]

    def _regrow(self, g: p.Growing, cap: str) -> list[str]:
        name, ctype = g.array.name, CTYPES[g.array.type]

        def length(count: str) -> str:
            product = p.arithmetic("*", p.Name(count), g.per)
            return self.text(p.arithmetic("+", product, p.Value(g.extra)))

        resize = self.use("resize", "")
        lines = [f"{name} = {resize}({name}, {length(cap)}, sizeof({ctype}), &status);"]
        if g.zeroed:
            start = f"old ? {length('old')} : 0"
            clear = f"for (int64_t n = {start}; n < {length(cap)}; n++) {name}[n] = 0;"
            lines += ["if (status) goto done;", clear]
        return lines

    # -- the function ---------------------------------------------------------------------------

    def function(self, name: str) -> str:
        body = self.stmt(self.program.body)
        made = [a for a in self.program.arguments if a.role == "made"]
        tail = self._hand_back(made)
        used = set(re.findall(r"[A-Za-z_]\w*", "\n".join([*body, *tail])))
        lines = [
            *self._arguments(used),
            # Empty at first, so that they can always be freed.
            *(f"{CTYPES[array.type]} *{array.name} = 0;" for array in self._local_arrays()),
            *(["int32_t status = 0;"] if "status" in used else []),
            *(["int32_t failed = 0;"] if "failed" in used else []),
            *body,
            *tail,
        ]
        title = [f"// {line}" for line in self.program.title.splitlines()]
        head = f"int32_t {name}(void **arrays, int64_t *sizes) {{"
        return "\n".join([*title, head, *_indent(lines), "}", ""])

    def _arguments(self, used: set[str]) -> list[str]:
        lines = []
        if "stop" in used:
            lines.append("const volatile int32_t *stop = arrays[0];")
        if "threads" in used:
            lines.append("const int64_t threads = sizes[0];")
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

    def _local_arrays(self) -> list[p.Array]:
        """The arrays that this function allocates, those of single threads aside."""
        loops = [n for n in walk(self.program.body) if isinstance(n, p.For)]
        private = {s.array for f in loops for s in f.private if isinstance(s, p.Allocate)}
        arrays = [s.array for s in walk(self.program.body) if isinstance(s, p.Allocate)]
        return [array for array in dict.fromkeys(arrays) if array not in private]

    def _hand_back(self, made: list[p.Argument]) -> list[str]:
        """The end of the function: give memory back, and hand over what was made."""
        polls = any(isinstance(n, (p.For, p.While)) and n.polls for n in walk(self.program.body))
        private = any(isinstance(n, p.For) and n.private for n in walk(self.program.body))
        if not self.fails and not private:
            return [f"return *stop ? {INTERRUPTED} : {OK};" if polls else f"return {OK};"]
        lines = [f"if (failed) status = {NO_MEMORY};"] if private else []
        if polls:
            lines.append(f"if (*stop) status = {INTERRUPTED};")
        if self.fails:
            lines.append("done:")
        results = [argument.array for argument in made]
        lines += [f"__builtin_free({a.name});" for a in self._local_arrays() if a not in results]
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
        return [f"if (status == {OK}) {{", *_indent(hand), "} else {", *_indent(drop), "}"]


def _indent(lines: list[str]) -> list[str]:
    return [line if line.startswith(("#", "done:")) else f"  {line}" for line in lines]


def _remark(text: str) -> list[str]:
    return [f"// {text}"] if text else []
