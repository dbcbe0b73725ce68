"""Sparse results in pieces: count, prefix sum, fill; on CPU threads and on a GPU."""
