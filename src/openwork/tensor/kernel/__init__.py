"""Compiled kernels: bind arrays, call, call again."""
