"""Hold asv's benchmarks: `nox -s asv`, `asv run`, `asv continuous main HEAD`; `base.py` holds what they share."""
