"""Files of tensors whose elements are records: as such, or as the real matrix they stand for."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.choices import in_turns

import openwork as ow
from openwork.algebra.entries import Entry
from openwork.tensor.functions.entry import named

entry = ow.entry
OWN = entry.define(
    "affine", ["linear", "constant"], one=(1, 0), commutative=True,
    mul=lambda a, b: (a.linear * b.linear, a.linear * b.constant + a.constant * b.linear),
)  # fmt: skip
TYPES = {
    "complex": entry.complex("float32"),
    "quaternion": entry.quaternion("float32"),
    "dual": entry.dual(),
    "block": entry.block(3, 2),
    "vector": entry.vector(3, "float32"),
    "complex block": entry.block(2, 2, entry.complex()),
    "vector of blocks": entry.vector(2, entry.block(1, 2, entry.quaternion("float32"))),
    "a user's": OWN,
}
# Whose elements are told by what they make of one: these come back from their matrices.
HAVE_ONE = [name for name in TYPES if name not in ("block", "vector", "vector of blocks")]


def matrix(kind: Entry, shape: tuple[int, ...] = (5, 4), format: Any = ow.CSR) -> ow.Tensor:
    """Random elements in the precision of the type, at random places."""
    rng = np.random.default_rng(len(shape))
    coords = np.argwhere(rng.random(shape) < 0.4).T
    values = rng.standard_normal((coords.shape[1], *kind.shape)).astype(kind.scalar)
    return ow.tensor((coords, values), shape=shape, dtype=kind, format=format, name="A")


@pytest.mark.parametrize("kind", TYPES)
def test_names_of_types_are_read(kind: str) -> None:
    made = TYPES[kind]
    assert named(made.name) == (None if kind == "a user's" else made)


@pytest.mark.parametrize(
    "name",
    ["", "float32", "real<float32>", "quaternion<int8>", "block 3x3<float32", "block 0x3<float32>",
     "block 99x99<float32>", "vector 3 of <float32>", "vector 3 block 2x2<float32>", "complex of "
     "complex<float32>", "vector 99999999999<float64>", " of <float32>", "<float32>"],
)  # fmt: skip
def test_names_of_no_type(name: str) -> None:
    try:
        assert named(name) is None
    except ow.FormatError as error:
        assert "too large" in str(error)


FORMATS = [ow.CSR, ow.CSC, ow.DCSR, ow.COO(2), ow.BSR(2, 2), ow.dense(2)]


@pytest.mark.parametrize(("kind", "format"), in_turns(list(TYPES), FORMATS, 3))
def test_archives_keep_records(tmp_path: Path, kind: str, format: ow.Format) -> None:
    A = matrix(TYPES[kind], format=format)
    ow.write(tmp_path / "a.npz", A)
    back = ow.read(tmp_path / "a.npz", dtype=OWN if kind == "a user's" else None)
    assert (back.dtype, back.format) == (A.dtype, A.format)
    assert back.equals(A)


def test_archives_of_other_layouts_and_orders(tmp_path: Path) -> None:
    kind = entry.quaternion()
    for shape in [(), (6,), (3, 2, 4)]:
        A = matrix(kind, shape, ow.dense(len(shape)))
        ow.write(tmp_path / "a.npz.gz", A)
        assert ow.read(tmp_path / "a.npz.gz").equals(A)
    for layout in ("SoA", "AoSoA(4)", "packed"):
        A = matrix(kind, format=ow.SELL(4).with_layout(layout))
        ow.write(tmp_path / "a.npz", A)
        assert ow.read(tmp_path / "a.npz").equals(A)
    narrow = ow.read(tmp_path / "a.npz", dtype=entry.quaternion("float32"), format=ow.CSC)
    assert (narrow.dtype, narrow.format) == (entry.quaternion("float32"), ow.CSC)


@pytest.mark.parametrize("ending", [".mtx", ".tns", ".rb"])
@pytest.mark.parametrize("kind", HAVE_ONE)
def test_text_files_hold_the_real_matrix(tmp_path: Path, kind: str, ending: str) -> None:
    A = matrix(TYPES[kind])
    file = tmp_path / f"a{ending}"
    if kind == "complex":
        if ending == ".tns":
            with pytest.raises(ow.FormatError, match="E404"):
                ow.write(file, A)
            return
        ow.write(file, A)
        np.testing.assert_array_equal(ow.read(file).to_numpy(), A.to_numpy() @ [1, 1j])
    else:
        ow.write(file, A)
        np.testing.assert_array_equal(ow.read(file).to_numpy(), A.expand().to_numpy())
    back = ow.read(file, dtype=TYPES[kind], format=ow.COO(2), name="B")
    assert (back.format, back.dtype, back.name) == (ow.COO(2), A.dtype, "B")
    assert back.equals(A)


def test_blocks_come_back_from_a_real_matrix(tmp_path: Path) -> None:
    square = matrix(entry.block(3, 3))
    ow.write(tmp_path / "a.mtx", square)
    assert ow.read(tmp_path / "a.mtx", dtype=square.dtype).equals(square)
    x = matrix(entry.vector(3), (5,), ow.dense(1))
    ow.write(tmp_path / "x.tns", x)
    read = ow.read(tmp_path / "x.tns", format=ow.dense(1))
    np.testing.assert_array_equal(read.to_numpy(), x.to_numpy().reshape(-1))
    assert entry.vector(3).contract(read).equals(x)


def test_what_a_file_cannot_hold(tmp_path: Path) -> None:
    cube = matrix(entry.quaternion(), (2, 3, 2), ow.CSF(3))
    with pytest.raises(ow.FormatError, match=r"FROSTT files hold no quaternion") as error:
        ow.write(tmp_path / "a.tns", cube)
    assert "use .npz" in str(error.value)
    ow.write(tmp_path / "a.mtx", ow.tensor(np.ones((4, 4)), format=ow.CSR))
    with pytest.raises(ow.DataError, match="E505"):
        ow.read(tmp_path / "a.mtx", dtype=entry.quaternion())


def archive(file: Path, **changed: Any) -> Path:
    """An archive of a quaternion matrix with some arrays replaced."""
    ow.write(file, matrix(entry.quaternion()))
    with np.load(file) as held:
        arrays = {**held, **changed}
    np.savez(file, **arrays)
    return file


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"entry": np.array("quaternion<float8>")}, "no entry type"),
        ({"entry": np.array("affine 0123<float64>")}, "dtype="),
        ({"entry": np.array("quaternion<float32>")}, "are not elements of"),
        ({"entry": np.array("block 9x9<float64>")}, "E402"),
        ({"entry": np.array(3)}, "not a string"),
        ({"entry": np.array("vector 3<float64>"), "values": np.ones((4, 3))}, "are not elements"),
        ({"values": np.ones(7)}, "are not elements of quaternion"),
        ({"values": np.ones(4)}, "E50"),
    ],
)
def test_broken_archives(tmp_path: Path, changed: dict[str, Any], text: str) -> None:
    file = archive(tmp_path / "a.npz", **changed)
    with pytest.raises((ow.DataError, ow.FormatError), match=text):
        ow.read(file)


@pytest.mark.parametrize("format", [ow.CSR, ow.CSC, ow.DCSR, ow.DCSC, ow.COO(2), ow.dense(2)])
@pytest.mark.parametrize("kind", TYPES)
def test_binsparse_keeps_records(tmp_path: Path, kind: str, format: ow.Format) -> None:
    h5py = pytest.importorskip("h5py")
    A = matrix(TYPES[kind], format=format)
    file = tmp_path / "a.bsp.h5"
    ow.write(file, A)
    back = ow.read(file, dtype=TYPES[kind] if kind in ("a user's", "complex") else None)
    assert back.dtype == A.dtype
    assert back.to(ow.CSR).equals(A.to(ow.CSR))
    with h5py.File(file) as opened:
        told = json.loads(opened.attrs["binsparse"])["binsparse"]
    assert told["number_of_stored_values"] == A.nnz
    if kind == "complex":  # as the specification has them
        assert told["data_types"]["values"] == "complex[float32]"
        np.testing.assert_array_equal(ow.read(file).to_numpy(), A.to_numpy() @ [1, 1j])
