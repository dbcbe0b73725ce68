/* What a machine's threads and memory take; `calibration.py` has the masked vectors before this. */
struct moment {
  long seconds, nanoseconds;
};
extern int clock_gettime(int, struct moment *);

static double now(void) {
  struct moment at;
  clock_gettime(0, &at); /* the one clock that has the same number on every system */
  return (double)at.seconds * 1e9 + (double)at.nanoseconds;
}

enum { ROUNDS = 301 };

/* A tenth of the rounds are faster: a busy machine is to count little. */
static double undisturbed(double *times) {
  for (int64_t n = 1; n < ROUNDS; n++)
    for (int64_t k = n; k > 0 && times[k] < times[k - 1]; k--) {
      const double larger = times[k - 1];
      times[k - 1] = times[k];
      times[k] = larger;
    }
  return times[ROUNDS / 10];
}

/* Nanoseconds to start threads on a loop and wait for them, while they are awake: what a loop takes
 * beyond its parts. These take longer than starting, or the first thread would run them all. */
enum { PART = 20000 };

double fork_join(int32_t threads) {
  static double times[ROUNDS];
  for (int64_t round = 0; round < ROUNDS; round++) {
    const double start = now();
#pragma omp parallel for schedule(static, 1) num_threads(threads) if (threads > 1)
    for (int32_t part = 0; part < threads; part++) {
      const double begin = now();
      while (now() - begin < PART) {}
    }
    times[round] = now() - start - PART;
  }
  return undisturbed(times);
}

/* Nanoseconds to add up an array. */
double read_all(const double *array, int64_t count, int32_t threads, double *sum) {
  const double start = now();
  double total = 0;
#pragma omp parallel for simd schedule(static) num_threads(threads) reduction(+ : total)
  for (int64_t n = 0; n < count; n++) total += array[n];
  *sum = total;
  return now() - start;
}

/* Nanoseconds of SpMV, element by element. */
double rows_scalar(const int32_t *pos, const int32_t *crd, const double *values, const double *x,
                   double *y, int64_t rows) {
  const double start = now();
  for (int64_t i = 0; i < rows; i++) {
    double sum = 0;
    for (int64_t p = pos[i]; p < pos[i + 1]; p++) sum += values[p] * x[crd[p]];
    y[i] = sum;
  }
  return now() - start;
}

/* The same in vectors with masks. */
double rows_masked(const int32_t *pos, const int32_t *crd, const double *values, const double *x,
                   double *y, int64_t rows) {
  const double start = now();
  for (int64_t i = 0; i < rows; i++) {
    masked_float64 sum = {0};
    const int64_t end = pos[i + 1], whole = end - ((end - pos[i]) & (LANES_masked_float64 - 1));
    for (int64_t p = pos[i]; p < whole; p += LANES_masked_float64)
      sum += all_float64(&values[p]) * gather_all_float64(x, &crd[p]);
    if (whole < end)
      sum += take_float64(&values[whole], end - whole) * gather_float64(x, &crd[whole], end - whole);
    y[i] = sum_masked_float64(sum);
  }
  return now() - start;
}
