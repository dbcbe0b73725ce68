"""Programs for a GPU as CUDA C++: text that NVRTC and, under the emulator's header, g++ compile.

Every kernel is one `extern "C" __global__` function, whose parameters are the scalars that the host
has worked out, and the arrays. Index arithmetic is done in `index_t`: 32 bits wide where all
that is counted fits.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from openwork.algebra.operators import Op
from openwork.errors import InternalError
from openwork.program import nodes as p
from openwork.program.elements import applied
from openwork.program.gpu_nodes import (
    COLLECTIVE,
    VECTOR,
    Address,
    Barrier,
    Combine,
    DeviceProgram,
    Kernel,
    LoadVector,
    MakeVector,
    Shared,
    StoreVector,
    StreamLoad,
    Together,
)
from openwork.render.c.helpers import helper_text
from openwork.render.cuda.groups import GROUP_HELPERS, group_text
from openwork.render.cuda.tables import NEEDS
from openwork.render.cuda.types import BUILTIN_PREFIX, COMPLEX, CUDA_TYPES, atomic, cuda_constant
from openwork.render.spelling import (
    ATOM,
    EQUAL,
    LESS,
    UNARY,
    Spelled,
    is_complex,
    operator,
    paren,
)
from openwork.render.writer import Helpers, Writer, indent, names_type, remark
from openwork.tree import walk

INDEX_TYPE = "index_t"
_ELEMENT = "ELEMENT_TYPE"  # of a helper, until it is known which 64-bit numbers count
_TYPEDEFS = {
    "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long long",
}  # fmt: skip


def render_cuda(device: DeviceProgram, narrow: bool) -> str:
    """The CUDA text of all kernels of a program; `narrow`: what it counts fits 32 bits."""
    helpers: Helpers = {}
    kernels = [_Renderer(device.program, helpers).kernel(k) for k in device.kernels]
    title = [f"// {line}" for line in device.program.title.splitlines()]
    return _assembled(helpers, [*title, *kernels], narrow)


def _assembled(helpers: Helpers, parts: Sequence[str], narrow: bool) -> str:
    text = "\n".join([*helpers.values(), *parts])
    text = re.sub(r"\b_Bool\b", "bool", text)
    text = re.sub(r"__builtin_ctzll\((\w+)\)", r"(__ffsll((long long)\1) - 1)", text)
    text = text.replace(BUILTIN_PREFIX, "")
    complexes = [COMPLEX] if "Complex<" in text else []
    used = [n for n in _TYPEDEFS if names_type(text, n)]
    lines = [f"typedef {_TYPEDEFS[n]} {n}_t;" for n in used]
    lines.append(f"typedef {'int' if narrow else 'long long'} {INDEX_TYPE};")
    return "\n".join([*lines, "", *complexes, text, ""])


def parameters(k: Kernel) -> list[tuple[str, str]]:
    """Types and names of the parameters of a kernel: scalars, then arrays."""
    found = [(f"const {_type(n)}", n.name) for n in k.scalars]
    for array in k.arrays:
        const = "" if array.name in k.written else "const "
        # A hash table is put in another place when it grows.
        restrict = "*" if array.name.endswith("_table") else "*__restrict__"
        found.append((f"{const}{CUDA_TYPES[array.type]} {restrict}", array.name))
    return found


def can_be_narrow(program: p.Program) -> bool:
    """Whether all 64-bit arithmetic of a program is that of indices."""
    for node in walk(program):
        match node:
            case p.Apply(args=args) if "int64" in (node.type, *(a.type for a in args)):
                return False
            case p.Argument(role="made", name="pos", array=p.Array(type="int64")):
                return False
            case p.Array(name=name, type="int64" | "int128") if not re.search(
                r"_((pos|crd)\d+|cuts|first|long|far)$", name
            ):
                return False
    return True


@dataclass
class _Renderer(Writer):
    """Expressions and statements of one kernel."""

    shared: list[str] = field(default_factory=list)  # memory of combined sums
    vectors: set[str] = field(default_factory=set)

    # -- expressions ----------------------------------------------------------------------------

    def expr(self, e: p.Expr | p.Array) -> Spelled:
        match e:
            case p.Value():
                return cuda_constant(e.value, e.type)
            case p.Load(array=array, index=index) if array.name in self.vectors:
                return f"{array.name}.of[{self.text(index)}]", ATOM
            case StreamLoad(array=array, index=index):
                return f"__ldcs(&{array.name}[{self.text(index)}])", ATOM
            case p.Convert(expr=inner):
                return self._convert(self.expr(inner), inner.type, e.type)
            case p.Apply(op=op, args=args):
                return self._apply(op, args, e.type)
            case Address(array=array, index=index):
                return f"&{array.name}[{self.text(index)}]", UNARY
        return super().expr(e)

    def _convert(self, value: Spelled, source: str, to: str) -> Spelled:
        if to == "bool":
            if is_complex(source):
                return f"nonzero({value[0]})", ATOM
            return f"{paren(value, LESS)} != 0", EQUAL
        if is_complex(source) and not is_complex(to):
            return f"({CUDA_TYPES[to]}){paren(value, ATOM)}.re", UNARY
        if is_complex(to) and not is_complex(source):
            half = "float" if to == "complex64" else "double"
            return f"{CUDA_TYPES[to]}(({half}){paren(value, UNARY)})", ATOM
        return f"({CUDA_TYPES[to]}){paren(value, UNARY)}", UNARY

    def _apply(self, op: Op, args: tuple[p.Expr, ...], type: str) -> Spelled:
        types = [arg.type for arg in args]
        spelled = [self.expr(a) for a in args]
        if is_complex(types[0]) and op.name in ("real", "imag", "conj"):
            value = paren(spelled[0], ATOM)
            if op.name == "conj":
                return f"{CUDA_TYPES[types[0]]}({value}.re, -{value}.im)", ATOM
            return f"{value}.{'re' if op.name == 'real' else 'im'}", ATOM
        if is_complex(types[0]) and op.name == "abs":
            return f"cabs({spelled[0][0]})", ATOM
        if is_complex(type) and op.name in _COMPLEX_FUNCTIONS:
            return f"c{op.name}({', '.join(text for text, _ in spelled)})", ATOM
        return operator(op, spelled, types, type, self.use)

    def use(self, name: str, type: str) -> str:
        if name in NEEDS:
            self.use(NEEDS[name], "")
        if (name, type) not in self.helpers:
            if name in GROUP_HELPERS:
                self.helpers[name, type] = group_text(name)
                return name
            text = helper_text(name, type, _ELEMENT)
            text = re.sub(r"\bstatic (inline )?", "static __device__ ", text)
            text = text.replace("= __builtin_malloc", f"= ({INDEX_TYPE} *)__builtin_malloc")
            text = re.sub(r"__(real|imag)__ (\w+)", lambda m: f"{m[2]}.{m[1][:2]}", text)
            text = re.sub(r"\bint64_t\b", INDEX_TYPE, text)
            self.helpers[name, type] = text.replace(_ELEMENT, CUDA_TYPES.get(type, ""))
        if name in GROUP_HELPERS:
            return name
        return f"{name}_{type}" if type else name

    # -- statements -----------------------------------------------------------------------------

    def stmt(self, s: p.Stmt) -> list[str]:
        """`s` as lines."""
        match s:
            case p.Block(body=body):
                return [line for each in body for line in self.stmt(each)]
            case p.Declare(name=name, value=value, fixed=fixed):
                return [
                    f"{'const ' if fixed else ''}{_type(name)} {name.name} = {self.text(value)};"
                ]
            case p.Set(name=name, value=value, op=op):
                return [f"{self.update(name, value, op)};"]
            case p.Store():
                return atomic(self, s) if s.atomic else self._store(s)
            case p.For():
                return self._for(s)
            case p.While(condition=condition, body=body):
                head = f"while ({self.text(condition)}) {{"
                return [*remark(s.comment), head, *indent(self.stmt(body)), "}"]
            case p.If():
                return self._if(s)
            case p.Local(array=array, count=count):
                return [f"{CUDA_TYPES[array.type]} {array.name}[{count}];"]
            case Shared(array=array, count=count):
                kind = f"__shared__ __align__({VECTOR}) {CUDA_TYPES[array.type]}"
                return [f"{kind} {array.name}[{count}];"]
            case Barrier():
                return [self._barrier(s)]
            case Together():
                return self._together(s)
            case Combine():
                return self._combine(s)
            case LoadVector(vector=vector, array=array, index=index, count=count):
                kind = self._vector(array, count)
                place = f"&{array.name}[{self.text(index)}]"
                return [f"const {kind} {vector.name} = *(const {kind} *){place};"]
            case MakeVector(vector=vector, count=count):
                return [f"{self._vector(vector, count)} {vector.name};"]
            case StoreVector(vector=vector, array=array, index=index, count=count):
                place = f"&{array.name}[{self.text(index)}]"
                if s.added:
                    return [f"{self.use('add_vector', '')}({place}, {vector.name});"]
                return [f"*({self._vector(array, count)} *){place} = {vector.name};"]
            case p.Prefetch() | p.Free():
                return []
            case p.Break():
                return ["break;"]
            case p.Fail():
                return ["return;"]
            case p.Do(call=call):
                return [f"{self.call(call)};"]
            case p.Comment(text=text):
                return remark(text)
        raise InternalError(f"CUDA has no spelling for {type(s).__name__}")

    def _vector(self, array: p.Array, count: int) -> str:
        self.use("vector", "")
        return f"Vector<{CUDA_TYPES[array.type]}, {count}>"

    def _if(self, s: p.If) -> list[str]:
        then, other = self.stmt(s.then), [] if s.otherwise is None else self.stmt(s.otherwise)
        if not then and other:
            return [f"if (!({self.text(s.condition)})) {{", *indent(other), "}"]
        lines = [f"if ({self.text(s.condition)}) {{", *indent(then)]
        return [*lines, "} else {", *indent(other), "}"] if other else [*lines, "}"]

    def _for(self, s: p.For) -> list[str]:
        var, begin = s.var.name, self.text(s.begin)
        more = self.text(p.compare("<", s.var, s.end))
        body = indent(self.stmt(s.body))
        if s.step is not None and s.lanes == 1:  # one round is all
            first = f"const {INDEX_TYPE} {var} = {begin};"
            return [
                *remark(s.comment),
                "{",
                f"  {first}",
                f"  if ({more}) {{",
                *indent(body),
                "  }",
                "}",
            ]
        step = f"{var}++" if s.step is None else f"{var} += {self.text(s.step)}"
        if s.step == p.Value(1):
            step = f"{var}++"
        unroll = []
        if s.unrolled:
            unroll = ["#pragma unroll"]
        elif s.unroll > 1:
            unroll = [f"#pragma unroll {s.unroll}"]
        head = f"for ({INDEX_TYPE} {var} = {begin}; {more}; {step}) {{"
        return [*remark(s.comment), *unroll, head, *body, "}"]

    def _store(self, s: p.Store) -> list[str]:
        return [f"{self.update(p.Load(s.array, s.index), s.value, s.op)};"]

    # -- threads together -----------------------------------------------------------------------

    def _barrier(self, s: Barrier) -> str:
        if s.lanes is None:
            return "__syncthreads();"
        return f"__syncwarp({self._mask(s.lanes)});"

    def call(self, call: p.Helper) -> str:
        if call.name not in COLLECTIVE:
            return super().call(call)
        *given, count = call.args
        lanes = int(count.value.real) if isinstance(count, p.Value) else 0
        mask = self._mask(lanes) if lanes > 1 else "1u"
        args = ", ".join([*map(self.text, given), mask])
        return f"{self.use(call.name, '')}<{lanes}>({args})"

    def _mask(self, lanes: int) -> str:
        """The lanes of the unit that this thread is in."""
        if lanes == 32:
            return "0xffffffffu"
        return f"{(1 << lanes) - 1:#x}u << (threadIdx.x & {32 - lanes})"

    def _lambda(self, op: Op, type: str) -> str:
        """The operator, as a function of two elements."""
        a, b = p.Name("a", type), p.Name("b", type)
        ctype = CUDA_TYPES[type]
        body = self.text(applied(op, a, b))
        name = f"{op.name if op.definition is None else 'f'}_of_{type}"
        if op.definition is not None:
            # The same in every process, for the cache, and of no two operators.
            name += f"_{hashlib.sha256(body.encode()).hexdigest()[:16]}"
        text = (
            f"struct {name} {{\n  static __device__ {ctype} of({ctype} a, {ctype} b) "
            f"{{ return ({ctype})({body}); }}\n}};\n"
        )
        self.helpers.setdefault(("lambda", name), text)
        return name

    def _together(self, s: Together) -> list[str]:
        type, name = s.name.type, s.name.name
        op = self._lambda(s.op, type)
        self.use("shuffle", "")
        if s.across:
            call, sums = self.use("across_units", ""), self._sums(s.name, s.across)
            return [f"{name} = {call}<{op}, {s.across}, {s.lanes}>({name}, {sums});"]
        if s.lanes <= 32:
            call = self.use("of_lanes", "")
            return [f"{name} = {call}<{op}, {s.lanes}>({name}, {self._mask(s.lanes)});"]
        self.use("of_lanes", "")
        call, sums = self.use("of_block", ""), self._sums(s.name, s.lanes // 32)
        identity = f"({_type(s.name)}){cuda_constant(s.identity.value, type)[0]}"
        return [f"{name} = {call}<{op}, {s.lanes}>({name}, {identity}, {sums});"]

    def _sums(self, name: p.Name, count: int) -> str:
        """Shared memory in which the threads of a block meet."""
        array = f"{name.name}_sums"
        self.shared.append(f"__shared__ {_type(name)} {array}[{count}];")
        return array

    def _combine(self, s: Combine) -> list[str]:
        type = s.array.type
        op = self._lambda(s.op, type)
        self.use("shuffle", "")
        if s.reduction == "parallel":
            self.use("of_lanes", "")
        call = self.use(f"of_{s.reduction}", "")
        args = f"{s.value.name}, {s.index.name}, {self._mask(s.group)}"
        line = f"const bool {s.value.name}_mine = {call}<{op}, {s.group}>({args});"
        place = s.index if s.base is None else s.base + s.index
        store = p.Store(s.array, place, s.value, s.op, atomic=True)
        return [line, f"if ({s.value.name}_mine) {{", *indent(atomic(self, store)), "}"]

    # -- the function ---------------------------------------------------------------------------

    def kernel(self, k: Kernel) -> str:
        self.shared = []
        self.vectors = {
            n.vector.name for n in walk(k.body) if isinstance(n, (LoadVector, MakeVector))
        }
        body = indent(self.stmt(k.body))
        body = [*indent(self.shared), *body]
        params = [f"{type} {name}" for type, name in parameters(k)]
        blocks = f", {max(1, k.resident // k.threads)}" if k.resident else ""
        bounds = f"__launch_bounds__({k.threads}{blocks})"
        lines = [f'extern "C" __global__ void {bounds} {k.name}(']
        lines += [
            f"    {param}{',' if n + 1 < len(params) else ''}" for n, param in enumerate(params)
        ]
        return "\n".join([*lines, ") {", *body, "}", ""])


_COMPLEX_FUNCTIONS = ("sqrt", "exp", "log", "sin", "cos", "tan", "tanh")


def _type(name: p.Name) -> str:
    return INDEX_TYPE if name.type == "int64" else CUDA_TYPES[name.type]
