"""Workspaces of far rows on a GPU: a value and a bit for every key there may be.

The keys of a row that most tables are too small for are many. Then a map has them in order without
sorting, and its threads find their places without looking for a free slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openwork.program.nodes import (
    Allocate,
    Block,
    Declare,
    Expr,
    For,
    Helper,
    Load,
    Name,
    Set,
    Stmt,
    Store,
    Value,
    arithmetic,
    block,
)
from openwork.tree import walk

if TYPE_CHECKING:
    from openwork.program.tables import Table

MOST_KEYS = Name("far_keys")  # of a row that is far, as the host has learnt it
_SUMS = 32  # one for each warp of a block


def _words(table: Table) -> Expr:
    return (table.size + 31) / 32


def setup(table: Table, valued: bool) -> list[Stmt]:
    """Memory for a block: no key is there, and all values are at the identity."""
    return [
        *([Allocate(table.vals, table.size, zeroed=True)] if valued else []),
        Allocate(table.bits, _words(table), zeroed=True),
        Allocate(table.keys, arithmetic("max", MOST_KEYS, Value(table.long_slots))),
        Allocate(table.tally, Value(_SUMS)),
        Declare(table.count, Value(0)),
    ]


def around(table: Table, producer: Block, consumer: Block) -> list[Stmt]:
    """Fill the map, list its keys in order, and make it empty again."""
    at, found = Name(f"{table.name}_at"), (table.bits, _words(table), table.tally)
    if not any(node == table.keys for node in walk(consumer)):
        return [producer, Set(table.count, Helper("tally_bits", found)), consumer]
    valued = any(isinstance(n, Store) and n.array == table.vals for n in walk(producer))
    forget = Store(table.vals, Load(table.keys, at), table.identity)
    forgotten = For(at, Value(0), table.count, block(forget), "forget the values", simd=True)
    return [
        producer,
        Set(table.count, Helper("list_bits", (*found, table.keys))),
        consumer,
        *([forgotten] if valued else []),
    ]
