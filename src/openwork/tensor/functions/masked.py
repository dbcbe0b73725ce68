"""Masks as GraphBLAS has them: a statement that is computed only where another tensor says so."""

from __future__ import annotations

from typing import Any

from openwork.algebra import operators as ops
from openwork.algebra.operators import Op, Semiring
from openwork.algebra.types import number
from openwork.errors import ShapeError
from openwork.format.formats import Format, as_format
from openwork.index.einstein import insert_sums
from openwork.index.nodes import Access, Apply, Assignment, Literal, TensorVar
from openwork.tensor.eager import KERNELS, result_of
from openwork.tensor.exchange.facts import facts_for
from openwork.tensor.functions.join import as_tensor
from openwork.tensor.reductions import pattern
from openwork.tensor.result_format import result_format
from openwork.tensor.statement import parse
from openwork.tensor.tensor import Tensor

_MASK = "mask'"  # no text can name it


def masked(
    text: str,
    mask: Any,
    /,
    *,
    complement: bool = False,
    structural: bool = False,
    semiring: Semiring | str | None = None,
    format: Format | str | None = None,
    **operands: Any,
) -> Tensor:
    """Compute a statement where a mask holds; elsewhere the result is absent.

    With a sparse mask only its entries are computed, as in a sampled matrix product.

    Args:
        text: as for `compute`, with a result that is not among the operands.
        mask: a tensor of the shape of the result; what is not zero holds.
        complement: compute where the mask does not hold.
        structural: every stored entry of the mask holds, whatever its value.
        semiring: what `+` and `*` mean, such as `"plus_pair"`.
        format: the result's format; by default it follows from mask and operands.
        **operands: tensors, arrays, SciPy matrices, by their names.

    >>> A = as_tensor([[0, 1, 1], [1, 0, 1], [1, 1, 0]]).to("CSR")
    >>> masked("C(i,j) = A(i,k) * A(j,k)", A, semiring="plus_pair", A=A).to_numpy()
    array([[0, 1, 1],
           [1, 0, 1],
           [1, 1, 0]])
    """
    tensors: dict[str, Any] = {
        name: each if isinstance(each, Op) else as_tensor(each) for name, each in operands.items()
    }
    chosen = as_tensor(mask)
    where: Any = pattern(chosen) if structural and not chosen.format.is_dense else chosen
    wanted = None if format is None else as_format(format)
    facts = tuple((n, t if isinstance(t, Op) else t.facts) for n, t in tensors.items())
    key = ("masked", text, where.facts, complement, semiring, wanted, facts)

    def build() -> Assignment:
        blank: dict[str, Any] = {
            n: t if isinstance(t, Op) else Tensor(n, (None,) * t.order, t.facts)
            for n, t in tensors.items()
        }
        given = insert_sums(parse(text, semiring=semiring, **blank).assignment)
        at = Tensor(_MASK, (None,) * chosen.order, where.facts).tensor_var
        return _where(given, at, complement, wanted)

    kernel = KERNELS.get(key, build)
    named = {n: t for n, t in tensors.items() if not isinstance(t, Op)}
    return Tensor.made(kernel(**named, **{_MASK: where}))


def _where(
    given: Assignment, mask: TensorVar, complement: bool, format: Format | None
) -> Assignment:
    """What is `given`, computed where the mask holds, and absent elsewhere."""
    lhs = given.lhs
    if len(lhs.vars) != len(mask.shape):
        raise ShapeError(
            f"the mask has {len(mask.shape)} modes, the result {len(lhs.vars)}", code="E204"
        )
    dtype, fill = given.rhs.dtype, lhs.tensor.fill
    zero = Literal(number(fill, dtype), dtype)
    yes, no = (zero, given.rhs) if complement else (given.rhs, zero)
    rhs = Apply(ops.SELECT, (Access(mask, lhs.vars), yes, no))
    stored = result_format(rhs, lhs.vars, fill) if format is None else format
    result = result_of(facts_for(stored, dtype, fill))
    return Assignment(Access(result.tensor_var, lhs.vars), rhs)
