"""asv's benchmarks: `nox -s asv`, `asv run`, `asv continuous main HEAD`; what they share is in `base.py`."""
