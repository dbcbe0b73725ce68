"""Scalar types, operators with their laws, and semirings."""
