"""The bars of the compiled core: both frameworks against the native codes, at equal certified accuracy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from bench.gates.bars.contenders import TARGET, certified, ours, qualified, solver_contender
from bench.gates.bars.differentiate import gradient_call
from bench.gates.bars.ladder import Contender, take_turns, to_accuracy
from bench.gates.bars.line import Bar, Line, Scale, fastest, milliseconds
from bench.gates.bars.peers import peers
from bench.gates.problems import make
from bench.measure.certification import worst_gap
from bench.measure.programs import set_up
from bench.plan.registry import make_problem
from bench.plan.suite import read
from bench.problems.base import Named

BOX_CODES = (
    "MujocoBoxQP", "Daqp", "Quadprog", "Piqp", "Moreau", "Osqp", "Proxsuite", "Qpax", "JaxoptBoxCDQP", "ByHand",
    "ByHand in JAX",
)  # fmt: skip
SIMPLEX_CODES = ("Daqp", "Quadprog", "Piqp", "Moreau", "Osqp", "Proxsuite", "Qpax")
LIFTED_CODES = ("MujocoBoxQP", "Daqp", "Piqp", "Osqp", "Clarabel", "Proxsuite")
SAME_IDEA = ("JaxoptBisection", "ScipyFindRoot")
_REST_S = 6.0  # seconds after which a slow contender rests
_EXAMPLES = 32  # on which a loop over examples is timed


def against(
    name: str,
    workload: Named,
    home: Sequence[Contender],
    away: Sequence[Contender],
    absent: Sequence[str],
    bar: float,
    whom: str,
) -> list[Line]:
    """One line per framework: our best there against the fastest peer that certified."""
    rival = fastest(qualified(away))
    late = [f"{c.name} {c.note}" for c in away if c not in qualified(away)]
    lines = []
    for backend in dict.fromkeys(c.backend for c in home):
        mine = fastest(c for c in qualified(home) if c.backend == backend)
        what = f"{workload.name}: {backend} against the fastest {whom}"
        everyone = (*home, *away)
        if mine is None or rival is None:
            missing = f"{'none of ours' if mine is None else 'no peer'} certified at {TARGET:.0e}"
            detail = "; ".join([*late, *absent])
            lines.append(Line(name, what, float("nan"), ">=", bar, detail, workload, everyone, missing))
            continue
        shown = f"{mine.name} {milliseconds(mine.seconds)} / {rival.name} {milliseconds(rival.seconds)}"
        detail = "; ".join([shown, *late, *absent])
        lines.append(Line(name, what, rival.seconds / mine.seconds, ">=", bar, detail, workload, everyone))
    return lines


def race(
    name: str, workload: Named, solver: str, rivals: Sequence[tuple[Sequence[str], float, str]], scale: Scale
) -> list[Line]:
    """Our solver in both frameworks against groups of peers, all interleaved."""
    home = ours(workload, (solver,), scale)
    groups = [(*peers(workload, names, scale, TARGET, _EXAMPLES), bar, whom) for names, bar, whom in rivals]
    everyone = [*home, *(c for away, *_ in groups for c in away)]
    take_turns(everyone, scale.rounds, scale.slice_s, patience_s=2.0 if scale.tiny else _REST_S)
    return [
        line
        for away, absent, bar, whom in groups
        for line in against(name, workload, home, away, absent, bar, whom)
    ]


def conditioned(family: str, k: int, batch: int, condition: float) -> Named:
    """A dense problem whose U has this condition number."""
    params = {"k": k, "batch": batch, "condition": condition}
    return make_problem(family, params, 0, draw=(0, k, batch, int(condition)))


def _dense_box(scale: Scale) -> list[Line]:
    sizes = [(8, 8)] if scale.tiny else [(14, 128), (50, 64), (174, 256)]
    lines = []
    for k, batch in sizes:
        for condition in (30.0, 1e6):
            work = conditioned("quadratic-gini-box", k, batch, condition)
            rivals = ((BOX_CODES, 3.0, "native code"),)
            lines += race(f"dense-box-k{k}-c{condition:g}", work, "Auto", rivals, scale)
    return lines


def _dense_simplex(scale: Scale) -> list[Line]:
    lines = []
    for k in (8,) if scale.tiny else (50, 200):
        work = conditioned("quadratic-gini-simplex", k, scale.size(64, 8), 100.0)
        lines += race(f"dense-simplex-k{k}", work, "Auto", ((SIMPLEX_CODES, 3.0, "native code"),), scale)
    return lines


def _low_rank(rank: int, scale: Scale) -> list[Line]:
    work = make("pairwise-gini", scale.size(174, 20), scale.size(256, 16), rank)
    codes = (LIFTED_CODES, 100.0 if rank == 1 else 50.0, "general QP code")
    rivals = ((SAME_IDEA, 5.0, "library of the same idea"), codes) if rank == 1 else (codes,)
    return race(f"native-rank{rank}", work, "Auto", rivals, scale)


def _by_hand(scale: Scale) -> list[Line]:
    """The softplus network as a user's own function, against the loop that the user would write, at a gap of 1e-8."""
    import gfy
    import solvers
    from bench.problems.base import single
    from solvers.peers.by_hand import ByHand

    k, batch, hidden, target = 24, scale.size(32, 8), 32, 1e-8
    lines = []
    for backend in scale.backends:
        rng = np.random.default_rng(24)
        u, W = 2 * rng.normal(size=(batch, k)), 2 * rng.normal(size=(hidden, k)) / np.sqrt(k)
        w = np.abs(rng.normal(size=hidden))
        largest = 2.0 + float(np.linalg.eigvalsh(0.25 * (W.T * w) @ W).max())
        energy = gfy.CustomEnergy(_softplus(backend, W, w), concave=True, k=k)
        problem = gfy.InnerProblem(energy, gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        instance = single(rng, problem, gfy.CustomEnergy.Input(u), batch, k)
        work = Named(instance, "custom-softplus", {"k": k, "batch": batch, "hidden": hidden}, 24)
        v = set_up(instance, backend, scale.device).inputs[-1]
        judge = partial(worst_gap, problem, v)
        hand = ByHand(step=1 / largest)
        mine, theirs = (
            to_accuracy(solver_contender(work, solver, backend, scale, own, 20_000, label), judge, target)
            for solver, own, label in ((solvers.Auto(), True, "Auto"), (hand, False, "by hand"))
        )
        take_turns([mine, theirs], 2 * scale.rounds, scale.slice_s)
        what = (
            f"CustomEnergy in {backend}, softplus, k = {k}, batch {batch}: against 15 lines with a tuned step"
        )
        detail = f"{milliseconds(mine.seconds)} / {milliseconds(theirs.seconds)}"
        ratio = mine.seconds / theirs.seconds
        lines.append(Line("by-hand", what, ratio, "<=", 1.5, detail, work, (mine, theirs)))
    return lines


def _softplus(backend: str, W: np.ndarray, w: np.ndarray) -> Callable[[Any, Any], Any]:
    from gfy.backend import get_backend

    library = get_backend(backend)
    turned, weights = library.asarray(W.T.copy(), dtype="float64"), library.asarray(w, dtype="float64")
    softplus = import_module("torch.nn.functional" if backend == "torch" else "jax.nn").softplus

    def energy(u: Any, p: Any) -> Any:
        return (u * p).sum(-1) - (softplus(p @ turned) * weights).sum(-1)

    return energy


@contextmanager
def threads(count: int) -> Iterator[None]:
    """The environment says how many threads compiled code may start."""
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
        run = certified(work, solver_contender(work, _solver("ActiveSet"), "torch", scale))
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
    """The same problems a small step of training later, from the old p* and from nothing."""
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
            solver = _solver("Auto")
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


def _solver(name: str) -> Any:
    from bench.plan.registry import make_solver

    return make_solver(name)


def _envelope(scale: Scale) -> list[Line]:
    import gfy

    lines = []
    for k, batch in [(8, 8)] if scale.tiny else [(14, 128), (50, 64), (174, 256)]:
        work = conditioned("quadratic-gini-box", k, batch, 100.0)
        for backend in scale.backends:
            solver = _solver("Auto")
            forward = certified(work, solver_contender(work, solver, backend, scale))
            bench = set_up(work.instance, backend, scale.device)
            call = gradient_call(bench, solver, gfy.Envelope(), forward.tol or 0.0)
            both = Contender("value and gradient", call, backend=backend)
            take_turns([forward, both], 2 * scale.rounds, scale.slice_s)
            detail = f"{milliseconds(both.seconds)} / {milliseconds(forward.seconds)}"
            what = f"{work.name}, {backend}: envelope, value and gradient against the forward solve"
            ratio = both.seconds / forward.seconds
            lines.append(Line("envelope-dense", what, ratio, "<=", 1.3, detail, work, (both, forward)))
    return lines


def _frameworks(scale: Scale) -> list[Line]:
    """Loss and gradient of every problem of the default suite, torch against JAX."""
    import gfy

    if len(scale.backends) < 2:
        return []
    lines = []
    problems = {(e.family, str(e.params)): e for e in read("default").problems}
    for entry in problems.values():
        work = make_problem(entry.family, entry.params)
        if not work.problem.energy.array_api or "yeast" in entry.family:
            continue  # a function of one framework; data that may not be there
        found = []
        for backend in ("jax", "torch"):
            bench = set_up(work.instance, backend, scale.device)
            call = gradient_call(bench, _solver("Auto"), gfy.Envelope(), 1e-8, 2_000)
            found.append(Contender("loss and gradient", call, backend=backend))
        take_turns(found, scale.rounds, scale.slice_s, patience_s=_REST_S)
        jax, torch = found
        slack = 0.4e-3  # seconds within which both count as equal
        ratio = 1.0 if torch.seconds <= jax.seconds + slack else torch.seconds / jax.seconds
        detail = f"{milliseconds(torch.seconds)} / {milliseconds(jax.seconds)}"
        what = f"{work.name}: loss and gradient, torch against JAX (1 where within 0.4 ms)"
        lines.append(Line("torch-beside-jax", what, ratio, "<=", 2.0, detail, work, tuple(found)))
    return lines


BARS = (
    Bar("dense-box", "speed", "dense box, k = 14, 50, 174: both frameworks >= 3 x native codes", _dense_box),
    Bar("dense-simplex", "speed", "dense simplex, k = 50, 200: >= 3 x native codes", _dense_simplex),
    Bar("native-rank1", "speed", "rank 1: >= 5 x the same idea, >= 100 x QP codes", partial(_low_rank, 1)),
    Bar("native-rank8", "speed", "rank 8: >= 50 x every general QP code", partial(_low_rank, 8)),
    Bar("by-hand", "speed", "a user's own energy: <= 1.5 x a tuned loop by hand, gap 1e-8", _by_hand),
    Bar("threads", "speed", "dense, k = 174, batch 256: two threads >= 1.6 x one", _threads),
    Bar("warm-start", "speed", "a step of training later: warm >= 1.5 x cold", _warm),
    Bar("envelope-dense", "gradients", "dense: value and gradient <= 1.3 x the forward solve", _envelope),
    Bar("torch-beside-jax", "speed", "default suite: torch <= 2 x JAX, or within 0.4 ms", _frameworks),
)
