"""Find, fetch, read, split and scale multilabel datasets."""

from __future__ import annotations
