"""The figures of a report, one idea a file: each gives a picture, the same in words, and its data."""
