// CUDA on a CPU, for tests: included before the very source that NVRTC compiles.
//
// Blocks run one after another. The threads of a block are fibres: each runs until it ends or waits
// at a barrier, shuffle or vote, then the next one runs. What hardware leaves undefined is an error
// here: a barrier that a thread never reaches, a shuffle whose lanes do not converge, a lane not in
// its own mask, an index outside a shared or local array. Shared memory is filled with 0xff before
// each block, so that an early read gives NaN or -1. Blocks and threads run forwards, backwards or
// shuffled: a missing barrier shows in one of these orders.
//
// With EMULATED_ELSEWHERE, what runs the threads is only declared: it is compiled once, and linked
// with every kernel. Functions are inline because a compiler that does not optimize emits all
// others, used or not.

#pragma once
#undef _FORTIFY_SOURCE  // it takes a jump from one stack to another for a fault
#define _GLIBCXX_INCLUDE_NEXT_C_HEADERS  // C's headers: parsing C++'s takes as long as all the rest
#include <math.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

#define OPENWORK_EMULATED 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))
#define EMULATED_UNSEEN __attribute__((no_sanitize("thread"), noinline))  // by races.hpp
#define __shared__ static __attribute__((section("emulated_shared")))

struct dim3 {
  unsigned x, y, z;
};
#pragma GCC visibility push(hidden)
inline dim3 gridDim, blockDim, blockIdx, threadIdx;
#pragma GCC visibility pop
static const int warpSize = 32;

extern "C" {
extern char __start_emulated_shared[] __attribute__((weak, visibility("hidden")));
extern char __stop_emulated_shared[] __attribute__((weak, visibility("hidden")));
}

#pragma GCC visibility push(hidden)
namespace emulated {

enum Access { READ, WRITE, ATOMIC };
enum State { READY, ENDED, AT_BARRIER, AT_WARP, AT_UNIT };
enum Kind { SYNCWARP = 1, SHUFFLE, SHUFFLE_UP, SHUFFLE_DOWN, SHUFFLE_XOR, BALLOT, MATCH };

struct Fibre {
  ucontext_t context;  // where it begins
  jmp_buf here;        // where it goes on
  bool begun;
  char *stack;
  State state;
  Kind kind;         // what it waits for
  unsigned mask;     // with which lanes
  int width, other;  // of a shuffle
  unsigned long long value, result;
};

const size_t STACK = 1 << 17;
inline Fibre *fibres;
inline int current, votes;

int launch(unsigned grid_x, unsigned grid_y, unsigned threads, int in_order,
           void (*kernel)(void *), void *given);
void give_up(const char *what);
void leave(State state);
unsigned long long meet(Kind kind, unsigned mask, unsigned long long value, int width, int other);
void touch(void *place, size_t size, Access access);
inline int lane_of(int thread) { return thread & 31; }

}  // namespace emulated
#pragma GCC visibility pop

#ifndef EMULATED_ELSEWHERE
namespace emulated {

const char *const NAMES[] = {"",          "__syncwarp",       "__shfl_sync",   "__shfl_up_sync",
                             "__shfl_down_sync", "__shfl_xor_sync", "a vote", "__match_any_sync"};
static int made, count, order;
static unsigned long long seed = 1;
static jmp_buf scheduler;
static bool failed;
static char message[256];
static void (*body)(void *);
static void *arguments;

}  // namespace emulated

// Race detection replaces what follows with races.hpp.
// {
namespace emulated {
void touch(void *, size_t, Access) {}
static void settle() {}
static void begin_block() {}
static void meet_all() {}
static void meet_unit(int, int) {}
static void meet_lanes(int, unsigned) {}
}  // namespace emulated
// }

namespace emulated {

static void fail(const char *what) {
  if (!failed) snprintf(message, sizeof message, "%s (block %u, %u, thread %u)", what, blockIdx.x,
                        blockIdx.y, threadIdx.x);
  failed = true;
}

// Fail inside a fibre: it never goes on.
void give_up(const char *what) {
  fail(what);
  _longjmp(scheduler, 1);
}

static void place(int thread) {
  current = thread;
  threadIdx = {(unsigned)thread, 0, 0};
}

// Fibres change places with jumps: swapcontext asks the kernel for the signal mask each time.
static void enter(Fibre &fibre) {
  if (_setjmp(scheduler)) return;
  if (fibre.begun) _longjmp(fibre.here, 1);
  fibre.begun = true;
  setcontext(&fibre.context);
}

void leave(State state) {
  settle();
  Fibre &me = fibres[current];
  me.state = state;
  if (!_setjmp(me.here)) _longjmp(scheduler, 1);
}

// A block after the other: when it goes on after its end, it is a thread of the next.
static void run_fibre() {
  for (;;) {
    body(arguments);
    leave(ENDED);
  }
}

static unsigned long long received(const Fibre *warp, int lane, Kind kind) {
  const Fibre &me = warp[lane];
  if (kind == BALLOT || kind == MATCH) {
    unsigned bits = 0;
    for (int l = 0; l < 32; l++)
      if (me.mask >> l & 1)
        bits |= (unsigned)(kind == MATCH ? warp[l].value == me.value : warp[l].value != 0) << l;
    return bits;
  }
  const int first = lane & ~(me.width - 1), last = first + me.width - 1;
  int from = lane;
  if (kind == SHUFFLE) from = first + (me.other & (me.width - 1));
  if (kind == SHUFFLE_UP) from = lane - me.other < first ? lane : lane - me.other;
  if (kind == SHUFFLE_DOWN) from = lane + me.other > last ? lane : lane + me.other;
  if (kind == SHUFFLE_XOR) from = (lane ^ me.other) > last ? lane : lane ^ me.other;
  // The value of a lane that does not participate is undefined.
  return me.mask >> from & 1 ? warp[from].value : 0xfff8dead7ff8dead;
}

// Resume the lanes of a mask once all of them wait for the same thing.
static void complete(int thread) {
  Fibre *warp = fibres + (thread & ~31);
  const unsigned mask = warp[lane_of(thread)].mask;
  const Kind kind = warp[lane_of(thread)].kind;
  for (int l = 0; l < 32; l++)
    if (mask >> l & 1) {
      const int at = (thread & ~31) + l;
      if (at >= count || warp[l].state != AT_WARP || warp[l].mask != mask || warp[l].kind != kind)
        return;
    }
  for (int l = 0; l < 32; l++)
    if (mask >> l & 1) warp[l].result = received(warp, l, kind);
  for (int l = 0; l < 32; l++)
    if (mask >> l & 1) warp[l].state = READY;
  if (kind == SYNCWARP) meet_lanes(thread & ~31, mask);
}

// Resume the threads of a unit once all of them wait for each other.
static void complete_unit(int thread) {
  const int threads = fibres[thread].width, first = thread / threads * threads;
  for (int n = first; n < first + threads; n++)
    if (n >= count || fibres[n].state != AT_UNIT || fibres[n].width != threads) return;
  for (int n = first; n < first + threads; n++) fibres[n].state = READY;
  meet_unit(first, threads);
}

unsigned long long meet(Kind kind, unsigned mask, unsigned long long value, int width, int other) {
  Fibre &me = fibres[current];
  if (!(mask >> lane_of(current) & 1)) give_up("a lane is not in the mask of its own call");
  if (width < 1 || width > 32 || (width & (width - 1))) give_up("a width that is no power of two");
  me.kind = kind, me.mask = mask, me.value = value, me.width = width, me.other = other;
  leave(AT_WARP);
  return me.result;
}

static void stuck() {
  int at_barrier = 0, live = 0;
  Kind kind = SYNCWARP;
  for (int n = 0; n < count; n++) {
    live += fibres[n].state != ENDED;
    at_barrier += fibres[n].state == AT_BARRIER;
    if (fibres[n].state == AT_WARP) kind = fibres[n].kind, place(n);
  }
  char text[160];
  if (at_barrier)
    snprintf(text, sizeof text, "%d of %d threads wait at __syncthreads, others at %s", at_barrier,
             live, NAMES[kind]);
  else
    snprintf(text, sizeof text, "the lanes of %s do not come together", NAMES[kind]);
  fail(text);
}

static int shuffled(int n, int of) {
  if (order == 0) return n;
  if (order == 1) return of - 1 - n;
  // A permutation: multiply by a number coprime to `of`, then shift.
  static const int primes[] = {7919, 104729, 1299709, 15485863};
  for (int prime : primes)
    if (of % prime) return (int)(((unsigned long long)n * prime + seed) % of);
  return n;
}

static void start(int thread) {
  Fibre &fibre = fibres[thread];
  fibre.state = READY;
  if (fibre.begun) return;
  getcontext(&fibre.context);
  fibre.context.uc_stack.ss_sp = fibre.stack;
  fibre.context.uc_stack.ss_size = STACK;
  fibre.context.uc_link = 0;
  makecontext(&fibre.context, (void (*)())run_fibre, 0);
}

static void run_block() {
  if (+__start_emulated_shared != +__stop_emulated_shared)
    memset(__start_emulated_shared, 0xff, __stop_emulated_shared - __start_emulated_shared);
  begin_block();
  for (int n = 0; n < count; n++) start(n);
  for (int left = count; left > 0 && !failed;) {
    bool moved = false;
    for (int n = 0; n < count && !failed; n++) {
      const int thread = shuffled(n, count);
      if (fibres[thread].state != READY) continue;
      moved = true;
      place(thread);
      enter(fibres[thread]);
      if (fibres[thread].state == AT_WARP) complete(thread);
      if (fibres[thread].state == AT_UNIT) complete_unit(thread);
    }
    int waiting = 0;
    left = 0;
    for (int n = 0; n < count; n++) {
      left += fibres[n].state != ENDED;
      waiting += fibres[n].state == AT_BARRIER;
    }
    if (waiting && waiting == left) {
      votes = 0;
      for (int n = 0; n < count; n++)
        if (fibres[n].state == AT_BARRIER) votes += (int)fibres[n].value;
      for (int n = 0; n < count; n++)
        if (fibres[n].state == AT_BARRIER) fibres[n].state = READY;
      meet_all();
    } else if (!moved && left > 0 && !failed) {
      stuck();
    }
  }
  for (int n = 0; failed && n < count; n++) fibres[n].begun = false;  // they hang somewhere
}

static bool make_fibres(int threads) {
  if (threads > 1024 || threads < 1) return false;
  if (!fibres) fibres = (Fibre *)calloc(1024 + 32, sizeof(Fibre));
  for (; fibres && made < threads; made++) {
    void *stack = mmap(0, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (stack == MAP_FAILED) return false;
    fibres[made].stack = (char *)stack;
  }
  for (int n = threads; fibres && n < 1024 + 32; n++) fibres[n].state = ENDED;
  return fibres != 0;
}

// 0, or 1 on failure: `emulated_message` says what went wrong.
int launch(unsigned grid_x, unsigned grid_y, unsigned threads, int in_order,
           void (*kernel)(void *), void *given) {
  failed = false;
  message[0] = 0;
  blockIdx = threadIdx = {0, 0, 0};
  if (grid_x < 1 || grid_y < 1 || grid_x > 0x7fffffffu || grid_y > 65535u)
    return fail("a grid that cannot be launched"), 1;
  if (!make_fibres((int)threads)) return fail("a block that cannot be launched"), 1;
  gridDim = {grid_x, grid_y, 1}, blockDim = {threads, 1, 1};
  count = (int)threads, body = kernel, arguments = given, order = in_order;
  seed = seed * 6364136223846793005ull + 1442695040888963407ull, seed >>= 33;
  for (unsigned y = 0; y < grid_y && !failed; y++)
    for (unsigned x = 0; x < grid_x && !failed; x++) {
      blockIdx = {(unsigned)shuffled((int)x, (int)grid_x), (unsigned)shuffled((int)y, (int)grid_y),
                  0};
      run_block();
    }
  return failed;
}

}  // namespace emulated

extern "C" const char *emulated_message() { return emulated::message; }

// -fsanitize=bounds calls this for an index outside an array.
extern "C" void __ubsan_handle_out_of_bounds(void *, void *) {
  emulated::give_up("an index outside of a shared or local array");
}
extern "C" void __ubsan_handle_out_of_bounds_abort(void *data, void *index) {
  __ubsan_handle_out_of_bounds(data, index);
}
#endif  // EMULATED_ELSEWHERE

namespace emulated {
template <typename T> static inline T shuffle(Kind kind, unsigned mask, T value, int width, int other) {
  static_assert(sizeof(T) == 4 || sizeof(T) == 8, "shuffles move 4 or 8 bytes");
  unsigned long long bits = 0;
  memcpy(&bits, &value, sizeof value);
  bits = meet(kind, mask, bits, width, other);
  T result;
  memcpy(&result, &bits, sizeof result);
  return result;
}
}  // namespace emulated

static inline void __syncthreads() { emulated::leave(emulated::AT_BARRIER); }
static inline int __syncthreads_count(int predicate) {
  emulated::fibres[emulated::current].value = predicate != 0;
  emulated::leave(emulated::AT_BARRIER);
  return emulated::votes;
}
// A named barrier: unit n of so many threads has barrier n + 1, of 16.
static inline void emulated_sync_unit(int threads) {
  if (threads % 32 || (int)blockDim.x / threads > 15)
    emulated::give_up("a unit that has no barrier of its own");
  emulated::fibres[emulated::current].width = threads;
  emulated::leave(emulated::AT_UNIT);
}
static inline void __syncwarp(unsigned mask = 0xffffffffu) {
  emulated::meet(emulated::SYNCWARP, mask, 0, 32, 0);
}
template <typename T> static inline T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  return emulated::shuffle(emulated::SHUFFLE, mask, value, width, lane);
}
template <typename T> static inline T __shfl_up_sync(unsigned mask, T value, unsigned by,
                                                     int width = 32) {
  return emulated::shuffle(emulated::SHUFFLE_UP, mask, value, width, (int)by);
}
template <typename T> static inline T __shfl_down_sync(unsigned mask, T value, unsigned by,
                                                       int width = 32) {
  return emulated::shuffle(emulated::SHUFFLE_DOWN, mask, value, width, (int)by);
}
template <typename T> static inline T __shfl_xor_sync(unsigned mask, T value, int bits,
                                                      int width = 32) {
  return emulated::shuffle(emulated::SHUFFLE_XOR, mask, value, width, bits);
}
static inline unsigned __ballot_sync(unsigned mask, int predicate) {
  return (unsigned)emulated::meet(emulated::BALLOT, mask, predicate != 0, 32, 0);
}
static inline int __any_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) != 0;
}
static inline int __all_sync(unsigned mask, int predicate) {
  return __ballot_sync(mask, predicate) == mask;
}
template <typename T> static inline unsigned __match_any_sync(unsigned mask, T value) {
  unsigned long long bits = 0;
  memcpy(&bits, &value, sizeof value);
  return (unsigned)emulated::meet(emulated::MATCH, mask, bits, 32, 0);
}
// Fibres run one at a time, so only one lane is ever active.
static inline unsigned __activemask() { return 1u << emulated::lane_of(emulated::current); }

template <typename T> static inline T __ldg(const T *place) { return *place; }
template <typename T> static inline T __ldcs(const T *place) { return *place; }
template <typename T> static inline void __stcs(T *place, T value) { *place = value; }
static inline void __threadfence() {}

static inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
static inline int __popcll(unsigned long long bits) { return __builtin_popcountll(bits); }
static inline int __ffs(int bits) { return __builtin_ffs(bits); }
static inline int __ffsll(long long bits) { return __builtin_ffsll(bits); }
static inline int __clz(int bits) { return bits ? __builtin_clz((unsigned)bits) : 32; }
static inline int __float_as_int(float value) { int r; memcpy(&r, &value, 4); return r; }
static inline float __int_as_float(int value) { float r; memcpy(&r, &value, 4); return r; }
static inline long long __double_as_longlong(double value) {
  long long r;
  memcpy(&r, &value, 8);
  return r;
}
static inline double __longlong_as_double(long long value) {
  double r;
  memcpy(&r, &value, 8);
  return r;
}

// Atomics, for the types that hardware supports, on memory that threads can share.
static inline int __isLocal(const void *place) {
  const char *stack = emulated::fibres[emulated::current].stack;
  return (const char *)place >= stack && (const char *)place < stack + emulated::STACK;
}
static inline void emulated_shared(void *place, size_t size) {
  if (__isLocal(place)) emulated::give_up("an atomic operation on memory of one thread");
  emulated::touch(place, size, emulated::ATOMIC);
}
template <typename T> EMULATED_UNSEEN static inline T emulated_add(T *place, T value) {
  emulated_shared(place, sizeof *place);
  const T old = *place;
  *place = old + value;
  return old;
}
static inline float atomicAdd(float *p, float v) { return emulated_add(p, v); }
static inline double atomicAdd(double *p, double v) { return emulated_add(p, v); }
static inline int atomicAdd(int *p, int v) { return (int)emulated_add((unsigned *)p, (unsigned)v); }
static inline unsigned atomicAdd(unsigned *p, unsigned v) { return emulated_add(p, v); }
static inline unsigned long long atomicAdd(unsigned long long *p, unsigned long long v) {
  return emulated_add(p, v);
}
struct __attribute__((aligned(8))) float2 { float x, y; };
struct __attribute__((aligned(16))) float4 { float x, y, z, w; };
// Vectors: element by element, and only in the GPU's global memory.
template <int N> static inline void emulated_add_vector(void *place, const float *value) {
  char *const at = (char *)place;
  if (at >= +__start_emulated_shared && at < +__stop_emulated_shared)
    emulated::give_up("an atomic operation on a vector in shared memory");
  if ((size_t)place % (N * sizeof(float))) emulated::give_up("a vector that is not aligned");
  for (int n = 0; n < N; n++) emulated_add((float *)place + n, value[n]);
}
static inline void atomicAdd(float2 *p, float2 v) { emulated_add_vector<2>(p, &v.x); }
static inline void atomicAdd(float4 *p, float4 v) { emulated_add_vector<4>(p, &v.x); }
EMULATED_UNSEEN static inline unsigned atomicOr(unsigned *place, unsigned bits) {
  emulated_shared(place, sizeof *place);
  const unsigned old = *place;
  *place = old | bits;
  return old;
}
template <typename T> EMULATED_UNSEEN static inline T emulated_min(T *place, T value) {
  emulated_shared(place, sizeof *place);
  const T old = *place;
  if (value < old) *place = value;
  return old;
}
template <typename T> EMULATED_UNSEEN static inline T emulated_max(T *place, T value) {
  emulated_shared(place, sizeof *place);
  const T old = *place;
  if (value > old) *place = value;
  return old;
}
#define EMULATED_EXTREMES(T)                                                  \
  static inline T atomicMin(T *p, T v) { return emulated_min(p, v); }         \
  static inline T atomicMax(T *p, T v) { return emulated_max(p, v); }
EMULATED_EXTREMES(int)
EMULATED_EXTREMES(unsigned)
EMULATED_EXTREMES(long long)
EMULATED_EXTREMES(unsigned long long)
template <typename T> EMULATED_UNSEEN static inline T emulated_exchange(T *place, T value) {
  emulated_shared(place, sizeof *place);
  const T old = *place;
  *place = value;
  return old;
}
static inline int atomicExch(int *p, int v) { return emulated_exchange(p, v); }
static inline float atomicExch(float *p, float v) { return emulated_exchange(p, v); }
static inline unsigned long long atomicExch(unsigned long long *p, unsigned long long v) {
  return emulated_exchange(p, v);
}
template <typename T> EMULATED_UNSEEN static inline T emulated_swap(T *place, T expected, T value) {
  emulated_shared(place, sizeof *place);
  T old;
  memcpy(&old, place, sizeof old);
  if (old == expected) memcpy(place, &value, sizeof value);
  return old;
}
static inline int atomicCAS(int *p, int e, int v) { return emulated_swap(p, e, v); }
static inline unsigned atomicCAS(unsigned *p, unsigned e, unsigned v) {
  return emulated_swap(p, e, v);
}
static inline unsigned short atomicCAS(unsigned short *p, unsigned short e, unsigned short v) {
  return emulated_swap(p, e, v);
}
static inline unsigned long long atomicCAS(unsigned long long *p, unsigned long long e,
                                           unsigned long long v) {
  return emulated_swap(p, e, v);
}
