"""Files that lie about themselves: each is refused with the file, the line, and what is wrong."""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import sys
import tracemalloc
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.io import mmread as io_mmread

from openwork.errors import DataError, OpenworkError
from openwork.format.formats import CSR, DCSR, dense
from openwork.tensor.create import tensor
from openwork.tensor.files import read, write
from openwork.tensor.files.lines import entry_lines, target
from openwork.tensor.files.lines.source import LONGEST_LINE

MM = "%%MatrixMarket matrix coordinate "
REAL = MM + "real general\n"
SQUARE = REAL + "3 3 2\n"
HUGE = 4_000_000_000_000_000_000

# (text, line, what the message says)
MARKET: list[tuple[str, int, str]] = [
    # banners
    ("", 1, "not with a banner"),
    ("hello\n", 1, "begins with 'hello', not with a banner"),
    ("3 3 1\n1 1 1\n", 1, "not with a banner"),
    ("MatrixMarket matrix coordinate real general\n1 1 1\n1 1 1\n", 1, "not with a banner"),
    ("%%MatrixMarket\n1 1 1\n1 1 1\n", 1, "the banner has 0 words after the first, but needs 4"),
    ("%%MatrixMarket matrix array real\n1 1\n1\n", 1, "the banner has 3 words"),
    (MM + "real general extra\n1 1 0\n", 1, "the banner has 5 words"),
    ("%%MatrixMarket tensor coordinate real general\n1 1 0\n", 1, "'tensor' is not a known object"),
    ("%%MatrixMarket matrix sparse real general\n1 1 0\n", 1, "'sparse' is not a known format"),
    (MM + "quaternion general\n1 1 0\n", 1, "'quaternion' is not a known field"),
    (MM + "real triangular\n1 1 0\n", 1, "'triangular' is not a known symmetry"),
    ("%%MatrixMarket matrix array pattern general\n1 1\n", 1, "would have no values"),
    (MM + "pattern skew-symmetric\n1 1 0\n", 1, "a pattern cannot be skew-symmetric"),
    (MM + "pattern hermitian\n1 1 0\n", 1, "a pattern cannot be hermitian"),
    (MM + "unsigned-integer skew-symmetric\n1 1 0\n", 1, "cannot be skew-symmetric"),
    ("%%MatrixMarket vector coordinate real symmetric\n1 0\n", 1, "a vector cannot be symmetric"),
    ("%%MatrixMarket matrix coordinate r\xe9al general\n1 1 0\n", 1, "is not a known field"),
    # sizes
    (REAL, 1, "it ends before its sizes"),
    (REAL + "% only\n% comments\n\n", 4, "it ends before its sizes"),
    (REAL + "3 3\n", 2, "'3 3' is not a line of sizes, which has rows, columns, entries"),
    (REAL + "3 3 1 7\n1 1 1\n", 2, "is not a line of sizes"),
    (REAL + "three 3 1\n1 1 1\n", 2, "the number of rows is 'three'"),
    (REAL + "% a\n-3 3 1\n1 1 1\n", 3, "the number of rows is '-3'"),
    (REAL + "3 -3 1\n1 1 1\n", 2, "the number of columns is '-3'"),
    (REAL + "3 3 -1\n1 1 1\n", 2, "the number of entries is '-1'"),
    (REAL + "3.0 3 1\n1 1 1\n", 2, "the number of rows is '3.0'"),
    (REAL + "99999999999999999999 3 1\n1 1 1\n", 2, "is beyond 2^62"),
    (REAL + "3 3 1000000000\n1 1 1\n", 2, "1000000000 entries do not fit into the file"),
    (REAL + f"3 3 {HUGE}\n1 1 1\n", 2, "entries do not fit into the file"),
    (MM + "real symmetric\n3 4 1\n1 1 1\n", 2, "a symmetric matrix is square, but this one is 3x4"),
    ("%%MatrixMarket matrix array real general\n90000 90000\n1\n", 2, "do not fit into the file"),
    (f"%%MatrixMarket matrix array real general\n{HUGE} 9\n1\n", 2, "do not fit into the file"),
    # counts
    (SQUARE + "1 1 5.0000000\n", 3, "it ends after 1 entries, but line 2 promises 2"),
    (SQUARE + "1 1 5\n2 2 5\n3 3 5\n", 5, "here are more entries than line 2 promises"),
    (SQUARE + "1 1 5\n2 2 5\n\n3 3 5\n", 6, "here are more entries than line 2 promises"),
    (SQUARE + "1 1 5\n2 2 5\n\n% a\n3 3 5\n", 7, "here are more entries than line 2 promises"),
    (SQUARE + "1 1 5\n2 2 5\nrubbish\n", 5, "after the last of the 2 entries that line 2 promises"),
    (SQUARE + "1 1 5\n2 2 5\n\n\t% a\n", 6, "after the last of the 2 entries that line 2 promises"),
    ("%%MatrixMarket matrix array real general\n2 1\n1\n2\n% a\n", 5, "after the last of the 2"),
    (REAL + "3 3 0\n1 1 5\n", 3, "here are more entries than line 2 promises"),
    # coordinates
    (SQUARE + "1 1 5\n4 1 5\n", 4, "row 4 is outside 1 to 3"),
    (SQUARE + "1 1 5\n1 4 5\n", 4, "column 4 is outside 1 to 3"),
    (SQUARE + "0 1 5\n1 1 5\n", 3, "row 0 is outside 1 to 3"),
    (SQUARE + "1 0 5\n1 1 5\n", 3, "column 0 is outside 1 to 3"),
    (SQUARE + "-1 1 5\n1 1 5\n", 3, "row '-1' is negative"),
    (SQUARE + "1.5 1 5\n1 1 5\n", 3, "row '1.5' is not an integer"),
    (SQUARE + "1 0x1 5\n1 1 5\n", 3, "column '0x1' is not an integer"),
    (SQUARE + "1_0 1 5\n1 1 5\n", 3, "row '1_0' is not an integer"),
    (SQUARE + "1 18446744073709551617 5\n1 1 5\n", 3, "column 18446744073709551617 is outside"),
    (SQUARE + f"1 {'9' * 500} 5\n1 1 5\n", 3, "is outside 1 to 3"),
    (REAL + "0 0 1\n1 1 5\n", 3, "row 1 is outside 1 to 0"),
    # values
    (SQUARE + "1 1\n2 2 5.5\n", 3, "2 words, but an entry has 3: row, column, value"),
    (SQUARE + "1 1 5 6\n2 2 5\n", 3, "4 words, but an entry has 3"),
    (SQUARE + "1 1 five\n2 2 5\n", 3, "'five' is not a number"),
    (SQUARE + "1 1 5 % five\n2 2 5\n", 3, "5 words, but an entry has 3"),
    (SQUARE + "1 1 1e\n2 2 5\n", 3, "'1e' is not a number"),
    (SQUARE + "1 1 .\n2 2 5\n", 3, "'.' is not a number"),
    (SQUARE + "1 1 0x1p3\n2 2 5\n", 3, "'0x1p3' is not a number"),
    (SQUARE + "1 1 1_0\n2 2 5\n", 3, "'1_0' is not a number"),
    (SQUARE + "1 1 nan(1)\n2 2 5\n", 3, "'nan(1)' is not a number"),
    (SQUARE + "1 1 1e400\n2 2 5\n", 3, "'1e400' overflows float64"),
    (SQUARE + "1 1 -1E+99999999999999999999\n2 2 5\n", 3, "overflows float64"),
    (SQUARE + f"1 1 {'9' * 400}\n2 2 5\n", 3, "overflows float64"),
    (SQUARE + "1 1 \u0661\n2 2 5\n", 3, "is not a number"),
    (SQUARE + "1 1 5\0\n2 2 5\n", 3, "is not a number"),
    (SQUARE + "1\v1\v5\n2 2 5\n", 3, "1 words, but an entry has 3"),
    (MM + "integer general\n3 3 1\n1 1 1.0\n", 3, "'1.0' is not an integer"),
    (MM + "integer general\n3 3 1\n1 1 nan\n", 3, "'nan' is not an integer"),
    (MM + "integer general\n3 3 1\n1 1 9223372036854775808\n", 3, "overflows int64"),
    (MM + "integer general\n3 3 1\n1 1 -9223372036854775809\n", 3, "overflows int64"),
    (MM + "unsigned-integer general\n3 3 1\n1 1 -1\n", 3, "'-1' overflows uint64"),
    (MM + "unsigned-integer general\n3 3 1\n1 1 18446744073709551616\n", 3, "overflows uint64"),
    (MM + "complex general\n3 3 1\n1 1 1.5\n", 3, "3 words, but an entry has 4"),
    (MM + "complex general\n3 3 1\n1 1 1.5 i\n", 3, "'i' is not a number"),
    (MM + "pattern general\n3 3 1\n1 1 1\n", 3, "a pattern file has no values, but here is '1'"),
    ("%%MatrixMarket matrix array real general\n2 1\n1 2\n", 3, "2 words, but an entry has 1"),
    ("%%MatrixMarket vector coordinate real general\n4 1\n5 1\n", 3, "index 5 is outside 1 to 4"),
    # triangles
    (MM + "real symmetric\n3 3 1\n1 2 5\n", 3, "entry (1, 2) is above the diagonal"),
    (MM + "real skew-symmetric\n3 3 1\n2 2 0\n", 3, "entry (2, 2) is on the diagonal"),
    (MM + "real skew-symmetric\n3 3 1\n1 2 5\n", 3, "entry (1, 2) is above the diagonal"),
    (
        MM + "complex hermitian\n3 3 1\n2 2 1 1\n",
        3,
        "on the diagonal, which is real in a hermitian matrix",
    ),
    # ends of lines
    ("%%MatrixMarket matrix coordinate real general\r1 1 1\r1 1 5\r", 1, "words after the first"),
    (REAL + "% " + "x" * (LONGEST_LINE + 9), 2, f"a line of more than {LONGEST_LINE} characters"),
    (SQUARE + "1" * (2 * LONGEST_LINE + 9), 3, f"a line of more than {LONGEST_LINE} characters"),
]

FROSTT: list[tuple[str, int, str]] = [
    ("", 0, "it holds no entry"),
    ("# nothing\n", 1, "it holds no entry"),
    ("1 1 x\n", 1, "'x' is not a number"),
    ("1 1 2.0\n1 2.0\n", 2, "2 words, but an entry has 3"),
    ("0 1 2.0\n", 1, "row 0 is outside"),
    ("1 1 1 1\n1 0 1 1\n", 2, "coordinate 2 0 is outside"),
    ("1.5 1 2.0\n", 1, "row '1.5' is not an integer"),
    ("-1 1 2.0\n", 1, "row '-1' is negative"),
    ("1 99999999999999999999 2.0\n", 1, "column 99999999999999999999 is outside"),
    ("\xff\xfe\0", 1, "is not a number of modes"),
    ("% no comment here\n1 1 1\n", 1, "is not an integer"),
    (" ".join(["1"] * 70) + "\n", 1, "69 modes, but at most 64 are supported"),
    ("3\n", 1, "it ends before its extents"),
    ("3\n2 2\n1 1 1 5\n", 2, "2 extents for 3 modes"),
    ("99\n2 2\n1 1 1 5\n", 1, "99 modes, but 1 to 64 are supported"),
    ("3\n2 2 2\n1 1 3 5\n", 3, "coordinate 3 3 is outside 1 to 2"),
    ("2\n2 2\n1 1 3 5\n", 3, "4 words, but an entry has 3"),
    ("sptensor\n2\n2 2\n", 3, "it ends before its number of entries"),
    ("sptensor\n2\n2 2\n2\n1 1 5\n", 5, "it ends after 1 entries, but line 4 promises 2"),
    ("sptensor\n2\n2 2\n1\n1 1 5\n2 2 5\n", 6, "here are more entries than line 4 promises"),
    ("sptensor\n2\n2 2\n9999999999\n1 1 5\n", 4, "entries do not fit into the file"),
    ("# shape: 2 2\n1 3 5\n", 2, "column 3 is outside 1 to 2"),
    ("# shape: 2 2\n1 1 1 5\n", 1, "it has 3 modes, but the shape 2"),
]

RB = [
    "A title                                                                 key     ",
    "             4             1             1             2",
    "rua                        3             3             4             0",
    "(4I3)           (4I3)           (2E12.4)            ",
    "  1  2  4  5",
    "  1  1  3  2",
    "  1.5000E+00 -2.0000E+00".replace("  1", " 1", 1),
    "  3.0000E+00  4.0000E+00",
]


def rb(**changed: str) -> str:
    """A file whose lines are right, but for those that are given: `rb(line5="...")`."""
    lines = list(RB)
    for name, text in changed.items():
        lines[int(name.removeprefix("line")) - 1] = text
    return "\n".join(lines) + "\n"


BOEING: list[tuple[str, int, str]] = [
    ("", 0, "it ends within its header"),
    ("title\n", 1, "it ends within its header"),
    (rb(line2="one two three"), 2, "'one' is not a count"),
    (rb(line2="  4  1  1  3"), 2, "the values take 2 lines, but here it says 3"),
    (rb(line2="  4  2  1  2"), 2, "the pointers take 1 lines, but here it says 2"),
    (rb(line3="xua            3             3             4"), 3, "'xua' is not a matrix type"),
    (rb(line3="rue            3             3             4"), 3, "element matrices"),
    (rb(line3="rsa            3             4             4"), 3, "symmetric, but not square: 3x4"),
    (rb(line3="psz            3             3             4"), 3, "is not a matrix type"),
    (rb(line3="rua           -3             3             4"), 3, "'-3' is not a count"),
    (rb(line3=f"rua {HUGE}00 3 4"), 3, "is not a count"),
    (rb(line3=f"rua 3 {HUGE} 4"), 2, "the pointers take"),
    (rb(line3="rua 3"), 3, "1 counts, but at least 3 are needed"),
    (rb(line4="(4I3)           (4I3)           2E12.4"), 4, "'2E12.4' is not a number format"),
    (rb(line4="(0I3)           (4I3)           (2E12.4)"), 4, "'(0I3)"),
    (rb(line4="(4I3)           (4A3)           (2E12.4)"), 4, "'(4A3)"),
    (rb(line5="  1  2  4"), 5, "a number is missing"),
    (rb(line5="  2  2  4  5"), 5, "pointer 1 is 2, but pointers rise from 1 to 5"),
    (rb(line5="  1  4  2  5"), 5, "pointer 3 is 2, but pointers rise from 1 to 5"),
    (rb(line5="  1  2  4  6"), 5, "pointer 4 is 6, but pointers rise from 1 to 5"),
    (rb(line5="  1  2  x  5"), 5, "'x' is not a 64-bit integer"),
    (rb(line5="  1 -9  9  5"), 5, "pointer 2 is -9, but pointers rise from 1 to 5"),
    (rb(line5="  1  9  9  5"), 5, "pointer 2 is 9, but pointers rise from 1 to 5"),
    (rb(line6="  1  1  4  2"), 6, "row 4 is outside 1 to 3"),
    (rb(line6="  1  0  3  2"), 6, "row 0 is outside 1 to 3"),
    (rb(line6="  1  1  3  2  9"), 6, "'  9' follows the 4 fields of a line"),
    (rb(line7=" 1.5000E+00 -2.00x0E+00"), 7, "is not a number"),
    (rb(line7=" 1.500E+400 -2.0000E+00"), 7, "'1.500E+400' overflows float64"),
    (rb(line8="  3.0000E+00"), 8, "a number is missing"),
    (rb(line8="  3.0000E+00  4.0000E+00\nrest"), 9, "'rest' follows the last value"),
    ("\n".join(RB[:7]) + "\n", 7, "it ends within the values"),
    (rb(line3="rsa            3             3             4"), 6, "row 1 is in column 2"),
    (rb(line3="iua            3             3             4"), 4, "its values are integers"),
]

TEXTS = [
    *((".mtx", *case) for case in MARKET),
    *((".tns", *case) for case in FROSTT),
    *((".rb", *case) for case in BOEING),
]


def test_there_are_many() -> None:
    assert len(TEXTS) >= 60


@pytest.fixture(params=["compiled", "plain"])
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both parsers find the same faults, and say the same."""
    if request.param == "plain":
        monkeypatch.setattr(entry_lines, "compiled_parser", lambda *_: None)


def refusal(file: Path, content: bytes, **options: Any) -> str:
    """What is said about a file with this content; little memory may be taken to find out."""
    file.write_bytes(content)
    tracemalloc.start()
    try:
        with pytest.raises(DataError) as caught:
            read(file, **options)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 64 << 20, f"{peak} bytes were taken"
    assert caught.value.code == "E506"
    assert f"cannot read {file.name}" in caught.value.message
    return caught.value.message


@pytest.mark.usefixtures("parser")
@pytest.mark.parametrize(("ending", "text", "line", "says"), TEXTS, ids=lambda v: repr(v)[:30])
def test_malformed_text(tmp_path: Path, ending: str, text: str, line: int, says: str) -> None:
    content = text.encode("utf-8" if "\u0661" in text else "latin-1")
    for name, data in ((f"a{ending}", content), (f"a{ending}.gz", gzip.compress(content, 1))):
        if "do not fit into" in says and name.endswith(".gz"):
            continue  # gzip may have made it that small
        message = refusal(tmp_path / name, data)
        assert says in message
        if line:
            assert f", line {line}: " in message


def test_a_valid_file_like_those_above(tmp_path: Path) -> None:
    file = tmp_path / "a.rb"
    file.write_text(rb())
    assert read(file).to_numpy().tolist() == [[1.5, -2.0, 0.0], [0.0, 0.0, 4.0], [0.0, 3.0, 0.0]]


# Packed files


def test_gzip_that_is_cut_off(tmp_path: Path) -> None:
    whole = gzip.compress(("%%MatrixMarket matrix coordinate real general\n9 9 9\n" * 99).encode())
    message = refusal(tmp_path / "a.mtx.gz", whole[:-9])
    assert "line 3" in message or "ends too early" in message
    entries = "".join(f"{n} {n} {n / 7}\n" for n in range(1, 20001))
    whole = gzip.compress(f"{REAL}20000 20000 20000\n{entries}".encode())
    message = refusal(tmp_path / "a.mtx.gz", whole[: len(whole) // 2])
    assert "as a .gz file, it ends too early" in message
    assert ", line " in message


def test_gzip_that_is_damaged(tmp_path: Path) -> None:
    assert "not a gzipped file" in refusal(tmp_path / "a.mtx.gz", b"not gzip at all").lower()
    whole = bytearray(gzip.compress((SQUARE + "1 1 5\n2 2 5\n").encode()))
    whole[-6] ^= 255
    assert "damaged" in refusal(tmp_path / "a.mtx.gz", bytes(whole))


def test_gzip_bombs_take_no_memory(tmp_path: Path) -> None:
    """Much of what is no entry is read through; a line without end is not, nor are more entries."""
    blanks = gzip.compress((SQUARE + "1 1 5\n").encode() + b"\n" * (70 << 20), 1)
    assert len(blanks) < 1 << 20
    assert "it ends after 1 entries" in refusal(tmp_path / "a.mtx.gz", blanks)
    endless = gzip.compress(SQUARE.encode() + b"1" * (70 << 20), 1)
    assert "a line of more than" in refusal(tmp_path / "a.mtx.gz", endless)
    entries = gzip.compress(SQUARE.encode() + b"1 1 1\n" * (11 << 20), 1)
    assert "more entries than line 2" in refusal(tmp_path / "a.mtx.gz", entries)


# Archives


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def archive(**members: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in members.items():
            made.writestr(f"{name}.npy", data)
    return stream.getvalue()


def csr(**changed: Any) -> bytes:
    """A 2x2 matrix in SciPy's layout, with other arrays in place of its own."""
    arrays: dict[str, Any] = {
        "format": np.array(b"csr"),
        "shape": np.array([2, 2]),
        "data": np.ones(2),
        "indices": np.array([0, 1], dtype=np.int32),
        "indptr": np.array([0, 1, 2], dtype=np.int32),
    }
    arrays |= changed
    return archive(**{k: v if isinstance(v, bytes) else npy(v) for k, v in arrays.items()})


def header(shape: str, descr: str = "'<f8'") -> bytes:
    text = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


ARCHIVES: list[tuple[bytes, str]] = [
    (b"", "not a zip file"),
    (b"PK\x03\x04 nonsense", "not a zip file"),
    (archive(), "it has no array 'format'"),
    (archive(a=npy(np.ones(3))), "it has no array 'format'"),
    (archive(format=npy(np.array(b"csr"))), "it has no array 'shape'"),
    (csr(format=np.array(b"lil")), "SciPy's format 'lil' is not one of"),
    (csr(format=np.array([1.0])), "'format' is not a string"),
    (csr(shape=np.array([2.5, 2])), "its shape is"),
    (csr(shape=np.array([-2, 2])), "its shape is [-2  2]"),
    (csr(shape=np.array([2, 2, 2])), "a csr matrix of 3 modes"),
    (csr(shape=np.array([HUGE, 2])), "index pointer size"),
    (csr(data=np.array(["a", "b"])), "its data are <U1"),
    (csr(data=header("(2,)")), "data.npy claims 16 bytes of data, but has 0"),
    (csr(data=header(f"({HUGE},)") + bytes(16)), "bytes of data, but has 16"),
    (csr(data=header("(-1,)")), "data.npy is not an array of plain numbers"),
    (csr(data=header("(2,)", "'|O'")), "data.npy is not an array of plain numbers"),
    (csr(data=header("(2,)", "'|a8'")), "data.npy is not an array of plain numbers"),
    (csr(data=header("(2,)", "'<f5'")), "cannot read a.npz"),
    (csr(data=header("(2,)", "[('a', '<f8')]")), "data.npy is not an array of plain numbers"),
    (csr(data=b"\x93NUMPY\x09\x00"), "data.npy is not an array of plain numbers"),
    (csr(indices=np.array([0.0, 1.0])), "'indices' has 1 dimensions of float64"),
    (csr(indptr=np.array([[0, 1, 2]])), "'indptr' has 2 dimensions of int64"),
    (csr(indptr=np.array([0, 1])), "cannot read a.npz"),
    (csr(format=np.array(b"bsr"), data=np.ones((2, 0, 1))), "blocks of shape (0, 1)"),
    (csr(openwork=np.array(99)), "a later version of Openwork wrote it"),
    (csr(openwork=np.array(1), levels=np.array("Dense, Rubbish")), "is not a format"),
    (csr(openwork=np.array(1), levels=np.array("CSR")), "it has no array 'level1.pos'"),
]


@pytest.mark.parametrize(("content", "says"), ARCHIVES, ids=lambda v: repr(v)[-40:])
def test_malformed_archives(tmp_path: Path, content: bytes, says: str) -> None:
    assert says in refusal(tmp_path / "a.npz", content)
    assert says.replace("a.npz", "a.npz.gz") in refusal(
        tmp_path / "a.npz.gz", gzip.compress(content)
    )


def test_a_zip_bomb_is_never_unpacked(tmp_path: Path) -> None:
    """Its headers agree, so that only the room it asks for gives it away."""
    count = 1 << 24
    bomb = csr(data=header(f"({count},)") + bytes(8 * count), shape=np.array([2, 2]))
    assert len(bomb) < 1 << 20
    (tmp_path / "a.npz").write_bytes(bomb)
    with pytest.raises(OpenworkError):
        read(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("changed", "code"),
    [
        ({"indices": np.array([0, 77], dtype=np.int32)}, "E503"),
        ({"indices": np.array([0, -1], dtype=np.int32)}, "E503"),
        ({"indptr": np.array([0, 2, 1], dtype=np.int32)}, "E502"),
        ({"indptr": np.array([1, 1, 2], dtype=np.int32)}, "E502"),
    ],
)
def test_archives_with_malformed_arrays(tmp_path: Path, changed: Any, code: str) -> None:
    (tmp_path / "a.npz").write_bytes(csr(**changed))
    with pytest.raises(DataError, match=r"a\.npz") as caught:
        read(tmp_path / "a.npz")
    assert caught.value.code in (code, "E506")  # SciPy may see it first


# binsparse


@pytest.fixture
def h5() -> Any:
    return pytest.importorskip("h5py")


def change(file: Path, h5: Any, **told: Any) -> None:
    """Write a valid file, and change what its descriptor says."""
    write(file, tensor(np.array([[1.0, 0.0], [2.0, 3.0]]), CSR))
    with h5.File(file, "r+") as opened:
        descriptor = json.loads(opened.attrs["binsparse"])["binsparse"] | told
        opened.attrs["binsparse"] = json.dumps({"binsparse": descriptor})


DESCRIPTORS: list[tuple[dict[str, Any], str]] = [
    ({"version": "7.0"}, "its version is '7.0', but 0.1 is supported"),
    ({"format": "BSR"}, "the format 'BSR' is not one of"),
    ({"format": {"level": "dense"}}, "is not one of"),
    ({"format": "DCSR"}, "it has no array indices_0"),
    ({"format": "DVEC"}, "DVEC with 2 modes"),
    ({"shape": [2]}, "CSR with 1 modes"),
    ({"shape": [-2, 2]}, "its shape is [-2, 2]"),
    ({"shape": "2x2"}, "its shape is 2x2"),
    ({"shape": [True, 2]}, "its shape is"),
    ({"shape": [HUGE, 2]}, "index pointer size"),
    ({"number_of_stored_values": 4}, "3 values for 3 positions, but 4 are stated"),
    ({"number_of_stored_values": 3.5}, "the number of stored values is 3.5"),
    ({"data_types": None}, "has no data_types"),
    ({"structure": "lower"}, "the structure 'lower' is not defined"),
    ({"structure": "symmetric_upper"}, "is not in the upper triangle"),
    ({"fill": True}, "it has no array fill_value"),
    (
        {"data_types": {"values": "float32", "indices_1": "int32", "pointers_to_1": "int32"}},
        "values is 3 of float64, not 'float32'",
    ),
    (
        {"data_types": {"values": "decimal", "indices_1": "int32", "pointers_to_1": "int32"}},
        "the type of values is 'decimal'",
    ),
    (
        {"data_types": {"values": "iso[float64]", "indices_1": "int32", "pointers_to_1": "int32"}},
        "values has 3 values, but must have one that all share",
    ),
]


@pytest.mark.parametrize(("told", "says"), DESCRIPTORS, ids=lambda v: repr(v)[:40])
def test_malformed_descriptors(tmp_path: Path, h5: Any, told: dict[str, Any], says: str) -> None:
    change(tmp_path / "a.bsp.h5", h5, **told)
    content = (tmp_path / "a.bsp.h5").read_bytes()
    assert says in refusal(tmp_path / "a.bsp.h5", content)


def test_hdf5_that_is_none_or_tells_nothing(tmp_path: Path, h5: Any) -> None:
    assert "cannot read a.h5" in refusal(tmp_path / "a.h5", b"text")
    with h5.File(tmp_path / "b.h5", "w") as file:
        file["values"] = [1.0]
    content = (tmp_path / "b.h5").read_bytes()
    assert "it has no attribute 'binsparse'" in refusal(tmp_path / "b.h5", content)
    with h5.File(tmp_path / "b.h5", "r+") as file:
        file.attrs["binsparse"] = "{nonsense"
    content = (tmp_path / "b.h5").read_bytes()
    assert "cannot read b.h5" in refusal(tmp_path / "b.h5", content)


def replaced(file: Path, h5: Any, name: str) -> Iterator[Any]:
    change(file, h5)
    with h5.File(file, "r+") as opened:
        del opened[name]
        yield opened


def test_hdf5_that_points_elsewhere_or_holds_nothing(tmp_path: Path, h5: Any) -> None:
    file = tmp_path / "a.h5"
    for opened in replaced(file, h5, "values"):
        opened["values"] = h5.ExternalLink("/etc/passwd", "values")
    assert "values is not an array within the file" in refusal(file, file.read_bytes())
    for opened in replaced(file, h5, "values"):
        opened.create_dataset("values", (10**15,), "f8", chunks=(1000,))
    assert "claims 1000000000000000 elements" in refusal(file, file.read_bytes())
    for opened in replaced(file, h5, "values"):
        opened.create_dataset("values", data=[[1.0, 2.0, 3.0]])
    assert "values is 1x3 of float64" in refusal(file, file.read_bytes())


def test_scipys_own_malformed_archive(tmp_path: Path) -> None:
    matrix = sparse.csr_array(np.eye(3))
    matrix.indices = matrix.indices.copy()
    matrix.indices[0] = 77
    sparse.save_npz(tmp_path / "a.npz", matrix)
    with pytest.raises(DataError, match=r"E503: A.indices\[0\] is 77.*\(in a.npz\)"):
        read(tmp_path / "a.npz", name="A")


def test_as_scipy_has_it(tmp_path: Path) -> None:
    """What may stand after the last entry, and what may not."""
    file = tmp_path / "a.mtx"
    for rest in ("", "\n", "\n \t\n\r\n", "   ", "%\n", "3\n", "x", "\0", "1 1 1\n"):
        file.write_text(SQUARE + "1 1 5\n2 2 5\n" + rest)
        try:
            io_mmread(file)
        except ValueError:
            with pytest.raises(DataError, match="line 5"):
                read(file)
        else:
            assert read(file).nnz == 2


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.mtx", (REAL + "2147483648 2 2\n1 1 1\n2147483648 2 2\n").encode()),
        ("a.tns", b"1 1 1\n2147483648 2 2\n"),
        ("a.tns", b"2\n2147483648 2\n1 1 1\n2147483648 2 2\n"),
        (
            "a.npz",
            csr(
                format=np.array(b"coo"),
                shape=np.array([2**31, 2]),
                row=np.array([0, 2**31 - 1]),
                col=np.array([0, 1]),
                data=np.array([1.0, 2.0]),
            ),
        ),
    ],
    ids=["mtx", "tns", "tns with sizes", "npz"],  # an archive holds the time that it was made at
)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.skipif(sys.platform != "linux", reason="limits memory as Linux does")
def test_many_rows_and_few_entries(tmp_path: Path, name: str, data: bytes, packed: bool) -> None:
    file = tmp_path / (f"{name}.gz" if packed else name)
    file.write_bytes(gzip.compress(data) if packed else data)
    says = f"{file.name} has 2147483648 rows and 2 entries"
    with pytest.warns(RuntimeWarning, match=says):
        made = read(file)
    assert made.format == DCSR and made.shape == (2**31, 2)
    assert made.to_coo()[0].tolist() == [[0, 2**31 - 1], [0, 1]]
    assert read(file, format=DCSR).format == DCSR  # asked for, and nothing to say
    with limited_memory(8 << 30), pytest.raises(MemoryError, match="GiB"):
        write(tmp_path / "b.mtx", read(file, format=dense(2)))


@contextmanager
def limited_memory(bytes: int) -> Iterator[None]:
    """So much more memory, and none beyond: some machines have hundreds of GiB."""
    import resource

    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (used + bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def test_a_row_index_beyond_32_bits_in_a_column_file(tmp_path: Path) -> None:
    made = tensor(([[0, 2**33], [0, 1]], [1.0, 2.0]), DCSR, shape=(2**33 + 1, 2))
    write(tmp_path / "a.rb", made)
    with pytest.warns(RuntimeWarning, match="a.rb has 8589934593 rows and 2 entries"):
        assert read(tmp_path / "a.rb").to_coo()[0].tolist() == made.to_coo()[0].tolist()


class _Full(io.BytesIO):
    """A disk with room for a few bytes."""

    def write(self, data: Any, /) -> int:
        if self.tell() + memoryview(data).nbytes > 10_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(data)


@pytest.mark.parametrize("name", ["a.mtx", "a.mtx.gz", "a.tns", "a.tns.gz", "a.npz", "a.rb"])
def test_a_full_disk_leaves_what_was_there(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / name
    write(file, tensor(np.eye(3), CSR))
    before, opened = file.read_bytes(), target._opened

    def full(path: Path) -> Any:
        stream, beside = opened(path)
        stream.close()
        return _Full(), beside

    monkeypatch.setattr(target, "_opened", full)
    with pytest.raises(DataError, match=f"E506: cannot write {name}: No space left on device"):
        write(file, tensor(np.random.default_rng(0).random((90, 90)), CSR))
    assert file.read_bytes() == before
    assert os.listdir(tmp_path) == [name]


def test_a_file_is_replaced_when_it_is_complete(tmp_path: Path) -> None:
    file, link = tmp_path / "a.mtx", tmp_path / "b.mtx"
    file.touch(mode=0o640)
    link.symlink_to(file)
    write(link, tensor(np.eye(3), CSR))
    assert link.is_symlink() and file.stat().st_mode & 0o777 == 0o640 and read(file).nnz == 3
    with pytest.raises(KeyboardInterrupt), target.Target(file) as stream:
        stream.write(b"half of")
        raise KeyboardInterrupt
    assert read(file).nnz == 3 and sorted(os.listdir(tmp_path)) == ["a.mtx", "b.mtx"]
