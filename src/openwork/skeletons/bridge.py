"""Bridges: statements of index notation as programs of patterns, and sparse from dense programs.

A dense program becomes sparse by way of its statement: where an entry is absent, the laws of the
operators say what is left of a sum's terms, as for merge lattices. If that is nothing, only the
stored entries of a row are mapped. A sum of several terms is the sum of a sum for each.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from openwork.algebra.operators import ADD, MUL, NEG, SUB
from openwork.errors import PatternError
from openwork.format.formats import CSC, CSR, LIL, Format
from openwork.format.layouts import AOS, PACKED
from openwork.index import nodes as index
from openwork.index.absence import without
from openwork.index.checks import check
from openwork.index.einstein import explicit
from openwork.index.show import show
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.names import tidied
from openwork.skeletons.language.nodes import ArrayType, Expr, Nat, Scalar, Signature, Type
from openwork.skeletons.language.stored import refuse, typed
from openwork.skeletons.program import Program
from openwork.skeletons.rows import Entries, entries_of, fresh
from openwork.skeletons.run.tensors import Origin, Pattern
from openwork.tensor.statement import Statement

Env = Mapping[index.IndexVar, Expr]
Held = Mapping[index.Access, Expr]


def from_statement(statement: Statement) -> Program:
    """A statement as a program of patterns, for reading and for rewriting.

    Operands are dense, or matrices whose rows or columns are stored: in CSR, CSC and LIL, packed or
    not, in ELL, in blocks, bands or diagonals, ragged or triangular. The result is dense, or in
    CSR, CSC or LIL with the pattern of a factor, or with that of the terms of a sum together, which
    a call computes from tensors.

    Raises:
        PatternError: E709 for other formats, and where a sparse result is more than its operands.
    """
    if not isinstance(statement, Statement):
        refuse(f"{statement!r} is no statement", "ow.parse(...), or ow.assign(y[i], ...)")
    written = explicit(check(statement.assignment))
    try:
        return _FromStatement(written).program()
    except PatternError as error:
        if error.code != "E705":
            raise
    return _FromStatement(written, guarded=True).program()


class _FromStatement:
    """`guarded`: the kernel tests indices that nothing proves."""

    def __init__(self, written: index.Assignment, guarded: bool = False) -> None:
        self.written = written
        accesses = [a for a in n.walk_all(written.rhs) if isinstance(a, index.Access)]
        self.operands = {a.tensor.name: a for a in accesses}
        self.same = _of_one_extent([written.lhs, *accesses])
        self.sparse: dict[str, Entries] = {}
        for name, a in self.operands.items():
            if not a.tensor.format.is_dense:
                extents = [self.extent(v) for v in a.vars]
                value = Scalar(str(a.tensor.dtype))
                self.sparse[name] = entries_of(a.tensor.format, value, name, extents, guarded)

    def program(self) -> Program:
        lhs = self.written.lhs
        if self.written.op is not None:
            refuse("a program of patterns writes its result once")
        params: dict[str, Type] = {}
        for name, access in self.operands.items():
            params |= self._types(name, access)
        env: dict[index.IndexVar, Expr] = {v: n.OfNat(n.named(v.name)) for v in lhs.vars}
        self.pattern: tuple[Pattern, ...] = ()  # those that make up that of a sparse result
        self.own = False  # it is a union
        if lhs.tensor.format.is_dense:
            body = self.expr(self.written.rhs, env, {})
            made = reversed(lhs.vars)
        else:
            body = self._row(lhs, env)
            made = iter([lhs.vars[lhs.tensor.format.order[0]]])
            params |= self._pattern_params(lhs)
        for var in made:
            body = n.Generate(self.extent(var), n.NFun(f"{var.name}#0", _renamed(body, var)))
        known = dict.fromkeys(self.same[v] for a in self.operands.values() for v in a.vars)
        own = (name for entries in self.sparse.values() for name in entries.known.nats)
        nats = (*(f"n_{v.name}" for v in known), *own)
        signature = Signature(nats, tuple(params), tuple(params.values()), body)
        extents = {
            k: tuple(f"n_{self.same[v].name}" for v in a.vars) for k, a in self.operands.items()
        }
        sparse = None if lhs.tensor.format.is_dense else lhs.tensor.format
        formats = {name: a.tensor.format for name, a in self.operands.items()}
        origin = Origin(extents, formats, lhs.tensor.name, sparse, self.pattern, self.own)
        return Program(tidied(signature), origin)

    def extent(self, var: index.IndexVar) -> Nat:
        return n.named(f"n_{self.same[var].name}")

    def _types(self, name: str, access: index.Access) -> dict[str, Type]:
        known = self.sparse.get(name)
        if known is not None:
            return known.params
        type: Type = Scalar(str(access.tensor.dtype))
        for var in reversed(access.vars):
            type = ArrayType(type, self.extent(var))
        return {name: type}

    def _row(self, lhs: index.Access, env: Env) -> Expr:
        """A row or column of a sparse result: its pattern is that of an operand, or a union."""
        format, rhs = lhs.tensor.format, self.written.rhs
        if format.with_layout(AOS) not in (CSR, CSC, LIL):
            refuse(f"{lhs} is stored as {format!r}",
                   "results are dense, or in ow.CSR, ow.CSC or ow.LIL")  # fmt: skip
        reads = [a for a in n.walk_all(rhs) if isinstance(a, index.Access)]
        ways = (lhs.vars, lhs.vars[::-1])
        there = [a for a in reads if a.vars in ways and a.tensor.name in self.sparse]
        (row, column), packed = _stored(lhs), format.layout == PACKED

        def entry(at: Expr, held: Held) -> Expr:
            made = self.expr(rhs, {**env, column: at}, held)
            return n.Pair(at, made) if packed else made

        for a in there:
            if _like(a, lhs) and _is_absent(without(rhs, [a]), lhs):
                self.pattern = ((a.tensor.name, a.vars != lhs.vars),)
                return self.sparse[a.tensor.name].mapped(env[row], lambda at, v: entry(at, {a: v}))  # noqa: B023
        if not there or not _is_absent(without(rhs, there), lhs):
            refuse(f"{lhs} is sparse, and {show(rhs)} has values where no operand has an entry",
                   "a dense result")  # fmt: skip
        found = ((a.tensor.name, a.vars != lhs.vars) for a in there)
        self.pattern, self.own = tuple(dict.fromkeys(found)), True
        at = fresh("j")
        stored = n.At(n.Var(f"{lhs.tensor.name}_crd"), env[row])
        return n.piped(stored, n.Map(n.Fun(at.name, entry(at, {}))))

    def _pattern_params(self, lhs: index.Access) -> dict[str, Type]:
        """The coordinates of a result that has a pattern of its own."""
        if not self.own:
            return {}
        name, extents = lhs.tensor.name, [self.extent(v) for v in lhs.vars]
        params = typed(lhs.tensor.format.with_layout(AOS), Scalar("bool"), name, extents).params
        return {k: type for k, type in params.items() if k != name}

    def expr(self, e: index.Expr, env: Env, held: Held) -> Expr:
        match e:
            case index.Access(tensor=tensor, vars=variables):
                if e in held:
                    return held[e]
                if tensor.name in self.sparse:
                    return self._looked_up(e, env)
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

    def _looked_up(self, a: index.Access, env: Env) -> Expr:
        """An entry that need not be there: the one of its row with this coordinate, or the fill."""
        known, fill = self.sparse[a.tensor.name], n.Literal(a.tensor.fill, str(a.tensor.dtype))
        run, inside = known.along(a.vars)
        return known.searched(env[run], env[inside], fill)

    def _reduce(self, e: index.Reduce, env: Env, held: Held) -> Expr:
        fold = n.Reduce(n.Operator(e.op), n.Literal(e.op.identity or 0))
        for a in n.walk_all(e.expr):
            if not isinstance(a, index.Access) or a.tensor.name not in self.sparse or a in held:
                continue
            known = self.sparse[a.tensor.name]
            run, inside = known.along(a.vars)
            if inside != e.var or run not in env:
                continue
            left = without(e.expr, [a])
            if isinstance(left, index.Absent) and left.value == e.op.identity_of(left.typed):

                def entry(at: Expr, value: Expr, a: index.Access = a) -> Expr:
                    return self.expr(e.expr, {**env, e.var: at}, {**held, a: value})

                return known.folded(env[run], entry, fold)
        terms = _terms(e.expr) if e.op == ADD else [e.expr]
        if len(terms) > 1 and any(self._is_sparse(t) for t in terms):
            sums = [self.expr(index.Reduce(ADD, e.var, t), env, held) for t in terms]
            whole = sums[0]
            for each in sums[1:]:
                whole = n.Apply(ADD, (whole, each))
            return whole
        inner = self.expr(e.expr, {**env, e.var: n.OfNat(n.named(e.var.name))}, held)
        every = n.Generate(self.extent(e.var), n.NFun(f"{e.var.name}#0", _renamed(inner, e.var)))
        return n.piped(every, fold)

    def _is_sparse(self, e: index.Expr) -> bool:
        return any(isinstance(a, index.Access) and a.tensor.name in self.sparse
                   for a in n.walk_all(e))  # fmt: skip


def _of_one_extent(accesses: Sequence[index.Access]) -> dict[index.IndexVar, index.IndexVar]:
    """For each variable the one that its extent is called by: a mode of a tensor has one extent."""
    same, first = dict[index.IndexVar, index.IndexVar](), dict[tuple[str, int], index.IndexVar]()
    for a in accesses:
        for mode, var in enumerate(a.vars):
            mine = same.setdefault(var, var)
            known = same[first.setdefault((a.tensor.name, mode), var)]
            same |= {v: known for v, called in same.items() if called == mine}
    return same


def _stored(a: index.Access) -> tuple[index.IndexVar, ...]:
    """The variables of an access, the one of its rows or columns first."""
    return tuple(a.vars[mode] for mode in a.tensor.format.order)


def _like(a: index.Access, lhs: index.Access) -> bool:
    """Whether two accesses are stored alike: the transpose of CSR is CSC."""
    one, other = a.tensor.format, lhs.tensor.format
    return (one.levels, one.layout, _stored(a)) == (other.levels, other.layout, _stored(lhs))


def _is_absent(left: index.Expr, lhs: index.Access) -> bool:
    return isinstance(left, index.Absent) and left.value == lhs.tensor.fill


def _terms(e: index.Expr) -> list[index.Expr]:
    """The terms of a sum: products of sums are multiplied out."""
    match e:
        case index.Apply(op=op, args=(one, other)) if op in (ADD, SUB) and _same_type(e):
            negated = [index.Apply(NEG, (t,)) if op == SUB else t for t in _terms(other)]
            return [*_terms(one), *negated]
        case index.Apply(op=op, args=(one, other)) if op == MUL and _same_type(e):
            left, right = _terms(one), _terms(other)
            if len(left) > 1 or len(right) > 1:
                return [index.Apply(MUL, (a, b)) for a in left for b in right]
    return [e]


def _same_type(e: index.Apply) -> bool:
    """Whether the law holds: in one type of floats, whose sums may be taken in any order."""
    return all(a.dtype == e.dtype for a in e.args)


def _renamed(body: Expr, var: index.IndexVar) -> Expr:
    return cast(Expr, n.substituted(body, {var.name: n.named(f"{var.name}#0")}))


# -- sparse from dense --------------------------------------------------------------------------


def sparsify(program: Program, /, result: Format | None = None, **formats: Format) -> Program:
    """The sparse program of a dense one: parameters in other formats.

    `ow.CSR` gives `A_pos`, `A_crd` and `A`; a packed layout gives `A_pos` and pairs in `A`. A call
    takes a tensor in this format as `A`, and the others from it. Entries that are needed where they
    may be absent are looked up along their row; of `ow.CSC`, along their column.

    Args:
        result: the format of the result, dense if it is left out.

    Raises:
        PatternError: E709 if the program is no statement, or for formats that rows do not have.
    """
    if not isinstance(program, Program):
        refuse(f"{program!r} is no program of patterns", "sk.program(...), or sk.parse(...)")
    for name in formats:
        if name not in program.signature.params:
            refuse(f"there is no parameter {name}")
    return from_statement(program.to_statement(result=result, **formats))
