"""Find tau with sum_j q(theta_j - tau) = total for a non-decreasing q: the multiplier of the constraint sum p = total.

Newton's steps on a piecewise smooth equation can cycle between two breakpoints without end. Every evaluated point
therefore becomes an end of a bracket, a step must end strictly inside the bracket, and a step that does not halve the
excess is followed by a bisection. Where the scores are so large beside omega' that no number of their dtype is an
accurate enough tau, the search continues relative to the tau that it found: theta - tau is exact near it, and has
digits that theta does not have. The last steps are taken outside the loop and are differentiable.
dtau = <q', dtheta> / <q', 1> is then exact in both modes of differentiation, without a custom rule.
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
    low: Array  # at this tau the sum is too large
    high: Array  # at this tau the sum is too small
    least: Array  # half the excess before a Newton step; infinite after a bisection
    step: Array  # [] the number of steps so far
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

    `straight` [..., 1] -> [..., 1] takes a sum s and gives (m(s) - m(total)) / m'(s), where m is a function for which
    m(sum) is nearly a straight line in tau, so that few Newton steps are needed. The default is s - total. With
    `known` nothing is searched.
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
            # With a smaller slope the step would leave the bracket or overflow.
            inside = weight * (high - low) > xp.abs(ahead)
            step = ahead / xp.where(inside, weight, xp.ones_like(weight))
            # The step is at least as long as one unit in tau's last digit. Either the bracket closes then, or
            # a bisection follows.
            proposal = tau + xp.sign(ahead) * xp.maximum(xp.abs(step), eps * xp.abs(tau))
            inside = inside & (proposal > low) & (proposal < high)
            # A Newton step that did not halve the excess is followed by a bisection.
            bisect = ~inside | (xp.abs(excess) > state.least)
            following = xp.where(bisect, middle, proposal)
            # The sum is met when the excess is at most the rounding of p and of scores that are right to
            # their last digit.
            met = xp.abs(excess) <= eps * (4 * total + (rate * xp.abs(shifted)).sum(-1)[..., None])
            # A short Newton step is no reason to stop: the slope at tau does not say what lies beyond a
            # breakpoint.
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
    for _ in range(2):  # The first of the two steps repairs rounding.
        near = backend.stop_gradient(shifted)
        weight = slope(near).sum(-1)[..., None]
        excess = argmax(shifted).sum(-1)[..., None] - total
        step = excess / xp.where(weight > tiny, weight, xp.full_like(weight, float("inf")))
        fixed = backend.stop_gradient(step)
        # The step is clipped, because where p hardly changes with tau the rounding of the sum would move tau
        # far away.
        taken = clip(fixed, least, most)
        shifted = shifted - (taken + (step - fixed))
        least, most = least - taken, most - taken
    return shifted
