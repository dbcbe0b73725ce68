
/* Large blocks of memory that kernels and results have freed, kept for the next of about that size.
 *
 * The system takes large blocks back as soon as they are freed, and clears each page of a new one at
 * its first touch, one thread after the other: on 16 threads that is a quarter of the time of a
 * product of sparse matrices. All blocks are the C library's own, so anybody may free them. */

#include <malloc.h>
#include <stdlib.h>

enum { SLOTS = 256, LOOKS = 4096 };

typedef struct {
  void *block;
  size_t size;
} kept_block;

/* From the oldest to the newest. */
static kept_block kept[SLOTS];
static int32_t kept_count;
static size_t kept_bytes, kept_most;
static uint8_t kept_locked;

/* Whether the list is ours now. Who cannot have it soon does without. */
static int32_t kept_lock(void) {
  for (int32_t n = 0; n < LOOKS; n++)
    if (!__atomic_exchange_n(&kept_locked, 1, __ATOMIC_ACQUIRE)) return 1;
  return 0;
}

static void kept_unlock(void) { __atomic_store_n(&kept_locked, 0, __ATOMIC_RELEASE); }

static kept_block kept_removed(int32_t at) {
  const kept_block found = kept[at];
  kept_count--;
  kept_bytes -= found.size;
  memmove(kept + at, kept + at + 1, (size_t)(kept_count - at) * sizeof *kept);
  return found;
}

/* A kept block of at least so many bytes, and at most twice as many; null if there is none. */
void *ow_kept_take(size_t bytes) {
  kept_block best = {0, 0};
  int32_t at = -1;
  if (!kept_lock()) return 0;
  for (int32_t n = kept_count - 1; n >= 0; n--) {
    if (kept[n].size < bytes || kept[n].size / 2 > bytes) continue;
    if (at < 0 || kept[n].size < kept[at].size) at = n;
  }
  if (at >= 0) best = kept_removed(at);
  kept_unlock();
  return best.block;
}

/* Keep a block, in place of the oldest ones if need be, or free it. */
void ow_kept_give(void *block) {
  const size_t size = block ? malloc_usable_size(block) : 0;
  kept_block old[SLOTS];
  int32_t dropped = 0;
  if (!size || !kept_lock()) {
    free(block);
    return;
  }
  if (size > kept_most) {
    old[dropped++].block = block;
  } else {
    while (kept_count == SLOTS || kept_bytes + size > kept_most) old[dropped++] = kept_removed(0);
    kept[kept_count++] = (kept_block){block, size};
    kept_bytes += size;
  }
  kept_unlock();
  while (dropped) free(old[--dropped].block);
}

/* Keep at most so many bytes from now on; 0 frees all. Returns what was kept. */
size_t ow_kept_limit(size_t most) {
  kept_block old[SLOTS];
  int32_t dropped = 0;
  if (!kept_lock()) return 0;
  const size_t before = kept_bytes;
  kept_most = most;
  while (kept_bytes > most) old[dropped++] = kept_removed(0);
  kept_unlock();
  while (dropped) free(old[--dropped].block);
  return before;
}

/* After a fork, in a child: a thread that had the list does not exist, and left it in any state. */
void ow_kept_open(void) {
  if (kept_locked) kept_count = 0, kept_bytes = 0;
  kept_locked = 0;
}
