"""The rows that the project publishes: they verify, come from clean commits, and give their tables and pages."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from bench.experiments.multilabel.written import FILE, check_rows, protocol
from bench.store import read
from bench.store.maintenance import verify
from reports.answers.multilabel import lines
from reports.answers.tables import failures, rankings
from reports.data.load import load
from reports.pages.content import NEEDS
from reports.pages.imitation import page

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "results"
STORES = sorted(path.stem for path in FOLDER.glob("*.sqlite"))


def test_the_documents_have_rows_to_cite() -> None:
    assert {"bars", "compare", "imitation", "multilabel", "theory"} <= set(STORES)


@pytest.mark.parametrize("name", STORES)
def test_a_published_store_verifies(name: str) -> None:
    assert verify(FOLDER / f"{name}.sqlite") == []


@pytest.mark.parametrize("name", STORES)
def test_published_rows_come_from_clean_commits(name: str) -> None:
    frame = read(FOLDER / f"{name}.sqlite")
    assert frame["git_commit"].notna().all()
    assert (frame["git_dirty"] == 0).all(), "publish rows of a clean commit: commit first, then measure"


@pytest.mark.parametrize("name", STORES)
def test_nothing_that_has_a_column_hides_inside_another_one(name: str) -> None:
    frame = read(FOLDER / f"{name}.sqlite")
    hidden = frame["extra"].fillna("").str.contains(r'"(?:attempt|timeout|repeat|backward_\w+|reference)":')
    assert not hidden.any()
    assert not frame["solver_params"].fillna("").str.contains('"gradient":').any()
    assert not frame["problem_params"].fillna("").str.contains('"source":').any()


def test_the_published_tables_were_made_under_the_written_protocol() -> None:
    """Under the file as it is, which each row's own commit holds: it was committed before the test parts were read."""
    frame = read(FOLDER / "multilabel.sqlite")
    check_rows(frame, protocol().digest)
    rows = frame[frame["family"] == "multilabel"]
    root = FOLDER.parents[1]
    for commit in rows["git_commit"].unique():
        place = f"{commit}:{FILE.relative_to(root).as_posix()}"
        found = subprocess.run(["git", "show", place], cwd=root, capture_output=True, check=False)
        if found.returncode:
            pytest.skip(f"the history does not reach back to commit {commit[:8]}")
        assert hashlib.sha256(found.stdout).hexdigest() == protocol().digest


def test_published_tables_and_pages_come_from_published_rows() -> None:
    frame = load([FOLDER / "compare.sqlite"]).compared
    made = [t for need in NEEDS for t in rankings(frame, 1e-6, need)]
    made += [t for t in [failures(frame)] if t is not None]
    assert len(made) > 20
    known = set(frame["id"])
    assert all(row in known for table in made for line in table.cells for cell in line for row in cell.rows)
    found, effort = lines(read(FOLDER / "multilabel.sqlite"))
    assert effort is not None
    assert not effort.short
    assert found.groupby("table").size().to_dict() == {"energies": 30, "gradients": 12, "losses": 24}
    from reports.answers.imitation import seeds_frame

    stored = read(FOLDER / "imitation.sqlite")
    seeds = seeds_frame(stored)
    assert len(seeds) == 4 * 3 * 2 * 2 * 10  # tasks, trajectories, settings, models, seeds
    assert "## What it shows" in page(seeds, seeds_frame(stored, search=True))


@pytest.mark.slow
def test_the_page_of_the_published_comparison_is_small(tmp_path: Path) -> None:
    """With the experiments beside it; the bar is 3 MB."""
    pytest.importorskip("jinja2")
    from reports.pages.render import build_report

    assert build_report([FOLDER / "compare.sqlite"], tmp_path).stat().st_size < 2.5e6
