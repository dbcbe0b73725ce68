"""Compilers, kernel cache, storage, binding and launch, and the reference evaluator."""
