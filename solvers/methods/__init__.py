"""Provide algorithms that serve several kinds of energy, one per file, and the parts they share."""
