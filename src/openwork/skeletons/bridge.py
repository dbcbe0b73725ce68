"""Bridges: statements of index notation as programs of patterns and back, formats as types.

A dense program becomes sparse by way of its statement: where an entry is absent, the laws of the
operators say what is left of the sum's terms, as for merge lattices. If that is nothing, only the
stored entries of a row are mapped.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import cast

from openwork.format.formats import BSR, CSR, LIL, Format, dense
from openwork.format.layouts import PACKED
from openwork.index import nodes as index
from openwork.index.absence import without
from openwork.index.checks import check
from openwork.index.einstein import explicit
from openwork.skeletons.build import as_type
from openwork.skeletons.formulas import refuse
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.names import tidied
from openwork.skeletons.language.nodes import ArrayType, Expr, Nat, Scalar, Signature, Type
from openwork.skeletons.matrices import leaf_of, rows_of
from openwork.skeletons.program import Program
from openwork.tensor.statement import Statement

# -- from statements ----------------------------------------------------------------------------


@dataclass(frozen=True)
class _Sparse:
    """How a sparse matrix is stored: the name of its rows' lengths or offsets, and whether each
    coordinate lies beside its value."""

    name: str
    packed: bool
    offsets: bool

    @property
    def helper(self) -> str:
        return f"{self.name}_{'pos' if self.offsets else 'len'}"

    def length(self, i: Nat) -> Nat:
        def at(k: Nat) -> Nat:
            return n.to_nat(n.At(n.Var(self.helper), n.OfNat(k)))

        return at(i + 1) - at(i) if self.offsets else at(i)

    def rows(self, i: Expr) -> Expr:
        """The entries of a row as pairs."""
        values = n.At(n.Var(self.name), i)
        return values if self.packed else n.Zip(n.At(n.Var(f"{self.name}_crd"), i), values)


def from_statement(statement: Statement) -> Program:
    """A statement as a program of patterns, for reading and for rewriting.

    Results are dense; an operand is dense, or a matrix in CSR or LIL, packed or not.

    Raises:
        PatternError: E709 for other formats, or where stored entries alone do not give the sum.
    """
    written = explicit(check(statement.assignment))
    return _FromStatement(written).program()


class _FromStatement:
    def __init__(self, written: index.Assignment) -> None:
        self.written = written
        accesses = [a for a in n.walk_all(written.rhs) if isinstance(a, index.Access)]
        self.operands = {a.tensor.name: a for a in accesses}
        self.sparse = {
            name: _stored(a.tensor.name, a.tensor.format)
            for name, a in self.operands.items()
            if not a.tensor.format.is_dense
        }

    def program(self) -> Program:
        lhs = self.written.lhs
        if not lhs.tensor.format.is_dense or self.written.op is not None:
            refuse("a program of patterns has a dense result, which it writes once")
        params: dict[str, Type] = {}
        for name, access in self.operands.items():
            params |= self._types(name, access)
        env: dict[index.IndexVar, Expr] = {v: n.OfNat(n.named(v.name)) for v in lhs.vars}
        body = self.expr(self.written.rhs, env, {})
        for var in reversed(lhs.vars):
            body = n.Generate(self.extent(var), n.NFun(f"{var.name}#0", _renamed(body, var)))
        names = [a.name for t in params.values() for a in n.walk_all(t) if isinstance(a, n.Named)]
        nats = tuple(dict.fromkeys(name for name in names if name.startswith("n_")))
        types = tuple(params.values())
        return Program(tidied(Signature(nats, tuple(params), types, body)))

    def extent(self, var: index.IndexVar) -> Nat:
        return n.named(f"n_{var.name}")

    def _types(self, name: str, access: index.Access) -> dict[str, Type]:
        value = Scalar(str(access.tensor.dtype))
        known = self.sparse.get(name)
        if known is None:
            type: Type = value
            for var in reversed(access.vars):
                type = ArrayType(type, self.extent(var))
            return {name: type}
        rows = self.extent(access.vars[0])
        length = known.length(n.named("i"))
        column = Scalar("int32")

        def nested(element: Type) -> Type:
            return ArrayType(ArrayType(element, length), rows, "i")

        helper = {known.helper: ArrayType(column, rows + 1 if known.offsets else rows)}
        if known.packed:
            return {**helper, name: nested(n.PairType(column, value))}
        return {**helper, f"{name}_crd": nested(column), name: nested(value)}

    def expr(
        self, e: index.Expr, env: Mapping[index.IndexVar, Expr], held: Mapping[index.Access, Expr]
    ) -> Expr:
        match e:
            case index.Access(tensor=tensor, vars=variables):
                if e in held:
                    return held[e]
                if tensor.name in self.sparse:
                    refuse(f"{tensor.name} is sparse, and {e} is needed where it has no entry")
                made: Expr = n.Var(tensor.name)
                for var in variables:
                    made = n.At(made, env[var])
                return made
            case index.Literal(value=value):
                return n.Literal(value)
            case index.IndexVar():
                return env[e]
            case index.Cast(to=to, expr=inner):
                return n.Noted(self.expr(inner, env, held), Scalar(str(to)))
            case index.Apply(op=op, args=args):
                return n.Apply(op, tuple(self.expr(a, env, held) for a in args))
            case index.Reduce():
                return self._reduce(e, env, held)
        refuse(f"{e} has no pattern")

    def _reduce(
        self, e: index.Reduce, env: Mapping[index.IndexVar, Expr],
        held: Mapping[index.Access, Expr],
    ) -> Expr:  # fmt: skip
        start = n.Literal(e.op.identity or 0)
        fold = n.Reduce(n.Operator(e.op), start)
        for a in n.walk_all(e.expr):
            if isinstance(a, index.Access) and a.tensor.name in self.sparse and a not in held:
                if a.vars[-1] != e.var or a.vars[0] not in env:
                    continue
                left = without(e.expr, [a])
                if not (isinstance(left, index.Absent) and
                        left.value == e.op.identity_of(left.typed)):  # fmt: skip
                    refuse(f"{e} is more than nothing where {a} has no entry")
                entry = n.Var(f"e_{e.var.name}")
                inner = self.expr(
                    e.expr, {**env, e.var: n.Part(entry, 1)}, {**held, a: n.Part(entry, 2)}
                )
                rows = self.sparse[a.tensor.name].rows(env[a.vars[0]])
                return n.piped(rows, n.Map(n.Fun(entry.name, inner)), fold)
        inner = self.expr(e.expr, {**env, e.var: n.OfNat(n.named(e.var.name))}, held)
        every = n.Generate(self.extent(e.var), n.NFun(f"{e.var.name}#0", _renamed(inner, e.var)))
        return n.piped(every, fold)


def _renamed(body: Expr, var: index.IndexVar) -> Expr:
    return cast(Expr, n.substituted(body, {var.name: n.named(f"{var.name}#0")}))


def _stored(name: str, format: Format) -> _Sparse:
    for layout in (format.layout,):
        plain = format.with_layout("AoS")
        if plain in (CSR, LIL):
            return _Sparse(name, layout == PACKED, plain == CSR)
    return refuse(f"{name} is stored as {format!r}", "dense, ow.CSR or ow.LIL, packed or not")


# -- sparse from dense --------------------------------------------------------------------------


def sparsify(program: Program, **formats: Format) -> Program:
    """The sparse program of a dense one: parameters in other formats.

    `ow.CSR` gives `A_pos`, `A_crd` and `A`; a packed layout gives `A_pos` and pairs in `A`. A call
    takes a tensor as `A`, and the others from it.

    Raises:
        PatternError: E709 if the program is no statement, or if the laws of its operators do not
            leave the stored entries alone.
    """
    for name in formats:
        if name not in program.signature.params:
            refuse(f"there is no parameter {name}")
    return from_statement(program.to_statement(**formats))


# -- formats ------------------------------------------------------------------------------------


def format_of(type: object) -> Format:
    """The format that stores data of a type, with its layout.

    Raises:
        PatternError: E709 if no format does.

    >>> from openwork.skeletons.build import array, int32, nats, pair, to_nat
    >>> n = nats("n"); lengths = array(n, int32)
    >>> format_of(array(n, lambda i: array(to_nat(lengths[i]), pair(int32, "float64"))))
    ow.LIL.with_layout('packed')
    """
    known = as_type(type)
    if isinstance(known, n.PairType):
        one, other = known.first, known.second
        found = _rows(one), _rows(other)
        if found[0] is not None and found[0] == found[1] and leaf_of(one) == Scalar("int32"):
            return found[0]
    elif isinstance(known, ArrayType):
        found_format, leaf = _rows(known), leaf_of(known)
        packed = isinstance(leaf, n.PairType) and leaf.first == Scalar("int32")
        if found_format is not None and packed and isinstance(leaf, n.PairType):
            tiles = _tiles(leaf.second)
            if tiles is not None:
                return BSR(*tiles)
            return found_format.with_layout(PACKED)
        order = _dense_order(known)
        if order is not None:
            return dense(order)
    refuse(f"{known} is the type of no format", "[[T]_m]_n, rows of (int, T) by offsets or lengths")


def _rows(type: Type) -> Format | None:
    found = rows_of(type)
    return None if found is None else found[0]


def _dense_order(type: Type) -> int | None:
    order = 0
    while isinstance(type, ArrayType):
        if type.var:
            return None
        order, type = order + 1, type.element
    return order if isinstance(type, Scalar) else None


def _tiles(type: Type) -> tuple[int, int] | None:
    match type:
        case ArrayType(length=high, element=ArrayType(length=wide, element=Scalar())):
            if high.constant and wide.constant:
                return high.constant, wide.constant
    return None
