"""Compute what the paper proves: biconjugates, Bregman divergences, calibration, C-transforms, convex-concave steps."""
