"""Recommendations from seeded rows: near, far, unknown, in another dtype; and the code they hand over."""

from __future__ import annotations

import ast
from pathlib import Path

import pandas as pd
import pytest

from bench.store import RecordsError
from reports.answers.recommend import distances, recommend
from reports.answers.snippet import gradient_call, solver_call
from reports.data.sources import default_results


def test_the_measured_problem_itself(store: Path):
    found = recommend("pairwise", 174, rank=1, batch=256, results=[store])
    assert found.near
    assert found.distance == pytest.approx(0.0)
    assert found.choice.choice.solver == "DualNewton"
    assert found.choice.choice.gradient == "envelope"
    assert found.runner_up.time > found.choice.time
    assert len(found.code.splitlines()) == 3
    ast.parse(found.code)
    assert "solvers.DualNewton()" in found.code
    assert "Next:" in found.text()
    assert "gfy compare" not in found.text()


def test_nearest_sizes_are_the_evidence(store: Path):
    found = recommend("Pairwise", 60, rank=1, batch=256, need="solve", results=[store])
    assert all("k=64" in p for p in found.problems)
    assert 0 < found.distance < 0.1


def test_far_evidence_says_so_and_offers_the_command(store: Path):
    found = recommend("pairwise", 10**6, rank=1, batch=256, results=[store])
    assert not found.near
    assert "too far" in found.text()
    assert "gfy compare" in found.text()
    assert "k=1000000, batch=256, rank=1" in found.compare


def test_a_need_of_argmax_gradients_never_gets_the_envelope(store: Path):
    found = recommend("pairwise", 174, rank=1, batch=256, need="argmax-gradient", results=[store])
    assert found.choice.choice.gradient == "implicit"
    assert "gradient=gfy.Implicit()" in found.code


def test_a_dtype_that_cannot_reach_the_tolerance_is_said(synthetic, tmp_path: Path):
    rows = [synthetic.row(), synthetic.row(dtype="float32", gap_rel=1e-4, steady_s=1e-5)]
    path = synthetic.store(tmp_path / "s.sqlite", pd.DataFrame(rows))
    found = recommend("pairwise", 174, dtype="float32", need="solve", results=[path])
    assert found.choice.choice.dtype == "float64"
    assert "Nothing in float32" in found.text()
    loose = recommend("pairwise", 174, dtype="float32", need="solve", tol=1e-3, results=[path])
    assert loose.choice.choice.dtype == "float32"


def test_what_was_never_measured(store: Path):
    unknown = recommend("pairwse", 10, results=[store])
    assert unknown.choice is None
    assert "Did you mean Pairwise?" in unknown.text()
    cuda = recommend("pairwise", 174, device="cuda", results=[store])
    assert "No row has the device 'cuda'" in cuda.text()
    strict = recommend("pairwise", 174, tol=1e-15, results=[store])
    assert strict.choice is None
    assert "gfy compare" in strict.text()


def test_bad_questions_get_a_sentence(store: Path):
    for given, word in (
        ({"k": 0}, "k is 0"),
        ({"k": 5, "tol": 3.0}, "tol"),
        ({"k": 5, "need": "luck"}, "need"),
    ):
        with pytest.raises(RecordsError, match=word):
            recommend("pairwise", **given, results=[store])


def test_distance_counts_decades():
    frame = pd.DataFrame({"k": [100.0, 1000.0], "rank": [1.0, None], "batch": [1.0, 100.0]})
    got = distances(frame, {"k": 100, "rank": 10, "batch": 1}).tolist()
    assert got == pytest.approx([1.0, 2.0])


def test_calls_as_code():
    assert solver_call("FrankWolfe(variant='away')") == "solvers.FrankWolfe(variant='away')"
    assert gradient_call("unrolled(steps=50)") == "gfy.Unrolled(steps=50)"
    assert gradient_call("envelope") == "gfy.Envelope()"


def test_default_results_are_the_newest_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "compare.sqlite").touch()
    assert default_results(tmp_path) == [tmp_path / "results" / "compare.sqlite"]
    monkeypatch.setattr("reports.data.sources.published_results", lambda: None)
    with pytest.raises(RecordsError, match="gfy compare"):
        default_results(tmp_path / "nowhere")
