"""Files: Matrix Market, FROSTT, NumPy archives, Rutherford-Boeing, binsparse; each also as .gz."""

from openwork.tensor.files.read_write import read, write

__all__ = ["read", "write"]
