"""CUDA C++ as a dialect: accepted by NVRTC and, under the emulator's header, by g++."""

from __future__ import annotations

from openwork.render.dialect import COMMON_TYPES, Dialect, Form
from openwork.render.precedence import ATOM, CHOICE, UNARY

INDEX_TYPE = "index_t"  # 32 bits where all sizes and positions fit
CUDA_TYPES = COMMON_TYPES | {
    "bool": "bool",
    "complex64": "Complex<float>",
    "complex128": "Complex<double>",
}

CUDA = Dialect(
    name="CUDA",
    types=CUDA_TYPES,
    index=INDEX_TYPE,
    function="static __device__",
    inline="static __device__",
    truth=("false", "true"),
    infinity={
        "float32": "__int_as_float(0x7f800000)",
        "float64": "__longlong_as_double(0x7ff0000000000000ll)",
    },
    nan={
        "float32": "__int_as_float(0x7fc00000)",
        "float64": "__longlong_as_double(0x7ff8000000000000ll)",
    },
    library="",
    formulas=frozenset(),
    complex_function="c{name}",
    complex_value="{type}({real}, {imag})",
    real=Form("{x}.re", ATOM, ATOM),
    imag=Form("{x}.im", ATOM, ATOM),
    conjugate=Form("{type}({x}.re, -{x}.im)", ATOM, ATOM),
    nonzero=Form("nonzero({x})", CHOICE, ATOM),
    from_complex=Form("({type}){x}.re", ATOM, UNARY),
    to_complex=Form("{type}(({half}){x})", UNARY, ATOM),
    lowest_bit=Form("(__ffsll((long long){x}) - 1)", UNARY, ATOM),
    number_of_bits=Form("__popcll({x})", CHOICE, ATOM),
    malloc=f"({INDEX_TYPE} *)malloc",
    free="free",
)
