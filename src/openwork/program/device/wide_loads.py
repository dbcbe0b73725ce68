"""Loads and stores of 16 bytes: vectorizes unrolled loops over consecutive elements.

    for (at = 0; at < 4; at++) sum[at] += a * B[j * 32 + k + at];    unrolled
    =>
    v = the vector at B[j * 32 + k];
    for (at = 0; at < 4; at++) sum[at] += a * v[at];

The numbers of a record are loaded and stored together in the same way:

    w = A[4 * p]; x = A[4 * p + 1]; ...   =>   v = the vector at A[4 * p]; w = v[0]; x = v[1]; ...

Adjacent float32 updates use vector atomics (sm_90 and later). A vector must be aligned: the index
of its first element is a multiple of its length, which follows from constants. Arrays are aligned
themselves, or the host picks other code.
"""

from __future__ import annotations

from math import gcd
from typing import cast

from openwork.algebra.types import size_of
from openwork.loops.fresh import take_name
from openwork.program import nodes as p
from openwork.program.device.kernels import each_kernel
from openwork.program.gpu_nodes import (
    BLOCK_X,
    THREAD,
    VECTOR,
    DeviceProgram,
    Kernel,
    LoadVector,
    MakeVector,
    Shared,
    StoreVector,
    StreamLoad,
)
from openwork.program.nodes import Array, Binary, Expr, Name, Stmt, Value, arithmetic, block
from openwork.tree import Node, map_children, replace, walk


def with_wide_loads(device: DeviceProgram) -> DeviceProgram:
    """`device` with vector loads from operands and shared memory, and vector stores."""
    operands = _operands(device)

    def widened(kernel: Kernel) -> p.Block:
        nodes = list(walk(kernel.body))
        shared = {n.array.name for n in nodes if isinstance(n, Shared)}
        local = {n.array.name for n in nodes if isinstance(n, p.Local)}
        taken = {n.name for n in nodes if isinstance(n, Name)}
        vectors = _Vectors(operands | shared, shared, local, taken)
        return cast(p.Block, vectors.node(kernel.body, {}))

    return each_kernel(device, widened)


def _operands(device: DeviceProgram) -> set[str]:
    """The arrays that are never written."""
    return {a.array.name for a in device.program.arguments if a.role == "operand"}


class _Vectors:
    def __init__(
        self, loaded: set[str], shared: set[str], local: set[str], taken: set[str]
    ) -> None:
        self.loaded, self.shared, self.local, self.taken = loaded, shared, local, taken

    def node(self, node: Node, known: dict[str, Expr]) -> Node:
        """`node` rewritten; `known` maps names to the expressions they stand for."""
        if isinstance(node, p.Block):
            return p.in_order(self._together(node, known), known, self.node)
        if isinstance(node, p.For) and node.unrolled and isinstance(node.end, Value):
            return self._loop(node, known)
        if isinstance(node, Expr):
            return node
        return map_children(node, lambda n: self.node(n, known))

    def _loop(self, loop: p.For, known: dict[str, Expr]) -> Stmt:
        count = int(cast(Value, loop.end).value.real)
        body = loop.body.body if isinstance(loop.body, p.Block) else (loop.body,)
        if loop.begin != Value(0) or not all(
            isinstance(s, (p.Declare, p.Set, p.Store)) for s in body
        ):
            return cast(Stmt, map_children(loop, lambda n: self.node(n, known)))
        inner = dict(known)
        for s in body:
            if isinstance(s, p.Declare):
                inner[s.name.name] = s.value
        own = {s.name.name: s.value for s in body if isinstance(s, p.Declare)}
        before: list[Stmt] = []
        table: dict[Node, Node] = {}
        written = {s.array for s in body if isinstance(s, p.Store)}
        for load in dict.fromkeys(n for s in body for n in walk(s) if isinstance(n, p.Load)):
            if load.array.name not in self.loaded or load.array in written:
                continue
            base = self._base(load.index, loop.var, own)
            if base is None or not _aligned(base, load.array, count, known):
                continue
            vector = self._vector(load.array)
            before.append(LoadVector(vector, load.array, base, count))
            table[load] = p.Load(vector, loop.var)
        stores = [s for s in body if isinstance(s, p.Store)]
        after: list[Stmt] = []
        new = [cast(Stmt, _replaced(s, table)) for s in body]
        if len(stores) == 1 and (_is_plain(stores[0]) or self._adds(stores[0])):
            store = stores[0]
            base = self._base(store.index, loop.var, own)
            fits = base is not None and _aligned(base, store.array, count, known)
            in_memory = store.array.role is p.Role.VALUE and store.array.name not in self.local
            if base is not None and fits and in_memory:
                vector = self._vector(store.array)
                before.append(MakeVector(vector, count))
                after.append(StoreVector(vector, store.array, base, count, store.atomic))
                at = body.index(store)
                value = cast(p.Store, new[at]).value
                new[at] = p.Store(vector, loop.var, value)
        if not before:
            return loop
        return block(*before, replace(loop, body=block(*_used(new))), *after)

    def _together(self, body: p.Block, known: dict[str, Expr]) -> p.Block:
        """`body` with vectors for loads, and for stores, of adjacent elements in a row."""
        known = known | {s.name.name: s.value for s in body.body if isinstance(s, p.Declare)}
        made: list[Stmt] = []
        at = 0
        while at < len(body.body):
            run = _adjacent(body.body[at:])
            at += max(1, len(run))
            made += self._vectorized(run, known) if len(run) > 1 else body.body[at - 1 : at]
        return body if len(made) == len(body.body) else block(*made)

    def _vectorized(self, run: list[Stmt], known: dict[str, Expr]) -> list[Stmt]:
        """Declarations, or stores, of adjacent elements by way of a vector, if they fit one."""
        first, count = run[0], len(run)
        place = first.value if isinstance(first, p.Declare) else first
        if not isinstance(place, (p.Load, p.Store)):
            return run
        array, base = place.array, place.index
        if not _aligned(base, array, count, known):
            return run
        if isinstance(place, p.Load):
            if array.name not in self.loaded:
                return run
            vector = self._vector(array)
            parts = (
                replace(s, value=p.Load(vector, Value(n)))
                for n, s in enumerate(cast(list[p.Declare], run))
            )
            return [LoadVector(vector, array, base, count), *parts]
        values = [s.value for s in cast(list[p.Store], run)]
        if any(isinstance(n, p.Load) and n.array == array for v in values for n in walk(v)):
            return run
        vector = self._vector(array)
        filled = (p.Store(vector, Value(n), value) for n, value in enumerate(values))
        return [MakeVector(vector, count), *filled, StoreVector(vector, array, base, count, False)]

    def _adds(self, store: p.Store) -> bool:
        """Whether it adds to adjacent float32 elements in global memory: vector atomics."""
        plus = store.op is not None and store.op.adds
        here = store.array.type == "float32" and store.array.name not in self.shared
        return store.atomic and plus and here

    def _vector(self, array: Array) -> Array:
        return Array(take_name(f"{array.stem}_vector", self.taken), array.type)

    def _base(self, index: Expr, at: Name, own: dict[str, Expr]) -> Expr | None:
        """`index` minus `at`, if `at` is a term of it, without names declared in the loop."""
        parts = terms(spelled(index, own))
        if parts.count(at) != 1:
            return None
        rest: Expr = Value(0)
        for term in parts:
            if term != at:
                if at in walk(term):
                    return None
                rest = arithmetic("+", rest, term)
        return rest


def _adjacent(body: tuple[Stmt, ...]) -> list[Stmt]:
    """The statements at the start of `body` that declare, or store to, adjacent elements."""
    run: list[Stmt] = []
    expected: object = None
    for s in body:
        place = s.value if isinstance(s, p.Declare) and s.fixed else s
        if not isinstance(place, (p.Load, p.Store)) or type(place) not in (p.Load, p.Store):
            break
        base, offset = _apart(place.index)
        found = type(s), place.array, base, offset
        plain = isinstance(place, p.Load) or _is_plain(place)
        if not plain or (run and found != expected):
            break
        run.append(s)
        expected = *found[:3], offset + 1
    return run


def _apart(index: Expr) -> tuple[tuple[Expr, ...], int]:
    """The terms of an index, without constants, and the sum of these."""
    parts = terms(index)
    constants = [part.value.real for part in parts if isinstance(part, Value)]
    return tuple(part for part in parts if not isinstance(part, Value)), int(sum(constants))


def _is_plain(store: p.Store) -> bool:
    return store.op is None and not store.atomic


def _used(stmts: list[Stmt]) -> list[Stmt]:
    """`stmts` without unused declarations."""
    kept: list[Stmt] = []
    names: set[Node] = set()
    for s in reversed(stmts):
        if isinstance(s, p.Declare) and s.name not in names:
            continue
        names |= set(walk(s.value if isinstance(s, p.Declare) else s))
        kept.insert(0, s)
    return kept


def spelled(e: Expr, own: dict[str, Expr]) -> Expr:
    """`e` with names replaced by the expressions they stand for."""
    if isinstance(e, Name) and e.name in own:
        return spelled(own[e.name], own)
    if isinstance(e, Binary):
        return arithmetic(e.sign, spelled(e.left, own), spelled(e.right, own))
    return e


def terms(e: Expr) -> list[Expr]:
    """The terms of the sum `e`."""
    if isinstance(e, Binary) and e.sign == "+":
        return [*terms(e.left), *terms(e.right)]
    return [e]


def _aligned(base: Expr, array: Array, count: int, known: dict[str, Expr]) -> bool:
    """Whether `count` elements from `base` on are whole, aligned vectors."""
    size = size_of(array.type)
    bytes_ = count * size
    each = min(bytes_ & -bytes_, VECTOR) // size
    return each > 1 and _divisor(base, known) % each == 0


def _divisor(e: Expr, known: dict[str, Expr]) -> int:
    """A divisor of `e`."""
    match e:
        case Value(value=value):
            return abs(int(value.real))
        case Name(name=name) if name in known:
            return _divisor(known[name], known)
        case Binary(sign="+" | "-", left=left, right=right):
            return gcd(_divisor(left, known), _divisor(right, known))
        case Binary(sign="min" | "max", left=left, right=right):
            return gcd(_divisor(left, known), _divisor(right, known))
        case Binary(sign="*", left=left, right=right):
            return _divisor(left, known) * _divisor(right, known)
    return 1


def _replaced(node: Node, table: dict[Node, Node]) -> Node:
    return table.get(node) or map_children(node, lambda n: _replaced(n, table))


# Element types with a streaming load in CUDA.
_TYPES = {f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)}
_TYPES |= {"float16", "float32", "float64"}


def with_streamed_loads(device: DeviceProgram) -> DeviceProgram:
    """`device` with streaming loads of operand elements that are read once, coalesced."""
    operands = _operands(device)
    return each_kernel(device, lambda kernel: _streamed(kernel.body, operands))


def _streamed(body: p.Block, operands: set[str]) -> p.Block:
    known = {n.name.name: n.value for n in walk(body) if isinstance(n, p.Declare) and n.fixed}
    blocks = {n.var for n in walk(body) if isinstance(n, p.For) and BLOCK_X in terms(n.begin)}
    blocks.add(BLOCK_X)

    def node(each: Node) -> Node:
        if isinstance(each, p.For) and THREAD in terms(each.begin):
            return map_children(each, lambda n: within(n, each.var))
        return map_children(each, node)

    def within(each: Node, at: p.Name) -> Node:
        if type(each) is p.Load and each.array.name in operands and each.array.type in _TYPES:
            return (StreamLoad if once(each.index, at) else p.Load)(
                each.array, cast(Expr, within(each.index, at))
            )
        return map_children(each, lambda n: within(n, at))

    def once(index: Expr, at: p.Name) -> bool:
        """Whether threads read adjacent elements, and different blocks different ones."""
        parts = terms(spelled(index, known))
        rest = [part for part in parts if part != at]
        names = {n for part in rest for n in walk(part)}
        return parts.count(at) == 1 and at not in names and bool(names & blocks)

    return cast(p.Block, node(body))
