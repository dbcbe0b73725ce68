"""The interpreter's memory: arrays that detect misuse, and the helpers that work on them.

The helpers are those of generated code, in their simplest form; they check what the C functions
take for granted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from openwork.algebra.types import DType, Number
from openwork.errors import InternalError

Array = np.ndarray[Any, Any]


class OutOfMemory(Exception):
    """An allocation failed."""


_SEVERAL = -1  # more than one part of a parallel loop


def poison(dtype: DType) -> Number:
    """A value that exposes reads of uninitialized memory."""
    if dtype.kind in "iu":
        return int(np.iinfo(dtype).max) - 1
    return dtype.kind == "b" or float("nan")


@dataclass
class Memory:
    """An array, which of its elements have been written, and in a parallel loop, by which part.

    `part` is the current part of a parallel loop, None outside of one; `owner` the one that
    allocated the array for itself. Each element records which parts have read it, written it, or
    updated it atomically (and how): reads are compatible with reads, and atomic updates with others
    of the same kind.
    """

    name: str
    data: Array
    known: Array
    constant: bool = False
    owner: int | None = None
    readers: dict[int, int] = field(default_factory=dict)
    writers: dict[int, int] = field(default_factory=dict)
    updaters: dict[int, tuple[int, str]] = field(default_factory=dict)

    @classmethod
    def allocate(
        cls, name: str, dtype: DType, count: int, zeroed: bool, owner: int | None
    ) -> Memory:
        """New memory for `count` elements."""
        memory = cls(name, np.zeros(0, dtype), np.zeros(0, bool), owner=owner)
        memory.resize(count, owner)
        if zeroed:
            memory.clear(0)
        return memory

    def thinned(self, every: int) -> Memory:
        """One of `every` elements, of an operand."""
        return Memory(self.name, self.data[::every], self.known[::every], self.constant)

    def masked(self, mask: int) -> Memory:
        """Some bits of each element, of an operand."""
        return Memory(self.name, self.data & mask, self.known, self.constant)

    def check(self, index: int) -> int:
        """`index` itself, which must lie within the array."""
        if not 0 <= index < len(self.data):
            raise InternalError(f"{self.name}[{index}] is outside of {len(self.data)} elements")
        return index

    def load(self, index: int, part: int | None) -> Any:
        """The element at `index`."""
        value = self.peek(index)
        if part not in (None, self.owner) and not self.constant:
            self._refuse_others(index, part, "read", self.writers, "written")
            self._refuse_updates(index, part, "read")
            _note(self.readers, index, part)
        return value

    def peek(self, index: int) -> Any:
        """The element at `index`, for an atomic update."""
        at = self.check(index)
        if not self.known[at]:
            raise InternalError(f"{self.name}[{at}] is read before it is written")
        return self.data[at]

    def store(self, index: int, value: Any, part: int | None) -> None:
        """Write the element at `index`."""
        at = self._writable(index)
        if part not in (None, self.owner):
            if self.writers.setdefault(at, part) != part:
                raise InternalError(f"{self.name}[{at}] is written by two threads")
            self._refuse_others(at, part, "written", self.readers, "read")
            self._refuse_updates(at, part, "written")
        self.data[at], self.known[at] = value, True

    def update(self, index: int, value: Any, part: int | None, kind: str) -> None:
        """Write the element at `index` atomically."""
        at = self._writable(index)
        if part not in (None, self.owner):
            self._refuse_others(at, part, "updated", self.writers, "written")
            self._refuse_others(at, part, "updated", self.readers, "read")
            who, how = self.updaters.get(at, (part, kind))
            if how != kind:
                raise InternalError(f"{self.name}[{at}] is updated by {how} and by {kind}")
            self.updaters[at] = (part if who == part else _SEVERAL, kind)
        self.data[at], self.known[at] = value, True

    def _writable(self, index: int) -> int:
        at = self.check(index)
        if self.constant:
            raise InternalError(f"{self.name}[{at}] is written, but belongs to an operand")
        return at

    def _refuse_others(
        self, at: int, part: int, doing: str, others: dict[int, int], done: str
    ) -> None:
        if others.get(at, part) != part:
            raise InternalError(f"{self.name}[{at}] is {doing} by one thread, {done} by another")

    def _refuse_updates(self, at: int, part: int, doing: str) -> None:
        if self.updaters.get(at, (part, ""))[0] != part:
            raise InternalError(f"{self.name}[{at}] is {doing} by one thread, updated by another")

    def forget_threads(self) -> None:
        """Forget the accesses of a parallel loop that is over."""
        self.readers.clear()
        self.writers.clear()
        self.updaters.clear()

    def first(self, count: int, part: int | None) -> list[int]:
        """The first `count` elements, as integers."""
        return [int(self.load(at, part)) for at in range(count)]

    def resize(self, count: int, part: int | None) -> None:
        """Resize to `count` elements; the contents stay."""
        self.check_moved_by(part)
        if count < 0:
            raise InternalError(f"{self.name} cannot have {count} elements")
        try:
            data = np.full(count, poison(self.data.dtype), self.data.dtype)
            known = np.zeros(count, dtype=bool)
        except (MemoryError, ValueError) as error:
            raise OutOfMemory from error
        kept = min(count, len(self.data))
        data[:kept], known[:kept] = self.data[:kept], self.known[:kept]
        self.data, self.known = data, known

    def clear(self, start: int, value: Number = 0) -> None:
        """Set all elements from `start` on to `value`."""
        self.data[start:], self.known[start:] = value, True

    def check_moved_by(self, part: int | None) -> None:
        """Refuse to move or free an array that other threads use."""
        if self.owner != part:
            raise InternalError(f"{self.name} is moved by one of many threads")

    def hand_back(self, count: int) -> Array:
        """The first `count` elements, every one of which must have been written."""
        if not 0 <= count <= len(self.data):
            raise InternalError(f"{self.name} has no {count} elements to hand back")
        if not self.known[:count].all():
            at = int(self.known[:count].argmin())
            raise InternalError(f"{self.name}[{at}] is handed back, but was never written")
        return self.data[:count].copy()


def _note(parts: dict[int, int], at: int, part: int) -> None:
    if parts.setdefault(at, part) != part:
        parts[at] = _SEVERAL


def search(part: int | None, crd: Memory, begin: int, end: int, key: int) -> int:
    """The position of `key` in a segment, which must be sorted, or -1."""
    run = [int(crd.load(at, part)) for at in range(begin, end)]
    if run != sorted(set(run)):
        raise InternalError(f"{crd.name} is searched from {begin} to {end}, but is not in order")
    return begin + run.index(key) if key in run else -1


def _sorted_run(part: int | None, array: Memory, begin: int, end: int) -> list[int]:
    run = [int(array.load(at, part)) for at in range(begin, end)]
    if run != sorted(run):
        raise InternalError(f"{array.name} is searched from {begin} to {end}, but is not in order")
    return run


def lower_bound(part: int | None, array: Memory, begin: int, end: int, value: int) -> int:
    """The first position that holds `value` or more, else `end`."""
    run = _sorted_run(part, array, begin, end)
    return begin + sum(each < value for each in run)


def search_every(part: int | None, crd: Memory, every: int, begin: int, end: int, key: int) -> int:
    """As `search`, where elements are `every` places apart."""
    return search(part, crd.thinned(every), begin, end, key)


def lower_bound_every(
    part: int | None, array: Memory, every: int, begin: int, end: int, value: int
) -> int:
    """As `lower_bound`, where elements are `every` places apart."""
    return lower_bound(part, array.thinned(every), begin, end, value)


def search_masked(part: int | None, crd: Memory, mask: int, begin: int, end: int, key: int) -> int:
    """As `search`, in some bits of each element."""
    return search(part, crd.masked(mask), begin, end, key)


def lower_bound_masked(
    part: int | None, array: Memory, mask: int, begin: int, end: int, value: int
) -> int:
    """As `lower_bound`, in some bits of each element."""
    return lower_bound(part, array.masked(mask), begin, end, value)


def last_at_most(part: int | None, array: Memory, begin: int, end: int, value: int) -> int:
    """The last position that holds `value` or less, else `begin`."""
    run = _sorted_run(part, array, begin, end)
    return begin + max(0, sum(each <= value for each in run) - 1)


def _share(work: int, cut: int, cuts: int) -> int:
    """The amount of work before part `cut` of `cuts` equal parts."""
    return work // cuts * cut + min(cut, work % cuts)


def balanced_cut(part: int | None, pos: Memory, begin: int, end: int, cut: int, cuts: int) -> int:
    """Where part `cut` of `cuts` of the rows begins, if all have equally many entries."""
    if not 0 <= cut <= cuts or cuts == 0:
        raise InternalError(f"{pos.name} has no cut {cut} of {cuts}")
    if begin >= end or cut == cuts:
        return max(begin, end)
    run = _sorted_run(part, pos, begin, end + 1)
    goal = run[0] + _share(run[-1] - run[0], cut, cuts)
    return begin + sum(each < goal for each in run)


def cut(part: int | None, pos: Memory, begin: int, end: int, number: int, cuts: int) -> int:
    """Where part `number` of `cuts` begins, if all have equally many rows and entries in total."""
    if not 0 <= number <= cuts or cuts == 0:
        raise InternalError(f"{pos.name} has no cut {number} of {cuts}")
    if begin >= end:
        return begin
    run = [at + row for row, at in enumerate(_sorted_run(part, pos, begin, end + 1))]
    goal = run[0] + _share(run[-1] - run[0], number, cuts)
    return begin + sum(each < goal for each in run)


def find(
    part: int | None, table: Memory, mask: int, keys: Memory, count: int, key: int
) -> tuple[int, int]:
    """The slot of `key`, `count` if it is new, and the mask of the table, which may have grown."""
    slots = table.first(mask + 1, part)
    if sorted(slot for slot in slots if slot >= 0) != list(range(count)):
        raise InternalError(f"{table.name} does not hold the slots of {count} keys")
    if 2 * count >= mask:
        mask = 63 if mask < 0 else 4 * (mask + 1) - 1
        table.resize(mask + 1, part)
        table.clear(0, -1)
        table.data[:count] = range(count)
        slots = table.first(mask + 1, part)
    listed = keys.first(count, part)
    if key in listed:
        return listed.index(key), mask
    table.store(slots.index(-1), count, part)
    return count, mask


def clear(part: int | None, table: Memory, mask: int) -> None:
    """Empty a hash table."""
    for at in range(mask + 1):
        table.store(at, -1, part)


def note(part: int | None, listed: Memory, keys: Memory, count: int, key: int) -> int:
    """List `key`, if it is not listed yet; how many keys are then."""
    if bool(listed.load(key, part)) != (key in keys.first(count, part)):
        raise InternalError(f"{listed.name} is wrong about {key}")
    more = count + 1 - int(listed.load(key, part))
    keys.store(count, key, part)
    listed.store(key, 1, part)
    return more


def order_keys(part: int | None, keys: Memory, count: int, marks: Memory) -> None:
    """Sort keys, which must be distinct, by an empty bitmap."""
    found = sorted(keys.first(count, part))
    if len(set(found)) != count:
        raise InternalError(f"{keys.name} lists a key twice")
    if any(marks.first(found[-1] // 64 + 1 if found else 0, part)):
        raise InternalError(f"{marks.name} is not empty")
    for at, key in enumerate(found):
        keys.store(at, key, part)


def sort_pairs(part: int | None, keys: Memory, slots: Memory, count: int) -> None:
    """Sort keys, which must be distinct, each with its slot."""
    pairs = sorted(zip(keys.first(count, part), slots.first(count, part), strict=True))
    if len({key for key, _ in pairs}) != count:
        raise InternalError(f"{keys.name} lists a key twice")
    for at, (key, slot) in enumerate(pairs):
        keys.store(at, key, part)
        slots.store(at, slot, part)


def in_turn(part: int | None, turns: Memory, piece: int, *firsts: Memory) -> int:
    """Whether all pieces before `piece` are counted; then `firsts` says where it begins.

    A chained scan: pieces that waited for this one advance as well. The thread that counted a piece
    no longer accesses its count.
    """
    at, bit = piece, 2
    while True:
        turns.data[at] |= bit
        if turns.data[at] != 3:
            return int(at > piece)
        for first in firsts:
            first.writers.pop(at + 1, None)
            first.data[at + 1] += first.data[at]
        at, bit = at + 1, 1


def put_at(part: int | None, to: Memory, begin: int, source: Memory, count: int) -> None:
    """Copy the first elements of an array to a place in another."""
    for at in range(count):
        to.store(begin + at, source.load(at, part), part)


# Each takes the part of the parallel loop that calls it, then the arguments of the call.
HELPERS: dict[str, Callable[..., Any]] = {
    "search": search,
    "lower_bound": lower_bound,
    "gallop": lower_bound,
    "search_every": search_every,
    "lower_bound_every": lower_bound_every,
    "gallop_every": lower_bound_every,
    "search_masked": search_masked,
    "lower_bound_masked": lower_bound_masked,
    "gallop_masked": lower_bound_masked,
    "last_at_most": last_at_most,
    "balanced_cut": balanced_cut,
    "cut": cut,
    "find": find,
    "clear": clear,
    "note": note,
    "order_keys": order_keys,
    "sort_pairs": sort_pairs,
    "in_turn": in_turn,
    "put_at": put_at,
    "many_registers": lambda part: 1,
}
