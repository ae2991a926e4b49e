"""Changes in a history are found where they were put and nowhere else, and the page shows them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench.store import RecordsError, Store, load
from bench.store.history import series
from reports.answers.history import changes, splits
from reports.pages.history import build_history


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ([(1.0, 6), (2.0, 6)], [6]),
        ([(1.0, 6), (0.7, 6), (1.4, 6)], [6, 12]),
        ([(1.0, 12)], []),
        ([(1.0, 6), (1.05, 6)], []),  # beyond noise, and too little to be told
    ],
)
def test_levels_are_told_apart(levels: list[tuple[float, int]], expected: list[int]) -> None:
    rng = np.random.default_rng(0)
    values = np.concatenate([np.full(count, level) for level, count in levels])
    assert splits(values * np.exp(0.01 * rng.normal(size=len(values))), 1.1) == expected
    assert splits(values, 1.1) == expected  # without any noise


def test_noise_is_rarely_called_a_change() -> None:
    rng = np.random.default_rng(1)
    series_of_noise = np.exp(0.3 * rng.normal(size=(300, 15)))
    assert sum(bool(splits(values, 1.1)) for values in series_of_noise) <= 3


def test_one_outlier_is_no_change() -> None:
    rng = np.random.default_rng(2)
    values = np.exp(0.02 * rng.normal(size=14))
    values[7] *= 5
    assert splits(values, 1.1) == []


def row(commit: int, machine: str = "here", **columns: Any) -> dict[str, Any]:
    return {
        "kind": "asv", "status": "ok", "problem": "pairwise-gini-k6-b3-r1", "family": "pairwise-gini", "seed": 0,
        "solver": "DualNewton", "gradient": "envelope", "backend": "torch", "device": "cpu", "dtype": "float64",
        "tol": 1e-6, "machine": machine, "machine_info": {"cpu": machine}, "git_commit": f"{commit:040x}",
        "git_dirty": False, "created": f"2026-11-{commit + 1:02d}T00:00:00", "gap_rel": 1e-9, "grad_error": 1e-8,
        "score_name": "time", **columns,
    }  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Ten commits; the sixth made it slower on one machine, the other is always slow."""
    rng = np.random.default_rng(3)
    with Store(tmp_path / "h.sqlite") as kept:
        for commit in range(10):
            time = (1.0 if commit < 5 else 1.5) * float(np.exp(0.01 * rng.normal()))
            gap = 1e-9 if commit < 7 else 1e-4
            kept.put(row(commit, steady_s=time, gap_rel=gap))
            kept.put(row(commit, "there", steady_s=30.0 * float(np.exp(0.01 * rng.normal()))))
        kept.put(row(11, steady_s=99.0, git_dirty=True))
        kept.put(row(12, steady_s=99.0, status="crashed"))
        kept.put(row(13, steady_s=99.0, loaded=1, gap_rel=1e-4))
    return tmp_path / "h.sqlite"


def test_changes_are_named_with_their_commit_and_machines_are_kept_apart(store: Path) -> None:
    frame = load(store)
    assert sorted(len(part) for part in series(frame).values()) == [10, 11]
    found = {(change.metric, int(change.commit, 16)): change for change in changes(frame)}
    assert set(found) == {("steady_s", 5), ("gap_rel", 7)}
    assert found["steady_s", 5].factor == pytest.approx(1.5, rel=0.03)
    assert found["gap_rel", 7].worse
    assert all("on here" in change.cell for change in found.values())


def test_the_page_shows_histories_changes_and_the_verdict_of_otava(store: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("jinja2")
    told = {"a-series": [{"time": 1, "changes": [{"metric": "steady_s", "forward_change_percent": "49.7"}]}]}
    (tmp_path / "verdict.json").write_text(json.dumps(told))
    page = build_history([store], tmp_path / "page", ["html", "md"], tmp_path / "verdict.json")
    text = page.read_text("utf-8")
    assert "2 cells over 11 commits: 2 changes, 2 of them for the worse" in text
    assert f"{5:040x}"[:10] in text
    assert "+49.7 %" in text
    assert (tmp_path / "page" / "figures" / "history-1.svg").is_file()
    assert len((tmp_path / "page" / "tables" / "changes.csv").read_text().splitlines()) == 3
    assert "What changed, and when" in (tmp_path / "page" / "history.md").read_text("utf-8")


def test_rows_of_one_commit_are_no_history(tmp_path: Path) -> None:
    with Store(tmp_path / "one.sqlite") as kept:
        kept.put(row(1, steady_s=1.0))
    with pytest.raises(RecordsError, match="no history"):
        build_history([tmp_path / "one.sqlite"], tmp_path / "page")
    with Store(tmp_path / "one.sqlite") as kept:
        kept.put(row(2, steady_s=1.0))
    with pytest.raises(RecordsError, match="no verdict of Otava"):
        build_history([tmp_path / "one.sqlite"], tmp_path / "page", otava=tmp_path / "absent.json")
