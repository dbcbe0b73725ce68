"""`compute`: a statement over whole tensors, run at once, with a result that follows from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ParamSpec

from openwork.algebra.operators import Op, Semiring
from openwork.format.formats import Format, as_format
from openwork.runtime.storage import Storage
from openwork.tensor import statement
from openwork.tensor.eager import KERNELS, sizes_of
from openwork.tensor.operand import Operand
from openwork.tensor.statement import Statement, by_name
from openwork.tensor.tensor import Tensor

P = ParamSpec("P")


def _of_tensors(build: Callable[P, Statement[Any]]) -> Callable[P, Statement[Tensor]]:
    """The same function: what users write computes tensors, which statements do not know."""
    return build


assign, parse = _of_tensors(statement.assign), _of_tensors(statement.parse)


def compute(
    text: str,
    /,
    *unnamed: Any,
    format: Format | str | None = None,
    semiring: Semiring | str | None = None,
    optimize: bool = True,
    **operands: Any,
) -> Tensor:
    """Compute a statement in index notation; the result need not be declared.

    Its shape, element type and format follow from the operands, as those of `einsum` do. The kernel
    is kept: the same text with operands in the same formats compiles nothing.

    Args:
        text: for example `"C(i,k) = A(i,j) * B(j,k)"`.
        format: the result's format; by default it follows from the operands.
        semiring: what `+` and `*` mean, such as `"min_plus"`.
        optimize: whether products of several operands are cut into steps, and dense matrices are
            multiplied by BLAS, as by `einsum`; False is one kernel.
        **operands: tensors, arrays, SciPy matrices, and your own operators, by their names.

    Raises:
        ParseError: as `parse`.
        ShapeError: E201 if extents disagree.

    >>> A = Tensor.wrap([[1.0, 0.0], [2.0, 3.0]]).to("CSR")
    >>> compute("C(i,k) = A(i,j) * A(j,k)", A=A)
    <Tensor C: 2x2 float64, ow.CSR, 3 stored>
    >>> compute("s = A(i,j) * x(j)", A=A, x=[1.0, 1.0]).item()
    6.0
    """
    if unnamed:
        raise by_name("compute", text)
    given = {name: _operand(each) for name, each in operands.items()}
    tensors = {name: each for name, each in given.items() if isinstance(each, Operand)}
    wanted = None if format is None else as_format(format)
    if any(each.device == "cuda" for each in tensors.values()):
        statement = parse(text, semiring=semiring, format=wanted, **given)
        return statement.compile("cuda", optimize=optimize)()
    facts = tuple((name, each.facts) for name, each in tensors.items())
    others = tuple((name, each) for name, each in given.items() if name not in tensors)
    sizes = sizes_of(tensors.values()) if optimize else None
    key = ("compute", text, wanted, semiring, facts, others, sizes)

    def build() -> Any:
        blank = {n: Tensor(n, (None,) * t.facts.format.ndim, t.facts) for n, t in tensors.items()}
        named = {**given, **blank}
        return parse(text, semiring=semiring, format=wanted, **named).assignment

    def stored() -> dict[str, Storage]:
        return {name: each.storage for name, each in tensors.items()}

    kernel = KERNELS.get(key, build, stored=stored if optimize else None)
    made: Tensor = kernel(**tensors)
    return made


def _operand(obj: Any) -> Any:
    """A tensor or an operator as it is, anything else wrapped."""
    return obj if isinstance(obj, (Tensor, Op)) else Tensor.wrap(obj)
