"""The GPU schedules of the thesis (A.2, A.4, A.8 to A.11) and of Sgap (listings 3 to 6).

By default the CUDA text runs under the emulator, on small tensors. With CuPy and a GPU, `--cuda`
runs it there.
"""

import sys

import numpy as np
import scipy.sparse as sp

import openwork as ow
from openwork import recipes

ENTRIES = """fuse(i,j,f), pos(f,fpos,A), split(fpos,block,fpos1,3584), split(fpos1,warp,fpos2,224),
    split(fpos2,thread,thread_nz,7), order(block,warp,thread,thread_nz)"""
UNITS = """parallelize(block,GPUBlock,IgnoreRaces), parallelize(warp,GPUWarp,IgnoreRaces)"""

# y(i) = A(i,j) * x(j)
SCHEDULES = {
    "A.2, entries, unrolled": f"""{ENTRIES},
        precompute(A(i,j)*x(j),thread_nz,thread_nz_pre), unroll(thread_nz_pre,7), {UNITS},
        parallelize(thread,GPUThread,Atomics)""",
    "A.9, thread per row": """split(i,block,thread,128), parallelize(block,GPUBlock,NoRaces),
        parallelize(thread,GPUThread,NoRaces)""",
    "A.10, warp per row": f"""split(i,block,block_row,16), split(block_row,warp_row,warp,4),
        pos(j,jpos,A), split(jpos,thread_nz,thread,32),
        order(block,warp,warp_row,thread,thread_nz), {UNITS},
        parallelize(thread,GPUThread,Temporary)""",
    "A.11, entries": f"{ENTRIES}, {UNITS}, parallelize(thread,GPUThread,Atomics)",
    "segment group": """fuse(i,j,f), pos(f,fpos,A), split(fpos,block,thread,256),
        parallelize(block,GPUBlock,IgnoreRaces),
        parallelize(thread,GPUGroup,group_size=32,reduction=segment)""",
}

# M(i,j) = X(i,k,l) * F(k,j) * G(l,j), with 32 columns
MTTKRP = {
    "A.8, entries": f"""order(i,k,l,j), fuse(k,l,kl), fuse(i,kl,f), pos(f,fpos,X),
        split(fpos,block,fpos1,64), split(fpos1,warp,nnz,4),
        split(j,dense_val_unbounded,thread,32), bound(dense_val_unbounded,dense_val,1,MaxExact),
        order(block,warp,dense_val,thread,nnz), {UNITS}, parallelize(thread,GPUThread,Atomics)""",
}


# C(i,k) = A(i,j) * B(j,k), with n columns and p threads in a block


def entries_and_columns(g: int, c: int, n: int, p: int) -> str:
    """Sgap, listing 3: {<g nnz, c col>, 1}; n/c threads are adjacent along the columns."""
    return f"""order(i,j,k), fuse(i,j,f), pos(f,fpos,A), split(fpos,block,fpos1,{p * g * c // n}),
        split(fpos1,warp,nnz,{g}), split(k,ko,thread,{n // c}), bound(ko,dense_val,{c},MaxExact),
        order(block,warp,thread,dense_val,nnz), {UNITS}, parallelize(thread,GPUThread,Atomics)"""


def rows_and_columns(g: int, c: int, n: int, p: int) -> str:
    """Sgap, listing 4: {<g row, c col>, 1}."""
    return f"""split(i,block,io,{p * g * c // n}), split(io,warp,row,{g}), split(k,ko,col,{c}),
        bound(ko,thread,{n // c},MaxExact), order(block,warp,row,thread,col,j),
        parallelize(block,GPUBlock,NoRaces), parallelize(warp,GPUWarp,NoRaces),
        parallelize(thread,GPUThread,NoRaces)"""


def parts_of_rows(g: int, c: int, r: int, p: int) -> str:
    """Sgap, listing 5: {<1/g row, c col>, r}."""
    return f"""order(i,k,j), fuse(i,k,io), split(io,ko,ki,{c * p // g}), split(ki,warp,kii,{c}),
        pos(j,jpos,A), split(jpos,jpos0,jpos1,{g}), order(ko,warp,kii,jpos1,jpos0),
        parallelize(ko,GPUBlock,NoRaces), parallelize(warp,GPUWarp,NoRaces),
        parallelize(jpos1,GPUGroup,group_size={r},reduction=parallel)"""


def entries_in_segments(c: int, r: int, n: int, p: int) -> str:
    """Sgap, listing 6: {<1 nnz, c col>, r}."""
    return f"""order(i,j,k), fuse(i,j,f), pos(f,fpos,A), split(fpos,block,fpos1,{p * c // n}),
        split(k,ko,ki,{c}), bound(ko,warp,{n // c},MaxExact), order(block,warp,ki,fpos1),
        parallelize(block,GPUBlock,IgnoreRaces), parallelize(warp,GPUWarp,NoRaces),
        parallelize(fpos1,GPUThread,Atomics),
        parallelize(fpos1,GPUGroup,group_size={r},reduction=segment)"""


SPMM = {
    ("A.4, entries", 128): f"""order(i,j,k), fuse(i,j,f), pos(f,fpos,A),
        split(fpos,block,fpos1,256), split(fpos1,warp,nnz,16),
        split(k,dense_val_unbounded,thread,32), bound(dense_val_unbounded,dense_val,4,MaxExact),
        order(block,warp,dense_val,thread,nnz), {UNITS}, parallelize(thread,GPUThread,Atomics)""",
    ("Sgap 3, <16 nnz, 4 col>", 128): entries_and_columns(16, 4, 128, 512),
    ("Sgap 4, <1 row, 4 col>", 128): rows_and_columns(1, 4, 128, 512),
    ("Sgap 5, <1/32 row, 1 col>, 8", 4): parts_of_rows(32, 1, 8, 256),
    ("Sgap 6, <1 nnz, 4 col>, 32", 4): entries_in_segments(4, 32, 4, 256),
}


def main() -> None:
    rng = np.random.default_rng(0)
    target = "cuda" if "--cuda" in sys.argv else "cuda-emulated"

    def check(name: str, statement: ow.Statement, expected: np.ndarray) -> None:
        result = statement.compile(target=target)().to_numpy()
        print(f"{name:28} agrees with NumPy: {np.allclose(result, expected)}")

    A = ow.tensor(sp.random(500, 400, 0.02, format="csr", random_state=rng), name="A")
    x = ow.tensor(rng.random(400), name="x")
    y = ow.empty((500,), name="y")
    spmv = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=x)
    for name, text in SCHEDULES.items():
        check(name, spmv.schedule(text), A.to_scipy() @ x.to_numpy())
    check("staged segments", recipes.position_staged(spmv), A.to_scipy() @ x.to_numpy())

    for (name, columns), text in SPMM.items():
        B = ow.tensor(rng.random((400, columns)), name="B")
        C = ow.empty((500, columns), name="C")
        spmm = ow.parse("C(i,k) = A(i,j) * B(j,k)", C=C, A=A, B=B)
        check(name, spmm.schedule(text), A.to_scipy() @ B.to_numpy())

    entries = rng.integers(0, [[20], [30], [25]], (3, 400)), rng.random(400)
    X = ow.tensor(entries, shape=(20, 30, 25), format=ow.CSF(3), name="X")
    F, G = (ow.tensor(rng.random((n, 32)), name=name) for n, name in ((30, "F"), (25, "G")))
    M = ow.empty((20, 32), name="M")
    mttkrp = ow.parse("M(i,j) = X(i,k,l) * F(k,j) * G(l,j)", M=M, X=X, F=F, G=G)
    expected = np.einsum("ikl,kj,lj->ij", X.to_numpy(), F.to_numpy(), G.to_numpy())
    for name, text in MTTKRP.items():
        check(name, mttkrp.schedule(text), expected)


if __name__ == "__main__":
    main()
