"""NumPy's functions of tensors: by our operators, by what is registered, or by NumPy if dense."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from functools import lru_cache
from inspect import Parameter, signature
from typing import Any

import numpy as np
from scipy import sparse

from openwork.algebra.operators import UFUNCS
from openwork.errors import ParseError
from openwork.runtime.memory import allocate
from openwork.tensor.eager import once_more
from openwork.tensor.elementwise import operation
from openwork.tensor.exchange.numpy_functions import FUNCTIONS, IsSparse
from openwork.tensor.operand import Operand
from openwork.tensor.rearrange.shape import of_array
from openwork.tensor.reductions import REDUCTIONS

# What reduces by an operator, as in `np.add.reduce`.
_REDUCING = {
    ufunc: name for ufunc, op in UFUNCS.items() for name, each in REDUCTIONS.items() if each is op
}
# What accumulates by an operator, as in `np.add.accumulate`.
_RUNNING: dict[np.ufunc, Any] = {np.add: np.cumsum, np.multiply: np.cumprod}


# Universal functions of one array that are operators, also of dense tensors.
_FUNCTIONS: dict[np.ufunc, Hashable] = {
    ufunc: operation(op) for ufunc, op in UFUNCS.items() if ufunc.nin == 1 and not op.real
}


def function_once_more(ufunc: np.ufunc, inputs: Sequence[Any]) -> Any:
    """As `once_more`, of one of NumPy's universal functions."""
    what = _FUNCTIONS.get(ufunc)
    return None if what is None else once_more(what, inputs[0])


def by_ufunc(
    tensor: Any, ufunc: np.ufunc, method: str, inputs: Sequence[Any], out: Any, more: dict[str, Any]
) -> Any:
    """NumPy's universal functions, by our operators: `np.sqrt(A)`, `np.add(A, B)`."""
    if method == "__call__" and out is None and not more and ufunc in UFUNCS:
        op = UFUNCS[ufunc]
        if not (op.real and _all_dense(inputs)):
            return tensor.__openwork_apply__(op, inputs)
    made: Any = NotImplemented
    wanted = more.pop("dtype", None)
    if more.get("where", False) is True:
        more.pop("where")
    if method == "reduce" and ufunc in _REDUCING:
        axis = more.pop("axis", 0)
        made = FUNCTIONS[getattr(np, _REDUCING[ufunc])](tensor, axis, wanted, **more)
    elif method == "accumulate" and ufunc in _RUNNING:
        made = FUNCTIONS[_RUNNING[ufunc]](inputs[0], more.pop("axis", 0), wanted)
    elif method in ("__call__", "outer") and not more:
        given: Sequence[Any] = (
            inputs if method == "__call__" else _crossed(*map(tensor._operand, inputs))
        )
        if wanted is not None:
            given = [tensor._operand(each).astype(wanted) for each in given]
        made = _called(tensor, ufunc, given)
    if method == "__call__" and more:
        raise ParseError(
            f"np.{ufunc.__name__} of tensors has no {', '.join(f'{name}=' for name in more)}",
            code="E112",
            hint="np.where(mask, np.add(A, B), A) computes where a mask holds",
        )
    if made is NotImplemented or out is None:
        return made
    (place,) = out
    if isinstance(place, Operand) and not place.format.plain:
        return NotImplemented
    np.copyto(np.asarray(place), made.to_numpy(), casting="same_kind")
    return place


def _called(tensor: Any, ufunc: np.ufunc, inputs: Sequence[Any]) -> Any:
    """A universal function of operands: by an operator, or of dense tensors by NumPy."""
    if ufunc is np.matmul:
        left, right = inputs
        return left @ right if isinstance(left, Operand) else right.__rmatmul__(left)
    if ufunc in UFUNCS and not (UFUNCS[ufunc].real and _all_dense(inputs)):
        return tensor.__openwork_apply__(UFUNCS[ufunc], inputs)
    if ufunc in FUNCTIONS:
        return FUNCTIONS[ufunc](*inputs)
    if not _all_dense(inputs):
        raise ParseError(
            f"np.{ufunc.__name__} is not an operator of sparse tensors",
            code="E112",
            hint="ow.operator defines one; there are "
            + ", ".join(sorted(each.__name__ for each in UFUNCS)),
        )
    if len(inputs) == 1 and inputs[0].storage.alike:
        own = _in_place(ufunc, inputs[0])
        if own is not None:
            return own
    arrays = [np.asarray(each) for each in inputs]
    result = ufunc(*arrays)
    return tensor.wrap(result) if not isinstance(result, tuple) else result


def _in_place(ufunc: np.ufunc, tensor: Any) -> Any:
    """A function of an array that keeps its type, by NumPy: into memory as tensors have it, so
    that the result is not copied. None for other functions."""
    given: Any = tensor.to_numpy()
    char = given.dtype.char
    if ufunc.nout > 1 or f"{char}->{char}" not in ufunc.types:
        return None
    out = allocate(given.size, given.dtype).reshape(given.shape)
    return tensor.of(of_array(ufunc(given, out=out), tensor.storage))


def _all_dense(inputs: Sequence[Any]) -> bool:
    """Whether NumPy could compute with these operands itself."""
    return all(
        each.format.is_dense if isinstance(each, Operand) else not sparse.issparse(each)
        for each in inputs
    )


def by_function(function: Any, types: Sequence[type], args: Any, kwargs: Any) -> Any:
    """NumPy's functions: by one of ours, or with a dense tensor as `__array__`."""
    if function in FUNCTIONS:
        ours = FUNCTIONS[function]
        return ours(*args, **_named(function, ours, kwargs)) if kwargs else ours(*args)
    if not all(issubclass(each, (Operand, np.ndarray)) for each in types):
        return NotImplemented
    name = f"{function.__module__}.{function.__name__}"
    instead = "A.to_numpy() is a dense array for it, A.to_scipy() a matrix of SciPy's"
    if not hasattr(function, "__wrapped__"):  # of those with like=
        raise TypeError(f"{name} makes no tensors; ow.tensor({name}(...)) does")
    try:
        return function.__wrapped__(*args, **kwargs)
    except IsSparse as error:
        raise TypeError(f"{name} has no form for sparse tensors; {instead}") from error
    except AttributeError as error:
        if not isinstance(error.obj, Operand):
            raise
        raise TypeError(f"{name} has no form for tensors; {instead}") from error


# What says where an array lies, and in which order its new memory is: nothing of a tensor.
_OF_MEMORY = {
    **dict.fromkeys((np.zeros_like, np.ones_like, np.empty_like, np.full_like, np.copy), "order"),
    np.astype: "device",
}


def _named(function: Any, ours: Any, given: dict[str, Any]) -> dict[str, Any]:
    """Arguments by the names that `ours` has for them, without those that ask for nothing."""
    theirs, mine = _parameters(function), _parameters(ours)
    names = [name for name, each in mine.items() if each.kind is each.POSITIONAL_OR_KEYWORD]
    every = any(each.kind is each.VAR_KEYWORD for each in mine.values())
    found = {}
    for name, value in given.items():
        at = list(theirs).index(name) if name in theirs else len(names)
        if name in mine or every:
            found[name] = value
        elif at < len(names) and names[at] not in theirs:
            found[names[at]] = value
        elif _OF_MEMORY.get(function) != name and value is not theirs[name].default:
            called = f"{function.__module__}.{function.__name__}"
            raise ParseError(
                f"{called} of tensors has no {name}=",
                code="E112",
                hint=f"there are: {', '.join(names)}",
            )
    return found


@lru_cache(maxsize=512)
def _parameters(function: Any) -> Mapping[str, Parameter]:
    """The arguments of a function by their names."""
    return signature(function).parameters


def _crossed(left: Any, right: Any) -> tuple[Any, Any]:
    """Two tensors shaped so that every element of one meets every element of the other."""
    return left.reshape((*left.shape, *[1] * right.order)), right
