"""Arrays whose elements belong to threads: one thread makes all accesses to an element.

An element belongs to a thread if its index determines the iterations of the loops for warps and
threads around an access, by the same formula everywhere in a kernel:

    for t [thread]: w[t * 4 + u] = 0;   the owner of w[e] executes t = e / 4

No barrier is needed between such accesses.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from openwork.frozen import frozen
from openwork.program import nodes as p
from openwork.program.effects import independent
from openwork.program.nodes import Binary, Expr, Load, Name, Value
from openwork.tree import Node, children, replace, walk

# A step from an element's index towards an iteration: divide, take the remainder, or subtract.
Step = tuple[str, Expr]


@frozen
class Owner:
    """How the index of an element determines the iteration of one loop: its steps, in order."""

    kind: str
    begin: Expr
    steps: tuple[Step, ...]
    in_warp: bool

    def iteration(self, element: Expr) -> Expr:
        """The iteration, counted from the first, that `element` belongs to."""
        for sign, by in self.steps:
            element = Binary(sign, element, by)
        return element - self.begin


Owners = tuple[Owner, ...]  # of the loops for warps and threads around an access


@frozen
class Ownership:
    """Who owns the elements of arrays, by the array's name.

    `threads`: among all threads of the block that share the array; `lanes`: among those of a unit.
    """

    threads: dict[str, Owners] = field(default_factory=dict)
    lanes: dict[str, Owner] = field(default_factory=dict)


def ownership(stmts: tuple[p.Stmt, ...]) -> Ownership:
    """The owners of all arrays whose elements belong to threads."""
    changed = frozenset(n.name.name for s in stmts for n in walk(s) if isinstance(n, p.Set))
    threads: dict[str, Owners | None] = {}
    lanes: dict[str, Owner | None] = {}
    for s in stmts:
        for array, owners in _accesses(s, _Around(changed)):
            lane = next((o for o in owners[-1:] if o is not None and o.kind == "thread"), None)
            # All threads of a unit execute what no loop distributes among them.
            all_known = lane is not None and None not in owners
            whole = tuple(o for o in owners if o is not None) if all_known else None
            if threads.setdefault(array, whole) != whole:
                threads[array] = None
            if lanes.setdefault(array, lane) != lane:
                lanes[array] = None
    return Ownership(
        {array: owners for array, owners in threads.items() if owners},
        {array: owner for array, owner in lanes.items() if owner is not None},
    )


_Found = tuple[Owner | None, ...]


@frozen
class _Around:
    """What is known at a statement: the loops around it, and the names declared before it.

    `below`: a loop's variable is less than this, and not negative. `changed`: names whose value
    changes, which are never expanded.
    """

    changed: frozenset[str]
    units: tuple[tuple[Name, str, Expr, bool], ...] = ()
    values: dict[str, Expr] = field(default_factory=dict)
    below: dict[str, Expr] = field(default_factory=dict)
    made: dict[str, int] = field(default_factory=dict)  # arrays, and how many units are around

    def declare(self, s: p.Declare) -> _Around:
        if not s.fixed or s.name.name in self.changed:
            return self
        return replace(self, values={**self.values, s.name.name: self.expanded(s.value)})

    def into(self, loop: p.For) -> _Around:
        """Inside of a loop."""
        begin, end = self.expanded(loop.begin), self.expanded(loop.end)
        if isinstance(loop.by, p.Unit):
            kind, within = loop.by.kind, any(u[1] == "warp" for u in self.units)
            most = end if loop.by.most is None else Value(loop.by.most)
            inner = replace(self, below={**self.below, loop.var.name: most})
            if kind == "block":
                return inner
            return replace(inner, units=(*self.units, (loop.var, kind, begin, within)))
        # A run of at most so many iterations from `begin` on.
        length = None if begin == Value(0) else _length(begin, end)
        if length is None:
            return replace(self, below={**self.below, loop.var.name: end})
        part = Name(f"{loop.var.name}+")
        values = {**self.values, loop.var.name: begin + part}
        return replace(self, values=values, below={**self.below, part.name: length})

    def allocate(self, array: p.Array) -> _Around:
        return replace(self, made={**self.made, array.name: len(self.units)})

    def expanded(self, e: Expr) -> Expr:
        """`e` over the variables of loops."""
        match e:
            case Name(name=name) if name in self.values:
                return self.values[name]
            case Binary(left=left, right=right):
                return replace(e, left=self.expanded(left), right=self.expanded(right))
            case p.Convert(expr=inner):
                return self.expanded(inner)
            case Load(index=index):
                return replace(e, index=self.expanded(index))
        return e

    def owners(self, array: str, index: Expr) -> _Found:
        """The owner of `array[index]` by each loop for threads that share the array."""
        index = self.expanded(index)
        found: list[Owner | None] = []
        for var, kind, begin, within in self.units[self.made.get(array, 0) :]:
            steps = None if self._depends(begin, None) else self._steps(index, var)
            found.append(None if steps is None else Owner(kind, begin, steps, within))
        return tuple(found)

    def _steps(self, e: Expr, var: Name) -> tuple[Step, ...] | None:
        """How to get from `e` to `var`; None if it does not follow."""
        if e == var:
            return ()
        match e:
            case Binary(sign="+", left=left, right=right):
                for a, b in ((left, right), (right, left)):
                    if isinstance(b, Value) and b == Value(0):
                        return self._steps(a, var)
                    inside, outside = self._depends(a, var), self._depends(b, var)
                    if inside and not outside and isinstance(b, Value):
                        return _then(("-", b), self._steps(a, var))
                    if outside or not inside:
                        continue
                    match a, b:
                        case Binary(sign="*", left=few, right=size), _ if self._less(b, size):
                            return _then(("/", size), self._steps(few, var))
                        case _, Binary(sign="*", right=size) if self._less(a, size):
                            return _then(("%", size), self._steps(a, var))
            case Binary(sign="*", left=few, right=size) if self._fixed(size):
                return _then(("/", size), self._steps(few, var))
        return None

    def _fixed(self, size: Expr) -> bool:
        if isinstance(size, Name):
            return size.name not in self.below and size.name not in self.changed
        return isinstance(size, Value)

    def _less(self, e: Expr, size: Expr) -> bool:
        """Whether 0 <= e < size.

        A coordinate is less than its extent, the only product of a coordinate and a name.
        """
        if isinstance(size, Name):
            return self._fixed(size)
        most = self._most(e)
        return isinstance(size, Value) and most is not None and most < size.value.real

    def _most(self, e: Expr) -> int | None:
        """The largest value of an expression that is never negative, if it is known."""
        match e:
            case Value(value=value) if value.real >= 0:
                return int(value.real)
            case Name(name=name) if isinstance(below := self.below.get(name), Value):
                return int(below.value.real) - 1
            case Binary(sign="+" | "*" as sign, left=left, right=right):
                a, b = self._most(left), self._most(right)
                if a is not None and b is not None:
                    return a + b if sign == "+" else a * b
        return None

    def _depends(self, e: Expr, var: Name | None) -> bool:
        """Whether `e` may differ between iterations of `var`, or of any loop."""
        names = {n for n in walk(e) if isinstance(n, Name)}
        if any(n.name in self.changed for n in names):
            return True
        if var is not None:
            return var in names
        return any(n.name in self.below for n in names) or any(isinstance(n, Load) for n in walk(e))


def _then(step: Step, rest: tuple[Step, ...] | None) -> tuple[Step, ...] | None:
    return None if rest is None else (step, *rest)


def _length(begin: Expr, end: Expr) -> Expr | None:
    """At most how many iterations lie between, if a constant says so."""
    match end:
        case Binary(sign="min", left=left, right=right):
            return _length(begin, left) or _length(begin, right)
        case Binary(sign="+", left=left, right=Value() as length) if left == begin:
            return length
        case Binary(sign="+", left=left, right=right) if isinstance(begin, Binary):
            if begin.sign == "+" and begin.left == left:
                return _length(begin.right, right)
    return None


def _accesses(node: Node, around: _Around) -> Iterator[tuple[str, _Found]]:
    """Every access to an array in `node`, and who owns what it accesses."""
    match node:
        case p.Block(body=body):
            for s in body:
                yield from _accesses(s, around)
                if isinstance(s, p.Declare):
                    around = around.declare(s)
                if isinstance(s, (p.Allocate, p.Local)):
                    around = around.allocate(s.array)
            return
        case p.For():
            if clears(node):
                return  # by the owners, whoever they are
            yield from _accesses(node.begin, around)
            yield from _accesses(node.end, around)
            inner = around.into(node)
            if isinstance(node.by, p.Unit):
                for s in node.by.private:
                    yield from _accesses(s, around)
                    if isinstance(s, (p.Allocate, p.Local)):
                        inner = inner.allocate(s.array)
                if node.by.group > 1:  # threads past the end repeat the last iteration
                    yield from ((array, (None,)) for array, _ in _accesses(node.body, inner))
                    return
            yield from _accesses(node.body, inner)
            return
        case Load(array=array, index=index) | p.Store(array=array, index=index):
            yield array.name, around.owners(array.name, index)
        case p.Helper(args=args):
            yield from ((a.name, (None,)) for a in args if isinstance(a, p.Array))
    for child in children(node):
        yield from _accesses(child, around)


def clears(s: p.Stmt) -> bool:
    """Whether `s` only stores the same value to all elements of arrays."""
    if not isinstance(s, p.For) or s.by is not None or s.begin != Value(0):
        return False
    body = s.body.body if isinstance(s.body, p.Block) else (s.body,)
    plain = independent(s) or s.unrolled
    return plain and all(
        isinstance(n, p.Store) and n.op is None and n.index == s.var and isinstance(n.value, Value)
        for n in body
    )
