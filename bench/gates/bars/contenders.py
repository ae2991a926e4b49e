"""Make contenders of our solvers and the peers' adapters: jitted where the framework jits, waiting until done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from bench.gates.bars.ladder import TARGET, Contender, to_accuracy
from bench.gates.bars.line import Scale
from bench.measure.certification import worst_gap
from bench.measure.programs import set_up
from bench.plan.registry import make_solver
from bench.problems.base import Named

# These adapters run on the host, with one example at a time; staging would only add the time of a callback.
ON_HOST = ("ScipyLBFGSB",)
_CLIMB_S = 20.0  # seconds; the search for the tolerance of a contender may take this long

Build = Callable[[float], tuple[Contender, Callable[[], Any]]]


def solver_contender(
    workload: Named,
    solver: Any,
    backend: str,
    scale: Scale,
    ours: bool = True,
    max_steps: int = 20_000,
    label: str | None = None,
) -> Build:
    """Return a builder of the contender of a solver behind the protocol, at a tolerance."""
    import gfy

    bench = set_up(workload.instance, backend, scale.device)
    library, v = bench.backend, bench.inputs[-1]
    name = label or solver.name

    def build(tol: float) -> tuple[Contender, Callable[[], Any]]:
        stop = gfy.Stop(tol=tol, max_steps=max_steps)

        def solve(inputs: Any) -> Any:
            return solver.solve(workload.problem, inputs, stop=stop).p

        run = solve if name in ON_HOST else library.jit(solve)
        return Contender(name, lambda: library.sync(run(v)), ours, backend), lambda: run(v)

    return build


def certified(workload: Named, build: Build, target: float = TARGET) -> Contender:
    """Return the contender at the loosest tolerance that certifies at the target."""
    found = to_accuracy(build, lambda p: worst_gap(workload.problem, workload.inputs, p), target,
                        patience_s=_CLIMB_S)  # fmt: skip
    where = f" in {found.backend}" if found.backend else ""
    print(
        f"      {found.name}{where}: gap {found.gap:.0e} at tolerance {found.tol:g}",
        file=sys.stderr,
        flush=True,
    )
    return found


def ours(workload: Named, names: Sequence[str], scale: Scale, target: float = TARGET) -> list[Contender]:
    """Return our solvers of these names in both frameworks; what a solver does not support is left out."""
    found = []
    for name in names:
        solver = make_solver(name)
        if solver.unsupported(workload.problem) is not None:
            continue
        for backend in scale.backends:
            build = solver_contender(workload, solver, backend, scale, label=name)
            found.append(certified(workload, build, target))
    return found


def qualified(contenders: Sequence[Contender], target: float = TARGET) -> list[Contender]:
    """Return those that may be compared: certified at the target."""
    return [c for c in contenders if c.gap is not None and c.gap <= target]
