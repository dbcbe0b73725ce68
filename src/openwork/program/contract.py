"""The calling convention of kernels: arguments besides the arrays, and status codes.

A CPU kernel takes one int64 array: the number of threads, the expected entries, then the sizes. It
returns a status. A GPU kernel writes its status to memory that the host reads.
"""

from __future__ import annotations

from openwork.program.expressions import Name

# Status codes.
OK = 0
NO_MEMORY = 1  # the result or a workspace cannot be allocated
INTERRUPTED = 2  # by Ctrl-C, or by the memory watch
OVERFLOWED = 3  # the result has more entries than its position arrays can count
BROKEN_BOUND = 4  # the operands exceed a bound that the schedule promised
NEGATIVE_POWER = 5  # an integer was raised to a negative power
NO_ROOM = 6  # on a GPU: the result outgrew its allocation

THREADS = Name("threads")  # the number of threads the call may use
# A hint of how many entries the result has; an upper bound where a count pass comes first.
ROOM = Name("room")
FIRST_ARRAY, FIRST_SIZE = 1, 2  # indices of the first array and the first size
