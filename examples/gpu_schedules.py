"""GPU schedules of the thesis (A.2, A.9, A.10) and of Sgap (segment groups), for SpMV.

On a machine without a GPU the CUDA text runs under the emulator, on a small matrix. With CuPy and a
GPU, `--cuda` runs it there.
"""

import sys

import numpy as np
import scipy.sparse as sp

import openwork as ow
from openwork import recipes

ENTRIES = """fuse(i,j,f), pos(f,fpos,A), split(fpos,block,fpos1,3584), split(fpos1,warp,fpos2,224),
    split(fpos2,thread,thread_nz,7), order(block,warp,thread,thread_nz)"""
UNITS = """parallelize(block,GPUBlock,IgnoreRaces), parallelize(warp,GPUWarp,IgnoreRaces)"""
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
    "segment group": """fuse(i,j,f), pos(f,fpos,A), split(fpos,block,thread,256),
        parallelize(block,GPUBlock,IgnoreRaces),
        parallelize(thread,GPUGroup,group_size=32,reduction=segment)""",
}


def main() -> None:
    rng = np.random.default_rng(0)
    target = "cuda" if "--cuda" in sys.argv else "cuda-emulated"
    A = ow.tensor(sp.random(500, 400, 0.02, format="csr", random_state=rng), name="A")
    x = ow.tensor(rng.random(400), name="x")
    y = ow.empty((500,), name="y")
    statement = ow.parse("y(i) = A(i,j) * x(j)", y=y, A=A, x=x)
    expected = A.to_scipy() @ x.to_numpy()
    scheduled = {name: statement.schedule(text) for name, text in SCHEDULES.items()}
    scheduled["staged segments"] = recipes.position_staged(statement)
    for name, stmt in scheduled.items():
        result = stmt.compile(target=target)().to_numpy()
        print(f"{name:24} agrees with SciPy: {np.allclose(result, expected)}")


if __name__ == "__main__":
    main()
