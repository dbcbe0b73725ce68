"""The helpers that programs call, and the properties of each; render/ has their text."""

from __future__ import annotations

from openwork.frozen import frozen


@frozen
class Facts:
    """Properties of a helper that passes, renderers and the interpreter use.

    `reads`: it changes no array. `inserts`: it inserts a key into a table or bitmap; the order does
    not matter. `collective`: converged GPU threads call it together, and one more argument says how
    many; 0: the whole block. `on_host`: the host can evaluate it before a launch. `grows`: it may
    enlarge its table, which changes its first two arguments and may fail. `typed_by`: it has one
    version per element type, given by the argument of this number.
    """

    reads: bool = False
    inserts: bool = False
    collective: bool = False
    on_host: bool = False
    grows: bool = False
    typed_by: int | None = None


_SEARCH = Facts(reads=True, typed_by=0)
_TOGETHER = Facts(collective=True)

HELPERS: dict[str, Facts] = {
    # searches in sorted arrays, and balanced partitions of them
    "search": _SEARCH,
    "lower_bound": _SEARCH,
    "last_at_most": _SEARCH,
    "gallop": _SEARCH,
    "balanced_cut": _SEARCH,
    "cut": _SEARCH,
    # searches where the elements of an array are so far apart as the next argument says
    "search_every": _SEARCH,
    "lower_bound_every": _SEARCH,
    "gallop_every": _SEARCH,
    # searches in some bits of each element: the next argument has them
    "search_masked": _SEARCH,
    "lower_bound_masked": _SEARCH,
    "gallop_masked": _SEARCH,
    # workspaces that list their keys, found by flags or a hash table
    "note": Facts(typed_by=1),
    "order_keys": Facts(typed_by=0),
    "find": Facts(grows=True, typed_by=2),
    "clear": Facts(),
    "sort_pairs": Facts(typed_by=0),
    # the same, filled by GPU threads together
    "table_slots": Facts(reads=True, on_host=True),
    "slot_of": Facts(reads=True),
    "claim": Facts(inserts=True),
    "mark_bit": Facts(inserts=True),
    "append": Facts(),
    "collect": _TOGETHER,
    "tally": _TOGETHER,
    "sort_keys": _TOGETHER,
    "list_bits": _TOGETHER,
    "tally_bits": _TOGETHER,
    # chunks that GPU blocks take
    "next_chunk": Facts(),
    "end_chunks": Facts(),
    # pieces of a sparse result
    "in_turn": Facts(),
    "put_at": Facts(typed_by=0),
    # properties of the processor
    "many_registers": Facts(reads=True),
}
