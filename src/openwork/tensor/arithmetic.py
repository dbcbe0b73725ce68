"""Matrix products of whole tensors, as eager statements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from openwork.algebra import operators as ops
from openwork.format.formats import dense
from openwork.index.nodes import Access, Apply
from openwork.runtime.storage import Array
from openwork.tensor.eager import KERNELS, Result, called, run, variables
from openwork.tensor.exchange.facts import Facts, facts_for
from openwork.tensor.operand import Operand
from openwork.tensor.rearrange.broadcast import matmul_layout
from openwork.tensor.result_format import result_format

T = TypeVar("T", bound=Operand)


def matmul(left: Operand, right: Operand) -> Operand:
    """Matrix and vector products, with NumPy's rules for vectors and for stacks of matrices."""
    layout = matmul_layout((left.storage.shape, right.storage.shape), (left.name, right.name))

    def build(accesses: Sequence[Access]) -> Result:
        rhs = Apply(ops.MUL, tuple(accesses))
        return Result(rhs, result_format(rhs, variables(layout.result)), rhs.dtype)

    operands = (left, right)
    return run("matmul", layout, operands, build, called("matmul", operands))


def matmul_again(kind: type[T], left: Operand, right: Operand | Array) -> T | None:
    """`left @ right` by the kernel of the product before, if that was much like this one.

    A solver has a new vector each time, and cannot wait for it to become a tensor.
    """
    if isinstance(right, np.ndarray) and right.ndim == 1:
        right = np.ascontiguousarray(right)  # a column of a block, which solvers take apart
    again = KERNELS.again(kind, "matmul", (left, right))
    if again is not None:
        return again
    if isinstance(right, Operand) and right.storage.alike is None:
        return None
    known = _with_array(left.facts, right.dtype, len(right.shape))
    if known is None:
        return None
    if known.kernel is None or known.losses != KERNELS.losses:
        known.kernel, known.losses = KERNELS.find(known.key), KERNELS.losses
    kernel = known.kernel
    made: Operand | None = None if kernel is None else kernel.repeated({"A": left, "B": right})
    return None if made is None else kind.made(made)


@dataclass
class _Known:
    """The kernel for a tensor times a dense array, which takes a while to find by its key."""

    key: tuple[Any, ...]
    kernel: Any = None
    losses: int = 0


@lru_cache(maxsize=256)
def _with_array(left: Facts, dtype: Any, ndim: int) -> _Known | None:
    """What is known of products of tensors with these facts and such arrays."""
    if dtype.kind not in "iufc" or not (left.format.ndim and ndim):
        return None
    shapes = (1,) * left.format.ndim, (1,) * ndim
    layout = matmul_layout(shapes, ("A", "B"))
    key = "matmul", layout.operands, layout.result, (left, facts_for(dense(ndim), dtype))
    return _Known(key)
