"""Bounds: inequalities between index expressions that hold at a point of a program.

An expression is a sum of *atoms* with integer factors: names that never change, loads, products,
divisions. Bounds of an atom follow from its definition, the loop that counts it, and the conditions
around. To prove `a <= b`, the atoms of `b - a` are replaced by their bounds, innermost first.
Index arithmetic does not overflow (see `nodes.py`), so that it is arithmetic on whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import gcd

from openwork.program.nodes import Array, Binary, Expr, Load, Name, Role, Value

Sum = tuple[dict[Expr, int], int]  # factors of atoms, and a constant
WHOLE = frozenset(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))
_MOST_STEPS = 40  # of one proof
_COUNTED = (Role.POSITION, Role.COORDINATE, Role.NUMBER, Role.START)  # what is never negative


class Bounds:
    """What is known at a point; `inner()` is a copy for the statements inside one.

    `unchanging`: the arrays that nobody writes. Only names that never change, and loads from such
    arrays, may occur in what is learnt.
    """

    def __init__(self, unchanging: frozenset[str] = frozenset()) -> None:
        self.unchanging = unchanging
        self.defined: dict[str, Expr] = {}
        # Sums that are at least 0 and contain the atom, by the atom that is bound last.
        self.known: dict[Expr, tuple[Sum, ...]] = {}
        self.order: dict[Expr, int] = {}

    def inner(self) -> Bounds:
        """A copy, to which more can be added."""
        made = Bounds(self.unchanging)
        made.defined, made.order = dict(self.defined), dict(self.order)
        made.known = dict(self.known)
        return made

    def define(self, name: Name, value: Expr | None) -> None:
        """A name that never changes, and its value if that is known."""
        self.order[name] = len(self.order)
        if value is None:
            self.defined.pop(name.name, None)
        else:
            self.defined[name.name] = value

    def at_most(self, left: Expr, right: Expr, less: int = 0) -> None:
        """Learn that `left + less <= right`."""
        found = self.difference(right, left, less)
        atoms = found[0]
        if atoms:
            last = max(atoms, key=self._rank)
            self.known[last] = (*self.known.get(last, ()), found)

    def learn(self, condition: Expr) -> None:
        """Learn that a condition holds."""
        match condition:
            case Binary(sign="&&", left=left, right=right):
                self.learn(left)
                self.learn(right)
            case Binary(sign="<" | "<=" as sign, left=left, right=right):
                if {left.type, right.type} <= WHOLE:
                    self.at_most(left, right, int(sign == "<"))

    def proves(self, left: Expr, right: Expr, less: int = 0) -> bool:
        """Whether `left + less <= right` is certain."""
        return self.nonnegative(self.difference(right, left, less))

    def nonnegative(self, sum: Sum) -> bool:
        """Whether a sum is certainly 0 or more."""
        atoms, constant = sum
        if not atoms:
            return constant >= 0
        return _Proof(self).nonnegative(sum)

    def difference(self, left: Expr, right: Expr, less: int = 0) -> Sum:
        """`left - right - less`"""
        atoms: dict[Expr, int] = {}
        constant = self._add(left, 1, atoms) + self._add(right, -1, atoms) - less
        return {atom: factor for atom, factor in atoms.items() if factor}, constant

    def _add(self, e: Expr, factor: int, atoms: dict[Expr, int]) -> int:
        """Add `factor * e` to `atoms`; the constant part is returned."""
        match e:
            case Value(value=value):
                return factor * int(value.real)
            case Name(name=name) if (known := self.defined.get(name)) is not None and _adds(known):
                return self._add(known, factor, atoms)
            case Binary(sign="+", left=left, right=right):
                return self._add(left, factor, atoms) + self._add(right, factor, atoms)
            case Binary(sign="-", left=left, right=right):
                return self._add(left, factor, atoms) + self._add(right, -factor, atoms)
            case Binary(sign="*", left=left, right=Value(value=int(times))):
                return self._add(left, factor * times, atoms)
            case Binary(sign="*", left=Value(value=int(times)), right=right):
                return self._add(right, factor * times, atoms)
        atoms[e] = atoms.get(e, 0) + factor
        return 0

    def value_of(self, atom: Expr) -> Expr:
        """What an atom stands for."""
        return self.defined.get(atom.name, atom) if isinstance(atom, Name) else atom

    def _rank(self, atom: Expr) -> tuple[int, int]:
        """Atoms come first that others bound: expressions, then names as they were bound, last to
        first, and what is loaded at the end."""
        if isinstance(atom, Name):
            return 0, self.order.get(atom, -1)
        return (-1, 0) if isinstance(atom, Load) else (1, 0)


def negated(sum: Sum, less: int) -> Sum:
    """-sum - less"""
    return {atom: -factor for atom, factor in sum[0].items()}, -sum[1] - less


def _adds(e: Expr) -> bool:
    """Whether more is known of what a name stands for than of the name."""
    match e:
        case Binary(sign="+" | "-") | Value() | Name() | Load(array=Array(role=Role.POSITION)):
            return True
        case Binary(sign="*", left=left, right=right):
            return isinstance(left, Value) or isinstance(right, Value)
    return False


class _Proof:
    """One proof, which gives up after some steps."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds, self.steps = bounds, _MOST_STEPS

    def nonnegative(self, sum: Sum) -> bool:
        """Whether a sum is certainly 0 or more."""
        atoms, constant = sum
        if not atoms:
            return constant >= 0
        self.steps -= 1
        if self.steps < 0:
            return False
        run = _run(atoms, self.bounds)
        if run is not None:  # positions never decrease
            one, other = run
            less = min(atoms[one], -atoms[other])
            rest = {**atoms, one: atoms[one] - less, other: atoms[other] + less}
            return self.nonnegative(({a: f for a, f in rest.items() if f}, constant))
        atom = max(atoms, key=self.bounds._rank)
        factor = atoms[atom]
        if any(self.nonnegative(_rest(sum, known, atom)) for known in self._bounds(atom, factor)):
            return True
        return self._by_cases(sum, atom, factor)

    def _by_cases(self, sum: Sum, atom: Expr, factor: int) -> bool:
        """A minimum bounded from below, or a maximum from above: whichever operand it is."""
        match self.bounds.value_of(atom):
            case Binary(sign="min" | "max" as sign, left=left, right=right) if sign == (
                "min" if factor > 0 else "max"
            ):
                return all(self.nonnegative(self._replaced(sum, atom, e)) for e in (left, right))
        return False

    def _replaced(self, sum: Sum, atom: Expr, by: Expr) -> Sum:
        atoms = dict(sum[0])
        factor = atoms.pop(atom)
        constant = sum[1] + self.bounds._add(by, factor, atoms)
        return {a: f for a, f in atoms.items() if f}, constant

    def _bounds(self, atom: Expr, factor: int) -> Iterator[Sum]:
        """Sums that are at least 0, in which the factor of `atom` has the same sign."""
        for known in self.bounds.known.get(atom, ()):
            if known[0].get(atom, 0) * factor > 0:
                yield known
        b = self.bounds
        match b.value_of(atom):
            case Binary(sign="min", left=left, right=right) if factor < 0:
                # The atom is at most each of them.
                yield b.difference(left, atom)
                yield b.difference(right, atom)
            case Binary(sign="max", left=left, right=right) if factor > 0:
                yield b.difference(atom, left)
                yield b.difference(atom, right)
            case Binary(sign="/", left=left, right=Value(value=int(n))) as whole if n > 0:
                yield from self._quotient(atom, whole.left, n, factor)
            case Binary(sign="%", left=left, right=Value(value=int(n))) if n > 0:
                if factor < 0:
                    yield b.difference(Value(n - 1), atom)
                elif self.nonnegative(b.difference(left, Value(0))):
                    yield {atom: 1}, 0
            case Load(array=array) if factor > 0 and array.role in _COUNTED:
                if array.name in b.unchanging:
                    yield {atom: 1}, 0

    def _quotient(self, atom: Expr, of: Expr, n: int, factor: int) -> Iterator[Sum]:
        """n * atom <= of < n * atom + n, if `of` is not negative."""
        b = self.bounds
        if not self.nonnegative(b.difference(of, Value(0))):
            return
        if factor < 0:
            yield b.difference(of, atom * Value(n))
        else:
            yield b.difference(atom * Value(n), of, 1 - n)


def _rest(sum: Sum, known: Sum, atom: Expr) -> Sum:
    """What is left to prove of `sum` after a multiple of `known`, which cancels `atom`.

    A whole number is at least 0 if its n-fold, less one, is more than -n.
    """
    factor, other = abs(sum[0][atom]), abs(known[0][atom])
    each = gcd(factor, other)
    times, less = other // each, factor // each
    atoms = {a: f * times for a, f in sum[0].items()}
    for a, f in known[0].items():
        atoms[a] = atoms.get(a, 0) - f * less
    return {a: f for a, f in atoms.items() if f}, sum[1] * times - known[1] * less + times - 1


def _run(atoms: dict[Expr, int], bounds: Bounds) -> tuple[Load, Load] | None:
    """Two positions `pos[n]` and `pos[m]`, of which the former is added and is not before `m`."""
    loads = [
        a for a in atoms
        if isinstance(a, Load)
        and a.array.role is Role.POSITION
        and a.array.name in bounds.unchanging
    ]  # fmt: skip
    for one in loads:
        for other in loads:
            if one.array == other.array and atoms[one] > 0 > atoms[other]:
                apart, constant = bounds.difference(one.index, other.index)
                if not apart and constant > 0:
                    return one, other
    return None
