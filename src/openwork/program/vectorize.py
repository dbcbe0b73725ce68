"""Small local arrays as SIMD vectors, where loops over them are unrolled.

    for (at = 0; at < 8; at++) sum[at] += row[at] * B[j * 32 + k + at];    unrolled
    =>
    for each whole vector at `at`: sum[at] += row[at] * the vector at B[j * 32 + k + at];

Compilers keep such arrays in registers on their own, but as scalars as soon as an enclosing loop
carries them, and then they no longer vectorize. So we name the vectors explicitly. Lanes keep the
order of the elements in memory, and rounding does not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd
from typing import cast

from openwork.frozen import frozen
from openwork.program import nodes as p
from openwork.program.nodes import Array, Binary, Expr, Load, Name, Stmt, Value
from openwork.tree import Node, bottom_up, children, map_children, replace, walk

# The most bytes of a vector; processors may have narrower ones. Short ones are those of arrays that
# ask for them.
WIDE, NARROW, SHORT = 64, 32, 16
_SIZES = {"float32": 4, "float64": 8}


@frozen
class InVectors(Stmt):
    """`body` for each whole vector of `count` elements; `var` is the index of its first.

    `bytes`: of a vector, at most.
    """

    var: Name
    count: int
    body: Stmt
    type: str
    bytes: int
    comment: str = ""


@frozen
class SumLanes(Stmt):
    """`name += ` the sum of all `count` elements of a local array of vectors."""

    name: Name
    array: Array
    count: int


def vectorize(program: p.Program) -> p.Program:
    """`program` with vectors in place of the local arrays that consist of whole vectors."""
    counts, widths = _eligible(program.body)
    while counts:
        pass_ = _Pass(counts, widths)
        body = pass_.node(program.body, {})
        wrong = (set(counts) - pass_.summed) | _loose(body, set(counts))
        if not wrong:
            body = _marked(_from_nothing(body), {name: widths[name] for name in counts})
            return replace(program, body=cast(p.Block, body))
        counts = {name: count for name, count in counts.items() if name not in wrong}
    plain = _marked(program.body, {})
    return program if plain is program.body else replace(program, body=cast(p.Block, plain))


def _eligible(body: p.Block) -> tuple[dict[str, int], dict[str, int]]:
    """The local arrays that consist of whole vectors: the number of elements of each, and the bytes
    of its vectors."""
    counts: dict[str, int] = {}
    widths: dict[str, int] = {}
    wrong: set[str] = set()
    for node in walk(body):
        match node:
            case p.Local(array=Array(name=name, type=type, vectors=asked), count=count):
                widths[name] = asked or _width(type, count)
                if not widths[name] or counts.setdefault(name, count) != count:
                    wrong.add(name)
            case p.Reduction(name=Name(name=name)) | p.Copy(array=Array(name=name)):
                wrong.add(name)
            case p.Helper(args=args):
                wrong |= {arg.name for arg in args if isinstance(arg, Array)}
    return {name: count for name, count in counts.items() if name not in wrong}, widths


def _width(type: str, count: int) -> int:
    """The widest vectors, in bytes, that divide so many elements evenly; 0 if none does."""
    bytes = count * _SIZES.get(type, 0)
    return next((width for width in (WIDE, NARROW) if bytes and bytes % width == 0), 0)


def _loose(node: Node, names: set[str], written_out: bool = False) -> set[str]:
    """The arrays with an access whose element is not known at compile time."""
    match node:
        case p.Local() | InVectors() | SumLanes():
            return set()
        case p.For(unrolled=True):
            written_out = True
        case p.For() | p.While():
            written_out = False
    found = set()
    if isinstance(node, (Load, p.Store)) and node.array.name in names:
        constant = isinstance(node.index, Value)
        found = set() if written_out or constant else {node.array.name}
    for child in children(node):
        found |= _loose(child, names, written_out)
    return found


def _marked(node: Node, widths: Mapping[str, int]) -> Node:
    if not widths and not any(isinstance(n, Array) and n.vectors for n in walk(node)):
        return node

    def mark(node: Node) -> Node | None:
        if isinstance(node, Array) and node.vectors != widths.get(node.name, 0):
            return replace(node, vectors=widths.get(node.name, 0))
        return None

    return bottom_up(mark)(node)


def _from_nothing(body: Node) -> Node:
    """Arrays that only accumulate sums start at -0, which compilers may drop from a sum.

    -0 + 0 is 0, so compilers may not drop a start at 0. The scalar to which the lanes are added
    started at 0, which makes up for it.
    """
    summed = {n.array for n in walk(body) if isinstance(n, SumLanes)}
    summed -= {n.array for n in walk(body) if isinstance(n, Load)}

    def rule(node: Node) -> Node | None:
        match node:
            case p.Store(array=array, value=Value(value=0, type=type), op=None) if array in summed:
                return replace(node, value=Value(-0.0, type))
        return None

    return bottom_up(rule)(body)


class _Pass:
    """Rewrites loops over the arrays of `counts`; `summed`: those that accumulate vectors."""

    def __init__(self, counts: Mapping[str, int], widths: Mapping[str, int]) -> None:
        self.counts, self.widths = counts, widths
        self.summed: set[str] = set()

    def node(self, node: Node, known: dict[str, Expr]) -> Node:
        """`node` rewritten; `known` maps names to the expressions they stand for."""
        if isinstance(node, p.Block):
            return p.in_order(node, known, self.node)
        if isinstance(node, p.For) and node.unrolled:
            new = self._loop(node, known)
            if new is not None:
                return new
        if isinstance(node, Expr):
            return node
        return map_children(node, lambda n: self.node(n, known))

    def _loop(self, loop: p.For, known: Mapping[str, Expr]) -> Stmt | None:
        """An unrolled loop in vectors; None if it must stay as it is."""
        body = loop.body.body if isinstance(loop.body, p.Block) else (loop.body,)
        match loop:
            case p.For(begin=Value(value=0), end=Value(value=int(count)), by=None):
                pass
            case _:
                return None
        match body:
            case (p.Set(name=name, value=Load(array=array, index=at), op=op),) if (
                name in [r.name for r in loop.reductions]  # the order does not matter
                and at == loop.var
                and op is not None
                and op.adds
                and self.counts.get(array.name) == count
                and name.type == array.type
            ):
                return SumLanes(name, array, count)
        types = {s.array.type for s in body if isinstance(s, p.Store)}
        if loop.reductions or len(types) != 1 or not types <= set(_SIZES):
            return None
        (type,) = types
        lanes = _Lanes(self.counts, self.widths, loop.var, type, dict(known))
        if not all(lanes.takes(s) for s in body):
            return None
        widths = {self.widths[name] for name in lanes.touched}
        if len(widths) != 1 or count * _SIZES[type] % max(widths):
            return None
        self.summed |= lanes.summed
        return InVectors(loop.var, count, loop.body, type, max(widths), loop.comment)


class _Lanes:
    """Whether the statements of one loop can be executed on whole vectors."""

    def __init__(
        self,
        counts: Mapping[str, int],
        widths: Mapping[str, int],
        at: Name,
        type: str,
        known: dict[str, Expr],
    ) -> None:
        self.counts, self.widths, self.at, self.type, self.known = counts, widths, at, type, known
        self.own: set[str] = set()  # what the loop declares
        self.places: dict[str, Expr] = {}  # where it stores
        self.touched: set[str] = set()
        self.summed: set[str] = set()

    def takes(self, s: Stmt) -> bool:
        """Whether `s` can."""
        match s:
            case p.Declare(name=name, value=value, fixed=True) if name.type == p.INDEX:
                self.own.add(name.name)
                self.known[name.name] = value
                return not any(isinstance(n, Load) for n in walk(value))
            case p.Store(array=array, index=index, value=value, op=op):
                if s.atomic or s.stream or (op is not None and not op.lanewise):
                    return False
                if self.places.setdefault(array.name, index) != index:
                    return False
                kind = self.kind(value)
                if self._load(array, index) != "vector" or kind is None:
                    return False
                if array.name in self.counts and kind == "vector":
                    self.summed.add(array.name)
                return True
        return False

    def kind(self, e: Expr) -> str | None:
        """Whether `e` is a "vector" or a "scalar", equal in all lanes; None if neither."""
        match e:
            case Load(array=array, index=index) if array.type == self.type:
                if self.places.get(array.name, index) != index:
                    return None
                return self._load(array, index)
            case p.Apply(op=op, args=(left, right)) if op.lanewise and e.type == self.type:
                kinds = (self.kind(left), self.kind(right))
                if None in kinds:
                    return None
                return "vector" if "vector" in kinds else "scalar"
        varies = any(isinstance(n, Name) and self._varies(n) for n in walk(e))
        return None if varies or e.type != self.type else "scalar"

    def _varies(self, name: Name) -> bool:
        return name == self.at or name.name in self.own

    def _load(self, array: Array, index: Expr) -> str | None:
        form = _linear(index, self.known)
        step = form.pop(self.at, 0)
        terms = (node for term in form if term is not None for node in walk(term))
        if any(isinstance(node, Name) and self._varies(node) for node in terms):
            return None  # as in values[rank[i]]: the lanes are anywhere
        if array.name not in self.counts:
            return {0: "scalar", 1: "vector"}.get(step)
        whole = self.widths[array.name] // _SIZES[array.type]
        if step != 1 or _divisor(form) % whole:
            return None
        self.touched.add(array.name)
        return "vector"


def _linear(e: Expr, known: Mapping[str, Expr]) -> dict[Expr | None, int]:
    """`e` as a linear form: the factor of each term, and the constant under None."""
    match e:
        case Value(value=int(value)):
            return {None: value} if value else {}
        case Name(name=name) if name in known:
            return _linear(known[name], known)
        case Binary(sign="+" | "-" as sign, left=left, right=right):
            form = dict(_linear(left, known))
            for term, factor in _linear(right, known).items():
                form[term] = form.get(term, 0) + (factor if sign == "+" else -factor)
            return {term: factor for term, factor in form.items() if factor}
        case Binary(sign="*", left=left, right=Value(value=int(times))) if times:
            return {term: factor * times for term, factor in _linear(left, known).items()}
        case Binary(sign="*", left=Value(value=int(times)), right=right) if times:
            return {term: factor * times for term, factor in _linear(right, known).items()}
    return {e: 1}


def _divisor(form: Mapping[Expr | None, int]) -> int:
    """A divisor of the linear form."""
    return gcd(*form.values())
