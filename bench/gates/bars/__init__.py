"""Define the bars: benchmarks of what the solvers and gradient modes must reach against their peers.

`python -m bench.gates.bars` (or `nox -s bars`) runs them, prints measured value and bar side by side, and exits 1
where one falls short. Competitors are interleaved in one process and compared at equal certified accuracy.
"""
