"""Functions of whole tensors by their names in NumPy: sums of products, creation, joining."""
