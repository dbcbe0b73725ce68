"""The tables of relations: a new relation is a line in each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from openwork.loops.relations import (
    Bound,
    Coord,
    Divide,
    Fuse,
    Pos,
    Precompute,
    Relation,
    Split,
    Stride,
)
from openwork.program.lower.derived.iterate import Loops
from openwork.program.lower.derived.recovery import Values
from openwork.program.lower.derived.relations.bound import BoundLoops, BoundValues
from openwork.program.lower.derived.relations.coord import CoordLoops, CoordValues
from openwork.program.lower.derived.relations.cut import CutLoops
from openwork.program.lower.derived.relations.divide import DivideValues
from openwork.program.lower.derived.relations.fuse import FuseLoops, FuseValues
from openwork.program.lower.derived.relations.pos import PosLoops, PosValues
from openwork.program.lower.derived.relations.precompute import SameLoops, SameValues
from openwork.program.lower.derived.relations.split import SplitValues

VALUES: Mapping[type[Relation], type[Values[Any]]] = {
    Split: SplitValues,
    Stride: SplitValues,
    Divide: DivideValues,
    Fuse: FuseValues,
    Pos: PosValues,
    Coord: CoordValues,
    Bound: BoundValues,
    Precompute: SameValues,
}
LOOPS: Mapping[type[Relation], type[Loops[Any]]] = {
    Split: CutLoops,
    Stride: CutLoops,
    Divide: CutLoops,
    Fuse: FuseLoops,
    Pos: PosLoops,
    Coord: CoordLoops,
    Bound: BoundLoops,
    Precompute: SameLoops,
}
