"""Import pytest-benchmark's JSON, asv's results and the rows of `gfy compare` into one tidy pandas frame.

One row is one measured cell, with the columns of `bench.store.schema`; `source` names the file it came from.
Stored again with `python -m bench.store.importers FILE... --out all.sqlite`, the reports read it like any result file.
"""

from __future__ import annotations

import itertools
import json
from ast import literal_eval
from collections.abc import Iterable, Iterator
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.store.keys import complete
from bench.store.read import load, plain_rows, typed
from bench.store.schema import COLUMNS, RecordsError
from bench.store.store import Store

if TYPE_CHECKING:
    import pandas as pd

# The name of each asv benchmark function is mapped to the column that its number belongs to.
ASV_COLUMNS = {
    "time_solve": "steady_s",
    "time_value_and_grad": "backward_s",
    "time_argmax_gradient": "argmax_grad_s",
    "time_compile": "compile_s",
    "peakmem_solve": "peak_host_bytes",
    "peakmem_value_and_grad": "peak_host_bytes",
    "track_device_memory": "peak_device_bytes",
    "track_certified_gap": "gap_rel",
    "track_steps": "steps",
    "track_gradient_error": "grad_error",
    "track_argmax_gradient_error": "argmax_grad_error",
}


def tidy(paths: str | PathLike[str] | Iterable[str | PathLike[str]]) -> pd.DataFrame:
    """Return every cell of some result files and folders: stores, pytest-benchmark JSON, asv results."""
    import pandas as pd

    given = [paths] if isinstance(paths, str | PathLike) else list(paths)
    frames = [_read(file) for path in given for file in _files(Path(path))]
    if not frames:
        raise RecordsError(
            "No result file was named: give a store, a pytest-benchmark JSON or an asv folder."
        )
    return pd.concat(frames, ignore_index=True)


def _files(path: Path) -> Iterator[Path]:
    if not path.exists():
        raise RecordsError(f"There is no result file or folder {path}.")
    if path.is_file():
        yield path
        return
    found = [f for f in sorted(path.rglob("*")) if f.suffix in (".json", ".sqlite")]
    found = [f for f in found if f.name not in ("machine.json", "benchmarks.json")]
    if not found:
        raise RecordsError(f"{path} holds no result file (.json of pytest-benchmark or asv, .sqlite of gfy).")
    yield from found


def _read(path: Path) -> pd.DataFrame:
    if path.suffix != ".json":
        return load(path)
    try:
        content = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise RecordsError(f"{path} is not readable JSON ({error}).") from error
    if isinstance(content, dict) and "benchmarks" in content and "machine_info" in content:
        rows = pytest_rows(content)
    elif isinstance(content, dict) and "results" in content and "commit_hash" in content:
        rows = asv_rows(content)
    else:
        raise RecordsError(f"{path} is neither of pytest-benchmark nor of asv.")
    full = [complete(row) for row in rows]
    return typed([row[name] for name in COLUMNS] for row in full).assign(source=str(path))


def pytest_rows(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return one row per benchmark of a pytest-benchmark file; `extra_info` may name any column of a row."""
    info = content["machine_info"]
    commit = content.get("commit_info") or {}
    for bench in content["benchmarks"]:
        extra = dict(bench.get("extra_info") or {})
        stats = bench["stats"]
        known = {name: extra.pop(name) for name in list(extra) if name in COLUMNS and name != "extra"}
        row = {
            "kind": "pytest",
            "status": "ok",
            "created": content.get("datetime"),
            "problem": bench.get("group"),
            "steady_s": stats["min"],
            "steady_median_s": stats["median"],
            "steady_spread_s": stats["iqr"],
            "repeats": stats["rounds"],
            "machine": info.get("node"),
            "machine_info": {"cpu": info.get("cpu", {}).get("brand_raw"), "system": info.get("system")},
            "git_commit": commit.get("id"),
            "git_dirty": commit.get("dirty"),
            "score_name": bench["fullname"],
            "extra": extra,
        }
        yield row | known


def asv_rows(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Return one row per cell of an asv file: the suites' benchmarks of equal parameters become its columns."""
    cells: dict[tuple[str, tuple[Any, ...]], dict[str, Any]] = {}
    fields = content["result_columns"]
    machine = content.get("params") or {}
    for name, packed in content["results"].items():
        if packed is None:
            continue
        result = dict(zip(fields, packed, strict=False))
        suite, _, function = name.rpartition(".")
        params = [[_literal(x) for x in values] for values in result.get("params") or []]
        values = result["result"] or [None]
        for number, combination in zip(values, itertools.product(*params), strict=False):
            if number is None or number != number:  # n/a and NaN say that it was not measured
                continue
            row = cells.setdefault((suite, combination), _asv_cell(content, machine, suite, combination))
            column = ASV_COLUMNS.get(function)
            if column is not None:
                row[column] = number
            else:
                row["extra"][function] = number
    yield from cells.values()


def _literal(text: str) -> Any:
    try:
        return literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _asv_cell(
    content: dict[str, Any], machine: dict[str, Any], suite: str, params: tuple[Any, ...]
) -> dict[str, Any]:
    """Return the columns that an asv cell's parameters name, by their kind: the suites share one order of them."""
    row: dict[str, Any] = {
        "kind": "asv", "status": "ok",
        "git_commit": content["commit_hash"], "machine": machine.get("machine"),
        "machine_info": {key: machine.get(key) for key in ("cpu", "os", "ram", "num_cpu")},
        "versions": {"python": content.get("python")}, "score_name": suite, "extra": {},
    }  # fmt: skip
    named = suite.rpartition(".")[2].lower()
    row["gradient"] = next((mode for mode in ("implicit", "unrolled") if named.startswith(mode)), None)
    row |= asv_parameters(params)
    return row


def asv_parameters(params: tuple[Any, ...]) -> dict[str, Any]:
    """Return solver, problem, k, batch, backend (`"jax:cpu"`), dtype in the suites' order, as columns."""
    named = dict(zip(("solver", "problem", "k", "batch", "backend", "dtype"), params, strict=False))
    backend, _, device = str(named.get("backend") or "").partition(":")
    return named | {"backend": backend or None, "device": device or None, "family": named.get("problem")}


def main(argv: list[str] | None = None) -> None:
    """Store the cells of some files: `python -m bench.store.importers bench.json .asv/results --out all.sqlite`."""
    import argparse

    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("paths", nargs="+", type=Path)
    parser.add_argument("--out", required=True, type=Path)
    options = parser.parse_args(argv)
    frame = tidy(options.paths)
    with Store(options.out) as store:
        store.put_many(plain_rows(frame))
    print(f"{len(frame)} cells in {options.out}")


if __name__ == "__main__":
    main()
