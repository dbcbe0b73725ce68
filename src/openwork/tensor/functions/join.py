"""Several tensors as one, and one rearranged: NumPy's functions by their names.

Sparse tensors stay sparse, and so does what is joined to them. The background of several is that of
the largest sparse one.
"""

from __future__ import annotations

from collections.abc import Sequence
from inspect import signature
from typing import Any

import numpy as np

from openwork.algebra import operators as ops
from openwork.errors import ParseError, ShapeError
from openwork.tensor.eager import KERNELS
from openwork.tensor.elementwise import operation
from openwork.tensor.exchange.numpy_functions import implements
from openwork.tensor.functions.einsum import einsum
from openwork.tensor.rearrange.broadcast import check_axes
from openwork.tensor.rearrange.shape import flipped, joined, rolled, tiled, triangle
from openwork.tensor.reductions import REDUCTIONS
from openwork.tensor.tensor import Tensor

_SELECT = operation(ops.SELECT)


def as_tensor(obj: Any) -> Tensor:
    """A tensor as it is, anything else wrapped."""
    return obj if isinstance(obj, Tensor) else Tensor.wrap(obj)


# Several tensors


@implements(np.concatenate)
def concatenate(tensors: Sequence[Any], axis: int | None = 0) -> Tensor:
    """Tensors one behind the other along a mode that they have.

    >>> from openwork.tensor.create import tensor
    >>> A = tensor([[1, 0]], format="CSR")
    >>> concatenate([A, A]).to_numpy().tolist()
    [[1, 0], [1, 0]]
    """
    given = [as_tensor(each) for each in tensors]
    if not given:
        raise ShapeError("there is nothing to join", code="E204")
    if axis is None:
        return concatenate([each.ravel() for each in given], 0)
    first = given[0]
    (mode,) = check_axes(axis, first.order, first.name)
    for each in given[1:]:
        same = [n for n, pair in enumerate(zip(each.shape, first.shape, strict=False))
                if n == mode or pair[0] == pair[1]]  # fmt: skip
        if each.order != first.order or len(same) < first.order:
            raise ShapeError(
                f"{each.name} of shape {each.shape} cannot follow {first.name} of shape "
                f"{first.shape} along mode {mode}",
                code="E204",
                hint="all other extents must agree",
            )
    return Tensor.of(joined([each.storage for each in given], mode))


@implements(np.stack)
def stack(tensors: Sequence[Any], axis: int = 0) -> Tensor:
    """Tensors of one shape along a new mode."""
    given = [as_tensor(each) for each in tensors]
    return concatenate([expand_dims(each, axis) for each in given], axis)


@implements(np.vstack)
def vstack(tensors: Sequence[Any]) -> Tensor:
    """Tensors below each other; vectors count as rows."""
    given = [as_tensor(each) for each in tensors]
    return concatenate([each if each.order > 1 else each.reshape(1, -1) for each in given], 0)


@implements(np.hstack)
def hstack(tensors: Sequence[Any]) -> Tensor:
    """Tensors side by side; vectors one behind the other."""
    given = [as_tensor(each) for each in tensors]
    return concatenate(given, 0 if all(each.order < 2 for each in given) else 1)


@implements(np.block)
def block(blocks: Any) -> Tensor:
    """Tensors in nested lists: the innermost lists are joined along the last mode.

    >>> from openwork.tensor.create import tensor
    >>> A = tensor([[1, 0], [0, 1]], format="CSR")
    >>> block([[A, 2 * A], [0 * A, A]]).shape
    (4, 4)
    """
    depth, inside = 0, blocks
    while isinstance(inside, list):
        depth, inside = depth + 1, inside[0] if inside else 0

    def join(part: Any, level: int) -> Tensor:
        if isinstance(part, list):
            return concatenate([join(each, level + 1) for each in part], level - depth)
        given = as_tensor(part)
        return given.reshape((1,) * (depth - given.order) + given.shape)

    return join(blocks, 0)


# Products


@implements(np.kron)
def kron(a: Any, b: Any) -> Tensor:
    """Every element of `a` times the whole of `b`, as a matrix of blocks.

    >>> from openwork.tensor.create import tensor
    >>> kron(tensor([[1, 0], [0, 2]], format="CSR"), [[1, 1]]).to_numpy().tolist()
    [[1, 1, 0, 0], [0, 0, 2, 2]]
    """
    left, right = as_tensor(a), as_tensor(b)
    order = max(left.order, right.order)
    left, right = (each.reshape((1,) * (order - each.order) + each.shape) for each in (left, right))
    mine, theirs = _letters(order), _letters(order, order)
    both = "".join(x + y for x, y in zip(mine, theirs, strict=True))
    shape = tuple(m * n for m, n in zip(left.shape, right.shape, strict=True))
    return einsum(f"{mine},{theirs}->{both}", left, right).reshape(shape)


@implements(np.outer)
def outer(a: Any, b: Any) -> Tensor:
    """The product of every element of one vector with every element of another."""
    return einsum("i,j->ij", as_tensor(a).ravel(), as_tensor(b).ravel())


@implements(np.tensordot)
def tensordot(a: Any, b: Any, axes: Any = 2) -> Tensor:
    """The sum of products over modes of both: the last ones of `a` and the first ones of `b`.

    Args:
        a: a tensor or an array.
        b: a tensor or an array.
        axes: how many modes, or a pair: the modes of `a`, and those of `b`.
    """
    left, right = as_tensor(a), as_tensor(b)
    if isinstance(axes, int):
        pair: Any = (range(left.order - axes, left.order), range(axes))
    else:
        pair = [each if isinstance(each, Sequence) else (each,) for each in axes]
    mine = check_axes(tuple(pair[0]), left.order, left.name)
    theirs = check_axes(tuple(pair[1]), right.order, right.name)
    if len(mine) != len(theirs):
        raise ShapeError(f"{len(mine)} modes of one, {len(theirs)} of the other", code="E204")
    first, second = list(_letters(left.order)), list(_letters(right.order, left.order))
    for x, y in zip(mine, theirs, strict=True):
        second[y] = first[x]
    kept = [c for n, c in enumerate(first) if n not in mine]
    kept += [c for n, c in enumerate(second) if n not in theirs]
    return einsum(f"{''.join(first)},{''.join(second)}->{''.join(kept)}", left, right)


def _letters(count: int, start: int = 0) -> str:
    return "".join(chr(ord("a") + n) for n in range(start, start + count))


# One tensor


@implements(np.where)
def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    """`x` where the condition holds, `y` elsewhere; with a condition alone, where it holds.

    What becomes the fill of a sparse result is not stored.

    >>> from openwork.tensor.create import tensor
    >>> A = tensor([[3, 0], [1, 2]], format="CSR")
    >>> where(A > 1, A, 0).nnz
    2
    """
    if isinstance(condition, Tensor):
        again = KERNELS.again(type(condition), _SELECT, (condition, x, y))
        if again is not None:
            return again
    chosen = as_tensor(condition)
    if x is None and y is None:
        return chosen.nonzero()
    made = chosen.__openwork_apply__(ops.SELECT, (chosen, x, y))
    if made is NotImplemented:
        raise TypeError(f"where chooses between tensors and numbers, not {x!r} and {y!r}")
    return made.prune()


@implements(np.tril)
def tril(m: Any, k: int = 0) -> Tensor:
    """What lies on and below the `k`-th diagonal of the last two modes; zeros elsewhere."""
    return _triangle(as_tensor(m), k, lower=True)


@implements(np.triu)
def triu(m: Any, k: int = 0) -> Tensor:
    """What lies on and above the `k`-th diagonal of the last two modes; zeros elsewhere."""
    return _triangle(as_tensor(m), k, lower=False)


def _triangle(given: Tensor, k: int, lower: bool) -> Tensor:
    if given.fill == 0 or given.order < 2:
        return Tensor.of(triangle(given.storage, k, lower, given.name))
    rows, columns = given.shape[-2:]
    below = np.tri(rows, columns, k if lower else k - 1, dtype=bool)
    zero = False if given.dtype.kind == "b" else 0  # these zeros are not its background
    made: Tensor = where(below if lower else ~below, given, zero)
    return made


@implements(np.roll)
def roll(a: Any, shift: Any, axis: Any = None) -> Tensor:
    """The elements moved along modes; those that leave at one end come in at the other."""
    given = as_tensor(a)
    return Tensor.of(rolled(given.storage, shift, axis, given.name))


@implements(np.flip)
def flip(m: Any, axis: Any = None) -> Tensor:
    """The elements in reverse order along modes."""
    given = as_tensor(m)
    return Tensor.of(flipped(given.storage, axis, given.name))


@implements(np.tile)
def tile(A: Any, reps: Any) -> Tensor:
    """The tensor side by side with itself, so many times along each mode."""
    given = as_tensor(A)
    return Tensor.of(tiled(given.storage, reps, given.name))


@implements(np.take)
def take(a: Any, indices: Any, axis: int | None = None) -> Tensor:
    """The elements at these places along a mode, or in row-major order."""
    given = as_tensor(a)
    if axis is None:
        given, axis = given.ravel(), 0
    (mode,) = check_axes(axis, given.order, given.name)
    made: Tensor = given[(slice(None),) * mode + (np.asarray(indices),)]
    return made


@implements(np.expand_dims)
def expand_dims(a: Any, axis: int | Sequence[int]) -> Tensor:
    """The tensor with further modes of extent 1, at these places of the result."""
    given = as_tensor(a)
    count = len(axis) if isinstance(axis, Sequence) else 1
    new = check_axes(axis, given.order + count, given.name)
    extents = iter(given.shape)
    return given.reshape(
        tuple(1 if n in new else next(extents) for n in range(given.order + count))
    )


@implements(np.moveaxis)
def moveaxis(a: Any, source: Any, destination: Any) -> Tensor:
    """The tensor with modes moved to other places; nothing is copied."""
    given = as_tensor(a)
    old = check_axes(source, given.order, given.name)
    new = check_axes(destination, given.order, given.name)
    if len(old) != len(new):
        raise ShapeError(f"{len(old)} modes cannot move to {len(new)} places", code="E204")
    order = [mode for mode in range(given.order) if mode not in old]
    for place, mode in sorted(zip(new, old, strict=True)):
        order.insert(place, mode)
    return given.transpose(order)


# Of these, NumPy's own code would ask for an array.


def _method(name: str) -> Any:
    def call(self: Any, *args: Any, **more: Any) -> Any:
        return getattr(as_tensor(self), name)(*args, **more)

    call.__name__ = name
    call.__doc__ = getattr(Tensor, name).__doc__
    call.__signature__ = signature(getattr(Tensor, name))  # type: ignore[attr-defined]
    return call


def _reducing(name: str) -> Any:
    """A reduction with NumPy's further arguments."""
    plain, op = _method(name), REDUCTIONS[name]

    def call(
        a: Any, axis: Any = None, dtype: Any = None, out: None = None, keepdims: bool = False,
        initial: Any = None, where: Any = True,
    ) -> Tensor:  # fmt: skip
        if where is not True or out is not None:
            raise ParseError(
                f"{name} of a tensor has no where= and no out=",
                code="E112",
                hint=f"np.where(mask, A, {op.identity}).{name}(...)",
            )
        more = {} if dtype is None else {"dtype": dtype}
        made: Tensor = plain(a, axis, keepdims=keepdims, **more)
        return made if initial is None else made.__openwork_apply__(op, (made, initial))

    call.__doc__ = plain.__doc__
    return call


def _clip(
    a: Any, a_min: Any = None, a_max: Any = None, out: None = None, *, min: Any = None,
    max: Any = None,
) -> Tensor:  # fmt: skip
    """The elements within bounds, by either of NumPy's names for them."""
    return as_tensor(a).clip(a_min if min is None else min, a_max if max is None else max)


_METHODS = (
    *("transpose", "ravel", "squeeze", "swapaxes", "diagonal", "nonzero"),
    *("mean", "var", "std", "argmin", "argmax", "astype", "copy"),
)
for _name in _METHODS:
    implements(getattr(np, _name))(_method(_name))
for _name in REDUCTIONS:
    implements(getattr(np, _name))(_reducing(_name))
implements(np.clip)(_clip)
implements(np.real)(lambda a: as_tensor(a).real)
implements(np.imag)(lambda a: as_tensor(a).imag)
implements(np.dot)(lambda a, b: as_tensor(a).dot(as_tensor(b)))
implements(np.argwhere)(lambda a: np.stack(as_tensor(a).nonzero(), axis=-1))
implements(np.flatnonzero)(lambda a: as_tensor(a).ravel().nonzero()[0])
implements(np.shape)(lambda a: as_tensor(a).shape)
implements(np.size)(lambda a, axis=None: a.size if axis is None else a.shape[axis])
implements(np.ndim)(lambda a: as_tensor(a).order)
implements(np.array_repr, np.array_str, np.array2string)(lambda a, *args, **more: repr(a))


@implements(np.trace)
def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: None = None
) -> Tensor:
    """The sum of a diagonal.

    >>> trace([[1, 2], [3, 4]]).item()
    5
    """
    return as_tensor(a).trace(offset, axis1, axis2, dtype)


@implements(np.reshape)
def reshape_of(a: Any, shape: Any, order: str = "C") -> Tensor:
    """The elements in another shape: by rows, or with `order="F"` by columns."""
    return as_tensor(a).reshape(shape, order=order)


@implements(np.einsum)
def einsum_of(
    text: str, *tensors: Any, dtype: Any = None, optimize: Any = True, out: None = None
) -> Tensor:
    """Sums of products; `optimize=False` keeps one kernel."""
    made: Tensor = einsum(text, *tensors, optimize=optimize is not False)
    return made if dtype is None else made.astype(dtype)


@implements(np.select)
def select_of(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    """The choice of the first condition that holds, element by element; else the default."""
    made = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        made = where(condition, choice, made)
    return as_tensor(made)
