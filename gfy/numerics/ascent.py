"""Maximise a smooth function of a vector for a whole batch, by gradient ascent with Barzilai-Borwein steps.

Small searches over v (biconjugates) and over parameters (the convex-concave procedure) need no better method. A step
is accepted only where it improves the value by at least a tenth of what the slope predicts, so the value never falls
by more than rounding; a refused step is tried again at a quarter of its length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gfy.backend import backend_of
from gfy.numerics.arithmetic import dot
from gfy.protocols import Array, Stop

_LONGEST = 1e8
_SHORTEST = 1e-14


class Ascent(NamedTuple):
    """Hold the state of the search: x [..., n], value [...], gradient [..., n], the next step length [...]."""

    x: Array
    value: Array
    gradient: Array
    length: Array
    done: Array  # [...] bool
    steps: Array  # [] the number of evaluations so far


def ascend(value_and_grad: Callable[[Array], tuple[Array, Array]], x: Array, stop: Stop) -> Ascent:
    """Return the maximum near x [..., n] of a function given as x -> (value [...], gradient [..., n])."""
    backend = backend_of(x)
    xp = backend.xp
    value, gradient = value_and_grad(x)
    norm = xp.sqrt(dot(gradient, gradient))
    length = 1 / xp.maximum(norm, xp.ones_like(norm))
    eps = backend.eps(x)

    def body(state: Ascent) -> Ascent:
        step = state.length[..., None] * state.gradient
        trial = state.x + step
        value, gradient = value_and_grad(trial)
        slope = dot(step, state.gradient)
        # The last steps improve the value by less than its rounding, and must not be refused for that.
        slack = 4 * eps * (1 + xp.abs(state.value))
        good = (value >= state.value + 0.1 * slope - slack) & ~state.done
        kept = good[..., None]
        change = gradient - state.gradient
        bend = -dot(step, change)
        square = dot(step, step)
        natural = square / xp.where(bend > 0, bend, xp.ones_like(bend))
        natural = xp.where(bend > 0, natural, 4 * state.length)
        natural = xp.where(natural > _LONGEST, xp.full_like(natural, _LONGEST), natural)
        length = xp.where(good, natural, state.length / 4)
        new = Ascent(
            xp.where(kept, trial, state.x),
            xp.where(good, value, state.value),
            xp.where(kept, gradient, state.gradient),
            length,
            state.done,
            state.steps + 1,
        )
        flat = dot(new.gradient, new.gradient) <= stop.tol**2
        return new._replace(done=state.done | flat | (length < _SHORTEST))

    nothing = xp.zeros_like(value)
    start = Ascent(x, value, gradient, length, norm <= stop.tol, xp.sum(nothing))
    return backend.while_loop(lambda s: xp.any(~s.done) & (s.steps < stop.max_steps), body, start)
