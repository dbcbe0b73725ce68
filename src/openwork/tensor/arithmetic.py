"""Matrix products of whole tensors, as eager statements."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from openwork.algebra import operators as ops
from openwork.format.formats import dense
from openwork.index.nodes import Access, Apply
from openwork.runtime.storage import Array
from openwork.tensor.eager import KERNELS, Result, run, variables
from openwork.tensor.exchange.facts import Facts, facts_for
from openwork.tensor.operand import Operand
from openwork.tensor.rearrange.broadcast import matmul_layout
from openwork.tensor.result_format import result_format


def matmul(left: Operand, right: Operand) -> Operand:
    """Matrix and vector products, with NumPy's rules for vectors and for stacks of matrices."""
    layout = matmul_layout((left.storage.shape, right.storage.shape), (left.name, right.name))

    def build(accesses: Sequence[Access]) -> Result:
        rhs = Apply(ops.MUL, tuple(accesses))
        return Result(rhs, result_format(rhs, variables(layout.result)), rhs.dtype)

    return run("matmul", layout, (left, right), build)


def matmul_again(left: Operand, right: Array) -> Operand | None:
    """`left @ right` by the kernel of the product before, if that was much like this one.

    A solver has a new vector each time, and cannot wait for it to become a tensor.
    """
    kernel = KERNELS.find(_key_with_array(left.facts, right.dtype, right.ndim))
    made: Operand | None = None if kernel is None else kernel.repeated({"A": left, "B": right})
    return made


@lru_cache(maxsize=256)
def _key_with_array(left: Facts, dtype: Any, ndim: int) -> tuple[Any, ...] | None:
    """The key of the kernel for a tensor times a dense array."""
    if dtype.kind not in "iufc" or not (left.format.ndim and ndim):
        return None
    shapes = (1,) * left.format.ndim, (1,) * ndim
    layout = matmul_layout(shapes, ("A", "B"))
    return "matmul", layout.operands, layout.result, (left, facts_for(dense(ndim), dtype))
