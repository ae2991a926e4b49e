"""Files of the first schema: read as they are, rewritten by `gfy records migrate`, and nothing of a row is lost."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from bench.commands.records import app
from bench.store import RecordsError, Store, read
from bench.store.keys import canonical
from bench.store.maintenance import verify
from bench.store.migration import migrate
from bench.store.schema import APPLICATION_ID

FIRST = (
    "key", "schema", "kind", "status", "reason", "created", "problem", "family", "energy", "regularizer",
    "domain", "k", "batch", "rank", "seed", "problem_params", "solver", "solver_params", "gradient", "backend",
    "device", "dtype", "tol", "max_steps", "gap", "gap_rel", "residual", "feasibility", "value", "distance",
    "concave", "steps", "steps_max", "converged", "grad_error", "grad_cosine", "grad_bound", "trace_s",
    "compile_s", "first_s", "steady_s", "steady_median_s", "steady_spread_s", "backward_s", "backward_median_s",
    "repeats", "samples", "break_even", "temp_bytes", "peak_host_bytes", "peak_device_bytes", "load", "loaded",
    "machine", "machine_info", "versions", "git_commit", "git_dirty", "score", "score_name", "extra",
)  # fmt: skip
COMMON = {"schema": 1, "status": "ok", "created": "2026-01-02T00:00:00+00:00", "machine": "m",
          "machine_info": {"cpu": "x"}, "versions": {"gymnasium": "1.0", "mujoco": "4.0"}}  # fmt: skip


def compared() -> dict[str, Any]:
    told = {
        "attempt": 2, "timeout": 60.0, "repeat": 7, "backward_samples": [0.25, 0.5], "backward_spread_s": 0.125,
        "backward_trace_s": 1.0, "backward_compile_s": 2.0, "backward_first_s": 3.0, "backward_temp_bytes": 10,
        "backward_peak_host_bytes": 20, "one_program_for_all_tolerances": True, "own": [1],
        "reference": {"solver": "DualNewton", "mode": "implicit", "gap": 1e-15, "residual": 1e-9},
    }  # fmt: skip
    return {**COMMON, "key": "a" * 64, "kind": "compare", "problem": "p", "solver": "s", "gap": 1e-9, "tol": 1e-8,
            "gradient": "implicit", "solver_params": {"cg_steps": 5, "gradient": {"linear_solve": "dense"}},
            "problem_params": {"k": 3, "source": "f00"}, "extra": told}  # fmt: skip


def trained(recipe: int) -> dict[str, Any]:
    effort = {"epochs": 100, "penalties": 5, "rates": 10, "seeds": [0, 1, 2], "decay": True}
    cell = {"dataset": "yeast", "energy": "pairwise", "loss": "energy", "gradient": "envelope", "rank": 1,
            "regularizer": "gini", "solver": "auto", "effort": {**effort, "batch": 32}}  # fmt: skip
    key = hashlib.sha256(canonical({"kind": "multilabel", "recipe": recipe, **cell}).encode()).hexdigest()
    return {**COMMON, "key": key, "kind": "multilabel", "problem": "yeast", "family": "multilabel", "k": 14,
            "energy": "pairwise", "regularizer": "gini", "gradient": "envelope", "rank": 1, "batch": 32, "score": 42.0,
            "problem_params": {**effort, "loss": "energy", "features": 103, "selection": 1},
            "extra": {"loss": "energy", "sd": 0.5, "paper": 42.35, "seconds": 3.0}}  # fmt: skip


def imitated() -> dict[str, Any]:
    return {**COMMON, "key": "b" * 64, "kind": "imitation", "problem": "Hopper-v5", "family": "unary-gini", "seed": 4,
            "problem_params": {"task": "Hopper-v5", "model": "unary", "setting": "paper", "episodes": 10},
            "score": 2000.0, "extra": {"sd": 3.0, "compile_s": 0.5, "returns": [1.0]}}  # fmt: skip


def first_schema(path: Path, *rows: dict[str, Any]) -> Path:
    connection = sqlite3.connect(path)
    connection.execute(f"CREATE TABLE rows ({', '.join(FIRST)})")
    for row in rows:
        values = [canonical(x) if isinstance(x, dict) else x for x in (row.get(name) for name in FIRST)]
        connection.execute(f"INSERT INTO rows VALUES ({', '.join('?' for _ in FIRST)})", values)
    connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    connection.execute("PRAGMA user_version = 1")
    connection.commit()
    connection.close()
    return path


def test_what_was_hidden_becomes_a_column(tmp_path: Path) -> None:
    row = read(first_schema(tmp_path / "old.sqlite", compared())).iloc[0]
    assert (row.attempt, row.timeout_s, row.repeat_asked, row.one_program) == (2, 60.0, 7, 1)
    assert (row.backward_spread_s, row.backward_trace_s, row.backward_compile_s) == (0.125, 1.0, 2.0)
    assert (row.backward_first_s, row.backward_temp_bytes, row.backward_peak_host_bytes) == (3.0, 10, 20)
    assert (row.backward_samples, row.gradient_params) == ("[0.25,0.5]", '{"linear_solve":"dense"}')
    assert (row.solver_params, row.problem_params, row.problem_source) == ('{"cg_steps":5}', '{"k":3}', "f00")
    assert (row.grad_reference, row.grad_reference_gap, row.grad_reference_residual) == (
        "DualNewton, implicit", 1e-15, 1e-9,
    )  # fmt: skip
    assert row.extra == '{"own":[1]}'
    assert (row.gap, row.tol, row.created, row.schema) == (1e-9, 1e-8, COMMON["created"], 2)


def test_rows_of_the_experiments_keep_what_they_say(tmp_path: Path) -> None:
    file = first_schema(tmp_path / "old.sqlite", trained(3), trained(99), imitated())
    frame = read(file)
    (row,) = frame[frame["problem_params"].str.contains('"recipe":3')].to_dict("records")
    assert (row["loss"], row["score_sd"], row["score_paper"], row["score"]) == ("energy", 0.5, 42.35, 42.0)
    assert json.loads(row["extra"]) == {"seconds": 3.0, "training": {"features": 103, "selection": 1}}
    other = frame[(frame["kind"] == "multilabel") & (frame["key"] != row["key"])]
    assert other["problem_params"].str.contains('"recipe":"earlier').tolist() == [True]
    policy = frame[frame["kind"] == "imitation"].iloc[0]
    assert (policy.score_sd, policy.compile_s, policy.extra) == (3.0, 0.5, '{"returns":[1.0]}')
    assert json.loads(policy.problem_params)["mujoco"] == "4.0"


def test_migrating_in_place(tmp_path: Path) -> None:
    file = first_schema(tmp_path / "old.sqlite", compared(), trained(3), imitated())
    with pytest.raises(RecordsError, match=r"gfy records migrate .*old\.sqlite"):
        Store(file)
    assert any("gfy records migrate" in fault for fault in verify(file))
    before = read(file)
    done = CliRunner().invoke(app, ["migrate", str(file)])
    assert done.exit_code == 0, done.output
    assert "3 rows migrated" in done.output
    pd.testing.assert_frame_equal(read(file), before)
    assert verify(file) == []
    with Store(file) as store:
        assert len(store) == 3
    assert migrate(file) == (3, 0), "again, it is written as it is"
    pd.testing.assert_frame_equal(read(file), before)
    assert [p.name for p in tmp_path.iterdir() if p.name.startswith(".")] == []


def test_migrating_to_another_folder_leaves_the_file_alone(tmp_path: Path) -> None:
    file = first_schema(tmp_path / "old.sqlite", compared())
    before = file.read_bytes()
    done = CliRunner().invoke(app, ["migrate", str(file), "--out", str(tmp_path / "new")])
    assert done.exit_code == 0, done.output
    assert file.read_bytes() == before
    assert verify(tmp_path / "new" / "old.sqlite") == []
    with pytest.raises(RecordsError, match="exists and is left as it is"):
        migrate(file, tmp_path / "new" / "old.sqlite")
    with pytest.raises(RecordsError, match="There is no result file"):
        migrate(tmp_path / "absent.sqlite")
    (tmp_path / "notes.txt").write_text("precious notes, not a database")
    with pytest.raises(RecordsError, match="not a result store"):
        migrate(tmp_path / "notes.txt")


def test_the_newer_of_two_rows_of_one_cell_is_kept(tmp_path: Path) -> None:
    newer = {**compared(), "key": "c" * 64, "created": "2026-02-01", "gap": 5e-9}
    file = first_schema(tmp_path / "old.sqlite", newer, compared())
    assert migrate(file) == (1, 1)
    assert read(file)["gap"].tolist() == [5e-9]


def test_merge_brings_old_and_new_files_together(tmp_path: Path) -> None:
    from bench.store.maintenance import merge

    file = first_schema(tmp_path / "old.sqlite", compared(), imitated())
    assert merge(tmp_path / "all.sqlite", [file, file]) == (2, 0, 2)
    assert verify(tmp_path / "all.sqlite") == []


def test_a_report_reads_an_export_of_the_first_schema(tmp_path: Path) -> None:
    from reports.data.load import load

    row = {name: canonical(x) if isinstance(x, dict) else x for name, x in compared().items()}
    pd.DataFrame([row], columns=FIRST).to_csv(tmp_path / "rows.csv", index=False)
    frame = load([tmp_path / "rows.csv"]).frame
    assert frame["backward_compile_s"].tolist() == [2.0]
    assert frame["key"].tolist() == read(first_schema(tmp_path / "old.sqlite", compared()))["key"].tolist()
