"""Reading and writing .mtx, .tns and .npz, compressed or not, and files that are broken."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import io, sparse

from openwork.errors import DataError, FormatError
from openwork.format.formats import CSC, CSF, CSR, DCSR, dense
from openwork.tensor.create import tensor
from openwork.tensor.files import read, write

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
    io.mmwrite(whole, MATRIX)
    assert read(whole).format.is_dense
    np.testing.assert_array_equal(read(whole).to_numpy(), MATRIX)


BROKEN: list[tuple[str, Any]] = [
    ("a.mtx", b""),
    ("a.mtx", b"hello\n"),
    ("a.mtx", b"%%MatrixMarket matrix coordinate real general\n2 2 2\n1 1 5\n"),
    ("a.mtx", b"%%MatrixMarket matrix coordinate real general\n2 2 1\n3 1 5\n"),
    ("a.mtx", b"%%MatrixMarket matrix coordinate real general\n2 2 1\n0 1 5\n"),
    ("a.mtx", b"%%MatrixMarket matrix coordinate real general\n2 2 1000000000\n1 1 5\n"),
    ("a.mtx", b"%%MatrixMarket matrix array real general\n900000 900000\n1\n"),
    ("a.mtx", b"%%MatrixMarket matrix coordinate real general\ntwo 2 1\n1 1 5\n"),
    ("a.mtx.gz", b"not gzip at all"),
    ("a.mtx.gz", gzip.compress(b"%%MatrixMarket matrix coordinate real", mtime=0)[:-9]),
    ("a.tns", b"1 1 x\n"),
    ("a.tns", b"1 1 2.0\n1 2.0\n"),
    ("a.tns", b"0 1 2.0\n"),
    ("a.tns", b"1.5 1 2.0\n"),
    ("a.tns", b"-1 1 2.0\n"),
    ("a.tns", b"1 99999999999999999999 2.0\n"),
    ("a.tns", b"\xff\xfe\x00"),
    ("a.tns", b""),
    ("a.npz", b"PK\x03\x04 nonsense"),
    ("a.npz", b""),
    ("a.csv", b"1,2"),
    ("a", b""),
    ("a.gz", b""),
]


@pytest.mark.parametrize(("name", "content"), BROKEN, ids=lambda value: repr(value)[:40])
def test_broken_files(tmp_path: Path, name: str, content: bytes) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(DataError) as caught:
        read(file)
    assert caught.value.code == "E506"
    assert name in str(caught.value)


def test_archives_with_malformed_arrays(tmp_path: Path) -> None:
    matrix = sparse.csr_array(MATRIX)
    matrix.indices = matrix.indices.copy()
    matrix.indices[0] = 77
    sparse.save_npz(tmp_path / "a.npz", matrix)
    with pytest.raises(DataError, match=r"E503: A.indices\[0\] is 77"):
        read(tmp_path / "a.npz", name="A")
    np.savez(tmp_path / "b.npz", data=np.array([object()], dtype=object), format=b"csr")
    with pytest.raises(DataError, match="E506"):
        read(tmp_path / "b.npz")


def test_files_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"E506: cannot read none.mtx: No such file"):
        read(tmp_path / "none.mtx")
    with pytest.raises(DataError, match="E506: cannot write"):
        write(tmp_path / "no" / "a.mtx", tensor(MATRIX))
    with pytest.raises(FormatError, match="E404"):
        write(tmp_path / "a.csv", tensor(MATRIX))


def test_real_data(data_dir: Path) -> None:
    files = sorted(data_dir.rglob("*.mtx*")) + sorted(data_dir.rglob("*.tns*"))
    small = [file for file in files if file.is_file() and file.stat().st_size < 200_000][:3]
    if not small:
        pytest.skip("no small file in the collection")
    for file in small:
        assert read(file).nnz > 0
