"""One example of everything: sets, regularizers and energies with random constants, for tests over all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

import gfy

K = 6  # not the batch size, not any rank, not any number of hidden units


def domains(k: int = K) -> list[gfy.ConvexSet]:
    points = np.random.default_rng(5).uniform(0.05, 0.95, size=(k + 3, k))
    low = np.linspace(0.05, 0.2, k)
    return [
        gfy.Reals(),
        gfy.Box(0.0, 1.0),
        gfy.Box(low, low + np.linspace(0.3, 0.7, k)),
        gfy.Simplex(),
        gfy.CappedSimplex(2.5),
        gfy.ConvexHull(points),
        gfy.Ball(0.9),
    ]


def regularizers(k: int = K) -> list[gfy.Regularizer]:
    return [
        gfy.SquaredNorm(0.7),
        gfy.Gini(1.3),
        gfy.BinaryGini(0.45),
        gfy.Shannon(0.8),
        gfy.BinaryShannon(1.1),
        gfy.Tsallis(1.5),
        gfy.Tsallis(1.3, gamma=0.6),
        gfy.Tsallis(2.6),
        gfy.FDivergence("reverse-kl", prior=np.linspace(0.1, 0.3, k), gamma=0.5),
        gfy.FDivergence("jensen-shannon", prior=0.25),
        gfy.FDivergence("alpha", prior=np.linspace(0.3, 0.05, k), alpha=1.5),
        gfy.Zero(),
    ]


def pairs(k: int = K) -> list[tuple[gfy.Regularizer, gfy.ConvexSet]]:
    """Every regularizer with every set it has an argmax map on."""
    return [(r, d) for r in regularizers(k) for d in domains(k) if r.no_argmax(d) is None]


def pair_id(value: Any) -> str:
    return value.name if hasattr(value, "name") else str(value)


def energy_inputs(
    rng: np.random.Generator, batch: int = 4, k: int = K
) -> list[tuple[gfy.Energy, dict[str, Any], int]]:
    """(energy, leaves as NumPy arrays, size of p): per-example leaves and shared ones, no two axes of one size."""
    n = rng.normal
    d, m, h, g = 5, 3, 7, 8
    square = n(size=(batch, k, k))
    dense = -square @ square.transpose(0, 2, 1) / k - 0.05 * np.eye(k)  # room for a finite difference
    spen = {"u": n(size=(batch, k)), "W1": n(size=(h, k)), "b1": n(size=h), "W2": n(size=h), "b2": n(size=())}
    icnn = {
        "u": n(size=(batch, k)), "W0": n(size=(h, k)), "b0": n(size=(batch, h)), "Wz": n(size=(g, h)) - 2,
        "Wp": n(size=(g, k)), "b1": n(size=g), "wz": n(size=g) - 1,
    }  # fmt: skip
    return [
        (gfy.Bilinear(), {"v": n(size=(batch, k))}, k),
        (gfy.Bilinear(n(size=(d, k))), {"v": n(size=(batch, d))}, k),
        (gfy.LinearQuadratic(), {"u": n(size=(batch, k)), "U": dense}, k),
        (gfy.Pairwise(), {"u": n(size=(batch, k)), "A": n(size=(batch, k, m))}, k),
        (gfy.Pairwise(), {"u": n(size=(batch, k)), "A": n(size=(k, 1))}, k),
        (gfy.Rectifier(rng.uniform(size=(d, k))), {"v": n(size=(batch, d))}, k),
        (gfy.Maxout(), {"v": n(size=(batch, d))}, 1),
        (gfy.LogSumExp(0.6), {"v": n(size=(batch, d))}, 1),
        (gfy.InputConvexNetwork(), icnn, k),
        (gfy.Spen("softplus"), spen, k),
        (gfy.Spen(), spen, k),
        (gfy.ConcaveSpen("softplus"), spen, k),
        (gfy.ConcaveSpen(), spen, k),
        (gfy.Probabilistic(), {"v": n(size=(batch, k))}, k),
        (gfy.Metric(), {"v": rng.uniform(size=(batch, k))}, k),
        (gfy.Metric("manhattan"), {"v": rng.uniform(size=(batch, k))}, k),
        (gfy.Hopfield(gfy.Shannon(0.9), 1.4), {"u": n(size=(batch, k)), "X": n(size=(h, k))}, k),
    ]


def energy_names() -> list[str]:
    listed = energy_inputs(np.random.default_rng(0))
    return [f"{index}-{energy.name}" for index, (energy, _, _) in enumerate(listed)]
