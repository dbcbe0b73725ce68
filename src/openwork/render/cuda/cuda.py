"""Programs for a GPU as CUDA C++: text that NVRTC and, under the emulator's header, g++ compile.

Every kernel is one `extern "C" __global__` function, whose parameters are the scalars that the host
has computed, and the arrays. Index arithmetic uses `index_t`: 32 bits where all sizes and positions
fit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from openwork.algebra.operators import Op
from openwork.program import nodes as p
from openwork.program.elements import applied
from openwork.program.gpu_nodes import (
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
from openwork.program.remarks import CANONICAL, spoken, title
from openwork.render.cuda.complex import COMPLEX
from openwork.render.cuda.dialect import CUDA, CUDA_TYPES, INDEX_TYPE
from openwork.render.cuda.helpers import LIBRARY
from openwork.render.cuda.stores import atomic
from openwork.render.precedence import ATOM, UNARY, Spelled
from openwork.render.writer import Helpers, Writer, indent, names_type, remark
from openwork.tree import walk

WARP_LANES = 32
_TYPEDEFS = {
    "int8": "signed char", "int16": "short", "int32": "int", "int64": "long long",
    "uint8": "unsigned char", "uint16": "unsigned short", "uint32": "unsigned int",
    "uint64": "unsigned long long",
}  # fmt: skip


def render_cuda(device: DeviceProgram, narrow: bool, words: Mapping[str, str] = CANONICAL) -> str:
    """The CUDA text of all kernels of a program; `narrow`: its indices fit 32 bits.

    Comments use `words` for names of the code.
    """
    helpers: Helpers = {}
    kernels = [CudaWriter(CUDA, LIBRARY, helpers, k).function() for k in device.kernels]
    parts = [*title(device.program.title, words), *kernels]
    return spoken(_assembled(helpers, parts, narrow), words)


def _assembled(helpers: Helpers, parts: Sequence[str], narrow: bool) -> str:
    text = "\n".join([*helpers.values(), *parts])
    complexes = [COMPLEX] if "Complex<" in text else []
    used = [n for n in _TYPEDEFS if names_type(text, n)]
    lines = [f"typedef {_TYPEDEFS[n]} {n}_t;" for n in used]
    lines.append(f"typedef {'int' if narrow else 'long long'} {INDEX_TYPE};")
    return "\n".join([*lines, "", *complexes, text, ""])


def parameters(k: Kernel) -> list[tuple[str, str]]:
    """Types and names of the parameters of a kernel: scalars, then arrays."""
    found = [(f"const {CUDA.scalar(n.type)}", n.name) for n in k.scalars]
    for array in k.arrays:
        const = "" if array.name in k.written else "const "
        # A hash table moves when it grows.
        restrict = "*" if array.role is p.Role.TABLE else "*__restrict__"
        found.append((f"{const}{CUDA_TYPES[array.type]} {restrict}", array.name))
    return found


# The roles of 64-bit arrays whose elements may be truncated to 32 bits.
_INDICES = (p.Role.POSITION, p.Role.COORDINATE, p.Role.CUT)


def can_be_narrow(program: p.Program) -> bool:
    """Whether all 64-bit arithmetic of a program is on indices."""
    for node in walk(program):
        match node:
            case p.Apply(args=args) if "int64" in (node.type, *(a.type for a in args)):
                return False
            case p.Argument(role="made", array=p.Array(type="int64", role=p.Role.POSITION)):
                return False
            case p.Array(type="int64" | "int128", role=role) if role not in _INDICES:
                return False
    return True


@dataclass
class CudaWriter(Writer):
    """Writes one kernel."""

    kernel: Kernel

    @cached_property
    def vectors(self) -> set[str]:
        """The names of vectors that are loaded and stored as a whole."""
        nodes = walk(self.kernel.body)
        return {n.vector.name for n in nodes if isinstance(n, (LoadVector, MakeVector))}

    # -- expressions ----------------------------------------------------------------------------

    def expr(self, e: p.Expr | p.Array) -> Spelled:
        """An expression, and how tightly it binds."""
        match e:
            case p.Load(array=array, index=index) if array.name in self.vectors:
                return f"{array.name}.of[{self.text(index)}]", ATOM
            case StreamLoad(array=array, index=index):
                return f"__ldcs(&{array.name}[{self.text(index)}])", ATOM
            case Address(array=array, index=index):
                return f"&{array.name}[{self.text(index)}]", UNARY
        return super().expr(e)

    # -- statements -----------------------------------------------------------------------------

    def stmt(self, s: p.Stmt) -> list[str]:
        """`s` as lines."""
        match s:
            case p.Block(body=body):
                return [line for each in body for line in self.stmt(each)]
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
            case p.Fail():
                return ["return;"]
        return self.simple(s)

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
        if s.once:
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
        step = f"{var}++"
        if s.step is not None and s.step != p.Value(1):
            step = f"{var} += {self.text(s.step)}"
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
        if s.lanes > WARP_LANES:
            return f"{self.use('sync_unit', '')}<{s.lanes}>();"
        return f"__syncwarp({self._mask(s.lanes)});"

    def call(self, call: p.Helper) -> str:
        """A call of a helper; collective ones get the mask of their lanes."""
        if not call.facts.collective:
            return super().call(call)
        *given, count = call.args
        lanes = int(count.value.real) if isinstance(count, p.Value) else 0
        mask = self._mask(lanes) if lanes > 1 else "1u"
        args = ", ".join([*map(self.text, given), mask])
        return f"{self.use(call.name, '')}<{lanes}>({args})"

    def _mask(self, lanes: int, stride: int = 1) -> str:
        """The mask of the lanes in this thread's unit, or of those `stride` apart from it."""
        if lanes == 32:
            return "0xffffffffu"
        bits = sum(1 << n * stride for n in range(lanes))
        return f"{bits:#x}u << (threadIdx.x & {32 - lanes * stride + stride - 1})"

    def _lambda(self, op: Op, type: str) -> str:
        """The operator, as a function of two elements."""
        a, b = p.Name("a", type), p.Name("b", type)
        ctype = CUDA_TYPES[type]
        body = self.text(applied(op, a, b))
        name = f"{op.name if op.definition is None else 'f'}_of_{type}"
        if op.definition is not None:
            # Stable across processes, for the cache, and unique to the operator.
            name += f"_{hashlib.sha256(body.encode()).hexdigest()[:16]}"
        text = (
            f"struct {name} {{\n  static __device__ {ctype} of({ctype} a, {ctype} b) "
            f"{{ return ({ctype})({body}); }}\n}};\n"
        )
        self.helpers.setdefault(("lambda", name), text)
        return name

    def _together(self, s: Together) -> list[str]:
        type, name, sums = s.name.type, s.name.name, s.sums.name if s.sums else ""
        op = self._lambda(s.op, type)
        if s.across:
            call = self.use("across_units", "")
            return [f"{name} = {call}<{op}, {s.across}, {s.lanes}>({name}, {sums});"]
        if s.stride > 1:
            call, lanes = self.use("of_lanes_apart", ""), s.lanes * s.stride
            mask = self._mask(lanes) if s.whole else self._mask(s.lanes, s.stride)
            return [f"{name} = {call}<{op}, {s.lanes}, {s.stride}>({name}, {mask});"]
        if s.lanes <= 32:
            call = self.use("of_lanes", "")
            return [f"{name} = {call}<{op}, {s.lanes}>({name}, {self._mask(s.lanes)});"]
        whole = s.lanes == self.kernel.threads
        if not whole:
            self.use("sync_unit", "")
        call = self.use("of_block" if whole else "of_unit", "")
        identity = f"({CUDA.scalar(type)}){self.text(s.identity)}"
        return [f"{name} = {call}<{op}, {s.lanes}>({name}, {identity}, {sums});"]

    def _combine(self, s: Combine) -> list[str]:
        type = s.array.type
        op = self._lambda(s.op, type)
        call = self.use(f"of_{s.reduction}", "")
        args = f"{s.value.name}, {s.index.name}, {self._mask(s.group)}"
        line = f"const bool {s.value.name}_mine = {call}<{op}, {s.group}>({args});"
        place = s.index if s.base is None else s.base + s.index
        store = p.Store(s.array, place, s.value, s.op, atomic=True)
        return [line, f"if ({s.value.name}_mine) {{", *indent(atomic(self, store)), "}"]

    # -- the function ---------------------------------------------------------------------------

    def function(self) -> str:
        """The whole kernel."""
        k = self.kernel
        body = indent(self.stmt(k.body))
        params = [f"{type} {name}" for type, name in parameters(k)]
        blocks = f", {max(1, k.resident // k.threads)}" if k.resident else ""
        bounds = f"__launch_bounds__({k.threads}{blocks})"
        lines = [f'extern "C" __global__ void {bounds} {k.name}(']
        lines += [
            f"    {param}{',' if n + 1 < len(params) else ''}" for n, param in enumerate(params)
        ]
        return "\n".join([*lines, ") {", *body, "}", ""])
