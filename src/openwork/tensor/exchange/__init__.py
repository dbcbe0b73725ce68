"""The door: arrays of NumPy, SciPy, torch and CuPy come in checked and go out owned."""
