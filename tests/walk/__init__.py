"""The walk over energies, sets, regularizers, solvers, gradient modes, frameworks and dtypes: see test_walk.py."""
