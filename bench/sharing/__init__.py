"""Rows that leave the machine that measured them: packed, checked where they arrive, listed and fetched."""
