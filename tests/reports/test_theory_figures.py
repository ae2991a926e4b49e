"""The figures of the paper's theorems: what they draw is what the definitions and the rows say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.store import COLUMNS
from reports.figures import (
    base,
    theory,
    theory_biconjugate,
    theory_calibration,
    theory_dc,
    theory_divergence,
    theory_items,
    theory_structured,
)


def frame(*rows: dict[str, Any]) -> pd.DataFrame:
    return pd.DataFrame([{name: row.get(name) for name in COLUMNS} for row in rows], columns=list(COLUMNS))


def calibration_row(factor: float, surrogate: list[float], risk: list[float]) -> dict[str, Any]:
    ratio = max(r**2 / (factor * s) for s, r in zip(surrogate, risk, strict=True))
    extra = {"sigma": 1.0, "M": factor / 8, "factor": factor, "tight_factor": factor / 4, "tight_ratio": 4 * ratio,
             "violations": sum(r**2 > factor * s for s, r in zip(surrogate, risk, strict=True)),
             "surrogate": surrogate, "risk": risk}  # fmt: skip
    return {"kind": "calibration", "problem": "calibration-hamming", "energy": "Pairwise", "regularizer": "BinaryGini",
            "k": 2, "batch": len(risk), "score": ratio, "extra": json.dumps(extra)}  # fmt: skip


def dc_row(
    solver: str, params: dict[str, float], objective: list[float], seed: int, score: float
) -> dict[str, Any]:
    curve = {"evaluations": [0, 10, 20], "seconds": [0.0, 1.0, 2.0], "objective": objective}
    return {"kind": "dc", "problem": "yeast", "energy": "Maxout", "solver": solver, "seed": seed, "score": score,
            "solver_params": json.dumps(params), "extra": json.dumps({"curve": curve})}  # fmt: skip


def structured_rows() -> list[dict[str, Any]]:
    solved = [
        {"kind": "structured", "problem": "chain-gibbs", "k": k, "seed": 0, "gap": gap, "steps": 9.0,
         "extra": json.dumps({"apart": apart, "structures": 27})}
        for k, gap, apart in ((14, 1e-9, 2e-6), (27, 3e-10, None))
    ]  # fmt: skip
    taggers = [
        {
            "kind": "structured",
            "problem": "tagging",
            "k": 9,
            "solver": loss,
            "seed": s,
            "score": score,
            "extra": "{}",
        }
        for s, (loss, score) in enumerate((("alone", 50.0), ("sparsemap", 75.0), ("sparsemap", 77.0)))
    ]
    return solved + taggers


def test_envelopes_are_lower_bounds_ordered_by_their_couplings() -> None:
    data = theory_biconjugate.envelopes()
    line, mild, strong, metric = (g for _, g in data.groupby("coupling", sort=False))
    for part in (line, mild, strong, metric):
        assert (part["envelope"] <= part["omega"] + 1e-12).all()
    p = line["p"].to_numpy()
    assert np.allclose(line["envelope"], np.where(np.abs(p) <= 1, 0.0, (p**2 - 1) ** 2), atol=5e-3)
    assert (mild["envelope"].to_numpy() >= line["envelope"].to_numpy() - 1e-12).all()
    # Omega'' >= -4: with a = -4 every point is touched
    assert np.allclose(strong["envelope"], strong["omega"], atol=5e-3)
    assert np.abs(np.diff(metric["envelope"]) / np.diff(p)).max() <= 1 + 1e-9


def test_generalized_divergences_are_never_negative_where_the_usual_ones_are() -> None:
    data = theory_divergence.divergences()
    least = data.groupby(["kind", "place"])["divergence"].min()
    assert (least["generalized"] >= -1e-12).all()
    assert least["usual"].min() < -0.5
    for (_, place), part in data.groupby(["kind", "place"]):
        nearest = (part["p"] - place).abs().idxmin()
        assert part["divergence"][nearest] == 0.0
    # (p^2 - 1)^2 - (p^2 - 1)^2 at p' with the touching parabola at 0, which is 1 - 2 p^2: what is left is p^4
    at_zero = data[(data["kind"] == "generalized") & (data["place"] == 0.0)]
    np.testing.assert_allclose(at_zero["divergence"], at_zero["p"] ** 4, atol=1e-12)


def test_the_items_hold_and_are_those_of_the_closed_forms() -> None:
    data = theory_items.items()
    assert set(data["item"]) == set(theory_items.TITLES)
    assert (data["larger"] - data["smaller"] >= -1e-12).all()

    def conjugate(u: np.ndarray | float, c: float, low: float = 0.0, high: float = 1.0) -> np.ndarray:
        """max over [low, high] of u p - p^2/2 - c p^2/2"""
        p = np.clip(np.asarray(u) / (1 + c), low, high)
        return np.asarray(u * p - 0.5 * (1 + c) * p**2)

    part = dict(iter(data.groupby("item")))
    u, y = part["order"]["x"].to_numpy(), part["lipschitz"]["x"].to_numpy()
    at_y = 0.5 * u - 0.25
    expected = {
        "order": (conjugate(u, 2.0), conjugate(u, 1.0)),
        "continuity": (np.abs(conjugate(u, 1.0) - 0.0625), np.abs(u - 0.5)),  # Phi changes by |u - 1/2| p
        "smoothness": (np.abs(np.clip(u / 2, 0, 1) - 0.25), (1 + 5**0.5) / 2 * np.abs(u - 0.5)),
        "sets": (conjugate(u, 1.0, 0.25, 0.75) - at_y, conjugate(u, 1.0) - at_y),
        "lipschitz": ((y - 0.25) ** 2, 1.5 * np.abs(y - 0.25)),  # the slope of u p - p^2 is steepest at 1
    }
    for item, (smaller, larger) in expected.items():
        np.testing.assert_allclose(part[item]["smaller"], smaller, atol=1e-3)
        np.testing.assert_allclose(part[item]["larger"], larger, atol=1e-3)


def test_the_small_multiples_touch_omega_and_stay_below() -> None:
    for (a, b), part in theory_biconjugate.pictures().groupby(["a", "b"]):
        gap = part["omega"] - part["bound"]
        assert gap.min() >= -1e-12
        assert gap.min() < 1e-3
        assert np.isclose(part["p"][gap.idxmin()], b / (1 - a), atol=0.011)


def test_the_calibration_figure_counts_violations() -> None:
    good = calibration_row(4.0, [0.1, 0.2], [0.3, 0.2])
    with base.style():
        drawn = theory_calibration.draw(frame(good))
        broken = theory_calibration.draw(frame(good, calibration_row(4.0, [0.01, 0.2], [0.9, 0.2])))
    assert drawn is not None
    assert broken is not None
    assert "every point lies on or below" in drawn.alt
    assert "1 points lie above" in broken.alt
    assert "surrogate" not in drawn.data


def test_the_training_figure_names_the_lowest_objective() -> None:
    rows = frame(
        dc_row("ConvexConcave", {"rounds": 6}, [1.0, 0.5, 0.3], 0, 79.0),
        dc_row("ConvexConcave", {"rounds": 6}, [1.0, 0.6, 0.5], 1, 80.0),
        dc_row("Adam", {"rate": 0.1}, [1.0, 0.4, 0.35], 0, 78.0),
    )
    ends = theory_dc.summary(theory_dc.curves(rows)).set_index("way")
    assert np.isclose(ends.loc["ConvexConcave, rounds 6", "objective"], 0.4)
    assert np.isclose(ends.loc["ConvexConcave, rounds 6", "test_accuracy"], 79.5)
    with base.style():
        drawn = theory_dc.draw(rows)
    assert drawn is not None
    assert "Maxout: Adam, rate 0.1 (0.3500, 78.00% test)" in drawn.alt


def test_the_structured_figure_tells_gaps_and_accuracies() -> None:
    rows = frame(*structured_rows())
    assert theory_structured.solved(rows)["apart"].isna().tolist() == [False, True]
    with base.style():
        drawn = theory_structured.draw(rows)
    assert drawn is not None
    assert "alone 50.0%, sparsemap 76.0%" in drawn.alt
    assert "1.0e-09" in drawn.alt


def test_the_structured_figure_is_drawn_from_half_a_study() -> None:
    rows = frame(*structured_rows())
    with base.style():
        gaps = theory_structured.draw(rows[rows["problem"] != "tagging"])
        taggers = theory_structured.draw(rows[rows["problem"] == "tagging"])
    assert gaps is not None
    assert "1.0e-09" in gaps.alt
    assert "accuracy" not in gaps.alt
    assert taggers is not None
    assert "sparsemap 76.0%" in taggers.alt
    assert len(taggers.figure.axes) == len(gaps.figure.axes) == 1


def test_all_of_them_are_saved_and_none_is_drawn_without_rows(tmp_path: Path) -> None:
    assert theory.studied(frame()) == []
    rows = frame(
        calibration_row(4.0, [0.1], [0.3]),
        dc_row("Adam", {"rate": 0.1}, [1.0, 0.4, 0.3], 0, 78.0),
        *structured_rows(),
    )
    drawn = theory.studied(rows) + theory.explained()
    assert [d.name for d in drawn] == [
        "calibration",
        "convex-concave",
        "structured",
        "geometry-multiples",
        "biconjugates",
        "divergences",
        "items",
    ]
    for one in drawn:
        assert base.save(one, tmp_path).startswith("<svg")
        assert (tmp_path / f"{one.name}.csv").is_file()
    assert all(one.alt and one.caption for one in drawn)
