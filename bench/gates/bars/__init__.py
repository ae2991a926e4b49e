"""Define the bars: benchmarks of what the solvers and gradient modes must reach against their peers.

`python -m bench.gates.bars` (or `nox -s bars`) runs them, prints the measured value and the bar side by side, and exits
with 1 where a value falls short. Competitors are timed in turns in one process and compared at equal certified
accuracy.
"""
