"""Study the paper's theorems numerically."""
