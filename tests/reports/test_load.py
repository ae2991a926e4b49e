"""Rows from files to a tidy frame: what is refused in a sentence, what is filled in, what is kept apart."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

from bench.store import RecordsError
from reports.data.load import load, tidy


def test_a_missing_identity_column_is_named(synthetic):
    with pytest.raises(RecordsError, match="'solver'"):
        tidy(pd.DataFrame([synthetic.row()]).drop(columns="solver"))


def test_a_missing_measurement_is_filled_and_said(synthetic):
    rows = tidy(pd.DataFrame([synthetic.row()]).drop(columns=["grad_error", "steady_s"]))
    assert rows.frame["grad_error"].isna().all()
    assert any("grad_error" in note for note in rows.notes)
    assert any("ranked" in note for note in rows.notes)


def test_older_rows_are_kept_and_newer_ones_refused(synthetic):
    old = tidy(pd.DataFrame([synthetic.row(schema=0)]))
    assert len(old.frame) == 1
    assert any("older schema" in note for note in old.notes)
    with pytest.raises(RecordsError, match="update gfy-suite"):
        tidy(pd.DataFrame([synthetic.row(schema=7)]))


def test_csv_and_store_give_the_same_rows(store: Path, tmp_path: Path):
    kept = load([store]).frame
    kept.drop(columns="source").to_csv(tmp_path / "export.csv", index=False)
    again = load([tmp_path / "export.csv"]).frame
    assert set(again["key"]) == set(kept["key"])
    by_key = again.set_index("key").loc[kept["key"], "steady_s"].to_numpy()
    assert by_key == pytest.approx(kept["steady_s"].to_numpy(), rel=1e-12, nan_ok=True)


def test_unreadable_files_get_a_sentence(tmp_path: Path):
    with pytest.raises(RecordsError, match="no result file"):
        load([tmp_path / "absent.sqlite"])
    (tmp_path / "bad.parquet").write_bytes(b"not parquet")
    with pytest.raises(RecordsError, match="cannot be read"):
        load([tmp_path / "bad.parquet"])
    with pytest.raises(RecordsError, match="--results"):
        load([])


def test_versions_keep_rows_apart_only_where_they_disagree(synthetic):
    row = synthetic.row
    rows = [
        row(backend="jax", versions=json.dumps({"jax": "1", "solver": "aa"})),
        row(backend="torch", versions=json.dumps({"torch": "2", "solver": "aa"})),
        row(solver="FrankWolfe", versions=json.dumps({"jax": "1", "solver": "bb"})),
        row(seed=3, versions=json.dumps({"jax": "9", "solver": "aa"})),
        row(seed=4, versions=json.dumps({"jax": "1", "solver": "changed"})),
    ]
    tidied = tidy(pd.DataFrame(rows))
    groups = tidied.frame["group"].tolist()
    assert groups[0] == groups[1] == groups[2]
    assert groups[3] != groups[0]
    assert groups[4] != groups[0]
    assert any("machines or sets of library versions" in note for note in tidied.notes)


def test_machines_are_kept_apart(synthetic):
    frame = tidy(pd.DataFrame([synthetic.row(), synthetic.row(machine="m2")])).frame
    assert set(frame["group"]) == {"m1", "m2"}


def test_variants_of_one_solver_are_named_by_what_differs(synthetic):
    params = [{"variant": "away", "t": 1}, {"variant": "classic", "t": 1}]
    rows = [synthetic.row(solver="FrankWolfe", solver_params=json.dumps(p)) for p in params]
    rows.append(synthetic.row(gradient_params=json.dumps({"steps": 50}), gradient="unrolled"))
    frame = tidy(pd.DataFrame(rows)).frame
    assert frame["solver"].tolist() == [
        "FrankWolfe(variant=away)",
        "FrankWolfe(variant=classic)",
        "DualNewton",
    ]
    assert frame["solver_call"].iloc[0] == "FrankWolfe(variant='away')"
    assert frame["gradient"].iloc[2] == "unrolled"


def test_problem_names_are_as_short_as_tells_them_apart(synthetic):
    frame = tidy(
        pd.DataFrame([synthetic.row(k=10), synthetic.row(k=20), synthetic.row(problem="other")])
    ).frame
    assert frame["instance"].tolist() == ["pairwise-gini k=10", "pairwise-gini k=20", "other"]
    changed = [synthetic.row(problem_params='{"a":1}'), synthetic.row(problem_params='{"a":2}')]
    assert tidy(pd.DataFrame(changed)).frame["instance"].tolist() == ["pairwise-gini #1", "pairwise-gini #2"]


def test_the_newest_of_two_rows_with_one_key_wins(synthetic):
    key = "f" * 64
    rows = [
        synthetic.row(key=key, created="2026-02-01", steady_s=2.0),
        synthetic.row(key=key, created="2026-01-01"),
    ]
    tidied = tidy(pd.DataFrame(rows))
    assert tidied.frame["steady_s"].tolist() == [2.0]
    assert any("twice" in note for note in tidied.notes)


def test_interval_ends(synthetic):
    rows = [
        synthetic.row(steady_s=1.0, steady_median_s=1.2, steady_spread_s=0.4, repeats=5),
        synthetic.row(steady_s=1.0, steady_median_s=1.0, steady_spread_s=0.0, repeats=1, seed=1),
    ]
    assert tidy(pd.DataFrame(rows)).frame["steady_high_s"].tolist() == pytest.approx([1.4, 1.1])


def test_ids_grow_until_they_differ(synthetic):
    rows = [synthetic.row(key="a" * 30 + "b" * 34), synthetic.row(key="a" * 30 + "c" * 34, seed=1)]
    ids = tidy(pd.DataFrame(rows)).frame["id"]
    assert ids.is_unique


def test_the_pass_with_a_gradient_has_its_own_spread_and_setup(synthetic):
    from reports.answers.choices import asked

    told = {"backward_spread_s": 0.2, "backward_trace_s": 1.0, "backward_compile_s": 4.0}
    base = {
        "gradient": "envelope",
        "backward_s": 1.0,
        "backward_median_s": 1.1,
        "trace_s": 0.5,
        "compile_s": 1.5,
    }
    rows = [synthetic.row(**told, **base), synthetic.row(seed=1, extra="not json", **base)]
    frame = tidy(pd.DataFrame(rows)).frame
    scaled = 1.1 + 0.5 * 4e-5 * 1.1 / 1.05e-3
    assert frame["backward_high_s"].tolist() == pytest.approx([1.2, scaled])
    assert asked(frame, "loss-gradient")["setup"].tolist() == pytest.approx([5.0, 2.0])
    assert asked(frame, "solve")["setup"].tolist() == pytest.approx([2.0, 2.0])
