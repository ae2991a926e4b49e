"""Choose a gradient mode: error and cost of envelope, implicit and unrolled gradients as the inner solve gets better.

The loss contains only the maximum of the inner problem, so that all three modes compute the same gradient. They differ
in how an inexact solve changes it, and in the time that they take. A loss of the argmax itself needs the implicit or
the unrolled mode.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable

import torch

import gfy
import solvers

QUICK = os.environ.get("GFY_QUICK") == "1"
STEPS = (5, 20, 80) if QUICK else (5, 10, 20, 40, 80, 160)


def timed(work: Callable[[], torch.Tensor], repeats: int) -> tuple[torch.Tensor, float]:
    """Return a gradient and the best time of a few calls."""
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        out = work()
        best = min(best, time.perf_counter() - start)
    return out, best


def main() -> None:
    torch.manual_seed(0)
    warnings.simplefilter("ignore", gfy.UnsolvedWarning)  # this example stops solves early on purpose
    batch, k, rank = (8, 12, 2) if QUICK else (64, 100, 4)
    problem = gfy.InnerProblem(gfy.Pairwise(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
    u = torch.randn(batch, k, dtype=torch.float64, requires_grad=True)
    A = torch.randn(batch, k, rank, dtype=torch.float64) / k**0.5
    y = (torch.rand(batch, k) < 0.3).double()
    v = gfy.Pairwise.Input(u=u, A=A)

    def gradient(loss: gfy.losses.Loss) -> torch.Tensor:
        return torch.autograd.grad(loss(v, y).sum(), u)[0]

    exact = gfy.Stop(tol=1e-14, max_steps=10_000)
    reference = gradient(gfy.FenchelYoungLoss(problem, solvers.DualNewton(), gfy.Envelope(), stop=exact))
    solver = solvers.ProjectedGradient()
    print("The gradient of the loss (a maximum): relative error, and milliseconds with its solve")
    heads = "".join(f"{mode:>22}" for mode in ("envelope", "implicit", "unrolled"))
    print(f"{'inner steps':>12} {'certified gap':>14}{heads}")
    for steps in STEPS:
        stop = gfy.Stop(tol=0.0, max_steps=steps)
        fixed = v._replace(u=u.detach())
        gap = gfy.certify(problem, fixed, gfy.argmax(problem, fixed, solver, stop=stop)).gap.max()
        cells = []
        for mode in (gfy.Envelope(), gfy.Implicit(), gfy.Unrolled(steps=steps)):
            loss = gfy.FenchelYoungLoss(problem, solver, mode, stop=stop)
            found, took = timed(lambda loss=loss: gradient(loss), 2 if QUICK else 5)
            error = float((found - reference).norm() / reference.norm())
            cells.append(f"{error:12.0e} {1e3 * took:6.1f} ms")
        print(f"{steps:12d} {gap:14.0e}" + "".join(f"{c:>22}" for c in cells))

    print("\nA loss of the argmax needs dp*/dv:")
    try:
        gfy.argmax(problem, v, gradient=gfy.Envelope())
    except gfy.GfyTypeError as refusal:
        print(f"  envelope: {refusal}")
    squared = gfy.ArgmaxLoss("squared", problem, solvers.DualNewton(), gfy.Implicit(), stop=exact)
    unrolled = gfy.ArgmaxLoss("squared", problem, solver, gfy.Unrolled(steps=400))
    apart = float((gradient(squared) - gradient(unrolled)).abs().max())
    print(f"  implicit and unrolled agree to {apart:.0e}")
    if apart > 1e-6:
        raise SystemExit("implicit and unrolled gradients of the argmax do not agree")


if __name__ == "__main__":
    main()
