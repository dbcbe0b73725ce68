"""Tensors: data with a format, and the operations users call on them."""
