"""What the paper proves: biconjugates, Bregman divergences, calibration, C-transforms, the convex-concave procedure."""
