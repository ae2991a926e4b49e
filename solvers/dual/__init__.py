"""Solve the dual problem by Newton's method, with its special cases."""
