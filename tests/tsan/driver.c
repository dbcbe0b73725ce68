// Calls one generated kernel on several threads, for ThreadSanitizer to watch.
//
//   driver CASE FILE [fail]
//
// CASE is a number into `kernels`, which the file made with this one defines. FILE holds, all as
// 64-bit integers: how many sizes there are, the sizes, how many arrays there are, and for each its
// number of bytes (-1 for one that the kernel makes) with its bytes after it. With `fail`, every
// allocation inside of a parallel region fails.
//
// The status is 0 if the kernel did its work, or gave up as it should. TSAN_OPTIONS has the runtime
// change it where it saw a race.

#include <omp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OK = 0, NO_MEMORY = 1, MOST = 64, CALLS = 3, BAD_CALL = 2, BAD_STATUS = 3, SERIAL = 4 };

static int failing;

// Threads that take chunks step aside first, so that every one of them gets some.
static inline void step_aside(void) { sched_yield(); }

static inline int fails(void) { return failing && omp_in_parallel(); }

// Generated code allocates by these names and takes chunks by the last.
#define __builtin_malloc(bytes) (fails() ? 0 : malloc(bytes))
#define __builtin_calloc(count, size) (fails() ? 0 : calloc(count, size))
#define __builtin_realloc(array, bytes) (fails() ? 0 : realloc(array, bytes))
#define __atomic_fetch_add(at, by, order) (step_aside(), __atomic_fetch_add(at, by, order))

#include "kernels.c"

static int64_t number(FILE *file) {
  int64_t value;
  if (fread(&value, sizeof value, 1, file) != 1) exit(BAD_CALL);
  return value;
}

static int count_threads(int wanted) {
  int found[MOST] = {0}, count = 0;
#pragma omp parallel for schedule(static, 1) num_threads(wanted)
  for (int part = 0; part < wanted; part++) found[omp_get_thread_num()] = 1;
  for (int n = 0; n < MOST; n++) count += found[n];
  return count;
}

int main(int argc, char **argv) {
  if (argc < 3) return BAD_CALL;
  failing = argc > 3 && strcmp(argv[3], "fail") == 0;
  FILE *file = fopen(argv[2], "rb");
  if (!file) return BAD_CALL;
  const int64_t sizes_count = number(file);
  int64_t sizes[MOST];
  void *arrays[MOST];
  if (sizes_count > MOST) return BAD_CALL;
  for (int64_t n = 0; n < sizes_count; n++) sizes[n] = number(file);
  const int64_t arrays_count = number(file);
  if (arrays_count >= MOST) return BAD_CALL;
  int32_t stop = 0;
  arrays[0] = &stop;
  for (int64_t n = 1; n <= arrays_count; n++) {
    const int64_t bytes = number(file);
    arrays[n] = bytes < 0 ? 0 : malloc((size_t)bytes + 1);
    if (bytes > 0 && fread(arrays[n], (size_t)bytes, 1, file) != 1) return BAD_CALL;
  }
  fclose(file);
  if (count_threads((int)sizes[0]) != sizes[0]) return SERIAL;
  for (int call = 0; call < CALLS; call++) {
    const int32_t status = kernels[atoi(argv[1])](arrays, sizes);
    if (status != OK && !(failing && status == NO_MEMORY)) return BAD_STATUS;
  }
  return 0;
}
