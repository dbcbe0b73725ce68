"""Index notation: what to compute."""
