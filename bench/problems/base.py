"""Define a benchmark problem: a seeded recipe for inner problems, in NumPy, the same for every framework."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from statistics import NormalDist
from typing import Any, Protocol

import numpy as np

from bench.store.environment import fingerprint
from gfy.backend import leaves
from gfy.errors import GfyValueError
from gfy.problem import InnerProblem

Params = dict[str, Any]
COUNTS = ("k", "batch", "rank", "length", "layers")  # parameters of a family that count something
PROBE_SEED = 29


@dataclass(frozen=True)
class Instance:
    """Hold inner problems to solve: `inputs` are energy Inputs of NumPy float64 leaves, targets are [batch, k].

    Usually there is one input. A sequence of inputs stands for the steps of a training run. They are solved one after
    the other, each from the solution before it where `warm` is True, and otherwise from scratch.

    Args:
        problem: the energy, the regularizer and the set.
        inputs: one Input of the energy, or several.
        targets: points of the set, against which losses are computed, [batch, k].
        warm: whether each input is solved from the solution of the input before it; False by default.

    Example:
        >>> import numpy as np
        >>> from bench.problems.base import Instance
        >>> problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Gini(), gfy.Simplex())
        >>> made = Instance(problem, (gfy.Bilinear.Input(np.ones((2, 3))),), np.eye(3)[:2])
        >>> made.k, made.batch
        (3, 2)
    """

    problem: InnerProblem
    inputs: tuple[Any, ...]
    targets: np.ndarray
    warm: bool = False

    @property
    def k(self) -> int:
        return int(self.targets.shape[-1])

    @property
    def batch(self) -> int:
        return int(self.targets.shape[0])

    def first(self, count: int) -> Instance:
        """Return the same problem with its first few examples; leaves that the batch shares stay whole."""
        ranks = self.problem.energy.ranks
        inputs = tuple(
            type(v)(**{f: x[:count] if x.ndim > ranks[f] else x for f, x in v._asdict().items()})
            for v in self.inputs
        )
        return replace(self, inputs=inputs, targets=self.targets[:count])


class Recipe(Protocol):
    """Define what a problem of one's own must offer: a name, default parameters, and `make`. `Family` offers them.

    Example:
        >>> import numpy as np
        >>> from bench.problems.base import Instance
        >>> class Ones:
        ...     name, defaults = "ones", {"k": 3}
        ...     def make(self, rng, k=3):
        ...         problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Gini(), gfy.Simplex())
        ...         return Instance(problem, (gfy.Bilinear.Input(np.ones((1, k))),), np.eye(k)[:1])
        >>> Ones().make(np.random.default_rng(0), k=4).k
        4
    """

    name: str
    defaults: Params

    def make(self, rng: np.random.Generator, **params: Any) -> Instance: ...


@dataclass(frozen=True)
class Family:
    """Represent a named recipe: `make(rng, **params)` builds an `Instance` of the requested size.

    Args:
        name: the name in tables and on the command line.
        about: what the problem is, in a few words.
        build: a function (rng, **params) -> `Instance`, which must depend on nothing else.
        defaults: the parameters and their values where none are given; empty by default.
        exact: whether every machine makes the same numbers, apart from a few rounding errors; True by default.

    Raises:
        GfyValueError: `make` is given a number of labels or examples, a rank or a length that is no whole number >= 1.

    Example:
        >>> import numpy as np
        >>> from bench.problems.base import Family, Instance
        >>> def build(rng, k, batch):
        ...     problem = gfy.InnerProblem(gfy.Bilinear(), gfy.Gini(), gfy.Simplex())
        ...     return Instance(problem, (gfy.Bilinear.Input(rng.normal(size=(batch, k))),), np.eye(k)[:batch])
        >>> family = Family("scores", "random scores of classes", build, {"k": 4, "batch": 2})
        >>> family.make(np.random.default_rng(0), k=3).targets.shape
        (2, 3)
    """

    name: str
    about: str
    build: Any
    defaults: Params = field(default_factory=dict)
    exact: bool = True

    def make(self, rng: np.random.Generator, **params: Any) -> Instance:
        for name in COUNTS:
            value = params.get(name, 1)
            if not isinstance(value, int | np.integer) or value < 1:
                raise GfyValueError(
                    f"The problem {self.name}: {name} must be a whole number >= 1, got {value!r}"
                )
        instance: Instance = self.build(rng, **{**self.defaults, **params})
        return instance


@dataclass(frozen=True)
class Named:
    """Hold an instance and what names it: its family, all parameters, the seed, and the file that makes it."""

    instance: Instance
    family: str
    params: Params
    seed: int
    source: Path | None = None
    unusual: tuple[str, ...] = ()  # the parameters besides the sizes that are not the family's defaults

    @property
    def name(self) -> str:
        sizes = {**self.params, "k": self.instance.k, "batch": self.instance.batch}
        return "-".join([label(self.family, sizes), *(f"{n}{_short(self.params[n])}" for n in self.unusual)])

    @property
    def problem(self) -> InnerProblem:
        return self.instance.problem

    @property
    def inputs(self) -> Any:
        """Return the last (mostly the only) input, with NumPy leaves."""
        return self.instance.inputs[-1]

    @property
    def k(self) -> int:
        return self.instance.k

    @property
    def batch(self) -> int:
        return self.instance.batch

    @cached_property
    def probe(self) -> float:
        """Return a seeded projection of all its numbers, which differs between problems of different numbers."""
        rng = np.random.default_rng(PROBE_SEED)
        parts = [self.instance.targets, *leaves(self.instance.inputs)]
        arrays = [
            np.asarray(x, dtype=np.float64).ravel() for x in parts if np.asarray(x).dtype.kind in "fiub"
        ]
        return float(sum(rng.normal(size=x.size) @ x for x in arrays))

    def same_numbers(self, probe: float | None) -> bool:
        """Return whether a problem that was made elsewhere holds the same numbers, up to rounding."""
        return probe is None or bool(np.isclose(self.probe, probe, rtol=1e-6, atol=1e-6))

    @property
    def columns(self) -> Params:
        """Return the columns of a row that say which problem was solved."""
        problem = self.problem
        return {
            "problem": self.name,
            "family": self.family,
            "energy": problem.energy.name,
            "regularizer": problem.regularizer.name,
            "domain": problem.domain.name,
            "k": self.instance.k,
            "batch": self.instance.batch,
            "rank": self.params.get("rank"),
            "seed": self.seed,
            "problem_params": self.params,
            "problem_probe": self.probe,
            "problem_source": None if self.source is None else fingerprint(self.source),
        }

    def first(self, count: int) -> Named:
        return replace(self, instance=self.instance.first(count))


def label(family: str, params: Params) -> str:
    """Return a name for a problem of one size: pairwise-gini-k174-b64-r1."""
    short = {"k": "k", "batch": "b", "rank": "r"}
    return "-".join([family, *(f"{short[n]}{params[n]}" for n in short if n in params)])


def _short(value: Any) -> str:
    return re.sub(r"e[+]?(-?)0*", r"e\1", f"{value:g}") if isinstance(value, (int, float)) else str(value)


def spread(active: float) -> float:
    """Return the standard deviation at which a fraction `active` of normal numbers exceeds 1 in size."""
    return 1.0 / NormalDist().inv_cdf(1.0 - min(max(active, 1e-6), 1.0 - 1e-6) / 2.0)


def negative_definite(
    rng: np.random.Generator, batch: int, k: int, condition: float, size: float
) -> np.ndarray:
    """Return U [batch, k, k] = -Q diag(e) Q^T, with e log-spaced from size down to size / condition."""
    basis, _ = np.linalg.qr(rng.normal(size=(batch, k, k)))
    eigenvalues = size * np.logspace(0.0, -np.log10(condition), k)
    matrix = -(basis * eigenvalues) @ np.swapaxes(basis, -1, -2)
    return 0.5 * (matrix + np.swapaxes(matrix, -1, -2))


def vertices(rng: np.random.Generator, problem: InnerProblem, batch: int, k: int) -> np.ndarray:
    """Return targets: random extreme points of the set (labels, classes, permutations), [batch, k]."""
    scores = rng.normal(size=(batch, k))
    if not problem.domain.compact:
        return scores
    return np.asarray(problem.domain.linear_oracle(scores), dtype=np.float64)


def single(rng: np.random.Generator, problem: InnerProblem, v: Any, batch: int, k: int) -> Instance:
    return Instance(problem, (v,), vertices(rng, problem, batch, k))
