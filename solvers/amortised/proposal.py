"""Fit a small network that proposes p*, in closed form, to problems that were solved along a training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gfy.backend import backend_of, floating_leaf, leaves, tree_map
from gfy.errors import GfyValueError
from gfy.numerics.arithmetic import relu
from gfy.problem import InnerProblem
from gfy.protocols import Array, Input


@dataclass(frozen=True, eq=False)
class Proposal:
    """Represent a network with one hidden layer that maps the input v of a problem to a point of C near p*(v).

    It reads 3 k numbers for every energy: the gradient of Phi at the middle of C, the response of Omega to this
    gradient, and the gradient at the response. Instances are made by `ProposalLearner.proposal`. A fitted instance
    does not change, so a program that JAX compiled with it stays correct.

    Args:
        problem: the inner problem that it proposes solutions of.
        shift: what is subtracted from the 3 k numbers, [3 k].
        scale: what they are multiplied by then, [3 k].
        hidden: the fixed weights of the hidden layer, [3 k, h].
        offset: the fixed biases of the hidden layer, [h].
        readout: the fitted weights of a constant, the 3 k numbers and the hidden units, [1 + 3 k + h, k].

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.Bilinear.Input(array([[0.0, 1.0], [0.5, -0.5], [-1.0, 0.2]]))
        >>> learner = solvers.amortised.ProposalLearner(problem, hidden=0)
        >>> learner.see(v, gfy.argmax(problem, v))
        >>> learner.proposal()(v)[0].tolist()  # p* is (0.5, 1)
        [0.5, 1.0]
    """

    problem: InnerProblem
    shift: np.ndarray
    scale: np.ndarray
    hidden: np.ndarray
    offset: np.ndarray
    readout: np.ndarray

    @property
    def layers(self) -> tuple[np.ndarray, ...]:
        """Return the arrays in the order of the arguments: `Proposal(problem, *layers)` is the same proposal again.

        A function that JAX compiles may take them as arguments; a later fit then needs no second compilation.
        """
        return self.shift, self.scale, self.hidden, self.offset, self.readout

    def __call__(self, v: Input) -> Array:
        """Return the proposed p, [..., k], in the framework and dtype of v; `Amortised` projects it onto C."""
        k = self.readout.shape[-1]
        if self.problem.energy.dim(v) != k:
            raise GfyValueError(
                f"the proposal was fitted to problems with k = {k}, and v has k = {self.problem.energy.dim(v)}: "
                "fit another with a new ProposalLearner"
            )
        backend, energy = backend_of(v), self.problem.energy
        given = (v, self.layers)
        known = backend.is_concrete(given) and backend.on_host(*leaves(v))
        if known and energy.array_api and not backend.wants_gradient(given):
            # These are some dozens of operations on small arrays, for which NumPy takes a third of a
            # framework's time.
            found = self._of(tree_map(backend.to_numpy, given))
            return backend.asarray(found, like=floating_leaf(v))
        return self._of(given)

    def _of(self, given: tuple[Input, tuple[Array, ...]]) -> Array:
        v, layers = given
        read = readings(self.problem, v)
        backend = backend_of(read)
        shift, scale, hidden, offset, readout = (backend.asarray(x, like=read) for x in layers)
        x = (read - shift) * scale
        width = x.shape[-1]
        return readout[0] + x @ readout[1 : 1 + width] + relu(x @ hidden + offset) @ readout[1 + width :]


class ProposalLearner:
    """Learn a `Proposal` from solved problems by one ridge regression, whose sums are updated batch by batch.

    Args:
        problem: the inner problem whose solutions are seen.
        hidden: the number of hidden units; 0 makes the proposal linear in what it reads; 64 by default.
        ridge: the penalty on the fitted weights, relative to the mean square of what they multiply; 1e-6 by default.
        keep: what the sums of the past are multiplied by at each batch, in (0, 1]; below 1 old problems are forgotten
            as the network changes; 0.95 by default.
        seed: the seed of the hidden layer's fixed weights; 0 by default.

    Raises:
        GfyValueError: for a ridge that is not positive or a `keep` outside (0, 1].

    Example:
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.BinaryGini(), gfy.Box(0.0, 1.0))
        >>> v = gfy.Bilinear.Input(array([[0.0, 1.0], [0.5, -0.5], [-1.0, 0.2]]))
        >>> learner = solvers.amortised.ProposalLearner(problem)
        >>> learner.see(v, gfy.argmax(problem, v))
        >>> gfy.argmax(problem, v, solver=solvers.Amortised(learner.proposal()))[0].tolist()
        [0.5, 1.0]
    """

    def __init__(
        self, problem: InnerProblem, hidden: int = 64, ridge: float = 1e-6, keep: float = 0.95, seed: int = 0
    ) -> None:
        if hidden < 0:
            raise GfyValueError(f"ProposalLearner.hidden must be a whole number >= 0, got {hidden!r}")
        if not ridge > 0:
            raise GfyValueError(f"ProposalLearner.ridge must be a number > 0, got {ridge!r}")
        if not 0 < keep <= 1:
            raise GfyValueError(f"ProposalLearner.keep must lie in (0, 1], got {keep!r}")
        self.problem, self.units, self.ridge, self.keep, self.seed = problem, hidden, ridge, keep, seed
        self._layers: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None = None
        self._square = self._cross = np.zeros((0, 0))

    def see(self, v: Any, p: Array) -> None:
        """Add a batch of solved problems to the sums.

        Args:
            v: the energy's Input, of any number of batch axes.
            p: their solutions, [..., k]; examples whose numbers are not finite are left out.

        Raises:
            GfyValueError: where k differs from that of the batches before.
        """
        v = self.problem.energy.coerce(v)
        backend = backend_of(v)
        v, p = backend.stop_gradient((v, p))
        with backend.constant():
            read = np.asarray(backend.to_numpy(readings(self.problem, v)), dtype=np.float64)
        target = np.asarray(backend.to_numpy(p), dtype=np.float64)
        read, target = read.reshape(-1, read.shape[-1]), target.reshape(-1, target.shape[-1])
        fine = np.isfinite(read).all(-1) & np.isfinite(target).all(-1)
        read, target = read[fine], target[fine]
        if not len(read):
            return
        if self._layers is None:
            self._begin(read, target.shape[-1])
        if target.shape[-1] != self._cross.shape[-1]:
            raise GfyValueError(
                f"ProposalLearner.see was given solutions with k = {target.shape[-1]} after others with "
                f"k = {self._cross.shape[-1]}: make one learner per size"
            )
        assert self._layers is not None
        shift, scale, hidden, offset = self._layers
        x = (read - shift) * scale
        design = np.concatenate([np.ones((len(x), 1)), x, np.maximum(x @ hidden + offset, 0.0)], axis=-1)
        self._square = self.keep * self._square + design.T @ design
        self._cross = self.keep * self._cross + design.T @ target

    def proposal(self) -> Proposal:
        """Return the `Proposal` that fits the problems seen so far best.

        Raises:
            GfyValueError: where no problem was seen yet.
        """
        if self._layers is None:
            raise GfyValueError("ProposalLearner has seen no solved problem yet: call see(v, p) first")
        size = np.diagonal(self._square)
        system = self._square + np.diag(self.ridge * np.maximum(size, size.max() * 1e-12))
        return Proposal(self.problem, *self._layers, np.linalg.solve(system, self._cross))

    def _begin(self, read: np.ndarray, k: int) -> None:
        """Fix the first layer by the first batch: numbers are scaled to mean 0 and size 1, and weights are drawn."""
        rng = np.random.default_rng(self.seed)
        width = read.shape[-1]
        spread = read.std(0)
        scale = 1.0 / np.where(spread > 1e-8, spread, 1.0)
        hidden = rng.normal(size=(width, self.units)) / np.sqrt(width)
        self._layers = (read.mean(0), scale, hidden, rng.normal(size=self.units))
        terms = 1 + width + self.units
        self._square, self._cross = np.zeros((terms, terms)), np.zeros((terms, k))


def readings(problem: InnerProblem, v: Input) -> Array:
    """Return the features of a problem, [..., 3 k]: two gradients of Phi and Omega's response between them."""
    backend = backend_of(v)
    omega, domain = problem.regularizer, problem.domain
    shape = (*problem.energy.batch_shape(v), problem.energy.dim(v))
    middle = domain.center(backend.zeros(shape, floating_leaf(v)))
    first = problem.energy.grad_p(v, middle) + backend.xp.zeros_like(middle)
    known = omega.no_argmax(domain) is None
    response = omega.argmax(first, domain) if known else domain.project(middle + first)
    second = problem.energy.grad_p(v, response) + backend.xp.zeros_like(middle)
    return backend.xp.concat([first, response, second], axis=-1)
