/* Stands in for AVX-512 on any processor, so that loops in masked vectors run where tests do. */
#define __AVX512F__ 1
#define __AVX512VL__ 1

#define STAND_IN_TAKE(NAME, TYPE, MASK, LANES)                                             \
  typedef TYPE NAME##_vector __attribute__((vector_size(LANES * sizeof(TYPE))));           \
  static NAME##_vector NAME(const TYPE *from, NAME##_vector other, unsigned MASK mask) {   \
    for (int lane = 0; lane < LANES; lane++)                                               \
      if (mask >> lane & 1) other[lane] = from[lane];                                      \
    return other;                                                                          \
  }
#define STAND_IN_GATHER(NAME, TYPE, MASK, LANES)                                           \
  typedef TYPE NAME##_vector __attribute__((vector_size(LANES * sizeof(TYPE))));           \
  typedef int NAME##_places __attribute__((vector_size(LANES * sizeof(int))));             \
  static NAME##_vector NAME(NAME##_vector other, const void *from, NAME##_places at,       \
                            unsigned MASK mask, int scale) {                               \
    for (int lane = 0; lane < LANES; lane++)                                               \
      if (mask >> lane & 1)                                                                \
        other[lane] = *(const TYPE *)((const char *)from + (long)scale * at[lane]);        \
    return other;                                                                          \
  }

STAND_IN_TAKE(take_pd, double, char, 8)
STAND_IN_TAKE(take_ps, float, short, 16)
STAND_IN_TAKE(take_8, int, char, 8)
STAND_IN_TAKE(take_16, int, short, 16)
STAND_IN_GATHER(gather_pd, double, char, 8)
STAND_IN_GATHER(gather_ps, float, short, 16)
#define __builtin_ia32_loadupd512_mask take_pd
#define __builtin_ia32_loadups512_mask take_ps
#define __builtin_ia32_loaddqusi256_mask take_8
#define __builtin_ia32_loaddqusi512_mask take_16
#define __builtin_ia32_gathersiv8df gather_pd
#define __builtin_ia32_gathersiv16sf gather_ps
