"""Relations between index variables, one a file: the history of a schedule.

A variable that tensors are indexed by is *underived*; a command replaces variables by new ones that
derive from them. Every variable has at most one relation above it, the one that made it.

    split(i, i0, i1, n)     i  = i0 * n + i1           i1 runs over n values
    divide(i, i0, i1, n)    i  = i0 * ceil(|i| / n) + i1, or from split points; i0 runs over n
      assign=stride         i  = i1 * n + i0           i0 runs over n
      assign=dynamic        i  = i1, one of those that i0 takes while it runs
    fuse(i, j, f)           f  = i * |j| + j
    pos(i, p, A[i])         p  the positions of A's level, in place of the coordinates
    coord(p, c)             c  the coordinates again
    bound(i, ib, n, kind)   ib = i, with a promise about where it begins or ends
    precompute(i, ip)       ip = i, in the loops that fill a workspace

A relation here has its variables, their names and the space they are in. What lowering needs is in
`program/lower/derived/relations/`, in a file of the same name.
"""

from openwork.loops.relations.bound import Bound, BoundType
from openwork.loops.relations.coord import Coord
from openwork.loops.relations.deal import Deal
from openwork.loops.relations.divide import Divide
from openwork.loops.relations.fuse import Fuse
from openwork.loops.relations.pos import Pos
from openwork.loops.relations.precompute import Precompute
from openwork.loops.relations.relation import Cut, Relation, Renaming
from openwork.loops.relations.split import Split
from openwork.loops.relations.stride import Stride

__all__ = [
    "Bound",
    "BoundType",
    "Coord",
    "Cut",
    "Deal",
    "Divide",
    "Fuse",
    "Pos",
    "Precompute",
    "Relation",
    "Renaming",
    "Split",
    "Stride",
]
