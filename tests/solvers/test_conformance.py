"""The conformance suite passes the template and our solvers, and fails a broken one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import gfy
import solvers
from solvers import conformance
from solvers.methods.nearly_linear import NearlyLinear
from solvers.template import Template


@pytest.mark.thin(9)
def test_the_template_passes(backend: str) -> None:
    chosen = conformance.cases()[:2]
    rows = conformance.run(Template(), backend, chosen)
    assert all(row.ok for row in rows), "\n".join(conformance.show(rows))
    assert len(rows) >= 8


@dataclass(frozen=True)
class Boastful:
    """Returns the middle of the set and calls it converged."""

    name: str = "Boastful"

    def unsupported(self, problem: Any) -> str | None:
        return None if problem.concave else "no"

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = None) -> gfy.Solution:
        p = problem.initial_point(v)
        error = p.sum(-1) * 0
        return gfy.Solution(p, error, error, error <= 0)


def test_a_boastful_solver_fails() -> None:
    pytest.importorskip("torch")
    rows = conformance.run(Boastful(), "torch")
    assert any(not row.ok and "certified" in row.check for row in rows)


@pytest.mark.parametrize("name", ["DualNewton", "ProjectedNewton"])
def test_ours_pass(name: str) -> None:
    pytest.importorskip("torch")
    rows = conformance.run(getattr(solvers, name)(), "torch")
    assert all(row.ok for row in rows), "\n".join(conformance.show(rows))


def test_the_solver_without_regularizer_passes(backend: str) -> None:
    rng = np.random.default_rng(0)
    u = rng.choice([-1.0, 1.0], size=(3, 5)) * (1 + rng.random((3, 5)))  # a corner of the box is best
    v = gfy.Pairwise.Input(u, 0.1 * rng.normal(size=(3, 5, 1)))
    case = conformance.Case(gfy.InnerProblem(gfy.Pairwise(), gfy.Zero(), gfy.Box(0.0, 1.0)), v)
    rows = conformance.run(NearlyLinear(), backend, [case])
    assert all(row.ok for row in rows), "\n".join(conformance.show(rows))
