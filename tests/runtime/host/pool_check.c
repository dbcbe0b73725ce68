// What callers may expect of the pool, as a program: many callers, nested loops, workers that never
// come, workers that are busy. The status is 0 if all is well, else the line that was not true.

#include "pool.c"

#include <stdlib.h>

enum { CALLERS = 3, CALLS = 300, PARTS = 5 };

#define CHECK(fact) \
  do { \
    if (!(fact)) _Exit(__LINE__ & 127 ? __LINE__ & 127 : 1); \
  } while (0)

static void count_part(void *given, int32_t part) { ((int64_t *)given)[part]++; }

static void count_nested(void *given, int32_t part) {
  int64_t inner[3] = {0};
  ow_pool_run(count_part, inner, 3);
  ((int64_t *)given)[part] += inner[0] + inner[1] + inner[2] == 3;
}

static void *call_often(void *given) {
  const int number = *(const int *)given;
  const struct timespec moment = {0, 1000000};
  for (int n = 0; n < CALLS; n++) {
    int64_t counts[PARTS] = {0};
    const int parts = 1 + (n + number) % PARTS;
    ow_pool_run(n % 2 ? count_part : count_nested, counts, parts);
    for (int part = 0; part < PARTS; part++) CHECK(counts[part] == (part < parts));
    if (n % 40 == 0) nanosleep(&moment, 0);  // long enough for workers to fall asleep
  }
  return 0;
}

static void many_callers(void) {
  pthread_t callers[CALLERS];
  int numbers[CALLERS];
  for (int n = 0; n < CALLERS; n++) {
    numbers[n] = n;
    CHECK(pthread_create(&callers[n], 0, call_often, &numbers[n]) == 0);
  }
  for (int n = 0; n < CALLERS; n++) CHECK(pthread_join(callers[n], 0) == 0);
  CHECK(GET(size) <= PARTS - 1);  // callers share the workers
}

static int32_t blocked, go_on;

static void block(void *given, int32_t part) {
  if (part != *(int32_t *)given) return;
  PUT(blocked, 1);
  while (!GET(go_on)) sched_yield();
}

static void *call_blocked(void *given) {
  ow_pool_run(block, given, 2);
  return 0;
}

// While another caller's part goes on, whoever runs it, a second caller gets through.
static void busy_workers(void) {
  for (int32_t part = 0; part < 2; part++) {
    pthread_t other;
    int64_t counts[PARTS] = {0};
    PUT(blocked, 0);
    PUT(go_on, 0);
    CHECK(pthread_create(&other, 0, call_blocked, &part) == 0);
    while (!GET(blocked)) sched_yield();
    ow_pool_run(count_part, counts, 2);
    CHECK(counts[0] == 1 && counts[1] == 1);
    PUT(go_on, 1);
    CHECK(pthread_join(other, 0) == 0);
  }
}

// A worker that gets no processor: there is no thread behind it.
static void absent_worker(void) {
  int64_t counts[2] = {0};
  ow_pool_close();
  ow_pool_open();
  worker *absent = &workers[0];
  memset(absent, 0, sizeof *absent);
  pthread_mutex_init(&absent->lock, 0);
  pthread_cond_init(&absent->offered, 0);
  PUT(absent->asleep, 1);
  PUT(size, 1);
  ow_pool_run(count_part, counts, 2);
  CHECK(counts[0] == 1 && counts[1] == 1);
  CHECK(GET(absent->offer) == 0);
  PUT(size, 0);
}

// After the end, the caller does everything.
static void closed(void) {
  int64_t counts[PARTS] = {0};
  ow_pool_close();
  ow_pool_run(count_part, counts, PARTS);
  for (int part = 0; part < PARTS; part++) CHECK(counts[part] == 1);
  CHECK(GET(size) == 0);
}

int main(void) {
  ow_pool_open();
  many_callers();
  busy_workers();
  absent_worker();
  closed();
  return 0;
}
