"""Tensors: named arrays in a format, and all that users call on them.

Most methods are a line over a function of operands, under NumPy's or SciPy's name. An assignment to
an access, `y[i] = ...`, is lazy. The tensor records it, and runs it once, when the tensor is read.
A kernel that writes to the tensor supersedes it. Operands are read when it runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from html import escape
from importlib import import_module
from math import prod
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from scipy import sparse

from openwork.algebra import operators as ops
from openwork.algebra.encodings import as_stored
from openwork.algebra.entries import Complex, Entry
from openwork.algebra.operators import Op
from openwork.algebra.overloads import Overloaded
from openwork.algebra.types import Number
from openwork.errors import FormatError, InternalError, ParseError, ShapeError, UserError
from openwork.format.formats import Format, as_format
from openwork.index.checks import check, wrong_order
from openwork.index.einstein import explicit
from openwork.index.nodes import Access, Apply, Assignment, Expr
from openwork.index.terms import Single, Term, any_terms, applied, as_expr, as_variable, element
from openwork.runtime.gpu.cuda import DeviceStorage
from openwork.runtime.storage import Array, Storage, as_complex
from openwork.tensor.arithmetic import matmul, matmul_again
from openwork.tensor.convert.convert import convert
from openwork.tensor.convert.pack import to_numbers, unpack
from openwork.tensor.draw.cells import MOST_CELLS
from openwork.tensor.draw.html import tensor_html
from openwork.tensor.draw.svg import draw_svg
from openwork.tensor.draw.text import draw, summary
from openwork.tensor.eager import KERNELS, assign, mean_once_more, method_of_two, once_more
from openwork.tensor.elementwise import ARGUMENTS, NUMBERS, elementwise, operation, operators
from openwork.tensor.exchange.elsewhere import instead_of_attribute
from openwork.tensor.exchange.export import to_array, to_coo, to_cupy, to_scipy, to_torch
from openwork.tensor.exchange.facts import Facts, facts_of
from openwork.tensor.exchange.interop import Wish, fitted, from_levels, storage_from
from openwork.tensor.exchange.libraries import library_of, to_networkx, to_pandas, to_pydata
from openwork.tensor.exchange.numpy_functions import FUNCTIONS, IsSparse
from openwork.tensor.exchange.records import contracted, expanded
from openwork.tensor.operand import Operand, auto_name
from openwork.tensor.rearrange.broadcast import check_axes, permute, squeeze as without_modes
from openwork.tensor.rearrange.index import assign as put, select, window
from openwork.tensor.rearrange.shape import diagonal, reshaped, without_fill
from openwork.tensor.recorded import Record, Recorded, compute
from openwork.tensor.reductions import Axis, arg_extreme, mean, reduction, trace, variance
from openwork.tensor.statement import Statement
from openwork.tensor.ufuncs import by_function, by_ufunc, function_once_more


class Tensor(Overloaded["Tensor"], Operand):
    """A tensor: shape, element type, format, and the arrays of the format.

    Created by `ow.tensor`, `ow.empty`, `ow.placeholder` and `ow.read`, and by computing. Indexing
    it with index variables gives an access for index notation, `A[i, j]`; assigning to an access
    records a statement, which `y.statement` returns, and which the first read of `y` computes.

    >>> from openwork.tensor.create import tensor
    >>> tensor([[1.0, 0.0], [0.0, 2.0]], format="CSR", name="A")
    <Tensor A: 2x2 float64, ow.CSR, 2 stored>
    """

    _recorded: Recorded | None = None

    @classmethod
    def of(cls, storage: Storage, name: str | None = None) -> Self:
        """A tensor over `storage`, whose arrays are trusted."""
        called = auto_name() if name is None else name
        return cls(called, storage.shape, facts_of(storage), storage)

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
        storage = self._storage
        usual = type(storage) is Storage and len(storage.shape) == 1 and storage.format.plain
        if storage is not None and usual and not isinstance(storage.dtype, Entry):
            return storage.values  # most often asked for, between calls of kernels
        return to_numbers(self._host)

    # Index notation

    def __getitem__(self, index: Any) -> Any:
        """`A[i, j]` with index variables is an expression; with numbers, elements as in NumPy.

        >>> from openwork.tensor.create import tensor
        >>> A = tensor([[0, 3, 0], [4, 0, 5]], format="CSR", name="A")
        >>> A[1, 2].item(), A[:, ::2].to_numpy().tolist(), A[[1, 1]].nnz
        (5, [[0, 0], [4, 5]], 4)
        """
        storage = self._storage
        if storage is not None and self._shape:
            found = window(type(self), storage, index)
            if found is not None:
                return found
        variables = index if isinstance(index, tuple) else (index,)
        if not (variables or self.order):
            return Single(self.__openwork_access__(()))
        if any_terms(variables):
            return Term(self._element(variables))
        return self._selected(index)

    def _element(self, coordinates: Sequence[object]) -> Expr:
        """`A[i, j]`, or an element at other coordinates: `A[i + 1, 0]`."""
        if len(coordinates) == self.order:
            found = element(self.tensor_var, coordinates)
            if found is not None:
                return found
        return self.__openwork_access__(coordinates)

    def __openwork_access__(self, variables: Sequence[object]) -> Access:
        """`A[i, j]`; checks the number and kind of the indices."""
        given = tuple(v for v in map(as_variable, variables) if v is not None)
        if len(given) != len(variables):
            raise ParseError(
                f"{self.name} can only be indexed with index variables",
                code="E112",
                hint='i, j = ow.indices("i j"); then A[i, j]. For elements: A.to_numpy()[...]',
            )
        if len(given) != self.order:
            raise ParseError(
                wrong_order(self.tensor_var, len(given)),
                code="E104",
                hint=f"write {self.name}[{', '.join('ijklmnop'[: self.order]) or '()'}]",
            )
        return Access(self.tensor_var, given)

    def __setitem__(self, index: Any, value: Any) -> None:
        variables = index if isinstance(index, tuple) else (index,)
        if (variables or self.order) and not any_terms(variables):
            if isinstance(value, Single):
                value = np.asarray(value)
            if not any_terms((value,)):
                return self._put(index, value)
        lhs = self.__openwork_access__(variables)
        rhs = as_expr(value)
        # Python turns `y[i] += e` into `y[i] = y[i] + e`.
        if isinstance(rhs, Apply) and rhs.op.associates and rhs.args[0] == lhs:
            self._record(Record(lhs.vars, rhs.args[1], rhs.op))
        else:
            self._record(Record(lhs.vars, rhs, None))

    # Recorded statements

    @property
    def statement(self) -> Statement[Tensor]:
        """The statement that the last `y[i] = ...` recorded."""
        if self._recorded is None:
            raise ParseError(
                f"nothing has been assigned to {self.name}",
                code="E102",
                hint=f"write {self.name}[i] = ... first, with index variables",
            )
        return Statement(self._assignment(self._recorded.records[-1]))

    def _record(self, record: Record) -> None:
        """Record an assignment, which the first read of the tensor computes."""
        recorded = self._recorded
        if recorded is None or self._storage is not None:
            recorded = Recorded((), self._storage)
        self._recorded, self._storage = recorded.then(record), None

    @property
    def _arrays(self) -> Storage | None:
        """The arrays, computed if a statement is recorded; None if the tensor has no data."""
        if self._waits:
            compute(self)
        return self._storage

    @property
    def _waits(self) -> bool:
        return self._storage is None and self._recorded is not None

    def __openwork_place__(self) -> Storage:
        """The arrays that a kernel overwrites: recorded statements need not run first."""
        if self._waits and self._recorded is not None and self._recorded.before is not None:
            return self._recorded.before
        return self.storage

    def __openwork_before__(self, written: Assignment) -> Storage:
        """The arrays that `written`, which accumulates into this tensor, starts from.

        They are the tensor's contents; but the kernel of a recorded statement starts from those
        before it.
        """
        recorded = self._recorded
        if recorded is None or recorded.before is None or not self._waits:
            return self.storage
        *earlier, newest = recorded.records
        if newest.op is None or explicit(check(self._assignment(newest))) != written:
            return self.storage
        if earlier:
            sooner = self._like(None)
            sooner._recorded = Recorded(tuple(earlier), recorded.before)
            recorded = self._recorded = Recorded((newest,), sooner.storage)
        return recorded.before or self.storage

    def __openwork_blank__(self, assignment: Assignment) -> Self:
        """This tensor as the result of a pickled statement.

        It has arrays only if the statement accumulates into them.
        """
        if assignment.op is None or (self._storage is None and self._recorded is None):
            return self._like(None)
        return self._like(self.__openwork_before__(explicit(check(assignment))))

    def __openwork_store__(self, storage: Storage) -> None:
        """Replace the arrays, and what is recorded, by a kernel's result."""
        facts = self.facts
        if storage.format != facts.format or storage.dtype != facts.dtype:
            raise InternalError(f"{self.name} was given a result in {storage.format!r}")
        self._storage, self._shape = storage, storage.shape
        if self._recorded is not None:
            self._recorded = Recorded(self._recorded.records[-1:], None)

    def _assignment(self, record: Record) -> Assignment:
        return record.assignment(self.tensor_var)

    def _like(self, storage: Storage | None) -> Self:
        """A tensor like this one over other arrays."""
        return type(self)(self._name, self._shape, self._facts, storage)

    def _run(self) -> None:
        """Run what is recorded; concurrent threads compute the same."""
        recorded = self._recorded
        if recorded is None or self._storage is not None:
            return
        storage = recorded.result(self.tensor_var, self._like)
        if storage is not None:
            self.__openwork_store__(storage)

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
        return (self[n] for n in range(len(self)))

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
        plain = value.to_numpy() if isinstance(value, Tensor) else value
        if not put(self.storage, subscript, plain, self.name):
            raise FormatError(
                f"{self.name} has no place for some of these elements: {self.format!r} stores "
                f"{self.nnz} of {self.size}",
                code="E406",
                hint="make a tensor that has them: A + ow.tensor((coords, values), shape=A.shape)",
            )

    # Operators: each builds a statement, compiles it once, and runs it

    def _operand(self, other: object) -> Any:
        """`other` as a tensor, or NotImplemented where Python should try something else."""
        if isinstance(other, Tensor):
            return other
        return type(self).wrap(other) if _is_array(other) else NotImplemented

    def __matmul__(self, other: object) -> Self:
        if isinstance(other, (np.ndarray, Tensor)):
            again = matmul_again(type(self), self, other)
            if again is not None:
                return again
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

    def __openwork_apply__(self, op: Op, args: Sequence[object]) -> Any:
        """`op` element by element; NotImplemented where Python should try something else."""
        again = KERNELS.again(type(self), operation(op), args)
        if again is not None:
            return again
        if not all([isinstance(arg, ARGUMENTS) for arg in args]):
            if any_terms(args):
                return applied(op, *args)
            args = [arg if isinstance(arg, ARGUMENTS) else self._operand(arg) for arg in args]
            if any(arg is NotImplemented for arg in args):
                return NotImplemented
        made = self.made(elementwise(operation(op), args))
        if op.compares and not made.format.is_dense and made.device == "cpu":
            return made.prune()  # what does not hold is not stored
        return made

    def equals(self, other: object) -> bool:
        """Whether `other` has the same shape and values, whatever its format and element type.

        A NaN is not equal to itself, as in `numpy.array_equal`.

        >>> from openwork.tensor.create import tensor
        >>> A = tensor([[0, 3], [4, 0]], format="CSR")
        >>> A.equals(A.to("COO(2)")), A.equals([[0, 3], [4, 5]])
        (True, False)
        """
        operand = other if isinstance(other, Tensor) else type(self).wrap(other)
        if self.storage.shape != operand.storage.shape:
            return False
        differing: Storage = (self != operand)._host
        if differing.format.is_dense:
            return not differing.values.any()
        _, values = unpack(differing)
        if differing.fill and values.size < prod(differing.shape):
            return False
        return not values.any()

    # SciPy's linear operators

    def dot(self, other: object) -> Any:
        """The product with a vector, a matrix or a number: `A @ B`, or `A * b`."""
        scales = self.order == 0 or isinstance(other, NUMBERS) or getattr(other, "ndim", 1) == 0
        return self * other if scales else self @ other

    def matvec(self, x: Any) -> Array:
        """The product with a NumPy vector, as a NumPy vector: for SciPy's solvers.

        Both are complex where elements are `ow.entry.complex`.

        >>> from openwork.tensor.create import tensor
        >>> tensor([[1.0, 2.0], [0.0, 3.0]], format="CSR").matvec(np.ones(2))
        array([3., 3.])
        """
        if isinstance(self.dtype, Complex) and isinstance(x, np.ndarray):
            plain = self.wrap(x.astype(np.result_type(x, "complex64"), copy=False))
            product = self @ plain.astype(self.dtype)
            return np.asarray(product.astype(as_complex(cast(Complex, product.dtype))).to_numpy())
        column = type(x) is np.ndarray and x.ndim == 2 and x.shape[1] == 1
        if column:  # as SciPy multiplies by a block, one after the other
            x = x[:, 0]
        again = matmul_again(type(self), self, x) if type(x) is np.ndarray else None
        storage = None if again is None else again._storage
        if storage is not None and storage.alike and storage.format.order in ((0,), (0, 1)):
            made: Array = storage.values.reshape(storage.shape)
        else:
            made = np.asarray((self @ x).to_numpy())
        return made[:, None] if column else made

    matmat = matvec

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
        return self._reduced("sum", axis, out, keepdims, dtype)

    def prod(
        self, axis: Axis = None, dtype: object = None, out: None = None, keepdims: bool = False
    ) -> Self:
        """The product over modes; one absent zero makes it zero, even beside NaN."""
        return self._reduced("prod", axis, out, keepdims, dtype)

    def min(self, axis: Axis = None, out: None = None, keepdims: bool = False) -> Self:
        """The least element over modes, absent ones included."""
        return self._reduced("min", axis, out, keepdims)

    def max(self, axis: Axis = None, out: None = None, keepdims: bool = False) -> Self:
        """The greatest element over modes, absent ones included.

        >>> from openwork.tensor.create import tensor
        >>> tensor([[-1, 0], [-2, -3]], format="CSR").max(axis=1).to_numpy()
        array([ 0, -2])
        """
        return self._reduced("max", axis, out, keepdims)

    def any(self, axis: Axis = None, out: None = None, keepdims: bool = False) -> Self:
        """Whether some element over modes is not zero."""
        return self._reduced("any", axis, out, keepdims)

    def all(self, axis: Axis = None, out: None = None, keepdims: bool = False) -> Self:
        """Whether no element over modes is zero."""
        return self._reduced("all", axis, out, keepdims)

    def mean(
        self, axis: Axis = None, dtype: object = None, out: None = None, keepdims: bool = False
    ) -> Self:
        """The arithmetic mean over modes."""
        if dtype is None and not keepdims and type(axis) in _ONE_AXIS:
            again = mean_once_more(self, axis)  # type: ignore[arg-type]
            if again is not None and out is None:
                return again
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

    def _reduced(
        self, name: str, axis: Axis, out: object, keepdims: bool, dtype: object = None
    ) -> Self:
        if dtype is None and out is None and not keepdims and type(axis) in _ONE_AXIS:
            again = once_more((name, axis, None), self)
            if again is not None:
                return again
        _without(out)
        return self.made(reduction(name, self, axis, keepdims, dtype))

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
        storage = self._storage
        turned = None if storage is None else storage.permuted.get(_REVERSED[len(self._shape)])
        if turned is None:
            return self._turned(_REVERSED[len(self._shape)])
        made = object.__new__(type(self))  # in less time than by the constructor
        made._name, made._shape = f"{self._name}_T", turned.shape
        made._facts, made._storage = self._facts.reversed, turned
        return made

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

    def transpose(self, *given: Any, axes: Any = None) -> Self:
        """The tensor with its modes in the order `axes`, by default reversed; nothing is copied.

        >>> from openwork.tensor.create import tensor
        >>> tensor([[1, 2, 3]], format="CSR", name="A").T
        <Tensor A_T: 3x1 int64, ow.CSC, 3 stored>
        """
        wanted = given[0] if len(given) == 1 and not isinstance(given[0], int) else given or axes
        order = range(self.order)[::-1] if wanted is None else wanted
        modes = check_axes(list(order), self.order, self._name)
        if len(modes) != self.order:
            raise ShapeError(f"{self._name} has {self.order} modes, axes are {wanted}", code="E204")
        return self._turned(modes)

    def swapaxes(self, axis1: int, axis2: int) -> Self:
        """The tensor with two modes swapped; nothing is copied."""
        (one,), (two,) = (check_axes(a, self.order, self._name) for a in (axis1, axis2))
        modes = list(range(self.order))
        modes[one], modes[two] = two, one
        return self._turned(tuple(modes))

    def reshape(self, *shape: Any, order: str = "C") -> Self:
        """The elements in row-major order in another shape; one extent may be -1.

        Args:
            *shape: the extents.
            order: with `"F"` the first mode runs fastest, in both shapes.

        >>> from openwork.tensor.create import tensor
        >>> tensor([[0, 3], [4, 0]], format="CSR", name="A").reshape(4, 1).shape
        (4, 1)
        """
        wanted = shape[0] if len(shape) == 1 else shape
        if order == "F":
            turned = tuple(wanted)[::-1] if np.ndim(wanted) else wanted
            return self.T.reshape(turned).T
        return self._over(reshaped(self.storage, wanted, self._name))

    def ravel(self, order: str = "C") -> Self:
        """All elements in row-major order, as a vector; by columns with `order="F"`."""
        return self.reshape(-1, order=order)

    def flatten(self, order: str = "C") -> Self:
        """A copy of all elements in row-major order, as a vector."""
        return self.of(self.reshape(-1, order=order).storage.copy())

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
        if offset == 0 and axis1 == 0 and axis2 == 1 and dtype is None:
            again = once_more("trace", self)
            if again is not None:
                return again
        simple = (offset, axis1, axis2) == (0, 0, 1) and dtype is None and not self.fill
        if simple and self.order == 2 and len(set(self.shape)) == 1 and self.device == "cpu":
            return self.made(trace(self))
        return self.diagonal(offset, axis1, axis2).sum(-1, dtype)

    def nonzero(self) -> tuple[Array, ...]:
        """The coordinates of all elements that are not zero, an array for each mode."""
        coords, values = (self != 0).to_coo()
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

    def argsort(self, axis: int | None = -1, kind: str | None = None) -> Self:
        """The coordinates that put the elements in ascending order, always a stable one; dense."""
        made: Self = FUNCTIONS[np.argsort](self, axis, kind)
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
            told = f"a Tensor has no attribute {name!r}{instead_of_attribute(name)}"
            raise AttributeError(told, name=name, obj=self)

    # Scalars

    def item(self, *place: Any) -> Number | tuple[float, ...]:
        """The value of a tensor of one element, as a Python number; a tuple of those of a record.

        Args:
            *place: of which element, if there are several: its coordinates, or its place in
                row-major order.

        >>> from openwork.tensor.create import tensor
        >>> tensor([1.0, 2.5]).sum().item()
        3.5
        """
        storage = self._storage
        if not place and storage is not None and storage.alike and storage.values.size == 1:
            number: Number = storage.values.item()
            return number
        if place and self.order:
            place = place[0] if type(place[0]) is tuple else place
            chosen = self if len(place) == self.order else self.ravel()
            only: Self = chosen[place]
            return only.item()
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
        number: Any = self._number() if self._shape else self.item()
        return float(number)  # Python refuses complex numbers itself

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
                hint="compare whole tensors with A.equals(B); A == B compares their elements, "
                "and A.max() or A.any() reduces them",
            )
        value = self.item()
        return any(value) if isinstance(value, tuple) else bool(value)

    def __format__(self, spec: str) -> str:
        return format(self.item(), spec) if spec and not self.order else format(str(self), spec)

    # Arguments of kernels

    def __openwork_coerce__(self, obj: object) -> Self:
        """`obj` as a kernel argument for this tensor.

        Converts only where that is cheap and exact: never to a dense format, nor to a narrower
        type.
        """
        if isinstance(obj, type(self)) and obj._facts == self._facts:
            return obj
        if isinstance(obj, type(self)):
            return type(self).of(fitted(obj.storage, self._facts, self._name), obj.name)
        # A foreign matrix has no fill yet: it gets this tensor's.
        fill = None if self.format.is_dense else self.fill
        wish = Wish(self._name, fill=fill, share=True)
        storage = storage_from(obj, wish)
        return type(self).of(fitted(storage, self._facts, self._name), self._name)

    # Conversion

    def to(self, format: Format | str) -> Self:
        """The tensor in another format, or on `"cuda"` or `"cpu"`; itself if nothing changes.

        >>> from openwork.tensor.create import tensor
        >>> tensor([[0, 3], [0, 0]], name="A").to("CSC")
        <Tensor A: 2x2 int64, ow.CSC, 1 stored>
        """
        if format in ("cuda", "cpu"):
            return self._moved(to_gpu=format == "cuda")
        wanted = as_format(format, self.order)
        if wanted == self.format:
            return self
        return type(self).of(convert(self.storage, wanted, assign=assign), self._name)

    def _moved(self, to_gpu: bool) -> Self:
        storage = self.storage
        if isinstance(storage, DeviceStorage) == to_gpu:
            return self
        return type(self).of(DeviceStorage.of(storage) if to_gpu else self._host, self._name)

    def expand(self) -> Self:
        """The real tensor of one whose elements are records.

        Each element of a matrix becomes its real matrix: 4x4 for a quaternion, r x c for a block.
        Each element of a vector becomes its numbers. So `(A @ x).expand()` is
        `A.expand() @ x.expand()`.
        """
        return type(self).of(expanded(self._host, self._name))

    def __openwork_contract__(self, entry: Entry) -> Self:
        """The tensor of elements of `entry` that this one is the expansion of."""
        return type(self).of(contracted(self._host, entry, self._name))

    def copy(self) -> Self:
        """A deep copy; `copy.copy` and `copy.deepcopy` return one, too."""
        storage = self._arrays
        return self._like(None if storage is None else storage.copy())

    __copy__ = copy

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.copy()

    def to_scipy(self, *, share: bool = False) -> Any:
        """A matrix as a SciPy array: CSR, CSC, BSR and DIA keep their format, others become COO.

        Args:
            share: share the arrays of CSR, CSC and BSR instead of copying. Changing them in place,
                as `eliminate_zeros` does, breaks the tensor, and all that share its pattern.

        Raises:
            FormatError: E404 for tensors that are not matrices, or whose absent entries are not 0.
        """
        return to_scipy(self._host, self._name, share)

    def to_coo(self) -> tuple[Array, Array]:
        """The coordinates, of shape (order, nnz), and the values of all stored entries.

        >>> from openwork.tensor.create import tensor
        >>> coords, values = tensor([[0, 3], [4, 0]], format="CSR").to_coo()
        >>> coords.tolist(), values.tolist()
        ([[0, 1], [1, 0]], [3, 4])
        """
        return to_coo(self._host)

    def to_cupy(self, *, share: bool = False) -> Any:
        """The tensor as a CuPy array, or as a CuPy CSR or CSC matrix.

        An array shares the tensor's memory on the GPU; a matrix does with `share`, and then
        neither may be changed.

        Raises:
            FormatError: E404 for what CuPy cannot hold.
        """
        return to_cupy(self.storage, self._name, share)

    def to_torch(self, *, share: bool = False) -> Any:
        """The tensor as a torch tensor, on the same device.

        Dense tensors become strided ones, which share their memory; CSR, CSC and BSR keep their
        format, other sparse ones become COO. On a GPU only CSR and CSC are supported. Sparse
        tensors share their memory with `share`, and then neither may be changed.

        Raises:
            FormatError: E404 for what torch cannot hold.
        """
        return to_torch(self.storage, self._name, share)

    def to_pydata(self) -> Any:
        """The tensor as a `sparse.COO` of PyData/sparse, with its fill."""
        return to_pydata(self._host)

    def to_pandas(self) -> Any:
        """A matrix as a pandas frame of sparse columns, a vector as a sparse series."""
        return to_pandas(self._host, self._name)

    def to_networkx(self, *, directed: bool = True) -> Any:
        """A square matrix as a networkx graph: an edge for each entry, its value as weight."""
        return to_networkx(self._host, self._name, directed)

    def rename(self, name: str | None = None) -> Self:
        """Rename the tensor, by default to a new name; returns the tensor."""
        self._name = auto_name() if name is None else name
        return self

    # Python's and NumPy's protocols

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
        """How the array of a dense tensor lies in memory, as in NumPy; sparse ones have none."""
        return self._shared("flags").flags

    __array_priority__ = 20.0  # SciPy leaves `matrix * tensor` to us
    __pandas_priority__ = 5000  # and pandas `frame * tensor`: its frames have 4000

    def __array_namespace__(self, *, api_version: str | None = None) -> Any:
        """The functions of the array API standard, as a module."""
        space = import_module("openwork.array_api")
        if api_version not in (None, *space.VERSIONS):
            raise ValueError(f"{api_version!r} is none of {', '.join(space.VERSIONS)}")
        return space

    def to_device(self, device: str, /, *, stream: object = None) -> Self:
        """The tensor on `"cpu"` or `"cuda"`: the standard's name of `to`."""
        return self.to(device)

    def __array_ufunc__(  # type: ignore[override]  # terms have none
        self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **more: Any
    ) -> Any:
        """NumPy's universal functions, by our operators: `np.sqrt(A)`, `np.add(A, B)`."""
        if method == "__call__" and out is None and not more:
            again = function_once_more(ufunc, inputs)
            if again is not None:
                return again
        return by_ufunc(self, ufunc, method, inputs, out, more)

    def __array_function__(
        self, function: Any, types: Sequence[type], args: Any, kwargs: Any
    ) -> Any:
        """NumPy's functions: by one of ours, or with a dense tensor as `__array__`."""
        return by_function(function, types, args, kwargs)

    def _shared(self, protocol: str) -> Any:
        """The array of a dense tensor, for a protocol; sparse tensors do not support it."""
        if not self.format.is_dense or self._arrays is None:
            raise AttributeError(f"{self.name} is sparse or has no data yet: no {protocol}")
        return to_array(self.storage)

    @property
    def __dlpack__(self) -> Callable[..., Any]:
        """Called by `torch.from_dlpack`, `cupy.from_dlpack` and `numpy.from_dlpack`."""
        method: Callable[..., Any] = self._shared("__dlpack__").__dlpack__
        return method

    @property
    def __dlpack_device__(self) -> Callable[[], Any]:
        """Where the memory is, in DLPack's numbers."""
        method: Callable[[], Any] = self._shared("__dlpack_device__").__dlpack_device__
        return method

    @property
    def __cuda_array_interface__(self) -> Any:
        """The memory of an array on a GPU, for CuPy, Numba and torch."""
        if self.device != "cuda":
            raise AttributeError(f"{self.name} is not on a GPU")
        return self._shared("__cuda_array_interface__").__cuda_array_interface__

    def __reduce__(self) -> tuple[Any, ...]:
        s = None if self._arrays is None else self._host
        arrays = None if s is None else (s.levels, s.elements, self.device)
        return _rebuilt, (self._name, self._shape, self._facts, arrays)

    def draw(self, format: str = "text") -> str:
        """The arrays of each level, as text, or as a picture: `draw("svg")`.

        >>> from openwork.tensor.create import tensor
        >>> print(tensor([0, 7, 0, 8], format="Compressed", name="x").draw())
        x: 4 int64, ow.CSF(1), 2 stored
          type      ([int32]_pos[1], [int64]_pos[1])
          level 0: Compressed, mode 0, extent 4
            pos     0 2
            crd     1 3 |
          values    7 8 |
        """
        if format not in ("text", "svg"):
            raise FormatError(f"cannot draw as {format!r}", code="E401", hint='"text" or "svg"')
        return (draw if format == "text" else draw_svg)(self._host, self._name)

    @property
    def _seen(self) -> tuple[Storage | None, str]:
        """The arrays, or why there are none: displaying a tensor never raises."""
        try:
            return self._arrays, "no data"
        except UserError as error:
            return None, f"not computed: {error.code}: {error.message}"

    def _repr_html_(self) -> str:
        """Facts, a picture of the pattern, and how long rows are, for notebooks."""
        storage, _ = self._seen
        if storage is None:
            return f"<code>{escape(repr(self))}</code>"
        return tensor_html(storage, self.name, self._repr_svg_() or "")

    def __call__(self, *indices: Any) -> Any:
        """The product with an array, as SciPy's `lobpcg` calls operators.

        Other libraries ask whether what they are given can be called. Then pandas and xarray call
        it with their object, for the value that it stands for, and dask takes the arguments
        `(A, value, dtype)` of a function for a call.
        """
        if len(indices) == 1 and type(indices[0]) is np.ndarray:
            return self.matmat(indices[0])
        if len(indices) == 1 and isinstance(indices[0], Tensor):
            return self @ indices[0]
        if len(indices) == 1 and library_of(indices[0]) in ("pandas", "xarray"):
            return np.asarray(self) if library_of(indices[0]) == "pandas" else self
        if len(indices) == 2 and isinstance(indices[1], np.dtype):
            return (self, *indices)
        raise ParseError(
            f"{self.name} is not called",
            code="E112",
            hint=f"{self.name}[i, j] in Python; {self.name}(i,j) stands in text: ow.parse(...)",
        )

    def _repr_svg_(self) -> str | None:
        """The drawing, for notebooks; None for tensors that are too large for one."""
        storage, _ = self._seen
        small = storage is not None and storage.places <= MOST_CELLS
        if small and storage is not None:  # few entries may be in very many rows
            small = sum(each.size for each in storage.addressed) <= 8 * MOST_CELLS
        return self.draw("svg") if small else None

    def __repr__(self) -> str:
        storage, why = self._seen
        if storage is None:
            size = "x".join("?" if n is None else str(n) for n in self._shape) or "scalar"
            return f"<Tensor {self.name}: {size} {self.dtype}, {self.format!r}, {why}>"
        value = f" = {self.item()}" if not self.order else ""
        return f"<Tensor {self.name}: {summary(storage)}{value}>"


# Arrays like those of a call before need no more than its kernel.
_METHODS = {**operators(), "__matmul__": method_of_two("matmul", Tensor.__matmul__)}
for _name, _method in _METHODS.items():
    setattr(Tensor, _name, _method)
_ONE_AXIS = {int, type(None)}
_REVERSED = [tuple(range(order))[::-1] for order in range(65)]  # NumPy has no more


def _rebuilt(name: str, shape: tuple[int, ...], facts: Facts, arrays: Any) -> Tensor:
    """Unpickle a tensor."""
    if arrays is None:
        return Tensor(name, shape, facts)
    levels, values, device = arrays
    made = from_levels(facts.format, shape, levels, values, name, facts.fill)
    return Tensor.of(made.astype(facts.dtype), name).to(device)


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
        or library_of(obj) in ("pandas", "sparse", "networkx")
    )
