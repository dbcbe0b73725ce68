"""A product of dense matrices by the BLAS of NumPy or CuPy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

from openwork.algebra import operators as ops
from openwork.algebra.entries import Entry
from openwork.format.formats import dense
from openwork.format.layouts import AOS
from openwork.frozen import frozen
from openwork.index.einstein import insert_sums
from openwork.index.nodes import Access, Apply, Assignment, Expr, IndexVar, Reduce
from openwork.runtime.storage import Storage
from openwork.tensor.contraction.costs import Matrices, as_matrices, pays

_NOTHING: tuple[Mapping[str, Any], ...] = ({},)  # the index arrays of a dense level


def matrix_product(assignment: Assignment, names: Sequence[str]) -> Product | None:
    """What computes a statement by BLAS, if it is a product of dense matrices and nothing else.

    `names`: those of the operands, in the order they are given in.
    """
    inner: Expr = insert_sums(assignment).rhs
    while isinstance(inner, Reduce) and inner.op == ops.ADD:
        inner = inner.expr
    if assignment.op is not None or not isinstance(inner, Apply) or inner.op != ops.MUL:
        return None
    left, right = inner.args
    if not (isinstance(left, Access) and isinstance(right, Access)):
        return None
    accesses = (left, right, assignment.lhs)
    if len({a.dtype for a in accesses}) > 1 or not all(_is_array(a) for a in accesses):
        return None
    roles = as_matrices(left.level_vars, right.level_vars, assignment.lhs.vars)
    if roles is None or not (roles.left and roles.right and roles.summed):
        return None
    places = (names.index(left.tensor.name), names.index(right.tensor.name))
    return Product(left, right, assignment.lhs, roles, places)


def _is_array(access: Access) -> bool:
    """Whether the tensor is an array of floats, with a variable for each mode."""
    dtype, format = access.dtype, access.tensor.format
    if isinstance(dtype, Entry) or dtype.char not in "fFdD" or format.layout != AOS:
        return False
    plain = format.levels == dense(format.ndim).levels
    return plain and len(set(access.vars)) == len(access.vars)


@frozen
class Product:
    """`lhs` as the product of `left` and `right`, which are given at `places`."""

    left: Access
    right: Access
    lhs: Access
    roles: Matrices
    places: tuple[int, int]

    def __call__(self, given: Sequence[Storage]) -> Storage | None:
        """The result, if BLAS is faster for these operands."""
        one, two = (given[place] for place in self.places)
        sizes = dict(zip(self.left.vars, one.shape, strict=True))
        for var, size in zip(self.right.vars, two.shape, strict=True):
            if sizes.setdefault(var, size) != size:
                return None  # the kernel says what is wrong
        if not pays(self.roles, sizes):
            return None
        roles, batch = self.roles, (self.roles.batch,) if self.roles.batch else ()
        made = _ordered(self.left, one, sizes, *batch, roles.left, roles.summed) @ _ordered(
            self.right, two, sizes, *batch, roles.summed, roles.right
        )
        variables = (*roles.batch, *roles.left, *roles.right)
        made = made.reshape([sizes[var] for var in variables])
        values = made.transpose([variables.index(v) for v in self.lhs.level_vars]).reshape(-1)
        shape = tuple(sizes[var] for var in self.lhs.vars)
        result = self.lhs.tensor
        return type(one)(shape, result.format, result.dtype, _NOTHING * len(shape), values, 0)


def _ordered(
    access: Access, storage: Storage, sizes: Mapping[IndexVar, int], *groups: tuple[IndexVar, ...]
) -> Any:
    """The values of an operand, with the modes of each group as one."""
    array = storage.values.reshape([sizes[var] for var in access.level_vars])
    array = array.transpose([access.level_vars.index(v) for group in groups for v in group])
    return array.reshape([prod(sizes[v] for v in group) for group in groups])
