
/* Below: how the parallel loops of this library reach Openwork's threads. gcc makes a function of the
 * body of each `#pragma omp parallel`, and a call of GOMP_parallel; here is one, hidden from other
 * libraries, which hands the parts of the loop to the pool (pool.c). The part that runs is the
 * thread's number, whoever runs it. */
#define OPENWORK_HIDDEN __attribute__((visibility("hidden"), used, noinline, noclone))

typedef struct {
  void (*body)(void *);
  void *data;
  int parts;
} openwork_region;

/* The pool's function; set as soon as the library is loaded. */
void (*openwork_run)(void (*)(void *, int), void *, int) = 0;

static __thread int openwork_part = 0, openwork_parts = 1;

OPENWORK_HIDDEN int omp_get_thread_num(void) { return openwork_part; }

OPENWORK_HIDDEN int omp_get_num_threads(void) { return openwork_parts; }

OPENWORK_HIDDEN void openwork_run_part(void *given, int part) {
  const openwork_region *region = given;
  const int outer_part = openwork_part, outer_parts = openwork_parts;
  openwork_part = part;
  openwork_parts = region->parts;
  region->body(region->data);
  openwork_part = outer_part;
  openwork_parts = outer_parts;
}

OPENWORK_HIDDEN void GOMP_parallel(void (*body)(void *), void *data, unsigned threads,
                                   unsigned flags) {
  openwork_region region = {body, data, (int)threads};
  (void)flags; /* how threads are bound to cores */
  if (threads < 2) openwork_run_part(&region, 0);
  else openwork_run(openwork_run_part, &region, region.parts);
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
