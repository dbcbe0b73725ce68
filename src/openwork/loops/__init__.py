"""Concrete index notation: loops, their order, and their provenance."""
