"""Where results are looked for when none are named: this folder's runs first, then the published ones."""

from __future__ import annotations

from pathlib import Path

from bench.records import RecordsError

USUAL = ("results", "gfy-results", ".")


def default_results(folder: Path | None = None) -> list[Path]:
    """The newest store in the usual folders, else the published example of the checkout."""
    here = folder or Path.cwd()
    for name in USUAL:
        found = sorted((here / name).glob("*.sqlite"), key=lambda p: p.stat().st_mtime, reverse=True)
        if found:
            return found[:1]
    published = published_results()
    if published is not None:
        return [published]
    raise RecordsError(
        "No results were named and none were found in ./results: run `gfy compare` first, or name a "
        "file with "
        "--results FILE."
    )


def published_results() -> Path | None:
    """The rows kept with the project, where it runs from a checkout."""
    path = Path(__file__).parent.parent / "docs" / "results" / "compare.sqlite"
    return path if path.is_file() else None
