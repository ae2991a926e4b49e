"""Measure the time to certified accuracy along a training run: cold, warm-started and amortised inner solves."""
