"""Merge lattices: which operands are walked together."""
