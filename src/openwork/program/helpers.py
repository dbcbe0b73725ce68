"""The helpers that programs call, and what is known of each; their text stands in render/."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Facts:
    """What passes, renderers and the interpreter ask about a helper.

    `reads`: it changes no array. `inserts`: it puts a key into a table or a map, in any order.
    `collective`: the threads of a GPU call it together, and a further argument says how many; 0 for
    all of a block. `on_host`: the host can work it out before a launch. `grows`: it may enlarge its
    table, so that its first two arguments change, and it may fail. `typed_by`: there is one for
    each element type, and the argument with that number tells which.
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
    # searches in sorted arrays, and cuts of them
    "search": _SEARCH,
    "lower_bound": _SEARCH,
    "last_at_most": _SEARCH,
    "gallop": _SEARCH,
    "balanced_cut": _SEARCH,
    "cut": _SEARCH,
    # workspaces with a map of bits, or a hash table
    "mark_words": Facts(reads=True),
    "mark": Facts(),
    "list_keys": Facts(),
    "find": Facts(grows=True, typed_by=2),
    "clear": Facts(),
    "sort_pairs": Facts(typed_by=0),
    # the same, filled by the threads of a GPU
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
    # pieces of a result
    "in_turn": Facts(),
    "put_at": Facts(typed_by=0),
    # what the processor is like
    "many_registers": Facts(reads=True),
    "without_branches": Facts(reads=True),
}
