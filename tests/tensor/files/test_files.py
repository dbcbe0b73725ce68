"""Reading and writing files of every kind, packed or not; broken ones have a test of their own."""

from __future__ import annotations

import gzip
import io
import json
import math
import random
import struct
import sys
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse
from scipy.io import mmread as io_mmread, mmwrite

from openwork.errors import DataError, FormatError
from openwork.format.formats import CSC, CSF, CSR, DCSR, dense
from openwork.runtime.host.threads import set_num_threads
from openwork.tensor.create import tensor
from openwork.tensor.files import read, write
from openwork.tensor.files.lines import entry_lines, parse_c, progress, target
from openwork.tensor.files.lines.source import BLOCK
from openwork.tensor.tensor import Tensor

MATRIX = np.array([[1.5, 0.0, 2.0], [0.0, 0.0, 0.0], [0.0, -3.0, 0.0], [4.0, 0.0, 1e-300]])
CUBE = np.zeros((2, 3, 4))
CUBE[0, 2, 1], CUBE[1, 0, 3] = 1.25, -7


@pytest.mark.parametrize("ending", [".mtx", ".npz", ".tns"])
@pytest.mark.parametrize("zipped", ["", ".gz"])
@pytest.mark.parametrize("format", [CSR, CSC, DCSR, dense(2)], ids=repr)
def test_matrices_come_back(tmp_path: Path, ending: str, zipped: str, format: Any) -> None:
    file = tmp_path / f"a.matrix{ending}{zipped}"
    write(file, tensor(MATRIX, format=format))
    back = read(file, name="A")
    assert back.name == "A"
    np.testing.assert_array_equal(back.to_numpy(), MATRIX)
    assert read(str(file), format=CSC, dtype="float32").format == CSC


@pytest.mark.parametrize("kind", ["bool", "int8", "int64", "uint8", "float32", "complex128"])
def test_element_types(tmp_path: Path, kind: str) -> None:
    array = (MATRIX != 0).astype(kind)
    for ending in (".mtx", ".npz", ".tns"):
        if (kind, ending) == ("complex128", ".tns"):
            continue
        write(tmp_path / f"a{ending}", tensor(array, format=CSR))
        np.testing.assert_array_equal(read(tmp_path / f"a{ending}").to_numpy(), array)
    with pytest.raises(FormatError, match="E404"):
        write(tmp_path / "a.tns", tensor(MATRIX * 1j, format=CSR))


@pytest.mark.parametrize("zipped", ["", ".gz"])
def test_more_modes(tmp_path: Path, zipped: str) -> None:
    file = tmp_path / f"x.tns{zipped}"
    write(file, tensor(CUBE, format=CSF(3)))
    back = read(file, shape=CUBE.shape)
    assert back.format == CSF(3)
    np.testing.assert_array_equal(back.to_numpy(), CUBE)
    assert read(file).shape == (2, 3, 4)
    assert read(file, format=dense(3)).format == dense(3)
    with pytest.raises(FormatError, match="E404"):
        write(tmp_path / "x.mtx", tensor(CUBE))


def test_text_as_others_write_it(tmp_path: Path) -> None:
    file = tmp_path / "x.tns"
    file.write_text("# a comment\n\n1 1 2 3.5\n  2 3 1   -1e2\n1 1 2 0.5\n")
    X = read(file)
    assert (X.shape, X.nnz) == ((2, 3, 2), 2)
    assert X.to_numpy()[0, 0, 1] == 4.0
    file.write_text("")
    assert read(file, shape=(2, 3)).nnz == 0
    symmetric = tmp_path / "s.mtx"
    symmetric.write_text(
        "%%MatrixMarket matrix coordinate real symmetric\n% by hand\n\n2 2 2\n1 1 5\n2 1 7\n"
    )
    assert read(symmetric).to_numpy().tolist() == [[5.0, 7.0], [7.0, 0.0]]
    whole = tmp_path / "d.mtx"
    mmwrite(whole, MATRIX)
    assert read(whole).format.is_dense
    np.testing.assert_array_equal(read(whole).to_numpy(), MATRIX)


@pytest.mark.parametrize("name", ["a.csv", "a", "a.gz", "a.pse"])
def test_endings_that_nobody_reads(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b"1,2")
    with pytest.raises(DataError, match=f"E506: {name} has no extension that Openwork reads"):
        read(tmp_path / name)


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"E506: cannot read none.mtx: No such file"):
        read(tmp_path / "none.mtx")
    with pytest.raises(DataError, match="E506: cannot write"):
        write(tmp_path / "no" / "a.mtx", tensor(MATRIX))
    with pytest.raises(FormatError, match="E404"):
        write(tmp_path / "a.csv", tensor(MATRIX))


# Round trips: every kind, element type and shape

TYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)
SHAPES = [(0, 0), (0, 3), (3, 0), (1, 1), (1, 7), (7, 1), (4, 5)]
KINDS = (".mtx", ".tns", ".npz", ".rb", ".bsp.h5")


def entries(shape: tuple[int, ...], kind: str, seed: int = 0) -> Any:
    """Numbers that are hard to write: extreme, tiny, with all their digits, and not finite."""
    rng = np.random.default_rng(seed)
    dtype, size = np.dtype(kind), int(np.prod(shape))
    if dtype.kind == "b":
        flat = np.ones(size, dtype)
    elif dtype.kind in "iu":
        limits = np.iinfo(dtype)
        flat = rng.integers(limits.min, limits.max, size, dtype, endpoint=True)
        flat[:2] = [limits.min, limits.max][: min(size, 2)]
    else:
        part = np.finfo(dtype).dtype
        odd = [0.1, np.pi, np.inf, -np.inf, np.nan, -0.0, np.finfo(part).tiny / 3]
        odd += [np.finfo(part).max, np.finfo(part).smallest_subnormal, 1 / 3, 5e-324]
        flat = rng.standard_normal(size).astype(part) * 10.0 ** rng.integers(-30, 30, size)
        flat[: len(odd)] = odd[:size]
        flat = flat.astype(part).astype(dtype)
        if dtype.kind == "c":
            flat.imag = flat.real[::-1]
    kept = rng.random(size) < 0.6
    kept[: min(size, 1)] = True
    coords = np.array(np.unravel_index(np.flatnonzero(kept), shape)).reshape(len(shape), -1)
    return coords, flat[kept]


def refused_by(ending: str, kind: str) -> bool:
    """What a kind of file has no place for."""
    no_complex, no_uint64 = ending == ".tns", ending == ".rb"
    return (no_complex and kind.startswith("complex")) or (no_uint64 and kind == "uint64")


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("ending", KINDS)
@pytest.mark.parametrize("kind", TYPES)
def test_round_trips(tmp_path: Path, ending: str, kind: str) -> None:
    if ending == ".bsp.h5":
        pytest.importorskip("h5py")
    for seed, shape in enumerate(SHAPES):
        for format in (CSR, CSC, DCSR):
            source = tensor(entries(shape, kind, seed), format, shape=shape)
            if refused_by(ending, kind):
                with pytest.raises(FormatError, match="E404"):
                    write(tmp_path / f"a{ending}", source)
                continue
            for zipped in ("", ".gz"):
                write(tmp_path / f"a{ending}{zipped}", source)
                back = read(tmp_path / f"a{ending}{zipped}", dtype=kind)
                identical(back, source)


def identical(back: Tensor, source: Tensor) -> None:
    """The same entries, bit by bit, at the same coordinates."""
    assert back.shape == source.shape
    assert back.dtype == source.dtype
    formats = CSR if source.order == 2 else CSF(source.order)
    (coords, values), (wanted, numbers) = back.to(formats).to_coo(), source.to(formats).to_coo()
    np.testing.assert_array_equal(coords, wanted)
    assert np.nan_to_num(values, nan=7.5).tobytes() == np.nan_to_num(numbers, nan=7.5).tobytes()


@pytest.mark.parametrize("ending", [".tns", ".npz"])
@pytest.mark.parametrize("kind", ["int64", "float32", "float64"])
@pytest.mark.parametrize("shape", [(5,), (2, 3, 4), (3, 1, 2, 5), (2, 2, 2, 2, 3), (2, 0, 3)])
def test_round_trips_of_tensors(
    tmp_path: Path, ending: str, kind: str, shape: tuple[int, ...]
) -> None:
    source = tensor(entries(shape, kind), CSF(len(shape)), shape=shape)
    write(tmp_path / f"a{ending}.gz", source)
    back = read(tmp_path / f"a{ending}.gz", dtype=kind)
    assert back.format == CSF(len(shape))
    identical(back, source)


def test_dense_vectors_and_matrices(tmp_path: Path) -> None:
    pytest.importorskip("h5py")
    for array in (np.arange(5.0), MATRIX, np.asfortranarray(MATRIX), np.zeros((0, 4)) + 1j):
        write(tmp_path / "a.bsp.h5", tensor(array))
        back = read(tmp_path / "a.bsp.h5")
        assert back.format == tensor(array).format
        np.testing.assert_array_equal(back.to_numpy(), array)
    write(tmp_path / "a.mtx", tensor(MATRIX))
    assert read(tmp_path / "a.mtx").format.is_dense


def binsparse(file: Path, told: dict[str, Any], **arrays: Any) -> Path:
    """A file as another program would write it."""
    h5py = pytest.importorskip("h5py")
    made = {name: np.asarray(array) for name, array in arrays.items()}
    types = {name: str(array.dtype) for name, array in made.items()}
    told = {"version": "0.1", "shape": [3, 3], **told, "data_types": types | told.get("types", {})}
    with h5py.File(file, "w") as opened:
        opened.attrs["binsparse"] = json.dumps({"binsparse": told})
        for name, array in made.items():
            opened[name] = array
    return file


def test_binsparse_as_others_write_it(tmp_path: Path) -> None:
    file = tmp_path / "a.bsp.h5"
    wide = np.array([0, 2, 2], dtype=np.uint64)
    outer = np.array([0, 1, 2], dtype=np.uint8)
    lower = np.array([[1.0, 0, 0], [0, 0, 0], [2.0, 0, 3.0]])
    lower[2, 1] = 2.0
    for format, names in (
        ("COO", ("indices_0", "indices_1")),
        ("COOC", ("indices_1", "indices_0")),
    ):
        arrays = {names[0]: wide, names[1]: outer, "values": np.array([1.0, 2.0, 3.0])}
        expected = np.zeros((3, 3))
        expected[[0, 2, 2], [0, 1, 2]] = [1, 2, 3]
        back = read(binsparse(file, {"format": format}, **arrays))
        np.testing.assert_array_equal(back.to_numpy(), expected)
    iso = {"format": "COOR", "types": {"values": "iso[int8]"}, "number_of_stored_values": 3}
    arrays = {"indices_0": wide, "indices_1": outer, "values": np.array([7], dtype=np.int8)}
    assert read(binsparse(file, iso, **arrays)).to_numpy().sum() == 21
    half = {"format": "COOR", "structure": "skew_symmetric_lower"}
    arrays = {"indices_0": [1, 2], "indices_1": [0, 1], "values": [1.5, 2.5]}
    found = read(binsparse(file, half, **arrays)).to_numpy()
    assert found.tolist() == [[0, -1.5, 0], [1.5, 0, -2.5], [0, 2.5, 0]]
    half = {"format": "DMATR", "structure": "symmetric_upper"}
    found = read(binsparse(file, half, values=lower.T.reshape(-1))).to_numpy()
    np.testing.assert_array_equal(found, lower + np.tril(lower, -1).T)
    parts = {"format": "CVEC", "shape": [4], "types": {"values": "complex[float32]"}}
    arrays = {"indices_0": [1, 3], "values": np.array([1, 2, 3, 4], dtype=np.float32)}
    assert read(binsparse(file, parts, **arrays)).to_numpy().tolist() == [0, 1 + 2j, 0, 3 + 4j]
    told = {"format": "VEC", "shape": [4], "fill": True, "types": {"values": "bint8"}}
    arrays = {"indices_0": [2], "values": np.array([1], np.uint8), "fill_value": [0]}
    assert read(binsparse(file, told, **arrays)).to_numpy().tolist() == [False, False, True, False]
    filled = tensor(MATRIX, DCSR, fill=7.0)
    write(file, filled)
    assert (read(file).fill, read(file).format) == (7.0, DCSR)


def test_archives_keep_what_scipy_cannot_hold(tmp_path: Path) -> None:
    file = tmp_path / "a.npz"
    for source in (tensor(CUBE, CSF(3)), tensor(3.5), tensor(MATRIX, CSR, fill=7.0)):
        write(file, source)
        back = read(file)
        assert (back.format, back.fill) == (source.format, source.fill)
        np.testing.assert_array_equal(back.to_numpy(), source.to_numpy())
    write(file, tensor(MATRIX, CSC))
    assert (sparse.load_npz(file) != sparse.csc_array(MATRIX)).nnz == 0
    assert read(file).format == CSC


@pytest.mark.parametrize("layout", ["csr", "csc", "coo", "dia", "bsr"])
def test_archives_of_scipy(tmp_path: Path, layout: str) -> None:
    matrix = sparse.coo_array(np.diag([1.0, 2.0, 3.0, 4.0])).asformat(layout)
    sparse.save_npz(tmp_path / "a.npz", matrix)
    np.testing.assert_array_equal(read(tmp_path / "a.npz").to_numpy(), matrix.toarray())


@pytest.mark.parametrize("ending", [".mtx", ".rb"])
def test_symmetries_are_written_and_expanded(tmp_path: Path, ending: str) -> None:
    lower = np.tril(np.arange(16.0).reshape(4, 4) - 5, -1)
    file = tmp_path / f"a{ending}"
    for symmetry, matrix in {
        "symmetric": lower + lower.T + np.diag([1.0, 0, 2, 3]),
        "skew-symmetric": lower - lower.T,
        "hermitian": lower * (1 + 2j) + lower.T * (1 - 2j) + np.eye(4),
    }.items():
        source = tensor(matrix, CSR)
        write(file, source, symmetry)
        small = file.read_text()
        assert symmetry in small or ending == ".rb"
        np.testing.assert_array_equal(read(file).to_numpy(), matrix)
        np.testing.assert_array_equal(read(file, format=dense(2)).to_numpy(), matrix)
        write(file, source)
        assert len(file.read_text()) > len(small)
        with pytest.raises(FormatError, match=f"E404: A is not {symmetry}"):
            write(file, tensor(np.triu(np.ones((4, 4))), CSR, name="A"), symmetry)
        with pytest.raises(FormatError, match="E404"):
            write(file, tensor(np.ones((2, 3)), CSR), symmetry)
    with pytest.raises(FormatError, match="E404: 'odd' is not a symmetry"):
        write(file, tensor(MATRIX, CSR), "odd")


# What files of other programs look like


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("%%MatrixMarket matrix coordinate real general\r\n2 2 1\r\n2 1 5\r\n", [[0, 0], [5, 0]]),
        ("%%MatrixMarket matrix coordinate real general\n2 2 1\n2 1 5", [[0, 0], [5, 0]]),
        ("  %%MatrixMarket  MATRIX\tCoordinate Double General\n\n % x\n 2 2  1\n\t2\t1 5 \n", None),
        ("%MatrixMarket matrix coordinate real general\n2 2 1\n%c\n\n +2 01 +5.e0\n\n", None),
        ("%%MatrixMarket matrix coordinate real general\n2 2 2\n2 1 2.5D0\n2 1 2.5d+0\n", None),
        ("%%MatrixMarket matrix array integer symmetric\n2 2\n1\n2\n3\n", [[1, 2], [2, 3]]),
        ("%%MatrixMarket matrix array real skew-symmetric\n2 2\n3\n", [[0, -3], [3, 0]]),
        ("%%MatrixMarket matrix coordinate real hermitian\n2 2 1\n2 1 3\n", [[0, 3], [3, 0]]),
        ("%%MatrixMarket matrix coordinate pattern symmetric\n2 2 1\n2 1\n", [[0, 1], [1, 0]]),
        ("%%MatrixMarket vector coordinate real general\n3 2\n3 5\n3 1\n", [0, 0, 6]),
        ("%%MatrixMarket vector array real general\n2\n3\n4\n", [3, 4]),
        ("%%MatrixMarket matrix array real general\n0 3\n", np.zeros((0, 3)).tolist()),
    ],
)
def test_matrix_market_as_others_write_it(tmp_path: Path, text: str, expected: Any) -> None:
    file = tmp_path / "a.mtx"
    file.write_bytes(text.encode())
    found = read(file).to_numpy().tolist()
    assert found == ([[0, 0], [5, 0]] if expected is None else expected)


@pytest.mark.parametrize(
    "text",
    [
        "# c\n2 3 2 5\n# d\n1 1 1 1e0\n",
        "3\n2 3 2\n2 3 2 5\n1 1 1 1\n",
        "sptensor\n3\n2 3 2\n2\n2 3 2 5\n1 1 1 1\n",
        "# shape: 2 3 2\n2\t3 2 5\r\n1 1 1 1\r\n",
        "2 3 2 2.5\n1 1 1 1\n2 3 2 2.5\n",
    ],
)
def test_frostt_as_others_write_it(tmp_path: Path, text: str) -> None:
    (tmp_path / "a.tns").write_text(text)
    X = read(tmp_path / "a.tns")
    assert (X.shape, X.nnz) == ((2, 3, 2), 2)
    assert X.to_numpy()[1, 2, 1] == 5


def test_options(tmp_path: Path) -> None:
    file = tmp_path / "a.tns"
    file.write_text("1 1 9007199254740993\n")
    assert read(file, dtype="int64").to_numpy().tolist() == [[9007199254740993]]
    assert read(file, shape=(2, 2), format=DCSR).shape == (2, 2)
    file.write_text("1 1 2.0\n")
    assert read(file, dtype="int64").dtype == np.int64
    with pytest.raises(DataError, match="it has 2 modes, but the shape 3"):
        read(file, shape=(2, 2, 2))
    with pytest.raises(DataError, match="line 1: row 1 is outside 1 to 0"):
        read(file, shape=(0, 2))
    write(tmp_path / "a.mtx", tensor(MATRIX, CSR))
    with pytest.raises(DataError, match=r"a.mtx holds a tensor of shape \(4, 3\), not \(3, 4\)"):
        read(tmp_path / "a.mtx", shape=(3, 4))
    rows = 4_000_000_000_000_000_000
    (tmp_path / "b.mtx").write_text(
        f"%%MatrixMarket matrix coordinate real general\n{rows} {rows} 1\n{rows} 1 5\n"
    )
    wide = read(tmp_path / "b.mtx", format=DCSR)
    assert wide.to_coo()[0].tolist() == [[rows - 1], [0]]


def test_a_refused_tensor_leaves_the_file_alone(tmp_path: Path) -> None:
    file = tmp_path / "a.mtx"
    write(file, tensor(MATRIX))
    before = file.read_bytes()
    with pytest.raises(FormatError, match="E404"):
        write(file, tensor(CUBE))
    assert file.read_bytes() == before


# Numbers


def numbers() -> list[str]:
    """Texts of numbers, most of them near the middle between two doubles, or otherwise nasty."""
    rng = random.Random(0)
    made = ["0", "-0.0", "1e-400", "1e23", "9007199254740993", "9007199254740992.5", "1e22"]
    made += ["1e-22", "2.2250738585072011e-308", "2.4703282292062327e-324", "5e-324", "8.5e-322"]
    made += ["2.4703282292062328e-324", "1.7976931348623157e308", "1.7976931348623158e308"]
    made += ["0." + "0" * 400 + "1e401", "1" * 300, "179769313486231580793e289", "0e999999999999"]
    for _ in range(3000):
        bits = rng.getrandbits(64) & ~(1 << 62) | rng.getrandbits(1) << 61
        value = struct.unpack("<d", struct.pack("<Q", bits))[0]
        if math.isfinite(value):
            made += [repr(value), f"{value:.16e}", f"{value:.25E}", f"{value:.5g}"]
            # Exactly, and just beside, the middle to the next double.
            middle = (Fraction(value) + Fraction(math.nextafter(value, math.inf))) / 2
            if 1e-30 < abs(value) < 1e30:
                digits = f"{Decimal(middle.numerator) / Decimal(middle.denominator):.60e}"
                short = digits[:22] + digits[digits.index("e") :]
                made += [digits, digits.replace("e", "1e"), short]
        digits = "".join(rng.choices("0123456789", k=rng.randint(1, 40)))
        made.append(f"{digits}.{rng.randint(0, 10**9)}E{rng.randint(-340, 250)}")
    return [text for text in made if math.isfinite(float(text))]


@pytest.mark.parametrize("how", ["compiled", "plain"])
def test_numbers_are_rounded_as_python_does(
    tmp_path: Path, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "plain":
        monkeypatch.setattr(entry_lines, "compiled_parser", lambda *_: None)
    with localcontext() as context:
        context.prec = 1200
        texts = numbers()
    head = f"%%MatrixMarket matrix array real general\n{len(texts)} 1\n"
    (tmp_path / "a.mtx").write_text(head + "\n".join(texts))
    found = read(tmp_path / "a.mtx").to_numpy()[:, 0]
    wanted = np.array([float(text) for text in texts])
    wrong = [texts[n] for n in np.flatnonzero(found.view(np.int64) != wanted.view(np.int64))]
    assert not wrong, wrong[:5]


def test_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a.mtx.gz", tensor(MATRIX, CSR))
    monkeypatch.setattr(parse_c, "find_toolchain", lambda: None)
    np.testing.assert_array_equal(read(tmp_path / "a.mtx.gz").to_numpy(), MATRIX)


@pytest.mark.parametrize("threads", [1, 3])
def test_many_blocks_and_threads(tmp_path: Path, threads: int) -> None:
    """Blocks are put together in order, and the number of a bad line counts all of them."""
    count = 150_000
    rng = np.random.default_rng(0)
    values = rng.random(count)
    lines = [f"{n + 1} {n % 7 + 1} {value!r}\n" for n, value in enumerate(values.tolist())]
    head = f"%%MatrixMarket matrix coordinate real general\n{count} 7 {count}\n"
    set_num_threads(threads)
    try:
        for name, opener in (("a.mtx", open), ("a.mtx.gz", gzip.open)):
            with opener(tmp_path / name, "wt") as file:
                file.writelines([head, *lines])
            assert (tmp_path / "a.mtx").stat().st_size > 3 * BLOCK
            found = read(tmp_path / name)
            np.testing.assert_array_equal(found.to_coo()[1], values)
        for bad in (4, 77_777, count - 1):
            wrong = [*lines[:bad], "1 8 1\n", *lines[bad + 1 :]]
            (tmp_path / "a.mtx").write_text(head + "".join(wrong))
            with pytest.raises(DataError, match=f"line {bad + 3}: column 8 is outside 1 to 7"):
                read(tmp_path / "a.mtx")
        (tmp_path / "a.mtx").write_text(head + "".join(lines) + "1 1 1\n")
        with pytest.raises(DataError, match=f"line {count + 3}: here are more entries"):
            read(tmp_path / "a.mtx")
    finally:
        set_num_threads(None)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_is_shown_to_who_watches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.mtx"
    write(file, tensor(MATRIX, CSR))
    for stream, least, shown in (
        (Terminal(), 10, True),
        (Terminal(), progress.SHOWN_FROM, False),
        (io.StringIO(), 10, False),
    ):
        monkeypatch.setattr(progress, "SHOWN_FROM", least)
        monkeypatch.setattr(sys, "stderr", stream)
        read(file)
        assert ("reading a.mtx [####" in stream.getvalue()) == shown
        assert stream.getvalue().endswith("\r") == shown
        write(tmp_path / "b.mtx", tensor(MATRIX, CSR))
        assert ("writing b.mtx: 0 MB" in stream.getvalue()) == shown
        assert stream.getvalue().endswith("\r") == shown
    assert progress.SHOWN_FROM == 10


@pytest.mark.parametrize("piece", [1, 7, 100, 1 << 20])
def test_pieces_of_a_packed_file_are_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, piece: int
) -> None:
    """Whatever their size, and the same at every time."""
    monkeypatch.setattr(target, "_PIECE", piece)
    plain, packed = tmp_path / "a.mtx", tmp_path / "a.mtx.gz"
    source = tensor(MATRIX, CSR)
    write(plain, source)
    write(packed, source)
    first = packed.read_bytes()
    assert gzip.decompress(first) == plain.read_bytes()
    np.testing.assert_array_equal(read(packed).to_numpy(), MATRIX)
    write(packed, source)
    assert packed.read_bytes() == first


def test_a_disk_that_is_full_is_told() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("needs /dev/full")
    with pytest.raises(OSError), target.Target(full) as stream:
        stream.write(b"text")


# Real files


def test_real_matrices_agree_with_scipy(data_dir: Path) -> None:
    files = [file for file in sorted(data_dir.glob("*.mtx.gz")) if file.stat().st_size < 300_000]
    if not files:
        pytest.skip("no small matrix in the collection")
    for file in files:
        ours, theirs = read(file).to_scipy(), io_mmread(file).tocsr()
        theirs.sum_duplicates()
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        for name in ("indptr", "indices", "data"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))


def test_odd_but_real_files(data_dir: Path) -> None:
    """Those that SciPy reads give the same; it is not asked about those that it refuses."""
    listed = data_dir / "reader" / "EXPECT.tsv"
    if not listed.is_file():
        pytest.skip("no odd files in the collection")
    # Refused here: numbers beyond float64, a complex diagonal, broken headers that SciPy overlooks.
    strict = {"cha.mtx", *(f"mangled{n}.mtx" for n in (5, 6, 15, 16))}
    strict |= {f"overflow_value_gt_{kind}.mtx" for kind in ("complex128", "float128", "float64")}
    strict |= {f"mangled_{n}.rb" for n in (9, 12, 13, 14)}
    for line in listed.read_text().splitlines()[1:]:
        name, _, verdict, shape, _ = (line.split("\t") + [""] * 5)[:5]
        file = data_dir / "reader" / name
        if not verdict.startswith("ok"):
            continue
        if file.name in strict:
            with pytest.raises(DataError, match=r"E506: .*, line \d+"):
                read(file)
            continue
        found = read(file)
        assert "x".join(map(str, found.shape)) == shape
        if file.suffix == ".mtx":
            matrix = io_mmread(file)
            matrix = matrix.toarray() if sparse.issparse(matrix) else matrix
            np.testing.assert_array_equal(found.to_numpy(), matrix)


def test_real_tensors(data_dir: Path) -> None:
    file = data_dir / "splatt_med.tns.gz"
    if not file.is_file():
        pytest.skip("no small tensor in the collection")
    with gzip.open(file, "rt") as lines:
        table = np.loadtxt(lines)
    X = read(file)
    coords = table[:, :-1].astype(int).T - 1
    np.testing.assert_array_equal(X.to_coo()[0], coords[:, np.lexsort(coords[::-1])])
    assert X.to_coo()[1].sum() == table[:, -1].sum()
