"""Write asv's stored results as one page that needs no network: one table per benchmark, one column per commit.

asv's own dashboard loads its scripts from other hosts. `python -m bench.gates.offline RESULTS HTML` (the last step of
`nox -s asv_publish`) writes HTML/index.html without scripts, and keeps asv's dashboard beside it as online.html.
"""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from gfy.errors import GfyValueError

STYLE = (
    "body{font:14px/1.4 system-ui,sans-serif;margin:2em}table{border-collapse:collapse;margin:.5em 0 2em}"
    "td,th{padding:.2em .7em;border-bottom:1px solid #ccc;text-align:right}"
    "td:first-child,th:first-child{text-align:left}"
)
UNITS = {"time": "s", "peakmem": "bytes"}
HIGHER = (
    "track_test_accuracy",
)  # the benchmarks whose larger numbers are better; of all others the smaller ones are


@dataclass
class Benchmark:
    """Hold the numbers of one benchmark by cell (its parameters in a line) and commit."""

    name: str
    unit: str
    cells: dict[str, dict[str, float]] = field(default_factory=dict)

    @property
    def better(self) -> str:
        """Return "higher" or "lower": which numbers are better."""
        return "higher" if self.name.rpartition(".")[2] in HIGHER else "lower"


@dataclass
class Results:
    """Hold all stored benchmarks by name, and the commits with the time of each, the oldest first."""

    benchmarks: dict[str, Benchmark]
    commits: dict[str, int]


def read(folder: Path) -> Results:
    """Return what asv has stored below a folder (`.asv/results`).

    Raises:
        GfyValueError: There is no result below the folder.
    """
    units = _units(folder / "benchmarks.json")
    benchmarks: dict[str, Benchmark] = {}
    commits: dict[str, int] = {}
    for file in sorted(folder.glob("*/*.json")):
        content = json.loads(file.read_text())
        if "results" not in content:
            continue
        commit = str(content["commit_hash"])[:10]
        commits[commit] = int(content.get("date") or 0)
        for name, cell, number in _numbers(content):
            kind = name.rpartition(".")[2].partition("_")[0]
            unit = units.get(name) or UNITS.get(kind, "")
            found = benchmarks.setdefault(name, Benchmark(name, unit))
            found.cells.setdefault(cell, {})[commit] = number
    if not commits:
        raise GfyValueError(f"There is no result of asv below {folder}: `nox -s asv` measures this commit.")
    return Results(benchmarks, dict(sorted(commits.items(), key=lambda item: item[1])))


def _units(file: Path) -> dict[str, str]:
    if not file.is_file():
        return {}
    stored = json.loads(file.read_text())
    return {name: str(b.get("unit", "")) for name, b in stored.items() if isinstance(b, dict)}


def _numbers(content: dict[str, Any]) -> Iterator[tuple[str, str, float]]:
    """Yield benchmark, cell and number of everything that was measured in a file; n/a is left out."""
    for name, packed in content["results"].items():
        if packed is None:
            continue
        result = dict(zip(content["result_columns"], packed, strict=False))
        cells = [", ".join(x.strip("'") for x in c) for c in itertools.product(*(result.get("params") or []))]
        for cell, number in zip(cells, result["result"] or [], strict=False):
            if number is not None and number == number:
                yield name, cell, float(number)


def page(results: Results) -> str:
    """Return the page as HTML: only tables, nothing that is fetched."""
    heads = "".join(f"<th>{escape(commit)}</th>" for commit in results.commits)
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>Benchmarks by commit</title><style>{STYLE}</style>",
        f"<h1>Benchmarks by commit</h1><p>{len(results.benchmarks)} benchmarks, {len(results.commits)} commits, the "
        "oldest first.</p>",
    ]
    for name, benchmark in sorted(results.benchmarks.items()):
        unit = f"{escape(benchmark.unit)}, " if benchmark.unit else ""
        rows = "".join(
            f"<tr><td>{escape(cell)}</td>"
            + "".join(f"<td>{_shown(numbers.get(commit))}</td>" for commit in results.commits)
            + "</tr>"
            for cell, numbers in benchmark.cells.items()
        )
        told = f"{unit}{benchmark.better} is better"
        parts.append(f"<h2>{escape(name)} ({told})</h2><table><tr><th>cell</th>{heads}</tr>{rows}</table>")
    return "\n".join(parts) + "\n"


def _shown(number: float | None) -> str:
    return "" if number is None else f"{number:.3g}"


def write(results: Path, html: Path) -> Path:
    """Write the page beside asv's dashboard, which becomes online.html; return its path."""
    text = page(read(results))
    html.mkdir(parents=True, exist_ok=True)
    index = html / "index.html"
    if index.is_file() and "<title>Benchmarks by commit</title>" not in index.read_text():
        index.rename(html / "online.html")
    index.write_text(text)
    return index


if __name__ == "__main__":
    print(write(Path(sys.argv[1]), Path(sys.argv[2])))
