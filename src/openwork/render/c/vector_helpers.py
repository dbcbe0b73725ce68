"""C helpers for SIMD vectors: their types, sums of lanes, number of registers."""

from __future__ import annotations

from openwork.algebra.operators import BUILTIN
from openwork.algebra.types import SUPPORTED
from openwork.errors import InternalError
from openwork.program.vectorize import NARROW, SHORT, WIDE
from openwork.render.c.dialect import CTYPES, C
from openwork.render.spelling import constant

_VECTOR = """\
// As many elements as the processor has lanes for: $sizes bytes.
$lanes
typedef $ctype vector_$type __attribute__((vector_size(LANES_$type * sizeof($ctype))));
// The same anywhere in an array.
typedef vector_$type near_$type __attribute__((aligned(sizeof($ctype)), may_alias));
"""

# The bytes of a vector, and the compiler's macro for processors that have it.
_SIZES = {WIDE: "__AVX512F__", NARROW: "__AVX__"}

_SUM = """\
// The sum of all lanes of some vectors.
static inline $ctype sum_$type(const vector_$type *vectors, int64_t count) {
  vector_$type lanes = vectors[0];
#pragma GCC unroll 16
  for (int64_t n = 1; n < count; n++) lanes += vectors[n];
  typedef $ctype part __attribute__((vector_size(16)));
  part parts[sizeof lanes / 16];
  __builtin_memcpy(parts, &lanes, sizeof lanes);
#pragma GCC unroll 2
  for (int64_t half = sizeof lanes / 32; half; half /= 2)
#pragma GCC unroll 2
    for (int64_t n = 0; n < half; n++) parts[n] += parts[n + half];
#if defined __aarch64__ && !defined __clang__
  return __builtin_aarch64_reduc_plus_scal_$mode(parts[0]);  // which gcc does not find by itself
#else
  $ctype sum = parts[0][0];
#pragma GCC unroll 4
  for (int64_t n = 1; n < 16 / (int64_t)sizeof($ctype); n++) sum += parts[0][n];
  return sum;
#endif
}
"""

_LANES = """\
// The lanes of a vector are combined as elements are: NaN wins.
#pragma omp declare reduction(lanes_${name}_$type : $ctype : \\
  omp_out = ${name}_$type(omp_out, omp_in)) initializer(omp_priv = $identity)
"""

_EXTREME = """\
// As of elements, lane by lane: NaN wins.
static inline vector_$type ${name}_$type(vector_$type a, vector_$type b) {
  typedef $same bits __attribute__((vector_size(sizeof(vector_$type))));
  const bits first = (bits)(a $sign b) | (bits)(a != a);
  return (vector_$type)(((bits)a & first) | ((bits)b & ~first));
}
"""

# Of vectors with masks and gathers: the lanes, and the compiler's names of what has no operator.
_SAME_SIZE = {"float64": "int64_t", "float32": "int32_t"}
MASKED = {"float64": (8, "pd", "8df", 256), "float32": (16, "ps", "16sf", 512)}
# With SLOW_GATHERS, a flag for the compiler, elements are loaded one by one; what is read in order
# is then asked for 16 vectors ahead.
_MASKED = """\
#if defined __AVX512F__ && defined __AVX512VL__
// Vectors whose lanes from `on` on are zero, and whose memory is not touched.
typedef $ctype masked_$type __attribute__((vector_size(64)));
typedef int32_t places_$type __attribute__((vector_size($lanes * sizeof(int32_t))));
typedef unsigned $mask mask_$type;
#define LANES_masked_$type $lanes
#define SUM_MASKED_$type(name)
// Whole vectors, and the first `on` lanes of one.
static inline masked_$type all_$type(const $ctype *from) {
  masked_$type lanes;
#ifdef SLOW_GATHERS
  __builtin_prefetch(from + 16 * $lanes);
#endif
  __builtin_memcpy(&lanes, from, sizeof lanes);
  return lanes;
}
static inline masked_$type gather_all_$type(const $ctype *from, const int32_t *at) {
#ifdef SLOW_GATHERS
  __builtin_prefetch(at + 16 * $lanes);
  return (masked_$type){$each};
#else
  const masked_$type none = {0};
  places_$type places;
  __builtin_memcpy(&places, at, sizeof places);
  return __builtin_ia32_gathersiv$mode(none, from, places, (mask_$type)-1, sizeof($ctype));
#endif
}
static inline masked_$type take_$type(const $ctype *from, int64_t on) {
  const masked_$type none = {0};
  return __builtin_ia32_loadu${suffix}512_mask(from, none, (mask_$type)((1u << on) - 1));
}
static inline masked_$type gather_$type(const $ctype *from, const int32_t *at, int64_t on) {
  const mask_$type mask = (mask_$type)((1u << on) - 1);
  const places_$type nowhere = {0};
  const places_$type places =
      __builtin_ia32_loaddqusi${bits}_mask((const void *)at, nowhere, mask);
#ifdef SLOW_GATHERS
  typedef $same lanes_$type __attribute__((vector_size(64)));
  const lanes_$type used = (lanes_$type){$numbers} < ($same)on;
  int32_t known[$lanes];
  __builtin_memcpy(known, &places, sizeof known);
  return (masked_$type)((lanes_$type)gather_all_$type(from, known) & used);
#else
  const masked_$type none = {0};
  return __builtin_ia32_gathersiv$mode(none, from, places, mask, sizeof($ctype));
#endif
}
static inline $ctype sum_masked_$type(masked_$type lanes) {
  typedef $ctype half __attribute__((vector_size(32)));
  typedef $ctype quarter __attribute__((vector_size(16)));
  half halves[2];
  __builtin_memcpy(halves, &lanes, sizeof lanes);
  halves[0] += halves[1];
  quarter quarters[2];
  __builtin_memcpy(quarters, halves, sizeof *halves);
  quarters[0] += quarters[1];
  return $last;
}
#else
// Without masks: one lane, which compilers may turn into several.
typedef $ctype masked_$type;
#define LANES_masked_$type 1
#define PRAGMA_MASKED_$type(text) _Pragma(#text)
#define SUM_MASKED_$type(name) PRAGMA_MASKED_$type(omp simd reduction(+ : name))
static inline $ctype all_$type(const $ctype *from) { return *from; }
static inline $ctype gather_all_$type(const $ctype *from, const int32_t *at) { return from[*at]; }
static inline $ctype take_$type(const $ctype *from, int64_t on) {
  (void)on;
  return *from;
}
static inline $ctype gather_$type(const $ctype *from, const int32_t *at, int64_t on) {
  (void)on;
  return from[*at];
}
static inline $ctype sum_masked_$type($ctype lanes) { return lanes; }
#endif
"""

ROWS = 8  # whose lanes are summed up at once
_SUM_ROWS = """\
#if defined __AVX512F__ && defined __AVX512VL__
#if defined __clang__ || __GNUC__ >= 12
#define PICK_$type(a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define PICK_$type(a, b, ...) __builtin_shuffle(a, b, (picks_$type){__VA_ARGS__})
#endif
typedef $ctype eight_$type __attribute__((vector_size(8 * sizeof($ctype))));
typedef $index picks_$type __attribute__((vector_size(8 * sizeof($ctype))));
// The sum of the lanes of each of eight vectors: neighbours, then pairs, then halves.
static inline void sum_rows_$type(const masked_$type *rows, $ctype *sums) {
  eight_$type pairs[4], fours[2];
#pragma GCC unroll 4
  for (int64_t n = 0; n < 4; n++) {
    $fold
    pairs[n] = PICK_$type(a, b, 0, 8, 2, 10, 4, 12, 6, 14) +
               PICK_$type(a, b, 1, 9, 3, 11, 5, 13, 7, 15);
  }
#pragma GCC unroll 2
  for (int64_t n = 0; n < 2; n++)
    fours[n] = PICK_$type(pairs[2 * n], pairs[2 * n + 1], 0, 1, 8, 9, 4, 5, 12, 13) +
               PICK_$type(pairs[2 * n], pairs[2 * n + 1], 2, 3, 10, 11, 6, 7, 14, 15);
  const eight_$type all = PICK_$type(fours[0], fours[1], 0, 1, 2, 3, 8, 9, 10, 11) +
                          PICK_$type(fours[0], fours[1], 4, 5, 6, 7, 12, 13, 14, 15);
  __builtin_memcpy(sums, &all, sizeof all);
}
#else
static inline void sum_rows_$type(const masked_$type *rows, $ctype *sums) {
  for (int64_t n = 0; n < 8; n++) sums[n] = rows[n];
}
#endif
"""
# The eight lanes of two rows; of sixteen lanes, those half a vector apart are added first.
_FOLD = {
    "float64": "const eight_float64 a = rows[2 * n], b = rows[2 * n + 1];",
    "float32": """\
eight_float32 halves[4];
    __builtin_memcpy(halves, rows + 2 * n, sizeof halves);
    const eight_float32 a = halves[0] + halves[1], b = halves[2] + halves[3];""",
}

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

VECTOR_HELPERS = (
    *("vector", "masked", "sum_rows", "sum", "many_registers"),
    *("lanes_min", "lanes_max", "min_lanes", "max_lanes"),
)


def vector_text(name: str, kind: str) -> str:
    """The C text of one of `VECTOR_HELPERS`, for a kind of vectors or for the type of lanes."""
    match name:
        case "vector":
            return _types(kind)
        case "masked":
            lanes, suffix, mode, bits = MASKED[kind]
            pairs = [f"quarters[0][{n}] + quarters[0][{n + 1}]" for n in range(0, lanes // 4, 2)]
            last = pairs[0] if len(pairs) == 1 else " + ".join(f"({pair})" for pair in pairs)
            mask = "char" if lanes == 8 else "short"
            each = ", ".join(f"from[at[{n}]]" for n in range(lanes))
            return C.fill(
                _MASKED, kind, ctype=CTYPES[kind], lanes=str(lanes), mask=mask, suffix=suffix,
                mode=mode, bits=str(bits), last=last, same=_SAME_SIZE[kind], each=each,
                numbers=", ".join(map(str, range(lanes))),
            )  # fmt: skip
        case "sum_rows":
            index = _SAME_SIZE[kind]
            return C.fill(_SUM_ROWS, kind, ctype=CTYPES[kind], index=index, fold=_FOLD[kind])
        case "sum":
            element = _element(kind)
            mode = {"float32": "v4sf", "float64": "v2df"}[element]
            return C.fill(_SUM, kind, ctype=CTYPES[element], mode=mode)
        case "lanes_min" | "lanes_max":
            op = BUILTIN[name.removeprefix("lanes_")]
            identity = constant(op.identity_of(SUPPORTED[kind]), kind, C)[0]
            return C.fill(_LANES, kind, name=op.name, identity=identity)
        case "min_lanes" | "max_lanes":
            sign, same = "<" if name == "min_lanes" else ">", _SAME_SIZE[_element(kind)]
            return C.fill(_EXTREME, kind, name=name, sign=sign, same=same)
        case "many_registers":
            return _MANY_REGISTERS
    raise InternalError(f"no helper {name}")


def vector_kind(type: str, bytes: int) -> str:
    """The suffix of types and helpers for vectors of so many bytes."""
    return {WIDE: "", NARROW: "narrow_", SHORT: "short_"}[bytes] + type


def _element(kind: str) -> str:
    """The type of the elements of a kind of vectors."""
    return kind.rpartition("_")[2]


def _types(kind: str) -> str:
    """The vector types, up to the widest or narrow ones."""
    ctype = CTYPES[_element(kind)]
    most = {"": WIDE, "narrow_": NARROW, "short_": SHORT}[kind.removesuffix(_element(kind))]
    sizes = [size for size in _SIZES if size <= most]
    lines: list[str] = []
    if not sizes:
        lanes = f"#define LANES_{kind} ({SHORT} / (int64_t)sizeof({ctype}))"
        return C.fill(_VECTOR, kind, ctype=ctype, lanes=lanes, sizes=str(SHORT))
    for size in (*sizes, SHORT):
        word = "elif" if lines else "if"
        lines.append(f"#{word} defined {_SIZES[size]}" if size in sizes else "#else")
        lines.append(f"#define LANES_{kind} ({size} / (int64_t)sizeof({ctype}))")
    lines.append("#endif")
    told = f"{', '.join(map(str, sizes))} or 16"
    return C.fill(_VECTOR, kind, ctype=ctype, lanes="\n".join(lines), sizes=told)
