"""Numerical studies of the paper's theorems."""
