/* Threads that take, fill, give and free blocks: no block has two owners, and the bounds hold. */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "kept.c"

enum { THREADS = 6, HELD = 8, ROUNDS = 20000, MOST = 1 << 20 };

static void fail(const char *what) {
  fprintf(stderr, "%s\n", what);
  abort();
}

/* At both ends of a block stands whose it is. */
static void sign(uint64_t *block, size_t bytes, uint64_t owner) {
  block[0] = block[bytes / 8 - 1] = owner;
}

static void *work(void *number) {
  const uint64_t me = (uint64_t)(uintptr_t)number + 1;
  uint64_t random = me * 0x9e3779b97f4a7c15u, *held[HELD] = {0};
  size_t sizes[HELD] = {0};
  for (int n = 0; n < ROUNDS; n++) {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const int at = (int)(random >> 60) % HELD;
    if (held[at]) {
      if (held[at][0] != me || held[at][sizes[at] / 8 - 1] != me) fail("a block has two owners");
      sign(held[at], sizes[at], 0);
      if (random >> 40 & 7) ow_kept_give(held[at]);
      else free(held[at]);
      held[at] = 0;
      continue;
    }
    sizes[at] = (size_t)1024 << (random >> 32 & 7);
    held[at] = ow_kept_take(sizes[at]);
    if (!held[at]) held[at] = malloc(sizes[at]);
    if (malloc_usable_size(held[at]) < sizes[at]) fail("a block is too small");
    sign(held[at], sizes[at], me);
    if (!(random >> 20 & 1023)) ow_kept_limit(random >> 30 & 1 ? MOST : MOST / 4);
  }
  for (int at = 0; at < HELD; at++) ow_kept_give(held[at]);
  return 0;
}

int main(void) {
  pthread_t threads[THREADS];
  ow_kept_limit(MOST);
  for (uintptr_t n = 0; n < THREADS; n++) pthread_create(&threads[n], 0, work, (void *)n);
  for (int n = 0; n < THREADS; n++) pthread_join(threads[n], 0);
  size_t sum = 0;
  for (int n = 0; n < kept_count; n++) sum += kept[n].size;
  if (sum != kept_bytes || sum > MOST) fail("what is kept is miscounted");
  void *const block = malloc(MOST / 2);
  ow_kept_limit(0);
  ow_kept_limit(MOST);
  ow_kept_give(block);
  ow_kept_give(0);
  if (ow_kept_take(MOST) || ow_kept_take(MOST / 8)) fail("too small, or more than twice as large");
  if (ow_kept_take(MOST / 2) != block) fail("a block of the right size is not found");
  kept_locked = 1; /* a thread had the list when this process was forked */
  ow_kept_give(block);
  if (ow_kept_take(1)) fail("who cannot have the list does without");
  if (ow_kept_limit(0)) fail("who cannot have the list does without");
  ow_kept_open();
  if (kept_count || kept_bytes) fail("a list in an unknown state is forgotten");
  return 0;
}
