"""Openwork: sparse tensor algebra, compiled.

>>> import numpy as np, openwork as ow
>>> A = ow.tensor(np.eye(3), format=ow.CSR, name="A")
>>> x = ow.tensor(np.arange(3.0), name="x")
>>> (A @ x).to_numpy()
array([0., 1., 2.])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from openwork._version import __version__
from openwork.algebra.operators import (
    ADD,
    AND,
    BITWISE_AND,
    BITWISE_OR,
    BITWISE_XOR,
    MAX,
    MAX_PLUS,
    MAX_TIMES,
    MIN,
    MIN_PLUS,
    MUL,
    OR,
    OR_AND,
    PLUS_TIMES,
    XOR,
    Op,
    Semiring,
)
from openwork.errors import (
    DataError,
    FormatError,
    InternalError,
    OpenworkError,
    ParseError,
    ScheduleError,
    ShapeError,
    ToolchainError,
    UserError,
)
from openwork.format.formats import (
    BANDED as banded,
    BITMAP as bitmap,
    BSR,
    COO,
    CSB,
    CSC,
    CSF,
    CSR,
    DCSC,
    DCSR,
    DIA,
    ELL,
    LIL,
    SELL,
    Format,
    dense,
)
from openwork.format.levels import (
    Bitmap,
    Compressed,
    Dense,
    Diagonals,
    Hashed,
    Lengths,
    Level,
    Padded,
    Permuted,
    Range,
    Singleton,
    Sliced,
)
from openwork.index.build import (
    all,
    any,
    index,
    indices,
    max,
    min,
    operator,
    prod,
    reduce,
    semiring,
    sum,
)
from openwork.index.functions import (
    abs_,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    cast,
    ceil,
    conj,
    cos,
    eq,
    exp,
    floor,
    floor_divide,
    ge,
    gt,
    imag,
    invert,
    le,
    left_shift,
    log,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    lt,
    maximum,
    minimum,
    ne,
    pow,
    real,
    remainder,
    right_shift,
    select,
    sin,
    sqrt,
    tan,
    tanh,
)
from openwork.loops.nodes import OutputRaceStrategy, ParallelUnit
from openwork.loops.relations import BoundType
from openwork.recipes import atomic_parallel
from openwork.runtime.host.threads import set_num_threads, thread_count
from openwork.tensor import entry
from openwork.tensor.create import empty, from_arrays, placeholder, tensor
from openwork.tensor.functions.einsum import einsum
from openwork.tensor.kernel.kernel import Kernel
from openwork.tensor.statement import Statement, assign, parse
from openwork.tensor.tensor import Tensor

if TYPE_CHECKING:
    from openwork import tune
    from openwork.tensor.files import read, write

abs = abs_


def __getattr__(name: str) -> Any:
    """What is loaded when it is first used, to keep the import short: files, and the tuner."""
    if name == "tune":
        return import_module("openwork.tune")
    if name not in ("read", "write"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(import_module("openwork.tensor.files"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), "read", "tune", "write"})


__all__ = [
    "ADD",
    "AND",
    "BITWISE_AND",
    "BITWISE_OR",
    "BITWISE_XOR",
    "BSR",
    "COO",
    "CSB",
    "CSC",
    "CSF",
    "CSR",
    "DCSC",
    "DCSR",
    "DIA",
    "ELL",
    "LIL",
    "MAX",
    "MAX_PLUS",
    "MAX_TIMES",
    "MIN",
    "MIN_PLUS",
    "MUL",
    "OR",
    "OR_AND",
    "PLUS_TIMES",
    "SELL",
    "XOR",
    "Bitmap",
    "BoundType",
    "Compressed",
    "DataError",
    "Dense",
    "Diagonals",
    "Hashed",
    "Format",
    "FormatError",
    "InternalError",
    "Kernel",
    "Lengths",
    "Level",
    "Op",
    "OpenworkError",
    "OutputRaceStrategy",
    "Padded",
    "ParallelUnit",
    "ParseError",
    "Permuted",
    "Range",
    "ScheduleError",
    "Semiring",
    "ShapeError",
    "Singleton",
    "Sliced",
    "Statement",
    "Tensor",
    "ToolchainError",
    "UserError",
    "__version__",
    "abs",
    "abs_",
    "all",
    "any",
    "assign",
    "banded",
    "bitmap",
    "bitwise_and",
    "bitwise_or",
    "bitwise_xor",
    "atomic_parallel",
    "cast",
    "ceil",
    "conj",
    "entry",
    "cos",
    "dense",
    "einsum",
    "empty",
    "eq",
    "exp",
    "floor",
    "floor_divide",
    "from_arrays",
    "ge",
    "gt",
    "imag",
    "index",
    "indices",
    "invert",
    "le",
    "left_shift",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lt",
    "max",
    "maximum",
    "min",
    "minimum",
    "ne",
    "operator",
    "parse",
    "placeholder",
    "pow",
    "prod",
    "read",
    "real",
    "recipes",
    "reduce",
    "remainder",
    "right_shift",
    "select",
    "semiring",
    "set_num_threads",
    "sin",
    "sqrt",
    "sum",
    "tan",
    "tanh",
    "tensor",
    "thread_count",
    "tune",
    "write",
]
