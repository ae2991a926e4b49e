"""Write accelerated projected gradient by hand in fifteen lines, as a user would for one problem, in either framework.

The loop knows the problem by its gradient and its projection only. Its step length is chosen once per batch: it is
`step` where that is given, and otherwise 1 / L, where L is the largest eigenvalue of the Hessian, estimated by power
iteration on differences of gradients. The loop measures its movement every `look` steps, and stops the whole batch
when no example moves more than the tolerance.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from gfy.backend import backend_of
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input, Solution, Stop
from solvers.loop import check

_POWER_STEPS = 30


@dataclass(frozen=True)
class ByHand:
    """Solve by the accelerated projected gradient loop that one writes by hand: no restarts, no mask per example.

    A step is p <- project(q + step grad(q)), q = p + momentum (p - previous p).

    Args:
        step: the step length; None, the default, is 1 / L for the smoothness L that power iteration estimates.
        look: how many steps pass between two looks at the error; 10 by default.

    Returns:
        `solve(problem, v, p0=None, stop=gfy.Stop())` returns a `gfy.Solution` with p [..., k].

    Raises:
        UnsupportedError: by `solve`, where `unsupported(problem)` gives a reason.

    Reference: Nesterov (1983); Beck and Teboulle (2009).

    Example:
        >>> problem = gfy.InnerProblem(gfy.LinearQuadratic(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.LinearQuadratic.Input(u=array([[1.0, -0.5]]), U=array([[[-2.0, 0.5], [0.5, -1.0]]]))
        >>> solvers.ByHand().solve(problem, v).p.tolist()
        [[0.532, 0.255]]
    """

    step: float | None = None
    look: int = 10
    fixed_tolerance: ClassVar[bool] = False

    @property
    def name(self) -> str:
        return "ByHand"

    def unsupported(self, problem: InnerProblem) -> str | None:
        if not problem.regularizer.quadratic or problem.regularizer.zero:
            return f"this plain loop needs a quadratic regularizer, not {problem.regularizer.name}: use Auto"
        if not (problem.energy.concave and problem.energy.smooth):
            return f"{problem.energy.name} is not smooth and concave in p, as this plain loop needs: use Auto"
        return None

    def solve(
        self, problem: InnerProblem, v: Input, p0: Array | None = None, stop: Stop = Stop()
    ) -> Solution:
        check(self, problem, v)
        backend = backend_of(v)
        xp = backend.xp
        v, p0 = backend.stop_gradient((v, p0))
        p = problem.initial_point(v, p0)
        step = _step(problem, v, p) if self.step is None else self.step
        mu = problem.strong_concavity
        root = (mu * step) ** 0.5
        momentum = (1 - root) / (1 + root)

        def several(state: tuple[Any, ...]) -> tuple[Any, ...]:
            p, q, count, _ = state
            for _step_number in range(self.look):
                new = problem.domain.project(q + step * problem.grad(v, q))
                q = new + momentum * (new - p)
                p, moved = new, xp.max(xp.abs(new - p))
            return p, q, count + self.look, moved

        def going(state: tuple[Any, ...]) -> Any:
            return (state[3] > stop.tol) & (state[2] < stop.max_steps)

        far = 0 * xp.max(xp.abs(p)) + float("inf") if p.size else 0 * p.sum()
        count = xp.astype(0 * p.sum(), xp.int32)
        p, _, count, moved = backend.while_loop(going, several, (p, p, count, far))
        each = 0 * p.sum(-1)
        return Solution(p, each + moved, xp.astype(each, xp.int32) + count, each + moved <= stop.tol)


def _step(problem: InnerProblem, v: Input, p: Array) -> Any:
    """Return 1 / L, L the largest eigenvalue of the Hessian over the batch, by power iteration on gradient
    differences."""
    xp = backend_of(v).xp
    base, x = problem.grad(v, 0 * p), 0 * p + 1.0
    for _ in range(_POWER_STEPS):
        x = x / xp.sqrt((x * x).sum(-1))[..., None]
        x = base - problem.grad(v, x)
    return 1 / (1.05 * xp.max(xp.sqrt((x * x).sum(-1))))
