"""Tensors: arrays in a format, with a name, that can be computed with."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Self

import numpy as np

from openwork.algebra.operators import Op
from openwork.algebra.types import DType, Number, as_dtype, number
from openwork.errors import InternalError, ParseError, ShapeError
from openwork.format.formats import Format, as_format
from openwork.index.checks import wrong_order
from openwork.index.nodes import Access, Apply, Assignment, Expr, IndexVar, TensorVar, as_expr
from openwork.runtime.storage import Array, Storage
from openwork.tensor.arithmetic import Arithmetic, Signature
from openwork.tensor.broadcast import check_axes, permute
from openwork.tensor.draw import draw, summary
from openwork.tensor.interop import Wish, storage_from, to_scipy
from openwork.tensor.pack import cast_values, convert, to_dense, unpack
from openwork.tensor.statement import Statement

_numbers = count(1)


def auto_name() -> str:
    """A name that no other tensor has been given: T1, T2, ..."""
    return f"T{next(_numbers)}"


class Tensor(Arithmetic):
    """A tensor: shape, element type, format, and the arrays that the format asks for.

    Made by `ow.tensor`, `ow.empty`, `ow.placeholder` and `ow.read`, and by computing. Indexing it
    with index variables gives an access for index notation, `A[i, j]`; assigning to an access
    records a statement, which `y.statement` returns.

    >>> from openwork.tensor.create import tensor
    >>> tensor([[1.0, 0.0], [0.0, 2.0]], format="CSR", name="A")
    <Tensor A: 2x2 float64, ow.CSR, 2 stored>
    """

    def __init__(
        self,
        name: str | None,
        shape: Sequence[int | None],
        facts: Signature,
        storage: Storage | None = None,
    ) -> None:
        self._name = auto_name() if name is None else name
        self._shape = tuple(shape)
        self._facts = facts
        self._storage = storage
        self._assigned: tuple[tuple[IndexVar, ...], Expr, Op | None] | None = None

    @classmethod
    def of(cls, storage: Storage, name: str | None = None) -> Self:
        """A tensor around `storage`, whose arrays are trusted."""
        return cls(name, storage.shape, _facts_of(storage), storage)

    @classmethod
    def wrap(cls, obj: object, dtype: DType | None = None) -> Self:
        """A foreign array or number as a tensor, without a copy where that is possible."""
        name = auto_name()
        return cls.of(storage_from(obj, Wish(name, dtype=dtype)), name)

    @classmethod
    def hollow(
        cls, name: str, signature: Signature, shape: Sequence[int | None] | None = None
    ) -> Self:
        """A tensor without data; extents that are not known are None."""
        return cls(name, (None,) * signature[0].ndim if shape is None else shape, signature)

    # Facts

    @property
    def name(self) -> str:
        """What statements, kernels and messages call the tensor."""
        return self._name

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extent of each mode; None where a placeholder leaves it open."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._facts[1]

    @property
    def format(self) -> Format:
        """How the tensor is stored."""
        return self._facts[0]

    @property
    def fill(self) -> Number:
        """The value of absent entries."""
        return _plain(self._facts[2])

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
    def storage(self) -> Storage:
        """The arrays."""
        if self._storage is None:
            raise ShapeError(
                f"{self.name} is a placeholder and has no data",
                code="E203",
                hint=f"give it to the kernel: kernel({self.name}=...)",
            )
        return self._storage

    @property
    def signature(self) -> Signature:
        """What a kernel depends on: format, element type, and the value of absent entries."""
        return self._facts

    @property
    def var(self) -> TensorVar:
        """The tensor as expressions see it.

        Made anew each time, as one that the tensor kept would be a cycle and hold the arrays.
        """
        format, dtype, _ = self._facts
        return TensorVar(self._name, format, dtype, self.fill, self._shape, source=self)

    # Index notation

    def __getitem__(self, index: object) -> Access:
        variables = index if isinstance(index, tuple) else (index,)
        return self.__openwork_access__(variables)

    def __openwork_access__(self, variables: Sequence[object]) -> Access:
        """`A[i, j]`; the order and kind of the indices is checked here."""
        given = tuple(v for v in variables if isinstance(v, IndexVar))
        if len(given) != len(variables):
            raise ParseError(
                f"{self.name} can only be indexed with index variables",
                code="E112",
                hint='i, j = ow.indices("i j"); then A[i, j]. For elements: A.to_numpy()[...]',
            )
        if len(given) != self.order:
            raise ParseError(
                wrong_order(self.var, len(given)),
                code="E104",
                hint=f"write {self.name}[{', '.join('ijklmnop'[: self.order]) or '()'}]",
            )
        return Access(self.var, given)

    def __setitem__(self, index: object, value: object) -> None:
        lhs = self[index]
        rhs = as_expr(value)
        # `y[i] += e` reaches us as `y[i] = y[i] + e`.
        if isinstance(rhs, Apply) and rhs.op.associates and rhs.args[0] == lhs:
            self._assigned = (lhs.vars, rhs.args[1], rhs.op)
        else:
            self._assigned = (lhs.vars, rhs, None)

    @property
    def statement(self) -> Statement:
        """The statement that the last `y[i] = ...` recorded."""
        if self._assigned is None:
            raise ParseError(
                f"nothing has been assigned to {self.name}",
                code="E102",
                hint=f"write {self.name}[i] = ... first, with index variables",
            )
        variables, rhs, op = self._assigned
        return Statement(Assignment(Access(self.var, variables), rhs, op))

    # What statements and kernels ask of the tensors behind them

    def __openwork_result__(self, storage: Storage) -> Self:
        """A new tensor of this name around a kernel's result."""
        return type(self).of(storage, self._name)

    def __openwork_store__(self, storage: Storage) -> None:
        """Take a kernel's result in place of the present arrays."""
        if storage.format != self.format or storage.dtype != self.dtype:
            raise InternalError(f"{self.name} was given a result in {storage.format!r}")
        self._storage = storage
        self._shape = storage.shape

    def __openwork_coerce__(self, obj: object) -> Self:
        """`obj` as a kernel argument in this tensor's place.

        Converted where nobody is surprised: never to a dense format, nor to a narrower type.
        """
        if isinstance(obj, type(self)) and obj._facts == self._facts:
            return obj
        made = obj if isinstance(obj, type(self)) else self._foreign(obj)
        problem = self._misfit(made)
        if problem is not None:
            raise ShapeError(
                f"{self.name} was compiled as {self.format!r} of {self.dtype}: {problem}",
                code="E202",
                hint="convert the argument with .to(format) or .astype(dtype), or compile for it",
            )
        return type(self).of(cast_values(convert(made.storage, self.format), self.dtype), made.name)

    def _foreign(self, obj: object) -> Self:
        """A foreign argument, its absent entries read as this tensor's."""
        fill = None if self.format.is_dense else self.fill
        return type(self).of(storage_from(obj, Wish(self._name, fill=fill)), self._name)

    def _misfit(self, other: Self) -> str | None:
        """Why `other` cannot stand in for this tensor, or None."""
        if other.order != self.order:
            return f"the argument has {other.order} modes, not {self.order}"
        if self.format.is_dense and not other.format.is_dense:
            return f"the argument is sparse, {other.format!r}"
        if not np.can_cast(other.dtype, self.dtype, "safe"):
            return f"the argument has elements of {other.dtype}"
        sparse = not (self.format.is_dense or other.format.is_dense)
        if sparse and _key(other.fill) != _key(self.fill):
            return f"absent entries of the argument are {other.fill}, not {self.fill}"
        return None

    # Conversion

    def to(self, format: Format | str) -> Self:
        """The tensor in another format; itself when it is in that format already.

        >>> from openwork.tensor.create import tensor
        >>> tensor([[0, 3], [0, 0]], name="A").to("CSC")
        <Tensor A: 2x2 int64, ow.CSC, 1 stored>
        """
        wanted = as_format(format)
        if wanted == self.format:
            return self
        return type(self).of(convert(self.storage, wanted), self._name)

    def astype(self, dtype: object) -> Self:
        """The tensor with elements of another type; the index arrays are shared."""
        wanted = as_dtype(dtype)
        if wanted == self.dtype:
            return self
        return type(self).of(cast_values(self.storage, wanted), self._name)

    def copy(self) -> Self:
        """A tensor with arrays of its own."""
        old = self.storage
        levels = tuple({k: a.copy() for k, a in arrays.items()} for arrays in old.levels)
        values = old.values.copy()
        new = Storage(old.shape, old.format, old.dtype, levels, values, old.fill)
        return type(self).of(new, self._name)

    def to_numpy(self) -> Array:
        """The tensor as a NumPy array; a dense tensor shares its memory with it."""
        return to_dense(self.storage)

    def to_scipy(self) -> Any:
        """A matrix as a SciPy array: CSR and CSC share their arrays, other formats become COO.

        Raises:
            FormatError: E404 for tensors that are no matrices, or whose absent entries are not 0.
        """
        return to_scipy(self.storage, self._name)

    def to_coo(self) -> tuple[Array, Array]:
        """The coordinates, of shape (order, nnz), and the values of all stored entries.

        >>> from openwork.tensor.create import tensor
        >>> coords, values = tensor([[0, 3], [4, 0]], format="CSR").to_coo()
        >>> coords.tolist(), values.tolist()
        ([[0, 1], [1, 0]], [3, 4])
        """
        return unpack(self.storage)

    @property
    def T(self) -> Self:
        """The tensor with its modes reversed; the arrays are shared."""
        return self.transpose()

    def transpose(self, axes: Sequence[int] | None = None) -> Self:
        """The tensor with its modes in the order `axes`, reversed if left out; no array is moved.

        >>> from openwork.tensor.create import tensor
        >>> tensor([[1, 2, 3]], format="CSR", name="A").T
        <Tensor A_T: 3x1 int64, ow.CSC, 3 stored>
        """
        order = range(self.order)[::-1] if axes is None else axes
        modes = check_axes(list(order), self.order, self._name)
        if len(modes) != self.order:
            raise ShapeError(f"{self._name} has {self.order} modes, axes are {axes}", code="E204")
        if self._storage is None:
            facts = (self.format.permuted(modes), *self._facts[1:])
            shape = tuple(self._shape[mode] for mode in modes)
            return type(self)(f"{self._name}_T", shape, facts)
        return type(self).of(permute(self._storage, modes), f"{self._name}_T")

    def rename(self, name: str | None = None) -> Self:
        """Give the tensor another name, a new one of its own if left out; returns the tensor."""
        self._name = auto_name() if name is None else name
        return self

    # Python's and NumPy's protocols

    def item(self) -> Number:
        """The value of a tensor without modes, as a Python number.

        >>> from openwork.tensor.create import tensor
        >>> tensor([1.0, 2.5]).sum().item()
        3.5
        """
        if self.order:
            raise ShapeError(
                f"{self.name} has {self.order} modes and is not one number", code="E204"
            )
        return _plain(self.storage.values.item())

    def __float__(self) -> float:
        value = self.item()
        return float(value)  # type: ignore[arg-type]  # Python refuses complex numbers itself

    def __int__(self) -> int:
        return int(self.item())  # type: ignore[arg-type]

    def __complex__(self) -> complex:
        return complex(self.item())

    def __bool__(self) -> bool:
        if self.order:
            raise ParseError(
                f"{self.name} has no truth value",
                code="E112",
                hint="compare entries: (A.to_numpy() == B.to_numpy()).all()",
            )
        return bool(self.item())

    __iter__ = None  # indexing is for index variables, so there is nothing to walk over

    @property
    def __array__(self) -> Callable[..., Array]:
        """What NumPy calls to get an array.

        SciPy's operators ask NumPy for one before they would let `matrix @ tensor` come to us.
        They give way to objects that have none to offer, so to them we are such an object.
        """
        asking = sys._getframe(1)
        module = str(asking.f_globals.get("__name__", ""))
        if module.startswith("scipy.sparse") and asking.f_code.co_name != "__init__":
            raise AttributeError("__array__")
        return self._as_array

    def _as_array(self, dtype: Any = None, copy: bool | None = None) -> Array:
        if not self.format.is_dense:
            raise TypeError(
                f"{self.name} is sparse and is not made dense unasked; call .to_numpy() for that"
            )
        return np.array(self.to_numpy(), dtype=dtype, copy=copy)

    def __reduce__(self) -> tuple[Any, ...]:
        s = self._storage
        arrays = None if s is None else (s.levels, s.values)
        return _rebuilt, (self._name, self._shape, self._facts, arrays)

    def draw(self) -> str:
        """What the arrays of each level hold, as text.

        >>> from openwork.tensor.create import tensor
        >>> print(tensor([0, 7, 0, 8], format="Compressed", name="x").draw())
        x: 4 int64, ow.CSF(1), 2 stored
          level 0: Compressed, mode 0, extent 4
            pos     0 2
            crd     1 3 |
          values    7 8 |
        """
        return draw(self.storage, self._name)

    def __repr__(self) -> str:
        if self._storage is None:
            size = "x".join("?" if n is None else str(n) for n in self._shape) or "scalar"
            return f"<Tensor {self.name}: {size} {self.dtype}, {self.format!r}, no data>"
        value = f" = {self.item()}" if not self.order else ""
        return f"<Tensor {self.name}: {summary(self._storage)}{value}>"


def _facts_of(storage: Storage) -> Signature:
    return storage.format, storage.dtype, _key(storage.fill)


def _key(fill: Number) -> object:
    """A fill that equals itself, which a NaN does not; it tells kernels apart."""
    return fill if fill == fill else "nan"


def _plain(fill: object) -> Number:
    return fill if isinstance(fill, bool | int | float | complex) else float("nan")


def signature_of(format: Format, dtype: DType, fill: Number) -> Signature:
    """The facts of a tensor that is yet to be made."""
    return format, dtype, _key(number(fill, dtype))


def _rebuilt(name: str, shape: tuple[int, ...], facts: Signature, arrays: Any) -> Tensor:
    """A tensor from what `__reduce__` gave away."""
    if arrays is None:
        return Tensor(name, shape, facts)
    format, dtype, fill = facts
    return Tensor.of(Storage(shape, format, dtype, arrays[0], arrays[1], _plain(fill)), name)
