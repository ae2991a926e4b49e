"""The distance of `Auto` from the best of our solvers is read from rows of a comparison."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from bench.gates import auto_choice

pd = pytest.importorskip("pandas")


def rows(*given: tuple[str, str, float, str]) -> Any:
    same = {
        "seed": 0,
        "device": "cpu",
        "dtype": "float64",
        "gradient": "envelope",
        "tol": 1e-6,
        "backend": "torch",
    }
    return pd.DataFrame([
        {**same, "problem": problem, "solver": solver, "steady_s": seconds, "status": status}
        for problem, solver, seconds, status in given
    ])  # fmt: skip


def test_auto_is_held_against_the_fastest_of_ours_that_met_the_level() -> None:
    table = auto_choice.ratios(
        rows(
            ("one", "Auto", 2e-3, "ok"), ("one", "DualNewton", 1e-3, "ok"), ("one", "Daqp", 1e-6, "ok"),
            ("one", "FrankWolfe", 1e-7, "not converged"),
            ("two", "Auto", 1.2e-3, "ok"), ("two", "ActiveSet", 1e-3, "ok"),
            ("three", "Auto", 5e-5, "ok"), ("three", "ActiveSet", 1e-5, "ok"),
            ("four", "Auto", 1.0, "ok"), ("five", "DualNewton", 1.0, "ok"),
        ),
        auto_choice.own_solvers(),
    )  # fmt: skip
    assert dict(zip(table["problem"], table["ratio"], strict=True)) == pytest.approx(
        {"three": 5.0, "one": 2.0, "two": 1.2}
    )
    assert list(auto_choice.short(table)["problem"]) == ["one"], (
        "two is within 1.3 x, three within a call's noise"
    )
    assert table.set_index("problem")["best"]["one"] == "DualNewton"


def test_a_store_without_auto_is_a_sentence(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.store.load", lambda path: rows(("one", "DualNewton", 1.0, "ok")))
    assert auto_choice.main([str(Path("some.sqlite"))]) == 2
    assert "no setting with Auto" in capsys.readouterr().err
    both = rows(("one", "Auto", 2.0, "ok"), ("one", "DualNewton", 1.0, "ok"))
    monkeypatch.setattr("bench.store.load", lambda path: both)
    assert auto_choice.main(["some.sqlite"]) == 1
    assert "0 of 1 settings" in capsys.readouterr().out
