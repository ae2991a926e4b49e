"""Provide solvers of other projects behind the protocol, one adapter per file."""
