"""Fill the cells that a store does not hold yet, here in watched processes or on a Dask cluster."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from bench.experiments.common import fill as common
from bench.experiments.multilabel.cells import Cell
from bench.plan import matrix
from bench.run.executor import Tally
from bench.store import Store


def missing(cells: Sequence[Cell], store: Store) -> list[Cell]:
    """Return the cells without a good row, in the order given."""
    rows = {cell: store.get(cell.key) for cell in cells}
    return [cell for cell, row in rows.items() if row is None or row["status"] != "ok"]


def fill(
    cells: Sequence[Cell],
    store: Store,
    jobs: int = 1,
    scheduler: str | None = None,
    data_dir: Path | None = None,
    done: Callable[[Cell, dict[str, Any]], None] = lambda cell, row: None,
    told: Callable[[str], None] = lambda text: None,
) -> Tally:
    """Fill the missing cells; a missing dataset is reported before anything runs."""
    from bench.datasets.load import load

    todo = missing(cells, store)
    for dataset in dict.fromkeys(cell.dataset for cell in todo):
        load(dataset, data_dir)
    groups = [
        matrix.Group(
            cell.name, (matrix.Cell(cell.columns, work=partial(measure, cell, data_dir)),), common.SETTINGS
        )
        for cell in todo
    ]
    by_key = {cell.key: cell for cell in todo}
    return common.fill(
        store,
        groups,
        lambda one, row: done(by_key[one.name], row),
        lambda one, text: told(f"{by_key[one.name].name}, {text}"),
        jobs,
        scheduler,
    )


def measure(cell: Cell, data_dir: Path | None, say: Callable[[str], None]) -> dict[str, Any]:
    """Return one cell's columns."""
    from bench.experiments.multilabel.protocol import run_cell

    return run_cell(cell, data_dir, lambda stage, done, of: say(f"{stage}: epoch {done} of {of}"))
