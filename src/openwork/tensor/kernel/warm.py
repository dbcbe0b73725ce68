"""Warm calls: the operands of the call before, and nothing left to decide.

Between two calls a program touches megabytes of data, so every line of Python runs from a cold
cache. Repeated calls therefore do as little as possible.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from ctypes import addressof, c_char
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from openwork.algebra.entries import Entry
from openwork.algebra.types import BOOL, DType, Number, as_element, holds
from openwork.format.formats import dense
from openwork.index.nodes import TensorVar
from openwork.loops.plan.assembly import Append
from openwork.runtime.host.direct import KINDS, direct
from openwork.runtime.host.launch import (
    WATCHED_ABOVE,
    BoundBroken,
    Executable,
    PositionOverflow,
    threads_for,
)
from openwork.runtime.memory import address, allocate, zeros
from openwork.runtime.storage import Array, Storage, room_of
from openwork.tensor.kernel.binding import Binder, Binding

# Results below this many bytes are not checked against free memory.
_UNCOUNTED = 1 << 16


def is_all_zeros(initial: Number, dtype: DType) -> bool:
    """Whether an initial value is zeros in memory, which the system has for nothing."""
    return not as_element(initial, dtype).tobytes().strip(b"\0")


def _arrays(reference: Any) -> list[Array]:
    """The arrays of an operand, which is alive."""
    storage = reference()
    return [] if storage is None else storage.addressed


class Repeated(ABC):
    """Repeats a call with the same operands.

    Args:
        binding: the binding of the call.
        templates: the operands of the statement.
        template: the result of the statement.
    """

    def __init__(self, binding: Binding, templates: Iterable[Any], template: Any) -> None:
        self._binding, self._template = binding, template
        self._shape = binding.result_shape
        self._own = list(zip(binding.given, templates, strict=True))

    def again(self) -> Any:
        """The result for the statement's own operands, or None if these have changed."""
        held = self._unchanged()
        shape = self._template._shape
        if held is None or (shape is not self._shape and shape != self._shape):
            return None
        return self._made()

    def _unchanged(self) -> Any:
        """The statement's own operands, to keep them alive for the call; None if they changed."""
        held: tuple[Any, ...] = ()
        for reference, template in self._own:
            storage = template._storage  # a property would take longer than the rest
            if storage is None or reference() is not storage:
                return None
            held = held, storage
        tables = self._binding.tables
        return None if tables and not self._binding.same_tables() else held

    def __call__(self, given: tuple[Storage, ...]) -> Any:
        """The result, or None if the operands have changed or the call failed."""
        return self._made() if self._binding.fits(given, self._template.shape) else None

    def with_others(self, operands: Mapping[str, Any]) -> Any:
        """The result with other operands for some, by name; None if they are too different."""
        return None

    def into(self, out: Any, operands: Mapping[str, Any]) -> Any:
        """`out`, with the result written into it; None if this takes more checks."""
        return None

    def detached(
        self, given: Sequence[Storage], numbers: Sequence[bool], made: Any
    ) -> Detached | None:
        """The call for any arrays like `given`, which the operand `made` was made from.

        `numbers`: which of them will be given as numbers. None if more than their shapes matters,
        or this call had others: another thread may have been faster.
        """
        return None

    @abstractmethod
    def _made(self) -> Any:
        """The result for the operands of `binding`, which are alive."""


class _Place(NamedTuple):
    """What may stand in for an operand without another binding.

    Other values of the same shape may, where the operand has no other arrays: the pointer at
    `place` is then another, and nothing else. `array`: the element type of NumPy arrays that may,
    if any may.
    """

    reference: Any
    template: Any
    place: int
    shape: tuple[int, ...]
    alone: bool
    array: Any

    def pointer(self, value: Any) -> int | None:
        """The address of the values of `value`; 0 if it is the operand; None if it does not fit."""
        if type(value) is np.ndarray:
            # NumPy's types are equal to None, if they are float64.
            if self.array is None or value.dtype != self.array or value.shape != self.shape:
                return None
            flags = value.flags
            if flags.carray and value.size:  # the same as below in less time
                return addressof(c_char.from_buffer(value))  # type: ignore[arg-type]
            return address(value) if flags.c_contiguous and flags.aligned else None
        storage = getattr(value, "_storage", None)
        if type(storage) is not Storage:
            return None
        if self.reference() is storage:
            return 0
        same = self.alone and storage.shape == self.shape
        facts = self.template._facts
        return storage.pointers[-1] if same and value._facts == facts else None


class Warm(Repeated):
    """Repeats a call whose result is written in place, over zeros if it is initialized.

    Dense operands may be replaced, as a solver has a new vector for each product.
    """

    def __init__(
        self,
        binding: Binding,
        binder: Binder,
        result: TensorVar,
        templates: Iterable[Any],
        template: Any,
    ) -> None:
        super().__init__(binding, templates, template)
        self._result, self._levels, self._names = result, binder.levels_again, binder.names
        self._operands = binder.operands
        self._executable, self._pointers = binding.ready.executable, binding.ready.pointers
        self._work = binding.work + binding.count
        self._steps = binding.ready.steps + binding.count
        self._sized: tuple[int, Any] = (0, None)  # the number of threads, and the sizes of a call
        self._count = room_of(result.format, result.dtype, binding.count)
        self._small = binding.count * result.dtype.itemsize < _UNCOUNTED
        self._zeroed = binding.compiled.initial is not None
        self._frames: list[Any] = []  # arguments of finished calls, for reuse
        self._places: dict[str, _Place] | None = None
        self._in_place = result.format.is_dense
        self._like: tuple[dict[str, Any], Any] | None = None  # of results, but for their arrays
        used = [array for reference in binding.used for array in _arrays(reference)]
        self._lengths = [array.nbytes for array in (*used, *binding.cuts)]

    def with_others(self, operands: Mapping[str, Any]) -> Any:
        shape = self._template._shape
        if shape is not self._shape and shape != self._shape:
            return None
        found = self._replaced(operands)
        return None if found is None else self._made(found[0])

    def into(self, out: Any, operands: Mapping[str, Any]) -> Any:
        place = getattr(out, "_storage", None)
        if type(out) is not type(self._template) or type(place) is not Storage:
            return None
        values, facts = place.values, self._template._facts
        if out._facts is not facts and out._facts != facts:
            return None
        if place.shape != self._binding.shape or not self._in_place or not values.flags.carray:
            return None
        found = self._replaced(operands) if operands else ((), self._unchanged())
        if found is None or found[1] is None or not values.size:
            return None
        changed = found[0]
        first = addressof(c_char.from_buffer(values))  # type: ignore[arg-type]
        if not self._apart(first, first + values.nbytes, changed):
            return None  # the kernel would read what it has written
        if self._zeroed:
            values.fill(0)
        self._call(first, changed)
        out.__openwork_store__(place)
        return out

    def detached(
        self, given: Sequence[Storage], numbers: Sequence[bool], made: Any
    ) -> Detached | None:
        result = made.storage
        same = self._binding.shapes == tuple([storage.shape for storage in given])
        if not same or self._binding.shape != result.shape or not result.alike:
            return None
        places = self._places = self._places or self._found_places()
        if not all(name in places and places[name].alone for name in self._names):
            return None
        if [places[name].place for name in self._names] != list(range(1, len(given) + 1)):
            return None
        return Detached(
            self._executable,
            self._binding.sizes,
            self._work,
            self._steps,
            self._zeroed,
            [each.dtype if alone else None for each, alone in zip(given, numbers, strict=True)],
            made,
        )

    def _apart(self, first: int, last: int, changed: Sequence[tuple[int, int]]) -> bool:
        """Whether no operand has memory between two addresses."""
        starts = list(self._pointers)
        for place, pointer in changed:
            starts[place - 1] = pointer
        for start, length in zip(starts, self._lengths, strict=True):
            if first < start + length and start < last:
                return False
        return True

    def _replaced(self, operands: Mapping[str, Any]) -> Any:
        """The pointers that change with these operands, and what keeps the others alive."""
        places = self._places
        if places is None:
            places = self._places = self._found_places()
        changed = []
        for name, value in operands.items():
            known = places.get(name)
            pointer = None if known is None else known.pointer(value)
            if known is None or pointer is None:
                return None
            if pointer:
                changed.append((known.place, pointer))
        held: tuple[Any, ...] = ()  # as in `again`
        if len(operands) < len(places):
            for name, known in places.items():
                if name not in operands:
                    storage = known.template._storage
                    if storage is None or known.reference() is not storage:
                        return None
                    held = held, storage
        if self._binding.tables and not self._binding.same_tables():
            return None
        return changed, held

    def _found_places(self) -> dict[str, _Place]:
        """Where the operands' values stand among the pointers; nothing where data has a say."""
        if self._binding.cuts:
            return {}
        ends, at = {}, 0
        for var in self._operands:
            at += 1 + sum(len(level.arrays) for level in var.format.levels)
            ends[var.name] = at
        read = {self._names[n] for n, _ in self._binding.tables}
        places = {}
        operands = zip(self._names, self._own, self._binding.shapes, strict=True)
        for name, (reference, template), shape in operands:
            format, dtype = template._facts.format, template._facts.dtype
            # A table of coordinates is checked, and makes other arrays.
            alone = name in ends and name not in read
            alone = alone and not any(level.arrays for level in format.levels)
            plain = format == dense(format.ndim) and not isinstance(dtype, Entry) and dtype != BOOL
            array = dtype if plain and alone else None
            places[name] = _Place(reference, template, ends.get(name, 0), shape, alone, array)
        return places

    @staticmethod
    def suits(binding: Binding, binder: Binder) -> bool:
        """Whether calls with the operands of `binding` can be repeated this way."""
        initial, dtype = binding.compiled.initial, binder.result_type
        plain = initial is None or is_all_zeros(initial, dtype)
        return plain and not binding.tight and binder.repeats

    def _made(self, changed: Sequence[tuple[int, int]] = ()) -> Any:
        """The result; `changed`: pointers to use instead of those at these places."""
        binding, result = self._binding, self._result
        count, dtype = self._count
        if self._zeroed:
            values = np.zeros(count, dtype) if self._small else zeros(count, dtype)
        else:
            values = np.empty(count, dtype) if self._small else allocate(count, dtype)
        # The same as the address in `__array_interface__`, in a third of the time.
        self._call(addressof(c_char.from_buffer(values)) if count else 0, changed)  # type: ignore[arg-type]
        levels = self._levels(binding)
        if self._like is None:
            given = binding.shape, result.format, result.dtype, levels, values, result.fill
            storage = Storage(*given)
            made = self._template.__openwork_result__(storage)
            if storage.values is values:  # not a view without leave to write
                names = ("shape", "format", "dtype", "fill", "borrowed", "alike")
                self._like = {name: getattr(storage, name) for name in names}, made._facts
            return made
        like, known = self._like
        storage = object.__new__(Storage)  # its constructor takes as long as a small kernel
        facts = like.copy()
        facts["levels"], facts["values"] = levels, values
        storage.__dict__ = facts
        return self._template.__openwork_result__(storage, known)

    def _call(self, values: int, changed: Sequence[tuple[int, int]]) -> None:
        """Run the kernel; `values`: the address of those of the result."""
        executable = self._executable
        threads, (known, sizes) = threads_for(self._work), self._sized
        if threads != known:
            sizes = executable.sizes(threads, 0, self._binding.sizes)
            self._sized = (threads, sizes)
        # Pop and append are atomic, so threads may call concurrently.
        try:
            frame = self._frames.pop()
        except IndexError:
            frame = executable.frame((*self._pointers, 0))
        frame[-1] = values
        for place, pointer in changed:
            frame[place] = pointer
        executable.call(frame, sizes, self._steps)
        for place, _ in changed:
            frame[place] = self._pointers[place - 1]
        self._frames.append(frame)


class Detached:
    """Repeats a call with any arrays of the same shapes and element types.

    All that is left to do is to allocate the result, and to run the kernel. On a thousand elements
    Python takes longer than the kernel, so objects are made without their constructors.

    Args:
        executable: the kernel.
        sizes: extents and strides, as the kernel takes them.
        work: about how many elements it accesses.
        steps: an upper estimate of loop iterations.
        zeroed: whether it adds to a result of zeros.
        numbers: the element type of operands that are given as numbers, None for arrays.
        made: a result of the kernel; others differ from it in their values alone.
    """

    def __init__(
        self,
        executable: Executable,
        sizes: Sequence[int],
        work: float,
        steps: float,
        zeroed: bool,
        numbers: Sequence[DType | None],
        made: Any,
    ) -> None:
        like = made.storage
        self._executable, self._sizes, self._work, self._steps = executable, sizes, work, steps
        self._numbers = tuple(numbers)
        self._count, self._dtype = like.values.size, like.values.dtype
        small = like.values.nbytes < _UNCOUNTED
        self._allocate: Any = np.empty if small else allocate
        if zeroed:
            self._allocate = np.zeros if small else zeros
        self._like = like.shape, like.format, like.dtype, like.levels, like.alike
        self._facts = made._facts
        self._runs: dict[int, Any] = {}  # what runs the kernel, by the number of threads
        self._latest: tuple[int, Any] = (0, None)

    def __call__(self, kind: type[Any], first: Any, second: Any = None, *more: Any) -> Any:
        """The result, a `kind` of operand, for arrays and numbers.

        None if a number does not fit into its type, or the kernel refuses: who calls does so again
        in full, and finds what is wrong.
        """
        values = self._allocate(self._count, self._dtype)
        threads = threads_for(self._work)
        known, run = self._latest
        if threads != known:
            run = self._with_threads(threads)
        if second is None:
            status = run(first, values)
        elif more:
            status = run(first, second, *more, values)
        else:
            status = run(first, second, values)
        if status:
            return None
        made, storage = _new(kind), _new(Storage)
        storage.shape, storage.format, storage.dtype, storage.levels, storage.alike = self._like
        storage.values = values
        made._shape, made._facts, made._storage = storage.shape, self._facts, storage
        return made

    def _with_threads(self, count: int) -> Any:
        """What runs the kernel on so many threads; kept, as another thread may be running it."""
        found = self._runs.get(count)
        if found is None:
            sizes = self._executable.sizes(count, 0, self._sizes)
            kinds = (*[None if each is None else str(each) for each in self._numbers], None)
            # It ends before anybody could stop it, and no number needs a check.
            if self._steps < WATCHED_ABOVE and {*kinds} <= KINDS.keys():
                found = direct(self._executable._function, sizes, kinds, self._steps)
            found = found or (partial(self._run_by_address, sizes), None)
            found = self._runs.setdefault(count, found)
        self._latest = count, found[0]
        return found[0]

    def _run_by_address(self, sizes: Any, *given: Any) -> int:
        """Run the kernel through ctypes; 1 if a number does not fit."""
        arrays: list[Array] = [*given]
        for n, each in enumerate(self._numbers):
            if each is not None:
                if not holds(each, given[n]):
                    return 1
                arrays[n] = np.array([given[n]], each)
        frame = self._executable.frame([address(array) for array in arrays])
        self._executable.call(frame, sizes, self._steps)
        return 0


_new: Any = object.__new__


class WarmAppended(Repeated):
    """Repeats a call whose result arrays are allocated by the kernel."""

    def __init__(
        self, binding: Binding, result: TensorVar, templates: Iterable[Any], template: Any
    ) -> None:
        super().__init__(binding, templates, template)
        self._result = result
        self._names = [[fact.name for fact in level.arrays] for level in result.format.levels]
        self._frames: list[tuple[Any, Any]] = []  # arguments and sizes of finished calls, for reuse

    @staticmethod
    def suits(assembly: Append, binding: Binding, binder: Binder) -> bool:
        """Whether calls can be repeated this way; not if memory may run short."""
        short = assembly.strategy == "count" or binding.tight
        return not short and binder.repeats

    def _made(self) -> Any:
        binding, result, call = self._binding, self._result, self._binding.ready
        executable = call.executable
        threads = threads_for(binding.work)
        try:
            frame, sizes = self._frames.pop()
            sizes[0] = threads
        except IndexError:
            frame = executable.frame(call.pointers)
            sizes = executable.sizes(threads, binding.room, binding.sizes)
        try:
            executable.call(frame, sizes, call.steps)
        except (BoundBroken, PositionOverflow):
            return None
        arrays = executable.collect(frame, sizes)
        # The next result is probably as long as this one; the bound may be many times that, and
        # memory of the right size may have been kept.
        most = max(map(len, arrays))
        sizes[1] = min(binding.room, most + most // 8 + 1)
        self._frames.append((frame, sizes))
        values = arrays.pop()
        made = iter(arrays)
        levels = tuple([{name: next(made) for name in names} for names in self._names])
        storage = Storage(binding.shape, result.format, result.dtype, levels, values, result.fill)
        return self._template.__openwork_result__(storage)
