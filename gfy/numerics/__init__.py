"""Numerical ideas that several parts of the library use: scalar functions, linear systems, line searches, chunking."""
