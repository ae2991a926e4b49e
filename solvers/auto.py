"""Choose the solver that serves a problem best, by what the problem provides and its size."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

from gfy.backend import backend_of, dtype_name, floating_leaf
from gfy.energies import LowRank
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers import measured
from solvers.again import again, better, in_numpy
from solvers.dual.newton import DualNewton
from solvers.dual.newton import by_framework as dual_by_framework
from solvers.kernels import call
from solvers.kernels.at_once import AtOnce
from solvers.kernels.response import response
from solvers.loop import check
from solvers.methods import relative, steady
from solvers.methods.closed_form import ClosedForm
from solvers.methods.free_set import ActiveSet
from solvers.methods.interior_point import InteriorPoint
from solvers.methods.projected_gradient import ProjectedGradient
from solvers.methods.projected_newton import by_framework as newton_by_framework

_MOST_DENSE = 512  # Coordinates. Above this, a k x k system per example and step takes too long.
# Steps for a problem with an entropy, which converge linearly. Examples that have not converged by then are
# given to the next solver.
_TRIES = 300
# Up to this many coordinates, compiled systems of the free ones need fewer operations than gradient steps.
# With a quadratic Omega about half of the coordinates are free (far fewer on simplices), with an entropy all
# of them.
_MOST_FREE, _MOST_ENTROPIC = 1024, 128
_MOST_RANK = 64  # for a higher rank an m x m system per example and step costs more than gradient steps


class Choice(NamedTuple):
    """Hold a solver and a sentence with the reason why it was chosen."""

    solver: Any
    reason: str


class _Plan(NamedTuple):
    """Hold a solver, the solve of its framework where compiled code serves, the second solver, and if the
    first is short."""

    solver: Any
    otherwise: call.Framework | None
    following: Any | None
    short: bool

    def run(self, problem: InnerProblem, v: Input, p0: Array | None, stop: Stop) -> Solution:
        if self.otherwise is not None and isinstance(stop.tol, int | float):
            return call.solve(problem, v, p0, stop, self.otherwise)
        found: Solution = self.solver.solve(problem, v, p0, stop)
        return found


_PLANS: dict[Any, _Plan] = {}
_MOST_PLANS = 512
_OTHERWISE: dict[type, call.Framework] = {DualNewton: dual_by_framework, ActiveSet: newton_by_framework}


@dataclass(frozen=True)
class Auto(AtOnce):
    """Choose a solver for the problem; `choose(problem, v)` returns the chosen one and the reason.

    Examples that it leaves unsolved are given to the next solver, `next(problem, v, solver)`. This is an
    interior-point method, which takes a dozen steps where Omega is weak and other methods take thousands. Where all
    examples converge, the next solver is never run.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.Auto().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    any_framework: ClassVar[bool] = True  # True: the same code runs in every framework
    # True: where compiled code is chosen, it needs the tolerance when it is staged
    fixed_tolerance: ClassVar[bool] = True

    @property
    def name(self) -> str:
        return "Auto"

    def unsupported(self, problem: InnerProblem) -> str | None:
        return self.choose(problem).solver.unsupported(problem)

    def choose(self, problem: InnerProblem, v: Input | None = None) -> Choice:
        """Return the solver and the reason; v's shapes refine the choice where they matter."""
        energy = problem.energy
        if ClosedForm().unsupported(problem) is None:
            return Choice(ClosedForm(), "the solution has a closed form")
        dual = DualNewton()
        if energy.kinked and (problem.concave or dual.unsupported(problem) is None):
            # Gradient steps stall at kinks, so only the dual method can solve the problem.
            most = "" if problem.concave else "; the energy is not concave, and the answer is a local maximum"
            return Choice(
                dual, f"kinks of rectifiers are solved by their multipliers, one unknown per rectifier{most}"
            )
        offers = [*self._quadratic(problem, v), self._gradients(problem)]
        found = None
        if v is not None and len(offers) > 1 and call.serves(problem, v):
            found = _measured(problem, v, offers)
        return found or offers[0]

    def _quadratic(self, problem: InnerProblem, v: Input | None) -> list[Choice]:
        """Return the solvers that serve a quadratic energy of this size, by the number of their operations."""
        offers = []
        if DualNewton().unsupported(problem) is None:
            rank = None if v is None else _rank(problem, v)
            if rank is None or rank <= _MOST_RANK:
                reason = f"U = -A A^T has rank {rank or 'm'}: the dual has as many unknowns"
                offers.append(Choice(DualNewton(), reason))
        if v is not None and _compiled(problem, v):
            offers.append(Choice(
                ActiveSet(),
                f"a quadratic energy with k = {problem.energy.dim(v)} on the processor: compiled Newton steps on the "
                "free coordinates, one example at a time",
            ))  # fmt: skip
        return offers

    def _gradients(self, problem: InnerProblem) -> Choice:
        """Return the gradient method that serves the problem at any size."""
        if not problem.concave:
            return Choice(
                ProjectedGradient(), "the energy is not concave: projected gradients reach a stationary point"
            )
        if not problem.energy.linear and steady.unsupported(problem) is None:
            return Choice(
                ProjectedGradient("steady"),
                "a smooth concave energy, a quadratic regularizer and a bounded set: accelerated steps of one "
                "gradient each",
            )
        return Choice(ProjectedGradient(), "a concave energy on a set with a projection")

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        found = self.at_once(problem, v, p0, stop)
        if found is not None:
            return found
        plan = self._plan(problem, v)
        if plan.following is None:
            return plan.run(problem, v, p0, stop)
        short = replace(stop, max_steps=min(stop.max_steps, _TRIES)) if plan.short else stop
        found = plan.run(problem, v, p0, short)
        backend, following = backend_of(v), plan.following

        def more(found: Solution) -> Solution:
            here, start = backend.stop_gradient((v, p0))
            return better(problem, here, found, again(following, problem, here, start, stop, found.converged))

        return backend.cond(found.converged.all(), lambda found: found, more, found)

    def compiled(self, problem: InnerProblem, v: Input) -> bool:
        plan = self._plan(problem, v)
        linear = problem.energy.linear and isinstance(plan.solver, ClosedForm)
        return plan.otherwise is not None or (linear and call.facts_of(problem) is not None)

    def _plan(self, problem: InnerProblem, v: Input) -> _Plan:
        """Return the first and the second solver; the choice is cached by the form of v, because calls are short."""
        look = call.look(v)
        key = (problem, look)
        try:
            known = None if look is None else _PLANS.get(key)
        except TypeError:  # A part cannot be hashed, so the plan cannot be kept.
            known = look = None
        if known is not None:
            return known
        check(self, problem, v)
        solver = self.choose(problem, v).solver
        otherwise = _OTHERWISE.get(type(solver)) if call.serves(problem, v) else None
        plan = _Plan(solver, otherwise, self.next(problem, v, solver), relative.serves(problem))
        if look is not None:
            if len(_PLANS) >= _MOST_PLANS:
                _PLANS.clear()
            _PLANS[key] = plan
        return plan

    def next(self, problem: InnerProblem, v: Input, solver: Any) -> Any | None:
        """Return the second solver, for examples that the chosen one leaves unsolved, or None where there is none."""
        if problem.energy.metric is not None:
            # The closed form of a metric solves the examples whose v lies in C. The others need iterations.
            other = DualNewton() if problem.energy.kinked else ProjectedGradient()
            return other if isinstance(solver, ClosedForm) else None
        if problem.energy.kinked:
            # Multipliers need more digits than float32 has where Omega is weak. The second solve is in float64.
            single = dtype_name(floating_leaf(v).dtype) == "float32"
            return solver if single and in_numpy(problem) and isinstance(solver, DualNewton) else None
        if isinstance(solver, ClosedForm) or InteriorPoint().unsupported(problem) is not None:
            return None
        rank = _rank(problem, v)
        small = problem.energy.dim(v) <= _MOST_DENSE or (rank is not None and rank <= _MOST_RANK)
        return InteriorPoint() if small else None

    def response(self, problem: InnerProblem, v: Input, p: Array) -> Callable[[Array], Array] | None:
        """Return the compiled response of p* to moved scores, or None where the framework must solve the systems."""
        return response(problem, v, p)

    # Unrolling differentiates the steps of ProjectedGradient, which are the same for every problem.

    def init(self, problem: InnerProblem, v: Input, p0: Array | None) -> Any:
        return ProjectedGradient().init(problem, v, p0)

    def step(self, problem: InnerProblem, v: Input, state: Any) -> Any:
        return ProjectedGradient().step(problem, v, state)


def _compiled(problem: InnerProblem, v: Input) -> bool:
    """Return whether compiled Newton steps serve the problem and are the fastest at its size."""
    if ActiveSet().unsupported(problem) is not None or not call.serves(problem, v):
        return False
    most = _MOST_FREE if problem.regularizer.quadratic else _MOST_ENTROPIC
    return problem.energy.dim(v) <= most


def _measured(problem: InnerProblem, v: Input, offers: list[Choice]) -> Choice | None:
    """Return the choice that stored rows show to be the fastest at this size, or None where none were measured."""
    asked = measured.form(problem, v)
    if asked is None:
        return None
    by_name = {offer.solver.name: offer for offer in offers}
    found = measured.fastest(asked, backend_of(v).name, list(by_name))
    if found is None:
        return None
    name, said = found
    return Choice(by_name[name].solver, f"{by_name[name].reason}; {said}")


def _rank(problem: InnerProblem, v: Input) -> int | None:
    curvature = problem.energy.curvature(v)
    return int(curvature.A.shape[-1]) if isinstance(curvature, LowRank) else None
