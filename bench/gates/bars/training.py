"""Measure what training needs of the compiled core: threads, warm starts, and a loss that costs little more
than its solve."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from bench.gates.bars.contenders import certified, solver_contender
from bench.gates.bars.ladder import Contender, take_turns
from bench.gates.bars.line import Bar, Line, Scale, milliseconds
from bench.gates.bars.native import conditioned
from bench.gates.problems import make
from bench.measure.programs import set_up
from bench.plan.registry import make_solver


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Set in the environment how many threads compiled code may start."""
    before = os.environ.get("NUMBA_NUM_THREADS")
    os.environ["NUMBA_NUM_THREADS"] = str(count)
    try:
        yield
    finally:
        del os.environ["NUMBA_NUM_THREADS"]
        if before is not None:
            os.environ["NUMBA_NUM_THREADS"] = before


def _threads(scale: Scale) -> list[Line]:
    work = conditioned("quadratic-gini-box", scale.size(174, 12), scale.size(256, 8), 100.0)
    found = []
    for count in (1, 2):
        run = certified(work, solver_contender(work, make_solver("ActiveSet"), "torch", scale))
        plain = run.call

        def call(plain: Callable[[], Any] = plain, count: int = count) -> Any:
            with threads(count):
                return plain()

        run.call, run.name = call, f"ActiveSet on {count}"
        found.append(run)
    one, two = found
    take_turns(found, 2 * scale.rounds, scale.slice_s)
    detail = f"{milliseconds(one.seconds)} / {milliseconds(two.seconds)}"
    what = f"{work.name}: two threads against one"
    return [Line("threads", what, one.seconds / two.seconds, ">=", 1.6, detail, work, (one, two))]


def _warm(scale: Scale) -> list[Line]:
    """Solve the same problems one small training step later, from the old p* and from no start."""
    import gfy
    from gfy.backend import tree_map

    lines = []
    k, batch = scale.size(174, 12), scale.size(256, 8)
    works = {
        "dense": conditioned("quadratic-gini-box", k, batch, 100.0),
        "rank 8": make("pairwise-gini", k, batch, 8),
    }
    for label, work in works.items():
        for backend in scale.backends:
            bench = set_up(work.instance, backend, scale.device)
            library, v, stop = bench.backend, bench.inputs[-1], gfy.Stop(1e-10, 1000)
            later = tree_map(lambda x: 1.002 * x, v)
            solver = make_solver("Auto")
            before = solver.solve(work.problem, v, stop=stop).p
            solve = library.jit(lambda w, p0, s=solver, q=work.problem, t=stop: s.solve(q, w, p0, t).p)
            cold_solve = library.jit(lambda w, s=solver, q=work.problem, t=stop: s.solve(q, w, stop=t).p)
            cold = Contender("cold", partial(_done, library, cold_solve, later), backend=backend)
            warm = Contender("warm", partial(_done, library, solve, later, before), backend=backend)
            take_turns([cold, warm], 2 * scale.rounds, scale.slice_s)
            detail = f"{milliseconds(cold.seconds)} / {milliseconds(warm.seconds)}"
            what = f"{work.name}, {label}, {backend}: cold against warm after a step of 0.2 %"
            lines.append(
                Line("warm-start", what, cold.seconds / warm.seconds, ">=", 1.5, detail, work, (cold, warm))
            )
    return lines


def _done(library: Any, run: Callable[..., Any], *given: Any) -> Any:
    return library.sync(run(*given))


BARS = (
    Bar("threads", "dense, k = 174, batch 256: two threads >= 1.6 x one", _threads),
    Bar("warm-start", "a step of training later: warm >= 1.5 x cold", _warm),
)
