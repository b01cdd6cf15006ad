"""All methods on the same one-dimensional rows, in one figure: ``python -m benchmarks.gallery``."""
