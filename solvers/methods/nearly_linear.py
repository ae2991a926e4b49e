"""Solve pairwise energies without a regularizer by a nearby problem with a small one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gfy import energies, regularizers
from gfy.backend import backend_of
from gfy.numerics.arithmetic import dot
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.dual.newton import DualNewton
from solvers.loop import check


@dataclass(frozen=True)
class NearlyLinear:
    """Solve a problem without regularizer by a nearby one with gamma s <p, p - 1> added, s = max |u|; p [..., k].

    With Omega = 0 the derivative of the dual is piecewise constant in the scores, so Newton's method has no curvature
    to use. With a small gamma the equation is that of `DualNewton`. The value that is found is at most gamma s * sum
    p (1 - p) below the maximum. In general one coordinate is not an integer, so that this is at most gamma s / 4. The
    factor s makes gamma relative: the loss of the perceptron decreases with the size of u, so a network in training
    makes u smaller, and a fixed gamma would become the regularizer that this loss does without. The reported error is
    the Frank-Wolfe gap of the problem itself, relative to its value.
    """

    gamma: float = 1e-3

    @property
    def name(self) -> str:
        return "NearlyLinear"

    def unsupported(self, problem: InnerProblem) -> str | None:
        if not problem.regularizer.zero:
            return f"{problem.regularizer.name} is a regularizer already: use DualNewton"
        if problem.energy.interactions != "low rank":
            return f"{problem.energy.name} has no interactions U = -A A^T of low rank: use Auto"
        return DualNewton().unsupported(self._neighbour(problem))

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        check(self, problem, v)
        backend = backend_of(v)
        xp = backend.xp
        v, p0 = backend.stop_gradient((v, p0))
        form = problem.energy.quadratic(v)
        assert form is not None
        assert isinstance(form.curvature, energies.LowRank)
        size = xp.max(xp.abs(form.u), axis=-1)[..., None] + 1e-30
        # <u, p> / s - <a / sqrt(s), p>^2 / 2 has the same argmax as the energy itself
        scaled = energies.Pairwise.Input(form.u / size, form.curvature.A / xp.sqrt(size)[..., None])
        found = DualNewton().solve(self._neighbour(problem), scaled, p0, stop)
        slope = problem.grad(v, found.p)
        value = xp.abs(problem.value(v, found.p))
        gap = dot(slope, problem.domain.linear_oracle(slope) - found.p)
        error = gap / xp.where(value > 1, value, xp.ones_like(value))
        return Solution(found.p, error, found.steps, (error <= stop.tol) & found.converged)

    def _neighbour(self, problem: InnerProblem) -> InnerProblem:
        return replace(problem, energy=energies.Pairwise(), regularizer=regularizers.BinaryGini(self.gamma))
