"""Histories as Apache Otava reads them; where it is installed, it finds the change that was put there."""

from __future__ import annotations

import csv
import shutil
from pathlib import Path

import numpy as np
import pytest

from bench.exports.otava import export, verdict
from bench.store import RecordsError, Store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    rng = np.random.default_rng(3)
    with Store(tmp_path / "h.sqlite") as kept:
        kept.put_many(
            {
                "kind": "asv", "status": "ok", "problem": "toy", "solver": "DualNewton", "gradient": "envelope",
                "backend": "torch", "dtype": "float64", "tol": 1e-6, "machine": "here", "git_commit": f"{i:040x}",
                "git_dirty": False, "created": f"2026-01-{i + 1:02d}T00:00:00+00:00", "gap_rel": 1e-9,
                "steady_s": (1.0 if i < 10 else 2.0) * float(np.exp(0.01 * rng.normal())),
            }
            for i in range(20)
        )  # fmt: skip
    return tmp_path / "h.sqlite"


def test_series_are_written_with_what_every_commit_has(store: Path, tmp_path: Path) -> None:
    (name,) = export([store], tmp_path / "otava")
    with (tmp_path / "otava" / f"{name}.csv").open() as lines:
        rows = list(csv.DictReader(lines))
    assert list(rows[0]) == ["created", "git_commit", "steady_s", "gap_rel"]
    assert [int(row["git_commit"], 16) for row in rows] == list(range(20))
    config = (tmp_path / "otava" / "otava.yaml").read_text("utf-8")
    assert f"{name}:" in config
    assert "steady_s: {column: steady_s, direction: -1, scale: 1}" in config


def test_too_short_a_history_and_a_missing_program_get_a_sentence(store: Path, tmp_path: Path) -> None:
    with Store(tmp_path / "short.sqlite") as kept:
        kept.put({"kind": "asv", "status": "ok", "problem": "toy", "git_commit": "a", "git_dirty": False})
    with pytest.raises(RecordsError, match="no history yet"):
        export([tmp_path / "short.sqlite"], tmp_path / "otava")
    names = export([store], tmp_path / "otava")
    with pytest.raises(RecordsError, match="no program"):
        verdict(tmp_path / "otava", names, "no-such-otava")


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("otava") is None, reason="otava is not on the PATH: pip install apache-otava, apart"
)
def test_otava_finds_the_change_and_its_verdict_is_on_the_page(store: Path, tmp_path: Path) -> None:
    from reports.pages.history import build_history

    names = export([store], tmp_path / "otava")
    found = verdict(tmp_path / "otava", names)
    (point,) = found[names[0]]
    (change,) = point["changes"]
    assert change["metric"] == "steady_s"
    assert float(change["forward_change_percent"]) == pytest.approx(100.0, abs=10.0)
    page = build_history([store], tmp_path / "page", otava=tmp_path / "otava" / "verdict.json")
    assert "What Apache Otava finds" in page.read_text("utf-8")
