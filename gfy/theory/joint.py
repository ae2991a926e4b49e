"""Learn an energy together with its partition function, without solving or sampling from the model.

The likelihood of a model p(y | x) = q(y) exp(g(x, y)) / Z(x) over a huge set Y holds log Z(x) = log E_q exp(g(x, Y)).
Because log Z = min_tau tau + E_q exp(g - tau) - 1, a number tau(x) can be learned beside g. Maximum likelihood is
then one minimisation over both, and samples of the fixed prior q estimate its gradients without bias.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gfy.backend import backend_of, floating_leaf
from gfy.calling.guard import guard
from gfy.checks import check_input, check_point
from gfy.energies.base import Energy
from gfy.errors import GfyTypeError, GfyValueError
from gfy.numerics.arithmetic import logsumexp, relu
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input
from gfy.regularizers.quadratic import Zero
from gfy.sets import Reals

DIVERGENCES = ("kl", "chi2")
_REDUCTIONS = ("none", "mean", "sum")
_NEWTON = 60  # Steps on a convex piecewise linear equation. Each step ends at a breakpoint or at the root.


@dataclass(frozen=True)
class JointLoss:
    """Compute the min-min loss tau - Phi(v, y) + E_q f*(Phi(v, Y) - tau), where tau is a learned log-partition.

    With `divergence="kl"` (f* = exp - 1) its minimum over tau is the negative log-likelihood of
    p(y) = q(y) exp(Phi(v, y) - log Z), up to log q(y), and tau is log Z there. With "chi2", where
    f*(s) = max(s, 0)^2 / 2 + 1/2, the model is the sparse p(y) = q(y) max(Phi(v, y) - tau, 0). The loss is an upper
    bound for every tau; gradients in the parameters of Phi and of tau are unbiased for any number of samples.

    Args:
        energy: Phi; its Input v comes from a network. Any energy will do, concave or not.
        divergence: "kl" or "chi2"; "kl" by default.
        reduction: "none", "mean" or "sum" over the examples; "none" by default.

    Raises:
        GfyTypeError: for an energy that is none.
        GfyValueError: for a divergence or a reduction that is not known.

    Reference: Sander, Roulet, Liu and Blondel (2025), joint learning of energy-based models and their partition
    function.

    Example:
        >>> v = gfy.Pairwise.Input(u=array([[0.5, -0.5]]), A=array([[[1.0], [0.5]]]))
        >>> loss = gfy.JointLoss(gfy.Pairwise())
        >>> samples = loss.draw(v, 64, seed=0)
        >>> tuple(loss(v, array([[1.0, 0.0]]), array([0.0]), samples).shape)
        (1,)
    """

    energy: Energy
    divergence: str = "kl"
    reduction: str = "none"

    def __post_init__(self) -> None:
        if not isinstance(self.energy, Energy):
            raise GfyTypeError(
                f"JointLoss.energy must be an Energy such as gfy.Pairwise(), got {self.energy!r}"
            )
        if self.divergence not in DIVERGENCES:
            raise GfyValueError(
                f"JointLoss.divergence must be one of {', '.join(DIVERGENCES)}, got {self.divergence!r}"
            )
        if self.reduction not in _REDUCTIONS:
            raise GfyValueError(f"reduction must be one of {', '.join(_REDUCTIONS)}, got {self.reduction!r}")

    @guard
    def __call__(
        self, v: Any, y: Array, tau: Array, samples: Array, log_weights: Array | None = None
    ) -> Array:
        """Return the loss of each example, or their mean or sum; it is differentiable in v and tau.

        Args:
            v: the energy's Input, with batch axes [...].
            y: the observed outputs, [..., k].
            tau: the learned log-partition of each example, [...].
            samples: outputs drawn from the prior: [s, k], shared by the batch, or [s, ..., k].
            log_weights: log q(y) - log r(y) of samples that were drawn from r and not from q, [s] or [s, ...].
                Default: the samples are those of q.

        Returns:
            [...], or a number where a reduction was asked for.

        Raises:
            GfyTypeError, GfyValueError: for arguments that cannot be used, shapes that do not agree among them.

        Example:
            >>> loss = gfy.JointLoss(gfy.Bilinear())
            >>> loss(u, y, tau, loss.draw(u, 100))
        """
        v = self._input(v)
        xp = backend_of(v).xp
        y, tau = self._target(v, y), self._shaped(v, tau, "tau")
        scores, logs = self._scores(v, samples, log_weights)
        values = tau - self.energy.value(v, y) + self._mean(scores - tau, logs)
        if self.reduction == "none":
            return values
        return xp.mean(values) if self.reduction == "mean" else xp.sum(values)

    @guard
    def best_tau(self, v: Any, samples: Array, log_weights: Array | None = None) -> Array:
        """Return the tau that minimises the loss for these samples; it is log Z where they are all of Y, each once.

        Args:
            v: the energy's Input, with batch axes [...].
            samples: [s, k] or [s, ..., k]; all outputs in place of samples give the exact value for a uniform prior.
            log_weights: as for the loss; None by default.

        Returns:
            [...]; a good value for the last bias of a network for tau to start from.

        Raises:
            GfyTypeError, GfyValueError: for arguments that cannot be used.

        Example:
            >>> start = loss.best_tau(v, samples).mean()
        """
        v = self._input(v)
        backend = backend_of(v)
        xp = backend.xp
        scores, logs = self._scores(v, samples, log_weights)
        count = scores.shape[0]
        if self.divergence == "kl":
            total = scores if logs is None else scores + logs
            return logsumexp(xp.moveaxis(total, 0, -1)) - math.log(count)
        weights = xp.ones_like(scores) if logs is None else xp.exp(logs) + 0 * scores

        def newton(tau: Array) -> Array:
            over = scores > tau
            mass = xp.sum(xp.where(over, weights, 0 * weights), axis=0)
            sums = xp.sum(xp.where(over, weights * scores, 0 * scores), axis=0)
            return (sums - count) / xp.where(mass > 0, mass, xp.ones_like(mass))

        # The convex function lies above the line with all terms active. The steps start at the root of that
        # line, and from there every step goes towards the solution.
        start = (xp.sum(weights * scores, axis=0) - count) / xp.sum(weights, axis=0)
        return backend.scan(newton, start, _NEWTON)

    @guard
    def density(self, v: Any, y: Array, tau: Array) -> Array:
        """Return p(y) / q(y) by the learned tau: exp(Phi - tau), or max(Phi - tau, 0) for "chi2"; no sample is needed.

        Args:
            v: the energy's Input, with batch axes [...].
            y: outputs, [..., k], or [s, ..., k] for several per example.
            tau: the learned log-partition, [...].

        Returns:
            [...] or [s, ...].

        Raises:
            GfyTypeError, GfyValueError: for arguments that cannot be used.

        Example:
            >>> loss.density(v, y, tau)
        """
        v = self._input(v)
        excess = self.energy.value(v, self._target(v, y, True)) - self._shaped(v, tau, "tau")
        return backend_of(excess).xp.exp(excess) if self.divergence == "kl" else relu(excess)

    @guard
    def draw(self, v: Any, count: int, seed: int = 0, share: float = 0.5) -> Array:
        """Return samples of independent labels in {0, 1}^k, [count, k], in the framework and dtype of v.

        Args:
            v: the energy's Input, which says k.
            count: how many, at least 1.
            seed: the seed of NumPy's generator, another one at every step; 0 by default.
            share: the probability of a label, in (0, 1); 0.5, the uniform prior, by default.

        Returns:
            [count, k] of zeros and ones.

        Raises:
            GfyValueError: for a count below 1 or a share outside (0, 1).

        Example:
            >>> samples = gfy.JointLoss(gfy.Bilinear()).draw(u, 64, seed=7)
        """
        if count < 1:
            raise GfyValueError(f"count must be at least 1, got {count!r}")
        if not 0 < share < 1:
            raise GfyValueError(f"share must lie in (0, 1), got {share!r}")
        v = self.energy.coerce(v)
        drawn = np.random.default_rng(seed).uniform(size=(count, self.energy.dim(v))) < share
        return backend_of(v).asarray(drawn.astype(np.float64), like=floating_leaf(v))

    def _input(self, v: Any) -> Input:
        return check_input(InnerProblem(self.energy, Zero(), Reals()), v)

    def _mean(self, excess: Array, logs: Array | None) -> Array:
        """Return E_q f*(excess) over the first axis."""
        xp = backend_of(excess).xp
        if self.divergence == "kl":
            return xp.mean(xp.exp(excess if logs is None else excess + logs), axis=0) - 1
        square = 0.5 * relu(excess) ** 2
        return xp.mean(square if logs is None else square * xp.exp(logs), axis=0) + 0.5

    def _scores(self, v: Input, samples: Array, log_weights: Array | None) -> tuple[Array, Array | None]:
        """Return Phi of every sample and example, [s, ...], and the logarithms of their weights."""
        axes = len(self.energy.batch_shape(v))
        if samples.ndim not in (2, axes + 2) or not samples.shape[0]:
            raise GfyValueError(
                f"samples must be [s, k] or [s, ..., k] with the {axes} batch axes of v and s at least 1, got shape "
                f"{tuple(samples.shape)}"
            )
        many = self._target(v, _spread(samples, axes + 2, 1), True, "samples")
        scores = self.energy.value(v, many)
        if log_weights is None:
            return scores, None
        logs = _spread(backend_of(v).asarray(log_weights, like=scores), axes + 1, 0)
        if logs.shape[0] != scores.shape[0]:
            raise GfyValueError(
                f"log_weights must have one entry per sample, {scores.shape[0]}, got shape "
                f"{tuple(log_weights.shape)}"
            )
        return scores, logs

    def _target(self, v: Input, y: Array, many: bool = False, name: str = "y") -> Array:
        like = floating_leaf(v)
        if getattr(y, "dtype", None) != like.dtype:
            y = backend_of(v).asarray(y, like=like)
        expected = (*self.energy.batch_shape(v), self.energy.dim(v))
        fits = tuple(y.shape) == expected or (many and y.shape[-1:] == expected[-1:] and y.ndim > 1)
        if not fits:
            raise GfyValueError(f"{name} must have the shape {expected}, got {tuple(y.shape)}")
        check_point(y, name)
        return y

    def _shaped(self, v: Input, tau: Array, name: str) -> Array:
        expected = self.energy.batch_shape(v)
        if not hasattr(tau, "shape"):
            tau = backend_of(v).asarray(tau, like=floating_leaf(v))
        if tuple(tau.shape) != expected:
            raise GfyValueError(
                f"{name} must have one number per example, shape {expected}, got {tuple(tau.shape)}"
            )
        return tau


def _spread(x: Array, ndim: int, last: int) -> Array:
    """Return x [s, ...event] with axes of length 1 after the first until it has `ndim` axes; `last` axes are
    the event's."""
    if x.ndim == ndim:
        return x
    return x[(slice(None), *(None,) * (ndim - 1 - last), *(slice(None),) * last)]
