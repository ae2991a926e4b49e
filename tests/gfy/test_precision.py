"""Argmax maps in few digits: half precision, and scores that are large beside the regularizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gfy

Make = Callable[..., Any]
POINTS = np.random.default_rng(0).uniform(size=(5, 4))
SETS = [gfy.Reals(), gfy.Box(0.0, 1.0), gfy.Simplex(), gfy.CappedSimplex(2.0), gfy.Birkhoff(), gfy.Ball(1.0),
        gfy.ConvexHull(POINTS)]  # fmt: skip
REGULARIZERS: list[Callable[[float], gfy.Regularizer]] = [
    gfy.SquaredNorm, gfy.Gini, gfy.BinaryGini, gfy.Shannon, gfy.BinaryShannon, lambda gamma: gfy.Tsallis(1.5, gamma),
    lambda gamma: gfy.Zero(),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("domain", SETS, ids=lambda s: s.name)
def test_half_precision_is_right_to_its_own_rounding(domain: gfy.ConvexSet, dtype: str) -> None:
    """Against float64 at the very same scores: lengths above 256 and factorisations do not exist in float16."""
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(1)
    for make in REGULARIZERS:
        for gamma, scale in ((1e-3, 1e-3), (1.0, 1.0), (1.0, 1e3), (1e5, 1e4)):
            omega = make(gamma)
            if omega.no_argmax(domain) is not None:
                continue
            scores = torch.tensor(scale * rng.normal(size=(3, 4))).to(getattr(torch, dtype))
            wanted = omega.argmax(scores.double(), domain)
            found = omega.argmax(scores, domain)
            assert found.dtype == scores.dtype
            close = 2e-3 if dtype == "float16" else 1e-2
            torch.testing.assert_close(found.double(), wanted, rtol=close, atol=close)


@pytest.mark.thin(12)
@pytest.mark.parametrize("make", REGULARIZERS[:-1], ids=lambda make: make(1.0).name)
@pytest.mark.parametrize("total", [1, 2, 2.5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sums_are_met_however_large_the_scores(
    asarray: Make, tonumpy: Make, make: Callable[[float], gfy.Regularizer], total: float, dtype: str
) -> None:
    """Beside scores of 1e4 no float32 is a multiplier to within gamma = 1e-6: the sum was off by up to 1.5."""
    rng = np.random.default_rng(3)
    scores = np.concatenate([rng.normal(size=(20, 7)), np.round(rng.normal(size=(10, 7)))])
    domain = gfy.Simplex() if total == 1 else gfy.CappedSimplex(total)
    for gamma, scale in ((1e-6, 1.0), (1e-6, 1e4), (1e-3, 1e4), (1e3, 1e-3)):
        p = tonumpy(make(gamma).argmax(asarray(scale * scores, dtype), domain)).astype(np.float64)
        tol = 1e-5 if dtype == "float32" else 1e-13
        assert np.abs(p.sum(-1) - total).max() < tol, (gamma, scale)
        assert p.min() >= 0
        assert p.max() <= 1
        # a better score never gets less
        order = np.argsort(scores, axis=-1, kind="stable")
        assert (np.diff(np.take_along_axis(p, order, -1), axis=-1) >= -tol).all()
