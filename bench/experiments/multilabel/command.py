"""Compute what `gfy reproduce multilabel` shows: the missing cells of the tables, or the rows of a study."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.experiments.multilabel.cells import DATASETS, FULL, QUICK, TABLES, Cell, plan, table_rows
from bench.store import Store
from gfy.errors import GfyValueError

if TYPE_CHECKING:
    import pandas as pd


ON_HELD_OUT = ("gain", "recipe")  # studies that read no test part, by which the protocol is chosen


@dataclass(frozen=True)
class Options:
    """Hold the options of the command; empty choices mean all."""

    datasets: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    studies: tuple[str, ...] = ()
    quick: bool = False
    jobs: int | None = None
    scheduler: str | None = None
    data_dir: Path | None = None
    out: Path = Path("results")
    stored_only: bool = False


def reproduce(options: Options, show: Callable[[pd.DataFrame], None] = lambda rows: None) -> None:
    """Fill the cells, or run the studies on the same store; `show` receives all stored rows at the end."""
    from rich.console import Console

    from bench.datasets.catalogue import NAMES
    from bench.experiments.multilabel.run import fill, missing
    from bench.experiments.multilabel.written import check_committed, check_rows, protocol
    from bench.store.environment import cores

    for name in options.datasets:
        if name not in NAMES:
            raise GfyValueError(f"dataset '{name}' is not known; there are {', '.join(NAMES)}")
    for name in options.tables:
        table_rows(name)
    datasets, tables = options.datasets or DATASETS, options.tables or TABLES
    effort = QUICK if options.quick else FULL
    console = Console()
    store = Store(options.out / ("multilabel-quick.sqlite" if options.quick else "multilabel.sqlite"))
    try:
        if not options.studies or set(options.studies) - set(ON_HELD_OUT):
            check_rows(store.frame(), protocol().digest)
        if options.studies:
            from bench.experiments.multilabel.studies import run_studies

            run_studies(options.studies, options.datasets, effort, store, options.data_dir, console.print)
            show(store.frame())
            return
        if not (options.quick or options.stored_only):
            check_committed()
        cells = plan(datasets, tables, effort)
        todo = len(missing(cells, store))
        console.print(f"{len(cells)} cells, {len(cells) - todo} stored already, {todo} to train")
        finished = 0

        def done(cell: Cell, row: dict[str, Any]) -> None:
            nonlocal finished
            finished += 1
            console.print(f"[{finished}/{todo}] {cell.name}: {_said(row)}", highlight=False, markup=False)

        def told(text: str) -> None:
            console.print(f"    {text}", highlight=False, markup=False)

        jobs = options.jobs or (1 if options.quick else cores())
        stopped = False
        if not options.stored_only:
            stopped = fill(cells, store, jobs, options.scheduler, options.data_dir, done, told).stopped
        show(store.frame())
        if stopped:
            console.print("Stopped; what was finished is stored. Give the same command again to go on.")
            raise SystemExit(130)
    finally:
        store.close()


def _said(row: dict[str, Any]) -> str:
    if row["status"] != "ok":
        return f"{row['status']}: {row['reason']}"
    paper = "" if row["score_paper"] is None else f", paper {row['score_paper']:.2f}"
    return f"{row['score']:.2f} ± {row['score_sd']:.2f} %{paper} ({row['extra']['seconds']:.0f} s)"
