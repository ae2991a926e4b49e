"""Lets the tests of the walk import their package by name, under --import-mode=importlib."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

for _module in ("cvxpy", "jax", "torch"):
    pytest.importorskip(_module, reason="the walk compares both frameworks with CVXPY")

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
