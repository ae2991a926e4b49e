"""Draw the figures of a report, one idea per file: each gives a picture, the same in words, and its data."""
