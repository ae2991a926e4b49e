"""The one protocol that solvers and gradient modes of both frameworks stand behind."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, runtime_checkable

from gfy.errors import GfyValueError

if TYPE_CHECKING:
    from gfy.problem import InnerProblem

Array = Any  # jax.Array | torch.Tensor (| numpy.ndarray inside certificates); leading axes are batch
Input = Any  # the NamedTuple an energy calls its Input: everything a loss is differentiated by


class Solution(NamedTuple):
    """What a solver returns: p [..., k] and what it believes of itself (never used to rank it)."""

    p: Array
    error: Array  # [...] the solver's own stopping measure
    steps: Array  # [...] iterations spent on each example, -1 where the method is not iterative
    converged: Array  # [...] bool


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
    """An inner solver whose iterations can be taken one at a time (and differentiated)."""

    def init(self, problem: InnerProblem, v: Input, p0: Array | None) -> Any: ...

    def step(self, problem: InnerProblem, v: Input, state: Any) -> Any: ...


@runtime_checkable
class GradientMode(Protocol):
    """How a derivative passes (or is refused) through the argmax."""

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
