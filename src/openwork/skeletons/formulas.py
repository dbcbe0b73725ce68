"""Programs of patterns as statements of index notation: arrays become formulas of variables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from openwork.algebra.types import SUPPORTED
from openwork.format.formats import Format
from openwork.frozen import frozen
from openwork.index import nodes as index
from openwork.index.absence import without
from openwork.index.show import show
from openwork.index.terms import Term, Variable, variable
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.nodes import ArrayType, Expr, Nat, Scalar, Signature, Type
from openwork.skeletons.language.stored import refuse
from openwork.skeletons.matrices import Matrix, leaf_of, matrices_in
from openwork.tensor.create import empty, placeholder
from openwork.tensor.statement import Statement, assign
from openwork.tree import walk


@frozen
class _Array:
    """An array of which only formulas are known: its element at an index variable.

    `stored`: of the entries of a matrix's row, the variable is their coordinate; the access to the
    entry at a variable.
    """

    at: Callable[[Variable], Any]
    length: Nat | None = None
    stored: Callable[[Variable], index.Access] | None = None


def statement_of(
    signature: Signature, result: Type, formats: Mapping[str, Format] | None = None,
    out: Format | None = None,
) -> Statement:  # fmt: skip
    """The statement that a program is, over placeholders named like its parameters.

    Rows of entries with their coordinates are a matrix, named like its values.

    Raises:
        PatternError: E709 if it is none.
    """
    return Formula(signature, result, formats, out).statement({})


class Formula:
    """A program as a statement, over placeholders or over tensors."""

    def __init__(
        self, signature: Signature, result: Type, formats: Mapping[str, Format] | None = None,
        out: Format | None = None,
    ) -> None:  # fmt: skip
        self.signature, self.result, self.formats = signature, result, formats or {}
        self._out = out
        self.matrices = {m.name: m for m in matrices_in(signature)}
        self.columns: dict[str, Nat] = {}  # how many columns a matrix has, by its name
        self._stored_along: dict[str, str] = {}  # the matrix whose columns a variable counts
        self._tensors: Mapping[str, Any] = {}

    def statement(
        self, tensors: Mapping[str, Any], shape: tuple[int, ...] | None = None
    ) -> Statement:
        """The statement over these tensors, and over placeholders in place of those left out."""
        self.count, self._tensors = 0, tensors
        self.variables: dict[str, Variable] = {}
        self._extents: dict[str, Nat] = {}  # of variables
        self._stored_along = {}
        s = self.signature
        inside = {m.coordinates for m in self.matrices.values()}
        helpers = {m.lengths for m in self.matrices.values()}
        env: dict[str, Any] = {
            k: self._param(k, t) for k, t in zip(s.params, s.types, strict=True)
            if k not in self.matrices and k not in inside and k not in helpers
        }  # fmt: skip
        for matrix in self.matrices.values():
            env |= self._rows(matrix)
        value, used = self.expr(s.body, env), list[Variable]()
        while isinstance(value, _Array):
            if value.stored is not None:
                refuse("the result has rows of different lengths, and a statement's is dense")
            used.append(self.fresh())
            value = self._at(value, used[-1])
        if not isinstance(value, Term):
            refuse("the result of a statement is an array of numbers")
        _check_extents(value.node, used)
        name = next(k for k in ("y", "result", "r", "out") if k not in s.params)
        dtype = str(leaf_of(self.result))
        if shape is None:
            result = placeholder(name, len(used), self._out, dtype)
        else:
            result = empty(shape, dtype=dtype, name=name)
        return assign(result[tuple(used)] if used else result[()], value)

    def fresh(self) -> Variable:
        self.count += 1
        return variable("ijklmnop"[self.count - 1] if self.count < 9 else f"i{self.count}")

    def _param(self, name: str, type: Type) -> Any:
        lengths, element = list[Nat](), type
        while isinstance(element, ArrayType) and not element.var:
            lengths.append(element.length)
            element = element.element
        if not isinstance(element, Scalar):
            refuse(f"{name} has the type {type}, which is that of no dense tensor",
                    "a dense program has a statement; sk.sparsify makes it sparse")  # fmt: skip
        order = len(lengths)
        tensor = self._tensors.get(name)
        if tensor is None:
            tensor = placeholder(name, order, self.formats.get(name), element.name)

        def at(known: tuple[Variable, ...]) -> Any:
            if len(known) == order:
                return tensor[known]
            return _Array(lambda v: at((*known, v)), lengths[len(known)])

        return at(())

    def _rows(self, matrix: Matrix) -> dict[str, Any]:
        """The parameters of a matrix: at a row, and at the coordinate of an entry."""
        tensor = self._tensors.get(matrix.name)
        if tensor is None:
            tensor = placeholder(matrix.name, 2, matrix.format, matrix.value)

        def rows(element: Callable[[Variable, Variable], Any]) -> _Array:
            def row(i: Variable) -> _Array:
                def at(j: Variable) -> Any:
                    self._stored_along[j.name] = matrix.name
                    return element(i, j)

                return _Array(at, None, lambda j: cast(index.Access, tensor[i, j].node))

            return _Array(row)

        if not matrix.coordinates:
            return {matrix.name: rows(lambda i, j: (j, tensor[i, j]))}
        return {matrix.name: rows(lambda i, j: tensor[i, j]),
                matrix.coordinates: rows(lambda _, j: j)}  # fmt: skip

    def expr(self, e: Expr, env: Mapping[str, Any]) -> Any:
        match e:
            case n.Var(name=name):
                return env[name] if name in env else refuse(f"{name} is read as data")
            case n.Literal(value=value, type=type):
                return value if not type else SUPPORTED[type].type(value)
            case n.OfNat(nat=value):
                return value.constant if value.constant is not None else self._variable(value)
            case n.Pair(first=first, second=second):
                return self.expr(first, env), self.expr(second, env)
            case n.Part(pair=pair, which=which):
                return self.expr(pair, env)[which - 1]
            case n.Apply(op=op, args=args):
                return op(*(self.expr(a, env) for a in args))
            case n.At(array=array, index=n.OfNat(nat=value)):
                return self._at(self.expr(array, env), self._variable(value), counts=True)
            case n.At(array=array, index=inner):
                return self._gathered(self.expr(array, env), self.expr(inner, env))
            case n.Zip(first=first, second=second):
                one, other = self.expr(first, env), self.expr(second, env)
                stored = _both(one.stored, other.stored)
                return _Array(lambda v: (one.at(v), other.at(v)), one.length, stored)
            case n.Generate(length=length, fn=inner):
                return _Array(lambda v: self._generated(inner, v, env), length)
            case n.Call(fn=fn, arg=arg):
                return self.call(fn, self.expr(arg, env), env)
        refuse(f"{e} is nothing that index notation has")

    def _at(self, array: _Array, var: Variable, counts: bool = False) -> Any:
        """The element at a variable, which goes over whole arrays: all have its extent.

        `counts`: it is a position, which in a row of entries is no coordinate.
        """
        if array.stored is not None:
            if counts:
                refuse(f"an entry is taken at the position {var}, which is no coordinate")
        elif array.length is not None:
            known = self._extents.setdefault(var.name, array.length)
            if known != array.length:
                refuse(f"{var} is below {known} here, and goes over {array.length} elements there")
        return array.at(var)

    def _gathered(self, array: Any, at: Any) -> Any:
        """The element at the coordinate of an entry."""
        name = self._stored_along.get(at.name) if isinstance(at, Variable) else None
        if name is None or not isinstance(array, _Array) or array.length is None:
            refuse(f"an element is taken at {at}, which is no coordinate of an entry")
        if self.columns.setdefault(name, array.length) != array.length:
            refuse(f"arrays of {self.columns[name]} and of {array.length} elements have the "
                   f"columns of {name}")  # fmt: skip
        return self._at(array, at)

    def _variable(self, value: Nat) -> Variable:
        found = self.variables.get(str(value))
        return found if found is not None else refuse(f"the index {value} is no index variable")

    def _generated(self, fn: n.NFun, v: Variable, env: Mapping[str, Any]) -> Any:
        self.variables[v.name] = v
        return self.expr(cast(Expr, n.substituted(fn.body, {fn.param: n.named(v.name)})), env)

    def call(self, fn: n.Fn, value: Any, env: Mapping[str, Any]) -> Any:
        match fn:
            case n.Fun(param=param, body=body):
                return self.expr(cast(Expr, body), {**env, param: value})
            case n.Operator(op=op):
                return op(*value) if op.arity == 2 else op(value)
            case n.Compose(fns=fns):
                for each in fns:
                    value = self.call(each, value, env)
                return value
            case n.Map(fn=inner):
                return _Array(
                    lambda v: self.call(inner, value.at(v), env), value.length, value.stored
                )
            case n.Transpose() if value.stored is None:
                row = value.at(self.fresh())
                return _Array(
                    lambda j: _Array(lambda i: value.at(i).at(j), value.length), row.length
                )
            case n.Reduce(fn=n.Operator(op=op), init=n.Literal(value=start)) if (
                op.identity == start and op.associates
            ):
                var = self.fresh()
                body = self._at(value, var)
                if not isinstance(body, Term):
                    refuse("a statement reduces numbers")
                if value.stored is not None:
                    _check_stored(op, body.node, value.stored(var))
                return Term(index.Reduce(op, var.node, body.node))
        refuse(f"{fn} is nothing that index notation has")


def _check_extents(rhs: index.Expr, used: Sequence[Variable]) -> None:
    """Every variable indexes an operand, which gives it an extent."""
    summed = [e.var for e in walk(rhs) if isinstance(e, index.Reduce)]
    told = {v for e in walk(rhs) if isinstance(e, index.Access) for v in e.vars}
    for var in (*(v.node for v in used), *summed):
        if var not in told:
            refuse(f"nothing gives {var} an extent in {show(rhs)}: it indexes no parameter")


def _both(one: Any, other: Any) -> Any:
    """Rows of one matrix that are zipped are its entries; those of two might be any."""
    if one is None or other is None:
        return one or other
    var = variable("j")
    if one(var) != other(var):
        refuse("entries of two matrices lie side by side, whatever their coordinates are")
    return one


def _check_stored(op: n.Op, body: index.Expr, entry: index.Access) -> None:
    """The sum of the entries is the sum of all coordinates, where others add nothing."""
    left = without(body, [entry])
    if not isinstance(left, index.Absent) or left.value != op.identity_of(left.typed):
        refuse(f"a statement sums over all coordinates, and {show(body)} over those of {entry}")
