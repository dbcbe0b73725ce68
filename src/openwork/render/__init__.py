"""From programs to C and CUDA text, and nothing else."""
