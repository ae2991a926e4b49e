"""Compare torch with JAX: the loss and its gradient with the default solver, on every problem of the default suite."""

from __future__ import annotations

from typing import Any

from bench.gates.argmax import staged_call
from bench.gates.bars.ladder import Contender, take_turns
from bench.gates.bars.line import Bar, Line, Scale, milliseconds
from bench.measure.certification import worst_gap
from bench.measure.programs import forward, set_up, value_and_gradient
from bench.plan.registry import make_problem
from bench.plan.suite import read
from bench.problems.base import Named

NAME = "frameworks"
TIMES = 2.0  # torch may take at most this many times as long as JAX
# Seconds; this difference is allowed at any ratio, for calls of eager torch that no solver can save.
APART_S = 4e-4
WARM = 8  # calls; after these, torch uses the faster of its two ways
TOL, MAX_STEPS = 1e-8, 1_000  # the library's own defaults


def problems() -> list[Named]:
    """Return every family and size of the default suite once, with the first seed."""
    sized = {(e.family, *sorted(e.params.items())): e for e in read("default").problems}
    return [make_problem(e.family, e.params) for e in sized.values()]


def contender(work: Named, backend: str, scale: Scale, after: float | None) -> Contender:
    """Return value and gradient of the loss in a framework; in torch staged by XLA after so many seconds
    (None: never)."""
    import gfy
    import solvers

    solver, mode = solvers.Auto(), gfy.Envelope()
    bench = set_up(work.instance, backend, scale.device)
    run = staged_call(bench, value_and_gradient(bench, solver, mode, MAX_STEPS), TOL)

    def call() -> Any:
        with gfy.staging(after):
            return run()

    how = "" if bench.backend.staged else ", eager" if after is None else ", staged where that is faster"
    made = Contender(f"Auto in {backend}{how}", call, backend=backend, tol=TOL, target=TOL)
    p = forward(bench, solver, mode, MAX_STEPS)(bench.inputs[-1], bench.targets, bench.start, TOL).p
    made.gap = worst_gap(work.problem, work.inputs, p)
    return made


def compare(work: Named, scale: Scale) -> Line:
    """Time both frameworks in turns, beside eager torch, which is what runs without JAX."""
    asked = (("jax", None), ("torch", 0.0), ("torch", None))
    everyone = [contender(work, backend, scale, after) for backend, after in asked]
    for _ in range(WARM):
        everyone[1].call()
    take_turns(everyone, scale.rounds, scale.slice_s / 5, patience_s=1.0)
    jax, torch, eager = everyone
    allowed = max(TIMES, 1.0 + APART_S / jax.seconds)
    detail = (
        f"torch {milliseconds(torch.seconds)} (eager {milliseconds(eager.seconds)}), gap {torch.gap:.0e} / "
        f"JAX {milliseconds(jax.seconds)}, gap {jax.gap:.0e}"
    )
    what = f"{work.name}: loss and gradient, torch against JAX"
    return Line(NAME, what, torch.seconds / jax.seconds, "<=", allowed, detail, work, tuple(everyone))


def _frameworks(scale: Scale) -> list[Line]:
    works = problems()
    lines = []
    for work in works[:: len(works) // 3] if scale.tiny else works:
        lines.append(compare(work, scale))
    return lines


CLAIM = "every problem of the default suite: torch within 2 x JAX, or within 0.4 ms of it"
BARS = (Bar(NAME, CLAIM, _frameworks),)
