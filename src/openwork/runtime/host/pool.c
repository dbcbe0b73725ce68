/* The threads of parallel loops: a pool whose callers wait only for threads that have begun.
 *
 * A loop has a number of parts, and what a part does depends on its number alone. The caller offers
 * the loop to idle workers, then takes parts itself until none is left. It takes back the offers that
 * nobody has accepted, and waits for the workers that did accept. So a worker that gets no processor,
 * because a neighbour keeps it busy, costs what it would have done and no more; and where no thread
 * can be started, the caller does everything.
 *
 * An idle worker spins for a moment, since calls come in quick succession, and then sleeps. Spinning
 * takes the processor from others: a worker that was itself interrupted while it spun shares its
 * processor, so it goes to sleep at once the next times.
 *
 * Two pools that spin hinder each other: a thread of one waits until the system takes the processor
 * from one of the other. So where a library has brought GNU's OpenMP, as torch does, and it has
 * threads enough, they run the parts. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define GET(place) __atomic_load_n(&(place), __ATOMIC_SEQ_CST)
#define PUT(place, value) __atomic_store_n(&(place), value, __ATOMIC_SEQ_CST)
#define EXCHANGE(place, expected, value) \
  __atomic_compare_exchange_n(&(place), expected, value, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)

enum { MOST = 4096, WAKES = 4, DISTURBED = 64 };

/* Nanoseconds: how long a worker spins for the next loop, and a caller for its workers; from which
 * time between two looks on a worker must have been off its processor; and how long parts must take
 * for it to ask whether it was. */
enum { SPIN = 100000, CALLER_SPIN = 30000, GAP = 300000, LONG = 30000 };

/* A worker that lost its processor while a caller waited for it, for more than a quarter of a loop, is
 * offered nothing for so many times that time: callers lose no more than a sixteenth by it. */
enum { REST = 16 };

/* A loop that a caller has opened; on the caller's stack. */
typedef struct {
  void (*run)(void *, int32_t);
  void *context;
  int32_t parts;
  uint8_t *taken;          /* by part */
  const int32_t *sleepers; /* workers to be woken */
  int32_t sleeping, woken; /* how many there are, and how many of them have been signalled */
  uint32_t left;           /* twice the workers that are done, and 1 if the caller sleeps */
} region;

/* A thread. Its offer is null while it is idle. */
typedef struct __attribute__((aligned(128))) {
  region *offer;
  int32_t asleep, number;
  int32_t hasty;  /* how often it is still to go to sleep at once */
  int64_t lost;   /* how long it was without its processor in its last loop */
  int64_t rested; /* when it may be offered a loop again */
  int64_t seen, used; /* the time when it last looked, and its processor's time then */
  pthread_t thread;
  pthread_mutex_t lock;
  pthread_cond_t offered;
} worker;

static worker workers[MOST];
static int32_t size, most; /* how many there are, and may be */
static region busy, closing; /* offers that are none: it works, it is to end */
static pthread_mutex_t growing, leaving;
static pthread_cond_t all_left;
static __thread int32_t inside;

static int64_t nanoseconds(clockid_t clock) {
  struct timespec at;
  clock_gettime(clock, &at);
  return (int64_t)at.tv_sec * 1000000000 + at.tv_nsec;
}

static int64_t now(void) { return nanoseconds(CLOCK_MONOTONIC); }

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void rouse(worker *w) {
  pthread_mutex_lock(&w->lock);
  pthread_cond_signal(&w->offered);
  pthread_mutex_unlock(&w->lock);
}

/* Wake some of the workers of a loop; those wake others. */
static void wake(region *loop) {
  for (int32_t n = 0; n < WAKES; n++) {
    if (GET(loop->woken) >= GET(loop->sleeping)) return;
    const int32_t next = __atomic_fetch_add(&loop->woken, 1, __ATOMIC_SEQ_CST);
    if (next < GET(loop->sleeping)) rouse(&workers[loop->sleepers[next]]);
  }
}

/* Run all parts that nobody has taken, from `first` on: the one that this thread had last time, so
 * that its data may still be in its cache. */
static void work(region *loop, int32_t first) {
  for (int32_t n = 0; n < loop->parts; n++) {
    const int32_t part = first + n < loop->parts ? first + n : first + n - loop->parts;
    if (__atomic_load_n(&loop->taken[part], __ATOMIC_RELAXED)) continue;
    if (!__atomic_exchange_n(&loop->taken[part], 1, __ATOMIC_RELAXED)) loop->run(loop->context, part);
  }
}

/* How long the worker was without its processor since it last looked, or woke up. */
static int64_t look(worker *me) {
  const int64_t seen = now(), used = nanoseconds(CLOCK_THREAD_CPUTIME_ID);
  const int64_t without = seen - me->seen - (used - me->used);
  me->seen = seen;
  me->used = used;
  return without;
}

/* Run parts, and say so if others had the processor meanwhile. */
static void work_watched(worker *me, region *loop) {
  const int64_t start = now();
  work(loop, (me->number + 1) % loop->parts);
  const int64_t took = now() - start;
  PUT(me->lost, 0);
  if (took < LONG) return;
  const int64_t without = look(me);
  if (without < LONG) return;
  me->hasty = DISTURBED;
  PUT(me->lost, without < took ? without : took);
}

/* Wait until there is an offer. */
static void rest(worker *me) {
  if (me->hasty > 0) {
    me->hasty--;
  } else {
    const int64_t start = now();
    for (int64_t before = start, at = start; at - start < SPIN; before = at) {
      for (int32_t n = 0; n < 16; n++) {
        if (GET(me->offer)) return;
        relax();
      }
      at = now();
      if (at - before > GAP) {
        me->hasty = DISTURBED;
        break;
      }
    }
  }
  pthread_mutex_lock(&me->lock);
  PUT(me->asleep, 1);
  while (!GET(me->offer)) pthread_cond_wait(&me->offered, &me->lock);
  PUT(me->asleep, 0);
  pthread_mutex_unlock(&me->lock);
  look(me);
}

static void *serve(void *given) {
  worker *me = given;
  inside = 1;
  look(me);
  for (;;) {
    region *loop = GET(me->offer);
    if (loop == &closing) return 0;
    if (!loop) {
      rest(me);
    } else if (EXCHANGE(me->offer, &loop, &busy)) {
      wake(loop);
      work_watched(me, loop);
      PUT(me->offer, 0);
      /* The caller may return as soon as this is seen: `loop` is gone. */
      if (__atomic_fetch_add(&loop->left, 2, __ATOMIC_SEQ_CST) & 1) {
        pthread_mutex_lock(&leaving);
        pthread_cond_broadcast(&all_left);
        pthread_mutex_unlock(&leaving);
      }
    }
  }
}

/* Start workers until there are `wanted`, or the system refuses. Signals are for threads of the
 * program: workers take only those that report a fault. */
static void grow(int32_t wanted) {
  const int faults[] = {SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSYS};
  sigset_t all, before;
  pthread_mutex_lock(&growing);
  sigfillset(&all);
  for (size_t n = 0; n < sizeof faults / sizeof *faults; n++) sigdelset(&all, faults[n]);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  while (size < wanted && size < most) {
    worker *next = &workers[size];
    next->offer = 0;
    next->asleep = next->hasty = 0;
    next->lost = next->rested = 0;
    next->number = size;
    pthread_mutex_init(&next->lock, 0);
    pthread_cond_init(&next->offered, 0);
    if (pthread_create(&next->thread, 0, serve, next) != 0) break;
    PUT(size, size + 1);
  }
  pthread_sigmask(SIG_SETMASK, &before, 0);
  pthread_mutex_unlock(&growing);
}

/* Wait until `joined` workers are done. */
static void wait_for(region *loop, uint32_t joined) {
  for (int64_t start = now(), at = start; at - start < CALLER_SPIN; at = now())
    for (int32_t n = 0; n < 16; n++) {
      if (GET(loop->left) >> 1 == joined) return;
      relax();
    }
  __atomic_fetch_or(&loop->left, 1, __ATOMIC_SEQ_CST);
  pthread_mutex_lock(&leaving);
  while (GET(loop->left) >> 1 != joined) pthread_cond_wait(&all_left, &leaving);
  pthread_mutex_unlock(&leaving);
}

/* GNU's OpenMP, if a library has brought it: null functions if none has, or after a fork, in a child,
 * which has none of its threads. Libraries are looked through when there are new ones, and that is
 * found out every so many loops. */
enum { LOOK = 64, LONGEST = 4096 };

static struct {
  void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
  int (*number)(void), (*most)(void);
  unsigned long long seen; /* how many libraries were loaded by then */
  uint32_t loops;
  int32_t off;
} gnu;

static int first_library(struct dl_phdr_info *info, size_t size_of_info, void *found) {
  (void)size_of_info;
  *(unsigned long long *)found = info->dlpi_adds;
  return 1;
}

static int is_gnu(struct dl_phdr_info *info, size_t size_of_info, void *found) {
  (void)size_of_info;
  const char *const path = info->dlpi_name, *const name = strrchr(path, '/');
  if (strncmp(name ? name + 1 : path, "libgomp", 7) || strlen(path) >= LONGEST) return 0;
  strcpy(found, path);
  return 1;
}

static void find_gnu(void) {
  char path[LONGEST];
  unsigned long long loaded = 0;
  dl_iterate_phdr(first_library, &loaded);
  if (loaded == gnu.seen) return;
  gnu.seen = loaded;
  if (gnu.parallel || !dl_iterate_phdr(is_gnu, path)) return;
  void *const library = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (!library) return;
  *(void **)&gnu.number = dlsym(library, "omp_get_thread_num");
  *(void **)&gnu.most = dlsym(library, "omp_get_max_threads");
  void *const parallel = dlsym(library, "GOMP_parallel");
  if (gnu.number && gnu.most && parallel) PUT(*(void **)&gnu.parallel, parallel);
}

static void work_for(void *given) {
  region *const loop = given;
  const int32_t outside = inside;
  inside = 1;
  work(loop, gnu.number() % loop->parts);
  inside = outside;
}

/* Run a loop on the threads of GNU's OpenMP, as many as it usually has: it ends those that a loop of
 * fewer has no use for. 0 if they are far too few. */
static int run_on_gnu(region *loop) {
  if (gnu.off) return 0;
  if (__atomic_fetch_add(&gnu.loops, 1, __ATOMIC_RELAXED) % LOOK == 0) {
    pthread_mutex_lock(&growing);
    find_gnu();
    pthread_mutex_unlock(&growing);
  }
  if (!GET(*(void **)&gnu.parallel)) return 0;
  const int32_t threads = gnu.most();
  if (threads < 2 || 2 * threads < loop->parts) return 0;
  gnu.parallel(work_for, loop, 0, 0);
  return 1;
}

/* Run all parts of a loop. Within a part it runs them one after the other. */
void ow_pool_run(void (*run)(void *, int32_t), void *context, int32_t parts) {
  if (inside) {
    for (int32_t part = 0; part < parts; part++) run(context, part);
    return;
  }
  uint8_t taken[parts];
  int32_t offered[parts], sleepers[parts], offers = 0, sleeping = 0;
  uint32_t joined = 0;
  memset(taken, 0, sizeof taken);
  region loop = {run, context, parts, taken, sleepers, 0, 0, 0};
  if (run_on_gnu(&loop)) return;
  inside = 1;
  if (GET(size) < parts - 1) grow(parts - 1);
  const int32_t there = GET(size);
  const int64_t start = now();
  for (int32_t n = 0; n < there && offers < parts - 1; n++) {
    region *idle = 0;
    if (GET(workers[n].rested) > start) continue;
    if (EXCHANGE(workers[n].offer, &idle, &loop)) offered[offers++] = n;
  }
  for (int32_t n = 0; n < offers; n++)
    if (GET(workers[offered[n]].asleep)) sleepers[sleeping++] = offered[n];
  PUT(loop.sleeping, sleeping);
  wake(&loop);
  work(&loop, 0);
  for (int32_t n = 0; n < offers; n++) {
    region *mine = &loop;
    joined += !EXCHANGE(workers[offered[n]].offer, &mine, 0);
  }
  const int64_t done = now();
  wait_for(&loop, joined);
  const int64_t end = now(), waited = end - done;
  for (int32_t n = 0; 4 * waited > end - start && n < offers; n++) {
    const int64_t lost = GET(workers[offered[n]].lost);
    if (lost > 0) PUT(workers[offered[n]].rested, end + REST * (lost < waited ? lost : waited));
  }
  inside = 0;
}

/* Prepare; also after a fork, in a child, which has none of the threads. */
void ow_pool_open(void) {
  static int32_t opened;
  gnu.off = opened++;
  size = 0;
  most = MOST;
  pthread_mutex_init(&growing, 0);
  pthread_mutex_init(&leaving, 0);
  pthread_cond_init(&all_left, 0);
}

/* End all idle workers; those that work do so for a thread that the process does not wait for. */
void ow_pool_close(void) {
  pthread_mutex_lock(&growing);
  const int32_t there = size;
  PUT(size, 0);
  most = 0;
  for (int32_t n = 0; n < there; n++) {
    region *idle = 0;
    if (!EXCHANGE(workers[n].offer, &idle, &closing)) continue;
    rouse(&workers[n]);
    pthread_join(workers[n].thread, 0);
  }
  pthread_mutex_unlock(&growing);
}
