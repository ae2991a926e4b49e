"""Start from a learned proposal, take a few Newton steps, and use the full solver where the certificate fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from gfy.backend import backend_of, floating_leaf
from gfy.calling.keeping import kept
from gfy.errors import GfyTypeError, GfyValueError
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers import verdict
from solvers.again import again, better
from solvers.auto import Auto
from solvers.kernels.at_once import AtOnce
from solvers.loop import all_finite, check


@dataclass(frozen=True)
class Amortised:
    """Start from a proposal of p*, take a few fast steps, and use the full solver where the certificate says so.

    The duality gap at the finished p is computed per example and decides. An example whose gap is within the
    tolerance (or within rounding) is answered, and `fallback` solves each other example from there. `converged` and
    `result` therefore belong to the p that is returned, however bad the proposal is. Where both parts are the same
    compiled method, which certifies each example by itself, one call takes the steps of both.

    JAX compiles the arrays of a proposal into its program. To change the proposal, pass a new one, and do not change
    the arrays of an old one. A p0 that is given is used instead of the proposal.

    Args:
        proposal: maps the energy's Input v to p [..., k]: a `solvers.amortised.Proposal`, or any function in the
            framework of v. What it returns is projected onto C. Default: none, `finish` starts where it does by
            itself.
        steps: the most steps of `finish`, at least 1; 3 by default.
        finish: the solver that starts at the proposal. Default: what `Auto` chooses for the problem (`DualNewton` and
            `ActiveSet` for quadratic energies, compiled).
        fallback: the solver of the examples that are not certified then. Default: `Auto()`.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        GfyTypeError: for a proposal that cannot be called and for a solver that is none.
        GfyValueError: for `steps` below 1, and for a proposal whose shape is not that of p.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.Pairwise.Input(u=array([[1.0, -0.5]]), A=array([[[1.0], [0.5]]]))
        >>> solvers.Amortised(lambda v: v.u, steps=2).solve(problem, v).p.tolist()  # u itself is the proposal
        [[0.654, 0.077]]
    """

    proposal: Callable[[Any], Any] | None = None
    steps: int = 3
    finish: Any = None
    fallback: Any = Auto()
    fixed_tolerance: ClassVar[bool] = True  # True: the solvers that finish are compiled with the tolerance

    def __post_init__(self) -> None:
        if self.proposal is not None and not callable(self.proposal):
            raise GfyTypeError(
                f"Amortised.proposal must be a function of v that returns p [..., k], got {self.proposal!r}"
            )
        if self.steps < 1:
            raise GfyValueError(f"Amortised.steps must be at least 1, got {self.steps!r}")
        for field in ("finish", "fallback"):
            given = getattr(self, field)
            if given is None and field == "finish":
                continue
            if isinstance(given, type) or not (hasattr(given, "solve") and hasattr(given, "unsupported")):
                raise GfyTypeError(
                    f"Amortised.{field} must be an inner solver such as solvers.DualNewton(), got {given!r}"
                )

    @property
    def name(self) -> str:
        return "Amortised"

    def unsupported(self, problem: InnerProblem) -> str | None:
        if not problem.concave:
            return (
                f"{problem.energy.name} is not concave in p: no certificate can tell whether a proposal is the "
                "maximum; use MultiStart or ProjectedGradient"
            )
        return _reason(self.fallback, self.finish, problem)

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        check(self, problem, v)
        backend = backend_of(v)
        v, p0 = backend.stop_gradient((v, p0))
        finish = self._finish(problem, v)
        if _compiled(finish, problem, v) and _method(self.fallback, problem, v) == _method(
            finish, problem, v
        ):
            # The fallback would continue with the steps of the same compiled method, so one call takes them
            # all.
            with backend.constant():
                return self.fallback.solve(problem, v, self._start(problem, v, p0), stop)  # type: ignore[no-any-return]
        found = self.attempt(problem, v, p0, stop)

        def rest(found: Solution) -> Solution:
            # A compiled solve of the whole batch takes less time than gathering the rest of it for the host.
            if backend.staged or _compiled(self.fallback, problem, v):
                return better(problem, v, found, self.fallback.solve(problem, v, found.p, stop))
            full = again(self.fallback, problem, v, found.p, stop, found.converged)
            return better(problem, v, found, full)

        done = backend.xp.all(found.converged)
        if backend.is_concrete(done):
            return found if bool(done) else rest(found)
        return backend.cond(done, lambda found: found, rest, found)

    def attempt(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        """Return the state before any fallback: `converged` [...] says which examples the certificate accepted.

        Args:
            problem: the energy, the regularizer and the set.
            v: the energy's Input.
            p0: a start [..., k] that takes the proposal's place. Default: the proposal.
            stop: the tolerance; at most `steps` steps are taken whatever it allows; `Stop()` by default.

        Returns:
            The `Solution` after at most `steps` steps, its flags held against the duality gap at its p.

        Raises:
            GfyValueError: for a proposal whose shape is not that of p.

        Example:
            >>> accepted = solvers.Amortised(proposal).attempt(problem, v).converged
        """
        backend = backend_of(v)
        finish = self._finish(problem, v)
        with backend.constant():
            start = self._start(problem, v, p0)
            short = replace(stop, max_steps=min(self.steps, stop.max_steps))
            found = finish.solve(problem, v, start, short)
            return found if _compiled(finish, problem, v) else certified(problem, v, found, stop)

    def _finish(self, problem: InnerProblem, v: Input) -> Any:
        return self.finish or Auto().choose(problem, v).solver

    def _start(self, problem: InnerProblem, v: Input, p0: Array | None) -> Array | None:
        """Return p0, or else the proposed start in C, which is the middle of C where a proposal is not finite."""
        if p0 is not None or self.proposal is None:
            return None if p0 is None else problem.initial_point(v, p0)
        backend = backend_of(v)
        xp = backend.xp
        p, shape = self.proposal(v), (*problem.energy.batch_shape(v), problem.energy.dim(v))
        if tuple(getattr(p, "shape", ())) != shape:
            raise GfyValueError(
                f"Amortised.proposal must return p of shape {shape} for this v, got "
                f"{tuple(p.shape) if hasattr(p, 'shape') else type(p).__name__}"
            )
        like = floating_leaf(v)
        if p.dtype != like.dtype:
            p = xp.astype(p, like.dtype)
        p = backend.stop_gradient(p)
        sound = all_finite(p)
        if not (backend.is_concrete(sound) and bool(xp.all(sound))):
            p = xp.where(sound[..., None], p, problem.initial_point(v))
        return problem.domain.project(p)


def _compiled(solver: Any, problem: InnerProblem, v: Input) -> bool:
    """Return whether this library's compiled code answers, which holds its flags against the gap at its p by itself."""
    return isinstance(solver, AtOnce) and solver.compiled(problem, v)


def _method(solver: Any, problem: InnerProblem, v: Input) -> Any:
    """Return the solver that does the work: the one that is chosen, where a solver only chooses."""
    return solver.choose(problem, v).solver if isinstance(solver, Auto) else solver


# The answer is kept, because `unsupported` takes longer than many solves.
@kept(256)
def _reason(fallback: Any, finish: Any, problem: InnerProblem) -> str | None:
    reason: str | None = fallback.unsupported(problem)
    if reason is None and finish is not None:
        reason = finish.unsupported(problem)
    return reason


def certified(problem: InnerProblem, v: Input, found: Solution, stop: Stop) -> Solution:
    """Return what a solver found, after its claim to have converged is checked by the duality gap at its p."""
    xp = backend_of(found.p).xp
    result = xp.astype(xp.zeros_like(found.error), xp.int32) if found.result is None else found.result
    held = verdict.results(problem, v, found.p, found.error, stop, found.converged, result)
    return found._replace(converged=verdict.converged(held), result=held)
