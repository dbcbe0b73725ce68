"""The imperative representation that C and CUDA are made from."""
