// Race detection under the emulator: which threads accessed what, and whether they synchronized.
//
// The compiler calls the functions at the end of this file before each memory access: it
// instruments for ThreadSanitizer, which is not linked. Accesses to a kernel's arrays and to shared
// memory are compared with earlier ones: threads of different blocks never synchronize, those of a
// block do at a barrier, as do those of a unit at its own, and those of a warp at __syncwarp. Shuffles and votes order no memory. Two
// accesses of threads not synchronized since are a race if one of them writes, unless both are
// atomic or volatile, both write the same value, or one is an atomic update and the other a read,
// as at the start of a compare-and-swap loop.

namespace emulated {

const char *const ACCESSES[] = {"reads", "writes", "adds to"};

struct Touch {
  unsigned made, block, epoch, clock, turn;  // made: 1 + the thread; turn: of its unit
};

struct Cell {
  Touch write, reads[2];  // the last two readers, which are different threads
  bool atomic;
};

struct Watched {
  char *from;
  size_t bytes, unit;  // bytes per cell
  Cell *cells;
};

const int MOST_WATCHED = 128;
static Watched watched[MOST_WATCHED];  // the first is shared memory
static int watching;
static unsigned block_number, epoch;
static unsigned clocks[1024 + 32], met_at[1024 + 32][32];  // of lanes; seen of others
static unsigned unit, turns[1024 + 32];  // the threads of a unit, and how often each met its unit
static char *pending, pending_old[64];  // a write that is no race if the value stays the same
static size_t pending_size;
static Touch pending_by;

EMULATED_UNSEEN static bool holds(const Watched &array, const char *place) {
  return place >= array.from && place < array.from + array.bytes;
}

EMULATED_UNSEEN static Touch me() {
  return {(unsigned)current + 1, block_number, epoch, clocks[current], turns[current]};
}

// Whether another thread made this access, and has not synchronized since.
EMULATED_UNSEEN static bool apart(const Touch &touch) {
  if (!touch.made || (touch.block == block_number && touch.made == (unsigned)current + 1))
    return false;
  if (touch.block != block_number) return true;
  if (touch.epoch != epoch) return false;
  const int other = (int)touch.made - 1;
  if (unit && other / unit == current / unit && touch.turn < turns[current]) return false;
  return (other ^ current) >= 32 || met_at[current][other & 31] < touch.clock;
}

EMULATED_UNSEEN static void report(const Touch &touch, Access access, bool wrote, size_t at,
                                   int array) {
  char text[160];
  snprintf(text, sizeof text, "a race: it %s byte %zu of %s %d, which thread %u of block %u %s",
           ACCESSES[access], at, array ? "array" : "shared memory", array, touch.made - 1,
           touch.block, wrote ? "has written" : "has read");
  give_up(text);
}

// A write to an element that another thread also wrote: did the value change?
EMULATED_UNSEEN static void settle() {
  if (!pending) return;
  char *const place = pending;
  pending = 0;
  if (memcmp(place, pending_old, pending_size)) {
    int n = 0;
    while (n < watching - 1 && !holds(watched[n], place)) n++;
    report(pending_by, WRITE, true, place - watched[n].from, n);
  }
}

EMULATED_UNSEEN void touch(void *place, size_t size, Access access) {
  settle();
  if (!watching || failed) return;
  char *const from = (char *)place;
  int n = 0;
  while (n < watching && !holds(watched[n], from)) n++;
  if (n == watching) return;
  Watched &array = watched[n];
  if (!array.cells) array.cells = (Cell *)calloc(array.bytes / array.unit + 1, sizeof(Cell));
  const size_t offset = from - array.from;
  // The word around a small element, which a compare-and-swap reads and writes.
  if (n && array.unit < 4 && size > array.unit && access != WRITE) return;
  if (offset + size > array.bytes) return give_up("an access beyond the end of an array");
  for (size_t at = offset / array.unit; at * array.unit < offset + size; at++) {
    Cell &cell = array.cells[at];
    const bool together = cell.atomic && access != WRITE;
    if (apart(cell.write) && !together) {
      if (access != WRITE || cell.atomic || size > sizeof pending_old)
        return report(cell.write, access, true, at * array.unit, n);
      pending = from, pending_size = size, pending_by = cell.write;
      memcpy(pending_old, from, size);
    }
    for (const Touch &read : cell.reads)
      if (access == WRITE && apart(read))
        return report(read, access, false, at * array.unit, n);
    if (access == READ) {
      if (cell.reads[0].made != (unsigned)current + 1 || cell.reads[0].block != block_number)
        cell.reads[1] = cell.reads[0];
      cell.reads[0] = me();
    } else {
      cell.write = me(), cell.atomic = access == ATOMIC;
    }
  }
}

EMULATED_UNSEEN static void watch(void *from, size_t bytes, size_t unit) {
  if (watching < MOST_WATCHED) watched[watching++] = {(char *)from, bytes, unit, 0};
}

EMULATED_UNSEEN static void begin_block() {
  block_number = blockIdx.y * gridDim.x + blockIdx.x, epoch = 0;
  if (watching) free(watched[0].cells), watched[0].cells = 0;  // shared memory is the block's own
  for (int n = 0; n < 1024 + 32; n++) clocks[n] = 1;
  memset(met_at, 0, sizeof met_at);
  memset(turns, 0, sizeof turns);
}

EMULATED_UNSEEN static void meet_all() { epoch++; }

EMULATED_UNSEEN static void meet_unit(int first, int threads) {
  unit = (unsigned)threads;
  for (int n = first; n < first + threads; n++) turns[n]++;
}

// After a warp barrier, each lane of the mask has seen all that any of them has seen.
EMULATED_UNSEEN static void meet_lanes(int warp, unsigned mask) {
  unsigned known[32] = {0};
  for (int l = 0; l < 32; l++)
    if (mask >> l & 1) {
      for (int k = 0; k < 32; k++)
        if (met_at[warp + l][k] > known[k]) known[k] = met_at[warp + l][k];
      if (clocks[warp + l] > known[l]) known[l] = clocks[warp + l];
    }
  for (int l = 0; l < 32; l++)
    if (mask >> l & 1) memcpy(met_at[warp + l], known, sizeof known), clocks[warp + l]++;
}

}  // namespace emulated

extern "C" {
// Before a launch, for each of its arrays; and after it.
EMULATED_UNSEEN void emulated_watch(void *from, size_t bytes, size_t unit) {
  using namespace emulated;
  if (!watching)
    watch(__start_emulated_shared, __stop_emulated_shared - __start_emulated_shared, 1);
  watch(from, bytes, unit);
}
EMULATED_UNSEEN void emulated_forget() {
  using namespace emulated;
  for (int n = 0; n < watching; n++) free(watched[n].cells), watched[n].cells = 0;
  watching = 0, pending = 0;
}
// Volatile accesses are under a lock: as good as atomic.
EMULATED_UNSEEN static void emulated_locked(void *p, size_t n) {
  emulated::touch(p, n, emulated::ATOMIC);
}
EMULATED_UNSEEN void __tsan_init() {}
EMULATED_UNSEEN void __tsan_func_entry(void *) {}
EMULATED_UNSEEN void __tsan_func_exit() {}
#define EMULATED_HOOKS(SIZE)                                                                        \
  EMULATED_UNSEEN void __tsan_read##SIZE(void *p) { emulated::touch(p, SIZE, emulated::READ); }     \
  EMULATED_UNSEEN void __tsan_write##SIZE(void *p) { emulated::touch(p, SIZE, emulated::WRITE); }   \
  EMULATED_UNSEEN void __tsan_unaligned_read##SIZE(void *p) { __tsan_read##SIZE(p); }               \
  EMULATED_UNSEEN void __tsan_unaligned_write##SIZE(void *p) { __tsan_write##SIZE(p); }             \
  EMULATED_UNSEEN void __tsan_volatile_read##SIZE(void *p) { emulated_locked(p, SIZE); }            \
  EMULATED_UNSEEN void __tsan_volatile_write##SIZE(void *p) { emulated_locked(p, SIZE); }
EMULATED_HOOKS(1)
EMULATED_HOOKS(2)
EMULATED_HOOKS(4)
EMULATED_HOOKS(8)
EMULATED_HOOKS(16)
EMULATED_UNSEEN void __tsan_read_range(void *p, size_t n) { emulated::touch(p, n, emulated::READ); }
EMULATED_UNSEEN void __tsan_write_range(void *p, size_t n) {
  emulated::touch(p, n, emulated::WRITE);
}
}
