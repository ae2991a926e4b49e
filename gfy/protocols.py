"""Define the one protocol that solvers and gradient modes of both frameworks implement."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from gfy.calling.plugins import entry_points
from gfy.errors import GfyValueError

if TYPE_CHECKING:
    from gfy.problem import InnerProblem

Array = Any  # jax.Array | torch.Tensor (| numpy.ndarray inside certificates); leading axes are batch
Input = Any  # the NamedTuple `Input` of an energy: a loss is differentiated with respect to all of it


class Result(IntEnum):
    """Say why the solve of one example ended; `sentence` says it in words.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Gini(), gfy.Simplex())
        >>> found = gfy.argmax(problem, gfy.Bilinear.Input(array([1.0, 0.5, -2.0])), return_solution=True)
        >>> gfy.Result(int(found.result)).sentence
        "The solver's error reached the tolerance."
    """

    CONVERGED = 0
    ROUNDING_FLOOR = 1
    STEP_LIMIT = 2
    STALLED_AT_KINK = 3
    NOT_FINITE = 4
    INACCURATE = 5
    UNBOUNDED = 6

    @property
    def sentence(self) -> str:
        return _SENTENCES[self]


_SENTENCES = {
    Result.CONVERGED: "The solver's error reached the tolerance.",
    Result.ROUNDING_FLOOR: "The error reached the level below which rounding hides further progress.",
    Result.STEP_LIMIT: "The step limit was reached before the tolerance.",
    Result.STALLED_AT_KINK: "The steps became too short to make progress, as happens at a kink of the energy.",
    Result.NOT_FINITE: "A step produced a value that is NaN or infinite; the last finite point is returned.",
    Result.INACCURATE: "The method came to rest, but the duality gap at its answer is above tolerance and rounding.",
    Result.UNBOUNDED: "The maximum is infinite: Phi - Omega grows without bound on the set at this v.",
}


class Solution(NamedTuple):
    """Hold what a solver returns: p [..., k] and what the solver itself reports about it (never used to rank solvers).

    `converged` belongs to the p that is returned, in the dtype in which it is returned. It is true exactly where
    `result` is CONVERGED or ROUNDING_FLOOR.

    Args:
        p: the points found, [..., k].
        error: the solver's own stopping measure at p, [...].
        steps: the iterations spent on each example, [...]; -1 where the method is not iterative.
        converged: whether each example is solved, [...].
        result: why each solve ended, a value of `gfy.Result`, [...]; None where a solver does not say (the default).

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Gini(), gfy.Simplex())
        >>> found = gfy.argmax(problem, gfy.Bilinear.Input(array([1.0, 0.5, -2.0])), return_solution=True)
        >>> found.p.tolist(), bool(found.converged)
        ([0.75, 0.25, 0.0], True)
    """

    p: Array
    error: Array  # [...] the solver's own stopping measure, at this p
    steps: Array  # [...] iterations spent on each example, -1 where the method is not iterative
    converged: Array  # [...] bool
    result: Array | None = None  # [...] int32, a value of `Result`; None where a solver does not say


@dataclass(frozen=True)
class Stop:
    """Say when an iterative solver may stop: its own error is at most `tol`, or `max_steps` steps were taken.

    Args:
        tol: the error at which a solver may stop, a number >= 0; 1e-8 by default.
        max_steps: the most steps per example, at least 1; 1000 by default.

    Raises:
        GfyValueError: for a negative tolerance or no step at all.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Gini(), gfy.Simplex())
        >>> v = gfy.Bilinear.Input(array([1.0, 0.5, -2.0]))
        >>> gfy.argmax(problem, v, stop=gfy.Stop(tol=1e-4, max_steps=50)).tolist()
        [0.75, 0.25, 0.0]
    """

    tol: float = 1e-8
    max_steps: int = 1_000

    def __post_init__(self) -> None:
        if not self.tol >= 0:
            raise GfyValueError(f"Stop.tol must be a number >= 0, got {self.tol!r}")
        if self.max_steps < 1:
            raise GfyValueError(f"Stop.max_steps must be at least 1, got {self.max_steps!r}")


@runtime_checkable
class InnerSolver(Protocol):
    """Define what every solver offers: a `name`, `unsupported(problem)` and `solve(problem, v, p0, stop)`.

    `unsupported` returns the reason why the solver does not serve a problem, in a sentence, or None where it does.
    `solve` returns a `Solution` for a batch of inputs v. A class of your own needs no base class.

    A solver that has compiled code may have three more methods. `response(problem, v, p)` gives `gfy.Implicit` its
    linear solves, `at_once(problem, v, p0, stop, check)` gives `gfy.argmax` the solution in one call, and
    `whole_loss(problem, stop, target_tol, reduction, check)` gives `gfy.FenchelYoungLoss` the loss in one call. Each
    may return None, and the library then takes its own steps.

    Example:
        >>> isinstance(solvers.DualNewton(), gfy.InnerSolver)
        True
        >>> problem = gfy.InnerProblem(gfy.Spen(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> solvers.ClosedForm().unsupported(problem) is None
        False
    """

    @property
    def name(self) -> str: ...

    def unsupported(self, problem: InnerProblem) -> str | None:
        """Return the reason why this solver cannot serve the problem, in a sentence, or None when it can."""

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution: ...


@runtime_checkable
class SteppableSolver(InnerSolver, Protocol):
    """Define an inner solver whose iterations can be taken one at a time, and so be differentiated by `gfy.Unrolled`.

    `init(problem, v, p0)` returns the first state and `step(problem, v, state)` the next one.

    A solver may have the attribute `not_unrollable`, a sentence that says why derivatives must not be taken through
    the iterations although they can be taken one at a time. `Unrolled` then refuses the solver with that sentence. A
    solver without the attribute may be unrolled.

    Example:
        >>> isinstance(solvers.ProjectedGradient(), gfy.SteppableSolver)
        True
        >>> isinstance(solvers.CvxpyReference(), gfy.SteppableSolver)
        False
    """

    def init(self, problem: InnerProblem, v: Input, p0: Array | None) -> Any: ...

    def step(self, problem: InnerProblem, v: Input, state: Any) -> Any: ...


@runtime_checkable
class GradientMode(Protocol):
    """Define what a gradient mode offers: `name`, `unsupported(problem, solver)`, and `argmax` with dp*/dv.

    A mode may also have `solution`, with the arguments of `argmax`: it returns the whole `Solution`, so that a
    warning can say how many inner problems were not solved.

    Example:
        >>> problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> isinstance(gfy.Implicit(), gfy.GradientMode)
        True
        >>> gfy.Implicit().unsupported(problem, solvers.DualNewton()) is None
        True
    """

    @property
    def name(self) -> str: ...

    def unsupported(self, problem: InnerProblem, solver: InnerSolver) -> str | None: ...

    def argmax(
        self, problem: InnerProblem, solver: InnerSolver, v: Input, p0: Array | None, stop: Stop
    ) -> Array: ...


# The answer is kept, because reading the entry points takes longer than many solves.
@cache
def default_solver() -> InnerSolver:
    """Return the solver that is used when none is named: the entry point `default` of the group `gfy.solvers`."""
    for point in entry_points(group="gfy.solvers", name="default"):
        solver: InnerSolver = point.load()()
        return solver
    try:  # a checkout on sys.path may never have been installed
        found: InnerSolver = import_module("solvers").Auto()
    except ImportError as error:
        raise GfyValueError(
            "no inner solver was given and no default is installed: pass solver=..., or install gfy-suite"
        ) from error
    return found
