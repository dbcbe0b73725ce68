"""What the host computes before a call: naturals, the checks of assumptions, and prefix sums.

Naturals are evaluated by NumPy, for all positions of an array at once: variables stand for arrays
of numbers, `toNat` gathers from the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, cast

import numpy as np

from openwork.errors import DataError, InternalError
from openwork.skeletons.language import nodes as n
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
        """The value of a natural, where its variables have these values."""
        total: Any = np.int64(0)
        for monomial, times in value.terms:
            part: Any = np.int64(times)
            for a in monomial:
                part = part * self._atom(a, at)
            total = total + part
        return total

    def _atom(self, a: n.Atom, at: Places) -> Any:
        match a:
            case n.Named(name=name):
                return at[name] if name in at else self.sizes[name]
            case n.ToNat(expr=expr):
                return self._expr(expr, at)
            case n.Choice(condition=c, then=then, otherwise=otherwise):
                left, right = self.nat(c.left, at), self.nat(c.right, at)
                test = {"<": left < right, "<=": left <= right, "==": left == right}[c.sign]
                return np.where(test, self.nat(then, at), self.nat(otherwise, at))
            case n.Quotient(sign=sign, left=left, right=right):
                one, other = self.nat(left, at), self.nat(right, at)
                if np.any(np.asarray(other) == 0):
                    raise DataError(f"{a} divides by 0", code="E516")
                return one // other if sign == "/" else one % other
            case n.Sum(var=var, low=low, high=high, body=body):
                return self._sum(var, self.nat(low, at), self.nat(high, at), body, at)
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
        return data[index].astype(_INT)

    # -- checks ---------------------------------------------------------------------------------

    def count(self, type: Type, path: tuple[int, ...], name: str) -> int:
        """How many records a value has in one of its buffers; every length is checked."""
        at: dict[str, Any] = {}
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
                    hint="offsets must not fall",
                )
            type = array.element
            if not array.var and not lengths.ndim:
                each *= int(lengths)
                continue
            lengths = np.broadcast_to(lengths, (places,))
            total = int(lengths.sum())
            if not is_record(type):
                at = {key: np.repeat(value, lengths) for key, value in at.items()}
                if array.var:
                    before = np.cumsum(lengths) - lengths
                    at[array.var] = np.arange(total) - np.repeat(before, lengths)
            places = total
        return places * each

    def begins_at_zero(self, name: str) -> None:
        """The first element of offsets is 0."""
        data = self.data[name]
        if data.size and data[0] != 0:
            raise DataError(
                f"{name}@0 is {data[0]}, and offsets begin at 0", code="E516",
                hint=f"subtract it: {name} - {name}[0], and leave out what comes before",
            )  # fmt: skip

    def pieces_have_elements(self, signature: n.Signature) -> None:
        """Sizes of pieces that are the same all over the program; the checker knows of others."""
        for node in n.walk_all(signature.body):
            if isinstance(node, n.Split) and n.names_of(node.size) <= {*signature.nats}:
                size = int(self.nat(node.size))
                if size < 1:
                    raise DataError(
                        f"split makes pieces of {size} elements: {node.size} must be positive",
                        code="E516",
                    )

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
