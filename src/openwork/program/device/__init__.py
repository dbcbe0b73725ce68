"""From a program to GPU kernels and the host's steps around them."""
