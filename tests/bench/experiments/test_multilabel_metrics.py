"""The metrics against scikit-learn and by hand; the bootstrap on differences that are and are not there."""

from __future__ import annotations

import numpy as np
import pytest

from bench.experiments.common.metrics import metrics, precision_at, right_decisions
from gfy.errors import GfyValueError


def test_metrics_agree_with_scikit_learn(rng: np.random.Generator) -> None:
    sklearn = pytest.importorskip("sklearn.metrics", reason="scikit-learn is not installed")
    P, Y = rng.uniform(size=(31, 7)), (rng.uniform(size=(31, 7)) > 0.6).astype(float)
    found, chosen = metrics(P, Y), P > 0.5
    assert found["hamming"] == pytest.approx(sklearn.hamming_loss(Y, chosen))
    assert found["accuracy"] == pytest.approx(1 - found["hamming"])
    assert found["subset_accuracy"] == pytest.approx(sklearn.accuracy_score(Y, chosen))
    for kind in ("micro", "macro"):
        assert found[f"{kind}_f1"] == pytest.approx(sklearn.f1_score(Y, chosen, average=kind))
    assert found["example_f1"] == pytest.approx(
        sklearn.f1_score(Y, chosen, average="samples", zero_division=0)
    )
    assert right_decisions(P, Y).sum() == round(found["accuracy"] * 31 * 7)


def test_precision_at_k_by_hand() -> None:
    P = np.array([[0.9, 0.2, 0.4], [0.1, 0.3, 0.2]])
    Y = np.array([[1, 1, 0], [0, 0, 1]])
    assert precision_at(P, Y, 1) == 0.5
    assert precision_at(P, Y, 2) == 0.5
    assert precision_at(P, Y, 3) == 0.5
    with pytest.raises(GfyValueError, match="1 <= k <= 3"):
        precision_at(P, Y, 4)


def test_what_cannot_be_judged_is_refused() -> None:
    with pytest.raises(GfyValueError, match="diverged"):
        metrics(np.array([[np.nan, 0.1]]), np.zeros((1, 2)))
    with pytest.raises(GfyValueError, match="same"):
        metrics(np.zeros((3, 2)), np.zeros((3, 1)))
