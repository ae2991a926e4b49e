"""Fill the cells that a store does not hold yet: here one after another, in processes of one thread each, or on
a Dask cluster. A row is stored as soon as its cell is done; the same command goes on where it was stopped.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bench.experiments.common.side_by_side import side_by_side
from bench.experiments.multilabel.cells import Cell, cell_from
from bench.store import RecordsError, Store

Report = Callable[[str, int, int], None]


def missing(cells: Sequence[Cell], store: Store) -> list[Cell]:
    """The cells without a good row, in the order given."""
    rows = {cell: store.get(cell.key) for cell in cells}
    return [cell for cell, row in rows.items() if row is None or row["status"] != "ok"]


def fill(
    cells: Sequence[Cell],
    store: Store,
    jobs: int = 1,
    scheduler: str | None = None,
    data_dir: Path | None = None,
    done: Callable[[Cell, dict[str, Any]], None] | None = None,
    report: Report | None = None,
) -> int:
    """Fill the missing cells; returns how many were filled."""
    todo = missing(cells, store)
    if scheduler:
        results = _on_cluster(todo, scheduler, data_dir)
    elif jobs > 1:
        calls = [(asdict(cell), data_dir) for cell in todo]
        results = ((todo[i], row) for i, row in side_by_side(measure, calls, jobs))
    else:
        results = ((cell, measure(asdict(cell), data_dir, report)) for cell in todo)
    for cell, row in results:
        store.put(row)
        if done is not None:
            done(cell, row)
    return len(todo)


def measure(values: dict[str, Any], data_dir: Path | None, report: Report | None = None) -> dict[str, Any]:
    """One cell's row; what went wrong is a row too, and does not stop the others."""
    from bench.experiments.multilabel.protocol import run_cell
    from bench.measure.environment import LoadMeter, row_facts
    from gfy.errors import GfyError

    cell = cell_from(values)
    meter = LoadMeter()
    facts = row_facts()
    try:
        row = run_cell(cell, data_dir, report)
    except GfyError:
        raise  # a dataset that is not there, a name that is wrong: the person's to mend, not a result
    except Exception as error:
        row = {
            **cell.columns, "status": "crashed",
            "reason": "".join(traceback.format_exception_only(error)).strip()[:500],
        }  # fmt: skip
    load = meter.read()
    return {**row, **facts, "load": load, "loaded": int(load is not None and load > 0.3)}


def _on_cluster(
    todo: list[Cell], scheduler: str, data_dir: Path | None
) -> Iterator[tuple[Cell, dict[str, Any]]]:
    from distributed import Client, as_completed

    try:
        client = Client(scheduler, timeout=15)
    except OSError as error:
        raise RecordsError(f"No Dask scheduler answers at {scheduler} ({error}): is it running?") from error
    with client:
        futures = {
            client.submit(measure, asdict(cell), data_dir, key=cell.key, pure=False): cell for cell in todo
        }
        by_key = {future.key: cell for future, cell in futures.items()}
        for future, row in as_completed(list(futures), with_results=True):
            yield by_key[future.key], row
