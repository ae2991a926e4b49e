"""Frank-Wolfe: four variants, exact steps, and the mixture of vertices it hands back."""

from __future__ import annotations

import numpy as np
import pytest
import solver_problems as problems

import gfy
import solvers
from gfy.sets.base import ConvexSet

STOP = gfy.Stop(tol=1e-8, max_steps=4000)


@pytest.mark.parametrize("variant", ["classic", "away", "pairwise", "blended"])
@pytest.mark.parametrize("name", ["dense-gini-box", "shared-gini-simplex", "dense-norm-hull"])
def test_variants_are_certified(variant: str, name: str, rng: np.random.Generator) -> None:
    pytest.importorskip("torch")
    problem, v = problems.catalogue(rng)[name]
    v = problems.place(v, "torch")
    found = solvers.FrankWolfe(variant).solve(problem, v, stop=gfy.Stop(1e-8, 600))
    gap = problems.relative_gap(problem, v, found.p)
    assert gap.max() <= (2e-2 if variant == "classic" else 1e-7)


@pytest.mark.parametrize("name", ["shared-gini-simplex", "dense-norm-hull", "dense-norm-birkhoff"])
def test_the_active_set_makes_the_solution(name: str, rng: np.random.Generator) -> None:
    torch = pytest.importorskip("torch")
    problem, v = problems.catalogue(rng)[name]
    v = problems.place(v, "torch")
    weights, atoms, found = solvers.FrankWolfe("pairwise").solve_active(problem, v, stop=STOP)
    assert bool((weights >= 0).all())
    assert torch.allclose(weights.sum(-1), torch.ones_like(weights.sum(-1)))
    assert torch.allclose((weights[..., None] * atoms).sum(-2), found.p, atol=1e-12)
    held = atoms[weights > 0]
    vertices = torch.as_tensor(problem.domain.vertices(found.p.shape[-1]))
    apart = (held[:, None] - vertices[None]).abs().amax(-1).amin(-1)
    assert float(apart.max()) <= 1e-12, "every atom is a vertex of the set"


def test_solutions_are_sparse(rng: np.random.Generator) -> None:
    pytest.importorskip("torch")
    problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.Gini(), gfy.Simplex())
    v = problems.quadratic(rng, 3, 40)
    v = problems.place(gfy.LinearQuadratic.Input(4 * v.u, v.U), "torch")
    weights, _, found = solvers.FrankWolfe("blended").solve_active(problem, v, stop=STOP)
    assert int((weights > 1e-9).sum(-1).max()) <= 12
    assert problems.relative_gap(problem, v, found.p).max() <= 1e-7


class OracleOnly(ConvexSet):
    """A set that answers nothing but linear questions: the simplex, as a black box."""

    def linear_oracle(self, scores: object) -> object:
        return gfy.Simplex().linear_oracle(scores)


def test_a_linear_oracle_is_enough(rng: np.random.Generator, backend: str) -> None:
    v = problems.place(problems.quadratic(rng, 3, 7), backend)
    blind = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.SquaredNorm(), OracleOnly())
    seeing = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.SquaredNorm(), gfy.Simplex())
    found = solvers.FrankWolfe().solve(blind, v, stop=STOP)
    assert problems.relative_gap(seeing, v, found.p).max() <= 1e-7


def test_refuses_unbounded_sets_and_unknown_variants() -> None:
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.SquaredNorm(), gfy.Reals())
    assert "not bounded" in str(solvers.FrankWolfe().unsupported(problem))
    with pytest.raises(gfy.GfyValueError, match="blended"):
        solvers.FrankWolfe("lazy")
