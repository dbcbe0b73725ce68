"""Bytes and lines of files: opened, parsed in C or by NumPy, written, with progress."""
