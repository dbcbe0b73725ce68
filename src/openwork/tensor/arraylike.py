"""What NumPy's and SciPy's users call on a tensor: their names for what statements compute.

Each method is a line over a function of operands. The protocols are here, too: functions of NumPy
that get a tensor call it, or what `implements` has registered for them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import sparse

from openwork.algebra import operators as ops
from openwork.algebra.encodings import as_stored
from openwork.algebra.entries import Complex, Entry
from openwork.algebra.operators import Op
from openwork.algebra.overloads import Closed
from openwork.algebra.types import Number
from openwork.errors import FormatError, ParseError, ShapeError
from openwork.runtime.storage import Array, Storage
from openwork.tensor.arithmetic import matmul, matmul_again
from openwork.tensor.convert.pack import to_numbers
from openwork.tensor.elementwise import NUMBERS, elementwise, operation
from openwork.tensor.exchange.elsewhere import ELSEWHERE
from openwork.tensor.exchange.facts import facts_of
from openwork.tensor.exchange.interop import Wish, storage_from
from openwork.tensor.exchange.libraries import library_of
from openwork.tensor.exchange.numpy_functions import FUNCTIONS, UFUNCS, IsSparse
from openwork.tensor.operand import Operand, auto_name
from openwork.tensor.rearrange.broadcast import check_axes, permute, squeeze as without_modes
from openwork.tensor.rearrange.index import assign, select
from openwork.tensor.rearrange.shape import diagonal, reshaped, without_fill
from openwork.tensor.reductions import REDUCTIONS, Axis, arg_extreme, mean, reduction, variance

# What reduces by an operator, as in `np.add.reduce`.
_REDUCING = {
    ufunc: name for ufunc, op in UFUNCS.items() for name, each in REDUCTIONS.items() if each is op
}
# What accumulates by an operator, as in `np.add.accumulate`.
_RUNNING: dict[np.ufunc, Any] = {np.add: np.cumsum, np.multiply: np.cumprod}


class Arraylike(Closed, Operand):
    """The methods and protocols by which a tensor stands in for an array or a SciPy matrix."""

    @classmethod
    def of(cls, storage: Storage, name: str | None = None) -> Self:
        """A tensor over `storage`, whose arrays are trusted."""
        called = auto_name() if name is None else name
        return cls(called, storage.shape, facts_of(storage), storage)

    @classmethod
    def made(cls, operand: Operand) -> Self:
        """A tensor over a kernel's result, under a new name."""
        return cls(auto_name(), operand._shape, operand._facts, operand._storage)

    @classmethod
    def wrap(cls, obj: object) -> Self:
        """A foreign array or number as the operand of one call, without a copy if possible."""
        name = auto_name()
        return cls.of(storage_from(obj, Wish(name, share=True)), name)

    @property
    def _host(self) -> Storage:
        """The storage in main memory."""
        return self.storage.host()

    def to_numpy(self) -> Array:
        """The tensor as a NumPy array; a dense tensor shares its memory with it.

        The components of entries that are records come last.
        """
        return to_numbers(self._host)

    # Facts

    @property
    def order(self) -> int:
        """The number of modes."""
        return len(self._shape)

    @property
    def ndim(self) -> int:
        """The number of modes, as NumPy calls it."""
        return len(self._shape)

    @property
    def nnz(self) -> int:
        """The number of stored entries, explicit zeros included."""
        return self.storage.nnz

    @property
    def size(self) -> int:
        """The number of elements, absent ones included; `nnz` counts the stored ones."""
        return prod(self.storage.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of all arrays of the format, indices included."""
        return sum(int(array.nbytes) for array in self.storage.addressed)

    def __len__(self) -> int:
        if not self.order:
            raise TypeError(f"{self.name} is a scalar and has no length")
        return int(self.storage.shape[0])

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def __iter__(self) -> Iterator[Self]:
        return (self._selected(n) for n in range(len(self)))

    # Elements by number

    def _selected(self, subscript: object) -> Self:
        """The elements that NumPy's subscripts name."""
        return self._over(select(self.storage, subscript, self.name))

    def _put(self, subscript: object, value: object) -> None:
        """Write elements in place; only stored ones have a place."""
        values = self.storage.values
        if not getattr(values, "flags", None) or not values.flags.writeable:
            raise FormatError(
                f"{self.name} is read-only, on a GPU, or has coordinates among its values",
                code="E406",
                hint='A.to(A.format.with_layout("AoS")) has them apart',
            )
        plain = value.to_numpy() if isinstance(value, Arraylike) else value
        if not assign(self.storage, subscript, plain, self.name):
            raise FormatError(
                f"{self.name} has no place for some of these elements: {self.format!r} stores "
                f"{self.nnz} of {self.size}",
                code="E406",
                hint="make a tensor that has them: A + ow.tensor((coords, values), shape=A.shape)",
            )

    # Operators: each builds a statement, compiles it once, and runs it

    def _operand(self, other: object) -> Any:
        """`other` as a tensor, or NotImplemented where Python should try something else."""
        if isinstance(other, Arraylike):
            return other
        return type(self).wrap(other) if _is_array(other) else NotImplemented

    def __matmul__(self, other: object) -> Self:
        if type(other) is np.ndarray:
            again = matmul_again(self, other)
            if again is not None:
                return self.made(again)
        operand = self._operand(other)
        return operand if operand is NotImplemented else self.made(matmul(self, operand))

    def __rmatmul__(self, other: object) -> Self:
        operand = self._operand(other)
        return operand if operand is NotImplemented else self.made(matmul(operand, self))

    def _applied(self, op: Op, *args: Any) -> Self:
        return self.made(elementwise(operation(op), (self, *args)))

    def conj(self) -> Self:
        """The complex conjugate of each element."""
        return self._applied(ops.CONJ)

    conjugate = conj

    @property
    def real(self) -> Self:
        """The real part of each element."""
        return self._applied(ops.REAL)

    @property
    def imag(self) -> Self:
        """The imaginary part of each element."""
        return self._applied(ops.IMAG)

    def clip(self, min: Any = None, max: Any = None) -> Self:
        """The elements within bounds; what lies beyond one becomes the bound."""
        made = self
        for op, bound in ((ops.MAX, min), (ops.MIN, max)):
            if bound is not None:
                made = made._applied(op, bound)
        return made

    # SciPy's linear operators

    def dot(self, other: object) -> Any:
        """The product with a vector, a matrix or a number: `A @ B`, or `A * b`."""
        scales = self.order == 0 or isinstance(other, NUMBERS) or getattr(other, "ndim", 1) == 0
        return self * other if scales else self @ other

    def matvec(self, x: Any) -> Array:
        """The product with a NumPy vector, as a NumPy vector: for SciPy's solvers.

        >>> from openwork.tensor.create import tensor
        >>> tensor([[1.0, 2.0], [0.0, 3.0]], format="CSR").matvec(np.ones(2))
        array([3., 3.])
        """
        again = matmul_again(self, x) if type(x) is np.ndarray else None
        if again is not None and again.format.plain and again.format.ndim == 1:
            return again.storage.values
        return np.asarray((self @ x).to_numpy())

    def matmat(self, x: Any) -> Array:
        """The product with a NumPy matrix, as a NumPy matrix."""
        return np.asarray((self @ x).to_numpy())

    def rmatvec(self, x: Any) -> Array:
        """The product of the conjugate transpose with a NumPy vector."""
        if self._is_real:
            return self.T.matvec(x)
        return np.conj(self.T.matvec(np.conj(x)))

    rmatmat = rmatvec

    def adjoint(self) -> Self:
        """The conjugate transpose."""
        return self.T if self._is_real else self.T.conj()

    @property
    def _is_real(self) -> bool:
        return not isinstance(self.dtype, Entry) and self.dtype.kind != "c"

    @property
    def H(self) -> Self:
        """The conjugate transpose."""
        return self.adjoint()

    # Reductions

    def sum(
        self, axis: Axis = None, dtype: object = None, out: None = None, keepdims: bool = False
    ) -> Self:
        """The sum over one mode, several, or all of them; the result is dense.

        Small integers are added up in 64 bits, as NumPy does.

        Args:
            axis: the modes to sum over; negative ones count from the end.
            dtype: the element type to add up in.
            out: accepted from NumPy, which passes None.
            keepdims: whether these modes stay, with extent 1.

        >>> from openwork.tensor.create import tensor
        >>> tensor([[1.0, 2.0], [3.0, 4.0]]).sum(axis=0).to_numpy()
        array([4., 6.])
        """
        _without(out)
        return self.made(reduction("sum", self, axis, keepdims, dtype))

    def prod(
        self, axis: Axis = None, dtype: object = None, out: None = None, keepdims: bool = False
    ) -> Self:
        """The product over modes; one absent zero makes it zero, even beside NaN."""
        _without(out)
        return self.made(reduction("prod", self, axis, keepdims, dtype))

    def min(self, axis: Axis = None, out: None = None, keepdims: bool = False) -> Self:
        """The least element over modes, absent ones included."""
        _without(out)
        return self.made(reduction("min", self, axis, keepdims))

    def max(self, axis: Axis = None, out: None = None, keepdims: bool = False) -> Self:
        """The greatest element over modes, absent ones included.

        >>> from openwork.tensor.create import tensor
        >>> tensor([[-1, 0], [-2, -3]], format="CSR").max(axis=1).to_numpy()
        array([ 0, -2])
        """
        _without(out)
        return self.made(reduction("max", self, axis, keepdims))

    def any(self, axis: Axis = None, out: None = None, keepdims: bool = False) -> Self:
        """Whether some element over modes is not zero."""
        _without(out)
        return self.made(reduction("any", self, axis, keepdims))

    def all(self, axis: Axis = None, out: None = None, keepdims: bool = False) -> Self:
        """Whether no element over modes is zero."""
        _without(out)
        return self.made(reduction("all", self, axis, keepdims))

    def mean(
        self, axis: Axis = None, dtype: object = None, out: None = None, keepdims: bool = False
    ) -> Self:
        """The arithmetic mean over modes."""
        _without(out)
        return self.made(mean(self, axis, keepdims, dtype))

    def var(
        self,
        axis: Axis = None,
        dtype: object = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
    ) -> Self:
        """The variance over modes: the sum of squares is divided by `ddof` less than the count."""
        _without(out)
        given = self if dtype is None else self.astype(dtype)
        return self.made(variance(given, axis, keepdims, ddof))

    def std(
        self,
        axis: Axis = None,
        dtype: object = None,
        out: None = None,
        ddof: float = 0,
        keepdims: bool = False,
    ) -> Self:
        """The standard deviation over modes."""
        return self.var(axis, dtype, out, ddof, keepdims)._applied(ops.SQRT)

    def argmin(self, axis: int | None = None, out: None = None, keepdims: bool = False) -> Self:
        """The first coordinate of the least element, along a mode, or in row-major order."""
        _without(out)
        return self.made(arg_extreme(ops.MIN, self, axis, keepdims))

    def argmax(self, axis: int | None = None, out: None = None, keepdims: bool = False) -> Self:
        """The first coordinate of the greatest element, along a mode, or in row-major order."""
        _without(out)
        return self.made(arg_extreme(ops.MAX, self, axis, keepdims))

    # Shapes

    def _over(self, storage: Storage) -> Self:
        return self if storage is self._storage else self.of(storage)

    def astype(self, dtype: object) -> Self:
        """The tensor with elements of another type; the index arrays are shared."""
        wanted = as_stored(dtype)
        if wanted == self.dtype:
            return self
        return self.of(self.storage.astype(wanted), self._name)

    @property
    def T(self) -> Self:
        """The tensor with its modes reversed; the arrays are shared."""
        return self.transpose()

    @property
    def mT(self) -> Self:
        """The tensor with its last two modes swapped; the arrays are shared."""
        return self.swapaxes(-1, -2)

    def _turned(self, modes: tuple[int, ...]) -> Self:
        storage = self._arrays
        if storage is None:
            facts = replace(self._facts, format=self.format.permuted(modes))
            shape = tuple(self._shape[mode] for mode in modes)
            return type(self)(f"{self._name}_T", shape, facts)
        return type(self).of(permute(storage, modes), f"{self._name}_T")

    def transpose(self, *axes: Any) -> Self:
        """The tensor with its modes in the order `axes`, by default reversed; nothing is copied.

        >>> from openwork.tensor.create import tensor
        >>> tensor([[1, 2, 3]], format="CSR", name="A").T
        <Tensor A_T: 3x1 int64, ow.CSC, 3 stored>
        """
        given = axes[0] if len(axes) == 1 else axes or None
        order = range(self.order)[::-1] if given is None else given
        modes = check_axes(list(order), self.order, self._name)
        if len(modes) != self.order:
            raise ShapeError(f"{self._name} has {self.order} modes, axes are {given}", code="E204")
        return self._turned(modes)

    def swapaxes(self, first: int, second: int) -> Self:
        """The tensor with two modes swapped; nothing is copied."""
        (one,), (two,) = (check_axes(a, self.order, self._name) for a in (first, second))
        modes = list(range(self.order))
        modes[one], modes[two] = two, one
        return self._turned(tuple(modes))

    def reshape(self, *shape: Any) -> Self:
        """The elements in row-major order in another shape; one extent may be -1.

        >>> from openwork.tensor.create import tensor
        >>> tensor([[0, 3], [4, 0]], format="CSR", name="A").reshape(4, 1).shape
        (4, 1)
        """
        wanted = shape[0] if len(shape) == 1 else shape
        return self._over(reshaped(self.storage, wanted, self._name))

    def ravel(self) -> Self:
        """All elements in row-major order, as a vector."""
        return self.reshape(-1)

    def flatten(self) -> Self:
        """A copy of all elements in row-major order, as a vector."""
        return self.of(self.reshape(-1).storage.copy())

    def squeeze(self, axis: Axis = None) -> Self:
        """The tensor without modes of extent 1: all of them, or those of `axis`."""
        shape = self.storage.shape
        every = tuple(mode for mode, extent in enumerate(shape) if extent == 1)
        axes = every if axis is None else check_axes(axis, self.order, self._name)
        if not set(axes) <= set(every):
            raise ShapeError(f"{self._name} of shape {shape} cannot lose modes {axes}", code="E204")
        return self._over(without_modes(self.storage, axes))

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Self:
        """The elements whose coordinates in two modes are `offset` apart.

        >>> from openwork.tensor.create import tensor
        >>> tensor([[1, 2], [0, 4]], format="CSR").diagonal().to_numpy()
        array([1, 4])
        """
        axes = check_axes((axis1, axis2), self.order, self._name)
        return self._over(diagonal(self.storage, offset, axes, self._name))

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: object = None) -> Self:
        """The sum of the diagonal."""
        return self.diagonal(offset, axis1, axis2).sum(-1, dtype)

    def nonzero(self) -> tuple[Array, ...]:
        """The coordinates of all elements that are not zero, an array for each mode."""
        coords, values = (self != 0).to_coo()  # type: ignore[attr-defined]
        coords = coords[:, values]
        if self.fill:
            coords = np.stack(np.nonzero(self.to_numpy()))
        order = np.lexsort(coords[::-1]) if len(coords) else slice(None)
        return tuple(column.astype(np.int64) for column in coords[:, order])

    def prune(self, tol: float = 0.0) -> Self:
        """The tensor without stored entries within `tol` of its fill; a dense one is unchanged.

        >>> from openwork.tensor.create import tensor
        >>> tensor(([[0], [1]], [0.0]), shape=(2, 2)).prune().nnz
        0
        """
        return self._over(without_fill(self.storage, tol))

    # Methods that NumPy has as functions, too, which find ours

    def round(self, decimals: int = 0) -> Self:
        """Elements rounded to so many decimals, halves to even digits."""
        made: Self = FUNCTIONS[np.round](self, decimals)
        return made

    __round__ = round

    def __divmod__(self, other: Any) -> tuple[Self, Self]:
        return self // other, self % other

    def cumsum(self, axis: int | None = None, dtype: object = None) -> Self:
        """The sum of all elements up to each, along a mode or in row-major order; dense."""
        made: Self = FUNCTIONS[np.cumsum](self, axis, dtype)
        return made

    def cumprod(self, axis: int | None = None, dtype: object = None) -> Self:
        """The product of all elements up to each, along a mode or in row-major order; dense."""
        made: Self = FUNCTIONS[np.cumprod](self, axis, dtype)
        return made

    def take(self, indices: Any, axis: int | None = None) -> Self:
        """The elements at these places along a mode, or in row-major order."""
        made: Self = FUNCTIONS[np.take](self, indices, axis)
        return made

    def repeat(self, repeats: Any, axis: int | None = None) -> Self:
        """Every element so many times in a row, along a mode or in row-major order."""
        made: Self = FUNCTIONS[np.repeat](self, repeats, axis)
        return made

    def count_nonzero(self, axis: Axis = None) -> Any:
        """How many elements are not zero, stored zeros left out."""
        return FUNCTIONS[np.count_nonzero](self, axis)

    def tolist(self) -> Any:
        """All elements as nested lists of Python's numbers."""
        return self.to_numpy().tolist()

    # SciPy's names

    def toarray(self) -> Array:
        """The tensor as a NumPy array: SciPy's name of `to_numpy`."""
        return self.to_numpy()

    todense = toarray

    def multiply(self, other: Any) -> Any:
        """The product element by element: SciPy's name of `*`."""
        return self * other

    def power(self, exponent: Any) -> Any:
        """The elements to a power: SciPy's name of `**`."""
        return self**exponent

    if not TYPE_CHECKING:  # it would let every name pass

        def __getattr__(self, name: str) -> Any:
            """Names of other libraries that are none of ours are told with what to write."""
            instead = ELSEWHERE.get(name)
            tail = f"; write {instead}" if instead else ""
            raise AttributeError(f"a Tensor has no attribute {name!r}{tail}", name=name, obj=self)

    # Scalars

    def item(self) -> Number | tuple[float, ...]:
        """The value of a tensor of one element, as a Python number; a tuple of those of a record.

        >>> from openwork.tensor.create import tensor
        >>> tensor([1.0, 2.5]).sum().item()
        3.5
        """
        if self.size != 1:
            told = f"{self.name} has {self.size} elements and is not one number"
            raise ShapeError(told, code="E204")
        if self.order:
            return self.reshape(()).item()
        value: Number | tuple[float, ...] = self.storage.elements.item()
        if isinstance(self.dtype, Complex) and isinstance(value, tuple):
            return complex(*value)
        return value

    def _number(self) -> Any:
        """The number that a tensor without modes stands for."""
        if self.order:
            told = f"{self.name} has {self.order} modes and is not one number"
            raise ShapeError(told, code="E204", hint="of one element: A.item()")
        return self.item()

    def __float__(self) -> float:
        return float(self._number())  # Python refuses complex numbers itself

    def __int__(self) -> int:
        return int(self._number())

    def __index__(self) -> int:
        if self.order or self.dtype.kind not in "iu":
            raise TypeError(f"{self.name} is not one integer, which an index must be")
        return int(self)

    def __complex__(self) -> complex:
        return complex(self._number())

    def __bool__(self) -> bool:
        if self.order:
            raise ParseError(
                f"{self.name} has no truth value",
                code="E112",
                hint="compare whole tensors with A.equals(B); A == B compares their elements",
            )
        value = self.item()
        return any(value) if isinstance(value, tuple) else bool(value)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and not self.order else format(str(self), spec)

    # NumPy's protocols

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        """The array that NumPy uses; SciPy calls it for operands that are not its matrices."""
        if not self.format.is_dense:
            raise IsSparse(
                f"{self.name} is sparse and is not made dense implicitly: call .to_numpy() for an "
                "array, .to_scipy() for a SciPy matrix, or ow.tensor(...) for the other operand"
            )
        return np.array(self.to_numpy(), dtype=dtype, copy=copy)

    @property
    def flags(self) -> Any:
        """How the array of a dense tensor lies in memory, as in NumPy."""
        return np.asarray(self).flags

    __array_priority__ = 20.0  # SciPy leaves `matrix * tensor` to us

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The functions of the array API standard, as a module."""
        space = import_module("openwork.array_api")
        if api_version not in (None, *space.VERSIONS):
            raise ValueError(f"{api_version!r} is none of {', '.join(space.VERSIONS)}")
        return space

    def to_device(self, device: str, /, *, stream: object = None) -> Self:
        """The tensor on `"cpu"` or `"cuda"`: the standard's name of `to`."""
        return self.to(device)  # type: ignore[attr-defined,no-any-return]

    def __array_ufunc__(  # type: ignore[override]  # terms have none
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **more: Any
    ) -> Any:
        """NumPy's universal functions, by our operators: `np.sqrt(A)`, `np.add(A, B)`."""
        made: Any = NotImplemented
        wanted = more.pop("dtype", None)
        if more.get("where", False) is True:
            more.pop("where")
        if method == "reduce" and ufunc in _REDUCING:
            axis = more.pop("axis", 0)
            made = FUNCTIONS[getattr(np, _REDUCING[ufunc])](self, axis, wanted, **more)
        elif method == "accumulate" and ufunc in _RUNNING:
            made = FUNCTIONS[_RUNNING[ufunc]](inputs[0], more.pop("axis", 0), wanted)
        elif method in ("__call__", "outer") and not more:
            given: Sequence[Any] = (
                inputs if method == "__call__" else _crossed(*map(self._operand, inputs))
            )
            if wanted is not None:
                given = [self._operand(each).astype(wanted) for each in given]
            made = self._called(ufunc, given)
        if made is NotImplemented or out is None:
            return made
        (place,) = out
        if isinstance(place, Arraylike) and not place.format.plain:
            return NotImplemented
        np.copyto(np.asarray(place), made.to_numpy(), casting="same_kind")
        return place

    def _called(self, ufunc: np.ufunc, inputs: Sequence[Any]) -> Any:
        """A universal function of operands: by an operator, or of dense tensors by NumPy."""
        if ufunc is np.matmul:
            left, right = inputs
            return left @ right if isinstance(left, Arraylike) else right.__rmatmul__(left)
        if ufunc in UFUNCS and not (UFUNCS[ufunc].real and self._all_dense(inputs)):
            return self.__openwork_apply__(UFUNCS[ufunc], inputs)
        if ufunc in FUNCTIONS:
            return FUNCTIONS[ufunc](*inputs)
        if not self._all_dense(inputs):
            raise ParseError(
                f"np.{ufunc.__name__} is not an operator of sparse tensors",
                code="E112",
                hint="ow.operator defines one; there are "
                + ", ".join(sorted(each.__name__ for each in UFUNCS)),
            )
        arrays = [np.asarray(each) for each in inputs]
        result = ufunc(*arrays)
        return self.wrap(result) if not isinstance(result, tuple) else result

    @staticmethod
    def _all_dense(inputs: Sequence[Any]) -> bool:
        """Whether NumPy could compute with these operands itself."""
        return all(
            each.format.is_dense if isinstance(each, Arraylike) else not sparse.issparse(each)
            for each in inputs
        )

    def __array_function__(
        self, function: Any, types: Sequence[type], args: Any, kwargs: Any
    ) -> Any:
        """NumPy's functions: by one of ours, or with a dense tensor as `__array__`."""
        if function in FUNCTIONS:
            return FUNCTIONS[function](*args, **kwargs)
        if not all(issubclass(each, (Arraylike, np.ndarray)) for each in types):
            return NotImplemented
        try:
            return function.__wrapped__(*args, **kwargs)
        except IsSparse as error:
            raise TypeError(
                f"{function.__module__}.{function.__name__} has no form for sparse tensors; "
                "A.to_numpy() is a dense array for it, A.to_scipy() a matrix of SciPy's"
            ) from error


def _crossed(left: Any, right: Any) -> tuple[Any, Any]:
    """Two tensors shaped so that every element of one meets every element of the other."""
    return left.reshape((*left.shape, *[1] * right.order)), right


def _without(out: object) -> None:
    """Refuse a place for a reduction's result."""
    if out is not None:
        raise ParseError(
            "a reduction has no out=", code="E112", hint="y = A.sum(0), or a kernel's out="
        )


def _is_array(obj: object) -> bool:
    return (
        isinstance(obj, (list, tuple, np.ndarray, *NUMBERS))
        or sparse.issparse(obj)
        or hasattr(obj, "__array_interface__")
        or hasattr(obj, "__dlpack__")
        or library_of(obj) in ("pandas", "sparse")
    )
