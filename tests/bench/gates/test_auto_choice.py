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


def test_the_command_lists_the_settings_that_fall_short_and_no_other(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    noise = [(name, s, x, "ok") for name in ("n1", "n2") for s, x in (("Auto", 9e-5), ("ActiveSet", 1e-6))]
    given = rows(*noise, ("slow", "Auto", 2e-3, "ok"), ("slow", "DualNewton", 1e-3, "ok"))
    monkeypatch.setattr("bench.store.load", lambda path: given)
    assert auto_choice.main(["some.sqlite"]) == 1
    told = capsys.readouterr().out
    assert "slow" in told
    assert "n1" not in told
    assert "2 of 3 settings" in told


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


def test_what_auto_chooses_by_is_what_the_command_makes_of_the_published_rows() -> None:
    from bench.store import load
    from solvers.measured import FILE

    store = Path(__file__).parents[3] / "docs" / "results" / "full.sqlite"
    made = auto_choice.text_of(auto_choice.measured_sizes(load(store)))
    assert made == FILE.read_text("utf-8"), (
        "run python -m bench.gates.auto_choice docs/results/full.sqlite --write"
    )


def test_times_are_medians_over_the_settings_that_all_solvers_met() -> None:
    params = '{"batch": 2, "k": 5}'
    given = rows(
        ("one", "ActiveSet", 1e-3, "ok"), ("one", "ProjectedGradient", 4e-3, "ok"),
        ("two", "ActiveSet", 1e-3, "ok"), ("two", "ProjectedGradient", 2e-3, "ok"),
        ("three", "ActiveSet", 3e-3, "ok"), ("three", "ProjectedGradient", 1e-3, "not converged"),
        ("four", "ActiveSet", 1e-3, "ok"), ("four", "ProjectedGradient", 9e-3, "ok"),
    ).assign(family="quadratic-gini-box", problem_params=params)  # fmt: skip
    (entry,) = auto_choice.measured_sizes(given)
    assert entry["times"] == {"ActiveSet": 1.0, "ProjectedGradient": 4.0}
    assert (entry["settings"], entry["U"], entry["total"], entry["k"]) == (3, "dense", "free", 5)
    assert auto_choice.measured_sizes(given.assign(device="cuda")) == []
