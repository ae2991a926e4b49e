"""Compare a user's own energy with the loop that the user would write by hand."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from bench.gates.bars.contenders import solver_contender
from bench.gates.bars.ladder import take_turns, to_accuracy
from bench.gates.bars.line import Bar, Line, Scale, milliseconds
from bench.measure.certification import worst_gap
from bench.measure.programs import set_up
from bench.problems.base import Named


def _by_hand(scale: Scale) -> list[Line]:
    """Measure the softplus network as a user's own function against a loop written by hand, at a gap of 1e-8."""
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


BARS = (Bar("by-hand", "a user's own energy: <= 1.5 x a tuned loop by hand, gap 1e-8", _by_hand),)
