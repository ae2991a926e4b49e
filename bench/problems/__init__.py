"""Define problems to measure on: seeded families per energy and set, recorded ones, and a user's own."""

from __future__ import annotations

from bench.problems.base import Family, Instance, Recipe

__all__ = ["Family", "Instance", "Recipe"]
