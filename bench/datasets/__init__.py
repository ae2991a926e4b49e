"""Multilabel datasets: find, fetch, read, split and scale them."""

from __future__ import annotations
