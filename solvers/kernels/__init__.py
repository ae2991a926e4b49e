"""Provide compiled loops for processors, and the calls of both frameworks to them."""
