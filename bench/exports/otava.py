"""Write the history of stored rows for Apache Otava, which finds change points: one CSV file per series, and
otava.yaml.

`otava` reads the configuration from the file that OTAVA_CONFIG names. It requires exact versions of its libraries, so
that it needs an environment of its own. What it finds is returned as JSON (`verdict`).
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from bench.store import RecordsError, load
from bench.store.history import METRICS, series

FEWEST = 4  # commits; with fewer there is no change to look for
CONFIG = "otava.yaml"
TIMEOUT_S = 300.0


def export(stores: Sequence[Path], out: Path) -> list[str]:
    """Write the series of some stores into a folder.

    Args:
        stores: Result files whose rows were measured at several commits.
        out: The folder for otava.yaml and the CSV files.

    Returns:
        The names of the series, as `otava analyze NAME` takes them.

    Raises:
        RecordsError: No cell was measured at four commits or more, or the folder cannot be written.
    """
    found = {_name(label, number): part for number, (label, part) in enumerate(series(load(stores)).items())
             if len(part) >= FEWEST}  # fmt: skip
    if not found:
        raise RecordsError(
            f"No cell of these rows was measured at {FEWEST} commits or more: there is no history yet."
        )
    lines = ["tests:"]
    try:
        out.mkdir(parents=True, exist_ok=True)
        for name, part in found.items():
            lines += _series(name, part, out)
        (out / CONFIG).write_text("\n".join(lines) + "\n", "utf-8")
    except OSError as error:
        raise RecordsError(f"{out} could not be written ({error}).") from error
    return list(found)


def _name(label: str, number: int) -> str:
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', label).strip('-')}-{number}"


def _series(name: str, part: pd.DataFrame, out: Path) -> list[str]:
    """Write one CSV file and return its lines of the configuration. A metric is written where every commit has it."""
    metrics = [metric for metric in METRICS if part[metric].notna().all()]
    part[["created", "git_commit", *metrics]].to_csv(out / f"{name}.csv", index=False)
    path = json.dumps(str((out / f"{name}.csv").resolve()))
    lines = [f"  {name}:", "    type: csv", f"    file: {path}", "    time_column: created"]
    lines += ["    attributes: [git_commit]", "    metrics:"]
    for metric in metrics:
        lines.append(f"      {metric}: {{column: {metric}, direction: -1, scale: 1}}")
    return lines


def verdict(out: Path, names: Sequence[str], program: str = "otava") -> dict[str, Any]:
    """Run Otava on exported series and keep what it found in verdict.json of the folder.

    Args:
        out: The folder that `export` wrote.
        names: The series.
        program: The command, or its path where it lies in an environment of its own.

    Returns:
        Its change points by series.

    Raises:
        RecordsError: Otava is not installed, or does not answer.
    """
    command = shutil.which(program)
    if command is None:
        raise RecordsError(
            f"There is no program {program!r}: install it in an environment of its own (python -m pip install "
            "apache-otava) and name it with --program."
        )
    config = str((out / CONFIG).resolve())
    since = ("--since", "2000-01-01", "--output", "json")
    found: dict[str, Any] = {}
    for name in names:
        try:
            done = subprocess.run(
                [command, "analyze", name, *since, "--config-file", config],
                env={**os.environ, "OTAVA_CONFIG": config},
                capture_output=True,
                text=True,
                timeout=TIMEOUT_S,
                check=False,
            )
            found |= json.loads(done.stdout)
        except (OSError, ValueError, subprocess.TimeoutExpired) as error:
            raise RecordsError(f"Otava did not answer for {name} ({error}).") from error
    (out / "verdict.json").write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")
    return found
