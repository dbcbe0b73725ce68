"""GPU kernels as CUDA."""
