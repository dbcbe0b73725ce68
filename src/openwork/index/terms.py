"""Terms: expressions as users hold them, which Python's operators combine into larger ones.

A term is a thin wrapper around a node. Every operator on it builds a term, `==` and `!=` included,
while nodes keep structural equality for the compiler. Functions that take expressions or variables
from users unwrap them by `as_expr`, `as_variable` or `unwrapped`, and pass nodes on.
"""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np

from openwork.algebra.operators import UFUNCS, Op
from openwork.algebra.overloads import Overloaded
from openwork.algebra.types import DType, as_dtype
from openwork.errors import ParseError
from openwork.index.nodes import Access, Affine, Expr, IndexVar, Literal, TensorVar, apply
from openwork.index.select import element as selected, window
from openwork.index.show import show


class Term(Overloaded[Any]):
    """An expression over accesses, index variables and numbers.

    It has no truth value. Index variables of one name are one object.
    """

    __slots__ = ("__weakref__", "node")

    def __init__(self, node: Expr) -> None:
        self.node = node

    @property
    def dtype(self) -> DType:
        """The element type of the value."""
        return self.node.dtype

    def __openwork_apply__(self, op: Op, args: Sequence[object]) -> Term:
        return applied(op, *args)

    def __array_ufunc__(  # type: ignore[override]  # tensors have their own
        self, ufunc: np.ufunc, method: str, *inputs: object, **more: object
    ) -> Any:
        """NumPy's universal functions of expressions: `np.sqrt(A[i, j])`."""
        if ufunc not in UFUNCS or method != "__call__" or more:
            raise ParseError(
                f"np.{ufunc.__name__} is no operator of expressions, or not with these arguments",
                code="E112",
                hint="a sum is ow.sum(j, e); ow.operator defines operators",
            )
        return applied(UFUNCS[ufunc], *map(_number, inputs))

    def __matmul__(self, other: object) -> Any:
        raise ParseError(
            "expressions are of elements, which @ does not multiply",
            code="E112",
            hint="C[i, k] = A[i, j] * B[j, k]: what stands only on the right is summed",
        )

    __rmatmul__ = __matmul__

    if not TYPE_CHECKING:  # it would let every name pass

        def __getattr__(self, name: str) -> Any:
            """Names of arrays are told with what to write of an expression."""
            instead = "ow.assign(y[i], e).compile()() computes an expression"
            if name in ("sum", "prod", "min", "max", "any", "all"):
                instead = f"write ow.{name}(j, e)"
            tail = "" if name.startswith("_") else f"; {instead}"
            raise AttributeError(f"an expression has no attribute {name!r}{tail}")

    def __bool__(self) -> bool:
        raise ParseError(
            f"an expression has no truth value: {show(self.node)}",
            code="E112",
            hint="choose between elements with ow.select(a == b, x, y), "
            "and join comparisons with & | ~ in place of and, or, not: (0 < i) & (i < 3)",
        )

    def __str__(self) -> str:
        return str(self.node)

    def __repr__(self) -> str:
        return show(self.node)


def _number(obj: object) -> object:
    """The number that NumPy made an array of; anything else as it is."""
    return obj[()] if isinstance(obj, np.ndarray) and obj.ndim == 0 else obj


class Single(Term):
    """The element of a tensor without modes, `a[()]`: to NumPy's functions it is its value."""

    __slots__ = ()
    node: Access
    shape: tuple[()] = ()
    ndim = 0

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.array(self.node.tensor.source, dtype=dtype)


class Variable(Term):
    """An index variable; in an expression it stands for its coordinate, an int64."""

    __slots__ = ()
    node: IndexVar

    @property
    def name(self) -> str:
        """What texts and schedules call the variable."""
        return self.node.name

    def __call__(self, *bounds: object) -> Window:
        """The window `i(start, stop)` or `i(start, stop, step)`, as a coordinate: `A[i(2, 5), j]`.

        >>> variable("i")(2, 5)
        <window i(2,5)>
        """
        return Window(window(self.node, [as_expr(bound) for bound in bounds], None))

    def __reduce__(self) -> tuple[Any, ...]:
        return variable, (self.name,)  # one object for each name, also after a copy

    def __repr__(self) -> str:
        return f"<index variable {self.name}>"


class Window:
    """A window of a variable, which stands only in accesses."""

    def __init__(self, node: Affine) -> None:
        self.node = node

    def __repr__(self) -> str:
        return f"<window {self.node}>"


_variables: WeakValueDictionary[str, Variable] = WeakValueDictionary()


def variable(name: str) -> Variable:
    """The index variable of a name: the same object each time.

    >>> variable("i") is variable("i")
    True
    """
    return _variables.setdefault(name, Variable(IndexVar(name)))


def applied(op: Op, *args: object) -> Term:
    """`op` applied to terms and numbers."""
    return Term(apply(op, *map(as_expr, args)))


def unwrapped(value: object) -> Any:
    """The node in a term; anything else as it is."""
    return value.node if isinstance(value, Term) else value


def any_terms(values: Sequence[object]) -> bool:
    """Whether one of `values` is a term."""
    return any(isinstance(value, (Term, Window)) for value in values)


def element(tensor: TensorVar, coordinates: Sequence[object]) -> Expr | None:
    """The element of `tensor` at `coordinates`; None if one of them cannot be such."""
    nodes: list[Expr | Affine] = []
    for each in coordinates:
        if isinstance(each, (Term, Window)):
            nodes.append(each.node)
        elif isinstance(each, Expr):
            nodes.append(each)
        elif isinstance(each, numbers.Integral) and not isinstance(each, (bool, np.bool_)):
            nodes.append(Literal(int(each)))
        else:
            return None
    return selected(tensor, nodes, None)


def as_variable(value: object) -> IndexVar | None:
    """The node of an index variable; None for anything else."""
    node = unwrapped(value)
    return node if isinstance(node, IndexVar) else None


def as_expr(value: object) -> Expr:
    """`value` as a node: that of a term, a literal for a number, the access of a scalar tensor."""
    if isinstance(value, Term):
        return value.node
    if isinstance(value, Expr):
        return value
    if isinstance(value, np.generic):
        return Literal(value.item(), as_dtype(value.dtype))
    if isinstance(value, (bool, float, complex)):
        return Literal(value)
    if isinstance(value, numbers.Integral):
        if not -(2**63) <= int(value) < 2**64:
            raise ParseError("an integer of more than 64 bits", code="E112", hint="use a float")
        return Literal(int(value))
    access = getattr(value, "__openwork_access__", None)
    if access is not None:
        scalar = access(())
        if isinstance(scalar, Expr):
            return scalar
    raise ParseError(
        f"{type(value).__name__} cannot stand in an expression",
        code="E112",
        hint="wrap arrays with ow.tensor(...) and access them: x[i]",
    )
