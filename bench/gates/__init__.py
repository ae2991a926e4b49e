"""Define checks that pass or fail: the bars, the regression gate, and the asv and pytest-benchmark suites."""
