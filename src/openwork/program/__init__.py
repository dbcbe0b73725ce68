"""The imperative representation, from which C and CUDA are rendered."""
