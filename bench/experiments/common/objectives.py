"""The losses a network is trained with, by name, and the inner problem each one predicts with.

gfy, energy, cross_entropy and perceptron are the paper's; squared and margin are there to be tried.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from bench.experiments.common.models import Model
from gfy.errors import GfyValueError

LOSSES = ("gfy", "energy", "cross_entropy", "perceptron", "squared", "margin")
GRADIENTS = ("envelope", "implicit", "unrolled")


@dataclass(frozen=True)
class NearlyLinear:
    """Solves a rank-one problem without regularizer by its neighbour with gamma s <p, p - 1> added, s = max |u|.

    Omega = 0 makes the dual piecewise constant, where Newton has nothing to go by. With a small gamma it is the
    scalar equation of `DualNewton` again, and the value found is at most gamma s * sum p (1 - p) below the
    maximum: of that sum generically one coordinate is not an integer, so gamma s / 4. The size s makes gamma a
    relative one: the perceptron's loss falls with the size of u, so a network in training shrinks it, and any fixed
    gamma would become the regularizer that this loss is there to do without.
    """

    gamma: float = 1e-3

    @property
    def name(self) -> str:
        return "NearlyLinear"

    def unsupported(self, problem: Any) -> str | None:
        import gfy
        import solvers

        if not isinstance(problem.regularizer, gfy.Zero):
            return f"{problem.regularizer.name} is a regularizer already: use DualNewton"
        if not isinstance(problem.energy, gfy.Pairwise):
            return f"{problem.energy.name} is not scaled by the size of u: NearlyLinear serves Pairwise"
        return solvers.DualNewton().unsupported(self._neighbour(problem))

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = None) -> Any:
        import gfy
        import solvers

        xp = gfy.backend_of(v).xp
        size = xp.max(xp.abs(v.u), axis=-1)[..., None] + 1e-30
        # <u, p> / s - <a / sqrt(s), p>^2 / 2 has the same argmax as the energy itself
        scaled = gfy.Pairwise.Input(v.u / size, v.A / xp.sqrt(size)[..., None])
        return solvers.DualNewton().solve(self._neighbour(problem), scaled, p0, stop or gfy.Stop())

    def _neighbour(self, problem: Any) -> Any:
        import gfy

        return replace(problem, regularizer=gfy.BinaryGini(self.gamma))


@dataclass(frozen=True)
class FixedPoint:
    """p <- p + 2 / (t + 2) (p_Omega(grad_p Phi(v, p)) - p), a fixed number of steps: generalised conditional gradient.

    Each step is one gradient and one call of the regularizer's argmax map: no line search and no state an example,
    which is what a grid of fifty networks pays for. At the kinks of rectifiers the shrinking step averages the
    slopes on both sides, where a plain gradient step would hop between them.
    """

    @property
    def name(self) -> str:
        return "FixedPoint"

    def unsupported(self, problem: Any) -> str | None:
        reason = problem.regularizer.no_argmax(problem.domain)
        return None if reason is None else str(reason)

    def solve(self, problem: Any, v: Any, p0: Any = None, stop: Any = None) -> Any:
        import gfy

        stop = stop or gfy.Stop()
        backend = gfy.backend_of(v)
        v, p0 = backend.stop_gradient((v, p0))
        p = problem.initial_point(v, p0)

        def step(state: tuple[Any, Any]) -> tuple[Any, Any]:
            p, t = state
            return p + (2 / (t + 2)) * (problem.fixed_point(v, p) - p), t + 1

        p, _ = backend.scan(step, (p, 0 * p[..., :1]), stop.max_steps)
        error = backend.xp.max(backend.xp.abs(problem.fixed_point(v, p) - p), axis=-1)
        return gfy.Solution(p, error, 0 * error + stop.max_steps, error <= stop.tol)


def make_solver(name: str, model: Model, loss: str) -> Any:
    """The inner solver: "auto" is the exact one where there is one, and the fixed-point iteration for a SPEN."""
    import solvers

    if name != "auto":
        from bench.plan.registry import make_solver as by_name

        return by_name(name)
    if loss in ("perceptron", "margin") and model.energy == "pairwise":
        return NearlyLinear()
    return {
        "unary-linear": solvers.ClosedForm(),
        "unary-rectifier": solvers.ClosedForm(),
        "pairwise": solvers.DualNewton(),
        "spen": FixedPoint(),
        "concave-spen": FixedPoint(),
    }[model.energy]


def make_gradient(name: str, loss: str) -> Any:
    """The gradient mode; a loss of the argmax itself cannot use the envelope theorem."""
    import gfy

    if name not in GRADIENTS:
        raise GfyValueError(f"gradient '{name}' is not known; there are {', '.join(GRADIENTS)}")
    if loss in ("cross_entropy", "squared") and name == "envelope":
        raise GfyValueError(f"the {loss} loss needs the derivative of p*: choose implicit or unrolled")
    if loss in ("perceptron", "margin", "energy") and name != "envelope":
        raise GfyValueError(f"the {loss} loss has no derivative of p* to take: its gradient is envelope")
    return {"envelope": gfy.Envelope(), "implicit": gfy.Implicit(), "unrolled": gfy.Unrolled(steps=50)}[name]


def make_loss(model: Model, loss: str, solver: Any, gradient: Any, stop: Any) -> Any:
    """A callable loss(v, y, p0) -> [...] with `.predict(v, p0)`."""
    import gfy

    problem = model.problem()
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
    """The problem whose solution is the prediction: without regularizer where the loss was trained without."""
    import gfy

    problem = model.problem()
    return replace(problem, regularizer=gfy.Zero()) if loss in ("perceptron", "margin") else problem
