"""Define numerical parts that several modules use: scalar functions, linear systems, line searches, chunking."""
