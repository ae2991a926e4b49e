"""Define the regression gate: two commits are measured in turns, with a verdict and an interval for each number.

`gfy regressions BASE HEAD` checks both commits out beside each other, keeps one process of each alive, lets them take
turns, and says whether time, certificate and gradient error became better, stayed the same or became worse.
"""
