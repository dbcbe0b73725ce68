
/* Below: how the parallel loops of this library reach Openwork's threads. gcc makes a function of the
 * body of each `#pragma omp parallel`, and a call of GOMP_parallel; here is one, hidden from other
 * libraries, which hands the parts of the loop to the pool (pool.c). The part that runs is the
 * thread's number, whoever runs it. */
#define OPENWORK_HIDDEN __attribute__((visibility("hidden"), used, noinline, noclone))

typedef struct {
  long first, limit, step, chunk; /* upwards */
} openwork_loop;

typedef struct {
  void (*body)(void *);
  void *data;
  int parts;
  long chunks; /* of a dynamic schedule, that are taken */
  openwork_loop loop;
} openwork_region;

/* The pool's function; set as soon as the library is loaded. */
void (*openwork_run)(void (*)(void *, int), void *, int) = 0;

static __thread openwork_region *openwork_here = 0;
static __thread openwork_loop openwork_now = {0, 0, 0, 0};
static __thread int openwork_part = 0;

OPENWORK_HIDDEN int omp_get_thread_num(void) { return openwork_part; }

OPENWORK_HIDDEN int omp_get_num_threads(void) { return openwork_here ? openwork_here->parts : 1; }

OPENWORK_HIDDEN void openwork_run_part(void *region, int part) {
  openwork_region *const outer = openwork_here;
  const openwork_loop outer_loop = openwork_now;
  const int outer_part = openwork_part;
  openwork_here = region;
  openwork_now = openwork_here->loop;
  openwork_part = part;
  openwork_here->body(openwork_here->data);
  openwork_here = outer;
  openwork_now = outer_loop;
  openwork_part = outer_part;
}

static void openwork_share(openwork_region *region) {
  if (region->parts < 2) openwork_run_part(region, 0);
  else openwork_run(openwork_run_part, region, region->parts);
}

OPENWORK_HIDDEN void GOMP_parallel(void (*body)(void *), void *data, unsigned threads,
                                   unsigned flags) {
  openwork_region region = {body, data, (int)threads, 0, {0, 0, 0, 0}};
  (void)flags; /* how threads are bound to cores */
  openwork_share(&region);
}

/* schedule(dynamic). All parts begin the same loop; its chunks are counted for all of them. */
OPENWORK_HIDDEN _Bool GOMP_loop_nonmonotonic_dynamic_next(long *first, long *limit) {
  const openwork_loop loop = openwork_now;
  const long taken = __atomic_fetch_add(&openwork_here->chunks, 1, __ATOMIC_RELAXED);
  const long length = loop.step * loop.chunk, begin = loop.first + taken * length;
  if (begin >= loop.limit) return 0;
  *first = begin;
  *limit = loop.limit - begin < length ? loop.limit : begin + length;
  return 1;
}

OPENWORK_HIDDEN _Bool GOMP_loop_nonmonotonic_dynamic_start(long from, long to, long step,
                                                           long chunk, long *first,
                                                           long *limit) {
  openwork_now = (openwork_loop){from, to, step, chunk};
  return GOMP_loop_nonmonotonic_dynamic_next(first, limit);
}

OPENWORK_HIDDEN void GOMP_loop_end_nowait(void) {}

OPENWORK_HIDDEN void GOMP_parallel_loop_nonmonotonic_dynamic(void (*body)(void *), void *data,
                                                             unsigned threads, long from, long to,
                                                             long step, long chunk,
                                                             unsigned flags) {
  openwork_region region = {body, data, (int)threads, 0, {from, to, step, chunk}};
  (void)flags;
  openwork_share(&region);
}

/* `#pragma omp critical`, and atomic updates that the processor lacks. */
extern int sched_yield(void);

OPENWORK_HIDDEN void GOMP_critical_name_start(void **lock) {
  while (__atomic_exchange_n(lock, (void *)lock, __ATOMIC_ACQUIRE)) sched_yield();
}

OPENWORK_HIDDEN void GOMP_critical_name_end(void **lock) {
  __atomic_store_n(lock, (void *)0, __ATOMIC_RELEASE);
}

static void *openwork_atomic;

OPENWORK_HIDDEN void GOMP_atomic_start(void) { GOMP_critical_name_start(&openwork_atomic); }

OPENWORK_HIDDEN void GOMP_atomic_end(void) { GOMP_critical_name_end(&openwork_atomic); }
