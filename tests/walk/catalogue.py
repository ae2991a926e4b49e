"""What is walked: energies, sets, regularizers, solvers and gradient modes, each beside its independent formula.

All numbers have eight significant bits, so that every dtype holds them exactly and one reference serves them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import gfy
import solvers

from . import formulas_energies as energies
from .formulas_sets import Omega, Region

K, SIDE, RANK, HIDDEN, OUTER, WIDTH = 5, 3, 2, 4, 6, 7  # no batch axis has one of these lengths but SIDE
Maker = Callable[[np.random.Generator, int], np.ndarray]


def coarse(x: Any) -> np.ndarray:
    """x rounded to eight significant bits, which bfloat16 and float16 hold exactly."""
    mantissa, exponent = np.frexp(np.asarray(x, dtype=float))
    return np.ldexp(np.round(mantissa * 256) / 256, exponent)


def normal(*shape: int, scale: float = 1.0, shift: float = 0.0) -> Maker:
    """A leaf of this event shape (0 stands for k), drawn from a normal distribution."""
    return lambda rng, k: coarse(shift + scale * rng.normal(size=tuple(n or k for n in shape)))


def negative_definite(rng: np.random.Generator, k: int) -> np.ndarray:
    root = rng.normal(size=(k, k))
    return coarse(-root @ root.T / k - 0.25 * np.eye(k))


def indefinite(rng: np.random.Generator, k: int) -> np.ndarray:
    root = rng.normal(size=(k, k))
    return coarse((root + root.T) / 4 - 0.1 * np.eye(k))


@dataclass(frozen=True)
class EnergyEntry:
    """An energy of the library, its formula, and its leaves (rank of one example's part, how it is drawn)."""

    name: str
    make: Callable[[str, int], Any]  # (framework, k) -> the energy
    formula: Callable[[], energies.Formula]
    leaves: dict[str, tuple[int, Maker]]
    k: int | None = None  # where the energy fixes the size of p
    pack: Callable[[dict[str, Any]], Any] | None = None  # leaves -> v; the energy's Input by default
    unpack: Callable[[Any], dict[str, Any]] | None = None

    def size(self, entry: SetEntry) -> int:
        """k on a set."""
        return self.k if self.k is not None else entry.k

    def tree(self, energy: Any, leaves: dict[str, Any]) -> Any:
        return energy.Input(**leaves) if self.pack is None else self.pack(leaves)

    def flat(self, tree: Any) -> dict[str, Any]:
        return dict(tree._asdict()) if self.unpack is None else self.unpack(tree)


WIDE = {k: coarse(0.4 * np.random.default_rng(13).normal(size=(WIDTH, k))) for k in (1, K, SIDE**2)}
WIDE_POSITIVE = {
    k: coarse(np.random.default_rng(14).uniform(0.05, 0.5, size=(WIDTH, k))) for k in (1, K, SIDE**2)
}


def relu(z: np.ndarray) -> np.ndarray:
    return np.maximum(z, 0)


def log_sum_exp(z: np.ndarray) -> np.ndarray:
    return np.array([0.5 * np.log(np.exp(2 * z).sum())])


def _mixed(scores: Callable[[np.ndarray], np.ndarray], tables: dict[int, np.ndarray]) -> Any:
    class Mixed(energies.Scores):
        def phi(self, v: Any, p: Any, t: Any) -> Any:
            return energies.dot(scores(v["v"]) @ tables[p.shape[-1]], p)

        def model(self, v: Any, p: Any) -> Any:
            return (scores(v["v"]) @ tables[p.shape[0]]) @ p, [], None

        def smooth_in_v(self, v: Any) -> float:
            return float(np.abs(v["v"]).min()) if scores is relu else np.inf

    return lambda: Mixed(scores)


def _softplus(framework: str) -> Any:
    if framework == "jax":
        import jax

        return jax.nn.softplus
    import torch

    return torch.nn.functional.softplus


def _handwritten(framework: str, k: int, read: Callable[[Any], tuple[Any, Any, Any]]) -> Any:
    softplus = _softplus(framework)

    def fn(v: Any, p: Any) -> Any:
        u, W, b = read(v)
        z = p if W is None else (W @ p[..., None])[..., 0] + b
        return (u * p).sum(-1) - softplus(z).sum(-1) - (p * p).sum(-1) / 4

    return gfy.CustomEnergy(fn, concave=True, k=k)


SPEN = {
    "u": (1, normal(0)), "W1": (2, normal(HIDDEN, 0)), "b1": (1, normal(HIDDEN)),
    "W2": (1, normal(HIDDEN)), "b2": (0, normal()),
}  # fmt: skip
ICNN = {
    "u": (1, normal(0)), "W0": (2, normal(HIDDEN, 0)), "b0": (1, normal(HIDDEN)),
    "Wz": (2, normal(OUTER, HIDDEN, shift=-2.0)), "Wp": (2, normal(OUTER, 0, scale=0.5)),
    "b1": (1, normal(OUTER)), "wz": (1, normal(OUTER, shift=-1.0)),
}  # fmt: skip
NET = {"u": (1, normal(0)), "W": (2, normal(HIDDEN, 0)), "b": (1, normal(HIDDEN))}
SCORES: dict[str, tuple[int, Maker]] = {"v": (1, normal(0))}
FEATURES: dict[str, tuple[int, Maker]] = {"v": (1, normal(WIDTH))}
PLACE: dict[str, tuple[int, Maker]] = {"v": (1, lambda rng, k: coarse(rng.uniform(0.2, 0.6, size=k)))}
FAR: dict[str, tuple[int, Maker]] = {"v": (1, lambda rng, k: coarse(rng.uniform(1.2, 2.0, size=k)))}


def _same(z: np.ndarray) -> np.ndarray:
    return z


ENERGIES = [
    EnergyEntry("Bilinear", lambda f, k: gfy.Bilinear(), lambda: energies.Scores(_same), SCORES),
    EnergyEntry("Bilinear(U)", lambda f, k: gfy.Bilinear(WIDE[k]), _mixed(_same, WIDE), FEATURES),
    EnergyEntry(
        "Rectifier", lambda f, k: gfy.Rectifier(WIDE_POSITIVE[k]), _mixed(relu, WIDE_POSITIVE), FEATURES
    ),
    EnergyEntry(
        "Rectifier(softplus)",
        lambda f, k: gfy.Rectifier(WIDE_POSITIVE[k], activation="softplus"),
        _mixed(energies.softplus, WIDE_POSITIVE),
        FEATURES,
    ),
    EnergyEntry(
        "Maxout",
        lambda f, k: gfy.Maxout(),
        lambda: energies.Scores(lambda z: z.max(keepdims=True), energies.gap_to_second),
        FEATURES,
        k=1,
    ),
    EnergyEntry(
        "LogSumExp", lambda f, k: gfy.LogSumExp(0.5), lambda: energies.Scores(log_sum_exp), FEATURES, k=1
    ),
    EnergyEntry("Probabilistic", lambda f, k: gfy.Probabilistic(), lambda: energies.Scores(_same), SCORES),
    EnergyEntry(
        "Pairwise",
        lambda f, k: gfy.Pairwise(),
        energies.LowRank,
        {"u": (1, normal(0)), "A": (2, normal(0, RANK))},
    ),
    EnergyEntry(
        "Pairwise(rank 1)",
        lambda f, k: gfy.Pairwise(),
        energies.LowRank,
        {"u": (1, normal(0)), "A": (2, normal(0, 1))},
    ),
    EnergyEntry(
        "LinearQuadratic",
        lambda f, k: gfy.LinearQuadratic(),
        energies.Quadratic,
        {"u": (1, normal(0)), "U": (2, negative_definite)},
    ),
    EnergyEntry("Metric(inside)", lambda f, k: gfy.Metric(), energies.Euclidean, PLACE),
    EnergyEntry("Metric(outside)", lambda f, k: gfy.Metric(), energies.Euclidean, FAR),
    EnergyEntry("Metric(manhattan)", lambda f, k: gfy.Metric("manhattan"), energies.Manhattan, PLACE),
    EnergyEntry("ConcaveSpen(relu)", lambda f, k: gfy.ConcaveSpen(), lambda: energies.Prior("relu"), SPEN),
    EnergyEntry(
        "ConcaveSpen(softplus)",
        lambda f, k: gfy.ConcaveSpen("softplus"),
        lambda: energies.Prior("softplus"),
        SPEN,
    ),
    EnergyEntry(
        "InputConvexNetwork(relu)",
        lambda f, k: gfy.InputConvexNetwork("relu"),
        lambda: energies.ConvexNetwork("relu"),
        ICNN,
    ),
    EnergyEntry(
        "InputConvexNetwork(softplus)",
        lambda f, k: gfy.InputConvexNetwork(),
        lambda: energies.ConvexNetwork("softplus"),
        ICNN,
    ),
    EnergyEntry(
        "CustomEnergy(array)",
        lambda f, k: _handwritten(f, k, lambda v: (v, None, None)),
        energies.Handwritten,
        {"u": (1, normal(0))},
        pack=lambda leaves: leaves["u"],
        unpack=lambda tree: {"u": tree},
    ),
    EnergyEntry(
        "CustomEnergy(dict)",
        lambda f, k: _handwritten(f, k, lambda v: (v["u"], v["W"], v["b"])),
        energies.Handwritten,
        NET,
        pack=lambda leaves: dict(leaves),
        unpack=lambda tree: dict(tree),
    ),
    EnergyEntry(
        "CustomEnergy(nested)",
        lambda f, k: _handwritten(f, k, lambda v: (v["unary"], *v["net"])),
        energies.Handwritten,
        NET,
        pack=lambda leaves: {"unary": leaves["u"], "net": (leaves["W"], leaves["b"])},
        unpack=lambda tree: {"u": tree["unary"], "W": tree["net"][0], "b": tree["net"][1]},
    ),
    EnergyEntry(
        "LinearQuadratic(indefinite)",
        lambda f, k: gfy.LinearQuadratic(concave=False),
        lambda: energies.Quadratic(concave=False),
        {"u": (1, normal(0)), "U": (2, indefinite)},
    ),
    EnergyEntry("Spen(relu)", lambda f, k: gfy.Spen(), lambda: energies.Prior("relu", concave=False), SPEN),
    EnergyEntry(
        "Spen(softplus)",
        lambda f, k: gfy.Spen("softplus"),
        lambda: energies.Prior("softplus", concave=False),
        SPEN,
    ),
]


@dataclass(frozen=True)
class SetEntry:
    """A set of the library, its region, and how targets in it are drawn."""

    name: str
    make: Callable[[int], Any]
    region: Callable[[int], Region]
    target: Callable[[np.random.Generator, int], np.ndarray]
    k: int = K


def _low(k: int) -> np.ndarray:
    return coarse(np.linspace(0.0625, 0.25, k))


def _high(k: int) -> np.ndarray:
    return coarse(_low(k) + np.linspace(0.25, 0.625, k)[::-1])


def _points(k: int) -> np.ndarray:
    return coarse(np.random.default_rng(5).uniform(0.0625, 0.9375, size=(k + 3, k)))


def _structures(k: int) -> np.ndarray:
    """A few points with coordinates 1/8 and 7/8, among which the oracle chooses."""
    rows = np.random.default_rng(6).permutation(2**k)[: min(2 * k, 2**k)]
    return np.array([[0.875 if row >> j & 1 else 0.125 for j in range(k)] for row in rows])


@dataclass(frozen=True)
class BestStructure:
    """The oracle over a list of structures."""

    k: int

    def __call__(self, scores: np.ndarray) -> np.ndarray:
        table = _structures(self.k)
        return table[(scores @ table.T).argmax(-1)]


def _total(k: int, share: float) -> float:
    return share if k > 1 else share / 4


def _capped_target(share: float) -> Callable[[np.random.Generator, int], np.ndarray]:
    def draw(rng: np.random.Generator, k: int) -> np.ndarray:
        y = np.full(k, _total(k, share) / k)
        move = rng.uniform(-0.1, 0.1, size=k)
        return y + (move - move.mean()) * (k > 1)

    return draw


def _capped(k: int, share: float) -> Region:
    return Region(k, 0.0, 1.0, np.ones((1, k)), np.array([_total(k, share)]))


def _birkhoff(k: int) -> Region:
    n = int(round(k**0.5))
    rows = [np.kron(np.eye(n), np.ones(n)), np.kron(np.ones(n), np.eye(n))]
    return Region(k, 0.0, None, np.vstack(rows), np.ones(2 * n))


def _permutations(rng: np.random.Generator, k: int) -> np.ndarray:
    n = int(round(k**0.5))
    return np.mean([np.eye(n)[rng.permutation(n)].ravel() for _ in range(4)], axis=0) * 0.5 + 0.5 / n


def _hull(table: Callable[[int], np.ndarray]) -> Callable[[int], Region]:
    """The hull of the points; in one dimension an interval, so that no weights of points inside it are variables."""

    def region(k: int) -> Region:
        points = table(k)
        return Region(k, points=points) if k > 1 else Region(k, points.min(0), points.max(0))

    return region


def _mixture(table: Callable[[int], np.ndarray]) -> Callable[[np.random.Generator, int], np.ndarray]:
    return lambda rng, k: rng.dirichlet(np.ones(len(table(k)))) @ table(k)


SETS = [
    SetEntry("Reals", lambda k: gfy.Reals(), lambda k: Region(k), lambda rng, k: rng.normal(size=k)),
    SetEntry(
        "Box", lambda k: gfy.Box(0.0, 1.0), lambda k: Region(k, 0.0, 1.0), lambda rng, k: rng.uniform(size=k)
    ),
    SetEntry(
        "Box(coordinates)",
        lambda k: gfy.Box(_low(k), _high(k)),
        lambda k: Region(k, _low(k), _high(k)),
        lambda rng, k: _low(k) + (_high(k) - _low(k)) * rng.uniform(size=k),
    ),
    SetEntry(
        "Simplex",
        lambda k: gfy.Simplex(),
        lambda k: Region(k, 0.0, None, np.ones((1, k)), np.ones(1)),
        lambda rng, k: rng.dirichlet(np.ones(k)),
    ),
    SetEntry(
        "CappedSimplex(2)",
        lambda k: gfy.CappedSimplex(2 if k > 1 else 0.5),
        lambda k: _capped(k, 2.0),
        _capped_target(2.0),
    ),
    SetEntry(
        "CappedSimplex(1.5)",
        lambda k: gfy.CappedSimplex(_total(k, 1.5)),
        lambda k: _capped(k, 1.5),
        _capped_target(1.5),
    ),
    SetEntry(
        "Ball",
        lambda k: gfy.Ball(0.875),
        lambda k: Region(k, radius=0.875),
        lambda rng, k: 0.5 * (x := rng.normal(size=k)) / np.linalg.norm(x),
    ),
    SetEntry("Birkhoff", lambda k: gfy.Birkhoff(), _birkhoff, _permutations, k=SIDE**2),
    SetEntry(
        "ConvexHull",
        lambda k: gfy.ConvexHull(_points(k)),
        _hull(_points),
        _mixture(_points),
    ),
    SetEntry(
        "OracleHull",
        lambda k: gfy.OracleHull(BestStructure(k), k),
        _hull(_structures),
        _mixture(_structures),
    ),
]


@dataclass(frozen=True)
class OmegaEntry:
    """A regularizer of the library at a gamma, and its formula."""

    name: str
    make: Callable[[], Any]
    omega: Omega


REGULARIZERS = [
    OmegaEntry("SquaredNorm", lambda: gfy.SquaredNorm(1.0), Omega("norm")),
    OmegaEntry("Gini", lambda: gfy.Gini(1.0), Omega("gini")),
    OmegaEntry("BinaryGini", lambda: gfy.BinaryGini(1.0), Omega("binary-gini")),
    OmegaEntry("Shannon", lambda: gfy.Shannon(1.0), Omega("shannon")),
    OmegaEntry("BinaryShannon", lambda: gfy.BinaryShannon(1.0), Omega("binary-shannon")),
    OmegaEntry("Tsallis", lambda: gfy.Tsallis(1.5, 1.0), Omega("tsallis")),
    OmegaEntry("Zero", lambda: gfy.Zero(), Omega("zero")),
    OmegaEntry(
        "FDivergence(jensen-shannon)",
        lambda: gfy.FDivergence("jensen-shannon", prior=0.5),
        Omega("jensen-shannon", prior=0.5),
    ),
    OmegaEntry("SquaredNorm(0.375)", lambda: gfy.SquaredNorm(0.375), Omega("norm", 0.375)),
    OmegaEntry("Gini(0.375)", lambda: gfy.Gini(0.375), Omega("gini", 0.375)),
    OmegaEntry("BinaryGini(0.375)", lambda: gfy.BinaryGini(0.375), Omega("binary-gini", 0.375)),
    OmegaEntry("Shannon(0.375)", lambda: gfy.Shannon(0.375), Omega("shannon", 0.375)),
    OmegaEntry("BinaryShannon(0.375)", lambda: gfy.BinaryShannon(0.375), Omega("binary-shannon", 0.375)),
    OmegaEntry("Tsallis(1.75, 0.375)", lambda: gfy.Tsallis(1.75, 0.375), Omega("tsallis", 0.375, 1.75)),
    OmegaEntry(
        "FDivergence(reverse-kl, 0.375)",
        lambda: gfy.FDivergence("reverse-kl", prior=0.25, gamma=0.375),
        Omega("reverse-kl", 0.375, prior=0.25),
    ),
]

SOLVERS = {name: getattr(solvers, name) for name in solvers.__all__}


def installed(solver: str) -> bool:
    """Whether the library that a solver is an adapter of can be imported; the solver says so where it cannot."""
    energies_of = (gfy.Pairwise(), gfy.LinearQuadratic(), gfy.Bilinear())
    probes = (gfy.InnerProblem(energy, gfy.BinaryGini(), gfy.Box(0.0, 1.0)) for energy in energies_of)
    reasons = (SOLVERS[solver]().unsupported(problem) for problem in probes)
    return not any(reason and "not installed" in reason for reason in reasons)


MODES = {
    "envelope": gfy.Envelope(),
    "implicit": gfy.Implicit(),
    "unrolled": gfy.Unrolled(steps=80),
    "implicit-dense": gfy.Implicit("dense"),
    "implicit-cg": gfy.Implicit("cg"),
    "implicit-gmres": gfy.Implicit("gmres"),
    "implicit-neumann": gfy.Implicit("neumann"),
}
MAIN_MODES = ("envelope", "implicit", "unrolled")
DTYPES = ("float64", "float32", "float16", "bfloat16")
FRAMEWORKS = ("torch", "jax")

# the batch axes of the first leaf, and those of the others
LAYOUTS: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "one": ((), ()),
    "batch": ((3,), (3,)),
    "two axes": ((2, 3), (2, 3)),
    "shared rest": ((3,), ()),
    "shared first": ((), (3,)),
    "outer": ((2, 3), (3,)),
}
