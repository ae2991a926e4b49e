"""Structured outputs: chains of labels, and polytopes known by a maximiser of linear functions."""
