"""Programs as C with OpenMP and SIMD."""
