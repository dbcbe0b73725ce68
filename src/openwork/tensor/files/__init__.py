"""Files: Matrix Market, FROSTT, NumPy archives, Rutherford-Boeing, binsparse; each also as .gz."""

from openwork.tensor.files.kinds import read, write

__all__ = ["read", "write"]
