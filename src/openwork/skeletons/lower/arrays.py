"""Arrays cut into arrays: pieces, every so many elements, windows; nothing is copied."""

from __future__ import annotations

from typing import cast

from openwork.frozen import frozen
from openwork.skeletons.language import nodes as n
from openwork.skeletons.language.nodes import Nat, nat
from openwork.skeletons.lower.values import ONE, View


@frozen
class Split(View):
    """The pieces of a split."""

    base: View | None = None
    size: Nat = ONE

    def strided(self) -> View:
        """The transpose: every `size`-th element, from the first, the second, ... on."""
        base, size = cast(View, self.base), self.size
        every = base.step * size

        def lane(j: Nat) -> View:
            count = n.divided(base.length - j + size - 1, size)
            return View(base.begin + j * base.step, base.end, base.at, count, every)

        return View(nat(0), size, lane, size)


def split(view: View, size: Nat) -> View:
    """Pieces of an array; the last has what is left."""
    if view.outer is not None:
        view = view.from_zero()
        view = View(view.begin, view.end, view.at, view.length, view.step)
    length = view.length
    rest = n.remainder(length, size)
    count = n.divided(length, size) if not rest.terms else n.divided(length + size - 1, size)

    def piece(i: Nat) -> View:
        begin = view.begin + i * size * view.step
        if not rest.terms:
            return View(begin, begin + size * view.step, view.at, size, view.step)
        mine = n.lesser(size, length - i * size)
        last = n.lesser(begin + size * view.step, view.begin + length * view.step)
        return View(begin, last, view.at, mine, view.step)

    return Split(nat(0), count, piece, count, base=view, size=size)


def slid(view: View, window: Nat, step: Nat) -> View:
    """Windows of an array."""
    length = view.length
    count = n.chosen(length < window, 0, n.divided(length - window, step) + 1)

    def at(i: Nat) -> View:
        begin = view.begin + i * step * view.step
        return View(begin, begin + window * view.step, view.at, window, view.step)

    return View(nat(0), count, at, count)
