"""The exported benchopt benchmark: its files are Python that names what is registered, and `benchopt run` runs it."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from bench.exports.benchopt import export
from bench.plan import registry
from bench.store import RecordsError
from gfy.errors import GfyValueError

ROOT = Path(__file__).resolve().parents[3]


def test_every_family_and_every_solver_gets_a_file(tmp_path: Path) -> None:
    files = export(tmp_path / "b")
    for file in files:
        if file.suffix == ".py":
            ast.parse(file.read_text("utf-8"))
    names = {file.relative_to(tmp_path / "b").as_posix() for file in files}
    assert {"objective.py", "datasets/pairwise_gini.py", "solvers/dualnewton.py"} <= names
    assert sum(name.startswith("solvers/") for name in names) == len(registry.solver_classes())
    assert len(names) == len(files)


def test_what_is_there_is_left_and_unknown_names_are_told(tmp_path: Path) -> None:
    export(tmp_path / "b", ["pairwise-gini"], ["DualNewton"])
    with pytest.raises(RecordsError, match="not empty"):
        export(tmp_path / "b")
    assert len(export(tmp_path / "b", ["pairwise-gini"], ["DualNewton"], force=True)) == 4
    with pytest.raises(GfyValueError, match="Did you mean"):
        export(tmp_path / "c", ["pairwise-gin"])


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("benchopt") is None, reason="benchopt is not on the PATH: nox -s exports installs it"
)
def test_benchopt_runs_it_and_sees_the_certified_gap_fall(tmp_path: Path) -> None:
    import pandas as pd

    export(tmp_path / "b", ["pairwise-gini"], ["DualNewton", "ProjectedGradient"])
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    env = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    command = ["benchopt", "run", ".", "-d", "pairwise-gini[k=6,batch=3]", "--no-plot", "-n", "8", "-r", "1"]
    done = subprocess.run(command, cwd=tmp_path / "b", env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    (file,) = (tmp_path / "b" / "outputs").rglob("*.parquet")
    rows = pd.read_parquet(file)
    assert set(rows.solver_name.str.partition("[")[0]) == {"DualNewton", "ProjectedGradient"}
    for solver, part in rows.groupby("solver_name"):
        gaps = part.sort_values("stop_val", ascending=False).objective_value
        assert gaps.iloc[-1] < 1e-6, solver
        assert gaps.iloc[-1] <= gaps.iloc[0]
