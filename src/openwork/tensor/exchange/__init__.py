"""Import and export: arrays of NumPy, SciPy, torch and CuPy, validated on entry, owned on exit."""
