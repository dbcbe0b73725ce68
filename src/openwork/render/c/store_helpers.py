"""C helpers for stores: of bits, of segments, and streaming stores."""

from __future__ import annotations

from openwork.algebra.types import half_of, is_complex, size_of
from openwork.errors import InternalError
from openwork.render.c.dialect import CTYPES, C

_WORD = """\
// Any element of this size, as bits.
typedef $ctype __attribute__((may_alias)) word_$type;
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
static inline void stream_$type($ctype *at, $ctype value) {
#if __has_builtin(__builtin_nontemporal_store)
  __builtin_nontemporal_store(value, at);
$gcc#else
  *at = value;
#endif
}
"""

# Sanitizers do not see what this instruction stores: for them it is a plain store.
_STREAM_GCC = """\
#elif defined(__x86_64__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  $word bits;
  __builtin_memcpy(&bits, &value, sizeof bits);
  __builtin_ia32_movnti$suffix(($word *)at, bits);
"""

_STREAM_COMPLEX = """\
static inline void stream_$type($ctype *at, $ctype value) {
  stream_$half(($chalf *)at, __real__ value);
  stream_$half(($chalf *)at + 1, __imag__ value);
}
"""

_PUT_AT = """\
// Copy the first `count` elements to where `to` has its element `begin`.
static inline void put_at_$type($ctype *to, int64_t begin, const $ctype *from, int64_t count) {
  __builtin_memcpy(to + begin, from, (size_t)count * sizeof *to);
}
"""

STORE_HELPERS = ("word", "put_at", "fence", "stream")


def store_text(name: str, type: str) -> str:
    """The C text of one of `STORE_HELPERS`."""
    match name:
        case "word":
            return C.fill(_WORD, type)
        case "put_at":
            return C.fill(_PUT_AT, type)
        case "fence":
            return _FENCE
        case "stream":
            return _stream_text(type)
    raise InternalError(f"no helper {name}")


def _stream_text(type: str) -> str:
    """The helper for streaming stores of elements of `type`."""
    if is_complex(type):
        half = half_of(type)
        return C.fill(_STREAM_COMPLEX, type, half=half, chalf=CTYPES[half])
    gcc, size = "", size_of(type)
    if size in (4, 8):  # the sizes that x86-64 streams from a register
        word, suffix = ("int", "") if size == 4 else ("long long", "64")
        gcc = C.fill(_STREAM_GCC, word=word, suffix=suffix)
    return C.fill(_STREAM, type, gcc=gcc)
