"""Files that were valid once: whatever is done to them, reading them ends well or with an error.

`make fuzz-files SECONDS=3600` runs this for an hour; in the plain run it takes a few seconds.
"""

from __future__ import annotations

import gzip
import io
import json
import os
import random
import re
import time
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from openwork.errors import InternalError, OpenworkError
from openwork.format.formats import CSC, CSF, CSR, DCSR, dense
from openwork.tensor.create import tensor
from openwork.tensor.exchange.validate import validate
from openwork.tensor.files import read, write
from openwork.tensor.files.lines import entry_lines
from openwork.tensor.tensor import Tensor

SECONDS = float(os.environ.get("OPENWORK_FUZZ_SECONDS", "4"))
SEED = int(os.environ.get("OPENWORK_FUZZ_SEED", "0"))
KINDS = (".mtx", ".tns", ".npz", ".rb", ".bsp.h5")
ODD_WORDS = [
    *(
        b"0",
        b"-1",
        b"1",
        b"2",
        b"4000000000000000000",
        b"9223372036854775807",
        b"18446744073709551616",
    ),
    *(
        b"1e400",
        b"-1e999999999999",
        b"1e-999",
        b"nan",
        b"-inf",
        b"Infinity",
        b"1.5",
        b".",
        b"1d5",
        b"0x10",
    ),
    *(
        b"1_0",
        b"",
        b"%",
        b"#",
        b"\xff\xfe",
        b"\0",
        b"1e",
        b"+3",
        b"--1",
        b"general",
        b"symmetric",
        b"pattern",
    ),
    *(
        b"complex",
        b"array",
        b"coordinate",
        b"vector",
        b"sptensor",
        b"(3E26.16)",
        b"(99I1)",
        b"(I0)",
    ),
    *(b"rsa", b"cha", b"9007199254740993", b"1" * 400, b"2.2250738585072011e-308", b"9" * 30),
]
ODD_LINES = [
    b"",
    b"% note",
    b"# note",
    b"# shape: 2 2",
    b"1 1 1",
    b"3",
    b"\t \r",
    b"1 1",
    b"x" * 300,
]


def matrices() -> list[Tensor]:
    """Small tensors of several types and shapes, in several formats."""
    rng = np.random.default_rng(1)
    some = rng.random((6, 5)) * (rng.random((6, 5)) < 0.5)
    square = some[:5] + some[:5].T
    return [
        tensor(some, CSR),
        tensor((some * 100).astype(np.int64), CSC),
        tensor(some * (1 + 2j), DCSR),
        tensor((some > 0), CSR),
        tensor(square, CSR),
        tensor(some, dense(2)),
        tensor(np.zeros((3, 0)), CSR),
        tensor((some * 9).astype(np.uint64), CSR),
    ]


def valid_files(folder: Path, ending: str) -> list[bytes]:
    """What files of a kind look like when nothing is wrong with them."""
    made = []
    cubes = [
        tensor(np.arange(24).reshape(2, 3, 4) % 5 * 1.5, CSF(3)),
        tensor([0.0, 2.0, 3.0], CSF(1)),
    ]
    for source in matrices() + (cubes if ending in (".tns", ".npz") else []):
        for symmetry in ("general", "symmetric"):
            file = folder / f"valid{ending}"
            try:
                write(file, source, symmetry)
            except OpenworkError:
                continue
            made.append(file.read_bytes())
    if ending == ".npz":
        for layout in ("bsr", "dia", "coo"):
            stream = io.BytesIO()
            matrix = sparse.coo_array(np.eye(4)).asformat(layout)
            sparse.save_npz(stream, matrix)
            made.append(stream.getvalue())
    return made


# Mutations


def mutate_bytes(content: bytes, rng: random.Random) -> bytes:
    data = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(data) + 1)
        match rng.randrange(5):
            case 0 if at < len(data):
                data[at] = rng.randrange(256)
            case 1:
                data[at : at + rng.randrange(1, 9)] = b""
            case 2:
                data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 9)))
            case 3:
                del data[at:]
            case _ if at < len(data):
                data[at] ^= 1 << rng.randrange(8)
    return bytes(data)


def mutate_text(content: bytes, rng: random.Random) -> bytes:
    lines = content.split(b"\n")
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(lines))
        match rng.randrange(7):
            case 0:
                lines.insert(at, rng.choice(ODD_LINES))
            case 1:
                lines.insert(at, lines[at])
            case 2 if len(lines) > 1:
                del lines[at]
            case 3:
                lines[at] = lines[at].replace(b" ", rng.choice((b"  ", b"\t", b"\r", b"")), 1)
            case _:
                words = re.split(rb"( +)", lines[at])
                words[rng.randrange(len(words))] = rng.choice(ODD_WORDS)
                lines[at] = b"".join(words)
    end = rng.choice((b"\n", b"\n", b"\n", b"\r\n"))
    return end.join(lines)


def mutate_archive(content: bytes, rng: random.Random) -> bytes:
    """Another archive: a member's array or its header is changed, swapped or left out."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name = rng.choice(list(members))
    match rng.randrange(6):
        case 0:
            del members[name]
        case 1:
            members[name] = mutate_bytes(members[name], rng)
        case 2:
            members[name] = members[rng.choice(list(members))]
        case 3:
            header = re.sub(rb"\(\d*", b"(%d" % rng.choice((0, 9, 10**18)), members[name], count=1)
            members[name] = header
        case _:
            array = np.load(io.BytesIO(members[name]))
            members[name] = npy(mutate_array(array, rng))
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", rng.choice((0, 8))) as archive:
        for member, data in members.items():
            archive.writestr(member, data)
    return stream.getvalue()


def npy(array: Any) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def mutate_array(array: Any, rng: random.Random) -> Any:
    if array.dtype.kind in "SU":
        return np.array(rng.choice(("csr", "csc", "coo", "dia", "bsr", "x", "Dense(0)", "Dense")))
    flat = np.array(array).reshape(-1)
    match rng.randrange(4):
        case 0:
            return flat[: rng.randrange(flat.size + 1)]
        case 1:
            return np.concatenate([flat, flat[:1]])
        case 2:
            with warnings.catch_warnings(action="ignore"):
                return array.astype(
                    rng.choice(("int8", "uint64", "float32", "complex64", "S3", "bool"))
                )
    if flat.size:
        value = rng.choice((0, 1, -1, 5, 77, 2**31 - 1, 127))
        with np.errstate(all="ignore"):
            flat[rng.randrange(flat.size)] = np.array(value).astype(flat.dtype)
    return flat.reshape(array.shape)


def mutate_hdf5(content: bytes, rng: random.Random) -> bytes:
    import h5py

    stream = io.BytesIO(content)
    with h5py.File(stream, "r+") as file:
        if rng.random() < 0.5:
            name = rng.choice(list(file))
            array = mutate_array(file[name][()], rng)
            del file[name]
            if rng.random() < 0.9:
                file[name] = array
        else:
            text = file.attrs["binsparse"]
            told = json.loads(text)["binsparse"]
            key = rng.choice(list(told))
            odd: list[Any] = [
                None,
                -1,
                3,
                10**18,
                1.5,
                "CSR",
                "DCSC",
                "DMATC",
                [2],
                [9, 9],
                {},
                True,
            ]
            odd += ["symmetric_lower", "hermitian_upper"]
            told[rng.choice((key, "structure", "fill", "format"))] = rng.choice(odd)
            text = json.dumps({"binsparse": told})
            file.attrs["binsparse"] = (
                mutate_bytes(text.encode(), rng).replace(b"\0", b"") if rng.random() < 0.2 else text
            )
    return stream.getvalue()


MUTATIONS: dict[str, tuple[Callable[[bytes, random.Random], bytes], ...]] = {
    ".mtx": (mutate_text, mutate_text, mutate_bytes),
    ".tns": (mutate_text, mutate_text, mutate_bytes),
    ".rb": (mutate_text, mutate_bytes),
    ".npz": (mutate_archive, mutate_archive, mutate_bytes),
    ".bsp.h5": (mutate_hdf5,),
}


# What may come of it


def outcome(file: Path) -> str:
    """The error, or the tensor in words; anything else is a fault of ours."""
    try:
        with warnings.catch_warnings():  # so many rows for so few entries
            warnings.filterwarnings("ignore", ".*stored as DCSR", RuntimeWarning)
            made = read(file, name="A")
    except InternalError:
        raise
    except OpenworkError as error:
        assert file.name in str(error), error
        return str(error)
    validate(made.storage, "A")
    coords, values = made.to_coo()
    return f"{made.shape} {made.dtype} {made.format} {coords.tolist()} {values.tolist()}"


@pytest.mark.fuzz
@pytest.mark.parametrize("ending", KINDS)
def test_mutated_files(ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if ending == ".bsp.h5":
        pytest.importorskip("h5py")
    seeds = valid_files(tmp_path, ending)
    # Each run goes on with other cases than the last, and a failure names its case.
    case, stop = SEED * 1_000_000_000, time.monotonic() + SECONDS / len(KINDS)
    refused = 0
    while time.monotonic() < stop:
        case += 1
        rng = random.Random(f"{ending} {case}")
        content = rng.choice(MUTATIONS[ending])(rng.choice(seeds), rng)
        packed = rng.random() < 0.15
        if packed:
            content = gzip.compress(content, 1)
            content = mutate_bytes(content, rng) if rng.random() < 0.3 else content
        file = tmp_path / f"case{ending}{'.gz' if packed else ''}"
        file.write_bytes(content)
        try:
            found = outcome(file)
            if ending in (".mtx", ".tns") and case % 4 == 0:
                with monkeypatch.context() as patch:
                    patch.setattr(entry_lines, "compiled_parser", lambda *_: None)
                    assert outcome(file) == found, "the two parsers differ"
        except BaseException as error:
            kept = tmp_path / f"failed{ending}{'.gz' if packed else ''}"
            kept.write_bytes(content)
            error.add_note(f"{ending}, case {case}: {kept}\n{content[:2000]!r}")
            raise
        refused += found.startswith("E")
    print(f"{ending}: {case - SEED * 1_000_000_000} cases, {refused} refused")
    assert case > SEED * 1_000_000_000
