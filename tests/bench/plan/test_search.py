"""The search for a tolerance: it tightens where a claim is false, and ends where tightening does not help."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.plan.matrix import MOST_TRIES, Cell, Group, Settings
from bench.run.executor import Local, preferred
from bench.store import Store

COLUMNS = {"kind": "compare", "problem": "p", "solver": "s", "tol": 1e-6, "dtype": "float64", "seed": 0}


def row(gap: float, **more: object) -> dict[str, object]:
    status = "ok" if gap <= 1e-6 else "not converged"
    return {**COLUMNS, "status": status, "gap_rel": gap, "converged": 1.0, "load": 0.0, **more}


def test_a_false_claim_is_given_a_tighter_tolerance_and_remembers_what_was_tried() -> None:
    first = Cell(COLUMNS).tightened(row(1e-4))
    assert first is not None
    assert first.name == Cell(COLUMNS).name  # it is the same row: the tolerance given does not identify it
    assert first.columns["tol_given"] == pytest.approx(5e-9)
    assert first.columns["search"] == [{"tol": 1e-6, "gap_rel": 1e-4, "converged": 1.0}]
    second = first.tightened(row(5e-6))
    assert second is not None
    assert second.columns["tol_given"] < 5e-9
    assert [tried["gap_rel"] for tried in second.columns["search"]] == [1e-4, 5e-6]


def test_what_would_not_help_is_not_tried() -> None:
    cell = Cell(COLUMNS)
    assert cell.tightened(row(1e-7)) is None  # it meets the level
    assert cell.tightened(row(1e-4, converged=0.5)) is None  # it ran out of steps
    assert cell.tightened(row(1e-4, converged=None)) is None  # it claims nothing
    stuck = cell.tightened(row(1e-4))
    assert stuck is not None
    assert stuck.tightened(row(0.9e-4)) is None
    single = Cell({**COLUMNS, "dtype": "float32"})
    assert single.tightened(row(1e-4)) is None  # 1e-8 is below what the dtype holds
    count, now, gap = 0, cell, 1e-3
    while (found := now.tightened(row(gap))) is not None:
        count, now, gap = count + 1, found, gap / 3
    assert count == MOST_TRIES - 1


def test_a_row_that_meets_its_level_replaces_one_that_does_not() -> None:
    assert preferred(row(1e-7, tol_given=1e-8, load=5.0), row(1e-4))
    assert not preferred(row(1e-4, load=0.0), row(1e-7, load=5.0))
    assert not preferred(row(2e-4, tol_given=1e-8), row(1e-4))
    assert preferred(row(1e-7, load=0.1), row(1e-7, load=0.2))


def test_the_executor_measures_again_until_the_level_is_met(tmp_path: Path) -> None:
    class Fake(Local):
        """The certified gap of its solver is a thousand times the tolerance it is given."""

        def _pass(self, groups: list[Group], attempt: int) -> None:
            for group in groups:
                for cell in group.cells:
                    given = cell.columns.get("tol_given") or cell.columns["tol"]
                    gap = 1e3 * given
                    status = "ok" if gap <= cell.columns["tol"] else "not converged"
                    measured = {"status": status, "gap_rel": gap, "converged": 1.0, "load": 0.0, "loaded": 0}
                    self.keep(group, cell, measured, attempt, self._facts)

    with Store(tmp_path / "r.sqlite") as store:
        tally = Fake(store, {"machine": "m"})([Group("g", (Cell(COLUMNS),), Settings())], 1)
        frame = store.frame()
        late = Fake(store, {"machine": "n"})([Group("g", (Cell(COLUMNS),), Settings())], 1, within_s=-1.0)
        assert late.rows == 1
        unsearched = store.frame().set_index("machine").loc["n"]
    assert tally.rows == len(frame) == 1
    assert frame.status.tolist() == ["ok"]
    assert frame.gap_rel[0] <= 1e-6
    assert frame.tol.tolist() == [1e-6]
    assert frame.tol_given[0] == pytest.approx(5e-10)
    assert frame.search[0] is not None
    assert unsearched.status == "not converged"
