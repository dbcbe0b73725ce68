"""Index variables, accesses, reductions and operators as Python calls: `ow.indices`, `ow.sum`.

`sum`, `min` and the other names of Python's built-ins take expressions only. `functions.py` has the
elementwise functions, which take whole tensors as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op, Semiring
from openwork.algebra.types import Number
from openwork.errors import ParseError
from openwork.index import define
from openwork.index.checks import wrong_order
from openwork.index.define import WEIGHTS, operator
from openwork.index.functions import (
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    elements,
    logical_and,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    pow,
)
from openwork.index.nodes import IndexVar, Reduce, TensorVar
from openwork.index.select import bordered
from openwork.index.semiring import semiring_named, under
from openwork.index.terms import (
    Term,
    Variable,
    as_expr,
    as_variable,
    element,
    variable,
)

__all__ = [
    "index", "indices", "access", "border",
    "sum", "prod", "min", "max", "any", "all", "reduce",
    "operator", "semiring", "under",
]  # fmt: skip


# Variables and accesses.


def index(name: str) -> Variable:
    """One index variable; the same object for the same name.

    >>> index("i")
    <index variable i>
    """
    if not isinstance(name, str) or not name.isidentifier():
        raise ParseError(
            f"{name!r} is not the name of an index variable",
            code="E101",
            hint="a name is letters, digits and underscores, and does not start with a digit",
        )
    return variable(name)


def indices(*names: str) -> tuple[Variable, ...]:
    """Index variables, one for each name in a text, or in several.

    >>> i, j, k = indices("i j k")
    >>> indices("i, j, k") == indices("i", "j", "k") == (i, j, k)
    True
    """
    for each in names or (None,):
        if not isinstance(each, str):
            raise ParseError(
                f"{each!r} is not a text of names",
                code="E101",
                hint='for example ow.indices("i j")',
            )
    return tuple(index(name) for name in re.split(r"[\s,]+", " ".join(names)) if name)


def access(tensor: TensorVar, variables: object) -> Term:
    """The element of `tensor` at `variables`: what `A[i, j]` makes.

    Raises:
        ParseError: E104 if there are more or fewer variables than modes, E112 if one of them is
            not an index variable.
    """
    given = variables if isinstance(variables, (tuple, list)) else (variables,)
    if len(given) == tensor.ndim:
        found = element(tensor, given)
        if found is not None:
            return Term(found)
    for each in given:
        if as_variable(each) is None:
            raise ParseError(
                f"{tensor.name} is indexed with {each!r}, which is not an index variable",
                code="E112",
                hint='make variables with i, j = ow.indices("i j")',
            )
    raise ParseError(wrong_order(tensor, len(given)), code="E104")


def border(expr: object, value: object) -> Term:
    """An element at an offset, which is `value` where that is beyond its tensor.

    >>> from openwork.algebra.types import FLOAT64
    >>> from openwork.format.formats import dense
    >>> x = TensorVar("x", dense(1), FLOAT64, shape=(4,))
    >>> print(border(access(x, index("i") + 1), 0))
    border(x[i+1], 0)
    """
    return Term(bordered(as_expr(expr), as_expr(value), None))


# Reductions.


def _reduction(op: Op, word: str, args: tuple[object, ...], more: object = None) -> Term:
    """`op` over the variables that come before the last of `args`, the first one outermost."""
    if more or (args and is_tensor(args[0])):  # axis=0, as NumPy has it
        raise _of_a_tensor(word)
    variables: list[IndexVar] = []
    for arg in args[:-1]:
        for var in arg if isinstance(arg, (tuple, list)) else (arg,):
            node = as_variable(var)
            if node is None:
                what = repr(var) if isinstance(var, Term) else type(var).__name__
                raise ParseError(
                    f"{word} runs over index variables, not over {what}",
                    code="E112",
                    hint=f"for example ow.{word}(j, A[i, j])",
                )
            variables.append(node)
    if not variables:
        raise ParseError(
            f"{word} needs an index variable and an expression",
            code="E112",
            hint=f"for example ow.{word}(j, A[i, j])",
        )
    expr = as_expr(args[-1])
    for var in reversed(variables):
        expr = Reduce(op, var, expr)
    _ = expr.kind
    return Term(expr)


def is_tensor(obj: object) -> bool:
    """Whether `obj` is a whole tensor: it makes accesses, and is no term itself."""
    return hasattr(obj, "__openwork_access__") and not isinstance(obj, Term)


def _of_a_tensor(word: str) -> ParseError:
    """The error of NumPy's call, `ow.sum(A, axis=0)`."""
    method = "sum" if word == "reduce" else word
    return ParseError(
        f"ow.{word} runs over index variables, in expressions",
        code="E112",
        hint=f"of a whole tensor: A.{method}(), A.{method}(axis=0), or np.{method}(A)",
    )


def sum(*args: object, **more: object) -> Term:
    """The sum over index variables: `sum(j, e)`, `sum(j, k, e)` or `sum((j, k), e)`.

    >>> i, j, k = indices("i j k")
    >>> print(sum(j, k, i * j * k))
    sum(j, sum(k, mul(mul(i, j), k)))
    """
    return _reduction(ops.ADD, "sum", args, more)


def prod(*args: object, **more: object) -> Term:
    """The product over index variables, as `sum`."""
    return _reduction(ops.MUL, "prod", args, more)


def any(*args: object, **more: object) -> Term:
    """Whether an element is nonzero for some value of the index variables."""
    return _reduction(ops.OR, "any", args, more)


def all(*args: object, **more: object) -> Term:
    """Whether an element is nonzero for every value of the index variables."""
    return _reduction(ops.AND, "all", args, more)


def min(*args: object, **more: object) -> Term:
    """The minimum over index variables, `min(j, e)`; of two elements otherwise, `min(a, b)`.

    The first argument decides: an index variable, or a tuple of them, is what the minimum runs
    over. To compare an index variable's value, write `minimum(i, e)`.

    >>> i, j = indices("i j")
    >>> print(min(j, i * j), min(i * j, 3), sep="; ")
    min(j, mul(i, j)); min(mul(i, j), 3)
    """
    return _extreme(ops.MIN, "min", args, more)


def max(*args: object, **more: object) -> Term:
    """The maximum over index variables, `max(j, e)`; of two elements otherwise, `max(a, b)`.

    The first argument decides, as for `min`; `maximum(i, e)` compares an index variable's value.
    """
    return _extreme(ops.MAX, "max", args, more)


def _extreme(op: Op, word: str, args: tuple[object, ...], more: object) -> Term:
    if more or (len(args) == 1 and is_tensor(args[0])):
        raise _of_a_tensor(word)
    if args and (isinstance(args[0], (tuple, list)) or as_variable(args[0]) is not None):
        return _reduction(op, word, args)
    if len(args) != 2:
        raise ParseError(f"{word} takes 2 arguments, got {len(args)}", code="E102")
    return elements(op, *args)


def reduce(op: Op | str | Callable[..., Term], *args: object) -> Term:
    """The reduction over index variables with any operator: `reduce(op, j, e)`.

    Args:
        op: an operator with an identity that is associative, the name of a built-in one, or a
            function of this module such as `maximum`.
        args: variables and an expression, as for `sum`.

    >>> print(reduce("xor", index("j"), index("j") < 3))
    xor(j, lt(j, 3))
    """
    return _reduction(_operator(op), "reduce", args)


# Operators.


def semiring(
    name: str,
    add: Op | str | Callable[..., Term] | None = None,
    mul: Op | str | Callable[..., Term] | None = None,
    zero: Number | None = None,
    *,
    domain: Sequence[Number] = WEIGHTS,
) -> Semiring:
    """A semiring: what `+` and `*` mean, and the value `zero` of an entry that is absent.

    Args:
        name: what messages call it; alone it is that of a known one, such as `min_second`.
        add: takes the place of `+` and of sums.
        mul: takes the place of `*`.
        zero: the identity of `add` and the annihilator of `mul`.
        domain: numbers on which these laws are tested, unless the operators declare them.

    >>> widest = semiring("widest", max, min, 0)
    >>> widest.add.name, widest.mul.name
    ('max', 'min')
    """
    if add is None and mul is None and zero is None:
        return semiring_named(name)
    if add is None or mul is None or zero is None:
        raise ParseError(
            f"semiring {name} lacks an operator, or its zero",
            code="E111",
            hint='ow.semiring("widest", max, min, 0); a name alone is that of a known one',
        )
    return define.semiring(name, _operator(add), _operator(mul), zero, domain=domain)


_OPERATOR_OF: dict[object, Op] = {
    **{sum: ops.ADD, prod: ops.MUL, min: ops.MIN, max: ops.MAX, any: ops.OR, all: ops.AND},
    **{minimum: ops.MIN, maximum: ops.MAX, pow: ops.POW},
    **{logical_and: ops.AND, logical_or: ops.OR, logical_xor: ops.XOR},
    **{bitwise_and: ops.BITWISE_AND, bitwise_or: ops.BITWISE_OR, bitwise_xor: ops.BITWISE_XOR},
}


def _operator(spec: Any) -> Op:
    known = _OPERATOR_OF.get(spec) if callable(spec) and not isinstance(spec, Op) else None
    return define.named_operator(spec) if known is None else known
