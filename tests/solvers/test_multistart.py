"""Many starts: which vertices are among them, and that the best vertex is found on a simplex with many coordinates."""

from __future__ import annotations

import numpy as np
import pytest

import gfy
import solvers


def test_every_vertex_of_a_simplex_is_a_start_and_a_long_list_is_never_made() -> None:
    many = solvers.MultiStart(starts=1)

    def exhaustive(domain: gfy.Box | gfy.Simplex | gfy.CappedSimplex, k: int) -> bool:
        return many.exhaustive(gfy.InnerProblem(gfy.LinearQuadratic(), gfy.Gini(), domain), k)

    assert exhaustive(gfy.Simplex(), 256)
    assert not exhaustive(gfy.Simplex(), 257)
    assert exhaustive(gfy.Box(0.0, 1.0), 8)
    assert not exhaustive(gfy.Box(0.0, 1.0), 9)
    assert not exhaustive(gfy.CappedSimplex(2), 1000)  # its list would have 499,500 rows


def test_the_best_vertex_of_thirty_is_found() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    u, bend = rng.normal(size=30) / 10, 4 + rng.random(30)
    values = u + bend / 2  # of the vertices: Omega is the same at all of them, and the energy is convex
    curved = torch.tensor(bend)
    energy = gfy.CustomEnergy(lambda v, p: (v * p).sum(-1) + 0.5 * (curved * p * p).sum(-1), k=30)
    problem = gfy.InnerProblem(energy, gfy.Gini(), gfy.Simplex())
    p = gfy.argmax(problem, torch.tensor(u)[None], solver=solvers.MultiStart(starts=1)).numpy()[0]
    assert int(p.argmax()) == int(values.argmax())
    assert p.max() == pytest.approx(1.0)
