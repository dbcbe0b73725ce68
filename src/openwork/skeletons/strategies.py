"""Strategies: sequences of rewrites that lead from a program without units to a parallel one.

A strategy is data. Each of its steps takes the first place where its rule applies; one that ends
in `?` is left out where there is none, and one that ends in `*` is repeated while there is one.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from openwork.frozen import frozen
from openwork.skeletons.program import Program

ROWS, LANES, THREADS, PIECES = "ROWS_PER_WORKGROUP", "LANES", "NUM_SPLITS", "PIECES"
LOCAL_SIZES = (8, 16, 32, 64, 128)
_OF_A_WARP = (2, 4, 8, 16, 32)
# The maps before a split reduction go behind its split, and become one with it.
_INWARDS = (("split before map*", ""), ("transpose before map*", ""), ("map fusion*", ""))

Step = tuple[str, str]  # a rule, and the parameter that is its size


@frozen
class Strategy:
    """A sequence of rewrites for a target, with the values that its parameters may have."""

    name: str
    gpu: bool
    steps: tuple[Step, ...]
    values: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def settings(self) -> Iterator[dict[str, int]]:
        """The combinations of values: threads of a workgroup are at most 1024."""
        names = [name for name, _ in self.values]
        for chosen in product(*(values for _, values in self.values)):
            found = dict(zip(names, chosen, strict=True))
            if (
                found.get(ROWS, 1) * found.get(LANES, 1) in (*LOCAL_SIZES, 256)
                or LANES not in found
            ):
                yield found

    def applied(self, program: Program, sizes: dict[str, int]) -> Program:
        """The program after all steps, which it keeps.

        Raises:
            PatternError: E706 if a step applies nowhere.
        """
        for rule, parameter in self.steps:
            program = _stepped(program, rule, sizes.get(parameter, 1))
        return program


def _stepped(program: Program, rule: str, size: int) -> Program:
    name = rule.rstrip("?*")
    if name == rule:
        return program.rewrite(name, size)
    for _ in range(8 if rule.endswith("*") else 1):
        step = next(program.steps_by(size, name), None)
        if step is None:
            break
        program = step.program
    return program


STRATEGIES: tuple[Strategy, ...] = (
    Strategy("a thread for each element", True, (("mapGlobal", ""),)),
    Strategy(
        "a thread for each row of a workgroup", True,
        (("split-join", ROWS), ("mapWorkgroup", ""), ("mapLocal", "")),
        ((ROWS, LOCAL_SIZES),),
    ),
    Strategy(
        "lanes for each row", True,
        (
            ("split-join", ROWS), ("mapWorkgroup", ""), ("mapWarp", ""),
            ("strided reduce", LANES), *_INWARDS, ("mapLane", ""),
        ),
        ((ROWS, (1, 2, 4, 8, 16, 32, 64)), (LANES, _OF_A_WARP)),
    ),
    Strategy(
        "a workgroup for each row", True,
        (("mapWorkgroup", ""), ("strided reduce", THREADS), *_INWARDS, ("mapLocal", "")),
        ((THREADS, LOCAL_SIZES),),
    ),
    Strategy(
        "a workgroup for the sum of all", True,
        (("strided reduce", THREADS), *_INWARDS, ("mapLocal", "")),
        ((THREADS, (*LOCAL_SIZES, 256)),),
    ),
    Strategy("threads", False, (("mapThreads", ""),)),
    Strategy("in order", False, (("mapSeq", ""),)),
    Strategy("threads, folded", False, (("fold", ""), ("mapThreads", ""))),
    Strategy(
        "threads take pieces", False, (("split-join", PIECES), ("mapThreads", "")),
        ((PIECES, (16, 64, 256, 1024)),),
    ),
    Strategy(
        "sums in pieces", False, (("partial reduce", PIECES), ("map fusion*", "")),
        ((PIECES, (16, 64, 1024)),),
    ),
)  # fmt: skip
