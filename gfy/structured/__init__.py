"""Define structured outputs: chains of labels, and polytopes that are known by a maximiser of linear functions."""
