"""The text of small programs, without what stands around the body of a kernel."""

from __future__ import annotations

from tests.program.small import program

from openwork.pipeline import to_kernels
from openwork.program import nodes as p
from openwork.program.vectorize import vectorize
from openwork.program.verify import verify
from openwork.render.c.c import render
from openwork.render.cuda.cuda import render_cuda
from openwork.trace import Trace


def c_text(*body: p.Stmt) -> str:
    """All of a program as C."""
    whole = program(*body)
    verify(whole)
    return render(vectorize(whole))


def c_body(*body: p.Stmt) -> str:
    """The statements of a program as C, without arguments and the status at its end."""
    lines = c_text(*body).rstrip().splitlines()
    begin = max(n for n, line in enumerate(lines) if line.startswith("int32_t kernel("))
    inside = [line for line in lines[begin + 1 : -1] if not _is_argument(line)]
    return _unindented("\n".join(inside)).removesuffix("return 0;").rstrip()


def _is_argument(line: str) -> bool:
    return "= arrays[" in line or "= sizes[" in line


def cuda_text(*body: p.Stmt, narrow: bool = True) -> str:
    """All of a program as CUDA; `narrow`: what it counts fits 32 bits."""
    whole = program(*body)
    verify(whole)
    return render_cuda(to_kernels(whole, Trace(dumps=False)), narrow)


def cuda_body(*body: p.Stmt) -> str:
    """The statements of the one kernel of a program."""
    text = cuda_text(*body)
    assert text.count("__global__") == 1
    return _unindented(text.rpartition("\n) {\n")[2].rstrip().removesuffix("}")).rstrip()


def _unindented(text: str) -> str:
    """`text` without the indentation of a function; pragmas have none."""
    return "\n".join(line.removeprefix("  ") for line in text.splitlines())
