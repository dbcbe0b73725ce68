"""Bytes and lines of files: open, parse in C or by NumPy, write, show progress."""
