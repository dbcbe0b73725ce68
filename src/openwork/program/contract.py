"""The contract of a call: what a kernel is handed beside its arrays, and how it says it ended.

A kernel on the CPU gets one array of int64: the threads it may use, room, then the sizes. It
returns a status. A kernel on a GPU leaves its status in memory that the host reads.
"""

from __future__ import annotations

from openwork.program.expressions import Name

# How a call ended.
OK = 0
NO_MEMORY = 1  # the result or a workspace cannot be held
INTERRUPTED = 2  # by Ctrl-C, or by the watch over memory
OVERFLOWED = 3  # the result has more entries than its position arrays can count
BROKEN_BOUND = 4  # the operands exceed a bound that the schedule promised
NEGATIVE_POWER = 5  # an integer was raised to a negative power
NO_ROOM = 6  # on a GPU: the result outgrew the memory it was given

THREADS = Name("threads")  # how many threads the call may use
# How many entries the caller expects, only a hint; where they are counted first, how many may be.
ROOM = Name("room")
FIRST_ARRAY, FIRST_SIZE = 1, 2  # where arrays and sizes begin among the arguments
