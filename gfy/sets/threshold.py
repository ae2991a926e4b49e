"""Find tau with sum_j q(theta_j - tau) = total for a non-decreasing q: the multiplier of the constraint sum p = total.

Newton's step on a piecewise smooth equation can cycle between two breakpoints for ever, so every evaluated point
becomes an end of a bracket, a step must fall strictly inside it, and one that does not halve the excess is followed
by a bisection.
Where the scores are so large beside omega' that no number of their dtype is a good enough tau, the search goes on
relative to the tau it found: theta - tau is exact near it, and resolves what theta does not.
The last steps are taken outside the loop, differentiably: dtau = <q', dtheta> / <q', 1> is then exact in both
modes of differentiation without a rule of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from gfy.backend import backend_of
from gfy.numerics.arithmetic import clip
from gfy.protocols import Array

_MAX_STEPS = 200


class Multiplier(NamedTuple):
    """Hold a multiplier that was found elsewhere: tau, what is to be added to it, and how far the sum of both may
    still be moved down and up, [..., 1] each."""

    tau: Array
    finer: Array
    least: Array
    most: Array


class _Bracket(NamedTuple):
    tau: Array  # [..., 1] the point to evaluate next
    low: Array  # sum too large here
    high: Array  # sum too small here
    least: Array  # half the excess before a Newton step; infinite after a bisection
    step: Array  # [] how many so far
    done: Array  # [..., 1] bool
    met: Array  # [..., 1] bool: the sum is right


def threshold(
    theta: Array,
    total: float,
    argmax: Callable[[Array], Array],
    slope: Callable[[Array], Array],
    low: Array,
    high: Array,
    straight: Callable[[Array], Array] | None = None,
    known: Multiplier | None = None,
) -> Array:
    """Return theta - tau, tau in [low, high] [..., 1], with sum argmax(theta - tau) = total; slope is
    argmax's derivative.

    `straight` [..., 1] -> [..., 1] gives, for a sum s, (m(s) - m(total)) / m'(s) for a function m of the sum that is
    nearly a line in tau, so that Newton's steps on it are few; s - total by default. With `known` nothing is searched.
    """
    backend = backend_of(theta)
    xp = backend.xp
    fixed, low, high = backend.stop_gradient((theta, low, high))
    eps = backend.eps(fixed)
    tiny = 1e-30 if eps > 1e-10 else 1e-280

    def search(scores: Array, tau: Array, low: Array, high: Array, done: Array) -> _Bracket:
        def body(state: _Bracket) -> _Bracket:
            tau = state.tau
            shifted = scores - tau
            rate = slope(shifted)
            sums = argmax(shifted).sum(-1)[..., None]
            excess = sums - total
            ahead = excess if straight is None else straight(sums)
            weight = rate.sum(-1)[..., None]
            low = xp.where(excess >= 0, tau, state.low)
            high = xp.where(excess <= 0, tau, state.high)
            middle = low + (high - low) / 2
            # a smaller slope leads out of the bracket, or overflows
            inside = weight * (high - low) > xp.abs(ahead)
            step = ahead / xp.where(inside, weight, xp.ones_like(weight))
            # a step as short as tau's last digit goes one digit on: either the bracket closes, or a bisection follows
            proposal = tau + xp.sign(ahead) * xp.maximum(xp.abs(step), eps * xp.abs(tau))
            inside = inside & (proposal > low) & (proposal < high)
            # a step of Newton's that did not halve the excess is followed by a bisection
            bisect = ~inside | (xp.abs(excess) > state.least)
            following = xp.where(bisect, middle, proposal)
            # what the rounding of p, and of scores that are right to their last digit, does to the sum
            met = xp.abs(excess) <= eps * (4 * total + (rate * xp.abs(shifted)).sum(-1)[..., None])
            # a short step of Newton's would not do: the slope at tau says nothing of what lies beyond a breakpoint
            done = state.done | met | (high - low <= 2 * eps * xp.abs(tau))
            kept = state.done
            return _Bracket(
                xp.where(done, tau, following),
                xp.where(kept, state.low, low),
                xp.where(kept, state.high, high),
                xp.where(bisect, xp.full_like(excess, float("inf")), xp.abs(excess) / 2),
                state.step + 1,
                done,
                xp.where(kept, state.met, met),
            )

        start = _Bracket(
            tau, low, high, xp.full_like(low, float("inf")), xp.sum(xp.zeros_like(low)), done, done
        )
        return backend.while_loop(lambda s: xp.any(~s.done) & (s.step < _MAX_STEPS), body, start)

    if known is None:
        found = search(fixed, low, low, high, low != low)
        shifted = theta - backend.stop_gradient(found.tau)
        near = backend.stop_gradient(shifted)
        room = 4 * eps * xp.abs(found.tau)
        ends = found.low - found.tau - room, found.high - found.tau + room
        finer = search(near, xp.zeros_like(room), *ends, found.met)
        shifted = shifted - backend.stop_gradient(finer.tau)
        least, most = finer.low - finer.tau, finer.high - finer.tau
    else:
        shifted, least, most = (theta - known.tau) - known.finer, known.least, known.most
    for _ in range(2):  # the first step repairs rounding
        near = backend.stop_gradient(shifted)
        weight = slope(near).sum(-1)[..., None]
        excess = argmax(shifted).sum(-1)[..., None] - total
        step = excess / xp.where(weight > tiny, weight, xp.full_like(weight, float("inf")))
        fixed = backend.stop_gradient(step)
        taken = clip(fixed, least, most)  # where hardly anything moves with tau, rounding would carry it away
        shifted = shifted - (taken + (step - fixed))
        least, most = least - taken, most - taken
    return shifted
