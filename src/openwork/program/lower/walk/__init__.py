"""Loops over levels: merge lattices, the three loop shapes, and how iterations are traversed."""
