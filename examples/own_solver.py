"""Use your own solver: one class, certified and compared with two of ours, in both frameworks.

The method asks the regularizer for its answer to the linearised energy (the fixed-point map), and moves towards that
point exactly as far as the quadratic objective increases. It is the generalized conditional gradient method.

    python examples/own_solver.py
    gfy check examples/own_solver.py:TowardsFixedPoint
    gfy compare --problem pairwise-gini --solver examples/own_solver.py:TowardsFixedPoint --solver DualNewton
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

import gfy
import solvers
from gfy.backend import backend_of, get_backend, tree_map
from gfy.numerics.arithmetic import clip, dot
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.loop import run

QUICK = os.environ.get("GFY_QUICK") == "1"


class State(NamedTuple):
    """Hold the solver's state: p [..., k], and how far the fixed-point map still moves it [...]."""

    p: Array
    error: Array


@dataclass(frozen=True)
class TowardsFixedPoint:
    """Take steps p <- p + s (p_Omega(grad_p Phi(v, p)) - p) with the best s on that segment; p is [..., k]."""

    @property
    def name(self) -> str:
        return "TowardsFixedPoint"

    def unsupported(self, problem: InnerProblem) -> str | None:
        if not problem.regularizer.quadratic or problem.regularizer.zero:
            return f"{problem.regularizer.name} is not quadratic: the best step has no closed form"
        if problem.energy.interactions is None or not problem.energy.concave:
            return f"{problem.energy.name} is not a concave quadratic: the best step has no closed form"
        return None

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        return run(self, problem, v, p0, stop)

    def init(self, problem: InnerProblem, v: Input, p0: Array | None) -> State:
        p = problem.initial_point(v, p0)
        return State(p, p.sum(-1) * 0 + 1e30)

    def step(self, problem: InnerProblem, v: Input, state: State) -> State:
        xp = backend_of(v).xp
        towards = problem.fixed_point(v, state.p) - state.p
        slope = dot(problem.grad(v, state.p), towards)
        bend = problem.regularizer.curvature * towards - problem.energy.hessian_product(v, state.p, towards)
        curvature = dot(towards, bend)
        s = clip(slope / xp.where(curvature > 0, curvature, xp.ones_like(curvature)), 0.0, 1.0)
        return State(state.p + s[..., None] * towards, xp.max(xp.abs(towards), axis=-1))


def measure(solver: Any, problem: InnerProblem, v: Input, framework: str) -> str:
    """Return one line: steps, certified gap and the time of a warm call."""
    backend = get_backend(framework)
    stop = gfy.Stop(tol=1e-7, max_steps=5_000)
    solve = backend.jit(lambda w: solver.solve(problem, w, None, stop))
    found = backend.sync(solve(v))  # this call compiles, where the framework compiles
    start = time.perf_counter()
    found = backend.sync(solve(v))
    took = time.perf_counter() - start
    gap = gfy.certify(problem, v, found.p).gap.max()
    if gap > 1e-6:
        raise SystemExit(f"{solver.name} on {framework}: certified gap {gap:.1e}")
    steps = int(np.max(backend.to_numpy(found.steps)))
    return f"{framework:6} {solver.name:18} {steps:5d} steps   gap {gap:.0e}   {1e3 * took:8.2f} ms"


def main() -> None:
    import jax

    jax.config.update("jax_enable_x64", True)
    rng = np.random.default_rng(0)
    batch, k = (8, 10) if QUICK else (256, 174)
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    inputs = gfy.Pairwise.Input(
        u=2 * rng.normal(size=(batch, k)), A=rng.normal(size=(batch, k, 1)) / np.sqrt(k)
    )
    for framework in ("jax", "torch"):
        library = get_backend(framework)
        v = tree_map(lambda leaf, library=library: library.asarray(leaf, dtype="float64"), inputs)
        for solver in (TowardsFixedPoint(), solvers.DualNewton(), solvers.ProjectedGradient()):
            print(measure(solver, problem, v, framework))


if __name__ == "__main__":
    main()
