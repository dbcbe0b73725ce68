"""Eager operations: a kernel for each combination of operation, formats and element types.

A kernel serves operands of any shape, so a second call with similar operands compiles nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, cast

import numpy as np

from openwork.algebra.types import BOOL, DType
from openwork.format.formats import Format
from openwork.index.nodes import Access, Assignment, Expr, IndexVar
from openwork.runtime.storage import Storage, array_type
from openwork.tensor.exchange.facts import Facts, facts_for, facts_of
from openwork.tensor.operand import Operand
from openwork.tensor.rearrange.broadcast import Layout, squeeze
from openwork.tensor.result_format import fill_of
from openwork.tensor.statement import Statement

T = TypeVar("T", bound=Operand)

_NUMBERS = {bool, int, float, complex}
_MOST_KERNELS = 512
_MOST_CALLS = 4096
_LETTERS = "ABCDEFGHIJKLMNOPQSTUVWXYZ"  # without R, which is the result
_RESULT = "R"


class KernelStore:
    """A cache of kernels; the oldest are evicted when there are too many."""

    def __init__(self, most: int = _MOST_KERNELS) -> None:
        self._most = most
        self._kernels: dict[Hashable, Any] = {}
        # Calls of kernels by what they compute and the types of the arrays: see `Detached`.
        self.ready: dict[tuple[object, ...], Any] = {}
        self._latest: dict[tuple[Hashable, Facts], Any] = {}  # kernels for one sparse tensor
        self.losses = 0  # how often kernels were forgotten

    def get(
        self,
        key: Hashable,
        build: Callable[[], Assignment],
        target: str = "cpu",
        stored: Callable[[], Mapping[str, Storage]] | None = None,
    ) -> Any:
        """The kernel for `key`, compiled from what `build` returns if there is none yet.

        `stored`: the operands' data by name, for whose sizes steps are chosen.
        """
        kernel = self._kernels.get(key)
        if kernel is None:
            statement = Statement(build())
            if stored is None:
                kernel = statement.compile(target, optimize=False)
            else:
                kernel = statement._compiled(target, False, stored())
            while len(self._kernels) >= self._most:
                # If another thread was faster, use its kernel.
                self._kernels.pop(next(iter(self._kernels), None), None)
                self.losses += 1
            self._kernels[key] = kernel
        return kernel

    def remember(
        self, called: tuple[object, ...], kernel: Any, operands: Sequence[Operand], made: Operand
    ) -> None:
        """Keep what repeats a call by `kernel` for arrays like `operands`."""
        warm = kernel._warm
        if warm is None:
            return
        if len(operands) == 1 and operands[0].storage.alike is None:
            if type(operands[0].storage) is not Storage:
                return
            while len(self._latest) >= _MOST_CALLS:
                self._latest.pop(next(iter(self._latest)), None)
            self._latest[called[0], operands[0].facts] = kernel
            return
        numbers = [isinstance(each, type) for each in called[1:]]
        ready = warm.detached([o.storage for o in operands], numbers, made)
        if ready is not None:
            while len(self.ready) >= _MOST_CALLS:
                self.ready.pop(next(iter(self.ready), ()), None)
            self.ready[called] = ready

    def again(self, kind: type[T], what: Hashable, args: Sequence[Any]) -> T | None:
        """The result of the operation `what`, if it ran on arrays and numbers like these before.

        On small arrays, finding the kernel takes far longer than running it. `kind`: the class of
        operand that is made.
        """
        key: list[object] = [what]
        given: list[Any] = []
        for arg in args:
            type_of = type(arg)
            if type_of in _NUMBERS:
                key.append(type_of)
                given.append(arg)
            elif isinstance(arg, Operand):
                storage = arg._storage
                if storage is None or storage.alike is None:
                    return None
                key.append(storage.alike)
                given.append(storage.values)
            elif type_of is np.ndarray:
                if not arg.flags.carray or arg.dtype == BOOL:  # whose bytes may be other numbers
                    return None
                key.append(array_type(arg.dtype, tuple(range(arg.ndim)), arg.shape))
                given.append(arg)
            else:
                key.append(type_of)
                given.append(arg.item() if isinstance(arg, np.generic) else arg)
        call = self.ready.get(tuple(key))
        made: T | None = None if call is None else call(kind, *given)
        return made

    def repeat(self, what: Hashable, operand: Operand) -> Operand | None:
        """The result of the operation `what` on a sparse tensor, if it was the same before.

        Checking a call and finding its kernel takes longer than running it on some ten thousand
        entries.
        """
        kernel = self._latest.get((what, operand.facts))
        made: Operand | None = None
        if kernel is not None:
            made = kernel.repeated({_LETTERS[0]: operand})
        return made

    def find(self, key: Hashable) -> Any:
        """The kernel for `key`, or None."""
        return self._kernels.get(key)

    def __len__(self) -> int:
        return len(self._kernels)

    def clear(self) -> None:
        """Forget all kernels."""
        self._kernels.clear()
        self.ready.clear()
        self._latest.clear()
        self.losses += 1


KERNELS = KernelStore()
_find = KERNELS.ready.get


# Calls of plain arrays again. On a thousand elements a kernel takes less time than a few frames of
# Python, so that operators and reductions look here first, and go the general way otherwise.


def method_of_two(
    what: Hashable, general: Callable[..., Any], turned: bool = False
) -> Callable[..., Any]:
    """A method that computes `what`, or calls `general` where it was not computed like this before.

    `turned`: the other operand stands on the left.
    """

    def method(self: Any, other: Any) -> Any:
        mine, kind, made = self._storage, type(self), None
        if mine is None:
            return general(self, other)
        if type(other) is kind:
            theirs = other._storage
            if theirs is not None:
                call = _find((what, mine.alike, theirs.alike))
                if call is not None:
                    made = call(kind, mine.values, theirs.values)
        elif type(other) in _NUMBERS:
            if turned:
                call = _find((what, type(other), mine.alike))
                if call is not None:
                    made = call(kind, other, mine.values)
            else:
                call = _find((what, mine.alike, type(other)))
                if call is not None:
                    made = call(kind, mine.values, other)
        return general(self, other) if made is None else made

    method.__doc__ = general.__doc__
    return method


def once_more(what: Hashable, operand: T) -> T | None:
    """`what` of one plain array, if there was one like it before."""
    storage = operand._storage
    call = None if storage is None else _find((what, storage.alike))
    made: T | None = None if call is None else call(type(operand), storage.values)  # type: ignore[union-attr]
    return made


def mean_once_more(operand: T, axis: int | None) -> T | None:
    """As `once_more`, of a mean, which is a sum divided by a number."""
    storage = operand._storage
    call = None if storage is None else _find((("mean", axis), storage.alike, float))
    if call is None or storage is None:
        return None
    count = storage.values.size if axis is None else storage.shape[axis]
    made: T | None = call(type(operand), storage.values, float(count))
    return made


def operand_name(position: int) -> str:
    """The name of an eager statement's operand: A, B, ..., Z without R, then A1, B1, ...

    >>> operand_name(0), operand_name(17), operand_name(25)
    ('A', 'S', 'A1')
    """
    turn, letter = divmod(position, len(_LETTERS))
    return _LETTERS[letter] + (str(turn) if turn else "")


def stand_in(position: int, facts: Facts) -> Operand:
    """An operand of an eager statement, for any data with these facts."""
    return Operand(operand_name(position), (None,) * facts.format.ndim, facts)


def result_of(facts: Facts) -> Operand:
    """The result of an eager statement."""
    return Operand(_RESULT, (None,) * facts.format.ndim, facts)


def call(kernel: Any, operands: Sequence[Operand]) -> Operand:
    """The kernel's result for `operands`."""
    few = len(operands) <= len(_LETTERS)
    names: Iterable[str] = _LETTERS if few else map(operand_name, range(len(operands)))
    return cast(Operand, kernel(**dict(zip(names, operands, strict=False))))


class Result(NamedTuple):
    """What an eager statement computes, and how the result is stored."""

    rhs: Expr
    format: Format
    dtype: DType


def run(
    operation: Hashable,
    layout: Layout,
    operands: Sequence[Operand],
    build: Callable[[Sequence[Access]], Result],
    called: tuple[object, ...] = (),
) -> Operand:
    """Run the statement that `build` makes from accesses to `operands` by `layout`.

    `called`: what the caller will look up this call by: see `KernelStore.again`.
    """
    if any(layout.dropped):
        operands = [
            around(squeeze(operand.storage, modes), operand.name) if modes else operand
            for operand, modes in zip(operands, layout.dropped, strict=True)
        ]

    def assignment(stand_ins: Sequence[Operand]) -> Assignment:
        pairs = zip(stand_ins, layout.operands, strict=True)
        rhs, format, dtype = build(
            [Access(o.tensor_var, variables(numbers)) for o, numbers in pairs]
        )
        fill = 0 if format.is_dense else fill_of(rhs)
        result = result_of(facts_for(format, dtype, fill))
        return Assignment(Access(result.tensor_var, variables(layout.result)), rhs)

    key = (operation, layout.operands, layout.result)
    kernel = kernel_for(key, operands, assignment)
    made = call(kernel, operands)
    if called:
        KERNELS.remember(called, kernel, operands, made)
    return made


def called(what: Hashable, args: Sequence[Any]) -> tuple[object, ...]:
    """What a call is looked up by: what is common to all calls that one kernel serves.

    Nothing if an argument has more to say than that.
    """
    facts = [arg.storage.alike if isinstance(arg, Operand) else _usual(arg) for arg in args]
    return (what, *facts) if all(facts) else ()


def _usual(number: object) -> type | None:
    """The type of a number, if it says how to compute with it."""
    known = type(number) in (bool, int, float, complex) or isinstance(number, np.generic)
    return type(number) if known else None


def kernel_for(
    key: tuple[Hashable, ...],
    operands: Sequence[Operand],
    build: Callable[[Sequence[Operand]], Assignment],
    optimize: bool = False,
) -> Any:
    """The kernel of the statement that `build` makes for operands like these, from the cache.

    `key` identifies the statement. On a CPU the kernel serves any data. On a GPU recipes choose by
    the data, so `build` gets it, and a kernel is for one shape and number of entries.
    `optimize`: it may run in steps, in an order for operands of about these sizes.
    """
    facts = tuple([operand.facts for operand in operands])
    stored = None
    if optimize:
        stored = lambda: {operand_name(n): o.storage for n, o in enumerate(operands)}  # noqa: E731
        key = (*key, sizes_of(operands))
    if not any([operand.device == "cuda" for operand in operands]):
        return KERNELS.get(
            (*key, facts),
            lambda: build([stand_in(n, each) for n, each in enumerate(facts)]),
            stored=stored,
        )
    shown: list[Operand] = []

    def with_data() -> Assignment:
        shown.extend(around(o.storage, operand_name(n)) for n, o in enumerate(operands))
        return build(shown)

    # Extents are constants of the kernel, and the number of entries distinguishes matrices.
    sizes = tuple((operand.storage.shape, operand.storage.nnz) for operand in operands)
    kernel = KERNELS.get((*key, facts, sizes), with_data, "cuda", stored)
    for operand in shown:
        operand._storage = None  # keep the kernel, but not the data it was compiled for
    return kernel


def sizes_of(operands: Iterable[Operand]) -> tuple[object, ...]:
    """About how large operands are, where it decides the order of steps: with three or more."""
    given = list(operands)
    if len(given) < 3:
        return ()
    return tuple(
        (
            tuple(extent.bit_length() for extent in operand.storage.shape),
            operand.storage.nnz.bit_length(),
        )
        for operand in given
    )


def around(storage: Storage, name: str = "") -> Operand:
    """An operand over the arrays of `storage`."""
    return Operand(name, storage.shape, facts_of(storage), storage)


def variables(numbers: Sequence[int]) -> tuple[IndexVar, ...]:
    """Index variables by number."""
    return tuple(IndexVar(f"i{n}") for n in numbers)


def assign(storage: Storage, format: Format) -> Storage:
    """`storage` in another format, by the statement `B(i,j) = A(i,j)`: see `convert`."""
    modes, dtype = tuple(range(format.ndim)), storage.dtype
    layout = Layout((modes,), modes, ((),))

    def build(accesses: Sequence[Access]) -> Result:
        return Result(accesses[0], format, dtype)

    return run(("to", format), layout, [around(storage)], build).storage
