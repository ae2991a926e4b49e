"""Find results when none are named, and say in a sentence where a report cannot be written."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from bench.store import RecordsError

USUAL = ("results", "gfy-results", ".")


def default_results(folder: Path | None = None) -> list[Path]:
    """Return the stores in the usual folders that hold comparisons, newest first, else the published ones of
    the checkout."""
    here = folder or Path.cwd()
    for name in USUAL:
        found = sorted((here / name).glob("*.sqlite"), key=lambda p: p.stat().st_mtime, reverse=True)
        found = [path for path in found if compares(path)]
        if found:
            return found
    published = published_results()
    if published is not None:
        return [published]
    raise RecordsError(
        "No results were named and none were found in ./results: run `gfy compare` first, or name a "
        "file with "
        "--results FILE."
    )


def compares(path: Path) -> bool:
    """Return whether a store holds rows of `gfy compare`, or False for any other file."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            return (
                connection.execute("SELECT 1 FROM rows WHERE kind = 'compare' LIMIT 1").fetchone() is not None
            )
    except sqlite3.Error:
        return False


def with_experiments(results: Iterable[Path]) -> list[Path]:
    """Return the named files, and the stores of the experiments that lie beside them under their usual names."""
    named = [Path(r) for r in results]
    usual = ("multilabel.sqlite", "imitation.sqlite", "beyond.sqlite")
    beside = [r.parent / name for r in named for name in usual]
    return list(dict.fromkeys([*named, *(b for b in beside if b.is_file())]))


def published_results() -> Path | None:
    """Return the rows kept with the project, where it runs from a checkout."""
    path = Path(__file__).parents[2] / "docs" / "results" / "compare.sqlite"
    return path if path.is_file() else None


@contextmanager
def writing(out: Path) -> Iterator[None]:
    """Make the folder; an error in writing to it becomes a sentence, and any other error stays as it is."""
    try:
        out.mkdir(parents=True, exist_ok=True)
        yield
    except OSError as error:
        places = [Path(str(name)) for name in (error.filename, error.filename2) if name is not None]
        if places and not any(out in (p, *p.parents) or p in out.parents for p in places):
            raise
        raise RecordsError(
            f"The report cannot be written to {out} ({error}): choose another folder with --out."
        ) from error
