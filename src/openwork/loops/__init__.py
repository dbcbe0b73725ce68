"""Concrete index notation: loops, their order, and how they came about."""
