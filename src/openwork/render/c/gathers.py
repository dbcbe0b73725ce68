"""Sums along a sparse operand that gather from another, in masked vectors.

    for (p = begin; p < end; p++) sum += A[p] * x[crd[p]];
    =>
    for (p = begin; p < whole; p += LANES) lanes += all(A + p) * gather_all(x, crd + p);
    if (whole < end) lanes += take(A + whole, left) * gather(x, crd + whole, left);
    sum += lanes

`take` and `gather` leave lanes beyond the end at zero: what does not fill a vector costs one
iteration, without a branch on its length. Compilers write such a loop with a scalar remainder, in
which short rows spend their time. Without masks there is one lane: the loop above.

Eight rows are summed up across lanes at once, which takes half the shuffles of one row after the
other, and no order of additions that depends on where a thread's rows begin or end:

    for (i = begin; i < end; i++) { sum = 0;  a loop as above;  y[i] = sum; }
    =>
    for (group = begin; group < end; group += 8) {
      for (row = 0; row < 8; row++) { i = group + row;  rows[row] = lanes of the loop, if i < end }
      sum_rows(rows, sums);
      for (row = 0; row < 8 && i < end; row++) { i = group + row;  sum = sums[row];  y[i] = sum; }
    }
"""

from __future__ import annotations

from typing import cast

from openwork.frozen import frozen
from openwork.program import nodes as p
from openwork.render.c.dialect import CTYPES
from openwork.render.c.vector_helpers import MASKED, ROWS
from openwork.render.c.writer import CWriter
from openwork.render.writer import indent
from openwork.tree import Node, walk


@frozen
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

    def loop(self, w: CWriter, begin: p.Expr, end: p.Expr) -> list[str]:
        """The lanes of a range of positions: whole vectors, then what is left."""
        var, type = self.var.name, self.name.type
        whole, left, step = f"{var}_whole", f"{var}_left", f"LANES_masked_{type}"
        all_of = " * ".join(self._factor(load) for load in self.factors)
        some = " * ".join(self._factor(load, left) for load in self.factors)
        number = w.text(end - begin)
        return [
            f"const int64_t {whole} = {w.text(end)} - (({number}) & ({step} - 1));",
            f"SUM_MASKED_{type}({self.lanes})",
            f"for (int64_t {var} = {w.text(begin)}; {var} < {whole}; {var} += {step}) {{",
            f"  {self.lanes} += {all_of};",
            "}",
            f"if ({w.text(p.compare('<', p.Name(whole), end))}) {{",
            f"  const int64_t {var} = {whole}, {left} = {w.text(end - self.var)};",
            f"  {self.lanes} += {some};",
            "}",
        ]

    def end(self) -> list[str]:
        """After the loop."""
        return [f"{self.name.name} += sum_masked_{self.name.type}({self.lanes});"]

    def _factor(self, load: p.Load, left: str = "") -> str:
        """A vector of a factor: of the entries that are `left`, or a whole one."""
        type, array, at = self.name.type, load.array.name, self.var.name
        if load.index == self.var:
            return f"take_{type}(&{array}[{at}], {left})" if left else f"all_{type}(&{array}[{at}])"
        coordinates = self.coordinates[cast(p.Name, load.index)].array.name
        if left:
            return f"gather_{type}({array}, &{coordinates}[{at}], {left})"
        return f"gather_all_{type}({array}, &{coordinates}[{at}])"


@frozen
class Rows:
    """A loop of which every iteration takes one such sum."""

    before: tuple[p.Declare, ...]
    along: p.For
    sums: Gathered
    after: tuple[p.Stmt, ...]

    def loop(self, w: CWriter, var: p.Name, begin: p.Expr, end: p.Expr) -> list[str]:
        """The loop over groups of rows; `var` is the row."""
        name, type = self.sums.name.name, self.sums.name.type
        group, row, rows, sums = (f"{var.name}_{n}" for n in ("group", "row", "rows", "sums"))
        along = self.along
        lanes = [
            *_used(w, self.before, (along,)),
            *self.sums.loop(w, along.begin, along.end),
        ]
        after = [
            f"const {CTYPES[type]} {name} = {sums}[{row}];",
            *_used(w, self.before, self.after),
            *(line for each in self.after for line in w.stmt(each)),
        ]
        inside = w.text(p.compare("<", p.Name(group) + p.Name(row), end))
        here = f"const int64_t {var.name} = {group} + {row};"
        start = f"int64_t {group} = {w.text(begin)}"
        more = w.text(p.compare("<", p.Name(group), end))
        return [
            f"for ({start}; {more}; {group} += {ROWS}) {{",
            f"  {w.use('masked', type)} {rows}[{ROWS}];",
            # Elements that are loaded one by one fill the ports alone: unrolled, gcc 13 takes three
            # times as long to compile 1 to 3 % slower code.
            "#ifndef SLOW_GATHERS",
            f"#pragma GCC unroll {ROWS}",
            "#endif",
            f"  for (int64_t {row} = 0; {row} < {ROWS}; {row}++) {{",
            *indent(indent(self.sums.begin(w))),
            f"    if ({inside}) {{",
            *indent(indent(indent([here, *lanes]))),
            "    }",
            f"    {rows}[{row}] = {self.sums.lanes};",
            "  }",
            f"  {CTYPES[type]} {sums}[{ROWS}];",
            f"  {w.use('sum_rows', type)}({rows}, {sums});",
            # Unrolled, with two conditions: rows of two to four entries took 1.2 to 1.4 times as
            # long where gcc 13 had a loop with a varying number of iterations instead.
            f"  for (int64_t {row} = 0; {row} < {ROWS} && {inside}; {row}++) {{",
            *indent(indent([here, *after])),
            "  }",
            "}",
        ]


def summed_rows(s: p.For) -> Rows | None:
    """`s` as a loop over rows, if each iteration takes one sum in masked vectors."""
    body = s.body.body if isinstance(s.body, p.Block) else (s.body,)
    found = [n for n, each in enumerate(body) if isinstance(each, p.For)]
    if s.simd or s.unrolled or s.step is not None or s.reductions or len(found) != 1:
        return None
    at = found[0]
    along, after = cast(p.For, body[at]), body[at + 1 :]
    sums = gathered(along)
    before = [each for each in body[:at] if not isinstance(each, p.Comment)]
    declared = [each for each in before if isinstance(each, p.Declare)]
    if sums is None or along.polls or len(declared) != len(before) or not declared:
        return None
    zero = declared.pop()
    plain = all(isinstance(each, (p.Store, p.Declare, p.Comment)) for each in after)
    blank = isinstance(zero.value, p.Value) and zero.value.value == 0 and zero.name == sums.name
    if not (plain and blank) or any(_names(each, sums.name) for each in declared):
        return None
    return Rows(tuple(declared), along, sums, after)


def _used(w: CWriter, declared: tuple[p.Declare, ...], by: tuple[p.Stmt, ...]) -> list[str]:
    """Those declarations that `by` needs, perhaps by way of others."""
    needed: list[p.Stmt] = list(by)
    for each in reversed(declared):
        if any(_names(user, each.name) for user in needed):
            needed.insert(0, each)
    return [line for each in declared if each in needed for line in w.stmt(each)]


def _names(node: Node, name: p.Name) -> bool:
    return any(each == name for each in walk(node))


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
