"""Lets the tests of this room import their zoo by name, under --import-mode=importlib; warnings start afresh."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gfy.calling.telling import forget_warnings

sys.path.insert(0, str(Path(__file__).parent))


@pytest.fixture(autouse=True)
def warn_again() -> Iterator[None]:
    """A warning that is given once in a process is given once in every test."""
    forget_warnings()
    yield
    forget_warnings()
