"""What the host computes before a call: naturals, the checks of assumptions, and prefix sums.

Naturals are evaluated by NumPy, for all positions of an array at once: variables stand for arrays
of numbers, `toNat` gathers from the data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from openwork.errors import DataError, InternalError
from openwork.frozen import frozen
from openwork.runtime.memory import check_memory
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.check import MOST
from openwork.skeletons.language.nodes import ArrayType, Expr, Nat, Type
from openwork.skeletons.lower.lowered import TERM, InRange, Prefix
from openwork.skeletons.lower.memory import Buffer, is_record

Array = np.ndarray[Any, Any]
Places = Mapping[str, Any]  # numbers, or arrays of them
_NOWHERE: Places = MappingProxyType({})
_INT = np.dtype("int64")


class Host:
    """The data of a call: `sizes` are its naturals, `data` its parameters' buffers."""

    def __init__(self, sizes: Mapping[str, int], data: Mapping[str, Array]) -> None:
        self.sizes, self.data = dict(sizes), data

    def nat(self, value: Nat, at: Places = _NOWHERE) -> Any:
        """The value of a natural, where its variables have these values.

        Python's numbers are exact, and products of arrays are refused where they might not be.
        """
        total: Any = 0
        for monomial, times in value.terms:
            part: Any = times
            for a in monomial:
                part = _product(part, self._atom(a, at), value)
            total = total + part
        return total

    def _atom(self, a: n.Atom, at: Places) -> Any:
        match a:
            case n.Named(name=name):
                return at[name] if name in at else self.sizes[name]
            case n.ToNat(expr=expr):
                return _exact(self._expr(expr, at))
            case n.Choice(condition=c, then=then, otherwise=otherwise):
                left, right = self.nat(c.left, at), self.nat(c.right, at)
                test = {"<": left < right, "<=": left <= right, "==": left == right}[c.sign]
                return _exact(np.where(test, self.nat(then, at), self.nat(otherwise, at)))
            case n.Quotient(sign=sign, left=left, right=right):
                one, other = self.nat(left, at), self.nat(right, at)
                if np.any(np.asarray(other) == 0):
                    raise DataError(f"{a} divides by 0", code="E516")
                return _exact(one // other if sign == "/" else one % other)
            case n.Sum(var=var, low=low, high=high, body=body):
                return _exact(self._sum(var, self.nat(low, at), self.nat(high, at), body, at))
        raise InternalError(f"the host cannot evaluate {a}")

    def _sum(self, var: str, low: Any, high: Any, body: Nat, at: Places) -> Any:
        """A sum, by the running sums of all terms, if these depend on nothing else."""
        known = {name: v for name, v in at.items() if name in n.names_of(body) and name != var}
        if not known:
            running = self.running(body, var, int(np.max(high, initial=0)))
            return running[high] - running[low]
        spread = np.broadcast_arrays(low, high, *known.values())
        found = [
            int(np.sum(self.nat(body, {**dict(zip(known, own, strict=True)), var: np.arange(a, b)})
                       + np.zeros(max(b - a, 0), _INT)))
            for a, b, *own in zip(*(each.ravel() for each in spread), strict=True)
        ]  # fmt: skip
        return np.array(found, _INT).reshape(spread[0].shape)

    def running(self, body: Nat, var: str, count: int) -> Array:
        """The sums of `body` for `var` below 0, 1, ..., `count`."""
        terms = self.nat(body, {var: np.arange(count)}) + np.zeros(count, _INT)
        _admitted(_sum(terms), body)
        return np.concatenate([np.zeros(1, _INT), np.cumsum(terms, dtype=_INT)])

    def _expr(self, e: Expr, at: Places) -> Any:
        match e:
            case n.At(array=array, index=n.OfNat(nat=index)):
                return self._element(array, self.nat(index, at))
            case n.At(array=array, index=index):
                return self._element(array, self._expr(index, at))
            case n.OfNat(nat=value):
                return self.nat(value, at)
            case n.Literal(value=value):
                return np.int64(cast(int, value))
            case n.Var(name=name):
                return self.data[name].reshape(-1)[0].astype(_INT)
            case n.Apply(op=op, args=args):
                return op.ufunc(*(self._expr(a, at) for a in args))
        raise DataError(
            f"toNat({e}) is too much for the host", code="E516",
            hint="keep the lengths in an array",
        )  # fmt: skip

    def _element(self, array: Expr, index: Any) -> Any:
        if not isinstance(array, n.Var) or array.name not in self.data:
            raise DataError(f"toNat reads {array}, which is no array of the call", code="E516")
        data = self.data[array.name]
        where = np.asarray(index)
        if where.size and (where.min() < 0 or where.max() >= data.size):
            raise DataError(
                f"a length reads {array.name}@{int(where.max())}, and {array.name} has "
                f"{data.size} elements", code="E516",
            )  # fmt: skip
        return _admitted(data[index], array).astype(_INT)

    # -- checks ---------------------------------------------------------------------------------

    def count(
        self, type: Type, path: tuple[int, ...], name: str, rows: Sequence[list[int]] = ()
    ) -> int:
        """How many records a value has in one of its buffers; every length is checked.

        `rows`: the lengths of the rows of lists, for each level, which must be those of the type.
        """
        at: dict[str, Any] = {}
        levels = iter([[], *rows])
        places, each = 1, 1  # rows that may differ, and the elements that each has all over
        while not is_record(type):
            if isinstance(type, n.PairType):
                type, path = (type.first if path[0] == 1 else type.second), path[1:]
                continue
            array = cast(ArrayType, type)
            lengths = np.asarray(self.nat(array.length, at))
            if places and lengths.min(initial=0) < 0:
                where = int(np.argmin(lengths))
                raise DataError(
                    f"row {where} of {name} has {lengths.flat[where]} elements: "
                    f"{array.length} must not be negative",
                    code="E516",
                    hint="offsets must not fall, and lengths are 0 or more",
                )
            _as_given(name, array, lengths, next(levels, []))
            type = array.element
            if not array.var and not lengths.ndim:
                each *= int(lengths)
                continue
            lengths = np.broadcast_to(lengths, (places,))
            total = _admitted(_sum(lengths), array.length)
            if not is_record(type):
                _room_for(total * (len(at) + 1), name)
                at = {key: np.repeat(value, lengths) for key, value in at.items()}
                if array.var:
                    before = np.cumsum(lengths) - lengths
                    at[array.var] = np.arange(total) - np.repeat(before, lengths)
            places = total
        return int(_admitted(places * each, f"the number of elements of {name}"))

    def begins_at_zero(self, name: str) -> None:
        """The first element of offsets is 0."""
        data = self.data[name]
        if data.size and data[0] != 0:
            raise DataError(
                f"{name}@0 is {data[0]}, and offsets begin at 0", code="E516",
                hint=f"subtract it: {name} - {name}[0], and leave out what comes before",
            )  # fmt: skip

    def possible(self, facts: Sequence[Fact]) -> None:
        """Naturals of the program are not too large, sizes of pieces and divisors are positive."""
        for fact in facts:
            count = int(_admitted(int(self.nat(fact.value)), fact.value))
            if fact.what and count < 1:
                raise DataError(f"{fact.what} {count}: {fact.value} must be positive", code="E516")

    def in_range(self, fact: InRange, buffer: Buffer, data: Array) -> None:
        """Indices in the data lie in the array that they index."""
        for part in fact.field:
            data = data["first" if part == 1 else "second"]
        bound = int(self.nat(fact.bound))
        if data.size and (data.min() < 0 or data.max() >= bound):
            wrong = int(data.min() if data.min() < 0 else data.max())
            raise DataError(
                f"{fact.owner} holds the index {wrong} of an array of {bound} elements",
                code="E516",
            )

    def prefix(self, prefix: Prefix) -> Array:
        """The running sums that a kernel reads."""
        return self.running(prefix.body, TERM, int(self.nat(prefix.count)))


def _as_given(name: str, array: ArrayType, lengths: Array, given: list[int]) -> None:
    """Rows of lists have the lengths that the type says."""
    if not given:
        return
    differ = np.flatnonzero(np.asarray(given) != lengths)
    if differ.size:
        k = int(differ[0])
        wanted = int(np.broadcast_to(lengths, (len(given),))[k])
        raise DataError(
            f"row {k} of {name} has {given[k]} elements, where {array.length} is {wanted}",
            code="E516",
        )


@frozen
class Fact:
    """A natural that is the same all over a program; `what` must be positive, if it says so."""

    value: Nat
    what: str = ""


@lru_cache(maxsize=64)
def facts_in(signature: n.Signature) -> tuple[Fact, ...]:
    """What each call checks of the naturals in a program; the checker knows of others."""
    known, found = {*signature.nats, *signature.params}, dict[Fact, None]()
    for node in n.walk_all(signature):
        match node:
            case n.Split(size=size) if size.constant is None:
                found[Fact(size, f"{node} makes pieces of")] = None
            case n.Quotient(right=right) if right.constant is None:
                found[Fact(right, f"{node} divides by")] = None
            case n.Generate(length=value) | n.OfNat(nat=value):
                found[Fact(value)] = None
    checked = (f for f in found if f.value.constant is None and n.mentioned(f.value) <= known)
    return tuple(checked)


def _room_for(count: int, name: str) -> None:
    try:
        check_memory(count * _INT.itemsize, f"{name} has {count} rows: to check their lengths")
    except MemoryError as error:
        raise DataError(str(error), code="E516") from None


def _exact(value: Any) -> Any:
    """A number as Python's, which never overflows; arrays as they are."""
    return int(value) if np.ndim(value) == 0 else value


def _largest(value: Any) -> int:
    """The largest magnitude in an array, or of a number."""
    if isinstance(value, int):
        return abs(value)
    return max(-int(value.min(initial=0)), int(value.max(initial=0)))


def _sum(values: Array) -> int:
    """The exact sum of an array, or a larger one than any that is admitted."""
    return int(values.sum()) if _largest(values) * values.size < MOST else int(
        values.astype("float64").sum()
    )  # fmt: skip


def _product(one: Any, other: Any, what: object) -> Any:
    plain = isinstance(one, int) and abs(one) == 1
    if not plain and _largest(one) * _largest(other) > MOST:
        raise _too_large(what)
    return one * other


def _admitted(value: Any, what: object) -> Any:
    """A value that may be a length, or a part of one."""
    short = not isinstance(value, int) and value.dtype.itemsize < _INT.itemsize
    if not short and _largest(value) > MOST:
        raise _too_large(what)
    return value


def _too_large(what: object) -> DataError:
    return DataError(
        f"{what} is larger than any array here", code="E516",
        hint="the lengths in the data, or the naturals of the call, are not what was meant",
    )  # fmt: skip
