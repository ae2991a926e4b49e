"""Call cvxpylayers, which makes a layer of a CVXPY model, as a peer."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, ClassVar

import numpy as np

from gfy.errors import GfyValueError
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.peers.cvxpy_reference import CvxpyReference, _Once
from solvers.peers.host import example
from solvers.peers.host_batch import Answer, cores, held, on_host_batch

SOLVERS = {"DIFFCP": "diffcp", "MOREAU": "moreau"}  # each solver with the library that it needs


@dataclass(frozen=True)
class CvxpyLayers:
    """Solve by `cvxpylayers.torch.CvxpyLayer`, the whole batch at once on the host.

    The model is that of `CvxpyReference`, compiled once per problem and shape. JAX arrays are copied to the host. A
    layer does not say whether it solved its programs, so `converged` follows from the duality gap.

    Args:
        solver: "DIFFCP" (the default) hands cone programs to Clarabel, on all cores; "MOREAU" keeps the quadratic
            objective.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.
        GfyValueError: for a solver that is not known.

    Reference: Agrawal et al. (2019), differentiable convex optimization layers.

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.CvxpyLayers().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    solver: str = "DIFFCP"
    fixed_tolerance: ClassVar[bool] = False

    def __post_init__(self) -> None:
        if self.solver not in SOLVERS:
            raise GfyValueError(
                f"CvxpyLayers.solver must be one of {', '.join(SOLVERS)}, got {self.solver!r}"
            )

    @property
    def name(self) -> str:
        return "CvxpyLayers"

    def unsupported(self, problem: InnerProblem) -> str | None:
        for library in ("cvxpylayers", "torch", SOLVERS[self.solver]):
            if find_spec(library) is None:
                return f"{library} is not installed: python -m pip install {library}"
        if self.solver == "MOREAU" and not problem.regularizer.quadratic:
            return f"Moreau has no cone for {problem.regularizer.name}: use DIFFCP"
        return CvxpyReference().unsupported(problem)

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        def work(inputs: Any, batch: tuple[int, ...], start: np.ndarray | None, stop: Stop) -> Answer:
            return self._batch(problem, inputs, batch, stop)

        return on_host_batch(self, problem, v, p0, stop, work)

    def _batch(self, problem: InnerProblem, inputs: Any, batch: tuple[int, ...], stop: Stop) -> Answer:
        import torch

        from solvers.peers.cvxpy_model import parameters

        ones = [example(problem, inputs, index) for index in np.ndindex(*batch)]
        if not ones:
            return Answer(np.zeros((0, problem.energy.dim(inputs))), np.zeros(0), np.zeros(0))
        given = [parameters(problem.energy, one) for one in ones]
        shapes = tuple((name, value.shape) for name, value in given[0].items())
        model, layer = _layer(problem, self.solver, shapes, _Once(ones[0]))
        stacked = [torch.as_tensor(np.stack([g[name] for g in given])) for name in model.parameters]
        with torch.no_grad():
            try:
                p = np.asarray(layer(*stacked, solver_args=self._options(stop))[0].numpy(), dtype=np.float64)
            except _failures():  # one program that fails ends the whole batch
                p = np.full((len(ones), problem.energy.dim(ones[0])), np.nan)
                return Answer(p, np.full(len(ones), -1), np.zeros(len(ones), dtype=bool))
        p = np.asarray(problem.domain.project(p))
        return Answer(p, np.full(len(ones), -1), held(problem, inputs, p, batch, stop))

    def _options(self, stop: Stop) -> dict[str, Any]:
        # The tolerance is a tenth of the one that was given, because a solution lies slightly off its faces.
        tol = max(0.1 * stop.tol, 1e-14)
        if self.solver == "MOREAU":
            return {}
        limits = {"tol_gap_abs": tol, "tol_gap_rel": tol, "tol_feas": tol}
        return {"solve_method": "Clarabel", "n_jobs_forward": cores(), **limits}


def _failures() -> tuple[type[Exception], ...]:
    from cvxpy.error import SolverError

    found: tuple[type[Exception], ...] = (SolverError,)
    if find_spec("diffcp") is not None:
        from diffcp import SolverError as Cone

        found += (Cone,)
    return found


@lru_cache(maxsize=16)
def _layer(problem: InnerProblem, solver: str, shapes: tuple[Any, ...], first: _Once) -> tuple[Any, Any]:
    """Return the model of the first example, whose parameters have the order of its `parameters`, and its layer."""
    from cvxpylayers.torch import CvxpyLayer

    from solvers.peers.cvxpy_model import Model

    model = Model(problem, first.value)
    named = list(model.parameters.values())
    chosen = None if solver == "DIFFCP" else solver
    return model, CvxpyLayer(model.model, parameters=named, variables=[model.p], solver=chosen)
