"""Instantiates the kernels of products.cuh: a .cu for each product and type, made cubins by nvcc.

python bench/hand_gpu/make.py FOLDER
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from itertools import product
from pathlib import Path

HERE = Path(__file__).parent
VECTOR = {"float": 4, "double": 2}
NAMES = {"float": "float32", "double": "float64"}


def vectors(T: str) -> Iterator[tuple[str, int, str]]:
    """Name, threads of a block, and the text of each kernel for SpMV."""
    csr = f"const int*pos,const int*crd,const {T}*val,const {T}*x,{T}*y"
    for g, u, block, defer in product((1, 2, 4, 8, 16, 32), (2, 4), (128, 256), (0, 1)):
        if block == 128 and u == 2:
            continue
        name = f"rows_g{g}_u{u}_b{block}_d{defer}"
        call = f"spmv_rows<{T},{g},{u},{block},{defer},{int(g > 1)}>(rows,most,pos,crd,val,x,y)"
        yield name, block, f"{name}(int rows,int most,{csr}){{{call};}}"
    for g, u in product((1, 2, 4, 8, 16, 32), (1, 2)):
        name = f"wide_g{g}_u{u}"
        call = f"spmv_wide<{T},{g},{u},256>(rows,pos,crd,val,x,y)"
        yield name, 256, f"{name}(int rows,{csr}){{{call};}}"
    for each, block in product((4, 8), (128, 256, 512)):
        name = f"runs_e{each}_b{block}"
        call = f"spmv_runs<{T},{each},{block}>(first,place,pos,crd,val,x,y)"
        yield name, block, f"{name}(const int*first,const int*place,{csr}){{{call};}}"
    for g, u in product((1, 2, 4, 8, 16, 32), (2, 4)):
        name = f"held_g{g}_u{u}"
        call = f"spmv_held<{T},{g},{u}>(across,bounds,pos,crd,val,x,y)"
        yield name, 1024, f"{name}(int across,const int*bounds,{csr}){{{call};}}"


def matrices(T: str, columns: int) -> Iterator[tuple[str, int, str]]:
    """The same for SpMM."""
    v = VECTOR[T]
    given = "int rows,int columns,const int4*items,const int*pos,const int*crd,"
    given += f"const {T}*val,const {T}*B,{T}*C"
    for lanes, share, u, block, first, items in product(
        (1, 2, 4, 8, 16, 32), (1, 2, 4, 8, 16, 32), (4, 8), (64, 256, 1024), (1, 0), (0, 1)
    ):
        tiles = columns // (lanes * v)
        if lanes * v > columns or lanes * share > 32 or (tiles == 1 and not first):
            continue
        if columns == 128 and (lanes < (2 if T == "float" else 4) or share > 8):
            continue
        if not first and (lanes < 8 or items or block != 64):
            continue
        if (columns == 4 and block == 1024) or (block == 1024 and (share > 1 or items)):
            continue
        if (columns == 32 and (share > 16 or lanes < 2)) or (block == 1024 and u == 8):
            continue
        if items and block == 256:
            continue
        name = f"c{columns}_l{lanes}_s{share}_u{u}_b{block}_t{first}_i{items}"
        call = (
            f"spmm_rows<{T},{v},{lanes},{share},{u},{block},{first},{items}>"
            "(rows,columns,items,pos,crd,val,B,C)"
        )
        yield name, block, f"{name}({given}){{{call};}}"


def text(T: str, columns: int) -> str:
    lines = ['#include "products.cuh"']
    for _, block, body in matrices(T, columns) if columns else vectors(T):
        lines.append(f'extern "C" __global__ void __launch_bounds__({block}) {body}')
    once = "const int4*a,int4*to){bytes_once<256>(reads,writes,a,to);}"
    lines.append(
        'extern "C" __global__ void __launch_bounds__(256) bytes('
        f"long long reads,long long writes,{once}"
    )
    lines.append('extern "C" __global__ void nothing(){}')
    return "\n".join(lines) + "\n"


def main() -> None:
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for T, columns in product(VECTOR, (0, 128, 32, 4)):
        if T == "double" and columns in (4, 32):
            continue
        name = f"{NAMES[T]}_{columns}"
        (folder / f"{name}.cu").write_text(text(T, columns))
        how = ["nvcc", "-std=c++17", "-O3", "-arch=sm_90", "-cubin", f"-I{HERE}"]
        subprocess.run(
            [*how, "-o", str(folder / f"{name}.cubin"), str(folder / f"{name}.cu")], check=True
        )


if __name__ == "__main__":
    main()
