"""Measure how time and memory grow with k: rank 1, one example, up to a million labels."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Any

import numpy as np

from bench.gates.bars.contenders import certified, solver_contender
from bench.gates.bars.ladder import TARGET, Contender, take_turns
from bench.gates.bars.line import Bar, Line, Scale, milliseconds
from bench.gates.bars.memory import peak_ratio
from bench.gates.problems import make
from bench.measure.programs import set_up
from bench.problems.base import Named

_COPIES = 8  # copies of the inputs, 16 MB each at k = 1e6; together they are larger than the caches


def _growth(scale: Scale) -> list[Line]:
    import gfy
    import solvers
    from gfy.backend import leaves

    sizes = (1_000, 4_000) if scale.tiny else (1_000, 10_000, 100_000, 1_000_000)
    lines = []
    for backend in scale.backends:
        works = [make("pairwise-gini", k, 1, 1) for k in sizes]
        found = []
        reads = []
        for work in works:
            contender = certified(work, solver_contender(work, solvers.DualNewton(), backend, scale))
            stop = gfy.Stop(contender.tol or 0.0, 20_000)
            solve = lambda v, work=work, stop=stop: solvers.DualNewton().solve(work.problem, v, stop=stop).p  # noqa: E731
            contender.call = _cold(work, backend, scale, solve)
            contender.name = f"DualNewton k={work.k}"
            found.append(contender)
            read = _cold(work, backend, scale, lambda v: sum(leaf.sum() for leaf in leaves(v)))
            reads.append(Contender(f"one read k={work.k}", read, backend=backend))
        take_turns([*found, *reads], scale.rounds, scale.slice_s)
        lines += _lines(backend, works, found, reads)
    return lines


def _cold(workload: Named, backend: str, scale: Scale, function: Callable[[Any], Any]) -> Callable[[], Any]:
    """Call on another copy of the inputs every time: at k = 1e6 they come from memory, not from a cache."""
    benches = [set_up(workload.instance, backend, scale.device) for _ in range(_COPIES)]
    library, copies = benches[0].backend, cycle([bench.inputs[-1] for bench in benches])
    run = library.jit(function)
    return lambda: library.sync(run(next(copies)))


def _lines(backend: str, works: list[Named], found: list[Contender], reads: list[Contender]) -> list[Line]:
    name = f"growth-{backend}"
    per_label = [c.seconds / w.k for c, w in zip(found, works, strict=True)]
    shown = ", ".join(f"k={w.k:g}: {1e9 * t:.3g} ns" for w, t in zip(works, per_label, strict=True))
    worst = max(found, key=lambda c: c.gap or 0.0)
    accuracy = f"certified gap at most {worst.gap:.0e}"
    missing = "" if (worst.gap or 0.0) <= TARGET else f"{worst.name} reached {worst.gap:.0e} only"
    first, last = works[0].k, works[-1].k
    slowest, read = found[-1], reads[-1]
    growth = f"{backend}: time per label, k = {last:g} against k = {first:g}"
    reading = f"{backend}: k = {last:g} against one read of the inputs"
    times = f"{milliseconds(slowest.seconds)} / {milliseconds(read.seconds)}"
    ratio, passes = per_label[-1] / per_label[0], slowest.seconds / read.seconds
    shown = f"{shown}; {accuracy}"
    return [
        Line(name, growth, ratio, "<=", 2.0, shown, works[-1], tuple(found), missing),
        Line(name, reading, passes, "<=", 20.0, times, works[-1], (slowest, read), missing),
    ]


def _memory(scale: Scale) -> list[Line]:
    k, batch = scale.size(100_000, 20_000), 16
    lines = []
    for backend in scale.backends:
        request = {"what": "solve", "backend": backend, "k": k, "batch": batch, "solver": "DualNewton"}
        peak, inputs, how = peak_ratio(request)
        detail = f"peak {peak / 2**20:.1f} MiB, inputs {inputs / 2**20:.1f} MiB, {how}"
        what = f"{backend}: peak memory for k = {k:g}, rank 1, batch {batch}, against the inputs"
        lines.append(Line("memory", what, peak / inputs if inputs else np.nan, "<=", 6.0, detail))
    return lines


BARS = (
    Bar("growth", "rank 1, one example, k 1e3 to 1e6: per label <= 2 x; <= 20 x one read", _growth),
    Bar("memory", "k = 1e5, rank 1, batch 16: peak <= 6 x the inputs", _memory),
)
