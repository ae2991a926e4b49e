"""Time the argmax map of f-divergences on the simplex: one bracketed Newton root beside bisections of a fixed length.

The bisection is what a user writes in 15 lines: as many halvings as float64 has bits to find, no stopping rule.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gfy
from gfy.backend import get_backend

HALVINGS = 60
CASES = (("jensen-shannon", None), ("reverse-kl", None), ("alpha", 1.5))


def bisection(theta: Any, prior: Any, f: str) -> Any:
    """Return p with p_j = q_j (f')^-1(theta_j - tau), the sum of which is 1; f' is written without its constant."""
    xp = get_backend("torch" if type(theta).__module__.startswith("torch") else "jax").xp

    def p(tau: Any) -> Any:
        s = theta - tau
        if f == "jensen-shannon":
            return prior / xp.expm1(-xp.minimum(s, s * 0 - 1e-300))
        if f == "reverse-kl":
            return prior / -xp.minimum(s, s * 0 - 1e-300)
        return prior * (xp.maximum(s, s * 0) / 2) ** 2

    def slope(x: Any) -> Any:
        u = x / prior
        return -xp.log1p(1 / u) if f == "jensen-shannon" else -1 / u if f == "reverse-kl" else 2 * xp.sqrt(u)

    low = xp.max(theta - slope(1 + 0 * theta), axis=-1)[..., None]
    high = xp.max(theta - slope(0 * theta + 1 / theta.shape[-1]), axis=-1)[..., None]
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        over = xp.sum(p(middle), axis=-1)[..., None] > 1
        low, high = xp.where(over, middle, low), xp.where(over, high, middle)
    return p((low + high) / 2)


@pytest.mark.parametrize("backend", ["jax", "torch"])
@pytest.mark.parametrize("contender", ["Newton root", "60 bisections"])
@pytest.mark.parametrize(("f", "alpha"), CASES)
def test_root(benchmark: Any, f: str, alpha: float | None, contender: str, backend: str, tiny: bool) -> None:
    pytest.importorskip(backend)
    ops = get_backend(backend)
    k, batch = (10, 4) if tiny else (1000, 128)
    prior = 1.0 / np.arange(1.0, k + 1.0)
    prior = prior / prior.sum()
    theta = np.random.default_rng(0).normal(size=(batch, k))
    omega, domain, q = gfy.FDivergence(f, prior, alpha=alpha), gfy.Simplex(), ops.asarray(prior)
    ours = contender == "Newton root"
    call = ops.jit(lambda t: omega.argmax(t, domain) if ours else bisection(t, q, f))
    given = ops.asarray(theta)
    p = np.asarray(ops.to_numpy(call(given)))
    gap = float(omega.gap(theta, domain.project(p), domain).gap.max())
    benchmark.group = f"f-divergence root, {f}, k = {k}, batch {batch}"
    benchmark.extra_info.update({"solver": contender, "backend": backend, "gap_rel": gap})
    benchmark.pedantic(lambda: ops.sync(call(given)), rounds=10, warmup_rounds=2)
    assert gap <= 1e-12
