"""The one protocol that solvers and gradient modes of both frameworks stand behind."""

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
Input = Any  # the NamedTuple an energy calls its Input: everything a loss is differentiated by


class Result(IntEnum):
    """Why the solve of one example ended; `sentence` says it in words."""

    CONVERGED = 0
    ROUNDING_FLOOR = 1
    STEP_LIMIT = 2
    STALLED_AT_KINK = 3
    NOT_FINITE = 4
    INACCURATE = 5

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
}


class Solution(NamedTuple):
    """What a solver returns: p [..., k] and what it believes of itself (never used to rank it).

    `converged` speaks of the p that is returned, in the dtype it is returned in: it is true exactly where `result`
    is CONVERGED or ROUNDING_FLOOR.
    """

    p: Array
    error: Array  # [...] the solver's own stopping measure, at this p
    steps: Array  # [...] iterations spent on each example, -1 where the method is not iterative
    converged: Array  # [...] bool
    result: Array | None = None  # [...] int32, a value of `Result`; None where a solver does not say


@dataclass(frozen=True)
class Stop:
    """When an iterative solver may stop: its own error at most `tol`, or after `max_steps` steps."""

    tol: float = 1e-8
    max_steps: int = 1_000

    def __post_init__(self) -> None:
        if not self.tol >= 0:
            raise GfyValueError(f"Stop.tol must be a number >= 0, got {self.tol!r}")
        if self.max_steps < 1:
            raise GfyValueError(f"Stop.max_steps must be at least 1, got {self.max_steps!r}")


@runtime_checkable
class InnerSolver(Protocol):
    """Solves max_{p in C} Phi(v, p) - Omega(p) for a batch of inputs v."""

    @property
    def name(self) -> str: ...

    def unsupported(self, problem: InnerProblem) -> str | None:
        """Why this solver cannot serve the problem, in a sentence; None when it can."""

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution: ...


@runtime_checkable
class SteppableSolver(InnerSolver, Protocol):
    """An inner solver whose iterations can be taken one at a time (and differentiated).

    Optional: an attribute `not_unrollable`, a sentence, says why derivatives must not be taken through the iterations
    although they can be taken one at a time; `Unrolled` then refuses the solver with that sentence. A solver without
    the attribute may be unrolled.
    """

    def init(self, problem: InnerProblem, v: Input, p0: Array | None) -> Any: ...

    def step(self, problem: InnerProblem, v: Input, state: Any) -> Any: ...


@runtime_checkable
class GradientMode(Protocol):
    """How a derivative passes (or is refused) through the argmax.

    A mode may also have `solution`, with the arguments of `argmax`: it returns the whole `Solution`, so that an inner
    problem that was not solved can be told.
    """

    @property
    def name(self) -> str: ...

    def unsupported(self, problem: InnerProblem, solver: InnerSolver) -> str | None: ...

    def argmax(
        self, problem: InnerProblem, solver: InnerSolver, v: Input, p0: Array | None, stop: Stop
    ) -> Array: ...


@cache  # reading the entry points takes longer than many solves
def default_solver() -> InnerSolver:
    """The solver used when none is named: the entry point `default` of the group `gfy.solvers`."""
    for point in entry_points(group="gfy.solvers", name="default"):
        solver: InnerSolver = point.load()()
        return solver
    try:  # a checkout on sys.path that was never installed
        found: InnerSolver = import_module("solvers").Auto()
    except ImportError as error:
        raise GfyValueError(
            "no inner solver was given and no default is installed: pass solver=..., or install gfy-suite"
        ) from error
    return found
