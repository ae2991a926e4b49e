"""Measure the gradient bars: what a gradient costs beside its forward solve, and how far the modes agree."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from bench.gates.bars.contenders import certified, solver_contender
from bench.gates.bars.differentiate import gradient_call, modes, relative
from bench.gates.bars.ladder import Contender, take_turns
from bench.gates.bars.line import Bar, Line, Scale, milliseconds
from bench.gates.bars.memory import peak_ratio
from bench.gates.bars.native import conditioned
from bench.gates.problems import make
from bench.measure.programs import Bench, flat, set_up
from bench.plan.registry import make_solver
from bench.problems.base import Named


def _sizes(scale: Scale) -> tuple[int, int]:
    return scale.size(174, 20), scale.size(256, 16)


def _ratio(name: str, what: str, bar: float, workload: Named, top: Contender, bottom: Contender) -> Line:
    detail = f"{milliseconds(top.seconds)} / {milliseconds(bottom.seconds)}"
    return Line(name, what, top.seconds / bottom.seconds, "<=", bar, detail, workload, (top, bottom))


def _beside_forward(name: str, what: str, workload: Named, solver: Any, scale: Scale) -> list[Line]:
    """Time value and gradient in the envelope mode beside the forward solve alone, in each framework."""
    import gfy

    lines = []
    for backend in scale.backends:
        forward = certified(workload, solver_contender(workload, solver, backend, scale))
        bench = set_up(workload.instance, backend, scale.device)
        call = gradient_call(bench, solver, gfy.Envelope(), forward.tol or 0.0)
        both = Contender("value and gradient", call, backend=backend)
        take_turns([forward, both], 2 * scale.rounds, scale.slice_s)
        lines.append(_ratio(name, what.format(backend), 1.3, workload, both, forward))
    return lines


def _envelope(scale: Scale) -> list[Line]:
    work = make("pairwise-gini", *_sizes(scale), 1)
    what = "{}: envelope, value and gradient together, against the forward solve"
    return _beside_forward("envelope-cost", what, work, make_solver("DualNewton"), scale)


def _envelope_dense(scale: Scale) -> list[Line]:
    sizes = [(8, 8)] if scale.tiny else [(14, 128), (50, 64), (174, 256)]
    lines = []
    for k, batch in sizes:
        work = conditioned("quadratic-gini-box", k, batch, 100.0)
        what = f"{work.name}, {{}}: envelope, value and gradient against the forward solve"
        lines += _beside_forward("envelope-dense", what, work, make_solver("Auto"), scale)
    return lines


def _pullback(bench: Bench, p: Any) -> Callable[[], Any]:
    """Return dp*/dv^T g by implicit differentiation at a given p*, jitted where the framework jits."""
    import gfy

    library, mode = bench.backend, gfy.Implicit()

    def product(v: Any, p: Any, g: Any) -> Any:
        _, pull = library.vjp(lambda w: mode.attach(bench.problem, w, p), v)
        return pull(g)

    run = library.jit(product)
    v, cotangent = bench.inputs[-1], bench.cotangent
    return lambda: library.sync(run(v, p, cotangent))


def _implicit(scale: Scale) -> list[Line]:
    import gfy
    import solvers

    lines = []
    for backend, family in itertools.product(scale.backends, ("pairwise-gini", "dense-gini")):
        workload = make(family, *_sizes(scale), 1)
        low_rank = family == "pairwise-gini"
        solver = solvers.DualNewton() if low_rank else solvers.Auto()
        forward = certified(workload, solver_contender(workload, solver, backend, scale))
        stop = gfy.Stop(tol=forward.tol or 0.0, max_steps=20_000)
        bench = set_up(workload.instance, backend, scale.device)
        p = bench.backend.stop_gradient(solver.solve(bench.problem, bench.inputs[-1], stop=stop).p)
        back = Contender("vector-Jacobian product", _pullback(bench, p), backend=backend)
        base = forward if low_rank else Contender("Cholesky", _cholesky(bench), backend=backend)
        take_turns([base, back], 2 * scale.rounds, scale.slice_s)
        beside = "the forward solve" if low_rank else "one Cholesky factorisation and solve"
        what = f"{backend}: {family}, implicit vector-Jacobian product, against {beside}"
        lines.append(_ratio("implicit-cost", what, 2.0 if low_rank else 1.0, workload, back, base))
    return lines


def _cholesky(bench: Bench) -> Callable[[], Any]:
    """Run one factorisation of 2 I - U and the two triangular solves, for the whole batch."""
    library, v = bench.backend, bench.inputs[-1]
    eye = library.asarray(np.eye(v.u.shape[-1]), like=v.u)
    M, b = 2.0 * eye - v.U, v.u[..., None]
    if library.staged:
        import jax

        solve = jax.jit(lambda M, b: jax.scipy.linalg.cho_solve((jax.numpy.linalg.cholesky(M), True), b))
        return lambda: library.sync(solve(M, b))
    import torch

    return lambda: library.sync(torch.cholesky_solve(b, torch.linalg.cholesky(M)))


def mode_gradients(
    workload: Named, backend: str, device: str, target: float = 1e-12
) -> dict[str, np.ndarray]:
    """Return the loss's gradient by every mode, at an inner gap certified to be at most `target`."""
    import solvers

    scale = Scale(device=device, backends=(backend,))
    solver = solvers.DualNewton() if "rank" in workload.params else solvers.Auto()
    inner = certified(workload, solver_contender(workload, solver, backend, scale), target)
    if inner.gap is None or inner.gap > target:
        raise RuntimeError(f"{solver.name} reached a gap of {inner.gap} on {workload.name}, not {target}")
    found = {}
    bench = set_up(workload.instance, backend, device)
    for name, (inner_solver, mode) in modes(workload.problem, solver).items():
        found[name] = flat(gradient_call(bench, inner_solver, mode, inner.tol or 0.0)()[1])
    return found


def _agreement(scale: Scale) -> list[Line]:
    workload = make("pairwise-gini", *_sizes(scale), 1)
    by_backend = {b: mode_gradients(workload, b, scale.device) for b in scale.backends}
    lines = []
    for backend, found in by_backend.items():
        pairs = {f"{a} / {b}": relative(found[a], found[b]) for a, b in itertools.combinations(found, 2)}
        detail = ", ".join(f"{pair} {error:.1e}" for pair, error in pairs.items())
        what = f"{backend}: envelope, implicit and unrolled gradients apart by, at an inner gap of 1e-12"
        lines.append(Line("agreement", what, max(pairs.values()), "<=", 1e-8, detail, workload))
    if len(by_backend) == 2:
        one, two = by_backend.values()
        apart = {mode: relative(one[mode], two[mode]) for mode in one}
        detail = ", ".join(f"{mode} {error:.1e}" for mode, error in apart.items())
        lines.append(
            Line(
                "agreement",
                "JAX and torch gradients apart by",
                max(apart.values()),
                "<=",
                1e-10,
                detail,
                workload,
            )
        )
    return lines


def _unrolled_memory(scale: Scale) -> list[Line]:
    k, batch = _sizes(scale)
    long, short = scale.size(1000, 200), scale.size(30, 20)
    lines = []
    for backend in scale.backends:
        request = {
            "what": "unrolled",
            "backend": backend,
            "k": k,
            "batch": batch,
            "solver": "ProjectedGradient",
        }
        (many, inputs, how), (few, _, _) = (peak_ratio(request | {"steps": n}) for n in (long, short))
        detail = f"{(many - inputs) / 2**20:.1f} / {(few - inputs) / 2**20:.1f} MiB beyond the inputs, {how}"
        what = f"{backend}: unrolled with checkpointing, peak memory of {long} steps against {short}"
        lines.append(
            Line("unrolled-memory", what, (many - inputs) / max(few - inputs, 1.0), "<=", 8.0, detail)
        )
    return lines


BARS = (
    Bar("envelope-cost", "envelope: value and gradient <= 1.3 x the forward solve", _envelope),
    Bar("envelope-dense", "dense: value and gradient <= 1.3 x the forward solve", _envelope_dense),
    Bar("implicit-cost", "implicit: <= 2 x the forward solve; dense <= one Cholesky", _implicit),
    Bar("agreement", "modes agree to 1e-8 at a gap of 1e-12, frameworks to 1e-10", _agreement),
    Bar("unrolled-memory", "unrolled, 1000 steps: peak <= 8 x that of 30", _unrolled_memory),
)  # fmt: skip
