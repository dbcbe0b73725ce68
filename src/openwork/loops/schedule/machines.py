"""Machine parameters for schedules: what a table of a machine has.

Nothing else in the choice of schedules depends on the machine. Another GPU is another `Gpu`, whose
table is a file in recipes/devices.
"""

from __future__ import annotations

from openwork.frozen import frozen


@frozen
class Cpu:
    """Parameters of the default schedule of a CPU. Sizes are in bytes."""

    summed_run: int = 4096  # entries of a sum in lanes between two looks for Ctrl-C
    dot_lanes: int = 64  # partial sums of a dot product: four vector registers of 16 bytes
    row_in_registers: int = 256  # the longest row that stays in registers: half of them
    prefetch_distance: int = 6  # iterations between prefetching a row and using it
    least_row_sums: int = 32  # sums of interleaved rows: fewer do not fill a vector
    most_row_sums: int = 1024  # long contiguous reads are fast
    most_columns: int = 256  # the most columns whose number is compiled in
    column_vector: int = 32  # ... and that must be a multiple of a vector
    least_factored: int = 3  # reduction loops from which factoring beats a tile in registers
    runs: int = 32  # of a merge loop that is cut for threads: several per thread
    serial_below: int = 20_000  # elements of work, for which starting threads takes too long
    selects: bool = False  # compilers select between two values without a branch, when asked to
    gathers: bool = False  # vectors are gathered with masks, faster than one element at a time
    fills: bool = False  # ... or filled one element at a time, with masks for the rest of a row
    least_filled: float = 32  # entries of a row, on average, from which filled vectors pay off


ANY_CPU = Cpu()


@frozen
class RowTimes:
    """A model of how long kernels take on the rows of a sparse operand, in microseconds."""

    threads: float  # launched per microsecond
    threads_column: float  # the same with few columns, and a group per column
    step_thread: float  # a step along a row, of one thread
    step_group: float  # of a group of threads
    step_column: float  # of a group of threads, with few columns
    threads_load: float  # launched, where each loads all columns of an entry at once
    step_load: float  # of a group of such threads
    # A step with more columns and what each byte of them adds: few entries, many entries, and rows
    # of about equal length, which start and end together.
    step_few: tuple[float, float]
    step_many: tuple[float, float]
    step_alike: tuple[float, float]
    batched: float  # the part of a step's time that is left with registers for many loads
    # Kernels along positions: their overhead over the shortest along rows, and their throughput per
    # microsecond: entries times a vector or few columns, bytes of more columns.
    start_vector: float
    rate_vector: float
    start_column: float
    rate_column: float
    start_matrix: float
    rate_matrix: float
    atomic: float  # latency of contended atomics, with vector atomics for all columns
    atomic_byte: float  # ... per byte, with an atomic per column


@frozen
class Load:
    """How much work it takes to fill a GPU."""

    few: int  # entries that do not fill it by far
    many: int  # entries that fill it
    many_short: int  # ... in short rows of different lengths
    some: int  # ... several times
    much: int  # ... many times
    many_rows: int  # rows that fill it with a thread each
    lopsided: int  # a longest row of so many times the mean makes the others wait
    lopsided_entries: int  # ... from so many entries on
    few_samples: int  # entries of a sampled product that do not fill it
    few_elements: int  # of a dense result that does not fill it
    many_summed: int  # terms of a sum that is worth splitting
    threads_vector: int  # that hide the latency of 16-byte loads
    threads_scalar: int  # ... of shorter loads
    threads_long: int  # ... of any loads, along long rows
    threads_crowded: int  # where many threads add to one row
    threads_shared: int  # so few for all rows leave most of a GPU idle, unless they share rows
    threads_batched: int  # so many leave registers for more loads in flight
    added_float64: int  # entries of float64 from which few columns are added entry by entry
    transposed: int  # entries of a matrix whose transpose is worth keeping


@frozen
class Caches:
    """Bytes that stay in a cache, and how it is loaded."""

    beside_staged: int  # of a vector, in L1, beside terms staged in shared memory
    alone: int  # of a vector, in L1, without staged terms
    scattered: int  # of a vector that rows reach: beyond it, loads do not hit a cache in time
    l2: int
    sector: int  # bytes of the smallest load
    reused: float  # times that rows which advance together reuse a load


@frozen
class RowLengths:
    """Which rows are short or long, in entries, and which columns are few."""

    short: int  # a thread per row suffices
    long_step: int  # others wait for such a row
    batched: int  # ... long enough to load many entries together
    long: int
    long_float64: int
    longer: int
    scattered: int  # rows that reach far need groups of threads from so many entries on
    added: int  # rows that are shorter, of few columns, are added entry by entry
    added_float64: int  # ... of float64
    summed_by_two: int  # rows that are shorter: two threads sum a segment of staged terms
    summed_by_eight: int  # ... eight; longer ones a warp
    narrow: int  # bytes of columns that few rows leave most of a GPU idle with
    few_columns: int  # bytes of columns whose terms are staged in shared memory
    # Tiles of the dense operand pay off from so many bytes and rows of it on, for few sparse rows
    # of at least this density. With vector atomics, for float32, a lower density suffices.
    tiled_rows: int
    tiled_bytes: int
    tiled_across: int
    tiled_share: float
    tiled_share_float32: float


@frozen
class Tiles:
    """How many entries a group of threads takes, along positions: all entries over these."""

    few: float  # few columns of float64
    wide: float  # many columns
    least_wide: int  # entries of a group, then
    unroll_wide: int  # ... that it loads together,
    unrolled_wide: int  # if there are fewer in all
    long: float  # long rows of float64
    float64: float
    batched: float  # float32, in rows long enough to load many entries together


@frozen
class Occupancy:
    """Resident threads of a multiprocessor: fewer have more registers, and more loads in flight."""

    resident: int  # all that fit
    idle: float  # a part of the threads that fit, with which latency decides
    strided: float  # times as many threads as fit, from which blocks stride over the rows
    fewest: int  # launch bounds for the most loads in flight
    small_block: int  # threads of a block whose warps each have a row: they end at about one time
    staged: int  # ... where wide terms are staged in shared memory, or for many loads in flight
    tensor: int  # launch bounds for kernels along a tensor's rows
    tensor_rows: int  # rows of a tensor per block
    tensor_unroll: int  # entries of each that a thread has in flight


@frozen
class SparseResult:
    """How the units of a GPU divide a sparse result."""

    share: int  # rows and entries that a thread merges, if some rows have that many
    usual_row: float  # entries per row, where that is not known
    lanes: tuple[int, ...]  # threads that insert a row of up to so many keys
    slots: tuple[int, int]  # the fewest and the most, of a hash table in shared memory
    most_mapped: int  # keys of the largest dense workspace of a block
    long_row: int  # threads of a block that computes a long row
    long_row_of_few: int  # ... where the result has few rows
    few_rows: int


@frozen
class Gpu:
    """Parameters of the schedules of a GPU."""

    multiprocessors: int
    block: int  # threads of a block
    occupancy: Occupancy
    caches: Caches
    load: Load
    lengths: RowLengths
    times: RowTimes
    tiles: Tiles
    result: SparseResult

    @property
    def resident(self) -> int:
        """Resident threads of the whole GPU."""
        return self.multiprocessors * self.occupancy.resident
