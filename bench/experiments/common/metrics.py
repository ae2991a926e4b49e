"""Measure how right a multilabel prediction is. P [n, k] holds p*, Y [n, k] zeros and ones.

A label is predicted where p > 1/2, which is the calibrated decoding for the Hamming loss, and so for the label accuracy
of the paper. Precision at k ranks the labels by p, which is its calibrated decoding.
"""

from __future__ import annotations

import numpy as np

from gfy.errors import GfyValueError


def decode(P: np.ndarray) -> np.ndarray:
    """Return the label set that minimises the expected Hamming loss, [n, k] bool."""
    return np.asarray(P) > 0.5


def right_decisions(P: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return how many of the k decisions are right for each example, [n] int."""
    return (decode(P) == (np.asarray(Y) > 0.5)).sum(axis=1)


def precision_at(P: np.ndarray, Y: np.ndarray, k: int) -> float:
    """Return the mean fraction of true labels among the k with the largest p."""
    if not 1 <= k <= P.shape[1]:
        raise GfyValueError(f"precision at k needs 1 <= k <= {P.shape[1]}; {k} was given")
    top = np.argsort(-P, axis=1, kind="stable")[:, :k]
    return float(np.take_along_axis(np.asarray(Y) > 0.5, top, axis=1).mean())


def metrics(P: np.ndarray, Y: np.ndarray) -> dict[str, float]:
    """Return all metrics as fractions. A label that is never given and never predicted counts zero in the
    macro F1, and so does an example without labels and predictions in the example F1."""
    P, truth = np.asarray(P, dtype=float), np.asarray(Y) > 0.5
    if P.shape != truth.shape or P.ndim != 2 or 0 in P.shape:
        raise GfyValueError(
            f"predictions {P.shape} and labels {truth.shape} must be the same [n, k], not empty"
        )
    if not np.isfinite(P).all():
        raise GfyValueError("a prediction is not a finite number: the network has diverged")
    chosen = decode(P)
    both, either = (chosen & truth).sum(axis=0), chosen.sum(axis=0) + truth.sum(axis=0)
    shared, named = (chosen & truth).sum(axis=1), chosen.sum(axis=1) + truth.sum(axis=1)
    accuracy = float((chosen == truth).mean())
    return {
        "accuracy": accuracy,
        "hamming": 1.0 - accuracy,
        "micro_f1": float(2 * both.sum() / max(either.sum(), 1)),
        "macro_f1": float((2 * both / np.maximum(either, 1)).mean()),
        "example_f1": float((2 * shared / np.maximum(named, 1)).mean()),
        "subset_accuracy": float((chosen == truth).all(axis=1).mean()),
        **{f"precision_at_{k}": precision_at(P, truth, k) for k in (1, 3, 5) if k <= P.shape[1]},
    }
