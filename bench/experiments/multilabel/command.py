"""What `gfy reproduce multilabel` does: fill the missing cells, then write the tables from the stored rows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.experiments.multilabel.cells import DATASETS, FULL, QUICK, TABLES, Cell, plan, table_rows
from bench.store import Store
from gfy.errors import GfyValueError


@dataclass(frozen=True)
class Options:
    """The options of the command; empty choices mean all."""

    datasets: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    studies: tuple[str, ...] = ()
    quick: bool = False
    jobs: int | None = None
    scheduler: str | None = None
    data_dir: Path | None = None
    out: Path = Path("results")
    stored_only: bool = False


def reproduce(options: Options) -> None:
    """Fill, then write; studies run on the same store."""
    from rich.console import Console

    from bench.datasets.catalogue import NAMES
    from bench.experiments.multilabel.run import fill, missing
    from bench.experiments.multilabel.table import lines, markdown, write_all
    from bench.measure.environment import cores

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
        if options.studies:
            from bench.experiments.multilabel.studies import run_studies

            run_studies(
                options.studies, options.datasets, effort, store, options.data_dir, options.out, console.print
            )
            return
        cells = plan(datasets, tables, effort)
        todo = len(missing(cells, store))
        console.print(f"{len(cells)} cells, {len(cells) - todo} stored already, {todo} to train")
        finished = 0

        def done(cell: Cell, row: dict[str, Any]) -> None:
            nonlocal finished
            finished += 1
            console.print(f"[{finished}/{todo}] {cell.name}: {_said(row)}", highlight=False, markup=False)

        def report(stage: str, epoch: int, of: int) -> None:
            console.print(f"    {stage}: epoch {epoch} of {of}", highlight=False)

        jobs = options.jobs or (1 if options.quick else cores())
        if not options.stored_only:
            fill(cells, store, jobs, options.scheduler, options.data_dir, done, report)
        found = lines(store, datasets, tables, effort)
        if options.quick:
            console.print(markdown(found, effort), highlight=False, markup=False)
            return
        # The files hold all that is stored, not only what was asked for this time.
        for path in write_all(options.out, lines(store, DATASETS, TABLES, effort), effort):
            console.print(f"wrote {path}")
    finally:
        store.close()


def _said(row: dict[str, Any]) -> str:
    if row["status"] != "ok":
        return f"{row['status']}: {row['reason']}"
    paper = "" if row["score_paper"] is None else f", paper {row['score_paper']:.2f}"
    return f"{row['score']:.2f} ± {row['score_sd']:.2f} %{paper} ({row['extra']['seconds']:.0f} s)"
