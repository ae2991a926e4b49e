"""Compiled loops for processors, and how the two frameworks call them."""
