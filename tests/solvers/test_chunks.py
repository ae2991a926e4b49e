"""Solving a cache at a time gives the answers of solving all at once."""

from __future__ import annotations

import numpy as np
import pytest

import gfy
import solvers
from bench.gates.problems import make
from bench.measure.programs import set_up
from gfy.numerics import chunking
from solvers import chunks

pytest.importorskip("jax")


@pytest.mark.thin(9)
@pytest.mark.parametrize(
    "solver", [solvers.ProjectedGradient(), solvers.CoordinateAscent()], ids=lambda s: s.name
)
@pytest.mark.parametrize("warm", [False, True])
def test_chunks_and_the_whole_batch_agree(
    solver: gfy.InnerSolver, warm: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    work = make("dense-gini", 20, 7)
    v, stop = set_up(work.instance, "jax").inputs[-1], gfy.Stop(tol=1e-12)
    p0 = 0 * v.u + 0.25 if warm else None
    whole = solver.solve(work.problem, v, p0, stop)
    monkeypatch.setattr(chunking, "HEAVY", 1)
    monkeypatch.setattr(
        chunking, "SIZE", 3 * 8 * (20 * 20 + 20)
    )  # three examples: two chunks and a rest of one
    assert chunks._chunk(work.problem, v, p0, work.problem.energy.ranks) == 3
    parts = solver.solve(work.problem, v, p0, stop)
    assert parts.p.shape == whole.p.shape
    assert parts.converged.all()
    np.testing.assert_allclose(parts.p, whole.p, atol=1e-12)
    np.testing.assert_array_equal(parts.steps, whole.steps)


def test_light_examples_stay_together() -> None:
    work = make("pairwise-gini", 174, 256, 1)
    assert (
        chunks._chunk(work.problem, set_up(work.instance, "jax").inputs[-1], None, work.problem.energy.ranks)
        is None
    )
