"""Names of other libraries that we do not have, and what does the same here."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from importlib import import_module

import numpy as np

from openwork.algebra.operators import UFUNCS
from openwork.tensor.exchange.numpy_functions import FUNCTIONS

# Of their arrays.
ELSEWHERE = {
    "data": "A.to_coo()[1], or A.to_scipy(share=True).data",
    "indices": "A.to_scipy(share=True).indices",
    "indptr": "A.to_scipy(share=True).indptr",
    "row": "A.to_coo()[0][0]",
    "col": "A.to_coo()[0][1]",
    "coords": "A.to_coo()[0]",
    "values": "A.to_coo()[1]",
    "tocsr": "A.to('CSR'), or A.to_scipy() for SciPy's matrix",
    "tocsc": "A.to('CSC'), or A.to_scipy() for SciPy's matrix",
    "tocoo": "A.to('COO(2)'), or A.to_scipy() for SciPy's matrix",
    "tobsr": "A.to(ow.BSR(r, c)), or A.to_scipy() for SciPy's matrix",
    "getrow": "A[i]",
    "getcol": "A[:, j]",
    "setdiag": "A + ow.diag(v)",
    "eliminate_zeros": "A.prune(), which gives a new tensor",
    "sum_duplicates": "nothing: entries are there once",
    "sort_indices": "nothing: entries are in order",
    "sort": "np.sort(A), which gives a new tensor",
    "sparse": "A.to_scipy()",
    **dict.fromkeys(("numpy", "to_dense", "asnumpy", "A"), "A.to_numpy()"),
    "cpu": "A.to('cpu')",
    "asformat": "A.to('CSR')",
    **dict.fromkeys(("getformat", "layout"), "A.format"),
    **dict.fromkeys(("get_shape", "dims"), "A.shape"),
    **dict.fromkeys(("getnnz", "_nnz"), "A.nnz"),
    "rank": "A.order",
    "density": "A.nnz / A.size",
    "fill_value": "A.fill",
    "is_sparse": "not A.format.is_dense",
    "coalesce": "nothing: entries are there once",
    **dict.fromkeys(("map", "apply"), "np.sin(A), or ow.operator for a function of your own"),
    **dict.fromkeys(("compute", "evaluate"), "nothing: a tensor is computed when it is read"),
    "plot": "A.draw('svg')",
    **dict.fromkeys(
        ("schedule", "parallelize", "reorder", "explain", "compile"),
        "A.statement.{name}(...), after A[i, j] = ...",
    ),
    "cuda": "A.to('cuda')",
}


def instead_of_attribute(name: str) -> str:
    """What to write for a name of another library's arrays that tensors do not have.

    >>> instead_of_attribute("tocsc"), instead_of_attribute("vdot")
    ("; write A.to('CSC'), or A.to_scipy() for SciPy's matrix", '; np.vdot takes tensors')
    """
    if name in ELSEWHERE:
        return f"; write {ELSEWHERE[name].replace('{name}', name)}"
    numpys = None if name.startswith("_") else getattr(np, name, None)
    return f"; np.{name} takes tensors" if numpys in FUNCTIONS or numpys in UFUNCS else ""


# Of their modules: NumPy's, SciPy's, torch's, GraphBLAS' and TACO's.
_OF_MODULES = {
    **dict.fromkeys(
        (
            *("array", "asarray", "asanyarray", "ascontiguousarray", "as_tensor", "from_numpy"),
            *("from_scipy", "from_torch", "sparse", "sparse_tensor", "SparseTensor"),
        ),
        "ow.tensor(obj)",
    ),
    **{f"{kind}_{what}": f'ow.tensor(obj, "{name}")' for kind, name in (
        ("csr", "CSR"), ("csc", "CSC"), ("coo", "COO(2)"), ("dok", "COO(2)"), ("lil", "LIL"),
        ("dia", "DIA"), ("bsr", "BSR(2, 2)"),
    ) for what in ("array", "matrix")},
    **dict.fromkeys(("matmul", "dot", "mm", "spmm", "bmm"), "A @ B"),
    **dict.fromkeys(("mv", "spmv"), "A @ x"),
    "sddmm": 'ow.compute("C(i,j) = B(i,j) * D(i,k) * E(j,k)", B=B, D=D, E=E)',
    "mttkrp": 'ow.compute("M(i,r) = X(i,j,k) * B(j,r) * C(k,r)", X=X, B=B, C=C)',
    "arange": "ow.tensor(np.arange(n))",
    "identity": "ow.eye(n)",
    "eye_array": "ow.eye(n)",
    "empty_like": "ow.zeros_like(A)",
    "transpose": "A.T, or np.transpose(A, axes)",
    **dict.fromkeys(("shape", "size", "ndim"), "A.{name}"),
    **dict.fromkeys(("diags", "diags_array", "spdiags"), "ow.diag(v, k), or their sum"),
    "block_diag": "ow.block([[A, None], [None, B]])",
    "find": "coords, values = A.to_coo()",
    "issparse": "isinstance(A, ow.Tensor)",
    **dict.fromkeys(("load_npz", "load", "loadtxt", "mmread"), "ow.read(path)"),
    **dict.fromkeys(("save_npz", "save", "savez", "mmwrite"), "ow.write(path, A)"),
    **dict.fromkeys(("asnumpy", "to_numpy", "to_dense"), "A.to_numpy()"),
    "amax": "A.max()",
    "amin": "A.min()",
    "newaxis": "None, as in A[:, None]",
    "relu": "ow.maximum(A, 0)",
    "spsolve_triangular": "ow.solve_triangular(A, b)",
    **dict.fromkeys(("cuda", "to_device"), 'A.to("cuda")'),
    **dict.fromkeys(("compile", "jit"), "ow.parse(text, A=A).compile()"),
    **dict.fromkeys(("evaluate", "run"), "ow.compute(text, A=A)"),
    "schedule": "stmt.schedule(text)",
    **dict.fromkeys(
        ("Index", "IndexVar", "indexvars", "index_vars", "get_index_vars"), 'ow.indices("i j")'
    ),
    **dict.fromkeys(
        ("mxm", "mxv", "vxm", "semirings", "monoid", "binary"),
        'ow.compute("C(i,k) = A(i,j) * B(j,k)", A=A, B=B, semiring="min_plus")',
    ),
    **dict.fromkeys(("num_threads", "get_num_threads", "threads"), "ow.thread_count()"),
    "apply": "an operator, such as ow.sqrt(A), or ow.operator for one of your own",
}  # fmt: skip


def instead_of(name: str, ours: Sequence[str]) -> str:
    """What to write for a name of another library's module that is none of ours.

    >>> instead_of("matmul", ["dense"]), instead_of("Dence", ["dense"])
    ('; write A @ B', '; did you mean ow.dense?')
    """
    if name in _OF_MODULES:
        return f"; write {_OF_MODULES[name].replace('{name}', name)}"
    numpys = getattr(np, name, None)
    if numpys in FUNCTIONS or numpys in UFUNCS:
        return f"; np.{name} takes tensors"
    lower = {each.lower(): each for each in ours}
    near = [each for each in lower if each == name.lower()]
    if numpys is None and not near:
        near = difflib.get_close_matches(name.lower(), lower, 1, 0.7)
    if near:
        return f"; did you mean ow.{lower[near[0]]}?"
    if callable(numpys) and not isinstance(numpys, type):
        return f"; there is np.{name}, for arrays such as A.to_numpy()"
    if numpys is not None:
        return f"; there is np.{name}"
    if hasattr(import_module("scipy.sparse.linalg"), name):  # which takes long to import
        return f"; scipy.sparse.linalg.{name} takes a tensor as an operator, or A.to_scipy()"
    return ""
