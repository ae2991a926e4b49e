"""The published example: its tables come out of its rows again, cell by cell."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from reports.answers.tables import failures, rankings
from reports.data.load import load
from reports.pages.content import NEEDS

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "results"


def test_published_tables_come_from_published_rows():
    store, tables = FOLDER / "compare.sqlite", FOLDER / "report" / "tables"
    if not store.is_file() or not tables.is_dir():
        pytest.skip("docs/results holds no published report yet: `nox -s compare` makes one")
    frame = load([store]).compared
    made = [t for need in NEEDS for t in rankings(frame, 1e-6, need)]
    made += [t for t in [failures(frame)] if t is not None]
    assert made
    for table in made:
        kept = pd.read_csv(tables / f"{table.name}.csv", dtype=str, keep_default_na=False)
        pd.testing.assert_frame_equal(kept, table.frame().astype(str), check_dtype=False, obj=table.name)
