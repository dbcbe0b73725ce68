"""Loops over split, fused and position variables."""
