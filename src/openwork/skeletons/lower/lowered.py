"""What lowering gives: a program of loops, and what the host has to compute and to check."""

from __future__ import annotations

from dataclasses import dataclass

from openwork.frozen import frozen
from openwork.program import nodes as p
from openwork.skeletons.language.nodes import Nat
from openwork.skeletons.lower.memory import Buffer, Path

STAGES = ("loops", "flat", "sums", "refined", "program")  # that take decisions, in order
TERM = "k."  # the variable of a sum that is being removed


@frozen
class Prefix:
    """The running sums of `body` for `k` from 0 to `count`, which the host computes once."""

    array: p.Array
    body: Nat  # over the variable TERM
    count: Nat


@frozen
class InRange:
    """Data that is used as an index: all of a field must be below `bound`."""

    buffer: str
    owner: str
    field: Path
    bound: Nat


@dataclass
class Lowered:
    """A program of loops, and what the host has to know to call it."""

    body: p.Block
    sizes: tuple[p.Name, ...]
    inputs: list[Buffer]
    outputs: list[Buffer]
    prefixes: list[Prefix]
    offsets: set[str]
    indices: list[InRange]
    notes: list[str]
    guarded: bool
