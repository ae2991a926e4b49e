"""Every energy x set x regularizer x solver x gradient mode x framework x dtype is right or refused with a sentence.

Right means: p* is that of CVXPY polished by Newton's method, and the derivatives of loss, conjugate and argmax at every
leaf are those of central differences of such solutions (see `reference.py`, which uses nothing of the library). A
solver that does not reach p* and says so is told apart; the default solver must not be one of them in single or
double precision.
"""

from __future__ import annotations

import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

import pytest

from walk import catalogue, cells, table
from walk.judge import RIGHT, TOLD, UNKNOWN, WRONG, Cell, Outcome, refusal, refused
from walk.judge import judge as compute

pytestmark = pytest.mark.slow  # a covering selection takes minutes, the whole hours

judge = cache(compute)  # several tests look at the same cells

ENERGIES = [entry.name for entry in catalogue.ENERGIES]


def third(cell: Cell, outcome: Outcome) -> bool:
    """Whether an outcome is neither right nor an honest refusal."""
    unsolved = outcome.kind == TOLD and cell.solver == "Auto" and cell.dtype in ("float64", "float32")
    return outcome.kind in (WRONG, UNKNOWN) or unsolved


def walk(chosen: tuple[Cell, ...]) -> list[tuple[Cell, Outcome]]:
    found = [(cell, judge(cell)) for cell in chosen]
    wrong = [f"{o.kind}: {cell.name}\n    {o.detail}" for cell, o in found if third(cell, o)]
    assert not wrong, f"{len(wrong)} of {len(found)} cells:\n" + "\n".join(wrong)
    return found


@pytest.mark.parametrize("energy", ENERGIES)
def test_every_value_of_every_factor_is_right_or_refused(energy: str) -> None:
    kinds = Counter(outcome.kind for _, outcome in walk(cells.quick(energy)))
    assert kinds[RIGHT] >= 3


@pytest.mark.parametrize("energy", ENERGIES)
def test_every_refusal_is_a_sentence(energy: str) -> None:
    for domain in catalogue.SETS:
        for omega in catalogue.REGULARIZERS:
            for reason in cells.refusals(energy, domain.name, omega.name).values():
                assert reason is None or refused(reason).kind != WRONG, reason


@pytest.mark.slow
@pytest.mark.parametrize("energy", ENERGIES)
def test_every_pair_of_factors_is_right_or_refused(energy: str) -> None:
    walk(cells.whole(energy))


@pytest.mark.slow
@pytest.mark.parametrize("energy", ENERGIES)
def test_the_page_is_of_this_code(energy: str) -> None:
    found = [(cell, judge(cell)) for cell in cells.shown(energy)]
    stored = table.stored_rows().get(energy)
    assert stored == table.row(energy, found), "docs/walk.md is not of this code: nox -s walk"
    listed = {line.partition("`:")[0] for line in table.stored_told().get(energy, [])}
    assert listed == {line.partition("`:")[0] for line in table.told_of(found)}


@pytest.mark.parametrize("energy", ENERGIES)
def test_the_page_has_jax_in_every_mode(energy: str) -> None:
    offered = {
        mode
        for domain in catalogue.SETS
        for omega in catalogue.REGULARIZERS
        for (_, mode), reason in cells.refusals(energy, domain.name, omega.name, "jax").items()
        if reason is None
    }
    compiled = [cell for cell in cells.shown(energy) if cell.framework == "jax"]
    assert {cell.mode for cell in compiled if refusal(cell) is None} == offered
    assert len(set(cells.shown(energy))) == len(cells.shown(energy))


def test_the_page_is_read_as_it_was_written() -> None:
    for entry in ((3, 120, 0, 0), (0, 7, 2, 0), (5, 0, 0, 1), (1, 2, 3, 4)):
        assert table.read(table.text(entry)) == entry


def test_the_page_keeps_the_rows_of_two_writers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "PAGE", tmp_path / "walk.md")
    monkeypatch.setattr(table, "listed", lambda *_: time.sleep(0.2) or "")  # between reading and writing
    counts = {(mode, domain.name): (1, 2, 0, 0) for mode in catalogue.MAIN_MODES for domain in catalogue.SETS}
    with ThreadPoolExecutor(2) as pool:
        told = [{energy: [f"* `{energy}/Box`: p is off"]} for energy in ENERGIES[:2]]
        list(pool.map(table.renew, ({energy: counts} for energy in ENERGIES[:2]), told))
    assert table.stored_rows() == dict.fromkeys(ENERGIES[:2], counts)
    assert table.stored_told() == told[0] | told[1]
