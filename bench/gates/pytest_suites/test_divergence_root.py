"""Time the argmax map of f-divergences on the simplex: one bracketed Newton root beside bisections of a fixed length.

The bisection gets enough halvings for all bits of float64; `gfy reproduce roots` times the fewest that certify.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from bench.problems.roots import NAMES, Setting, bisected
from gfy.backend import get_backend

HALVINGS = 60


@pytest.mark.parametrize("backend", ["jax", "torch"])
@pytest.mark.parametrize("contender", ["Newton root", "60 bisections"])
@pytest.mark.parametrize("f", NAMES)
def test_root(benchmark: Any, f: str, contender: str, backend: str, tiny: bool) -> None:
    pytest.importorskip(backend)
    ops = get_backend(backend)
    setting = Setting(f, *((10, 4) if tiny else (1000, 128)), backend)
    omega, domain, q = setting.problem.regularizer, setting.problem.domain, ops.asarray(setting.prior)
    ours = contender == "Newton root"
    call = ops.jit(lambda t: omega.argmax(t, domain) if ours else bisected(t, q, f, HALVINGS))
    given = ops.asarray(setting.theta)
    p = np.asarray(ops.to_numpy(call(given)))
    gap = float(omega.gap(setting.theta, domain.project(p), domain).gap.max())
    benchmark.group = f"f-divergence root, {f}, k = {setting.k}, batch {setting.batch}"
    benchmark.extra_info.update({"solver": contender, "backend": backend, "gap_rel": gap})
    benchmark.pedantic(lambda: ops.sync(call(given)), rounds=10, warmup_rounds=2)
    assert gap <= 1e-12
