"""C helpers for stores by many threads, around the cache, and by the lanes of vectors."""

from __future__ import annotations

from openwork.algebra.operators import BUILTIN
from openwork.algebra.types import SUPPORTED
from openwork.render.spelling import CTYPES, constant, half_of, is_complex, size_of

_WORD = """\
// Any element of this size, as bits.
typedef {ctype} __attribute__((may_alias)) word_{type};
"""

_FENCE = """\
// What was streamed is there before anything that follows.
static inline void fence(void) {
#ifdef __x86_64__
  __builtin_ia32_sfence();
#endif
}
"""

_STREAM = """\
#ifndef __has_builtin
#define __has_builtin(name) 0
#endif

// A store around the cache, where there is one: nobody reads the element soon.
static inline void stream_{type}({ctype} *at, {ctype} value) {{
#if __has_builtin(__builtin_nontemporal_store)
  __builtin_nontemporal_store(value, at);
{gcc}#else
  *at = value;
#endif
}}
"""

_STREAM_GCC = """\
#elif defined(__x86_64__)
  {word} bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  __builtin_ia32_movnti{suffix}(({word} *)at, bits);
"""

_STREAM_COMPLEX = """\
static inline void stream_{type}({ctype} *at, {ctype} value) {{
  stream_{half}(({chalf} *)at, __real__ value);
  stream_{half}(({chalf} *)at + 1, __imag__ value);
}}
"""

_LANES = """\
// The lanes of a vector are combined as elements are: NaN wins.
#pragma omp declare reduction(lanes_{name}_{type} : {ctype} : \\
  omp_out = {name}_{type}(omp_out, omp_in)) initializer(omp_priv = {identity})
"""

_VECTOR = """\
// As many elements as the processor has lanes for: 32 bytes or 16.
#ifdef __AVX__
#define LANES_{type} (32 / (int64_t)sizeof({ctype}))
#else
#define LANES_{type} (16 / (int64_t)sizeof({ctype}))
#endif
typedef {ctype} vector_{type} __attribute__((vector_size(LANES_{type} * sizeof({ctype}))));
// The same anywhere in an array.
typedef vector_{type} near_{type} __attribute__((aligned(sizeof({ctype})), may_alias));
"""

_SUM = """\
// The sum of all lanes of some vectors.
static inline {ctype} sum_{type}(const vector_{type} *vectors, int64_t count) {{
  vector_{type} lanes = vectors[0];
#pragma GCC unroll 16
  for (int64_t n = 1; n < count; n++) lanes += vectors[n];
#if defined __aarch64__ && !defined __clang__
  return __builtin_aarch64_reduc_plus_scal_{mode}(lanes);  // which gcc does not find by itself
#else
  {ctype} sum = lanes[0];
#pragma GCC unroll 16
  for (int64_t n = 1; n < LANES_{type}; n++) sum += lanes[n];
  return sum;
#endif
}}
"""

_ASK_FOR_LINES = """\
// Bring some lines of 64 bytes closer; asking for what is not there does no harm.
static inline void ask_for_lines(const void *at, int32_t lines) {
#ifdef __aarch64__
  // Some cores ignore a prefetch whose address is a sum of two registers.
  __asm__("" : "+r"(at));
#endif
#pragma GCC unroll 16
  for (int32_t n = 0; n < lines; n++)
    __builtin_prefetch((const void *)((__UINTPTR_TYPE__)at + 64 * (__UINTPTR_TYPE__)n));
}
"""

_ASK_FOR = """\
// Bring memory closer that will be needed soon.
static inline void ask_for(const void *at) {
#ifdef __aarch64__
  // Some cores ignore a prefetch whose address is a sum of two registers.
  __asm__("" : "+r"(at));
#endif
  __builtin_prefetch(at);
}
"""

STORE_HELPERS = (
    "word", "fence", "ask_for", "ask_for_lines", "vector", "sum", "stream", "lanes_min", "lanes_max"
)  # fmt: skip


def store_text(name: str, type: str) -> str:
    """The C text of one of `STORE_HELPERS`."""
    ctype = CTYPES.get(type, "")
    match name:
        case "word":
            return _WORD.format(type=type, ctype=ctype)
        case "fence":
            return _FENCE
        case "ask_for":
            return _ASK_FOR
        case "ask_for_lines":
            return _ASK_FOR_LINES
        case "vector":
            return _VECTOR.format(type=type, ctype=ctype)
        case "sum":
            mode = {"float32": "v4sf", "float64": "v2df"}[type]
            return _SUM.format(type=type, ctype=ctype, mode=mode)
        case "stream":
            return _stream_text(type, ctype)
    op = BUILTIN[name.removeprefix("lanes_")]
    identity = constant(op.identity_of(SUPPORTED[type]), type)[0]
    return _LANES.format(name=op.name, type=type, ctype=ctype, identity=identity)


def _stream_text(type: str, ctype: str) -> str:
    """The helper that streams elements of `type`."""
    size = size_of(type)
    if is_complex(type):
        half = half_of(type)
        return _STREAM_COMPLEX.format(type=type, ctype=ctype, half=half, chalf=CTYPES[half])
    gcc = ""
    if size in (4, 8):  # the sizes that x86-64 streams from a register
        word, suffix = ("int", "") if size == 4 else ("long long", "64")
        gcc = _STREAM_GCC.format(word=word, suffix=suffix)
    return _STREAM.format(type=type, ctype=ctype, gcc=gcc)
