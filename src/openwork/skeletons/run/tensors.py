"""Tensors as arguments of programs of patterns: their arrays, in the types that parameters have.

A sparse tensor fills several parameters: its values, or pairs, are the one that is named; arrays
that lengths refer to, and coordinates named `A_crd`, are taken from it where they are not given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, cast

import numpy as np

from openwork.errors import PatternError, ShapeError
from openwork.format.formats import Format
from openwork.format.layouts import AOS
from openwork.format.levels.base import positions
from openwork.format.levels.width import index_dtype
from openwork.frozen import frozen
from openwork.skeletons.language.nodes import ArrayType, PairType, Scalar, Signature, Type
from openwork.skeletons.language.stored import Typed, same_shape, typed
from openwork.skeletons.run.data import pairs
from openwork.tensor.create import from_arrays
from openwork.tensor.tensor import Tensor

Pattern = tuple[str, bool]  # that of a tensor, by its name, or of its transpose


@frozen
class Origin:
    """What a program that was a statement knows of the tensors that it is called with.

    `extents`: naturals that a tensor's shape tells, by the parameter that it is given for.
    `formats`: how it is stored. The result is called `name`, and stored as `format`; its pattern is
    that of an operand, or `own`: that of all `operands` together.
    """

    extents: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    formats: Mapping[str, Format] = field(default_factory=dict)
    name: str = ""
    format: Format | None = None
    operands: tuple[Pattern, ...] = ()
    own: bool = False

    def naturals(self, data: Mapping[str, Any]) -> dict[str, int]:
        """The naturals that the shapes of tensors tell."""
        return {
            natural: extent
            for name, told in self.extents.items()
            if isinstance(data.get(name), Tensor)
            for natural, extent in zip(told, data[name].shape, strict=True)
        }

    def _given(self, data: Mapping[str, Any]) -> list[tuple[Tensor, bool]]:
        """The tensors whose entries make up the pattern, if all of them are given."""
        found = [(data.get(name), turned) for name, turned in self.operands]
        tensors = [(t, turned) for t, turned in found if isinstance(t, Tensor)]
        return tensors if len(tensors) == len(found) else []

    def with_pattern(self, data: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, and the coordinates of the result where it has a pattern of its own."""
        tensors = self._given(data)
        if not self.own or not tensors or self.format is None or f"{self.name}_crd" in data:
            return dict(data)
        pos, crd = _union(tensors, self.format)
        lengths = {f"{self.name}_pos": pos, f"{self.name}_len": np.diff(pos)}
        return {**data, f"{self.name}_crd": crd, **lengths}

    def made(self, values: Any, data: Mapping[str, Any]) -> Any:
        """The result as a tensor, if its pattern is that of tensors."""
        tensors, format = self._given(data), self.format
        if format is None or not tensors:
            return values
        pos, crd = _union(tensors, format) if self.own else _rows_of(tensors[0][0])
        flat = values if values.dtype.names is None else values["second"].copy()
        known = {"pos": pos, "len": np.diff(pos), "crd": crd}
        levels = [{f.name: known[f.name] for f in level.arrays} for level in format.levels]
        return from_arrays(format, _shape_of(*tensors[0]), levels, flat, name=self.name)


def _shape_of(tensor: Tensor, turned: bool) -> tuple[int, ...]:
    return tensor.shape[::-1] if turned else tensor.shape


def _union(tensors: list[tuple[Tensor, bool]], format: Format) -> tuple[Any, Any]:
    """The coordinates where any of some matrices has an entry: offsets of rows, and columns; the
    other way about where the format has columns first."""
    (run, inside), shape = format.order, _shape_of(*tensors[0])
    extent, places = max(shape[inside], 1), list[Any]()
    for tensor, turned in tensors:
        coords = tensor.to_coo()[0].astype(np.int64)
        each = coords[::-1] if turned else coords
        places.append(each[run] * extent + each[inside])
    found = np.unique(np.concatenate(places))
    counts = np.bincount(found // extent, minlength=shape[run])
    return positions(counts), (found % extent).astype(index_dtype(extent))


def _rows_of(tensor: Tensor) -> tuple[Any, Any]:
    """The offsets of a matrix's rows, and its columns, as they are stored."""
    last = tensor.__openwork_place__().host().laid_out(AOS).levels[-1]
    return last["pos"], last["crd"]


def unpacked(
    signature: Signature, data: Mapping[str, Any], formats: Mapping[str, Format]
) -> dict[str, Any]:
    """The arguments of a call, where tensors became arrays.

    `formats`: how they are stored, where the types alone do not say.
    """
    done = dict(data)
    for name, type in zip(signature.params, signature.types, strict=True):
        value = data.get(name)
        if not isinstance(value, Tensor):
            continue
        wanted = formats.get(name)
        if value.format.is_dense and (wanted is None or wanted.is_dense):
            done[name] = value.to_numpy()
            continue
        storage = value.__openwork_place__().host().laid_out(AOS)
        known, arrays = _filled(name, type, value, wanted)
        levels = {long: storage.levels[k][short] for long, (k, short) in known.sources.items()}
        stored = [run.stored for run in known.runs if run.stored]
        done[name] = storage.values
        if _has_pairs(type):
            last = levels[stored.pop()]
            whole = len(last) == storage.values.size
            done[name] = pairs(last, storage.values) if whole else (last, storage.values)
        for array in stored:
            done.setdefault(array, levels[array])
        for array in known.helpers:
            done.setdefault(arrays.get(array, array), levels[array])
    return {name: value for name, value in done.items() if name in signature.params}


def _filled(
    name: str, type: Type, value: Tensor, wanted: Format | None
) -> tuple[Typed, dict[str, str]]:
    """The type of a tensor's format, and what its arrays are called in a parameter's type.

    By its type a parameter is stored by rows, whose coordinates are stored or counted; `wanted` may
    say otherwise.
    """
    format, scalar = value.format.with_layout(AOS), _scalar_of(type)
    if str(value.dtype) != scalar:
        raise ShapeError(
            f"{name} holds {value.dtype}, and its type says {scalar}", code="E202",
            hint=f"{name}.astype({scalar!r})",
        )  # fmt: skip
    meant = wanted is not None and wanted.with_layout(AOS) == format
    try:
        known = typed(format, Scalar(str(value.dtype)), name, apart=meant)
    except PatternError:
        known = None
    arrays: dict[str, str] = {}
    if known is not None and (meant or (known.by_rows and _by_rows(name, wanted))):
        element = known.nested(known.value, len(known.runs), _has_pairs(type))
        if same_shape(element, type, arrays):
            return known, arrays
    raise ShapeError(
        f"{name} is stored as {value.format!r}, and its type is {type}", code="E202",
        hint="sk.type_of(format) is the type that a format has"
        if wanted is None else f"{name}.to({wanted!r}), for which the program was made",
    )  # fmt: skip


def _by_rows(name: str, wanted: Format | None) -> bool:
    """Whether the format that a program was made for is told by the parameter's type."""
    if wanted is None or wanted.is_dense:
        return True
    try:
        return typed(wanted.with_layout(AOS), Scalar("float64"), name).by_rows
    except PatternError:
        return False


def _scalar_of(type: Type) -> str:
    """The type of the numbers, behind coordinates."""
    while not isinstance(type, Scalar):
        type = type.element if isinstance(type, ArrayType) else cast(PairType, type).second
    return type.name


def _has_pairs(type: Type) -> bool:
    """Whether values lie beside their coordinates."""
    while isinstance(type, ArrayType):
        type = type.element
    return isinstance(type, PairType)
