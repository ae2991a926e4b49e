"""The Newton root beside bisections: they find SciPy's root, get no halving too many, and their rows give a table."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq

from bench.experiments.roots.experiment import fewest_halvings, off
from bench.problems.roots import NAMES, Setting, bisected
from bench.store import COLUMNS
from reports.answers.beyond import text

INVERSES = {  # (f')^-1 up to a constant in its argument, on an interval that holds the multiplier
    "jensen-shannon": lambda s: 1 / np.expm1(-s),
    "reverse-kl": lambda s: -1 / s,
    "alpha-1.5": lambda s: (np.maximum(s, 0) / 2) ** 2,
}


@pytest.mark.parametrize("f", NAMES)
def test_bisections_find_the_root_that_scipy_finds(f: str) -> None:
    setting = Setting(f, 6, 3, "numpy")
    found = bisected(setting.theta, setting.prior, f, 60)
    for theta, p in zip(setting.theta, found, strict=True):

        def parts(tau: float, theta: np.ndarray = theta) -> np.ndarray:
            return np.asarray(setting.prior * INVERSES[f](theta - tau))

        first = theta.max() - 3.0 if f == "alpha-1.5" else theta.max() + 1e-3
        tau = brentq(lambda t: parts(t).sum() - 1, first, theta.max() + 30.0, xtol=1e-15)
        np.testing.assert_allclose(p, parts(tau), rtol=1e-10, atol=1e-13)


def test_the_bisection_gets_the_fewest_halvings_that_certify() -> None:
    setting = Setting("reverse-kl", 6, 3, "numpy")
    count = fewest_halvings(setting, 1e-8)
    told = [off(setting.problem, setting.theta, bisected(setting.theta, setting.prior, "reverse-kl", n))
            for n in (count - 1, count)]  # fmt: skip
    assert told[0] > 1e-8 >= told[1]


def row(solver: str, seconds: float, tol: float, status: str = "ok", **extra: int) -> dict[str, Any]:
    return dict.fromkeys(COLUMNS) | {
        "kind": "roots", "problem": "reverse-kl", "k": 10, "batch": 4, "backend": "jax", "solver": solver, "tol": tol,
        "steady_s": seconds, "status": status, "gap_rel": 1e-3, "key": f"{solver}{tol}", "extra": json.dumps(extra),
    }  # fmt: skip


def test_the_table_says_who_is_faster_at_equal_accuracy() -> None:
    ours, loose = row("Newton root", 2e-3, 1e-10), row("bisection", 5e-4, 1e-5, halvings=18)
    said = text(pd.DataFrame([ours, row("bisection", 1e-3, 1e-10, halvings=35), loose]), "roots")
    assert "| reverse-kl | 10 | 4 | jax | 2 | **1 (35)** | 0.5 (18) | 0.50 |" in said
    assert "faster one in 0 of 1 lines" in said
    failed = row("bisection", 1e-3, 1e-10, "not converged", halvings=70)
    said = text(pd.DataFrame([ours, failed, loose]), "roots")
    assert "not certified (1e-03)" in said
    assert "**" not in said
