"""Tensors as arguments of programs of patterns: their arrays, in the types that parameters have.

A sparse matrix fills several parameters: its values, or pairs, are the one that is named; arrays
that lengths refer to, and coordinates named `A_crd`, are taken from it where they are not given.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from openwork.errors import ShapeError
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.nodes import ArrayType, PairType, Signature
from openwork.skeletons.run.data import pairs
from openwork.tensor.tensor import Tensor


def unpacked(signature: Signature, data: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call, where tensors became arrays."""
    done = dict(data)
    for name, type in zip(signature.params, signature.types, strict=True):
        value = data.get(name)
        if not isinstance(value, Tensor):
            continue
        if value.format.is_dense:
            done[name] = value.to_numpy()
            continue
        rows = type.element if isinstance(type, ArrayType) else None
        storage = value.__openwork_place__().host().laid_out("AoS")
        last = storage.levels[-1]
        if len(storage.levels) != 2 or "crd" not in last or not isinstance(rows, ArrayType):
            raise ShapeError(
                f"{name} is stored as {value.format!r}, and its type is {type}", code="E202",
                hint="a matrix in ow.CSR or ow.LIL has such a type, packed or not",
            )  # fmt: skip
        record = isinstance(rows.element, PairType)
        done[name] = pairs(last["crd"], storage.values) if record else storage.values
        done.setdefault(f"{name}_crd", last["crd"])
        reads = [a for a in rows.length.atoms if isinstance(a, n.ToNat)]
        for a in reads:
            if isinstance(a.expr, n.At):
                found = last["pos"] if len(reads) == 2 else np.diff(last["pos"])
                done.setdefault(str(a.expr.array), found)
    return {name: value for name, value in done.items() if name in signature.params}
