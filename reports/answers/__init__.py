"""Compute what the rows say: tables, profiles, verdicts, a recommendation, a comparison of two runs."""
