"""Data in, checks on the host, kernels on a CPU and on a GPU"""
