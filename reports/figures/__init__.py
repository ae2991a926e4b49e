"""The figures of a report, one idea a file; each gives its picture, its words for those who cannot see it, its data."""
