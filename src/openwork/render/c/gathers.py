"""Sums along a sparse operand that gather from another, in masked vectors.

    for (p = begin; p < end; p++) sum += A[p] * x[crd[p]];
    =>
    for (p = begin; p < end; p += LANES) lanes += take(A + p) * gather(x, crd + p);   sum += lanes

`take` and `gather` leave lanes beyond the end at zero: a row shorter than a vector costs one
iteration, without a branch on its length. Compilers write such a loop with a scalar remainder, in
which short rows spend their time. Without masks there is one lane: the loop above.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

from openwork.program import nodes as p
from openwork.render.c.vector_helpers import MASKED
from openwork.render.c.writer import CWriter


@dataclass(frozen=True)
class Gathered:
    """What a loop sums up: products of loads, by the position and by a coordinate stored there."""

    name: p.Name  # the sum
    factors: tuple[p.Load, ...]
    coordinates: dict[p.Name, p.Load]
    var: p.Name

    @property
    def lanes(self) -> str:
        """The name of the sum of each lane."""
        return f"{self.name.name}_lanes"

    def begin(self, w: CWriter) -> list[str]:
        """Before the loop."""
        return [f"{w.use('masked', self.name.type)} {self.lanes} = {{0}};"]

    def step(self) -> str:
        """The number of positions in an iteration."""
        return f"LANES_masked_{self.name.type}"

    def pragma(self) -> str:
        """What a processor without masks is told."""
        return f"SUM_MASKED_{self.name.type}({self.lanes})"

    def body(self, w: CWriter, end: p.Expr) -> list[str]:
        """One iteration."""
        left = f"{self.var.name}_left"
        factors = [self._factor(load, left) for load in self.factors]
        return [
            f"const int64_t {left} = {w.text(end - self.var)};",
            f"{self.lanes} += {' * '.join(factors)};",
        ]

    def end(self) -> list[str]:
        """After the loop."""
        return [f"{self.name.name} += sum_masked_{self.name.type}({self.lanes});"]

    def _factor(self, load: p.Load, left: str) -> str:
        type, array, at = self.name.type, load.array.name, self.var.name
        if load.index == self.var:
            return f"take_{type}(&{array}[{at}], {left})"
        coordinates = self.coordinates[cast(p.Name, load.index)].array.name
        return f"gather_{type}({array}, &{coordinates}[{at}], {left})"


def gathered(s: p.For) -> Gathered | None:
    """What `s` sums up, if it can be in masked vectors."""
    body = s.body.body if isinstance(s.body, p.Block) else (s.body,)
    *declared, last = body
    if not s.simd or len(s.reductions) != 1 or s.unrolled or s.step is not None:
        return None
    match last:
        case p.Set(name=name, value=value, op=op) if op is not None and op.adds:
            factors = _factors(value)
        case _:
            return None
    if s.reductions[0].name != name or s.reductions[0].width or name.type not in MASKED:
        return None
    coordinates: dict[p.Name, p.Load] = {}
    for each in declared:
        match each:
            case p.Declare(name=coordinate, value=p.Load(array=array, index=index) as load):
                if index != s.var or array.type != "int32":
                    return None
                coordinates[coordinate] = load
            case p.Comment():
                continue
            case _:
                return None
    loads = [f for f in factors if isinstance(f, p.Load) and f.array.type == name.type]
    known = all(f.index == s.var or f.index in coordinates for f in loads)
    by_coordinate = any(f.index in coordinates for f in loads)
    plain = not any(f.array.vectors or f.array.name == name.name for f in loads)
    if len(loads) != len(factors) or not (known and by_coordinate and plain):
        return None
    return Gathered(name, tuple(loads), coordinates, s.var)


def _factors(value: p.Expr) -> list[p.Expr]:
    """The factors of a product."""
    if isinstance(value, p.Apply) and value.op.multiplies and value.op.definition is None:
        return [f for arg in value.args for f in _factors(arg)]
    return [value]
