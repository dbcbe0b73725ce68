"""Sparse results in pieces: count, scan, fill; on threads and on a GPU."""
