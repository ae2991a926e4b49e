"""Define the losses a network is trained with, by name, and the inner problem each one predicts with.

The paper uses gfy, energy, cross_entropy and perceptron; squared and margin are further losses to try.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bench.experiments.common.models import Model
from gfy.errors import GfyValueError

LOSSES = ("gfy", "energy", "cross_entropy", "perceptron", "squared", "margin")
GRADIENTS = ("envelope", "implicit", "unrolled")


def make_solver(name: str, model: Model, loss: str) -> Any:
    """Return the inner solver: "auto" is the exact one where there is one, and a few steps on the dual for a SPEN."""
    import solvers
    from bench.experiments.common.kinked import DualSteps
    from solvers.methods.nearly_linear import NearlyLinear

    if name != "auto":
        from bench.plan.registry import make_solver as by_name

        return by_name(name)
    if loss in ("perceptron", "margin") and model.energy == "pairwise":
        return NearlyLinear()
    return {
        "unary-linear": solvers.ClosedForm(),
        "unary-rectifier": solvers.ClosedForm(),
        "pairwise": solvers.DualNewton(),
        "spen": DualSteps(),
        "concave-spen": DualSteps(),
    }[model.energy]


def make_gradient(name: str, loss: str) -> Any:
    """Return the gradient mode; a loss of the argmax itself cannot use the envelope theorem."""
    import gfy

    if name not in GRADIENTS:
        raise GfyValueError(f"gradient '{name}' is not known; there are {', '.join(GRADIENTS)}")
    if loss in ("cross_entropy", "squared") and name == "envelope":
        raise GfyValueError(f"the {loss} loss needs the derivative of p*: choose implicit or unrolled")
    if loss in ("perceptron", "margin", "energy") and name != "envelope":
        raise GfyValueError(f"the {loss} loss has no derivative of p* to take: its gradient is envelope")
    return {"envelope": gfy.Envelope(), "implicit": gfy.Implicit(), "unrolled": gfy.Unrolled(steps=50)}[name]


def make_loss(model: Model, loss: str, solver: Any, gradient: Any, stop: Any) -> Any:
    """Return a callable loss(v, y) -> [...]."""
    import gfy
    from bench.experiments.common.kinked import DualSteps, KinkedLoss

    problem = model.problem()
    if loss == "gfy" and isinstance(solver, DualSteps) and isinstance(gradient, gfy.Envelope):
        # The solve returns the multipliers, so that they are not computed again.
        return KinkedLoss(problem, stop.max_steps)
    common = {"solver": solver, "gradient": gradient, "stop": stop}
    if loss in ("cross_entropy", "squared"):
        return gfy.ArgmaxLoss(loss, problem, **common)
    classes = {
        "gfy": gfy.FenchelYoungLoss,
        "energy": gfy.EnergyLoss,
        "perceptron": gfy.PerceptronLoss,
        "margin": gfy.MarginLoss,
    }
    if loss not in classes:
        raise GfyValueError(f"loss '{loss}' is not known; there are {', '.join(LOSSES)}")
    return classes[loss](problem, **common)


def predicting_problem(model: Model, loss: str) -> Any:
    """Return the problem whose solution is the prediction: without regularizer where the loss was trained without."""
    import gfy

    problem = model.problem()
    return replace(problem, regularizer=gfy.Zero()) if loss in ("perceptron", "margin") else problem
