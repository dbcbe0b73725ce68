"""Sums of products of records along a loop, whose terms are vectors.

    for (p = begin; p < end; p++) { j = crd[p];  sum += A[p] * x[j]; }        quaternions
    =>
    w[4] = 0;  ...  z[4] = 0;
    for (p = begin; p < end; p++) {
      j = crd[p];
      w[...] += the w of A[p] * the four numbers of x[j];  ...
    }
    the w of sum += w[0] - x[1] - y[2] - z[3];  ...

Each number of a product is a sum of products of two numbers, whose signs are always the same. So
these can be summed first, all those with one number of a factor in a vector, and compilers need not
find how to permute lanes, which they do not. The order of the additions differs from that of the
elements' own sum, as in several chains (program/chains.py).

So it is with several sums side by side, as in a product with a dense matrix: their terms fill
vectors even if those of one sum do not.

    for (p = ...) { j = crd[p];  for (at = 0; at < 8; at++) sums[at] += A[p] * X[j * 8 + at]; }
    =>
    for (p = ...) { j = crd[p];  re[...] += the re of A[p] * the 16 numbers at X[j * 8];  im ... }
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import lru_cache
from typing import Any, cast

import numpy as np

from openwork.algebra.entries import NAMED, Entry
from openwork.algebra.meaning import Meaning, meaning
from openwork.algebra.operators import ADD, MUL, SUB, Op
from openwork.algebra.types import is_record, size_of
from openwork.format.layouts import Together
from openwork.frozen import frozen
from openwork.loops.fresh import take_name
from openwork.program import nodes as p
from openwork.program.elements import converted
from openwork.program.nodes import Array, Load, Name, Stmt, Store, Value
from openwork.tree import replace, walk

# Numbers of the factor that fills a vector, with fewer nothing was gained; the bytes of a vector,
# and of all vectors together: half of the registers of most processors. Sums side by side have
# nothing else to be in registers, and may fill half of those of AVX-512; with AVX2 they gain, too.
_FEWEST, _BYTES, _MOST, _MOST_BESIDE = 4, (16, 32, 64), 256, 1024


@frozen
class SumOfProducts:
    """A sum along a loop, `sum += left * right`, one of whose factors is loaded as a vector.

    `factor`: the type that the other one is computed in. `signs[c, k, l]`: what the product of its
    number k and lane l of the vector counts in number c of the sum. `side`: how many sums there are
    side by side, in the loop `update`; None if it is one.
    """

    update: p.Set | p.For
    vector: Load
    other: p.Expr
    factor: Entry
    signs: np.ndarray[Any, Any]
    side: int | None = None

    def terms(self, taken: set[str]) -> Terms:
        """The arrays of the terms, one for each number of the other factor."""
        kind, stem = NAMED[self.vector.type], f"{self.total.name}_by"
        names = [take_name(f"{stem}_{each}", taken) for each in self.factor.fields]
        bytes = 0 if self.side else kind.size * size_of(kind.scalar)
        arrays = tuple(Array(name, kind.scalar, vectors=bytes) for name in names)
        return Terms(self, arrays, Name(take_name(f"{stem}_at", taken), p.INDEX))

    @property
    def total(self) -> Name | Array:
        """The sum, or the sums side by side."""
        if isinstance(self.update, p.Set):
            return self.update.name
        (store,) = _statements(self.update.body)
        return cast(Store, store).array


@frozen
class Terms:
    """The terms of a sum: vectors, a sum of products in each lane."""

    sums: SumOfProducts
    arrays: tuple[Array, ...]
    lane: Name

    def zeros(self) -> list[Stmt]:
        """The vectors before the loop."""
        local = [p.Local(array, self._lanes) for array in self.arrays]
        return [*local, self._each([Store(a, self.lane, Value(0.0, a.type)) for a in self.arrays])]

    def grown(self, numbers: Sequence[p.Expr], array: Array, place: p.Expr) -> Stmt:
        """The vectors plus each of these numbers times the record at `place`."""
        row = Load(array, place * self._size + self.lane)
        return self._each(
            [
                Store(a, self.lane, p.Apply(MUL, (converted(number, a.type), row), a.type), ADD)
                for a, number in zip(self.arrays, numbers, strict=True)
            ]
        )

    def added_to(self, sums: Sequence[Name]) -> list[Stmt]:
        """After the loop: the numbers of the sum."""
        return [p.Set(name, self._with_terms(name, number)) for number, name in enumerate(sums)]

    def added_beside(self, arrays: Sequence[Array]) -> list[Stmt]:
        """After the loop: the numbers of sums side by side."""
        return [
            Store(array, Value(at), self._with_terms(Load(array, Value(at)), number, at))
            for at in range(self.sums.side or 0)
            for number, array in enumerate(arrays)
        ]

    def _with_terms(self, total: p.Expr, number: int, at: int = 0) -> p.Expr:
        """A number of a sum, plus its terms."""
        signs, first, type = self.sums.signs[number], at * self._size, total.type
        for k, lane in np.argwhere(signs):
            term: p.Expr = Load(self.arrays[k], Value(first + int(lane)))
            sign = float(signs[k, lane])
            if abs(sign) != 1:
                term = p.Apply(MUL, (Value(abs(sign), type), term), type)
            total = p.Apply(ADD if sign > 0 else SUB, (total, term), type)
        return total

    @property
    def _size(self) -> int:
        return NAMED[self.sums.vector.type].size

    @property
    def _lanes(self) -> int:
        return self._size * (self.sums.side or 1)

    def _each(self, body: list[Stmt]) -> Stmt:
        return p.For(self.lane, Value(0), Value(self._lanes), p.block(*body), unrolled=True)


def sum_of_products(loop: p.For, split: Collection[str]) -> SumOfProducts | None:
    """The sum that a loop computes, if it can be in vectors; None otherwise.

    `split`: arrays whose records are not in memory.
    """
    constant = isinstance(loop.begin, Value) and isinstance(loop.end, Value)
    if loop.by or loop.simd or loop.unrolled or loop.reductions or loop.once or constant:
        return None
    body = _statements(loop.body)
    updates = [s for s in body if isinstance(s, p.Set) and is_record(s.name.type)]
    beside = [s for s in body if isinstance(s, p.For) and s.unrolled]
    if len(updates) == 1 and sum(node == updates[0].name for node in walk(loop)) == 1:
        update = updates[0]
        return _of_products(update, (update.name.type, update.op, update.value), split)
    if updates or len(beside) != 1:
        return None
    return _side_by_side(loop, beside[0], split)


def _statements(body: Stmt) -> tuple[Stmt, ...]:
    return body.body if isinstance(body, p.Block) else (body,)


def _side_by_side(loop: p.For, inner: p.For, split: Collection[str]) -> SumOfProducts | None:
    """Sums of products in registers, one for each iteration of an unrolled loop."""
    if inner.begin != Value(0) or not isinstance(inner.end, Value):
        return None
    match _statements(inner.body):
        case [Store(array=array, index=inner.var) as store] if is_record(array.type):
            uses = sum(isinstance(node, Array) and node.name == array.name for node in walk(loop))
        case _:
            return None
    if uses != 1 or array.name not in split or store.atomic:
        return None
    made = _of_products(
        inner, (array.type, store.op, store.value), split, int(inner.end.value.real)
    )
    if made is None or any(node == inner.var for node in walk(made.other)):
        return None
    return made


def _of_products(
    update: p.Set | p.For,
    summed: tuple[str, Op | None, p.Expr],
    split: Collection[str],
    side: int | None = None,
) -> SumOfProducts | None:
    total, operator, value = NAMED[summed[0]], *summed[1:]
    if operator is None or not operator.adds or total.sum is not None:
        return None
    match value:
        case p.Apply(op=op, args=(left, right)) if (
            op.multiplies and is_record(left.type) and is_record(right.type)
        ):
            rule = meaning(op.name, (NAMED[left.type], NAMED[right.type]))
        case _:
            return None
    first, second = rule.arguments
    signs = _signs(rule)
    if signs is None or not isinstance(first, Entry) or not isinstance(second, Entry):
        return None
    if rule.result != total:
        return None
    for vector, kind, other, factor, turned in (
        (right, second, left, first, signs),
        (left, first, right, second, signs.swapaxes(1, 2)),
    ):
        if not isinstance(vector, Load) or vector.array.name in split or vector.type != kind.name:
            continue
        if kind.scalar != total.scalar or not _fill_vectors(vector, factor, side):
            continue
        if isinstance(update, p.For):
            beginning = _at_zero(vector.index, update.var)
            if beginning is None:
                continue
            vector = replace(vector, index=beginning)
        return SumOfProducts(update, vector, other, factor, turned, side)
    return None


def _at_zero(index: p.Expr, var: Name) -> p.Expr | None:
    """What `var` is added to in an index; None if there is something else to it."""
    match index:
        case p.Binary(sign="+", left=first, right=name) if name == var:
            return None if any(node == var for node in walk(first)) else first
    return None


def _fill_vectors(load: Load, factor: Entry, side: int | None) -> bool:
    """Whether the numbers of records lie side by side, and there are registers for all terms."""
    entry, where = NAMED[load.array.type], load.array.placement
    together = where is None or where == Together(entry.size, entry.size)
    bytes = entry.size * size_of(entry.scalar) * (side or 1)
    if side is None:
        return (
            together and entry.size >= _FEWEST and bytes in _BYTES and bytes * factor.size <= _MOST
        )
    return together and bytes % _BYTES[1] == 0 and bytes * factor.size <= _MOST_BESIDE


@lru_cache(maxsize=256)
def _signs(rule: Meaning) -> np.ndarray[Any, Any] | None:
    """What each product of two numbers counts in each number of a product of records.

    None where some do not count at all, so that lanes would be idle, or where the product is no
    sum of such products.
    """
    sizes = tuple(kind.size for kind in rule.arguments if isinstance(kind, Entry))
    places = zip(np.indices(sizes), sizes, strict=True)
    ones = [[1.0 * (at == n) for n in range(size)] for at, size in places]
    signs = np.array([np.broadcast_to(each, sizes) for each in rule.formula(*ones)])
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal(size) for size in sizes)
    made = np.array(rule.formula(list(a), list(b)))
    exact = np.allclose(made, np.einsum("ckl,k,l", signs, a, b))
    return signs if exact and (signs != 0).any(axis=0).all() else None
