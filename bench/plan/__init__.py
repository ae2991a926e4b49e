"""Plan what a run measures: registered solvers and problems, suites, cells, and what is left to do."""
