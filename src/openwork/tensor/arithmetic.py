"""Matrix products and sums of whole tensors, as eager statements."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from openwork.algebra import operators as ops
from openwork.algebra.entries import Entry
from openwork.algebra.types import as_dtype
from openwork.format.formats import dense
from openwork.index.nodes import Access, Apply
from openwork.tensor.broadcast import Layout, check_axes, matmul_layout
from openwork.tensor.eager import Result, run, variables
from openwork.tensor.operand import Operand
from openwork.tensor.result_format import result_format


def matmul(left: Operand, right: Operand) -> Operand:
    """Matrix and vector products, with NumPy's rules for vectors and for stacks of matrices."""
    layout = matmul_layout((left.storage.shape, right.storage.shape), (left.name, right.name))

    def build(accesses: Sequence[Access]) -> Result:
        rhs = Apply(ops.MUL, tuple(accesses))
        return Result(rhs, result_format(rhs, variables(layout.result)), rhs.dtype)

    return run("matmul", layout, (left, right), build)


def add_up(operand: Operand, axis: int | Sequence[int] | None) -> Operand:
    """The sum over one mode, several, or all of them; the result is dense."""
    order = len(operand.storage.shape)
    axes = check_axes(axis, order, operand.name)
    kept = tuple(mode for mode in range(order) if mode not in axes)

    def build(accesses: Sequence[Access]) -> Result:
        dtype = accesses[0].dtype
        if isinstance(dtype, Entry):
            dtype = dtype.decoded
        else:
            dtype = as_dtype(np.add.reduce(np.empty(0, dtype)).dtype)
        return Result(accesses[0], dense(len(kept)), dtype)

    return run("sum", Layout((tuple(range(order)),), kept, ((),)), (operand,), build)
