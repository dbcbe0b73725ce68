"""The schedules of the thesis' appendix A, as text: figures 8-1 to 8-6 and section 8.6."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import openwork as ow

SPMV = "y(i) = A(i,j) * x(j)"
SPMM = "C(i,k) = A(i,j) * B(j,k)"
MTTKRP = {
    3: "A(i,j) = B(i,k,l) * D(l,j) * C(k,j)",
    4: "A(i,j) = B(i,k,l,m) * E(m,j) * D(l,j) * C(k,j)",
    5: "A(i,j) = B(i,k,l,m,n) * F(n,j) * E(m,j) * D(l,j) * C(k,j)",
}
ROWS_OF_32 = "split(i,i1,i2,32), parallelize(i1,CPUThread,NoRaces)"


@dataclass(frozen=True)
class Scheduled:
    """One section of the appendix: a statement, its sparse operand, and a schedule."""

    name: str
    what: str
    statement: str
    sparse: str
    schedule: str
    target: str = "cpu"

    def unscheduled(self) -> ow.Statement:
        """The statement over tensors without data: the first mode dense, the others compressed."""
        names: dict[str, Any] = {}
        for access in self.statement.replace("=", "*").split("*"):
            name, _, modes = access.strip().rstrip(")").partition("(")
            order = modes.count(",") + 1
            format = ow.Format([ow.Dense, *[ow.Compressed] * (order - 1)])
            names[name] = ow.placeholder(
                name, order, format if name == self.sparse else ow.dense(order), "float64"
            )
        return ow.parse(self.statement, **names)


def tiled_spmm(tile: int) -> str:
    """A.12 for one tile size."""
    return f"pos(j,jpos,A), split(jpos,jpos0,jpos1,{tile}), order(i,jpos0,k,jpos1)"


UNTILED_SPMM = "order(i,j,k)"

CPU = (
    Scheduled(
        "A.1", "SpMV", SPMV, "A",
        "split(i,i0,i1,32), order(i0,i1,j), parallelize(i0,CPUThread,NoRaces)",
    ),
    Scheduled(
        "A.3", "SpMM", SPMM, "A",
        "split(i,i0,i1,8), pos(j,jpos,A), split(jpos,jpos0,jpos1,8), order(i0,i1,jpos0,k,jpos1), "
        "parallelize(i0,CPUThread,NoRaces), parallelize(k,CPUVector,IgnoreRaces)",
    ),
    Scheduled(
        "A.5", "MTTKRP, order 3", MTTKRP[3], "B",
        f"order(i,k,l,j), precompute(B(i,k,l)*D(l,j),j,j), {ROWS_OF_32}",
    ),
    Scheduled(
        "A.6", "MTTKRP, order 4", MTTKRP[4], "B",
        "order(i,k,l,m,j), precompute(B(i,k,l,m)*E(m,j)*D(l,j),j,j), "
        f"precompute(B(i,k,l,m)*E(m,j),j,j), {ROWS_OF_32}",
    ),
    Scheduled(
        "A.7", "MTTKRP, order 5", MTTKRP[5], "B",
        "order(i,k,l,m,n,j), precompute(B(i,k,l,m,n)*F(n,j)*E(m,j)*D(l,j),j,j), "
        "precompute(B(i,k,l,m,n)*F(n,j)*E(m,j),j,j), precompute(B(i,k,l,m,n)*F(n,j),j,j), "
        f"{ROWS_OF_32}",
    ),
    Scheduled("A.12", "SpMM, tiled", SPMM, "A", tiled_spmm(8)),
)  # fmt: skip

CUDA = (
    Scheduled(
        "A.2", "SpMV", SPMV, "A",
        "fuse(i,j,f), pos(f,fpos,A), split(fpos,block,fpos1,3584), split(fpos1,warp,fpos2,224), "
        "split(fpos2,thread,thread_nz,7), order(block,warp,thread,thread_nz), "
        "precompute(A(i,j)*x(j),thread_nz,thread_nz_pre), unroll(thread_nz_pre,7), "
        "parallelize(block,GPUBlock,IgnoreRaces), parallelize(warp,GPUWarp,IgnoreRaces), "
        "parallelize(thread,GPUThread,Atomics)",
        "cuda",
    ),
    Scheduled(
        "A.4", "SpMM", SPMM, "A",
        "order(i,j,k), fuse(i,j,f), pos(f,fpos,A), split(fpos,block,fpos1,256), "
        "split(fpos1,warp,nnz,16), split(k,dense_val_unbounded,thread,32), "
        "bound(dense_val_unbounded,dense_val,4,MaxExact), "
        "order(block,warp,dense_val,thread,nnz), parallelize(block,GPUBlock,IgnoreRaces), "
        "parallelize(warp,GPUWarp,IgnoreRaces), parallelize(thread,GPUThread,Atomics)",
        "cuda",
    ),
    Scheduled(
        "A.8", "MTTKRP, order 3", MTTKRP[3], "B",
        "order(i,k,l,j), fuse(k,l,kl), fuse(i,kl,f), pos(f,fpos,B), split(fpos,block,fpos1,64), "
        "split(fpos1,warp,nnz,4), split(j,dense_val_unbounded,thread,32), "
        "bound(dense_val_unbounded,dense_val,1,MaxExact), "
        "order(block,warp,dense_val,thread,nnz), parallelize(block,GPUBlock,IgnoreRaces), "
        "parallelize(warp,GPUWarp,IgnoreRaces), parallelize(thread,GPUThread,Atomics)",
        "cuda",
    ),
)  # fmt: skip
