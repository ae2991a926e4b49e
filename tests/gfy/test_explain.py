"""What `explain` says of a problem must be what the library then does with it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gfy
import solvers
from gfy.theory.theorems import unique

BOX = gfy.Box(0.0, 1.0)
SOLVERS = [solvers.ClosedForm(), solvers.DualNewton(), solvers.ProjectedGradient(), solvers.FrankWolfe()]
# The paper's Table 1: energy, in v, in p, the loss in v, closed form.
TABLE = [
    (gfy.Bilinear(), gfy.BinaryGini(), BOX, "linear", "linear", "convex", True),
    (gfy.LinearQuadratic(), gfy.SquaredNorm(), gfy.Reals(), "linear", "concave", "convex", True),
    (
        gfy.Rectifier(np.ones((3, 2))),
        gfy.BinaryGini(),
        BOX,
        "convex",
        "linear",
        "a difference of convex functions",
        True,
    ),
    (gfy.Maxout(), gfy.BinaryGini(), BOX, "convex", "linear", "a difference of convex functions", True),
    (gfy.LogSumExp(), gfy.BinaryGini(), BOX, "convex", "linear", "a difference of convex functions", True),
    (gfy.InputConvexNetwork(), gfy.BinaryGini(), BOX, "nonconvex", "concave", "nonconvex", False),
    (gfy.Probabilistic(), gfy.Shannon(), gfy.Simplex(), "nonconvex", "linear", "nonconvex", True),
    (
        gfy.CustomEnergy(lambda v, p: v.sum(-1)),
        gfy.Gini(),
        BOX,
        "nonconvex",
        "nonconcave",
        "nonconvex",
        False,
    ),
]


@pytest.mark.parametrize("line", TABLE, ids=lambda line: line[0].name)
def test_the_papers_table_of_examples(line: Any) -> None:
    energy, regularizer, domain, in_v, in_p, loss, closed = line
    found = gfy.explain(gfy.InnerProblem(energy, regularizer, domain))
    assert (found.in_v, found.in_p, found.loss, found.closed_form is not None) == (in_v, in_p, loss, closed)
    assert found.holds("difference of convex") == (loss != "nonconvex")
    assert found.holds("loss is convex") == (loss == "convex")


@pytest.mark.parametrize("line", TABLE, ids=lambda line: line[0].name)
def test_a_closed_form_is_claimed_exactly_where_the_closed_form_solver_serves(line: Any) -> None:
    problem = gfy.InnerProblem(*line[:3])
    assert (gfy.explain(problem).closed_form is not None) == (
        solvers.ClosedForm().unsupported(problem) is None
    )


def test_solvers_and_modes_are_asked_not_guessed() -> None:
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), BOX)
    found = gfy.explain(problem, solvers=SOLVERS)
    assert found.solvers == {s.name: s.unsupported(problem) for s in SOLVERS}
    for mode in (gfy.Envelope(), gfy.Implicit(), gfy.Unrolled()):
        assert found.gradients[mode.name] == {s.name: mode.unsupported(problem, s) for s in SOLVERS}
    text = str(found)
    assert str(found.solvers["ClosedForm"]) in text
    assert "implicit with DualNewton" in text
    assert gfy.explain(problem).solvers == {}


@pytest.mark.parametrize(
    ("statement", "holds"),
    [
        ("envelope", (True, False, False)),
        ("smooth", (True, False, False)),
        ("zero at y", (True, False, False)),
        ("quadratic lower bound", (True, False, False)),
        ("certificate", (True, True, False)),
        ("biconjugate", (True, True, False)),
        ("never negative", (True, True, True)),
    ],
)
def test_each_assumption_takes_its_theorems_with_it(statement: str, holds: tuple[bool, ...]) -> None:
    problems = (
        gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), BOX),
        gfy.InnerProblem(gfy.Pairwise(), gfy.Zero(), BOX),
        gfy.InnerProblem(gfy.Spen(), gfy.BinaryGini(), BOX),
    )
    assert tuple(gfy.explain(p, k=3).holds(statement) for p in problems) == holds


def test_constants_hold_on_draws(asarray: Any, tonumpy: Any, rng: Any) -> None:
    """beta / gamma bounds how fast p* moves, beta + beta^2 / gamma how fast the conjugate's gradient does."""
    U = rng.normal(size=(4, 3))
    problem = gfy.InnerProblem(gfy.Bilinear(U), gfy.BinaryGini(0.6), BOX)
    why = next(f.why for f in gfy.explain(problem).findings if "smooth" in f.statement)
    beta, gamma = np.linalg.norm(U, 2), 1.2
    assert f"{beta:.6g}" in why
    assert f"{beta / gamma:.6g}" in why
    v, w = rng.normal(size=(2, 200, 4))
    p, q = (tonumpy(gfy.argmax(problem, asarray(x))) for x in (v, w))
    apart = np.linalg.norm(v - w, axis=-1)
    assert np.all(np.linalg.norm(p - q, axis=-1) <= beta / gamma * apart + 1e-12)
    assert np.all(np.linalg.norm((p - q) @ U.T, axis=-1) <= (beta + beta**2 / gamma) * apart + 1e-12)


def test_calibration_is_reported_with_its_factor() -> None:
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), BOX)
    found = gfy.explain(problem, k=6)
    assert found.calibrated["hamming"] is None
    assert "Simplex" in str(found.calibrated["zero_one"])
    assert math.isclose(found.bounds["hamming"], gfy.calibration_bound(problem, "hamming", 6).factor)
    assert f"{found.bounds['hamming']:.6g}" in str(found)


def test_an_input_makes_more_constants_known(asarray: Any, rng: Any) -> None:
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), BOX)
    A = rng.normal(size=(2, 5, 1))
    found = gfy.explain(problem, gfy.Pairwise.Input(asarray(np.zeros((2, 5))), asarray(A)))
    beta = (A**2).sum((1, 2)).max()
    assert math.isclose(found.constants["smoothness of Phi in p, over the given v"], beta)
    assert math.isclose(found.constants["diameter of C"], math.sqrt(5))
    assert math.isclose(found.constants["condition number of the inner problem"], (beta + 2) / 2)
    with pytest.raises(KeyError):
        found.holds("the moon is cheese")


@pytest.mark.parametrize(
    "omega", [gfy.FDivergence("kl"), gfy.FDivergence("alpha", alpha=1.5), gfy.Shannon()], ids=repr
)
def test_an_entropy_on_an_unbounded_box_is_strictly_convex(omega: Any) -> None:
    problem = gfy.InnerProblem(gfy.Bilinear(), omega, gfy.Box(0.0, math.inf))
    assert omega.strong_convexity(problem.domain) == 0
    holds, sentence = unique(problem)
    assert holds
    assert "strictly (not strongly) convex" in sentence
