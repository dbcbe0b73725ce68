"""C helpers for stores by many threads, around the cache, and by the lanes of vectors."""

from __future__ import annotations

from openwork.algebra.operators import BUILTIN
from openwork.algebra.types import SUPPORTED, half_of, is_complex, size_of
from openwork.program.vectorize import NARROW, WIDE
from openwork.render.spelling import CTYPES, constant

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

# Sanitizers do not see what this instruction stores: for them it is a plain store.
_STREAM_GCC = """\
#elif defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
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
// As many elements as the processor has lanes for: {sizes} bytes.
{lanes}
typedef {ctype} vector_{type} __attribute__((vector_size(LANES_{type} * sizeof({ctype}))));
// The same anywhere in an array.
typedef vector_{type} near_{type} __attribute__((aligned(sizeof({ctype})), may_alias));
"""

# The bytes of a vector, and the macro by which compilers tell that the processor has such.
_SIZES = {WIDE: "__AVX512F__", NARROW: "__AVX__"}

_SUM = """\
// The sum of all lanes of some vectors.
static inline {ctype} sum_{type}(const vector_{type} *vectors, int64_t count) {{
  vector_{type} lanes = vectors[0];
#pragma GCC unroll 16
  for (int64_t n = 1; n < count; n++) lanes += vectors[n];
  typedef {ctype} part __attribute__((vector_size(16)));
  part parts[sizeof lanes / 16];
  __builtin_memcpy(parts, &lanes, sizeof lanes);
#pragma GCC unroll 2
  for (int64_t half = sizeof lanes / 32; half; half /= 2)
#pragma GCC unroll 2
    for (int64_t n = 0; n < half; n++) parts[n] += parts[n + half];
#if defined __aarch64__ && !defined __clang__
  return __builtin_aarch64_reduc_plus_scal_{mode}(parts[0]);  // which gcc does not find by itself
#else
  {ctype} sum = parts[0][0];
#pragma GCC unroll 4
  for (int64_t n = 1; n < 16 / (int64_t)sizeof({ctype}); n++) sum += parts[0][n];
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

_WRITE_SOON = """\
// Get some lines of 64 bytes that will be written soon.
static inline void write_soon(void *at, int32_t lines) {
#ifdef __aarch64__
  // Some cores ignore a prefetch whose address is a sum of two registers.
  __asm__("" : "+r"(at));
#endif
#pragma GCC unroll 4
  for (int32_t n = 0; n < lines; n++)
    __builtin_prefetch((void *)((__UINTPTR_TYPE__)at + 64 * (__UINTPTR_TYPE__)n), 1);
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

_GATHER_SOON = """\
// Bring memory closer that a gather will need soon, where the processor does not see it coming.
static inline void gather_soon(const void *at) {
#ifndef __AVX512F__
  ask_for(at);
#endif
}
"""

_MANY_REGISTERS = """\
// Whether vector registers hold 1024 bytes of sums, and have room to spare.
static inline _Bool many_registers(void) {
#ifdef __AVX512F__
  return 1;
#else
  return 0;
#endif
}
"""

_WITHOUT_BRANCHES = """\
// Whether it is better to select than to branch: on x86, compilers seldom select when asked to.
static inline _Bool without_branches(void) {
#ifdef __x86_64__
  return 0;
#else
  return 1;
#endif
}
"""

_PUT_AT = """\
// Copy the first `count` elements to where `to` has its element `begin`.
static inline void put_at_{type}({ctype} *to, int64_t begin, const {ctype} *from, int64_t count) {{
  __builtin_memcpy(to + begin, from, (size_t)count * sizeof *to);
}}
"""

STORE_HELPERS = (
    "put_at", "word", "fence", "ask_for", "ask_for_lines", "write_soon", "gather_soon",
    "vector", "sum", "stream", "lanes_min", "lanes_max", "many_registers", "without_branches",
)  # fmt: skip


def store_text(name: str, type: str) -> str:
    """The C text of one of `STORE_HELPERS`."""
    ctype = CTYPES.get(type, "")
    match name:
        case "word":
            return _WORD.format(type=type, ctype=ctype)
        case "put_at":
            return _PUT_AT.format(type=type, ctype=ctype)
        case "fence":
            return _FENCE
        case "ask_for":
            return _ASK_FOR
        case "many_registers":
            return _MANY_REGISTERS
        case "without_branches":
            return _WITHOUT_BRANCHES
        case "gather_soon":
            return _GATHER_SOON
        case "ask_for_lines":
            return _ASK_FOR_LINES
        case "write_soon":
            return _WRITE_SOON
        case "vector":
            return _vector_text(type)
        case "sum":
            element = _element(type)
            mode = {"float32": "v4sf", "float64": "v2df"}[element]
            return _SUM.format(type=type, ctype=CTYPES[element], mode=mode)
        case "stream":
            return _stream_text(type, ctype)
    op = BUILTIN[name.removeprefix("lanes_")]
    identity = constant(op.identity_of(SUPPORTED[type]), type)[0]
    return _LANES.format(name=op.name, type=type, ctype=ctype, identity=identity)


def vector_kind(type: str, bytes: int) -> str:
    """What the names of types and helpers for vectors of so many bytes end with."""
    return f"narrow_{type}" if bytes == NARROW else type


def _element(kind: str) -> str:
    """The type of the elements of a kind of vectors."""
    return kind.removeprefix("narrow_")


def _vector_text(kind: str) -> str:
    """The types of vectors, up to the widest or narrow ones."""
    ctype = CTYPES[_element(kind)]
    most = WIDE if kind == _element(kind) else NARROW
    sizes = [size for size in _SIZES if size <= most]
    lines: list[str] = []
    for size in (*sizes, 16):
        word = "elif" if lines else "if"
        lines.append(f"#{word} defined {_SIZES[size]}" if size in sizes else "#else")
        lines.append(f"#define LANES_{kind} ({size} / (int64_t)sizeof({ctype}))")
    lines.append("#endif")
    told = f"{', '.join(map(str, sizes))} or 16"
    return _VECTOR.format(type=kind, ctype=ctype, lanes="\n".join(lines), sizes=told)


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
