"""Implement `gfy data`: list the datasets, fetch them, check the files, and show the content of one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bench.commands.options import DataDir

app = typer.Typer(no_args_is_help=True, help="List, fetch, check and show the datasets.")

Names = Annotated[
    list[str] | None, typer.Argument(help="Name the datasets (default: all that can be fetched).")
]


@app.command("list")
def list_datasets(data_dir: DataDir = None) -> None:
    """List the datasets, their sizes, and where each was found.

    Example:

      gfy data list
    """
    from bench.commands.terminal import show
    from bench.datasets.catalogue import ENTRIES
    from bench.datasets.load import river_yeast_path
    from bench.datasets.locate import find

    lines = []
    for name, what in sorted(ENTRIES.items()):
        files = find(what, data_dir)
        place = str(next(iter(files.values())).parent) if files else "-"
        if files is None and name == "yeast" and river_yeast_path() is not None:
            place = "the package river"
        rows = " + ".join(str(n) for n in what.rows)
        lines.append((name, rows, str(what.features), str(what.labels), place, what.note))
    lines.append(("synthetic", "600 + 400", "20", "8", "made on the spot", "correlated labels"))
    show(("dataset", "rows", "features", "labels", "found in", "note"), lines)


@app.command("fetch")
def fetch_datasets(
    names: Names = None,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", help="Write to this folder (default: the user cache).")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option("--base-url", help="Fetch from this mirror instead of the public addresses.")
    ] = None,
    attempts: Annotated[
        int, typer.Option(min=1, help="Resume a broken connection at most this many times.")
    ] = 3,
    timeout: Annotated[
        float, typer.Option(help="Treat a connection as broken after this many seconds without data.")
    ] = 30.0,
) -> None:
    """Fetch datasets, checked by SHA-256; a broken download goes on where it stopped.

    Examples:

      gfy data fetch

      gfy data fetch yeast emotions --data-dir data
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

    from bench.datasets.catalogue import ENTRIES, entry
    from bench.datasets.fetch import fetch

    wanted = [entry(name) for name in names] if names else [ENTRIES[name] for name in sorted(ENTRIES)]
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    with Progress(*columns) as progress:
        tasks: dict[str, Any] = {}

        def report(path: str, done: int, total: int | None) -> None:
            if path not in tasks:
                tasks[path] = progress.add_task(path, total=total)
            progress.update(tasks[path], completed=done, total=total)

        for what in wanted:
            files = fetch(what, data_dir, base_url, attempts, timeout, report)
            progress.print(f"{what.name}: {next(iter(files.values())).parent}")


@app.command("check")
def check_datasets(names: Names = None, data_dir: DataDir = None) -> None:
    """Compare the files found with the published SHA-256; the command exits with 1 where one differs or is missing.

    Examples:

      gfy data check

      gfy data check yeast --data-dir data
    """
    from bench.datasets.catalogue import ENTRIES, entry
    from bench.datasets.fetch import faults
    from bench.datasets.load import check_shape, read_parts
    from bench.datasets.locate import find

    good = True
    for what in [entry(name) for name in names] if names else [ENTRIES[name] for name in sorted(ENTRIES)]:
        files = find(what, data_dir)
        if files is None:
            typer.echo(f"{what.name}: not here (gfy data fetch {what.name})")
            good = False
            continue
        wrong = faults(what, files)
        if not wrong:
            check_shape(what, read_parts(what, files))
        for sentence in wrong:
            typer.echo(f"{what.name}: {sentence}")
        if not wrong:
            typer.echo(f"{what.name}: as published")
        good = good and not wrong
    if not good:
        raise typer.Exit(1)


@app.command("show")
def show_dataset(
    name: Annotated[str, typer.Argument(help="Name a dataset as `gfy data list` shows it.")],
    data_dir: DataDir = None,
) -> None:
    """Show the parts of a dataset as experiments use it, and its most and least frequent labels.

    Example:

      gfy data show yeast
    """
    from bench.datasets.load import load
    from bench.datasets.splits import development_split

    dataset = load(name, data_dir)
    fitted, held_out = development_split(dataset)
    typer.echo(f"{name}: {dataset.features} features, {dataset.labels} labels")
    for title, part in (("train", fitted), ("held out", held_out), ("test", dataset.test)):
        typer.echo(f"  {title:9s}{len(part):6d} examples, {part.Y.sum(axis=1).mean():.2f} labels on average")
    frequency = dataset.train.Y.mean(axis=0)
    order = frequency.argsort()[::-1]
    for title, some in (("most frequent", order[:3]), ("least frequent", order[::-1][:3])):
        typer.echo(
            f"  {title}: " + ", ".join(f"{dataset.train.labels[j]} ({frequency[j]:.1%})" for j in some)
        )
